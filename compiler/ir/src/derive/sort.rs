//! Derivatives and batches of sorts.
//!
//! Sorting moves elements, so tangents move along as operands that are not compared, and
//! cotangents move back. Where each element came from is the position that it carries:
//!
//! ```text
//! y, at = sort x, iota          at[i] is the place in x of y[i]
//! _, dx = sort at, dy           back in the order of x
//! ```
//!
//! Where elements are equal the order is that of the values as they are: the derivative of
//! the permutation that was taken, which at a tie is one of several.

use std::sync::Arc;

use smallvec::smallvec;

use super::{Batch, Derived, Results, Rule};
use crate::op::{
    Comparator, Gather, GatherDims, GatherMode, Iota, OptimizationBarrier, Scatter, ScatterDims,
    ScatterKind, ScatterMode, Sort, SortBy, TopK,
};
use crate::{DType, Graph, ParameterInfo, Type, Value};

impl SortBy {
    /// The same order of more operands, which it does not look at.
    fn carrying(&self, more: &[Type]) -> SortBy {
        let SortBy::Function(Comparator(graph)) = self else { return self.clone() };
        let mut graph = Graph::clone(graph);
        for ty in more {
            for _ in 0..2 {
                graph.add_parameter(Type::scalar(ty.dtype), ParameterInfo::default());
            }
        }
        SortBy::Function(Comparator(Arc::new(graph)))
    }
}

/// What the sort does to more operands.
fn carry(op: &Sort, rule: &mut Rule<'_>, more: &[Value]) -> Vec<Value> {
    let types: Vec<Type> = more.iter().map(|&v| rule.ty(v)).collect();
    let sort = Sort { axis: op.axis, by: op.by.carrying(&types) };
    let operands = [rule.operands, more].concat();
    let node = rule.node(sort, &operands);
    let first = rule.operands.len();
    (0..more.len()).map(|i| Value { node, result: (first + i) as u32 }).collect()
}

pub(crate) fn sort_jvp(op: &Sort, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Derived {
    let given: Vec<Value> = tangents.iter().flatten().copied().collect();
    let mut moved = carry(op, rule, &given).into_iter();
    tangents.iter().map(|t| t.and_then(|_| moved.next())).collect()
}

pub(crate) fn sort_vjp(op: &Sort, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Derived {
    let shape = rule.ty(rule.operands[0]).shape;
    let positions = Iota { ty: Type { dtype: DType::I64, shape }, axis: op.axis };
    let positions = rule.add(positions, &[]);
    let came_from = carry(op, rule, &[positions])[0];
    let given = cotangents.iter().flatten().copied();
    let operands: Vec<Value> = std::iter::once(came_from).chain(given).collect();
    let node = rule.node(Sort { axis: op.axis, by: SortBy::first() }, &operands);
    let mut back = (1..).map(|result| Value { node, result });
    cotangents.iter().map(|ct| ct.and_then(|_| back.next())).collect()
}

pub(crate) fn sort_vmap(op: &Sort, rule: &mut Rule<'_>, batch: Batch<'_>) -> Results {
    let operands = batch.all(rule);
    let node = rule.node(Sort { axis: op.axis + 1, by: op.by.clone() }, &operands);
    (0..operands.len()).map(|i| Value { node, result: i as u32 }).collect()
}

/// One element of each row for each index into the rows.
fn along_last(rank: usize) -> GatherDims {
    let batch: Vec<usize> = (0..rank - 1).collect();
    GatherDims {
        offset_dims: vec![],
        collapsed_slice_dims: vec![rank - 1],
        operand_batching_dims: batch.clone(),
        start_indices_batching_dims: batch,
        start_index_map: vec![rank - 1],
        index_vector_dim: rank,
    }
}

/// The tangents of the elements that were taken.
pub(crate) fn top_k_jvp(rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Derived {
    let Some(tangent) = tangents[0] else { return smallvec![None, None] };
    if rule.ty(rule.results[0]).elements() == 0 {
        return smallvec![None, None];
    }
    let rank = rule.ty(tangent).shape.rank();
    let gather = Gather {
        dims: along_last(rank),
        slice_sizes: vec![1; rank],
        mode: GatherMode::Clip,
        unique_indices: true,
        indices_are_sorted: false,
    };
    smallvec![Some(rule.add(gather, &[tangent, rule.results[1]])), None]
}

/// Each cotangent where its element was taken, and zero elsewhere.
pub(crate) fn top_k_vjp(rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Derived {
    let Some(ct) = cotangents[0] else { return smallvec![None] };
    if rule.ty(ct).elements() == 0 {
        return smallvec![None];
    }
    let zeros = rule.zeros(rule.operands[0]);
    let scatter = Scatter {
        kind: ScatterKind::Set,
        dims: ScatterDims::of_gather(&along_last(rule.ty(ct).shape.rank())),
        mode: ScatterMode::Drop,
        unique_indices: true,
        indices_are_sorted: false,
    };
    smallvec![Some(rule.add(scatter, &[zeros, rule.results[1], ct]))]
}

pub(crate) fn top_k_vmap(op: TopK, rule: &mut Rule<'_>) -> Results {
    let node = rule.node(op, &[rule.operands[0]]);
    smallvec![Value { node, result: 0 }, Value { node, result: 1 }]
}

/// Derivatives behind a barrier stay behind one, and those before it before.
pub(crate) fn barrier(rule: &mut Rule<'_>, derived: &[Option<Value>]) -> Derived {
    let given: Vec<Value> = derived.iter().flatten().copied().collect();
    let node = rule.node(OptimizationBarrier, &given);
    let mut passed = (0..).map(|result| Value { node, result });
    derived.iter().map(|d| d.and_then(|_| passed.next())).collect()
}

pub(crate) fn barrier_vmap(rule: &mut Rule<'_>, batch: Batch<'_>) -> Results {
    let operands = batch.all(rule);
    let node = rule.node(OptimizationBarrier, &operands);
    (0..operands.len()).map(|i| Value { node, result: i as u32 }).collect()
}
