//! Quotients and remainders that round down, beside the operators, which truncate.
//!
//! With integers, a division by zero is that of the operators: the quotient has all
//! bits set and the remainder is the dividend.

use kiln_ir::op::{Binary, Compare, Select, Unary};
use kiln_trace::At;

use super::{Operand, Tensor};

impl Tensor {
    /// The remainder with the sign of the divisor: `jax.numpy.remainder`, Python's `%`.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([-7i32, 7]);
    /// assert_eq!(x.remainder(3).to_vec::<i32>()?, [2, 1]);
    /// assert_eq!(x.fmod(3).to_vec::<i32>()?, [-1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn remainder(&self, other: impl Operand) -> Tensor {
        let at = At::caller();
        match self.pair("remainder", other, at) {
            Ok((a, b)) => floored(&a, &b, at).1,
            Err(poisoned) => poisoned,
        }
    }

    /// The remainder with the sign of the dividend: `jax.numpy.fmod`, the operator `%`.
    #[track_caller]
    pub fn fmod(&self, other: impl Operand) -> Tensor {
        self.binary(Binary::Rem, other, At::caller())
    }

    /// The greatest whole number not above the quotient: `jax.numpy.floor_divide`,
    /// Python's `//`.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([-7i32, 7]);
    /// assert_eq!(x.floor_divide(2).to_vec::<i32>()?, [-4, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn floor_divide(&self, other: impl Operand) -> Tensor {
        let at = At::caller();
        match self.pair("floor_divide", other, at) {
            Ok((a, b)) => floored(&a, &b, at).0,
            Err(poisoned) => poisoned,
        }
    }

    /// [`Tensor::floor_divide`] and [`Tensor::remainder`].
    #[track_caller]
    pub fn divmod(&self, other: impl Operand) -> (Tensor, Tensor) {
        let at = At::caller();
        match self.pair("divmod", other, at) {
            Ok((a, b)) => floored(&a, &b, at),
            Err(poisoned) => (poisoned.clone(), poisoned),
        }
    }
}

/// The floored quotient and its remainder, of operands of one type.
///
/// A float's remainder of 0 has the sign of the divisor, as in numpy and Python.
///
/// The truncated remainder is exact. Where it is not 0 and has the other sign than the
/// divisor, the floored one is greater by the divisor and the quotient less by 1.
fn floored(a: &Tensor, b: &Tensor, at: At) -> (Tensor, Tensor) {
    let Ok(ty) = a.try_ty() else { return (a.clone(), a.clone()) };
    let dtype = ty.dtype;
    let zero = a.like(0.0, at).expand(&ty.shape, at);
    let one = a.like(1.0, at).expand(&ty.shape, at);
    let compare = |op, x: &Tensor, y: &Tensor| Tensor::apply(op, &[x, y], at);
    let select = |c: &Tensor, x: &Tensor, y: &Tensor| Tensor::apply(Select, &[c, x, y], at);
    let truncated = a.binary(Binary::Rem, b, at);
    if dtype.is_unsigned() {
        return (a.binary(Binary::Div, b, at), truncated);
    }
    let negative = compare(Compare::Lt, &truncated, &zero);
    let divisor_negative = compare(Compare::Lt, b, &zero);
    let inexact = compare(Compare::Ne, &truncated, &zero);
    let mut adjust = negative.binary(Binary::Xor, &divisor_negative, at);
    adjust = adjust.binary(Binary::And, &inexact, at);
    if !dtype.is_float() {
        let by_something = compare(Compare::Ne, b, &zero);
        adjust = adjust.binary(Binary::And, &by_something, at);
    }
    let mut remainder = select(&adjust, &truncated.binary(Binary::Add, b, at), &truncated);
    if dtype.is_float() {
        let is_zero = compare(Compare::Eq, &truncated, &zero);
        remainder = select(&is_zero, &zero.signed_as(b, at), &remainder);
    }
    // A float's quotient is that of what the divisor divides, which is nearly whole:
    // rounding makes it so.
    let quotient = if dtype.is_float() {
        a.binary(Binary::Sub, &truncated, at).binary(Binary::Div, b, at)
    } else {
        a.binary(Binary::Div, b, at)
    };
    let mut quotient = select(&adjust, &quotient.binary(Binary::Sub, &one, at), &quotient);
    if dtype.is_float() {
        quotient = Tensor::apply(Unary::RoundAway, &[&quotient], at);
    }
    (quotient, remainder)
}
