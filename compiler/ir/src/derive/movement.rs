//! Derivatives of views, and of boxes at run-time starts.
//!
//! All are linear in the values they move, so a tangent moves as the value does, and a
//! cotangent goes back to where each element came from; where several results came from
//! one element, or from none, it is summed, or zero.

use smallvec::smallvec;

use super::{Derived, Rule};
use crate::Value;
use crate::op::{
    Broadcast, Concatenate, DynamicSlice, DynamicUpdateSlice, Pad, Reshape, Reverse, Slice,
    Transpose,
};

/// The tangent of a view of operand 0 alone: the same view of its tangent.
pub(crate) fn same(
    op: impl Into<crate::Op>,
    rule: &mut Rule<'_>,
    tangents: &[Option<Value>],
) -> Derived {
    let rest = rule.operands[1..].to_vec();
    let moved = tangents[0].map(|t| {
        let operands: Vec<Value> = std::iter::once(t).chain(rest).collect();
        rule.add(op, &operands)
    });
    smallvec![moved]
}

/// The tangent of a view of several operands: the same of their tangents, if one is not
/// zero. `moved` says of how many operands elements are moved.
pub(crate) fn same_of_all(
    op: impl Into<crate::Op>,
    rule: &mut Rule<'_>,
    tangents: &[Option<Value>],
    moved: usize,
) -> Derived {
    if tangents[..moved].iter().all(Option::is_none) {
        return smallvec![None];
    }
    let operands: Vec<Value> = (0..rule.operands.len())
        .map(|i| match i < moved {
            true => rule.or_zeros(tangents[i], rule.operands[i]),
            false => rule.operands[i],
        })
        .collect();
    smallvec![Some(rule.add(op, &operands))]
}

pub(crate) fn broadcast(op: &Broadcast, rule: &mut Rule<'_>, ct: Value) -> Derived {
    let x = rule.ty(rule.operands[0]);
    let stretched = |axis: usize| match op.axes.iter().position(|&a| a == axis) {
        Some(k) => x.shape[k] == 1 && op.shape[axis] != 1,
        None => true,
    };
    let sum = rule.sum(ct, (0..op.shape.rank()).filter(|&a| stretched(a)).collect());
    // Axes of extent 1 that were stretched are back as such.
    let back = if rule.ty(sum).shape == x.shape {
        sum
    } else {
        rule.add(Reshape { shape: x.shape }, &[sum])
    };
    smallvec![Some(back)]
}

pub(crate) fn reshape(rule: &mut Rule<'_>, ct: Value) -> Derived {
    let shape = rule.ty(rule.operands[0]).shape;
    smallvec![Some(rule.add(Reshape { shape }, &[ct]))]
}

pub(crate) fn transpose(op: &Transpose, rule: &mut Rule<'_>, ct: Value) -> Derived {
    let mut permutation = vec![0; op.permutation.len()];
    for (k, &axis) in op.permutation.iter().enumerate() {
        permutation[axis] = k;
    }
    smallvec![Some(rule.add(Transpose { permutation }, &[ct]))]
}

pub(crate) fn reverse(op: &Reverse, rule: &mut Rule<'_>, ct: Value) -> Derived {
    smallvec![Some(rule.add(op.clone(), &[ct]))]
}

pub(crate) fn slice(op: &Slice, rule: &mut Rule<'_>, ct: Value) -> Derived {
    let (x, y) = (rule.ty(rule.operands[0]), rule.ty(ct));
    let interior: Vec<usize> = op.stride.iter().map(|&s| s - 1).collect();
    let low: Vec<i64> = op.start.iter().map(|&s| s as i64).collect();
    let high = (0..x.shape.rank()).map(|k| {
        let spread = y.shape[k] + y.shape[k].saturating_sub(1) * interior[k];
        x.shape[k] as i64 - low[k] - spread as i64
    });
    let pad = Pad { high: high.collect(), low, interior };
    let zero = zero(rule, ct);
    smallvec![Some(rule.add(pad, &[ct, zero]))]
}

pub(crate) fn pad(op: &Pad, rule: &mut Rule<'_>, ct: Value) -> Derived {
    let (x, y) = (rule.ty(rule.operands[0]), rule.ty(ct));
    let rank = x.shape.rank();
    // Cut off what was added, add zeros for what was cut off, then take every so manieth.
    let cut = Pad {
        low: op.low.iter().map(|&l| -l).collect(),
        high: op.high.iter().map(|&h| -h).collect(),
        interior: vec![0; rank],
    };
    let nothing = zero(rule, ct);
    let spread = rule.add(cut, &[ct, nothing]);
    let stride: Vec<usize> = op.interior.iter().map(|&i| i + 1).collect();
    let limit = rule.ty(spread).shape.to_vec();
    let own = match stride.iter().all(|&s| s == 1) {
        true => spread,
        false => rule.add(Slice { start: vec![0; rank], limit, stride }, &[spread]),
    };
    // The padding gets what is left.
    let all = rule.sum(ct, (0..y.shape.rank()).collect());
    let of_own = rule.sum(own, (0..rank).collect());
    let padding = rule.sub(all, of_own);
    smallvec![Some(own), Some(padding)]
}

pub(crate) fn concatenate(op: &Concatenate, rule: &mut Rule<'_>, ct: Value) -> Derived {
    let shape = rule.ty(ct).shape;
    let mut start = 0;
    let operands = rule.operands.to_vec();
    let parts = operands.into_iter().map(|operand| {
        let extent = rule.ty(operand).shape[op.axis];
        let mut part = Slice {
            start: vec![0; shape.rank()],
            limit: shape.to_vec(),
            stride: vec![1; shape.rank()],
        };
        (part.start[op.axis], part.limit[op.axis]) = (start, start + extent);
        start += extent;
        Some(rule.add(part, &[ct]))
    });
    parts.collect()
}

pub(crate) fn dynamic_slice(rule: &mut Rule<'_>, ct: Value) -> Derived {
    let mut cotangents: Derived = smallvec![None; rule.operands.len()];
    let base = rule.zeros(rule.operands[0]);
    let operands: Vec<Value> =
        [base, ct].into_iter().chain(rule.operands[1..].iter().copied()).collect();
    cotangents[0] = Some(rule.add(DynamicUpdateSlice, &operands));
    cotangents
}

pub(crate) fn dynamic_update_slice(rule: &mut Rule<'_>, ct: Value) -> Derived {
    let mut cotangents: Derived = smallvec![None; rule.operands.len()];
    let update = rule.ty(rule.operands[1]);
    let starts = rule.operands[2..].to_vec();
    let nothing = rule.zeros(rule.operands[1]);
    let kept: Vec<Value> = [ct, nothing].into_iter().chain(starts.iter().copied()).collect();
    cotangents[0] = Some(rule.add(DynamicUpdateSlice, &kept));
    let taken: Vec<Value> = std::iter::once(ct).chain(starts).collect();
    cotangents[1] = Some(rule.add(DynamicSlice { sizes: update.shape.to_vec() }, &taken));
    cotangents
}

/// The rank-0 zero of a value's element type.
fn zero(rule: &mut Rule<'_>, like: Value) -> Value {
    let dtype = rule.ty(like).dtype;
    let value = crate::Literal::scalar(crate::Scalar::zero(dtype));
    rule.add(crate::op::Constant { value }, &[])
}
