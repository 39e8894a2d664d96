//! Every op over a batch.
//!
//! A rule is given operands of which some have one more axis, the first, and adds nodes that
//! apply the op to each entry of the batch. Every result is batched. (A node none of whose
//! operands is batched has no use for a rule: it stays as it is.)

use smallvec::{SmallVec, smallvec};

use super::{NoRule, Rule, indexed};
use crate::op::{
    ArgReduce, Broadcast, Concatenate, Cumulative, DotDims, DotGeneral, DynamicSlice,
    DynamicUpdateSlice, Pad, Reduce, ReduceBy, ReduceWindow, Reshape, Reverse, Slice, Transpose,
    WindowCombine,
};
use crate::{Literal, NodeId, Op, Scalar, Value};

/// The results, all batched.
pub type Results = SmallVec<[Value; 1]>;

/// What a batching rule knows beside the node.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Which operands are batched: at least one.
    pub operands: &'a [bool],
    /// The extent of the batch.
    pub size: usize,
}

impl Batch<'_> {
    /// Operand `i`, batched: repeated if it is not.
    pub(super) fn operand(&self, rule: &mut Rule<'_>, i: usize) -> Value {
        let value = rule.operands[i];
        if self.operands[i] { value } else { self.repeat(rule, value) }
    }

    /// The same value at each entry.
    fn repeat(&self, rule: &mut Rule<'_>, value: Value) -> Value {
        let shape = rule.ty(value).shape;
        let axes = (1..=shape.rank()).collect();
        let batched = std::iter::once(self.size).chain(shape.iter().copied());
        rule.add(Broadcast { shape: batched.collect(), axes }, &[value])
    }

    pub(crate) fn all(&self, rule: &mut Rule<'_>) -> Vec<Value> {
        (0..rule.operands.len()).map(|i| self.operand(rule, i)).collect()
    }
}

fn shifted(axes: &[usize]) -> Vec<usize> {
    axes.iter().map(|axis| axis + 1).collect()
}

fn with_first<T: Copy>(first: T, rest: &[T]) -> Vec<T> {
    std::iter::once(first).chain(rest.iter().copied()).collect()
}

/// Elementwise functions: the same function of batched operands.
pub(crate) fn elementwise(op: impl Into<Op>, rule: &mut Rule<'_>, batch: Batch<'_>) -> Results {
    let operands = batch.all(rule);
    smallvec![rule.add(op, &operands)]
}

pub(crate) fn broadcast(op: &Broadcast, rule: &mut Rule<'_>, batch: Batch<'_>) -> Results {
    let shape = with_first(batch.size, &op.shape).into();
    let op = Broadcast { shape, axes: with_first(0, &shifted(&op.axes)) };
    smallvec![rule.add(op, &[rule.operands[0]])]
}

pub(crate) fn reshape(op: &Reshape, rule: &mut Rule<'_>, batch: Batch<'_>) -> Results {
    let shape = with_first(batch.size, &op.shape).into();
    smallvec![rule.add(Reshape { shape }, &[rule.operands[0]])]
}

pub(crate) fn transpose(op: &Transpose, rule: &mut Rule<'_>) -> Results {
    let permutation = with_first(0, &shifted(&op.permutation));
    smallvec![rule.add(Transpose { permutation }, &[rule.operands[0]])]
}

pub(crate) fn reverse(op: &Reverse, rule: &mut Rule<'_>) -> Results {
    smallvec![rule.add(Reverse { axes: shifted(&op.axes) }, &[rule.operands[0]])]
}

pub(crate) fn slice(op: &Slice, rule: &mut Rule<'_>, batch: Batch<'_>) -> Results {
    let op = Slice {
        start: with_first(0, &op.start),
        limit: with_first(batch.size, &op.limit),
        stride: with_first(1, &op.stride),
    };
    smallvec![rule.add(op, &[rule.operands[0]])]
}

pub(crate) fn pad(op: &Pad, rule: &mut Rule<'_>, batch: Batch<'_>) -> Results {
    let x = batch.operand(rule, 0);
    let padding = rule.operands[1];
    let wider = Pad {
        low: with_first(0, &op.low),
        high: with_first(0, &op.high),
        interior: with_first(0, &op.interior),
    };
    if !batch.operands[1] {
        return smallvec![rule.add(wider, &[x, padding])];
    }
    // Another padding at each entry: chosen wherever a mask, padded alike, is false.
    let inside = constant(rule, Scalar::bool(true));
    let mask_ty = rule.ty(x).with_dtype(crate::DType::Bool);
    let inside = rule.spread(inside, &[], &mask_ty);
    let outside = constant(rule, Scalar::bool(false));
    let mask = rule.add(wider.clone(), &[inside, outside]);
    let zero = constant(rule, Scalar::zero(rule.ty(x).dtype));
    let padded = rule.add(wider, &[x, zero]);
    let padding = rule.spread(padding, &[0], &rule.ty(padded));
    smallvec![rule.select(mask, padded, padding)]
}

pub(crate) fn concatenate(op: &Concatenate, rule: &mut Rule<'_>, batch: Batch<'_>) -> Results {
    let operands = batch.all(rule);
    smallvec![rule.add(Concatenate { axis: op.axis + 1 }, &operands)]
}

pub(crate) fn reduce(op: &Reduce, rule: &mut Rule<'_>) -> Results {
    let op = Reduce { kind: op.kind, axes: shifted(&op.axes) };
    smallvec![rule.add(op, &[rule.operands[0]])]
}

pub(crate) fn arg_reduce(op: &ArgReduce, rule: &mut Rule<'_>) -> Results {
    let op = ArgReduce { axis: op.axis + 1, ..op.clone() };
    smallvec![rule.add(op, &[rule.operands[0]])]
}

pub(crate) fn cumulative(op: &Cumulative, rule: &mut Rule<'_>) -> Results {
    let op = Cumulative { axis: op.axis + 1, ..op.clone() };
    smallvec![rule.add(op, &[rule.operands[0]])]
}

pub(crate) fn reduce_by(
    op: &ReduceBy,
    rule: &mut Rule<'_>,
    batch: Batch<'_>,
) -> Result<Results, NoRule> {
    let arrays = rule.operands.len() / 2;
    let operands = folded("reduce", rule, batch, arrays)?;
    let op = ReduceBy { body: op.body.clone(), axes: shifted(&op.axes) };
    Ok(results(rule.node(op, &operands), arrays))
}

pub(crate) fn reduce_window(
    op: &ReduceWindow,
    rule: &mut Rule<'_>,
    batch: Batch<'_>,
) -> Result<Results, NoRule> {
    let arrays = match op.combine {
        WindowCombine::Kind(_) => 1,
        WindowCombine::Body(_) => rule.operands.len() / 2,
    };
    let operands = folded("reduce_window", rule, batch, arrays)?;
    let mut op = op.clone();
    let window = &mut op.window;
    for list in [
        &mut window.size,
        &mut window.stride,
        &mut window.base_dilation,
        &mut window.window_dilation,
    ] {
        list.insert(0, 1);
    }
    window.padding.insert(0, (0, 0));
    Ok(results(rule.node(op, &operands), arrays))
}

/// The operands of a fold of `arrays` arrays, which come first and are batched.
fn folded(
    op: &'static str,
    rule: &mut Rule<'_>,
    batch: Batch<'_>,
    arrays: usize,
) -> Result<Vec<Value>, NoRule> {
    if batch.operands[arrays..].contains(&true) {
        let reason = "initial values that differ along the batch have no rule: combine them after";
        return Err(NoRule::new(op, reason));
    }
    let inits = rule.operands[arrays..].to_vec();
    Ok((0..arrays).map(|i| batch.operand(rule, i)).chain(inits).collect())
}

fn results(node: NodeId, count: usize) -> Results {
    (0..count as u32).map(|result| Value { node, result }).collect()
}

/// Both operands batched: one more batch axis. One: its batch is a free axis, which the
/// result has behind the batch axes, or behind the left operand's free axes.
pub(crate) fn dot_general(op: &DotGeneral, rule: &mut Rule<'_>, batch: Batch<'_>) -> Results {
    let DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract } = &op.dims;
    let [lhs, rhs] = [0, 1].map(|i| rule.operands[i]);
    let moved = |axes: &Vec<usize>, i: usize| match batch.operands[i] {
        true => shifted(axes),
        false => axes.clone(),
    };
    let mut dims = DotDims {
        lhs_batch: moved(lhs_batch, 0),
        rhs_batch: moved(rhs_batch, 1),
        lhs_contract: moved(lhs_contract, 0),
        rhs_contract: moved(rhs_contract, 1),
    };
    if batch.operands == [true, true] {
        dims.lhs_batch.insert(0, 0);
        dims.rhs_batch.insert(0, 0);
        return smallvec![rule.add(DotGeneral { dims, dtype: op.dtype }, &[lhs, rhs])];
    }
    let at = match batch.operands[0] {
        true => lhs_batch.len(),
        false => {
            let rank = rule.ty(lhs).shape.rank();
            lhs_batch.len() + DotDims::free(rank, lhs_batch, lhs_contract).len()
        }
    };
    let product = rule.add(DotGeneral { dims, dtype: op.dtype }, &[lhs, rhs]);
    let mut permutation: Vec<usize> = (0..rule.ty(product).shape.rank()).collect();
    permutation.remove(at);
    permutation.insert(0, at);
    let in_order = at == 0;
    smallvec![if in_order { product } else { rule.add(Transpose { permutation }, &[product]) }]
}

/// A box at one start for all entries is a box with the whole batch; at several it is a
/// gather of windows.
pub(crate) fn dynamic_slice(
    op: &DynamicSlice,
    rule: &mut Rule<'_>,
    batch: Batch<'_>,
) -> Result<Results, NoRule> {
    if batch.operands[1..].contains(&true) {
        return Ok(indexed::dynamic_slice(op, rule, batch));
    }
    let sizes = with_first(batch.size, &op.sizes);
    let operands = with_start(rule, &[rule.operands[0]], 1);
    Ok(smallvec![rule.add(DynamicSlice { sizes }, &operands)])
}

pub(crate) fn dynamic_update_slice(
    rule: &mut Rule<'_>,
    batch: Batch<'_>,
) -> Result<Results, NoRule> {
    if batch.operands[2..].contains(&true) {
        return Ok(indexed::dynamic_update_slice(rule, batch));
    }
    let updated = [batch.operand(rule, 0), batch.operand(rule, 1)];
    let operands = with_start(rule, &updated, 2);
    Ok(smallvec![rule.add(DynamicUpdateSlice, &operands)])
}

/// Batched operands, then a start of 0 for the batch's axis, then the starts.
fn with_start(rule: &mut Rule<'_>, batched: &[Value], first: usize) -> Vec<Value> {
    let starts = rule.operands[first..].to_vec();
    let dtype = starts.first().map_or(crate::DType::I32, |&s| rule.ty(s).dtype);
    let zero = constant(rule, Scalar::zero(dtype));
    batched.iter().copied().chain([zero]).chain(starts).collect()
}

fn constant(rule: &mut Rule<'_>, value: Scalar) -> Value {
    rule.add(crate::op::Constant { value: Literal::scalar(value) }, &[])
}
