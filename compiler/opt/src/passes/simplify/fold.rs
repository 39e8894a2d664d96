//! Rules for constants.
//!
//! Folding runs an op's definition while compiling. It must never cost more than it
//! saves: results are small or no larger than what they are made from, and broadcasts
//! and iotas, which are a few bytes of code, are never written out.

use kiln_ir::{DType, Literal, Op, Type};

use super::{Rule, Site, Term, full, literal};

/// For every op but parameters, constants and calls.
pub(super) const ANY: &[Rule] = &[("fold.empty", empty), ("fold.constant", constant)];

pub(super) const CONSTANT: &[Rule] = &[("constant.splat", splat)];

/// Most bytes of a folded result that is larger than its operands.
const GROWN: usize = 1 << 10;

/// Most elements of operands, and products of a contraction, that folding looks at.
const WORK: usize = 1 << 16;

/// A result without elements has one value.
fn empty(site: &Site) -> Option<Term> {
    (site.ty().elements() == 0).then(|| literal(Literal::from_bytes(site.ty().clone(), &[])))
}

/// An op whose operands are constants, or scalar constants spread.
fn constant(site: &Site) -> Option<Term> {
    if matches!(site.op(), Op::Broadcast(_) | Op::Iota(_)) || !same_bits(site.op(), site.ty().dtype)
    {
        return None;
    }
    let types: Vec<&Type> = site.operands.iter().map(|&v| site.graph.ty(v)).collect();
    let elements = types.iter().fold(0, |n, ty| usize::saturating_add(n, ty.elements()));
    if elements > WORK {
        return None;
    }
    let mut bytes = 0;
    let mut operands: Vec<Literal> = Vec::with_capacity(types.len());
    for (k, ty) in types.into_iter().enumerate() {
        let maker = site.maker(k);
        match maker.op() {
            Op::Constant(c) => {
                bytes += ty.bytes();
                operands.push(c.value.clone());
            }
            Op::Broadcast(_) => operands.push(Literal::splat(ty.clone(), site.constant(k)?)),
            _ => return None,
        }
    }
    let operands: Vec<&Literal> = operands.iter().collect();
    let result = site.ty().bytes();
    let mut work = elements.max(site.ty().elements());
    if let Op::DotGeneral(dot) = site.op() {
        let summed = dot.dims.lhs_contract.iter().map(|&a| operands[0].ty().shape[a]);
        work = summed.fold(site.ty().elements(), usize::saturating_mul).max(work);
    }
    if result > bytes.max(GROWN) || work > WORK {
        return None;
    }
    let results = site.graph.types(site.node);
    let value = site.op().eval(&operands, results).swap_remove(0);
    debug_assert!(value.ty().dtype != DType::Bool || value.bytes().iter().all(|&b| b <= 1));
    Some(literal(value))
}

/// Whether compiled code gives the very bits of the definition. Where it is only near
/// (transcendental functions, orders of float sums), a folded constant would differ
/// from the same expression at run time.
fn same_bits(op: &Op, result: DType) -> bool {
    use kiln_ir::op::{CumulativeKind, ReduceKind};
    if matches!(op, Op::ReduceBy(_) | Op::ReduceWindow(_)) {
        // Nothing here knows what a body or a large window costs.
        return false;
    }
    if !result.is_float() {
        return true;
    }
    match op {
        Op::Unary(f) => f.error_bound().is_none(),
        Op::Binary(f) => f.error_bound().is_none(),
        Op::Reduce(r) => !matches!(r.kind, ReduceKind::Sum | ReduceKind::Prod),
        Op::Cumulative(c) => matches!(c.kind, CumulativeKind::Min | CumulativeKind::Max),
        Op::DotGeneral(_) => false,
        _ => true,
    }
}

/// A constant array of equal elements is a scalar, spread. That is smaller, and rules
/// see through it.
fn splat(site: &Site) -> Option<Term> {
    let Op::Constant(c) = site.op() else { return None };
    if site.ty().elements() < 2 {
        return None;
    }
    let value = kiln_ir::Value { node: site.node, result: 0 };
    crate::group::splat(site.graph, value).map(|s| {
        debug_assert_eq!(s, c.value.get(0));
        full(s, site.shape())
    })
}
