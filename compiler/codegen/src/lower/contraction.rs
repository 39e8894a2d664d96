//! Sums of products with computed operands and a computed result.
//!
//! Batch axes are point axes; the free axes of the left operand flatten into rows,
//! those of the right into columns, the contracted ones into the inner axis. Members
//! that feed the operands become expressions over those axes, members that follow
//! become the values stored from the finished sum.

use kiln_ir::op::DotDims;
use kiln_ir::{Form, Graph, NodeId, Value};
use kiln_opt::group::Group;

use super::evaluate::Evaluator;
use super::scalar::{convert, identity};
use super::{Buffers, LowerError, Lowered, name};
use crate::kernel::index::{Extents, delinearize, linearize};
use crate::kernel::{Axis, Body, Contraction, Expr, Exprs, Index, Lanes, Loops, Stage, Store};

pub(crate) fn lower(
    graph: &Graph,
    group: &Group,
    dot: NodeId,
    early: &[Value],
) -> Result<Lowered, LowerError> {
    let Form::Contraction(dims) = graph.op(dot).lower() else {
        return Err(LowerError::form(graph, dot));
    };
    let buffers = Buffers::new(graph, group, early);
    let result = Value { node: dot, result: 0 };
    let ty = graph.ty(result);
    if ty.elements() == 0 {
        return Ok(Lowered::default());
    }
    let operands = graph.operands(dot);
    let (lhs, rhs) = (&graph.ty(operands[0]).shape, &graph.ty(operands[1]).shape);
    let lhs_free = DotDims::free(lhs.rank(), &dims.lhs_batch, &dims.lhs_contract);
    let rhs_free = DotDims::free(rhs.rank(), &dims.rhs_batch, &dims.rhs_contract);
    let pick = |shape: &[usize], axes: &[usize]| -> Vec<usize> {
        axes.iter().map(|&a| shape[a]).collect()
    };
    let product = |shape: &[usize]| -> u64 { shape.iter().map(|&d| d as u64).product() };
    let batch = pick(lhs, &dims.lhs_batch);
    let (rows, columns) = (pick(lhs, &lhs_free), pick(rhs, &rhs_free));
    let summed = pick(lhs, &dims.lhs_contract);
    let (m, n, k) = (product(&rows), product(&columns), product(&summed));

    let (batch_map, points) = super::over_points(&batch);
    let extents = Extents { points: points.clone(), inner: k.max(1), row: m, column: n };
    let axis = |axis: Axis, extent: u64| match extent {
        0 | 1 => Index::default(),
        _ => Index::axis(axis),
    };
    let row = delinearize(&axis(Axis::Row, m), &rows, &extents);
    let column = delinearize(&axis(Axis::Column, n), &columns, &extents);
    let inner = match k {
        0 => vec![Index::default(); summed.len()],
        _ => delinearize(&axis(Axis::Inner, k), &summed, &extents),
    };
    // Each operand's index from the parts that its axes belong to.
    let scatter = |rank: usize, parts: [(&[usize], &[Index]); 3]| {
        let mut map = vec![Index::default(); rank];
        for (axes, indices) in parts {
            for (&axis, index) in axes.iter().zip(indices) {
                map[axis] = index.clone();
            }
        }
        map
    };
    let lhs_map = scatter(
        lhs.rank(),
        [(&dims.lhs_batch, &batch_map), (&lhs_free, &row), (&dims.lhs_contract, &inner)],
    );
    let rhs_map = scatter(
        rhs.rank(),
        [(&dims.rhs_batch, &batch_map), (&rhs_free, &column), (&dims.rhs_contract, &inner)],
    );
    let map: Vec<Index> = batch_map.into_iter().chain(row).chain(column).collect();

    let mut evaluator = Evaluator::new(graph, &group.members, &buffers.inputs, extents);
    let accumulator = ty.dtype.accumulator();
    let mut sides = Vec::new();
    if k > 0 {
        for (operand, map) in [(operands[0], lhs_map), (operands[1], rhs_map)] {
            let map = evaluator.map(map);
            let value = evaluator.value(operand, map)?;
            sides.push(convert(&mut evaluator.exprs, value, accumulator));
        }
    }
    let at = evaluator.map(map.clone());
    let sum = if k > 0 {
        evaluator.exprs.add(Expr::Sum, accumulator)
    } else {
        evaluator.exprs.constant(identity(kiln_ir::op::ReduceKind::Sum, accumulator))
    };
    let value = convert(&mut evaluator.exprs, sum, ty.dtype);
    evaluator.give(result, at, value);
    let mut stores = Vec::new();
    for (i, &root) in group.roots.iter().enumerate() {
        if graph.ty(root).shape != ty.shape {
            return Err(LowerError::root(graph, root.node));
        }
        stores.extend(evaluator.stores(root, at, buffers.root(i), linearize(&map, &ty.shape))?);
    }
    let exprs = evaluator.exprs;
    let body = if k > 0 {
        let (lhs, rhs) = (sides[0], sides[1]);
        Body::Contraction(Contraction {
            batch: points,
            m,
            n,
            k,
            accumulator,
            exprs,
            lhs,
            rhs,
            stores,
        })
    } else {
        empty(points, m, n, exprs, stores)
    };
    Ok(buffers.lowered(&name(graph, &group.members), vec![body]))
}

/// A sum of no products: the epilogue of zero over plain points.
fn empty(mut points: Vec<u64>, m: u64, n: u64, exprs: Exprs, stores: Vec<Store>) -> Body {
    let row = points.len() as u32;
    points.extend([m, n]);
    let axes = |axis: Axis| match axis {
        Axis::Row => Index::axis(Axis::Point(row)),
        Axis::Column => Index::axis(Axis::Point(row + 1)),
        axis => Index::axis(axis),
    };
    let extents = Extents { points: points.clone(), inner: 1, ..Extents::default() };
    let (exprs, places) = exprs.move_to(&extents, &axes);
    let at = |e| places.at(e);
    let stores = stores.into_iter().map(|s| Store {
        index: s.index.substitute(&extents, &axes, &at),
        value: at(s.value),
        ..s
    });
    let stages = vec![Stage { stores: stores.collect(), ..Stage::new(1) }];
    Body::Loops(Loops { points, lanes: Lanes::Points, exprs, stages })
}
