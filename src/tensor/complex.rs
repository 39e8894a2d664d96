//! Complex numbers: made of parts, and taken apart.
//!
//! Methods that ask for parts take real tensors too, as numpy's do: a real number is its
//! own real part and conjugate.

use kiln_ir::op::{Complex, Part};
use kiln_trace::At;

use super::Tensor;

impl Tensor {
    /// The complex numbers with these real and imaginary parts, both `f32` or both
    /// `f64`, broadcast against each other: `jax.lax.complex`.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let z = Tensor::complex(&Tensor::from([3.0f32, 0.0]), &Tensor::from([4.0f32, 1.0]));
    /// assert_eq!(z.dtype(), C64);
    /// assert_eq!(z.abs().to_vec::<f32>()?, [5.0, 1.0]);
    /// assert_eq!((&z * z.conj()).real().to_vec::<f32>()?, [25.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn complex(re: &Tensor, im: &Tensor) -> Tensor {
        let at = At::caller();
        match re.pair("complex", im, at) {
            Ok((re, im)) => Tensor::apply(Complex, &[&re, &im], at),
            Err(poisoned) => poisoned,
        }
    }

    /// The complex numbers of these magnitudes and angles in radians.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let z = Tensor::polar(&Tensor::from([2.0f64]), &Tensor::from([0.0f64]));
    /// assert_eq!(z.to_vec::<num_complex::Complex<f64>>()?[0].re, 2.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn polar(magnitude: &Tensor, angle: &Tensor) -> Tensor {
        let at = At::caller();
        match magnitude.pair("polar", angle, at) {
            Ok((r, phi)) => Tensor::complex(&(&r * phi.cos()), &(&r * phi.sin())),
            Err(poisoned) => poisoned,
        }
    }

    /// Whether the elements are complex numbers: `jax.numpy.iscomplexobj`.
    pub(crate) fn is_complex(&self) -> bool {
        self.try_ty().is_ok_and(|ty| ty.dtype.is_complex())
    }

    /// The real part of each element.
    #[track_caller]
    pub fn real(&self) -> Tensor {
        if self.is_complex() {
            Tensor::apply(Part::Real, &[self], At::caller())
        } else {
            self.clone()
        }
    }

    /// The imaginary part of each element; zeros if they are real.
    #[track_caller]
    pub fn imag(&self) -> Tensor {
        match self.is_complex() {
            true => Tensor::apply(Part::Imag, &[self], At::caller()),
            false => Tensor::zeros_like(self),
        }
    }

    /// The complex conjugate of each element.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// use num_complex::Complex;
    ///
    /// let z = Tensor::from([Complex::new(1.0f32, 2.0)]);
    /// assert_eq!(z.conj().to_vec::<Complex<f32>>()?[0].im, -2.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn conj(&self) -> Tensor {
        match self.is_complex() {
            true => Tensor::complex(&self.real(), &-self.imag()),
            false => self.clone(),
        }
    }
}
