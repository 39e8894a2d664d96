//! Sine, cosine and tangent.
//!
//! The magnitude `m` is `n` quarter turns plus a rest of at most an eighth of a turn,
//! known as a sum `high + low` to more bits than the type has. Two polynomials give
//! the sine and cosine of the rest, the low bits of `n` say which is wanted and with
//! which sign. The tangent is their quotient.
//!
//! Up to `Plan::limit`, the rest is `m - n*(c1 + c2 + c3 + c4)` (Cody and Waite):
//! `c1` and `c2` are short enough that the first two subtractions are exact. Beyond,
//! all bits of 1/2π that matter take part (Payne and Hanek): for `f32` by sums of
//! exact `f64` products, for `f64` in 64-bit integers. A backend may skip that part
//! where no element of a vector is large: the condition is marked as rare.

use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::build::Formula;
use crate::kernel::expr::{BinaryOp, UnaryOp};
use crate::kernel::{ExprId, Exprs};

/// Constants of one type.
struct Plan {
    /// Up to where the short reduction is exact enough.
    limit: f64,
    /// π/2 in four parts, the first two short.
    half_pi: [f64; 4],
    /// `(sin(r)/r - 1) / r^2` in `r^2`.
    sin: &'static [f64],
    /// `(cos(r) - 1 + r^2/2) / r^4` in `r^2`.
    cos: &'static [f64],
}

/// n is at most 2^20 and c1, c2 have 11 bits. There, n may be off by one where the rest is
/// 3 % more than half a quarter turn; the polynomials reach that far.
const PLAN_F32: Plan = Plan {
    limit: 1048576.0,
    half_pi: [1.5703125, 0.0004837512969970703, 7.549790126404332e-08, -1.7151245100058819e-15],
    sin: &[-0.16666650772094727, 0.008331907913088799, -0.00019480586342979223],
    cos: &[0.04166664555668831, -0.0013887165114283562, 2.4411152480752207e-05],
};

/// n is at most 2^20, c1 has 33 bits and c2 20.
const PLAN_F64: Plan = Plan {
    limit: 1048576.0,
    half_pi: [
        1.5707963267341256,
        6.077105485502443e-11,
        -4.9789962505147994e-17,
        -1.4973849048591698e-33,
    ],
    sin: &[
        -0.16666666666666638,
        0.008333333333323733,
        -0.00019841269830667453,
        2.7557313945339635e-06,
        -2.505079278641069e-08,
        1.589858619477585e-10,
    ],
    cos: &[
        0.04166666666666666,
        -0.0013888888888883338,
        2.480158729484442e-05,
        -2.7557315803289626e-07,
        2.0875908944644913e-09,
        -1.13687397125495e-11,
    ],
};

/// 1/2π as a sum of pieces that end 28, 54, 80, .. bits after the point: a 24-bit
/// significand times one of them is exact in `f64`. The last takes what remains.
const TURNS: [f64; 7] = [
    0.15915494412183762,
    -1.0299422981141504e-09,
    1.7916237413892273e-17,
    -1.3585460523900985e-25,
    2.5454160182835583e-33,
    7.859137004442089e-41,
    -1.157130770488333e-48,
];

/// The bits of 1/2π after the point, after 64 zeros.
const TURN_BITS: [u64; 20] = [
    0x0000000000000000,
    0x28be60db9391054a,
    0x7f09d5f47d4d3770,
    0x36d8a5664f10e410,
    0x7f9458eaf7aef158,
    0x6dc91b8e909374b8,
    0x01924bba82746487,
    0x3f877ac72c4a69cf,
    0xba208d7d4baed121,
    0x3a671c09ad17df90,
    0x4e64758e60d4ce7d,
    0x272117e2ef7e4a0e,
    0xc7fe25fff7816603,
    0xfbcbc462d6829b47,
    0xdb4d9fb3c9f2c26d,
    0xd3d18fd9a797fa8b,
    0x5d49eeb1faf97c5e,
    0xcf41ce7de294a4ba,
    0x9afed7ec47e35742,
    0x1580cc11bf1edaea,
];

/// 2π, and what it lacks.
const TWO_PI: [f64; 2] = [std::f64::consts::TAU, 2.4492935982947064e-16];

pub(crate) fn sin(x: &mut Exprs, a: ExprId) -> ExprId {
    wave(x, a, Wave::Sin)
}

pub(crate) fn cos(x: &mut Exprs, a: ExprId) -> ExprId {
    wave(x, a, Wave::Cos)
}

pub(crate) fn tan(x: &mut Exprs, a: ExprId) -> ExprId {
    wave(x, a, Wave::Tan)
}

#[derive(Clone, Copy, PartialEq)]
enum Wave {
    Sin,
    Cos,
    Tan,
}

/// A magnitude as `n` quarter turns (an integer in a float) and `high + low` radians.
#[derive(Clone, Copy)]
struct Reduced {
    n: ExprId,
    high: ExprId,
    low: ExprId,
}

fn wave(x: &mut Exprs, a: ExprId, wave: Wave) -> ExprId {
    let ty = x.dtype(a);
    let mut f = Formula { x, ty };
    let plan = if ty == DType::F32 { &PLAN_F32 } else { &PLAN_F64 };
    let m = f.abs(a);
    let short = short(&mut f, plan, m);
    let long = match ty {
        DType::F32 => long_f32(&mut f, m),
        _ => long_f64(&mut f, m),
    };
    let limit = f.c(plan.limit);
    let large = f.compare(Compare::Gt, m, limit);
    f.x.mark_rare(large);
    let n = f.select(large, long.n, short.n);
    let high = f.select(large, long.high, short.high);
    let low = f.select(large, long.low, short.low);

    let z = f.mul(high, high);
    let p = f.horner(z, plan.sin);
    let cube = f.mul(high, z);
    let s = f.fma(cube, p, low);
    let sine = f.add(high, s);
    // 1 - z/2 leaves a rounding error, as does z itself; both join the small terms.
    let (one, minus_half) = (f.c(1.0), f.c(-0.5));
    let q = f.horner(z, plan.cos);
    let fourth = f.mul(z, z);
    let main = f.fma(z, minus_half, one);
    let taken = f.sub(one, main);
    let lost = f.fma(z, minus_half, taken);
    let minus_z = f.neg(z);
    let z_low = f.fma(high, high, minus_z);
    let lost = f.fma(z_low, minus_half, lost);
    let minus_high = f.neg(high);
    let lost = f.fma(minus_high, low, lost);
    let c = f.fma(fourth, q, lost);
    let cosine = f.add(main, c);

    // The quarter: sin, cos, -sin, -cos, ..; the cosine is one ahead. The tangent is
    // sin/cos, -cos/sin, ..
    let magic = f.c(f.layout().magic);
    let shifted = f.add(n, magic);
    let mut quarter = f.bits_of(shifted);
    let one = f.bits_constant(1);
    if wave == Wave::Cos {
        quarter = f.add(quarter, one);
    }
    let (zero, two) = (f.bits_constant(0), f.bits_constant(2));
    let odd = f.and(quarter, one);
    let odd = f.compare(Compare::Ne, odd, zero);
    let mut magnitude = f.select(odd, cosine, sine);
    let top = i64::from(f.layout().bits.bits() - 1);
    let mut sign = match wave {
        Wave::Tan => {
            let below = f.select(odd, sine, cosine);
            magnitude = f.div(magnitude, below);
            f.shl(quarter, top)
        }
        _ => {
            let negative = f.and(quarter, two);
            f.shl(negative, top - 1)
        }
    };
    if wave != Wave::Cos {
        let mask = f.bits_constant(1 << top);
        let bits = f.bits_of(a);
        let own = f.and(bits, mask);
        sign = f.xor(sign, own);
    }
    let bits = f.bits_of(magnitude);
    let bits = f.xor(bits, sign);
    let value = f.float_of(bits);
    let (infinity, nan) = (f.c(f64::INFINITY), f.c(f64::NAN));
    let finite = f.compare(Compare::Lt, m, infinity);
    f.select(finite, value, nan)
}

fn short(f: &mut Formula, plan: &Plan, m: ExprId) -> Reduced {
    let (n, _) = f.nearest(m, std::f64::consts::FRAC_2_PI);
    let [c1, c2, c3, c4] = plan.half_pi.map(|c| f.c(-c));
    let r = f.fma(n, c1, m);
    let r = f.fma(n, c2, r);
    // r + n*c3 as high + low, then the rest of n*c3 and n*c4 into low.
    let third = f.mul(n, c3);
    let (high, error) = two_sum(f, r, third);
    let minus_third = f.neg(third);
    let missing = f.fma(n, c3, minus_third);
    let error = f.add(error, missing);
    let low = f.fma(n, c4, error);
    Reduced { n, high, low }
}

/// The rounded sum and its rounding error (Knuth, Møller).
fn two_sum(f: &mut Formula, a: ExprId, b: ExprId) -> (ExprId, ExprId) {
    let sum = f.add(a, b);
    let from_b = f.sub(sum, a);
    let from_a = f.sub(sum, from_b);
    let error_b = f.sub(b, from_b);
    let error_a = f.sub(a, from_a);
    (sum, f.add(error_a, error_b))
}

/// `f32`: turns are summed piece by piece in `f64`, and whole turns dropped.
///
/// Before each sum the parts so far are below half a turn and end at bit 52 at the
/// latest while more than noise is to come, so that every step is exact until the
/// pieces are too small to make up a turn.
fn long_f32(f: &mut Formula, m: ExprId) -> Reduced {
    let wide = f.x.convert(m, DType::F64);
    let mut g = Formula { x: f.x, ty: DType::F64 };
    let mut turns = g.c(0.0);
    for (i, piece) in TURNS.into_iter().enumerate() {
        let piece = g.c(piece);
        turns = g.fma(wide, piece, turns);
        if i < 5 {
            let whole = g.x.unary(UnaryOp::Round, turns);
            turns = g.sub(turns, whole);
        }
    }
    let four = g.c(4.0);
    let quarters = g.mul(turns, four);
    let n = g.x.unary(UnaryOp::Round, quarters);
    let rest = g.sub(quarters, n);
    let half_pi = g.c(std::f64::consts::FRAC_PI_2);
    let rest = g.mul(rest, half_pi);
    let high = g.x.convert(rest, DType::F32);
    let back = g.x.convert(high, DType::F64);
    let low = g.sub(rest, back);
    let low = g.x.convert(low, DType::F32);
    Reduced { n: g.x.convert(n, DType::F32), high, low }
}

/// `f64`: the product of the significand with a window of 192 bits of 1/2π.
///
/// ```text
///   m = s * 2^e;  bits 1..=e of 1/2π give whole turns and are left out
///   s * (w0 w1 w2), 192 bits:   | dropped | high 64 | next 64 | cut off |
/// ```
///
/// What is cut off is below 2^-138 of a turn. The nearest `f64` to a multiple of π/2
/// is 2^-65 of a turn away, so at least 73 bits of the rest are right.
fn long_f64(f: &mut Formula, m: ExprId) -> Reduced {
    let bits = f.bits_of(m);
    let exponent = f.shr(bits, 52);
    let mask = f.bits_constant((1 << 52) - 1);
    let implicit = f.bits_constant(1 << 52);
    let fraction = f.and(bits, mask);
    let s = f.or(fraction, implicit);
    // The window starts after bit e = exponent - 1075, and the table 64 bits early.
    let offset = f.bits_constant(1075 - 64);
    let start = f.sub(exponent, offset);
    let [w0, w1, w2] = window(f, start);

    let top = f.mul(s, w0);
    let (middle_high, middle) = wide_product(f, s, w1);
    let (bottom, _) = wide_product(f, s, w2);
    let next = f.add(middle, bottom);
    let carry = f.compare(Compare::Lt, next, bottom);
    let carry = f.x.convert(carry, DType::U64);
    let high = f.add(top, middle_high);
    let high = f.add(high, carry);

    // n is the nearest number of quarters; the rest of the high word is signed.
    let eighth = f.bits_constant(1 << 61);
    let rounded = f.add(high, eighth);
    let n = f.shr(rounded, 62);
    let quarters = f.shl(n, 62);
    let rest = f.sub(high, quarters);
    // 50 + 53 + 22 bits, each part exact as f64.
    let low_11 = f.bits_constant(0x7ff);
    let low_22 = f.bits_constant((1 << 22) - 1);
    let (b, c) = (f.and(rest, low_11), f.and(next, low_22));
    let a = f.sub(rest, b);
    let (b, next) = (f.shl(b, 42), f.shr(next, 22));
    let b = f.or(b, next);
    let [a, b, c] = [(a, -64), (b, -106), (c, -128)].map(|(word, power)| {
        let signed = f.x.bitcast(word, DType::I64);
        let value = f.x.convert(signed, DType::F64);
        let unit = f.c(2f64.powi(power));
        f.mul(value, unit)
    });
    let b = f.add(b, c);
    let turns = f.add(a, b);
    let back = f.sub(turns, a);
    let error = f.sub(b, back);
    // Times 2π, in twice the precision.
    let [tau, tau_low] = TWO_PI.map(|c| f.c(c));
    let high = f.mul(turns, tau);
    let minus_high = f.neg(high);
    let low = f.fma(turns, tau, minus_high);
    let low = f.fma(turns, tau_low, low);
    let low = f.fma(error, tau, low);
    let n = f.x.bitcast(n, DType::I64);
    Reduced { n: f.x.convert(n, DType::F64), high, low }
}

/// Three words of the table from bit `start` on.
fn window(f: &mut Formula, start: ExprId) -> [ExprId; 3] {
    // Choosing by one bit of the word number after the other, as a barrel shifter.
    let word = f.shr(start, 6);
    let zero = f.bits_constant(0);
    let mut words: Vec<ExprId> = TURN_BITS.iter().map(|&w| f.bits_constant(w)).collect();
    for bit in [16, 8, 4, 2, 1] {
        let mask = f.bits_constant(bit as u64);
        let set = f.and(word, mask);
        let set = f.compare(Compare::Ne, set, zero);
        // The bits to come move by at most bit - 1, and four words are wanted.
        let wanted = bit + 3;
        words = (0..wanted.min(words.len()))
            .map(|i| match words.get(i + bit) {
                Some(&far) => f.select(set, far, words[i]),
                None => words[i],
            })
            .collect();
    }
    let (six, word_bits) = (f.bits_constant(63), f.bits_constant(64));
    let by = f.and(start, six);
    let back = f.sub(word_bits, by);
    [0, 1, 2].map(|i| {
        // A shift by 64 gives 0, which is right when nothing is to be taken over.
        let high = f.x.binary(BinaryOp::ShiftLeft, words[i], by);
        let low = f.x.binary(BinaryOp::ShiftRightLogical, words[i + 1], back);
        f.or(high, low)
    })
}

/// The 128-bit product of two words: high and low half.
fn wide_product(f: &mut Formula, a: ExprId, b: ExprId) -> (ExprId, ExprId) {
    let mask = f.bits_constant(0xffff_ffff);
    let (a0, b0) = (f.and(a, mask), f.and(b, mask));
    let (a1, b1) = (f.shr(a, 32), f.shr(b, 32));
    let (p00, p01, p10, p11) = (f.mul(a0, b0), f.mul(a0, b1), f.mul(a1, b0), f.mul(a1, b1));
    let carry = f.shr(p00, 32);
    let (l01, l10) = (f.and(p01, mask), f.and(p10, mask));
    let middle = f.add(carry, l01);
    let middle = f.add(middle, l10);
    let (h01, h10) = (f.shr(p01, 32), f.shr(p10, 32));
    let high = f.add(p11, h01);
    let high = f.add(high, h10);
    let carry = f.shr(middle, 32);
    (f.add(high, carry), f.mul(a, b))
}
