//! Random programs and the conformance walk.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@generate`] | random typed programs over every op |
//! | [`execute`] | compiling and running one graph in several ways |
//! | [`check`] | one random program against the interpreter and against itself |
//! | [`variant`] | the same program in other words |
//! | [`extract`] | parts of a program as programs of their own |
//! | [`mod@shrink`] | a small program that fails as a large one does |
//! | [`conformance`] | every sample of every op on every instruction set |
//! | [`compare`] | when two results agree |
//! | [`ulp`] | errors of functions, against their bounds |

#![forbid(unsafe_code)]

pub mod check;
pub mod compare;
pub mod conformance;
pub mod execute;
pub mod extract;
pub mod generate;
mod random;
pub mod shrink;
pub mod ulp;
pub mod variant;

pub use random::Random;
