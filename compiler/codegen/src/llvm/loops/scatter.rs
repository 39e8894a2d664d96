//! Elements at places known only at run time, combined with values.
//!
//! The steps of a point are done one after the other, so the loops are the other way
//! round than those of `points`: whole windows are written before the next begins.
//!
//! ```text
//! for row of outer points
//!   for step of the inner axis             its index, once
//!     for strip of the last axis           copies x width points at a time
//! ```
//!
//! What a unit of work is depends on how wide windows are. Points are independent, so
//! wide ones are cut into blocks, each of which does all steps. Narrow ones are not worth
//! that; where what they are scattered to is larger than the caches, a unit is a part of
//! it instead: it goes through all steps and does those that fall into its part.
//!
//! ```text
//! window of 256 elements        | block 0 | block 1 | ..       each does every step
//! elements of a histogram       |   part 0    |   part 1 ..    each does its own steps
//! ```
//!
//! Either way each element meets its steps in order, in one thread.

use super::shape::{Cost, Level, grain, masks};
use super::{Body, Cut, LARGE, Launch, Strip};
use crate::kernel::{Axis, ExprId, Index, Scatter, Stage, Term};
use crate::llvm::build::Value;
use crate::llvm::expr::{Lanes, Place, Values};

/// Fewest blocks that a window is cut into before strips grow: work for some threads.
const BLOCKS: u64 = 8;

/// Bytes of a window from which on threads share it: some cache lines for each.
const WIDE: u64 = 512;

/// Most parts of what is scattered to, and the least bytes of one: a page.
const PARTS: u64 = 64;
const PART_BYTES: u64 = 4096;

/// How the work is cut up.
enum Units {
    /// Blocks of the last axis, of so many points, in each row.
    Blocks(u64),
    /// Ranges of the element number of windows: its least value, the size of a range and
    /// how many there are.
    Parts { anchor: Index, low: i64, size: u64, count: u64 },
}

struct Shape {
    /// Extents of all axes but the last.
    outer: Vec<u64>,
    rows: u64,
    extent: u64,
    cut: Cut,
    units: Units,
    /// Work of a unit.
    work: u64,
}

impl Shape {
    fn of(body: &Body, stage: &Stage) -> Shape {
        let (loops, isa, arguments) = (body.loops, body.emitter.isa, body.emitter.arguments);
        let last = loops.points.len().saturating_sub(1);
        let outer = loops.points[..last].to_vec();
        let extent = loops.points.last().copied().unwrap_or(1);
        let rows: u64 = outer.iter().product();

        let size = |s: &Scatter| arguments[s.argument as usize].dtype.size() as u64;
        let bytes: u64 = stage.scatters.iter().map(size).sum();
        // Vectors are as wide as what is written; what it is computed from may be wider,
        // but its indices are mostly the same for all lanes.
        let register = isa.vector_bits() / 8;
        let widest = stage.scatters.iter().map(size).max().unwrap_or(1);
        let lanes = u64::from(register) / widest;
        let width = lanes.min(extent.next_power_of_two()).max(1) as u32;
        let blocks = extent / u64::from(width) / BLOCKS;
        let copies = if blocks >= 4 { 4 } else { blocks.clamp(1, 2) as u32 };
        let masks = masks(isa, loops, arguments, &body.levels);
        let cut = Cut { copies, width, masks, extent: Some(extent) };

        let cost = Cost::of(loops, &body.levels, arguments, stage);
        let step = cost.work().saturating_mul(extent) + 8;
        let whole = rows.saturating_mul(stage.inner).saturating_mul(step);
        let block = (u64::from(copies * width)).max(64 / widest.min(64));
        let wide = extent * bytes >= WIDE && extent > block;
        let (units, count) = match (wide, Self::parts(body, stage, rows)) {
            (true, _) => (Units::Blocks(block), rows * extent.div_ceil(block)),
            (false, Some(parts)) => {
                let Units::Parts { count, .. } = parts else { unreachable!("parts") };
                (parts, count)
            }
            (false, None) => (Units::Blocks(extent), rows),
        };
        Shape { outer, rows, extent, cut, units, work: whole / count.max(1) }
    }

    /// Parts of the one argument, where that is possible and worth it.
    fn parts(body: &Body, stage: &Stage, rows: u64) -> Option<Units> {
        let [scatter] = &stage.scatters[..] else { return None };
        let argument = body.emitter.arguments[scatter.argument as usize];
        let size = argument.dtype.size() as u64;
        if rows > 1 || argument.elements * size < LARGE {
            return None;
        }
        // The element that a window starts at, where that does not depend on the point:
        // then it decides for the whole window, and different windows that share an
        // element at one point start at the same.
        let point = |t: &Term| matches!(t, Term::Axis(Axis::Point(_)));
        let terms = scatter.index.terms.iter().filter(|(t, _)| !point(t)).cloned();
        let anchor = Index { constant: scatter.index.constant, terms: terms.collect() };
        let last = body.loops.points.len().checked_sub(1);
        if let Some(last) = last {
            let axis = Axis::Point(last as u32);
            if body.loops.exprs.coefficient(&anchor, axis) != Some(0) {
                return None;
            }
        }
        let (low, high) = anchor.range(&body.emitter.extents);
        let total = (high - low + 1) as u64;
        let count = (total * size / PART_BYTES).clamp(1, PARTS);
        let part = total.div_ceil(count);
        (count > 1).then(|| Units::Parts { anchor, low, size: part, count: total.div_ceil(part) })
    }

    fn launch(&self) -> Launch {
        let grid = match &self.units {
            Units::Blocks(block) => self.rows * self.extent.div_ceil(*block),
            Units::Parts { count, .. } => *count,
        };
        Launch { grid, grain: grain(self.work), scratch: 0 }
    }
}

pub(super) fn emit<'c>(body: &Body<'_, 'c>) -> Launch {
    let [stage] = &body.loops.stages[..] else { unreachable!("scatters stand alone") };
    let shape = Shape::of(body, stage);
    let b = body.build();
    let scatters = Steps::new(body, stage, &shape);
    match &shape.units {
        Units::Blocks(block) => {
            let blocks = shape.extent.div_ceil(*block);
            body.for_each_block(shape.rows, blocks, *block, shape.extent, &mut |row, range| {
                scatters.row(row, range, &|_, _| None);
            });
        }
        Units::Parts { anchor, low, size, .. } => {
            let size = b.i64(*size as i64);
            let from = b.add(b.mul(body.begin, size), b.i64(*low));
            let to = b.add(b.mul(body.end, size), b.i64(*low));
            let all = (b.i64(0), b.i64(shape.extent as i64));
            scatters.row(b.i64(0), all, &|place, values| {
                let start = body.emitter.index(anchor, place, values, 64);
                let above = b.icmp(inkwell::IntPredicate::SGE, start, from);
                let below = b.icmp(inkwell::IntPredicate::SLT, start, to);
                Some(b.and(above, below))
            });
        }
    }
    shape.launch()
}

/// A further condition of a step, found from its values.
type Condition<'f, 'c> = &'f dyn Fn(&Place<'c>, &Values<'c>) -> Option<Value<'c>>;

/// The loop over steps.
struct Steps<'e, 'a, 'c> {
    body: &'e Body<'a, 'c>,
    stage: &'e Stage,
    shape: &'e Shape,
    /// What a step computes once, and what for each strip.
    once: Vec<ExprId>,
    each: Vec<ExprId>,
    /// By expression: whether it differs between the points of a row.
    along: Vec<bool>,
}

impl<'e, 'a, 'c> Steps<'e, 'a, 'c> {
    fn new(body: &'e Body<'a, 'c>, stage: &'e Stage, shape: &'e Shape) -> Steps<'e, 'a, 'c> {
        let last = body.loops.points.len().checked_sub(1);
        let along = match last {
            Some(last) => body.loops.exprs.varying_along(&[Axis::Point(last as u32)]),
            None => vec![false; body.loops.exprs.len()],
        };
        let here = [Level::Strip, Level::Step].map(|level| body.order(stage, level)).concat();
        let mut here: Vec<ExprId> = here.into_iter().collect();
        here.sort_unstable();
        let (each, once) = here.into_iter().partition(|e: &ExprId| along[e.0 as usize]);
        Steps { body, stage, shape, once, each, along }
    }

    /// All steps of the points `range` of one row.
    fn row(&self, row: Value<'c>, range: (Value<'c>, Value<'c>), condition: Condition<'_, 'c>) {
        let Steps { body, stage, shape, .. } = self;
        let (b, emitter) = (body.build(), &body.emitter);
        let outer = body.coordinates(row, &shape.outer);
        let mut row_values = body.kernel_values();
        let place = Place::scalar(outer);
        emitter.evaluate(&body.order(stage, Level::Row), &place, &mut row_values);
        let steps = (b.i64(0), b.i64(stage.inner as i64), 1);
        b.for_each("step", steps, Vec::new(), |step, none| {
            let (mut place, mut values) = (place.clone(), row_values.clone());
            place.inner = Some(step);
            emitter.evaluate(&self.once, &place, &mut values);
            let mut wanted = condition(&place, &values);
            // One condition for all scatters of a step is a branch around its window.
            let valid = |s: &Scatter| s.valid.filter(|v| !self.along[v.0 as usize]);
            let first = stage.scatters.first().and_then(valid);
            if let Some(one) = first
                && stage.scatters.iter().all(|s| valid(s) == first)
            {
                let valid = values.get(one);
                wanted = Some(wanted.map_or(valid, |w| b.and(w, valid)));
            }
            let window =
                || body.sweep(range, shape.cut, &mut |strip| self.strip(strip, &place, &values));
            match wanted {
                Some(wanted) => b.when("wanted", wanted, window),
                None => window(),
            }
            none
        });
    }

    /// One step at the points of a strip: all values before any element changes.
    fn strip(&self, strip: Strip<'c>, place: &Place<'c>, values: &Values<'c>) {
        let emitter = &self.body.emitter;
        let copies: Vec<(Place, Values)> = (0..strip.copies)
            .map(|u| {
                let (mut place, mut values) = (place.clone(), values.clone());
                if let Some(last) = self.body.loops.points.len().checked_sub(1) {
                    let (at, lanes) = self.body.lanes(&strip, Axis::Point(last as u32), u);
                    place.points.push(at);
                    place.lanes = lanes;
                } else {
                    place.lanes = Lanes { width: 1, mask: None, ..place.lanes };
                }
                emitter.evaluate(&self.each, &place, &mut values);
                (place, values)
            })
            .collect();
        for scatter in &self.stage.scatters {
            for (place, values) in &copies {
                emitter.scatter(scatter, place, values);
            }
        }
    }
}
