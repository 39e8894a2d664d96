//! Random typed programs.
//!
//! A program is a graph over every op the IR has, made so that the interpreter and
//! compiled code must agree *exactly* wherever they can:
//!
//! - a value is *exact* when every op behind it is defined to the bit: integers,
//!   moves, comparisons, conversions, and the correctly rounded float functions;
//! - it is *rough* when a reduction order or a transcendental function is behind
//!   it. Rough values stay small and never decide anything: no comparison, no
//!   conversion to an integer, no remainder, no rounding reads them, so that a last
//!   bit never grows into another answer.
//!
//! Extents are drawn around the thresholds of the code generator (vector widths,
//! lanes and chunks of reductions, tiles), with 0 and 1 among them.
//!
//! This file holds what a step draws from and the ops that have no family of their own; the
//! families are `elementwise`, `movement`, `indexed`, `fold` and `order`.

#[path = "generate/elementwise.rs"]
mod elementwise;
#[path = "generate/fold.rs"]
mod fold;
#[path = "generate/indexed.rs"]
mod indexed;
#[path = "generate/movement.rs"]
mod movement;
#[path = "generate/order.rs"]
mod order;

use kiln_ir::op::{
    ArgKind, ArgReduce, Broadcast, Call, Constant, DotDims, DotGeneral, Iota, OptimizationBarrier,
    Reduce, ReduceKind, Threefry2x32,
};
use kiln_ir::{DType, Graph, Literal, Op, ParameterInfo, Shape, Type, Value};

use crate::Random;

/// A random program and how its outputs may be compared.
#[derive(Clone, Debug)]
pub struct Program {
    /// The graph.
    pub graph: Graph,
    /// Its arguments.
    pub arguments: Vec<Literal>,
    /// For each output, whether it must agree to the bit.
    pub exact: Vec<bool>,
}

/// Extents around thresholds: t − 1, t, t + 1.
const EXTENTS: &[usize] = &[
    0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 95, 96, 97, 127,
    128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049,
];

/// Rare long axes: chunks of reductions and splits between threads.
const LONG: &[usize] = &[4095, 4097, 32767, 32768, 32769, 65535, 65536, 65537, 98304];

/// Most elements of a value, so that the interpreter stays quick.
const ELEMENTS: usize = 6000;
const ELEMENTS_LONG: usize = 100_000;

/// The program of `seed`.
pub fn generate(seed: u64) -> Program {
    let mut g = Generator::new(seed, "fuzz");
    let parameters = 1 + g.random.below(4);
    for _ in 0..parameters {
        g.parameter();
    }
    let steps = match g.random.below(4) {
        0 => 1 + g.random.below(3),
        1 => 4 + g.random.below(8),
        _ => 8 + g.random.below(40),
    };
    for _ in 0..steps {
        g.step();
    }
    g.finish()
}

#[derive(Clone, Copy)]
struct Known {
    value: Value,
    exact: bool,
    /// How many products and powers are behind a rough float.
    depth: u32,
}

struct Generator {
    random: Random,
    graph: Graph,
    arguments: Vec<Literal>,
    known: Vec<Known>,
    elements: usize,
    /// Rough ops are left out of half of the programs, which are then exact whole.
    rough: bool,
    nested: bool,
}

impl Generator {
    fn new(seed: u64, name: &str) -> Generator {
        let mut random = Random::new(seed);
        let rough = random.one_in(2);
        let elements = if random.one_in(12) { ELEMENTS_LONG } else { ELEMENTS };
        Generator {
            random,
            graph: Graph::new(name),
            arguments: Vec::new(),
            known: Vec::new(),
            elements,
            rough,
            nested: false,
        }
    }

    // --- types and data ---------------------------------------------------

    fn dtype(&mut self) -> DType {
        match self.random.below(10) {
            0..=3 => DType::F32,
            4 => self.random.pick(&[DType::F64, DType::F16, DType::BF16]),
            5 => DType::Bool,
            6 => DType::I32,
            _ => self.random.pick(&DType::ALL),
        }
    }

    fn shape(&mut self) -> Shape {
        let rank = self.random.pick(&[0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4]);
        let mut dims: Vec<usize> = Vec::new();
        let mut room = self.elements;
        for _ in 0..rank {
            let long = self.elements > ELEMENTS && self.random.one_in(2);
            let d = self.random.pick(if long { LONG } else { EXTENTS });
            let d = if d > room { self.random.below(room.min(70) + 1) } else { d };
            room /= d.max(1);
            dims.push(d);
        }
        // The long axis is as often the last as not.
        if dims.len() > 1 && self.random.one_in(2) {
            let i = self.random.below(dims.len());
            let last = dims.len() - 1;
            dims.swap(i, last);
        }
        dims.into()
    }

    /// Elements: special values where any bit pattern is allowed, tame ones in
    /// programs whose rough parts must not overflow.
    fn literal(&mut self, ty: &Type) -> Literal {
        let wild = !self.rough && self.random.one_in(2);
        let random = &mut self.random;
        Literal::from_fn(ty.clone(), |_| random.scalar(ty.dtype, wild))
    }

    fn add(&mut self, op: impl Into<Op>, operands: &[Value], exact: bool, depth: u32) {
        let op = op.into();
        let types: Vec<&Type> = operands.iter().map(|&v| self.graph.ty(v)).collect();
        // The op may refuse the operands that were drawn, or make too much of them:
        // draw something else.
        let fits = |ty: &Type| ty.elements() <= 2 * self.elements;
        if !op.infer(&types).is_ok_and(|results| results.iter().all(fits)) {
            return;
        }
        let Ok(node) = self.graph.add(op, operands, None) else { return };
        for value in self.graph.results(node) {
            self.known.push(Known { value, exact, depth });
        }
    }

    fn parameter(&mut self) {
        let ty = Type::new(self.dtype(), self.shape());
        let donated = self.random.one_in(3) && !self.nested;
        let literal = self.literal(&ty);
        let value = self.graph.add_parameter(ty, ParameterInfo { name: String::new(), donated });
        self.arguments.push(literal);
        self.known.push(Known { value, exact: true, depth: 0 });
    }

    // --- choosing operands --------------------------------------------------

    /// A recent value more often than an old one.
    fn any(&mut self) -> usize {
        let n = self.known.len();
        if self.random.one_in(3) {
            self.random.below(n)
        } else {
            n - 1 - self.random.below(n.min(5))
        }
    }

    fn ty(&self, i: usize) -> Type {
        self.graph.ty(self.known[i].value).clone()
    }

    fn is_rough(&self, i: usize) -> bool {
        !self.known[i].exact
    }

    /// A value of exactly this type: an old one, one that broadcasts or converts to
    /// it, or a new constant or parameter.
    fn of_type(&mut self, ty: &Type) -> usize {
        let same: Vec<usize> = (0..self.known.len()).filter(|&i| self.ty(i) == *ty).collect();
        if !same.is_empty() && !self.random.one_in(4) {
            return same[self.random.below(same.len())];
        }
        match self.random.below(4) {
            0 if !self.nested => {
                let literal = self.literal(ty);
                let info = ParameterInfo { name: String::new(), donated: self.random.one_in(3) };
                let value = self.graph.add_parameter(ty.clone(), info);
                self.arguments.push(literal);
                self.known.push(Known { value, exact: true, depth: 0 });
            }
            1 => {
                // A smaller parameter-like value, broadcast along some axes.
                let axes: Vec<usize> =
                    (0..ty.shape.rank()).filter(|_| self.random.one_in(2)).collect();
                let dims: Vec<usize> = axes
                    .iter()
                    .map(|&a| if self.random.one_in(4) { 1 } else { ty.shape[a] })
                    .collect();
                let small = Type::new(ty.dtype, dims);
                let literal = self.literal(&small);
                let constant = self.graph.add1(Constant { value: literal }, &[], None);
                let Ok(value) = constant else { unreachable!("constants are well typed") };
                self.add(Broadcast { shape: ty.shape.clone(), axes }, &[value], true, 0);
            }
            _ => {
                let wild = !self.rough && self.random.one_in(2);
                let value = self.random.scalar(ty.dtype, wild);
                let constant = Constant { value: Literal::scalar(value) };
                let Ok(value) = self.graph.add1(constant, &[], None) else {
                    unreachable!("constants are well typed")
                };
                self.add(Broadcast { shape: ty.shape.clone(), axes: vec![] }, &[value], true, 0);
            }
        }
        self.known.len() - 1
    }

    // --- steps --------------------------------------------------------------

    fn step(&mut self) {
        match self.random.below(31) {
            0..=2 => self.unary(),
            3..=7 => self.binary(),
            8 => self.compare_or_select(),
            9 => self.convert(),
            10 => self.broadcast(),
            11 => self.reshape(),
            12 => self.permute(),
            13 => self.slice(),
            14 => self.pad(),
            15 => self.concatenate(),
            16 => self.iota(),
            17 => self.dynamic(),
            18 | 19 => self.reduce(),
            20 => self.dot(),
            21 | 22 => self.indexed(),
            23 | 24 => self.fold(),
            26 | 27 => self.sort(),
            28 => self.random_bits(),
            29 => self.barrier(),
            25 => self.parts(),
            _ => self.call(),
        }
    }

    fn iota(&mut self) {
        let mut shape = self.shape();
        if shape.rank() == 0 {
            shape = [self.random.pick(EXTENTS)].into();
        }
        let axis = self.random.below(shape.rank());
        let dtype = self.dtype();
        // Rough programs keep their floats small.
        if dtype == DType::Bool || (self.rough && dtype.is_inexact() && shape[axis] > 8) {
            return;
        }
        self.add(Iota { ty: Type::new(dtype, shape), axis }, &[], true, 1);
    }

    fn axes(&mut self, rank: usize) -> Vec<usize> {
        match self.random.below(4) {
            0 => (0..rank).collect(),
            1 if rank > 0 => vec![rank - 1],
            2 if rank > 0 => vec![0],
            _ => (0..rank).filter(|_| self.random.one_in(2)).collect(),
        }
    }

    fn reduce(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let rank = ty.shape.rank();
        let axes = self.axes(rank);
        let (value, exact, depth) = (self.known[i].value, self.known[i].exact, self.known[i].depth);
        if self.random.one_in(4) {
            if exact && rank > 0 {
                let kind = self.random.pick(&[ArgKind::Min, ArgKind::Max]);
                let dtype = self.random.pick(&[DType::I32, DType::I64, DType::U32]);
                let axis = self.random.below(rank);
                self.add(ArgReduce { kind, axis, dtype }, &[value], true, 1);
            }
            return;
        }
        let kind = self.random.pick(&ReduceKind::ALL);
        match kind {
            ReduceKind::Min | ReduceKind::Max => {
                self.add(Reduce { kind, axes }, &[value], exact, depth)
            }
            ReduceKind::And | ReduceKind::Or | ReduceKind::Xor => {
                self.add(Reduce { kind, axes }, &[value], exact, depth);
            }
            ReduceKind::Sum | ReduceKind::Prod if !ty.dtype.is_inexact() => {
                self.add(Reduce { kind, axes }, &[value], exact, depth);
            }
            // A sum may cancel, so it is never multiplied further than a sum may be.
            ReduceKind::Sum if self.rough => self.add(Reduce { kind, axes }, &[value], false, 3),
            _ => {}
        }
    }

    fn dot(&mut self) {
        let i = self.any();
        let lhs = self.ty(i);
        if lhs.dtype == DType::Bool
            || (lhs.dtype.is_inexact() && (!self.rough || self.known[i].depth > 1))
        {
            return;
        }
        let rank = lhs.shape.rank();
        let mut order: Vec<usize> = (0..rank).collect();
        for j in (1..rank).rev() {
            order.swap(j, self.random.below(j + 1));
        }
        let batch = self.random.below(rank.min(2) + 1);
        let contract = self.random.below(rank - batch + 1).min(2);
        let lhs_batch = order[..batch].to_vec();
        let lhs_contract = order[batch..batch + contract].to_vec();
        // The right operand: batch, contracted and free axes in a random order.
        let n = self.random.pick(EXTENTS).min(130);
        let mut axes: Vec<(u8, usize, usize)> = Vec::new();
        axes.extend(lhs_batch.iter().enumerate().map(|(k, &a)| (0, k, lhs.shape[a])));
        axes.extend(lhs_contract.iter().enumerate().map(|(k, &a)| (1, k, lhs.shape[a])));
        for k in 0..self.random.below(2) + usize::from(batch == 0) {
            axes.push((2, k, if k == 0 { n } else { 3 }));
        }
        for j in (1..axes.len()).rev() {
            axes.swap(j, self.random.below(j + 1));
        }
        let dims: Vec<usize> = axes.iter().map(|a| a.2).collect();
        let out: usize = lhs.elements()
            / lhs_contract.iter().map(|&a| lhs.shape[a]).product::<usize>().max(1)
            * axes.iter().filter(|a| a.0 == 2).map(|a| a.2).product::<usize>();
        let work = out * lhs_contract.iter().map(|&a| lhs.shape[a]).product::<usize>();
        if dims.iter().product::<usize>() > self.elements || out > self.elements || work > 400_000 {
            return;
        }
        let find = |kind: u8, k: usize| axes.iter().position(|a| (a.0, a.1) == (kind, k));
        let rhs_batch: Vec<usize> = (0..batch).filter_map(|k| find(0, k)).collect();
        let rhs_contract: Vec<usize> = (0..contract).filter_map(|k| find(1, k)).collect();
        let j = self.of_type(&Type::new(lhs.dtype, dims));
        if lhs.dtype.is_inexact() && self.known[j].depth > 1 {
            return;
        }
        let exact = !lhs.dtype.is_inexact() && self.known[i].exact && self.known[j].exact;
        let dims = DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract };
        let (a, b) = (self.known[i].value, self.known[j].value);
        self.add(DotGeneral { dims, dtype: lhs.dtype }, &[a, b], exact, 3);
    }

    fn random_bits(&mut self) {
        let shape = self.shape();
        let ty = Type::new(DType::U32, shape);
        let words: Vec<usize> = (0..4).map(|_| self.of_type(&ty)).collect();
        let words: Vec<Value> = words.iter().map(|&w| self.known[w].value).collect();
        let word = self.random.below(2);
        self.add(Threefry2x32 { word }, &words, true, 0);
    }

    fn barrier(&mut self) {
        let chosen: Vec<usize> = (0..1 + self.random.below(3)).map(|_| self.any()).collect();
        let operands: Vec<Value> = chosen.iter().map(|&i| self.known[i].value).collect();
        let node = self.graph.add(OptimizationBarrier, &operands, None).expect("takes anything");
        for (value, &i) in self.graph.results(node).zip(&chosen) {
            let (exact, depth) = (self.known[i].exact, self.known[i].depth);
            self.known.push(Known { value, exact, depth });
        }
    }

    /// A small function of some known values.
    fn call(&mut self) {
        if self.nested {
            return;
        }
        let chosen: Vec<usize> = (0..1 + self.random.below(3)).map(|_| self.any()).collect();
        let mut inner = Generator::new(self.random.bits(), "callee");
        inner.nested = true;
        inner.rough = self.rough;
        inner.elements = self.elements;
        for &i in &chosen {
            let value = inner.graph.add_parameter(self.ty(i), ParameterInfo::default());
            let (exact, depth) = (self.known[i].exact, self.known[i].depth);
            inner.known.push(Known { value, exact, depth });
        }
        for _ in 0..1 + self.random.below(5) {
            inner.step();
        }
        let results: Vec<usize> =
            (0..1 + self.random.below(2)).map(|_| inner.random.below(inner.known.len())).collect();
        for &r in &results {
            inner.graph.add_output(inner.known[r].value, "");
        }
        let operands: Vec<Value> = chosen.iter().map(|&i| self.known[i].value).collect();
        let call = Call::new(std::sync::Arc::new(inner.graph));
        let Ok(node) = self.graph.add(call, &operands, None) else { return };
        for (value, &r) in self.graph.results(node).zip(&results) {
            let (exact, depth) = (inner.known[r].exact, inner.known[r].depth);
            self.known.push(Known { value, exact, depth });
        }
    }

    fn finish(mut self) -> Program {
        let outputs = 1 + self.random.below(4);
        let mut exact = Vec::new();
        for o in 0..outputs {
            let i = if o == 0 { self.known.len() - 1 } else { self.any() };
            self.graph.add_output(self.known[i].value, "");
            exact.push(self.known[i].exact);
        }
        Program { graph: self.graph, arguments: self.arguments, exact }
    }
}
