//! Lanes along the inner axis: each point is a row program.
//!
//! ```text
//! for point
//!   for stage
//!     for chunk of the inner axis
//!       for strip of steps           copies x width = the lanes of the tree
//!     slots, as scalars
//! ```
//!
//! Row arrays that stages keep live in the scratch memory of the thread, padded so
//! that whole vectors may be stored past their end.
//!
//! The accumulators of a tree are registers, and the strip that fills them is emitted
//! once for each. Where that would be much code, the accumulators are in scratch memory
//! too and the strip is one vector: the additions wait for loads and stores then, which
//! a long body hides.

use super::shape::{BUSY, Cost, LONG, Level, UNIT, grain, masks};
use super::{Body, Cut, Launch, Strip, scan};
use crate::kernel::{Axis, Expr, Index, Stage};
use crate::llvm::build::Value;
use crate::llvm::expr::{Place, Values};
use crate::llvm::reduce::{Accumulators, STATE, States};

/// Elements by which kept arrays are longer than their row, at least.
const PADDING: u64 = 64;

/// Where kept arrays and accumulators are in scratch memory.
struct Scratch {
    /// By array number.
    offsets: Vec<Option<u64>>,
    /// Accumulators that are not in registers, those of one stage at a time.
    accumulators: u64,
    bytes: u64,
}

impl Scratch {
    fn of(body: &Body) -> Scratch {
        let mut scratch = Scratch { offsets: Vec::new(), accumulators: 0, bytes: 0 };
        let mut accumulators = 0;
        for stage in &body.loops.stages {
            for &(array, value) in &stage.keeps {
                let array = array as usize;
                if scratch.offsets.len() <= array {
                    scratch.offsets.resize(array + 1, None);
                }
                let size = body.loops.exprs.dtype(value).size() as u64;
                let elements = (stage.inner + PADDING).next_multiple_of(PADDING);
                scratch.offsets[array] = Some(scratch.bytes);
                scratch.bytes += elements * size;
            }
            if let Some(spread) = Spread::of(body, stage).filter(|s| s.rolled) {
                let lanes = u64::from(spread.copies * spread.width);
                accumulators = accumulators.max(stage.reductions.len() as u64 * lanes * STATE);
            }
        }
        scratch.accumulators = scratch.bytes;
        scratch.bytes += accumulators;
        scratch
    }
}

/// How the lanes of a stage's tree are spread over vectors.
#[derive(Clone, Copy)]
struct Spread {
    copies: u32,
    width: u32,
    /// One vector at a time, with the accumulators in memory.
    rolled: bool,
}

impl Spread {
    /// For a stage with reductions.
    fn of(body: &Body, stage: &Stage) -> Option<Spread> {
        let tree = stage.reductions.first()?.tree;
        debug_assert!(stage.reductions.iter().all(|r| r.tree == tree), "one tree for a stage");
        let cost = Cost::of(body.loops, &body.levels, body.emitter.arguments, stage);
        let width = cost.width(body.emitter.isa).min(tree.lanes);
        let copies = tree.lanes / width;
        let rolled = copies > 1 && u64::from(copies) * cost.ops > LONG;
        Some(Spread { copies, width, rolled })
    }
}

pub(super) fn emit(body: &Body) -> Launch {
    let b = body.build();
    let loops = body.loops;
    let points: u64 = loops.points.iter().product();
    let (mut work, mut ops) = (0u64, 0);
    for stage in &loops.stages {
        let cost = Cost::of(loops, &body.levels, body.emitter.arguments, stage);
        ops = cost.ops.max(ops);
        work = work.saturating_add(stage.inner.saturating_mul(cost.work()));
    }
    let each = (UNIT / work.max(1)).clamp(1, points.max(1));
    let scratch = Scratch::of(body);

    let values = body.kernel_values();
    let kept: Vec<Option<Value>> = scratch
        .offsets
        .iter()
        .map(|o| o.map(|o| b.gep(b.int_ty(8).into(), body.scratch, b.i64(o as i64))))
        .collect();
    let memory = b.gep(b.int_ty(8).into(), body.scratch, b.i64(scratch.accumulators as i64));
    let (busiest, next) = next_row(body);
    let unit = b.i64(each as i64);
    let end = b.binary_intrinsic("llvm.umin", b.mul(body.end, unit), b.i64(points as i64));
    b.for_each("point", (b.mul(body.begin, unit), end, 1), Vec::new(), |point, none| {
        let mut place = Place::scalar(body.coordinates(point, &loops.points));
        place.kept = kept.clone();
        let mut values = values.clone();
        place.ahead = next.is_empty() && ops >= BUSY;
        for (i, stage) in loops.stages.iter().enumerate() {
            body.emitter.evaluate(&body.order(stage, Level::Row), &place, &mut values);
            let next = if i == busiest { &next[..] } else { &[] };
            run_stage(body, stage, next, memory, &mut place, &values);
        }
        none
    });
    let grid = points.div_ceil(each);
    Launch { grid, grain: grain(work.saturating_mul(each)), scratch: scratch.bytes }
}

/// A load that a stage prefetches for the next point.
type Next<'a> = (u32, &'a Index);

/// While one stage computes, memory can already fetch the row of the next point: the
/// stage that does most, if it is not the first to read the row, and the vector loads
/// of the first.
fn next_row<'a>(body: &Body<'a, '_>) -> (usize, Vec<Next<'a>>) {
    let loops = body.loops;
    let ops = |stage: &Stage| {
        stage.inner * Cost::of(loops, &body.levels, body.emitter.arguments, stage).ops
    };
    let busiest = (0..loops.stages.len()).max_by_key(|&i| ops(&loops.stages[i])).unwrap_or(0);
    let (Some(first), true) = (loops.stages.first(), busiest > 0) else {
        return (0, Vec::new());
    };
    if loops.stages[busiest].inner != first.inner {
        return (0, Vec::new());
    }
    let order = body.order(first, Level::Step);
    // Not of elements at indices that are data: those of the next point are not at hand.
    let known = |index: &Index| {
        let mut known = true;
        index.for_each_dynamic(&mut |e| known &= body.levels.of_expr(e) == Level::Kernel);
        known
    };
    let loads = order.into_iter().filter_map(|e| match loops.exprs.get(e) {
        Expr::Load { argument, index, .. } => known(index).then_some((*argument, index)),
        _ => None,
    });
    (busiest, loads.collect())
}

fn run_stage<'c>(
    body: &Body<'_, 'c>,
    stage: &Stage,
    next: &[Next],
    memory: Value<'c>,
    place: &mut Place<'c>,
    values: &Values<'c>,
) {
    if !stage.scans.is_empty() {
        scan::run_stage(body, stage, place, values);
        return;
    }
    let b = body.build();
    let cost = Cost::of(body.loops, &body.levels, body.emitter.arguments, stage);
    let (steps, exact) = body.steps(stage, &place.points);
    let zero = b.i64(0);
    let mut width = cost.width(body.emitter.isa);
    let mut accumulators = Accumulators {
        emitter: &body.emitter,
        reductions: &stage.reductions,
        copies: 1,
        width,
        step_bits: if stage.inner < 1 << 31 { 32 } else { 64 },
    };
    let Some(spread) = Spread::of(body, stage) else {
        width = u64::from(width).min(stage.inner.next_power_of_two()) as u32;
        let points: u64 = body.loops.points.iter().product();
        let mut copies = cost.copies(body.emitter.isa, stage.inner.saturating_mul(points));
        while copies > 1 && u64::from(copies * width) > stage.inner {
            copies /= 2;
        }
        let masks = masks(body.emitter.isa, body.loops, body.emitter.arguments, &body.levels);
        let cut = Cut { copies, width, masks, extent: exact };
        let pass = Pass { body, stage, next, memory, place, values, accumulators };
        body.sweep((zero, steps), cut, &mut |strip| pass.strip(strip, &mut Vec::new()));
        return;
    };
    (accumulators.copies, accumulators.width) = (spread.copies, spread.width);
    let tree = stage.reductions[0].tree;
    let pass = Pass { body, stage, next, memory, place, values, accumulators };
    let chunk = |from, to, exact| match spread.rolled {
        true => pass.rolled(from, to, exact),
        false => pass.chunk(from, to, exact),
    };
    let total = if stage.inner <= tree.chunk {
        chunk(zero, steps, exact)
    } else {
        let one = Accumulators { copies: 1, width: 1, ..accumulators };
        let start = one.flatten(&one.start(|_| b.int_ty(one.step_bits).const_zero().into()));
        let size = tree.chunk;
        let total = b.for_each("chunk", (zero, steps, size), start, |from, carried| {
            let end = b.add(from, b.i64(size as i64));
            let end = b.binary_intrinsic("llvm.umin", end, steps);
            let exact = exact.filter(|n| n % size == 0).map(|_| size);
            let next = chunk(from, end, exact);
            one.flatten(&one.join_all(&one.unflatten(carried), &next))
        });
        one.unflatten(total)
    };
    for (reduction, state) in stage.reductions.iter().zip(total) {
        place.fill(reduction.slot, accumulators.result(state));
    }
}

/// A stage at one point.
struct Pass<'e, 'a, 'c> {
    body: &'e Body<'a, 'c>,
    stage: &'e Stage,
    next: &'e [Next<'e>],
    /// Where accumulators are that are not in registers.
    memory: Value<'c>,
    place: &'e Place<'c>,
    values: &'e Values<'c>,
    accumulators: Accumulators<'e, 'a, 'c>,
}

impl<'c> Pass<'_, '_, 'c> {
    /// The steps `from..to` of one chunk, down to one scalar for each reduction.
    fn chunk(&self, from: Value<'c>, to: Value<'c>, exact: Option<u64>) -> States<'c> {
        let b = self.body.build();
        let accumulators = &self.accumulators;
        let Accumulators { copies, width, .. } = *accumulators;
        let lanes = u64::from(copies * width);
        let mut flat = accumulators.flatten(&self.start(from));
        let strip = |strip, carried| {
            let mut states = accumulators.unflatten(carried);
            self.strip(strip, &mut states);
            accumulators.flatten(&states)
        };

        let whole = self.body.whole(from, to, lanes);
        if exact.is_none_or(|n| n >= lanes) {
            flat = b.for_each("vectors", (from, whole, lanes), flat, |at, carried| {
                strip(Strip { at, copies, width, until: None }, carried)
            });
        }
        if lanes > 1 && exact.is_none_or(|n| n % lanes != 0) {
            // At most one turn: the last steps, with the lanes that exist.
            flat = b.for_each("rest", (whole, to, lanes), flat, |at, carried| {
                // Copies of which no lane exists are left out where that is known.
                let left = exact.map_or(lanes, |n| n % lanes);
                let some = (left.div_ceil(width.into()) as u32).min(copies);
                strip(Strip { at, copies: some, width, until: Some(to) }, carried)
            });
        }
        accumulators.halve(&accumulators.unflatten(flat))
    }

    /// The states before the step `from`.
    fn start(&self, from: Value<'c>) -> States<'c> {
        let b = self.body.build();
        let Accumulators { width, step_bits, .. } = self.accumulators;
        let first = b.splat(b.resize(from, step_bits, false), width);
        let first = if width > 1 { b.add(first, b.iota(width, step_bits)) } else { first };
        self.accumulators.start(|u| b.add(first, b.int_like(first, i64::from(u * width))))
    }

    /// [`Pass::chunk`] with the accumulators in memory and strips of one vector.
    fn rolled(&self, from: Value<'c>, to: Value<'c>, exact: Option<u64>) -> States<'c> {
        let b = self.body.build();
        let Accumulators { copies, width, .. } = self.accumulators;
        let one = Accumulators { copies: 1, ..self.accumulators };
        let single = Pass { accumulators: one, ..*self };
        // Copy u of each reduction is at lane u * width of its array.
        let at = |lane: Value<'c>, memory| one.memory(lane, u64::from(copies * width), memory);
        let start = self.start(from);
        for u in 0..copies {
            let lane = b.i64(i64::from(u * width));
            one.store(&self.accumulators.copy(&start, u), &at(lane, self.memory));
        }
        let strip = |i: Value<'c>, until| {
            let lane = b.and(b.sub(i, from), b.i64(i64::from(copies * width - 1)));
            let places = at(lane, self.memory);
            let mut states = one.load(&places);
            single.strip(Strip { at: i, copies: 1, width, until }, &mut states);
            one.store(&states, &places);
        };
        let whole = self.body.whole(from, to, width.into());
        b.for_each("vector", (from, whole, width.into()), Vec::new(), |i, none| {
            strip(i, None);
            none
        });
        if exact.is_none_or(|n| n % u64::from(width) != 0) {
            b.for_each("rest", (whole, to, width.into()), Vec::new(), |i, none| {
                strip(i, Some(to));
                none
            });
        }
        let states: Vec<States> =
            (0..copies).map(|u| one.load(&at(b.i64(i64::from(u * width)), self.memory))).collect();
        self.accumulators.halve(&self.accumulators.gather(&states))
    }

    /// The steps of a strip: evaluates all copies, then keeps and stores.
    fn strip(&self, strip: Strip<'c>, states: &mut States<'c>) {
        let Pass { body, stage, accumulators, .. } = self;
        let emitter = &body.emitter;
        let order = body.order(stage, Level::Step);
        let mut evaluated: Vec<(Place, Values)> = (0..strip.copies)
            .map(|u| {
                let mut place = self.place.clone();
                let (at, lanes) = body.lanes(&strip, Axis::Inner, u);
                place.inner = Some(at);
                place.lanes = lanes;
                (place, self.values.clone())
            })
            .collect();
        emitter.evaluate_together(&order, &mut evaluated);
        for (u, (place, values)) in evaluated.iter().enumerate() {
            let number = accumulators.steps_at(place);
            accumulators.step(states, u as u32, number, place, values);
            if let (Some(last), None) = (body.loops.points.len().checked_sub(1), strip.until) {
                for &load in self.next {
                    emitter.prefetch_load(load, Axis::Point(last as u32), place, values);
                }
            }
        }
        for &(array, value) in &stage.keeps {
            for (place, values) in &evaluated {
                emitter.keep(array, emitter.exprs.dtype(value), values.get(value), place);
            }
        }
        emitter.stores(&stage.stores, &evaluated);
    }
}
