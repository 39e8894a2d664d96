//! Logarithms.
//!
//! `a = 2^e * m` with `m` in [1/√2, √2), so that `e` is 0 around 1 and nothing
//! cancels there. With `s = m - 1`, which is exact,
//!
//! ```text
//! log(a) = e*ln 2 + s + (log(1 + s) - s)
//! ```
//!
//! `ln 2` is split so that `e` times its high part is exact; the sum with `s` keeps
//! its rounding error, which joins the small terms. Other bases multiply `s` and the
//! tail by a factor, `s` exactly.
//!
//! `log1p` and the inverse hyperbolic functions know their argument less 1 more
//! precisely than the argument. What 1 + y rounds away is added to `s`, and what `y`
//! itself lacks counts by the derivative.

use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::build::{Formula, Layout};
use super::pair::{fast_sum, product};
use crate::kernel::expr::BinaryOp;
use crate::kernel::{ExprId, Exprs};

/// `(log(1 + f) - f + f^2/2) / f^3` on [1/√2 - 1, √2 - 1].
const TAIL_F32: [f64; 8] = [
    0.33333325386047363,
    -0.2500070035457611,
    0.20001468062400818,
    -0.16627201437950134,
    0.14199742674827576,
    -0.13124755024909973,
    0.12758822739124298,
    -0.07716915756464005,
];
/// `(2 atanh(s)/s - 2) / s^2` in `s^2`, up to s = 0.1716.
const ATANH_F64: [f64; 8] = [
    0.6666666666666666,
    0.40000000000001285,
    0.2857142857059777,
    0.22222222431379596,
    0.18181791951400322,
    0.1538641739111595,
    0.13264501473290924,
    0.13127161659825948,
];
const LN2_F32: [f64; 2] = [0.693145751953125, 1.428606765330187e-06];
const LN2_F64: [f64; 2] = [0.6931471805601177, -1.7239444525614835e-13];

/// A base: `log(a) = e * power + (s + tail) * factor`, constants as sums of two floats.
struct Base {
    /// The logarithm of 2, so short that an exponent times the first is exact.
    power: [f64; 2],
    /// What natural logarithms are multiplied by.
    factor: [f64; 2],
}

const BASE_2: [Base; 2] = [
    Base { power: [1.0, 0.0], factor: [1.4426950216293335, 1.925963033500011e-08] },
    Base { power: [1.0, 0.0], factor: [std::f64::consts::LOG2_E, 2.0355273740931033e-17] },
];
const BASE_10: [Base; 2] = [
    Base {
        power: [0.301025390625, 4.605039066518657e-06],
        factor: [0.4342944920063019, -1.0103049952192578e-08],
    },
    Base {
        power: [0.3010299956640665, -8.532344317057107e-14],
        factor: [std::f64::consts::LOG10_E, 1.098319650216765e-17],
    },
];

/// `a = 2^e * m`, `m` in [1/√2, √2): returns `(e, m)` for positive finite `a`.
pub(crate) fn split(f: &mut Formula, a: ExprId) -> (ExprId, ExprId) {
    let Layout { significand, bias, .. } = *f.layout();
    let least = f.c(2f64.powi(1 - bias as i32));
    let tiny = f.compare(Compare::Lt, a, least);
    let up = f.c(2f64.powi(significand as i32));
    let raised = f.mul(a, up);
    let a = f.select(tiny, raised, a);
    let (exponent, m) = split_normal(f, a);
    let e = float_exponent(f, exponent, bias);
    // What was raised has as much less.
    let (none, raised) = (f.c(0.0), f.c(significand as f64));
    let offset = f.select(tiny, raised, none);
    (f.sub(e, offset), m)
}

/// The same for a normal number; the exponent as an integer, `bias` too large.
fn split_normal(f: &mut Formula, a: ExprId) -> (ExprId, ExprId) {
    let Layout { significand, bias, .. } = *f.layout();
    // Moving the exponent's carry from 1 to 1/√2: u has the exponent of m * 2^(e+bias).
    let (one, root_half) = ((bias << significand) as u64, root_half(f.layout()));
    let shift = f.bits_constant(one - root_half);
    let bits = f.bits_of(a);
    let u = f.add(bits, shift);
    let exponent = f.shr(u, significand);
    let mask = f.bits_constant((1 << significand) - 1);
    let fraction = f.and(u, mask);
    let base = f.bits_constant(root_half);
    let m = f.add(fraction, base);
    (exponent, f.float_of(m))
}

/// A small integer that is not negative, as a float, less `offset`.
fn float_exponent(f: &mut Formula, exponent: ExprId, offset: i64) -> ExprId {
    let Layout { significand, bias, .. } = *f.layout();
    // 2^significand + exponent as a float, then minus everything else.
    let carrier = f.bits_constant(((bias + significand) << significand) as u64);
    let carried = f.or(exponent, carrier);
    let carried = f.float_of(carried);
    let unit = f.c(2f64.powi(significand as i32) + offset as f64);
    f.sub(carried, unit)
}

/// The bits of 1/√2, rounded down.
fn root_half(layout: &Layout) -> u64 {
    if layout.significand == 23 { 0x3f35_04f3 } else { 0x3fe6_a09e_667f_3bcc }
}

/// The natural logarithm.
pub(crate) fn log(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let (e, m) = split(&mut f, a);
    let one = f.c(1.0);
    let s = f.sub(m, one);
    let t = tail(&mut f, s);
    let value = natural(&mut f, e, s, t);
    special(&mut f, a, value)
}

/// The logarithm to the base 2.
pub(crate) fn log2(x: &mut Exprs, a: ExprId) -> ExprId {
    to_base(x, a, &BASE_2)
}

/// The logarithm to the base 10.
pub(crate) fn log10(x: &mut Exprs, a: ExprId) -> ExprId {
    to_base(x, a, &BASE_10)
}

/// `log(1 + a)`.
pub(crate) fn log1p(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let value = log_one_plus(&mut f, OnePlus { high: a, low: None, doublings: None });
    // The sum with 1 has lost the sign of -0.
    let zero = f.c(0.0);
    let is_zero = f.compare(Compare::Eq, a, zero);
    f.select(is_zero, a, value)
}

/// `2^doublings * (1 + high + low)`.
pub(super) struct OnePlus {
    pub high: ExprId,
    /// Less than an ulp of `high`.
    pub low: Option<ExprId>,
    pub doublings: Option<ExprId>,
}

/// The natural logarithm of an argument that is known less 1. The sign of a zero is not
/// kept.
pub(super) fn log_one_plus(f: &mut Formula, argument: OnePlus) -> ExprId {
    let Layout { significand, bias, .. } = *f.layout();
    let OnePlus { high: a, low, doublings } = argument;
    // 1 + a = u + lost, exactly where that matters, whichever of 1 and a is larger.
    let one = f.c(1.0);
    let u = f.add(a, one);
    let (less_one, less_a) = (f.sub(u, one), f.sub(u, a));
    let (of_a, of_one) = (f.sub(a, less_one), f.sub(one, less_a));
    let small = f.compare(Compare::Lt, a, one);
    let lost = f.select(small, of_a, of_one);
    let (exponent, m) = split_normal(f, u);
    // 2^-e. Where it would be subnormal nothing is lost, and 0 does.
    let limit = f.bits_constant(2 * bias as u64);
    let bounded = f.x.binary(BinaryOp::Min, exponent, limit);
    let opposite = f.sub(limit, bounded);
    let bits = f.shl(opposite, significand);
    let down = f.float_of(bits);
    let exact = f.sub(m, one);
    // What is lost is less than an ulp of what is not, unless that is 0.
    let lost = f.mul(lost, down);
    let s = fast_sum(f, exact, lost);
    let mut t = tail(f, s.high);
    t.small = f.add(t.small, s.low);
    if let Some(low) = low {
        // The derivative of log(1 + s).
        let low = f.mul(low, down);
        let low = f.div(low, m);
        t.small = f.add(t.small, low);
    }
    let mut e = float_exponent(f, exponent, bias);
    if let Some(more) = doublings {
        e = f.add(e, more);
    }
    let value = natural(f, e, s.high, t);
    special(f, u, value)
}

/// `e*ln 2 + s + t`.
fn natural(f: &mut Formula, e: ExprId, s: ExprId, t: Tail) -> ExprId {
    let ln2 = if f.ty == DType::F32 { LN2_F32 } else { LN2_F64 };
    let (high, low) = (f.c(ln2[0]), f.c(ln2[1]));
    let whole = f.mul(e, high);
    // |whole| is at least |s|, unless e is 0.
    let sum = fast_sum(f, whole, s);
    let rest = f.add(t.small, sum.low);
    let rest = f.fma(e, low, rest);
    let minus_half = f.c(-0.5);
    let rest = f.fma(t.square, minus_half, rest);
    f.add(sum.high, rest)
}

fn to_base(x: &mut Exprs, a: ExprId, bases: &[Base; 2]) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let base = &bases[usize::from(ty != DType::F32)];
    let (e, m) = split(&mut f, a);
    let one = f.c(1.0);
    let s = f.sub(m, one);
    let t = tail(&mut f, s);
    let (factor, factor_low) = (f.c(base.factor[0]), f.c(base.factor[1]));
    let scaled = product(&mut f, s, factor);
    let rest = f.fma(s, factor_low, scaled.low);
    let (power, power_low) = (f.c(base.power[0]), f.c(base.power[1]));
    let whole = f.mul(e, power);
    let sum = fast_sum(&mut f, whole, scaled.high);
    let rest = f.add(rest, sum.low);
    let rest = f.fma(e, power_low, rest);
    let rest = f.fma(t.small, factor, rest);
    let half = f.c(base.factor[0] * -0.5);
    let rest = f.fma(t.square, half, rest);
    let value = f.add(sum.high, rest);
    special(&mut f, a, value)
}

/// `log(1 + s) - s = small - square/2`. Kept apart: the sum would round once more.
struct Tail {
    square: ExprId,
    small: ExprId,
}

fn tail(f: &mut Formula, s: ExprId) -> Tail {
    if f.ty == DType::F32 { tail_f32(f, s) } else { tail_f64(f, s) }
}

/// `small` as `s^3*q(s)`, with what the square lacks.
fn tail_f32(f: &mut Formula, s: ExprId) -> Tail {
    let q = f.horner(s, &TAIL_F32);
    let minus_half = f.c(-0.5);
    let square = product(f, s, s);
    let cube = f.mul(square.high, s);
    let lost = f.mul(square.low, minus_half);
    Tail { square: square.high, small: f.fma(cube, q, lost) }
}

/// `log(1 + s) = 2 atanh(u)` with `u = s / (2 + s)`. With `h = s^2/2` and
/// `2 atanh(u) = 2u + u^3*q(u^2)`, `small` is `u * (h + u^2*q)`.
fn tail_f64(f: &mut Formula, s: ExprId) -> Tail {
    let (two, half) = (f.c(2.0), f.c(0.5));
    let below = f.add(s, two);
    let u = f.div(s, below);
    let z = f.mul(u, u);
    let q = f.horner(z, &ATANH_F64);
    let square = f.mul(s, s);
    let h = f.mul(square, half);
    let inner = f.fma(z, q, h);
    Tail { square, small: f.mul(u, inner) }
}

/// The logarithm where its argument is not a positive finite number.
fn special(f: &mut Formula, a: ExprId, value: ExprId) -> ExprId {
    let (zero, infinity) = (f.c(0.0), f.c(f64::INFINITY));
    let (minus_infinity, nan) = (f.c(f64::NEG_INFINITY), f.c(f64::NAN));
    let finite = f.compare(Compare::Lt, a, infinity);
    let value = f.select(finite, value, infinity);
    let is_zero = f.compare(Compare::Eq, a, zero);
    let outside = f.select(is_zero, minus_infinity, nan);
    let positive = f.compare(Compare::Gt, a, zero);
    f.select(positive, value, outside)
}
