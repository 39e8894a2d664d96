//! Sorts, and the first few of a sorted row.
//!
//! Results that nobody reads are left out, and with them operands that are not compared.
//! A `top_k` is a descending sort of the row and its positions, of which the first `k`
//! are written.

use hashbrown::HashSet;
use kiln_ir::form::Order;
use kiln_ir::{DType, Form, Graph, NodeId, Op, Value};
use kiln_opt::group::{Group, is_position};

use super::evaluate::Evaluator;
use super::{Buffers, LowerError, Lowered, name};
use crate::kernel::index::Extents;
use crate::kernel::sort::{Key, Ordering, Sort, Sorted, Source};
use crate::kernel::{Axis, Body, Expr, Index};

pub(crate) fn lower(graph: &Graph, group: &Group, node: NodeId) -> Result<Lowered, LowerError> {
    let buffers = Buffers::new(graph, group, &[]);
    let operands = graph.operands(node);
    let shape = &graph.ty(operands[0]).shape;
    if graph.ty(group.roots[0]).elements() == 0 {
        return Ok(Lowered::default());
    }
    let argument = |value: Value| -> Result<Source, LowerError> {
        let place = buffers.inputs.iter().position(|&v| v == value);
        let place = place.ok_or_else(|| LowerError::input(graph, value.node))?;
        Ok(Source::Argument(place as u32))
    };
    let to = |result: u32| {
        let root = group.roots.iter().position(|&r| r == Value { node, result });
        root.map(|i| buffers.root(i))
    };
    let (axis, take, sorted, order) = match graph.op(node).lower() {
        Form::Sort { axis, order } => {
            let members: HashSet<NodeId> = group.members.iter().copied().collect();
            let operand = |(k, &value): (usize, &Value)| -> Result<Sorted, LowerError> {
                let member = members.contains(&value.node) && value.node != node;
                let from = match member && is_position(graph, node, k) {
                    true => Source::Position(graph.ty(value).dtype),
                    false => argument(value)?,
                };
                Ok(Sorted { from, to: to(k as u32) })
            };
            let sorted = operands.iter().enumerate().map(operand).collect::<Result<_, _>>()?;
            let order = match order {
                Order::Keys(keys) => {
                    let key = |key: &kiln_ir::form::SortKey| Key {
                        operand: key.operand as u32,
                        descending: key.descending,
                    };
                    Ordering::Keys(keys.iter().map(key).collect())
                }
                Order::Function(function) => inlined(&function, shape[axis] as u64)?,
            };
            (axis, shape[axis], sorted, order)
        }
        Form::TopK { k } => {
            let values = Sorted { from: argument(operands[0])?, to: to(0) };
            let indices = Sorted { from: Source::Position(DType::I32), to: to(1) };
            let key = Key { operand: 0, descending: true };
            (shape.rank() - 1, k, vec![values, indices], Ordering::Keys(vec![key]))
        }
        _ => return Err(LowerError::form(graph, node)),
    };
    let product = |extents: &[usize]| extents.iter().map(|&d| d as u64).product();
    let (operands, order) = wanted(sorted, order);
    let sort = Sort {
        outer: product(&shape[..axis]),
        length: shape[axis] as u64,
        inner: product(&shape[axis + 1..]),
        take: take as u64,
        operands,
        order,
    };
    Ok(buffers.lowered(&name(graph, &group.members), vec![Body::Sort(sort)]))
}

/// Without operands that are neither compared nor wanted.
fn wanted(operands: Vec<Sorted>, order: Ordering) -> (Vec<Sorted>, Ordering) {
    let Ordering::Keys(keys) = order else { return (operands, order) };
    let compared = |k: usize| keys.iter().any(|key| key.operand as usize == k);
    let kept: Vec<usize> =
        (0..operands.len()).filter(|&k| operands[k].to.is_some() || compared(k)).collect();
    let number = |old: u32| kept.iter().position(|&k| k as u32 == old).expect("keys are kept");
    let keys = keys.iter().map(|key| Key { operand: number(key.operand) as u32, ..*key });
    let keys = Ordering::Keys(keys.collect());
    (kept.iter().map(|&k| operands[k]).collect(), keys)
}

/// A graph of scalars as expressions of the elements at two places.
fn inlined(function: &Graph, length: u64) -> Result<Ordering, LowerError> {
    let extents = Extents { points: vec![length; 2], inner: 1, ..Extents::default() };
    let computed = |&node: &NodeId| !matches!(function.op(node), Op::Parameter(_));
    let members: Vec<NodeId> = function.order().into_iter().filter(computed).collect();
    let mut evaluator = Evaluator::new(function, &members, &[], extents);
    let scalar = evaluator.map(Vec::new());
    for (i, parameter) in function.parameters().enumerate() {
        let place = Axis::Point(i as u32 % 2);
        let load = Expr::Load { argument: i as u32 / 2, index: Index::axis(place), valid: None };
        let load = evaluator.exprs.add(load, function.ty(parameter).dtype);
        evaluator.give(parameter, scalar, load);
    }
    let before = evaluator.value(function.outputs()[0], scalar)?;
    Ok(Ordering::Function { exprs: evaluator.exprs, before })
}
