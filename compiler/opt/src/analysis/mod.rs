//! What passes ask of a graph and its groups.

pub(crate) mod assess;
pub mod check;
pub mod cost;
pub mod metrics;
pub(crate) mod nodes;
pub(crate) mod rows;
pub mod share;
