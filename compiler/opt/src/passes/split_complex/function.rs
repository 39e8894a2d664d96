//! Functions of complex numbers.
//!
//! Those of `c64` are computed on `f64` and rounded once: the squares of `f32` are exact
//! there and cannot overflow. Those of `c128` take the care that this saves. At
//! infinities, NaN and zeros all do what Annex G of the C standard says.

use kiln_ir::op::{Binary, Compare, Unary};
use kiln_ir::{DType, Value};

use super::build::Build;
use super::number::Pair;

/// Computes `f` on `f64` pairs and rounds to the type that `z` has. `f` is told whether
/// the parts may be any `f64`.
fn in_f64(b: &mut Build, z: Pair, f: impl FnOnce(&mut Build, Pair, bool) -> Pair) -> Pair {
    let dtype = z.dtype(b);
    let wide = z.convert(b, DType::F64);
    f(b, wide, dtype == DType::F64).convert(b, dtype)
}

/// The magnitude.
pub(super) fn abs(b: &mut Build, z: Pair) -> Value {
    let dtype = z.dtype(b);
    let wide = z.convert(b, DType::F64);
    let magnitude = wide.magnitude(b, dtype == DType::F64);
    b.convert(magnitude, dtype)
}

/// A function of one complex number that gives another.
pub(super) fn unary(b: &mut Build, f: Unary, z: Pair) -> Pair {
    match f {
        Unary::Neg => z.neg(b),
        Unary::Sign => in_f64(b, z, sign),
        Unary::Exp => in_f64(b, z, |b, z, _| exp(b, z)),
        Unary::Sqrt => in_f64(b, z, sqrt),
        Unary::Rsqrt => in_f64(b, z, |b, z, wide| {
            let root = sqrt(b, z, wide);
            let (one, zero) = (b.like(root.re, 1.0), b.like(root.re, 0.0));
            Pair { re: one, im: zero }.div(b, root, wide)
        }),
        _ => unreachable!("{} takes no complex numbers", f.name()),
    }
}

/// A function of two complex numbers.
pub(super) fn binary(b: &mut Build, f: Binary, z: Pair, w: Pair) -> Pair {
    match f {
        Binary::Add => z.add(b, w),
        Binary::Sub => z.sub(b, w),
        Binary::Mul => z.mul(b, w),
        Binary::Div => in_f64(b, z, |b, z, wide| {
            let w = w.convert(b, DType::F64);
            z.div(b, w, wide)
        }),
        _ => unreachable!("{} takes no complex numbers", f.name()),
    }
}

/// The number over its magnitude; zero is itself.
fn sign(b: &mut Build, z: Pair, wide: bool) -> Pair {
    let (scaled, _) = z.for_squares(b, wide);
    let magnitude = scaled.magnitude(b, false);
    let zero = b.is_zero(magnitude);
    let sign = scaled.each(|x| b.div(x, magnitude));
    Pair::select(b, zero, z, sign)
}

/// Where `e^x` is close to the greatest number.
const EXP_LIMIT: f64 = 700.0;

/// `e^x` as a product, whose factors do not overflow where it times a number below 1 may
/// not.
fn split_exp(b: &mut Build, x: Value) -> (Value, Value) {
    let large = b.compare_with(Compare::Gt, x, EXP_LIMIT);
    let limit = b.like(x, EXP_LIMIT);
    let rest = b.sub(x, limit);
    let first = b.select(large, rest, x);
    let first = b.unary(Unary::Exp, first);
    let (one, power) = (b.like(x, 1.0), b.like(x, EXP_LIMIT.exp()));
    (first, b.select(large, power, one))
}

/// `e^x cos y + i e^x sin y`.
fn exp(b: &mut Build, z: Pair) -> Pair {
    let (first, second) = split_exp(b, z.re);
    let (cos, sin) = (b.unary(Unary::Cos, z.im), b.unary(Unary::Sin, z.im));
    let turned = Pair { re: cos, im: sin };
    let result = turned.scale(b, first).scale(b, second);
    // e^±∞ in no direction: 0, or infinite.
    let (infinite, finite) = (b.is_infinite(z.re), b.is_finite(z.im));
    let lost = b.not(finite);
    let lost = b.and(infinite, lost);
    let negative = b.compare_with(Compare::Lt, z.re, 0.0);
    let (zero, nan) = (b.like(z.re, 0.0), b.like(z.re, f64::NAN));
    let special = Pair { re: b.select(negative, zero, z.re), im: b.select(negative, zero, nan) };
    let result = Pair::select(b, lost, special, result);
    // On the real line the imaginary part is the zero it was, beside any real part.
    let line = b.is_zero(z.im);
    let re = b.mul(first, second);
    Pair::select(b, line, Pair { re, im: z.im }, result)
}

/// The principal root.
///
/// ```text
/// larger = sqrt((|x| + |z|) / 2),  smaller = |y| / (2 larger)
/// ```
///
/// are the magnitudes of its parts; which is which says the sign of `x`.
fn sqrt(b: &mut Build, z: Pair, wide: bool) -> Pair {
    let (scaled, back) = z.for_squares(b, wide);
    let magnitude = scaled.magnitude(b, false);
    let x = b.abs(scaled.re);
    let sum = b.add(x, magnitude);
    let half = b.times(sum, 0.5);
    let mut larger = b.unary(Unary::Sqrt, half);
    let y = b.abs(scaled.im);
    let smaller = b.div(y, larger);
    let mut smaller = b.times(smaller, 0.5);
    if let Some(back) = back {
        // The root of a power of two with an even exponent is exact.
        let back = b.unary(Unary::Sqrt, back);
        (larger, smaller) = (b.mul(larger, back), b.mul(smaller, back));
    }
    let left = b.compare_with(Compare::Lt, z.re, 0.0);
    let re = b.select(left, smaller, larger);
    let im = b.select(left, larger, smaller);
    let negative = b.is_negative(z.im);
    let minus = b.neg(im);
    let root = Pair { re, im: b.select(negative, minus, im) };

    let (zero, infinity) = (b.like(z.re, 0.0), b.like(z.re, f64::INFINITY));
    // x = ±∞: the other part is zero, or NaN if y is.
    let nan = b.is_nan(z.im);
    let side = b.select(nan, z.im, zero);
    let (side_signed, infinity_signed) = {
        let (minus_side, minus_infinity) = (b.neg(side), b.neg(infinity));
        (b.select(negative, minus_side, side), b.select(negative, minus_infinity, infinity))
    };
    let right = Pair { re: infinity, im: side_signed };
    let on_left = Pair { re: side, im: infinity_signed };
    let along = Pair::select(b, left, on_left, right);
    let infinite = b.is_infinite(z.re);
    let root = Pair::select(b, infinite, along, root);
    // y = ±∞, whatever x is.
    let infinite = b.is_infinite(z.im);
    let root = Pair::select(b, infinite, Pair { re: infinity, im: z.im }, root);
    let (re, im) = (b.is_zero(z.re), b.is_zero(z.im));
    let origin = b.and(re, im);
    Pair::select(b, origin, Pair { re: zero, im: z.im }, root)
}
