//! The runtime: devices, memory, transfers and runs.
//!
//! It links no LLVM: machine code comes through the [`Loader`](kiln_executable::Loader)
//! it is handed.
//!
//! | module | holds |
//! |---|---|
//! | `device` | [`Device`]: allocation, transfers, counts, errors |
//! | `array` | [`Array`]: a typed, counted buffer whose contents may be on their way |
//! | `program` | [`Program`]: a loaded executable; [`Program::run`] submits a run |
//! | `queue` | runs in order, asynchronous; short ones are done by the caller |
//! | `threads` | fork and join over a static partition |
//! | [`pool`] | best fit with coalescing over one reserved range |
//!
//! A run in the steady state allocates nothing on the heap: buffers are slots of a
//! recycled table, records of runs are used again, outputs are blocks of the pool.

#![deny(unsafe_op_in_unsafe_fn)]

mod array;
mod device;
mod memory;
pub mod pool;
mod program;
mod queue;
mod threads;

pub use array::Array;
pub use device::{Cause, Config, Count, Device, Error, RunStats, TransferStats};
pub use pool::PoolStats;
pub use program::{Input, Program};
pub use queue::RUN_AHEAD;
pub use threads::{SPLIT_BYTES, SPLIT_FLOPS};

/// Buffers start on multiples of this many bytes.
pub const ALIGNMENT: u64 = kiln_executable::ALIGNMENT;
