//! Passes over the graph, and the driver that runs them.
//!
//! ```text
//! Graph ─ inline, simplify, cse, dce ─▶ Graph ─ fuse ─▶ Fusion ─ donate ─▶ wishes
//! ```
//!
//! [`optimize`] runs the table of passes ([`pipeline::PASSES`]); the passes edit the
//! graph and decide, the driver verifies, times, counts, dumps and stops. A pass
//! keeps the graph's signature and what `eval` says of it.
//!
//! | module | holds |
//! |---|---|
//! | [`pipeline`] | the table of passes, their ordering facts, the driver |
//! | [`group`] | [`Fusion`]: what fuse decides and lowering relies on |
//! | [`passes`] | one file per pass |
//! | [`analysis`] | what passes ask: cost, legality, sharing, metrics |
//! | [`print`] | fused graphs as text |

#![forbid(unsafe_code)]

pub mod analysis;
pub mod group;
pub mod passes;
pub mod pipeline;
pub mod print;

pub use analysis::{check, metrics, share};
pub use group::{Fusion, Group, Kind};
pub use pipeline::{OptError, Optimized, Options, PassReport, optimize, optimize_with};
