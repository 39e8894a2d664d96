//! The cube root.
//!
//! `|a| = 2^3k * w` with `w` in [0.35, 2.83). A polynomial gives `w^(-1/3)` roughly, `f64`
//! improves it by a step of third order, and `y = w * w^(-2/3)` is then right to half of
//! the digits or more. What `y^3` lacks of `w`, computed exactly where it matters, gives
//! the rest, and its sum with `y` is the only rounding that counts.

use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::build::Formula;
use super::log;
use super::pair::product;
use crate::kernel::{ExprId, Exprs};

/// `m^(-1/3)` on [1/√2, √2).
const INVERSE_F32: [f64; 6] = [
    1.999163031578064,
    -2.4858856201171875,
    2.792152166366577,
    -1.8980846405029297,
    0.7007203698158264,
    -0.10806148499250412,
];
/// The same for `f64`.
const INVERSE_F64: [f64; 8] = [
    2.210244693399282,
    -3.8541787913443173,
    6.526902890318648,
    -7.457755795640104,
    5.570835932030267,
    -2.615203675134493,
    0.7011040925783231,
    -0.08194940024384148,
];
/// `2^(1/3)` and `2^(-1/3)`.
const ROOTS: [f64; 2] = [1.2599210498948732, 0.7937005259840998];

pub(crate) fn cbrt(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let magnitude = f.abs(a);
    let (e, m) = log::split(&mut f, magnitude);
    // e = 3k + j with j of -1, 0 or 1; w = m * 2^j.
    let (k, bits) = f.nearest(e, 1.0 / 3.0);
    let minus_three = f.c(-3.0);
    let j = f.fma(k, minus_three, e);
    let (zero, one) = (f.c(0.0), f.c(1.0));
    let (under, over) = (f.compare(Compare::Lt, j, zero), f.compare(Compare::Gt, j, zero));
    let mut by_j = |below: f64, above: f64| {
        let (below, above) = (f.c(below), f.c(above));
        let other = f.select(under, below, one);
        f.select(over, above, other)
    };
    let (power, factor) = (by_j(0.5, 2.0), by_j(ROOTS[0], ROOTS[1]));
    let w = f.mul(m, power);
    let z = f.horner(m, if ty == DType::F32 { &INVERSE_F32 } else { &INVERSE_F64 });
    let mut z = f.mul(z, factor);
    if ty == DType::F64 {
        // d = 1 - w*z^3; w^(-1/3) = z * (1 - d)^(-1/3) = z * (1 + d/3 + 2d^2/9 + ..).
        let square = f.mul(z, z);
        let cube = f.mul(square, z);
        let minus = f.neg(w);
        let d = f.fma(minus, cube, one);
        let series = f.horner(d, &[1.0 / 3.0, 2.0 / 9.0]);
        let step = f.mul(series, d);
        z = f.fma(z, step, z);
    }
    let square = f.mul(z, z);
    let y = f.mul(w, square);
    // w - y^3, with y^2 as a pair.
    let squared = product(&mut f, y, y);
    let (high, low) = (f.neg(squared.high), f.neg(squared.low));
    let rest = f.fma(high, y, w);
    let rest = f.fma(low, y, rest);
    // Newton's step divides it by 3y^2, of which z^2/3 is the inverse.
    let third = f.c(1.0 / 3.0);
    let inverse = f.mul(square, third);
    let y = f.fma(rest, inverse, y);
    let value = f.scale_normal(y, bits);
    let value = f.with_sign_of(value, a);
    // Zeros, infinities and NaN are their own roots.
    let infinity = f.c(f64::INFINITY);
    let (finite, positive) =
        (f.compare(Compare::Lt, magnitude, infinity), f.compare(Compare::Gt, magnitude, zero));
    let both = f.and(finite, positive);
    f.select(both, value, a)
}
