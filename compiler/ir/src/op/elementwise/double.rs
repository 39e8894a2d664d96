//! Arithmetic with twice the digits of an `f64`: what the precise definitions of
//! functions are computed in.
//!
//! A number is an unevaluated sum of two floats. Sums and products keep about 104
//! bits; nothing here knows of infinities or NaN, which callers answer for.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// An unevaluated sum `high + low` with `low` below half a unit of `high`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Double {
    pub high: f64,
    pub low: f64,
}

impl Double {
    /// ln 2, and what an `f64` leaves of it.
    pub const LN_2: Double = Double { high: std::f64::consts::LN_2, low: 2.3190468138462996e-17 };
    /// log₁₀ e.
    pub const LOG10_E: Double =
        Double { high: std::f64::consts::LOG10_E, low: 1.098319650216765e-17 };
    /// log₂ e.
    pub const LOG2_E: Double =
        Double { high: std::f64::consts::LOG2_E, low: 2.0355273740931033e-17 };
    /// 1.
    pub const ONE: Double = Double { high: 1.0, low: 0.0 };

    /// `a + b` exactly (Knuth).
    pub fn sum(a: f64, b: f64) -> Double {
        let high = a + b;
        let b_part = high - a;
        Double { high, low: (a - (high - b_part)) + (b - b_part) }
    }

    /// `a * b` exactly, if neither it nor its error underflows.
    pub fn product(a: f64, b: f64) -> Double {
        let high = a * b;
        Double { high, low: a.mul_add(b, -high) }
    }

    /// The square root of a positive number.
    pub fn sqrt(self) -> Double {
        let root = self.high.sqrt();
        let rest = self - Double::product(root, root);
        Double::sum(root, rest.high / (2.0 * root))
    }

    /// `self * 2^n`, exactly unless it overflows or underflows.
    pub fn scaled(self, n: i32) -> Double {
        Double { high: scaled(self.high, n), low: scaled(self.low, n) }
    }

    /// The nearest `f64`.
    pub fn value(self) -> f64 {
        // Adding nothing would lose the sign of -0.
        if self.low == 0.0 { self.high } else { self.high + self.low }
    }
}

impl From<f64> for Double {
    fn from(high: f64) -> Double {
        Double { high, low: 0.0 }
    }
}

impl Add for Double {
    type Output = Double;
    fn add(self, other: Double) -> Double {
        let high = Double::sum(self.high, other.high);
        let low = Double::sum(self.low, other.low);
        let sum = Double::sum(high.high, high.low + low.high);
        Double::sum(sum.high, sum.low + low.low)
    }
}

impl Neg for Double {
    type Output = Double;
    fn neg(self) -> Double {
        Double { high: -self.high, low: -self.low }
    }
}

impl Sub for Double {
    type Output = Double;
    fn sub(self, other: Double) -> Double {
        self + -other
    }
}

impl Mul for Double {
    type Output = Double;
    fn mul(self, other: Double) -> Double {
        let product = Double::product(self.high, other.high);
        let cross = self.high * other.low + self.low * other.high;
        Double::sum(product.high, product.low + cross)
    }
}

impl Div for Double {
    type Output = Double;
    fn div(self, other: Double) -> Double {
        // Two quotients of the leading parts; the second divides what the first leaves.
        let first = self.high / other.high;
        let rest = self - other * Double::from(first);
        let second = rest.high / other.high;
        let rest = rest - other * Double::from(second);
        Double::sum(first, second) + Double::from(rest.high / other.high)
    }
}

/// `x * 2^n`, rounded once.
pub(super) fn scaled(x: f64, n: i32) -> f64 {
    // Each factor is a power of two in range. Only the last product can round: before
    // it, a number on its way down is still large, and one on its way up is exact.
    let step = n.clamp(-1000, 1000);
    let x = if step == n { x } else { x * power_of_two(n - step) };
    x * power_of_two(step / 2) * power_of_two(step - step / 2)
}

fn power_of_two(n: i32) -> f64 {
    f64::from_bits(((n.clamp(-1022, 1023) + 1023) as u64) << 52)
}

/// `(m, e)` with `x = m * 2^e` and `m` in [1, 2), for positive finite `x`.
pub(super) fn split(x: f64) -> (f64, i32) {
    let (x, raised) = if x < f64::MIN_POSITIVE { (x * power_of_two(54), 54) } else { (x, 0) };
    let exponent = (x.to_bits() >> 52) as i32 - 1023;
    (f64::from_bits(x.to_bits() & ((1 << 52) - 1) | 1023 << 52), exponent - raised)
}
