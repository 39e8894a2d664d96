//! Functions of `f64` that judge narrower types, and where the arguments are that matter.
//!
//! An `f32` has 29 bits less, so a reference wrong in its last few bits decides an error
//! to a millionth of a unit. For NaN, infinities and zeros it gives what C says.

use kiln_ir::op::{Binary, Unary};

use super::Function;

/// The function, in `f64`.
#[derive(Clone, Copy)]
pub enum Reference {
    /// Of one argument.
    Unary(fn(f64) -> f64),
    /// Of two.
    Binary(fn(f64, f64) -> f64),
}

/// The reference of a function that has a row.
pub fn reference(function: Function) -> Reference {
    match function {
        Function::Unary(f) => Reference::Unary(unary(f)),
        Function::Binary(f) => Reference::Binary(binary(f)),
    }
}

fn unary(f: Unary) -> fn(f64) -> f64 {
    match f {
        Unary::Exp => f64::exp,
        Unary::Exp2 => f64::exp2,
        Unary::Expm1 => f64::exp_m1,
        Unary::Log => f64::ln,
        Unary::Log1p => f64::ln_1p,
        Unary::Log2 => f64::log2,
        Unary::Log10 => f64::log10,
        Unary::Sqrt => f64::sqrt,
        Unary::Rsqrt => |x| 1.0 / x.sqrt(),
        Unary::Cbrt => f64::cbrt,
        Unary::Logistic => |x| 1.0 / (1.0 + (-x).exp()),
        Unary::Tanh => f64::tanh,
        Unary::Sinh => f64::sinh,
        Unary::Cosh => f64::cosh,
        Unary::Asinh => f64::asinh,
        Unary::Acosh => f64::acosh,
        Unary::Atanh => f64::atanh,
        Unary::Sin => f64::sin,
        Unary::Cos => f64::cos,
        Unary::Tan => f64::tan,
        Unary::Asin => f64::asin,
        Unary::Acos => f64::acos,
        Unary::Atan => f64::atan,
        Unary::Erf => erf,
        Unary::Erfc => |x| precise(Unary::Erfc, x),
        Unary::ErfInv => |x| precise(Unary::ErfInv, x),
        Unary::Lgamma => |x| precise(Unary::Lgamma, x),
        Unary::Digamma => |x| precise(Unary::Digamma, x),
        Unary::Neg
        | Unary::Abs
        | Unary::Sign
        | Unary::Not
        | Unary::PopulationCount
        | Unary::CountLeadingZeros
        | Unary::Floor
        | Unary::Ceil
        | Unary::Round
        | Unary::RoundAway
        | Unary::Trunc
        | Unary::IsFinite => unreachable!("{} is exact", f.name()),
    }
}

fn binary(f: Binary) -> fn(f64, f64) -> f64 {
    match f {
        Binary::Pow => f64::powf,
        Binary::Atan2 => f64::atan2,
        Binary::Add
        | Binary::Sub
        | Binary::Mul
        | Binary::Div
        | Binary::Rem
        | Binary::Min
        | Binary::Max
        | Binary::And
        | Binary::Or
        | Binary::Xor
        | Binary::ShiftLeft
        | Binary::ShiftRightLogical
        | Binary::ShiftRightArithmetic
        | Binary::NextAfter => unreachable!("{} is exact", f.name()),
    }
}

/// The definition, of which an `f64` is the beginning.
fn precise(f: Unary, x: f64) -> f64 {
    let ([high, _], n) = f.precise(x).expect("a function known to many digits");
    high * 2f64.powi(n / 2) * 2f64.powi(n - n / 2)
}

/// The error function by its Maclaurin series times exp(-x^2), whose terms are all
/// positive: 1e-15 or so, and 1 where that is nearer.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut k) = (x, x, 0.0);
    while term.abs() > sum.abs() * 1e-17 {
        k += 1.0;
        term *= 2.0 * x * x / (2.0 * k + 1.0);
        sum += term;
    }
    sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI
}

/// How many units of a result one unit of the terms is that it is a difference of, where
/// the bound is in those: `lgamma` and `digamma` of negative `f64`.
pub fn cancellation(function: Function, x: f64, result: f64) -> f64 {
    let Function::Unary(f @ (Unary::Lgamma | Unary::Digamma)) = function else { return 1.0 };
    if x >= 0.0 || !result.is_finite() {
        return 1.0;
    }
    let terms = 1.0 + result.abs() + precise(f, -x).abs();
    (terms.log2().floor() - result.abs().log2().floor()).exp2().max(1.0)
}

/// Where a function of one argument has its curvature.
pub fn interval(f: Unary) -> (f64, f64) {
    match f {
        Unary::Exp | Unary::Exp2 | Unary::Expm1 => (-30.0, 30.0),
        Unary::Log | Unary::Log2 | Unary::Log10 | Unary::Sqrt | Unary::Rsqrt => (0.0, 4.0),
        Unary::Log1p | Unary::Atanh => (-1.0, 1.0),
        Unary::Acosh => (1.0, 8.0),
        Unary::Sin | Unary::Cos | Unary::Tan => (-100.0, 100.0),
        Unary::Asin | Unary::Acos | Unary::ErfInv => (-1.0, 1.0),
        Unary::Erfc => (-4.0, 28.0),
        Unary::Lgamma | Unary::Digamma => (-12.0, 12.0),
        _ => (-8.0, 8.0),
    }
}

/// A pair of arguments on the way from one to the other of two random numbers in [0, 1),
/// such that the result is in range and interesting.
pub fn pair(f: Binary, u: f64, v: f64) -> (f64, f64) {
    match f {
        // Results from the least subnormal to the greatest f32, bases mostly near 1.
        Binary::Pow => {
            let log2 = 20.0 * (2.0 * u - 1.0).powi(5);
            (log2.exp2(), (300.0 * v - 150.0) / log2)
        }
        _ => (8.0 * u - 4.0, 8.0 * v - 4.0),
    }
}

/// Arguments at which functions change their ways, in every type; they and their
/// neighbours are tried with both signs.
pub const SPECIAL: [f64; 42] = [
    0.0,
    f64::INFINITY,
    f64::NAN,
    5e-324,
    f64::MIN_POSITIVE,
    f64::MAX,
    1.401298464324817e-45,
    1.1754943508222875e-38,
    3.4028234663852886e38,
    1e-18,
    1e-9,
    0.25,
    0.34657359027997264,
    0.5,
    0.55,
    0.65,
    0.75,
    0.92,
    0.93,
    0.94,
    0.99,
    1.0,
    1.5,
    2.0,
    3.0,
    3.92,
    4.0,
    6.0,
    8.0,
    10.0,
    20.0,
    40.0,
    87.3365447505531,
    88.72283905206835,
    89.41598629223294,
    103.97207708399179,
    709.782712893384,
    710.4758600739439,
    745.1332191019412,
    1048576.0,
    268435456.0,
    72057594037927936.0,
];
