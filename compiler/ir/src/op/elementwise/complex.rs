//! Complex arithmetic, as `eval` defines it.
//!
//! A [`Number`] is a pair of `f64`; what is computed in it is rounded to the parts of the
//! element type at the end. That is correct to well below a unit of a `c64`. For `c128`
//! each function is arranged so that nothing overflows, underflows or cancels on the way
//! that need not: the errors left are a few units of the larger part.
//!
//! At infinities, NaN and zeros the functions do what Annex G of the C standard says. A
//! product does not: like numpy's and JAX's it is the formula, whatever comes of it.

use crate::{DType, Scalar};

/// A complex number.
#[derive(Clone, Copy, Debug)]
pub(in crate::op) struct Number {
    pub re: f64,
    pub im: f64,
}

/// Where `e^x` is close to the greatest number.
const EXP_LIMIT: f64 = 700.0;

impl Number {
    pub const ONE: Number = Number { re: 1.0, im: 0.0 };

    const fn new(re: f64, im: f64) -> Number {
        Number { re, im }
    }

    /// The value of an element: exact.
    pub fn of(x: Scalar) -> Number {
        Number::new(x.real().as_f64(), x.imag().as_f64())
    }

    /// The nearest element.
    pub fn round(self, dtype: DType) -> Scalar {
        Scalar::from_parts(dtype, self.re, self.im)
    }

    pub fn is_finite(self) -> bool {
        self.re.is_finite() && self.im.is_finite()
    }

    fn is_infinite(self) -> bool {
        self.re.is_infinite() || self.im.is_infinite()
    }

    fn is_zero(self) -> bool {
        self.re == 0.0 && self.im == 0.0
    }

    fn each(self, f: impl Fn(f64) -> f64) -> Number {
        Number::new(f(self.re), f(self.im))
    }

    pub fn neg(self) -> Number {
        self.each(|x| -x)
    }

    pub fn plus(self, other: Number) -> Number {
        Number::new(self.re + other.re, self.im + other.im)
    }

    pub fn times(self, other: Number) -> Number {
        let (a, b) = (self, other);
        Number::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
    }

    /// The product with every operation rounded to the parts of `dtype`.
    pub fn times_rounded(self, other: Number, dtype: DType) -> Number {
        let round = |x: f64| Scalar::from_f64(dtype.part(), x).as_f64();
        let (a, b) = (self, other);
        let re = round(a.re * b.re) - round(a.im * b.im);
        let im = round(a.re * b.im) + round(a.im * b.re);
        Number::new(re, im)
    }

    /// The larger magnitude of the parts.
    fn largest(self) -> f64 {
        self.re.abs().max(self.im.abs())
    }

    /// The number times a power of two that brings its larger part between 1/4 and 4,
    /// and the exponent of the power that brings it back. Zeros, infinities and NaN stay.
    fn scaled(self) -> (Number, i32) {
        let mut z = self;
        let mut exponent = 0;
        if !z.is_finite() || z.is_zero() {
            return (z, 0);
        }
        for step in [512, 256, 128, 64, 32, 16, 8, 4, 2, 1] {
            let power = 2f64.powi(step);
            while z.largest() >= power * 2.0 {
                z = z.each(|x| x / power);
                exponent += step;
            }
            while z.largest() <= 0.5 / power {
                z = z.each(|x| x * power);
                exponent -= step;
            }
        }
        (z, exponent)
    }

    /// The number times a power of two. In steps, since the power may not be a float; only
    /// the last step may round, since the steps before do not leave the normal numbers.
    fn scale(self, exponent: i32) -> Number {
        let half = exponent / 2;
        let step = |x: f64| x * 2f64.powi(half) * 2f64.powi(exponent - half);
        if (-1000..=1000).contains(&half) { self.each(step) } else { self.each(|x| x * 0.0) }
    }

    /// The quotient: both sides scaled to about 1, so that only the result may overflow.
    /// The special cases are those of Annex G.
    pub fn over(self, other: Number) -> Number {
        let ((a, up), (b, down)) = (self.scaled(), other.scaled());
        let norm = b.re * b.re + b.im * b.im;
        let re = dot(a.re, b.re, a.im, b.im) / norm;
        let im = dot(a.im, b.re, -a.re, b.im) / norm;
        if !(re.is_nan() && im.is_nan()) {
            return Number::new(re, im).scale(up - down);
        }
        let (a, b) = (self, other);
        if b.is_zero() && !(a.re.is_nan() && a.im.is_nan()) {
            let infinity = f64::INFINITY.copysign(b.re);
            return a.each(|x| infinity * x);
        }
        let quotient = |a: Number, b: Number, times: f64| {
            let re = times * (a.re * b.re + a.im * b.im);
            Number::new(re, times * (a.im * b.re - a.re * b.im))
        };
        let sides = |x: f64| if x.is_infinite() { 1.0f64 } else { 0.0 }.copysign(x);
        if a.is_infinite() && b.is_finite() {
            return quotient(a.each(sides), b, f64::INFINITY);
        }
        if b.is_infinite() && a.is_finite() {
            return quotient(a, b.each(sides), 0.0);
        }
        Number::new(f64::NAN, f64::NAN)
    }

    /// The magnitude.
    pub fn abs(self) -> f64 {
        self.re.hypot(self.im)
    }

    /// The number over its magnitude; zero is itself.
    pub fn sign(self) -> Number {
        if self.is_zero() {
            return self;
        }
        let z = self.scaled().0;
        let magnitude = z.abs();
        z.each(|x| x / magnitude)
    }

    pub fn exp(self) -> Number {
        let Number { re, im } = self;
        if im == 0.0 {
            return Number::new(re.exp(), im);
        }
        if re.is_infinite() && !im.is_finite() {
            return if re < 0.0 { Number::new(0.0, 0.0) } else { Number::new(re, f64::NAN) };
        }
        let (first, second) = split_exp(re);
        Number::new(first * im.cos() * second, first * im.sin() * second)
    }

    /// The principal value: the imaginary part is between −π and π.
    pub fn log(self) -> Number {
        let Number { re, im } = self;
        let (large, small) = (self.largest(), re.abs().min(im.abs()));
        let magnitude = if large > 0.5 && large < 2.0 {
            // |z|² - 1 = d·large + d + small² with d = large - 1, which is exact; to twice
            // the digits of an f64, since the terms may cancel.
            let d = large - 1.0;
            let (p, q) = (d * large, small * small);
            let lost = d.mul_add(large, -p) + small.mul_add(small, -q);
            let (sum, lost_first) = two_sum(p, d);
            let (sum, lost_second) = two_sum(sum, q);
            0.5 * (sum + (lost_first + lost_second + lost)).ln_1p()
        } else {
            let (z, exponent) = self.scaled();
            z.abs().ln() + f64::from(exponent) * std::f64::consts::LN_2
        };
        Number::new(magnitude, im.atan2(re))
    }

    /// The principal value: the real part is not negative, the imaginary part has the
    /// sign of that of the number.
    pub fn sqrt(self) -> Number {
        let Number { re, im } = self;
        if self.is_zero() {
            return Number::new(0.0, im);
        }
        if im.is_infinite() {
            return Number::new(f64::INFINITY, im);
        }
        if re.is_infinite() {
            let other = if im.is_nan() { im } else { 0.0f64.copysign(im) };
            return if re > 0.0 {
                Number::new(re, other)
            } else {
                Number::new(other.abs(), f64::INFINITY.copysign(im))
            };
        }
        let (z, exponent) = self.scaled();
        // An even exponent, so that the root of the power is one.
        let odd = exponent.rem_euclid(2);
        let z = z.scale(odd);
        let larger = ((z.re.abs() + z.abs()) * 0.5).sqrt();
        let smaller = z.im.abs() / (2.0 * larger);
        let root = if z.re.is_sign_negative() {
            Number::new(smaller, larger.copysign(z.im))
        } else {
            Number::new(larger, smaller.copysign(z.im))
        };
        root.scale((exponent - odd) / 2)
    }

    pub fn sin(self) -> Number {
        let Number { re, im } = self;
        if im.is_infinite() && !re.is_finite() {
            return Number::new(f64::NAN, im);
        }
        // sin x cosh y + i cos x sinh y
        let (cosh, sinh, scale) = hyperbolic(im);
        Number::new(zero_wins(re.sin(), cosh) * scale, zero_wins(sinh, re.cos()) * scale)
    }

    pub fn cos(self) -> Number {
        let Number { re, im } = self;
        if im.is_infinite() && !re.is_finite() {
            return Number::new(f64::INFINITY, f64::NAN);
        }
        // cos x cosh y - i sin x sinh y
        let (cosh, sinh, scale) = hyperbolic(im);
        let sin = re.sin();
        let product = if sin == 0.0 { zero_wins(sin, sinh) } else { zero_wins(sinh, sin) };
        Number::new(re.cos() * cosh * scale, -product * scale)
    }

    pub fn tanh(self) -> Number {
        let Number { re, im } = self;
        if im == 0.0 {
            return Number::new(re.tanh(), im);
        }
        if re.abs() > 25.0 {
            // Within rounding of ±1; the imaginary part is 2 sin 2y / e^2|x|.
            let sin = if im.is_finite() { im.sin() * im.cos() } else { 0.0 };
            let im = 4.0 * sin * (-re.abs()).exp() * (-re.abs()).exp();
            return Number::new(1f64.copysign(re), im);
        }
        let (sinh, cosh) = (re.sinh(), re.cosh());
        let (sin, cos) = im.sin_cos();
        // sinh² x + cos² y: a sum, where cosh 2x + cos 2y cancels.
        let norm = sinh * sinh + cos * cos;
        Number::new(zero_wins(sinh, cosh / norm), sin * cos / norm)
    }

    /// `e^(w log z)`. Zero to a power of positive real part is zero, anything to the
    /// power zero is one.
    pub fn pow(self, exponent: Number) -> Number {
        if exponent.is_zero() {
            return Number::ONE;
        }
        if self.is_zero() {
            let zero = exponent.re > 0.0 && exponent.im.is_finite();
            let part = if zero { 0.0 } else { f64::NAN };
            return Number::new(part, part);
        }
        let (log, w) = (self.log(), exponent);
        Number::new(dot(log.re, w.re, -log.im, w.im), dot(log.re, w.im, log.im, w.re)).exp()
    }
}

/// `a * b + c * d`, with what products and the sum lose added back (Ogita, Rump and
/// Oishi 2005, `Dot2`).
fn dot(a: f64, b: f64, c: f64, d: f64) -> f64 {
    let (p, q) = (a * b, c * d);
    let (sum, lost) = two_sum(p, q);
    let low = lost + (a.mul_add(b, -p) + c.mul_add(d, -q));
    if sum.is_finite() { sum + low } else { sum }
}

/// `a + b` and what it lost (Knuth).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// `e^x` as a product whose factors do not overflow where it times a number below 1 may
/// not.
fn split_exp(x: f64) -> (f64, f64) {
    if x > EXP_LIMIT { ((x - EXP_LIMIT).exp(), EXP_LIMIT.exp()) } else { (x.exp(), 1.0) }
}

/// `cosh y` and `sinh y`, and what both are to be multiplied by.
fn hyperbolic(y: f64) -> (f64, f64, f64) {
    if y.abs() > EXP_LIMIT && y.is_finite() {
        let (first, second) = split_exp(y.abs());
        (0.5 * first, (0.5 * first).copysign(y), second)
    } else {
        (y.cosh(), y.sinh(), 1.0)
    }
}

/// The product, but that a zero stays one beside an infinity or NaN.
fn zero_wins(zero: f64, other: f64) -> f64 {
    if zero == 0.0 && !other.is_finite() { zero } else { zero * other }
}
