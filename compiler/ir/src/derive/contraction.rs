//! Derivatives of sums of products: two more sums of products.

use smallvec::smallvec;

use super::{Derived, Rule};
use crate::Value;
use crate::op::{DotDims, DotGeneral, Transpose};

pub(crate) fn jvp(op: &DotGeneral, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Derived {
    let (lhs, rhs) = (rule.operands[0], rule.operands[1]);
    let left = tangents[0].map(|t| rule.add(op.clone(), &[t, rhs]));
    let right = tangents[1].map(|t| rule.add(op.clone(), &[lhs, t]));
    smallvec![rule.plus(left, right)]
}

pub(crate) fn vjp(op: &DotGeneral, rule: &mut Rule<'_>, ct: Value) -> Derived {
    smallvec![side(op, rule, ct, true), side(op, rule, ct, false)]
}

/// The cotangent of one operand: the result's times the other operand, summed over the
/// other's free axes, in the operand's order of axes.
fn side(op: &DotGeneral, rule: &mut Rule<'_>, ct: Value, left: bool) -> Option<Value> {
    let DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract } = &op.dims;
    let (own, other) = if left { (0, 1) } else { (1, 0) };
    let (own, other) = (rule.operands[own], rule.operands[other]);
    if !rule.differentiable(own) {
        return None;
    }
    let (own_batch, own_contract, other_batch, other_contract) = match left {
        true => (lhs_batch, lhs_contract, rhs_batch, rhs_contract),
        false => (rhs_batch, rhs_contract, lhs_batch, lhs_contract),
    };
    let own_free = DotDims::free(rule.ty(own).shape.rank(), own_batch, own_contract);
    let other_free = DotDims::free(rule.ty(other).shape.rank(), other_batch, other_contract);
    // The result's axes: batch, then the left's free axes, then the right's.
    let batch: Vec<usize> = (0..own_batch.len()).collect();
    let skipped = batch.len() + if left { own_free.len() } else { 0 };
    let contracted: Vec<usize> = (skipped..skipped + other_free.len()).collect();
    // Both factors in the type that the sum is formed in: the result's.
    let wide_other = rule.convert_like(other, ct);
    // The other operand's contracted axes, in its own order, are the operand's.
    let mut pairs: Vec<(usize, usize)> =
        other_contract.iter().copied().zip(own_contract.iter().copied()).collect();
    pairs.sort_unstable();
    let summed = pairs.into_iter().map(|(_, own)| own);
    // The factors stay on their sides, so that no transposition is left where the axes are
    // in their usual places: [m, k] x [k, n].
    let of_result = (ct, batch, contracted);
    let of_other = (wide_other, other_batch.clone(), other_free);
    let (lhs, rhs, places): (_, _, Vec<usize>) = match left {
        true => {
            (of_result, of_other, own_batch.iter().copied().chain(own_free).chain(summed).collect())
        }
        false => {
            (of_other, of_result, own_batch.iter().copied().chain(summed).chain(own_free).collect())
        }
    };
    let dims =
        DotDims { lhs_batch: lhs.1, rhs_batch: rhs.1, lhs_contract: lhs.2, rhs_contract: rhs.2 };
    let dtype = rule.ty(ct).dtype;
    let product = rule.add(DotGeneral { dims, dtype }, &[lhs.0, rhs.0]);
    let mut permutation = vec![0; places.len()];
    for (k, &axis) in places.iter().enumerate() {
        permutation[axis] = k;
    }
    let in_order = permutation.iter().enumerate().all(|(k, &axis)| k == axis);
    let placed = if in_order { product } else { rule.add(Transpose { permutation }, &[product]) };
    Some(rule.convert_like(placed, own))
}
