//! Elementary functions of an `f64`, to within rounding.
//!
//! A C library gives these within one or two units. As definitions that is too little:
//! here they are computed with twice the digits of an `f64`, by the identities that
//! textbooks have, and rounded once. Everything follows from two functions,
//!
//! ```text
//! expm1 r = r + r²/2! + r³/3! + ...          after taking out powers of two
//! log1p x = y + (x - expm1 y) / exp y        with y from the C library: one step of
//!                                            Newton's method doubles its digits
//! ```
//!
//! Zeros, infinities and NaN give what C's `<math.h>` says, and are the only arguments
//! for which its functions decide.

use super::double::{Double, scaled, split};

/// A function that is its argument to first order is its argument below this: the next
/// term is far less than half a unit, and products of less would underflow.
const LINEAR_LIMIT: f64 = 1e-100;

/// Above this, `exp(-2x)` is nothing next to 1 with twice the digits.
const DECAYED: f64 = 40.0;

/// Above this, `x² + 1` is `x²` with twice the digits.
const HUGE: f64 = 1e18;

/// `exp(x) = 2^n * (1 + t)`: returns `(t, n)`, with `t` relatively precise.
pub(super) fn exp_parts(x: Double) -> (Double, i32) {
    let n = (x.high * std::f64::consts::LOG2_E).round_ties_even();
    let r = x - Double::LN_2 * Double::from(n);
    // The Taylor series for |r| of at most half of ln 2.
    let (mut term, mut sum) = (r, r);
    for k in 2.. {
        term = term * r / Double::from(f64::from(k));
        sum = sum + term;
        if term.high.abs() <= sum.high.abs() * 1e-33 {
            break;
        }
    }
    (sum, n as i32)
}

/// `exp(x)`, for results that are normal numbers.
fn exp_double(x: Double) -> Double {
    let (t, n) = exp_parts(x);
    (Double::ONE + t).scaled(n)
}

/// `exp(x) - 1`, for `x` above [`LINEAR_LIMIT`] in magnitude.
fn expm1_double(x: Double) -> Double {
    let (t, n) = exp_parts(x);
    if n == 0 { t } else { (Double::ONE + t).scaled(n) - Double::ONE }
}

/// `log(1 + x)`, for `x` above [`LINEAR_LIMIT`] in magnitude and far from overflow.
fn log1p_double(x: Double) -> Double {
    let y = Double::from(x.high.ln_1p());
    let e = expm1_double(y);
    y + (x - e) / (Double::ONE + e)
}

/// `log(x)` for positive `x`.
pub(super) fn log_double(x: Double) -> Double {
    let (m, mut e) = split(x.high);
    // Around 1, where the exponent must be 0 for nothing to cancel.
    e += i32::from(m > std::f64::consts::SQRT_2);
    let less_one = x.scaled(-e) - Double::ONE;
    let whole = Double::LN_2 * Double::from(f64::from(e));
    if less_one.high.abs() < LINEAR_LIMIT {
        whole + less_one
    } else {
        whole + log1p_double(less_one)
    }
}

/// e to the power, less 1.
pub(super) fn expm1(x: f64) -> Double {
    if !x.is_finite() || x.abs() < LINEAR_LIMIT {
        return x.exp_m1().into();
    }
    if x > 2.0 * DECAYED {
        return half_exp(x).scaled(1);
    }
    expm1_double(x.max(-2.0 * DECAYED).into())
}

/// Logarithm of 1 more.
pub(super) fn log1p(x: f64) -> Double {
    if !x.is_finite() || x <= -1.0 || x.abs() < LINEAR_LIMIT {
        return x.ln_1p().into();
    }
    if x > HUGE { log_double(x.into()) } else { log1p_double(x.into()) }
}

/// Logarithm to the base 10.
pub(super) fn log10(x: f64) -> Double {
    if !x.is_finite() || x <= 0.0 || x == 1.0 {
        return x.log10().into();
    }
    log_double(x.into()) * Double::LOG10_E
}

/// Cube root.
pub(super) fn cbrt(x: f64) -> Double {
    if !x.is_finite() || x == 0.0 {
        return x.into();
    }
    // x = m * 2^3k with m in [1, 8).
    let (m, e) = split(x.abs());
    let k = e.div_euclid(3);
    let m = scaled(m, e.rem_euclid(3));
    let root = Double::from(m.cbrt());
    let rest = Double::from(m) - root * root * root;
    let root = (root + rest / (root * root * Double::from(3.0))).scaled(k);
    if x < 0.0 { -root } else { root }
}

/// Square root, for the sweep of errors.
pub(super) fn sqrt(x: f64) -> Double {
    if !x.is_finite() || x <= 0.0 {
        return x.sqrt().into();
    }
    let (m, e) = split(x);
    let m = scaled(m, e.rem_euclid(2));
    Double::from(m).sqrt().scaled(e.div_euclid(2))
}

/// Reciprocal of the square root.
pub(super) fn rsqrt(x: f64) -> Double {
    if !x.is_finite() || x <= 0.0 {
        return (1.0 / x.sqrt()).into();
    }
    // x = m * 4^k with m in [1, 4).
    let (m, e) = split(x);
    let m = scaled(m, e.rem_euclid(2));
    (Double::ONE / Double::from(m).sqrt()).scaled(-e.div_euclid(2))
}

/// `1 / (1 + exp(-x))`.
pub(super) fn logistic(x: f64) -> Double {
    if x.is_nan() {
        return x.into();
    }
    if x < -DECAYED {
        // exp(x) / (1 + exp(x)), whose denominator no longer matters.
        return x.exp().into();
    }
    Double::ONE / (Double::ONE + exp_double((-x.min(700.0)).into()))
}

/// Hyperbolic sine.
pub(super) fn sinh(x: f64) -> Double {
    let m = x.abs();
    if !x.is_finite() || m < LINEAR_LIMIT {
        return x.into();
    }
    let magnitude = if m > DECAYED {
        half_exp(m)
    } else {
        let t = expm1_double(m.into());
        (t + t / (Double::ONE + t)).scaled(-1)
    };
    if x < 0.0 { -magnitude } else { magnitude }
}

/// Hyperbolic cosine.
pub(super) fn cosh(x: f64) -> Double {
    let m = x.abs();
    if !x.is_finite() {
        return m.into();
    }
    if m > DECAYED {
        return half_exp(m);
    }
    let e = exp_double(m.into());
    (e + Double::ONE / e).scaled(-1)
}

/// `exp(m) / 2`, which may be finite where `exp(m)` is not.
fn half_exp(m: f64) -> Double {
    if m > 720.0 {
        return f64::INFINITY.into();
    }
    let (t, n) = exp_parts(m.into());
    (Double::ONE + t).scaled(n - 1)
}

/// Hyperbolic tangent.
pub(super) fn tanh(x: f64) -> Double {
    let m = x.abs();
    if x.is_nan() || m < LINEAR_LIMIT {
        return x.into();
    }
    let t = expm1_double((2.0 * m.min(DECAYED)).into());
    let magnitude = t / (t + Double::from(2.0));
    if x < 0.0 { -magnitude } else { magnitude }
}

/// Inverse of the hyperbolic sine.
pub(super) fn asinh(x: f64) -> Double {
    let m = x.abs();
    if !x.is_finite() || m < LINEAR_LIMIT {
        return x.into();
    }
    let magnitude = if m > HUGE {
        log_double(m.into()) + Double::LN_2
    } else {
        // log(m + √(m² + 1)), with √(m² + 1) - 1 = m² / (1 + √(m² + 1)).
        let square = Double::product(m, m);
        let root = (square + Double::ONE).sqrt();
        log1p_double(Double::from(m) + square / (Double::ONE + root))
    };
    if x < 0.0 { -magnitude } else { magnitude }
}

/// Inverse of the hyperbolic cosine, not negative; NaN below 1.
pub(super) fn acosh(x: f64) -> Double {
    if x.is_nan() || x < 1.0 {
        return f64::NAN.into();
    }
    if x == 1.0 || x == f64::INFINITY {
        return (x - 1.0).into();
    }
    if x > HUGE {
        return log_double(x.into()) + Double::LN_2;
    }
    // log(x + √(x² - 1)) with t = x - 1.
    let t = Double::sum(x, -1.0);
    log1p_double(t + (t * (t + Double::from(2.0))).sqrt())
}

/// Inverse of the hyperbolic tangent; infinite at ±1 and NaN beyond.
pub(super) fn atanh(x: f64) -> Double {
    let m = x.abs();
    if x.is_nan() || m < LINEAR_LIMIT {
        return x.into();
    }
    if m >= 1.0 {
        return if m > 1.0 { f64::NAN } else { f64::INFINITY.copysign(x) }.into();
    }
    // log((1 + m) / (1 - m)) / 2.
    let ratio = Double::from(2.0 * m) / Double::sum(1.0, -m);
    let magnitude = log1p_double(ratio).scaled(-1);
    if x < 0.0 { -magnitude } else { magnitude }
}

/// `x` as `high + low` times a power of two, for results that may be subnormal, where a
/// sum of two floats has no more digits than one.
pub(super) type Wide = (Double, i32);

/// e to the power, for the sweep of errors: `exp` itself takes the C library's, which
/// is right to 0.52 units.
pub(super) fn exp(x: f64) -> Wide {
    if !x.is_finite() || x.abs() > 1000.0 {
        return (x.exp().into(), 0);
    }
    let (t, n) = exp_parts(x.into());
    (Double::ONE + t, n)
}

/// 2 to the power, likewise.
pub(super) fn exp2(x: f64) -> Wide {
    if !x.is_finite() || x.abs() > 1500.0 {
        return (x.exp2().into(), 0);
    }
    let n = x.round();
    (exp_double(Double::LN_2 * Double::from(x - n)), n as i32)
}

/// The logistic function, likewise.
pub(super) fn wide_logistic(x: f64) -> Wide {
    if x < -DECAYED { exp(x) } else { (logistic(x), 0) }
}

/// Natural logarithm, likewise.
pub(super) fn log(x: f64) -> Double {
    if !x.is_finite() || x <= 0.0 || x == 1.0 { x.ln().into() } else { log_double(x.into()) }
}

/// Logarithm to the base 2, likewise.
pub(super) fn log2(x: f64) -> Double {
    if !x.is_finite() || x <= 0.0 || x == 1.0 {
        return x.log2().into();
    }
    log_double(x.into()) * Double::LOG2_E
}
