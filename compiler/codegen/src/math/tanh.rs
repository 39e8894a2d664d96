//! The hyperbolic tangent.
//!
//! In `f32` a polynomial on each of 32 pieces (`tanh_pieces.rs`).
//!
//! In `f64` a polynomial near 0: `tanh(m) = m + m * z*p(z)` with `z = m^2`. Farther out
//! `tanh(m) = 1 - 2 / (exp(2m) + 1)`, where the fraction is small, so that its error
//! counts little.
//!
//! The sign is put back at the end, which keeps −0.

use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::build::Formula;
use super::exp::exp_normal;
use super::tanh_pieces;
use crate::kernel::{ExprId, Exprs};

/// `(tanh(m)/m - 1) / m^2` in `m^2`, up to m = 0.55.
const TAIL_F64: [f64; 11] = [
    -0.33333333333333326,
    0.13333333333330497,
    -0.05396825396572484,
    0.021869488436182555,
    -0.008863233352861403,
    0.0035920990403130347,
    -0.001455584965387122,
    0.0005886075285845729,
    -0.00023377447519183834,
    8.3852752387067e-05,
    -1.981142706659982e-05,
];
/// Where the fraction takes over, and where the result rounds to 1.
const LIMIT_F64: f64 = 0.55;
const ONE_F64: f64 = 20.0;

pub(crate) fn tanh(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let m = f.abs(a);
    let magnitude = match ty {
        DType::F32 => tanh_pieces::tanh(&mut f, m),
        _ => by_fraction(&mut f, m),
    };
    f.with_sign_of(magnitude, a)
}

/// `tanh(m)` for `m` not negative, in `f64`.
fn by_fraction(f: &mut Formula, m: ExprId) -> ExprId {
    let z = f.mul(m, m);
    let p = f.horner(z, &TAIL_F64);
    let p = f.mul(z, p);
    let near = f.fma(m, p, m);

    let far = f.at_most(m, ONE_F64);
    let (one, two) = (f.c(1.0), f.c(2.0));
    let exponent = f.mul(far, two);
    let e = exp_normal(f, exponent);
    let below = f.add(e, one);
    let fraction = f.div(two, below);
    let far = f.sub(one, fraction);

    // NaN is not beyond the limit and takes the polynomial, which keeps it.
    let limit = f.c(LIMIT_F64);
    let beyond = f.compare(Compare::Ge, m, limit);
    f.select(beyond, far, near)
}
