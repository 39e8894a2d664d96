//! The error function, its complement and its inverse, of an `f64` to within rounding.
//!
//! ```text
//!          2    x             2
//! erf x = ---  ∫ exp(-t²) dt = --- (x - x³/3·1! + x⁵/5·2! - x⁷/7·3! + ...)
//!         √π   0              √π
//! ```
//!
//! The series is exact but cancels: near 3 its largest terms are about a thousand
//! times the result. Computed with twice the digits of an `f64`, it loses none that
//! matter, and neither does `1 - erf x`. From 3 on there is a continued fraction for
//! that. The inverse is found by Halley's method.

use std::f64::consts::FRAC_2_SQRT_PI;

use super::double::{Double, scaled};
use super::precise::{Wide, exp_parts};

/// 2/√π, and what an `f64` leaves of it.
const TWO_BY_SQRT_PI: Double = Double { high: FRAC_2_SQRT_PI, low: 1.533545961316588e-17 };

/// √π/2, and what an `f64` leaves of it.
const SQRT_PI_BY_2: Double = Double { high: 0.886226925452758, low: -3.8332932499128993e-17 };

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
        series(x).value()
    } else if magnitude.is_nan() {
        x
    } else if magnitude > 30.0 {
        1f64.copysign(x)
    } else {
        let (rest, n) = fraction(magnitude);
        (1.0 - scaled(rest.value(), n)).copysign(x)
    }
}

/// One less the error function.
pub(super) fn erfc(x: f64) -> Wide {
    let limit = if x > 30.0 { 0.0 } else { 2.0 };
    if x.is_nan() {
        (x.into(), 0)
    } else if x.abs() < LINEAR_LIMIT {
        (Double::ONE, 0)
    } else if x.abs() > 30.0 {
        (limit.into(), 0)
    } else if x < SERIES_LIMIT {
        (complement(x), 0)
    } else {
        fraction(x)
    }
}

/// A number times a power of two, rounded.
pub(super) fn narrow((value, n): Wide) -> f64 {
    scaled(value.value(), n)
}

/// The number whose error function is `x`.
pub(super) fn erf_inv(x: f64) -> Double {
    let magnitude = x.abs();
    if magnitude.is_nan() || magnitude > 1.0 {
        return f64::NAN.into();
    }
    if magnitude == 1.0 {
        return f64::INFINITY.copysign(x).into();
    }
    if magnitude < LINEAR_LIMIT {
        // x³ cannot matter. One rounding where `x` is normal.
        let value = x.mul_add(SQRT_PI_BY_2.high, x * SQRT_PI_BY_2.low);
        return value.copysign(x).into();
    }
    // Winitzki's approximation, to two digits or so, but where its roots cancel.
    let log = (1.0 - magnitude).ln() + magnitude.ln_1p();
    let t = 2.0 / (std::f64::consts::PI * 0.147) + 0.5 * log;
    let mut y = match magnitude < 0.01 {
        true => magnitude / FRAC_2_SQRT_PI,
        false => ((t * t - log / 0.147).sqrt() - t).sqrt(),
    };
    let step = |y: f64| {
        // erf y - |x|; next to 1 as the difference of the complements.
        let difference = match magnitude < 0.5 {
            true => series(y) - Double::from(magnitude),
            false => Double::from(1.0 - magnitude) - complement(y),
        };
        let slope = FRAC_2_SQRT_PI * (-y * y).exp();
        let newton = difference.value() / slope;
        newton / (1.0 + y * newton)
    };
    for _ in 0..3 {
        y -= step(y);
    }
    let y = Double::sum(y, -step(y));
    if x < 0.0 { -y } else { y }
}

/// `1 - erf x` where it is a normal number with digits to spare.
fn complement(x: f64) -> Double {
    if x > SERIES_LIMIT {
        let (rest, n) = fraction(x);
        rest.scaled(n)
    } else if x < -SERIES_LIMIT {
        Double::from(2.0) - complement(-x)
    } else {
        Double::ONE - series(x)
    }
}

/// The series above, until terms no longer reach the sum.
fn series(x: f64) -> Double {
    let x = Double::from(x);
    let square = x * x;
    // power = (-1)ⁿ x²ⁿ⁺¹ / n!
    let (mut power, mut sum) = (x, x);
    for n in 1.. {
        power = -(power * square / Double::from(f64::from(n)));
        let term = power / Double::from(f64::from(2 * n + 1));
        sum = sum + term;
        if term.high.abs() < sum.high.abs() * 1e-33 {
            break;
        }
    }
    sum * TWO_BY_SQRT_PI
}

/// `1 - erf x` for `x` from 3 to 30, as a number near 1 and a power of two:
///
/// ```text
/// exp(-x²)     1     1/2   2/2   3/2
/// --------- · ----- ----- ----- ----- ...
///    √π        x +   x +   x +   x +
/// ```
fn fraction(x: f64) -> Wide {
    // Evaluated from the inside out. A hundred levels leave 2^-120 at x = 3, where the
    // fraction converges slowest.
    let whole = Double::from(x);
    let fraction =
        (1..=100).rev().fold(whole, |inner, k| whole + Double::from(0.5 * f64::from(k)) / inner);
    let (power, n) = exp_parts(-Double::product(x, x));
    ((Double::ONE + power) * TWO_BY_SQRT_PI / Double::from(2.0) / fraction, n)
}
