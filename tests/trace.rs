//! Tracing: mistakes become one error at the user's line, and nothing panics.

// A borrowed argument is kept and a moved one given up: the `&` matters.
#![allow(clippy::needless_borrows_for_generic_args)]

use std::sync::Mutex;

use kiln::prelude::*;
use kiln::{Error, ErrorKind};

/// The line of an error, which must lie in this file.
fn line(error: &Error) -> u32 {
    let source = error.location().unwrap_or_else(|| panic!("no line in: {error}"));
    assert!(source.file.ends_with("tests/trace.rs"), "{error}");
    source.line
}

fn x(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, F32)
}

#[test]
fn a_shape_mistake_names_op_types_and_lines() {
    let here = line!();
    let f = jit(|a: Tensor, b: Tensor| {
        let a = a.exp();
        let b = b.tanh();
        let sum = &a + &b;
        sum * 2.0
    });
    let error = f.call(x(&[4, 8]), x(&[3])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::User);
    assert_eq!(error.op(), Some("add"));
    assert_eq!(error.message(), "shapes do not broadcast: lhs f32[4,8], rhs f32[3]");
    assert_eq!(line(&error), here + 4);
    let origins: Vec<(String, u32)> =
        error.origins().map(|(label, s)| (label.to_string(), s.line)).collect();
    let expected = [("lhs f32[4,8]", 2), ("rhs f32[3]", 3), ("called", 7)];
    assert_eq!(origins, expected.map(|(label, offset)| (label.to_string(), here + offset)));
    let text = error.to_string();
    assert!(text.starts_with("add: shapes do not broadcast"), "{text}");
    let arrow = text.lines().nth(1).unwrap();
    assert!(arrow.starts_with("  --> "), "{text}");
    assert!(arrow.ends_with(&format!("tests/trace.rs:{}", here + 4)), "{text}");
}

#[test]
fn element_types_are_never_promoted() {
    let f = jit(|a: Tensor, b: Tensor| a * b);
    let error = f.call([1.0f32], [1i32]).unwrap_err();
    assert!(error.message().starts_with("element types differ: lhs f32[1], rhs i32[1]"), "{error}");
}

#[test]
fn a_contraction_names_axes_and_lengths() {
    let f = jit!(|a, b| a.dot(&b));
    let error = f.call(x(&[4, 8]), x(&[7, 3])).unwrap_err();
    let notes: Vec<&str> = error.notes().collect();
    assert_eq!(notes, ["lhs f32[4,8] is the argument `a`", "rhs f32[7,3] is the argument `b`"]);
    assert_eq!(
        error.to_string().lines().next(),
        Some(
            "dot: contracted axes differ in length: lhs f32[4,8] axis 1 is 8, rhs f32[7,3] axis 0 is 7"
        )
    );
}

#[test]
fn the_first_mistake_is_the_one_reported() {
    let here = line!();
    let f = jit(|a: Tensor| {
        let first = a.reshape([5]);
        let second = a.reshape([6]);
        first + second.sum(7)
    });
    let error = f.call(x(&[4])).unwrap_err();
    assert_eq!(line(&error), here + 2);
    assert_eq!(error.message(), "f32[4] does not reshape to [5]");
}

/// The places where `#[track_caller]` reaches, and what stands in where it does not.
#[test]
fn every_form_of_call_reports_a_line_of_the_user() {
    let wrong = x(&[3]);
    let here = line!();
    let operator = (&x(&[2]) + &wrong).error().map(line);
    assert_eq!(operator, Some(here + 1));
    let mut sum = x(&[2]);
    sum += &wrong;
    assert_eq!(sum.error().map(line), Some(here + 4));
    let folded = [&wrong].into_iter().fold(x(&[2]), |acc, w| acc + w);
    assert_eq!(folded.error().map(line), Some(here + 6));
    let composed = x(&[2]).softmax(3);
    assert_eq!(composed.error().map(line), Some(here + 8));
    let f =
        jit(|a: Tensor| kiln::named_scope("block", || [a].iter().map(Tensor::t).next().unwrap()));
    f.call(x(&[2])).unwrap();
    // A method passed by name has no line of its own: the scope's stands in.
    let here = line!();
    let g = jit(|a: Tensor, b: Tensor| {
        kiln::named_scope("residual", || [&b].into_iter().fold(a, std::ops::Add::add))
    });
    let error = g.call(x(&[2]), x(&[3])).unwrap_err();
    assert_eq!(line(&error), here + 2);
    assert_eq!(error.location().unwrap().scope.as_deref(), Some("residual"));
}

#[test]
fn asking_a_poisoned_tensor_for_its_shape_ends_the_trace_silently() {
    static HOOKS: Mutex<u32> = Mutex::new(0);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| *HOOKS.lock().unwrap() += 1));
    let f = jit(|a: Tensor| {
        let mut bad = a.reshape([5]);
        // With a made-up shape this would index out of bounds, or never end.
        while bad.dim(0) > 1 {
            bad = bad.get(0..bad.shape()[0] / 2);
        }
        bad
    });
    let error = f.call(x(&[4])).unwrap_err();
    std::panic::set_hook(before);
    assert_eq!(error.message(), "f32[4] does not reshape to [5]");
    assert_eq!(*HOOKS.lock().unwrap(), 0);
}

#[test]
fn a_poisoned_tensor_outside_a_trace_says_so() {
    let bad = x(&[4]).reshape([5]);
    assert!(bad.try_ty().is_err() && bad.to_vec::<f32>().is_err());
    let also = (&bad + 1.0).exp().sum(..);
    assert!(also.error().unwrap().same(bad.error().unwrap()), "one mistake, one error");
    assert!(also.block_until_ready().is_err());
    assert!(format!("{also}").contains("does not reshape"));
}

#[test]
fn a_panic_goes_on_unless_a_mistake_explains_it() {
    let f = jit(|a: Tensor| -> Tensor {
        let _ = a.reshape([5]);
        std::panic::resume_unwind(Box::new("index out of bounds"));
    });
    assert!(f.call(x(&[4])).unwrap_err().message().contains("does not reshape"));
    let g = jit(|_: Tensor| -> Tensor { std::panic::resume_unwind(Box::new(7)) });
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| g.call(x(&[4]))));
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&7));
    // The trace is closed: work outside goes on.
    assert_eq!((x(&[2]) + 1.0).to_vec::<f32>().unwrap(), [1.0, 1.0]);
}

#[test]
fn the_functions_own_error_is_returned() {
    let f = jit(|a: Tensor| -> Result<Tensor, std::num::ParseIntError> {
        let n: usize = "seven".parse()?;
        Ok(a.get(0..n))
    });
    let error = f.call(x(&[9])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::User);
    assert!(error.message().contains("invalid digit"), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn looking_at_a_traced_value_is_an_error() {
    let here = line!();
    let f = jit(|a: Tensor| -> kiln::Result<Tensor> {
        let first: f32 = a.get(0).item()?;
        Ok(a * first)
    });
    let error = f.call(x(&[4])).unwrap_err();
    assert_eq!(line(&error), here + 2);
    assert!(error.message().contains("not known while tracing"), "{error}");
}

#[test]
fn a_traced_tensor_that_leaks_is_recognised() {
    static LEAK: Mutex<Option<Tensor>> = Mutex::new(None);
    let f = jit(|a: Tensor| {
        *LEAK.lock().unwrap() = Some(a.clone());
        a
    });
    f.call(x(&[4])).unwrap();
    let leaked = LEAK.lock().unwrap().clone().unwrap();
    // Outside a trace, in another trace, as an argument, and looked at.
    assert!((&leaked + 1.0).error().unwrap().message().contains("outside the closure"));
    let other = leaked.clone();
    let g = jit(move |a: Tensor| a + &other);
    assert!(g.call(x(&[4])).unwrap_err().message().contains("outside the closure"));
    let identity = jit(|a: Tensor| a);
    assert!(identity.call(&leaked).unwrap_err().message().contains("outlived"));
    assert!(leaked.to_vec::<f32>().is_err());
}

#[test]
fn a_traced_tensor_on_another_thread_is_recognised() {
    let f = jit(|a: Tensor| {
        let moved = a.clone();
        std::thread::spawn(move || moved + 1.0).join().unwrap()
    });
    let error = f.call(x(&[4])).unwrap_err();
    assert!(error.message().contains("on another thread"), "{error}");
}

#[test]
fn numbers_adopt_the_tensors_type_or_are_refused() {
    assert_eq!((Tensor::from([1i32, 2]) * 3).to_vec::<i32>().unwrap(), [3, 6]);
    assert_eq!((Tensor::from([1u8]) + 254).to_vec::<u8>().unwrap(), [255]);
    assert_eq!((Tensor::from([2.0f64]) * 0.5f32).to_vec::<f64>().unwrap(), [1.0]);
    assert_eq!((1.0 - Tensor::from([0.25f32])).to_vec::<f32>().unwrap(), [0.75]);
    assert_eq!((10 - Tensor::from([4i64])).to_vec::<i64>().unwrap(), [6]);
    for bad in [
        Tensor::from([1u8]) + 255 + 300,
        Tensor::from([1i32]) * 0.5,
        Tensor::from([true]) & 1,
        Tensor::from([1.0f32]) + true,
    ] {
        assert!(bad.error().unwrap().message().contains("cannot be a"), "{bad:?}");
    }
}

#[test]
fn a_call_inside_a_trace_is_part_of_it() {
    let inner = std::sync::Arc::new(jit(|a: Tensor, b: Tensor| a * b + 1.0));
    let used = inner.clone();
    let outer = jit(move |a: Tensor| used.call(&a, 3.0));
    assert_eq!(outer.call([2.0f32]).unwrap().to_vec::<f32>().unwrap(), [7.0]);
    assert_eq!(inner.compile_count(), 0, "the inner call compiled nothing of its own");
}

#[test]
fn captured_tensors_become_one_hidden_parameter_each() {
    let w = Tensor::from([1.0f32, 2.0]);
    let lazy = &w * 10.0;
    let (captured, also) = (w.clone(), w.clone());
    let f = jit(move |a: Tensor| a * &captured + &also + &lazy);
    assert_eq!(f.call([1.0f32, 1.0]).unwrap().to_vec::<f32>().unwrap(), [12.0, 24.0]);
    let explained = f.explain();
    assert_eq!(explained.matches("a hidden parameter").count(), 2, "{explained}");
    assert!(explained.contains("captured: captured0: f32[2]"), "{explained}");
}

#[test]
fn captured_host_data_is_a_constant_that_is_listed() {
    let f = jit(|a: Tensor| a + Tensor::from([1.0f32, 2.0, 3.0]));
    assert_eq!(f.call(0.5).unwrap().to_vec::<f32>().unwrap(), [1.5, 2.5, 3.5]);
    let explained = f.explain();
    assert!(explained.contains("captured: f32[3], 12 B of host data at "), "{explained}");
    let large = jit(|a: Tensor| a + Tensor::from(vec![0.0f32; 1 << 18]));
    large.call(0.5).unwrap();
    assert!(large.explain().contains("warning: large"), "{}", large.explain());
}

#[test]
fn endless_recursion_is_an_error() {
    static COUNTDOWN: std::sync::LazyLock<Jit<(Tensor,), Tensor>> =
        std::sync::LazyLock::new(|| jit(|x: Tensor| COUNTDOWN.call(x - 1.0)));
    let error = COUNTDOWN.call([3.0f32]).unwrap_err();
    assert!(error.message().contains("is there an end to it?"), "{error}");
}
