//! Sums and products of many floats with one rounding, for `eval`.
//!
//! What adding in a plain loop would lose is kept beside the total in a second
//! `f64` (Neumaier 1974; for products of two, Ogita, Rump and Oishi 2005, `Dot2`).
//! The result is as good as if computed with twice the digits and rounded once,
//! so it can judge any order of summation. Where the total leaves the finite
//! range, it is what the plain loop in `f64` gives.

/// A running sum.
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    total: f64,
    lost: f64,
}

impl Sum {
    /// Adds `x`.
    pub(super) fn add(&mut self, x: f64) {
        let total = self.total + x;
        // What rounding took away is exact when taken from the larger one.
        self.lost += if self.total.abs() >= x.abs() {
            (self.total - total) + x
        } else {
            (x - total) + self.total
        };
        self.total = total;
    }

    /// Adds `a * b`.
    pub(super) fn add_product(&mut self, a: f64, b: f64) {
        let product = a * b;
        self.add(product);
        self.lost += a.mul_add(b, -product);
    }

    /// The sum, rounded to `f64`.
    pub(super) fn value(self) -> f64 {
        if self.total.is_finite() { self.total + self.lost } else { self.total }
    }
}

/// A running product.
#[derive(Clone, Copy)]
pub(super) struct Product {
    total: f64,
    lost: f64,
}

impl Product {
    /// The empty product.
    pub(super) fn one() -> Product {
        Product { total: 1.0, lost: 0.0 }
    }

    /// Multiplies by `x`.
    pub(super) fn multiply(&mut self, x: f64) {
        let total = self.total * x;
        self.lost = self.total.mul_add(x, -total) + self.lost * x;
        self.total = total;
    }

    /// The product, rounded to `f64`.
    pub(super) fn value(self) -> f64 {
        let value = self.total + self.lost;
        // Nothing lost: the sign of a zero is the total's.
        if self.lost != 0.0 && value.is_finite() { value } else { self.total }
    }
}
