//! Complex tensors: made, computed with, taken apart, differentiated.

use kiln::prelude::*;
use kiln::{grad, vmap};
use num_complex::Complex;

type C = Complex<f32>;

fn c(re: f32, im: f32) -> C {
    Complex::new(re, im)
}

fn some() -> (Vec<C>, Vec<C>) {
    let z = [(1.0, 2.0), (-0.5, 0.25), (3.0, -4.0), (0.0, 1.0), (-2.0, 0.0)];
    let w = [(0.5, -1.0), (2.0, 2.0), (-1.0, 0.0), (0.25, 0.75), (1.0, -3.0)];
    (z.map(|(a, b)| c(a, b)).to_vec(), w.map(|(a, b)| c(a, b)).to_vec())
}

#[track_caller]
fn near(got: &Tensor, want: impl IntoIterator<Item = C>) -> kiln::Result<()> {
    let got: Vec<C> = got.to_vec()?;
    let want: Vec<C> = want.into_iter().collect();
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(&want) {
        assert!((g - w).norm() <= 2e-6 * w.norm().max(1e-30), "{got:?} is not {want:?}");
    }
    Ok(())
}

#[test]
fn arithmetic_is_that_of_complex_numbers() -> kiln::Result<()> {
    let (z, w) = some();
    let (a, b) = (Tensor::from(z.clone()), Tensor::from(w.clone()));
    assert_eq!(a.dtype(), C64);
    let pairs = || z.iter().zip(&w);
    near(&(&a + &b), pairs().map(|(z, w)| z + w))?;
    near(&(&a - &b), pairs().map(|(z, w)| z - w))?;
    near(&(&a * &b), pairs().map(|(z, w)| z * w))?;
    near(&(&a / &b), pairs().map(|(z, w)| z / w))?;
    near(&-&a, z.iter().map(|z| -z))?;
    near(&a.conj(), z.iter().map(Complex::conj))?;
    near(&a.exp(), z.iter().map(|z| z.exp()))?;
    near(&a.sqrt(), z.iter().map(|z| z.sqrt()))?;
    near(&a.reciprocal(), z.iter().map(|z| z.inv()))?;
    near(&(&a * 2.0 + c(0.0, 1.0)), z.iter().map(|z| z * 2.0 + c(0.0, 1.0)))?;
    assert_eq!(a.abs().to_vec::<f32>()?, z.iter().map(|z| z.norm()).collect::<Vec<_>>());
    assert_eq!(a.eq(a.conj()).to_vec::<bool>()?, [false, false, false, false, true]);
    Ok(())
}

/// Lengths around the widths of vectors, so that whole vectors, masked ends and single
/// elements are all read and written in pairs.
#[test]
fn parts_come_back_at_every_length() -> kiln::Result<()> {
    for n in [0usize, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 257] {
        let z: Vec<C> = (0..n).map(|i| c(i as f32, -0.5 - i as f32)).collect();
        let x = Tensor::from(z.clone());
        let flipped = Tensor::complex(&x.imag(), &x.real());
        assert_eq!(flipped.to_vec::<C>()?, z.iter().map(|z| c(z.im, z.re)).collect::<Vec<_>>());
        assert_eq!(x.flip(0).to_vec::<C>()?, z.iter().rev().copied().collect::<Vec<_>>());
        let wide = x.astype(C128).to_vec::<Complex<f64>>()?;
        assert!(
            wide.iter().zip(&z).all(|(w, z)| *w == Complex::new(f64::from(z.re), f64::from(z.im)))
        );
    }
    Ok(())
}

#[test]
fn matrices_multiply() -> kiln::Result<()> {
    let at = |i: usize, j: usize| c((i * 3 + j) as f32 * 0.25 - 1.0, (i as f32) - (j as f32) * 0.5);
    for (m, k, n) in [(1, 1, 1), (2, 3, 4), (17, 9, 5), (33, 16, 31)] {
        let a: Vec<C> = (0..m * k).map(|i| at(i / k, i % k)).collect();
        let b: Vec<C> = (0..k * n).map(|i| at(i % n, i / n)).collect();
        let (x, y) = (Tensor::from_slice(&a, [m, k]), Tensor::from_slice(&b, [k, n]));
        let sum = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum::<C>();
        let got: Vec<C> = x.matmul(&y).to_vec()?;
        for (i, g) in got.iter().enumerate() {
            let want = sum(i / n, i % n);
            assert!((g - want).norm() <= 1e-5 * (1.0 + want.norm()), "{g} is not {want}");
        }
    }
    Ok(())
}

#[test]
fn sums_and_products_run_over_numbers() -> kiln::Result<()> {
    for n in [1usize, 2, 3, 5, 8, 13] {
        let z: Vec<C> = (0..n).map(|i| c(1.0 + 0.1 * i as f32, 0.3 - 0.05 * i as f32)).collect();
        let x = Tensor::from(z.clone());
        near(&x.sum(..), [z.iter().sum()])?;
        near(&x.prod(..), [z.iter().product()])?;
    }
    Ok(())
}

#[test]
fn what_has_no_order_is_refused_by_name() {
    let x = Tensor::from(some().0);
    let message = |t: Tensor| t.error().expect("a mistake").to_string();
    assert!(message(x.lt(&x)).contains("lt: wants elements that have an order, got c64[5]"));
    assert!(message(x.max(..)).contains("reduce_max: wants elements that have an order"));
    assert!(message(x.astype(F32)).contains("c64[5] has an imaginary part"));
    assert!(message(&x + &x.real()).contains("element types differ: lhs c64[5], rhs f32[5]"));
    let f = Tensor::from([1.0f32]);
    assert!(message(&f + c(1.0, 1.0)).contains("cannot be a f32, the tensor's element type"));
    assert_eq!(f.real().to_vec::<f32>().unwrap(), [1.0]);
    assert_eq!(f.imag().to_vec::<f32>().unwrap(), [0.0]);
}

/// A call is fed host data and numbers; a donated argument is computed over.
#[test]
fn calls_take_and_give_complex_tensors() -> kiln::Result<()> {
    let step = jit(|z: Tensor, w: Tensor| &z * &w + c(0.5, 0.0));
    let (z, _) = some();
    let i = c(0.0, 1.0);
    let got = step.call(Tensor::from(z.clone()), i)?;
    near(&got, z.iter().map(|z| z * i + c(0.5, 0.0)))?;
    let kept = Tensor::from(z.clone());
    let again = step.call(&kept, Tensor::from(i))?;
    assert_eq!(again.to_vec::<C>()?, got.to_vec::<C>()?);
    assert_eq!(kept.to_vec::<C>()?, z);
    Ok(())
}

/// The gradient of a real loss is its derivative by the real part less `i` times that by
/// the imaginary part, as JAX's is.
#[test]
fn gradients_are_jaxs() -> kiln::Result<()> {
    let (z, _) = some();
    let x = Tensor::from(z.clone());
    let squares = grad(|z: &Tensor| (z * z.conj()).real().sum(..));
    near(&squares(&x), z.iter().map(|z| z.conj() * 2.0))?;
    let magnitudes = grad(|z: &Tensor| z.abs().sum(..));
    near(&magnitudes(&x), z.iter().map(|z| z.conj() / z.norm()))?;
    // Through parts, from a real argument.
    let angle = Tensor::from([0.3f32, -1.2]);
    let turned = grad(|t: &Tensor| Tensor::polar(&Tensor::ones_like(t), t).imag().sum(..));
    let slopes = turned(&angle).to_vec::<f32>()?;
    assert!(slopes.iter().zip([0.3f32, -1.2]).all(|(s, t)| (s - t.cos()).abs() < 1e-6));
    Ok(())
}

#[test]
fn batches_are_their_entries() -> kiln::Result<()> {
    let (z, w) = some();
    let rows = Tensor::stack(&[Tensor::from(z.clone()), Tensor::from(w.clone())], 0);
    let sums = vmap(|z: &Tensor| (z * z).sum(..))(&rows);
    near(&sums, [z, w].map(|row| row.iter().map(|z| z * z).sum()))
}
