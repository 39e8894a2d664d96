//! Comparing results.

use kiln_ir::{DType, Literal, Scalar};

/// How close two results must be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Closeness {
    /// Equal bits, but that any NaN equals any NaN.
    Exact,
    /// Floats differ by at most this many units in the last place of the larger,
    /// or by at most `absolute`. Parts of complex numbers do, in units of the larger part.
    /// Other types are equal.
    Near {
        /// Units in the last place.
        ulps: f64,
        /// Allowed beside that.
        absolute: f64,
    },
}

/// The first element that differs too much, described; `None` if there is none.
pub fn difference(want: &Literal, got: &Literal, closeness: Closeness) -> Option<String> {
    if want.ty() != got.ty() {
        return Some(format!("type {} instead of {}", got.ty(), want.ty()));
    }
    for (i, (w, g)) in want.iter().zip(got.iter()).enumerate() {
        if !agree(w, g, closeness) {
            return Some(format!("element {i} of {}: {g} instead of {w}", want.ty()));
        }
    }
    None
}

fn agree(want: Scalar, got: Scalar, closeness: Closeness) -> bool {
    if want == got {
        return true;
    }
    if want.dtype().is_complex() {
        let parts = [want.real(), want.imag(), got.real(), got.imag()].map(|x| x.as_f64().abs());
        let largest = parts.into_iter().filter(|x| x.is_finite()).fold(0.0, f64::max);
        return close(want.real(), got.real(), largest, closeness)
            && close(want.imag(), got.imag(), largest, closeness);
    }
    if !want.dtype().is_float() {
        return false;
    }
    close(want, got, want.as_f64().abs().max(got.as_f64().abs()), closeness)
}

/// Whether floats agree, with units in the last place at magnitude `at`.
fn close(want: Scalar, got: Scalar, at: f64, closeness: Closeness) -> bool {
    if want == got {
        return true;
    }
    let (w, g) = (want.as_f64(), got.as_f64());
    if w.is_nan() || g.is_nan() {
        return w.is_nan() && g.is_nan();
    }
    match closeness {
        Closeness::Exact => false,
        Closeness::Near { ulps, absolute } => {
            let allowed = ulps * ulp(want.dtype(), at) + absolute;
            w.is_finite() && g.is_finite() && (w - g).abs() <= allowed
        }
    }
}

/// The distance between neighbouring floats of a type at magnitude `x`.
pub fn ulp(dtype: DType, x: f64) -> f64 {
    let (digits, least) = match dtype {
        DType::F16 => (10, -14),
        DType::BF16 => (7, -126),
        DType::F32 => (23, -126),
        _ => (52, -1022),
    };
    let exponent =
        if x == 0.0 || !x.is_finite() { least } else { (x.log2().floor() as i32).max(least) };
    // Not as one power, whose reciprocal would overflow.
    2f64.powi(exponent) * 2f64.powi(-digits)
}
