//! Random programs and the conformance walk.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@generate`] | random typed programs over every op |
//! | [`execute`] | compiling and running one graph in several ways |
//! | [`check`] | one random program against the interpreter and against itself |
//! | [`conformance`] | every sample of every op on every instruction set |
//! | [`compare`] | when two results agree |

#![forbid(unsafe_code)]

pub mod check;
pub mod compare;
pub mod conformance;
pub mod execute;
pub mod generate;
mod random;

pub use random::Random;
