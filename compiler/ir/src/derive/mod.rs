//! How ops are differentiated and batched.
//!
//! Each op has three rules, [`OpDef::jvp`], [`OpDef::vjp`] and [`OpDef::vmap`]; they stand
//! here by family, away from the definitions, and are written in terms of ops. A rule is
//! given a [`Rule`]: the node as it stands in a graph, and a pen to add others with.
//!
//! *Tangents* and *cotangents* are optional: `None` is a zero that nobody has to compute.
//! A value whose type is neither a float nor complex has no tangent and no cotangent, ever.
//!
//! Cotangents of complex values are JAX's: a rule for `ȳ` gives the `x̄` for which
//! `Re(ȳ ẏ) = Re(x̄ ẋ)`, without conjugates. So holomorphic functions multiply by their
//! derivative in both directions, and the gradient of a real loss by `x + iy` is its
//! derivative by `x` less `i` times that by `y`: its conjugate points uphill.
//!
//! What A rule returns
//! one tangent for each result, one cotangent for each operand, in their types.
//!
//! *Batched* values have one axis more, the first, of the batch's size.
//!
//! The rules of single ops are all there is: transformations of whole graphs, in
//! [`mod@graph`], apply them node by node.
//!
//! | module | holds the rules of |
//! |---|---|
//! | `elementwise` | functions of one, two and three elements |
//! | `movement` | views, and boxes at run-time starts |
//! | `indexed` | windows at indices, over a batch too |
//! | `reduce` | reductions |
//! | `fold` | reductions with a body, windows, running results |
//! | `contraction` | sums of products |
//! | `sort` | sorts, and barriers |
//! | `batch` | every op over a batch |
//! | [`mod@graph`] | transformations of whole graphs |

pub(crate) mod batch;
pub(crate) mod contraction;
pub(crate) mod elementwise;
pub(crate) mod fold;
pub mod graph;
pub(crate) mod indexed;
pub(crate) mod movement;
pub(crate) mod reduce;
pub(crate) mod sort;

pub use batch::{Batch, Results};
use smallvec::SmallVec;

use crate::op::{
    Binary, Broadcast, Compare, Complex, Constant, Convert, Op, Part, Reduce, ReduceKind, Select,
    Unary,
};
use crate::{Graph, Literal, NodeId, Scalar, Source, Type, Value};

/// Tangents of results, or cotangents of operands. `None` is zero.
pub type Derived = SmallVec<[Option<Value>; 3]>;

/// Why an op cannot be differentiated or batched, for the user.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{op}: {reason}")]
pub struct NoRule {
    /// The op's name.
    pub op: &'static str,
    /// What is missing, and what to do instead.
    pub reason: String,
    /// Where the op comes from, if that is known.
    pub place: Option<Source>,
}

impl NoRule {
    /// The op called `op` has no such rule, because of `reason`.
    pub fn new(op: &'static str, reason: impl Into<String>) -> NoRule {
        NoRule { op, reason: reason.into(), place: None }
    }

    /// The same, of an op that comes from `source`.
    fn at(mut self, source: Option<&Source>) -> NoRule {
        self.place = self.place.or_else(|| source.cloned());
        self
    }
}

/// A node in a graph, and a pen to add nodes behind it.
///
/// What is added has the node's source. Adding panics where an op refuses its operands:
/// that is a bug of the rule, which knows all types.
pub struct Rule<'a> {
    graph: &'a mut Graph,
    source: Option<Source>,
    /// The operands of the node.
    pub operands: &'a [Value],
    /// The results of the node.
    pub results: &'a [Value],
}

impl<'a> Rule<'a> {
    /// A pen for `graph`, at the node with these operands and results.
    pub fn new(
        graph: &'a mut Graph,
        source: Option<Source>,
        operands: &'a [Value],
        results: &'a [Value],
    ) -> Rule<'a> {
        Rule { graph, source, operands, results }
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> Type {
        self.graph.ty(value).clone()
    }

    /// Whether derivatives can flow through a value of this type.
    pub fn differentiable(&self, value: Value) -> bool {
        self.graph.ty(value).dtype.is_inexact()
    }

    /// The results of `node`, one for each of `values` that is a float; `None` for others.
    pub fn of_floats(&self, values: &[Value], node: NodeId) -> Derived {
        let mut results = self.graph.results(node);
        let mut of = |value: Value| self.differentiable(value).then(|| results.next()).flatten();
        values.iter().map(|&value| of(value)).collect()
    }

    /// Adds a node.
    pub fn node(&mut self, op: impl Into<Op>, operands: &[Value]) -> NodeId {
        let op = op.into();
        let name = op.name();
        match self.graph.add(op, operands, self.source.clone()) {
            Ok(node) => node,
            Err(error) => panic!("a rule for {name}: {error}"),
        }
    }

    /// Adds a node with one result.
    pub fn add(&mut self, op: impl Into<Op>, operands: &[Value]) -> Value {
        Value { node: self.node(op, operands), result: 0 }
    }

    /// The number `x` in the type of `like`.
    pub fn number(&mut self, x: f64, like: Value) -> Value {
        let ty = self.ty(like);
        let value = Literal::scalar(Scalar::from_f64(ty.dtype, x));
        let constant = self.add(Constant { value }, &[]);
        self.spread(constant, &[], &ty)
    }

    /// `value` with its axes as the axes `axes` of `ty`, repeated along the others.
    pub fn spread(&mut self, value: Value, axes: &[usize], ty: &Type) -> Value {
        if self.graph.ty(value).shape == ty.shape {
            return value;
        }
        self.add(Broadcast { shape: ty.shape.clone(), axes: axes.to_vec() }, &[value])
    }

    /// Zeros in the type of `like`.
    pub fn zeros(&mut self, like: Value) -> Value {
        self.number(0.0, like)
    }

    /// The value, or zeros in the type of `like`.
    pub fn or_zeros(&mut self, value: Option<Value>, like: Value) -> Value {
        value.unwrap_or_else(|| self.zeros(like))
    }

    /// A function of one value.
    pub fn unary(&mut self, op: Unary, a: Value) -> Value {
        self.add(op, &[a])
    }

    /// A function of two values.
    pub fn binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        self.add(op, &[a, b])
    }

    /// `a * b`.
    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Mul, a, b)
    }

    /// `a / b`.
    pub fn div(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Div, a, b)
    }

    /// `a - b`.
    pub fn sub(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Sub, a, b)
    }

    /// `-a`.
    pub fn neg(&mut self, a: Value) -> Value {
        self.unary(Unary::Neg, a)
    }

    /// `a * x` for a number.
    pub fn scale(&mut self, a: Value, x: f64) -> Value {
        let x = self.number(x, a);
        self.mul(a, x)
    }

    /// `a - x` for a number.
    pub fn minus(&mut self, a: Value, x: f64) -> Value {
        let x = self.number(x, a);
        self.sub(a, x)
    }

    /// `x - a` for a number.
    pub fn from_number(&mut self, x: f64, a: Value) -> Value {
        let x = self.number(x, a);
        self.sub(x, a)
    }

    /// The sum of what is not zero.
    pub fn plus(&mut self, a: Option<Value>, b: Option<Value>) -> Option<Value> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.binary(Binary::Add, a, b)),
            (a, b) => a.or(b),
        }
    }

    /// A comparison.
    pub fn compare(&mut self, direction: Compare, a: Value, b: Value) -> Value {
        self.add(direction, &[a, b])
    }

    /// A comparison with a number.
    pub fn compare_number(&mut self, direction: Compare, a: Value, x: f64) -> Value {
        let x = self.number(x, a);
        self.compare(direction, a, x)
    }

    /// `chooser ? yes : no`.
    pub fn select(&mut self, chooser: Value, yes: Value, no: Value) -> Value {
        self.add(Select, &[chooser, yes, no])
    }

    /// `chooser ? yes : 0`.
    pub fn select_or_zero(&mut self, chooser: Value, yes: Value) -> Value {
        let zeros = self.zeros(yes);
        self.select(chooser, yes, zeros)
    }

    /// One part of a complex value.
    pub fn part(&mut self, part: Part, a: Value) -> Value {
        self.add(part, &[a])
    }

    /// The complex value with these parts.
    pub fn complex(&mut self, re: Value, im: Value) -> Value {
        self.add(Complex, &[re, im])
    }

    /// The conjugate of a complex value.
    pub fn conjugate(&mut self, a: Value) -> Value {
        let (re, im) = (self.part(Part::Real, a), self.part(Part::Imag, a));
        let im = self.neg(im);
        self.complex(re, im)
    }

    /// The value in the element type of `like`; of a complex one the real part, if `like`
    /// has no other.
    pub fn convert_like(&mut self, a: Value, like: Value) -> Value {
        let to = self.graph.ty(like).dtype;
        if self.graph.ty(a).dtype.is_complex() && !to.is_complex() {
            let re = self.part(Part::Real, a);
            return self.convert_like(re, like);
        }
        if self.graph.ty(a).dtype == to { a } else { self.add(Convert { to }, &[a]) }
    }

    /// The sum along `axes`.
    pub fn sum(&mut self, a: Value, axes: Vec<usize>) -> Value {
        if axes.is_empty() { a } else { self.add(Reduce { kind: ReduceKind::Sum, axes }, &[a]) }
    }
}
