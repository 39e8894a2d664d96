//! What neural networks are made of, composed from the other methods.
//!
//! Half types are widened to `f32` inside whatever sums over an axis, and rounded
//! once at the end.

use kiln_ir::op::Iota;
use kiln_trace::At;

use super::{Axes, Tensor, keepdims};
use crate::{DType, Type};

impl Tensor {
    /// `max(x, 0)`, whose derivative at 0 is 0.
    #[track_caller]
    pub fn relu(&self) -> Tensor {
        let zero = self.like(0.0, At::caller());
        // Not the maximum, which gives half of a tie to each side.
        self.le(&zero).select(zero, self)
    }

    /// `1 / (1 + exp(-x))`.
    #[track_caller]
    pub fn sigmoid(&self) -> Tensor {
        self.sigmoid_of("sigmoid", At::caller())
    }

    fn sigmoid_of(&self, op: &str, at: At) -> Tensor {
        if let Err(poisoned) = self.floating(op, at) {
            return poisoned;
        }
        let one = self.like(1.0, at);
        &one / ((-self).exp() + &one)
    }

    /// `x · sigmoid(x)`.
    #[track_caller]
    pub fn silu(&self) -> Tensor {
        self * self.sigmoid_of("silu", At::caller())
    }

    /// `0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))`: the approximation that
    /// `jax.nn.gelu` uses by default.
    #[track_caller]
    pub fn gelu(&self) -> Tensor {
        let at = At::caller();
        if let Err(poisoned) = self.floating("gelu", at) {
            return poisoned;
        }
        let cubic = self * self * self * self.like(0.044715, at);
        let inner = (self + cubic) * self.like((2.0 / std::f64::consts::PI).sqrt(), at);
        (inner.tanh() + self.like(1.0, at)) * self * self.like(0.5, at)
    }

    /// `x Φ(x)`, with the error function.
    #[track_caller]
    pub fn gelu_exact(&self) -> Tensor {
        let at = At::caller();
        if let Err(poisoned) = self.floating("gelu_exact", at) {
            return poisoned;
        }
        let phi = (self * self.like(std::f64::consts::FRAC_1_SQRT_2, at)).erf();
        (phi + self.like(1.0, at)) * self * self.like(0.5, at)
    }

    /// `exp(x) / Σ exp(x)` along an axis, without overflow.
    #[track_caller]
    pub fn softmax(&self, axis: impl Into<Axes>) -> Tensor {
        let (at, axis) = (At::caller(), keepdims(axis));
        let wide = match self.widened("softmax", at) {
            Ok(wide) => wide,
            Err(poisoned) => return poisoned,
        };
        let e = (&wide - wide.greatest("softmax", axis.clone(), at)).exp();
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
        let shifted = &wide - wide.greatest("log_softmax", axis.clone(), at);
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
        let greatest = |axes| wide.greatest("logsumexp", axes, at);
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
