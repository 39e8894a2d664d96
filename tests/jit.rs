//! Jitted functions: how they are fed, what they cache, what they leave alone.

// A borrowed argument is kept and a moved one given up: the `&` matters.
#![allow(clippy::needless_borrows_for_generic_args)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, LazyLock};

use kiln::prelude::*;

fn vec(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}

#[test]
fn zero_to_eight_arguments() {
    let zero = jit(|| Tensor::ones([2], F32));
    assert_eq!(vec(&zero.call().unwrap()), [1.0, 1.0]);
    let one = jit(|a: Tensor| a + 1.0);
    assert_eq!(vec(&one.call(1.0).unwrap()), [2.0]);
    let eight = jit!(|a, b, c, d, e, f, g, h| a + b + c + d + e + f + g + h);
    let sum = eight.call(1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0).unwrap();
    assert_eq!(vec(&sum), [255.0]);
    let nothing = jit(|_: Tensor| ());
    nothing.call(1.0).unwrap();
}

#[test]
fn the_macro_gives_types_and_names() {
    let scale = 3;
    let f = jit!(move |x, n: Static<i32>| -> kiln::Result<Tensor> { Ok(x * (*n * scale)) });
    assert_eq!(vec(&f.call([1.0f32], Static(2)).unwrap()), [6.0]);
    let explained = f.explain();
    assert!(explained.contains("x: f32[1]") && explained.contains("n: 2"), "{explained}");
}

struct Trainer {
    step: Jit<(Tensor, Tensor), (Tensor, Tensor)>,
}

static DOUBLE: LazyLock<Jit<(Tensor,), Tensor>> = LazyLock::new(|| jit(|x: Tensor| x * 2.0));

#[test]
fn the_type_can_be_named() {
    let trainer = Trainer { step: jit(|w: Tensor, x: Tensor| (&w + &x, w * x)) };
    let (w, y) = trainer.step.call([1.0f32], [2.0f32]).unwrap();
    assert_eq!((vec(&w), vec(&y)), (vec![3.0], vec![2.0]));
    assert_eq!(vec(&DOUBLE.call(4.0).unwrap()), [8.0]);
}

#[test]
fn a_tensor_parameter_takes_tensors_numbers_and_host_arrays() {
    let f = jit(|x: Tensor| x.astype(F64).sum(..));
    let sum = |t: Tensor| t.item::<f64>().unwrap();
    let t = Tensor::from([1.0f32, 2.0]);
    assert_eq!(sum(f.call(&t).unwrap()), 3.0);
    assert_eq!(sum(f.call(t).unwrap()), 3.0);
    assert_eq!(sum(f.call(0.5).unwrap()), 0.5);
    assert_eq!(sum(f.call(7).unwrap()), 7.0);
    assert_eq!(sum(f.call(7u8).unwrap()), 7.0);
    assert_eq!(sum(f.call(vec![1.0f64, 2.0]).unwrap()), 3.0);
    assert_eq!(sum(f.call(&[1i64, 2][..]).unwrap()), 3.0);
    assert_eq!(sum(f.call([[1u16, 2], [3, 4]]).unwrap()), 10.0);
    assert_eq!(sum(f.call(Tensor::from([1.0f32]) + 1.0).unwrap()), 2.0);
}

#[test]
fn a_program_is_compiled_once_for_its_types() {
    let traces = Arc::new(AtomicUsize::new(0));
    let seen = traces.clone();
    let f = jit(move |x: Tensor, lr: Tensor| {
        seen.fetch_add(1, Ordering::Relaxed);
        x * lr
    });
    let x = Tensor::ones([4], F32);
    for i in 0..1000 {
        let y = f.call(&x, i as f32).unwrap();
        assert_eq!(vec(&y), [i as f32; 4]);
    }
    assert_eq!((traces.load(Ordering::Relaxed), f.compile_count()), (1, 1));
    f.call(Tensor::ones([5], F32), 1.0).unwrap();
    assert_eq!(traces.load(Ordering::Relaxed), 2);
}

/// A counter that is a host integer and goes through the function compiles once
/// for its number form and once for its tensor form. [K78]
#[test]
fn a_fed_back_scalar_does_not_recompile() {
    let f = jit(|x: Tensor, i: Tensor| x + i);
    let mut x = Tensor::from(0i32);
    for i in 0..10 {
        x = f.call(&x, i).unwrap();
    }
    assert_eq!(x.item::<i32>().unwrap(), 45);
    assert_eq!(f.compile_count(), 1);
}

#[test]
fn moving_and_borrowing_are_two_programs() {
    let f = jit(|x: Tensor| x + 1.0);
    let x = Tensor::from([1.0f32]);
    assert_eq!(vec(&f.call(&x).unwrap()), [2.0]);
    assert_eq!(vec(&f.call(x.clone()).unwrap()), [2.0]);
    assert_eq!(vec(&x), [1.0], "a moved handle that is shared leaves the others alone");
    assert_eq!(f.compile_count(), 2);
    assert_eq!(vec(&f.call(x).unwrap()), [2.0]);
}

#[test]
fn one_tensor_as_two_arguments() {
    let f = jit(|a: Tensor, b: Tensor| (&a + &b, a * b));
    let x = Tensor::from([3.0f32]);
    let (sum, product) = f.call(x.clone(), x).unwrap();
    assert_eq!((vec(&sum), vec(&product)), (vec![6.0], vec![9.0]));
}

#[test]
fn update_replaces_the_state() {
    let step = jit(|state: (Tensor, Vec<Tensor>), x: Tensor| {
        let (a, rest) = state;
        let loss = (&a * &x).sum(..);
        ((a + &x, rest.into_iter().map(|r| r * 2.0).collect()), loss)
    });
    let mut state = (Tensor::zeros([2], F32), vec![Tensor::ones([1], F32); 3]);
    for _ in 0..3 {
        step.update(&mut state, [1.0f32, 2.0]).unwrap();
    }
    assert_eq!(vec(&state.0), [3.0, 6.0]);
    assert!(state.1.iter().all(|r| vec(r) == [8.0]));
    // The first state shares handles and is lazy; the second is neither.
    assert_eq!(step.compile_count(), 1);
}

#[test]
fn update_may_change_the_structure_of_the_state() {
    let grow = jit(|mut list: Vec<Tensor>| {
        let sum = list.iter().skip(1).fold(list[0].clone(), |acc, t| acc + t);
        list.push(sum);
        (list, ())
    });
    let mut list = vec![Tensor::from([1.0f32])];
    for _ in 0..4 {
        grow.update(&mut list).unwrap();
    }
    let values: Vec<f32> = list.iter().map(|t| vec(t)[0]).collect();
    assert_eq!(values, [1.0, 1.0, 2.0, 4.0, 8.0]);
}

#[test]
fn update_leaves_the_state_alone_on_every_error() {
    let step = jit(|w: Tensor, x: Tensor| (&w + &x, w));
    let mut w = Tensor::from([1.0f32, 2.0]);
    // Mistakes in tracing; arguments without a value.
    assert!(step.update(&mut w, Tensor::ones([3], F32)).is_err());
    assert!(step.update(&mut w, Tensor::from([1i32])).is_err());
    assert!(step.update(&mut w, Tensor::ones([4], F32).reshape([3])).is_err());
    assert!(step.update(&mut w, Tensor::spec([2], F32)).is_err());
    assert_eq!(vec(&w), [1.0, 2.0]);
    step.update(&mut w, 1.0).unwrap();
    assert_eq!(vec(&w), [2.0, 3.0]);
    // A lazy state comes back with the same value.
    let mut lazy = &w * 2.0;
    assert!(step.update(&mut lazy, Tensor::spec([2], F32)).is_err());
    assert_eq!(vec(&lazy), [4.0, 6.0]);
}

#[test]
fn statics_are_part_of_the_key() {
    let traces = Arc::new(AtomicUsize::new(0));
    let seen = traces.clone();
    let f = jit(move |x: Tensor, n: Static<usize>, mode: Static<&'static str>| {
        seen.fetch_add(1, Ordering::Relaxed);
        if *mode == "repeat" { x.broadcast_to([*n]) } else { x }
    });
    assert_eq!(vec(&f.call(1.0, Static(3), Static("repeat")).unwrap()), [1.0; 3]);
    assert_eq!(vec(&f.call(2.0, Static(3), Static("repeat")).unwrap()), [2.0; 3]);
    assert_eq!(vec(&f.call(2.0, Static(2), Static("repeat")).unwrap()), [2.0; 2]);
    assert_eq!(vec(&f.call(2.0, Static(2), Static("keep")).unwrap()), [2.0]);
    assert_eq!(traces.load(Ordering::Relaxed), 3);
}

/// A failed trace leaves nothing behind. [K79]
#[test]
fn a_failed_trace_is_tried_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let f = jit(move |x: Tensor| -> Result<Tensor, String> {
        match count.fetch_add(1, Ordering::Relaxed) {
            n @ 0..2 => Err(format!("attempt {n}")),
            _ => Ok(x * 3.0),
        }
    });
    assert_eq!(f.call([1.0f32]).unwrap_err().message(), "attempt 0");
    assert_eq!(f.call([1.0f32]).unwrap_err().message(), "attempt 1");
    assert_eq!(f.compile_count(), 0);
    assert_eq!(vec(&f.call([1.0f32]).unwrap()), [3.0]);
    let panics = jit(|x: Tensor| -> Tensor { std::panic::resume_unwind(Box::new(x.is_traced())) });
    for _ in 0..2 {
        let call = std::panic::AssertUnwindSafe(|| panics.call([1.0f32]));
        assert!(std::panic::catch_unwind(call).is_err());
    }
}

/// Functions without outputs do not mix with others. [K82]
#[test]
fn functions_without_outputs() {
    let a = Arc::new(jit(|_: Tensor| ()));
    let inner = a.clone();
    let b = jit(move |x: Tensor| inner.call(&x));
    let g = jit(|x: Tensor| (x.clone(), x));
    b.call(8).unwrap();
    a.call(8).unwrap();
    let (x, y) = g.call(8).unwrap();
    assert_eq!((x.item::<i32>().unwrap(), y.item::<i32>().unwrap()), (8, 8));
}

#[test]
fn first_calls_at_once_compile_once() {
    let traces = Arc::new(AtomicUsize::new(0));
    let seen = traces.clone();
    let f = jit(move |x: Tensor| {
        seen.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(20));
        x + 1.0
    });
    let barrier = Barrier::new(4);
    std::thread::scope(|s| {
        for i in 0..4 {
            let (f, barrier) = (&f, &barrier);
            s.spawn(move || {
                barrier.wait();
                assert_eq!(vec(&f.call([i as f32]).unwrap()), [i as f32 + 1.0]);
            });
        }
    });
    assert_eq!(traces.load(Ordering::Relaxed), 1);
}

#[test]
fn results_that_are_arguments_constants_or_captures() {
    let captured = Tensor::from([5.0f32]);
    let kept = captured.clone();
    let f = jit(move |x: Tensor| (x.clone(), x, kept.clone(), Tensor::from(7.0f32)));
    let x = Tensor::from([1.0f32]);
    let (a, b, c, d) = f.call(&x).unwrap();
    assert_eq!([vec(&a), vec(&b), vec(&c), vec(&d)], [[1.0], [1.0], [5.0], [7.0]]);
    drop((x, captured));
    assert_eq!(vec(&c), [5.0]);
}

#[test]
fn ahead_of_time() {
    let f = jit!(|x, w| x.dot(&w));
    let (x, w) = (Tensor::spec([2, 3], F32), Tensor::spec([3, 4], F32));
    let lowered = f.lower(&x, &w).unwrap();
    assert!(lowered.text().contains("dot_general"), "{}", lowered.text());
    assert_eq!(f.compile_count(), 0);
    let program = f.compile(&x, &w).unwrap();
    assert!(program.peak_bytes() >= 4 * (2 * 3 + 3 * 4 + 2 * 4));
    let (a, b) = (Tensor::ones([2, 3], F32), Tensor::ones([3, 4], F32));
    f.call(&a, &b).unwrap();
    assert_eq!(f.compile_count(), 1, "the call found what was compiled");
    assert!(f.call(&x, &b).unwrap_err().message().contains("spec"));
    assert!((&x + 1.0).error().is_some());
    let mistake = Tensor::spec([usize::MAX, 3], F32);
    let error = f.lower(&mistake, &w).unwrap_err();
    assert_eq!(
        (error.op(), f.compile(&mistake, &w).unwrap_err().op()),
        (Some("spec"), Some("spec"))
    );
}

#[test]
fn explain_and_dump() {
    let f = jit!(|x| x.exp());
    assert_eq!(f.explain(), "explain_and_dump: not called yet\n");
    assert!(f.dump(kiln::Stage::Graph).is_err());
    f.call([1.0f32]).unwrap();
    let explained = f.explain();
    assert!(explained.contains("memory: peak 8 B"), "{explained}");
    assert!(f.dump(kiln::Stage::Graph).unwrap().contains("exp"));
}
