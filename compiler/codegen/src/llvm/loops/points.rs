//! Lanes along the last point axis: elementwise kernels, and reductions along an
//! outer axis.
//!
//! ```text
//! for row of outer points
//!   for strip of the last axis             copies x width points at a time
//!     for stage
//!       for step of its inner axis         accumulators stay in registers
//! ```
//!
//! A unit of work is a block of one row, or several short rows. Neighbouring blocks
//! of a row are one loop, so a one-dimensional kernel has no outer loop at all.
//!
//! Where lanes gather elements that are neighbours along an outer axis, as in a
//! transpose, that axis is tiled, so that a cache line is used up while it is near:
//!
//! ```text
//! for row of outer points, tiles of axis q counting as one
//!   for strip of the last axis
//!     for q of the tile                    the gathers hit the same lines again
//! ```

use super::shape::{BUSY, Cost, DIVISIBLE, LONG, Level, UNIT, grain, masks};
use super::{Body, Cut, Launch, Strip};
use crate::kernel::{Axis, Carry, Expr, ExprId, Stage};
use crate::llvm::build::Value;
use crate::llvm::expr::{Place, Values};
use crate::llvm::reduce::Accumulators;

/// An outer axis of which some steps are done for one strip before the next.
#[derive(Clone, Copy)]
struct Tile {
    /// Number of the point axis.
    axis: usize,
    /// Its extent.
    extent: u64,
    /// Steps of a tile.
    size: u64,
}

impl Tile {
    /// The axis along which the elements that lanes gather are neighbours.
    fn of(body: &Body) -> Option<Tile> {
        let loops = body.loops;
        let last = loops.points.len().checked_sub(1)?;
        loops.exprs.iter().find_map(|(_, expr, dtype)| {
            let Expr::Load { index, .. } = expr else { return None };
            let step = loops.exprs.coefficient(index, Axis::Point(last as u32))?;
            // Neighbours, or parts of neighbouring complex numbers.
            let (axis, apart) = (0..last).find_map(|q| {
                let along = index.coefficient(Axis::Point(q as u32))?.unsigned_abs();
                (matches!(along, 1 | 2) && loops.points[q] > 1).then_some((q, along))
            })?;
            let line = 64 / (dtype.size() as u64 * apart);
            let (extent, size) = (loops.points[axis], line.min(loops.points[axis]));
            (step.unsigned_abs() > apart).then_some(Tile { axis, extent, size })
        })
    }
}

/// How the points are cut into vectors and units.
struct Shape {
    /// Extents of the outer axes, that of a tiled one in tiles.
    outer: Vec<u64>,
    tile: Option<Tile>,
    /// How many rows there are.
    rows: u64,
    /// Extent of the last axis.
    extent: u64,
    cut: Cut,
    /// Points of a block; a multiple of a strip unless it is the whole row.
    block: u64,
    /// Blocks of a row.
    blocks: u64,
    /// Rows of a unit; 1 when rows have several blocks.
    rows_per_unit: u64,
    /// Work of one unit.
    work: u64,
    /// Whether there is enough arithmetic between loads for prefetching to help.
    busy: bool,
}

impl Shape {
    fn of(body: &Body) -> Shape {
        let (loops, isa) = (body.loops, body.emitter.isa);
        let mut outer = loops.points[..loops.points.len().saturating_sub(1)].to_vec();
        let extent = loops.points.last().copied().unwrap_or(1);
        let tile = Tile::of(body);
        if let Some(Tile { axis, extent, size }) = tile {
            outer[axis] = extent.div_ceil(size);
        }
        let rows = outer.iter().product();

        let mut cost = Cost::default();
        let (mut work, mut reductions, mut copies) = (0, 0, 4);
        for stage in &loops.stages {
            let of_stage = Cost::of(loops, &body.levels, body.emitter.arguments, stage);
            work += stage.inner.saturating_mul(of_stage.work());
            reductions = reductions.max(stage.reductions.len() as u32);
            copies = copies.min(of_stage.copies(isa, loops.points.iter().product()));
            cost.add(of_stage);
        }
        if reductions > 0 && loops.stages.iter().any(|s| s.inner > 1) {
            // Each copy is a chain of dependent additions: several hide their latency,
            // as many as half of the registers hold.
            copies = (4 * copies).min(isa.registers() / 2 / reductions).max(1);
            copies = 1 << copies.ilog2();
            let width = u64::from(cost.width(isa));
            let units = |copies| loops.points.iter().product::<u64>() / (u64::from(copies) * width);
            while copies > 1
                && (u64::from(copies) * cost.ops > LONG || units(copies) < DIVISIBLE && copies > 4)
            {
                copies /= 2;
            }
        }
        if let Some(tile) = tile {
            // Lines of more lanes would not fit the sets of the first cache.
            copies = 1;
            work *= tile.size;
        }
        let mut width = cost.width(isa);
        width = u64::from(width).min(extent.next_power_of_two()) as u32;
        while copies > 1 && u64::from(copies * width) > extent {
            copies /= 2;
        }
        let masks = masks(isa, loops, body.emitter.arguments, &body.levels);
        let cut = Cut { copies, width, masks, extent: Some(extent) };

        let busy = reductions == 0 && cost.ops >= BUSY;
        let strip = u64::from(copies * width);
        let block = UNIT.div_ceil(work).next_multiple_of(strip);
        let (block, blocks) =
            if block >= extent { (extent, 1) } else { (block, extent.div_ceil(block)) };
        let row_work = extent.saturating_mul(work);
        let rows_per_unit = if blocks > 1 { 1 } else { (UNIT / row_work).clamp(1, rows) };
        let work = block.saturating_mul(rows_per_unit).saturating_mul(work);
        Shape { outer, tile, rows, extent, cut, block, blocks, rows_per_unit, work, busy }
    }

    fn launch(&self) -> Launch {
        let grid = match self.blocks {
            1 => self.rows.div_ceil(self.rows_per_unit),
            blocks => self.rows * blocks,
        };
        Launch { grid, grain: grain(self.work), scratch: 0 }
    }
}

pub(super) fn emit<'c>(body: &Body<'_, 'c>) -> Launch {
    let shape = Shape::of(body);
    let b = body.build();
    let values = body.kernel_values();
    let (begin, end) = (body.begin, body.end);
    let most = |x: Value<'c>, limit: u64| b.binary_intrinsic("llvm.umin", x, b.i64(limit as i64));
    if shape.blocks == 1 {
        let each = b.i64(shape.rows_per_unit as i64);
        let rows = (b.mul(begin, each), most(b.mul(end, each), shape.rows), 1);
        b.for_each("row", rows, Vec::new(), |row, none| {
            run(body, &shape, row, (b.i64(0), b.i64(shape.extent as i64)), &values);
            none
        });
        return shape.launch();
    }
    let Shape { rows, blocks, block, extent, .. } = shape;
    body.for_each_block(rows, blocks, block, extent, &mut |row, range| {
        run(body, &shape, row, range, &values);
    });
    shape.launch()
}

/// The points `range` of one row.
fn run<'c>(
    body: &Body<'_, 'c>,
    shape: &Shape,
    row: Value<'c>,
    range: (Value<'c>, Value<'c>),
    values: &Values<'c>,
) {
    let outer = body.coordinates(row, &shape.outer);
    let Some(tile) = shape.tile else {
        let values = row_values(body, &outer, values);
        body.sweep(range, shape.cut, &mut |strip| points(body, shape, &outer, strip, &values));
        return;
    };
    let b = body.build();
    let from = b.mul(outer[tile.axis], b.i64(tile.size as i64));
    let to = b.add(from, b.i64(tile.size as i64));
    let to = b.binary_intrinsic("llvm.umin", to, b.i64(tile.extent as i64));
    body.sweep(range, shape.cut, &mut |strip| {
        b.for_each("tile", (from, to, 1), Vec::new(), |at, none| {
            let mut outer = outer.clone();
            outer[tile.axis] = at;
            let values = row_values(body, &outer, values);
            points(body, shape, &outer, strip, &values);
            none
        });
    });
}

/// Adds what is constant in a row.
fn row_values<'c>(body: &Body<'_, 'c>, outer: &[Value<'c>], values: &Values<'c>) -> Values<'c> {
    let mut values = values.clone();
    let place = Place::scalar(outer.to_vec());
    for stage in &body.loops.stages {
        body.emitter.evaluate(&body.order(stage, Level::Row), &place, &mut values);
    }
    values
}

/// All stages of the points of a strip.
fn points<'c>(
    body: &Body<'_, 'c>,
    shape: &Shape,
    outer: &[Value<'c>],
    strip: Strip<'c>,
    row_values: &Values<'c>,
) {
    let last = body.loops.points.len().checked_sub(1);
    let mut copies: Vec<(Place, Values)> = (0..strip.copies)
        .map(|u| {
            let mut place = Place::scalar(outer.to_vec());
            place.ahead = shape.busy;
            if let Some(last) = last {
                let (at, lanes) = body.lanes(&strip, Axis::Point(last as u32), u);
                place.points.push(at);
                place.lanes = lanes;
            }
            (place, row_values.clone())
        })
        .collect();
    for stage in &body.loops.stages {
        let order = body.order(stage, Level::Strip);
        body.emitter.evaluate_together(&order, &mut copies);
        run_stage(body, stage, strip, &mut copies);
    }
}

fn run_stage<'c>(
    body: &Body<'_, 'c>,
    stage: &Stage,
    strip: Strip<'c>,
    copies: &mut [(Place<'c>, Values<'c>)],
) {
    let b = body.build();
    let accumulators = Accumulators {
        emitter: &body.emitter,
        reductions: &stage.reductions,
        copies: strip.copies,
        width: strip.width,
        step_bits: if stage.inner < 1 << 31 { 32 } else { 64 },
    };
    let order = body.order(stage, Level::Step);
    let carried = |values: &Values<'c>, which: fn(&Carry) -> ExprId| -> Vec<Value<'c>> {
        let vector = |c: &Carry| b.splat(values.get(which(c)), strip.width);
        stage.carries.iter().map(vector).collect()
    };
    // One step: every copy is evaluated before any is stored, since an argument that
    // is read may be the buffer that is written. Gives the next carries, copy by copy.
    let step = |at: Value<'c>, states: &mut _, carries: Vec<Value<'c>>| {
        let mut evaluated = copies.to_vec();
        let mut carries = carries.into_iter();
        for (place, _) in &mut evaluated {
            place.inner = Some(at);
            for (carry, value) in stage.carries.iter().zip(&mut carries) {
                place.run(carry.slot, value);
            }
        }
        body.emitter.evaluate_together(&order, &mut evaluated);
        for (u, (place, values)) in evaluated.iter().enumerate() {
            let number = accumulators.steps_at(place);
            accumulators.step(states, u as u32, number, place, values);
        }
        body.emitter.stores(&stage.stores, &evaluated);
        evaluated.iter().flat_map(|(_, values)| carried(values, |c| c.next)).collect::<Vec<_>>()
    };
    let zero = b.i64(0);
    let start = |at: Value<'c>| {
        let number = b.splat(b.resize(at, accumulators.step_bits, false), strip.width);
        accumulators.start(|_| number)
    };

    let first: Vec<Value> =
        copies.iter().flat_map(|(_, values)| carried(values, |c| c.first)).collect();
    let mut last = first.clone();
    let states = if stage.inner == 1 && stage.ragged.is_none() {
        let mut states = start(zero);
        last = step(zero, &mut states, first);
        states
    } else if !stage.carries.is_empty() {
        let (steps, _) = body.steps(stage, &copies[0].0.points);
        last = b.for_each("step", (zero, steps, 1), first, |at, carries| {
            step(at, &mut Vec::new(), carries)
        });
        Vec::new()
    } else {
        let (steps, _) = body.steps(stage, &copies[0].0.points);
        let chunk_size = stage.reductions.first().map_or(u64::MAX, |r| r.tree.chunk);
        let chunk = |from, to| {
            let carried = accumulators.flatten(&start(from));
            let result = b.for_each("step", (from, to, 1), carried, |at, carried| {
                let mut states = accumulators.unflatten(carried);
                step(at, &mut states, Vec::new());
                accumulators.flatten(&states)
            });
            accumulators.unflatten(result)
        };
        if stage.inner <= chunk_size {
            chunk(zero, steps)
        } else {
            let carried = accumulators.flatten(&start(zero));
            let range = (zero, steps, chunk_size);
            let total = b.for_each("chunk", range, carried, |from, carried| {
                let end = b.add(from, b.i64(chunk_size as i64));
                let end = b.binary_intrinsic("llvm.umin", end, steps);
                let total = accumulators.unflatten(carried);
                accumulators.flatten(&accumulators.join_all(&total, &chunk(from, end)))
            });
            accumulators.unflatten(total)
        }
    };
    for (j, reduction) in stage.reductions.iter().enumerate() {
        for (u, (place, _)) in copies.iter_mut().enumerate() {
            let state = states[j * strip.copies as usize + u];
            place.fill(reduction.slot, accumulators.result(state));
        }
    }
    let mut last = last.into_iter();
    for (place, _) in copies.iter_mut() {
        for (carry, value) in stage.carries.iter().zip(&mut last) {
            place.fill(carry.slot, value);
        }
    }
}
