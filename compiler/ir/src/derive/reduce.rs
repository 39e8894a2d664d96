//! Derivatives of reductions.
//!
//! Sums are linear. The derivative of an extreme goes to the elements that are equal to it,
//! in equal parts. That of a product goes to each element times the product of the others,
//! which is taken without dividing by a zero.

use smallvec::smallvec;

use super::{Derived, Rule};
use crate::op::{Binary, Compare, Convert, Reduce, ReduceKind};
use crate::{DType, Type, Value};

/// The axes of the operand that the reduction keeps.
fn kept(op: &Reduce, ty: &Type) -> Vec<usize> {
    (0..ty.shape.rank()).filter(|axis| !op.axes.contains(axis)).collect()
}

pub(crate) fn jvp(op: &Reduce, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Derived {
    let Some(tangent) = tangents[0] else { return smallvec![None] };
    match op.kind {
        ReduceKind::Sum => smallvec![Some(rule.sum(tangent, op.axes.clone()))],
        _ => match slope(op, rule) {
            Some(slope) => {
                let parts = rule.mul(tangent, slope);
                smallvec![Some(rule.sum(parts, op.axes.clone()))]
            }
            None => smallvec![None],
        },
    }
}

pub(crate) fn vjp(op: &Reduce, rule: &mut Rule<'_>, ct: Value) -> Derived {
    let ty = rule.ty(rule.operands[0]);
    let axes = kept(op, &ty);
    let spread = rule.spread(ct, &axes, &ty);
    match op.kind {
        ReduceKind::Sum => smallvec![Some(spread)],
        _ => smallvec![slope(op, rule).map(|slope| rule.mul(spread, slope))],
    }
}

/// The derivative of the result by each element, in the operand's shape.
fn slope(op: &Reduce, rule: &mut Rule<'_>) -> Option<Value> {
    match op.kind {
        ReduceKind::Min | ReduceKind::Max => Some(share_of_extreme(op, rule)),
        ReduceKind::Prod => Some(product_of_others(op, rule)),
        ReduceKind::Sum => unreachable!("sums are linear"),
        ReduceKind::And | ReduceKind::Or | ReduceKind::Xor => None,
    }
}

/// One over the number of elements equal to the extreme, at each of them.
fn share_of_extreme(op: &Reduce, rule: &mut Rule<'_>) -> Value {
    let (x, y) = (rule.operands[0], rule.results[0]);
    let ty = rule.ty(x);
    let axes = kept(op, &ty);
    let extreme = rule.spread(y, &axes, &ty);
    let equal = rule.compare(Compare::Eq, x, extreme);
    // Counted in f32 at least: a half type cannot count a long row.
    let wide = ty.with_dtype(ty.dtype.accumulator());
    let hits = rule.add(Convert { to: wide.dtype }, &[equal]);
    let count = rule.sum(hits, op.axes.clone());
    let count = rule.spread(count, &axes, &wide);
    let share = rule.div(hits, count);
    rule.convert_like(share, x)
}

/// At each element the product of all others of its row.
///
/// With no zero in the row that is the product over the element; with one zero it is the
/// product of the others at the zero and 0 elsewhere; with more it is 0.
fn product_of_others(op: &Reduce, rule: &mut Rule<'_>) -> Value {
    let x = rule.operands[0];
    let ty = rule.ty(x);
    let axes = kept(op, &ty);
    let zero = rule.compare_number(Compare::Eq, x, 0.0);
    let one = rule.number(1.0, x);
    let others = rule.select(zero, one, x);
    let product = rule.add(Reduce { kind: ReduceKind::Prod, axes: op.axes.clone() }, &[others]);
    let product = rule.spread(product, &axes, &ty);
    let quotient = rule.div(product, others);

    let counted = rule.add(Convert { to: DType::I32 }, &[zero]);
    let zeros = rule.sum(counted, op.axes.clone());
    let zeros = rule.spread(zeros, &axes, &ty.with_dtype(DType::I32));
    let none = rule.compare_number(Compare::Eq, zeros, 0.0);
    let one = rule.compare_number(Compare::Eq, zeros, 1.0);
    let only = rule.binary(Binary::And, one, zero);
    let at_zero = rule.select_or_zero(only, product);
    rule.select(none, quotient, at_zero)
}
