//! Bytes and operations of a launch, counted from its kernel.
//!
//! An element that is loaded at several points or steps counts once: what repeats
//! along an axis, such as a bias, stays in a cache. Loads at the same index in several
//! stages of a point count once while the rows of a point fit [`CACHED_ROW`]; longer
//! rows count once a stage. Several loads of one argument never count more than all
//! its elements, a stage.
//!
//! So for a program that is fused as it should be, the count is the compulsory
//! traffic: each input once, each output once.

use hashbrown::{HashMap, HashSet};
use kiln_executable::Traffic;

use super::index::Extents;
use super::{
    Axis, Body, Contraction, Expr, ExprId, Exprs, Index, Kernel, Lanes, Loops, Sort, Stage,
};

/// Bytes of a point's rows that later stages find in a cache: half of a usual L2.
const CACHED_ROW: u64 = 1 << 20;

/// Bytes that neighbouring points are read in when lanes run along them.
const LINE: u64 = 64;

/// What one launch of `kernel` reads, writes and computes.
pub fn traffic(kernel: &Kernel) -> Traffic {
    let mut total = Traffic::default();
    let mut add = |t: Traffic| {
        total.read += t.read;
        total.written += t.written;
        total.flops += t.flops;
    };
    match &kernel.body {
        Body::Loops(loops) => add(of_loops(kernel, loops)),
        Body::Contraction(contraction) => add(of_contraction(kernel, contraction)),
        Body::Sort(sort) => add(of_sort(kernel, sort)),
        Body::Together(parts) => parts.iter().for_each(|part| add(of_loops(kernel, part))),
    }
    total
}

/// The axes that an index may change along.
fn axes(points: usize) -> impl Iterator<Item = Axis> {
    let others = [Axis::Inner, Axis::Row, Axis::Column];
    (0..points as u32).map(Axis::Point).chain(others)
}

/// How many different elements an index can name.
fn elements(exprs: &Exprs, index: &Index, extents: &Extents) -> u64 {
    axes(extents.points.len())
        .filter(|&axis| depends_on(exprs, index, axis))
        .map(|axis| extents.of(axis))
        .fold(1, u64::saturating_mul)
}

/// Whether an index or a value that it reads may change along an axis.
fn depends_on(exprs: &Exprs, index: &Index, axis: Axis) -> bool {
    index.depends_on(axis) || exprs.coefficient(index, axis).is_none()
}

/// Loads met so far and the bytes they read, by argument.
#[derive(Default)]
struct Reads {
    seen: HashSet<(u32, Index)>,
    elements: HashMap<u32, u64>,
}

impl Reads {
    fn add(&mut self, exprs: &Exprs, reached: &[bool], extents: &Extents) {
        for (_, expr, _) in exprs.iter().filter(|(id, ..)| reached[id.0 as usize]) {
            if let Expr::Load { argument, index, .. } = expr
                && self.seen.insert((*argument, index.clone()))
            {
                *self.elements.entry(*argument).or_default() += elements(exprs, index, extents);
            }
        }
    }

    fn bytes(&self, kernel: &Kernel) -> u64 {
        let of = |(&argument, &elements): (&u32, &u64)| {
            let argument = kernel.arguments[argument as usize];
            elements.min(argument.elements) * argument.dtype.size() as u64
        };
        self.elements.iter().map(of).sum()
    }
}

fn roots(stage: &Stage) -> Vec<ExprId> {
    let mut roots = Vec::new();
    stage.for_each_root(|e| roots.push(e));
    roots
}

/// Extents of the axes in one stage; of a ragged one, over all chunks together.
fn stage_extents(loops: &Loops, stage: &Stage) -> Extents {
    let mut extents =
        Extents { points: loops.points.clone(), inner: stage.inner, row: 1, column: 1 };
    if let Some(ragged) = stage.ragged {
        extents.points[ragged.axis as usize] = 1;
        extents.inner = ragged.total;
    }
    extents
}

fn of_loops(kernel: &Kernel, loops: &Loops) -> Traffic {
    let exprs = &loops.exprs;
    let mut traffic = Traffic::default();
    let mut reads = Reads::default();
    let mut row = 0;
    for (i, stage) in loops.stages.iter().enumerate() {
        let extents = stage_extents(loops, stage);
        let reached = exprs.reachable(roots(stage));
        if i > 0 && row > CACHED_ROW {
            // The rows are gone from the cache: what was read is read again.
            traffic.read += std::mem::take(&mut reads).bytes(kernel);
        }
        reads.add(exprs, &reached, &extents);
        row = reads
            .seen
            .iter()
            .map(|(argument, index)| row_bytes(kernel, loops, *argument, index))
            .sum();

        let points: u64 = extents.points.iter().product();
        let steps = points * extents.inner;
        for store in &stage.stores {
            let size = kernel.arguments[store.argument as usize].dtype.size() as u64;
            traffic.written += steps * size;
        }
        for scatter in &stage.scatters {
            let argument = kernel.arguments[scatter.argument as usize];
            let bytes = steps.min(argument.elements) * argument.dtype.size() as u64;
            traffic.written += bytes;
            if scatter.combine.is_some() {
                traffic.read += bytes;
                traffic.flops += steps;
            }
        }
        traffic.flops += steps * stage.reductions.len() as u64;
        let rounds = |s: &super::Scan| u64::from(s.block.ilog2()) + 1;
        traffic.flops += steps * stage.scans.iter().map(rounds).sum::<u64>();
        let varying = exprs.varying();
        for (id, expr, _) in exprs.iter().filter(|(id, ..)| reached[id.0 as usize]) {
            let times = if varying[id.0 as usize] { steps } else { points };
            traffic.flops += times * operations(expr);
        }
    }
    traffic.read += reads.bytes(kernel);
    traffic
}

/// Bytes of a cache that the row of one point takes.
fn row_bytes(kernel: &Kernel, loops: &Loops, argument: u32, index: &Index) -> u64 {
    let inner = loops.extents().inner;
    let size = kernel.arguments[argument as usize].dtype.size() as u64;
    match (index.depends_on(Axis::Inner), loops.lanes) {
        (false, _) => 0,
        (true, Lanes::Inner) => inner * size,
        (true, Lanes::Points) => inner * LINE,
    }
}

fn of_contraction(kernel: &Kernel, c: &Contraction) -> Traffic {
    let mut all = vec![c.lhs, c.rhs];
    c.stores.iter().for_each(|s| s.for_each_root(|e| all.push(e)));
    let extents = c.extents();
    let mut reads = Reads::default();
    reads.add(&c.exprs, &c.exprs.reachable(all.iter().copied()), &extents);
    let batch: u64 = c.batch.iter().product();
    let mut traffic =
        Traffic { read: reads.bytes(kernel), written: 0, flops: 2 * batch * c.m * c.n * c.k };
    for store in &c.stores {
        let size = kernel.arguments[store.argument as usize].dtype.size() as u64;
        traffic.written += batch * c.m * c.n * size;
    }
    let parts = [(vec![c.lhs], batch * c.m * c.k), (vec![c.rhs], batch * c.k * c.n)];
    let epilogue = (all.split_off(2), batch * c.m * c.n);
    for (roots, times) in parts.into_iter().chain([epilogue]) {
        let reached = c.exprs.reachable(roots);
        let here = c.exprs.iter().filter(|(id, ..)| reached[id.0 as usize]);
        traffic.flops += times * here.map(|(_, expr, _)| operations(expr)).sum::<u64>();
    }
    traffic
}

/// Every operand once and every result once; comparisons as a merge sort would make them,
/// eight operations each. Where few are wanted, one comparison for each element.
fn of_sort(kernel: &Kernel, sort: &Sort) -> Traffic {
    let bytes = |arguments: &mut dyn Iterator<Item = u32>| -> u64 {
        let arguments: HashSet<u32> = arguments.collect();
        let sizes = arguments.iter().map(|&a| kernel.arguments[a as usize]);
        sizes.map(|a| a.elements * a.dtype.size() as u64).sum()
    };
    let levels = if 4 * sort.take < sort.length { 1 } else { sort.length.ilog2() + 1 };
    Traffic {
        read: bytes(&mut sort.read()),
        written: bytes(&mut sort.written()),
        flops: sort.rows() * sort.length * u64::from(levels) * 8,
    }
}

/// Arithmetic operations; moves and choices are none.
fn operations(expr: &Expr) -> u64 {
    match expr {
        Expr::Unary(..) | Expr::Binary(..) | Expr::Compare(..) => 1,
        Expr::Fma(..) => 2,
        _ => 0,
    }
}
