//! The logarithm of the gamma function and its derivative, of an `f64`.
//!
//! From 32 on, Stirling's series; below, the recurrence `Γ(x + 1) = x Γ(x)` leads there;
//! and on the negative side the reflection `Γ(-m) Γ(m) = -π / (m sin πm)`. All of it
//! cancels, next to 1 and 2 and next to the zeros between the poles, but not as many
//! digits as an `f64` has: computed with twice as many, enough are left.

use super::double::Double;
use super::precise::log_double;

/// From here on Stirling's series has converged to 2^-110 before it diverges.
const STIRLING: f64 = 32.0;

/// Beyond, the result is infinite.
const OVERFLOW: f64 = 2.5563481638716904e305;

/// Bernoulli numbers `B(2k)`, from k = 1.
const BERNOULLI: [(f64, f64); 13] = [
    (1.0, 6.0),
    (-1.0, 30.0),
    (1.0, 42.0),
    (-1.0, 30.0),
    (5.0, 66.0),
    (-691.0, 2730.0),
    (7.0, 6.0),
    (-3617.0, 510.0),
    (43867.0, 798.0),
    (-174611.0, 330.0),
    (854513.0, 138.0),
    (-236364091.0, 2730.0),
    (8553103.0, 6.0),
];

/// π, and what an `f64` leaves of it.
const PI: Double = Double { high: std::f64::consts::PI, low: 1.2246467991473532e-16 };

/// ln(2π) / 2.
const HALF_LN_TAU: Double = Double { high: 0.9189385332046728, low: -3.8782941580672414e-17 };

/// This near to 1 and 2 four terms of Taylor's series are enough.
const NEAR: f64 = 1e-5;

/// Derivatives of `ln Γ` at 1, by factorials: -γ, ζ(2)/2, -ζ(3)/3, ζ(4)/4.
const AT_1: [Double; 4] = [
    Double { high: -0.5772156649015329, low: 4.942915152430645e-18 },
    Double { high: 0.8224670334241132, low: 1.520336175199238e-17 },
    Double { high: -0.40068563438653143, low: 0.0 },
    Double { high: 0.27058080842778454, low: 0.0 },
];

/// The same at 2: 1 - γ, (ζ(2) - 1)/2, ..
const AT_2: [Double; 4] = [
    Double { high: 0.42278433509846713, low: 4.942915152430645e-18 },
    Double { high: 0.3224670334241132, low: 1.520336175199238e-17 },
    Double { high: -0.0673523010531981, low: 0.0 },
    Double { high: 0.020580808427784546, low: 0.0 },
];

/// `ln |Γ(x)|`; infinite at the poles.
pub(super) fn lgamma(x: f64) -> Double {
    let magnitude = x.abs();
    if x.is_nan() {
        x.into()
    } else if x.is_infinite() || x <= 0.0 && x == x.floor() || x > OVERFLOW {
        f64::INFINITY.into()
    } else if magnitude < 1e-50 {
        // Γ(x) is 1/x, and next to that nothing.
        -log_double(magnitude.into())
    } else if (x - 1.0).abs() < NEAR {
        near_zero(x - 1.0, AT_1)
    } else if (x - 2.0).abs() < NEAR {
        near_zero(x - 2.0, AT_2)
    } else if x > 0.0 {
        log_gamma(x)
    } else {
        let (sin, _) = sin_cos_pi(magnitude - magnitude.round());
        let sin = if sin.high < 0.0 { -sin } else { sin };
        let area = PI / sin / Double::from(magnitude);
        log_double(area) - log_gamma(magnitude)
    }
}

/// The derivative of `ln Γ(x)`; NaN at the poles.
pub(super) fn digamma(x: f64) -> Double {
    let magnitude = x.abs();
    if x == f64::INFINITY {
        x.into()
    } else if x.is_nan() || x <= 0.0 && x == x.floor() {
        f64::NAN.into()
    } else if magnitude < 1e-50 {
        (-1.0 / x).into()
    } else if x > 0.0 {
        derivative(x)
    } else {
        let (sin, cos) = sin_cos_pi(magnitude - magnitude.round());
        let inverse = Double::ONE / Double::from(magnitude);
        derivative(magnitude) + inverse + PI * cos / sin
    }
}

/// `d * (c0 + c1*d + c2*d^2 + ..)`.
fn near_zero(d: f64, coefficients: [Double; 4]) -> Double {
    let d = Double::from(d);
    let sum = coefficients.into_iter().rev().reduce(|sum, c| sum * d + c);
    sum.expect("four coefficients") * d
}

/// The sine and cosine of π times a number of at most a half in magnitude.
fn sin_cos_pi(r: f64) -> (Double, Double) {
    let x = PI * Double::from(r);
    let (mut term, mut sin, mut cos) = (Double::ONE, Double::from(0.0), Double::ONE);
    for k in 1..=34 {
        term = term * x / Double::from(f64::from(k));
        let signed = if k % 4 >= 2 { -term } else { term };
        if k % 2 == 1 {
            sin = sin + signed;
        } else {
            cos = cos + signed;
        }
    }
    (sin, cos)
}

/// How far the recurrence has to go.
fn steps(x: f64) -> u32 {
    (STIRLING - x).ceil().max(0.0) as u32
}

fn log_gamma(x: f64) -> Double {
    let steps = steps(x);
    let z = Double::sum(x, steps.into());
    // z leaves the product, which would overflow before the result does.
    let half = Double::from(0.5);
    let mut sum = (z - half) * (log_double(z) - Double::ONE) - half + HALF_LN_TAU;
    let inverse = Double::ONE / z;
    let square = inverse * inverse;
    let mut power = inverse;
    for (i, (numerator, denominator)) in BERNOULLI.into_iter().enumerate() {
        let n = 2.0 * (i + 1) as f64;
        let factor = Double::from(numerator) / Double::from(denominator * n * (n - 1.0));
        sum = sum + power * factor;
        power = power * square;
    }
    let product = (0..steps).fold(Double::ONE, |p, i| p * Double::sum(x, i.into()));
    if steps == 0 { sum } else { sum - log_double(product) }
}

fn derivative(x: f64) -> Double {
    let steps = steps(x);
    let z = Double::sum(x, steps.into());
    let inverse = Double::ONE / z;
    let square = inverse * inverse;
    let mut sum = log_double(z) - inverse * Double::from(0.5);
    let mut power = square;
    for (i, (numerator, denominator)) in BERNOULLI.into_iter().enumerate() {
        let factor = Double::from(numerator) / Double::from(denominator * 2.0 * (i + 1) as f64);
        sum = sum - power * factor;
        power = power * square;
    }
    (0..steps).fold(sum, |sum, i| sum - Double::ONE / Double::sum(x, i.into()))
}
