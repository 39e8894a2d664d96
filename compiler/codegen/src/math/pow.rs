//! Powers.
//!
//! `f32`: `|a|^b = 2^(b * log2 |a|)` in `f64`, whose spare bits make the one rounding
//! to `f32` the only error that counts. `f64`: the same with the logarithm and its
//! product in twice the precision. The cases of C's `pow` are put right afterwards.
//!
//! Integers: by squaring, one step for each bit of the exponent.

use kiln_ir::op::Compare;
use kiln_ir::{DType, Scalar};

use super::build::Formula;
use super::log;
use super::pair::{Pair, fast_sum, product, times};
use crate::kernel::expr::{BinaryOp, UnaryOp};
use crate::kernel::{ExprId, Exprs};

/// `log2((1 + u) / (1 - u)) / u` in `u^2`, up to u = 0.1716; error 2^-45.
const LOG2_SHORT: [f64; 6] = [
    2.8853900817778495,
    0.9617966941142575,
    0.5770779421045045,
    0.4122092782646644,
    0.31990464801295937,
    0.28291501100582145,
];
/// `2^r` on [-1/2, 1/2]; error 2^-34.
const EXP2_SHORT: [f64; 8] = [
    0.9999999999614774,
    0.6931471807292547,
    0.24022651200129505,
    0.055504103520156334,
    0.009618027008443093,
    0.0013333923037876889,
    0.00015469367019533984,
    1.5201950972766987e-05,
];

/// `a^b` for floats.
pub(crate) fn pow(x: &mut Exprs, a: ExprId, b: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let magnitude = x.unary(UnaryOp::Abs, a);
    let value = match ty {
        DType::F32 => {
            let (wide_a, wide_b) = (x.convert(magnitude, DType::F64), x.convert(b, DType::F64));
            let mut f = Formula { x, ty: DType::F64 };
            let value = short(&mut f, wide_a, wide_b);
            f.x.convert(value, DType::F32)
        }
        _ => {
            let mut f = Formula { x, ty };
            long(&mut f, magnitude, b)
        }
    };
    special(&mut Formula { x, ty }, a, b, value)
}

/// `a^b` for `a` not negative, to 34 bits.
fn short(f: &mut Formula, a: ExprId, b: ExprId) -> ExprId {
    let (e, m) = log::split(f, a);
    let one = f.c(1.0);
    let (s, below) = (f.sub(m, one), f.add(m, one));
    let u = f.div(s, below);
    let z = f.mul(u, u);
    let q = f.horner(z, &LOG2_SHORT);
    let log = f.fma(u, q, e);
    let log = at_ends(f, a, log, f64::NEG_INFINITY, f64::INFINITY);
    let exponent = f.mul(b, log);
    // Far beyond what f32 holds, and n stays in range.
    let exponent = f.at_least(exponent, -300.0);
    let exponent = f.at_most(exponent, 300.0);
    let scaled = exp2_short(f, exponent);
    // NaN must survive the integer addition of the exponent.
    let ordered = f.compare(Compare::Eq, exponent, exponent);
    f.select(ordered, scaled, exponent)
}

/// `2^a` in `f64` to 34 bits, for results that are normal numbers. NaN may turn into
/// anything.
pub(super) fn exp2_short(f: &mut Formula, a: ExprId) -> ExprId {
    let (r, n) = f.fraction(a, 1.0);
    let p = f.horner(r, &EXP2_SHORT);
    f.scale_normal(p, n)
}

/// The value, but `at_zero` where `a` is 0 and `at_infinity` where it is infinite.
fn at_ends(f: &mut Formula, a: ExprId, value: ExprId, at_zero: f64, at_infinity: f64) -> ExprId {
    let (zero, infinity) = (f.c(0.0), f.c(f64::INFINITY));
    let (is_zero, finite) = (f.compare(Compare::Eq, a, zero), f.compare(Compare::Lt, a, infinity));
    let (low, high) = (f.c(at_zero), f.c(at_infinity));
    // NaN is not below infinity; it stays NaN as the sum of itself.
    let beyond = f.add(a, high);
    let value = f.select(finite, value, beyond);
    f.select(is_zero, low, value)
}

/// `2 atanh(u) / u = 2 + z * (2/3 + z * (2/5 + ..))`: 2/3 in two parts, then the rest.
const TWO_THIRDS: [f64; 2] = [0.6666666666666666, 3.700743415417188e-17];
const REST: [f64; 7] = [
    0.4000000000000003,
    0.285714285713363,
    0.22222222272014286,
    0.18181808111090733,
    0.15385583966615943,
    0.132856746161899,
    0.1291687865027589,
];
const LOG2_E: [f64; 2] = [std::f64::consts::LOG2_E, 2.0355273740931033e-17];
const LN_2: [f64; 2] = [std::f64::consts::LN_2, 2.3190468138462996e-17];

/// `a^b` for `a` not negative, in `f64`.
fn long(f: &mut Formula, a: ExprId, b: ExprId) -> ExprId {
    // log(m) = 2u + u*z*(2/3 + z*..), u = (m - 1) / (m + 1).
    let (e, m) = log::split(f, a);
    let one = f.c(1.0);
    let s = f.sub(m, one);
    // m + 1 may need a bit more than fits; m is below √2, so 1 is not always larger.
    let below = f.add(m, one);
    let taken = f.sub(below, one);
    let below_low = f.sub(m, taken);
    let high = f.div(s, below);
    let minus = f.neg(high);
    let rest = f.fma(minus, below, s);
    let rest = f.fma(minus, below_low, rest);
    let low = f.div(rest, below);
    let u = Pair { high, low };
    let z = times(f, u, u);
    let q = f.horner(z.high, &REST);
    let (third, third_low) = (f.c(TWO_THIRDS[0]), f.c(TWO_THIRDS[1]));
    let tail = f.fma(z.high, q, third_low);
    let q = fast_sum(f, third, tail);
    let cubic = times(f, u, z);
    let cubic = times(f, cubic, q);
    let two = f.c(2.0);
    let (double, double_low) = (f.mul(u.high, two), f.mul(u.low, two));
    let sum = fast_sum(f, double, cubic.high);
    let low = f.add(double_low, cubic.low);
    let low = f.add(sum.low, low);
    let ln = fast_sum(f, sum.high, low);
    // log2(a) = e + ln * log2(e).
    let factor = Pair { high: f.c(LOG2_E[0]), low: f.c(LOG2_E[1]) };
    let fraction = times(f, ln, factor);
    let log = fast_sum(f, e, fraction.high);
    // Where e is 0 the fraction is larger, but then the sum is exact.
    let log_low = f.add(log.low, fraction.low);
    let log_high = at_ends(f, a, log.high, f64::NEG_INFINITY, f64::INFINITY);

    let exponent = product(f, b, log_high);
    let exponent_low = f.fma(b, log_low, exponent.low);
    let high = f.at_least(exponent.high, -1100.0);
    let high = f.at_most(high, 1100.0);
    let (r, n) = f.fraction(high, 1.0);
    // Where the product overflowed or was cut, its low part means nothing.
    let (size, limit, zero) = (f.abs(exponent.high), f.c(1100.0), f.c(0.0));
    let inside = f.compare(Compare::Lt, size, limit);
    let r_low = f.select(inside, exponent_low, zero);
    let r = fast_sum(f, r, r_low);
    // 2^r = exp(r * ln 2).
    let (ln2, ln2_low) = (f.c(LN_2[0]), f.c(LN_2[1]));
    let t = product(f, r.high, ln2);
    let low = f.fma(r.high, ln2_low, t.low);
    let low = f.fma(r.low, ln2, low);
    let q = f.horner(t.high, &super::exp::TAIL_F64);
    let square = f.mul(t.high, t.high);
    // exp(t + low) = 1 + (t + (low + low*t + t^2 * q)).
    let small = f.fma(low, t.high, low);
    let small = f.fma(square, q, small);
    let p = f.add(t.high, small);
    let p = f.add(one, p);
    f.scale(p, n)
}

/// What C's `pow` says about zeros, ones, infinities, NaN and negative bases, given
/// `|a|^b`.
fn special(f: &mut Formula, a: ExprId, b: ExprId, value: ExprId) -> ExprId {
    let (zero, one, half) = (f.c(0.0), f.c(1.0), f.c(0.5));
    let magnitude = f.abs(a);
    // 1^±inf and (-1)^±inf, where the logarithm's 0 times infinity is NaN.
    let unit = f.compare(Compare::Eq, magnitude, one);
    let infinity = f.c(f64::INFINITY);
    let size = f.abs(b);
    let infinite = f.compare(Compare::Eq, size, infinity);
    let unit = f.and(unit, infinite);
    let value = f.select(unit, one, value);
    // A negative base: NaN unless b is an integer, and the sign of an odd power.
    let floor = f.x.unary(UnaryOp::Floor, b);
    let integer = f.compare(Compare::Eq, floor, b);
    let halved = f.mul(b, half);
    let floor = f.x.unary(UnaryOp::Floor, halved);
    let uneven = f.compare(Compare::Ne, floor, halved);
    let odd = f.and(integer, uneven);
    let bits = f.bits_of(a);
    let top = f.bits_constant(1 << (f.layout().bits.bits() - 1));
    let sign = f.and(bits, top);
    let none = f.bits_constant(0);
    let flip = f.select(odd, sign, none);
    let bits = f.bits_of(value);
    let bits = f.xor(bits, flip);
    let value = f.float_of(bits);
    let negative = f.compare(Compare::Lt, a, zero);
    let minus_infinity = f.c(f64::NEG_INFINITY);
    let bounded = f.compare(Compare::Gt, a, minus_infinity);
    let fraction = f.x.unary(UnaryOp::Not, integer);
    let complex = f.and(negative, bounded);
    let complex = f.and(complex, fraction);
    let nan = f.c(f64::NAN);
    let value = f.select(complex, nan, value);
    // Whatever the other is, NaN included.
    let is_one = f.compare(Compare::Eq, a, one);
    let is_zero = f.compare(Compare::Eq, b, zero);
    let either = f.or(is_one, is_zero);
    f.select(either, one, value)
}

/// `a^b` for integers; wraps. A negative exponent gives 0 but for the bases 1 and -1.
pub(crate) fn integer_pow(x: &mut Exprs, a: ExprId, b: ExprId) -> ExprId {
    let dtype = x.dtype(a);
    let signed = dtype.is_signed_integer();
    let (zero, one) = (x.integer(dtype, 0), x.integer(dtype, 1));
    let bits = dtype.bits() - u32::from(signed);
    let (mut result, mut power) = (one, a);
    for bit in 0..bits {
        let mask = x.constant(Scalar::from_bits(dtype, 1 << bit));
        let set = x.binary(BinaryOp::And, b, mask);
        let set = x.compare(Compare::Ne, set, zero);
        let product = x.binary(BinaryOp::Mul, result, power);
        result = x.select(set, product, result);
        if bit + 1 < bits {
            power = x.binary(BinaryOp::Mul, power, power);
        }
    }
    if !signed {
        return result;
    }
    let minus_one = x.integer(dtype, -1);
    let odd = x.binary(BinaryOp::And, b, one);
    let odd = x.compare(Compare::Ne, odd, zero);
    let of_minus_one = x.select(odd, minus_one, one);
    let (is_one, is_minus_one) =
        (x.compare(Compare::Eq, a, one), x.compare(Compare::Eq, a, minus_one));
    let inverse = x.select(is_minus_one, of_minus_one, zero);
    let inverse = x.select(is_one, one, inverse);
    let negative = x.compare(Compare::Lt, b, zero);
    x.select(negative, inverse, result)
}
