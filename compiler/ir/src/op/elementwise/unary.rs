//! Functions of one element.

use super::erf::erf;
use crate::derive::{
    Batch, Derived, NoRule, Results, Rule, batch,
    elementwise::{
        self,
        Direction::{Back, Forward},
    },
};
use crate::form::ScalarFn;
use crate::op::{Attrs, Domain, InferError, Op, OpDef, Sample, Share, Types, check, sample};
use crate::{DType, Form, Literal, Scalar, Type, Value};

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

impl Unary {
    /// The definition, for one element.
    fn apply(self, x: Scalar) -> Scalar {
        match x.as_i128() {
            Some(i) => Scalar::from_i128(x.dtype(), self.integer(x.dtype(), i)),
            None if self == Unary::IsFinite => Scalar::bool(x.as_f64().is_finite()),
            None => Scalar::from_f64(x.dtype(), self.float(x.as_f64())),
        }
    }

    /// Of an integer or `bool`, exactly; the caller wraps.
    fn integer(self, dtype: DType, x: i128) -> i128 {
        match self {
            Unary::Neg => -x,
            Unary::Abs => x.abs(),
            Unary::Sign => x.signum(),
            Unary::Not if dtype == DType::Bool => 1 - x,
            Unary::Not => !x,
            _ => unreachable!("infer gives {} floats only", self.name()),
        }
    }

    /// Of a float, in `f64`; the caller rounds to the element type.
    ///
    /// For `sqrt` of narrower types this is the correctly rounded result, since `f64`
    /// has more than twice their digits and two more (Figueroa 1995). For the rest it
    /// is as close as `f64` functions are, which is well below half a unit.
    fn float(self, x: f64) -> f64 {
        match self {
            Unary::Neg => -x,
            Unary::Abs => x.abs(),
            Unary::Sign if x == 0.0 || x.is_nan() => x,
            Unary::Sign => x.signum(),
            Unary::Floor => x.floor(),
            Unary::Ceil => x.ceil(),
            Unary::Round => x.round_ties_even(),
            Unary::Exp => x.exp(),
            Unary::Log => x.ln(),
            Unary::Sqrt => x.sqrt(),
            Unary::Rsqrt => 1.0 / x.sqrt(),
            Unary::Tanh => x.tanh(),
            Unary::Sin => x.sin(),
            Unary::Cos => x.cos(),
            Unary::Erf => erf(x),
            Unary::Not | Unary::IsFinite => unreachable!("{} is no float", self.name()),
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

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        vec![Literal::from_fn(results[0].clone(), |i| self.apply(operands[0].get(i)))]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::unary(*self, rule, Forward, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::unary(*self, rule, Back, cotangents))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::elementwise(*self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Unary(*self))
    }

    fn samples() -> Vec<Sample> {
        let mut samples = sample::elementwise(&Unary::ALL.map(Op::Unary), 1);
        for op in Unary::ALL {
            // Where the function has its curvature, for accuracy.
            let (low, high) = match op {
                Unary::Exp => (-20.0, 20.0),
                Unary::Log | Unary::Sqrt | Unary::Rsqrt => (0.0, 100.0),
                Unary::Tanh | Unary::Erf => (-6.0, 6.0),
                Unary::Sin | Unary::Cos => (-100.0, 100.0),
                _ => continue,
            };
            for dtype in [DType::F16, DType::F32, DType::F64] {
                let ty = Type::new(dtype, [257]);
                samples.push(sample::alike(op, 1, ty, Domain::Range(low, high)));
            }
        }
        samples.extend(sample::shapes().into_iter().map(|shape| {
            sample::alike(Unary::Sqrt, 1, Type::new(DType::F32, shape), Domain::Small)
        }));
        samples
    }
}
