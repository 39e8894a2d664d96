//! Rules for reductions, contractions, and slices whose start is known at run time.

use kiln_ir::op::{
    Cumulative, CumulativeKind, DotDims, DotGeneral, Reduce, ReduceKind, Reshape, Window,
    WindowCombine,
};
use kiln_ir::{Op, Scalar, Value};

use super::{Rule, Site, Term, full, new};
use kiln_ir::op::Slice;

pub(super) const REDUCE: &[Rule] =
    &[("reduce.none", reduce_none), ("reduce.units", reduce_units), ("reduce.twice", reduce_twice)];

pub(super) const CUMULATIVE: &[Rule] = &[("cumulative.unit", cumulative_unit)];

pub(super) const WINDOW: &[Rule] = &[("window.identity", window_identity)];

pub(super) const ARG_REDUCE: &[Rule] = &[("arg_reduce.unit", arg_reduce_unit)];

pub(super) const DOT_GENERAL: &[Rule] = &[("dot.transpose", dot_of_transpose)];

pub(super) const DYNAMIC_SLICE: &[Rule] =
    &[("dynamic_slice.full", dynamic_slice_full), ("dynamic_slice.known", dynamic_slice_known)];

pub(super) const DYNAMIC_UPDATE_SLICE: &[Rule] =
    &[("dynamic_update_slice.full", update_full), ("dynamic_update_slice.empty", update_empty)];

pub(super) const SCATTER: &[Rule] = &[("scatter.empty", scatter_empty)];

fn reduce<'g>(site: &Site<'g>) -> Option<&'g Reduce> {
    match site.op() {
        Op::Reduce(r) => Some(r),
        _ => None,
    }
}

fn reduce_none(site: &Site) -> Option<Term> {
    reduce(site)?.axes.is_empty().then(|| site.operands[0].into())
}

/// Along axes of extent 1 there is one element to combine with the identity, which
/// changes nothing, but for a float sum: 0 + −0 is 0.
fn reduce_units(site: &Site) -> Option<Term> {
    let Reduce { kind, axes } = reduce(site)?;
    let shape = &site.graph.ty(site.operands[0]).shape;
    let sum = *kind == ReduceKind::Sum && site.dtype().is_float();
    let units = !axes.is_empty() && axes.iter().all(|&a| shape[a] == 1);
    (units && !sum).then(|| new(Reshape { shape: site.shape().clone() }, [site.operands[0]]))
}

/// A reduction of a reduction of the same kind goes over the axes of both, where the
/// order of combining does not matter: extrema always, the rest for integers.
fn reduce_twice(site: &Site) -> Option<Term> {
    let outer = reduce(site)?;
    let maker = site.maker(0);
    let inner = reduce(&maker)?;
    let free = matches!(outer.kind, ReduceKind::Min | ReduceKind::Max) || !maker.dtype().is_float();
    if outer.kind != inner.kind || !free {
        return None;
    }
    let rank = site.graph.ty(maker.operands[0]).shape.rank();
    let left: Vec<usize> = (0..rank).filter(|a| !inner.axes.contains(a)).collect();
    let mut axes: Vec<usize> = outer.axes.iter().map(|&a| left[a]).collect();
    axes.extend(&inner.axes);
    axes.sort_unstable();
    Some(new(Reduce { kind: outer.kind, axes }, [maker.operands[0]]))
}

/// Along an axis of extent 1 every result is its element, but for a float sum: 0 + −0 is
/// 0. (The logarithm of an exponential is not the exponent, to the bit.)
fn cumulative_unit(site: &Site) -> Option<Term> {
    let Op::Cumulative(c) = site.op() else { return None };
    let sum = c.kind == CumulativeKind::Sum && site.dtype().is_float();
    let exact = !sum && c.kind != CumulativeKind::LogSumExp;
    (exact && site.shape()[c.axis] == 1).then(|| site.operands[0].into())
}

/// Windows of one element at every place are the array, but for a float sum: 0 + −0 is 0.
fn window_identity(site: &Site) -> Option<Term> {
    let Op::ReduceWindow(w) = site.op() else { return None };
    let WindowCombine::Kind(kind) = w.combine else { return None };
    let rank = site.shape().rank();
    let plain = w.window == Window::new(vec![1; rank], vec![1; rank]);
    let sum = kind == ReduceKind::Sum && site.dtype().is_float();
    (plain && !sum).then(|| site.operands[0].into())
}

/// A running result between two reversals of its axis runs the other way.
///
/// Declines when the reversals are of more axes: those would stay.
pub(super) fn reverse_of_cumulative(site: &Site) -> Option<Term> {
    let Op::Reverse(outer) = site.op() else { return None };
    let maker = site.maker(0);
    let Op::Cumulative(c) = maker.op() else { return None };
    let inner = maker.maker(0);
    let Op::Reverse(reverse) = inner.op() else { return None };
    let alone = outer.axes == [c.axis] && reverse.axes == [c.axis];
    let turned = Cumulative { reverse: !c.reverse, ..c.clone() };
    alone.then(|| new(turned, [inner.operands[0]]))
}

/// Among one element the extreme one is the first.
fn arg_reduce_unit(site: &Site) -> Option<Term> {
    let Op::ArgReduce(arg) = site.op() else { return None };
    let unit = site.graph.ty(site.operands[0]).shape[arg.axis] == 1;
    unit.then(|| full(Scalar::zero(site.ty().dtype), site.shape()))
}

/// A contraction takes its operands' axes in any order, so a transpose before it is
/// a renaming of axes. The contracted axes keep their order, and with it the order of
/// the sum. Declines when free axes would come out in another order.
fn dot_of_transpose(site: &Site) -> Option<Term> {
    let Op::DotGeneral(dot) = site.op() else { return None };
    for k in [0, 1] {
        let maker = site.maker(k);
        let Op::Transpose(transpose) = maker.op() else { continue };
        let renamed = |axes: &[usize]| -> Vec<usize> {
            axes.iter().map(|&a| transpose.permutation[a]).collect()
        };
        let mut dims = dot.dims.clone();
        let (batch, contract) = match k {
            0 => (&mut dims.lhs_batch, &mut dims.lhs_contract),
            _ => (&mut dims.rhs_batch, &mut dims.rhs_contract),
        };
        let free = renamed(&DotDims::free(transpose.permutation.len(), batch, contract));
        if !free.is_sorted() {
            continue;
        }
        (*batch, *contract) = (renamed(batch), renamed(contract));
        let mut operands = site.operands.clone();
        operands[k] = maker.operands[0];
        return Some(new(DotGeneral { dims, dtype: dot.dtype }, operands));
    }
    None
}

/// A slice as large as its operand starts at 0, wherever it is asked to.
fn dynamic_slice_full(site: &Site) -> Option<Term> {
    (site.graph.ty(site.operands[0]) == site.ty()).then(|| site.operands[0].into())
}

/// Starts that are constants, clamped as at run time. Two slices with starts known
/// at run time are not merged: each clamps by itself.
fn dynamic_slice_known(site: &Site) -> Option<Term> {
    let shape = &site.graph.ty(site.operands[0]).shape;
    let mut start = Vec::new();
    for (k, &size) in site.shape().iter().enumerate() {
        let given = site.constant(k + 1)?.as_i128()?;
        start.push(given.clamp(0, (shape[k] - size) as i128) as usize);
    }
    let limit = start.iter().zip(site.shape().iter()).map(|(s, n)| s + n).collect();
    let stride = vec![1; start.len()];
    Some(new(Slice { start, limit, stride }, [site.operands[0]]))
}

/// An update as large as the operand replaces all of it.
fn update_full(site: &Site) -> Option<Term> {
    let [base, update]: [Value; 2] = site.operands[..2].try_into().expect("two operands");
    (site.graph.ty(base) == site.graph.ty(update)).then(|| update.into())
}

/// No updates change nothing.
fn scatter_empty(site: &Site) -> Option<Term> {
    let empty = site.graph.ty(site.operands[2]).elements() == 0;
    empty.then(|| site.operands[0].into())
}

fn update_empty(site: &Site) -> Option<Term> {
    let empty = site.graph.ty(site.operands[1]).elements() == 0;
    empty.then(|| site.operands[0].into())
}
