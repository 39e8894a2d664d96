//! What an error is.

use kiln_ir::{DType, Scalar};

/// Stored digits of the significand and the exponent of the least normal number.
fn layout(dtype: DType) -> (i32, i32) {
    match dtype {
        DType::F16 => (10, -14),
        DType::BF16 => (7, -126),
        DType::F32 => (23, -126),
        _ => (52, -1022),
    }
}

/// An exact result: the sum of two floats times a power of two.
pub type Exact = ([f64; 2], i32);

/// Distance of `got` from the exact result `want` in units in the last place of `want`: a
/// correctly rounded result is at most 0.5 away. Infinite where one is NaN, infinite or
/// a zero of a sign and the other is not.
pub fn error(got: Scalar, want: Exact) -> f64 {
    let dtype = got.dtype();
    let value = got.as_f64();
    let ([high, low], n) = want;
    if high.is_nan() || value.is_nan() {
        return if high.is_nan() && value.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let (digits, least) = layout(dtype);
    let exponent = if high == 0.0 { least } else { (exponent(high) + n).max(least) };
    if value.is_infinite() || high.is_infinite() || exponent > -least + 1 {
        // What rounds to the power of two after the greatest number is infinite. Within
        // a unit and a half of it, either may be right.
        let top = scale(high.abs(), n - (1 - least - digits));
        let limit = power(digits + 1);
        let right = value.signum() == high.signum()
            && if value.is_infinite() { top >= limit - 1.5 } else { top <= limit + 0.5 };
        return if right { 0.0 } else { f64::INFINITY };
    }
    if value == 0.0 && high == 0.0 {
        let same = value.is_sign_negative() == high.is_sign_negative();
        return if same { 0.0 } else { f64::INFINITY };
    }
    // Scaled so that a unit is 1: exact, since only numbers near each other are compared.
    let unit = exponent - digits;
    (scale(value, -unit) - scale(high, n - unit) - scale(low, n - unit)).abs()
}

/// The exponent of the leading digit.
fn exponent(x: f64) -> i32 {
    let x = x.abs();
    if x < f64::MIN_POSITIVE {
        return exponent(x * power(54)) - 54;
    }
    (x.to_bits() >> 52) as i32 - 1023
}

fn scale(x: f64, n: i32) -> f64 {
    // Two factors, each in range.
    x * power(n / 2) * power(n - n / 2)
}

fn power(n: i32) -> f64 {
    2f64.powi(n)
}

#[cfg(test)]
mod tests {
    use super::error;
    use kiln_ir::{DType, Scalar};

    fn of(dtype: DType, got: f64, want: f64) -> f64 {
        error(Scalar::from_f64(dtype, got), ([want, 0.0], 0))
    }

    #[test]
    fn counts_units_of_the_exact_result() {
        assert_eq!(of(DType::F32, 1.0, 1.0), 0.0);
        assert_eq!(of(DType::F32, 1.0 + 2f64.powi(-23), 1.0), 1.0);
        assert_eq!(of(DType::F32, 1.0 - 2f64.powi(-24), 1.0), 0.5);
        assert_eq!(of(DType::F64, 1.0, 1.0 - 2f64.powi(-53)), 1.0);
        assert_eq!(of(DType::F16, 2.0, 2.0 + 2f64.powi(-10)), 0.5);
        assert_eq!(of(DType::BF16, -3.0, -3.0 - 2f64.powi(-7)), 0.5);
        assert_eq!(error(Scalar::from_f64(DType::F64, 1.0), ([1.0, 2f64.powi(-54)], 0)), 0.25);
        assert_eq!(error(Scalar::from_f64(DType::F64, 5e-324), ([0.75, 0.0], -1073)), 0.5);
    }

    #[test]
    fn subnormal_units_are_the_least() {
        assert_eq!(of(DType::F64, 5e-324, 1e-323), 1.0);
        assert_eq!(of(DType::F32, 2f64.powi(-149), 2f64.powi(-148)), 1.0);
        assert_eq!(of(DType::F32, 0.0, 2f64.powi(-150)), 0.5);
        assert_eq!(of(DType::F32, 2f64.powi(-149), 0.0), 1.0);
    }

    #[test]
    fn special_values_are_right_or_infinitely_wrong() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            for (got, want, right) in [
                (nan, nan, true),
                (nan, 1.0, false),
                (1.0, nan, false),
                (inf, inf, true),
                (-inf, inf, false),
                (inf, 1.0, false),
                (1.0, inf, false),
                (0.0, 0.0, true),
                (-0.0, 0.0, false),
            ] {
                assert_eq!(of(dtype, got, want) == 0.0, right, "{dtype} {got} for {want}");
            }
        }
        assert_eq!(of(DType::F32, inf, 2f64.powi(128)), 0.0);
        assert_eq!(of(DType::F32, inf, f64::from(f32::MAX)), 0.0);
        assert_eq!(of(DType::F32, inf, 3.4e38), inf);
        assert_eq!(of(DType::F16, inf, 65520.0), 0.0);
    }
}
