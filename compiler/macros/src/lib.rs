//! `#[derive(Tree)]`.
//!
//! Makes a struct or enum a tree of tensors: its fields are its branches, in
//! declaration order, and every method of the two generated impls visits them in
//! that one order. A field marked `#[tree(static)]` is no branch but part of the
//! key: a call with another value compiles anew.
//!
//! Refuses unions and unknown `#[tree(..)]` words. A field that is neither a tree
//! nor static is refused by the bounds of the generated code, where the compiler
//! can point at the field.

#![forbid(unsafe_code)]

mod tree;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Derives `kiln::Tree` and `kiln::Feed` for a struct or enum.
///
/// ```ignore
/// #[derive(Tree)]
/// struct Mlp {
///     w: Tensor,
///     b: Option<Tensor>,
///     layers: Vec<Layer>,
///     #[tree(static)]
///     heads: usize,
/// }
/// ```
#[proc_macro_derive(Tree, attributes(tree))]
pub fn derive_tree(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    tree::derive(&input).unwrap_or_else(|e| e.to_compile_error()).into()
}
