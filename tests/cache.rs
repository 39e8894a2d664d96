//! The compile cache. These tests change what the whole process keeps, so that
//! they run one at a time.

// A borrowed argument is kept and a moved one given up: the `&` matters.
#![allow(clippy::needless_borrows_for_generic_args)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use kiln::cache;
use kiln::prelude::*;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    cache::set_capacity(1000);
    cache::clear();
    guard
}

#[test]
fn the_longest_unused_program_goes_first() {
    let _alone = alone();
    cache::set_capacity(3);
    let f = jit(|x: Tensor| x + 1.0);
    let call = |n: usize| f.call(&Tensor::spec([n], F32)).map(drop).unwrap_err();
    // A spec compiles and then has no value: the entry is what counts here.
    for n in [1, 2, 3] {
        call(n);
    }
    call(1);
    let evictions = cache::stats().evictions;
    call(4);
    let held: Vec<String> = cache::entries().iter().map(|e| e.arguments[0].1.clone()).collect();
    assert_eq!(held, ["f32[3]", "f32[1]", "f32[4]"]);
    assert_eq!(cache::stats().evictions, evictions + 1);
    assert_eq!(f.compile_count(), 3, "the function's own table is bounded with it");
    call(2);
    assert_eq!(f.compile_count(), 3);
}

#[test]
fn entries_say_where_from_how_long_and_why() {
    let _alone = alone();
    let here = line!() + 1;
    let f = jit!(|x, n: Static<i32>| x * *n);
    f.call([1.0f32, 2.0], Static(1)).unwrap();
    f.call([1.0f32, 2.0], Static(1)).unwrap();
    f.call([1.0f32, 2.0], Static(2)).unwrap();
    let entries = cache::entries();
    let [first, second] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!(first.function, "entries_say_where_from_how_long_and_why");
    let source = first.source.as_ref().unwrap();
    assert_eq!((source.file.ends_with("tests/cache.rs"), source.line), (true, here));
    assert_eq!(first.arguments[0], ("x".into(), "f32[2]".into()));
    assert_eq!(first.hits, 1);
    assert_eq!(first.phases[0].0, "trace");
    assert!(first.peak_bytes >= 16);
    assert_eq!(first.why, "first call");
    assert_eq!(second.why, "n is 2, was 1");
    assert_ne!(first.key, second.key);
    let report = cache::report();
    for part in ["2 of 1000 programs", "x: f32[2], n: 1", "missed because  n is 2, was 1"] {
        assert!(report.contains(part), "{report}");
    }
}

#[test]
fn the_reason_names_what_differs_from_the_nearest() {
    let _alone = alone();
    let f = jit!(|x, y| x + y);
    let spec = |n: usize, dtype| Tensor::spec([n], dtype);
    f.compile(&spec(4, F32), &spec(4, F32)).unwrap();
    f.compile(&spec(8, F32), &spec(8, F32)).unwrap();
    assert_eq!(f.why().unwrap(), "x is f32[8], was f32[4]; y is f32[8], was f32[4]");
    f.compile(&spec(8, F32), &spec(1, F32)).unwrap();
    assert_eq!(f.why().unwrap(), "y is f32[1], was f32[8]");
    f.compile(spec(8, F32), &spec(1, F32)).unwrap();
    assert_eq!(f.why().unwrap(), "x is f32[8] moved, was f32[8]");
}

#[test]
fn programs_go_with_their_function() {
    let _alone = alone();
    let f = jit(|x: Tensor| x + 1.0);
    f.call(1.0).unwrap();
    assert_eq!(cache::stats().entries, 1);
    drop(f);
    assert_eq!(cache::stats().entries, 0);
}

#[test]
fn clear_drops_everything_and_calls_compile_again() {
    let _alone = alone();
    let f = jit(|x: Tensor| x + 1.0);
    f.call(1.0).unwrap();
    cache::clear();
    assert_eq!((cache::stats().entries, f.compile_count()), (0, 0));
    assert_eq!(f.call(1.0).unwrap().item::<f32>().unwrap(), 2.0);
    assert_eq!(f.compile_count(), 1);
}

/// A failure leaves no entry behind. [K79]
#[test]
fn failures_are_not_kept() {
    let _alone = alone();
    let f = jit(|x: Tensor| x.reshape([7]));
    for _ in 0..3 {
        assert!(f.call([1.0f32]).is_err());
    }
    assert_eq!(cache::stats().entries, 0);
}

/// Two closures of one type with different captures are two functions.
#[test]
fn the_function_is_part_of_the_key() {
    let _alone = alone();
    let scaled = |s: f32| jit(move |x: Tensor| x * s);
    let (double, triple) = (scaled(2.0), scaled(3.0));
    assert_eq!(double.call(1.0).unwrap().item::<f32>().unwrap(), 2.0);
    assert_eq!(triple.call(1.0).unwrap().item::<f32>().unwrap(), 3.0);
}

/// A cache that is cleared and bounded while it is used costs time, never a
/// result. [C12]
#[test]
fn the_cache_may_be_cleared_at_any_time() {
    let _alone = alone();
    let f = jit(|x: Tensor, n: Static<u32>| x.powi(*n as i32));
    let done = AtomicUsize::new(0);
    std::thread::scope(|s| {
        for thread in 0..4u32 {
            let (f, done) = (&f, &done);
            s.spawn(move || {
                for i in 0..50 {
                    let n = (thread + i) % 7;
                    let y = f.call([2.0f32], Static(n)).unwrap();
                    assert_eq!(y.item::<f32>().unwrap(), 2f32.powi(n as i32));
                }
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        s.spawn(|| {
            while done.load(Ordering::Relaxed) < 4 {
                cache::clear();
                cache::set_capacity(3);
                std::thread::yield_now();
            }
        });
    });
}

/// Executables do not outlive their function. [K84]
#[test]
fn many_functions_with_large_constants_leave_nothing() {
    let _alone = alone();
    let mut after_warm_up = 0;
    for i in 0..150 {
        let weights: Vec<f32> = (0..1 << 18).map(|k| (k % 7 + i) as f32).collect();
        let f = jit(move |x: Tensor| (Tensor::from(&weights[..]) * x).get(5));
        assert_eq!(f.call(2.0).unwrap().item::<f32>().unwrap(), (5 + i) as f32 * 2.0);
        if i == 50 {
            after_warm_up = resident_bytes();
        }
    }
    let growth = resident_bytes().saturating_sub(after_warm_up);
    assert!(growth < 20 << 20, "{growth} bytes");
}

fn resident_bytes() -> usize {
    let Ok(status) = std::fs::read_to_string("/proc/self/statm") else { return 0 };
    status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}
