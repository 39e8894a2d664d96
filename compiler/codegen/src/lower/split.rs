//! Long reductions over few rows, in chunks.
//!
//! A row program gives each thread whole rows. With few rows that leaves threads
//! idle, so each level of reductions becomes two launches: one that reduces every
//! chunk of every row by itself, and one that combines the chunks of a row in order.
//!
//! ```text
//! sum of f32[1000000]:
//!   points [31], lanes inner            the chunk is a point axis
//!     stage inner 32768, 1000000 in all: s0 = sum load a0[32768*p0 + r]
//!     stage inner 1: store t[p0] = s0
//!   points []
//!     stage inner 31: s0 = sum load t[r]    one lane, in order
//!     stage inner 1: store a1[0] = s0
//! ```
//!
//! The bits are those of the unsplit reduction. [`Tree`] says that the chunks of a
//! row combine in increasing order starting at the identity. The first launch
//! computes each chunk as a row of its own: that adds the identity once more, to a
//! value that already contains it, which changes nothing (0 + x is x unless x is −0,
//! and a sum that began at 0 is never −0). The second adds them in that order.
//!
//! An arg-reduction passes on, for each chunk, the extreme value and where it first
//! is. The second launch finds the extreme of the values, then the least position
//! among the chunks that have it: since positions grow with chunks, that is the
//! first of equals, or the first NaN.

use hashbrown::HashMap;
use kiln_ir::op::{ArgKind, Compare, ReduceKind};
use kiln_ir::{DType, Scalar};

use super::Buffers;
use super::evaluate::Found;
use super::rows::{Program, place, slot_dtype};
use crate::kernel::expr::{BinaryOp, Places};
use crate::kernel::index::{Extents, linearize};
use crate::kernel::{
    Axis, Combine, Expr, ExprId, Exprs, Index, Lanes, Loops, Ragged, Reduction, Stage, Store, Tree,
};

/// Splitting pays below this many rows: above, there is work for every thread.
/// Lanes that are rows themselves use up more of them.
const fn few(lanes: Lanes) -> u64 {
    match lanes {
        Lanes::Inner => 64,
        Lanes::Points => 1024,
    }
}

/// The steps of a chunk, if the program is worth splitting.
pub(crate) fn chunk(program: &Program) -> Option<u64> {
    let rows: u64 = program.points.iter().product();
    let chunk = Tree::of(program.inner, program.lanes).chunk;
    let worth = program.depth() > 0 && rows < few(program.lanes) && program.inner >= 2 * chunk;
    worth.then_some(chunk)
}

/// A temporary with one element for each row, and for each chunk if it says so.
#[derive(Clone, Copy)]
struct Cell {
    argument: u32,
    dtype: DType,
}

/// The launches of a split program.
pub(crate) fn lower(buffers: &mut Buffers, program: Program, chunk: u64) -> Vec<Loops> {
    let mut split = Split::new(program, chunk);
    let depth = split.program.depth();
    let last = split.program.wide.is_empty();
    let mut launches = Vec::new();
    for level in 0..depth {
        let found: Vec<(u32, Found)> =
            split.program.reductions_at(level).map(|(slot, f)| (slot, f.clone())).collect();
        let partials = split.partials(buffers, &found, &mut launches);
        // Later launches read the results unless this one does all that is left.
        let keep = level + 1 < depth || !last;
        let finished = level + 1 == depth;
        split.combine(buffers, &found, &partials, keep, finished, &mut launches);
    }
    if !last {
        launches.push(split.spread());
    }
    launches
}

struct Split {
    program: Program,
    chunk: u64,
    chunks: u64,
    tree: Tree,
    /// Results of the levels done, one element for each row, by slot.
    results: HashMap<u32, Cell>,
}

impl Split {
    fn new(program: Program, chunk: u64) -> Split {
        let chunks = program.inner.div_ceil(chunk);
        let tree = Tree::of(program.inner, program.lanes);
        Split { program, chunk, chunks, tree, results: HashMap::new() }
    }

    fn rows(&self) -> u64 {
        self.program.points.iter().product()
    }

    /// Element number of a row, the row axes starting at point axis `first`.
    fn row(&self, first: u32) -> Index {
        let shape: Vec<usize> = self.program.points.iter().map(|&d| d as usize).collect();
        let axes = (0..shape.len() as u32).map(|p| Index::axis(Axis::Point(first + p)));
        linearize(&axes.collect::<Vec<_>>(), &shape)
    }

    /// Point axes with `extra` beside the rows: outermost when lanes run along the
    /// rows, innermost otherwise. Returns the extents, the number of the extra axis
    /// and that of the first row axis.
    fn points(&self, extra: u64) -> (Vec<u64>, u32, u32) {
        let mut points = self.program.points.clone();
        match self.program.lanes {
            Lanes::Points => {
                points.insert(0, extra);
                (points, 0, 1)
            }
            Lanes::Inner => {
                points.push(extra);
                let extra = points.len() as u32 - 1;
                (points, extra, 0)
            }
        }
    }

    /// Expressions of the program over new axes: rows from point axis `first` on, the
    /// inner axis as `step`, slots of earlier levels as loads. Also returned: where
    /// each expression of the program went.
    fn place(&self, extents: &Extents, first: u32, step: &Index) -> (Exprs, Places) {
        let from = &self.program.exprs;
        let axes = self.axes(first, step);
        let mut to = Exprs::default();
        let places = from.copy(&mut to, &vec![true; from.len()], |to, id, places| {
            let at = |e: ExprId| places.at(e);
            let new = match from.get(id) {
                Expr::Slot(slot) if self.results.contains_key(slot) => {
                    let argument = self.results[slot].argument;
                    Expr::Load { argument, index: self.row(first), valid: None }
                }
                expr => expr.map(at, |i| i.substitute(extents, &axes, &at)),
            };
            to.add(new, from.dtype(id))
        });
        (to, places)
    }

    /// The program's axes in terms of new ones.
    fn axes<'a>(&self, first: u32, step: &'a Index) -> impl Fn(Axis) -> Index + use<'a> {
        move |axis| match axis {
            Axis::Point(p) => Index::axis(Axis::Point(first + p)),
            _ => step.clone(),
        }
    }

    /// The launch that reduces chunks; where each reduction's results are.
    fn partials(
        &mut self,
        buffers: &mut Buffers,
        found: &[(u32, Found)],
        launches: &mut Vec<Loops>,
    ) -> Vec<(Cell, Option<Cell>)> {
        let (points, axis, first) = self.points(self.chunks);
        let extents = Extents { points: points.clone(), inner: self.chunk, ..Extents::default() };
        let start = Index::axis(Axis::Point(axis)).scale(self.chunk as i64);
        let step = start.add(&Index::axis(Axis::Inner));
        let (mut exprs, places) = self.place(&extents, first, &step);

        let mut stage = Stage::new(self.chunk);
        stage.ragged = Some(Ragged { axis, total: self.program.inner });
        let mut stores = Stage::new(1);
        let at = match self.program.lanes {
            Lanes::Points => {
                Index::axis(Axis::Point(axis)).scale(self.rows() as i64).add(&self.row(first))
            }
            Lanes::Inner => {
                self.row(first).scale(self.chunks as i64).add(&Index::axis(Axis::Point(axis)))
            }
        };
        let elements = self.rows() * self.chunks;
        let mut cells = Vec::new();
        let mut slots = 0;
        for (_, found) in found {
            let value = places.at(found.value);
            let mut reduce = |stage: &mut Stage, combine| {
                stage.reductions.push(Reduction { combine, value, slot: slots, tree: self.tree });
                slots += 1;
                slots - 1
            };
            let mut store = |exprs: &Exprs, value: ExprId| {
                let dtype = exprs.dtype(value);
                let argument = buffers.temporary(dtype, elements);
                stores.stores.push(Store { argument, index: at.clone(), value });
                Cell { argument, dtype }
            };
            let dtype = exprs.dtype(value);
            let place = match found.combine {
                Combine::Value(_) => None,
                Combine::Arg(kind) => {
                    let slot = reduce(&mut stage, Combine::Arg(kind));
                    let step = exprs.add(Expr::Slot(slot), DType::I64);
                    let start = exprs.index(start.clone());
                    let place = exprs.binary(BinaryOp::Add, step, start);
                    Some(store(&exprs, place))
                }
            };
            let slot = reduce(&mut stage, Combine::Value(kind(found)));
            let value = exprs.add(Expr::Slot(slot), dtype);
            cells.push((store(&exprs, value), place));
        }
        launches.push(Loops {
            points,
            lanes: self.program.lanes,
            exprs,
            stages: vec![stage, stores],
        });
        cells
    }

    /// The launch that combines the chunks of each row. With `keep`, it stores the
    /// results for later launches; when `finished`, it stores the narrow roots.
    fn combine(
        &mut self,
        buffers: &mut Buffers,
        found: &[(u32, Found)],
        partials: &[(Cell, Option<Cell>)],
        keep: bool,
        finished: bool,
        launches: &mut Vec<Loops>,
    ) {
        let points = self.program.points.clone();
        let mut exprs = Exprs::default();
        let chunk = Index::axis(Axis::Inner);
        let at = match self.program.lanes {
            Lanes::Points => chunk.scale(self.rows() as i64).add(&self.row(0)),
            Lanes::Inner => self.row(0).scale(self.chunks as i64).add(&chunk),
        };
        let tree = Tree { lanes: 1, chunk: self.chunks };
        let (mut values, mut places) = (Stage::new(self.chunks), Stage::new(self.chunks));
        // Slots as later stages read them, in the numbering of the program.
        let mut known: Vec<(u32, ExprId)> = Vec::new();
        let mut slots = 0;
        for ((program_slot, found), (value, place)) in found.iter().zip(partials) {
            let load = |exprs: &mut Exprs, cell: &Cell| {
                let (argument, index) = (cell.argument, at.clone());
                exprs.add(Expr::Load { argument, index, valid: None }, cell.dtype)
            };
            let mut reduce = |stage: &mut Stage, kind, value| {
                let combine = Combine::Value(kind);
                stage.reductions.push(Reduction { combine, value, slot: slots, tree });
                slots += 1;
                slots - 1
            };
            let each = load(&mut exprs, value);
            let slot = reduce(&mut values, kind(found), each);
            let best = exprs.add(Expr::Slot(slot), value.dtype);
            let result = match place {
                None => best,
                Some(place) => {
                    let position = load(&mut exprs, place);
                    let hit = same(&mut exprs, each, best);
                    let never = exprs.constant(Scalar::from_i128(DType::I64, i64::MAX.into()));
                    let candidate = exprs.select(hit, position, never);
                    let slot = reduce(&mut places, ReduceKind::Min, candidate);
                    exprs.add(Expr::Slot(slot), DType::I64)
                }
            };
            known.push((*program_slot, result));
        }
        let mut last = Stage::new(1);
        if keep {
            for &(slot, value) in &known {
                let dtype = exprs.dtype(value);
                let argument = buffers.temporary(dtype, self.rows());
                last.stores.push(Store { argument, index: self.row(0), value });
                debug_assert_eq!(
                    dtype,
                    slot_dtype(&self.program.exprs, &self.program.reductions[slot as usize])
                );
                self.results.insert(slot, Cell { argument, dtype });
            }
        }
        if finished && !self.program.narrow.is_empty() {
            // This level's slots are at hand; those of earlier levels are loaded.
            let program = &self.program.exprs;
            let mut at_hand = HashMap::new();
            for (id, expr, dtype) in program.iter() {
                let Expr::Slot(slot) = expr else { continue };
                let here = known.iter().find(|(s, _)| s == slot).map(|(_, e)| *e);
                let value = here.unwrap_or_else(|| {
                    let argument = self.results[slot].argument;
                    exprs.add(Expr::Load { argument, index: self.row(0), valid: None }, dtype)
                });
                at_hand.insert(id, value);
            }
            let stage = Stage { stores: self.program.narrow.clone(), ..Stage::new(1) };
            last.stores.extend(place(program, &mut exprs, &at_hand, &stage).stores);
        }
        let stages = [values, places, last];
        let stages =
            stages.into_iter().filter(|s| !s.reductions.is_empty() || !s.stores.is_empty());
        launches.push(Loops { points, lanes: self.program.lanes, exprs, stages: stages.collect() });
    }

    /// The launch that stores the wide roots, every element a point.
    fn spread(&self) -> Loops {
        let (points, axis, first) = self.points(self.program.inner);
        let extents = Extents { points: points.clone(), inner: 1, ..Extents::default() };
        let step = Index::axis(Axis::Point(axis));
        let (exprs, places) = self.place(&extents, first, &step);
        let at = |e: ExprId| places.at(e);
        let axes = self.axes(first, &step);
        let stores = self.program.wide.iter().map(|s| Store {
            index: s.index.substitute(&extents, &axes, &at),
            value: at(s.value),
            ..*s
        });
        let stages = vec![Stage { stores: stores.collect(), ..Stage::new(1) }];
        Loops { points, lanes: Lanes::Points, exprs, stages }
    }
}

/// How the values of a reduction combine: its own way, or to the extreme it seeks.
fn kind(found: &Found) -> ReduceKind {
    match found.combine {
        Combine::Value(kind) => kind,
        Combine::Arg(ArgKind::Min) => ReduceKind::Min,
        Combine::Arg(ArgKind::Max) => ReduceKind::Max,
    }
}

/// Whether `a` is the extreme `b`: equal, or both NaN.
fn same(x: &mut Exprs, a: ExprId, b: ExprId) -> ExprId {
    let equal = x.compare(Compare::Eq, a, b);
    if !x.dtype(a).is_float() {
        return equal;
    }
    let (a, b) = (x.compare(Compare::Ne, a, a), x.compare(Compare::Ne, b, b));
    let nan = x.binary(BinaryOp::And, a, b);
    x.binary(BinaryOp::Or, equal, nan)
}
