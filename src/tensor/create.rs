//! Tensors from nothing: constants and counters. A filled tensor is one number,
//! broadcast; no array of it is stored in a program.

use kiln_ir::op::Iota;
use kiln_trace::At;

use super::{Operand, Tensor};
use crate::{DType, Shape, Type};

impl Tensor {
    /// All zeros.
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        filled(0.0, shape.into(), dtype, At::caller())
    }

    /// All ones.
    #[track_caller]
    pub fn ones(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        filled(1.0, shape.into(), dtype, At::caller())
    }

    /// All `value`.
    #[track_caller]
    pub fn full(shape: impl Into<Shape>, value: impl Operand, dtype: DType) -> Tensor {
        let at = At::caller();
        let value = value.operand().tensor(dtype, "full", at);
        match value.try_ty() {
            Ok(ty) if ty.dtype != dtype => {
                let message = format!("the value is {ty}, the result {dtype}");
                Tensor::fail_operands("full", message, &[("value", &value)], at)
            }
            _ => value.broadcast_named("full", shape.into(), at),
        }
    }

    /// Zeros of another tensor's type.
    #[track_caller]
    pub fn zeros_like(other: &Tensor) -> Tensor {
        match other.try_ty() {
            Ok(ty) => filled(0.0, ty.shape.clone(), ty.dtype, At::caller()),
            Err(error) => Tensor::poisoned(error),
        }
    }

    /// Ones of another tensor's type.
    #[track_caller]
    pub fn ones_like(other: &Tensor) -> Tensor {
        match other.try_ty() {
            Ok(ty) => filled(1.0, ty.shape.clone(), ty.dtype, At::caller()),
            Err(error) => Tensor::poisoned(error),
        }
    }

    /// `0, 1, …, n − 1`.
    #[track_caller]
    pub fn arange(n: usize, dtype: DType) -> Tensor {
        Tensor::iota([n], 0, dtype)
    }

    /// Each element is its index along `axis`.
    #[track_caller]
    pub fn iota(shape: impl Into<Shape>, axis: usize, dtype: DType) -> Tensor {
        Tensor::apply(Iota { ty: Type::new(dtype, shape), axis }, &[], At::caller())
    }

    /// The `n × n` matrix with ones on its diagonal.
    #[track_caller]
    pub fn eye(n: usize, dtype: DType) -> Tensor {
        let (row, column) =
            (Tensor::iota([n, n], 0, DType::I64), Tensor::iota([n, n], 1, DType::I64));
        row.eq(column).astype(dtype)
    }

    /// `n` evenly spaced numbers from `start` to `stop`, both included.
    #[track_caller]
    pub fn linspace(start: f64, stop: f64, n: usize, dtype: DType) -> Tensor {
        let at = At::caller();
        if !dtype.is_float() {
            return Tensor::fail("linspace", format!("wants a float type, got {dtype}"), at);
        }
        // In the accumulator type, so that narrow floats are rounded once.
        let wide = dtype.accumulator();
        let steps = n.saturating_sub(1).max(1) as f64;
        let i = Tensor::arange(n, wide);
        let from_start =
            &i * Tensor::number((stop - start) / steps, wide, at) + Tensor::number(start, wide, at);
        if n < 2 {
            return from_start.convert(dtype, at);
        }
        // The last is `stop` itself, not what rounding makes of it.
        let last = i.eq(Tensor::number(steps, wide, at));
        last.select(Tensor::number(stop, wide, at), from_start).convert(dtype, at)
    }

    /// The elements on and below the `k`-th diagonal of the last two axes; zeros above.
    #[track_caller]
    pub fn tril(&self, k: i64) -> Tensor {
        self.triangle("tril", At::caller(), |column, row| (column - row).le(k))
    }

    /// The elements on and above the `k`-th diagonal of the last two axes; zeros below.
    #[track_caller]
    pub fn triu(&self, k: i64) -> Tensor {
        self.triangle("triu", At::caller(), |column, row| (column - row).ge(k))
    }

    fn triangle(&self, op: &str, at: At, keep: impl Fn(&Tensor, &Tensor) -> Tensor) -> Tensor {
        let Ok(ty) = self.try_ty() else { return self.clone() };
        let rank = ty.shape.rank();
        if rank < 2 {
            return Tensor::fail(op, format!("wants a matrix, got {ty}"), at);
        }
        let plane = [ty.shape[rank - 2], ty.shape[rank - 1]];
        let row = Tensor::iota(plane, 0, DType::I64);
        let column = Tensor::iota(plane, 1, DType::I64);
        keep(&column, &row).select(self, self.like(0.0, at))
    }
}

fn filled(value: f64, shape: Shape, dtype: DType, at: At) -> Tensor {
    Tensor::number(value, dtype, at).expand(&shape, at)
}
