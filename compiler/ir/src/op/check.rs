//! What the `infer` rules of all ops have in common.
//!
//! Each function checks one demand and words its refusal the same way for every
//! op: what was wanted, then what was given. None of them changes a type.

use smallvec::smallvec;

use super::{InferError, Types};
use crate::{DType, Shape, Type};

/// Exactly `N` operands.
pub(super) fn operands<'a, const N: usize>(
    op: &'static str,
    operands: &[&'a Type],
) -> Result<[&'a Type; N], InferError> {
    operands.try_into().map_err(|_| {
        let plural = if N == 1 { "" } else { "s" };
        InferError::new(op, format!("wants {N} operand{plural}, got {}", operands.len()))
    })
}

/// Two operands of one type: nothing is promoted or broadcast.
pub(super) fn same(op: &'static str, a: &Type, b: &Type) -> Result<(), InferError> {
    if a == b {
        return Ok(());
    }
    let what = if a.dtype == b.dtype { "shape" } else { "element type" };
    Err(InferError::new(op, format!("operands differ in {what}: lhs {a}, rhs {b}")))
}

/// An element type that satisfies `accepts`, which `wanted` puts into words.
pub(super) fn dtype(
    op: &'static str,
    ty: &Type,
    accepts: impl FnOnce(DType) -> bool,
    wanted: &str,
) -> Result<(), InferError> {
    if accepts(ty.dtype) {
        return Ok(());
    }
    Err(InferError::new(op, format!("wants {wanted}, got {ty}")))
}

/// `f16` to `f64`.
pub(super) fn float(op: &'static str, ty: &Type) -> Result<(), InferError> {
    dtype(op, ty, DType::is_float, "a float")
}

/// `f16` to `f64`, `c64` and `c128`.
pub(super) fn float_or_complex(op: &'static str, ty: &Type) -> Result<(), InferError> {
    dtype(op, ty, DType::is_inexact, "a float or a complex number")
}

/// `c64` and `c128`.
pub(super) fn complex(op: &'static str, ty: &Type) -> Result<(), InferError> {
    dtype(op, ty, DType::is_complex, "a complex number")
}

/// Integers, floats and complex numbers.
pub(super) fn number(op: &'static str, ty: &Type) -> Result<(), InferError> {
    dtype(op, ty, |d| d != DType::Bool, "a number")
}

/// Integers and floats.
pub(super) fn real_number(op: &'static str, ty: &Type) -> Result<(), InferError> {
    dtype(op, ty, |d| d != DType::Bool && !d.is_complex(), "an integer or a float")
}

/// What one element may be less than another of: all but complex numbers.
pub(super) fn ordered(op: &'static str, ty: &Type) -> Result<(), InferError> {
    dtype(op, ty, |d| !d.is_complex(), "elements that have an order")
}

/// Integers and `bool`.
pub(super) fn bits(op: &'static str, ty: &Type) -> Result<(), InferError> {
    dtype(op, ty, |d| d.is_integer() || d == DType::Bool, "an integer or bool")
}

/// Integers.
pub(super) fn integer(op: &'static str, ty: &Type) -> Result<(), InferError> {
    dtype(op, ty, DType::is_integer, "an integer")
}

/// An axis of `ty`.
pub(super) fn axis(op: &'static str, axis: usize, ty: &Type) -> Result<(), InferError> {
    if axis < ty.shape.rank() {
        return Ok(());
    }
    Err(InferError::new(op, format!("axis {axis} is out of range for {ty}")))
}

/// Axes of `ty`, strictly increasing.
pub(super) fn increasing_axes(
    op: &'static str,
    axes: &[usize],
    ty: &Type,
) -> Result<(), InferError> {
    if !axes.is_sorted_by(|a, b| a < b) {
        return Err(InferError::new(op, format!("wants increasing axes, got {axes:?}")));
    }
    axes.iter().try_for_each(|&a| axis(op, a, ty))
}

/// One entry of the list attribute `name` for each axis of `ty`.
pub(super) fn per_axis(
    op: &'static str,
    name: &str,
    entries: usize,
    ty: &Type,
) -> Result<(), InferError> {
    let rank = ty.shape.rank();
    if entries == rank {
        return Ok(());
    }
    let plural = if rank == 1 { "" } else { "s" };
    let message = format!("wants {rank} `{name}` value{plural} for {ty}, got {entries}");
    Err(InferError::new(op, message))
}

/// The one result type, if a program can hold it.
pub(super) fn result(op: &'static str, dtype: DType, shape: Shape) -> Result<Types, InferError> {
    let ty = Type { dtype, shape };
    if !ty.fits() {
        return Err(InferError::new(op, format!("{ty} is too large: its size passes an i64")));
    }
    Ok(smallvec![ty])
}
