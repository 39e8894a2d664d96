//! The graph IR.
//!
//! Types, ops, the graph over petgraph, its text format, the verifier, and the
//! reference interpreter [`eval()`]. Depends on nothing else of Kiln's, does no IO,
//! reads no environment and keeps no globals.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@graph`] | [`Graph`], [`Value`], [`Use`]: SSA, the only file that names petgraph |
//! | [`op`] | the `ops!` list, [`op::OpDef`], one file per op family |
//! | [`derive`] | rules of differentiation and batching, by op family |
//! | [`mod@inline`] | calls replaced by the bodies they call, [`inline()`] |
//! | [`mod@eval`] | the reference interpreter, [`eval()`] |
//! | [`text`] | the text format: [`Graph::parse`], printing |
//! | [`mod@verify`] | what holds of every graph, [`verify()`] |
//! | [`mod@dot`] | pictures of graphs, [`dot()`] |
//! | [`form`] | what `lower` says about an op: the vocabulary of every backend |

#![forbid(unsafe_code)]

pub mod derive;
pub mod dot;
mod dtype;
pub mod eval;
pub mod form;
pub mod graph;
pub mod inline;
mod literal;
pub mod op;
mod shape;
mod source;
pub mod text;
pub mod verify;

pub use dot::dot;
pub use dtype::DType;
pub use eval::{EvalError, eval};
pub use form::Form;
pub use graph::{Graph, NodeId, ParameterInfo, Use, Value};
pub use inline::inline;
pub use literal::{Element, Literal, Scalar};
pub use op::{InferError, Op, OpDef};
pub use shape::{Shape, Type};
pub use source::Source;
pub use verify::{VerifyError, verify};
