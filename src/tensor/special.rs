//! Trigonometric, inverse and special functions. Their errors and special values are in
//! `docs/numerics.md`.

use kiln_ir::op::{Binary, Compare, Select, Unary};
use kiln_trace::At;

use super::{Operand, Tensor};

impl Tensor {
    /// Tangent of radians.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([0.0f32, 1.0]);
    /// assert_eq!(x.tan().to_vec::<f32>()?, [0.0, 1.5574077]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn tan(&self) -> Tensor {
        Tensor::apply(Unary::Tan, &[self], At::caller())
    }

    /// Inverse sine, in radians from −π/2 to π/2; NaN beyond ±1.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([0.0f32, 0.5, 1.0]);
    /// assert_eq!(x.asin().to_vec::<f32>()?, [0.0, 0.5235988, std::f32::consts::FRAC_PI_2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn asin(&self) -> Tensor {
        Tensor::apply(Unary::Asin, &[self], At::caller())
    }

    /// Inverse cosine, in radians from 0 to π; NaN beyond ±1.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([1.0f32, 0.0, -1.0]);
    /// assert_eq!(x.acos().to_vec::<f32>()?, [0.0, std::f32::consts::FRAC_PI_2, std::f32::consts::PI]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn acos(&self) -> Tensor {
        Tensor::apply(Unary::Acos, &[self], At::caller())
    }

    /// Inverse tangent, in radians from −π/2 to π/2.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([0.0f32, 1.0]);
    /// assert_eq!(x.atan().to_vec::<f32>()?, [0.0, std::f32::consts::FRAC_PI_4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn atan(&self) -> Tensor {
        Tensor::apply(Unary::Atan, &[self], At::caller())
    }

    /// One less the error function, accurate where that is small.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([0.0f32, 3.0]);
    /// assert_eq!(x.erfc().to_vec::<f32>()?, [1.0, 2.209_049_7e-5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn erfc(&self) -> Tensor {
        Tensor::apply(Unary::Erfc, &[self], At::caller())
    }

    /// Inverse of the error function; NaN beyond ±1.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([0.0f32, 0.5, 1.0]);
    /// assert_eq!(x.erf_inv().to_vec::<f32>()?, [0.0, 0.47693628, f32::INFINITY]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn erf_inv(&self) -> Tensor {
        Tensor::apply(Unary::ErfInv, &[self], At::caller())
    }

    /// Logarithm of the magnitude of the gamma function; infinite at its poles.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([1.0f32, 4.0, 0.0]);
    /// assert_eq!(x.lgamma().to_vec::<f32>()?, [0.0, 1.7917595, f32::INFINITY]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn lgamma(&self) -> Tensor {
        Tensor::apply(Unary::Lgamma, &[self], At::caller())
    }

    /// Derivative of the logarithm of the gamma function; NaN at its poles.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([1.0f32, 2.0]);
    /// assert_eq!(x.digamma().to_vec::<f32>()?, [-0.5772157, 0.42278433]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn digamma(&self) -> Tensor {
        Tensor::apply(Unary::Digamma, &[self], At::caller())
    }

    /// The angle of the point `(x, self)`, in radians from −π to π.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let y = Tensor::from([0.0f32, 1.0, -0.0]);
    /// let angle = y.atan2(Tensor::from([1.0f32, 0.0, -1.0]));
    /// let pi = std::f32::consts::PI;
    /// assert_eq!(angle.to_vec::<f32>()?, [0.0, pi / 2.0, -pi]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn atan2(&self, x: impl Operand) -> Tensor {
        self.binary(Binary::Atan2, x, At::caller())
    }

    /// `sin(πx) / πx`, and 1 at 0.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([0.0f32, 0.5]);
    /// assert_eq!(x.sinc().to_vec::<f32>()?, [1.0, std::f32::consts::FRAC_2_PI]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn sinc(&self) -> Tensor {
        let at = At::caller();
        if let Err(poisoned) = self.floating("sinc", at) {
            return poisoned;
        }
        let x = self.binary(Binary::Mul, self.like(std::f64::consts::PI, at), at);
        let sin = Tensor::apply(Unary::Sin, &[&x], at);
        let ratio = sin.binary(Binary::Div, &x, at);
        let shape = &self.ty().shape;
        let (zero, one) = (self.like(0.0, at).expand(shape, at), self.like(1.0, at));
        let at_zero = Tensor::apply(Compare::Eq, &[self, &zero], at);
        Tensor::apply(Select, &[&at_zero, &one.expand(shape, at), &ratio], at)
    }

    /// Degrees as radians.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([180.0f32]).deg2rad();
    /// assert_eq!(x.to_vec::<f32>()?, [std::f32::consts::PI]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn deg2rad(&self) -> Tensor {
        self.scaled_angle("deg2rad", std::f64::consts::PI / 180.0, At::caller())
    }

    /// Radians as degrees.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([std::f32::consts::PI]).rad2deg();
    /// assert_eq!(x.to_vec::<f32>()?, [180.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn rad2deg(&self) -> Tensor {
        self.scaled_angle("rad2deg", 180.0 / std::f64::consts::PI, At::caller())
    }

    fn scaled_angle(&self, op: &str, factor: f64, at: At) -> Tensor {
        match self.floating(op, at) {
            Ok(_) => self.binary(Binary::Mul, self.like(factor, at), at),
            Err(poisoned) => poisoned,
        }
    }
}
