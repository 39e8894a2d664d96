//! Transformations of whole graphs: derivatives, batches.
//!
//! Each takes a graph and returns another, built by applying the rules of single ops
//! (see [`super`]) node by node. So they nest in any way: the result is an ordinary graph.
//!
//! | function | from `f: (x..) -> (y..)` to |
//! |---|---|
//! | [`jvp()`] | `(x.., dx..) -> (y.., dy..)`, forward mode |
//! | [`vjp()`] | `(x.., ȳ..) -> (y.., x̄..)`, reverse mode |
//! | [`split()`] | `(x..) -> (y.., r..)` and `(r.., ȳ..) -> x̄..`: forward now, back later |
//! | [`vmap()`] | `f` over a batch |
//!
//! Tangents and cotangents exist for floats alone, and only for what the caller marks. The nodes that a rule adds have the source
//! of the node that it derives, so that messages and profiles point at the user's line.

mod jvp;
mod split;
mod vjp;
mod vmap;

use crate::{Graph, NodeId, Value};
use hashbrown::HashSet;

pub use jvp::jvp;
pub use split::{Split, split};
pub use vjp::vjp;
pub use vmap::vmap;

/// The values that depend on one of `sources` by a path of floats: those that can have a
/// derivative by it.
fn dependent(graph: &Graph, order: &[NodeId], sources: &[Value]) -> HashSet<Value> {
    let is_float = |v: Value| graph.ty(v).dtype.is_inexact();
    let mut found: HashSet<Value> = sources.iter().copied().filter(|&v| is_float(v)).collect();
    for &node in order {
        if graph.operands(node).iter().any(|v| found.contains(v)) {
            found.extend(graph.results(node).filter(|&v| is_float(v)));
        }
    }
    found
}
