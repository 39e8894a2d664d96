//! The inverse of the error function.
//!
//! `erf_inv(x) = x P(w)` with `w = -log(1 - x^2)`, after Giles ("Approximating the erfinv
//! function", 2010): polynomials in `w`, and where it is large in its root. Next to 1
//! that `w` comes from `1 - x`, which is exact. Computed in `f64` for both types.

use kiln_ir::op::Compare;

use super::build::Formula;
use super::log;
use super::wide::{Digits, in_f64};
use crate::kernel::expr::UnaryOp;
use crate::kernel::{ExprId, Exprs};

/// `erf_inv(x) / x` in `w - 2.5`, up to w = 5; error 2^-28.
const CENTER_SHORT: [f64; 11] = [
    1.5014093535115198,
    0.24664028763291918,
    -0.0041773393967564,
    -0.0012527446684090285,
    0.0002182826296783375,
    -4.9619059912025985e-06,
    -3.4346128453964233e-06,
    4.6589073636120865e-07,
    1.803757299209802e-08,
    -8.77272251990968e-09,
    3.355114000411183e-10,
];
/// The same in `√w - 3.125`, up to w = 16; error 2^-27.
const TAIL_SHORT: [f64; 10] = [
    2.958320133341148,
    1.0037187023705405,
    0.007049041500935345,
    -0.005301019670550613,
    0.0037817061206448133,
    -0.0025211153489619375,
    0.0013105371697020617,
    -0.000322822285793226,
    -0.00017364327190375604,
    0.0001289753809894791,
];
/// `erf_inv(x) / x` in `w - 3.125`, up to w = 6.25.
const CENTER: [f64; 22] = [
    1.6536545626831027,
    0.24015818242559042,
    -0.006033670871429115,
    -0.0007407025341727458,
    0.00018673420802857072,
    -1.3882523347528348e-05,
    -1.3654691894554988e-06,
    4.2347876193677994e-07,
    -2.9070380086172914e-08,
    -4.112624423544294e-09,
    1.051217746529576e-09,
    -5.4157461283348746e-11,
    -1.297693967362545e-11,
    2.6342378889912106e-12,
    -8.114232433483094e-14,
    -4.0645601136044136e-14,
    6.5876937699563536e-15,
    2.934970539987605e-17,
    -1.2924794963941832e-16,
    1.0766013647188818e-17,
    1.099937983978919e-18,
    -1.6066905983150164e-19,
];
/// The same in `√w - 3.25`, up to w = 16.
const TAIL: [f64; 18] = [
    3.0838856104922208,
    1.0052589676941572,
    0.005370914553583424,
    -0.003751208507377657,
    0.0024914420965733443,
    -0.0016882755612094055,
    0.0009532893686445932,
    -0.0003550374580906435,
    2.403123414626932e-05,
    6.828445864136576e-05,
    -4.731897244156355e-05,
    1.2476699501910184e-05,
    2.9259934435519763e-06,
    -4.0166714895286555e-06,
    1.4977540310290315e-06,
    2.1214578094405544e-08,
    -2.6999529695635445e-07,
    8.946258765496715e-08,
];
/// The same in `√w - 5`, up to w = 36.75.
const END: [f64; 16] = [
    4.849906401408584,
    1.0103004648645242,
    -0.00013871931842972317,
    -0.00021503011892596302,
    7.59952791136666e-05,
    -1.968178204570197e-05,
    4.526045304070755e-06,
    -9.929645839535635e-07,
    2.2907423573377512e-07,
    -6.775468120446697e-08,
    2.8998245303385928e-08,
    -1.4906433847605916e-08,
    7.79324151493658e-09,
    -3.823662904502399e-09,
    1.3986045424836405e-09,
    -2.468455452679165e-10,
];

pub(crate) fn erf_inv(x: &mut Exprs, a: ExprId) -> ExprId {
    in_f64(x, [a], |f, [a], digits| inverse(f, a, digits))
}

fn inverse(f: &mut Formula, a: ExprId, digits: Digits) -> ExprId {
    let one = f.c(1.0);
    let minus_a = f.neg(a);
    // Rounded once. Beyond 1 it is negative, and the logarithm NaN.
    let rest = f.fma(minus_a, a, one);
    let log = log::log(f.x, rest);
    let w = f.neg(log);
    let root = f.x.unary(UnaryOp::Sqrt, w);
    // A polynomial in `of - center`.
    let mut around = |of: ExprId, center: f64, tail: &[f64]| {
        let center = f.c(center);
        let s = f.sub(of, center);
        f.horner(s, tail)
    };
    let (p, far, limit) = match digits {
        Digits::Single => (around(w, 2.5, &CENTER_SHORT), around(root, 3.125, &TAIL_SHORT), 5.0),
        Digits::Double => {
            let (tail, end) = (around(root, 3.25, &TAIL), around(root, 5.0, &END));
            let p = around(w, 3.125, &CENTER);
            let limit = f.c(16.0);
            let extreme = f.compare(Compare::Gt, w, limit);
            (p, f.select(extreme, end, tail), 6.25)
        }
    };
    let limit = f.c(limit);
    let beyond = f.compare(Compare::Gt, w, limit);
    f.x.mark_rare(beyond);
    let p = f.select(beyond, far, p);
    let value = f.mul(a, p);
    let m = f.abs(a);
    let end = f.compare(Compare::Eq, m, one);
    let infinity = f.c(f64::INFINITY);
    let infinity = f.mul(a, infinity);
    f.select(end, infinity, value)
}
