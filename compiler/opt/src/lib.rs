//! Passes over the graph, and the driver that runs them.

#![forbid(unsafe_code)]

pub mod group;

pub use group::{Fusion, Group, Kind};
