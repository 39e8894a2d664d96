//! Elementwise ops: the result at an index depends on the operands at that index.
//!
//! Semantics at the edges (overflow, division by zero, NaN, −0) are in
//! `docs/numerics.md`. Operands have equal shapes and, where they are combined or
//! compared, one element type: nothing is promoted or broadcast.

mod accuracy;
mod binary;
mod bitcast;
mod choose;
pub(super) mod complex;
mod convert;
mod double;
mod erf;
mod gamma;
pub(super) mod order;
mod parts;
mod precise;
mod reduce_precision;
mod unary;

pub use accuracy::ErrorBound;
pub use binary::Binary;
pub use bitcast::BitcastConvert;
pub use choose::{Clamp, Compare, Select};
pub use convert::Convert;
pub use parts::{Complex, Part};
pub use reduce_precision::ReducePrecision;
pub use unary::Unary;
