//! The order of elements: what `min`, `max`, comparisons and reductions mean by less.
//!
//! Numbers compare as real numbers; NaN compares with nothing. Where one of two
//! elements is chosen, NaN wins, the first of two NaNs, and −0 is below +0.

use std::cmp::Ordering;

use crate::Scalar;

/// How two elements of one type compare; `None` if either is NaN. Zeros are equal.
///
/// Complex numbers are equal or not: if they are not, as real parts that differ, or else
/// as imaginary parts. Only whether the answer is `Equal` means anything.
pub(in crate::op) fn compare(a: Scalar, b: Scalar) -> Option<Ordering> {
    if a.dtype().is_complex() {
        let re = compare(a.real(), b.real())?;
        return compare(a.imag(), b.imag()).map(|im| re.then(im));
    }
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        // Exact: every float is an f64.
        _ => a.as_f64().partial_cmp(&b.as_f64()),
    }
}

/// The lesser of two elements.
pub(in crate::op) fn lesser(a: Scalar, b: Scalar) -> Scalar {
    choose(a, b, Ordering::Less)
}

/// The greater of two elements.
pub(in crate::op) fn greater(a: Scalar, b: Scalar) -> Scalar {
    choose(a, b, Ordering::Greater)
}

/// `a` if it is NaN or compares as `wanted` with `b`, else `b`.
fn choose(a: Scalar, b: Scalar, wanted: Ordering) -> Scalar {
    match compare(a, b) {
        None if a.is_nan() => a,
        None => b,
        // Equal floats are equal bits or zeros, whose sign bits order them the other
        // way round: the bits of −0 are the larger.
        Some(Ordering::Equal) if a.bits().cmp(&b.bits()) == wanted.reverse() => a,
        Some(ordering) if ordering == wanted => a,
        Some(_) => b,
    }
}
