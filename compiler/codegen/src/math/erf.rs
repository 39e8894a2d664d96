//! The error function.
//!
//! Near 0 a polynomial: `erf(m) = m + m*p(m^2)`. Farther out
//! `erf(m) = 1 - e^g(m)` (in `f32`, 2^g(m)) with a polynomial `g` for the logarithm of
//! `erfc`, which is small there, so that its error counts little.

use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::build::Formula;
use super::exp::{exp_normal, exp2_short};
use crate::kernel::{ExprId, Exprs};

/// `erf(m)/m - 1` in `m^2`, up to m = 0.94.
const NEAR_F32: [f64; 6] = [
    0.12837915122509003,
    -0.3761247992515564,
    0.11281640082597733,
    -0.026759590953588486,
    0.004982155282050371,
    -0.0005931879277341068,
];
/// `log2(erfc(m))` on [0.92, 4].
const FAR_F32: [f64; 7] = [
    -0.0002825855917762965,
    -1.626890778541565,
    -0.9192617535591125,
    -0.14993970096111298,
    0.03206571936607361,
    -0.004390185698866844,
    0.00028265087166801095,
];

/// The same in `f64`, up to m = 1.
const NEAR_F64: [f64; 13] = [
    0.1283791670955126,
    -0.3761263890318375,
    0.11283791670954885,
    -0.026866170645077875,
    0.005223977624828431,
    -0.0008548326981425542,
    0.0001205533113295582,
    -1.4925595772180906e-05,
    1.64610084778027e-06,
    -1.6350396222864617e-07,
    1.466032872274226e-08,
    -1.137495573607015e-09,
    5.960685338520971e-11,
];
/// `ln(erfc(m))` on [0.98, 6].
const FAR_F64: [f64; 19] = [
    -1.5059169747361878e-07,
    -1.1283776132877084,
    -0.6366271936641866,
    -0.10275090950665218,
    0.019085319225491008,
    0.00027015319637921055,
    -0.0017576196164552234,
    0.0006313938765941875,
    -3.8177093596244975e-05,
    -7.396472156537846e-05,
    4.65931343459419e-05,
    -1.704983617934138e-05,
    4.473005981489613e-06,
    -8.815842787482935e-07,
    1.3073063422927462e-07,
    -1.4226248047423038e-08,
    1.075279981249803e-09,
    -5.0496641980568106e-11,
    1.1100304558369676e-12,
];

/// `erf(m)` by one of the polynomials for small numbers.
fn series(f: &mut Formula, m: ExprId, tail: &[f64]) -> ExprId {
    let z = f.mul(m, m);
    let p = f.horner(z, tail);
    f.fma(m, p, m)
}

/// `erf(m)` in `f64`, up to 1 in magnitude.
pub(super) fn near_zero(f: &mut Formula, m: ExprId) -> ExprId {
    series(f, m, &NEAR_F64)
}

pub(crate) fn erf(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    // From `one` on the result rounds to 1; from `limit` on the exponential is used.
    let (near, far, limit, one): (&[f64], &[f64], f64, f64) = match ty {
        DType::F32 => (&NEAR_F32, &FAR_F32, 0.93, 4.0),
        _ => (&NEAR_F64, &FAR_F64, 0.99, 6.0),
    };
    let m = f.abs(a);
    let near = series(&mut f, m, near);

    let clamped = f.at_most(m, one);
    let g = f.horner(clamped, far);
    let rest = match ty {
        DType::F32 => exp2_short(&mut f, g, 1.0),
        _ => exp_normal(&mut f, g),
    };
    let one = f.c(1.0);
    let far = f.sub(one, rest);

    let limit = f.c(limit);
    let beyond = f.compare(Compare::Ge, m, limit);
    let magnitude = f.select(beyond, far, near);
    f.with_sign_of(magnitude, a)
}
