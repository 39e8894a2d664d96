//! Transformations as a user meets them: nested, jitted, lazy, over trees, with mistakes.

use kiln::prelude::*;
use kiln::{
    Policy, checkpoint, checkpoint_policy, custom_jvp, custom_vjp, grad, hessian, jacfwd, jacrev,
    jvp, linearize, stop_gradient, value_and_grad, vjp, vmap, vmap_axes,
};

#[derive(Tree)]
struct Mlp {
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
}

fn mlp() -> Mlp {
    let w = |rows: usize, columns: usize, scale: f32| {
        (Tensor::arange(rows * columns, F32) * 0.7 + 0.1).sin().reshape([rows, columns]) * scale
    };
    Mlp { w1: w(4, 8, 0.5), b1: Tensor::zeros([8], F32), w2: w(8, 3, 0.4) }
}

fn loss(m: &Mlp, x: &Tensor, y: &Tensor) -> Tensor {
    let h = (x.matmul(&m.w1) + &m.b1).tanh();
    let error = h.matmul(&m.w2) - y;
    (&error * &error).mean(..)
}

fn data() -> (Tensor, Tensor) {
    let x = (Tensor::arange(20, F32) * 0.3).cos().reshape([5, 4]);
    let y = (Tensor::arange(15, F32) * 0.2).sin().reshape([5, 3]);
    (x, y)
}

fn close(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= 1e-5 * (1.0 + a.abs().max(b.abs())), "element {i}: {a} and {b}");
    }
}

#[test]
fn a_step_inside_jit_trains_as_one_outside() {
    let (x, y) = data();
    let step = jit(|m: Mlp, x: Tensor, y: Tensor| {
        let (loss, g) = value_and_grad(|m: &Mlp| loss(m, &x, &y), &m);
        let new = Mlp { w1: m.w1 - g.w1 * 0.5, b1: m.b1 - g.b1 * 0.5, w2: m.w2 - g.w2 * 0.5 };
        (new, loss)
    });
    let (mut jitted, mut lazy) = (mlp(), mlp());
    let mut losses = Vec::new();
    for _ in 0..5 {
        losses.push(step.update(&mut jitted, &x, &y).unwrap().item::<f32>().unwrap());
        let (_, g) = value_and_grad(|m: &Mlp| loss(m, &x, &y), &lazy);
        lazy =
            Mlp { w1: &lazy.w1 - g.w1 * 0.5, b1: &lazy.b1 - g.b1 * 0.5, w2: &lazy.w2 - g.w2 * 0.5 };
    }
    assert!(losses.windows(2).all(|w| w[1] < w[0]), "{losses:?}");
    for (a, b) in jitted.leaves().iter().zip(lazy.leaves()) {
        close(&a.to_vec::<f32>().unwrap(), &b.to_vec::<f32>().unwrap());
    }
}

/// The README's first program.
#[test]
fn softmax_regression_learns_what_can_be_learned() {
    #[derive(Tree)]
    struct Model {
        w: Tensor,
        b: Tensor,
    }
    let step = jit(|model: Model, x: Tensor, y: Tensor| {
        let loss = |m: &Model| -((x.dot(&m.w) + &m.b).log_softmax(-1) * &y).sum(-1).mean(..);
        let (loss, slope) = value_and_grad(loss, &model);
        (Model { w: model.w - 0.1 * slope.w, b: model.b - 0.1 * slope.b }, loss)
    });
    let mut model = Model { w: Tensor::zeros([4, 2], F32), b: Tensor::zeros([2], F32) };
    let (x, _) = data();
    let class = x.get((.., 0)).gt(0.0).astype(F32).reshape([5, 1]);
    let y = Tensor::concatenate(&[&class, &(1.0 - &class)], 1);
    let losses: Vec<f32> =
        (0..50).map(|_| step.update(&mut model, &x, &y).unwrap().item().unwrap()).collect();
    assert!((losses[0] - 2f32.ln()).abs() < 1e-6 && losses[49] < 0.4 * losses[0], "{losses:?}");
}

#[test]
fn gradients_are_limits_of_differences() {
    let (x, y) = data();
    let m = mlp();
    let (_, g) = value_and_grad(|m: &Mlp| loss(m, &x, &y), &m);
    let slope = g.w1.to_vec::<f32>().unwrap();
    for i in [0usize, 5, 31] {
        let moved = |step: f32| {
            let mut w = m.w1.to_vec::<f32>().unwrap();
            w[i] += step;
            let w1 = Tensor::from(w).reshape([4, 8]);
            loss(&Mlp { w1, b1: m.b1.clone(), w2: m.w2.clone() }, &x, &y).item::<f32>().unwrap()
        };
        let difference = (moved(1e-2) - moved(-1e-2)) / 2e-2;
        assert!((difference - slope[i]).abs() < 1e-3, "{difference} and {}", slope[i]);
    }
}

#[test]
fn aux_comes_back_beside_the_loss() {
    let x = Tensor::from([1.0f32, 2.0]);
    let ((loss, (twice, count)), g) =
        value_and_grad(|x: &Tensor| ((x * x).sum(..), (x * 2.0, Tensor::arange(3, I32))), &x);
    assert_eq!(loss.item::<f32>().unwrap(), 5.0);
    assert_eq!(twice.to_vec::<f32>().unwrap(), [2.0, 4.0]);
    assert_eq!(count.to_vec::<i32>().unwrap(), [0, 1, 2]);
    assert_eq!(g.to_vec::<f32>().unwrap(), [2.0, 4.0]);
}

#[test]
fn what_is_captured_is_constant() {
    let c = Tensor::from(3.0f32);
    // d/dx of x·c·(d/dy of y·x at y = x) = c·x: the inner derivative is constant in y only.
    let f = |x: &Tensor| x * &c * grad(|y: &Tensor| y * x)(x);
    let g = grad(f)(&Tensor::from(2.0f32));
    assert_eq!(g.item::<f32>().unwrap(), 12.0);
}

#[test]
fn transformations_nest() {
    let x = Tensor::from(0.5f32);
    let fourth = grad(grad(grad(grad(|x: &Tensor| x.sin()))));
    close(&[fourth(&x).item().unwrap()], &[0.5f32.sin()]);
    let x = Tensor::from([[0.1f32, 0.2], [0.3, 0.4], [0.5, 0.6]]);
    let rows = vmap(grad(|x: &Tensor| (x * x * x).sum(..)));
    let want: Vec<f32> = x.to_vec::<f32>().unwrap().iter().map(|x| 3.0 * x * x).collect();
    close(&rows(&x).to_vec().unwrap(), &want);
    let jitted = jit(move |x: Tensor| vmap(vmap(|x: &Tensor| x.exp()))(&x));
    let want: Vec<f32> = x.to_vec::<f32>().unwrap().iter().map(|x| x.exp()).collect();
    close(&jitted.call(&x).unwrap().to_vec().unwrap(), &want);
}

#[test]
fn jacobians_agree() {
    let a = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let x = Tensor::from([0.1f32, 0.2, 0.3]);
    let f = |x: &Tensor| a.matmul(&x.sin());
    let (forward, back) = (jacfwd(f)(&x), jacrev(f)(&x));
    assert_eq!(forward.shape(), [2, 3]);
    close(&forward.to_vec().unwrap(), &back.to_vec().unwrap());
    let want: Vec<f32> =
        (0..6).map(|i| (i + 1) as f32 * (0.1 * (i % 3 + 1) as f32).cos()).collect();
    close(&forward.to_vec().unwrap(), &want);
    let h = hessian(|x: &Tensor| (x * x).sum(..) * x.get(0))(&x);
    assert_eq!(h.shape(), [3, 3]);
    // x0³ + x0 x1² + x0 x2²
    let want = [0.6, 0.4, 0.6, 0.4, 0.2, 0.0, 0.6, 0.0, 0.2];
    close(&h.to_vec().unwrap(), &want);
}

#[test]
fn forward_and_back_are_the_same_derivative() {
    let (x, dx) = (Tensor::from([0.1f32, 0.2, 0.3]), Tensor::from([1.0f32, -2.0, 0.5]));
    let f = |x: &Tensor| (x.exp() * x.cos(), x.sum(..));
    let ((y, s), (dy, ds)) = jvp(f, &x, &dx);
    let ((y2, s2), slope) = linearize(f, &x);
    let (dy2, ds2) = slope.call(&dx);
    for (a, b) in [(&y, &y2), (&s, &s2), (&dy, &dy2), (&ds, &ds2)] {
        close(&a.to_vec().unwrap(), &b.to_vec().unwrap());
    }
    let (_, back) = vjp(f, &x);
    let ct = (Tensor::from([1.0f32, 1.0, 1.0]), Tensor::from(2.0f32));
    let here = (back.call(&ct) * &dx).sum(..).item::<f32>().unwrap();
    let there = (dy.sum(..) + ds * 2.0).item::<f32>().unwrap();
    close(&[here], &[there]);
}

#[test]
fn ties_and_kinks_are_those_of_jax() {
    type Function = fn(&Tensor) -> Tensor;
    let cases: [(&str, Function, f32); 8] = [
        ("relu", |x| x.relu(), 0.0),
        ("abs", |x| x.abs(), 1.0),
        ("clamp", |x| x.clamp(0.0, 1.0), 0.0),
        ("clip", |x| x.clip(0.0, 1.0), 0.5),
        ("maximum", |x| x.maximum(0.0), 0.5),
        ("minimum of itself", |x| x.minimum(x), 1.0),
        ("floor", |x| x.floor(), 0.0),
        ("square root of a square", |x| (x * x + 1.0).sqrt(), 0.0),
    ];
    for (name, f, want) in cases {
        assert_eq!(grad(f)(&Tensor::from(0.0f32)).item::<f32>().unwrap(), want, "{name}");
    }
    // Equal extremes share equally.
    let g = grad(|x: &Tensor| x.max(..))(&Tensor::from([1.0f32, 3.0, 3.0, 2.0]));
    assert_eq!(g.to_vec::<f32>().unwrap(), [0.0, 0.5, 0.5, 0.0]);
}

/// [K49] Far from 0, where a branch that is not taken overflows, and at 0, where two meet.
#[test]
fn activations_have_the_derivatives_of_their_definitions() {
    type Function = fn(&Tensor) -> Tensor;
    type Case = (&'static str, Function, &'static [(f32, f32)]);
    let cases: [Case; 7] = [
        ("elu", |x| x.elu(1.0), &[(100.0, 1.0), (200.0, 1.0), (-200.0, 0.0), (0.0, 1.0)]),
        ("celu", |x| x.celu(1.0), &[(100.0, 1.0), (200.0, 1.0), (-200.0, 0.0), (0.0, 1.0)]),
        ("softplus", |x| x.softplus(), &[(200.0, 1.0), (-200.0, 0.0), (0.0, 0.5)]),
        ("log_sigmoid", |x| x.log_sigmoid(), &[(200.0, 0.0), (-200.0, 1.0), (0.0, 0.5)]),
        ("sigmoid", |x| x.sigmoid(), &[(200.0, 0.0), (-200.0, 0.0), (0.0, 0.25)]),
        ("hard_tanh", |x| x.hard_tanh(), &[(1.0, 1.0), (-1.0, 1.0), (1.5, 0.0), (-2.0, 0.0)]),
        ("logaddexp", |x| x.logaddexp(x), &[(3.0, 1.0), (-800.0, 1.0), (800.0, 1.0)]),
    ];
    for (name, f, points) in cases {
        for &(x, want) in points {
            let slope = grad(f)(&Tensor::from(x)).item::<f32>().unwrap();
            assert_eq!(slope, want, "{name} at {x}");
        }
    }
}

#[test]
fn a_checkpointed_function_has_the_same_derivatives_to_the_bit() {
    let (x, y) = data();
    let whole = |policy: Option<Policy>| {
        let (x, y) = (x.clone(), y.clone());
        let step = jit(move |m: Mlp| {
            let layer = |m: &Mlp| (x.matmul(&m.w1) + &m.b1).tanh();
            let hidden = |m: &Mlp| match policy {
                None => layer(m),
                Some(Policy::Nothing) => checkpoint(layer)(m),
                Some(policy) => checkpoint_policy(layer, policy)(m),
            };
            let f = |m: &Mlp| {
                let error = hidden(m).matmul(&m.w2) - &y;
                (&error * &error).mean(..)
            };
            value_and_grad(f, &m)
        });
        let (loss, g) = step.call(mlp()).unwrap();
        let bits = |t: &Tensor| t.to_vec::<f32>().unwrap();
        (bits(&loss), bits(&g.w1), bits(&g.b1), bits(&g.w2))
    };
    let plain = whole(None);
    for policy in Policy::ALL {
        assert_eq!(whole(Some(policy)), plain, "{policy:?}");
    }
}

#[test]
fn a_checkpoint_computes_again_what_it_does_not_keep() {
    // exp of a big array, needed on the way back: kept, or computed twice.
    let count = |policy: Option<Policy>| {
        let step = jit(move |x: Tensor| {
            let f = |x: &Tensor| x.sin().exp();
            let f = |x: &Tensor| match policy {
                None => f(x).sum(..),
                Some(policy) => checkpoint_policy(f, policy)(x).sum(..),
            };
            value_and_grad(f, &x)
        });
        let text =
            step.compile(Tensor::spec([4096], F32)).unwrap().dump(kiln::Stage::Fused).unwrap();
        text.matches(" = exp ").count()
    };
    assert_eq!(count(Some(Policy::Nothing)), 2);
    assert_eq!(count(Some(Policy::Everything)), 1);
    assert_eq!(count(None), 1);
}

#[test]
fn rules_of_ones_own_are_used_in_every_transformation() {
    // sin with the derivative of 2 sin, to be told apart.
    let odd = || custom_jvp(|x: &Tensor| x.sin(), |x: &Tensor, dx: &Tensor| dx * x.cos() * 2.0);
    let x = Tensor::from([0.3f32, 0.7]);
    let want: Vec<f32> = [0.3f32, 0.7].map(|x| 2.0 * x.cos()).to_vec();
    let f = odd();
    let g = grad(|x: &Tensor| f(x).sum(..))(&x);
    close(&g.to_vec().unwrap(), &want);
    close(&vmap(grad(odd()))(&x).to_vec().unwrap(), &want);
    let (_, dy) = jvp(odd(), &x, &Tensor::ones([2], F32));
    close(&dy.to_vec().unwrap(), &want);

    // The same in reverse, with a captured factor and something kept.
    let two = Tensor::from(2.0f32);
    let back = || {
        custom_vjp(
            |x: &Tensor| x.sin(),
            |x: &Tensor| (x.sin(), x.cos()),
            |cos: &Tensor, ct: &Tensor| ct * cos * &two,
        )
    };
    let f = back();
    close(&grad(|x: &Tensor| f(x).sum(..))(&x).to_vec().unwrap(), &want);
    close(&vmap(grad(back()))(&x).to_vec().unwrap(), &want);
    let (_, dy) = jvp(back(), &x, &Tensor::ones([2], F32));
    assert!(dy.to_vec::<f32>().unwrap_err().to_string().contains("custom_vjp"));
    let wrong = custom_vjp(
        |x: &Tensor| x.sin(),
        |x: &Tensor| (x.sin(), ()),
        |_: &(), ct: &Tensor| ct.sum(..),
    );
    let error = wrong(&x).to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("f32[]") && error.contains("f32[2]"), "{error}");
}

#[test]
fn a_stopped_gradient_is_zero_and_changes_no_value() {
    let f = |x: &Tensor| (x * x + stop_gradient(&x.exp())).sum(..);
    let x = Tensor::from([1.0f32, 2.0]);
    let (y, g) = value_and_grad(f, &x);
    close(&y.to_vec().unwrap(), &[5.0 + 1f32.exp() + 2f32.exp()]);
    assert_eq!(g.to_vec::<f32>().unwrap(), [2.0, 4.0]);
}

#[test]
fn batches_lie_along_any_axis() {
    let x = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let scaled = vmap_axes(|column: &Tensor| column / column.sum(..), 1, 1);
    let y = scaled(&x);
    assert_eq!(y.shape(), [2, 3]);
    close(&y.to_vec().unwrap(), &[0.2, 2.0 / 7.0, 1.0 / 3.0, 0.8, 5.0 / 7.0, 2.0 / 3.0]);
}

#[test]
fn mistakes_name_what_was_wrong_and_where() {
    let x = Tensor::from([1.0f32, 2.0]);
    let (loss, g) = value_and_grad(|x: &Tensor| x * 2.0, &x);
    let line = line!() - 1;
    assert!(loss.error().is_some());
    let error = g.to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("rank-0 float"), "{error}");
    assert!(error.contains(&format!("transform.rs:{line}")), "{error}");
    let counted = jit(|n: Tensor| grad(|n: &Tensor| n.astype(F32))(&n));
    let error = counted.call(3).unwrap_err().to_string();
    assert!(error.contains("i32[]"), "{error}");
    let uneven = jit(|a: Tensor, b: Tensor| vmap(|(a, b): &(Tensor, Tensor)| a + b)(&(a, b)));
    let error = uneven.call([1.0f32, 2.0], [1.0f32, 2.0, 3.0]).unwrap_err().to_string();
    assert!(error.contains("batches differ"), "{error}");
}
