//! A box written into a buffer that already holds the rest.
//!
//! The points are those of the update; the box is moved by the clamped starts. The
//! operand that is updated is no argument: the plan has put its bytes in the root's
//! buffer, by sharing it or by a copy.

use kiln_ir::{Form, Graph, NodeId, Value};
use kiln_opt::group::Group;

use super::evaluate::Evaluator;
use super::{Buffers, LowerError, Lowered, name, over_points};
use crate::kernel::index::{Extents, linearize};
use crate::kernel::{Body, Index, Lanes, Loops, Stage};

pub(crate) fn lower(
    graph: &Graph,
    group: &Group,
    node: NodeId,
    early: &[Value],
) -> Result<Lowered, LowerError> {
    if !matches!(graph.op(node).lower(), Form::Update) {
        return Err(LowerError::form(graph, node));
    }
    let buffers = Buffers::new(graph, group, early);
    let operands = graph.operands(node);
    let (field, update) = (&graph.ty(operands[0]).shape, &graph.ty(operands[1]).shape);
    if update.elements() == 0 {
        return Ok(Lowered::default());
    }
    let (map, points) = over_points(update);
    let extents = Extents { points: points.clone(), inner: 1, ..Extents::default() };
    let mut evaluator = Evaluator::new(graph, &group.members, &buffers.inputs, extents);
    let (at, scalar) = (evaluator.map(map.clone()), evaluator.map(Vec::new()));
    let mut starts = Vec::new();
    for &start in &operands[2..] {
        starts.push(evaluator.value(start, scalar)?);
    }
    let limits: Vec<usize> = field.iter().zip(update.iter()).map(|(n, m)| n - m).collect();
    let starts = evaluator.starts(&starts, &limits);
    let moved: Vec<Index> = map.iter().zip(&starts).map(|(i, s)| i.add(s)).collect();
    let index = linearize(&moved, field);
    let stores = evaluator.stores(operands[1], at, buffers.root(0), index)?.into_vec();
    let stages = vec![Stage { stores, ..Stage::new(1) }];
    let loops = Loops { points, lanes: Lanes::Points, exprs: evaluator.exprs, stages };
    Ok(buffers.lowered(&name(graph, &group.members), vec![Body::Loops(loops)]))
}
