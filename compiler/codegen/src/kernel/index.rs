//! Index maps: integer expressions in the axes of the iteration space.
//!
//! An [`Index`] is a constant plus a sum of terms with constant factors. Most are
//! affine in the axes; reshapes that do not collapse add quotients and remainders,
//! and dynamic slices add values known only at run time. Arithmetic is exact in
//! `i64`; [`Index::range`] bounds it, which is what lets a backend use 32 bits.

use super::ExprId;

/// An axis of the iteration space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Axis {
    /// A point (or batch) axis, by number.
    Point(u32),
    /// The inner axis of a stage, or the summed axis of a contraction.
    Inner,
    /// Rows of a contraction's result.
    Row,
    /// Columns of a contraction's result.
    Column,
}

/// A factor times a term.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Term {
    /// An axis.
    Axis(Axis),
    /// The floor of a non-negative index divided by a positive constant.
    Quotient(Box<Index>, i64),
    /// The remainder of a non-negative index by a positive constant.
    Remainder(Box<Index>, i64),
    /// An `i64` expression that is the same at every point and step, with its
    /// least and greatest value.
    Dynamic(ExprId, i64, i64),
}

/// `constant + sum of factor * term`, terms sorted and distinct, factors not 0.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Index {
    /// The constant part.
    pub constant: i64,
    /// The rest.
    pub terms: Vec<(Term, i64)>,
}

impl Index {
    /// A constant.
    pub fn constant(constant: i64) -> Index {
        Index { constant, terms: Vec::new() }
    }

    /// An axis.
    pub fn axis(axis: Axis) -> Index {
        Index { constant: 0, terms: vec![(Term::Axis(axis), 1)] }
    }
}
