//! Functions of a float that are arithmetic on its bits.
//!
//! They work on the patterns of the element's own type, so half types take the same
//! way as `f32` and `f64`, without being widened. A pattern without its sign counts
//! up: zero, subnormal and normal numbers, infinity, and above it every NaN.

use kiln_ir::op::{Compare, ReducePrecision};
use kiln_ir::{DType, Scalar};

use super::scalar::widen;
use crate::kernel::expr::BinaryOp;
use crate::kernel::{ExprId, Exprs};

/// Bit patterns of one float type.
struct Patterns {
    float: DType,
    bits: DType,
    /// Stored bits of the significand.
    significand: u32,
}

impl Patterns {
    fn of(float: DType) -> Patterns {
        let (bits, significand) = match float {
            DType::F16 => (DType::U16, 10),
            DType::BF16 => (DType::U16, 7),
            DType::F32 => (DType::U32, 23),
            _ => (DType::U64, 52),
        };
        Patterns { float, bits, significand }
    }

    fn constant(&self, x: &mut Exprs, pattern: u64) -> ExprId {
        x.constant(Scalar::from_bits(self.bits, pattern))
    }

    /// The bits that are not the sign.
    fn magnitude_mask(&self) -> u64 {
        (1 << (self.bits.bits() - 1)) - 1
    }

    /// Bits of the exponent.
    fn exponent(&self) -> u32 {
        self.bits.bits() - 1 - self.significand
    }

    fn infinity(&self) -> u64 {
        ((1 << self.exponent()) - 1) << self.significand
    }

    /// The sign and the rest of a pattern.
    fn parts(&self, x: &mut Exprs, bits: ExprId) -> (ExprId, ExprId) {
        let mask = self.constant(x, self.magnitude_mask());
        let magnitude = x.binary(BinaryOp::And, bits, mask);
        (x.binary(BinaryOp::Xor, bits, magnitude), magnitude)
    }

    fn is_nan(&self, x: &mut Exprs, magnitude: ExprId) -> ExprId {
        let infinity = self.constant(x, self.infinity());
        x.compare(Compare::Gt, magnitude, infinity)
    }
}

/// `a` rounded to fewer digits, or a smaller range, of exponents.
pub(super) fn reduce_precision(x: &mut Exprs, op: ReducePrecision, a: ExprId) -> ExprId {
    let p = Patterns::of(x.dtype(a));
    let bits = x.bitcast(a, p.bits);
    let (sign, magnitude) = p.parts(x, bits);
    let mut kept = magnitude;
    if op.mantissa_bits < p.significand {
        // To nearest even: half a unit less one, and one if the last kept bit is odd, so
        // that a tie carries only then. A carry may reach the exponent, as it should.
        let dropped = p.significand - op.mantissa_bits;
        let amount = p.constant(x, dropped.into());
        let last = x.binary(BinaryOp::ShiftRightLogical, magnitude, amount);
        let one = p.constant(x, 1);
        let odd = x.binary(BinaryOp::And, last, one);
        let below_half = p.constant(x, (1 << (dropped - 1)) - 1);
        let raised = x.binary(BinaryOp::Add, magnitude, below_half);
        let raised = x.binary(BinaryOp::Add, raised, odd);
        let mask = p.constant(x, p.magnitude_mask() & !((1 << dropped) - 1));
        kept = x.binary(BinaryOp::And, raised, mask);
    }
    if op.exponent_bits < p.exponent() {
        let bias = (1u64 << (p.exponent() - 1)) - 1;
        let narrow = (1u64 << (op.exponent_bits - 1)) - 1;
        let infinity = p.constant(x, p.infinity());
        let beyond = p.constant(x, (bias + narrow + 1) << p.significand);
        let overflows = x.compare(Compare::Ge, kept, beyond);
        let zero = p.constant(x, 0);
        let least = p.constant(x, (bias - narrow + 1) << p.significand);
        let underflows = x.compare(Compare::Lt, kept, least);
        kept = x.select(overflows, infinity, kept);
        kept = x.select(underflows, zero, kept);
    }
    let result = x.binary(BinaryOp::Or, sign, kept);
    let nan = p.is_nan(x, magnitude);
    let result = x.select(nan, bits, result);
    x.bitcast(result, p.float)
}

/// The neighbour of `a` in the direction of `b`.
pub(super) fn next_after(x: &mut Exprs, a: ExprId, b: ExprId) -> ExprId {
    let p = Patterns::of(x.dtype(a));
    let (wide_a, wide_b) = (widen(x, a), widen(x, b));
    let (bits, target) = (x.bitcast(a, p.bits), x.bitcast(b, p.bits));
    let (_, magnitude) = p.parts(x, bits);
    let (target_sign, target_magnitude) = p.parts(x, target);
    // One pattern further from zero if the target lies on the side of the sign.
    let wide_zero = x.constant(Scalar::zero(x.dtype(wide_a)));
    let up = x.compare(Compare::Gt, wide_b, wide_a);
    let positive = x.compare(Compare::Gt, wide_a, wide_zero);
    let towards_zero = x.binary(BinaryOp::Xor, up, positive);
    let (one, minus_one) = (p.constant(x, 1), p.constant(x, p.magnitude_mask() * 2 + 1));
    let step = x.select(towards_zero, minus_one, one);
    let next = x.binary(BinaryOp::Add, bits, step);
    let zero = p.constant(x, 0);
    let is_zero = x.compare(Compare::Eq, magnitude, zero);
    let least = x.binary(BinaryOp::Or, target_sign, one);
    let next = x.select(is_zero, least, next);
    let there = x.compare(Compare::Eq, wide_a, wide_b);
    let next = x.select(there, target, next);
    let (nan_a, nan_b) = (p.is_nan(x, magnitude), p.is_nan(x, target_magnitude));
    let either = x.binary(BinaryOp::Or, nan_a, nan_b);
    let nan = p.constant(x, p.infinity() | 1 << (p.significand - 1));
    let next = x.select(either, nan, next);
    x.bitcast(next, p.float)
}
