//! Rules for ops that move elements.
//!
//! All of them are identities between index maps: no element is computed on, so they
//! hold for every element type. Each map is written out beside its rule.

use kiln_ir::op::{Broadcast, Concatenate, Reshape, Reverse, Slice, Transpose};
use kiln_ir::{Graph, Op, Shape, Value};

use super::{Rule, Site, Term, new};

pub(super) const BROADCAST: &[Rule] = &[
    ("broadcast.none", broadcast_none),
    ("broadcast.twice", broadcast_twice),
    ("broadcast.reshape", broadcast_of_reshape),
    ("broadcast.units", broadcast_units),
];

pub(super) const RESHAPE: &[Rule] =
    &[("reshape.none", unchanged), ("reshape.twice", reshape_twice), SPLAT];

pub(super) const TRANSPOSE: &[Rule] = &[
    ("transpose.none", transpose_none),
    ("transpose.twice", transpose_twice),
    ("transpose.units", transpose_units),
    SPLAT,
];

pub(super) const REVERSE: &[Rule] = &[
    ("reverse.none", reverse_none),
    ("reverse.twice", reverse_twice),
    ("reverse.cumulative", super::loops::reverse_of_cumulative),
    SPLAT,
];

pub(super) const SLICE: &[Rule] = &[
    ("slice.full", unchanged),
    ("slice.twice", slice_twice),
    ("slice.broadcast", slice_of_broadcast),
    ("slice.concatenate", slice_of_concatenate),
    SPLAT,
];

pub(super) const PAD: &[Rule] = &[("pad.none", pad_none), ("pad.crop", pad_crop)];

pub(super) const CONCATENATE: &[Rule] = &[
    ("concatenate.one", concatenate_one),
    ("concatenate.empty", concatenate_empty),
    ("concatenate.nested", concatenate_nested),
];

const SPLAT: Rule = ("view.splat", of_splat);

/// Most operands that flattening concatenations makes.
const JOINED: usize = 64;

/// The operand, when shapes say that nothing moves: a reshape to the same shape, a
/// slice of everything.
fn unchanged(site: &Site) -> Option<Term> {
    (site.graph.ty(site.operands[0]) == site.ty()).then(|| site.operands[0].into())
}

/// A rearrangement of equal elements: the scalar spread to the result's shape.
fn of_splat(site: &Site) -> Option<Term> {
    let maker = site.maker(0);
    let Op::Broadcast(_) = maker.op() else { return None };
    if site.graph.ty(maker.operands[0]).shape.rank() != 0 {
        return None;
    }
    Some(new(Broadcast { shape: site.shape().clone(), axes: vec![] }, [maker.operands[0]]))
}

fn broadcast_none(site: &Site) -> Option<Term> {
    // Axes increase, so with as many they are all in place.
    unchanged(site)
}

/// `result[i] = mid[i[outer]] = x[i[outer[inner]]]`.
fn broadcast_twice(site: &Site) -> Option<Term> {
    let Op::Broadcast(outer) = site.op() else { return None };
    let maker = site.maker(0);
    let Op::Broadcast(inner) = maker.op() else { return None };
    let axes = inner.axes.iter().map(|&a| outer.axes[a]).collect();
    Some(new(Broadcast { shape: outer.shape.clone(), axes }, [maker.operands[0]]))
}

/// Axes of extent above 1, with their extents.
fn long(shape: &Shape) -> Vec<(usize, usize)> {
    shape.iter().copied().enumerate().filter(|&(_, d)| d != 1).collect()
}

/// A reshape that only adds or removes axes of extent 1 before a broadcast: the
/// broadcast's axes say the same. Axes of extent 1 of `x` have no place among the
/// result's axes, so `x` must have none, or lose them in a reshape of its own.
fn broadcast_of_reshape(site: &Site) -> Option<Term> {
    let Op::Broadcast(outer) = site.op() else { return None };
    let maker = site.maker(0);
    let Op::Reshape(_) = maker.op() else { return None };
    let x = maker.operands[0];
    let (from, mid) = (&site.graph.ty(x).shape, maker.shape());
    let extents = |s| -> Vec<usize> { long(s).into_iter().map(|(_, d)| d).collect() };
    if extents(from) != extents(mid) || from.contains(&1) || from.rank() >= mid.rank() {
        return None;
    }
    let axes = long(mid).into_iter().map(|(k, _)| outer.axes[k]).collect();
    Some(new(Broadcast { shape: outer.shape.clone(), axes }, [x]))
}

/// A broadcast that repeats nothing only adds axes of extent 1.
fn broadcast_units(site: &Site) -> Option<Term> {
    let from = site.graph.ty(site.operands[0]);
    let same = from.elements() == site.ty().elements() && from.elements() > 0;
    same.then(|| new(Reshape { shape: site.shape().clone() }, [site.operands[0]]))
}

fn reshape_twice(site: &Site) -> Option<Term> {
    let maker = site.maker(0);
    let Op::Reshape(_) = maker.op() else { return None };
    Some(new(Reshape { shape: site.shape().clone() }, [maker.operands[0]]))
}

fn permutation<'g>(site: &Site<'g>) -> Option<&'g [usize]> {
    match site.op() {
        Op::Transpose(t) => Some(&t.permutation),
        _ => None,
    }
}

fn transpose_none(site: &Site) -> Option<Term> {
    let still = permutation(site)?.is_sorted();
    still.then(|| site.operands[0].into())
}

/// Result axis `k` is middle axis `outer[k]`, which is axis `inner[outer[k]]` of `x`.
fn transpose_twice(site: &Site) -> Option<Term> {
    let outer = permutation(site)?;
    let maker = site.maker(0);
    let inner = permutation(&maker)?;
    let permutation = outer.iter().map(|&k| inner[k]).collect();
    Some(new(Transpose { permutation }, [maker.operands[0]]))
}

/// A transpose that moves only axes of extent 1 moves no element.
fn transpose_units(site: &Site) -> Option<Term> {
    let from = &site.graph.ty(site.operands[0]).shape;
    let moved: Vec<usize> = permutation(site)?.iter().copied().filter(|&k| from[k] != 1).collect();
    let still = moved.is_sorted();
    still.then(|| new(Reshape { shape: site.shape().clone() }, [site.operands[0]]))
}

fn reversed<'g>(site: &Site<'g>) -> Option<&'g [usize]> {
    match site.op() {
        Op::Reverse(r) => Some(&r.axes),
        _ => None,
    }
}

/// Running an axis of at most one element backwards does nothing.
fn reverse_none(site: &Site) -> Option<Term> {
    let axes = reversed(site)?;
    let kept: Vec<usize> = axes.iter().copied().filter(|&a| site.shape()[a] > 1).collect();
    if kept.is_empty() {
        return Some(site.operands[0].into());
    }
    (kept.len() < axes.len()).then(|| new(Reverse { axes: kept }, [site.operands[0]]))
}

/// An axis that runs backwards twice runs forwards.
fn reverse_twice(site: &Site) -> Option<Term> {
    let outer = reversed(site)?;
    let maker = site.maker(0);
    let inner = reversed(&maker)?;
    let once = |a: &usize| outer.contains(a) != inner.contains(a);
    let axes = (0..site.shape().rank()).filter(once).collect();
    Some(new(Reverse { axes }, [maker.operands[0]]))
}

fn sliced<'g>(site: &Site<'g>) -> Option<&'g Slice> {
    match site.op() {
        Op::Slice(s) => Some(s),
        _ => None,
    }
}

/// A slice of `shape` that starts at `start` in steps of `stride`, with limits that
/// are as low as can be.
fn slice_of(x: Term, shape: &Shape, start: Vec<usize>, stride: Vec<usize>) -> Term {
    let limit = (0..shape.rank())
        .map(|k| match shape[k] {
            0 => start[k],
            n => start[k] + (n - 1) * stride[k] + 1,
        })
        .collect();
    new(Slice { start, limit, stride }, [x])
}

/// `x[s1 + t1 * (s2 + t2 * i)]`: from `s1 + t1 * s2` in steps of `t1 * t2`. Empty
/// results are constants before this is asked, so every index exists.
fn slice_twice(site: &Site) -> Option<Term> {
    let outer = sliced(site)?;
    let maker = site.maker(0);
    let inner = sliced(&maker)?;
    let rank = site.shape().rank();
    let start = (0..rank).map(|k| inner.start[k] + inner.stride[k] * outer.start[k]).collect();
    let stride = (0..rank)
        .map(|k| match site.shape()[k] {
            1 => 1,
            _ => inner.stride[k] * outer.stride[k],
        })
        .collect();
    Some(slice_of(maker.operands[0].into(), site.shape(), start, stride))
}

/// A slice along axes that a broadcast repeats takes fewer repetitions. Declines
/// when it cuts what is repeated.
fn slice_of_broadcast(site: &Site) -> Option<Term> {
    let maker = site.maker(0);
    let Op::Broadcast(broadcast) = maker.op() else { return None };
    let x = maker.operands[0];
    let from = &site.graph.ty(x).shape;
    let whole = |k: usize, a: usize| from[k] == 1 || site.shape()[a] == maker.shape()[a];
    let all = broadcast.axes.iter().enumerate().all(|(k, &a)| whole(k, a));
    let shape = site.shape().clone();
    all.then(|| new(Broadcast { shape, axes: broadcast.axes.clone() }, [x]))
}

/// A slice that lies inside one operand of a concatenation is a slice of that.
fn slice_of_concatenate(site: &Site) -> Option<Term> {
    let slice = sliced(site)?;
    let maker = site.maker(0);
    let Op::Concatenate(Concatenate { axis }) = *maker.op() else { return None };
    let first = slice.start[axis];
    let last = first + (site.shape()[axis].checked_sub(1)?) * slice.stride[axis];
    let mut offset = 0;
    for &x in &maker.operands {
        let extent = site.graph.ty(x).shape[axis];
        if first >= offset && last < offset + extent {
            let mut start = slice.start.clone();
            start[axis] -= offset;
            return Some(slice_of(x.into(), site.shape(), start, slice.stride.clone()));
        }
        offset += extent;
    }
    None
}

fn pad_none(site: &Site) -> Option<Term> {
    let Op::Pad(pad) = site.op() else { return None };
    let from = &site.graph.ty(site.operands[0]).shape;
    let none = (0..from.rank())
        .all(|k| pad.low[k] == 0 && pad.high[k] == 0 && (pad.interior[k] == 0 || from[k] <= 1));
    none.then(|| site.operands[0].into())
}

/// A pad that only cuts is a slice. Where it cuts beyond the operand on one side it
/// must add on the other, so nothing is left to cut from: such a result is empty.
fn pad_crop(site: &Site) -> Option<Term> {
    let Op::Pad(pad) = site.op() else { return None };
    let crop = pad.low.iter().chain(&pad.high).all(|&n| n <= 0);
    if !crop || pad.interior.iter().any(|&n| n != 0) {
        return None;
    }
    let start = pad.low.iter().map(|&n| n.unsigned_abs() as usize).collect();
    let stride = vec![1; pad.low.len()];
    Some(slice_of(site.operands[0].into(), site.shape(), start, stride))
}

fn concatenate_one(site: &Site) -> Option<Term> {
    (site.operands.len() == 1).then(|| site.operands[0].into())
}

fn axis(site: &Site) -> Option<usize> {
    match *site.op() {
        Op::Concatenate(Concatenate { axis }) => Some(axis),
        _ => None,
    }
}

fn extent(graph: &Graph, value: Value, axis: usize) -> usize {
    graph.ty(value).shape[axis]
}

/// Operands without elements add nothing. All of them empty is an empty result.
fn concatenate_empty(site: &Site) -> Option<Term> {
    let axis = axis(site)?;
    let kept: Vec<Value> =
        site.operands.iter().copied().filter(|&x| extent(site.graph, x, axis) > 0).collect();
    let fewer = !kept.is_empty() && kept.len() < site.operands.len();
    fewer.then(|| new(Concatenate { axis }, kept))
}

/// Concatenations of concatenations along one axis are one.
fn concatenate_nested(site: &Site) -> Option<Term> {
    let axis = axis(site)?;
    let mut flat = Vec::new();
    for (k, &x) in site.operands.iter().enumerate() {
        let maker = site.maker(k);
        match maker.op() {
            Op::Concatenate(inner) if inner.axis == axis => flat.extend(maker.operands),
            _ => flat.push(x),
        }
    }
    let longer = flat.len() > site.operands.len() && flat.len() <= JOINED;
    longer.then(|| new(Concatenate { axis }, flat))
}
