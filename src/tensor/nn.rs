//! What neural networks are made of, composed from the other methods: functions along
//! axes. Those of single elements are in `activation.rs`.
//!
//! Half types are widened to `f32` inside whatever sums over an axis, and rounded
//! once at the end.

use kiln_ir::op::Iota;
use kiln_trace::At;

use super::{Axes, Tensor, keepdims};
use crate::{DType, Type};

impl Tensor {
    /// `exp(x) / Σ exp(x)` along an axis, without overflow.
    ///
    /// The maximum that is subtracted cancels: it is constant for derivatives.
    #[track_caller]
    pub fn softmax(&self, axis: impl Into<Axes>) -> Tensor {
        let (at, axis) = (At::caller(), keepdims(axis));
        let wide = match self.widened("softmax", at) {
            Ok(wide) => wide,
            Err(poisoned) => return poisoned,
        };
        let e = (&wide - wide.greatest("softmax", axis.clone(), at).stopped(at)).exp();
        let p = &e / e.sum(axis);
        p.narrowed_to(self, at)
    }

    /// `x − log Σ exp(x)` along an axis, without overflow.
    #[track_caller]
    pub fn log_softmax(&self, axis: impl Into<Axes>) -> Tensor {
        let (at, axis) = (At::caller(), keepdims(axis));
        let wide = match self.widened("log_softmax", at) {
            Ok(wide) => wide,
            Err(poisoned) => return poisoned,
        };
        let shifted = &wide - wide.greatest("log_softmax", axis.clone(), at).stopped(at);
        let p = &shifted - shifted.exp().sum(axis).log();
        p.narrowed_to(self, at)
    }

    /// `log Σ exp(x)` along axes, without overflow. Of nothing but −∞ it is −∞.
    #[track_caller]
    pub fn logsumexp(&self, axes: impl Into<Axes>) -> Tensor {
        let (at, axes) = (At::caller(), axes.into());
        let wide = match self.widened("logsumexp", at) {
            Ok(wide) => wide,
            Err(poisoned) => return poisoned,
        };
        // Subtracting an infinite maximum would give ∞ − ∞.
        let finite = |max: Tensor| max.isfinite().select(&max, max.like(0.0, at));
        let greatest = |axes| wide.greatest("logsumexp", axes, at).stopped(at);
        let shift = finite(greatest(keepdims(axes.clone())));
        let sum = (&wide - &shift).exp().sum(axes.clone());
        let result = sum.log() + finite(greatest(axes));
        result.narrowed_to(self, at)
    }

    /// Converted to another tensor's element type.
    fn narrowed_to(&self, other: &Tensor, at: At) -> Tensor {
        match other.try_ty() {
            Ok(ty) => self.convert(ty.dtype, at),
            Err(error) => Tensor::poisoned(error),
        }
    }

    /// 1 where the index along a new last axis equals the element, else 0.
    #[track_caller]
    pub fn one_hot(&self, classes: usize, dtype: DType) -> Tensor {
        let at = At::caller();
        let Ok(ty) = self.try_ty() else { return self.clone() };
        // Narrow types do not hold every class: 5 and 261 are one `u8`.
        let wide = match ty.dtype {
            DType::Bool => {
                let message = format!("wants indices, got {ty}; convert it: `.astype(I32)`");
                return Tensor::fail_operands("one_hot", message, &[("operand", self)], at);
            }
            DType::F16 | DType::BF16 => DType::F32,
            float if float.is_float() => float,
            _ => DType::I64,
        };
        let index = Iota { ty: Type::new(wide, [classes]), axis: 0 };
        let index = Tensor::apply(index, &[], at);
        self.convert(wide, at).expand_dims(-1).eq(index).convert(dtype, at)
    }
}
