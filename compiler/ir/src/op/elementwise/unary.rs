//! Functions of one element.

use crate::form::ScalarFn;
use crate::op::{Attrs, InferError, OpDef, Sample, Share, Types, check};
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

impl OpDef for Unary {
    fn name(&self) -> &'static str {
        Unary::name(*self)
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    fn parse(name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        Unary::ALL.into_iter().find(|op| op.name() == name).map(Ok)
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x] = check::operands(op, operands)?;
        match self {
            Unary::Neg | Unary::Abs | Unary::Sign => check::number(op, x)?,
            Unary::Not => check::bits(op, x)?,
            Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::Exp
            | Unary::Log
            | Unary::Sqrt
            | Unary::Rsqrt
            | Unary::Tanh
            | Unary::Sin
            | Unary::Cos
            | Unary::Erf
            | Unary::IsFinite => check::float(op, x)?,
        }
        let dtype = if *self == Unary::IsFinite { DType::Bool } else { x.dtype };
        check::result(op, dtype, x.shape.clone())
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
