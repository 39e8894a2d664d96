//! Functions of `f32` that are computed in `f64`.
//!
//! Where a formula cancels, or a plain one in `f32` would need every operation twice,
//! the spare bits of `f64` make the rounding to `f32` the only error that counts; what
//! is computed needs 30 bits or so, which short polynomials give.

use kiln_ir::DType;

use super::build::Formula;
use crate::kernel::{ExprId, Exprs};

/// How many bits a formula in `f64` has to get right.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Digits {
    /// Those of `f32`, and some.
    Single,
    /// All.
    Double,
}

impl Digits {
    /// The first for `f32`, the second for `f64`.
    pub fn choose<T>(self, single: T, double: T) -> T {
        if self == Digits::Single { single } else { double }
    }
}

/// `formula` of the operands in `f64`, rounded to their type.
pub(super) fn in_f64<const N: usize>(
    x: &mut Exprs,
    operands: [ExprId; N],
    formula: impl FnOnce(&mut Formula, [ExprId; N], Digits) -> ExprId,
) -> ExprId {
    let ty = x.dtype(operands[0]);
    let digits = if ty == DType::F32 { Digits::Single } else { Digits::Double };
    let wide = operands.map(|a| x.convert(a, DType::F64));
    let value = formula(&mut Formula { x, ty: DType::F64 }, wide, digits);
    x.convert(value, ty)
}
