//! The inverse hyperbolic functions, as logarithms of 1 more than a sum of two floats.
//!
//! ```text
//! asinh(m) = log(1 + (m + m²/(1 + √(1 + m²))))
//! acosh(m) = log(1 + (t + √(t² + 2t)))            t = m - 1
//! atanh(m) = log(1 + 2m/(1 - m)) / 2
//! ```
//!
//! Where a square would overflow, the first two are `log(m) + ln 2`.

use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::build::Formula;
use super::log::{OnePlus, log_one_plus};
use super::pair::{Pair, fast_sum};
use crate::kernel::expr::UnaryOp;
use crate::kernel::{ExprId, Exprs};

pub(crate) fn asinh(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let m = f.abs(a);
    let square = f.mul(m, m);
    let one = f.c(1.0);
    let below = f.add(square, one);
    let root = f.x.unary(UnaryOp::Sqrt, below);
    let below = f.add(root, one);
    let more = f.div(square, below);
    let y = fast_sum(&mut f, m, more);
    let magnitude = log_of_large(&mut f, m, y);
    f.with_sign_of(magnitude, a)
}

pub(crate) fn acosh(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let one = f.c(1.0);
    let t = f.sub(a, one);
    let twice = f.add(t, t);
    let square = f.fma(t, t, twice);
    let root = f.x.unary(UnaryOp::Sqrt, square);
    let y = fast_sum(&mut f, root, t);
    let value = log_of_large(&mut f, a, y);
    let defined = f.compare(Compare::Ge, a, one);
    let nan = f.c(f64::NAN);
    f.select(defined, value, nan)
}

/// `log(1 + y)`, or `log(2m)` where `m` is so large that `y` may have overflown and
/// neither 1 nor what `y` lacks of `2m` matters.
fn log_of_large(f: &mut Formula, m: ExprId, y: Pair) -> ExprId {
    let limit = f.c(if f.ty == DType::F32 { 2f64.powi(28) } else { 2f64.powi(56) });
    let large = f.compare(Compare::Ge, m, limit);
    let (zero, one) = (f.c(0.0), f.c(1.0));
    let high = f.select(large, m, y.high);
    let low = f.select(large, zero, y.low);
    let doublings = f.select(large, one, zero);
    log_one_plus(f, OnePlus { high, low: Some(low), doublings: Some(doublings) })
}

pub(crate) fn atanh(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let m = f.abs(a);
    let one = f.c(1.0);
    // 1 - m = d + d_low exactly, and the division's remainder gives the quotient's rest.
    let d = f.sub(one, m);
    let taken = f.sub(one, d);
    let d_low = f.sub(taken, m);
    let twice = f.add(m, m);
    let high = f.div(twice, d);
    let minus = f.neg(high);
    let rest = f.fma(minus, d, twice);
    let rest = f.fma(minus, d_low, rest);
    let low = f.div(rest, d);
    let log = log_one_plus(&mut f, OnePlus { high, low: Some(low), doublings: None });
    let half = f.c(0.5);
    let magnitude = f.mul(log, half);
    f.with_sign_of(magnitude, a)
}
