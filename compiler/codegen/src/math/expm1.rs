//! `exp(a) - 1`, precise where that is near 0.
//!
//! With `exp(a) = 2^n * (1 + main + small)`, it is `(2^n - 1) + 2^n*main` and something
//! small. The first sum keeps its rounding error, which joins the small terms. All is
//! halved until the end, so that `2^n` is finite where the result is.

use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::build::Formula;
use super::exp::{Parts, parts};
use super::pair::fast_sum;
use crate::kernel::{ExprId, Exprs};

pub(crate) fn expm1(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    // Below `low` the result rounds to -1, above `high` it is infinite. An argument
    // less than `linear` is its own result, even if it is subnormal or -0.
    let (low, high, linear) =
        if ty == DType::F32 { (-20.0, 89.0, 1e-9) } else { (-40.0, 710.0, 1e-18) };
    let clamped = f.at_least(a, low);
    let clamped = f.at_most(clamped, high);
    let Parts { main, small, n, .. } = parts(&mut f, clamped);
    let one = f.bits_constant(1);
    let less = f.sub(n, one);
    let power = f.power_of_two(less);
    let minus_half = f.c(-0.5);
    let whole = f.add(power, minus_half);
    // |whole| is more than |scaled|, or 0.
    let scaled = f.mul(power, main);
    let sum = fast_sum(&mut f, whole, scaled);
    let rest = f.fma(power, small, sum.low);
    let half = f.add(sum.high, rest);
    let value = f.add(half, half);

    let (m, linear) = (f.abs(a), f.c(linear));
    let tiny = f.compare(Compare::Lt, m, linear);
    f.select(tiny, a, value)
}
