//! The runtime: devices, memory, transfers and runs.
//!
//! It links no LLVM: machine code comes through the [`Loader`](kiln_executable::Loader)
//! it is handed.
//!
//! ```text
//! let device  = Device::cpu(Config::default())?;         // a pool, a queue, threads
//! let program = device.load(&executable, &loader)?;      // code, constants uploaded once
//! let x       = device.put(&ty, bytes, Cause::Explicit)?;
//! program.run(&mut inputs, &mut outputs)?;               // returns before the work is done
//! let bytes   = outputs[0].to_literal()?;                // waits
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `device` | [`Device`]: allocation, transfers, waiting |
//! | `array` | [`Array`]: a typed, counted buffer whose contents may be on their way |
//! | `program` | [`Program`]: a loaded executable; [`Program::run`] |
//! | `queue` | runs in order, asynchronous; short ones are done by the caller |
//! | `store` | buffers of the pool, and when their memory may be used again |
//! | [`pool`] | best fit with coalescing over one range of addresses |
//! | `cpu` | reserved memory, the thread team, launching kernels |
//! | `stats`, `error` | what is counted, what can fail |
//!
//! A run in the steady state allocates nothing on the heap: buffers are slots of a
//! recycled table, frames and records of runs are used again, outputs are blocks of
//! the pool. Results do not depend on the number of threads, on whether a run was
//! queued, or on which buffer it was given.
//!
//! Everything may be used from several threads. A run or a read from inside a kernel
//! works as long as it does not wait for the run it is part of; then it is an
//! [`Error::Nested`], never a deadlock.

#![deny(unsafe_op_in_unsafe_fn)]

mod array;
mod cpu;
mod device;
mod error;
pub mod pool;
mod program;
mod queue;
mod stats;
mod store;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use array::Array;
pub use cpu::launches::{SPLIT_BYTES, SPLIT_FLOPS};
pub use device::{Config, Device};
pub use error::Error;
pub use pool::PoolStats;
pub use program::{Input, Program};
pub use queue::RUN_AHEAD;
pub use stats::{Cause, Count, RunStats, TransferStats};

/// Buffers start on multiples of this many bytes.
pub const ALIGNMENT: u64 = kiln_executable::ALIGNMENT;

/// Locks a mutex. No code that holds one of ours is left half done by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
