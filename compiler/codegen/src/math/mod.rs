//! Transcendental functions as plain arithmetic.
//!
//! Each function becomes a few dozen primitive operations on `f32` or `f64`, with
//! no branch and no call, so that whatever vectorises arithmetic vectorises them and
//! all backends agree to the bit. Tables are small enough for vector registers. Half types compute in `f32`
//! and round once.
//!
//! Fused multiply-adds are written out where they are wanted. NaN, infinities,
//! signed zeros and subnormals come out as IEEE 754 and C's `<math.h>` say. The
//! error bounds stand in `docs/numerics.md`, and `sweep.rs` holds each function to
//! its own.
//!
//! The coefficients are computed by `fit.py` in this directory.

mod build;
mod erf;
mod exp;
mod log;
mod pow;
#[cfg(test)]
mod sweep;
mod tanh;
mod tanh_pieces;
mod threefry;
mod trigonometry;

pub(crate) use build::{F32, F64, Layout};
pub(crate) use erf::erf;
pub(crate) use exp::exp;
pub(crate) use log::log;
pub(crate) use pow::{integer_pow, pow};
pub(crate) use tanh::tanh;
pub(crate) use threefry::threefry;
pub(crate) use trigonometry::{cos, sin};
