//! The complement of the error function.
//!
//! For `m` not negative `erfc(m) = exp(-m^2) R(u) / (m + 5/2)` with one polynomial `R`
//! in `u = (5/2 - m) / (m + 5/2)`: relatively accurate to the end of the tail, subnormal
//! results included. `m^2` is known to twice the digits, since the exponential magnifies
//! its error. For negative numbers the result is 2 less that, and next to 0 it is 1 less
//! the error function.
//!
//! `f32` is computed in `f64`, where the square is exact.

use kiln_ir::op::Compare;

use super::build::Formula;
use super::wide::{Digits, in_f64};
use super::{erf, exp};
use crate::kernel::{ExprId, Exprs};

/// `exp(m^2) erfc(m) (m + 5/2)` in u, for m up to 10.2; error 2^-33.
const SCALED_SHORT: [f64; 12] = [
    1.0540318202966443,
    0.8046518475408779,
    0.4539141168288245,
    0.17125122957777048,
    0.02836153375057628,
    -0.008394102253148322,
    -0.004818257077023999,
    0.0004446891328139636,
    0.0006980413972278742,
    -7.041307214991871e-05,
    -9.714749967908009e-05,
    2.6641103277535905e-05,
];
/// The same for m up to 27.3.
const SCALED: [f64; 23] = [
    1.054031820305718,
    0.8046518494391489,
    0.4539141166480809,
    0.1712511452460422,
    0.028361550132817125,
    -0.00839304430223146,
    -0.004818785540663977,
    0.00043920826268533373,
    0.0007026939146379371,
    -5.830775922584409e-05,
    -0.00011260605972322441,
    1.9531913322904698e-05,
    1.8249352216527226e-05,
    -6.753162718512992e-06,
    -2.3454794355046003e-06,
    1.960291641745542e-06,
    1.706870945185482e-08,
    -4.4532660959196323e-07,
    1.1190664987471187e-07,
    6.847486773843961e-08,
    -3.440727339678649e-08,
    -4.844748107528731e-09,
    3.926091197939526e-09,
];

pub(crate) fn erfc(x: &mut Exprs, a: ExprId) -> ExprId {
    in_f64(x, [a], |f, [a], digits| complement(f, a, digits))
}

fn complement(f: &mut Formula, a: ExprId, digits: Digits) -> ExprId {
    // From `end` on the result rounds to 0.
    let (tail, end): (&[f64], f64) = digits.choose((&SCALED_SHORT, 10.2), (&SCALED, 27.3));
    let m = f.abs(a);
    let m = f.at_most(m, end);
    let (one, two, center) = (f.c(1.0), f.c(2.0), f.c(2.5));
    let below = f.add(m, center);
    let inverse = f.div(one, below);
    // (c - m) / (c + m) = 2c / (c + m) - 1.
    let (five, minus_one) = (f.c(5.0), f.c(-1.0));
    let u = f.fma(inverse, five, minus_one);
    let scaled = f.horner(u, tail);
    let scaled = f.mul(scaled, inverse);
    let minus_m = f.neg(m);
    let power = f.mul(minus_m, m);
    let positive = match digits {
        Digits::Single => {
            let factor = f.c(std::f64::consts::LOG2_E);
            let power = f.mul(power, factor);
            let p = super::pow::exp2_short(f, power);
            f.mul(p, scaled)
        }
        Digits::Double => {
            let minus = f.neg(power);
            let lost = f.fma(minus_m, m, minus);
            let (p, _, n) = exp::reduced(f, power);
            let p = f.mul(p, scaled);
            let p = f.fma(p, lost, p);
            f.scale(p, n)
        }
    };
    let zero = f.c(0.0);
    let negative = f.compare(Compare::Lt, a, zero);
    let reflected = f.sub(two, positive);
    let value = f.select(negative, reflected, positive);
    let value = match digits {
        Digits::Single => value,
        Digits::Double => {
            let near = erf::near_zero(f, a);
            let near = f.sub(one, near);
            let limit = f.c(0.5);
            let beyond = f.compare(Compare::Gt, m, limit);
            f.select(beyond, value, near)
        }
    };
    let ordered = f.compare(Compare::Eq, a, a);
    f.select(ordered, value, a)
}
