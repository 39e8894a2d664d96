//! Sums of two floats: twice the digits where one float is not enough.

use super::build::Formula;
use crate::kernel::ExprId;

/// A value as an unevaluated sum of two floats, the second within the first's
/// rounding error.
#[derive(Clone, Copy)]
pub(crate) struct Pair {
    pub high: ExprId,
    pub low: ExprId,
}

/// `a + b` exactly, for |a| at least |b| (Dekker).
pub(crate) fn fast_sum(f: &mut Formula, a: ExprId, b: ExprId) -> Pair {
    let high = f.add(a, b);
    let taken = f.sub(high, a);
    Pair { high, low: f.sub(b, taken) }
}

/// `a * b`, exactly.
pub(crate) fn product(f: &mut Formula, a: ExprId, b: ExprId) -> Pair {
    let high = f.mul(a, b);
    let minus = f.neg(high);
    Pair { high, low: f.fma(a, b, minus) }
}

/// `a * b` to about twice the precision.
pub(crate) fn times(f: &mut Formula, a: Pair, b: Pair) -> Pair {
    let exact = product(f, a.high, b.high);
    let low = f.fma(a.high, b.low, exact.low);
    let low = f.fma(a.low, b.high, low);
    fast_sum(f, exact.high, low)
}
