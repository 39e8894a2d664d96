//! Real arithmetic as nodes of the graph.
//!
//! Everything is elementwise on values of one shape. Numbers are spread from scalar
//! constants, in which the rules of `simplify` look for them.

use kiln_ir::op::{Binary, Broadcast, Compare, Constant, Convert, Select, Unary};
use kiln_ir::{DType, Graph, Literal, NodeId, Op, Scalar, Shape, Source, Value};

/// Adds nodes that stand for one node of the program.
pub(super) struct Build<'g> {
    pub graph: &'g mut Graph,
    source: Option<Source>,
    /// Of every value.
    shape: Shape,
}

impl<'g> Build<'g> {
    /// For nodes that have the source of `node` and compute values of the shape.
    pub fn new(graph: &'g mut Graph, node: NodeId, shape: &Shape) -> Build<'g> {
        let source = graph.source(node).cloned();
        Build { graph, source, shape: shape.clone() }
    }

    /// Any op with one result.
    pub fn op(&mut self, op: impl Into<Op>, operands: &[Value]) -> Value {
        let added = self.graph.add1(op, operands, self.source.clone());
        added.unwrap_or_else(|e| panic!("split_complex built an invalid node: {e}"))
    }

    pub fn dtype(&self, x: Value) -> DType {
        self.graph.ty(x).dtype
    }

    /// The number everywhere.
    pub fn full(&mut self, dtype: DType, x: f64) -> Value {
        let value = Literal::scalar(Scalar::from_f64(dtype, x));
        let scalar = self.op(Constant { value }, &[]);
        if self.shape.rank() == 0 {
            return scalar;
        }
        let shape = self.shape.clone();
        self.op(Broadcast { shape, axes: vec![] }, &[scalar])
    }

    /// The number everywhere, in the type of `x`.
    pub fn like(&mut self, x: Value, number: f64) -> Value {
        self.full(self.dtype(x), number)
    }

    pub fn unary(&mut self, f: Unary, x: Value) -> Value {
        self.op(f, &[x])
    }

    pub fn binary(&mut self, f: Binary, x: Value, y: Value) -> Value {
        self.op(f, &[x, y])
    }

    pub fn compare(&mut self, f: Compare, x: Value, y: Value) -> Value {
        self.op(f, &[x, y])
    }

    pub fn select(&mut self, chooser: Value, yes: Value, no: Value) -> Value {
        self.op(Select, &[chooser, yes, no])
    }

    pub fn convert(&mut self, x: Value, to: DType) -> Value {
        if self.dtype(x) == to { x } else { self.op(Convert { to }, &[x]) }
    }

    pub fn neg(&mut self, x: Value) -> Value {
        self.unary(Unary::Neg, x)
    }

    pub fn abs(&mut self, x: Value) -> Value {
        self.unary(Unary::Abs, x)
    }

    pub fn add(&mut self, x: Value, y: Value) -> Value {
        self.binary(Binary::Add, x, y)
    }

    pub fn sub(&mut self, x: Value, y: Value) -> Value {
        self.binary(Binary::Sub, x, y)
    }

    pub fn mul(&mut self, x: Value, y: Value) -> Value {
        self.binary(Binary::Mul, x, y)
    }

    pub fn div(&mut self, x: Value, y: Value) -> Value {
        self.binary(Binary::Div, x, y)
    }

    pub fn and(&mut self, x: Value, y: Value) -> Value {
        self.binary(Binary::And, x, y)
    }

    pub fn or(&mut self, x: Value, y: Value) -> Value {
        self.binary(Binary::Or, x, y)
    }

    pub fn not(&mut self, x: Value) -> Value {
        self.unary(Unary::Not, x)
    }

    /// `x * number`.
    pub fn times(&mut self, x: Value, number: f64) -> Value {
        let number = self.like(x, number);
        self.mul(x, number)
    }

    /// How `x` compares with a number.
    pub fn compare_with(&mut self, f: Compare, x: Value, number: f64) -> Value {
        let number = self.like(x, number);
        self.compare(f, x, number)
    }

    pub fn is_zero(&mut self, x: Value) -> Value {
        self.compare_with(Compare::Eq, x, 0.0)
    }

    pub fn is_nan(&mut self, x: Value) -> Value {
        self.compare(Compare::Ne, x, x)
    }

    pub fn is_finite(&mut self, x: Value) -> Value {
        self.unary(Unary::IsFinite, x)
    }

    pub fn is_infinite(&mut self, x: Value) -> Value {
        let magnitude = self.abs(x);
        self.compare_with(Compare::Eq, magnitude, f64::INFINITY)
    }

    /// Whether the sign of `x` is minus, zeros included.
    pub fn is_negative(&mut self, x: Value) -> Value {
        let one = self.like(x, 1.0);
        let reciprocal = self.div(one, x);
        let zero = self.is_zero(x);
        let tell = self.select(zero, reciprocal, x);
        self.compare_with(Compare::Lt, tell, 0.0)
    }
}
