//! The compile cache.
//!
//! Each jitted function has a table from the words of a call's key to an
//! entry, and lazy expressions share one. The registry knows the entries of
//! all tables: it bounds their number, drops the one that was not used for the
//! longest time, and lists them. An entry belongs to its table, so it goes when
//! the function does.
//!
//! A table answers a call that it has seen without allocating. A call that is
//! new is built by the first thread that makes it, while others that make the
//! same one wait; a failure leaves nothing behind.

mod registry;
mod table;
mod why;

pub(crate) use registry::info;
pub use registry::{EntryInfo, Stats, clear, entries, report, set_capacity, stats};
pub(crate) use table::{Built, Entry, Origin, Table};
