//! Which expressions are evaluated in which loop.

use super::roles::Roles;
use crate::kernel::{Axis, Contraction, Expr, ExprId, Exprs};

/// Which expressions are evaluated where, operands before users.
pub(super) struct Needs {
    /// Once for a batch.
    pub batch: Vec<ExprId>,
    /// For elements of the left factor.
    pub left: Vec<ExprId>,
    /// For elements of the right factor.
    pub right: Vec<ExprId>,
    /// For a row of the result.
    pub row: Vec<ExprId>,
    /// For elements of the result.
    pub result: Vec<ExprId>,
}

impl Needs {
    pub fn of(c: &Contraction, roles: &Roles) -> Needs {
        let mut stores = Vec::new();
        c.stores.iter().for_each(|s| s.for_each_root(|e| stores.push(e)));
        let varies = |axes: &[Axis]| varies(&c.exprs, axes);
        let inside = varies(&[Axis::Row, Axis::Column, Axis::Inner]);
        let along = varies(&[roles.column]);
        let order = |roots: &[ExprId], keep: &dyn Fn(usize) -> bool| -> Vec<ExprId> {
            let reached = c.exprs.reachable(roots.iter().copied());
            let ids = c.exprs.iter().map(|(id, ..)| id);
            ids.filter(|id| reached[id.0 as usize] && keep(id.0 as usize)).collect()
        };
        let all = [&[c.lhs, c.rhs], &stores[..]].concat();
        Needs {
            batch: order(&all, &|e| !inside[e]),
            left: order(&[roles.left], &|_| true),
            right: order(&[roles.right], &|_| true),
            row: order(&stores, &|e| !along[e]),
            result: order(&stores, &|_| true),
        }
    }
}

/// For each expression, whether it can change along one of `axes`; sums change along all.
fn varies(exprs: &Exprs, axes: &[Axis]) -> Vec<bool> {
    let mut varies: Vec<bool> = Vec::with_capacity(exprs.len());
    for (_, expr, _) in exprs.iter() {
        let mut here = match expr {
            Expr::Sum => true,
            Expr::Load { index, .. } | Expr::Index(index) => {
                axes.iter().any(|&a| index.depends_on(a))
            }
            _ => false,
        };
        expr.for_each_operand(|e| here |= varies[e.0 as usize]);
        varies.push(here);
    }
    varies
}
