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

/// An unevaluated sum `high + low` with `low` below half a unit of `high`.
#[derive(Clone, Copy)]
struct Double {
    high: f64,
    low: f64,
}

/// 2/√π, and what an `f64` leaves of it.
const TWO_BY_SQRT_PI: Double = Double { high: FRAC_2_SQRT_PI, low: 1.533545961316588e-17 };

/// Above this the series gives way to the continued fraction.
const SERIES_LIMIT: f64 = 3.0;

/// Below this `x³/3` cannot matter, and neither products nor their errors may
/// underflow.
const LINEAR_LIMIT: f64 = 1e-100;

impl Double {
    /// `a + b` exactly (Knuth).
    fn sum(a: f64, b: f64) -> Double {
        let high = a + b;
        let b_part = high - a;
        Double { high, low: (a - (high - b_part)) + (b - b_part) }
    }

    /// `a * b` exactly.
    fn product(a: f64, b: f64) -> Double {
        let high = a * b;
        Double { high, low: a.mul_add(b, -high) }
    }

    fn plus(self, other: Double) -> Double {
        let sum = Double::sum(self.high, other.high);
        Double::sum(sum.high, sum.low + self.low + other.low)
    }

    fn times(self, other: Double) -> Double {
        let product = Double::product(self.high, other.high);
        let cross = self.high * other.low + self.low * other.high;
        Double::sum(product.high, product.low + cross)
    }

    fn divided_by(self, n: f64) -> Double {
        let high = self.high / n;
        let back = Double::product(high, n);
        Double::sum(high, ((self.high - back.high) - back.low + self.low) / n)
    }
}

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
    let x = Double { high: x, low: 0.0 };
    let square = x.times(x);
    // power = (-1)ⁿ x²ⁿ⁺¹ / n!
    let (mut power, mut sum) = (x, x);
    for n in 1.. {
        let next = power.times(square).divided_by(n as f64);
        power = Double { high: -next.high, low: -next.low };
        let term = power.divided_by((2 * n + 1) as f64);
        sum = sum.plus(term);
        if term.high.abs() < sum.high.abs() * 1e-24 {
            break;
        }
    }
    let result = sum.times(TWO_BY_SQRT_PI);
    result.high + result.low
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
