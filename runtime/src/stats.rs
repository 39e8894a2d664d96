//! What a device counts: transfers by direction and cause, runs, launches, copies.
//!
//! Counts are what tests assert and what `explain()` shows. Reading host memory into
//! the pool and back are transfers even on the CPU: a device array is not a host
//! array, and a program that moves none there moves none on a GPU either.

use std::sync::atomic::{AtomicU64, Ordering};

/// Who asked for a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The program spells it out.
    Explicit,
    /// It follows from how a call was fed.
    Implicit,
}

/// Transfers of one direction and cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// How many.
    pub count: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// Transfers of a device so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransferStats {
    /// From the host, spelled out.
    pub host_to_device: Count,
    /// From the host, because a call was fed host data.
    pub implicit_host_to_device: Count,
    /// To the host.
    pub device_to_host: Count,
}

/// Runs of a device so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunStats {
    /// Programs run.
    pub runs: u64,
    /// Of these, those that the calling thread did at once.
    pub inline: u64,
    /// Kernels launched.
    pub launches: u64,
    /// Copies: steps of programs, and donated arrays that others still hold.
    pub copies: u64,
    /// Bytes of these copies.
    pub copied_bytes: u64,
}

#[derive(Default)]
pub(crate) struct Counter {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    pub(crate) fn add(&self, bytes: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn read(&self) -> Count {
        Count {
            count: self.count.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// The counters behind the public counts.
#[derive(Default)]
pub(crate) struct Counters {
    pub put: Counter,
    pub put_implicit: Counter,
    pub get: Counter,
    pub copies: Counter,
    pub runs: AtomicU64,
    pub inline: AtomicU64,
    pub launches: AtomicU64,
}

impl Counters {
    pub(crate) fn transfers(&self) -> TransferStats {
        TransferStats {
            host_to_device: self.put.read(),
            implicit_host_to_device: self.put_implicit.read(),
            device_to_host: self.get.read(),
        }
    }

    pub(crate) fn runs(&self) -> RunStats {
        let copies = self.copies.read();
        RunStats {
            runs: self.runs.load(Ordering::Relaxed),
            inline: self.inline.load(Ordering::Relaxed),
            launches: self.launches.load(Ordering::Relaxed),
            copies: copies.count,
            copied_bytes: copies.bytes,
        }
    }
}
