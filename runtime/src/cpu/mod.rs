//! What is the CPU's own: reserved memory, the thread team, launching kernels.
//!
//! Another device brings its own of each; pool, store, arrays, queue and the order of
//! runs are the same for all.

pub(crate) mod inside;
pub(crate) mod launches;
pub(crate) mod memory;
pub(crate) mod team;
