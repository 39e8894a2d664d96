//! Complex arithmetic on pairs of values.

use kiln_ir::op::{Binary, Compare, Part};
use kiln_ir::{DType, Value};

use super::build::Build;

/// The parts of a complex value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pair {
    pub re: Value,
    pub im: Value,
}

/// Magnitudes between the inverse of this and this have squares that neither overflow
/// nor lose digits.
const SQUARES: f64 = f64::from_bits((1023 + 500) << 52);

/// What brings a magnitude outside to the inside: a power of two.
const SCALE: f64 = f64::from_bits((1023 + 600) << 52);

impl Pair {
    /// One of them.
    pub fn part(self, part: Part) -> Value {
        match part {
            Part::Real => self.re,
            Part::Imag => self.im,
        }
    }

    /// `f` of each part.
    pub fn each(self, mut f: impl FnMut(Value) -> Value) -> Pair {
        Pair { re: f(self.re), im: f(self.im) }
    }

    /// The type of the parts.
    pub fn dtype(self, b: &Build) -> DType {
        b.dtype(self.re)
    }

    pub fn convert(self, b: &mut Build, to: DType) -> Pair {
        self.each(|x| b.convert(x, to))
    }

    pub fn neg(self, b: &mut Build) -> Pair {
        self.each(|x| b.neg(x))
    }

    pub fn add(self, b: &mut Build, other: Pair) -> Pair {
        Pair { re: b.add(self.re, other.re), im: b.add(self.im, other.im) }
    }

    pub fn sub(self, b: &mut Build, other: Pair) -> Pair {
        Pair { re: b.sub(self.re, other.re), im: b.sub(self.im, other.im) }
    }

    /// `(ac - bd) + (ad + bc)i`: the formula, whatever comes of it at infinities.
    pub fn mul(self, b: &mut Build, other: Pair) -> Pair {
        let (p, q) = (b.mul(self.re, other.re), b.mul(self.im, other.im));
        let (r, s) = (b.mul(self.re, other.im), b.mul(self.im, other.re));
        Pair { re: b.sub(p, q), im: b.add(r, s) }
    }

    /// The product with a real value.
    pub fn scale(self, b: &mut Build, by: Value) -> Pair {
        self.each(|x| b.mul(x, by))
    }

    /// `yes` or `no`.
    pub fn select(b: &mut Build, chooser: Value, yes: Pair, no: Pair) -> Pair {
        Pair { re: b.select(chooser, yes.re, no.re), im: b.select(chooser, yes.im, no.im) }
    }

    /// Whether either part is infinite.
    pub fn is_infinite(self, b: &mut Build) -> Value {
        let (re, im) = (b.is_infinite(self.re), b.is_infinite(self.im));
        b.or(re, im)
    }

    pub fn is_finite(self, b: &mut Build) -> Value {
        let (re, im) = (b.is_finite(self.re), b.is_finite(self.im));
        b.and(re, im)
    }

    /// The larger magnitude of the parts; NaN if either is.
    pub fn largest(self, b: &mut Build) -> Value {
        let (re, im) = (b.abs(self.re), b.abs(self.im));
        b.binary(Binary::Max, re, im)
    }

    /// The pair times a power of two, after which squares of its larger part neither
    /// overflow nor underflow, and the power that brings it back.
    ///
    /// `wide`: the parts may be any `f64`. Otherwise they were made of `f32`, whose
    /// squares are harmless, and stay as they are: the power is absent.
    pub fn for_squares(self, b: &mut Build, wide: bool) -> (Pair, Option<Value>) {
        if !wide {
            return (self, None);
        }
        let largest = self.largest(b);
        let (high, low) = (
            b.compare_with(Compare::Gt, largest, SQUARES),
            b.compare_with(Compare::Lt, largest, 1.0 / SQUARES),
        );
        let (one, up, down) =
            (b.like(largest, 1.0), b.like(largest, SCALE), b.like(largest, 1.0 / SCALE));
        let factor = b.select(low, up, one);
        let factor = b.select(high, down, factor);
        let back = b.select(low, down, one);
        let back = b.select(high, up, back);
        (self.scale(b, factor), Some(back))
    }

    /// The sum of the squares of the parts.
    pub fn norm(self, b: &mut Build) -> Value {
        let (re, im) = (b.mul(self.re, self.re), b.mul(self.im, self.im));
        b.add(re, im)
    }

    /// The magnitude; see [`Pair::for_squares`] for `wide`.
    pub fn magnitude(self, b: &mut Build, wide: bool) -> Value {
        let infinite = self.is_infinite(b);
        let (scaled, back) = self.for_squares(b, wide);
        let norm = scaled.norm(b);
        let mut root = b.unary(kiln_ir::op::Unary::Sqrt, norm);
        if let Some(back) = back {
            root = b.mul(root, back);
        }
        let infinity = b.like(root, f64::INFINITY);
        b.select(infinite, infinity, root)
    }

    /// The quotient of `f64` pairs, with the special cases of Annex G of the C standard.
    ///
    /// ```text
    /// a + bi   (ac + bd) + (bc - ad)i
    /// ------ = ----------------------
    /// c + di          c² + d²
    /// ```
    ///
    /// Both sides are scaled first, so that only the result can overflow.
    pub fn div(self, b: &mut Build, other: Pair, wide: bool) -> Pair {
        let (x, up) = self.for_squares(b, wide);
        let (y, down) = other.for_squares(b, wide);
        let norm = y.norm(b);
        let mut quotient = x.times_conjugate(b, y).each(|part| b.div(part, norm));
        if let (Some(up), Some(down)) = (up, down) {
            // The powers are undone one after the other, since their quotient may be no
            // float; where they are equal, not at all.
            let same = b.compare(Compare::Eq, up, down);
            let one = b.like(up, 1.0);
            let inverse = b.div(one, down);
            let (first, second) = (b.select(same, one, up), b.select(same, one, inverse));
            quotient = quotient.scale(b, first).scale(b, second);
        }
        let (re, im) = (b.is_nan(quotient.re), b.is_nan(quotient.im));
        let lost = b.and(re, im);
        let special = self.special_quotient(b, other, quotient);
        Pair::select(b, lost, special, quotient)
    }

    /// `(ac + bd) + (bc - ad)i`.
    fn times_conjugate(self, b: &mut Build, other: Pair) -> Pair {
        let (p, q) = (b.mul(self.re, other.re), b.mul(self.im, other.im));
        let (r, s) = (b.mul(self.im, other.re), b.mul(self.re, other.im));
        Pair { re: b.add(p, q), im: b.sub(r, s) }
    }

    /// What a quotient is whose formula gave NaN twice.
    fn special_quotient(self, b: &mut Build, other: Pair, otherwise: Pair) -> Pair {
        // What a part counts for beside an infinity: the sign if it is one, else zero.
        let sides = |b: &mut Build, pair: Pair| {
            pair.each(|x| {
                let infinite = b.is_infinite(x);
                let sign = b.unary(kiln_ir::op::Unary::Sign, x);
                let zero = b.times(x, 0.0);
                b.select(infinite, sign, zero)
            })
        };
        let (left_infinite, right_infinite) = (self.is_infinite(b), other.is_infinite(b));
        let (left_finite, right_finite) = (self.is_finite(b), other.is_finite(b));

        let by_infinity = sides(b, other);
        let zero = self.times_conjugate(b, by_infinity).each(|x| b.times(x, 0.0));
        let vanishes = b.and(right_infinite, left_finite);
        let result = Pair::select(b, vanishes, zero, otherwise);

        let of_infinity = sides(b, self);
        let infinite = of_infinity.times_conjugate(b, other);
        let infinite = infinite.each(|x| b.times(x, f64::INFINITY));
        let grows = b.and(left_infinite, right_finite);
        let result = Pair::select(b, grows, infinite, result);

        // The reciprocal of a zero is the infinity of its sign.
        let one = b.like(other.re, 1.0);
        let infinity = b.div(one, other.re);
        let infinite = self.scale(b, infinity);
        let (re, im) = (b.is_zero(other.re), b.is_zero(other.im));
        let zero = b.and(re, im);
        Pair::select(b, zero, infinite, result)
    }
}
