//! Brings a factor into the order in which tiles read it.
//!
//! A factor is packed when it is computed, converted, or lies so that tiles would read
//! it badly. Vectors are loaded along whichever axis its elements are neighbours:
//!
//! | factor | neighbours along | packed as |
//! |---|---|---|
//! | right | columns | panels: for each step, the panel's vectors |
//! | right | steps | the same, by transposing squares of vectors |
//! | left | steps | rows, padded so that they do not share a set of the L1 cache |
//! | left | rows | panels: for each step, the panel's rows |
//!
//! Loops run so that memory is read in order. What lies past the last column, row or
//! step is never read back into a result; it is filled with whatever is at hand.

use inkwell::IntPredicate;
use inkwell::values::InstructionOpcode as Op;
use kiln_ir::DType;

use super::super::build::Value;
use super::super::expr::{Lanes, Place};
use super::driver::{Block, Driver, Steps};
use super::roles::set;
use super::tile;
use super::tiling::Along;
use crate::kernel::{Axis, ExprId};

/// Steps of some row panels that are packed together: their pieces of memory are read
/// from as many pages, and lie in the L1 cache at once even if they share its sets.
const GROUP: u64 = 8;

impl<'c> Driver<'_, 'c> {
    /// Packs the right factor of a column block.
    pub(super) fn pack_right(&self, block: &Block<'c>, steps: Steps<'c>, along: Along) {
        match along {
            Along::Free => self.pack_right_rows(block, steps),
            Along::Inner => self.pack_right_squares(block, steps),
        }
    }

    fn pack_right_rows(&self, block: &Block<'c>, steps: Steps<'c>) {
        let (b, t) = (self.b, &self.tiling);
        let lanes = b.i64(t.lanes as i64);
        self.each("pack.step", (b.i64(0), steps.count, 1), |k| {
            let mut place = block.place.clone();
            place.inner = Some(b.add(steps.from, k));
            self.each("pack.panel", (block.columns.0, block.columns.1, 1), |column| {
                let (from, to) = self.run(t.column_panels, column);
                let panel = b.mul(b.sub(from, block.vector), b.i64(t.packed_steps() as i64));
                let start = b.add(panel, b.mul(k, b.sub(to, from)));
                let packed = self.part(self.scratch.right, start, t.lanes);
                self.vectors(from, to, |vector, mask| {
                    let mut place = place.clone();
                    set(&mut place, self.roles.column, b.mul(vector, lanes));
                    let axis = self.roles.column;
                    place.lanes = Lanes { axis, width: t.lanes as u32, mask };
                    let value = self.factor(self.roles.right, &place, block);
                    self.put(packed, b.mul(b.sub(vector, from), lanes), value);
                });
            });
        });
    }

    fn pack_right_squares(&self, block: &Block<'c>, steps: Steps<'c>) {
        let (b, t) = (self.b, &self.tiling);
        let lanes = b.i64(t.lanes as i64);
        let square = self.part(self.scratch.square, b.i64(0), 0);
        self.each("pack.panel", (block.columns.0, block.columns.1, 1), |column| {
            let (from, to) = self.run(t.column_panels, column);
            let panel = b.mul(b.sub(from, block.vector), b.i64(t.packed_steps() as i64));
            let packed = self.part(self.scratch.right, panel, t.lanes);
            let stride = b.sub(to, from);
            self.each("pack.vector", (from, to, 1), |vector| {
                self.along_steps(steps, |k, mask| {
                    self.each("pack.load", (b.i64(0), lanes, 1), |lane| {
                        let mut place = block.place.clone();
                        let column = b.add(b.mul(vector, lanes), lane);
                        let last = b.i64(self.roles.n as i64 - 1);
                        let column = match self.roles.n % t.lanes {
                            0 => column,
                            _ => self.min(column, last),
                        };
                        set(&mut place, self.roles.column, column);
                        place.inner = Some(b.add(steps.from, k));
                        place.lanes = Lanes { axis: Axis::Inner, width: t.lanes as u32, mask };
                        let value = self.factor(self.roles.right, &place, block);
                        self.put(square, b.mul(lane, lanes), value);
                    });
                    let columns = (0..t.lanes).map(|lane| {
                        let place = self.elements(square, b.i64((lane * t.lanes) as i64));
                        b.load(self.vector_ty(), place, self.vector_bytes())
                    });
                    for (i, value) in self.transpose(columns.collect()).into_iter().enumerate() {
                        let row = b.mul(b.add(k, b.i64(i as i64)), stride);
                        let at = b.add(row, b.sub(vector, from));
                        let place = self.elements(packed, b.mul(at, lanes));
                        b.store(value, place, self.vector_bytes(), false);
                    }
                });
            });
        });
    }

    /// Packs the left factor of some row panels as rows `stride` elements apart.
    pub(super) fn pack_rows(
        &self,
        block: &Block<'c>,
        steps: Steps<'c>,
        panels: (Value<'c>, Value<'c>),
        stride: u64,
    ) {
        let (b, t) = (self.b, &self.tiling);
        let first = self.start(t.row_panels, panels.0);
        let end = self.start(t.row_panels, panels.1);
        self.each("pack.row", (first, end, 1), |row| {
            let packed = self.part(self.scratch.left, b.sub(row, first), stride);
            self.along_steps(steps, |k, mask| {
                let mut place = block.place.clone();
                set(&mut place, self.roles.row, row);
                place.inner = Some(b.add(steps.from, k));
                place.lanes = Lanes { axis: Axis::Inner, width: t.lanes as u32, mask };
                let value = self.factor(self.roles.left, &place, block);
                self.put(packed, k, value);
            });
        });
    }

    /// Packs the left factor of some row panels, `stride` elements apart, as `width` rows
    /// for each step.
    pub(super) fn pack_panels(
        &self,
        block: &Block<'c>,
        steps: Steps<'c>,
        panels: (Value<'c>, Value<'c>),
        (width, stride): (u64, u64),
    ) {
        let (b, t) = (self.b, &self.tiling);
        // Panels from `safe` on reach past the last row.
        let m = self.roles.m;
        let safe = (0..t.row_panels.parts).rev().take_while(|&p| t.row_panels.start(p) + width > m);
        let safe = t.row_panels.parts - safe.count() as u64;
        let bound = b.i64(safe as i64);
        self.each("pack.steps", (b.i64(0), steps.count, GROUP), |group| {
            let group_end = self.min(b.add(group, b.i64(GROUP as i64)), steps.count);
            let body = |panel, masked: bool| {
                let row = self.start(t.row_panels, panel);
                let left = b.sub(b.i64(m as i64), row);
                let mask = (masked && width > 1).then(|| tile::mask(b, width, left));
                let mut place = block.place.clone();
                set(&mut place, self.roles.row, row);
                place.lanes = Lanes { axis: self.roles.row, width: width as u32, mask };
                let packed = self.part(self.scratch.left, b.sub(panel, panels.0), stride);
                self.each("pack.step", (group, group_end, 1), |k| {
                    let place = Place { inner: Some(b.add(steps.from, k)), ..place.clone() };
                    let value = self.factor(self.roles.left, &place, block);
                    self.put(packed, b.mul(k, b.i64(width as i64)), value);
                });
            };
            let (whole, edge) = (self.min(panels.1, bound), self.max(panels.0, bound));
            if safe > 0 {
                self.each("pack.panel", (panels.0, whole, 1), |panel| body(panel, false));
            }
            if safe < t.row_panels.parts {
                self.each("pack.edge", (edge, panels.1, 1), |panel| body(panel, true));
            }
        });
    }

    /// Runs `body` for vectors of steps, the last with a mask if it may end early.
    fn along_steps(&self, steps: Steps<'c>, mut body: impl FnMut(Value<'c>, Option<Value<'c>>)) {
        let (b, t) = (self.b, &self.tiling);
        let zero = b.i64(0);
        let whole = b.op(Op::And, steps.count, b.i64(-(t.lanes as i64)));
        if t.k_block >= t.lanes {
            self.each("pack.steps", (zero, whole, t.lanes), |k| body(k, None));
        }
        let last = self.c.k % t.k_block;
        if !t.k_block.is_multiple_of(t.lanes) || !last.is_multiple_of(t.lanes) {
            b.when("pack.rest", b.icmp(IntPredicate::ULT, whole, steps.count), || {
                let left = b.sub(steps.count, whole);
                body(whole, Some(tile::mask(b, t.lanes, left)));
            });
        }
    }

    /// A factor's value at a place, in every lane.
    fn factor(&self, factor: ExprId, place: &Place<'c>, block: &Block<'c>) -> Value<'c> {
        let order = if factor == self.roles.left { &self.needs.left } else { &self.needs.right };
        let mut values = block.values.clone();
        self.emitter.evaluate(order, place, &mut values);
        self.b.splat(values.get(factor), place.lanes.width)
    }

    /// Writes a factor's value at element `index` after `ptr`.
    fn put(&self, ptr: Value<'c>, index: Value<'c>, value: Value<'c>) {
        let place = self.elements(ptr, index);
        let value = match self.c.accumulator {
            DType::Bool => self.b.resize(value, 8, false),
            _ => value,
        };
        self.b.store(value, place, self.c.accumulator.size() as u32, false);
    }

    /// Element `i` of vector `j` becomes element `j` of vector `i`: each round of
    /// perfect shuffles moves one bit of the number of a vector into that of an element.
    fn transpose(&self, mut vectors: Vec<Value<'c>>) -> Vec<Value<'c>> {
        let lanes = vectors.len();
        let half = lanes / 2;
        let interleave = |from: usize| -> Vec<u32> {
            (from..from + half).flat_map(|i| [i as u32, (i + lanes) as u32]).collect()
        };
        let (low, high) = (interleave(0), interleave(half));
        for _ in 0..lanes.trailing_zeros() {
            let pairs = (0..half).flat_map(|i| {
                let (x, y) = (vectors[i], vectors[i + half]);
                [self.b.shuffle_pair(x, y, &low), self.b.shuffle_pair(x, y, &high)]
            });
            vectors = pairs.collect();
        }
        vectors
    }

    fn vector_ty(&self) -> super::super::build::Type<'c> {
        let ty = self.b.memory_ty(self.c.accumulator);
        super::super::build::with_lanes(ty, self.tiling.lanes as u32)
    }

    fn vector_bytes(&self) -> u32 {
        (self.tiling.lanes * self.c.accumulator.size() as u64) as u32
    }
}
