//! Primitive functions of kernel IR as LLVM instructions, on scalars or vectors.
//!
//! Promises the results that `kernel::expr` states, bit for bit: no fast-math flag
//! is ever set, nothing traps, and nothing is undefined. Where an LLVM instruction
//! leaves cases undefined (division, shifts, float to integer), they are decided here
//! before it.
//!
//! Calls that LLVM may make for lack of an instruction (`fmod`, `fma`) are among
//! those that the loader provides.

use inkwell::values::InstructionOpcode as Op;
use inkwell::{FloatPredicate, IntPredicate};
use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::build::{Build, Value, lanes, scalar_ty};
use super::target::Isa;
use crate::kernel::expr::{BinaryOp, UnaryOp};

/// Emits primitive functions for one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Arithmetic<'a, 'c> {
    pub build: &'a Build<'c>,
    pub isa: Isa,
}

impl<'c> Arithmetic<'_, 'c> {
    pub fn unary(&self, op: UnaryOp, dtype: DType, a: Value<'c>) -> Value<'c> {
        let b = self.build;
        let float = dtype.is_float();
        match op {
            UnaryOp::Neg if float => b.float_neg(a),
            UnaryOp::Neg => b.sub(b.int_like(a, 0), a),
            UnaryOp::Abs if float => b.unary_intrinsic("llvm.fabs", a),
            UnaryOp::Abs if dtype.is_signed_integer() => {
                b.intrinsic("llvm.abs", &[a.get_type()], &[a, b.bool(false)])
            }
            UnaryOp::Abs => a,
            UnaryOp::Not => b.not(a),
            UnaryOp::Sqrt => b.unary_intrinsic("llvm.sqrt", a),
            UnaryOp::Floor => b.unary_intrinsic("llvm.floor", a),
            UnaryOp::Ceil => b.unary_intrinsic("llvm.ceil", a),
            UnaryOp::Round => b.unary_intrinsic("llvm.roundeven", a),
            UnaryOp::Truncate => b.unary_intrinsic("llvm.trunc", a),
        }
    }

    pub fn binary(&self, op: BinaryOp, dtype: DType, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        match dtype {
            d if d.is_float() => self.floats(op, x, y),
            DType::Bool => self.bools(op, x, y),
            _ => self.integers(op, dtype, x, y),
        }
    }

    fn floats(&self, op: BinaryOp, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        let b = self.build;
        match op {
            BinaryOp::Add => b.op(Op::FAdd, x, y),
            BinaryOp::Sub => b.op(Op::FSub, x, y),
            BinaryOp::Mul => b.op(Op::FMul, x, y),
            BinaryOp::Div => b.op(Op::FDiv, x, y),
            BinaryOp::Rem => b.op(Op::FRem, x, y),
            BinaryOp::Min | BinaryOp::Max => self.extremum(op, x, y),
            _ => unreachable!("{op:?} of floats"),
        }
    }

    /// The lesser or greater of two floats; NaN if either is.
    fn extremum(&self, op: BinaryOp, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        let b = self.build;
        let max = op == BinaryOp::Max;
        let (suffix, size) = match scalar_ty(x.get_type()) == b.f32_ty() {
            true => ("ps", 32),
            false => ("pd", 64),
        };
        let bits = lanes(x) * size;
        if self.isa != Isa::V4 || !matches!(bits, 128 | 256 | 512) {
            let name = if max { "llvm.maximum" } else { "llvm.minimum" };
            return b.binary_intrinsic(name, x, y);
        }
        // VRANGE knows that -0 is below +0 but drops NaN. Three instructions, against
        // the eight or so that LLVM makes of the intrinsic.
        let name = format!("llvm.x86.avx512.mask.range.{suffix}.{bits}");
        let select = i64::from(max) | 4; // keep the sign of the one selected
        let all = b.int_ty(lanes(x).max(8)).const_all_ones().into();
        let mut args = vec![x, y, b.i32(select), x.get_type().const_zero(), all];
        if bits == 512 {
            args.push(b.i32(4)); // round as the control register says
        }
        let number = b.intrinsic(&name, &[], &args);
        let nan = b.fcmp(FloatPredicate::UNO, x, y);
        b.select(nan, b.float_like(x, f64::NAN), number)
    }

    fn bools(&self, op: BinaryOp, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        let b = self.build;
        match op {
            BinaryOp::And | BinaryOp::Mul | BinaryOp::Min => b.and(x, y),
            BinaryOp::Or | BinaryOp::Add | BinaryOp::Max => b.or(x, y),
            BinaryOp::Xor | BinaryOp::Sub => b.xor(x, y),
            _ => unreachable!("{op:?} of bools"),
        }
    }

    fn integers(&self, op: BinaryOp, dtype: DType, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        let b = self.build;
        let signed = dtype.is_signed_integer();
        let either = |s: &str, u: &str| b.binary_intrinsic(if signed { s } else { u }, x, y);
        match op {
            BinaryOp::Add => b.add(x, y),
            BinaryOp::Sub => b.sub(x, y),
            BinaryOp::Mul => b.mul(x, y),
            BinaryOp::Div => self.divide(dtype, x, y).0,
            BinaryOp::Rem => self.divide(dtype, x, y).1,
            BinaryOp::Min => either("llvm.smin", "llvm.umin"),
            BinaryOp::Max => either("llvm.smax", "llvm.umax"),
            BinaryOp::And => b.and(x, y),
            BinaryOp::Or => b.or(x, y),
            BinaryOp::Xor => b.xor(x, y),
            BinaryOp::ShiftLeft => self.shift(Op::Shl, x, y),
            BinaryOp::ShiftRightLogical => self.shift(Op::LShr, x, y),
            BinaryOp::ShiftRightArithmetic => {
                let most = b.int_like(y, i64::from(b.int_bits(y)) - 1);
                b.op(Op::AShr, x, b.binary_intrinsic("llvm.umin", y, most))
            }
        }
    }

    /// A shift that gives 0 when the amount is negative or too large.
    fn shift(&self, op: Op, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        let b = self.build;
        let bits = i64::from(b.int_bits(y));
        let inside = b.icmp(IntPredicate::ULT, y, b.int_like(y, bits));
        let shifted = b.op(op, x, b.and(y, b.int_like(y, bits - 1)));
        b.select(inside, shifted, b.int_like(x, 0))
    }

    /// Quotient and remainder: `x/0` is all ones, `x%0` is `x`, `MIN/-1` is `MIN`.
    fn divide(&self, dtype: DType, x: Value<'c>, y: Value<'c>) -> (Value<'c>, Value<'c>) {
        let b = self.build;
        let (zero, one) = (b.int_like(y, 0), b.int_like(y, 1));
        let by_zero = b.icmp(IntPredicate::EQ, y, zero);
        let mut special = by_zero;
        if dtype.is_signed_integer() {
            let least = b.int_like(x, i64::MIN >> (64 - b.int_bits(x)));
            let minus = b.icmp(IntPredicate::EQ, y, b.int_like(y, -1));
            let overflow = b.and(b.icmp(IntPredicate::EQ, x, least), minus);
            special = b.or(by_zero, overflow);
        }
        // Dividing by 1 instead gives MIN/-1 = MIN and MIN%-1 = 0 as wanted.
        let safe = b.select(special, one, y);
        let quotient = self.quotient(dtype, x, safe);
        let remainder = b.sub(x, b.mul(quotient, safe));
        (b.select(by_zero, b.int_like(x, -1), quotient), b.select(by_zero, x, remainder))
    }

    /// The quotient by a divisor that neither is 0 nor overflows.
    ///
    /// x86 divides no vectors of integers. The quotient of the values as floats,
    /// truncated, is exact: it is off by at most `x/y * 2^-24` in `f32`, which for
    /// `x < 2^24` is less than `1/y`, the least that a fraction stays away from the
    /// next integer. The same holds in `f64` below `2^53`.
    fn quotient(&self, dtype: DType, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        let b = self.build;
        let signed = dtype.is_signed_integer();
        let bits = b.int_bits(x);
        if lanes(x) == 1 || bits == 64 {
            return b.op(if signed { Op::SDiv } else { Op::UDiv }, x, y);
        }
        // Narrow values go by way of i32, which converts in one instruction.
        let (wide, float) = match bits {
            8 | 16 => (32, b.f32_ty()),
            _ => (bits, b.f64_ty()),
        };
        let (to_float, to_int) = match signed || bits < 32 {
            true => (Op::SIToFP, Op::FPToSI),
            false => (Op::UIToFP, Op::FPToUI),
        };
        let as_float = |v| b.cast(to_float, b.resize(v, wide, signed), float);
        let quotient = b.op(Op::FDiv, as_float(x), as_float(y));
        b.resize(b.cast(to_int, quotient, b.int_ty(wide).into()), bits, signed)
    }

    /// `x * y + z`, rounded once.
    pub fn fma(&self, dtype: DType, x: Value<'c>, y: Value<'c>, z: Value<'c>) -> Value<'c> {
        let b = self.build;
        match dtype {
            d if d.is_float() => b.intrinsic("llvm.fma", &[x.get_type()], &[x, y, z]),
            DType::Bool => b.or(b.and(x, y), z),
            _ => b.add(b.mul(x, y), z),
        }
    }

    pub fn compare(&self, op: Compare, dtype: DType, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        let b = self.build;
        if dtype.is_float() {
            let predicate = match op {
                Compare::Eq => FloatPredicate::OEQ,
                Compare::Ne => FloatPredicate::UNE,
                Compare::Lt => FloatPredicate::OLT,
                Compare::Le => FloatPredicate::OLE,
                Compare::Gt => FloatPredicate::OGT,
                Compare::Ge => FloatPredicate::OGE,
            };
            return b.fcmp(predicate, x, y);
        }
        let predicate = match (op, dtype.is_signed_integer()) {
            (Compare::Eq, _) => IntPredicate::EQ,
            (Compare::Ne, _) => IntPredicate::NE,
            (Compare::Lt, true) => IntPredicate::SLT,
            (Compare::Le, true) => IntPredicate::SLE,
            (Compare::Gt, true) => IntPredicate::SGT,
            (Compare::Ge, true) => IntPredicate::SGE,
            (Compare::Lt, false) => IntPredicate::ULT,
            (Compare::Le, false) => IntPredicate::ULE,
            (Compare::Gt, false) => IntPredicate::UGT,
            (Compare::Ge, false) => IntPredicate::UGE,
        };
        b.icmp(predicate, x, y)
    }

    /// Whether a float is NaN.
    pub fn is_nan(&self, x: Value<'c>) -> Value<'c> {
        self.build.fcmp(FloatPredicate::UNO, x, x)
    }

    // --- conversion -----------------------------------------------------

    /// Conversion by the rules of `convert`. A half type converts to and from `f32`;
    /// from and to the others it goes by way of `f32`, exactly on the way in.
    pub fn convert(&self, from: DType, to: DType, x: Value<'c>) -> Value<'c> {
        let b = self.build;
        match (from, to) {
            _ if from == to => x,
            (DType::F16, DType::F32) => self.f16_to_f32(x),
            (DType::BF16, DType::F32) => {
                let high =
                    b.op(Op::Shl, b.resize(x, 32, false), b.int_like(b.resize(x, 32, false), 16));
                b.bitcast(high, b.f32_ty())
            }
            (DType::F32, DType::F16) => self.f32_to_f16(x),
            (DType::F32, DType::BF16) => self.f32_to_bf16(x),
            _ if from.is_half() || to.is_half() => {
                let wide = self.convert(from, DType::F32, x);
                self.convert(DType::F32, to, wide)
            }
            (DType::F32, DType::F64) => b.cast(Op::FPExt, x, b.f64_ty()),
            (DType::F64, DType::F32) => b.cast(Op::FPTrunc, x, b.f32_ty()),
            (_, DType::Bool) if from.is_float() => {
                b.fcmp(FloatPredicate::UNE, x, b.float_like(x, 0.0))
            }
            (_, DType::Bool) => b.icmp(IntPredicate::NE, x, b.int_like(x, 0)),
            _ if from.is_float() => self.float_to_int(to, x),
            _ if to.is_float() => {
                let op = if from.is_signed_integer() { Op::SIToFP } else { Op::UIToFP };
                b.cast(op, x, b.ty(to))
            }
            _ => b.resize(x, to.bits(), from.is_signed_integer()),
        }
    }

    /// Truncates and saturates; NaN becomes 0.
    fn float_to_int(&self, to: DType, x: Value<'c>) -> Value<'c> {
        let b = self.build;
        let signed = to.is_signed_integer();
        let bits = to.bits();
        // Narrow types saturate once more from i32, which converts in few instructions.
        let wide = bits.max(32);
        let name = match signed || bits < 32 {
            true => "llvm.fptosi.sat",
            false => "llvm.fptoui.sat",
        };
        let int = super::build::with_lanes(b.int_ty(wide).into(), lanes(x));
        let value = b.intrinsic(name, &[int, x.get_type()], &[x]);
        if bits == wide {
            return value;
        }
        let (low, high) = match signed {
            true => (-1i64 << (bits - 1), (1i64 << (bits - 1)) - 1),
            false => (0, (1i64 << bits) - 1),
        };
        let value = b.binary_intrinsic("llvm.smax", value, b.int_like(value, low));
        let value = b.binary_intrinsic("llvm.smin", value, b.int_like(value, high));
        b.resize(value, bits, signed)
    }

    fn f16_to_f32(&self, x: Value<'c>) -> Value<'c> {
        let b = self.build;
        if self.isa.converts_f16() {
            let half = b.bitcast(x, b.context.f16_type().into());
            return b.cast(Op::FPExt, half, b.f32_ty());
        }
        // The exponent and significand, moved to their place in an f32 and scaled by
        // the difference of the biases, are the value: exact, subnormals included.
        // Infinity and NaN then lack the top of the exponent.
        let wide = b.resize(x, 32, false);
        let at = |v: Value<'c>, n| b.int_like(v, n);
        let sign = b.op(Op::Shl, b.and(wide, at(wide, 0x8000)), at(wide, 16));
        let rest = b.op(Op::Shl, b.and(wide, at(wide, 0x7fff)), at(wide, 13));
        let float = b.bitcast(rest, b.f32_ty());
        let scaled = b.op(Op::FMul, float, b.float_like(float, 2f64.powi(112)));
        let special = b.icmp(IntPredicate::UGE, rest, at(rest, 0x0f80_0000));
        let top = b.or(rest, at(rest, 0x7f80_0000));
        // A signalling NaN turns quiet, as by the instruction.
        let nan = b.icmp(IntPredicate::UGT, rest, at(rest, 0x0f80_0000));
        let top = b.select(nan, b.or(top, at(top, 0x0040_0000)), top);
        let scaled = b.bitcast(scaled, b.int_ty(32).into());
        let magnitude = b.select(special, top, scaled);
        b.bitcast(b.or(magnitude, sign), b.f32_ty())
    }

    fn f32_to_f16(&self, x: Value<'c>) -> Value<'c> {
        let b = self.build;
        if self.isa.converts_f16() {
            let half = b.cast(Op::FPTrunc, x, b.context.f16_type().into());
            return b.bitcast(half, b.int_ty(16).into());
        }
        let bits = b.bitcast(x, b.int_ty(32).into());
        let at = |n| b.int_like(bits, n);
        let sign = b.op(Op::LShr, b.and(bits, at(0x8000_0000)), at(16));
        let magnitude = b.and(bits, at(0x7fff_ffff));
        // Normal results: round the significand to 10 bits in place, ties to even, and
        // take 112 from the exponent.
        let odd = b.and(b.op(Op::LShr, magnitude, at(13)), at(1));
        let rounded = b.add(b.add(magnitude, at(0xfff)), odd);
        let normal = b.op(Op::LShr, b.sub(rounded, at(112 << 23)), at(13));
        // Subnormal results: adding 0.5 leaves the value in units of 2^-24, rounded
        // to nearest even by the addition, in the low bits.
        let float = b.bitcast(magnitude, b.f32_ty());
        let sum = b.op(Op::FAdd, float, b.float_like(float, 0.5));
        let subnormal = b.sub(b.bitcast(sum, b.int_ty(32).into()), at(0x3f00_0000));
        let small = b.icmp(IntPredicate::ULT, magnitude, at(0x3880_0000));
        let value = b.select(small, subnormal, normal);
        // From 65520 on it is infinity; NaN keeps the top of its payload and is quiet.
        let large = b.icmp(IntPredicate::UGE, magnitude, at(0x477f_f000));
        let value = b.select(large, at(0x7c00), value);
        let payload = b.and(b.op(Op::LShr, magnitude, at(13)), at(0x3ff));
        let nan = b.icmp(IntPredicate::UGT, magnitude, at(0x7f80_0000));
        let value = b.select(nan, b.or(payload, at(0x7e00)), value);
        b.resize(b.or(value, sign), 16, false)
    }

    /// By integer arithmetic: the AVX-512 instruction flushes subnormals.
    fn f32_to_bf16(&self, x: Value<'c>) -> Value<'c> {
        let b = self.build;
        let bits = b.bitcast(x, b.int_ty(32).into());
        let at = |n| b.int_like(bits, n);
        let high = b.op(Op::LShr, bits, at(16));
        let rounding = b.add(b.and(high, at(1)), at(0x7fff));
        let rounded = b.op(Op::LShr, b.add(bits, rounding), at(16));
        let quiet = b.or(high, at(0x40));
        b.resize(b.select(self.is_nan(x), quiet, rounded), 16, false)
    }

    /// The same bits as another type of equal width.
    pub fn reinterpret(&self, from: DType, to: DType, x: Value<'c>) -> Value<'c> {
        let b = self.build;
        match (from, to) {
            (DType::Bool, _) => b.resize(x, 8, false),
            (_, DType::Bool) => b.icmp(IntPredicate::NE, x, b.int_like(x, 0)),
            _ => b.bitcast(x, b.ty(to)),
        }
    }
}
