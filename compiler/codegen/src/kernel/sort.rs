//! Rows of several arrays, reordered alike.
//!
//! ```text
//! sort 3 x [1000] x 1, keys a0 (descending): a0 -> a2, position i32 -> a3, take 10
//! ```
//!
//! Row `(o, c)` of an array of `outer * length * inner` elements are its elements
//! `(o * length + i) * inner + c`. What is written is a permutation of each row, or its
//! first `take` elements, at `(o * take + i) * inner + c`.
//!
//! Keys order places completely but for ties, which keep their order, so whatever method
//! a backend chooses, the permutation is one. A function may contradict itself; then the
//! permutation is that of the merges in [`Ordering::Function`].

use kiln_ir::DType;

use super::{ExprId, Exprs};

/// The computation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sort {
    /// Rows one after the other.
    pub outer: u64,
    /// Elements of a row, at least 1.
    pub length: u64,
    /// Rows that lie side by side.
    pub inner: u64,
    /// How many elements of each sorted row are written, at least 1; all of them where
    /// a function orders.
    pub take: u64,
    /// What moves. At most one is wanted nowhere but compared.
    pub operands: Vec<Sorted>,
    /// Which of two places comes first.
    pub order: Ordering,
}

/// One array that is reordered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sorted {
    /// Its elements.
    pub from: Source,
    /// The argument that is written; none if the order is all that is wanted of it.
    pub to: Option<u32>,
}

/// Elements of a row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// An argument's.
    Argument(u32),
    /// The number of each element along the row, of an integer type of 32 or 64 bits.
    /// Never a key.
    Position(DType),
}

/// Which of two places of a row comes first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Ordering {
    /// By one operand, then by the next. −0 equals +0, and NaN is above every number and
    /// equal to NaN.
    Keys(Vec<Key>),
    /// Where `before` is true of places `p0` and `p1`, `p0` comes first. Operands are
    /// loaded as arguments of their own numbers, `Load { argument: k, index: p0 }` being
    /// element `p0` of the row of operand `k`.
    ///
    /// Runs of one element are merged in pairs, left to right, then runs of two, of four
    /// and so on; a merge takes the element of the right run exactly when it comes before
    /// that of the left.
    Function {
        /// Over `Axis::Point(0)` and `Axis::Point(1)`.
        exprs: Exprs,
        /// A `bool`.
        before: ExprId,
    },
}

/// An operand that is compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    /// Which operand.
    pub operand: u32,
    /// Whether the greatest comes first.
    pub descending: bool,
}

impl Sort {
    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.outer * self.inner
    }

    /// Arguments that are read, with repeats.
    pub fn read(&self) -> impl Iterator<Item = u32> + '_ {
        self.operands.iter().filter_map(|o| match o.from {
            Source::Argument(argument) => Some(argument),
            Source::Position(_) => None,
        })
    }

    /// Arguments that are written.
    pub fn written(&self) -> impl Iterator<Item = u32> + '_ {
        self.operands.iter().filter_map(|o| o.to)
    }

    /// The same over other arguments.
    pub fn renumbered(&self, argument: &dyn Fn(u32) -> u32) -> Sort {
        let operand = |o: &Sorted| Sorted {
            from: match o.from {
                Source::Argument(a) => Source::Argument(argument(a)),
                position => position,
            },
            to: o.to.map(argument),
        };
        Sort { operands: self.operands.iter().map(operand).collect(), ..self.clone() }
    }
}
