//! Groups of pointwise members: one point for each element.
//!
//! A concatenation chooses: each element of the result comes from one operand. For a few
//! operands every element finds out which. For many that would be code that grows with
//! them and runs through all of them at every element; so the iteration space is *cut*
//! at the joints, and each piece is a loop of its own in which nothing is left to
//! choose. Each writes its part of the roots where it belongs, so that nothing is copied
//! afterwards, and all share a launch.
//!
//! ```text
//! concatenate a, b, c, .. along axis 0, then neg:
//!
//!   part 0: points [2, 64]    r[0   + 64*p0 + p1] = neg a[64*p0 + p1]
//!   part 1: points [3, 64]    r[128 + 64*p0 + p1] = neg b[64*p0 + p1]
//!   ...
//! ```
//!
//! Declines to cut for a concatenation that is read through a view: its joints are not
//! joints of the space. Fusion keeps those short (`kiln_opt::group::CHOICES`).

use hashbrown::HashSet;
use kiln_ir::form::View;
use kiln_ir::{Form, Graph, NodeId, Shape, Value};
use kiln_opt::group::{CUT, Group};

use super::evaluate::Evaluator;
use super::{Buffers, LowerError, Lowered, name, over_points};
use crate::kernel::index::{Extents, linearize};
use crate::kernel::{Lanes, Loops, Stage};

pub(crate) fn lower(
    graph: &Graph,
    group: &Group,
    space: &Shape,
    early: &[Value],
) -> Result<Lowered, LowerError> {
    let buffers = Buffers::new(graph, group, early);
    if space.elements() == 0 {
        return Ok(Lowered::default());
    }
    if let Some(root) = group.roots.iter().find(|&&root| graph.ty(root).shape != *space) {
        return Err(LowerError::root(graph, root.node));
    }
    let mut evaluator = Evaluator::new(graph, &group.members, &buffers.inputs, Extents::default());
    let mut parts = Vec::new();
    for piece in pieces(graph, group, space) {
        let (mut map, points) = over_points(&piece.shape);
        if let Some(axis) = map.get_mut(piece.axis) {
            *axis = axis.offset(piece.start);
        }
        evaluator.restart(Extents { points: points.clone(), inner: 1, ..Extents::default() });
        let at = evaluator.map(map.clone());
        let mut stores = Vec::new();
        for (i, &root) in group.roots.iter().enumerate() {
            let index = linearize(&map, space);
            stores.extend(evaluator.stores(root, at, buffers.root(i), index)?);
        }
        let exprs = evaluator.restart(Extents::default());
        let stages = vec![Stage { stores, ..Stage::new(1) }];
        parts.push(Loops { points, lanes: Lanes::Points, exprs, stages });
    }
    Ok(buffers.together(&name(graph, &group.members), parts))
}

/// A box of the space.
struct Piece {
    shape: Shape,
    /// Where it starts along this axis; along the others it is as long as the space.
    axis: usize,
    start: i64,
}

/// The space, cut along one axis at the joints of the concatenations along it.
fn pieces(graph: &Graph, group: &Group, space: &Shape) -> Vec<Piece> {
    let concatenations = concatenations(graph, group);
    // The longest decides; of equals the first.
    let length = |&&(node, _): &&(NodeId, usize)| graph.operands(node).len();
    let Some(&(_, axis)) = concatenations.iter().rev().max_by_key(length) else {
        return vec![Piece { shape: space.clone(), axis: 0, start: 0 }];
    };
    let mut joints = vec![0, space[axis]];
    for (node, _) in concatenations.into_iter().filter(|&(_, a)| a == axis) {
        let mut end = 0;
        for operand in graph.operands(node) {
            end += graph.ty(operand).shape[axis];
            joints.push(end);
        }
    }
    joints.sort_unstable();
    joints.dedup();
    let piece = |ends: &[usize]| {
        let mut shape = space.to_vec();
        shape[axis] = ends[1] - ends[0];
        Piece { shape: shape.into(), axis, start: ends[0] as i64 }
    };
    joints.windows(2).map(piece).collect()
}

/// The concatenations of at least [`CUT`] operands that only maps stand before, with
/// their axes, in the order of the members.
fn concatenations(graph: &Graph, group: &Group) -> Vec<(NodeId, usize)> {
    let mut reached: HashSet<NodeId> = group.roots.iter().map(|r| r.node).collect();
    let mut found = Vec::new();
    for &node in group.members.iter().rev() {
        if !reached.contains(&node) {
            continue;
        }
        match graph.op(node).lower() {
            Form::Map(_) => reached.extend(graph.operands(node).iter().map(|v| v.node)),
            Form::View(View::Concatenate { axis }) if graph.operands(node).len() >= CUT => {
                found.push((node, axis));
            }
            _ => {}
        }
    }
    found.reverse();
    found
}
