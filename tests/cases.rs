//! Small programs that compilers of this kind have got wrong, through the façade. (Those of
//! single ops and of the pipeline are files, in `tests/files/cases`.)

use kiln::prelude::*;
use kiln::{jvp, vmap};

fn close(a: &Tensor, b: &[f32], tolerance: f32) {
    let a = a.to_vec::<f32>().unwrap();
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        let far = (a - b).abs() > tolerance * (1.0 + a.abs().max(b.abs()));
        assert!(!far, "element {i}: {a} instead of {b}");
    }
}

/// [K25] Division by a constant is multiplication by a magic number in machine code.
#[test]
fn division_by_a_constant_is_division() {
    let x: Vec<u8> = (0..=255).collect();
    let xs = Tensor::from(x.clone());
    for d in 1..=255u8 {
        let quotient = (&xs / Tensor::full([256], d, U8)).to_vec::<u8>().unwrap();
        assert!(x.iter().zip(quotient).all(|(x, q)| q == x / d), "u8 by {d}");
    }
    let x: Vec<i8> = (-128..=127).collect();
    let xs = Tensor::from(x.clone());
    for d in (-128..=127i8).filter(|&d| d != 0) {
        let quotient = (&xs / Tensor::full([256], d, I8)).to_vec::<i8>().unwrap();
        assert!(x.iter().zip(quotient).all(|(x, q)| q == x.wrapping_div(d)), "i8 by {d}");
    }
    for d in [3, 5, 7, 641, 65537, i32::MAX / 2, i32::MAX, -1, -3, i32::MIN] {
        let mut x = vec![0, 1, d.wrapping_sub(1), d, d.wrapping_add(1), i32::MAX, i32::MIN];
        x.extend((0..31).flat_map(|k| [1i32 << k, (1i32 << k) - 1, -(1i32 << k)]));
        // As a constant of the program, where the divisor is known to the compiler.
        let divide = jit(move |x: Tensor| x / d);
        let quotient = divide.call(x.clone()).unwrap().to_vec::<i32>().unwrap();
        assert!(x.iter().zip(quotient).all(|(x, q)| q == x.wrapping_div(d)), "i32 by {d}");
    }
}

/// [K32] An output more changes no bit of another one.
#[test]
fn another_output_changes_nothing() {
    for n in [7, 64, 65, 1000] {
        for k in 0..25 {
            let f = move |x: &Tensor| {
                let y = (x * (0.37 + k as f32)).sin();
                if k % 2 == 0 { y.exp() * x } else { (y + x.square()).tanh() }
            };
            let x = (Tensor::arange(n, F32) * 0.11).cos();
            let alone = jit(move |x: Tensor| f(&x).argmax(0)).call(&x).unwrap();
            let both = jit(move |x: Tensor| (f(&x).argmax(0), f(&x)));
            let (beside, _) = both.call(&x).unwrap();
            let bits = |t: &Tensor| t.to_vec::<i32>().unwrap();
            assert_eq!(bits(&alone), bits(&beside), "{n} elements, function {k}");
        }
    }
}

/// [K33] Several outputs over rows, one of them joined to the input.
#[test]
fn outputs_of_several_shapes_in_one_program() {
    for (rows, columns) in [(512, 2048), (3, 17), (1, 1), (5, 63), (5, 65)] {
        let x = (Tensor::arange(rows * columns, F32) * 0.37).sin().reshape([rows, columns]) * 3.0;
        let all = jit(|x: Tensor| {
            let p = x.softmax(-1);
            (Tensor::concatenate(&[&p, &x], 1), x.max(1), x.sum(1))
        });
        let (joined, greatest, sum) = all.call(&x).unwrap();
        let p = jit(|x: Tensor| x.softmax(-1)).call(&x).unwrap();
        let parts = jit(|p: Tensor, x: Tensor| Tensor::concatenate(&[p, x], 1));
        let bits = |t: &Tensor| t.to_vec::<f32>().unwrap();
        assert_eq!(bits(&joined), bits(&parts.call(&p, &x).unwrap()));
        assert_eq!(bits(&greatest), bits(&jit(|x: Tensor| x.max(1)).call(&x).unwrap()));
        assert_eq!(bits(&sum), bits(&jit(|x: Tensor| x.sum(1)).call(&x).unwrap()));
    }
}

/// [K48] The norm at 0: a sum of squares is smooth there; its root is not.
#[test]
fn the_norm_at_zero() {
    let zero = Tensor::zeros([2], F32);
    let g = grad(|x: &Tensor| (x * x).sum(..))(&zero);
    assert_eq!(g.to_vec::<f32>().unwrap(), [0.0, 0.0]);
    let g = grad(|x: &Tensor| (x * x).sum(..).sqrt().square())(&zero);
    assert!(g.to_vec::<f32>().unwrap().iter().all(|g| g.is_nan()));
}

/// [K54] Derivatives of high order.
#[test]
fn the_sixth_derivative() {
    let f = |x: &Tensor| 1.0 / x;
    let sixth = grad(grad(grad(grad(grad(grad(f))))));
    close(&sixth(&Tensor::from(2.0f32)), &[5.625], 1e-5);
}

/// [K55] Forward mode along some of the inputs.
#[test]
fn tangents_of_some_inputs() {
    let pow = |(a, b): &(Tensor, Tensor)| a.pow(b);
    let at = (Tensor::from(3.0f32), Tensor::from(2.0f32));
    for (da, db, want) in [(1.0f32, 0.0f32, 6.0), (0.0, 1.0, 9.887_51), (1.0, 1.0, 15.887_51)] {
        let (_, dy) = jvp(pow, &at, &(Tensor::from(da), Tensor::from(db)));
        close(&dy, &[want], 1e-6);
    }
    let update = |(x, u): &(Tensor, Tensor)| x.dynamic_update_slice(u, &[2]);
    let at = (Tensor::zeros([5], F32), Tensor::zeros([2], F32));
    let (dx, du) = (Tensor::from([1.0f32, 2.0, 3.0, 4.0, 5.0]), Tensor::from([1.0f32, -1.0]));
    let (none_x, none_u) = (Tensor::zeros([5], F32), Tensor::zeros([2], F32));
    close(&jvp(update, &at, &(none_x, du)).1, &[0.0, 0.0, 1.0, -1.0, 0.0], 0.0);
    close(&jvp(update, &at, &(dx, none_u)).1, &[1.0, 2.0, 0.0, 0.0, 5.0], 0.0);
}

/// [K60] Several outputs keep their axes.
#[test]
fn a_batch_of_splits() {
    let x = Tensor::arange(12, F32).reshape([2, 6]);
    let thirds = |x: &Tensor| (x.get(0..2), x.get(2..4), x.get(4..6));
    let (a, b, c) = vmap(thirds)(&x);
    for (part, first) in [(a, 0.0), (b, 2.0), (c, 4.0)] {
        assert_eq!(part.shape(), [2, 2]);
        close(&part, &[first, first + 1.0, first + 6.0, first + 7.0], 0.0);
    }
}

/// [K61] Operands of different ranks, each with its own batch.
#[test]
fn a_batch_of_different_ranks() {
    let a = Tensor::arange(10, F32).reshape([10, 1]);
    let b = Tensor::arange(50, F32).reshape([10, 1, 5]);
    let sum = vmap(|(a, b): &(Tensor, Tensor)| a + b)(&(a, b));
    assert_eq!(sum.shape(), [10, 1, 5]);
    let want: Vec<f32> = (0..50).map(|i| (i / 5 + i) as f32).collect();
    close(&sum, &want, 0.0);
    let stacked = vmap(|x: &Tensor| Tensor::stack(&[x.clone(), Tensor::from(7.0f32)], 0));
    let y = stacked(&Tensor::from([1.0f32, 2.0]));
    close(&y, &[1.0, 7.0, 2.0, 7.0], 0.0);
}

/// [K62] What a mask hides has no part in the gradient, whatever its size.
#[test]
fn the_gradient_of_a_masked_softmax() {
    let mask = Tensor::from([true, false]);
    let f = move |x: &Tensor| Tensor::where_(&mask, x, f32::NEG_INFINITY).softmax(-1).get(0);
    let (y, g) = value_and_grad(f, &Tensor::from([3.0f32, 9000.0]));
    assert_eq!(y.item::<f32>().unwrap(), 1.0);
    assert_eq!(g.to_vec::<f32>().unwrap(), [0.0, 0.0]);
}

/// [K63] A rule whose way back differentiates something itself.
#[test]
fn a_rule_that_takes_a_gradient() {
    let f = kiln::custom_vjp(
        |x: &Tensor| x.sin(),
        |x: &Tensor| (x.sin(), x.clone()),
        |x: &Tensor, ct: &Tensor| ct * grad(|x: &Tensor| x.sin())(x),
    );
    close(&grad(f)(&Tensor::from(0.4f32)), &[0.4f32.cos()], 1e-6);
}

/// [K91] What was read is not remembered in place of what is there.
#[test]
fn a_value_read_before_an_update_is_not_read_again() {
    let step = jit(|x: Tensor| (&x + 1.0, x.sum(..)));
    let mut x = Tensor::zeros([64], F32);
    for i in 0..5 {
        assert_eq!(x.to_vec::<f32>().unwrap(), [i as f32; 64]);
        let sum = step.update(&mut x).unwrap();
        assert_eq!(sum.item::<f32>().unwrap(), 64.0 * i as f32);
    }
}
