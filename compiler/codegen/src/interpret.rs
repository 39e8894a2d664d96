//! Runs kernel IR one step at a time.
//!
//! The oracle between `eval`, which knows ops, and the backends, which know
//! machines: it knows only what the kernel IR says, and honours the order of every
//! reduction exactly. It is slow and plain on purpose.
//!
//! While it runs it checks what a kernel promises, and panics where a promise is
//! broken, since that is a fault of lowering:
//!
//! - loads and stores stay inside their arguments;
//! - no element of an argument is stored twice, but by scatters of one point, and, for
//!   loops, none is loaded after it was stored ([`run_shared`] makes two arguments one
//!   buffer, so this is where the rule on shared buffers is checked);
//! - slots and kept rows are filled before they are read.

mod scalar;
mod sort;

use hashbrown::{HashMap, HashSet};
use kiln_ir::op::{ArgKind, Compare, Part, ReduceKind};
use kiln_ir::{DType, Scalar};
use scalar::{binary, compare, convert, fma, is_nan, unary};
use sort::run_sort;

use crate::kernel::expr::BinaryOp;
use crate::kernel::{
    Axis, Body, Combine, Contraction, Expr, ExprId, Exprs, Index, Kernel, Loops, Reduction, Scan,
    Scatter, Stage, Term,
};

/// Dense elements of one type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// Element type.
    pub dtype: DType,
    /// Bit patterns, one a word.
    pub elements: Vec<u64>,
}

impl Buffer {
    /// A buffer of zeros.
    pub fn zeros(dtype: DType, elements: usize) -> Buffer {
        Buffer { dtype, elements: vec![0; elements] }
    }

    /// The elements of a literal; of complex ones the parts, as kernels see them.
    pub fn from_literal(literal: &kiln_ir::Literal) -> Buffer {
        let complex = literal.ty().dtype.is_complex();
        let parts = if complex { &Part::ALL[..] } else { &Part::ALL[..1] };
        let elements = literal.iter().flat_map(|s| parts.iter().map(move |p| p.of(s).bits()));
        Buffer { dtype: literal.ty().dtype.part(), elements: elements.collect() }
    }
}

/// Runs `kernel` on one buffer for each of its arguments, and says how many elements
/// of each it stored.
///
/// # Panics
/// If the kernel breaks a promise of kernel IR, or the buffers do not fit it.
pub fn run(kernel: &Kernel, buffers: &mut [Buffer]) -> Vec<usize> {
    let which: Vec<usize> = (0..buffers.len()).collect();
    run_shared(kernel, buffers, &which)
}

/// Runs `kernel` with argument `i` in `buffers[which[i]]`: arguments may share one. Says
/// how many elements of each argument's buffer were stored.
///
/// # Panics
/// If the kernel breaks a promise of kernel IR, or the buffers do not fit it.
pub fn run_shared(kernel: &Kernel, buffers: &mut [Buffer], which: &[usize]) -> Vec<usize> {
    assert_eq!(which.len(), kernel.arguments.len(), "buffers of `{}`", kernel.name);
    for (argument, &at) in kernel.arguments.iter().zip(which) {
        let buffer = &buffers[at];
        assert_eq!(
            argument.elements as usize,
            buffer.elements.len(),
            "elements of `{}`",
            kernel.name
        );
        assert_eq!(argument.dtype.size(), buffer.dtype.size(), "width of `{}`", kernel.name);
    }
    let mut memory =
        Memory { kernel, buffers, which, written: HashSet::new(), scattered: HashMap::new() };
    match &kernel.body {
        Body::Loops(loops) => run_loops(loops, &mut memory),
        Body::Contraction(contraction) => run_contraction(contraction, &mut memory),
        Body::Sort(sort) => run_sort(sort, &mut memory),
        Body::Together(parts) => parts.iter().for_each(|part| run_loops(part, &mut memory)),
    }
    let stored = |&at: &usize| memory.written.iter().filter(|(buffer, _)| *buffer == at).count();
    which.iter().map(stored).collect()
}

/// The arguments of a run, with what was stored so far.
struct Memory<'a> {
    kernel: &'a Kernel,
    buffers: &'a mut [Buffer],
    which: &'a [usize],
    written: HashSet<(usize, usize)>,
    /// By element that was scattered to, the point that did.
    scattered: HashMap<(usize, usize), Vec<u64>>,
}

impl Memory<'_> {
    fn at(&self, argument: u32, index: i64) -> (usize, usize) {
        let buffer = self.which[argument as usize];
        let elements = self.buffers[buffer].elements.len();
        let inside = usize::try_from(index).is_ok_and(|i| i < elements);
        assert!(inside, "`{}`: element {index} of argument {argument}", self.kernel.name);
        (buffer, index as usize)
    }

    fn load(&self, argument: u32, index: i64) -> u64 {
        assert!(self.kernel.arguments[argument as usize].reads, "load from a written argument");
        let (buffer, i) = self.at(argument, index);
        assert!(
            !self.written.contains(&(buffer, i)),
            "`{}`: element {i} of argument {argument} is read after it was written",
            self.kernel.name
        );
        self.buffers[buffer].elements[i]
    }

    fn store(&mut self, argument: u32, index: i64, bits: u64) {
        assert!(self.kernel.arguments[argument as usize].writes, "store to a read argument");
        let (buffer, i) = self.at(argument, index);
        assert!(
            self.written.insert((buffer, i)),
            "`{}`: element {i} of argument {argument} is written twice",
            self.kernel.name
        );
        self.buffers[buffer].elements[i] = bits;
    }
}

impl Memory<'_> {
    fn scatter(&mut self, s: &Scatter, index: i64, bits: u64, point: &[u64]) {
        let dtype = self.kernel.arguments[s.argument as usize].dtype;
        let at = self.at(s.argument, index);
        let owner = self.scattered.entry(at).or_insert_with(|| point.to_vec());
        assert_eq!(owner, point, "`{}`: two points write one element", self.kernel.name);
        self.written.insert(at);
        let element = &mut self.buffers[at.0].elements[at.1];
        *element = match s.combine {
            None => bits,
            Some(op) => {
                let [old, new] = [*element, bits].map(|b| Scalar::from_bits(dtype, b));
                binary(op, old, new).bits()
            }
        };
    }
}

/// Where evaluation stands: the values of the axes and what earlier stages left.
#[derive(Default)]
struct Place {
    points: Vec<u64>,
    inner: u64,
    row: u64,
    column: u64,
    sum: u64,
    slots: Vec<Option<u64>>,
    /// What carries and scans of the stage are at this step, by slot.
    running: Vec<Option<u64>>,
    kept: Vec<Vec<u64>>,
}

impl Place {
    fn axis(&self, axis: Axis) -> i64 {
        match axis {
            Axis::Point(p) => self.points[p as usize] as i64,
            Axis::Inner => self.inner as i64,
            Axis::Row => self.row as i64,
            Axis::Column => self.column as i64,
        }
    }

    fn index(&self, index: &Index, values: &[u64]) -> i64 {
        let terms = index.terms.iter().map(|(term, factor)| {
            factor
                * match term {
                    Term::Axis(axis) => self.axis(*axis),
                    Term::Quotient(x, d) => divided(self.index(x, values)) / d,
                    Term::Remainder(x, d) => divided(self.index(x, values)) % d,
                    Term::Dynamic(e, low, high) => {
                        let value = values[e.0 as usize] as i64;
                        assert!((*low..=*high).contains(&value), "dynamic index out of its range");
                        value
                    }
                }
        });
        index.constant + terms.sum::<i64>()
    }
}

fn divided(x: i64) -> i64 {
    assert!(x >= 0, "quotient or remainder of the negative index {x}");
    x
}

/// The expressions that some roots need, in evaluation order.
fn needed(exprs: &Exprs, roots: impl IntoIterator<Item = ExprId>) -> Vec<ExprId> {
    let reached = exprs.reachable(roots);
    exprs.iter().map(|(id, ..)| id).filter(|id| reached[id.0 as usize]).collect()
}

fn evaluate(exprs: &Exprs, order: &[ExprId], place: &Place, memory: &Memory, values: &mut [u64]) {
    for &id in order {
        values[id.0 as usize] = value(exprs, id, place, memory, values);
    }
}

fn value(exprs: &Exprs, id: ExprId, place: &Place, memory: &Memory, values: &[u64]) -> u64 {
    let dtype = exprs.dtype(id);
    let scalar = |e: ExprId| Scalar::from_bits(exprs.dtype(e), values[e.0 as usize]);
    match exprs.get(id) {
        Expr::Const(value) => value.bits(),
        Expr::Load { argument, index, valid } => {
            if valid.is_some_and(|v| values[v.0 as usize] == 0) {
                return 0;
            }
            memory.load(*argument, place.index(index, values))
        }
        Expr::Index(index) => place.index(index, values) as u64,
        Expr::Slot(slot) => {
            let value = place.slots.get(*slot as usize).copied().flatten();
            value.expect("slot read before it was filled")
        }
        Expr::Carry(slot) | Expr::Scan(slot) => {
            let value = place.running.get(*slot as usize).copied().flatten();
            value.expect("a carry or scan read outside its stage")
        }
        Expr::Kept(array) => place.kept[*array as usize][place.inner as usize],
        Expr::Sum => place.sum,
        Expr::Unary(op, a) => unary(*op, scalar(*a)).bits(),
        Expr::Binary(op, a, b) => binary(*op, scalar(*a), scalar(*b)).bits(),
        Expr::Fma(a, b, c) => fma(scalar(*a), scalar(*b), scalar(*c)).bits(),
        Expr::Compare(op, a, b) => compare(*op, scalar(*a), scalar(*b)) as u64,
        Expr::Select(c, a, b) => values[if values[c.0 as usize] != 0 { *a } else { *b }.0 as usize],
        Expr::Lookup(table, a) => table.at(values[a.0 as usize] as u32).into(),
        Expr::Convert(a) => convert(scalar(*a), dtype).bits(),
        Expr::Bitcast(a) => values[a.0 as usize],
    }
}

// --- bodies -------------------------------------------------------------

/// Calls `f` with every point of a box, in row-major order.
fn for_each_point(extents: &[u64], mut f: impl FnMut(&[u64])) {
    if extents.contains(&0) {
        return;
    }
    let mut point = vec![0; extents.len()];
    loop {
        f(&point);
        let Some(axis) = (0..extents.len()).rev().find(|&k| point[k] + 1 < extents[k]) else {
            return;
        };
        point[axis] += 1;
        point[axis + 1..].fill(0);
    }
}

fn run_loops(loops: &Loops, memory: &mut Memory) {
    let orders: Vec<Vec<ExprId>> = loops
        .stages
        .iter()
        .map(|stage| {
            let mut roots = Vec::new();
            stage.for_each_root(|e| roots.push(e));
            needed(&loops.exprs, roots)
        })
        .collect();
    let mut values = vec![0; loops.exprs.len()];
    for_each_point(&loops.points, |point| {
        let mut place = Place { points: point.to_vec(), ..Place::default() };
        for (stage, order) in loops.stages.iter().zip(&orders) {
            run_stage(&loops.exprs, stage, order, &mut place, memory, &mut values);
        }
    });
}

fn run_stage(
    exprs: &Exprs,
    stage: &Stage,
    order: &[ExprId],
    place: &mut Place,
    memory: &mut Memory,
    values: &mut [u64],
) {
    let steps = match stage.ragged {
        Some(ragged) => {
            let done = place.points[ragged.axis as usize] * stage.inner;
            stage.inner.min(ragged.total.saturating_sub(done))
        }
        None => stage.inner,
    };
    let mut scanned: Vec<Vec<u64>> = Vec::new();
    for carry in &stage.carries {
        evaluate(exprs, &needed(exprs, [carry.first]), place, memory, values);
        fill(&mut place.running, carry.slot, values[carry.first.0 as usize]);
    }
    for scan in &stage.scans {
        let order = needed(exprs, [scan.value]);
        let each = |step| {
            place.inner = step;
            evaluate(exprs, &order, place, memory, values);
            values[scan.value.0 as usize]
        };
        let row: Vec<u64> = (0..steps).map(each).collect();
        scanned.push(prefixes(scan, exprs.dtype(scan.value), &row));
    }
    let mut rows: Vec<Vec<u64>> = vec![Vec::new(); stage.reductions.len()];
    let mut kept: Vec<Vec<u64>> = vec![Vec::new(); stage.keeps.len()];
    for step in 0..steps {
        place.inner = step;
        for (scan, row) in stage.scans.iter().zip(&scanned) {
            fill(&mut place.running, scan.slot, row[step as usize]);
        }
        evaluate(exprs, order, place, memory, values);
        for (row, reduction) in rows.iter_mut().zip(&stage.reductions) {
            row.push(values[reduction.value.0 as usize]);
        }
        for (array, (_, value)) in kept.iter_mut().zip(&stage.keeps) {
            array.push(values[value.0 as usize]);
        }
        for store in &stage.stores {
            let index = place.index(&store.index, values);
            memory.store(store.argument, index, values[store.value.0 as usize]);
        }
        for scatter in &stage.scatters {
            if scatter.valid.is_none_or(|v| values[v.0 as usize] != 0) {
                let index = place.index(&scatter.index, values);
                memory.scatter(scatter, index, values[scatter.value.0 as usize], &place.points);
            }
        }
        for carry in &stage.carries {
            fill(&mut place.running, carry.slot, values[carry.next.0 as usize]);
        }
    }
    for slot in stage.carries.iter().map(|c| c.slot).chain(stage.scans.iter().map(|s| s.slot)) {
        let last = place.running[slot as usize].take().expect("a stage has a step");
        fill(&mut place.slots, slot, last);
    }
    for ((number, _), array) in stage.keeps.iter().zip(kept) {
        let number = *number as usize;
        if place.kept.len() <= number {
            place.kept.resize(number + 1, Vec::new());
        }
        place.kept[number] = array;
    }
    for (row, reduction) in rows.iter().zip(&stage.reductions) {
        let result = reduce(reduction, exprs.dtype(reduction.value), row);
        fill(&mut place.slots, reduction.slot, result);
    }
}

fn fill(slots: &mut Vec<Option<u64>>, slot: u32, value: u64) {
    let slot = slot as usize;
    if slots.len() <= slot {
        slots.resize(slot + 1, None);
    }
    slots[slot] = Some(value);
}

/// The running results of a row of values.
fn prefixes(scan: &Scan, dtype: DType, row: &[u64]) -> Vec<u64> {
    let mut total = identity(scan.kind, dtype);
    let mut results = Vec::new();
    for block in row.chunks(scan.block as usize) {
        let mut lanes: Vec<Scalar> = block.iter().map(|&b| Scalar::from_bits(dtype, b)).collect();
        let mut distance = 1;
        while distance < scan.block as usize {
            for l in (distance..lanes.len()).rev() {
                lanes[l] = combine(scan.kind, lanes[l - distance], lanes[l]);
            }
            distance *= 2;
        }
        for lane in &mut lanes {
            *lane = combine(scan.kind, total, *lane);
        }
        total = *lanes.last().expect("blocks are not empty");
        results.extend(lanes.iter().map(|lane| lane.bits()));
    }
    results
}

/// Combines a row of values in the order of the reduction's tree.
fn reduce(reduction: &Reduction, dtype: DType, row: &[u64]) -> u64 {
    let scalar = |&bits: &u64| Scalar::from_bits(dtype, bits);
    let kind = match reduction.combine {
        Combine::Value(kind) => kind,
        Combine::Arg(kind) => return arg(kind, row.iter().map(scalar)),
    };
    let start = identity(kind, dtype);
    let (lanes, chunk) = (reduction.tree.lanes as usize, reduction.tree.chunk as usize);
    let mut total = start;
    for chunk in row.chunks(chunk) {
        let mut lane = vec![start; lanes];
        for (r, bits) in chunk.iter().enumerate() {
            lane[r % lanes] = combine(kind, lane[r % lanes], scalar(bits));
        }
        while lane.len() > 1 {
            let upper = lane.split_off(lane.len() / 2);
            for (low, high) in lane.iter_mut().zip(upper) {
                *low = combine(kind, *low, high);
            }
        }
        total = combine(kind, total, lane[0]);
    }
    total.bits()
}

/// The step of the extreme: the first of equals, the first NaN.
fn arg(kind: ArgKind, row: impl Iterator<Item = Scalar>) -> u64 {
    let mut best: Option<(u64, Scalar)> = None;
    for (r, x) in row.enumerate() {
        let better = match best {
            None => true,
            Some((_, b)) if is_nan(b) => false,
            Some((_, b)) => {
                is_nan(x)
                    || match kind {
                        ArgKind::Min => compare(Compare::Lt, x, b),
                        ArgKind::Max => compare(Compare::Gt, x, b),
                    }
            }
        };
        if better {
            best = Some((r as u64, x));
        }
    }
    best.map_or(0, |(r, _)| r)
}

fn identity(kind: ReduceKind, dtype: DType) -> Scalar {
    crate::lower::identity(kind, dtype)
}

fn combine(kind: ReduceKind, a: Scalar, b: Scalar) -> Scalar {
    let op = match kind {
        ReduceKind::Sum => BinaryOp::Add,
        ReduceKind::Prod => BinaryOp::Mul,
        ReduceKind::Min => BinaryOp::Min,
        ReduceKind::Max => BinaryOp::Max,
        ReduceKind::And => BinaryOp::And,
        ReduceKind::Or => BinaryOp::Or,
        ReduceKind::Xor => BinaryOp::Xor,
    };
    binary(op, a, b)
}

fn run_contraction(c: &Contraction, memory: &mut Memory) {
    let factors = needed(&c.exprs, [c.lhs, c.rhs]);
    let mut roots = Vec::new();
    c.stores.iter().for_each(|s| s.for_each_root(|e| roots.push(e)));
    let epilogue = needed(&c.exprs, roots);
    let mut values = vec![0; c.exprs.len()];
    let box_ = [&c.batch[..], &[c.m, c.n]].concat();
    for_each_point(&box_, |point| {
        let (batch, tile) = point.split_at(c.batch.len());
        let mut place =
            Place { points: batch.to_vec(), row: tile[0], column: tile[1], ..Place::default() };
        let mut sum = Scalar::zero(c.accumulator);
        for k in 0..c.k {
            place.inner = k;
            evaluate(&c.exprs, &factors, &place, memory, &mut values);
            let side = |e: ExprId| Scalar::from_bits(c.accumulator, values[e.0 as usize]);
            sum = fma(side(c.lhs), side(c.rhs), sum);
        }
        place.sum = sum.bits();
        evaluate(&c.exprs, &epilogue, &place, memory, &mut values);
        for store in &c.stores {
            let index = place.index(&store.index, &values);
            memory.store(store.argument, index, values[store.value.0 as usize]);
        }
    });
}
