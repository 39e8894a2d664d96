//! Running results along the inner axis, in registers.
//!
//! A block of a [`Scan`] is the lanes of one strip: `copies` vectors of `width`. Each
//! round of doubling moves the lanes of the block up and combines; the total of the
//! blocks before reaches every lane at the end, so that what one block waits for from
//! the last is one combination:
//!
//! ```text
//! block    x0 x1 x2 ..   doubling, 4 rounds for 16 lanes    p0 p1 .. p15
//! results  t.p0 .. t.p15,   next t = t.p15
//! ```

use super::shape::{Cost, Level};
use super::{Body, Strip};
use crate::kernel::{Axis, ExprId, Scan, Stage};
use crate::llvm::build::{Value, lanes};
use crate::llvm::expr::{Place, Values};
use crate::llvm::reduce::combine;
use crate::lower::identity;

/// The stage at one point, with its scans; fills their slots.
pub(super) fn run_stage<'c>(
    body: &Body<'_, 'c>,
    stage: &Stage,
    place: &mut Place<'c>,
    values: &Values<'c>,
) {
    let b = body.build();
    let block = stage.scans[0].block;
    debug_assert!(stage.scans.iter().all(|s| s.block == block), "one block for a stage");
    let cost = Cost::of(body.loops, &body.levels, body.emitter.arguments, stage);
    let width = cost.width(body.emitter.isa).min(block);
    debug_assert!(width > 1, "registers hold two of every type");
    let copies = block / width;
    let (steps, exact) = body.steps(stage, &place.points);
    let block = u64::from(block);

    let mut totals: Vec<Value> = stage
        .scans
        .iter()
        .map(|s| b.constant(identity(s.kind, body.emitter.exprs.dtype(s.value))))
        .collect();
    let pass = Pass { body, stage, place, values };
    let whole = body.whole(b.i64(0), steps, block);
    if exact.is_none_or(|n| n >= block) {
        totals = b.for_each("blocks", (b.i64(0), whole, block), totals, |at, totals| {
            pass.block(Strip { at, copies, width, until: None }, totals)
        });
    }
    if exact.is_none_or(|n| n % block != 0) {
        // At most one turn: the last steps, with the lanes that exist.
        totals = b.for_each("rest", (whole, steps, block), totals, |at, totals| {
            pass.block(Strip { at, copies, width, until: Some(steps) }, totals)
        });
    }
    for (scan, total) in stage.scans.iter().zip(totals) {
        place.fill(scan.slot, total);
    }
}

struct Pass<'e, 'a, 'c> {
    body: &'e Body<'a, 'c>,
    stage: &'e Stage,
    place: &'e Place<'c>,
    values: &'e Values<'c>,
}

impl<'c> Pass<'_, '_, 'c> {
    /// The steps of one block after the `totals` of those before; the next totals.
    fn block(&self, strip: Strip<'c>, totals: Vec<Value<'c>>) -> Vec<Value<'c>> {
        let Pass { body, stage, .. } = self;
        let (b, emitter) = (body.build(), &body.emitter);
        let order = body.order(stage, Level::Step);
        let scanned = emitter.exprs.reachable(stage.scans.iter().map(|s| s.value));
        let before: Vec<ExprId> = order.iter().copied().filter(|e| scanned[e.0 as usize]).collect();
        let mut evaluated: Vec<(Place, Values)> = Vec::new();
        for u in 0..strip.copies {
            let (mut place, mut values) = (self.place.clone(), self.values.clone());
            let (at, lanes) = body.lanes(&strip, Axis::Inner, u);
            (place.inner, place.lanes) = (Some(at), lanes);
            emitter.evaluate(&before, &place, &mut values);
            evaluated.push((place, values));
        }
        let mut next = Vec::new();
        for (scan, total) in stage.scans.iter().zip(totals) {
            let elements = evaluated.iter().map(|(place, values)| {
                let value = b.splat(values.get(scan.value), strip.width);
                // Lanes past the end change nothing, so that the last lane has the total.
                match place.lanes.mask {
                    Some(exist) => b.select(exist, value, self.identity(scan, strip.width)),
                    None => value,
                }
            });
            let mut prefixes: Vec<Value> = elements.collect();
            let mut distance = 1;
            while distance < scan.block {
                prefixes = self.doubled(scan, &prefixes, distance);
                distance *= 2;
            }
            let last = *prefixes.last().expect("a block is not empty");
            let last = b.extract(last, strip.width - 1);
            next.push(self.combine(scan, total, last));
            let total = b.splat(total, strip.width);
            for ((place, _), prefix) in evaluated.iter_mut().zip(prefixes) {
                place.run(scan.slot, self.combine(scan, total, prefix));
            }
        }
        for (place, values) in &mut evaluated {
            emitter.evaluate(&order, place, values);
        }
        for store in &stage.stores {
            for (place, values) in &evaluated {
                emitter.store(store, place, values);
            }
        }
        next
    }

    /// Each lane of a block combined with the one `distance` before it. The identity stands
    /// where there is none: a zero whose sign that changes is added to a total anyway.
    fn doubled(&self, scan: &Scan, lanes: &[Value<'c>], distance: u32) -> Vec<Value<'c>> {
        let b = self.body.build();
        let width = self::lanes(lanes[0]);
        let earlier = |u: usize| {
            if distance >= width {
                return u.checked_sub((distance / width) as usize).map(|u| lanes[u]);
            }
            let before = match u.checked_sub(1) {
                Some(before) => lanes[before],
                None => self.identity(scan, width),
            };
            let moved: Vec<u32> = (width - distance..2 * width - distance).collect();
            Some(b.shuffle_pair(before, lanes[u], &moved))
        };
        let each = |(u, &lane): (usize, &Value<'c>)| match earlier(u) {
            Some(earlier) => self.combine(scan, earlier, lane),
            None => lane,
        };
        lanes.iter().enumerate().map(each).collect()
    }

    fn identity(&self, scan: &Scan, width: u32) -> Value<'c> {
        let b = self.body.build();
        let dtype = self.body.emitter.exprs.dtype(scan.value);
        b.splat(b.constant(identity(scan.kind, dtype)), width)
    }

    fn combine(&self, scan: &Scan, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        let emitter = &self.body.emitter;
        combine(emitter.arithmetic(), scan.kind, emitter.exprs.dtype(scan.value), x, y)
    }
}
