//! A small vocabulary for writing formulas over one float type.

use kiln_ir::op::Compare;
use kiln_ir::{DType, Scalar};

use crate::kernel::expr::{BinaryOp, UnaryOp};
use crate::kernel::{ExprId, Exprs, Table};

/// Adds expressions of one float type (`f32` or `f64`) to an arena.
pub(crate) struct Formula<'x> {
    /// The arena.
    pub x: &'x mut Exprs,
    /// The type.
    pub ty: DType,
}

/// Layout and landmarks of a float type.
pub(crate) struct Layout {
    /// The unsigned type of equal width.
    pub bits: DType,
    /// Stored bits of the significand.
    pub significand: i64,
    /// Bias of the exponent.
    pub bias: i64,
    /// 1.5 times 2 to the number of stored bits. Added to a small number, it leaves
    /// the nearest integer in the low bits of the sum.
    pub magic: f64,
}

pub(crate) const F32: Layout =
    Layout { bits: DType::U32, significand: 23, bias: 127, magic: 12582912.0 };
pub(crate) const F64: Layout =
    Layout { bits: DType::U64, significand: 52, bias: 1023, magic: 6755399441055744.0 };

impl Formula<'_> {
    /// The type's layout.
    pub fn layout(&self) -> &'static Layout {
        if self.ty == DType::F32 { &F32 } else { &F64 }
    }

    /// A constant, rounded to the type.
    pub fn c(&mut self, value: f64) -> ExprId {
        self.x.float(self.ty, value)
    }

    /// A constant bit pattern.
    pub fn bits_constant(&mut self, value: u64) -> ExprId {
        self.x.constant(Scalar::from_bits(self.layout().bits, value))
    }

    pub fn add(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.x.binary(BinaryOp::Add, a, b)
    }

    pub fn sub(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.x.binary(BinaryOp::Sub, a, b)
    }

    pub fn mul(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.x.binary(BinaryOp::Mul, a, b)
    }

    pub fn div(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.x.binary(BinaryOp::Div, a, b)
    }

    pub fn and(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.x.binary(BinaryOp::And, a, b)
    }

    pub fn or(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.x.binary(BinaryOp::Or, a, b)
    }

    pub fn xor(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.x.binary(BinaryOp::Xor, a, b)
    }

    pub fn fma(&mut self, a: ExprId, b: ExprId, c: ExprId) -> ExprId {
        self.x.fma(a, b, c)
    }

    pub fn abs(&mut self, a: ExprId) -> ExprId {
        self.x.unary(UnaryOp::Abs, a)
    }

    pub fn neg(&mut self, a: ExprId) -> ExprId {
        self.x.unary(UnaryOp::Neg, a)
    }

    pub fn compare(&mut self, op: Compare, a: ExprId, b: ExprId) -> ExprId {
        self.x.compare(op, a, b)
    }

    pub fn select(&mut self, c: ExprId, a: ExprId, b: ExprId) -> ExprId {
        self.x.select(c, a, b)
    }

    /// `a << by` of a bit pattern.
    pub fn shl(&mut self, a: ExprId, by: i64) -> ExprId {
        let by = self.x.integer(self.x.dtype(a), by);
        self.x.binary(BinaryOp::ShiftLeft, a, by)
    }

    /// `a >> by` of a bit pattern.
    pub fn shr(&mut self, a: ExprId, by: i64) -> ExprId {
        let by = self.x.integer(self.x.dtype(a), by);
        self.x.binary(BinaryOp::ShiftRightLogical, a, by)
    }

    /// The bit pattern of a float.
    pub fn bits_of(&mut self, a: ExprId) -> ExprId {
        self.x.bitcast(a, self.layout().bits)
    }

    /// The float of a bit pattern.
    pub fn float_of(&mut self, a: ExprId) -> ExprId {
        self.x.bitcast(a, self.ty)
    }

    /// `c[0] + c[1]*a + c[2]*a^2 + ..` by Horner's rule, one fused step a coefficient.
    pub fn horner(&mut self, a: ExprId, coefficients: &[f64]) -> ExprId {
        let (&last, rest) = coefficients.split_last().expect("a coefficient");
        let mut sum = self.c(last);
        for &coefficient in rest.iter().rev() {
            let coefficient = self.c(coefficient);
            sum = self.fma(sum, a, coefficient);
        }
        sum
    }

    /// `magnitude`, which is not negative, with the sign of `a`.
    pub fn with_sign_of(&mut self, magnitude: ExprId, a: ExprId) -> ExprId {
        let (bits, source) = (self.bits_of(magnitude), self.bits_of(a));
        let mask = self.bits_constant(1 << (self.layout().bits.bits() - 1));
        let sign = self.and(source, mask);
        let bits = self.or(bits, sign);
        self.float_of(bits)
    }

    /// The lesser of `a` and a constant; NaN stays.
    pub fn at_most(&mut self, a: ExprId, limit: f64) -> ExprId {
        let limit = self.c(limit);
        let above = self.compare(Compare::Gt, a, limit);
        self.select(above, limit, a)
    }

    /// The greater of `a` and a constant; NaN stays.
    pub fn at_least(&mut self, a: ExprId, limit: f64) -> ExprId {
        let limit = self.c(limit);
        let below = self.compare(Compare::Lt, a, limit);
        self.select(below, limit, a)
    }

    /// The nearest integer to `a * factor`: `.0` as a float, `.1` the bit pattern whose
    /// low bits hold it, for |a * factor| below 2^21.
    pub fn nearest(&mut self, a: ExprId, factor: f64) -> (ExprId, ExprId) {
        let shifted = self.shifted(a, factor);
        let magic = self.c(self.layout().magic);
        let n = self.sub(shifted, magic);
        (n, self.bits_of(shifted))
    }

    /// `a * factor` less the nearest integer, and that integer in the low bits of a
    /// pattern, as [`Formula::nearest`] gives it.
    pub fn fraction(&mut self, a: ExprId, factor: f64) -> (ExprId, ExprId) {
        let shifted = self.shifted(a, factor);
        let magic = self.c(self.layout().magic);
        let minus_n = self.sub(magic, shifted);
        let rest = self.add_product(a, factor, minus_n);
        (rest, self.bits_of(shifted))
    }

    /// `a * factor` rounded to an integer by the magic number it is added to.
    fn shifted(&mut self, a: ExprId, factor: f64) -> ExprId {
        let magic = self.c(self.layout().magic);
        self.add_product(a, factor, magic)
    }

    fn add_product(&mut self, a: ExprId, factor: f64, b: ExprId) -> ExprId {
        if factor == 1.0 {
            return self.add(a, b);
        }
        let factor = self.c(factor);
        self.fma(a, factor, b)
    }

    /// The element of a table that the low bits of a pattern name.
    pub fn lookup(&mut self, table: &'static Table, index: ExprId) -> ExprId {
        self.x.lookup(table, index)
    }

    /// `p * 2^n` for any result, rounded once if it is subnormal, where `n` is an integer
    /// and `p` near 1.
    pub fn times_power(&mut self, p: ExprId, n: ExprId) -> ExprId {
        self.x.binary(BinaryOp::Scale, p, n)
    }

    /// `p * 2^n` by adding to the exponent, for results that are normal numbers.
    /// `n` is in the low bits of the pattern.
    pub fn scale_normal(&mut self, p: ExprId, n: ExprId) -> ExprId {
        let up = self.shl(n, self.layout().significand);
        let bits = self.bits_of(p);
        let bits = self.add(bits, up);
        self.float_of(bits)
    }

    /// `p * 2^n` for any result, rounded once if it is subnormal. `n`, the low bits of
    /// the pattern, may be up to twice the largest exponent.
    pub fn scale(&mut self, p: ExprId, n: ExprId) -> ExprId {
        // 2^n = 2^floor(n/2) * 2^ceil(n/2): the first product is exact.
        let half = self.shr(n, 1);
        let other = self.sub(n, half);
        let (a, b) = (self.power_of_two(half), self.power_of_two(other));
        let p = self.mul(p, a);
        self.mul(p, b)
    }

    /// `2^n` for a normal result, `n` in the low bits of the pattern.
    pub fn power_of_two(&mut self, n: ExprId) -> ExprId {
        let Layout { significand, bias, .. } = *self.layout();
        let one = self.bits_constant((bias << significand) as u64);
        let up = self.shl(n, significand);
        let bits = self.add(up, one);
        self.float_of(bits)
    }
}
