//! Sorting rows.
//!
//! A [`Job`] says what is sorted; code generation writes it into a kernel as a list of
//! words, and the kernel hands it to one of two functions:
//!
//! | name | order |
//! |---|---|
//! | `kiln_sort_keys` | by the elements of some operands, in the total order of their type |
//! | `kiln_sort_by` | by a function that code generation made |
//!
//! Their contract is that of every kernel: a grid of units, of which a call does
//! `begin..end`, whatever the cut; scratch of [`Job::scratch`] bytes for each thread; no
//! allocation, and no more memory than the operands and the scratch.
//!
//! | file | holds |
//! |---|---|
//! | `job` | the description, and its words |
//! | `element` | elements as keys: integers in the same order |
//! | `radix` | sorting integers digit by digit |
//! | `merge` | merging, for orders that are functions |
//! | `keys` | rows by keys: which method, and what is done before and after |
//! | `top` | the first few of a row |
//!
//! A few long rows are shared between threads without a word between them: every thread
//! finds the same pivots in a sample, takes the elements between two of them, and knows
//! from counting the lesser ones where they go.

mod element;
mod job;
mod keys;
mod merge;
mod radix;
#[cfg(test)]
mod tests;
mod top;

pub use element::Element;
pub use job::{Job, Key, Operand, Source};

use job::Words;

/// A function that says whether the element at place `a` comes before that at place `b`.
/// `rows` has one address for each operand: of the first element of its row.
pub type Before = unsafe extern "C" fn(rows: *const *const u8, a: u64, b: u64) -> u8;

/// Sorts by keys.
///
/// # Safety
/// `words` must be those of a [`Job`] without a function, `arguments` the addresses that
/// it numbers, of buffers as large as it says that overlap only where both are read;
/// `scratch` [`Job::scratch`] bytes on a cache line that nobody else uses, and
/// `begin..end` part of its grid.
pub(crate) unsafe extern "C" fn kiln_sort_keys(
    words: *const u64,
    arguments: *const *mut u8,
    scratch: *mut u8,
    begin: u64,
    end: u64,
) {
    // SAFETY: passed on to the caller.
    unsafe { keys::sort(&Words::new(words), arguments, scratch, begin..end) }
}

/// Sorts by a function.
///
/// # Safety
/// As [`kiln_sort_keys`], of a [`Job`] that has a function; `before` must be safe to call
/// with the addresses of rows of that job and places inside them.
pub(crate) unsafe extern "C" fn kiln_sort_by(
    words: *const u64,
    arguments: *const *mut u8,
    scratch: *mut u8,
    begin: u64,
    end: u64,
    before: Before,
) {
    // SAFETY: passed on to the caller.
    unsafe { merge::sort(&Words::new(words), arguments, scratch, begin..end, before) }
}
