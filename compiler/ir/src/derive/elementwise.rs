//! Derivatives of elementwise functions.
//!
//! For `y = f(x0, x1, ..)` a rule names the partial derivatives once, as what a tangent or
//! cotangent `t` of an operand is multiplied by; the two directions follow, since both
//! multiply. Ties and kinks are those of JAX: `min` and `max` give half to each of two
//! equals, `abs` has derivative 1 at 0, `clamp` has 0 at its bounds.

use smallvec::smallvec;

use super::{Derived, Rule};
use crate::Value;
use crate::op::{
    Binary, BitcastConvert, Clamp, Compare, Complex, Convert, Part, ReducePrecision, Select, Unary,
};

/// Whether a rule goes forwards, from operands to the result, or back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Forward,
    Back,
}

/// Applies `partial`, which takes an operand's number and what flows through it, to what
/// flows: tangents of the operands, or the result's cotangent to each operand.
fn chain(
    rule: &mut Rule<'_>,
    direction: Direction,
    flowing: &[Option<Value>],
    partial: impl Fn(&mut Rule<'_>, usize, Value) -> Option<Value>,
) -> Derived {
    match direction {
        Direction::Forward => {
            let mut sum = None;
            for (i, &tangent) in flowing.iter().enumerate() {
                let part = tangent.and_then(|t| partial(rule, i, t));
                sum = rule.plus(sum, part);
            }
            smallvec![sum]
        }
        Direction::Back => {
            let flows = |rule: &Rule<'_>, i: usize| rule.differentiable(rule.operands[i]);
            (0..rule.operands.len())
                .map(|i| flowing[0].filter(|_| flows(rule, i)).and_then(|t| partial(rule, i, t)))
                .collect()
        }
    }
}

pub(crate) fn unary(
    op: Unary,
    rule: &mut Rule<'_>,
    direction: Direction,
    flowing: &[Option<Value>],
) -> Derived {
    let (x, y) = (rule.operands[0], rule.results[0]);
    let complex = rule.ty(x).dtype.is_complex();
    chain(rule, direction, flowing, |r, _, t| {
        Some(match op {
            Unary::Abs if complex => magnitude(r, direction, x, t),
            Unary::Sign if complex => unit(r, direction, x, y, t),
            Unary::Neg => r.neg(t),
            Unary::Abs => {
                let up = r.compare_number(Compare::Ge, x, 0.0);
                let down = r.neg(t);
                r.select(up, t, down)
            }
            Unary::Exp => r.mul(t, y),
            Unary::Exp2 => {
                let slope = r.scale(y, std::f64::consts::LN_2);
                r.mul(t, slope)
            }
            Unary::Expm1 => {
                let one = r.number(1.0, y);
                let slope = r.binary(Binary::Add, y, one);
                r.mul(t, slope)
            }
            Unary::Log => r.div(t, x),
            Unary::Log1p => {
                let one = r.number(1.0, x);
                let more = r.binary(Binary::Add, x, one);
                r.div(t, more)
            }
            Unary::Log2 | Unary::Log10 => {
                let quotient = r.div(t, x);
                let two = op == Unary::Log2;
                let base = if two { std::f64::consts::LOG2_E } else { std::f64::consts::LOG10_E };
                r.scale(quotient, base)
            }
            Unary::Sqrt => {
                let half = r.number(0.5, y);
                let slope = r.div(half, y);
                r.mul(t, slope)
            }
            Unary::Rsqrt => {
                let quotient = r.div(y, x);
                let slope = r.scale(quotient, -0.5);
                r.mul(t, slope)
            }
            // By y², which is 0 at 0 where x / y would be undefined.
            Unary::Cbrt => {
                let square = r.mul(y, y);
                let below = r.scale(square, 3.0);
                r.div(t, below)
            }
            Unary::Logistic => {
                let less = r.from_number(1.0, y);
                let slope = r.mul(y, less);
                r.mul(t, slope)
            }
            Unary::Sinh => {
                let slope = r.unary(Unary::Cosh, x);
                r.mul(t, slope)
            }
            Unary::Cosh => {
                let slope = r.unary(Unary::Sinh, x);
                r.mul(t, slope)
            }
            Unary::Asinh => {
                let square = r.mul(x, x);
                let one = r.number(1.0, x);
                let sum = r.binary(Binary::Add, square, one);
                let slope = r.unary(Unary::Rsqrt, sum);
                r.mul(t, slope)
            }
            // x² - 1 as (x + 1)(x - 1), each root for itself: nothing overflows.
            Unary::Acosh => {
                let less = r.minus(x, 1.0);
                let one = r.number(1.0, x);
                let more = r.binary(Binary::Add, x, one);
                let less = r.unary(Unary::Rsqrt, less);
                let more = r.unary(Unary::Rsqrt, more);
                let slope = r.mul(less, more);
                r.mul(t, slope)
            }
            Unary::Atanh => {
                let less = r.from_number(1.0, x);
                let one = r.number(1.0, x);
                let more = r.binary(Binary::Add, x, one);
                let below = r.mul(less, more);
                r.div(t, below)
            }
            // 1 - y² as (1 + y)(1 - y), which keeps its digits where y is near ±1.
            Unary::Tanh => {
                let more = r.mul(t, y);
                let more = r.binary(Binary::Add, t, more);
                let less = r.from_number(1.0, y);
                r.mul(more, less)
            }
            Unary::Sin => {
                let slope = r.unary(Unary::Cos, x);
                r.mul(t, slope)
            }
            Unary::Cos => {
                let sine = r.unary(Unary::Sin, x);
                let slope = r.neg(sine);
                r.mul(t, slope)
            }
            Unary::Tan => {
                let more = r.mul(y, y);
                let more = r.mul(t, more);
                r.binary(Binary::Add, t, more)
            }
            // 1 - x² as (1 + x)(1 - x), for its digits near ±1.
            Unary::Asin | Unary::Acos => {
                let less = r.from_number(1.0, x);
                let more = r.mul(x, less);
                let square = r.binary(Binary::Add, less, more);
                let slope = r.unary(Unary::Rsqrt, square);
                let slope = if op == Unary::Acos { r.neg(slope) } else { slope };
                r.mul(t, slope)
            }
            Unary::Atan => {
                let square = r.mul(x, x);
                let below = r.minus(square, -1.0);
                r.div(t, below)
            }
            Unary::Erf | Unary::Erfc => {
                let square = r.mul(x, x);
                let exponent = r.neg(square);
                let bell = r.unary(Unary::Exp, exponent);
                let sign = if op == Unary::Erf { 1.0 } else { -1.0 };
                let slope = r.scale(bell, sign * std::f64::consts::FRAC_2_SQRT_PI);
                r.mul(t, slope)
            }
            // One over the slope of erf at y.
            Unary::ErfInv => {
                let square = r.mul(y, y);
                let growth = r.unary(Unary::Exp, square);
                let slope = r.scale(growth, 1.0 / std::f64::consts::FRAC_2_SQRT_PI);
                r.mul(t, slope)
            }
            Unary::Lgamma => {
                let slope = r.unary(Unary::Digamma, x);
                r.mul(t, slope)
            }
            Unary::Digamma => unreachable!("digamma has no rule"),
            // Steps: flat wherever they have a derivative. Bits and tests have none.
            Unary::Sign
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::RoundAway
            | Unary::Trunc => return None,
            Unary::Not | Unary::PopulationCount | Unary::CountLeadingZeros | Unary::IsFinite => {
                return None;
            }
        })
    })
}

/// Of `|z|`, which is not holomorphic: the part of the tangent along `z`. 0 at 0.
fn magnitude(r: &mut Rule<'_>, direction: Direction, z: Value, t: Value) -> Value {
    let sign = r.unary(Unary::Sign, z);
    let along = r.conjugate(sign);
    match direction {
        Direction::Forward => {
            let product = r.mul(along, t);
            r.part(Part::Real, product)
        }
        Direction::Back => {
            let zeros = r.zeros(t);
            let t = r.complex(t, zeros);
            r.mul(along, t)
        }
    }
}

/// Of `s = z / |z|`, which turns with the part of the tangent across `z`:
/// `i s Im(s̄ ż) / |z|` forwards, `i s̄ Im(s s̄ȳ) / |z|` back, where `s̄ȳ` is the cotangent.
/// 0 at 0.
fn unit(r: &mut Rule<'_>, direction: Direction, z: Value, s: Value, t: Value) -> Value {
    let conjugate = r.conjugate(s);
    let (turned, by) =
        if direction == Direction::Forward { (s, conjugate) } else { (conjugate, s) };
    let product = r.mul(by, t);
    let across = r.part(Part::Imag, product);
    let magnitude = r.unary(Unary::Abs, z);
    let angle = r.div(across, magnitude);
    let origin = r.compare_number(Compare::Eq, magnitude, 0.0);
    let zeros = r.zeros(angle);
    let angle = r.select(origin, zeros, angle);
    let (re, im) = (r.part(Part::Real, turned), r.part(Part::Imag, turned));
    let im = r.neg(im);
    let (re, im) = (r.mul(im, angle), r.mul(re, angle));
    r.complex(re, im)
}

pub(crate) fn complex(
    _: Complex,
    rule: &mut Rule<'_>,
    direction: Direction,
    flowing: &[Option<Value>],
) -> Derived {
    let (re, im) = (rule.operands[0], rule.operands[1]);
    match direction {
        Direction::Forward => {
            let (re, im) = (rule.or_zeros(flowing[0], re), rule.or_zeros(flowing[1], im));
            smallvec![Some(rule.complex(re, im))]
        }
        // Re(t (ẋ + iẏ)) = Re(t) ẋ - Im(t) ẏ
        Direction::Back => chain(rule, direction, flowing, |r, i, t| {
            Some(match i {
                0 => r.part(Part::Real, t),
                _ => {
                    let im = r.part(Part::Imag, t);
                    r.neg(im)
                }
            })
        }),
    }
}

pub(crate) fn part(
    op: Part,
    rule: &mut Rule<'_>,
    direction: Direction,
    flowing: &[Option<Value>],
) -> Derived {
    chain(rule, direction, flowing, |r, _, t| {
        Some(match (direction, op) {
            (Direction::Forward, op) => r.part(op, t),
            (Direction::Back, Part::Real) => {
                let zeros = r.zeros(t);
                r.complex(t, zeros)
            }
            // t Im ż = Re(-i t ż)
            (Direction::Back, Part::Imag) => {
                let (zeros, t) = (r.zeros(t), r.neg(t));
                r.complex(zeros, t)
            }
        })
    })
}

pub(crate) fn binary(
    op: Binary,
    rule: &mut Rule<'_>,
    direction: Direction,
    flowing: &[Option<Value>],
) -> Derived {
    let (a, b, y) = (rule.operands[0], rule.operands[1], rule.results[0]);
    chain(rule, direction, flowing, |r, i, t| {
        Some(match (op, i) {
            (Binary::Add, _) | (Binary::Sub, 0) => t,
            (Binary::Sub, _) => r.neg(t),
            (Binary::Mul, 0) => r.mul(t, b),
            (Binary::Mul, _) => r.mul(a, t),
            (Binary::Div, 0) => r.div(t, b),
            (Binary::Div, _) => {
                let part = r.mul(t, y);
                let part = r.div(part, b);
                r.neg(part)
            }
            (Binary::Rem, 0) => t,
            // a rem b = a - trunc(a / b) b. The difference of a and the result is exact.
            (Binary::Rem, _) => {
                let multiple = r.sub(y, a);
                let quotient = r.div(multiple, b);
                let count = r.unary(Unary::Round, quotient);
                r.mul(t, count)
            }
            (Binary::Pow, 0) => {
                let less = r.minus(b, 1.0);
                let power = r.binary(Binary::Pow, a, less);
                let slope = r.mul(b, power);
                // x to the 0 is 1 everywhere, at 0 too, where the formula is 0 · ∞.
                let constant = r.compare_number(Compare::Eq, b, 0.0);
                let zero = r.zeros(slope);
                let slope = r.select(constant, zero, slope);
                r.mul(t, slope)
            }
            (Binary::Pow, _) => {
                let log = r.unary(Unary::Log, a);
                let slope = r.mul(log, y);
                // 0 to a positive power is 0 for all powers nearby.
                let at_zero = r.compare_number(Compare::Eq, a, 0.0);
                let positive = r.compare_number(Compare::Gt, b, 0.0);
                let flat = r.binary(Binary::And, at_zero, positive);
                let zero = r.zeros(slope);
                let slope = r.select(flat, zero, slope);
                r.mul(t, slope)
            }
            (Binary::Min | Binary::Max, i) => {
                let (mine, other) = if i == 0 { (a, b) } else { (b, a) };
                let wins = if op == Binary::Min { Compare::Lt } else { Compare::Gt };
                let wins = r.compare(wins, mine, other);
                let ties = r.compare(Compare::Eq, mine, other);
                let half = r.scale(t, 0.5);
                let rest = r.select_or_zero(ties, half);
                r.select(wins, t, rest)
            }
            // Perpendicular to the point, by one over its distance.
            (Binary::Atan2, i) => {
                let (mine, other) = if i == 0 { (a, b) } else { (b, a) };
                let (square, more) = (r.mul(mine, mine), r.mul(other, other));
                let below = r.binary(Binary::Add, square, more);
                let slope = r.div(other, below);
                let slope = if i == 0 { slope } else { r.neg(slope) };
                r.mul(t, slope)
            }
            (Binary::NextAfter, _) => unreachable!("nextafter has no rule"),
            (Binary::And | Binary::Or | Binary::Xor, _) => return None,
            (Binary::ShiftLeft | Binary::ShiftRightLogical | Binary::ShiftRightArithmetic, _) => {
                return None;
            }
        })
    })
}

pub(crate) fn select(
    _: Select,
    rule: &mut Rule<'_>,
    direction: Direction,
    flowing: &[Option<Value>],
) -> Derived {
    let chooser = rule.operands[0];
    chain(rule, direction, flowing, |r, i, t| match i {
        0 => None,
        1 => Some(r.select_or_zero(chooser, t)),
        _ => {
            let zeros = r.zeros(t);
            Some(r.select(chooser, zeros, t))
        }
    })
}

pub(crate) fn clamp(
    _: Clamp,
    rule: &mut Rule<'_>,
    direction: Direction,
    flowing: &[Option<Value>],
) -> Derived {
    let [low, x, high] = rule.operands[..] else { unreachable!("clamp has three operands") };
    chain(rule, direction, flowing, |r, i, t| {
        let through = match i {
            0 => {
                let above = r.compare(Compare::Gt, low, x);
                let below = r.compare(Compare::Lt, low, high);
                r.binary(Binary::And, above, below)
            }
            1 => {
                let above = r.compare(Compare::Gt, x, low);
                let below = r.compare(Compare::Lt, x, high);
                r.binary(Binary::And, above, below)
            }
            // The upper bound is applied last: it wins over a lower bound above it.
            _ => {
                let raised = r.binary(Binary::Max, low, x);
                r.compare(Compare::Lt, high, raised)
            }
        };
        Some(r.select_or_zero(through, t))
    })
}

/// What flows through is rounded as the values are: the slopes of the steps themselves
/// would be of no use.
pub(crate) fn reduce_precision(
    op: ReducePrecision,
    rule: &mut Rule<'_>,
    direction: Direction,
    flowing: &[Option<Value>],
) -> Derived {
    chain(rule, direction, flowing, |r, _, t| Some(r.add(op, &[t])))
}

/// Nothing flows through bits, but where the type stays and with it the value.
pub(crate) fn bitcast(
    op: BitcastConvert,
    rule: &mut Rule<'_>,
    direction: Direction,
    flowing: &[Option<Value>],
) -> Derived {
    let same = rule.ty(rule.operands[0]).dtype == op.to;
    chain(rule, direction, flowing, |_, _, t| same.then_some(t))
}

pub(crate) fn convert(
    op: Convert,
    rule: &mut Rule<'_>,
    direction: Direction,
    flowing: &[Option<Value>],
) -> Derived {
    let (x, y) = (rule.operands[0], rule.results[0]);
    let like = if direction == Direction::Forward { y } else { x };
    let smooth = op.to.is_inexact();
    chain(rule, direction, flowing, |r, _, t| smooth.then(|| r.convert_like(t, like)))
}
