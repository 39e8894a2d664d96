//! Methods that look at the bits of elements, or change single ones.
//!
//! What bits a NaN has that was computed is not specified: methods that pass them on
//! do, and keep those of data.

use kiln_ir::op::{
    Binary, BitcastConvert, Compare, Convert, Iota, Reduce, ReduceKind, ReducePrecision, Reshape,
    Select, Unary,
};
use kiln_trace::At;

use super::{Operand, Tensor};
use crate::{DType, Shape, Type};

impl Tensor {
    /// How many bits of each integer are set.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([0i8, 7, -1]);
    /// assert_eq!(x.population_count().to_vec::<i8>()?, [0, 3, 8]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn population_count(&self) -> Tensor {
        Tensor::apply(Unary::PopulationCount, &[self], At::caller())
    }

    /// How many zeros stand above the highest set bit of each integer: the width for 0.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([0u16, 1, 0x8000]);
    /// assert_eq!(x.clz().to_vec::<u16>()?, [16, 15, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn clz(&self) -> Tensor {
        Tensor::apply(Unary::CountLeadingZeros, &[self], At::caller())
    }

    /// How many zeros stand below the lowest set bit of each integer: the width for 0.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([0i32, 1, 40]);
    /// assert_eq!(x.ctz().to_vec::<i32>()?, [32, 0, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn ctz(&self) -> Tensor {
        let at = At::caller();
        if let Err(poisoned) = self.integers("ctz", at) {
            return poisoned;
        }
        // x - 1 turns the zeros below the lowest set bit into ones, and that bit off.
        let below = self.binary(Binary::Sub, self.like(1.0, at), at);
        let not = Tensor::apply(Unary::Not, &[self], at);
        Tensor::apply(Unary::PopulationCount, &[&not.binary(Binary::And, &below, at)], at)
    }

    /// Shift to the left; by a negative amount, or the width and more, 0.
    #[track_caller]
    pub fn shift_left(&self, other: impl Operand) -> Tensor {
        self.binary(Binary::ShiftLeft, other, At::caller())
    }

    /// The next float after each element in the direction of `other`'s.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([1.0f32, 0.0]).nextafter(-1.0);
    /// assert_eq!(x.to_vec::<f32>()?, [1.0 - f32::EPSILON / 2.0, -1e-45]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn nextafter(&self, other: impl Operand) -> Tensor {
        self.binary(Binary::NextAfter, other, At::caller())
    }

    /// Whether the sign bit is set: of −0 and of a negative NaN, too.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([1.0f32, -0.0]);
    /// assert_eq!(x.signbit().to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn signbit(&self) -> Tensor {
        let at = At::caller();
        let Ok(ty) = self.try_ty() else { return self.clone() };
        match ty.dtype {
            DType::Bool => Tensor::fail_operands(
                "signbit",
                format!("wants an integer or a float, got {ty}"),
                &[("operand", self)],
                at,
            ),
            float if float.is_float() => self.is_negative(at),
            _ => self.lt(self.like(0.0, at)),
        }
    }

    /// The magnitudes of the elements with the signs of `other`'s.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([1.0f32, -2.0]);
    /// assert_eq!(x.copysign(-0.0).to_vec::<f32>()?, [-1.0, -2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn copysign(&self, other: impl Operand) -> Tensor {
        let at = At::caller();
        if let Err(poisoned) = self.floating("copysign", at) {
            return poisoned;
        }
        match self.pair("copysign", other, at) {
            // By negation, through which derivatives flow, as they do not through bits.
            Ok((x, sign)) => {
                let (own, wanted) = (x.is_negative(at), sign.is_negative(at));
                let differ = own.binary(Binary::Xor, &wanted, at);
                let negated = Tensor::apply(Unary::Neg, &[&x], at);
                Tensor::apply(Select, &[&differ, &negated, &x], at)
            }
            Err(poisoned) => poisoned,
        }
    }

    /// Whether the sign bits of floats are set.
    fn is_negative(&self, at: At) -> Tensor {
        let Ok(ty) = self.try_ty() else { return self.clone() };
        let bits = self.bitcast(signed(ty.dtype.size()), at);
        let zero = bits.like(0.0, at).expand(&ty.shape, at);
        Tensor::apply(Compare::Lt, &[&bits, &zero], at)
    }

    /// The magnitudes of these floats with the signs of others of their type.
    pub(super) fn signed_as(&self, sign: &Tensor, at: At) -> Tensor {
        let Ok(ty) = self.try_ty() else { return self.clone() };
        let float = ty.dtype;
        let bits = unsigned(float.size());
        let (magnitude, sign) = (self.bitcast(bits, at), sign.bitcast(bits, at));
        let top = i128::from(bits.bits() - 1);
        let mask = Tensor::constant_integer(1 << top, bits, at);
        let sign = sign.binary(Binary::And, &mask, at);
        let rest = Tensor::constant_integer((1 << top) - 1, bits, at);
        let magnitude = magnitude.binary(Binary::And, &rest, at);
        magnitude.binary(Binary::Or, &sign, at).bitcast(float, at)
    }

    /// What each float would be after conversion to a format of so many bits of
    /// exponent and significand, and back: rounded to nearest even, infinite where it
    /// is too large for the format, zero where it is below its normal numbers.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([1.01f32, 70000.0, 1e-7]);
    /// let half = x.reduce_precision(5, 10);
    /// assert_eq!(half.to_vec::<f32>()?, [1.0097656, f32::INFINITY, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn reduce_precision(&self, exponent_bits: u32, mantissa_bits: u32) -> Tensor {
        Tensor::apply(ReducePrecision { exponent_bits, mantissa_bits }, &[self], At::caller())
    }

    /// The bits of the elements as another type.
    ///
    /// Elements of a narrower type become a new last axis, lowest bits first; for a
    /// wider type the last axis holds the parts of one element and goes away.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([1.0f32, -2.0]);
    /// let bytes = x.bitcast_convert_type(U8);
    /// assert_eq!(bytes.shape(), [2, 4]);
    /// assert_eq!(bytes.to_vec::<u8>()?, [0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]);
    /// assert_eq!(bytes.bitcast_convert_type(F32).to_vec::<f32>()?, [1.0, -2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn bitcast_convert_type(&self, dtype: DType) -> Tensor {
        let (op, at) = ("bitcast_convert_type", At::caller());
        let Ok(ty) = self.try_ty() else { return self.clone() };
        if ty.dtype == dtype {
            return self.clone();
        }
        let refuse = |message: String| Tensor::fail_operands(op, message, &[("operand", self)], at);
        if ty.dtype == DType::Bool || dtype == DType::Bool {
            return refuse(format!("bool has no bits to convert: {ty} to {dtype}"));
        }
        let (from, to) = (ty.dtype.size(), dtype.size());
        if from == to {
            return self.bitcast(dtype, at);
        }
        if from > to {
            return self.parted(dtype, at);
        }
        let parts = to / from;
        match ty.shape.last() {
            Some(&last) if last == parts => self.joined(dtype, at),
            _ => refuse(format!("wants a last axis of {parts} for {dtype}, got {ty}")),
        }
    }

    /// Elements cut into parts of a narrower type, along a new last axis.
    fn parted(&self, dtype: DType, at: At) -> Tensor {
        let wide = unsigned(self.dtype().size());
        let mut shape = self.shape().to_vec();
        shape.push(1);
        let bits = self.bitcast(wide, at);
        let column = Tensor::apply(Reshape { shape: shape.clone().into() }, &[&bits], at);
        let rank = shape.len();
        shape[rank - 1] = self.dtype().size() / dtype.size();
        let shape = Shape::from(shape);
        let moved = column.expand(&shape, at).binary(
            Binary::ShiftRightLogical,
            offsets(&shape, wide, dtype.bits(), at),
            at,
        );
        moved.convert(unsigned(dtype.size()), at).bitcast(dtype, at)
    }

    /// The elements along the last axis put together to one of a wider type.
    fn joined(&self, dtype: DType, at: At) -> Tensor {
        let ty = self.ty().clone();
        let wide = unsigned(dtype.size());
        let parts = self.bitcast(unsigned(ty.dtype.size()), at);
        let parts = Tensor::apply(Convert { to: wide }, &[&parts], at);
        let offsets = offsets(&ty.shape, wide, ty.dtype.bits(), at);
        let moved = parts.binary(Binary::ShiftLeft, offsets, at);
        let axes = vec![ty.shape.rank() - 1];
        let whole = Tensor::apply(Reduce { kind: ReduceKind::Or, axes }, &[&moved], at);
        whole.bitcast(dtype, at)
    }

    fn bitcast(&self, to: DType, at: At) -> Tensor {
        if self.try_ty().is_ok_and(|ty| ty.dtype == to) {
            return self.clone();
        }
        Tensor::apply(BitcastConvert { to }, &[self], at)
    }

    fn constant_integer(value: i128, dtype: DType, at: At) -> Tensor {
        let value = crate::Scalar::from_i128(dtype, value);
        Tensor::constant(kiln_ir::Literal::scalar(value), at)
    }

    /// Refuses elements that are no integers.
    fn integers(&self, op: &str, at: At) -> Result<(), Tensor> {
        let ty = self.try_ty().map_err(Tensor::poisoned)?;
        if ty.dtype.is_integer() {
            return Ok(());
        }
        let message = format!("wants an integer, got {ty}");
        Err(Tensor::fail_operands(op, message, &[("operand", self)], at))
    }
}

/// For each place along the last axis of `shape`, where its `width` bits begin.
fn offsets(shape: &Shape, dtype: DType, width: u32, at: At) -> Tensor {
    let axis = shape.rank() - 1;
    let ty = Type { dtype, shape: shape.clone() };
    let place = Tensor::apply(Iota { ty, axis }, &[], at);
    place.binary(Binary::Mul, Tensor::constant_integer(width.into(), dtype, at), at)
}

fn unsigned(size: usize) -> DType {
    match size {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

fn signed(size: usize) -> DType {
    match size {
        1 => DType::I8,
        2 => DType::I16,
        4 => DType::I32,
        _ => DType::I64,
    }
}
