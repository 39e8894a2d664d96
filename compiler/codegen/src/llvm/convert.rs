//! Conversions between element types.
//!
//! Promises the rules of `convert`: floats round to nearest even, to integers they
//! truncate and saturate, NaN becomes 0, integers wrap. Subnormals of every type are
//! kept. Where the instruction set lacks a conversion, or has one that flushes
//! subnormals, it is done in integer arithmetic on the bits.

use inkwell::values::InstructionOpcode as Op;
use inkwell::{FloatPredicate, IntPredicate};
use kiln_ir::DType;

use super::arithmetic::Arithmetic;
use super::build::{Value, lanes, with_lanes};

impl<'c> Arithmetic<'_, 'c> {
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
        let int = with_lanes(b.int_ty(wide).into(), lanes(x));
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
