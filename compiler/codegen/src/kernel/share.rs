//! Which argument may be passed the buffer of another.

use super::{Body, Contraction, Expr, Index, Kernel, Loops};

impl Kernel {
    /// Whether a launch may pass one buffer for `read`, which is only read, and for
    /// `written`, which is only written: every element is read before it is written,
    /// whatever runs first, because it is read for that element alone.
    ///
    /// That is so when every load of `read` is at the index of a store to `written`, in
    /// the stage of that store or an earlier one; in a contraction, when it is not of a
    /// factor, which is read for many elements. There may be several stores at a point,
    /// as of the parts of a complex number: each is of elements that no other store and
    /// no other point writes. Conservative: the answer no may have other reasons.
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
    // By index, the stage that writes there.
    let stores: Vec<(&Index, usize)> = (loops.stages.iter().enumerate())
        .flat_map(|(number, stage)| stage.stores.iter().map(move |s| (s, number)))
        .filter(|(s, _)| s.argument == written)
        .map(|(s, number)| (&s.index, number))
        .collect();
    loops.stages.iter().enumerate().all(|(n, stage)| {
        let mut roots = Vec::new();
        stage.for_each_root(|e| roots.push(e));
        let reached = loops.exprs.reachable(roots);
        loops.exprs.iter().all(|(id, expr, _)| match expr {
            Expr::Load { argument, index, .. } if *argument == read && reached[id.0 as usize] => {
                stores.iter().any(|&(at, number)| at == index && n <= number)
            }
            _ => true,
        })
    })
}

/// A backend keeps sums that wait for more steps out of a result that shares.
fn shares_sum(c: &Contraction, read: u32, written: u32) -> bool {
    let factors = c.exprs.reachable([c.lhs, c.rhs]);
    let written_at =
        |index: &Index| c.stores.iter().any(|s| s.argument == written && s.index == *index);
    c.exprs.iter().all(|(id, expr, _)| match expr {
        Expr::Load { argument, index, .. } if *argument == read => {
            !factors[id.0 as usize] && written_at(index)
        }
        _ => true,
    })
}
