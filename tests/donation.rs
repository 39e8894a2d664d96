//! Donation: what is given up is reused, and never changes a result.

// A borrowed argument is kept and a moved one given up: the `&` matters.
#![allow(clippy::needless_borrows_for_generic_args)]

use kiln::prelude::*;

#[derive(Tree)]
struct Momentum {
    w: Tensor,
    b: Tensor,
    w_momentum: Tensor,
    b_momentum: Tensor,
}

fn descend(s: Momentum, x: Tensor, y: Tensor, rate: Tensor) -> (Momentum, Tensor) {
    let error = x.dot(&s.w) + &s.b - y;
    let dw = x.t().dot(&error);
    let db = error.sum(0);
    let w_momentum = s.w_momentum * 0.9 + dw;
    let b_momentum = s.b_momentum * 0.9 + db;
    let w = s.w - &rate * &w_momentum;
    let b = s.b - &rate * &b_momentum;
    (Momentum { w, b, w_momentum, b_momentum }, error.square().mean(..))
}

fn numbers(seed: usize, shape: [usize; 2]) -> Tensor {
    let n = shape[0] * shape[1];
    let data = (0..n).map(|i| ((i * 7919 + seed * 104_729) % 1000) as f32 / 500.0 - 1.0).collect();
    Tensor::from_vec(data, shape)
}

fn bits(tree: &impl Tree) -> Vec<Vec<u32>> {
    device_get(tree)
        .unwrap()
        .iter()
        .map(|host| host.to_vec::<f32>().unwrap().iter().map(|x| x.to_bits()).collect())
        .collect()
}

#[test]
fn donated_and_kept_give_the_same_bits() {
    let step = jit(descend);
    let zeros = |shape: &[usize]| Tensor::zeros(shape, F32);
    let start = Momentum {
        w: numbers(1, [40, 10]),
        b: zeros(&[10]),
        w_momentum: zeros(&[40, 10]),
        b_momentum: zeros(&[10]),
    };
    let mut kept = device_put(start).unwrap();
    let mut donated = kept.map(&mut |t| t + 0.0);
    for i in 0..5 {
        let (x, y) = (numbers(10 + i, [32, 40]), numbers(20 + i, [32, 10]));
        let (new, kept_loss) = step.call(&kept, &x, &y, 0.01).unwrap();
        let loss = step.update(&mut donated, &x, &y, 0.01).unwrap();
        assert_eq!(bits(&new), bits(&donated), "step {i}");
        assert_eq!(bits(&kept_loss), bits(&loss));
        kept = new;
    }
}

/// What was given up stays right for those who still hold it. [K09, C11]
#[test]
fn a_shared_handle_keeps_its_value() {
    let step = jit(|y: Tensor| y * 3 - 1);
    let mut y = device_put(Tensor::from([10i32])).unwrap();
    let held = y.clone();
    for _ in 0..3 {
        y = step.call(y).unwrap();
    }
    assert_eq!(y.item::<i32>().unwrap(), 257);
    assert_eq!(held.item::<i32>().unwrap(), 10);
}

/// A carry that swaps places, both parts donated. [K08]
#[test]
fn parts_of_a_state_may_change_places() {
    let step = jit(|s: (Tensor, Tensor)| {
        let (a, b) = s;
        ((b, a + 1), ())
    });
    let mut state = (Tensor::from([0i32, 10]), Tensor::from([100i32, 200]));
    for _ in 0..5 {
        step.update(&mut state).unwrap();
    }
    assert_eq!(state.0.to_vec::<i32>().unwrap(), [102, 202]);
    assert_eq!(state.1.to_vec::<i32>().unwrap(), [3, 13]);
}

/// Two outputs of one intermediate, of which one is fed back. [K10]
#[test]
fn an_output_that_is_part_of_another() {
    let push = jit(|buffer: Tensor, new: Tensor| {
        let next = Tensor::concatenate(&[buffer.get(1..), new.expand_dims(0)], 0);
        let first = next.get(..1);
        (next, first)
    });
    let mut buffer = Tensor::from([5i32, 6, 7, 8]);
    let firsts: Vec<i32> =
        (20..24).map(|new| push.update(&mut buffer, new).unwrap().item::<i32>().unwrap()).collect();
    assert_eq!(firsts, [6, 7, 8, 20]);
    assert_eq!(buffer.to_vec::<i32>().unwrap(), [20, 21, 22, 23]);
}

/// Two calls of one program do not share an output. [K11]
#[test]
fn results_of_two_calls_are_two_arrays() {
    let triple = jit(|x: Tensor| x * 3.0);
    let (a, b) = (triple.call([1.5f32]).unwrap(), triple.call([2.0f32]).unwrap());
    assert_eq!((a.item::<f32>().unwrap(), b.item::<f32>().unwrap()), (4.5, 6.0));
}

#[test]
fn strict_donation_refuses_what_is_not_reused() {
    // No output has the size of `x`.
    let sum = jit!(|x| x.sum(..)).strict_donation();
    let x = Tensor::ones([1000], F32);
    let error = sum.call(x.clone()).unwrap_err();
    assert!(error.message().contains("the memory of `x`, passed by value, is not used"), "{error}");
    sum.call(&x).unwrap();
    let double = jit!(|x| x * 2.0).strict_donation();
    double.call(x).unwrap();
}
