//! Elementwise ops: the result at an index depends on the operands at that index.
//!
//! Semantics at the edges (overflow, division by zero, NaN, −0) are in `docs/numerics.md`.

use super::{Attrs, InferError, OpDef, Sample, Share, Types};
use crate::form::ScalarFn;
use crate::{DType, Form, Literal, Type};

/// A function of one element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Unary {
    /// `-x`; integers wrap.
    Neg,
    /// Magnitude; the least signed integer stays itself.
    Abs,
    /// −1, 0 or 1; floats keep −0 and NaN.
    Sign,
    /// Bitwise complement; logical for `bool`.
    Not,
    /// Largest integer not above.
    Floor,
    /// Smallest integer not below.
    Ceil,
    /// Nearest integer, ties to even.
    Round,
    /// e to the power.
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root, correctly rounded.
    Sqrt,
    /// Reciprocal of the square root.
    Rsqrt,
    /// Hyperbolic tangent.
    Tanh,
    /// Sine of radians.
    Sin,
    /// Cosine of radians.
    Cos,
    /// Error function.
    Erf,
    /// Neither infinite nor NaN; `bool`.
    IsFinite,
}

impl Unary {
    /// Every one.
    pub const ALL: [Unary; 16] = [
        Unary::Neg,
        Unary::Abs,
        Unary::Sign,
        Unary::Not,
        Unary::Floor,
        Unary::Ceil,
        Unary::Round,
        Unary::Exp,
        Unary::Log,
        Unary::Sqrt,
        Unary::Rsqrt,
        Unary::Tanh,
        Unary::Sin,
        Unary::Cos,
        Unary::Erf,
        Unary::IsFinite,
    ];

    /// The name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            Unary::Neg => "neg",
            Unary::Abs => "abs",
            Unary::Sign => "sign",
            Unary::Not => "not",
            Unary::Floor => "floor",
            Unary::Ceil => "ceil",
            Unary::Round => "round",
            Unary::Exp => "exp",
            Unary::Log => "log",
            Unary::Sqrt => "sqrt",
            Unary::Rsqrt => "rsqrt",
            Unary::Tanh => "tanh",
            Unary::Sin => "sin",
            Unary::Cos => "cos",
            Unary::Erf => "erf",
            Unary::IsFinite => "is_finite",
        }
    }
}

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

/// A comparison of two elements of one type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Compare {
    /// Equal; false if either is NaN.
    Eq,
    /// Not equal; true if either is NaN.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

impl Compare {
    /// Every one.
    pub const ALL: [Compare; 6] =
        [Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge];

    /// The name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            Compare::Eq => "eq",
            Compare::Ne => "ne",
            Compare::Lt => "lt",
            Compare::Le => "le",
            Compare::Gt => "gt",
            Compare::Ge => "ge",
        }
    }
}

/// `operand0 ? operand1 : operand2`; operand 0 is `bool` and of the same shape.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Select;

/// `min(max(value, low), high)` of operands low, value, high, all of one
/// type and shape. NaN in any gives NaN.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Clamp;

/// Converts elements to another type by the rules of `docs/numerics.md`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Convert {
    /// The element type of the result.
    pub to: DType,
}

impl OpDef for Unary {
    fn name(&self) -> &'static str {
        Unary::name(*self)
    }

    fn attrs(&self) -> Attrs {
        todo!()
    }

    fn parse(_name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        todo!()
    }

    fn infer(&self, _operands: &[&Type]) -> Result<Types, InferError> {
        todo!()
    }

    fn eval(&self, _operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        todo!()
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Unary(*self))
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}

impl OpDef for Binary {
    fn name(&self) -> &'static str {
        Binary::name(*self)
    }

    fn attrs(&self) -> Attrs {
        todo!()
    }

    fn parse(_name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        todo!()
    }

    fn infer(&self, _operands: &[&Type]) -> Result<Types, InferError> {
        todo!()
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

impl OpDef for Compare {
    fn name(&self) -> &'static str {
        Compare::name(*self)
    }

    fn attrs(&self) -> Attrs {
        todo!()
    }

    fn parse(_name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        todo!()
    }

    fn infer(&self, _operands: &[&Type]) -> Result<Types, InferError> {
        todo!()
    }

    fn eval(&self, _operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        todo!()
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Compare(*self))
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}

impl OpDef for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn attrs(&self) -> Attrs {
        todo!()
    }

    fn parse(_name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        todo!()
    }

    fn infer(&self, _operands: &[&Type]) -> Result<Types, InferError> {
        todo!()
    }

    fn eval(&self, _operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        todo!()
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Select)
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}

impl OpDef for Clamp {
    fn name(&self) -> &'static str {
        "clamp"
    }

    fn attrs(&self) -> Attrs {
        todo!()
    }

    fn parse(_name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        todo!()
    }

    fn infer(&self, _operands: &[&Type]) -> Result<Types, InferError> {
        todo!()
    }

    fn eval(&self, _operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        todo!()
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Clamp)
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}

impl OpDef for Convert {
    fn name(&self) -> &'static str {
        "convert"
    }

    fn attrs(&self) -> Attrs {
        todo!()
    }

    fn parse(_name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        todo!()
    }

    fn infer(&self, _operands: &[&Type]) -> Result<Types, InferError> {
        todo!()
    }

    fn eval(&self, _operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        todo!()
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Convert(self.to))
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}
