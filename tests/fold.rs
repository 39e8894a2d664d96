//! Running results, windows, reductions by a closure: values against numpy's, empties,
//! mistakes, derivatives.

use kiln::prelude::*;
use kiln::{HostElement, Padding, Window, grad, reduce, reduce_window, vmap};

fn v<T: HostElement>(t: &Tensor) -> Vec<T> {
    t.to_vec().unwrap_or_else(|e| panic!("{e}"))
}

fn message(t: &Tensor) -> String {
    t.error().unwrap_or_else(|| panic!("{t:?} is no mistake")).to_string()
}

fn iota(shape: &[usize]) -> Tensor {
    Tensor::arange(shape.iter().product(), F32).reshape(shape)
}

#[test]
fn running_results() {
    let x = Tensor::from([3i32, -1, 4, 1, -5, 9]).reshape([2, 3]);
    assert_eq!(v::<i32>(&x.cumsum(1)), [3, 2, 6, 1, -4, 5]);
    assert_eq!(v::<i32>(&x.cumsum(0)), [3, -1, 4, 4, -6, 13]);
    assert_eq!(v::<i32>(&x.cumsum(..)), [3, 2, 6, 7, 2, 11]);
    assert_eq!(v::<i32>(&x.cumprod(-1)), [3, -3, -12, 1, -5, -45]);
    assert_eq!(v::<i32>(&x.cummin(1)), [3, -1, -1, 1, -5, -5]);
    assert_eq!(v::<i32>(&x.flip(1).cummax(1).flip(1)), [4, 4, 4, 9, 9, 9]);
    assert_eq!(x.cumsum(..).shape(), [6]);
    let truth = Tensor::from([true, false, true, true]);
    assert_eq!(v::<i32>(&truth.cumsum(0)), [1, 1, 2, 3]);
    assert_eq!(v::<bool>(&truth.cummin(0)), [true, false, false, false]);
    let y = Tensor::from([f32::NEG_INFINITY, 0.0, 0.0]);
    assert_eq!(v::<f32>(&y.cumlogsumexp(0)), [f32::NEG_INFINITY, 0.0, std::f32::consts::LN_2]);
    assert_eq!(v::<f32>(&Tensor::zeros([3, 0], F32).cumsum(1)), [0.0f32; 0]);
    assert_eq!(v::<i32>(&x.diff(1, 1)), [-4, 5, -6, 14]);
    assert_eq!(x.diff(4, 1).shape(), [2, 0]);
    assert!(message(&x.cumsum(2)).contains("out of range"));
    assert!(message(&x.cumsum([0, 1])).contains("one axis"));
}

/// Around each size at which code or order changes.
#[test]
fn running_sums_of_ones_count() {
    for n in [1, 15, 16, 17, 1023, 1024, 1025, 16383, 16384, 16385, 40000] {
        let ones = Tensor::ones([n], F32);
        let want: Vec<f32> = (1..=n).map(|i| i as f32).collect();
        assert_eq!(v::<f32>(&ones.cumsum(0)), want, "{n}");
        let columns = Tensor::ones([n, 3], F32).cumsum(0).get((.., 1));
        assert_eq!(v::<f32>(&columns), want, "{n} down columns");
    }
}

/// A million terms of one size: what one carry would lose is a hundred times as much.
#[test]
fn a_long_running_sum_is_accurate() {
    let n = 1 << 20;
    let sums = v::<f32>(&Tensor::full([n], 0.1, F32).cumsum(0));
    let worst = sums.iter().enumerate().map(|(i, &sum)| {
        let want = (i + 1) as f64 * f64::from(0.1f32);
        (f64::from(sum) - want).abs() / want
    });
    let worst = worst.fold(0.0, f64::max);
    assert!(worst < 2e-5, "relative error {worst}");
}

#[test]
fn counted_and_nan_aware() {
    let truth = Tensor::from(vec![true; 300]);
    assert_eq!(truth.sum(..).item::<i32>().unwrap(), 300);
    assert_eq!(
        jit(|| Tensor::from(vec![true; 300]).sum(..)).call().unwrap().item::<i32>().unwrap(),
        300
    );
    assert_eq!(truth.prod(..).item::<i32>().unwrap(), 1);
    let x = Tensor::from([2.0f32, f32::NAN, 0.0, -3.0]).reshape([2, 2]);
    assert_eq!(v::<i32>(&x.count_nonzero(1)), [2, 1]);
    assert_eq!(v::<f32>(&x.nansum(1)), [2.0, -3.0]);
    assert_eq!(v::<f32>(&x.nanprod(0)), [0.0, -3.0]);
    assert_eq!(v::<f32>(&x.nanmax(..)), [2.0]);
    assert_eq!(v::<f32>(&x.nanmin(keepdims(0))), [0.0, -3.0]);
    assert_eq!(v::<f32>(&x.nanmean(1)), [2.0, -1.5]);
    assert!(v::<f32>(&Tensor::from([f32::NAN]).nanmax(..))[0].is_nan());
    assert_eq!(v::<i32>(&Tensor::from([3i32, -1, 4]).ptp(..)), [5]);
    assert!(message(&Tensor::from([1i32]).nansum(..)).contains("float"));
    assert!(message(&Tensor::zeros([0], F32).ptp(..)).contains("empty"));
}

#[test]
fn windows() {
    let x = iota(&[1, 4, 4, 1]);
    assert_eq!(v::<f32>(&x.max_pool(&[2, 2], &[2, 2], Padding::Valid)), [5.0, 7.0, 13.0, 15.0]);
    assert_eq!(v::<f32>(&x.min_pool(&[2, 2], &[2, 2], Padding::Valid)), [0.0, 2.0, 8.0, 10.0]);
    assert_eq!(v::<f32>(&x.avg_pool(&[2, 2], &[2, 2], Padding::Valid)), [2.5, 4.5, 10.5, 12.5]);
    assert_eq!(x.max_pool(&[3, 3], &[2, 2], Padding::Same).shape(), [1, 2, 2, 1]);
    let row = iota(&[5]);
    let three = Window::new(&[3]);
    assert_eq!(v::<f32>(&row.window_sum(&three)), [3.0, 6.0, 9.0]);
    let same = three.clone().padding(Padding::Same);
    assert_eq!(v::<f32>(&row.window_sum(&same)), [1.0, 3.0, 6.0, 9.0, 7.0]);
    assert_eq!(v::<f32>(&row.window_prod(&same)), [0.0, 0.0, 6.0, 24.0, 12.0]);
    let spread = three.clone().base_dilation(&[2]).strides(&[2]);
    assert_eq!(v::<f32>(&row.window_sum(&spread)), [1.0, 3.0, 5.0, 7.0]);
    assert_eq!(row.window_max(&Window::new(&[9])).shape(), [0]);
    let explicit = Window::new(&[2]).padding(Padding::Explicit(vec![(-1, 1)]));
    assert_eq!(v::<f32>(&row.window_min(&explicit)), [1.0, 2.0, 3.0, 4.0]);
    assert!(message(&row.max_pool(&[2], &[2], Padding::Valid)).contains("channels"));
    assert!(message(&row.window_sum(&Window::new(&[2, 2]))).contains("window"));
    assert!(message(&row.window_sum(&three.strides(&[0]))).contains("at least 1"));
}

#[test]
fn closures_reduce() {
    let x = iota(&[2, 3]);
    let zero = Tensor::from(0.0f32);
    // Known kinds, with an initial value that is no identity.
    let [sum] = reduce([&x], [&Tensor::from(100.0f32)], 1, |[a], [b]| [a + b]);
    assert_eq!(v::<f32>(&sum), [103.0, 112.0]);
    let [max] = reduce([&x], [&Tensor::from(2.5f32)], 0, |[a], [b]| [b.maximum(a)]);
    assert_eq!(v::<f32>(&max), [3.0, 4.0, 5.0]);
    // In order.
    let [digits] = reduce([&x], [&zero], 1, |[a], [b]| [a * 10.0 + b]);
    assert_eq!(v::<f32>(&digits), [12.0, 345.0]);
    let inside = jit(|x: Tensor, zero: Tensor| {
        let [digits] = reduce([&x], [&zero], .., |[a], [b]| [a * 10.0 + b]);
        digits
    });
    assert_eq!(inside.call(&x, &zero).unwrap().item::<f32>().unwrap(), 12345.0);
    let [pairs] = reduce_window([&x], [&zero], &Window::new(&[1, 2]), |[a], [b]| [a * 10.0 + b]);
    assert_eq!(v::<f32>(&pairs), [1.0, 12.0, 34.0, 45.0]);
    let [none] =
        reduce([&Tensor::zeros([2, 0], F32)], [&Tensor::from(7.0f32)], 1, |[a], [b]| [a - b]);
    assert_eq!(v::<f32>(&none), [7.0, 7.0]);

    let [wrong] = reduce([&x], [&Tensor::from(0i32)], 1, |[a], [b]| [a + b]);
    assert!(wrong.error().is_some());
    let [wrong] = reduce([&x], [&zero], 5, |[a], [b]| [a * 2.0 + b]);
    assert!(message(&wrong).contains("out of range"));
    let outside = Tensor::from([1.0f32]).get(0);
    let [wrong] = reduce([&x], [&zero], 1, |[a], [b]| [a * &outside + b]);
    assert!(message(&wrong).contains("outside"));
    let [wrong] = reduce([&x], [&zero], 1, |[a], [b]| [(a + b).gt(0.0)]);
    assert!(message(&wrong).contains("returns"));
}

#[test]
fn folds_differentiate_and_batch() {
    let x = Tensor::from([1.0f32, 3.0, 2.0, 3.0]);
    let weights = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
    let g = grad(|x: &Tensor| (x.cumsum(0) * &weights).sum(..))(&x);
    assert_eq!(v::<f32>(&g), [10.0, 9.0, 7.0, 4.0]);
    // The last extreme is shared between the second and the fourth element.
    let g = grad(|x: &Tensor| (x.cummax(0) * &weights).sum(..))(&x);
    assert_eq!(v::<f32>(&g), [1.0, 7.0, 0.0, 2.0]);
    // A zero factor harms nobody.
    let zero = Tensor::from([2.0f32, 0.0, 5.0]);
    let g = grad(|x: &Tensor| x.cumprod(0).sum(..))(&zero);
    assert_eq!(v::<f32>(&g), [1.0, 12.0, 0.0]);
    let image = iota(&[1, 2, 2, 1]);
    let pooled = |x: &Tensor| x.max_pool(&[2, 2], &[2, 2], Padding::Valid).sum(..);
    assert_eq!(v::<f32>(&grad(pooled)(&image)), [0.0, 0.0, 0.0, 1.0]);
    let rows = iota(&[2, 3]);
    let batched = vmap(|row: &Tensor| row.cumsum(0))(&rows);
    assert_eq!(v::<f32>(&batched), [0.0, 1.0, 3.0, 3.0, 7.0, 12.0]);
}
