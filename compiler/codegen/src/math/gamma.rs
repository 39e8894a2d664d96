//! The logarithm of the gamma function, and its derivative.
//!
//! With `m` the magnitude of the argument:
//!
//! ```text
//! m < 1         lgamma(1 + m) - log m             digamma(1 + m) - 1/m
//! m < 5/2       y (y - 1) Q(y),  y = m - 1        (y - zero) D(y)
//! m < 8         y goes down to 1 .. 3/2 by steps; what it passes joins as the
//!               logarithm of a product            .. as a sum of reciprocals
//! from 8 on     Stirling's series
//! ```
//!
//! `y`, `y - 1` and the distance to the zero of digamma are as good as exact, so results
//! next to the zeros on this side are relatively accurate. Negative arguments are
//! reflected, with `r` the distance of `m` to the nearest integer, which is exact:
//!
//! ```text
//! lgamma(-m) = -log(m |sin πr| / π) - lgamma(m)
//! digamma(-m) = digamma(m) + 1/m + π cot πr
//! ```
//!
//! There both terms cancel next to the zeros between the poles, and the result is good
//! to a few units of the terms, not of itself. `f32` is computed in `f64`, with all its
//! digits: next to the zeros it needs them.

use kiln_ir::op::Compare;

use super::build::Formula;
use super::log::log;
use super::wide::in_f64;
use crate::kernel::expr::UnaryOp;
use crate::kernel::{ExprId, Exprs};

/// `lgamma(1 + y) / (y (y - 1))` in `y - 3/4`, up to y = 1.5.
const LGAMMA: [f64; 24] = [
    0.4501393121092563,
    -0.11948158662524266,
    0.044520447198515,
    -0.019053957830261897,
    0.00877637042480384,
    -0.004226194125139759,
    0.002095533894961404,
    -0.0010605660948659619,
    0.0005448967330719138,
    -0.0002831903476480729,
    0.00014851936572398815,
    -7.846414302958626e-05,
    4.168878521042484e-05,
    -2.226778199374584e-05,
    1.2019648618411837e-05,
    -6.489182454875884e-06,
    3.3091094700642932e-06,
    -1.7650080987137241e-06,
    1.32786740047919e-06,
    -7.595575361527725e-07,
    -1.9637965030988646e-08,
    3.63922786752796e-08,
    2.742300419906075e-07,
    -1.5849996304290785e-07,
];
/// `digamma(1 + y) / (y - root)` in `y - 3/4`, up to y = 1.5.
const DIGAMMA: [f64; 25] = [
    0.8581832171262995,
    -0.32625462786810394,
    0.15712011335203743,
    -0.08228558635609957,
    0.044799654453310404,
    -0.024890048471487677,
    0.013985786162798542,
    -0.007910469219226921,
    0.004491814140542549,
    -0.002556680242555086,
    0.0014573694221694006,
    -0.0008315519264066491,
    0.0004747217672880631,
    -0.00027077896784690196,
    0.00015461739915537787,
    -8.957876714685162e-05,
    5.132888292419693e-05,
    -2.6066284572517895e-05,
    1.4617078813691598e-05,
    -1.4047585747826361e-05,
    8.353444048655947e-06,
    1.5895520537736634e-06,
    -1.1293492855612297e-06,
    -3.467170637881729e-06,
    2.046715216103215e-06,
];
/// The zero of digamma less 1, in two parts.
const ROOT: [f64; 2] = [0.46163214496836236, -1.5522348162858677e-17];
/// ln(2π/e) / 2.
const HALF_LN_TAU_BY_E: f64 = 0.4189385332046727;
/// What Stirling's formula lacks, times m, in 1/m^2, from m = 8 on.
const STIRLING: [f64; 6] = [
    0.0833333333333333,
    -0.00277777777761,
    0.0007936506668624029,
    -0.0005952029368756909,
    0.0008373083775100974,
    -0.0016532372466573255,
];
/// What its derivative lacks, times -m^2, in 1/m^2, from m = 8 on.
const SLOPE: [f64; 6] = [
    0.08333333333333288,
    -0.008333333331222582,
    0.003968252370346175,
    -0.004166222559859718,
    0.007519446232221593,
    -0.017720304106400343,
];
/// `(sin(πr)/πr - 1) / r^2` in `r^2`, up to r = 1/2.
const SIN_HALF: [f64; 8] = [
    -1.6449340668482264,
    0.8117424252833472,
    -0.19075182412172664,
    0.02614784780893739,
    -0.0023460809228455933,
    0.00014842796527534812,
    -6.972393541396671e-06,
    2.4531432526235505e-07,
];
/// The same up to r = 1/4.
const SIN_QUARTER: [f64; 6] = [
    -1.6449340668482257,
    0.8117424252828784,
    -0.19075182405352398,
    0.026147843865371518,
    -0.0023459730388445143,
    0.0001470273248685307,
];
/// `(cos(πr) - 1) / r^2` in `r^2`, up to r = 1/4.
const COS_QUARTER: [f64; 7] = [
    -4.934802200544679,
    4.058712126416761,
    -1.3352627688532661,
    0.23533063025148657,
    -0.02580688705170784,
    0.0019294817796452158,
    -0.00010363981365630743,
];

/// The polynomials are in the distance from here.
const CENTER: f64 = 0.75;
/// `y` is stepped down to below this.
const TOP: f64 = 1.5;
/// From here on Stirling's series.
const STIRLING_FROM: f64 = 8.0;

pub(crate) fn lgamma(x: &mut Exprs, a: ExprId) -> ExprId {
    in_f64(x, [a], |f, [a], _| log_gamma(f, a))
}

pub(crate) fn digamma(x: &mut Exprs, a: ExprId) -> ExprId {
    in_f64(x, [a], |f, [a], _| derivative(f, a))
}

/// Where an argument lies.
struct Place {
    /// The magnitude.
    m: ExprId,
    /// Whether it is below 1.
    small: ExprId,
    /// Whether it is below 8.
    middle: ExprId,
    /// `m - 1`, or `m` where that is small.
    y: ExprId,
}

fn place(f: &mut Formula, a: ExprId) -> Place {
    let m = f.abs(a);
    let (one, limit) = (f.c(1.0), f.c(STIRLING_FROM));
    let small = f.compare(Compare::Lt, m, one);
    let middle = f.compare(Compare::Lt, m, limit);
    let less = f.sub(m, one);
    let y = f.select(small, m, less);
    Place { m, small, middle, y }
}

/// Takes 1 off `y` as often as it is at least [`TOP`], up to the six times that 7 needs,
/// and calls `each` with whether and from what. All the differences are exact.
fn step_down(
    f: &mut Formula,
    mut y: ExprId,
    mut each: impl FnMut(&mut Formula, ExprId, ExprId),
) -> ExprId {
    let (top, one) = (f.c(TOP), f.c(1.0));
    for _ in 0..6 {
        let large = f.compare(Compare::Ge, y, top);
        each(f, large, y);
        let less = f.sub(y, one);
        y = f.select(large, less, y);
    }
    y
}

fn log_gamma(f: &mut Formula, a: ExprId) -> ExprId {
    let Place { m, small, middle, y } = place(f, a);
    let (one, half, center) = (f.c(1.0), f.c(0.5), f.c(CENTER));
    let mut product = one;
    let y = step_down(f, y, |f, large, y| {
        let next = f.mul(product, y);
        product = f.select(large, next, product);
    });
    let s = f.sub(y, center);
    let q = f.horner(s, &LGAMMA);
    let less = f.sub(y, one);
    let zeros = f.mul(y, less);
    let base = f.mul(zeros, q);

    let of = f.select(middle, product, m);
    let of = f.select(small, m, of);
    let logarithm = log(f.x, of);
    let (above, below) = (f.add(base, logarithm), f.sub(base, logarithm));
    let near = f.select(small, below, above);
    // (m - 1/2) (log m - 1) + ln(2π/e)/2 + S(1/m^2)/m.
    let inverse = f.div(one, m);
    let z = f.mul(inverse, inverse);
    let series = f.horner(z, &STIRLING);
    let constant = f.c(HALF_LN_TAU_BY_E);
    let series = f.fma(inverse, series, constant);
    let (factor, other) = (f.sub(m, half), f.sub(logarithm, one));
    let far = f.fma(factor, other, series);
    let value = f.select(middle, near, far);

    // Reflected: for small m, log m appears on both sides and is left out.
    let (_, distance) = distance(f, m);
    let z = f.mul(distance, distance);
    let sin = f.horner(z, &SIN_HALF);
    let cube = f.mul(distance, z);
    let sin = f.fma(cube, sin, distance);
    let larger = f.mul(m, sin);
    let of = f.select(small, sin, larger);
    let term = log(f.x, of);
    let own = f.select(small, base, value);
    let sum = f.add(term, own);
    let reflected = f.neg(sum);
    // Beyond, every number is an integer and a pole.
    let (infinity, limit) = (f.c(f64::INFINITY), f.c(2f64.powi(52)));
    let fractional = f.compare(Compare::Lt, m, limit);
    let reflected = f.select(fractional, reflected, infinity);
    negative_or(f, a, reflected, value)
}

/// The signed distance of `m` from the nearest integer, and its magnitude.
fn distance(f: &mut Formula, m: ExprId) -> (ExprId, ExprId) {
    let nearest = f.x.unary(UnaryOp::Round, m);
    let r = f.sub(m, nearest);
    (r, f.abs(r))
}

/// `reflected` where `a` is negative, which is rare, else `value`.
fn negative_or(f: &mut Formula, a: ExprId, reflected: ExprId, value: ExprId) -> ExprId {
    let zero = f.c(0.0);
    let negative = f.compare(Compare::Lt, a, zero);
    f.x.mark_rare(negative);
    f.select(negative, reflected, value)
}

fn derivative(f: &mut Formula, a: ExprId) -> ExprId {
    let Place { m, small, middle, y } = place(f, a);
    let (zero, one, half, center) = (f.c(0.0), f.c(1.0), f.c(0.5), f.c(CENTER));
    // The reciprocals of what is passed, as one quotient.
    let (mut above, mut below) = (zero, one);
    let y = step_down(f, y, |f, large, y| {
        let (next_above, next_below) = (f.fma(above, y, below), f.mul(below, y));
        above = f.select(large, next_above, above);
        below = f.select(large, next_below, below);
    });
    let s = f.sub(y, center);
    let d = f.horner(s, &DIGAMMA);
    let [root, root_low] = ROOT.map(|c| f.c(c));
    let offset = f.sub(y, root);
    let offset = f.sub(offset, root_low);
    let base = f.mul(offset, d);

    let minus_one = f.c(-1.0);
    let above = f.select(middle, above, one);
    let above = f.select(small, minus_one, above);
    let below = f.select(middle, below, m);
    let below = f.select(small, m, below);
    let quotient = f.div(above, below);
    let near = f.add(base, quotient);
    // log m - 1/2m - A(1/m^2)/m^2; the quotient is 1/m.
    let logarithm = log(f.x, m);
    let z = f.mul(quotient, quotient);
    let series = f.horner(z, &SLOPE);
    let series = f.mul(z, series);
    let series = f.fma(quotient, half, series);
    let far = f.sub(logarithm, series);
    let value = f.select(middle, near, far);

    // Reflected: 1/m appears on both sides for small m.
    let inverse = f.div(one, m);
    let more = f.add(value, inverse);
    let own = f.select(small, base, more);
    let cotangent = cotangent(f, m);
    let reflected = f.add(own, cotangent);
    let value = negative_or(f, a, reflected, value);
    let nan = f.c(f64::NAN);
    let pole = f.compare(Compare::Eq, m, zero);
    f.select(pole, nan, value)
}

/// `π cot πm`; NaN where `m` is an integer.
fn cotangent(f: &mut Formula, m: ExprId) -> ExprId {
    let (r, distance) = distance(f, m);
    // Sine and cosine change places at an eighth of a turn.
    let (quarter, half, one, zero) = (f.c(0.25), f.c(0.5), f.c(1.0), f.c(0.0));
    let far = f.compare(Compare::Gt, distance, quarter);
    let rest = f.sub(half, distance);
    let b = f.select(far, rest, distance);
    let z = f.mul(b, b);
    let sin = f.horner(z, &SIN_QUARTER);
    let cube = f.mul(b, z);
    let sin = f.fma(cube, sin, b);
    let cos = f.horner(z, &COS_QUARTER);
    let cos = f.fma(z, cos, one);
    // The sine is divided by π: far away, π cot = π^2 sin / cos.
    let factor = f.c(std::f64::consts::PI * std::f64::consts::PI);
    let scaled = f.mul(sin, factor);
    let above = f.select(far, scaled, cos);
    let below = f.select(far, cos, sin);
    let value = f.div(above, below);
    let value = f.with_sign_of(value, r);
    let nan = f.c(f64::NAN);
    let pole = f.compare(Compare::Eq, distance, zero);
    f.select(pole, nan, value)
}
