//! Whole derivatives: one entry for each pair of result and argument elements.

use kiln_trace::At;

use super::batch::batched;
use super::{linearize, vjp};
use crate::Tensor;

/// The derivative of a function of one tensor, in forward mode: cheap where the argument is
/// smaller than the result. Its shape is the result's, then the argument's.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::jacfwd;
///
/// let slope = jacfwd(|x: &Tensor| x * x);
/// let x = Tensor::from([1.0f32, 2.0]);
/// assert_eq!(slope(&x).to_vec::<f32>()?, [2.0, 0.0, 0.0, 4.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn jacfwd(f: impl Fn(&Tensor) -> Tensor) -> impl Fn(&Tensor) -> Tensor {
    let caller = At::caller();
    move |x| {
        let (y, slope) = linearize(&f, x);
        let (Ok(x_ty), Ok(y_ty)) = (x.try_ty(), y.try_ty()) else { return y };
        let basis = basis(x);
        let columns = batched(|t: &Tensor| slope.call(t), &basis, 0, -1, caller);
        columns.reshape([&y_ty.shape[..], &x_ty.shape[..]].concat())
    }
}

/// The derivative of a function of one tensor, in reverse mode: cheap where the result is
/// smaller than the argument. Its shape is the result's, then the argument's.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::jacrev;
///
/// let slope = jacrev(|x: &Tensor| x * x);
/// let x = Tensor::from([1.0f32, 2.0]);
/// assert_eq!(slope(&x).to_vec::<f32>()?, [2.0, 0.0, 0.0, 4.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn jacrev(f: impl Fn(&Tensor) -> Tensor) -> impl Fn(&Tensor) -> Tensor {
    let caller = At::caller();
    move |x| {
        let (y, back) = vjp(&f, x);
        let (Ok(x_ty), Ok(y_ty)) = (x.try_ty(), y.try_ty()) else { return y };
        let basis = basis(&y);
        let rows = batched(|ct: &Tensor| back.call(ct), &basis, 0, 0, caller);
        rows.reshape([&y_ty.shape[..], &x_ty.shape[..]].concat())
    }
}

/// The second derivative of a function from one tensor to a number, forward over reverse.
/// Its shape is the argument's twice.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::hessian;
///
/// let curvature = hessian(|x: &Tensor| (x * x * x).sum(..));
/// let x = Tensor::from([1.0f32, 2.0]);
/// assert_eq!(curvature(&x).to_vec::<f32>()?, [6.0, 0.0, 0.0, 12.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn hessian(f: impl Fn(&Tensor) -> Tensor) -> impl Fn(&Tensor) -> Tensor {
    jacfwd(jacrev(f))
}

/// One tensor like `x` for each of its elements, which is 1 there and 0 elsewhere.
fn basis(x: &Tensor) -> Tensor {
    let (size, shape) = (x.size(), x.shape());
    Tensor::eye(size, x.dtype()).reshape([&[size], shape].concat())
}
