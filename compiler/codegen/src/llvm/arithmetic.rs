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
use crate::math::{F32, F64, Layout};

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
            UnaryOp::PopulationCount => b.unary_intrinsic("llvm.ctpop", a),
            UnaryOp::CountLeadingZeros => {
                b.intrinsic("llvm.ctlz", &[a.get_type()], &[a, b.bool(false)])
            }
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
            BinaryOp::Scale => self.scale(x, y),
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
            return self.extremum_by_compares(max, x, y);
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

    /// The same by comparisons. Not by `llvm.maximum`: LLVM 19 narrows it to the type
    /// that both operands were extended from and then drops NaN in `half`.
    ///
    /// Operands that compare equal differ at most in the sign of zero: `and` of their
    /// bits is +0 unless both are −0, `or` is −0 unless both are +0.
    fn extremum_by_compares(&self, max: bool, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        let b = self.build;
        let float = scalar_ty(x.get_type());
        let int = b.int_ty(if float == b.f32_ty() { 32 } else { 64 }).into();
        let (i, j) = (b.bitcast(x, int), b.bitcast(y, int));
        let equal = b.bitcast(if max { b.and(i, j) } else { b.or(i, j) }, float);
        let (low, high) = if max { (x, y) } else { (y, x) };
        let number = b.select(b.fcmp(FloatPredicate::OGT, x, y), low, equal);
        let number = b.select(b.fcmp(FloatPredicate::OLT, x, y), high, number);
        let nan = b.fcmp(FloatPredicate::UNO, x, y);
        b.select(nan, b.float_like(x, f64::NAN), number)
    }

    /// `x * 2^n`, rounded once, for an integer `n`.
    fn scale(&self, x: Value<'c>, n: Value<'c>) -> Value<'c> {
        if self.isa != Isa::V4 || lanes(x) == 1 {
            return self.scale_by_products(x, n);
        }
        let b = self.build;
        let (name, width) = match scalar_ty(x.get_type()) == b.f32_ty() {
            true => ("llvm.x86.avx512.mask.scalef.ps.512", 16),
            false => ("llvm.x86.avx512.mask.scalef.pd.512", 8),
        };
        b.in_parts(width, &[x, n], &|part| {
            let all = b.int_ty(width).const_all_ones().into();
            let current = b.i32(4); // round as the control register says
            let zero = part[0].get_type().const_zero();
            b.intrinsic(name, &[], &[part[0], part[1], zero, all, current])
        })
    }

    /// The same by two products, of which the first is exact: 2^n is 2^floor(n/2) times
    /// 2^ceil(n/2), and each of those a normal number.
    fn scale_by_products(&self, x: Value<'c>, n: Value<'c>) -> Value<'c> {
        let b = self.build;
        let float = scalar_ty(x.get_type());
        let Layout { bits, significand, bias, magic } = match float == b.f32_ty() {
            true => F32,
            false => F64,
        };
        let pattern = |v| b.bitcast(v, b.ty(bits));
        // The sum has the integer in its low bits; what is above them is shifted out.
        let n = pattern(b.op(Op::FAdd, n, b.float_like(n, magic)));
        let half = b.op(Op::LShr, n, b.int_like(n, 1));
        let power = |n| {
            let up = b.op(Op::Shl, n, b.int_like(n, significand));
            b.bitcast(b.add(up, b.int_like(n, bias << significand)), float)
        };
        let first = b.op(Op::FMul, x, power(half));
        b.op(Op::FMul, first, power(b.sub(n, half)))
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
            BinaryOp::Scale => unreachable!("{op:?} of integers"),
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
            DType::F32 if self.isa == Isa::V2 => self.fma_by_doubles(x, y, z),
            d if d.is_float() => b.intrinsic("llvm.fma", &[x.get_type()], &[x, y, z]),
            DType::Bool => b.or(b.and(x, y), z),
            _ => b.add(b.mul(x, y), z),
        }
    }

    /// `x * y + z` in `f32`, rounded once, without an instruction for it; LLVM would call
    /// a function for each lane.
    ///
    /// The product is exact in `f64`. The sum there is rounded to odd: where it is
    /// inexact, the neighbour with an odd significand is taken, which is never a tie of
    /// the narrower type nor crosses one, so that the second rounding is right
    /// (Boldo and Melquiond, 2008; 53 bits are more than 2 * 24 + 1).
    fn fma_by_doubles(&self, x: Value<'c>, y: Value<'c>, z: Value<'c>) -> Value<'c> {
        let b = self.build;
        let wide = |v| b.cast(Op::FPExt, v, b.f64_ty());
        let (p, z) = (b.op(Op::FMul, wide(x), wide(y)), wide(z));
        let sum = b.op(Op::FAdd, p, z);
        // Knuth's TwoSum: p + z = sum + error, exactly.
        let back = b.op(Op::FSub, sum, p);
        let lost = b.op(Op::FSub, p, b.op(Op::FSub, sum, back));
        let error = b.op(Op::FAdd, lost, b.op(Op::FSub, z, back));
        // NaN, which infinities make of the error, compares false.
        let zero = b.float_like(error, 0.0);
        let inexact = b.fcmp(FloatPredicate::ONE, error, zero);
        let bits = b.bitcast(sum, b.int_ty(64).into());
        let even = b.icmp(IntPredicate::EQ, b.and(bits, b.int_like(bits, 1)), b.int_like(bits, 0));
        // Away from zero when the error has the sign of the sum, else towards it.
        let error_bits = b.bitcast(error, b.int_ty(64).into());
        let differ = b.icmp(IntPredicate::SLT, b.xor(bits, error_bits), b.int_like(bits, 0));
        let step = b.select(differ, b.int_like(bits, -1), b.int_like(bits, 1));
        let odd = b.select(b.and(inexact, even), b.add(bits, step), bits);
        b.cast(Op::FPTrunc, b.bitcast(odd, b.f64_ty()), b.f32_ty())
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
}
