//! Activation functions: what neural networks apply to single elements, under the names
//! that they have in `jax.nn`.
//!
//! All are composed from other methods, and fuse like them. None overflows on the way,
//! and NaN stays NaN. Integers are refused, but by those that only compare.

use kiln_ir::op::Unary;
use kiln_trace::At;

use super::Tensor;

impl Tensor {
    /// `max(x, 0)`, whose derivative at 0 is 0.
    #[track_caller]
    pub fn relu(&self) -> Tensor {
        let zero = self.like(0.0, At::caller());
        // Not the maximum, which gives half of a tie to each side.
        self.le(&zero).select(zero, self)
    }

    /// `min(max(x, 0), 6)`.
    #[track_caller]
    pub fn relu6(&self) -> Tensor {
        let at = At::caller();
        self.maximum(self.like(0.0, at)).minimum(self.like(6.0, at))
    }

    /// `x` where it is not negative, else `slope · x`.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([-4.0f32, 4.0]).leaky_relu(0.25).to_vec::<f32>()?, [-1.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn leaky_relu(&self, slope: f64) -> Tensor {
        let at = At::caller();
        if let Err(poisoned) = self.floating("leaky_relu", at) {
            return poisoned;
        }
        self.ge(self.like(0.0, at)).select(self, self * self.like(slope, at))
    }

    /// `x` where it is positive, else `alpha · (exp(x) - 1)`.
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor {
        self.elu_of("elu", 1.0, alpha, At::caller())
    }

    /// [`Tensor::elu`] with the `alpha` and the factor that keep mean 0 and variance 1
    /// from layer to layer (Klambauer et al. 2017).
    #[track_caller]
    pub fn selu(&self) -> Tensor {
        self.elu_of("selu", 1.0507009873554805, 1.6732632423543772, At::caller())
    }

    fn elu_of(&self, op: &str, scale: f64, alpha: f64, at: At) -> Tensor {
        if let Err(poisoned) = self.floating(op, at) {
            return poisoned;
        }
        let (zero, above) = (self.like(0.0, at), self.gt(self.like(0.0, at)));
        // Of 0 where it is not chosen, so that no derivative is infinite there.
        let below = above.select(zero, self).expm1() * self.like(alpha, at);
        let value = above.select(self, below);
        if scale == 1.0 { value } else { value * self.like(scale, at) }
    }

    /// `max(x, 0) + alpha · (exp(min(x, 0) / alpha) - 1)`.
    #[track_caller]
    pub fn celu(&self, alpha: f64) -> Tensor {
        let at = At::caller();
        if let Err(poisoned) = self.floating("celu", at) {
            return poisoned;
        }
        let (zero, alpha) = (self.like(0.0, at), self.like(alpha, at));
        self.maximum(&zero) + (self.minimum(zero) / &alpha).expm1() * alpha
    }

    /// `1 / (1 + exp(-x))`.
    #[track_caller]
    pub fn sigmoid(&self) -> Tensor {
        self.sigmoid_of("sigmoid", At::caller())
    }

    fn sigmoid_of(&self, op: &str, at: At) -> Tensor {
        match self.floating(op, at) {
            Ok(_) => Tensor::apply(Unary::Logistic, &[self], at),
            Err(poisoned) => poisoned,
        }
    }

    /// `log(sigmoid(x))`, precise for any `x`.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([-200.0f32, 200.0]).log_sigmoid().to_vec::<f32>()?, [-200.0, -0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn log_sigmoid(&self) -> Tensor {
        let at = At::caller();
        match self.floating("log_sigmoid", at) {
            Ok(_) => -(-self).softplus_of("log_sigmoid", at),
            Err(poisoned) => poisoned,
        }
    }

    /// `log(1 + exp(x))`, precise for any `x`.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-100.0f32, 0.0, 100.0]);
    /// assert_eq!(x.softplus().to_vec::<f32>()?, [3.783506e-44, 0.6931472, 100.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn softplus(&self) -> Tensor {
        self.softplus_of("softplus", At::caller())
    }

    fn softplus_of(&self, op: &str, at: At) -> Tensor {
        match self.floating(op, at) {
            Ok(_) => self.log_sum_of_two(op, self.like(0.0, at), at, |d| d.exp().log1p()),
            Err(poisoned) => poisoned,
        }
    }

    /// `x / (1 + |x|)`.
    #[track_caller]
    pub fn soft_sign(&self) -> Tensor {
        let at = At::caller();
        match self.floating("soft_sign", at) {
            Ok(_) => self / (self.abs() + self.like(1.0, at)),
            Err(poisoned) => poisoned,
        }
    }

    /// `x` limited to −1..=1, with derivative 1 at both.
    #[track_caller]
    pub fn hard_tanh(&self) -> Tensor {
        let at = At::caller();
        let (low, high) = (self.like(-1.0, at), self.like(1.0, at));
        let raised = self.lt(&low).select(low, self);
        self.gt(&high).select(high, raised)
    }

    /// `relu6(x + 3) / 6`.
    #[track_caller]
    pub fn hard_sigmoid(&self) -> Tensor {
        self.hard_sigmoid_of("hard_sigmoid", At::caller())
    }

    fn hard_sigmoid_of(&self, op: &str, at: At) -> Tensor {
        match self.floating(op, at) {
            Ok(_) => (self + self.like(3.0, at)).relu6() / self.like(6.0, at),
            Err(poisoned) => poisoned,
        }
    }

    /// `x · hard_sigmoid(x)`, also known as hard swish.
    #[track_caller]
    pub fn hard_silu(&self) -> Tensor {
        self * self.hard_sigmoid_of("hard_silu", At::caller())
    }

    /// `(x + √(x² + b)) / 2`.
    #[track_caller]
    pub fn squareplus(&self, b: f64) -> Tensor {
        let at = At::caller();
        match self.floating("squareplus", at) {
            Ok(_) => (self + (self.square() + self.like(b, at)).sqrt()) * self.like(0.5, at),
            Err(poisoned) => poisoned,
        }
    }

    /// `x · tanh(softplus(x))`.
    #[track_caller]
    pub fn mish(&self) -> Tensor {
        self * self.softplus_of("mish", At::caller()).tanh()
    }

    /// `x · sigmoid(x)`, also known as swish.
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
}
