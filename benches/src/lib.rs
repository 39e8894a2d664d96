//! Speeds as ratios.
//!
//! A time alone says little: machines differ, and one machine differs from minute
//! to minute. So everything that is compared runs in one process, in turns, round
//! after round, and what is reported is the ratio of medians:
//!
//! - to the **limit**: what moving the compulsory bytes, or doing the multiply-adds,
//!   takes at least, measured in the same rounds ([`limits`]);
//! - to the **floor**: the best program we could write by hand for the same
//!   workload ([`floors`]).
//!
//! | module | holds |
//! |---|---|
//! | [`workload`] | what is computed: inputs, outputs, compulsory bytes, expected checksums |
//! | [`input`] | the numbers that go in: a counter-based generator |
//! | [`checksum`] | whether what came out is right |
//! | [`floors`] | the hand-written programs |
//! | [`contender`] | Kiln's side |
//! | [`limits`] | bandwidth and multiply-add peak |
//! | [`harness`] | [`Subject`](harness::Subject), taking turns, medians |
//! | [`report`] | the table |
//! | [`buffer`], [`team`] | huge-page arrays and a thread team, shared by all of them |
//!
//! Unsafe code is allowed in this crate: it maps memory, shares work between threads
//! and uses vector intrinsics. Nothing that users run depends on it.

pub mod buffer;
pub mod checksum;
pub mod contender;
pub mod floors;
pub mod harness;
pub mod input;
pub mod limits;
pub mod report;
pub mod team;
pub mod workload;
