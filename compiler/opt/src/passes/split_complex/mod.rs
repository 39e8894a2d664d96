//! Complex arithmetic becomes arithmetic on parts.
//!
//! ```kiln before
//! graph @f(%z: c64[4], %w: c64[4]) -> c64[4] {
//!   %0 = add %z, %w : c64[4]
//!   %1 = neg %0 : c64[4]
//!   return %1
//! }
//! ```
//! ```kiln after
//! graph @f(%z: c64[4], %w: c64[4]) -> c64[4] {
//!   %0 = real %z : f32[4]
//!   %1 = imag %z : f32[4]
//!   %2 = real %w : f32[4]
//!   %3 = imag %w : f32[4]
//!   %4 = add %0, %2 : f32[4]
//!   %5 = add %1, %3 : f32[4]
//!   %6 = neg %4 : f32[4]
//!   %7 = neg %5 : f32[4]
//!   %8 = complex %6, %7 : c64[4]
//!   return %8
//! }
//! ```
//!
//! Kernels know floats, not complex numbers. What they can do is move a part of a complex
//! element, read one from memory where it lies, and write two next to each other. So
//! after this pass
//!
//! - only ops that move elements (`complex`, `real`, `imag`, `select`, views, slices and
//!   updates at run-time starts, gathers, scatters that set or add, constants) have complex
//!   operands or results;
//! - nothing else does: each arithmetic op on complex numbers has become arithmetic on
//!   their parts, and `complex` of the result where somebody needs it whole.
//!
//! A value whose parts were computed keeps them at hand, also behind views: a chain of
//! arithmetic never goes through `complex`. What a program returns is written once, its
//! parts interleaved, by the kernel that computes them; what it is given is read once.
//!
//! Meaning: sums, differences, products, comparisons and all movement are the definition
//! to the bit. Functions and quotients are within the bounds of `docs/numerics.md`, as
//! compiled functions of floats are.
//!
//! The pass cannot be left out and uses no fuel: nothing after it computes on complex
//! numbers.
//!
//! | file | holds |
//! |---|---|
//! | `build` | real arithmetic as nodes |
//! | `number` | complex arithmetic on pairs of values |
//! | `function` | functions of complex numbers |
//! | `sum` | reductions and contractions |

mod build;
mod function;
mod number;
mod sum;

use hashbrown::{HashMap, HashSet};
use kiln_ir::graph::Operands;
use kiln_ir::op::{Compare, Complex, Constant, Convert, Iota, Part, Unary};
use kiln_ir::{Form, Graph, Literal, NodeId, Op, Type, Value};
use smallvec::{SmallVec, smallvec};

use crate::pipeline::PassCx;
use build::Build;
use number::Pair;

pub(crate) fn run(graph: &mut Graph, cx: &mut PassCx) {
    let order = graph.order();
    let complex = |v: &Value, graph: &Graph| graph.ty(*v).dtype.is_complex();
    let touches = |node: NodeId, graph: &Graph| {
        graph.results(node).any(|v| complex(&v, graph))
            || graph.operands(node).iter().any(|v| complex(v, graph))
    };
    let mut parts = Parts::default();
    let mut split = vec![false; graph.bound()];
    for node in order.into_iter().filter(|&n| touches(n, graph)).collect::<Vec<_>>() {
        if graph.op(node).lower().moves() {
            parts.carry(graph, node);
            continue;
        }
        cx.must("split_complex.op");
        split[node.index()] = true;
        let old = Value { node, result: 0 };
        let new = match arithmetic(graph, &mut parts, node) {
            Split::Real(value) => value,
            Split::Pair(pair) => {
                let source = graph.source(node).cloned();
                let whole = graph.add1(Complex, &[pair.re, pair.im], source);
                let whole = whole.expect("two parts of one type");
                parts.known.insert(whole, pair);
                whole
            }
        };
        graph.replace_uses(old, new);
    }
    graph.sweep(|node| !split.get(node.index()).copied().unwrap_or(false));
}

/// What an op on complex numbers became.
enum Split {
    /// Its result is real.
    Real(Value),
    /// The parts of its result.
    Pair(Pair),
}

/// The parts of complex values.
#[derive(Default)]
struct Parts {
    /// Those that are at hand.
    known: HashMap<Value, Pair>,
    /// Values moved from some whose parts are at hand, by ops that move parts as well.
    carried: HashSet<Value>,
}

impl Parts {
    /// The parts of a value, made if need be. Values that are moved from others may be a
    /// long chain: this keeps its own stack.
    fn of(&mut self, graph: &mut Graph, value: Value) -> Pair {
        let mut stack = vec![value];
        while let Some(&value) = stack.last() {
            if self.known.contains_key(&value) {
                stack.pop();
                continue;
            }
            let operands = graph.operands(value.node);
            let complex = |v: &Value| graph.ty(*v).dtype.is_complex();
            let carried = self.carried.contains(&value);
            let missing = |v: &Value| complex(v) && !self.known.contains_key(v);
            if carried && operands.iter().any(missing) {
                stack.extend(operands.iter().copied().filter(missing));
                continue;
            }
            let source = graph.source(value.node).cloned();
            let [re, im] = Part::ALL.map(|part| {
                let (op, operands): (Op, Operands) = match graph.op(value.node) {
                    Op::Constant(c) => (constant_part(&c.value, part).into(), smallvec![]),
                    op if carried => {
                        let part = |&v: &Value| self.known.get(&v).map_or(v, |p| p.part(part));
                        (op.clone(), operands.iter().map(part).collect())
                    }
                    _ => (part.into(), smallvec![value]),
                };
                graph.add1(op, &operands, source.clone()).expect("a complex value has parts")
            });
            self.known.insert(value, Pair { re, im });
        }
        self.known[&value]
    }

    fn at_hand(&self, value: &Value) -> bool {
        self.known.contains_key(value) || self.carried.contains(value)
    }

    /// Notes what an op that moves elements does to parts that are at hand.
    fn carry(&mut self, graph: &mut Graph, node: NodeId) {
        let value = Value { node, result: 0 };
        let operands = graph.operands(node);
        match *graph.op(node) {
            Op::Complex(_) => {
                self.known.insert(value, Pair { re: operands[0], im: operands[1] });
            }
            Op::Part(part) if self.at_hand(&operands[0]) => {
                let pair = self.of(graph, operands[0]);
                graph.replace_uses(value, pair.part(part));
            }
            // These overwrite their operand where it is: that needs it whole.
            // And nothing moves across a barrier.
            _ if matches!(
                graph.op(node).lower(),
                Form::Update | Form::Scatter(_) | Form::Barrier
            ) => {}
            _ if operands.iter().any(|v| self.at_hand(v)) => {
                self.carried.insert(value);
            }
            _ => {}
        }
    }
}

/// One part of every element of a constant.
fn constant_part(literal: &Literal, part: Part) -> Constant {
    let ty = literal.ty().with_dtype(literal.ty().dtype.part());
    Constant { value: Literal::from_fn(ty, |i| part.of(literal.get(i))) }
}

/// The arithmetic on parts that `node` means.
fn arithmetic(graph: &mut Graph, parts: &mut Parts, node: NodeId) -> Split {
    let op = graph.op(node).clone();
    let ty = graph.types(node)[0].clone();
    let operands = graph.operands(node);
    // Operands that are real stay whole, beside an imaginary part nobody reads.
    let pairs: SmallVec<[Pair; 2]> = operands
        .iter()
        .map(|&v| match graph.ty(v).dtype.is_complex() {
            true => parts.of(graph, v),
            false => Pair { re: v, im: v },
        })
        .collect();
    let mut b = Build::new(graph, node, &ty.shape);
    match (&op, &pairs[..]) {
        (Op::Unary(Unary::IsFinite), [z]) => {
            let (re, im) = (b.unary(Unary::IsFinite, z.re), b.unary(Unary::IsFinite, z.im));
            Split::Real(b.and(re, im))
        }
        (Op::Unary(Unary::Abs), [z]) => Split::Real(function::abs(&mut b, *z)),
        (Op::Unary(f), [z]) => Split::Pair(function::unary(&mut b, *f, *z)),
        (Op::Binary(f), [z, w]) => Split::Pair(function::binary(&mut b, *f, *z, *w)),
        (Op::Compare(f), [z, w]) => {
            let (re, im) = (b.compare(*f, z.re, w.re), b.compare(*f, z.im, w.im));
            Split::Real(if *f == Compare::Eq { b.and(re, im) } else { b.or(re, im) })
        }
        (Op::Convert(convert), [z]) => {
            let to = Convert { to: convert.to.part() };
            let re = b.op(to, &[z.re]);
            let real = z.re == z.im;
            let im = if real { b.full(to.to, 0.0) } else { b.op(to, &[z.im]) };
            Split::Pair(Pair { re, im })
        }
        (Op::Iota(iota), []) => {
            let ty = Type { dtype: ty.dtype.part(), shape: ty.shape.clone() };
            let dtype = ty.dtype;
            let re = b.op(Iota { ty, axis: iota.axis }, &[]);
            Split::Pair(Pair { re, im: b.full(dtype, 0.0) })
        }
        (Op::Reduce(reduce), [z]) => Split::Pair(sum::reduce(&mut b, reduce, *z)),
        (Op::DotGeneral(dot), [z, w]) => Split::Pair(sum::dot(&mut b, dot, *z, *w)),
        _ => unreachable!("{op} takes no complex numbers"),
    }
}
