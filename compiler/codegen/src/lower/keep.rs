//! Which values of a row earlier stages keep for later ones.
//!
//! A later stage of a point can compute a value again, from elements that are still in
//! a cache, or read it from a row array that an earlier stage filled. Keeping costs a
//! store and a load for each element, and cache space. It pays for values of more than
//! [`EXPENSIVE`] operations, while the arrays fit [`KEPT_BYTES`]:
//!
//! ```text
//! softmax:      exp(x - max), which the sum computes, is kept for the quotient
//! layer norm:   x - mean is computed again
//! ```

use hashbrown::HashMap;

use crate::kernel::expr::{BinaryOp, UnaryOp};
use crate::kernel::{Expr, ExprId, Exprs, KEPT_BYTES, Stage};

/// Operations from which on a value is kept rather than computed again.
const EXPENSIVE: u32 = 10;

/// The row arrays of a program, by number.
#[derive(Default)]
pub(crate) struct Keep {
    arrays: Vec<Array>,
}

struct Array {
    /// What the array holds.
    value: ExprId,
    /// The stage that fills it.
    filler: usize,
}

impl Keep {
    /// For each stage in turn, the outermost expensive values that an earlier stage has
    /// computed and that still fit.
    pub fn choose(exprs: &Exprs, stages: &[Stage], inner: u64) -> Keep {
        let varying = exprs.varying();
        let costs = costs(exprs, &varying);
        let mut keep = Keep::default();
        let mut room = KEPT_BYTES;
        // What each stage so far computes.
        let mut computed: Vec<Vec<bool>> = Vec::new();
        for stage in stages {
            let mut reached = vec![false; exprs.len()];
            stage.for_each_root(|e| reached[e.0 as usize] = true);
            for i in (0..exprs.len()).rev() {
                if !reached[i] {
                    continue;
                }
                let value = ExprId(i as u32);
                if costs[i] >= EXPENSIVE && !keep.holds(value) {
                    let bytes = inner * exprs.dtype(value).size() as u64;
                    let earlier = computed.iter().position(|c| c[i]);
                    if let Some(filler) = earlier.filter(|_| bytes <= room) {
                        room -= bytes;
                        keep.arrays.push(Array { value, filler });
                    }
                }
                if !keep.holds(value) {
                    exprs.get(value).for_each_operand(|o| reached[o.0 as usize] = true);
                }
            }
            computed.push(reached);
        }
        keep
    }

    fn holds(&self, value: ExprId) -> bool {
        self.arrays.iter().any(|a| a.value == value)
    }

    /// The arrays that a stage fills, with what goes into them.
    pub fn filled(&self, stage: usize) -> Vec<(u32, ExprId)> {
        let numbered = (0..).zip(&self.arrays);
        numbered.filter(|(_, a)| a.filler == stage).map(|(k, a)| (k, a.value)).collect()
    }

    /// The values that a stage finds in arrays, as expressions of `to`.
    pub fn known(&self, stage: usize, from: &Exprs, to: &mut Exprs) -> HashMap<ExprId, ExprId> {
        let numbered = (0..).zip(&self.arrays).filter(|(_, a)| a.filler < stage);
        numbered.map(|(k, a)| (a.value, to.add(Expr::Kept(k), from.dtype(a.value)))).collect()
    }
}

/// Roughly how many operations each value costs a step, counting shared ones every
/// time; loads and what does not change along the row are free.
fn costs(exprs: &Exprs, varying: &[bool]) -> Vec<u32> {
    let mut costs = vec![0u32; exprs.len()];
    for (id, expr, _) in exprs.iter().filter(|(id, ..)| varying[id.0 as usize]) {
        let mut cost = match expr {
            Expr::Binary(BinaryOp::Div | BinaryOp::Rem, ..) | Expr::Unary(UnaryOp::Sqrt, _) => 4,
            Expr::Load { .. } | Expr::Index(_) => 0,
            _ => 1,
        };
        expr.for_each_operand(|o| cost = u32::min(1 << 16, cost + costs[o.0 as usize]));
        costs[id.0 as usize] = cost;
    }
    costs
}
