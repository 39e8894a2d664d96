//! Decisions about loops: vector widths, unrolling, units of work.
//!
//! All of them follow from the kernel and the instruction set alone, so that the same
//! kernel becomes the same code everywhere. None changes a result.

use kiln_ir::DType;

use crate::kernel::expr::{BinaryOp, UnaryOp};
use crate::kernel::{Argument, Axis, Expr, ExprId, Index, Lanes, Loops, Stage};
use crate::llvm::target::Isa;

/// Where an expression is computed: in the outermost loop in which it is constant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Level {
    /// Once.
    Kernel,
    /// For each row of points (lanes along points), or each point (lanes inner).
    Row,
    /// For each strip of points; only with lanes along points.
    Strip,
    /// For each step of a stage.
    Step,
}

/// The level of every expression.
pub(super) struct Levels(Vec<Level>);

impl Levels {
    pub fn of(loops: &Loops) -> Levels {
        let mut levels: Vec<Level> = Vec::with_capacity(loops.exprs.len());
        for (_, expr, _) in loops.exprs.iter() {
            let mut level = match expr {
                Expr::Load { index, .. } | Expr::Index(index) => of_index(loops, index),
                Expr::Kept(_) | Expr::Carry(_) | Expr::Scan(_) => Level::Step,
                Expr::Slot(_) if loops.lanes == Lanes::Points => Level::Strip,
                Expr::Slot(_) => Level::Row,
                _ => Level::Kernel,
            };
            expr.for_each_operand(|o| level = level.max(levels[o.0 as usize]));
            levels.push(level);
        }
        Levels(levels)
    }

    /// What a stage needs at one level, in evaluation order.
    pub fn order(&self, loops: &Loops, stage: &Stage, level: Level) -> Vec<ExprId> {
        let mut roots = Vec::new();
        stage.for_each_root(|e| roots.push(e));
        let reached = loops.exprs.reachable(roots);
        (0..reached.len())
            .filter(|&i| reached[i] && self.0[i] == level)
            .map(|i| ExprId(i as u32))
            .collect()
    }

    /// The level of one expression.
    pub fn of_expr(&self, id: ExprId) -> Level {
        self.0[id.0 as usize]
    }

    /// Whether an expression is computed for each vector.
    fn in_vectors(&self, loops: &Loops, id: ExprId) -> bool {
        let from = if loops.lanes == Lanes::Points { Level::Strip } else { Level::Step };
        self.0[id.0 as usize] >= from
    }
}

fn of_index(loops: &Loops, index: &Index) -> Level {
    if index.depends_on(Axis::Inner) {
        return Level::Step;
    }
    let last = loops.points.len().checked_sub(1);
    let mut level = Level::Kernel;
    for p in 0..loops.points.len() {
        if index.depends_on(Axis::Point(p as u32)) {
            let lane = loops.lanes == Lanes::Points && Some(p) == last;
            level = level.max(if lane { Level::Strip } else { Level::Row });
        }
    }
    level
}

/// What one step of a stage costs.
#[derive(Clone, Copy, Default)]
pub(super) struct Cost {
    /// Bytes loaded and stored.
    pub bytes: u64,
    /// Operations on elements.
    pub ops: u64,
    /// Bytes of the widest element.
    widest: u64,
    /// How much is done in elements of 1, 2, 4 and 8 bytes.
    by_size: [u64; 4],
}

impl Cost {
    /// Of one step of `stage`.
    pub fn of(loops: &Loops, levels: &Levels, arguments: &[Argument], stage: &Stage) -> Cost {
        let mut roots = Vec::new();
        stage.for_each_root(|e| roots.push(e));
        let reached = loops.exprs.reachable(roots);
        let mut cost = Cost::default();
        for (id, expr, dtype) in loops.exprs.iter() {
            if !reached[id.0 as usize] || !levels.in_vectors(loops, id) {
                continue;
            }
            match expr {
                Expr::Const(_)
                | Expr::Slot(_)
                | Expr::Carry(_)
                | Expr::Scan(_)
                | Expr::Sum
                | Expr::Index(_) => continue,
                Expr::Load { .. } | Expr::Kept(_) => cost.bytes += dtype.size() as u64,
                Expr::Binary(BinaryOp::Div | BinaryOp::Rem, ..) | Expr::Unary(UnaryOp::Sqrt, _) => {
                    cost.ops += 8
                }
                _ => cost.ops += 1,
            }
            cost.note(dtype);
        }
        for &(_, e) in &stage.keeps {
            cost.bytes += loops.exprs.dtype(e).size() as u64;
            cost.note(loops.exprs.dtype(e));
        }
        for store in &stage.stores {
            let dtype = arguments[store.argument as usize].dtype;
            cost.bytes += dtype.size() as u64;
            cost.note(dtype);
        }
        for scatter in &stage.scatters {
            let dtype = arguments[scatter.argument as usize].dtype;
            let times = if scatter.combine.is_some() { 2 } else { 1 };
            cost.bytes += times * dtype.size() as u64;
            cost.note(dtype);
        }
        for carry in &stage.carries {
            cost.note(loops.exprs.dtype(carry.next));
        }
        for scan in &stage.scans {
            cost.ops += 2 + 2 * u64::from(scan.block.ilog2());
            cost.note(loops.exprs.dtype(scan.value));
        }
        for reduction in &stage.reductions {
            cost.ops += 1;
            cost.note(loops.exprs.dtype(reduction.value));
        }
        cost
    }

    fn note(&mut self, dtype: DType) {
        if dtype != DType::Bool {
            self.by_size[dtype.size().trailing_zeros() as usize] += 1;
            self.widest = self.widest.max(dtype.size() as u64);
        }
    }

    pub fn add(&mut self, other: Cost) {
        self.bytes += other.bytes;
        self.ops += other.ops;
        self.widest = self.widest.max(other.widest);
        for (a, b) in self.by_size.iter_mut().zip(other.by_size) {
            *a += b;
        }
    }

    /// Lanes of a vector: one register of the size in which most is done (the wider
    /// of equals), and at most four of the widest.
    pub fn width(&self, isa: Isa) -> u32 {
        let register = isa.vector_bits() / 8;
        let most = (0..4).max_by_key(|&i| (self.by_size[i], i)).expect("not empty");
        let size = if self.by_size[most] == 0 { 1 } else { 1u32 << most };
        let widest = (self.widest as u32).max(1);
        (register / size).min(4 * register / widest).max(1)
    }

    /// A measure of time, in bytes of traffic that take as long.
    pub fn work(&self) -> u64 {
        (self.bytes + self.ops / 2).max(1)
    }

    /// Vectors to have in flight when steps do not depend on each other. Short bodies are
    /// mostly loop overhead; longer ones are chains of operations, several of which hide
    /// each other's latency as far as there are registers. That is more code, which takes
    /// longer to compile: it is not worth it for few `elements` nor for the longest bodies.
    pub fn copies(&self, isa: Isa, elements: u64) -> u32 {
        let many = match elements {
            ..MANY => 1,
            _ if isa.registers() >= 32 => 4,
            _ => 2,
        };
        match self.ops + self.bytes / 4 {
            0..=8 => 4,
            9..=24 => 2,
            n if u64::from(many) * n <= LONG => many,
            n if many > 1 && 2 * n <= LONG => 2,
            _ => 1,
        }
    }
}

/// Vector operations in a loop with several accumulators above which unrolling further
/// is only more code: the processor overlaps so long a body by itself, and some hundred
/// instructions take a millisecond to compile.
pub(super) const LONG: u64 = 256;

/// Units of work that leave enough to divide between threads.
pub(super) const DIVISIBLE: u64 = 16;

/// Elements from which on code that computes them faster is worth a millisecond or two of
/// compile time: with a long body they take some microseconds a call.
const MANY: u64 = 16 << 10;

/// Operations on an element from which on prefetching its successors helps (measured:
/// nothing for one or two, a quarter of the time for `exp`). With fewer, the processor
/// runs far enough ahead by itself.
pub(super) const BUSY: u64 = 8;

/// Work of one unit: some microseconds at most, and many cache lines.
pub(super) const UNIT: u64 = 16 << 10;

/// Work that is worth the hand-over to another thread: one to two microseconds.
const GRAIN: u64 = 128 << 10;

/// Units worth another thread, of `work` each; may be more than there are.
pub(super) fn grain(work: u64) -> u64 {
    GRAIN.div_ceil(work.max(1))
}

/// Whether the instruction set masks every load and store of some stages.
pub(super) fn masks(isa: Isa, loops: &Loops, arguments: &[Argument], levels: &Levels) -> bool {
    let loads = loops.exprs.iter().all(|(id, expr, dtype)| {
        !matches!(expr, Expr::Load { .. })
            || !levels.in_vectors(loops, id)
            || isa.masks(dtype.size())
    });
    let mut written = loops.stages.iter().flat_map(|s| s.written());
    loads && written.all(|(argument, _)| isa.masks(arguments[argument as usize].dtype.size()))
}
