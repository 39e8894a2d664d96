//! The ops.
//!
//! `ops!` is the one list: a row makes the variant of [`Op`], its conversion,
//! its dispatch, its text names and its place in the conformance walk. Each row's
//! payload implements [`OpDef`] in its family file. No method of `OpDef` has a
//! default, so what an op does not have is written down with the reason.
//!
//! How to add one: `docs/add-an-op.md`.

mod accumulate;
mod attr;
mod call;
mod check;
mod contraction;
mod control;
mod dynamic;
mod elementwise;
mod fold;
mod generate;
mod index;
mod indexed;
mod movement;
mod random;
mod reduce;
mod sample;
mod sort;

use std::fmt;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

pub use attr::{Attr, Attrs};
pub use call::{Call, Derivative, Policy};
pub use contraction::{DotDims, DotGeneral};
pub use control::{OptimizationBarrier, Parameter};
pub use dynamic::{DynamicSlice, DynamicUpdateSlice};
pub use elementwise::{
    Binary, BitcastConvert, Clamp, Compare, Complex, Convert, ErrorBound, Part, ReducePrecision,
    Select, Unary,
};
pub use fold::{Cumulative, CumulativeKind, ReduceBy, ReduceWindow, Window, WindowCombine};
pub use generate::{Constant, Iota};
pub use indexed::{Gather, GatherDims, GatherMode, Scatter, ScatterDims, ScatterKind, ScatterMode};
pub use movement::{Broadcast, Concatenate, Pad, Reshape, Reverse, Slice, Transpose};
pub use random::Threefry2x32;
pub use reduce::{ArgKind, ArgReduce, Reduce, ReduceKind};
pub use sort::{Comparator, Sort, SortBy, TopK};

use crate::derive::{Batch, Derived, NoRule, Results, Rule};
use crate::{Form, Graph, Literal, Type, Value};

/// What every op defines.
pub trait OpDef: Sized {
    /// The name in the text format and in messages, such as `exp`.
    fn name(&self) -> &'static str;

    /// The attributes as the text format prints them: everything the op holds
    /// that its result types do not already say.
    fn attrs(&self) -> Attrs;

    /// The op called `name` with these attributes and annotated result types, or
    /// what is wrong with them. `None` when no op of this payload has that name.
    fn parse(name: &str, attrs: &mut Attrs, results: &[Type]) -> Option<Result<Self, String>>;

    /// The result types for operands of these types.
    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError>;

    /// The definition of the op: plain loops over elements, sharing no code with
    /// `lower` or any backend. Operands and results have the inferred types.
    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal>;

    /// The tangents of the results from those of the operands, of which one at least is
    /// not zero.
    ///
    /// # Errors
    /// If there is no such rule, with the reason.
    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule>;

    /// The cotangents of the operands from those of the results, of which one at least is
    /// not zero.
    ///
    /// # Errors
    /// If there is no such rule, with the reason.
    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule>;

    /// The op over a batch.
    ///
    /// # Errors
    /// If there is no such rule, with the reason.
    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule>;

    /// Whose buffer the result may take.
    fn share(&self) -> Share;

    /// The computation as data.
    fn lower(&self) -> Form;

    /// Programs that together exercise everything the op does: each element type
    /// it accepts, ranks 0 to 4, empty and one-element axes, every attribute.
    fn samples() -> Vec<Sample>;
}

/// Result types of a node.
pub type Types = SmallVec<[Type; 1]>;

/// Which operand's buffer a result may take when nobody reads it later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// None.
    Never,
    /// Any operand with as many bytes per element and the same shape: element `i`
    /// of the result is written after element `i` of each operand was read, and
    /// no other element is read for it.
    Elementwise,
    /// Operand 0: the result is its bytes, unchanged.
    Bytes,
    /// Operand 0: the result is its bytes, partly overwritten.
    Update,
}

/// One program of the conformance walk: an op on operands of given types.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The op.
    pub op: Op,
    /// Its operand types.
    pub operands: Vec<Type>,
    /// From where random operand elements are drawn.
    pub domain: Domain,
}

/// A set from which random elements are drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Domain {
    /// Every bit pattern: special values, subnormals and extremes included.
    Any,
    /// Small values of magnitude at most about 4, integers exact.
    Small,
    /// Floats in `(low, high)`; integers likewise.
    Range(f64, f64),
}

/// Operand types that an op does not accept.
///
/// The message names the op, what was given and what was wanted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{op}: {message}")]
pub struct InferError {
    op: &'static str,
    message: String,
}

impl InferError {
    /// An error of the op called `op`.
    pub fn new(op: &'static str, message: impl Into<String>) -> InferError {
        InferError { op, message: message.into() }
    }

    /// The op's name.
    pub fn op(&self) -> &'static str {
        self.op
    }

    /// The message without the op's name.
    pub fn message(&self) -> &str {
        &self.message
    }
}

macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// An operation. Closed: see the module's documentation.
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        pub enum Op {
            $($(#[$doc])* $name($name),)*
        }

        $(impl From<$name> for Op {
            fn from(op: $name) -> Op {
                Op::$name(op)
            }
        })*

        impl Op {
            /// The name in the text format and in messages.
            pub fn name(&self) -> &'static str {
                match self { $(Op::$name(op) => op.name(),)* }
            }

            /// The attributes as the text format prints them.
            pub fn attrs(&self) -> Attrs {
                match self { $(Op::$name(op) => op.attrs(),)* }
            }

            /// The op called `name`; `None` when there is none of that name.
            pub fn parse(
                name: &str,
                attrs: &mut Attrs,
                results: &[Type],
            ) -> Option<Result<Op, String>> {
                $(if let Some(op) = <$name as OpDef>::parse(name, attrs, results) {
                    return Some(op.map(Op::$name));
                })*
                None
            }

            /// See [`OpDef::infer`].
            ///
            /// # Errors
            /// If the op does not accept operands of these types.
            pub fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
                match self { $(Op::$name(op) => op.infer(operands),)* }
            }

            /// See [`OpDef::eval`].
            pub fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
                match self { $(Op::$name(op) => op.eval(operands, results),)* }
            }

            /// See [`OpDef::jvp`].
            ///
            /// # Errors
            /// If there is no such rule.
            pub fn jvp(
                &self,
                rule: &mut Rule<'_>,
                tangents: &[Option<Value>],
            ) -> Result<Derived, NoRule> {
                match self { $(Op::$name(op) => op.jvp(rule, tangents),)* }
            }

            /// See [`OpDef::vjp`].
            ///
            /// # Errors
            /// If there is no such rule.
            pub fn vjp(
                &self,
                rule: &mut Rule<'_>,
                cotangents: &[Option<Value>],
            ) -> Result<Derived, NoRule> {
                match self { $(Op::$name(op) => op.vjp(rule, cotangents),)* }
            }

            /// See [`OpDef::vmap`].
            ///
            /// # Errors
            /// If there is no such rule.
            pub fn vmap(
                &self,
                rule: &mut Rule<'_>,
                batch: Batch<'_>,
            ) -> Result<Results, NoRule> {
                match self { $(Op::$name(op) => op.vmap(rule, batch),)* }
            }

            /// See [`OpDef::share`].
            pub fn share(&self) -> Share {
                match self { $(Op::$name(op) => op.share(),)* }
            }

            /// See [`OpDef::lower`].
            pub fn lower(&self) -> Form {
                match self { $(Op::$name(op) => op.lower(),)* }
            }

            /// The samples of every op, with the name of the row each comes from.
            pub fn samples() -> Vec<(&'static str, Vec<Sample>)> {
                vec![$((stringify!($name), <$name as OpDef>::samples()),)*]
            }
        }
    };
}

ops! {
    /// A parameter of the graph.
    Parameter,
    /// A literal.
    Constant,
    /// Counts along an axis.
    Iota,
    /// One operand, elementwise.
    Unary,
    /// Two operands, elementwise.
    Binary,
    /// Two operands to `bool`, elementwise.
    Compare,
    /// Chooses between two values, elementwise.
    Select,
    /// Limits a value from both sides, elementwise.
    Clamp,
    /// Changes the element type.
    Convert,
    /// Reads the bits as another element type.
    BitcastConvert,
    /// Rounds floats to fewer digits or a smaller range.
    ReducePrecision,
    /// Two floats to a complex number, elementwise.
    Complex,
    /// One part of a complex number, elementwise.
    Part,
    /// Repeats along new axes and axes of extent 1.
    Broadcast,
    /// The same elements under another shape.
    Reshape,
    /// Permutes axes.
    Transpose,
    /// Runs axes backwards.
    Reverse,
    /// Takes a strided box.
    Slice,
    /// Surrounds and spreads with a value.
    Pad,
    /// Joins along an axis.
    Concatenate,
    /// Takes a box at a start known at run time.
    DynamicSlice,
    /// Overwrites a box at a start known at run time.
    DynamicUpdateSlice,
    /// Takes windows at indices.
    Gather,
    /// Combines windows at indices with updates.
    Scatter,
    /// Combines along axes.
    Reduce,
    /// Finds the extreme element along an axis.
    ArgReduce,
    /// Combines along axes by a body.
    ReduceBy,
    /// Combines the elements of windows.
    ReduceWindow,
    /// Combines all elements up to each along an axis.
    Cumulative,
    /// Sum of products.
    DotGeneral,
    /// Reorders along an axis.
    Sort,
    /// The greatest elements along the last axis.
    TopK,
    /// Random bits from a key and a counter, elementwise.
    Threefry2x32,
    /// Keeps what comes before apart from what comes after.
    OptimizationBarrier,
    /// Applies another graph.
    Call,
}

impl Op {
    /// The graphs that the op names: what it calls, its body, its rules.
    pub fn graphs(&self) -> SmallVec<[&Arc<Graph>; 1]> {
        match self {
            Op::Call(call) => call.graphs().collect(),
            Op::ReduceBy(reduce) => smallvec![&reduce.body],
            Op::ReduceWindow(ReduceWindow { combine: WindowCombine::Body(body), .. }) => {
                smallvec![body]
            }
            Op::Sort(Sort { by: SortBy::Function(Comparator(graph)), .. }) => smallvec![graph],
            _ => smallvec![],
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
