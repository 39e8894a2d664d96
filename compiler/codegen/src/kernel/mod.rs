//! Kernel IR: one loop-level form for every backend.
//!
//! A [`Kernel`] is what one launch computes: typed scalar expressions over an
//! iteration space, with every memory access an index map into an argument. It
//! says nothing of vectors, threads or tiles; those are the backend's choice, and
//! whatever it chooses the bits of the results are the same, because the order of
//! every floating-point reduction is fixed here by [`Tree`].
//!
//! ```text
//! softmax of f32[4096,1024], one kernel:
//!   points [4096], lanes inner
//!   stage inner 1024: s0 = reduce_max load a0[1024*p0 + r]
//!   stage inner 1024: keep k0 = exp(load a0[1024*p0 + r] - s0); s1 = reduce_sum k0
//!   stage inner 1024: store a1[1024*p0 + r] = k0 / s1
//! ```
//!
//! Expressions hold only primitive arithmetic: `exp`, `tanh` and their kind are
//! expanded by [`crate::math`] while lowering, so that all backends agree.

pub mod expr;
pub mod index;
mod print;
mod share;
pub mod sort;
mod structure;
mod table;
mod traffic;
mod verify;

use kiln_ir::DType;
use kiln_ir::op::{ArgKind, ReduceKind};

pub use expr::{BinaryOp, Expr, ExprId, Exprs};
pub use index::{Axis, Index, Term};
pub use sort::Sort;
pub use structure::Structure;
pub use table::Table;
pub use traffic::traffic;
pub use verify::{VerifyError, verify};

/// What one launch computes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Kernel {
    /// Which ops it holds, for people: `exp_add_reduce_sum`. Takes no part in
    /// deduplication (see `kernel::structure`).
    pub name: String,
    /// Buffers, in the order in which a launch passes them.
    pub arguments: Vec<Argument>,
    /// The computation.
    pub body: Body,
}

/// A buffer that a kernel is given: dense elements of one type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Argument {
    /// Element type.
    pub dtype: DType,
    /// Number of elements.
    pub elements: u64,
    /// Whether it is read.
    pub reads: bool,
    /// Whether it is written. When a read argument is passed the same buffer as a
    /// written one, every element is read before and only where it is written.
    pub writes: bool,
}

/// The computation of a kernel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Body {
    /// Independent points, each of which runs a list of stages.
    Loops(Loops),
    /// Sums of products with computed operands and a computed result.
    Contraction(Contraction),
    /// Rows in order.
    Sort(Sort),
    /// Loops that do not depend on each other, run as one launch. They share the
    /// kernel's arguments; the units of work of the launch are those of part 0, then
    /// those of part 1, and so on. There are at least two.
    Together(Vec<Loops>),
}

/// A box of independent points; each runs the stages in order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Loops {
    /// Extents of the box, outermost first: axes `Axis::Point(0..)`. Empty: one point.
    pub points: Vec<u64>,
    /// Which axis neighbouring vector lanes run along.
    pub lanes: Lanes,
    /// All expressions of all stages.
    pub exprs: Exprs,
    /// Run in order at each point.
    pub stages: Vec<Stage>,
}

/// Most bytes of row arrays that the stages of a point keep: they share the L1 and
/// L2 caches with the row itself.
pub const KEPT_BYTES: u64 = 64 << 10;

impl Loops {
    /// The extents of all axes, for simplifying and bounding indices. `Inner` has the
    /// widest extent of all stages: what holds for it holds in each.
    pub fn extents(&self) -> index::Extents {
        let inner = self.stages.iter().map(|s| s.inner).max().unwrap_or(1);
        index::Extents { points: self.points.clone(), inner, ..index::Extents::default() }
    }
}

/// Which axis vector lanes run along.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lanes {
    /// Along the last point axis: each lane is a point.
    Points,
    /// Along the inner axis of each stage: lanes share a point.
    Inner,
}

/// One pass over the inner axis at a point.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Stage {
    /// Extent of `Axis::Inner`, at least 1. 1 for work done once at a point.
    pub inner: u64,
    /// When set, the inner axis is one chunk of a longer one: at point index `p`
    /// of the named point axis only `min(inner, total - p * inner)` steps run.
    pub ragged: Option<Ragged>,
    /// Row arrays filled by this stage: element `r` of array `.0` becomes `.1`.
    /// Later stages of the same point, of equal `inner`, read them by `Expr::Kept`.
    /// Only with [`Lanes::Inner`], and at most [`KEPT_BYTES`] in all.
    pub keeps: Vec<(u32, ExprId)>,
    /// Values handed from each step to the next: the steps of a point then run in order.
    /// Only with [`Lanes::Points`].
    pub carries: Vec<Carry>,
    /// Values combined over the inner axis, with every intermediate result. Only with
    /// [`Lanes::Inner`].
    pub scans: Vec<Scan>,
    /// Values combined over the inner axis.
    pub reductions: Vec<Reduction>,
    /// Elements written at each step, after everything that the step reads was read:
    /// one of them may go to the buffer of an argument that another is computed from.
    pub stores: Vec<Store>,
    /// Elements combined with what is there, at each step. A stage that has some has
    /// nothing else, is the only one of its loops, and has [`Lanes::Points`].
    pub scatters: Vec<Scatter>,
}

impl Stage {
    /// A stage that does nothing yet.
    pub fn new(inner: u64) -> Stage {
        let (keeps, reductions, stores) = (Vec::new(), Vec::new(), Vec::new());
        let (carries, scans) = (Vec::new(), Vec::new());
        let scatters = Vec::new();
        Stage { inner, ragged: None, keeps, carries, scans, reductions, stores, scatters }
    }

    /// The same stage over other expressions, with other places written.
    pub fn map(
        &self,
        f: impl Fn(ExprId) -> ExprId,
        place: impl Fn(u32, &Index) -> (u32, Index),
    ) -> Stage {
        let store = |s: &Store| {
            let (argument, index) = place(s.argument, &s.index);
            Store { argument, index, value: f(s.value) }
        };
        let scatter = |s: &Scatter| {
            let (argument, index) = place(s.argument, &s.index);
            let (value, valid) = (f(s.value), s.valid.map(&f));
            Scatter { argument, index, value, valid, combine: s.combine }
        };
        let reduction = |r: &Reduction| Reduction { value: f(r.value), ..*r };
        let carry = |c: &Carry| Carry { first: f(c.first), next: f(c.next), ..*c };
        let scan = |s: &Scan| Scan { value: f(s.value), ..*s };
        Stage {
            inner: self.inner,
            ragged: self.ragged,
            keeps: self.keeps.iter().map(|&(array, value)| (array, f(value))).collect(),
            carries: self.carries.iter().map(carry).collect(),
            scans: self.scans.iter().map(scan).collect(),
            reductions: self.reductions.iter().map(reduction).collect(),
            stores: self.stores.iter().map(store).collect(),
            scatters: self.scatters.iter().map(scatter).collect(),
        }
    }

    /// Calls `f` for each expression that the stage asks for.
    pub fn for_each_root(&self, mut f: impl FnMut(ExprId)) {
        self.keeps.iter().for_each(|&(_, e)| f(e));
        self.carries.iter().for_each(|c| [c.first, c.next].into_iter().for_each(&mut f));
        self.scans.iter().for_each(|s| f(s.value));
        self.reductions.iter().for_each(|r| f(r.value));
        self.stores.iter().for_each(|s| s.for_each_root(&mut f));
        for scatter in &self.scatters {
            scatter.index.for_each_dynamic(&mut f);
            scatter.valid.iter().for_each(|&v| f(v));
            f(scatter.value);
        }
    }

    /// The arguments that are written, and where.
    pub fn written(&self) -> impl Iterator<Item = (u32, &Index)> {
        let stores = self.stores.iter().map(|s| (s.argument, &s.index));
        stores.chain(self.scatters.iter().map(|s| (s.argument, &s.index)))
    }
}

/// See [`Stage::ragged`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ragged {
    /// The point axis that counts chunks.
    pub axis: u32,
    /// Extent of the whole axis.
    pub total: u64,
}

/// A value that each step hands to the next.
///
/// Expressions of the stage read what the step before left by `Expr::Carry`; all carries
/// change together, after everything else of the step. Not a half type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Carry {
    /// What the first step reads: the same at every step of the stage.
    pub first: ExprId,
    /// What a step leaves.
    pub next: ExprId,
    /// Names the carry, and holds what the last step left for later stages.
    pub slot: u32,
}

/// Running results of a reduction: at each step, everything up to it combined.
///
/// Steps form blocks of `block`, a power of two. In a block the lanes combine by
/// doubling, each with the lane `1` before it, then `2`, `4`, ..; lanes that have none
/// stay. Every lane then combines with what all blocks before left, which starts at the
/// identity; the last lane is what the block leaves:
///
/// ```text
/// block of 4, total t:   a         b         c             d
///           by 1         a        ab        bc            cd
///           by 2         a        ab       abc          abcd
///           result      ta       tab      tabc         tabcd = the next t
/// ```
///
/// The type of the value is the accumulator's, as for a [`Reduction`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scan {
    /// How.
    pub kind: ReduceKind,
    /// What: evaluated at each step, without reading a scan of the stage.
    pub value: ExprId,
    /// Names the scan: expressions of the stage read the result of their own step by
    /// `Expr::Scan`, later stages the last one by `Expr::Slot`.
    pub slot: u32,
    /// Lanes that combine by doubling.
    pub block: u32,
}

/// A value combined over the inner axis of a stage into a slot of the point.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reduction {
    /// How.
    pub combine: Combine,
    /// What: evaluated at each step. Its type is the accumulator's: not a half type,
    /// and for `bool` the combine is `And`, `Or` or `Xor`.
    pub value: ExprId,
    /// Where the result goes; read by `Expr::Slot` in later stages. An
    /// arg-reduction's slot holds the step number as `i64`.
    pub slot: u32,
    /// In which order floating-point values combine.
    pub tree: Tree,
}

/// How a reduction combines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Combine {
    /// By an associative function.
    Value(ReduceKind),
    /// The step of the extreme value: the first of equals, the first NaN.
    Arg(ArgKind),
}

/// The order of a reduction, a function of its extent alone.
///
/// Step `r` of `0..n` belongs to chunk `r / chunk` and, within the chunk, to lane
/// `r % lanes`. Each lane starts at the identity and combines its steps in
/// increasing order; the lanes of a chunk combine by halving (lane `l` with
/// `l + lanes/2`, then `/4`, ..); chunks combine in increasing order, starting at
/// the identity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tree {
    /// A power of two; 1 when lanes run along points.
    pub lanes: u32,
    /// Steps of a chunk, a multiple of `lanes`.
    pub chunk: u64,
}

impl Tree {
    /// The tree of a reduction over `extent` steps.
    ///
    /// 64 lanes keep four 512-bit accumulators of `f32` in flight, which hides the
    /// latency of addition; short rows use 16 so that few lanes idle. Chunks are the
    /// unit that a long reduction is split by between threads.
    pub fn of(extent: u64, lanes: Lanes) -> Tree {
        match lanes {
            Lanes::Points => Tree { lanes: 1, chunk: 1024 },
            Lanes::Inner => Tree { lanes: if extent >= 512 { 64 } else { 16 }, chunk: 1 << 15 },
        }
    }
}

/// A write of one element.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Store {
    /// Which argument.
    pub argument: u32,
    /// Element number. Different steps and points write different elements.
    pub index: Index,
    /// The element, of the argument's type.
    pub value: ExprId,
}

impl Store {
    /// Calls `f` for each expression that the store asks for.
    pub fn for_each_root(&self, mut f: impl FnMut(ExprId)) {
        self.index.for_each_dynamic(&mut f);
        f(self.value);
    }
}

/// An element at a place known only at run time, replaced or combined with a value.
///
/// Steps of one point may name the same element: they are done one after the other, in
/// increasing order. Different points never do, so they are independent.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scatter {
    /// Which argument. Nothing else of the kernel reads or writes it.
    pub argument: u32,
    /// Element number, inside the argument also where `valid` is false.
    pub index: Index,
    /// The value, of the argument's type.
    pub value: ExprId,
    /// A `bool`: where it is false, the element stays as it is.
    pub valid: Option<ExprId>,
    /// The function of the element that is there and the value; nothing: the value
    /// replaces it.
    pub combine: Option<BinaryOp>,
}

/// `out[b, i, j] = f(sum over k of lhs[b, i, k] * rhs[b, k, j], ..)`.
///
/// Each sum runs over increasing `k` from zero in the accumulator's type, with
/// one fused multiply-add a step for floats, whatever the tiling.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Contraction {
    /// Extents of the batch axes: `Axis::Point(0..)`.
    pub batch: Vec<u64>,
    /// Rows of the result: `Axis::Row`.
    pub m: u64,
    /// Columns of the result: `Axis::Column`.
    pub n: u64,
    /// Extent of the sum: `Axis::Inner`.
    pub k: u64,
    /// Type of the sum; `f32` for the half types.
    pub accumulator: DType,
    /// All expressions.
    pub exprs: Exprs,
    /// Left factor over (`Point`, `Row`, `Inner`), of the accumulator's type.
    pub lhs: ExprId,
    /// Right factor over (`Point`, `Inner`, `Column`), of the accumulator's type.
    pub rhs: ExprId,
    /// Written at each (`Point`, `Row`, `Column`), all values before any of them, as in
    /// a stage; values read the finished sum by `Expr::Sum`.
    pub stores: Vec<Store>,
}

impl Contraction {
    /// The extents of all axes.
    pub fn extents(&self) -> index::Extents {
        let points = self.batch.clone();
        index::Extents { points, inner: self.k, row: self.m, column: self.n }
    }
}
