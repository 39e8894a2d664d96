//! Well-formedness of kernels: what backends rely on and do not check again.
//!
//! Lowering makes only kernels that pass; a message from here is a fault of Kiln, and
//! names the kernel. Two promises are beyond a static check and belong to the
//! interpreter: that no element is stored twice, and that a shared buffer is read
//! before it is written.

use kiln_ir::DType;
use kiln_ir::op::ReduceKind;

use super::expr::{BinaryOp, UnaryOp};
use super::index::Extents;
use super::sort::{Ordering, Sort, Source};
use super::{
    Axis, Body, Carry, Combine, Contraction, Expr, ExprId, Exprs, Index, KEPT_BYTES, Kernel, Lanes,
    Loops, Reduction, Scan, Scatter, Stage, Store, Term,
};

/// A kernel that is not well-formed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("kernel `{kernel}`: {message}")]
pub struct VerifyError {
    kernel: String,
    message: String,
}

/// Checks `kernel`.
///
/// # Errors
/// Names the first rule of kernel IR that is broken.
pub fn verify(kernel: &Kernel) -> Result<(), VerifyError> {
    let verifier = Verifier { kernel };
    verifier.kernel().map_err(|message| VerifyError { kernel: kernel.name.clone(), message })
}

type Checked = Result<(), String>;

macro_rules! ensure {
    ($holds:expr, $($message:tt)*) => {
        if !$holds {
            return Err(format!($($message)*));
        }
    };
}

struct Verifier<'k> {
    kernel: &'k Kernel,
}

/// What may be read at one place of a kernel.
struct Scope<'a> {
    extents: Extents,
    /// The chunked axis, the extent of a chunk and of the whole axis.
    ragged: Option<(Axis, u64, u64)>,
    /// Slots filled by earlier stages.
    slots: &'a [u32],
    /// Row arrays filled by earlier stages, with their extent.
    kept: &'a [(u32, u64)],
    /// Carries and scans of this stage.
    running: &'a [u32],
    /// Whether the finished sum of a contraction exists.
    sum: bool,
    /// Axes that exist but make no sense here.
    hidden: &'a [Axis],
}

impl Verifier<'_> {
    fn kernel(&self) -> Checked {
        for (i, a) in self.kernel.arguments.iter().enumerate() {
            ensure!(a.reads || a.writes, "argument {i} is neither read nor written");
        }
        match &self.kernel.body {
            Body::Loops(loops) => self.loops(loops),
            Body::Contraction(contraction) => self.contraction(contraction),
            Body::Sort(sort) => self.sort(sort),
            Body::Together(parts) => {
                ensure!(parts.len() >= 2, "one launch of {} parts", parts.len());
                parts.iter().try_for_each(|part| self.loops(part))
            }
        }
    }

    fn loops(&self, loops: &Loops) -> Checked {
        self.types(&loops.exprs)?;
        ensure!(!loops.points.contains(&0), "no points: {:?}", loops.points);
        ensure!(!loops.stages.is_empty(), "no stages");
        let (mut slots, mut kept, mut kept_bytes) = (Vec::new(), Vec::new(), 0);
        for stage in &loops.stages {
            ensure!(stage.inner > 0, "a stage of no steps");
            let extents =
                Extents { points: loops.points.clone(), inner: stage.inner, ..Extents::default() };
            let ragged = match stage.ragged {
                Some(ragged) => {
                    let chunks = loops.points.get(ragged.axis as usize);
                    ensure!(chunks.is_some(), "chunks are counted by no axis");
                    ensure!(
                        chunks.is_some_and(|c| *c == ragged.total.div_ceil(stage.inner)),
                        "{chunks:?} chunks of {} do not make {}",
                        stage.inner,
                        ragged.total
                    );
                    Some((Axis::Point(ragged.axis), stage.inner, ragged.total))
                }
                None => None,
            };
            let carries = stage.carries.iter().map(|c| c.slot);
            let running: Vec<u32> = carries.chain(stage.scans.iter().map(|s| s.slot)).collect();
            let scope = Scope {
                extents,
                ragged,
                slots: &slots,
                kept: &kept,
                running: &running,
                sum: false,
                hidden: &[Axis::Row, Axis::Column],
            };
            self.stage(loops, stage, &scope)?;
            let (mut new_slots, mut new_kept) = (Vec::new(), Vec::new());
            self.order(loops, stage)?;
            for reduction in &stage.reductions {
                self.reduction(&loops.exprs, reduction)?;
            }
            let reduced = stage.reductions.iter().map(|r| r.slot);
            for slot in running.iter().copied().chain(reduced) {
                let known = slots.contains(&slot) || new_slots.contains(&slot);
                ensure!(!known, "slot {slot} is filled twice");
                new_slots.push(slot);
            }
            for &(array, value) in &stage.keeps {
                ensure!(loops.lanes == Lanes::Inner, "rows are kept where lanes are points");
                ensure!(stage.ragged.is_none(), "a row is kept in chunks");
                ensure!(kept.iter().all(|&(k, _)| k != array), "row array {array} is filled twice");
                kept_bytes += stage.inner * loops.exprs.dtype(value).size() as u64;
                ensure!(kept_bytes <= KEPT_BYTES, "{kept_bytes} bytes of rows are kept");
                new_kept.push((array, stage.inner));
            }
            slots.extend(new_slots);
            kept.extend(new_kept);
        }
        Ok(())
    }

    fn sort(&self, sort: &Sort) -> Checked {
        ensure!(sort.rows() > 0 && sort.length > 0, "nothing is sorted");
        ensure!(sort.length <= u64::from(u32::MAX), "rows of {} elements", sort.length);
        ensure!((1..=sort.length).contains(&sort.take), "{} of {}", sort.take, sort.length);
        ensure!(sort.written().next().is_some(), "nothing of the sort is wanted");
        let mut dtypes = Vec::new();
        for (i, operand) in sort.operands.iter().enumerate() {
            let sized = |argument: u32, row: u64, reads: bool| {
                let argument = self.kernel.arguments.get(argument as usize);
                let Some(argument) = argument else { return Err(format!("operand {i} is none")) };
                let elements = sort.rows() * row;
                ensure!(argument.elements == elements, "operand {i} has not {elements} elements");
                let used = if reads { argument.reads } else { argument.writes };
                ensure!(used, "operand {i} is used against its argument's word");
                Ok(argument.dtype)
            };
            let dtype = match operand.from {
                Source::Argument(a) => sized(a, sort.length, true)?,
                Source::Position(dtype) => {
                    let whole = dtype.is_integer() && dtype.size() >= 4;
                    ensure!(whole, "positions of type {dtype}");
                    dtype
                }
            };
            if let Some(to) = operand.to {
                let result = sized(to, sort.take, false)?;
                ensure!(result == dtype, "operand {i} is {dtype}, its result {result}");
            }
            dtypes.push(dtype);
        }
        match &sort.order {
            Ordering::Keys(keys) => {
                ensure!(!keys.is_empty(), "no keys");
                for key in keys {
                    let operand = sort.operands.get(key.operand as usize).map(|o| o.from);
                    let read = matches!(operand, Some(Source::Argument(_)));
                    ensure!(read, "key {} is read from nowhere", key.operand);
                }
            }
            Ordering::Function { exprs, before } => {
                self.types(exprs)?;
                ensure!(sort.take == sort.length, "part of a row that a function orders");
                ensure!(exprs.dtype(*before) == DType::Bool, "a function to no bool");
                ensure!(sort.read().count() == dtypes.len(), "a function of positions");
                for (id, expr, dtype) in exprs.iter() {
                    match expr {
                        Expr::Load { argument, index, valid: None } => {
                            let own = dtypes.get(*argument as usize) == Some(&dtype);
                            let place = |p| *index == Index::axis(Axis::Point(p));
                            ensure!(own && (place(0) || place(1)), "%{} loads elsewhere", id.0);
                        }
                        Expr::Load { .. } | Expr::Index(_) | Expr::Slot(_) => {
                            return Err(format!("%{} is no function of two elements", id.0));
                        }
                        Expr::Kept(_) | Expr::Sum => {
                            return Err(format!("%{} is no function of two elements", id.0));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn stage(&self, loops: &Loops, stage: &Stage, scope: &Scope) -> Checked {
        let mut roots = Vec::new();
        stage.for_each_root(|e| roots.push(e));
        self.reads(&loops.exprs, &roots, scope)?;
        stage.scatters.iter().try_for_each(|s| self.scatter(loops, stage, s, scope))?;
        stage.stores.iter().try_for_each(|s| self.store(&loops.exprs, s, scope))
    }

    fn scatter(&self, loops: &Loops, stage: &Stage, s: &Scatter, scope: &Scope) -> Checked {
        let others = stage.keeps.len()
            + stage.carries.len()
            + stage.scans.len()
            + stage.reductions.len()
            + stage.stores.len();
        ensure!(loops.stages.len() == 1 && others == 0, "a stage scatters beside other work");
        ensure!(loops.lanes == Lanes::Points && stage.ragged.is_none(), "scatters along rows");
        let exprs = &loops.exprs;
        let store = Store { argument: s.argument, index: s.index.clone(), value: s.value };
        self.store(exprs, &store, scope)?;
        let a = self.kernel.arguments[s.argument as usize];
        // Others may be to the same argument at the other element of pairs: they never meet.
        let other_part = |other: &Scatter| {
            let even = |(_, factor): &(Term, i64)| factor % 2 == 0;
            let apart = (other.index.constant - s.index.constant) % 2 != 0;
            apart && [s, other].iter().all(|s| s.index.terms.iter().all(even))
        };
        let mut others = stage.scatters.iter().filter(|other| !std::ptr::eq(*other, s));
        let alone = others.all(|other| other.argument != s.argument || other_part(other));
        let loaded = |(_, e, _): (ExprId, &Expr, DType)| matches!(e, Expr::Load { argument, .. } if *argument == s.argument);
        ensure!(alone && !exprs.iter().any(loaded), "argument {} is touched twice", s.argument);
        ensure!(a.reads == s.combine.is_some(), "argument {} is read", s.argument);
        let fits = s.combine.is_none_or(|op| {
            let logic = matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor);
            !a.dtype.is_half() && (a.dtype != DType::Bool || logic) && binary_takes(op, a.dtype)
        });
        ensure!(fits, "{:?} of {}", s.combine, a.dtype);
        let truth = s.valid.is_none_or(|v| exprs.dtype(v) == DType::Bool);
        ensure!(truth, "whether an element is updated is no bool");
        Ok(())
    }

    /// What carries and scans of a stage demand.
    fn order(&self, loops: &Loops, stage: &Stage) -> Checked {
        let exprs = &loops.exprs;
        let typed = |slot: u32, dtype: DType, reads: &dyn Fn(u32) -> Expr| -> Checked {
            for (_, expr, read) in exprs.iter() {
                let wrong = (*expr == reads(slot) || *expr == Expr::Slot(slot)) && read != dtype;
                ensure!(!wrong, "slot {slot} holds {dtype} and is read as {read}");
            }
            Ok(())
        };
        for &Carry { first, next, slot } in &stage.carries {
            let (dtype, after) = (exprs.dtype(first), exprs.dtype(next));
            ensure!(loops.lanes == Lanes::Points, "steps run in order where lanes are steps");
            ensure!(stage.reductions.is_empty(), "a stage with carries reduces");
            ensure!(!exprs.varying()[first.0 as usize], "carry {slot} starts at every step");
            ensure!(dtype == after && !dtype.is_half(), "carry {slot} is {dtype}, then {after}");
            typed(slot, dtype, &Expr::Carry)?;
        }
        for &Scan { kind, value, slot, block } in &stage.scans {
            let dtype = exprs.dtype(value);
            ensure!(loops.lanes == Lanes::Inner, "lanes are points where steps are scanned");
            ensure!(stage.reductions.is_empty(), "a stage with scans reduces");
            ensure!(block.is_power_of_two(), "blocks of {block} steps");
            self.combines(Combine::Value(kind), dtype)?;
            let reached = exprs.reachable([value]);
            let scans = |(id, expr, _): (ExprId, &Expr, DType)| {
                reached[id.0 as usize] && matches!(expr, Expr::Scan(_))
            };
            ensure!(!exprs.iter().any(scans), "scan {slot} reads a scan of its stage");
            typed(slot, dtype, &Expr::Scan)?;
        }
        Ok(())
    }

    fn contraction(&self, c: &Contraction) -> Checked {
        self.types(&c.exprs)?;
        ensure!(!c.batch.contains(&0), "no batches: {:?}", c.batch);
        ensure!(c.m > 0 && c.n > 0 && c.k > 0, "an empty product: {} {} {}", c.m, c.n, c.k);
        let sum_type = c.accumulator;
        for (side, value, hidden) in [("lhs", c.lhs, Axis::Column), ("rhs", c.rhs, Axis::Row)] {
            let dtype = c.exprs.dtype(value);
            ensure!(dtype == sum_type, "{side} is {dtype}, the sum {sum_type}");
            let scope = Scope {
                extents: c.extents(),
                ragged: None,
                slots: &[],
                kept: &[],
                running: &[],
                sum: false,
                hidden: &[hidden],
            };
            self.reads(&c.exprs, &[value], &scope)?;
        }
        let scope = Scope {
            extents: c.extents(),
            ragged: None,
            slots: &[],
            kept: &[],
            running: &[],
            sum: true,
            hidden: &[Axis::Inner],
        };
        let mut roots = Vec::new();
        c.stores.iter().for_each(|s| s.for_each_root(|e| roots.push(e)));
        self.reads(&c.exprs, &roots, &scope)?;
        for (_, expr, dtype) in c.exprs.iter() {
            ensure!(*expr != Expr::Sum || dtype == sum_type, "the sum is read as {dtype}");
        }
        c.stores.iter().try_for_each(|s| self.store(&c.exprs, s, &scope))
    }

    fn reduction(&self, exprs: &Exprs, reduction: &Reduction) -> Checked {
        let dtype = exprs.dtype(reduction.value);
        self.combines(reduction.combine, dtype)?;
        let tree = reduction.tree;
        ensure!(tree.lanes.is_power_of_two(), "{} lanes", tree.lanes);
        ensure!(
            tree.chunk > 0 && tree.chunk.is_multiple_of(tree.lanes.into()),
            "chunks of {} for {} lanes",
            tree.chunk,
            tree.lanes
        );
        let slot_type = match reduction.combine {
            Combine::Value(_) => dtype,
            Combine::Arg(_) => DType::I64,
        };
        for (_, expr, read) in exprs.iter() {
            let wrong = *expr == Expr::Slot(reduction.slot) && read != slot_type;
            ensure!(!wrong, "slot {} holds {slot_type} and is read as {read}", reduction.slot);
        }
        Ok(())
    }

    /// Accumulators of the type combine so.
    fn combines(&self, combine: Combine, dtype: DType) -> Checked {
        ensure!(!dtype.is_half(), "a reduction accumulates in {dtype}");
        use ReduceKind::{And, Or, Xor};
        let logic = matches!(combine, Combine::Value(And | Or | Xor));
        ensure!(logic || dtype != DType::Bool, "{combine:?} of bool");
        ensure!(!logic || !dtype.is_float(), "{combine:?} of {dtype}");
        Ok(())
    }

    /// Everything that `roots` read exists.
    fn reads(&self, exprs: &Exprs, roots: &[ExprId], scope: &Scope) -> Checked {
        let reached = exprs.reachable(roots.iter().copied());
        for (_, expr, dtype) in exprs.iter().filter(|(id, ..)| reached[id.0 as usize]) {
            match expr {
                Expr::Load { argument, index, valid } => {
                    let Some(a) = self.kernel.arguments.get(*argument as usize) else {
                        return Err(format!("there is no argument {argument}"));
                    };
                    ensure!(a.reads, "argument {argument} is read");
                    ensure!(a.dtype == dtype, "argument {argument} holds {}, not {dtype}", a.dtype);
                    self.index(exprs, index, scope)?;
                    if valid.is_none() {
                        inside(index, a.elements, scope)?;
                    }
                }
                Expr::Index(index) => self.index(exprs, index, scope)?,
                Expr::Slot(slot) => {
                    ensure!(scope.slots.contains(slot), "slot {slot} is read before it is filled");
                }
                Expr::Carry(slot) | Expr::Scan(slot) => {
                    ensure!(scope.running.contains(slot), "slot {slot} runs in no such stage");
                }
                Expr::Kept(array) => {
                    let filled = scope.kept.contains(&(*array, scope.extents.inner));
                    ensure!(filled, "row array {array} is read before it is filled");
                }
                Expr::Sum => ensure!(scope.sum, "the sum is read before it is finished"),
                _ => {}
            }
        }
        Ok(())
    }

    fn store(&self, exprs: &Exprs, store: &Store, scope: &Scope) -> Checked {
        let argument = store.argument;
        let Some(a) = self.kernel.arguments.get(argument as usize) else {
            return Err(format!("there is no argument {argument}"));
        };
        let dtype = exprs.dtype(store.value);
        ensure!(a.writes, "argument {argument} is written");
        ensure!(a.dtype == dtype, "argument {argument} holds {}, not {dtype}", a.dtype);
        self.index(exprs, &store.index, scope)?;
        inside(&store.index, a.elements, scope)
    }

    /// The index names axes that exist here, and values that are the same everywhere.
    fn index(&self, exprs: &Exprs, index: &Index, scope: &Scope) -> Checked {
        for (at, (term, factor)) in index.terms.iter().enumerate() {
            ensure!(*factor != 0, "{index} has a factor of 0");
            ensure!(at == 0 || index.terms[at - 1].0 < *term, "the terms of {index} are unsorted");
            match term {
                Term::Axis(Axis::Point(p)) => {
                    ensure!((*p as usize) < scope.extents.points.len(), "there is no axis p{p}");
                }
                Term::Axis(axis) => {
                    ensure!(!scope.hidden.contains(axis), "axis {axis} means nothing here");
                }
                Term::Quotient(x, d) | Term::Remainder(x, d) => {
                    ensure!(*d > 0, "{index} divides by {d}");
                    self.index(exprs, x, scope)?;
                }
                Term::Dynamic(id, low, high) => {
                    ensure!(low <= high, "{index} has an empty range");
                    ensure!(exprs.dtype(*id) == DType::I64, "{index} is no i64");
                }
            }
        }
        Ok(())
    }

    /// Every expression has the type that its operands give it.
    fn types(&self, exprs: &Exprs) -> Checked {
        for (id, expr, dtype) in exprs.iter() {
            let mut ordered = true;
            expr.for_each_operand(|o| ordered &= o < id);
            ensure!(ordered, "%{} comes before an operand", id.0);
            ensure!(!dtype.is_complex(), "%{} is complex", id.0);
            let of = |e: &ExprId| exprs.dtype(*e);
            let fits = match expr {
                Expr::Const(value) => value.dtype() == dtype,
                Expr::Load { valid, .. } => valid.is_none_or(|v| of(&v) == DType::Bool),
                Expr::Index(_) => dtype == DType::I64,
                Expr::Slot(_) | Expr::Carry(_) | Expr::Scan(_) | Expr::Sum => !dtype.is_half(),
                Expr::Kept(_) => true,
                Expr::Unary(op, a) => of(a) == dtype && unary_takes(*op, dtype),
                Expr::Binary(op, a, b) => {
                    of(a) == dtype && of(b) == dtype && binary_takes(*op, dtype)
                }
                Expr::Fma(a, b, c) => {
                    let wide = dtype.is_float() && !dtype.is_half();
                    wide && [a, b, c].iter().all(|e| of(e) == dtype)
                }
                Expr::Compare(_, a, b) => {
                    dtype == DType::Bool && of(a) == of(b) && !of(a).is_half()
                }
                Expr::Select(c, a, b) => of(c) == DType::Bool && of(a) == dtype && of(b) == dtype,
                Expr::Lookup(_, a) => of(a) == DType::U32 && dtype == DType::F32,
                Expr::Convert(a) => {
                    let half = of(a).is_half() || dtype.is_half();
                    let single = of(a) == DType::F32 || dtype == DType::F32;
                    of(a) != dtype && (!half || single) && dtype != DType::Bool
                }
                Expr::Bitcast(a) => {
                    let bits = of(a) != DType::Bool && dtype != DType::Bool;
                    bits && of(a).size() == dtype.size() && of(a) != dtype
                }
            };
            ensure!(fits, "%{} has a type that its operands do not give: {expr:?}", id.0);
        }
        Ok(())
    }
}

fn unary_takes(op: UnaryOp, dtype: DType) -> bool {
    let float = dtype.is_float() && !dtype.is_half();
    match op {
        UnaryOp::Neg | UnaryOp::Abs => float || dtype.is_integer(),
        UnaryOp::Not => !dtype.is_float(),
        UnaryOp::PopulationCount | UnaryOp::CountLeadingZeros => dtype.is_integer(),
        _ => float,
    }
}

fn binary_takes(op: BinaryOp, dtype: DType) -> bool {
    let float = dtype.is_float() && !dtype.is_half();
    match op {
        BinaryOp::Scale => float,
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => !dtype.is_float(),
        BinaryOp::ShiftLeft | BinaryOp::ShiftRightLogical | BinaryOp::ShiftRightArithmetic => {
            dtype.is_integer()
        }
        _ => float || dtype.is_integer(),
    }
}

/// The index stays inside an argument at every step that runs.
fn inside(index: &Index, elements: u64, scope: &Scope) -> Checked {
    let mut extents = scope.extents.clone();
    if let Some((Axis::Point(p), chunk, total)) = scope.ragged
        && index.merges(Axis::Point(p), Axis::Inner, chunk as i64)
    {
        // Chunk and step are used as one axis, which ends before the last chunk does.
        extents.points[p as usize] = 1;
        extents.inner = total;
    }
    let (low, high) = index.range(&extents);
    let fits = low >= 0 && u64::try_from(high).is_ok_and(|h| h < elements);
    ensure!(fits, "{index} runs from {low} to {high} in {elements} elements");
    Ok(())
}
