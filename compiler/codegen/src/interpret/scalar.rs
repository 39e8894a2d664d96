//! What primitive operations mean for one element.

use kiln_ir::op::Compare;
use kiln_ir::{DType, Scalar};

use crate::kernel::expr::{BinaryOp, UnaryOp};

pub(super) fn is_nan(a: Scalar) -> bool {
    a.dtype().is_float() && a.as_f64().is_nan()
}

fn f32_of(a: Scalar) -> f32 {
    f32::from_bits(a.bits() as u32)
}

fn f64_of(a: Scalar) -> f64 {
    f64::from_bits(a.bits())
}

fn from_f32(x: f32) -> Scalar {
    Scalar::from_bits(DType::F32, x.to_bits().into())
}

fn from_f64(x: f64) -> Scalar {
    Scalar::from_bits(DType::F64, x.to_bits())
}

fn integer(a: Scalar) -> i128 {
    a.as_i128().expect("an integer")
}

pub(super) fn unary(op: UnaryOp, a: Scalar) -> Scalar {
    macro_rules! float {
        ($x:expr, $from:ident) => {{
            let x = $x;
            $from(match op {
                UnaryOp::Neg => -x,
                UnaryOp::Abs => x.abs(),
                UnaryOp::Sqrt => x.sqrt(),
                UnaryOp::Floor => x.floor(),
                UnaryOp::Ceil => x.ceil(),
                UnaryOp::Round => x.round_ties_even(),
                UnaryOp::Truncate => x.trunc(),
                _ => unreachable!("{op:?} of a float"),
            })
        }};
    }
    match a.dtype() {
        DType::F32 => float!(f32_of(a), from_f32),
        DType::F64 => float!(f64_of(a), from_f64),
        DType::Bool => Scalar::bool(a.bits() == 0),
        dtype => {
            let x = integer(a);
            let y = match op {
                UnaryOp::Neg => -x,
                UnaryOp::Abs => x.abs(),
                UnaryOp::Not => !x,
                UnaryOp::PopulationCount => a.bits().count_ones().into(),
                UnaryOp::CountLeadingZeros => {
                    i128::from(a.bits().leading_zeros() + dtype.bits() - 64)
                }
                _ => unreachable!("{op:?} of an integer"),
            };
            Scalar::from_i128(dtype, y)
        }
    }
}

pub(super) fn binary(op: BinaryOp, a: Scalar, b: Scalar) -> Scalar {
    assert_eq!(a.dtype(), b.dtype(), "{op:?} of two types");
    // One definition for both widths: NaN wins, then −0 is below +0.
    macro_rules! float {
        ($a:expr, $b:expr, $from:ident) => {{
            let (x, y) = ($a, $b);
            $from(match op {
                BinaryOp::Add => x + y,
                BinaryOp::Sub => x - y,
                BinaryOp::Mul => x * y,
                BinaryOp::Div => x / y,
                BinaryOp::Rem => x % y,
                BinaryOp::Scale => {
                    // The first product is exact, so only the second rounds.
                    let half = (y / 2.0).floor();
                    x * half.exp2() * (y - half).exp2()
                }
                BinaryOp::Min | BinaryOp::Max if x.is_nan() => x,
                BinaryOp::Min | BinaryOp::Max if y.is_nan() => y,
                BinaryOp::Min if x < y || (x == y && x.is_sign_negative()) => x,
                BinaryOp::Min => y,
                BinaryOp::Max if x > y || (x == y && x.is_sign_positive()) => x,
                BinaryOp::Max => y,
                _ => unreachable!("{op:?} of floats"),
            })
        }};
    }
    match a.dtype() {
        DType::F32 => float!(f32_of(a), f32_of(b), from_f32),
        DType::F64 => float!(f64_of(a), f64_of(b), from_f64),
        DType::F16 | DType::BF16 => unreachable!("{op:?} of half types"),
        dtype => Scalar::from_i128(dtype, integers(op, dtype, integer(a), integer(b))),
    }
}

/// On exact values; the caller wraps the result.
fn integers(op: BinaryOp, dtype: DType, a: i128, b: i128) -> i128 {
    let bits = i128::from(dtype.bits());
    let in_range = (0..bits).contains(&b);
    // The bit pattern as a non-negative number.
    let pattern = a & ((1 << bits) - 1);
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        // The product of two 64-bit values fits 128 bits as a pattern.
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Div if b == 0 => -1,
        BinaryOp::Div => a / b,
        BinaryOp::Rem if b == 0 => a,
        BinaryOp::Rem => a % b,
        BinaryOp::Min => a.min(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::ShiftLeft if in_range => pattern << b,
        BinaryOp::ShiftRightLogical if in_range => pattern >> b,
        BinaryOp::ShiftLeft | BinaryOp::ShiftRightLogical => 0,
        BinaryOp::Scale => unreachable!("{op:?} of integers"),
        BinaryOp::ShiftRightArithmetic => {
            // Unsigned values shift their sign bit too.
            let signed = if pattern >> (bits - 1) == 1 { pattern - (1 << bits) } else { pattern };
            signed >> if in_range { b } else { bits - 1 }
        }
    }
}

pub(super) fn fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar {
    match a.dtype() {
        DType::F32 => from_f32(f32_of(a).mul_add(f32_of(b), f32_of(c))),
        DType::F64 => from_f64(f64_of(a).mul_add(f64_of(b), f64_of(c))),
        DType::Bool => Scalar::bool(a.bits() & b.bits() | c.bits() != 0),
        dtype => {
            Scalar::from_i128(dtype, integer(a).wrapping_mul(integer(b)).wrapping_add(integer(c)))
        }
    }
}

pub(super) fn compare(op: Compare, a: Scalar, b: Scalar) -> bool {
    let order = if a.dtype().is_float() {
        a.as_f64().partial_cmp(&b.as_f64())
    } else {
        Some(integer(a).cmp(&integer(b)))
    };
    match op {
        Compare::Eq => order.is_some_and(|o| o.is_eq()),
        Compare::Ne => !order.is_some_and(|o| o.is_eq()),
        Compare::Lt => order.is_some_and(|o| o.is_lt()),
        Compare::Le => order.is_some_and(|o| o.is_le()),
        Compare::Gt => order.is_some_and(|o| o.is_gt()),
        Compare::Ge => order.is_some_and(|o| o.is_ge()),
    }
}

pub(super) fn convert(a: Scalar, to: DType) -> Scalar {
    match a.dtype() {
        DType::F64 if to == DType::F32 => from_f32(f64_of(a) as f32),
        dtype if dtype.is_float() => Scalar::from_f64(to, a.as_f64()),
        _ => Scalar::from_i128(to, integer(a)),
    }
}
