//! Expressions of kernel IR as LLVM values.
//!
//! An [`Emitter`] evaluates expressions at a [`Place`]: the values of the axes, and
//! along which axis neighbouring lanes run. A value that differs between lanes is a
//! vector; one that does not is a scalar, computed once, and broadcast where it meets
//! a vector. Nothing needs to be told which is which: loads and indices find out from
//! their index maps, everything else from its operands.
//!
//! [`Values`] remembers what has been computed. Cloning it at the head of a loop
//! gives the loop's body everything from outside and keeps what is inside from
//! leaking out, so that every value dominates its uses:
//!
//! ```text
//! let mut row = kernel.clone();   emitter.evaluate(&of_row, &place, &mut row);
//! loop {
//!     let mut step = row.clone(); emitter.evaluate(&of_step, &place, &mut step);
//! }
//! ```

use kiln_ir::DType;

use super::arithmetic::Arithmetic;
use super::build::{Build, Value, lanes};
use super::detour::Detour;
use super::target::Isa;
use crate::kernel::index::Extents;
use crate::kernel::{Argument, Axis, Expr, ExprId, Exprs, Table};

/// Which axis neighbouring lanes run along.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<'c> {
    /// The axis; the value that a [`Place`] has for it is that of the first lane.
    pub axis: Axis,
    /// How many lanes; with 1 everything is scalar.
    pub width: u32,
    /// Which lanes exist, a vector of `i1`; absent: all.
    pub mask: Option<Value<'c>>,
}

/// Where expressions are evaluated.
#[derive(Clone)]
pub(crate) struct Place<'c> {
    /// `Axis::Point(0..)`, as `i64`.
    pub points: Vec<Value<'c>>,
    /// `Axis::Inner`.
    pub inner: Option<Value<'c>>,
    /// `Axis::Row` and `Axis::Column` of a contraction.
    pub row: Option<Value<'c>>,
    /// See `row`.
    pub column: Option<Value<'c>>,
    /// The vector lanes.
    pub lanes: Lanes<'c>,
    /// Results of reductions, by slot.
    pub slots: Vec<Option<Value<'c>>>,
    /// What carries and scans of the stage are here, by slot.
    pub running: Vec<Option<Value<'c>>>,
    /// Addresses of kept row arrays, by number.
    pub kept: Vec<Option<Value<'c>>>,
    /// The finished sum of a contraction.
    pub sum: Option<Value<'c>>,
    /// Whether vector loads prefetch what follows along the lanes.
    pub ahead: bool,
}

impl<'c> Place<'c> {
    /// A place with nothing but point axes, and one lane.
    pub fn scalar(points: Vec<Value<'c>>) -> Place<'c> {
        let lanes = Lanes { axis: Axis::Inner, width: 1, mask: None };
        Place {
            points,
            inner: None,
            row: None,
            column: None,
            lanes,
            slots: Vec::new(),
            running: Vec::new(),
            kept: Vec::new(),
            sum: None,
            ahead: false,
        }
    }

    /// The value of an axis in the first lane.
    pub fn axis(&self, axis: Axis) -> Value<'c> {
        let value = match axis {
            Axis::Point(p) => self.points.get(p as usize).copied(),
            Axis::Inner => self.inner,
            Axis::Row => self.row,
            Axis::Column => self.column,
        };
        value.unwrap_or_else(|| unreachable!("{axis} has no value here"))
    }

    /// Fills a slot.
    pub fn fill(&mut self, slot: u32, value: Value<'c>) {
        set(&mut self.slots, slot, value);
    }

    /// Says what a carry or scan of the stage is here.
    pub fn run(&mut self, slot: u32, value: Value<'c>) {
        set(&mut self.running, slot, value);
    }

    /// The same place with no lanes but the first.
    pub fn first_lane(&self) -> Place<'c> {
        Place { lanes: Lanes { width: 1, mask: None, ..self.lanes }, ..self.clone() }
    }
}

fn set<'c>(slots: &mut Vec<Option<Value<'c>>>, slot: u32, value: Value<'c>) {
    let slot = slot as usize;
    if slots.len() <= slot {
        slots.resize(slot + 1, None);
    }
    slots[slot] = Some(value);
}

/// The values of expressions, by id, as far as they are known.
#[derive(Clone)]
pub(crate) struct Values<'c>(Vec<Option<Value<'c>>>);

impl<'c> Values<'c> {
    pub fn new(exprs: &Exprs) -> Values<'c> {
        Values(vec![None; exprs.len()])
    }

    /// A value that has been computed.
    pub fn get(&self, id: ExprId) -> Value<'c> {
        self.0[id.0 as usize].unwrap_or_else(|| unreachable!("%{} has not been evaluated", id.0))
    }

    /// Whether the value has been computed.
    pub fn knows(&self, id: ExprId) -> bool {
        self.0[id.0 as usize].is_some()
    }

    /// Remembers a value.
    pub fn set(&mut self, id: ExprId, value: Value<'c>) {
        self.0[id.0 as usize] = Some(value);
    }
}

/// Places whose operations alternate: four chains keep two units of four cycles' latency
/// busy, and more would not fit the registers.
const TOGETHER: usize = 4;

/// Evaluates the expressions of one arena inside one function.
pub(crate) struct Emitter<'a, 'c> {
    pub build: &'a Build<'c>,
    pub isa: Isa,
    pub exprs: &'a Exprs,
    pub extents: Extents,
    pub arguments: &'a [Argument],
    /// Addresses of the arguments.
    pub pointers: Vec<Value<'c>>,
    /// For each argument, whether aligned stores to it go past the caches.
    pub streaming: Vec<bool>,
    /// For each argument, how many bytes on along the lanes prefetching goes; 0: it is
    /// small, and nothing of it is prefetched. See [`Place::ahead`].
    pub ahead: Vec<u64>,
    /// What is evaluated under branches.
    pub detours: Vec<Detour>,
    /// The axis along which vectors start at multiples of their width, if there is one.
    pub aligned: Option<Axis>,
}

impl<'a, 'c> Emitter<'a, 'c> {
    pub fn arithmetic(&self) -> Arithmetic<'a, 'c> {
        Arithmetic { build: self.build, isa: self.isa }
    }

    /// Evaluates `order`, operands before users, but for what is known already.
    pub fn evaluate(&self, order: &[ExprId], place: &Place<'c>, values: &mut Values<'c>) {
        if self.detours.is_empty() {
            return self.evaluate_all(order, place, values);
        }
        let mut wanted = vec![false; self.exprs.len()];
        order.iter().for_each(|e| wanted[e.0 as usize] = true);
        let detours: Vec<&Detour> =
            self.detours.iter().filter(|d| d.lies_in(&wanted, values)).collect();
        detours.iter().flat_map(|d| d.parts()).for_each(|e| wanted[e.0 as usize] = false);
        for id in order {
            if let Some(detour) = detours.iter().find(|d| d.start() == *id) {
                self.take(detour, place, values);
            } else if wanted[id.0 as usize] {
                self.evaluate_all(std::slice::from_ref(id), place, values);
            }
        }
    }

    /// Evaluates `order` at several places, one operation at all of them before the next:
    /// their chains of dependent operations do not wait for each other, and a processor
    /// looks too few instructions ahead to find that out for long bodies by itself.
    pub fn evaluate_together(&self, order: &[ExprId], at: &mut [(Place<'c>, Values<'c>)]) {
        // A branch for one place would part the others.
        if !self.detours.is_empty() {
            return at.iter_mut().for_each(|(place, values)| self.evaluate(order, place, values));
        }
        for few in at.chunks_mut(TOGETHER) {
            for id in order {
                for (place, values) in few.iter_mut() {
                    self.evaluate_all(std::slice::from_ref(id), place, values);
                }
            }
        }
    }

    /// Evaluates `order` where the builder stands.
    pub fn evaluate_all(&self, order: &[ExprId], place: &Place<'c>, values: &mut Values<'c>) {
        for &id in order {
            if values.knows(id) {
                continue;
            }
            if let Expr::Lookup(_, index) = self.exprs.get(id) {
                self.look_up(id, *index, values);
                continue;
            }
            let value = self.value(id, place, values);
            values.set(id, value);
        }
    }

    /// Evaluates a look-up and, where that makes it cheaper, all others by its index;
    /// those that nothing needs cost nothing.
    fn look_up(&self, one: ExprId, index: ExprId, values: &mut Values<'c>) {
        let by_index = |(id, expr, _): (ExprId, &Expr, DType)| match expr {
            Expr::Lookup(table, i) if *i == index && (id == one || self.isa != Isa::V4) => {
                Some((id, *table))
            }
            _ => None,
        };
        let (ids, tables): (Vec<ExprId>, Vec<&Table>) =
            self.exprs.iter().filter_map(by_index).unzip();
        let found = self.arithmetic().look_up(&tables, values.get(index));
        ids.into_iter().zip(found).for_each(|(id, value)| values.set(id, value));
    }

    fn value(&self, id: ExprId, place: &Place<'c>, values: &Values<'c>) -> Value<'c> {
        let b = self.build;
        let arithmetic = self.arithmetic();
        let dtype = self.exprs.dtype(id);
        let of = |e: ExprId| values.get(e);
        match self.exprs.get(id) {
            Expr::Const(value) => b.constant(*value),
            Expr::Load { argument, index, valid } => {
                self.load(*argument, index, valid.map(of), place, values)
            }
            Expr::Index(index) => {
                // LLVM narrows what is made of a sign extension, so that comparisons and
                // conversions of small indices are 32 bits wide too.
                let value = self.index(index, place, values, self.bits(index));
                b.resize(value, 64, true)
            }
            Expr::Slot(slot) => {
                let value = place.slots.get(*slot as usize).copied().flatten();
                value.unwrap_or_else(|| unreachable!("slot {slot} has not been filled"))
            }
            Expr::Carry(slot) | Expr::Scan(slot) => {
                let value = place.running.get(*slot as usize).copied().flatten();
                value.unwrap_or_else(|| unreachable!("{slot} does not run in this stage"))
            }
            Expr::Kept(array) => self.load_kept(*array, dtype, place),
            Expr::Sum => place.sum.unwrap_or_else(|| unreachable!("no sum here")),
            Expr::Unary(op, a) => arithmetic.unary(*op, dtype, of(*a)),
            Expr::Binary(op, x, y) => {
                let [x, y] = self.level([of(*x), of(*y)]);
                arithmetic.binary(*op, dtype, x, y)
            }
            Expr::Fma(x, y, z) => {
                let [x, y, z] = self.level([of(*x), of(*y), of(*z)]);
                arithmetic.fma(dtype, x, y, z)
            }
            Expr::Compare(op, x, y) => {
                let of_type = self.exprs.dtype(*x);
                let [x, y] = self.level([of(*x), of(*y)]);
                arithmetic.compare(*op, of_type, x, y)
            }
            Expr::Select(c, x, y) => {
                let c = of(*c);
                let width = lanes(c).max(lanes(of(*x))).max(lanes(of(*y)));
                b.select(c, b.splat(of(*x), width), b.splat(of(*y), width))
            }
            Expr::Lookup(..) => unreachable!("look-ups are evaluated together"),
            Expr::Convert(a) => arithmetic.convert(self.exprs.dtype(*a), dtype, of(*a)),
            Expr::Bitcast(a) => arithmetic.reinterpret(self.exprs.dtype(*a), dtype, of(*a)),
        }
    }

    /// Values with equally many lanes.
    fn level<const N: usize>(&self, values: [Value<'c>; N]) -> [Value<'c>; N] {
        let width = values.iter().map(|&v| lanes(v)).max().unwrap_or(1);
        values.map(|v| self.build.splat(v, width))
    }

    /// A row array that an earlier stage kept. Arrays are padded, so no mask is needed.
    fn load_kept(&self, array: u32, dtype: DType, place: &Place<'c>) -> Value<'c> {
        let base = place.kept.get(array as usize).copied().flatten();
        let base = base.unwrap_or_else(|| unreachable!("array {array} has not been kept"));
        let ptr = self.build.gep(self.build.memory_ty(dtype), base, place.axis(Axis::Inner));
        let width = if place.lanes.axis == Axis::Inner { place.lanes.width } else { 1 };
        self.load_contiguous(dtype, ptr, width, None)
    }

    /// Keeps a value as elements of a row array; see [`Emitter::load_kept`].
    pub fn keep(&self, array: u32, dtype: DType, value: Value<'c>, place: &Place<'c>) {
        let base = place.kept[array as usize].expect("arrays have addresses before stages run");
        let ptr = self.build.gep(self.build.memory_ty(dtype), base, place.axis(Axis::Inner));
        let value = self.build.splat(value, place.lanes.width);
        self.store_contiguous(dtype, ptr, value, None, false);
    }
}
