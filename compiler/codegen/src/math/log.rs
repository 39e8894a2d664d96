//! The natural logarithm.
//!
//! `a = 2^e * m` with `m` in [3/4, 3/2), so that `e` is 0 around 1 and nothing
//! cancels there. With `f = m - 1`, which is exact,
//!
//! ```text
//! log(a) = e*ln 2 + f + (log(1 + f) - f)
//! ```
//!
//! `ln 2` is split so that `e` times its high part is exact; the sum with `f` keeps
//! its rounding error, which joins the small terms.

use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::build::{Formula, Layout};
use crate::kernel::{ExprId, Exprs};

/// `(log(1 + f) - f + f^2/2) / f^3` on [-1/4, 1/2].
const TAIL_F32: [f64; 8] = [
    0.3333340287208557,
    -0.2500012218952179,
    0.1999289095401764,
    -0.1664823442697525,
    0.14452481269836426,
    -0.13129666447639465,
    0.10545017570257187,
    -0.04632961004972458,
];
/// `(2 atanh(s)/s - 2) / s^2` in `s^2`, up to s = 0.2.
const ATANH_F64: [f64; 8] = [
    0.6666666666666666,
    0.4000000000001248,
    0.28571428565640644,
    0.2222222327538092,
    0.18181722363270852,
    0.1538940050698406,
    0.13200415548657946,
    0.1367308719783645,
];
const LN2_F32: [f64; 2] = [0.693145751953125, 1.428606765330187e-06];
const LN2_F64: [f64; 2] = [0.6931471805601177, -1.7239444525614835e-13];

/// `a = 2^e * m`, `m` in [3/4, 3/2): returns `(e, m)` for positive finite `a`.
pub(crate) fn split(f: &mut Formula, a: ExprId) -> (ExprId, ExprId) {
    let Layout { significand, bias, .. } = *f.layout();
    let least = f.c(2f64.powi(1 - bias as i32));
    let tiny = f.compare(Compare::Lt, a, least);
    let up = f.c(2f64.powi(significand as i32));
    let raised = f.mul(a, up);
    let a = f.select(tiny, raised, a);
    // Moving the exponent's carry from 1 to 3/4: u has the exponent of m * 2^(e+bias).
    let (one, three_quarters) = ((bias << significand) as u64, three_quarters(f.layout()));
    let shift = f.bits_constant(one - three_quarters);
    let bits = f.bits_of(a);
    let u = f.add(bits, shift);
    let exponent = f.shr(u, significand);
    // 2^significand + exponent as a float, then minus everything that is not e.
    let (unit, plain) = (2f64.powi(significand as i32), bias as f64);
    let carrier = f.bits_constant(((bias + significand) << significand) as u64);
    let carried = f.or(exponent, carrier);
    let carried = f.float_of(carried);
    let (normal, raised) = (f.c(unit + plain), f.c(unit + plain + significand as f64));
    let offset = f.select(tiny, raised, normal);
    let e = f.sub(carried, offset);
    let mask = f.bits_constant((1 << significand) - 1);
    let fraction = f.and(u, mask);
    let base = f.bits_constant(three_quarters);
    let m = f.add(fraction, base);
    (e, f.float_of(m))
}

fn three_quarters(layout: &Layout) -> u64 {
    // Exponent -1, significand 1.1 in binary.
    (((layout.bias - 1) << layout.significand) | (1 << (layout.significand - 1))) as u64
}

pub(crate) fn log(x: &mut Exprs, a: ExprId) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let (e, m) = split(&mut f, a);
    let one = f.c(1.0);
    let s = f.sub(m, one);
    let (ln2, t) = match ty {
        DType::F32 => (LN2_F32, tail_f32(&mut f, s)),
        _ => (LN2_F64, tail_f64(&mut f, s)),
    };
    // e*ln 2 + s = sum + error exactly, since |e*ln 2| >= |s| unless e is 0.
    let (high, low) = (f.c(ln2[0]), f.c(ln2[1]));
    let whole = f.mul(e, high);
    let sum = f.add(whole, s);
    let back = f.sub(sum, whole);
    let error = f.sub(s, back);
    let t = f.add(t, error);
    let t = f.fma(e, low, t);
    let value = f.add(sum, t);
    special(&mut f, a, value)
}

/// `log(1 + s) - s` as `s^2 * (s*q(s) - 1/2)`.
fn tail_f32(f: &mut Formula, s: ExprId) -> ExprId {
    let q = f.horner(s, &TAIL_F32);
    let minus_half = f.c(-0.5);
    let t = f.fma(s, q, minus_half);
    let square = f.mul(s, s);
    f.mul(square, t)
}

/// `log(1 + s) - s` by way of `log(1 + s) = 2 atanh(u)`, `u = s / (2 + s)`: with
/// `h = s^2/2` and `2 atanh(u) = 2u + u^3*q(u^2)`, it is `u * (h + u^2*q) - h`.
fn tail_f64(f: &mut Formula, s: ExprId) -> ExprId {
    let (two, half) = (f.c(2.0), f.c(0.5));
    let below = f.add(s, two);
    let u = f.div(s, below);
    let z = f.mul(u, u);
    let q = f.horner(z, &ATANH_F64);
    let square = f.mul(s, s);
    let h = f.mul(square, half);
    let inner = f.fma(z, q, h);
    let product = f.mul(u, inner);
    f.sub(product, h)
}

/// The logarithm where its argument is not a positive finite number.
fn special(f: &mut Formula, a: ExprId, value: ExprId) -> ExprId {
    let (zero, infinity) = (f.c(0.0), f.c(f64::INFINITY));
    let (minus_infinity, nan) = (f.c(f64::NEG_INFINITY), f.c(f64::NAN));
    let finite = f.compare(Compare::Lt, a, infinity);
    let value = f.select(finite, value, infinity);
    let is_zero = f.compare(Compare::Eq, a, zero);
    let outside = f.select(is_zero, minus_infinity, nan);
    let positive = f.compare(Compare::Gt, a, zero);
    f.select(positive, value, outside)
}
