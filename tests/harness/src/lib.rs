//! Tests as files: programs in the text format that say what is expected of them.
//!
//! ```text
//! // test: eval, run
//! // What goes wrong here elsewhere, in a sentence or two.
//! // run: @main(f32[2] [1.0, nan]) -> f32[2] [2.7182817, nan] ~1
//!
//! graph @main(%x: f32[2]) -> f32[2] {
//!   %0 = exp %x : f32[2]
//!   return %0
//! }
//! ```
//!
//! | line | says |
//! |---|---|
//! | `// test: a, b` | which runners the file is for |
//! | `// run: @f(literals) -> literals ~ulps` | outputs for these arguments; NaN equals NaN |
//! | `// check: key = value` | one of the counts that a runner returns |
//! | `.. // error: substring` | the program is wrong, on this line, with such a message |
//! | `// expect:` | all that follows is the text that the runner returns |
//!
//! All but `error` and `expect` stand in the comments that begin the file; other comments
//! there are free. A runner takes a [`Case`] and returns an [`Outcome`], which is compared
//! with what the file expects. Promises that a file which asserts nothing fails: a text
//! without `expect`, counts without `check`, expectations that no runner answers.
//!
//! `KILN_BLESS=1` rewrites the `expect` blocks. `KILN_FILES=word` limits a run to files
//! with that word in their path.

#![forbid(unsafe_code)]

mod case;
mod folder;
mod judge;
mod run;

pub use case::Case;
pub use folder::run_folder;
pub use judge::{Outcome, Runner};
pub use run::Run;
