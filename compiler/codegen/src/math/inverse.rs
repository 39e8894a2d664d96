//! Inverse trigonometric functions.
//!
//! `asin` and `acos` up to 0.6 by a polynomial in the square; beyond, by
//! `asin(m) = π/2 - 2 asin(√((1 - m)/2))`, whose root is below 0.45. The limit is where
//! it is for the error of the second half, which is doubled and meets a result that is
//! not much larger.
//!
//! `atan` and `atan2` take the quotient `lo/hi` of the lesser and the greater magnitude,
//! or next to 1 `(lo - hi)/(lo + hi)`, which is a quarter of π less. With `w` the
//! arctangent of that, at most 0.51 in magnitude, the result is `±w` plus a multiple of
//! π/4. `atan2` of `f32` is computed in `f64`, where no quotient of `f32` overflows or
//! loses digits.

use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::build::Formula;
use super::wide::{Digits, in_f64};
use crate::kernel::expr::UnaryOp;
use crate::kernel::{ExprId, Exprs};

/// `(asin(s)/s - 1) / s^2` in `s^2`, up to s = 0.6.
const ASIN_F32: [f64; 7] = [
    0.16666673123836517,
    0.0749945268034935,
    0.04478359967470169,
    0.028764035552740097,
    0.031876809895038605,
    -0.011585813015699387,
    0.05417976528406143,
];
const ASIN_F64: [f64; 15] = [
    0.1666666666666672,
    0.0749999999996541,
    0.044642857190445265,
    0.03038194156583703,
    0.02237225602508596,
    0.01735072084823475,
    0.013993696222078815,
    0.011267749365498398,
    0.011756911270641044,
    -0.0017055310687609782,
    0.04398761575292599,
    -0.08743671295034151,
    0.16809270698228423,
    -0.168234077909558,
    0.09549326014763994,
];
/// π/2 and what is missing to it.
const HALF_PI_F32: [f64; 2] = [1.5707963705062866, -4.371138828673793e-08];
const HALF_PI_F64: [f64; 2] = [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17];

/// `(atan(t)/t - 1) / t^2` in `t^2`, up to t = 0.552.
const ATAN_F32: [f64; 6] = [
    -0.33333322405815125,
    0.19999107718467712,
    -0.14263507723808289,
    0.1086438000202179,
    -0.07687007635831833,
    0.03454950451850891,
];
/// The same for `f32` results in `f64`: its error is 2^-33.
const ATAN_SHORT: [f64; 7] = [
    -0.3333333268495067,
    0.19999921886198582,
    -0.14283032098946938,
    0.11069722967842203,
    -0.08753061254351516,
    0.06139755018250822,
    -0.026203421273978032,
];
const ATAN_F64: [f64; 13] = [
    -0.333333333333333,
    0.19999999999980494,
    -0.14285714283219345,
    0.11111110970743099,
    -0.09090904708498587,
    0.07692222505351369,
    -0.06665566185628978,
    0.058725358300514396,
    -0.05201395611133656,
    0.04485580687373895,
    -0.03470339469458908,
    0.020399828487274833,
    -0.006431367846848411,
];
/// π/4 in two parts, small multiples of the first exact.
const QUARTER_PI_F32: [f64; 2] = [0.7853984832763672, -3.1987892157303577e-07];
const QUARTER_PI_F64: [f64; 2] = [std::f64::consts::FRAC_PI_4, 3.061616997868383e-17];

/// Up to here asin is computed directly.
const ASIN_LIMIT: f64 = 0.6;
/// Up to here a quotient is taken as it is.
const ATAN_LIMIT: f64 = 0.55;

/// What asin and acos have in common.
struct Arc {
    /// The magnitude.
    m: ExprId,
    /// Whether it is beyond the limit.
    beyond: ExprId,
    /// asin of the magnitude, or beyond the limit of the root.
    value: ExprId,
    /// π/2 in two parts.
    half_pi: [ExprId; 2],
}

fn arc(f: &mut Formula, a: ExprId) -> Arc {
    let (tail, half_pi): (&[f64], _) = match f.ty {
        DType::F32 => (&ASIN_F32, HALF_PI_F32),
        _ => (&ASIN_F64, HALF_PI_F64),
    };
    let m = f.abs(a);
    let limit = f.c(ASIN_LIMIT);
    let beyond = f.compare(Compare::Gt, m, limit);
    // Beyond 1 the root is NaN, and so is what follows.
    let (one, half) = (f.c(1.0), f.c(0.5));
    let rest = f.sub(one, m);
    let rest = f.mul(rest, half);
    let square = f.mul(m, m);
    let z = f.select(beyond, rest, square);
    let root = f.x.unary(UnaryOp::Sqrt, z);
    let s = f.select(beyond, root, m);
    let p = f.horner(z, tail);
    let cube = f.mul(s, z);
    let value = f.fma(cube, p, s);
    Arc { m, beyond, value, half_pi: half_pi.map(|c| f.c(c)) }
}

pub(crate) fn asin(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let Arc { beyond, value, half_pi: [high, low], .. } = arc(&mut f, a);
    let minus_two = f.c(-2.0);
    let far = f.fma(minus_two, value, low);
    let far = f.add(high, far);
    let magnitude = f.select(beyond, far, value);
    f.with_sign_of(magnitude, a)
}

pub(crate) fn acos(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let Arc { m, beyond, value, half_pi: [high, low] } = arc(&mut f, a);
    // π/2 - asin(a); beyond the limit 2 asin(root), or π less that for negative a.
    let signed = f.with_sign_of(value, a);
    let near = f.sub(low, signed);
    let near = f.add(high, near);
    let twice = f.add(value, value);
    let (pi, pi_low) = (f.add(high, high), f.add(low, low));
    let rest = f.sub(pi_low, twice);
    let negative = f.add(pi, rest);
    let zero = f.c(0.0);
    let below = f.compare(Compare::Lt, a, zero);
    let far = f.select(below, negative, twice);
    let value = f.select(beyond, far, near);
    let ordered = f.compare(Compare::Eq, m, m);
    f.select(ordered, value, a)
}

/// The arctangent of a number of at most 0.552 in magnitude.
fn short_atan(f: &mut Formula, t: ExprId, tail: &[f64]) -> ExprId {
    let z = f.mul(t, t);
    let p = f.horner(z, tail);
    let cube = f.mul(t, z);
    f.fma(cube, p, t)
}

/// `k * π/4 + w`.
fn add_quarters(f: &mut Formula, k: ExprId, w: ExprId, quarter: [f64; 2]) -> ExprId {
    let [high, low] = quarter.map(|c| f.c(c));
    let w = f.fma(k, low, w);
    f.fma(k, high, w)
}

pub(crate) fn atan(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let (tail, quarter): (&[f64], _) = match ty {
        DType::F32 => (&ATAN_F32, QUARTER_PI_F32),
        _ => (&ATAN_F64, QUARTER_PI_F64),
    };
    let m = f.abs(a);
    let (limit, inverse) = (f.c(ATAN_LIMIT), f.c(1.0 / ATAN_LIMIT));
    let middle = f.compare(Compare::Gt, m, limit);
    let large = f.compare(Compare::Gt, m, inverse);
    // m; (m - 1) / (m + 1); -1 / m.
    let (zero, one, two) = (f.c(0.0), f.c(1.0), f.c(2.0));
    let (less, more, minus_one) = (f.sub(m, one), f.add(m, one), f.c(-1.0));
    let above = f.select(middle, less, m);
    let above = f.select(large, minus_one, above);
    let below = f.select(middle, more, one);
    let below = f.select(large, m, below);
    let t = f.div(above, below);
    let k = f.select(middle, one, zero);
    let k = f.select(large, two, k);
    let w = short_atan(&mut f, t, tail);
    let magnitude = add_quarters(&mut f, k, w, quarter);
    f.with_sign_of(magnitude, a)
}

/// The angle of the point `(b, a)`.
pub(crate) fn atan2(x: &mut Exprs, a: ExprId, b: ExprId) -> ExprId {
    in_f64(x, [a, b], |f, [a, b], digits| angle(f, a, b, digits))
}

fn angle(f: &mut Formula, a: ExprId, b: ExprId, digits: Digits) -> ExprId {
    let tail: &[f64] = digits.choose(&ATAN_SHORT, &ATAN_F64);
    let (y, x) = (f.abs(a), f.abs(b));
    let swapped = f.compare(Compare::Gt, y, x);
    let (low, high) = (f.select(swapped, x, y), f.select(swapped, y, x));
    let limit = f.c(ATAN_LIMIT);
    let limit = f.mul(high, limit);
    let (zero, one, half) = (f.c(0.0), f.c(1.0), f.c(0.5));
    let infinite = f.c(f64::INFINITY);
    let both = f.compare(Compare::Eq, low, infinite);
    let near = f.compare(Compare::Gt, low, limit);
    let near = f.or(near, both);
    // The sum of two large numbers is formed at half their size.
    let (mut l, mut h) = (low, high);
    if digits == Digits::Double {
        let large = f.compare(Compare::Gt, high, one);
        let unit = f.select(large, half, one);
        (l, h) = (f.mul(low, unit), f.mul(high, unit));
    }
    let (less, more) = (f.sub(l, h), f.add(l, h));
    let above = f.select(near, less, low);
    // Of two infinities the difference is no number, but they are equal.
    let above = f.select(both, zero, above);
    let below = f.select(near, more, high);
    // 0/0 is 0 here.
    let none = f.compare(Compare::Eq, high, zero);
    let below = f.select(none, one, below);
    let t = f.div(above, below);
    let w = short_atan(f, t, tail);
    // w + k * π/4 in the first eighth of a turn, then mirrored at the diagonal and at
    // the vertical axis.
    let k = f.select(near, one, zero);
    let (two, four) = (f.c(2.0), f.c(4.0));
    let (mirrored, minus) = (f.sub(two, k), f.neg(w));
    let (k, w) = (f.select(swapped, mirrored, k), f.select(swapped, minus, w));
    let bits = f.bits_of(b);
    let sign = f.shr(bits, i64::from(f.layout().bits.bits() - 1));
    let clear = f.bits_constant(0);
    let left = f.compare(Compare::Ne, sign, clear);
    let (mirrored, minus) = (f.sub(four, k), f.neg(w));
    let (k, w) = (f.select(left, mirrored, k), f.select(left, minus, w));
    let magnitude = add_quarters(f, k, w, QUARTER_PI_F64);
    let value = f.with_sign_of(magnitude, a);
    let nan = f.add(a, b);
    let (a_is, b_is) = (f.compare(Compare::Eq, a, a), f.compare(Compare::Eq, b, b));
    let ordered = f.and(a_is, b_is);
    f.select(ordered, value, nan)
}
