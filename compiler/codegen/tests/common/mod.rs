//! Graphs, groups and runs of lowered groups on the interpreter, for tests.
#![allow(dead_code, reason = "each test crate uses some of these")]

use std::collections::HashMap;

use kiln_codegen::interpret::{Buffer, run};
use kiln_codegen::lower::{Lowered, Operand, lower};
use kiln_ir::op::{Domain, Sample};
use kiln_ir::{DType, Form, Graph, Literal, NodeId, ParameterInfo, Scalar, Type, Value};
use kiln_opt::group::{Group, Kind};

/// A small generator of words (SplitMix64): the same for every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn scalar(&mut self, dtype: DType, domain: Domain) -> Scalar {
        if dtype.is_complex() {
            let [re, im] = [(); 2].map(|()| self.scalar(dtype.part(), domain));
            return Scalar::complex(re, im);
        }
        let word = self.next();
        let unit = (word >> 11) as f64 / (1u64 << 53) as f64;
        match domain {
            Domain::Any if dtype == DType::Bool => Scalar::bool(word & 1 == 1),
            Domain::Any => Scalar::from_bits(dtype, word >> (64 - dtype.bits())),
            Domain::Small => Scalar::from_f64(dtype, unit * 8.0 - 4.0),
            Domain::Range(low, high) => Scalar::from_f64(dtype, low + unit * (high - low)),
        }
    }

    pub fn literal(&mut self, ty: &Type, domain: Domain) -> Literal {
        Literal::from_fn(ty.clone(), |_| self.scalar(ty.dtype, domain))
    }

    pub fn operands(&mut self, sample: &Sample) -> Vec<Literal> {
        sample.operands.iter().map(|ty| self.literal(ty, sample.domain)).collect()
    }
}

/// A type as the text format writes it: `f32[4,8]`.
pub fn ty(text: &str) -> Type {
    let (dtype, shape) = text.strip_suffix(']').and_then(|t| t.split_once('[')).expect("a type");
    let dtype = DType::from_name(dtype).expect("an element type");
    let extents = shape.split(',').filter(|d| !d.is_empty());
    Type::new(dtype, extents.map(|d| d.parse().expect("an extent")).collect::<Vec<usize>>())
}

/// A graph under construction, with short names for what tests need.
pub struct Builder {
    pub graph: Graph,
}

impl Builder {
    pub fn new() -> Builder {
        Builder { graph: Graph::new("test") }
    }

    pub fn parameter(&mut self, text: &str) -> Value {
        self.graph.add_parameter(ty(text), ParameterInfo::default())
    }

    pub fn add(&mut self, op: impl Into<kiln_ir::Op>, operands: &[Value]) -> Value {
        self.graph.add1(op, operands, None).expect("operands fit")
    }

    /// All nodes that are no parameters, in order.
    pub fn members(&self) -> Vec<NodeId> {
        let is_parameter = |n: &NodeId| self.graph.parameter_index(*n).is_some();
        self.graph.order().into_iter().filter(|n| !is_parameter(n)).collect()
    }

    /// All nodes as one group.
    pub fn group(&self, kind: Kind, roots: &[Value]) -> Group {
        Group { members: self.members(), roots: roots.to_vec(), kind }
    }
}

/// The group of one node on its own; `None` when it needs no kernel of its own.
pub fn single(graph: &Graph, node: NodeId) -> Option<Group> {
    let roots: Vec<Value> = graph.results(node).collect();
    let kind = match graph.op(node).lower() {
        Form::Parameter | Form::Barrier | Form::Call(_) => return None,
        Form::Reduce(_, axes) if !axes.is_empty() => rows(graph, node, axes),
        Form::ArgReduce(_, axis) => rows(graph, node, vec![axis]),
        Form::Contraction(_) => Kind::Contraction { dot: node },
        Form::Fold(..) | Form::Window(..) | Form::Cumulative(..) => Kind::Fold { node },
        form if form.overwrites() => Kind::Update { node },
        Form::Sort { .. } | Form::TopK { .. } => Kind::Sort { node },
        _ => Kind::Map { space: graph.ty(roots[0]).shape.clone() },
    };
    Some(Group { members: vec![node], roots, kind })
}

fn rows(graph: &Graph, node: NodeId, axes: Vec<usize>) -> Kind {
    Kind::Rows { space: graph.ty(graph.operands(node)[0]).shape.clone(), axes }
}

/// The values of a graph as far as they are known.
pub type Values = HashMap<Value, Buffer>;

/// Runs the launches of a group and adds its roots to the values.
pub fn run_group(graph: &Graph, group: &Group, values: &mut Values) -> Lowered {
    let lowered = lower(graph, group).unwrap_or_else(|e| panic!("{e}"));
    for &root in &group.roots {
        let ty = graph.ty(root);
        // A complex element is two of its parts.
        let parts = ty.dtype.size() / ty.dtype.part().size();
        let zeros = Buffer::zeros(ty.dtype.part(), parts * ty.elements());
        let start = match &group.kind {
            Kind::Update { node } => values[&graph.operands(*node)[0]].clone(),
            _ => zeros,
        };
        values.insert(root, start);
    }
    let mut temporaries: Vec<Buffer> =
        lowered.temporaries.iter().map(|t| Buffer::zeros(t.dtype, t.elements as usize)).collect();
    for launch in &lowered.launches {
        let mut buffers: Vec<Buffer> = launch
            .arguments
            .iter()
            .map(|operand| match operand {
                Operand::Value(value) => values[value].clone(),
                Operand::Temporary(t) => temporaries[*t].clone(),
            })
            .collect();
        let stored = run(&launch.kernel, &mut buffers);
        for (i, argument) in launch.kernel.arguments.iter().enumerate() {
            // Only an update leaves elements as they are.
            let whole = argument.writes && !matches!(group.kind, Kind::Update { .. });
            let want = if whole { argument.elements as usize } else { stored[i] };
            assert_eq!(stored[i], want, "elements stored to argument {i}:\n{}", launch.kernel);
        }
        for (operand, buffer) in launch.arguments.iter().zip(buffers) {
            match operand {
                Operand::Value(value) => values.insert(*value, buffer),
                Operand::Temporary(t) => Some(std::mem::replace(&mut temporaries[*t], buffer)),
            };
        }
    }
    lowered
}

/// The arguments as the values of the parameters.
pub fn arguments(graph: &Graph, literals: &[Literal]) -> Values {
    graph.parameters().zip(literals).map(|(p, l)| (p, Buffer::from_literal(l))).collect()
}

/// Runs every node as a group of its own.
pub fn run_unfused(graph: &Graph, literals: &[Literal]) -> Values {
    let mut values = arguments(graph, literals);
    for node in graph.order() {
        if let kiln_ir::Op::Constant(c) = graph.op(node) {
            values.insert(Value { node, result: 0 }, Buffer::from_literal(&c.value));
        } else if let Form::Barrier = graph.op(node).lower() {
            for (result, operand) in graph.results(node).zip(graph.operands(node)) {
                values.insert(result, values[&operand].clone());
            }
        } else if let Some(group) = single(graph, node) {
            run_group(graph, &group, &mut values);
        }
    }
    values
}

/// The values of constants, which groups may read.
pub fn add_constants(graph: &Graph, values: &mut Values) {
    for node in graph.order() {
        if let kiln_ir::Op::Constant(c) = graph.op(node) {
            values.insert(Value { node, result: 0 }, Buffer::from_literal(&c.value));
        }
    }
}

/// Whether two elements are the same value: equal bits, or both NaN.
pub fn same(a: Scalar, b: Scalar) -> bool {
    a == b || a.dtype().is_float() && a.as_f64().is_nan() && b.as_f64().is_nan()
}
