//! The hyperbolic tangent.
//!
//! Near 0 a polynomial: `tanh(m) = m + m * z*p(z)` with `z = m^2`. Farther out
//! `tanh(m) = 1 - 2 / (exp(2m) + 1)`, where the fraction is small, so that its error
//! counts little. The sign is put back at the end, which keeps −0.

use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::build::Formula;
use super::exp::{exp_normal, exp2_short};
use crate::kernel::{ExprId, Exprs};

/// `(tanh(m)/m - 1) / m^2` in `m^2`, up to m = 0.65.
const TAIL_F32: [f64; 5] = [
    -0.33333277702331543,
    0.13331185281276703,
    -0.053711388260126114,
    0.020531540736556053,
    -0.005572981666773558,
];

/// The same in `f64`, up to m = 0.55.
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

pub(crate) fn tanh(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    // From `one` on the result rounds to 1; from `limit` on the fraction is used.
    let (tail, limit, one): (&[f64], f64, f64) = match ty {
        DType::F32 => (&TAIL_F32, 0.65, 10.0),
        _ => (&TAIL_F64, 0.55, 20.0),
    };
    let m = f.abs(a);
    let z = f.mul(m, m);
    let p = f.horner(z, tail);
    let p = f.mul(z, p);
    let near = f.fma(m, p, m);

    let far = f.at_most(m, one);
    let e = if ty == DType::F32 {
        exp2_short(&mut f, far, 2.0 * std::f64::consts::LOG2_E)
    } else {
        let two = f.c(2.0);
        let exponent = f.mul(far, two);
        exp_normal(&mut f, exponent)
    };
    let (one, two) = (f.c(1.0), f.c(2.0));
    let below = f.add(e, one);
    let fraction = f.div(two, below);
    let far = f.sub(one, fraction);

    // NaN is not beyond the limit and takes the polynomial, which keeps it.
    let limit = f.c(limit);
    let beyond = f.compare(Compare::Ge, m, limit);
    let magnitude = f.select(beyond, far, near);
    f.with_sign_of(magnitude, a)
}
