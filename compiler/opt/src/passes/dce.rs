//! Dead code elimination: nodes that no output needs go.
//!
//! ```kiln before
//! graph @f(%x: f32[4]) -> f32[4] {
//!   %0 = exp %x : f32[4]
//!   %1 = neg %x : f32[4]
//!   %2 = sqrt %0 : f32[4]
//!   return %1
//! }
//! ```
//! ```kiln after
//! graph @f(%x: f32[4]) -> f32[4] {
//!   %0 = neg %x : f32[4]
//!   return %0
//! }
//! ```
//!
//! Ops have no effects, so a value that is not read is not missed.
//!
//! Keeps: unused parameters, which are part of the signature.

use kiln_ir::{Graph, Op};

use crate::pipeline::PassCx;

pub(crate) fn run(graph: &mut Graph, cx: &mut PassCx) {
    let order = graph.order();
    let mut keep = vec![false; graph.bound()];
    for value in graph.outputs() {
        keep[value.node.index()] = true;
    }
    // Readers come before what they read, so with the fuel used up halfway no kept
    // node reads a removed one.
    for &node in order.iter().rev() {
        let parameter = matches!(graph.op(node), Op::Parameter(_));
        let kept = keep[node.index()] || parameter || !cx.rewrite("dce.node");
        keep[node.index()] = kept;
        if kept {
            for operand in graph.operands(node) {
                keep[operand.node.index()] = true;
            }
        }
    }
    graph.sweep(|node| keep[node.index()]);
}
