//! Which expressions are evaluated in which loop.

use super::roles::Roles;
use crate::kernel::{Axis, Contraction, ExprId};

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
        let inside = c.exprs.varying_along(&[Axis::Row, Axis::Column, Axis::Inner]);
        let along = c.exprs.varying_along(&[roles.column]);
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
