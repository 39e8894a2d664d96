//! From fused graphs to machine code.
//!
//! | module | holds |
//! |---|---|
//! | [`kernel`] | the kernel IR: what one launch computes, the same for every backend |
//! | [`lower`] | fusion groups to kernels |
//! | [`math`] | transcendental functions as plain arithmetic with stated error bounds |
//! | [`llvm`] | machine code for the CPU |
//! | [`interpret`] | runs kernel IR one step at a time: the oracle of every backend |

#![deny(unsafe_code)]

pub mod interpret;
pub mod kernel;
pub mod llvm;
pub mod lower;
pub mod math;
