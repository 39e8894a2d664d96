//! Common subexpression elimination: equal nodes with equal operands become one.
//!
//! ```kiln before
//! graph @f(%x: f32[4], %y: f32[4]) -> f32[4] {
//!   %0 = mul %x, %y : f32[4]
//!   %1 = mul %y, %x : f32[4]
//!   %2 = exp %0 : f32[4]
//!   %3 = exp %1 : f32[4]
//!   %4 = add %2, %3 : f32[4]
//!   return %4
//! }
//! ```
//! ```kiln after
//! graph @f(%x: f32[4], %y: f32[4]) -> f32[4] {
//!   %0 = mul %x, %y : f32[4]
//!   %1 = exp %0 : f32[4]
//!   %2 = add %1, %1 : f32[4]
//!   return %2
//! }
//! ```
//!
//! Ops are functions: the same op on the same operands gives the same result. One
//! walk in topological order finds all of it, since operands are merged before their
//! readers are looked at. The copies that are left are dead; dce removes them.
//!
//! Constants are equal when their bits are: −0 is not 0, and one NaN is another only
//! with the same payload. Operands of ops that commute are compared in either order;
//! sums, products, extrema and comparisons of floats commute too.
//!
//! Declines: parameters, which are different even when their types are equal, and
//! barriers, so that what was kept apart is not brought together behind them.

use hashbrown::HashMap;
use kiln_ir::graph::Operands;
use kiln_ir::op::{Binary, Compare};
use kiln_ir::{Graph, NodeId, Op, Value};

use crate::pipeline::PassCx;

pub(crate) fn run(graph: &mut Graph, cx: &mut PassCx) {
    let mut first: HashMap<(Op, Operands), NodeId> = HashMap::new();
    for node in graph.order() {
        let op = graph.op(node);
        if matches!(op, Op::Parameter(_) | Op::OptimizationBarrier(_)) {
            continue;
        }
        let mut operands = graph.operands(node);
        if commutes(op) {
            operands.sort_unstable();
        }
        let same = *first.entry((op.clone(), operands)).or_insert(node);
        if same == node {
            continue;
        }
        if !cx.rewrite("cse.merge") {
            return;
        }
        for old in graph.results(node) {
            graph.replace_uses(old, Value { node: same, result: old.result });
        }
    }
}

fn commutes(op: &Op) -> bool {
    match op {
        Op::Binary(f) => matches!(
            f,
            Binary::Add
                | Binary::Mul
                | Binary::Min
                | Binary::Max
                | Binary::And
                | Binary::Or
                | Binary::Xor
        ),
        Op::Compare(f) => matches!(f, Compare::Eq | Compare::Ne),
        _ => false,
    }
}
