//! Building small programs, for the tests of this crate.

#![allow(dead_code)]

use kiln_ir::op::{
    Binary, Broadcast, Compare, Constant, Convert, DotDims, DotGeneral, Reduce, ReduceKind,
    Reshape, Select, Slice, Transpose, Unary,
};
use kiln_ir::{DType, Graph, Literal, Op, ParameterInfo, Scalar, Shape, Type, Value};
use kiln_opt::metrics::{Metrics, metrics};
use kiln_opt::{Optimized, Options, optimize};

/// A graph being built; everything is `f32` unless said.
pub struct Builder {
    pub graph: Graph,
}

impl Builder {
    pub fn new(name: &str) -> Builder {
        Builder { graph: Graph::new(name) }
    }

    pub fn parameter<const N: usize>(&mut self, name: &str, shape: [usize; N]) -> Value {
        self.typed(name, Type::new(DType::F32, shape))
    }

    pub fn typed(&mut self, name: &str, ty: Type) -> Value {
        self.graph.add_parameter(ty, ParameterInfo { name: name.into(), donated: false })
    }

    pub fn donated<const N: usize>(&mut self, name: &str, shape: [usize; N]) -> Value {
        let ty = Type::new(DType::F32, shape);
        self.graph.add_parameter(ty, ParameterInfo { name: name.into(), donated: true })
    }

    pub fn op(&mut self, op: impl Into<Op>, operands: &[Value]) -> Value {
        self.graph.add1(op, operands, None).expect("operands fit")
    }

    pub fn shape(&self, v: Value) -> Shape {
        self.graph.ty(v).shape.clone()
    }

    pub fn scalar(&mut self, x: f64) -> Value {
        let value = Literal::scalar(Scalar::from_f64(DType::F32, x));
        self.op(Constant { value }, &[])
    }

    /// `x` everywhere in the shape of `like`.
    pub fn full(&mut self, x: f64, like: Value) -> Value {
        let (scalar, shape) = (self.scalar(x), self.shape(like));
        self.op(Broadcast { shape, axes: vec![] }, &[scalar])
    }

    pub fn spread(&mut self, v: Value, like: Value, axes: &[usize]) -> Value {
        let shape = self.shape(like);
        self.op(Broadcast { shape, axes: axes.to_vec() }, &[v])
    }

    pub fn unary(&mut self, f: Unary, a: Value) -> Value {
        self.op(f, &[a])
    }

    pub fn binary(&mut self, f: Binary, a: Value, b: Value) -> Value {
        self.op(f, &[a, b])
    }

    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.op(Binary::Add, &[a, b])
    }

    pub fn sub(&mut self, a: Value, b: Value) -> Value {
        self.op(Binary::Sub, &[a, b])
    }

    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        self.op(Binary::Mul, &[a, b])
    }

    pub fn div(&mut self, a: Value, b: Value) -> Value {
        self.op(Binary::Div, &[a, b])
    }

    pub fn exp(&mut self, a: Value) -> Value {
        self.op(Unary::Exp, &[a])
    }

    /// `x * a` for a number `x`.
    pub fn times(&mut self, x: f64, a: Value) -> Value {
        let x = self.full(x, a);
        self.mul(x, a)
    }

    /// `x + a` for a number `x`.
    pub fn plus(&mut self, x: f64, a: Value) -> Value {
        let x = self.full(x, a);
        self.add(x, a)
    }

    pub fn reduce(&mut self, kind: ReduceKind, v: Value, axes: &[usize]) -> Value {
        self.op(Reduce { kind, axes: axes.to_vec() }, &[v])
    }

    pub fn sum(&mut self, v: Value, axes: &[usize]) -> Value {
        self.reduce(ReduceKind::Sum, v, axes)
    }

    pub fn max(&mut self, v: Value, axes: &[usize]) -> Value {
        self.reduce(ReduceKind::Max, v, axes)
    }

    pub fn reshape<const N: usize>(&mut self, v: Value, shape: [usize; N]) -> Value {
        self.op(Reshape { shape: shape.into() }, &[v])
    }

    pub fn transpose(&mut self, v: Value, permutation: &[usize]) -> Value {
        self.op(Transpose { permutation: permutation.to_vec() }, &[v])
    }

    pub fn slice(&mut self, v: Value, start: &[usize], limit: &[usize]) -> Value {
        let stride = vec![1; start.len()];
        self.op(Slice { start: start.to_vec(), limit: limit.to_vec(), stride }, &[v])
    }

    pub fn convert(&mut self, v: Value, to: DType) -> Value {
        self.op(Convert { to }, &[v])
    }

    pub fn compare(&mut self, f: Compare, a: Value, b: Value) -> Value {
        self.op(f, &[a, b])
    }

    pub fn select(&mut self, p: Value, a: Value, b: Value) -> Value {
        self.op(Select, &[p, a, b])
    }

    pub fn matmul(&mut self, a: Value, b: Value) -> Value {
        self.op(DotGeneral { dims: DotDims::matmul(), dtype: DType::F32 }, &[a, b])
    }

    /// `aᵀ b`.
    pub fn matmul_t(&mut self, a: Value, b: Value) -> Value {
        let dims = DotDims { lhs_contract: vec![0], ..DotDims::matmul() };
        self.op(DotGeneral { dims, dtype: DType::F32 }, &[a, b])
    }

    /// By rows of a matrix.
    pub fn softmax(&mut self, x: Value) -> Value {
        let e = self.softmax_numerator(x);
        let s = self.sum(e, &[1]);
        let s = self.spread(s, e, &[0]);
        self.div(e, s)
    }

    pub fn softmax_numerator(&mut self, x: Value) -> Value {
        let m = self.max(x, &[1]);
        let m = self.spread(m, x, &[0]);
        let d = self.sub(x, m);
        self.exp(d)
    }

    /// The tanh approximation.
    pub fn gelu(&mut self, x: Value) -> Value {
        let x2 = self.mul(x, x);
        let x3 = self.mul(x2, x);
        let x3 = self.times(0.044715, x3);
        let y = self.add(x, x3);
        let y = self.times(0.797_884_56, y);
        let t = self.unary(Unary::Tanh, y);
        let t = self.plus(1.0, t);
        let h = self.times(0.5, x);
        self.mul(h, t)
    }

    pub fn output(&mut self, v: Value) {
        self.graph.add_output(v, "");
    }

    pub fn optimize(self) -> (Optimized, Metrics) {
        self.optimize_with(&Options::default())
    }

    pub fn optimize_with(self, options: &Options) -> (Optimized, Metrics) {
        let optimized = optimize(self.graph, options).expect("optimizes");
        let metrics = metrics(&optimized.graph, &optimized.fusion);
        (optimized, metrics)
    }

    /// How many kernels of each kind: maps, rows, contractions, updates, together.
    pub fn kinds(self) -> [usize; 5] {
        let (optimized, m) = self.optimize();
        println!("{}", kiln_opt::print::fused(&optimized.graph, &optimized.fusion));
        assert_eq!(m.kernels, m.maps + m.rows + m.contractions + m.updates + m.togethers);
        [m.maps, m.rows, m.contractions, m.updates, m.togethers]
    }

    /// How many kernels the program becomes.
    pub fn kernels_quietly(self) -> usize {
        self.optimize().1.kernels
    }

    /// How many kernels the program becomes; prints them for a failing test.
    pub fn kernels(self) -> usize {
        let (optimized, metrics) = self.optimize();
        println!("{}", kiln_opt::print::fused(&optimized.graph, &optimized.fusion));
        metrics.kernels
    }
}
