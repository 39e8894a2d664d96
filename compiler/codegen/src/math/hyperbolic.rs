//! The hyperbolic sine and cosine.
//!
//! With `h = exp(|a|) / 2`, they are `h - 1/4h` and `h + 1/4h`. `h` is known as a sum
//! `high + low`, and scaled by its power of two only after halving, so that it is finite
//! where the result is. Near 0 the sine is a polynomial: `m + m * z*p(z)` with
//! `z = m^2`.

use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::build::Formula;
use super::exp::exp_pair;
use super::pair::Pair;
use crate::kernel::{ExprId, Exprs};

/// `(sinh(m)/m - 1) / m^2` in `m^2`, up to m = 1.
const SINH_F32: [f64; 4] =
    [0.1666666716337204, 0.008333350531756878, 0.00019836146384477615, 2.8170538826088887e-06];
/// The same in `f64`.
const SINH_F64: [f64; 8] = [
    0.16666666666666666,
    0.008333333333333333,
    0.00019841269841269616,
    2.7557319224111203e-06,
    2.5052108347464502e-08,
    1.605905050037443e-10,
    7.646488509893484e-13,
    2.848104809617683e-15,
];

pub(crate) fn sinh(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let m = f.abs(a);
    let z = f.mul(m, m);
    let p = f.horner(z, if ty == DType::F32 { &SINH_F32 } else { &SINH_F64 });
    let cubic = f.mul(m, z);
    let near = f.fma(cubic, p, m);

    let (h, inverse) = half_exp(&mut f, m);
    let rest = f.sub(h.low, inverse);
    let far = f.add(h.high, rest);

    // NaN is not beyond and takes the polynomial, which keeps it.
    let one = f.c(1.0);
    let beyond = f.compare(Compare::Ge, m, one);
    let magnitude = f.select(beyond, far, near);
    f.with_sign_of(magnitude, a)
}

pub(crate) fn cosh(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let m = f.abs(a);
    let (h, inverse) = half_exp(&mut f, m);
    let rest = f.add(h.low, inverse);
    f.add(h.high, rest)
}

/// `h = exp(m) / 2` and `1 / 4h`, for `m` not negative.
fn half_exp(f: &mut Formula, m: ExprId) -> (Pair, ExprId) {
    // Beyond, the results are infinite, and n stays in range.
    let m = f.at_most(m, if f.ty == DType::F32 { 90.0 } else { 711.0 });
    let (p, n) = exp_pair(f, m);
    let one = f.bits_constant(1);
    let less = f.sub(n, one);
    let (high, low) = (f.scale(p.high, less), f.scale(p.low, less));
    let quarter = f.c(0.25);
    (Pair { high, low }, f.div(quarter, high))
}
