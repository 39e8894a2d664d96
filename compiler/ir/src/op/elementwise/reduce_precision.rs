//! Floats rounded to fewer digits or a smaller range, in their own type.

use crate::derive::{
    Batch, Derived, NoRule, Results, Rule, batch,
    elementwise::{
        self,
        Direction::{Back, Forward},
    },
};
use crate::form::ScalarFn;
use crate::op::{Attrs, Domain, InferError, OpDef, Sample, Share, Types, check, sample};
use crate::{DType, Form, Literal, Scalar, Type, Value};

/// What a float would be after conversion to a format of `exponent_bits` and
/// `mantissa_bits`, and back.
///
/// As StableHLO has it: the significand rounds to nearest even; then what is too large
/// for the format becomes an infinity, and what is below its normal numbers a zero, of
/// the same sign. Bits that the type itself does not have change nothing, its own
/// subnormal numbers included. NaN stays NaN.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReducePrecision {
    /// Bits of the exponent, at least 1.
    pub exponent_bits: u32,
    /// Stored bits of the significand.
    pub mantissa_bits: u32,
}

/// Stored bits of the significand, and the exponent of the least normal number.
fn format(dtype: DType) -> (u32, i32) {
    match dtype {
        DType::F16 => (10, -14),
        DType::BF16 => (7, -126),
        DType::F32 => (23, -126),
        DType::F64 => (52, -1022),
        _ => unreachable!("{dtype} is no float"),
    }
}

impl ReducePrecision {
    /// The definition, for one element: by arithmetic, where lowering moves bits.
    fn apply(self, dtype: DType, x: f64) -> f64 {
        if x.is_nan() || x.is_infinite() || x == 0.0 {
            return x;
        }
        let (digits, least) = format(dtype);
        // 2^exponent <= |x| < 2^(exponent + 1), but no less than the type's least.
        let exponent = (exponent_of(x)).max(least);
        let kept = digits.min(self.mantissa_bits);
        // One unit of the last place that is kept. Scaling by it is exact, as are both
        // halves of it, which never leave the range of an f64.
        let unit = exponent - kept as i32;
        let scaled = scale(x, -unit);
        // With no stored bits the last bit kept is the exponent's: 1.5 times an even
        // power, as the type counts them, goes down.
        let even = (exponent - least) % 2 == 1;
        let whole = if kept == 0 && scaled.abs() == 1.5 && even {
            1f64.copysign(x)
        } else {
            scaled.round_ties_even()
        };
        let rounded = scale(whole, unit);
        // The type's own range ends where the conversion back would round to infinity.
        let narrow = self.exponent_bits < dtype.bits() - 1 - digits;
        if !narrow {
            return if exponent_of(rounded) > -least + 1 {
                f64::INFINITY.copysign(x)
            } else {
                rounded
            };
        }
        let bias = (1i32 << (self.exponent_bits - 1)) - 1;
        if rounded == 0.0 || exponent_of(rounded) <= -bias {
            0f64.copysign(x)
        } else if exponent_of(rounded) > bias {
            f64::INFINITY.copysign(x)
        } else {
            rounded
        }
    }
}

/// The exponent of the leading bit of a number that is not 0.
fn exponent_of(x: f64) -> i32 {
    if x.is_infinite() {
        return 1024;
    }
    let bits = x.abs().to_bits();
    match (bits >> 52) as i32 {
        0 => -1011 - bits.leading_zeros() as i32,
        biased => biased - 1023,
    }
}

/// `x * 2^n` in steps that are each in range.
fn scale(mut x: f64, mut n: i32) -> f64 {
    while n != 0 {
        let step = n.clamp(-1000, 1000);
        x *= 2f64.powi(step);
        n -= step;
    }
    x
}

impl OpDef for ReducePrecision {
    fn name(&self) -> &'static str {
        "reduce_precision"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
            .int("exponent_bits", self.exponent_bits as usize)
            .int("mantissa_bits", self.mantissa_bits as usize)
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        let mut take = |name: &str| {
            let bits = attrs.take_int(name)?;
            u32::try_from(bits).map_err(|_| format!("attribute `{name}` is too large"))
        };
        (name == "reduce_precision").then(|| {
            Ok(ReducePrecision {
                exponent_bits: take("exponent_bits")?,
                mantissa_bits: take("mantissa_bits")?,
            })
        })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x] = check::operands(op, operands)?;
        check::float(op, x)?;
        if self.exponent_bits == 0 {
            return Err(InferError::new(op, "wants at least 1 exponent bit, got 0"));
        }
        check::result(op, x.dtype, x.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let dtype = results[0].dtype;
        vec![Literal::from_fn(results[0].clone(), |i| {
            Scalar::from_f64(dtype, self.apply(dtype, operands[0].get(i).as_f64()))
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::reduce_precision(*self, rule, Forward, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::reduce_precision(*self, rule, Back, cotangents))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::elementwise(*self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::ReducePrecision(*self))
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for dtype in DType::ALL.into_iter().filter(|d| d.is_float()) {
            // bf16, f16, f32, small formats, none of one part, more than there is.
            let formats =
                [(8, 7), (5, 10), (8, 23), (4, 3), (5, 2), (2, 1), (1, 5), (5, 0), (11, 60)];
            for (exponent_bits, mantissa_bits) in formats {
                let op = ReducePrecision { exponent_bits, mantissa_bits };
                samples.push(sample::one(op, Type::new(dtype, [257])));
                samples.push(sample::alike(op, 1, Type::new(dtype, [33]), Domain::Small));
            }
        }
        let op = ReducePrecision { exponent_bits: 5, mantissa_bits: 10 };
        let shaped = sample::shaped(DType::F32);
        samples.extend(shaped.map(|ty| sample::alike(op, 1, ty, Domain::Small)));
        samples
    }
}
