//! Functions of two elements of one type.

use crate::form::ScalarFn;
use crate::op::{Attrs, InferError, OpDef, Sample, Share, Types, check};
use crate::{Form, Literal, Type};

/// A function of two elements of one type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Binary {
    /// Sum; integers wrap; `or` for `bool`.
    Add,
    /// Difference; integers wrap.
    Sub,
    /// Product; integers wrap; `and` for `bool`.
    Mul,
    /// Quotient; integers truncate, x/0 is all ones, MIN/−1 is MIN.
    Div,
    /// Remainder with the sign of the dividend; x rem 0 is x, MIN rem −1 is 0.
    Rem,
    /// Power; integers wrap, a negative exponent gives 0 but for bases 1 and −1.
    Pow,
    /// The lesser; NaN if either is.
    Min,
    /// The greater; NaN if either is.
    Max,
    /// Bitwise; logical for `bool`.
    And,
    /// Bitwise; logical for `bool`.
    Or,
    /// Bitwise; logical for `bool`.
    Xor,
    /// Shift; 0 when the amount is negative or at least the width.
    ShiftLeft,
    /// Shift filling with 0; 0 when the amount is out of range.
    ShiftRightLogical,
    /// Shift filling with the sign; all sign when the amount is out of range.
    ShiftRightArithmetic,
}

impl Binary {
    /// Every one.
    pub const ALL: [Binary; 14] = [
        Binary::Add,
        Binary::Sub,
        Binary::Mul,
        Binary::Div,
        Binary::Rem,
        Binary::Pow,
        Binary::Min,
        Binary::Max,
        Binary::And,
        Binary::Or,
        Binary::Xor,
        Binary::ShiftLeft,
        Binary::ShiftRightLogical,
        Binary::ShiftRightArithmetic,
    ];

    /// The name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Sub => "sub",
            Binary::Mul => "mul",
            Binary::Div => "div",
            Binary::Rem => "rem",
            Binary::Pow => "pow",
            Binary::Min => "min",
            Binary::Max => "max",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Xor => "xor",
            Binary::ShiftLeft => "shift_left",
            Binary::ShiftRightLogical => "shift_right_logical",
            Binary::ShiftRightArithmetic => "shift_right_arithmetic",
        }
    }
}

impl OpDef for Binary {
    fn name(&self) -> &'static str {
        Binary::name(*self)
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    fn parse(name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        Binary::ALL.into_iter().find(|op| op.name() == name).map(Ok)
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [a, b] = check::operands(op, operands)?;
        check::same(op, a, b)?;
        match self {
            Binary::Add | Binary::Mul | Binary::Min | Binary::Max => {}
            Binary::Sub | Binary::Div | Binary::Rem | Binary::Pow => check::number(op, a)?,
            Binary::And | Binary::Or | Binary::Xor => check::bits(op, a)?,
            Binary::ShiftLeft | Binary::ShiftRightLogical | Binary::ShiftRightArithmetic => {
                check::integer(op, a)?;
            }
        }
        check::result(op, a.dtype, a.shape.clone())
    }

    fn eval(&self, _operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        todo!()
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Binary(*self))
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}
