//! The logistic function.
//!
//! With `e = exp(-|a|)`, which never overflows, it is `1 / (1 + e)` for positive `a` and
//! `e / (1 + e)` for negative ones, down to the least subnormal. `e` and the denominator
//! are sums of two floats; the remainder of the division, with what the leading parts
//! lack, corrects the quotient.

use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::build::Formula;
use super::exp::exp_pair;
use super::pair::fast_sum;
use crate::kernel::{ExprId, Exprs};

pub(crate) fn logistic(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let m = f.abs(a);
    // Beyond, `e` is 0, and n stays in range.
    let m = f.at_most(m, if ty == DType::F32 { 104.0 } else { 746.0 });
    let minus = f.neg(m);
    let (e, n) = exp_pair(&mut f, minus);
    let (high, low) = (f.scale(e.high, n), f.scale(e.low, n));
    let (zero, one) = (f.c(0.0), f.c(1.0));
    let below = fast_sum(&mut f, one, high);
    let below_low = f.add(below.low, low);
    let negative = f.compare(Compare::Lt, a, zero);
    let above = f.select(negative, high, one);
    let above_low = f.select(negative, low, zero);
    let q = f.div(above, below.high);
    // above - q*below, divided by below: 1/below is q, or 1 - q.
    let minus = f.neg(q);
    let rest = f.fma(minus, below.high, above);
    let rest = f.fma(minus, below_low, rest);
    let rest = f.add(rest, above_low);
    let other = f.sub(one, q);
    let inverse = f.select(negative, other, q);
    f.fma(rest, inverse, q)
}
