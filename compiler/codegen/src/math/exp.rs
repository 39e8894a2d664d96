//! The exponential function.
//!
//! With `n` the integer nearest to `a / ln 2` and `r = a - n*ln 2`, which is at most
//! half of `ln 2` in magnitude, `exp(a) = 2^n * exp(r)` and
//! `exp(r) = 1 + (r + r^2 * q(r))`: the last addition is the only rounding at full
//! size. `ln 2` is split so that `n` times its high part is exact, and the low part
//! joins the small terms.

use kiln_ir::DType;

use super::build::Formula;
use super::pair::{Pair, fast_sum};
use crate::kernel::{ExprId, Exprs};

/// `(exp(r) - 1 - r) / r^2` on [-ln 2 / 2, ln 2 / 2].
const TAIL_F32: [f64; 5] = [
    0.4999999403953552,
    0.16666527092456818,
    0.041667986661195755,
    0.00836810003966093,
    0.0013833988923579454,
];
/// The same in `f64`.
pub(super) const TAIL_F64: [f64; 11] = [
    0.5,
    0.1666666666666668,
    0.041666666666666345,
    0.008333333333319847,
    0.0013888888889041304,
    0.00019841269890456605,
    2.480158702467915e-05,
    2.7557240032301593e-06,
    2.755752249724706e-07,
    2.5110434013276587e-08,
    2.0840062077956662e-09,
];
const LN2_F32: [f64; 2] = [0.693145751953125, 1.428606765330187e-06];
const LN2_F64: [f64; 2] = [0.6931471805601177, -1.7239444525614835e-13];

pub(crate) fn exp(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    // Beyond these the result is 0 or infinite, and n stays in range.
    let (low, high) = if ty == DType::F32 { (-104.0, 89.0) } else { (-746.0, 710.0) };
    let a = f.at_least(a, low);
    let a = f.at_most(a, high);
    let (p, n) = match ty {
        DType::F32 => reduced_f32(&mut f, a),
        _ => {
            let (p, n, _) = reduced(&mut f, a);
            (p, n)
        }
    };
    f.times_power(p, n)
}

/// `exp(a) = p * 2^n` by fewer steps: `exp(r) = 1 + r*(1 + r*q(r))`, which rounds at
/// nearly full size twice.
fn reduced_f32(f: &mut Formula, a: ExprId) -> (ExprId, ExprId) {
    let (n, _) = f.nearest(a, std::f64::consts::LOG2_E);
    let (high, low) = (f.c(-LN2_F32[0]), f.c(-LN2_F32[1]));
    let r = f.fma(n, high, a);
    let r = f.fma(n, low, r);
    let q = f.horner(r, &TAIL_F32);
    let one = f.c(1.0);
    let p = f.fma(q, r, one);
    (f.fma(p, r, one), n)
}

/// `exp(a)` where the result is a normal number. NaN may turn into anything.
pub(crate) fn exp_normal(f: &mut Formula, a: ExprId) -> ExprId {
    let (p, _, n) = reduced(f, a);
    f.scale_normal(p, n)
}

/// `exp(a) = p * 2^n`: `p`, `n`, and a pattern with `n` in its low bits.
pub(super) fn reduced(f: &mut Formula, a: ExprId) -> (ExprId, ExprId, ExprId) {
    let Parts { main, small, whole, n } = parts(f, a);
    let p = f.add(main, small);
    let one = f.c(1.0);
    (f.add(p, one), whole, n)
}

/// `exp(a) = 2^n * (1 + main + small)`.
pub(super) struct Parts {
    /// At most half of ln 2 in magnitude.
    pub main: ExprId,
    /// What `main` lacks, known to less than an ulp of `main`.
    pub small: ExprId,
    /// `n` as a float.
    pub whole: ExprId,
    /// `n` in the low bits of a pattern.
    pub n: ExprId,
}

/// `exp(a) = 2^n * (high + low)`, with a few bits more than the type has; `n` in the low
/// bits of a pattern.
pub(super) fn exp_pair(f: &mut Formula, a: ExprId) -> (Pair, ExprId) {
    let Parts { main, small, n, .. } = parts(f, a);
    let one = f.c(1.0);
    let sum = fast_sum(f, one, main);
    let small = f.add(sum.low, small);
    (fast_sum(f, sum.high, small), n)
}

/// Takes `exp(a)` apart.
pub(super) fn parts(f: &mut Formula, a: ExprId) -> Parts {
    let (n, bits) = f.nearest(a, std::f64::consts::LOG2_E);
    let (ln2, tail): ([f64; 2], &[f64]) = match f.ty {
        DType::F32 => (LN2_F32, &TAIL_F32),
        _ => (LN2_F64, &TAIL_F64),
    };
    // a - n*ln 2 = main + low, the first exactly; only small terms see their sum.
    let (high, low) = (f.c(-ln2[0]), f.c(-ln2[1]));
    let main = f.fma(n, high, a);
    let low = f.mul(n, low);
    let r = f.add(main, low);
    let q = f.horner(r, tail);
    let square = f.mul(r, r);
    let small = f.fma(q, square, low);
    Parts { main, small, whole: n, n: bits }
}

/// `(2^r - 1) / r` on [-1/2, 1/2], for `f32` results that are part of something
/// larger: its error is 2^-23.
const EXP2_F32: [f64; 5] = [
    0.6931472420692444,
    0.24022236466407776,
    0.05550308898091316,
    0.009671801701188087,
    0.0013407125370576978,
];

/// `2^(a * factor)` to 23 bits in `f32`, for exponents below 126 in magnitude. NaN may
/// turn into anything.
pub(crate) fn exp2_short(f: &mut Formula, a: ExprId, factor: f64) -> ExprId {
    let (r, n) = f.fraction(a, factor);
    let q = f.horner(r, &EXP2_F32);
    let one = f.c(1.0);
    let p = f.fma(q, r, one);
    f.scale_normal(p, n)
}
