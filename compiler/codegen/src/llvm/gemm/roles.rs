//! Which operand plays which part, and how each can be read.

use kiln_ir::DType;

use super::super::build::Value;
use super::super::expr::Place;
use super::tiling::{Access, Along, Strides};
use crate::kernel::{Argument, Axis, Contraction, Expr, ExprId, Store};

/// The parts that operands and axes play. Products commute, so a contraction and its
/// transpose give equal bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Roles {
    /// Broadcast an element at a time.
    pub left: ExprId,
    /// Loaded a vector at a time.
    pub right: ExprId,
    /// The axis of panels.
    pub row: Axis,
    /// The axis of vectors.
    pub column: Axis,
    /// Extent of `row`.
    pub m: u64,
    /// Extent of `column`.
    pub n: u64,
}

impl Roles {
    /// As written, unless there is one column only: then vectors run along rows.
    pub fn of(c: &Contraction) -> Roles {
        let (m, n) = (c.m, c.n);
        match n == 1 && m > 1 {
            false => {
                let (row, column) = (Axis::Row, Axis::Column);
                Roles { left: c.lhs, right: c.rhs, row, column, m, n }
            }
            true => {
                let (row, column) = (Axis::Column, Axis::Row);
                Roles { left: c.rhs, right: c.lhs, row, column, m: n, n: m }
            }
        }
    }
}

/// How a factor over `free` and `Axis::Inner` can be read.
pub(super) fn access(
    c: &Contraction,
    arguments: &[Argument],
    factor: ExprId,
    free: Axis,
) -> Access {
    let strides = match c.exprs.get(factor) {
        Expr::Load { argument, index, valid: None } => {
            let same = arguments[*argument as usize].dtype == c.accumulator;
            match (c.exprs.coefficient(index, free), c.exprs.coefficient(index, Axis::Inner)) {
                (Some(free), Some(inner)) if same => Some(Strides { free, inner }),
                _ => None,
            }
        }
        _ => None,
    };
    // Vectors run along the axis in which most loads are contiguous.
    let reached = c.exprs.reachable([factor]);
    let contiguous = |axis: Axis| {
        let loads = c.exprs.iter().filter(|(id, ..)| reached[id.0 as usize]);
        let along = |e: &Expr| match e {
            Expr::Load { index, .. } => c.exprs.coefficient(index, axis) == Some(1),
            _ => false,
        };
        loads.filter(|(_, e, _)| along(e)).count()
    };
    let inner = contiguous(Axis::Inner) > contiguous(free);
    Access { strides, along: if inner { Along::Inner } else { Along::Free } }
}

/// Where the sums themselves are the result: the argument and the elements between its
/// rows.
pub(super) fn plain_store(
    c: &Contraction,
    arguments: &[Argument],
    roles: &Roles,
) -> Option<(usize, i64)> {
    let [Store { argument, index, value }] = &c.stores[..] else { return None };
    let same = arguments[*argument as usize].dtype == c.accumulator && c.accumulator != DType::Bool;
    let contiguous = roles.n == 1 || index.coefficient(roles.column) == Some(1);
    let row = index.coefficient(roles.row)?;
    (*c.exprs.get(*value) == Expr::Sum && same && contiguous).then_some((*argument as usize, row))
}

/// Gives an axis a value.
pub(super) fn set<'c>(place: &mut Place<'c>, axis: Axis, value: Value<'c>) {
    match axis {
        Axis::Point(p) => place.points[p as usize] = value,
        Axis::Inner => place.inner = Some(value),
        Axis::Row => place.row = Some(value),
        Axis::Column => place.column = Some(value),
    }
}
