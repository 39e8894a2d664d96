//! The error function of an `f64`, to within rounding.
//!
//! ```text
//!          2    x             2
//! erf x = ---  ∫ exp(-t²) dt = --- (x - x³/3·1! + x⁵/5·2! - x⁷/7·3! + ...)
//!         √π   0              √π
//! ```
//!
//! The series is exact but cancels: near 3 its largest terms are about a thousand
//! times the result. Computed with twice the digits of an `f64`, it loses none that
//! matter. From 3 on, where the result is 1 less something small, a continued
//! fraction for `1 - erf x` needs only a few digits to be right.

use std::f64::consts::FRAC_2_SQRT_PI;

use super::double::Double;

/// 2/√π, and what an `f64` leaves of it.
const TWO_BY_SQRT_PI: Double = Double { high: FRAC_2_SQRT_PI, low: 1.533545961316588e-17 };

/// Above this the series gives way to the continued fraction.
const SERIES_LIMIT: f64 = 3.0;

/// Below this `x³/3` cannot matter, and neither products nor their errors may
/// underflow.
const LINEAR_LIMIT: f64 = 1e-100;

/// The error function.
pub(super) fn erf(x: f64) -> f64 {
    let magnitude = x.abs();
    if magnitude < LINEAR_LIMIT {
        // One rounding where `x` is normal; nothing is lost where it is not.
        x + x * (TWO_BY_SQRT_PI.high - 1.0)
    } else if magnitude < SERIES_LIMIT {
        series(x)
    } else if magnitude.is_nan() {
        x
    } else {
        (1.0 - complement(magnitude)).copysign(x)
    }
}

/// The series above, until terms no longer reach the sum.
fn series(x: f64) -> f64 {
    let x = Double::from(x);
    let square = x * x;
    // power = (-1)ⁿ x²ⁿ⁺¹ / n!
    let (mut power, mut sum) = (x, x);
    for n in 1.. {
        power = -(power * square / Double::from(f64::from(n)));
        let term = power / Double::from(f64::from(2 * n + 1));
        sum = sum + term;
        if term.high.abs() < sum.high.abs() * 1e-24 {
            break;
        }
    }
    (sum * TWO_BY_SQRT_PI).value()
}

/// `1 - erf x` for `x` of at least 3:
///
/// ```text
/// exp(-x²)     1     1/2   2/2   3/2
/// --------- · ----- ----- ----- ----- ...
///    √π        x +   x +   x +   x +
/// ```
fn complement(x: f64) -> f64 {
    if x > 30.0 {
        return 0.0;
    }
    // Evaluated from the inside out. The number of levels was found by doubling
    // until nothing changed at x = 3, where the fraction converges slowest.
    let fraction = (1..=100).rev().fold(x, |inner, k| x + 0.5 * k as f64 / inner);
    (-x * x).exp() * 0.5 * TWO_BY_SQRT_PI.high / fraction
}
