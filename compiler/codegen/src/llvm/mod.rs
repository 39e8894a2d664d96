//! CPU machine code from kernel IR, through LLVM.
//!
//! [`compile`] turns kernels into object files and says how each is launched;
//! [`OrcLoader`] makes the objects callable. Between the two everything is bytes,
//! which can be kept in a cache and loaded by another process.
//!
//! | file | holds |
//! |---|---|
//! | `target` | instruction sets, target machines |
//! | `build` | LLVM instructions on values that may be scalars or vectors |
//! | `flow` | functions, branches and loops |
//! | `arithmetic` | what primitive functions become |
//! | `table` | look-ups in constant tables, powers of two |
//! | `convert` | conversions between element types |
//! | `expr` | expressions at a place: the part shared by all bodies |
//! | `detour` | branches around work that few vectors need |
//! | `memory` | index maps as addresses, loads and stores |
//! | `reduce` | accumulators in the order of a tree |
//! | `loops` | bodies of loops |
//! | `together` | several bodies of loops in one launch |
//! | `gemm` | bodies of contractions |
//! | `sort` | bodies of sorts |
//! | `compile` | modules, passes, objects, threads |
//! | `elf` | what the loader must know of an object before it trusts it |
//! | `load` | ORC: the one place where code is mapped and its address taken |
//!
//! Vectors are explicit, so LLVM's vectorizer is not run. No fast-math flag is set
//! anywhere: the bits of a result are those that kernel IR defines, on every level of
//! instructions.

#![allow(unsafe_code)]

mod arithmetic;
mod build;
mod compile;
mod convert;
mod detour;
mod elf;
mod expr;
mod flow;
mod gemm;
mod load;
mod loops;
mod memory;
mod reduce;
mod sort;
mod table;
mod target;
#[cfg(test)]
mod tests;
mod together;

pub use compile::{
    Code, CompileError, Entry, Job, Options, TextKind, compile, compile_jobs, text, text_of_jobs,
};
pub use load::OrcLoader;
pub use target::Isa;
