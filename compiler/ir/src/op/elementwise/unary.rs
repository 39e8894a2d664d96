//! Functions of one element.

use super::complex::Number;
use super::erf::{erf, erf_inv, erfc, narrow};
use super::gamma::{digamma, lgamma};
use super::precise;
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
    /// Magnitude; the least signed integer stays itself, that of a complex number is a
    /// float.
    Abs,
    /// −1, 0 or 1; floats keep −0 and NaN; a complex number over its magnitude.
    Sign,
    /// Bitwise complement; logical for `bool`.
    Not,
    /// How many bits are set.
    PopulationCount,
    /// How many zeros stand above the highest set bit; of 0 the width.
    CountLeadingZeros,
    /// Largest integer not above.
    Floor,
    /// Smallest integer not below.
    Ceil,
    /// Nearest integer, ties to even.
    Round,
    /// Nearest integer, ties away from zero.
    RoundAway,
    /// The integer part: towards zero.
    Trunc,
    /// e to the power.
    Exp,
    /// 2 to the power.
    Exp2,
    /// e to the power, less 1: precise where that is near 0.
    Expm1,
    /// Natural logarithm.
    Log,
    /// Natural logarithm of 1 more: precise where that is near 0.
    Log1p,
    /// Logarithm to the base 2.
    Log2,
    /// Logarithm to the base 10.
    Log10,
    /// Square root, correctly rounded.
    Sqrt,
    /// Reciprocal of the square root.
    Rsqrt,
    /// Cube root; of a negative number, the negative one.
    Cbrt,
    /// `1 / (1 + exp(-x))`.
    Logistic,
    /// Hyperbolic tangent.
    Tanh,
    /// Hyperbolic sine.
    Sinh,
    /// Hyperbolic cosine.
    Cosh,
    /// Inverse of the hyperbolic sine.
    Asinh,
    /// Inverse of the hyperbolic cosine, not negative; NaN below 1.
    Acosh,
    /// Inverse of the hyperbolic tangent; infinite at ±1 and NaN beyond.
    Atanh,
    /// Sine of radians.
    Sin,
    /// Cosine of radians.
    Cos,
    /// Tangent of radians.
    Tan,
    /// Inverse sine, in radians from −π/2 to π/2; NaN beyond ±1.
    Asin,
    /// Inverse cosine, in radians from 0 to π; NaN beyond ±1.
    Acos,
    /// Inverse tangent, in radians from −π/2 to π/2.
    Atan,
    /// Error function.
    Erf,
    /// One less the error function, accurate where that is small.
    Erfc,
    /// Inverse of the error function; NaN beyond ±1.
    ErfInv,
    /// Logarithm of the magnitude of the gamma function; infinite at its poles.
    Lgamma,
    /// Derivative of the logarithm of the gamma function; NaN at its poles.
    Digamma,
    /// Neither infinite nor NaN; `bool`.
    IsFinite,
}

impl Unary {
    /// Every one.
    pub const ALL: [Unary; 40] = [
        Unary::Neg,
        Unary::Abs,
        Unary::Sign,
        Unary::Not,
        Unary::PopulationCount,
        Unary::CountLeadingZeros,
        Unary::Floor,
        Unary::Ceil,
        Unary::Round,
        Unary::RoundAway,
        Unary::Trunc,
        Unary::Exp,
        Unary::Exp2,
        Unary::Expm1,
        Unary::Log,
        Unary::Log1p,
        Unary::Log2,
        Unary::Log10,
        Unary::Sqrt,
        Unary::Rsqrt,
        Unary::Cbrt,
        Unary::Logistic,
        Unary::Tanh,
        Unary::Sinh,
        Unary::Cosh,
        Unary::Asinh,
        Unary::Acosh,
        Unary::Atanh,
        Unary::Sin,
        Unary::Cos,
        Unary::Tan,
        Unary::Asin,
        Unary::Acos,
        Unary::Atan,
        Unary::Erf,
        Unary::Erfc,
        Unary::ErfInv,
        Unary::Lgamma,
        Unary::Digamma,
        Unary::IsFinite,
    ];

    /// The name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            Unary::Neg => "neg",
            Unary::Abs => "abs",
            Unary::Sign => "sign",
            Unary::Not => "not",
            Unary::PopulationCount => "population_count",
            Unary::CountLeadingZeros => "count_leading_zeros",
            Unary::Floor => "floor",
            Unary::Ceil => "ceil",
            Unary::Round => "round",
            Unary::RoundAway => "round_away",
            Unary::Trunc => "trunc",
            Unary::Exp => "exp",
            Unary::Exp2 => "exp2",
            Unary::Expm1 => "expm1",
            Unary::Log => "log",
            Unary::Log1p => "log1p",
            Unary::Log2 => "log2",
            Unary::Log10 => "log10",
            Unary::Sqrt => "sqrt",
            Unary::Rsqrt => "rsqrt",
            Unary::Cbrt => "cbrt",
            Unary::Logistic => "logistic",
            Unary::Tanh => "tanh",
            Unary::Sinh => "sinh",
            Unary::Cosh => "cosh",
            Unary::Asinh => "asinh",
            Unary::Acosh => "acosh",
            Unary::Atanh => "atanh",
            Unary::Sin => "sin",
            Unary::Cos => "cos",
            Unary::Tan => "tan",
            Unary::Asin => "asin",
            Unary::Acos => "acos",
            Unary::Atan => "atan",
            Unary::Erf => "erf",
            Unary::Erfc => "erfc",
            Unary::ErfInv => "erf_inv",
            Unary::Lgamma => "lgamma",
            Unary::Digamma => "digamma",
            Unary::IsFinite => "is_finite",
        }
    }
}

impl Unary {
    /// The definition, for one element.
    fn apply(self, x: Scalar) -> Scalar {
        if x.dtype().is_complex() {
            return self.complex(x);
        }
        match x.as_i128() {
            Some(i) => Scalar::from_i128(x.dtype(), self.integer(x.dtype(), i)),
            None if self == Unary::IsFinite => Scalar::bool(x.as_f64().is_finite()),
            None => Scalar::from_f64(x.dtype(), self.float(x.as_f64())),
        }
    }

    /// Of a complex number, in `f64`, rounded once at the end.
    fn complex(self, x: Scalar) -> Scalar {
        let (dtype, z) = (x.dtype(), Number::of(x));
        let result = match self {
            Unary::Abs => return Scalar::from_f64(dtype.part(), z.abs()),
            Unary::IsFinite => return Scalar::bool(z.is_finite()),
            Unary::Neg => z.neg(),
            Unary::Sign => z.sign(),
            Unary::Exp => z.exp(),
            Unary::Log => z.log(),
            Unary::Sqrt => z.sqrt(),
            Unary::Rsqrt => Number::ONE.over(z.sqrt()),
            Unary::Tanh => z.tanh(),
            Unary::Sin => z.sin(),
            Unary::Cos => z.cos(),
            _ => {
                unreachable!("infer gives {} no complex numbers", self.name())
            }
        };
        result.round(dtype)
    }

    /// Of an integer or `bool`, exactly; the caller wraps.
    fn integer(self, dtype: DType, x: i128) -> i128 {
        match self {
            Unary::Neg => -x,
            Unary::Abs => x.abs(),
            Unary::Sign => x.signum(),
            Unary::Not if dtype == DType::Bool => 1 - x,
            Unary::Not => !x,
            Unary::PopulationCount => pattern(dtype, x).count_ones().into(),
            Unary::CountLeadingZeros => {
                i128::from(pattern(dtype, x).leading_zeros()) - (128 - i128::from(dtype.bits()))
            }
            _ => unreachable!("infer gives {} floats only", self.name()),
        }
    }

    /// Of a float, in `f64`; the caller rounds to the element type.
    ///
    /// For `sqrt` of narrower types this is the correctly rounded result, since `f64`
    /// has more than twice their digits and two more (Figueroa 1995). For the rest it
    /// is within 0.6 units of an `f64`: of the C library's functions only those are
    /// taken that are known to be.
    fn float(self, x: f64) -> f64 {
        match self {
            Unary::Neg => -x,
            Unary::Abs => x.abs(),
            Unary::Sign if x == 0.0 || x.is_nan() => x,
            Unary::Sign => x.signum(),
            Unary::Floor => x.floor(),
            Unary::Ceil => x.ceil(),
            Unary::Round => x.round_ties_even(),
            Unary::RoundAway => x.round(),
            Unary::Trunc => x.trunc(),
            Unary::Exp => x.exp(),
            Unary::Exp2 => x.exp2(),
            Unary::Expm1 => precise::expm1(x).value(),
            Unary::Log => x.ln(),
            Unary::Log1p => precise::log1p(x).value(),
            Unary::Log2 => x.log2(),
            Unary::Log10 => precise::log10(x).value(),
            Unary::Sqrt => x.sqrt(),
            Unary::Rsqrt => precise::rsqrt(x).value(),
            Unary::Cbrt => precise::cbrt(x).value(),
            Unary::Logistic => precise::logistic(x).value(),
            Unary::Tanh => precise::tanh(x).value(),
            Unary::Sinh => precise::sinh(x).value(),
            Unary::Cosh => precise::cosh(x).value(),
            Unary::Asinh => precise::asinh(x).value(),
            Unary::Acosh => precise::acosh(x).value(),
            Unary::Atanh => precise::atanh(x).value(),
            Unary::Sin => x.sin(),
            Unary::Cos => x.cos(),
            Unary::Tan => x.tan(),
            Unary::Asin => x.asin(),
            Unary::Acos => x.acos(),
            Unary::Atan => x.atan(),
            Unary::Erf => erf(x),
            Unary::Erfc => narrow(erfc(x)),
            Unary::ErfInv => erf_inv(x).value(),
            Unary::Lgamma => lgamma(x).value(),
            Unary::Digamma => digamma(x).value(),
            Unary::Not | Unary::PopulationCount | Unary::CountLeadingZeros | Unary::IsFinite => {
                unreachable!("{} is no float", self.name())
            }
        }
    }
}

impl Unary {
    /// The exact result for an `f64`, as a sum of two floats with about 100 bits, times a
    /// power of two: what errors are measured against. `None` where the interpreter has
    /// no more than an `f64` itself.
    pub fn precise(self, x: f64) -> Option<([f64; 2], i32)> {
        let mut power = 0;
        let mut wide = |(value, n)| {
            power = n;
            value
        };
        let exact = match self {
            Unary::Exp => wide(precise::exp(x)),
            Unary::Exp2 => wide(precise::exp2(x)),
            Unary::Logistic => wide(precise::wide_logistic(x)),
            Unary::Expm1 => precise::expm1(x),
            Unary::Log => precise::log(x),
            Unary::Log1p => precise::log1p(x),
            Unary::Log2 => precise::log2(x),
            Unary::Log10 => precise::log10(x),
            Unary::Sqrt => precise::sqrt(x),
            Unary::Rsqrt => precise::rsqrt(x),
            Unary::Cbrt => precise::cbrt(x),
            Unary::Tanh => precise::tanh(x),
            Unary::Sinh => precise::sinh(x),
            Unary::Cosh => precise::cosh(x),
            Unary::Asinh => precise::asinh(x),
            Unary::Acosh => precise::acosh(x),
            Unary::Atanh => precise::atanh(x),
            Unary::Erfc => wide(erfc(x)),
            Unary::ErfInv => erf_inv(x),
            Unary::Lgamma => lgamma(x),
            Unary::Digamma => digamma(x),
            _ => return None,
        };
        Some(([exact.high, exact.low], power))
    }

    /// Whether the derivative is made of ops.
    fn has_slope(self) -> Result<(), NoRule> {
        match self {
            Unary::Digamma => {
                let reason = "its derivative, the trigamma function, is no op";
                Err(NoRule::new("digamma", reason))
            }
            _ => Ok(()),
        }
    }
}

/// The bits of an integer, as a number that is not negative.
fn pattern(dtype: DType, x: i128) -> u128 {
    (x & ((1 << dtype.bits()) - 1)) as u128
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
            Unary::Exp | Unary::Sqrt | Unary::Rsqrt | Unary::IsFinite => {
                check::float_or_complex(op, x)?;
            }
            Unary::PopulationCount | Unary::CountLeadingZeros => check::integer(op, x)?,
            Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::RoundAway
            | Unary::Trunc
            | Unary::Exp2
            | Unary::Expm1
            | Unary::Log
            | Unary::Log1p
            | Unary::Log2
            | Unary::Log10
            | Unary::Cbrt
            | Unary::Logistic
            | Unary::Tanh
            | Unary::Sinh
            | Unary::Cosh
            | Unary::Asinh
            | Unary::Acosh
            | Unary::Atanh
            | Unary::Sin
            | Unary::Cos
            | Unary::Tan
            | Unary::Asin
            | Unary::Acos
            | Unary::Atan
            | Unary::Erf
            | Unary::Erfc
            | Unary::ErfInv
            | Unary::Lgamma
            | Unary::Digamma => check::float(op, x)?,
        }
        let dtype = match self {
            Unary::IsFinite => DType::Bool,
            Unary::Abs => x.dtype.part(),
            _ => x.dtype,
        };
        check::result(op, dtype, x.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        vec![Literal::from_fn(results[0].clone(), |i| self.apply(operands[0].get(i)))]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        self.has_slope()?;
        Ok(elementwise::unary(*self, rule, Forward, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        self.has_slope()?;
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
                Unary::Exp | Unary::Exp2 | Unary::Logistic => (-20.0, 20.0),
                Unary::Expm1 | Unary::Sinh | Unary::Cosh | Unary::Asinh => (-8.0, 8.0),
                Unary::Log1p | Unary::Atanh => (-1.0, 1.0),
                Unary::Acosh => (1.0, 5.0),
                Unary::Log | Unary::Log2 | Unary::Log10 => (0.0, 100.0),
                Unary::Sqrt | Unary::Rsqrt => (0.0, 100.0),
                Unary::Cbrt => (-100.0, 100.0),
                Unary::Tanh | Unary::Erf => (-6.0, 6.0),
                Unary::Sin | Unary::Cos | Unary::Tan => (-100.0, 100.0),
                Unary::Asin | Unary::Acos | Unary::ErfInv => (-1.1, 1.1),
                Unary::Atan => (-10.0, 10.0),
                Unary::Erfc => (-6.0, 28.0),
                // Negative numbers, where terms cancel, are for the sweep of errors.
                Unary::Lgamma | Unary::Digamma => (0.0, 30.0),
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
