//! What neural networks are made of, composed from the other methods.
//!
//! Half types are widened to `f32` inside whatever sums over an axis, and rounded
//! once at the end.

use kiln_trace::At;

use super::{Axes, Tensor, keepdims};

impl Tensor {
    /// `max(x, 0)`.
    #[track_caller]
    pub fn relu(&self) -> Tensor {
        self.maximum(self.like(0.0, At::caller()))
    }

    /// `1 / (1 + exp(-x))`.
    #[track_caller]
    pub fn sigmoid(&self) -> Tensor {
        let one = self.like(1.0, At::caller());
        &one / ((-self).exp() + &one)
    }

    /// `x · sigmoid(x)`.
    #[track_caller]
    pub fn silu(&self) -> Tensor {
        self * self.sigmoid()
    }

    /// `0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))`: the approximation that
    /// `jax.nn.gelu` uses by default.
    #[track_caller]
    pub fn gelu(&self) -> Tensor {
        let at = At::caller();
        let cubic = self * self * self * self.like(0.044715, at);
        let inner = (self + cubic) * self.like((2.0 / std::f64::consts::PI).sqrt(), at);
        (inner.tanh() + self.like(1.0, at)) * self * self.like(0.5, at)
    }

    /// `x Φ(x)`, with the error function.
    #[track_caller]
    pub fn gelu_exact(&self) -> Tensor {
        let at = At::caller();
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
        let e = (&wide - wide.max(axis.clone())).exp();
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
        let shifted = &wide - wide.max(axis.clone());
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
        let shift = finite(wide.max(keepdims(axes.clone())));
        let sum = (&wide - &shift).exp().sum(axes.clone());
        let result = sum.log() + finite(wide.max(axes));
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
    pub fn one_hot(&self, classes: usize, dtype: crate::DType) -> Tensor {
        let at = At::caller();
        let Ok(ty) = self.try_ty() else { return self.clone() };
        let index = Tensor::apply(
            kiln_ir::op::Iota { ty: crate::Type::new(ty.dtype, [classes]), axis: 0 },
            &[],
            at,
        );
        self.expand_dims(-1).eq(index).convert(dtype, at)
    }
}
