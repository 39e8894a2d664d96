//! A compiled call in the steady state makes no heap allocation and no transfer,
//! and the pool stops growing. One test, since the counters are the process's.

// A borrowed argument is kept and a moved one given up: the `&` matters.
#![allow(clippy::needless_borrows_for_generic_args)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use kiln::prelude::*;
use kiln::{memory_stats, transfers};

/// The system's allocator, counted.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: passes every call on to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as promised to us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as promised to us.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as promised to us.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Tree)]
struct State {
    layers: Vec<(Tensor, Option<Tensor>)>,
    #[tree(static)]
    decay: f32,
}

/// How many allocations `f` makes once it has been called often enough to have all
/// its memory, and how much the pool grows.
fn steady(mut f: impl FnMut()) -> (u64, u64) {
    (0..100).for_each(|_| f());
    let (before, peak) = (ALLOCATIONS.load(Ordering::Relaxed), memory_stats().unwrap().peak);
    (0..1000).for_each(|_| f());
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    (allocations, memory_stats().unwrap().peak - peak)
}

#[test]
fn the_steady_state_allocates_nothing() {
    let layers = (0..20).map(|_| (Tensor::ones([64], F32), Some(Tensor::zeros([64], F32))));
    let state = State { layers: layers.collect(), decay: 0.5 };
    let mut state = device_put(state).unwrap();
    let x = device_put(Tensor::ones([64], F32)).unwrap();
    let update = jit(|s: State, x: Tensor, rate: Tensor| {
        let decay = s.decay;
        let new = s.map(&mut |leaf| leaf * decay + &rate * &x);
        (new, x.sum(..))
    });
    let moved = transfers();
    let counts = steady(|| drop(update.update(&mut state, &x, 0.25).unwrap()));
    assert_eq!(counts, (0, 0), "an update of forty leaves");
    assert_eq!(state.layers[7].1.as_ref().unwrap().to_vec::<f32>().unwrap()[0], 0.5);

    let call = jit(|x: Tensor, y: Tensor| (x.exp() + y, x));
    let counts = steady(|| drop(call.call(&x, 1.0).unwrap()));
    assert_eq!(counts, (0, 0), "a call with two outputs");
    let mut moved_through = device_put(Tensor::ones([64], F32)).unwrap();
    let step = jit(|x: Tensor| x * 0.5);
    let counts = steady(|| moved_through = step.call(std::mem::take(&mut moved_through)).unwrap());
    assert_eq!(counts, (0, 0), "a moved argument");
    let after = transfers();
    assert_eq!(after.host_to_device, moved.host_to_device);
    assert_eq!(after.implicit_host_to_device, moved.implicit_host_to_device);
    assert_eq!(after.device_to_host.count, moved.device_to_host.count + 1);
}
