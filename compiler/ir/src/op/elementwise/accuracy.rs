//! How far compiled code may be from the exact result of a function.
//!
//! The one place that states it. `docs/numerics.md` shows these figures beside what was
//! measured; the sweep of errors, the conformance walk, the tests of lowering and the
//! constant folder read them from here. The matches name every function, so that a new
//! one cannot be forgotten.

use super::{Binary, Unary};
use crate::DType;

/// Largest error of a function, in units in the last place of the exact result.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ErrorBound {
    /// Of the function on `f32`.
    pub f32: f64,
    /// Of the function on `f64`.
    pub f64: f64,
}

impl ErrorBound {
    /// Half types compute in `f32` and round once: half a unit, and what the error in
    /// `f32` can add next to a tie.
    pub const HALF: f64 = 0.502;

    const fn new(f32: f64, f64: f64) -> Option<ErrorBound> {
        Some(ErrorBound { f32, f64 })
    }

    /// The bound for an element type.
    pub fn ulps(&self, dtype: DType) -> f64 {
        match dtype {
            DType::F64 => self.f64,
            DType::F32 => self.f32,
            _ => ErrorBound::HALF,
        }
    }
}

impl Unary {
    /// How far compiled code may be from the exact result; `None` where it gives the
    /// very bits of `eval`.
    pub const fn error_bound(self) -> Option<ErrorBound> {
        match self {
            Unary::Neg
            | Unary::Abs
            | Unary::Sign
            | Unary::Not
            | Unary::PopulationCount
            | Unary::CountLeadingZeros
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::RoundAway
            | Unary::Trunc
            | Unary::Sqrt
            | Unary::IsFinite => None,
            Unary::Exp | Unary::Exp2 => ErrorBound::new(1.0, 1.0),
            Unary::Expm1 => ErrorBound::new(1.5, 1.5),
            Unary::Log | Unary::Log1p => ErrorBound::new(1.0, 1.0),
            Unary::Log2 | Unary::Log10 => ErrorBound::new(1.0, 1.0),
            Unary::Tan => ErrorBound::new(4.0, 2.0),
            Unary::Asin | Unary::Acos | Unary::Atan => ErrorBound::new(2.0, 2.0),
            Unary::Erfc => ErrorBound::new(1.0, 6.0),
            Unary::ErfInv => ErrorBound::new(1.0, 5.0),
            // In `f64`, of a negative argument: units of the terms, whose difference the
            // result is, which are at most 1 and the magnitudes of the result and of the
            // function of |x| together.
            Unary::Lgamma => ErrorBound::new(1.0, 4.0),
            Unary::Digamma => ErrorBound::new(1.0, 5.0),
            Unary::Rsqrt => ErrorBound::new(1.5, 1.5),
            Unary::Cbrt => ErrorBound::new(0.6, 0.6),
            Unary::Logistic => ErrorBound::new(1.0, 1.0),
            Unary::Tanh => ErrorBound::new(2.0, 2.0),
            Unary::Sinh | Unary::Cosh => ErrorBound::new(1.0, 1.0),
            Unary::Asinh | Unary::Atanh => ErrorBound::new(1.5, 1.5),
            Unary::Acosh => ErrorBound::new(2.0, 2.0),
            Unary::Sin | Unary::Cos => ErrorBound::new(1.0, 1.0),
            Unary::Erf => ErrorBound::new(2.0, 2.0),
        }
    }
}

impl Binary {
    /// How far compiled code may be from the exact result; `None` where it gives the
    /// very bits of `eval`. Integers are always exact.
    pub const fn error_bound(self) -> Option<ErrorBound> {
        match self {
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::Div
            | Binary::Rem
            | Binary::Min
            | Binary::Max
            | Binary::And
            | Binary::Or
            | Binary::Xor
            | Binary::ShiftLeft
            | Binary::ShiftRightLogical
            | Binary::ShiftRightArithmetic
            | Binary::NextAfter => None,
            Binary::Atan2 => ErrorBound::new(1.0, 2.0),
            Binary::Pow => ErrorBound::new(1.0, 2.0),
        }
    }
}
