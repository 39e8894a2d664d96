//! Transcendental functions as plain arithmetic.
//!
//! Each function becomes a few dozen primitive operations on `f32` or `f64`, with
//! no branch and no call, so that whatever vectorises arithmetic vectorises them and
//! all backends agree to the bit. Tables are small enough for vector registers. Half types compute in `f32`
//! and round once.
//!
//! Fused multiply-adds are written out where they are wanted. NaN, infinities,
//! signed zeros and subnormals come out as IEEE 754 and C's `<math.h>` say. The
//! error bounds stand in the IR (`Unary::error_bound`) and in `docs/numerics.md`;
//! `cargo xtask ulp` measures every function against its own.
//!
//! The coefficients are computed by `fit.py` in this directory.

mod build;
mod cbrt;
mod erf;
mod erf_inv;
mod erfc;
mod exp;
mod exp2;
mod expm1;
mod gamma;
mod hyperbolic;
mod inverse;
mod inverse_hyperbolic;
mod log;
mod logistic;
mod pair;
mod pow;
#[cfg(test)]
mod special;
mod tanh;
mod tanh_pieces;
mod threefry;
mod trigonometry;
mod wide;

pub(crate) use build::{F32, F64, Formula, Layout};
pub(crate) use cbrt::cbrt;
pub(crate) use erf::erf;
pub(crate) use erf_inv::erf_inv;
pub(crate) use erfc::erfc;
pub(crate) use exp::exp;
pub(crate) use exp2::exp2;
pub(crate) use expm1::expm1;
pub(crate) use gamma::{digamma, lgamma};
pub(crate) use hyperbolic::{cosh, sinh};
pub(crate) use inverse::{acos, asin, atan, atan2};
pub(crate) use inverse_hyperbolic::{acosh, asinh, atanh};
pub(crate) use log::{log, log1p, log2, log10};
pub(crate) use logistic::logistic;
pub(crate) use pow::{integer_pow, pow};
pub(crate) use tanh::tanh;
pub(crate) use threefry::threefry;
pub(crate) use trigonometry::{cos, sin, tan};
