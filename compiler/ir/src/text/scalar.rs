//! One element from its text: the inverse of its `Display`.

use crate::{DType, Scalar};

impl Scalar {
    /// The element of type `dtype` that `text` writes, or `None` if it writes none.
    ///
    /// Reads back every bit of what `Display` prints: `nan` is the canonical quiet NaN,
    /// `0x…` the bits of any float. Refuses what the type does not hold: an integer out
    /// of range, a finite decimal that rounds to infinity.
    pub fn parse(dtype: DType, text: &str) -> Option<Scalar> {
        if dtype.is_complex() {
            let (re, im) = text.strip_prefix('(')?.strip_suffix(')')?.split_once(", ")?;
            let part = |text| Scalar::parse(dtype.part(), text);
            return Some(Scalar::complex(part(re)?, part(im)?));
        }
        if dtype == DType::Bool {
            return match text {
                "true" => Some(Scalar::bool(true)),
                "false" => Some(Scalar::bool(false)),
                _ => None,
            };
        }
        if !text.starts_with(|c: char| c.is_ascii_digit() || "-in".contains(c)) {
            return None;
        }
        if dtype.is_integer() {
            let x: i128 = text.parse().ok()?;
            return Some(Scalar::from_i128(dtype, x)).filter(|s| s.as_i128() == Some(x));
        }
        match text {
            "nan" => return Some(Scalar::from_f64(dtype, f64::NAN)),
            "inf" => return Some(Scalar::from_f64(dtype, f64::INFINITY)),
            "-inf" => return Some(Scalar::from_f64(dtype, f64::NEG_INFINITY)),
            _ => {}
        }
        if let Some(digits) = text.strip_prefix("0x") {
            // `from_str_radix` would take a sign.
            let bits = u64::from_str_radix(digits, 16).ok()?;
            let fits = dtype.size() == 8 || bits >> (dtype.size() * 8) == 0;
            return (digits.bytes().all(|b| b.is_ascii_hexdigit()) && fits)
                .then(|| Scalar::from_bits(dtype, bits));
        }
        if !text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)) {
            return None;
        }
        let scalar = match dtype {
            // Not by way of an f64, which would round twice.
            DType::F32 => Scalar::from_bits(dtype, text.parse::<f32>().ok()?.to_bits() as u64),
            _ => Scalar::from_f64(dtype, text.parse().ok()?),
        };
        Some(scalar).filter(|s| s.as_f64().is_finite())
    }
}
