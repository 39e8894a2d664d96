//! Branches around work that few vectors need.
//!
//! `Select` evaluates both sides. Where one side is long and its condition marked as
//! rare, as the exact reduction of large arguments is in `sin`, that is most of the
//! time of a kernel. A [`Detour`] is such a side: expressions that nothing needs but
//! the first alternatives of selections by the condition. They are emitted in a block
//! of their own, which is skipped when no lane takes it:
//!
//! ```text
//!     c = |x| > 2^20
//!     br any(c), rare, join
//!   rare:
//!     long = ...                       the detour
//!     chosen = select c, long, short
//!   join:
//!     phi [short], [chosen]
//! ```
//!
//! The results are the same bits: a lane that does not take the detour gets the second
//! alternative either way.

use crate::kernel::{Expr, ExprId, Exprs};

use super::build::{Value, lanes};
use super::expr::{Emitter, Place, Values};

/// Fewest operations worth a branch: a mispredicted one costs about twenty cycles,
/// and the block keeps its surroundings apart.
const WORTH: usize = 16;

/// Expressions that only selections by one condition need.
#[derive(Clone, Debug)]
pub(crate) struct Detour {
    condition: ExprId,
    /// The selections, in order.
    selects: Vec<ExprId>,
    /// What only their first alternatives need, in order.
    inside: Vec<ExprId>,
}

impl Detour {
    /// The detours of an arena of which `roots` are asked for.
    pub fn all(exprs: &Exprs, roots: &[ExprId]) -> Vec<Detour> {
        let reached = exprs.reachable(roots.iter().copied());
        let detour = |&c: &ExprId| Detour::of(exprs, roots, &reached, c);
        let detours: Vec<Detour> = exprs.rare().iter().filter_map(detour).collect();
        // One inside another is skipped with it.
        let nested = |d: &Detour| detours.iter().any(|o| o.inside.contains(&d.start()));
        detours.iter().filter(|d| !nested(d)).cloned().collect()
    }

    fn of(exprs: &Exprs, roots: &[ExprId], reached: &[bool], c: ExprId) -> Option<Detour> {
        let mut selects = Vec::new();
        // Read by something else than the detour, as far as is known.
        let mut outside = vec![false; exprs.len()];
        let mut inside = vec![false; exprs.len()];
        roots.iter().for_each(|r| outside[r.0 as usize] = true);
        for i in (0..exprs.len()).rev().filter(|&i| reached[i]) {
            let id = ExprId(i as u32);
            let expr = exprs.get(id);
            if let Expr::Select(condition, a, b) = expr
                && *condition == c
            {
                selects.push(id);
                inside[a.0 as usize] = true;
                outside[c.0 as usize] = true;
                outside[b.0 as usize] = true;
                continue;
            }
            // Users come after operands, so all readers have been seen.
            // Constants are shared with other loops; loads stay where they are prefetched.
            let free = !matches!(expr, Expr::Const(_) | Expr::Load { .. });
            let own = inside[i] && !outside[i] && free;
            inside[i] = own;
            let mark = if own { &mut inside } else { &mut outside };
            expr.for_each_operand(|o| mark[o.0 as usize] = true);
        }
        selects.reverse();
        let inside: Vec<ExprId> = (0..exprs.len())
            .filter(|&i| inside[i] && !outside[i])
            .map(|i| ExprId(i as u32))
            .collect();
        let first = *selects.first()?;
        // Everything from outside is there when the first selection is reached.
        let mut ready = true;
        for &e in &inside {
            exprs.get(e).for_each_operand(|o| ready &= o < first || inside.contains(&o));
        }
        for &s in &selects {
            let Expr::Select(_, _, b) = exprs.get(s) else { unreachable!("a selection") };
            ready &= *b < first;
        }
        (ready && inside.len() >= WORTH).then_some(Detour { condition: c, selects, inside })
    }

    /// Whether evaluating `wanted` evaluates the whole detour, none of which is known.
    pub fn lies_in(&self, wanted: &[bool], values: &Values) -> bool {
        let all = self.selects.iter().chain(&self.inside);
        all.into_iter().all(|e| wanted[e.0 as usize] && !values.knows(*e))
    }

    /// What evaluation leaves to the detour.
    pub fn parts(&self) -> impl Iterator<Item = ExprId> {
        self.selects.iter().chain(&self.inside).copied()
    }

    /// Where evaluation comes to the detour.
    pub fn start(&self) -> ExprId {
        self.selects[0]
    }
}

impl<'c> Emitter<'_, 'c> {
    /// Evaluates the selections of a detour, under a branch.
    pub(super) fn take(&self, detour: &Detour, place: &Place<'c>, values: &mut Values<'c>) {
        let b = self.build;
        let before = b.here();
        let join = b.block("rare.end");
        let rare = b.block("rare");
        b.at(rare);
        let mut inside = values.clone();
        self.evaluate_all(&detour.inside, place, &mut inside);
        self.evaluate_all(&detour.selects, place, &mut inside);
        let chosen: Vec<Value> = detour.selects.iter().map(|&s| inside.get(s)).collect();
        let rare_end = b.here();
        b.jump(join);

        b.at(before);
        let plain: Vec<Value> = detour
            .selects
            .iter()
            .zip(&chosen)
            .map(|(&s, chosen)| match self.exprs.get(s) {
                Expr::Select(_, _, other) => b.splat(values.get(*other), lanes(*chosen)),
                _ => unreachable!("a selection"),
            })
            .collect();
        let condition = values.get(detour.condition);
        let any = match lanes(condition) {
            1 => condition,
            _ => b.unary_intrinsic("llvm.vector.reduce.or", condition),
        };
        b.branch(any, rare, join);

        b.at(join);
        for ((&s, chosen), plain) in detour.selects.iter().zip(&chosen).zip(&plain) {
            let phi = b.phi(chosen.get_type());
            phi.add_incoming(&[(plain, before), (chosen, rare_end)]);
            values.set(s, phi.as_basic_value());
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_ir::DType;
    use kiln_ir::form::ScalarFn;
    use kiln_ir::op::Unary;

    use super::super::tests::check;
    use super::*;
    use crate::kernel::{Argument, Axis, Body, Index, Kernel, Lanes, Loops, Stage, Store};
    use crate::lower::apply;

    fn load(x: &mut Exprs) -> ExprId {
        let index = Index::axis(Axis::Point(0));
        x.add(Expr::Load { argument: 0, index, valid: None }, DType::F32)
    }

    #[test]
    fn the_long_reduction_of_a_sine_is_one() {
        let mut x = Exprs::default();
        let a = load(&mut x);
        let s = apply(&mut x, ScalarFn::Unary(Unary::Sin), &[a]);
        let detours = Detour::all(&x, &[s]);
        assert_eq!(detours.len(), 1);
        assert_eq!(detours[0].selects.len(), 3, "quarter, high and low part");
        assert!(detours[0].inside.len() > 20);
        // Sine and cosine of one angle share it.
        let c = apply(&mut x, ScalarFn::Unary(Unary::Cos), &[a]);
        assert_eq!(Detour::all(&x, &[s, c]).len(), 1);
    }

    #[test]
    fn vectors_of_small_and_large_angles_agree_with_the_interpreter() {
        let (elements, dtypes) = (1000, [DType::F32, DType::F64]);
        for (dtype, lanes) in
            dtypes.into_iter().flat_map(|d| [(d, Lanes::Points), (d, Lanes::Inner)])
        {
            let mut x = Exprs::default();
            let axis = if lanes == Lanes::Points { Axis::Point(0) } else { Axis::Inner };
            let index = Index::axis(axis);
            let a = x.add(Expr::Load { argument: 0, index: index.clone(), valid: None }, dtype);
            let s = apply(&mut x, ScalarFn::Unary(Unary::Sin), &[a]);
            let c = apply(&mut x, ScalarFn::Unary(Unary::Cos), &[a]);
            assert_eq!(Detour::all(&x, &[s, c]).len(), 1);
            let store = |argument, value| Store { argument, index: index.clone(), value };
            let (points, inner) = match lanes {
                Lanes::Points => (vec![elements], 1),
                Lanes::Inner => (vec![], elements),
            };
            let stage = Stage { stores: vec![store(1, s), store(2, c)], ..Stage::new(inner) };
            let body = Body::Loops(Loops { points, lanes, exprs: x, stages: vec![stage] });
            let argument = |reads: bool| Argument { dtype, elements, reads, writes: !reads };
            let arguments = vec![argument(true), argument(false), argument(false)];
            check(&Kernel { name: "angles".into(), arguments, body }, 1);
        }
    }

    #[test]
    fn what_others_read_is_none() {
        let mut x = Exprs::default();
        let a = load(&mut x);
        let s = apply(&mut x, ScalarFn::Unary(Unary::Sin), &[a]);
        let all = Detour::all(&x, &[s]);
        // One of its values is wanted for itself: it moves out, with what it needs.
        let wanted = all[0].inside[all[0].inside.len() / 2];
        for detour in Detour::all(&x, &[s, wanted]) {
            assert!(!detour.inside.contains(&wanted));
        }
        // A short side is no detour, and neither is one that is taken all the time.
        let mut x = Exprs::default();
        let a = load(&mut x);
        let zero = x.float(DType::F32, 0.0);
        let c = x.compare(kiln_ir::op::Compare::Lt, a, zero);
        let e = apply(&mut x, ScalarFn::Unary(Unary::Log), &[a]);
        let s = x.select(c, e, a);
        assert!(Detour::all(&x, &[s]).is_empty());
        x.mark_rare(c);
        assert_eq!(Detour::all(&x, &[s]).len(), 1);
        let n = apply(&mut x, ScalarFn::Unary(Unary::Neg), &[a]);
        let s = x.select(c, n, a);
        assert!(Detour::all(&x, &[s]).is_empty());
    }
}
