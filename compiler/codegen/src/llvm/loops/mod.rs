//! Machine code for [`Loops`].
//!
//! | file | holds |
//! |---|---|
//! | `shape` | vector widths, unrolling, units of work: everything decided before emission |
//! | `points` | lanes along the last point axis |
//! | `scatter` | elements at places known only at run time |
//! | `inner` | lanes along the inner axis of each stage |
//! | `scan` | running results along the inner axis |
//!
//! An entry does the units `begin..end` of a grid. What a unit is never changes a
//! result: points are independent, and reductions follow their tree.

mod inner;
mod points;
mod scan;
mod scatter;
mod shape;

use inkwell::IntPredicate;
use inkwell::values::FunctionValue;

use super::build::{Build, Value};
use super::detour::Detour;
use super::expr::{self, Emitter, Place, Values};
use super::target::Isa;
use crate::kernel::{Argument, Axis, ExprId, Lanes, Loops, Stage};
use shape::{Level, Levels};

/// How the runtime calls an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Launch {
    /// Units of work.
    pub grid: u64,
    /// Least units worth another thread.
    pub grain: u64,
    /// Bytes of scratch for each thread.
    pub scratch: u64,
}

/// The buffers that an entry is given.
#[derive(Clone, Copy)]
pub(crate) struct Buffers<'a> {
    pub arguments: &'a [Argument],
    /// For each, whether aligned vectors are written to it past the caches.
    pub streaming: &'a [bool],
}

/// Bytes from which on an argument is taken to come from memory rather than a cache
/// that is private to a core.
const LARGE: u64 = 4 << 20;

/// Bytes ahead of a vector that prefetching asks for: far enough for the latency of
/// memory, near enough to stay in the first cache until it is used.
const AHEAD: u64 = 1 << 10;

/// Emits the entry `name` for `loops`.
pub(crate) fn emit<'c>(
    build: &Build<'c>,
    isa: Isa,
    buffers: Buffers,
    loops: &Loops,
    name: &str,
    public: bool,
) -> (FunctionValue<'c>, Launch) {
    let Buffers { arguments, streaming } = buffers;
    let function = build.entry(name, public);
    let function_args: Vec<Value> = function.get_params();
    let pointers = load_pointers(build, function_args[0], arguments.len());
    let bytes = |a: &Argument| a.elements * a.dtype.size() as u64;
    let fence = streaming.contains(&true) && isa != Isa::Neon;
    let emitter = Emitter {
        build,
        isa,
        exprs: &loops.exprs,
        extents: loops.extents(),
        arguments,
        pointers,
        streaming: streaming.to_vec(),
        ahead: arguments.iter().map(|a| if bytes(a) >= LARGE { AHEAD } else { 0 }).collect(),
        detours: detours(loops),
        aligned: (loops.lanes == Lanes::Inner).then_some(Axis::Inner),
    };
    let body = Body {
        emitter,
        loops,
        levels: Levels::of(loops),
        scratch: function_args[1],
        begin: function_args[2],
        end: function_args[3],
    };
    let mut launch = Launch { grid: 0, grain: 1, scratch: 0 };
    if !loops.points.contains(&0) {
        let any = build.icmp(IntPredicate::ULT, body.begin, body.end);
        build.when("units", any, || {
            let scatters = loops.stages.iter().any(|s| !s.scatters.is_empty());
            launch = match loops.lanes {
                Lanes::Points if scatters => scatter::emit(&body),
                Lanes::Points => points::emit(&body),
                Lanes::Inner => inner::emit(&body),
            };
            if fence {
                // Streaming stores are not ordered with what tells other threads of them.
                build.intrinsic_void("llvm.x86.sse.sfence", &[], &[]);
            }
        });
    }
    build.ret();
    (function, launch)
}

/// What the stages evaluate under branches.
fn detours(loops: &Loops) -> Vec<Detour> {
    let mut roots = Vec::new();
    loops.stages.iter().for_each(|stage| stage.for_each_root(|e| roots.push(e)));
    Detour::all(&loops.exprs, &roots)
}

/// The addresses of the arguments, from the list that an entry is given.
pub(crate) fn load_pointers<'c>(
    build: &Build<'c>,
    list: Value<'c>,
    count: usize,
) -> Vec<Value<'c>> {
    let load = |i: usize| {
        let at = build.gep(build.ptr_ty(), list, build.i64(i as i64));
        build.load(build.ptr_ty(), at, 8)
    };
    (0..count).map(load).collect()
}

/// The function being emitted.
struct Body<'a, 'c> {
    emitter: Emitter<'a, 'c>,
    loops: &'a Loops,
    levels: Levels,
    scratch: Value<'c>,
    begin: Value<'c>,
    end: Value<'c>,
}

/// Vectors that are evaluated together, next to each other along the lane axis.
#[derive(Clone, Copy)]
struct Strip<'c> {
    /// The lane axis at the first lane of the first vector.
    at: Value<'c>,
    copies: u32,
    width: u32,
    /// Only lanes before this exist; absent: all do.
    until: Option<Value<'c>>,
}

/// How a range of the lane axis is cut into strips.
#[derive(Clone, Copy)]
struct Cut {
    copies: u32,
    width: u32,
    /// Whether a part of a vector is a masked vector; else it is done lane by lane.
    masks: bool,
    /// Extent of the axis, if known. A range that is not all of it has whole strips,
    /// unless it is the last.
    extent: Option<u64>,
}

impl<'a, 'c> Body<'a, 'c> {
    fn build(&self) -> &'a Build<'c> {
        self.emitter.build
    }

    /// The expressions of a stage at one level, in evaluation order.
    fn order(&self, stage: &Stage, level: Level) -> Vec<ExprId> {
        self.levels.order(self.loops, stage, level)
    }

    /// What does not depend on any axis, for all stages.
    fn kernel_values(&self) -> Values<'c> {
        let mut values = Values::new(&self.loops.exprs);
        let place = Place::scalar(Vec::new());
        for stage in &self.loops.stages {
            self.emitter.evaluate(&self.order(stage, Level::Kernel), &place, &mut values);
        }
        values
    }

    /// Coordinates of a row-major number in a box.
    fn coordinates(&self, number: Value<'c>, extents: &[u64]) -> Vec<Value<'c>> {
        use inkwell::values::InstructionOpcode as Op;
        let b = self.build();
        // Division by a constant is cheaper in 32 bits.
        let total: u64 = extents.iter().product();
        let bits = if total <= u64::from(u32::MAX) { 32 } else { 64 };
        let mut rest = b.resize(number, bits, false);
        let mut coordinates = vec![b.i64(0); extents.len()];
        let outermost = extents.iter().position(|&e| e > 1);
        for (k, &extent) in extents.iter().enumerate().rev().filter(|(_, e)| **e > 1) {
            if Some(k) == outermost {
                coordinates[k] = b.resize(rest, 64, false);
                break;
            }
            let extent = b.int_like(rest, extent as i64);
            coordinates[k] = b.resize(b.op(Op::URem, rest, extent), 64, false);
            rest = b.op(Op::UDiv, rest, extent);
        }
        coordinates
    }

    /// Calls `run` for the units of this call: blocks of `block` points of the last axis,
    /// `blocks` in each of `rows` rows of `extent` points. Neighbouring blocks of a row
    /// come as one range.
    fn for_each_block(
        &self,
        rows: u64,
        blocks: u64,
        block: u64,
        extent: u64,
        run: &mut dyn FnMut(Value<'c>, (Value<'c>, Value<'c>)),
    ) {
        use inkwell::values::InstructionOpcode as Op;
        let (b, begin, end) = (self.build(), self.begin, self.end);
        let most =
            |x: Value<'c>, limit: u64| b.binary_intrinsic("llvm.umin", x, b.i64(limit as i64));
        let size = b.i64(block as i64);
        if rows == 1 {
            run(b.i64(0), (b.mul(begin, size), most(b.mul(end, size), extent)));
            return;
        }
        // The first and the last row may be done in part.
        let count = b.i64(blocks as i64);
        let first = b.op(Op::UDiv, begin, count);
        let last = b.op(Op::UDiv, b.sub(end, b.i64(1)), count);
        let from = b.mul(b.sub(begin, b.mul(first, count)), size);
        let to = most(b.mul(b.sub(end, b.mul(last, count)), size), extent);
        let after = b.add(last, b.i64(1));
        b.for_each("row", (first, after, 1), Vec::new(), |row, none| {
            let is = |other| b.icmp(IntPredicate::EQ, row, other);
            let from = b.select(is(first), from, b.i64(0));
            let to = b.select(is(last), to, b.i64(extent as i64));
            run(row, (from, to));
            none
        });
    }

    /// Steps of a stage at a place: the number, and whether it is the stage's extent.
    fn steps(&self, stage: &Stage, points: &[Value<'c>]) -> (Value<'c>, Option<u64>) {
        let b = self.build();
        let Some(ragged) = stage.ragged else {
            return (b.i64(stage.inner as i64), Some(stage.inner));
        };
        let inner = b.i64(stage.inner as i64);
        let done = b.mul(points[ragged.axis as usize], inner);
        let rest = b.binary_intrinsic("llvm.usub.sat", b.i64(ragged.total as i64), done);
        (b.binary_intrinsic("llvm.umin", inner, rest), None)
    }

    /// Covers `from..to` of the lane axis with strips.
    fn sweep(
        &self,
        (from, to): (Value<'c>, Value<'c>),
        cut: Cut,
        strip: &mut dyn FnMut(Strip<'c>),
    ) {
        let b = self.build();
        let Cut { copies, width, .. } = cut;
        let block = u64::from(copies * width);
        let whole = self.whole(from, to, block);
        if cut.extent.is_none_or(|n| n >= block) {
            b.for_each("vectors", (from, whole, block), Vec::new(), |at, none| {
                strip(Strip { at, copies, width, until: None });
                none
            });
        }
        if cut.extent.is_some_and(|n| n % block == 0) {
            return;
        }
        if cut.masks {
            b.for_each("rest", (whole, to, width.into()), Vec::new(), |at, none| {
                strip(Strip { at, copies: 1, width, until: Some(to) });
                none
            });
            return;
        }
        let mut whole = whole;
        if copies > 1 && width > 1 {
            let single = self.whole(whole, to, width.into());
            b.for_each("vector", (whole, single, width.into()), Vec::new(), |at, none| {
                strip(Strip { at, copies: 1, width, until: None });
                none
            });
            whole = single;
        }
        b.for_each("rest", (whole, to, 1), Vec::new(), |at, none| {
            strip(Strip { at, copies: 1, width: 1, until: None });
            none
        });
    }

    /// The end of the whole blocks of `from..to`; `block` is a power of two.
    fn whole(&self, from: Value<'c>, to: Value<'c>, block: u64) -> Value<'c> {
        let b = self.build();
        b.add(from, b.and(b.sub(to, from), b.i64(-(block as i64))))
    }

    /// The lanes of copy `u` of a strip.
    fn lanes(&self, strip: &Strip<'c>, axis: Axis, u: u32) -> (Value<'c>, expr::Lanes<'c>) {
        let b = self.build();
        let width = strip.width;
        let at = b.add(strip.at, b.i64(i64::from(u * width)));
        let mask = strip.until.filter(|_| width > 1).map(|until| {
            let left = b.binary_intrinsic("llvm.usub.sat", until, at);
            let left = b.resize(left, 32, false);
            b.icmp(IntPredicate::ULT, b.iota(width, 32), b.splat(left, width))
        });
        (at, expr::Lanes { axis, width, mask })
    }
}
