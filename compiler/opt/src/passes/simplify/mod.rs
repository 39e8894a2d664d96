//! Algebraic simplification: a node becomes something cheaper that means the same.
//!
//! ```kiln before
//! graph @f(%x: f32[4,8], %n: i32[4]) -> (f32[8,4], i32[4]) {
//!   %0 = transpose %x {permutation = [1, 0]} : f32[8,4]
//!   %1 = neg %0 : f32[8,4]
//!   %2 = neg %1 : f32[8,4]
//!   %3 = sub %n, %n : i32[4]
//!   %4 = add %n, %3 : i32[4]
//!   return %2, %4
//! }
//! ```
//! ```kiln after
//! graph @f(%x: f32[4,8], %n: i32[4]) -> (f32[8,4], i32[4]) {
//!   %0 = transpose %x {permutation = [1, 0]} : f32[8,4]
//!   return %0, %n
//! }
//! ```
//!
//! Every rule is exact: for every operand, NaN, −0, infinities and overflow
//! included, the new program computes the bits of the old one (of NaN, that it is
//! one). A rule that would be off by a rounding is not here, however small. Each is
//! proven by running both sides over all values of a small type in
//! `tests/simplify_rules`, or argued where it stands.
//!
//! A rule looks at one node and answers with a [`Term`]. The walk applies it, then
//! looks again at the new nodes and at the readers of the old one, until no rule
//! answers. It terminates: every rule removes an op, moves one closer to the
//! parameters, or makes a value smaller.
//!
//! | file | rules for |
//! |---|---|
//! | `arithmetic` | functions of one and two numbers |
//! | `choose` | comparisons, choices, conversions |
//! | `maps` | elementwise ops of views |
//! | `views` | ops that move elements |
//! | `loops` | reductions, contractions, slices at run-time starts |
//! | `fold` | constants |

mod arithmetic;
mod choose;
mod fold;
mod loops;
mod maps;
mod views;

use std::collections::VecDeque;

use kiln_ir::graph::Operands;
use kiln_ir::op::{Broadcast, Constant};
use kiln_ir::{DType, Form, Graph, Literal, NodeId, Op, Scalar, Shape, Type, Value};

use crate::pipeline::PassCx;

/// What a node becomes: a value that exists, or a new node.
#[derive(Clone, Debug)]
enum Term {
    Old(Value),
    New(Op, Vec<Term>),
}

impl From<Value> for Term {
    fn from(value: Value) -> Term {
        Term::Old(value)
    }
}

/// A new node.
fn new(op: impl Into<Op>, operands: impl IntoIterator<Item = impl Into<Term>>) -> Term {
    Term::New(op.into(), operands.into_iter().map(Into::into).collect())
}

/// A constant.
fn literal(value: Literal) -> Term {
    Term::New(Constant { value }.into(), vec![])
}

/// One value everywhere: a scalar constant, spread.
fn full(value: Scalar, shape: &Shape) -> Term {
    spread(literal(Literal::scalar(value)), shape)
}

/// A scalar at every index of a shape.
fn spread(scalar: Term, shape: &Shape) -> Term {
    match shape.rank() {
        0 => scalar,
        _ => new(Broadcast { shape: shape.clone(), axes: vec![] }, [scalar]),
    }
}

/// A rule: its name, which counts and fuel know, and what it makes of a node.
type Rule = (&'static str, fn(&Site) -> Option<Term>);

/// A node that rules look at.
struct Site<'g> {
    graph: &'g Graph,
    node: NodeId,
    operands: Operands,
}

/// How many views a constant is looked for behind.
const LOOK: usize = 8;

impl<'g> Site<'g> {
    fn new(graph: &'g Graph, node: NodeId) -> Site<'g> {
        Site { graph, node, operands: graph.operands(node) }
    }

    fn op(&self) -> &'g Op {
        self.graph.op(self.node)
    }

    /// The type of the one result.
    fn ty(&self) -> &'g Type {
        &self.graph.types(self.node)[0]
    }

    fn shape(&self) -> &'g Shape {
        &self.ty().shape
    }

    /// The element type of operand 0.
    fn dtype(&self) -> DType {
        self.graph.ty(self.operands[0]).dtype
    }

    /// The node that makes operand `k`.
    fn maker(&self, k: usize) -> Site<'g> {
        Site::new(self.graph, self.operands[k].node)
    }

    /// The one value that all elements of operand `k` have, if it is known.
    fn constant(&self, k: usize) -> Option<Scalar> {
        constant(self.graph, self.operands[k])
    }
}

/// The one value that all elements of `value` have, if it is known.
fn constant(graph: &Graph, mut value: Value) -> Option<Scalar> {
    for _ in 0..LOOK {
        match graph.op(value.node) {
            Op::Constant(c) if c.value.ty().elements() == 0 => return None,
            Op::Constant(_) => return crate::group::splat(graph, value),
            Op::Broadcast(_) | Op::Reshape(_) | Op::Transpose(_) => {
                value = graph.operands(value.node)[0];
            }
            _ => return None,
        }
    }
    None
}

fn rules(op: &Op) -> [&'static [Rule]; 3] {
    let own: &'static [Rule] = match op {
        Op::Unary(_) => arithmetic::UNARY,
        Op::Binary(_) => arithmetic::BINARY,
        Op::Compare(_) => choose::COMPARE,
        Op::Select(_) => choose::SELECT,
        Op::Clamp(_) => choose::CLAMP,
        Op::Convert(_) => choose::CONVERT,
        Op::Broadcast(_) => views::BROADCAST,
        Op::Reshape(_) => views::RESHAPE,
        Op::Transpose(_) => views::TRANSPOSE,
        Op::Reverse(_) => views::REVERSE,
        Op::Slice(_) => views::SLICE,
        Op::Pad(_) => views::PAD,
        Op::Concatenate(_) => views::CONCATENATE,
        Op::Reduce(_) => loops::REDUCE,
        Op::ArgReduce(_) => loops::ARG_REDUCE,
        Op::Cumulative(_) => loops::CUMULATIVE,
        Op::ReduceWindow(_) => loops::WINDOW,
        Op::DotGeneral(_) => loops::DOT_GENERAL,
        Op::DynamicSlice(_) => loops::DYNAMIC_SLICE,
        Op::DynamicUpdateSlice(_) => loops::DYNAMIC_UPDATE_SLICE,
        Op::Scatter(_) => loops::SCATTER,
        Op::Constant(_) => fold::CONSTANT,
        Op::BitcastConvert(_) => choose::BITCAST,
        Op::Complex(_) => choose::COMPLEX,
        Op::Parameter(_)
        | Op::Iota(_)
        | Op::Part(_)
        | Op::Gather(_)
        | Op::ReduceBy(_)
        | Op::Sort(_)
        | Op::TopK(_)
        | Op::Threefry2x32(_)
        | Op::OptimizationBarrier(_)
        | Op::ReducePrecision(_)
        | Op::Call(_) => &[],
    };
    let any: &'static [Rule] = match op {
        // Those of several results, and what nothing may be moved across.
        Op::Sort(_) | Op::TopK(_) | Op::OptimizationBarrier(_) | Op::Call(_) => &[],
        Op::Parameter(_) | Op::Constant(_) => &[],
        _ => fold::ANY,
    };
    let map: &'static [Rule] = match op.lower() {
        Form::Map(_) => maps::MAP,
        _ => &[],
    };
    [any, own, map]
}

/// The names of all rules.
pub fn rule_names() -> impl Iterator<Item = &'static str> {
    let tables = [
        arithmetic::UNARY,
        arithmetic::BINARY,
        choose::COMPARE,
        choose::SELECT,
        choose::CLAMP,
        choose::CONVERT,
        choose::COMPLEX,
        views::BROADCAST,
        views::RESHAPE,
        views::TRANSPOSE,
        views::REVERSE,
        views::SLICE,
        views::PAD,
        views::CONCATENATE,
        loops::REDUCE,
        loops::ARG_REDUCE,
        loops::CUMULATIVE,
        loops::WINDOW,
        loops::DOT_GENERAL,
        loops::DYNAMIC_SLICE,
        loops::DYNAMIC_UPDATE_SLICE,
        loops::SCATTER,
        fold::CONSTANT,
        fold::ANY,
        maps::MAP,
    ];
    tables.into_iter().flatten().map(|&(name, _)| name)
}

/// The first rule that answers, and its answer.
fn first_rule(site: &Site) -> Option<(&'static str, Term)> {
    if site.graph.types(site.node).len() != 1 {
        // A term stands for one value.
        return None;
    }
    let answers = |&(name, rule): &Rule| rule(site).map(|term| (name, term));
    rules(site.op()).into_iter().flatten().find_map(answers)
}

pub(crate) fn run(graph: &mut Graph, cx: &mut PassCx) {
    let mut walk = Walk { queue: VecDeque::new(), queued: vec![false; graph.bound()] };
    graph.order().into_iter().for_each(|node| walk.push(node));
    while let Some(node) = walk.queue.pop_front() {
        walk.queued[node.index()] = false;
        let Some((rule, term)) = first_rule(&Site::new(graph, node)) else { continue };
        if !cx.rewrite(rule) {
            return;
        }
        let old = Value { node, result: 0 };
        let readers: Vec<NodeId> = graph.readers(node).collect();
        let new = walk.build(graph, node, term, rule);
        graph.replace_uses(old, new);
        // What was behind a value no reader needs now is dead; dce removes it.
        walk.push_readers(graph, readers, LOOK);
    }
}

struct Walk {
    queue: VecDeque<NodeId>,
    queued: Vec<bool>,
}

impl Walk {
    fn push(&mut self, node: NodeId) {
        if self.queued.len() <= node.index() {
            self.queued.resize(node.index() + 1, false);
        }
        if !std::mem::replace(&mut self.queued[node.index()], true) {
            self.queue.push_back(node);
        }
    }

    /// Queues nodes whose operand has changed, and those that look at it through `look`
    /// views: it may have become a constant.
    fn push_readers(&mut self, graph: &Graph, readers: Vec<NodeId>, look: usize) {
        for reader in readers {
            self.push(reader);
            if look > 0 && matches!(graph.op(reader).lower(), Form::View(_)) {
                self.push_readers(graph, graph.readers(reader).collect(), look - 1);
            }
        }
    }

    /// Adds the new nodes of `term`, which replaces `node`. Terms are a few nodes deep.
    fn build(&mut self, graph: &mut Graph, node: NodeId, term: Term, rule: &str) -> Value {
        match term {
            Term::Old(value) => value,
            Term::New(op, terms) => {
                let operands: Vec<Value> =
                    terms.into_iter().map(|t| self.build(graph, node, t, rule)).collect();
                let source = graph.source(node).cloned();
                let added = graph
                    .add1(op, &operands, source)
                    .unwrap_or_else(|e| panic!("simplify: rule {rule} built an invalid node: {e}"));
                self.push(added.node);
                added
            }
        }
    }
}
