//! One file per pass. The table is in [`crate::pipeline`].

pub mod cse;
pub mod dce;
pub mod donate;
pub mod fuse;
pub mod inline;
pub mod simplify;
pub mod split_complex;
