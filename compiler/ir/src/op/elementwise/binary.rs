//! Functions of two elements of one type.

use super::complex::Number;
use super::order::{greater, lesser};
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
    /// Shift filling with the top bit, whatever the type calls it; all top bit when
    /// the amount is out of range.
    ShiftRightArithmetic,
    /// The angle of the point (second, first), in radians from −π to π.
    Atan2,
    /// The next float after the first in the direction of the second, which it is where
    /// the two are equal. After a zero that is a subnormal number.
    NextAfter,
}

impl Binary {
    /// Every one.
    pub const ALL: [Binary; 16] = [
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
        Binary::Atan2,
        Binary::NextAfter,
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
            Binary::Atan2 => "atan2",
            Binary::NextAfter => "nextafter",
        }
    }
}

impl Binary {
    /// The definition, for one element of each operand.
    pub(in crate::op) fn apply(self, a: Scalar, b: Scalar) -> Scalar {
        let dtype = a.dtype();
        if dtype.is_complex() {
            return self.complex(dtype, Number::of(a), Number::of(b));
        }
        match (self, a.as_i128(), b.as_i128()) {
            (Binary::Min, ..) => lesser(a, b),
            (Binary::Max, ..) => greater(a, b),
            (Binary::NextAfter, ..) => next_after(a, b),
            (_, Some(i), Some(j)) => Scalar::from_i128(dtype, self.integer(dtype, i, j)),
            _ => Scalar::from_f64(dtype, self.float(a.as_f64(), b.as_f64())),
        }
    }

    /// Of complex numbers.
    fn complex(self, dtype: DType, a: Number, b: Number) -> Scalar {
        match self {
            Binary::Add => a.plus(b).round(dtype),
            Binary::Sub => a.plus(b.neg()).round(dtype),
            // Each operation rounds, so that this is the definition to the bit.
            Binary::Mul => a.times_rounded(b, dtype).round(dtype),
            Binary::Div => a.over(b).round(dtype),
            Binary::Pow => a.pow(b).round(dtype),
            _ => unreachable!("infer gives {} no complex numbers", self.name()),
        }
    }

    /// Of integers or `bool`s, exact in the low 64 bits; the caller wraps.
    fn integer(self, dtype: DType, a: i128, b: i128) -> i128 {
        let width = dtype.bits() as i128;
        let in_range = (0..width).contains(&b);
        match self {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a.wrapping_mul(b),
            Binary::Div if b == 0 => -1,
            Binary::Div => a / b,
            Binary::Rem if b == 0 => a,
            Binary::Rem => a % b,
            Binary::Pow => integer_pow(a, b),
            Binary::And => a & b,
            Binary::Or => a | b,
            Binary::Xor => a ^ b,
            Binary::ShiftLeft if in_range => a << b,
            Binary::ShiftRightLogical if in_range => (a & ((1 << width) - 1)) >> b,
            Binary::ShiftLeft | Binary::ShiftRightLogical => 0,
            Binary::ShiftRightArithmetic => {
                // The element's bits moved to the top, so that its sign is the word's.
                let top = a << (128 - width);
                top >> (128 - width + if in_range { b } else { width - 1 })
            }
            Binary::Min | Binary::Max | Binary::NextAfter => {
                unreachable!("{} is chosen, not computed", self.name())
            }
            Binary::Atan2 => unreachable!("infer gives {} no integers", self.name()),
        }
    }

    /// Of floats, in `f64`; the caller rounds to the element type.
    ///
    /// For sums, differences, products and quotients of narrower types this is the
    /// correctly rounded result, since `f64` has more than twice their digits and two
    /// more (Figueroa 1995). A remainder is exact in every type.
    fn float(self, a: f64, b: f64) -> f64 {
        match self {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a * b,
            Binary::Div => a / b,
            Binary::Rem => a % b,
            Binary::Pow => a.powf(b),
            Binary::Atan2 => a.atan2(b),
            _ => unreachable!("infer gives {} no floats", self.name()),
        }
    }
}

impl Binary {
    /// Whether there is a derivative worth the name.
    fn has_slope(self) -> Result<(), NoRule> {
        match self {
            Binary::NextAfter => {
                Err(NoRule::new("nextafter", "it counts floats, which no derivative describes"))
            }
            _ => Ok(()),
        }
    }
}

/// The neighbour of `a` on the side of `b`, by counting bit patterns.
fn next_after(a: Scalar, b: Scalar) -> Scalar {
    let dtype = a.dtype();
    let (x, y) = (a.as_f64(), b.as_f64());
    if x.is_nan() || y.is_nan() {
        return Scalar::from_f64(dtype, f64::NAN);
    }
    if x == y {
        return b;
    }
    if x == 0.0 {
        let sign = u64::from(y < 0.0) << (dtype.bits() - 1);
        return Scalar::from_bits(dtype, sign | 1);
    }
    // Patterns of one sign count away from zero.
    let away = (y > x) == (x > 0.0);
    Scalar::from_bits(dtype, if away { a.bits() + 1 } else { a.bits() - 1 })
}

/// `base` to the power `exponent`, exact in the low 64 bits.
fn integer_pow(base: i128, exponent: i128) -> i128 {
    match (base, exponent) {
        (_, 0) | (1, _) => 1,
        (-1, e) if e % 2 == 0 => 1,
        (-1, _) => -1,
        (_, e) if e < 0 => 0,
        _ => {
            // Square and multiply, from the exponent's top bit down.
            let bits = 128 - exponent.leading_zeros();
            (0..bits).rev().fold(1i128, |power, bit| {
                let square = power.wrapping_mul(power);
                if exponent >> bit & 1 == 1 { square.wrapping_mul(base) } else { square }
            })
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
            Binary::Add | Binary::Mul => {}
            Binary::Min | Binary::Max => check::ordered(op, a)?,
            Binary::Sub | Binary::Div => check::number(op, a)?,
            Binary::Rem | Binary::Pow => check::real_number(op, a)?,
            Binary::And | Binary::Or | Binary::Xor => check::bits(op, a)?,
            Binary::ShiftLeft | Binary::ShiftRightLogical | Binary::ShiftRightArithmetic => {
                check::integer(op, a)?;
            }
            Binary::Atan2 | Binary::NextAfter => check::float(op, a)?,
        }
        check::result(op, a.dtype, a.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        vec![Literal::from_fn(results[0].clone(), |i| {
            self.apply(operands[0].get(i), operands[1].get(i))
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        self.has_slope()?;
        Ok(elementwise::binary(*self, rule, Forward, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        self.has_slope()?;
        Ok(elementwise::binary(*self, rule, Back, cotangents))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::elementwise(*self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Binary(*self))
    }

    fn samples() -> Vec<Sample> {
        let mut samples = sample::elementwise(&Binary::ALL.map(Op::Binary), 2);
        for op in Binary::ALL {
            // Operands of like size: quotients and shift amounts that matter, ties.
            for dtype in [DType::I8, DType::U32, DType::F32, DType::F64, DType::C64, DType::C128] {
                let ty = Type::new(dtype, [129]);
                let domain = match op {
                    Binary::Pow if dtype.is_float() => Domain::Range(0.1, 4.0),
                    _ => Domain::Small,
                };
                if op.infer(&[&ty, &ty]).is_ok() {
                    samples.push(sample::alike(op, 2, ty, domain));
                }
            }
        }
        samples.extend(sample::shapes().into_iter().map(|shape| {
            sample::alike(Binary::Add, 2, Type::new(DType::F32, shape), Domain::Small)
        }));
        samples
    }
}
