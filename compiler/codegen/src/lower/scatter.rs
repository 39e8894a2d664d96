//! Windows at indices, combined with what a buffer holds.
//!
//! As for a box at a known start (`update`), the operand is no argument: the plan has put
//! its bytes in the root's buffer. Index vectors are steps, done in order, because two of
//! them may name one element; what cannot meet is points, which are independent:
//!
//! ```text
//! scatter_add into f32[50000,256], rows at i32[65536]:
//!   points [256]                                  one for each element of a row
//!   stage inner 65536                             one for each index
//!     scatter a2[256*clamp(load a0[r]) + p0] = a2[..] + load a1[256*r + p0] if ..
//! ```
//!
//! Windows can meet along an axis where they start at different places without filling
//! it: such an axis belongs to the steps. Where the program promises that no element is
//! updated twice, or there is one index vector only, everything is points.

use kiln_ir::op::{Binary, Scatter as Form, ScatterMode};
use kiln_ir::{DType, Graph, NodeId, Value};
use kiln_opt::group::Group;

use super::evaluate::Evaluator;
use super::{Buffers, LowerError, Lowered, name};
use crate::kernel::index::{Extents, delinearize, linearize};
use crate::kernel::{Axis, BinaryOp, Body, Index, Lanes, Loops, Scatter, Stage, Store};

pub(crate) fn lower(
    graph: &Graph,
    group: &Group,
    node: NodeId,
    form: &Form,
    early: &[Value],
) -> Result<Lowered, LowerError> {
    let operands = graph.operands(node);
    let (field, updates) = (&graph.ty(operands[0]).shape, &graph.ty(operands[2]).shape);
    let sizes = form.dims.window_sizes(field, updates);
    let fits = sizes.iter().zip(field.iter()).all(|(size, extent)| size <= extent);
    if updates.elements() == 0 || !fits {
        // Nothing is written, or every window is out of range.
        return Ok(Lowered::default());
    }
    let buffers = Buffers::new(graph, group, early);
    let axes = Axes::of(form, field, &sizes, updates);
    let extents = Extents { points: axes.points.clone(), inner: axes.steps, ..Extents::default() };
    let map = axes.map(updates, &extents);
    let mut evaluator = Evaluator::new(graph, &group.members, &buffers.inputs, extents);

    let dims = form.dims.as_gather();
    let positions = dims.position_dims(updates.rank());
    let position: Vec<Index> = positions.into_iter().map(|axis| map[axis].clone()).collect();
    let starts = evaluator.indices_at(operands[1], &dims, &position)?;
    let (mut at, inside) = evaluator.window(&dims, field, &sizes, &starts, &position);
    let window = dims.window_dims(field.rank());
    for (axis, &of) in window.into_iter().zip(&dims.offset_dims) {
        at[axis] = at[axis].add(&map[of]);
    }
    let map = evaluator.map(map);
    let index = linearize(&at, field);
    let stores = evaluator.stores(operands[2], map, buffers.root(0), index)?;
    let scatter = |Store { argument, index, value }| Scatter {
        argument,
        index,
        value,
        valid: inside.filter(|_| form.mode == ScatterMode::Drop),
        combine: form.kind.combine().map(|op| primitive(op, graph.ty(operands[0]).dtype)),
    };
    let scatters = stores.into_iter().map(scatter).collect();
    let stages = vec![Stage { scatters, ..Stage::new(axes.steps) }];
    let loops = Loops { points: axes.points, lanes: Lanes::Points, exprs: evaluator.exprs, stages };
    Ok(buffers.lowered(&name(graph, &group.members), vec![Body::Loops(loops)]))
}

fn primitive(op: Binary, dtype: DType) -> BinaryOp {
    match op {
        Binary::Min if dtype == DType::Bool => BinaryOp::And,
        Binary::Max if dtype == DType::Bool => BinaryOp::Or,
        Binary::Add => BinaryOp::Add,
        Binary::Mul => BinaryOp::Mul,
        Binary::Min => BinaryOp::Min,
        Binary::Max => BinaryOp::Max,
        Binary::And => BinaryOp::And,
        Binary::Or => BinaryOp::Or,
        Binary::Xor => BinaryOp::Xor,
        _ => unreachable!("no scatter combines by {}", op.name()),
    }
}

/// Which axes of the updates are points and which are steps.
struct Axes {
    /// Extents of the point axes.
    points: Vec<u64>,
    /// The axes of the updates that they are.
    of_points: Vec<usize>,
    steps: u64,
    /// The axes of the updates that steps count, outermost first.
    of_steps: Vec<usize>,
}

impl Axes {
    fn of(form: &Form, field: &[usize], sizes: &[usize], updates: &[usize]) -> Axes {
        let dims = form.dims.as_gather();
        let positions = dims.position_dims(updates.len());
        let batching = |k: usize| {
            // Position k is this axis of the indices.
            let axis = if k >= dims.index_vector_dim { k + 1 } else { k };
            dims.start_indices_batching_dims.iter().position(|&a| a == axis)
        };
        let several = (0..positions.len())
            .filter(|&k| batching(k).is_none())
            .any(|k| updates[positions[k]] > 1);
        let ordered = several && !form.unique_indices;
        // Points in the order of the operand's axes, so that the last are neighbours.
        let mut points: Vec<(usize, usize)> = Vec::new();
        let mut steps = Vec::new();
        for (k, &axis) in positions.iter().enumerate() {
            match batching(k) {
                Some(b) => points.push((1 + dims.operand_batching_dims[b], axis)),
                None if ordered => steps.push(axis),
                None => points.push((0, axis)),
            }
        }
        for (axis, &of) in dims.window_dims(field.len()).into_iter().zip(&dims.offset_dims) {
            let moves = dims.start_index_map.contains(&axis) && sizes[axis] < field[axis];
            match ordered && moves && sizes[axis] > 1 {
                true => steps.push(of),
                false => points.push((1 + axis, of)),
            }
        }
        points.sort_by_key(|&(axis, _)| axis);
        let points: Vec<usize> = points.into_iter().map(|(_, of)| of).collect();
        let of_points: Vec<usize> = points.into_iter().filter(|&a| updates[a] > 1).collect();
        Axes {
            points: of_points.iter().map(|&a| updates[a] as u64).collect(),
            of_points,
            steps: steps.iter().map(|&a| updates[a] as u64).product(),
            of_steps: steps,
        }
    }

    /// The index map of the updates.
    fn map(&self, updates: &[usize], extents: &Extents) -> Vec<Index> {
        let mut map = vec![Index::default(); updates.len()];
        for (p, &axis) in self.of_points.iter().enumerate() {
            map[axis] = Index::axis(Axis::Point(p as u32));
        }
        let shape: Vec<usize> = self.of_steps.iter().map(|&a| updates[a]).collect();
        let step = if self.steps > 1 { Index::axis(Axis::Inner) } else { Index::default() };
        let digits = delinearize(&step, &shape, extents);
        for (&axis, digit) in self.of_steps.iter().zip(digits) {
            map[axis] = digit;
        }
        map
    }
}
