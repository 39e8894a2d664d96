//! Scalar functions as expressions.
//!
//! What an elementwise op means for one element, in primitive arithmetic. Half
//! types compute in `f32` and round after every op; `bool` arithmetic becomes
//! logic; conversions that could round twice are taken apart, so that `Convert`
//! meets a half type only on the way from or to `f32`.

use kiln_ir::DType;
use kiln_ir::Scalar;
use kiln_ir::form::ScalarFn;
use kiln_ir::op::{Binary, Compare, ReduceKind, Unary};

use super::bits;
use crate::kernel::expr::{BinaryOp, UnaryOp};
use crate::kernel::{ExprId, Exprs};
use crate::math;

/// `f` of the operands, with the operands' type, or `bool` for comparisons.
pub(crate) fn apply(x: &mut Exprs, f: ScalarFn, operands: &[ExprId]) -> ExprId {
    let dtype = x.dtype(operands[0]);
    match f {
        ScalarFn::Complex | ScalarFn::Part(_) => unreachable!("moved by parts"),
        ScalarFn::Select => x.select(operands[0], operands[1], operands[2]),
        ScalarFn::Convert(to) => convert(x, operands[0], to),
        ScalarFn::Bitcast(to) => x.bitcast(operands[0], to),
        ScalarFn::ReducePrecision(op) => bits::reduce_precision(x, op, operands[0]),
        ScalarFn::Compare(op) => {
            let (a, b) = (widen(x, operands[0]), widen(x, operands[1]));
            x.compare(op, a, b)
        }
        ScalarFn::Unary(Unary::IsFinite) => is_finite(x, operands[0]),
        ScalarFn::Unary(op) => {
            let a = widen(x, operands[0]);
            let result = unary(x, op, a);
            convert(x, result, dtype)
        }
        ScalarFn::Binary(Binary::NextAfter) => bits::next_after(x, operands[0], operands[1]),
        ScalarFn::Binary(op) => {
            let (a, b) = (widen(x, operands[0]), widen(x, operands[1]));
            let result = binary(x, op, a, b);
            convert(x, result, dtype)
        }
        ScalarFn::Threefry2x32 { word } => {
            let all: [ExprId; 4] = operands.try_into().expect("two words of key, two of counter");
            math::threefry(x, all)[word]
        }
        ScalarFn::Clamp => {
            let (low, value, high) =
                (widen(x, operands[0]), widen(x, operands[1]), widen(x, operands[2]));
            let raised = binary(x, Binary::Max, value, low);
            let result = binary(x, Binary::Min, raised, high);
            convert(x, result, dtype)
        }
    }
}

/// A half value as `f32`; others as they are.
pub(crate) fn widen(x: &mut Exprs, a: ExprId) -> ExprId {
    x.convert(a, x.dtype(a).accumulator())
}

fn unary(x: &mut Exprs, op: Unary, a: ExprId) -> ExprId {
    let dtype = x.dtype(a);
    match op {
        Unary::Neg => x.unary(UnaryOp::Neg, a),
        Unary::Abs if dtype.is_unsigned() => a,
        Unary::Abs => x.unary(UnaryOp::Abs, a),
        Unary::Sign if dtype.is_unsigned() => {
            let one = x.integer(dtype, 1);
            x.binary(BinaryOp::Min, a, one)
        }
        Unary::Sign => {
            // Zeros and NaN fall through both comparisons and stay themselves.
            let zero = x.constant(Scalar::zero(dtype));
            let one = x.constant(Scalar::one(dtype));
            let minus = x.constant(Scalar::from_i128(dtype, -1));
            let (above, below) = (x.compare(Compare::Gt, a, zero), x.compare(Compare::Lt, a, zero));
            let other = x.select(below, minus, a);
            x.select(above, one, other)
        }
        Unary::Not => x.unary(UnaryOp::Not, a),
        Unary::Floor => x.unary(UnaryOp::Floor, a),
        Unary::Ceil => x.unary(UnaryOp::Ceil, a),
        Unary::Round => x.unary(UnaryOp::Round, a),
        Unary::RoundAway => round_away(x, a),
        Unary::Trunc => x.unary(UnaryOp::Truncate, a),
        Unary::PopulationCount => x.unary(UnaryOp::PopulationCount, a),
        Unary::CountLeadingZeros => x.unary(UnaryOp::CountLeadingZeros, a),
        Unary::Sqrt => x.unary(UnaryOp::Sqrt, a),
        Unary::Rsqrt => {
            let one = x.constant(Scalar::one(dtype));
            let root = x.unary(UnaryOp::Sqrt, a);
            x.binary(BinaryOp::Div, one, root)
        }
        Unary::Exp => math::exp(x, a),
        Unary::Exp2 => math::exp2(x, a),
        Unary::Expm1 => math::expm1(x, a),
        Unary::Log => math::log(x, a),
        Unary::Log1p => math::log1p(x, a),
        Unary::Log2 => math::log2(x, a),
        Unary::Log10 => math::log10(x, a),
        Unary::Cbrt => math::cbrt(x, a),
        Unary::Logistic => math::logistic(x, a),
        Unary::Tanh => math::tanh(x, a),
        Unary::Sinh => math::sinh(x, a),
        Unary::Cosh => math::cosh(x, a),
        Unary::Asinh => math::asinh(x, a),
        Unary::Acosh => math::acosh(x, a),
        Unary::Atanh => math::atanh(x, a),
        Unary::Sin => math::sin(x, a),
        Unary::Cos => math::cos(x, a),
        Unary::Tan => math::tan(x, a),
        Unary::Asin => math::asin(x, a),
        Unary::Acos => math::acos(x, a),
        Unary::Atan => math::atan(x, a),
        Unary::Erf => math::erf(x, a),
        Unary::Erfc => math::erfc(x, a),
        Unary::ErfInv => math::erf_inv(x, a),
        Unary::Lgamma => math::lgamma(x, a),
        Unary::Digamma => math::digamma(x, a),
        Unary::IsFinite => is_finite(x, a),
    }
}

/// The integer part of `a` and, with its sign, the greatest number below a half: a half
/// itself would carry the number before it up to 1.
fn round_away(x: &mut Exprs, a: ExprId) -> ExprId {
    let dtype = x.dtype(a);
    let below_half =
        if dtype == DType::F32 { 0.5f32.next_down().into() } else { 0.5f64.next_down() };
    let below_half = x.float(dtype, below_half);
    let mut f = math::Formula { x, ty: dtype };
    let towards = f.with_sign_of(below_half, a);
    let sum = f.add(a, towards);
    x.unary(UnaryOp::Truncate, sum)
}

fn is_finite(x: &mut Exprs, a: ExprId) -> ExprId {
    let a = widen(x, a);
    let dtype = x.dtype(a);
    if !dtype.is_float() {
        return x.boolean(true);
    }
    let magnitude = x.unary(UnaryOp::Abs, a);
    let infinity = x.float(dtype, f64::INFINITY);
    x.compare(Compare::Lt, magnitude, infinity)
}

fn binary(x: &mut Exprs, op: Binary, a: ExprId, b: ExprId) -> ExprId {
    let dtype = x.dtype(a);
    let primitive = match op {
        Binary::Pow if dtype.is_float() => return math::pow(x, a, b),
        Binary::Pow => return math::integer_pow(x, a, b),
        Binary::Atan2 => return math::atan2(x, a, b),
        Binary::Add | Binary::Max | Binary::Or if dtype == DType::Bool => BinaryOp::Or,
        Binary::Mul | Binary::Min | Binary::And if dtype == DType::Bool => BinaryOp::And,
        Binary::Sub if dtype == DType::Bool => BinaryOp::Xor,
        Binary::Add => BinaryOp::Add,
        Binary::Sub => BinaryOp::Sub,
        Binary::Mul => BinaryOp::Mul,
        Binary::Div => BinaryOp::Div,
        Binary::Rem => BinaryOp::Rem,
        Binary::Min => BinaryOp::Min,
        Binary::Max => BinaryOp::Max,
        Binary::And => BinaryOp::And,
        Binary::Or => BinaryOp::Or,
        Binary::Xor => BinaryOp::Xor,
        Binary::ShiftLeft => BinaryOp::ShiftLeft,
        Binary::ShiftRightLogical => BinaryOp::ShiftRightLogical,
        Binary::ShiftRightArithmetic => BinaryOp::ShiftRightArithmetic,
        Binary::NextAfter => unreachable!("works on bits, without widening"),
    };
    x.binary(primitive, a, b)
}

/// The reduction of `bool` that means the same in logic alone.
pub(crate) fn reduce_kind(kind: ReduceKind, dtype: DType) -> ReduceKind {
    match kind {
        ReduceKind::Sum | ReduceKind::Max if dtype == DType::Bool => ReduceKind::Or,
        ReduceKind::Prod | ReduceKind::Min if dtype == DType::Bool => ReduceKind::And,
        kind => kind,
    }
}

/// The primitive that combines two accumulators.
pub(crate) fn primitive(kind: ReduceKind) -> BinaryOp {
    match kind {
        ReduceKind::Sum => BinaryOp::Add,
        ReduceKind::Prod => BinaryOp::Mul,
        ReduceKind::Min => BinaryOp::Min,
        ReduceKind::Max => BinaryOp::Max,
        ReduceKind::And => BinaryOp::And,
        ReduceKind::Or => BinaryOp::Or,
        ReduceKind::Xor => BinaryOp::Xor,
    }
}

/// What a reduction of accumulators of type `dtype` starts from.
pub fn identity(kind: ReduceKind, dtype: DType) -> Scalar {
    let least = match dtype {
        DType::Bool => Scalar::bool(false),
        d if d.is_float() => Scalar::from_f64(d, f64::NEG_INFINITY),
        d if d.is_unsigned() => Scalar::zero(d),
        d => Scalar::from_i128(d, -1 << (d.bits() - 1)),
    };
    let greatest = match dtype {
        DType::Bool => Scalar::bool(true),
        d if d.is_float() => Scalar::from_f64(d, f64::INFINITY),
        d if d.is_unsigned() => Scalar::from_i128(d, -1),
        d => Scalar::from_i128(d, (1 << (d.bits() - 1)) - 1),
    };
    match kind {
        ReduceKind::Sum | ReduceKind::Or | ReduceKind::Xor => Scalar::zero(dtype),
        ReduceKind::Prod => Scalar::one(dtype),
        ReduceKind::Min => greatest,
        ReduceKind::Max => least,
        ReduceKind::And if dtype == DType::Bool => Scalar::bool(true),
        ReduceKind::And => Scalar::from_i128(dtype, -1),
    }
}

/// Conversion of any type to any other, rounding once.
pub(crate) fn convert(x: &mut Exprs, a: ExprId, to: DType) -> ExprId {
    let from = x.dtype(a);
    if from == to {
        return a;
    }
    if let Some(value) = x.as_constant(a) {
        let value = match value.as_i128() {
            Some(i) => Scalar::from_i128(to, i),
            None => Scalar::from_f64(to, value.as_f64()),
        };
        return x.constant(value);
    }
    if from.is_half() {
        // Exact, so whatever follows rounds once.
        let wide = x.convert(a, DType::F32);
        return convert(x, wide, to);
    }
    if to == DType::Bool {
        let zero = x.constant(Scalar::zero(from));
        return x.compare(Compare::Ne, a, zero);
    }
    if !to.is_half() {
        return x.convert(a, to);
    }
    let single = match from {
        DType::F32 => a,
        DType::F64 => odd_f32(x, a),
        DType::Bool | DType::I8 | DType::U8 | DType::I16 | DType::U16 => x.convert(a, DType::F32),
        DType::I32 | DType::U32 => {
            let exact = x.convert(a, DType::F64);
            odd_f32(x, exact)
        }
        _ if to == DType::F16 => {
            // Beyond 2^17 every value is infinite as f16; within, f32 is exact.
            let limit = x.integer(from, 1 << 17);
            let mut near = x.binary(BinaryOp::Min, a, limit);
            if from.is_signed_integer() {
                let limit = x.integer(from, -(1 << 17));
                near = x.binary(BinaryOp::Max, near, limit);
            }
            x.convert(near, DType::F32)
        }
        _ => {
            let exact = sticky_f64(x, a);
            odd_f32(x, exact)
        }
    };
    x.convert(single, to)
}

/// An `f64` as `f32`, rounded towards zero with the last bit set if inexact.
///
/// Such "rounding to odd" to 24 bits keeps on which side of a tie the value is, so
/// that rounding again to 8 or 11 bits gives what one rounding would (Boldo and
/// Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
fn odd_f32(x: &mut Exprs, a: ExprId) -> ExprId {
    let near = x.convert(a, DType::F32);
    let back = x.convert(near, DType::F64);
    let (before, after) = (x.unary(UnaryOp::Abs, a), x.unary(UnaryOp::Abs, back));
    let away = x.compare(Compare::Gt, after, before);
    let towards = x.compare(Compare::Lt, after, before);
    let bits = x.bitcast(near, DType::U32);
    let one = x.integer(DType::U32, 1);
    let truncated = x.binary(BinaryOp::Sub, bits, one);
    let bits = x.select(away, truncated, bits);
    let odd = x.binary(BinaryOp::Or, bits, one);
    let inexact = x.binary(BinaryOp::Or, away, towards);
    let bits = x.select(inexact, odd, bits);
    x.bitcast(bits, DType::F32)
}

/// A 64-bit integer as an `f64` that rounds to any half type as the integer does.
///
/// Below 2^53 that is the value. Above, the low 20 bits only matter to a half type
/// by whether any is set; bit 19 says so and the rest fits 53 bits.
fn sticky_f64(x: &mut Exprs, a: ExprId) -> ExprId {
    let dtype = x.dtype(a);
    let mask = x.integer(dtype, (1 << 20) - 1);
    let inverse = x.integer(dtype, !((1i64 << 20) - 1));
    let zero = x.integer(dtype, 0);
    let sticky = x.integer(dtype, 1 << 19);
    let high = x.binary(BinaryOp::And, a, inverse);
    let low = x.binary(BinaryOp::And, a, mask);
    let any = x.compare(Compare::Ne, low, zero);
    let marked = x.binary(BinaryOp::Or, high, sticky);
    let large = x.select(any, marked, high);
    let limit = x.integer(dtype, 1 << 53);
    let mut small = x.compare(Compare::Lt, a, limit);
    if dtype.is_signed_integer() {
        let limit = x.integer(dtype, -(1 << 53));
        let above = x.compare(Compare::Gt, a, limit);
        small = x.binary(BinaryOp::And, small, above);
    }
    let kept = x.select(small, a, large);
    x.convert(kept, DType::F64)
}
