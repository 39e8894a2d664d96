//! Calls become the bodies they call.
//!
//! ```kiln before
//! graph @double(%x: f32[4]) -> f32[4] {
//!   %0 = add %x, %x : f32[4]
//!   return %0
//! }
//!
//! graph @f(%x: f32[4]) -> f32[4] {
//!   %0 = call %x {graph = @double} : f32[4]
//!   %1 = call %0 {graph = @double} : f32[4]
//!   return %1
//! }
//! ```
//! ```kiln after
//! graph @f(%x: f32[4]) -> f32[4] {
//!   %0 = add %x, %x : f32[4]
//!   %1 = add %0, %0 : f32[4]
//!   return %1
//! }
//! ```
//!
//! The work is [`kiln_ir::inline()`]'s, which transformations use too.
//!
//! The pass cannot be left out and uses no fuel: nothing after it knows calls.

use kiln_ir::{Graph, Op};

use crate::pipeline::PassCx;

pub(crate) fn run(graph: &mut Graph, cx: &mut PassCx) {
    if graph.nodes().any(|n| matches!(graph.op(n), Op::Call(_))) {
        *graph = kiln_ir::inline::inline_calls(graph, &mut |_| {
            cx.must("inline.call");
            true
        });
    }
}
