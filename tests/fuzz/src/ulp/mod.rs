//! Errors of functions: measured, held to their bounds, and written as a table.
//!
//! A row is a function whose compiled code may differ from `eval`, that is one with an
//! [`ErrorBound`], and `sqrt`. Rows follow from the lists of ops, so that a new function
//! is measured or does not compile: [`reference`](mod@reference) has a match without a
//! catch-all.
//!
//! | type | arguments | judged by |
//! |---|---|---|
//! | `f16`, `bf16` | every bit pattern; random pairs | functions of `f64` |
//! | `f32` | every bit pattern, or every so many; random pairs | functions of `f64` |
//! | `f64` | points in `points.txt` | results of many digits, computed by mpmath |
//! | | bit patterns and an interval, at random; special values | [`Unary::precise`], where it knows the function |
//!
//! All is compiled code: the elementwise op alone, on this machine's instruction set. The
//! conformance walk compares the sets with each other.

mod compiled;
mod error;
mod points;
pub mod reference;
mod sweep;
mod table;

use kiln_ir::op::{Binary, ErrorBound, Unary};
use kiln_ir::{DType, Op};

pub use sweep::{Effort, Worst, measure};
pub use table::{HEADER, line};

/// A function to be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Function {
    /// Of one element.
    Unary(Unary),
    /// Of two.
    Binary(Binary),
}

/// The element types of a row, in the order of its columns.
pub const DTYPES: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

impl Function {
    /// Every function that has a row.
    pub fn all() -> Vec<Function> {
        let unary = Unary::ALL.into_iter().map(Function::Unary);
        let binary = Binary::ALL.into_iter().map(Function::Binary);
        unary
            .chain(binary)
            .filter(|f| f.declared().is_some() || *f == Function::Unary(Unary::Sqrt))
            .collect()
    }

    /// The name of the op.
    pub fn name(self) -> &'static str {
        match self {
            Function::Unary(f) => f.name(),
            Function::Binary(f) => f.name(),
        }
    }

    /// The op.
    pub fn op(self) -> Op {
        match self {
            Function::Unary(f) => f.into(),
            Function::Binary(f) => f.into(),
        }
    }

    fn declared(self) -> Option<ErrorBound> {
        match self {
            Function::Unary(f) => f.error_bound(),
            Function::Binary(f) => f.error_bound(),
        }
    }

    /// The largest error that the documentation allows, in units in the last place.
    pub fn bound(self, dtype: DType) -> f64 {
        // What gives the bits of `eval` is correctly rounded.
        self.declared().map_or(0.5, |bound| bound.ulps(dtype))
    }
}
