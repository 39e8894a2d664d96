//! Which argument may be passed the buffer of another.

use super::{Body, Contraction, Expr, Kernel, Loops};

impl Kernel {
    /// Whether a launch may pass one buffer for `read`, which is only read, and for
    /// `written`, which is only written: every element is read before it is written,
    /// whatever runs first, because it is read for that element alone.
    ///
    /// That is so when every load of `read` is at the index of the one store to
    /// `written`, in the stage of the store or an earlier one; in a contraction, when it
    /// is not of a factor, which is read for many elements. Conservative: the answer no
    /// may have other reasons.
    pub fn may_share(&self, read: u32, written: u32) -> bool {
        let (a, b) = (self.arguments[read as usize], self.arguments[written as usize]);
        let plain = a.reads && !a.writes && b.writes && !b.reads;
        if !plain || a.elements != b.elements || a.dtype.size() != b.dtype.size() {
            return false;
        }
        match &self.body {
            Body::Loops(loops) => shares(loops, read, written),
            Body::Contraction(contraction) => shares_sum(contraction, read, written),
            // Threads that share a row read all of it.
            Body::Sort(_) => false,
            // No two parts write the same element, so each must only read what it writes.
            Body::Together(parts) => {
                let touched = |part: &&Loops| touches(part, read) || touches(part, written);
                parts.iter().filter(touched).all(|part| shares(part, read, written))
            }
        }
    }
}

fn loads(expr: &Expr, from: u32) -> bool {
    matches!(expr, Expr::Load { argument, .. } if *argument == from)
}

fn touches(loops: &Loops, argument: u32) -> bool {
    let mut written = loops.stages.iter().flat_map(|s| s.written());
    written.any(|(a, _)| a == argument)
        || loops.exprs.iter().any(|(_, expr, _)| loads(expr, argument))
}

fn shares(loops: &Loops, read: u32, written: u32) -> bool {
    let mut store = None;
    for (number, stage) in loops.stages.iter().enumerate() {
        for s in stage.stores.iter().filter(|s| s.argument == written) {
            if store.replace((number, &s.index)).is_some() {
                return false;
            }
        }
    }
    let Some((number, at)) = store else { return false };
    loops.stages.iter().enumerate().all(|(n, stage)| {
        let mut roots = Vec::new();
        stage.for_each_root(|e| roots.push(e));
        let reached = loops.exprs.reachable(roots);
        loops.exprs.iter().all(|(id, expr, _)| match expr {
            Expr::Load { argument, index, .. } if *argument == read && reached[id.0 as usize] => {
                n <= number && index == at
            }
            _ => true,
        })
    })
}

/// A backend keeps sums that wait for more steps out of a result that shares.
fn shares_sum(c: &Contraction, read: u32, written: u32) -> bool {
    let mut stores = c.stores.iter().filter(|s| s.argument == written);
    let (Some(store), None) = (stores.next(), stores.next()) else { return false };
    let factors = c.exprs.reachable([c.lhs, c.rhs]);
    c.exprs.iter().all(|(id, expr, _)| match expr {
        Expr::Load { argument, index, .. } if *argument == read => {
            !factors[id.0 as usize] && *index == store.index
        }
        _ => true,
    })
}
