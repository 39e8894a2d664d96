//! From fused graphs to machine code.
//!
//! | module | holds |
//! |---|---|
//! | [`kernel`] | the kernel IR: what one launch computes, the same for every backend |

pub mod kernel;
