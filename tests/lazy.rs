//! Lazy expressions. These tests count what the whole process compiles, so that
//! they run one at a time.

// A borrowed argument is kept and a moved one given up: the `&` matters.
#![allow(clippy::needless_borrows_for_generic_args)]

use std::sync::{Mutex, MutexGuard};

use kiln::cache::{self, Stats};
use kiln::prelude::*;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner())
}

/// How many programs `f` compiled, and how often it found one.
fn compiled_and_found(f: impl FnOnce()) -> (u64, u64) {
    let before = cache::stats();
    f();
    let Stats { hits, misses, .. } = cache::stats();
    (misses - before.misses, hits - before.hits)
}

#[test]
fn a_changing_number_compiles_once() {
    let _alone = alone();
    let x = Tensor::from([1.0f32, 2.0]);
    let counts = compiled_and_found(|| {
        for i in 0..1000 {
            let y = (&x * (i as f32) + 1.0).sum(..);
            assert_eq!(y.item::<f32>().unwrap(), 3.0 * i as f32 + 2.0);
        }
    });
    assert_eq!(counts, (1, 999));
}

#[test]
fn a_changing_index_compiles_once() {
    let _alone = alone();
    let x = Tensor::arange(4000, F32).reshape([1000, 4]).block_until_ready().unwrap().clone();
    let counts = compiled_and_found(|| {
        for i in 0..1000 {
            assert_eq!(x.get((i, 1)).item::<f32>().unwrap(), 4.0 * i as f32 + 1.0);
        }
    });
    assert_eq!(counts, (1, 999), "reads");
    let counts = compiled_and_found(|| {
        let mut y = x.clone();
        for i in 0..1000 {
            y = y.at((i, 2..4)).set(i as f32);
            y.block_until_ready().unwrap();
        }
        assert_eq!(y.get(-1).to_vec::<f32>().unwrap(), [3996.0, 3997.0, 999.0, 999.0]);
    });
    // And one for the last row.
    assert_eq!(counts, (2, 999), "updates");
    let counts = compiled_and_found(|| {
        for i in 0..100 {
            let rows = Tensor::from([i, 999 - i]);
            let sum = x.get((&rows, 3)).sum(..).item::<f32>().unwrap();
            assert_eq!(sum, 4.0 * 999.0 + 6.0);
            assert_eq!(x.get(i..i + 2).shape(), [2, 4]);
            let second = x.get(i..i + 2).get((1, 0)).item::<f32>().unwrap();
            assert_eq!(second, 4.0 * (i + 1) as f32);
        }
    });
    assert_eq!(counts, (2, 198), "index arrays beside numbers, and ranges");
}

#[test]
fn numbers_of_a_method_are_constants_and_numbers_of_the_user_are_not() {
    let _alone = alone();
    let x = Tensor::from([0.0f32]);
    let counts = compiled_and_found(|| {
        x.gelu().block_until_ready().unwrap();
        x.gelu().block_until_ready().unwrap();
        x.clip(-1.0, 1.0).block_until_ready().unwrap();
        x.clip(-2.0, 7.0).block_until_ready().unwrap();
    });
    assert_eq!(counts, (2, 2));
}

#[test]
fn nothing_is_computed_until_somebody_looks() {
    let _alone = alone();
    let counts = compiled_and_found(|| {
        let x = Tensor::from([1.0f32, 2.0]);
        let y = (x.exp() + 1.0).log();
        assert_eq!((y.shape(), y.dtype()), (&[2][..], F32));
        assert_eq!(format!("{y:?}"), "Lazy(f32[2])");
        drop(y);
    });
    assert_eq!(counts, (0, 0));
}

#[test]
fn a_part_that_is_held_is_computed_once() {
    let _alone = alone();
    let x = Tensor::from([1.0f32, 2.0]);
    let counts = compiled_and_found(|| {
        let part = (&x * 3.0).tanh();
        let (a, b) = (&part + 1.0, &part - 1.0);
        let clone = a.clone();
        a.block_until_ready().unwrap();
        assert_eq!(format!("{part:?}"), "Tensor(f32[2])", "kept beside the root");
        clone.block_until_ready().unwrap();
        part.block_until_ready().unwrap();
        b.block_until_ready().unwrap();
    });
    // One program for `a` and `part`, one for `b` from the value of `part`.
    assert_eq!(counts, (2, 0));
}

#[test]
fn views_and_filled_tensors_are_not_kept_for_their_own_sake() {
    let _alone = alone();
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let (view, zeros) = (x.t(), Tensor::zeros([2, 2], F32));
    (&view + &zeros).block_until_ready().unwrap();
    assert_eq!(format!("{view:?} {zeros:?}"), "Lazy(f32[2,2]) Lazy(f32[2,2])");
}

#[test]
fn sharing_is_part_of_the_key() {
    let _alone = alone();
    let x = Tensor::from([2.0f32]);
    let y = Tensor::from([5.0f32]);
    assert_eq!((&x * &x).item::<f32>().unwrap(), 4.0);
    assert_eq!((&x * &y).item::<f32>().unwrap(), 10.0);
    assert_eq!((&y * &x).item::<f32>().unwrap(), 10.0);
    assert_eq!((&y - &x).item::<f32>().unwrap(), 3.0);
}

#[test]
fn a_loop_that_never_looks_stays_bounded_and_compiles_one_chunk() {
    let _alone = alone();
    let (mut compiled, mut found) = (0, 0);
    let value = {
        let mut x = Tensor::from([0.0f32]);
        let counts = compiled_and_found(|| {
            for _ in 0..20_000 {
                x = &x + 1.0;
            }
        });
        (compiled, found) = (compiled + counts.0, found + counts.1);
        x.item::<f32>().unwrap()
    };
    assert_eq!(value, 20_000.0);
    assert_eq!(compiled, 1, "every chunk is the same program");
    assert!(found >= 5, "{found}");
}

/// Shared parts count once, so that doubling 200 times is 200 ops and not 2²⁰⁰. [K77]
#[test]
fn shared_parts_are_walked_once() {
    let _alone = alone();
    let counts = compiled_and_found(|| {
        let mut x = Tensor::from([1.0f64]);
        for _ in 0..200 {
            x = &x + &x;
        }
        let mut pair = (x.clone(), x);
        for _ in 0..100 {
            pair = (&pair.0 * 0.5 + &pair.1 * 0.5, &pair.0 - &pair.1 * 0.0);
        }
        assert_eq!(pair.0.item::<f64>().unwrap(), 2f64.powi(200));
    });
    assert!(counts.0 <= 2, "{counts:?}");
}

#[test]
fn two_threads_may_look_at_once() {
    let _alone = alone();
    let x = Tensor::from(vec![1.0f32; 1000]);
    let y = (&x + 1.0).sqrt();
    std::thread::scope(|s| {
        for _ in 0..4 {
            let y = &y;
            s.spawn(move || {
                let root = std::f32::consts::SQRT_2;
                assert!(y.to_vec::<f32>().unwrap().iter().all(|&v| (v - root).abs() < 1e-6));
            });
        }
    });
}

#[test]
fn many_expressions_are_computed_in_one_run_when_they_feed_a_call() {
    let _alone = alone();
    let f = jit(|a: Tensor, b: Tensor, c: Tensor| a + b + c);
    let x = Tensor::from([1.0f32]);
    f.call(&x, &x, &x).unwrap();
    let counts = compiled_and_found(|| {
        let y = f.call(&(&x * 2.0), &(&x * 3.0), &x.exp().log()).unwrap();
        assert!((y.item::<f32>().unwrap() - 6.0).abs() < 1e-6);
    });
    assert_eq!(counts, (1, 1), "one program for the three arguments, one call");
}

#[test]
fn display_prints_values() {
    let _alone = alone();
    let x = Tensor::from([[1.0f32, 2.5], [-3.0, 4.0]]);
    assert_eq!(format!("{}", &x * 2), "[[2.0, 5.0],\n [-6.0, 8.0]]");
    assert_eq!(format!("{}", Tensor::from(3i32)), "3");
    assert_eq!(format!("{}", Tensor::zeros([0, 3], F32)), "[]");
    let long = Tensor::arange(2000, I32).to_string();
    assert_eq!(long, "[0, 1, 2, …, 1997, 1998, 1999]");
}
