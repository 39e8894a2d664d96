//! Powers of two.
//!
//! With `n` the integer nearest to `a`, `r = a - n` is exact and at most 1/2, and
//! `2^a = 2^n * (1 + r*q(r))`. Integers give their powers exactly.

use kiln_ir::DType;

use super::build::Formula;
use crate::kernel::{ExprId, Exprs};

/// `(2^r - 1) / r` on [-1/2, 1/2].
const Q_F32: [f64; 6] = [
    0.6931471824645996,
    0.24022650718688965,
    0.05550328642129898,
    0.009618006646633148,
    0.001340002054348588,
    0.00015475734835490584,
];
/// The same in `f64`.
const Q_F64: [f64; 12] = [
    std::f64::consts::LN_2,
    0.24022650695910072,
    0.055504108664821694,
    0.009618129107628494,
    0.0013333558146391368,
    0.00015403530393341304,
    1.5252733855497768e-05,
    1.3215486832904733e-06,
    1.017805147430217e-07,
    7.054888304370747e-09,
    4.4566385271248247e-10,
    2.5741738087806448e-11,
];

pub(crate) fn exp2(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    // Beyond these the result is 0 or infinite, and n stays in range.
    let (q, low, high): (&[f64], f64, f64) = match ty {
        DType::F32 => (&Q_F32, -152.0, 129.0),
        _ => (&Q_F64, -1077.0, 1025.0),
    };
    let a = f.at_least(a, low);
    let a = f.at_most(a, high);
    let (r, n) = f.fraction(a, 1.0);
    let q = f.horner(r, q);
    let one = f.c(1.0);
    let p = f.fma(q, r, one);
    f.scale(p, n)
}
