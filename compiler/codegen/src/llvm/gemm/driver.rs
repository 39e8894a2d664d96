//! The loops around the micro-kernel: blocks, panels, tiles, and what is stored of them.

use inkwell::IntPredicate;
use inkwell::values::{FunctionValue, InstructionOpcode as Op};
use kiln_ir::DType;

use super::super::build::{Build, Value};
use super::super::expr::{Emitter, Lanes, Place, Values};
use super::super::target::Isa;
use super::needs::Needs;
use super::roles::{self, Roles, set};
use super::tile::{self, Call, Tile};
use super::tiling::{Left, Right, Split, Tiling};
use super::{Scratch, fuses};
use crate::kernel::{Argument, Contraction, Expr, ExprId};

/// Emits the loops around the micro-kernels.
pub(super) struct Driver<'a, 'c> {
    pub b: &'a Build<'c>,
    pub c: &'a Contraction,
    pub roles: Roles,
    pub tiling: Tiling,
    pub emitter: Emitter<'a, 'c>,
    pub needs: Needs,
    /// The argument that is the sums, and elements between its rows, if there is one.
    pub plain: Option<(usize, i64)>,
    /// The micro-kernels, by rows and vectors.
    pub tiles: Vec<(Tile, FunctionValue<'c>)>,
    pub scratch: Scratch,
    pub scratch_ptr: Value<'c>,
    pub range: (Value<'c>, Value<'c>),
}

/// A column block and the rows of it that a call does.
pub(super) struct Block<'c> {
    /// The batch; other axes are set where they are known.
    pub place: Place<'c>,
    /// Values that are the same in the whole batch.
    pub values: Values<'c>,
    /// Its column panels.
    pub columns: (Value<'c>, Value<'c>),
    /// Its first vector.
    pub vector: Value<'c>,
    /// Its row panels.
    pub rows: (Value<'c>, Value<'c>),
}

/// A block of steps of the sums.
#[derive(Clone, Copy)]
pub(super) struct Steps<'c> {
    /// The first.
    pub from: Value<'c>,
    /// How many.
    pub count: Value<'c>,
}

/// A tile of the result.
#[derive(Clone, Copy)]
struct Spot<'c> {
    /// First row.
    row: Value<'c>,
    /// How many rows.
    rows: Value<'c>,
    /// First vector.
    vector: Value<'c>,
    /// One past the last vector.
    end: Value<'c>,
    /// Address of the first sum.
    sums: Value<'c>,
}

impl<'a, 'c> Driver<'a, 'c> {
    /// Emits the micro-kernels and starts the entry function.
    pub fn new(
        b: &'a Build<'c>,
        isa: Isa,
        arguments: &'a [Argument],
        c: &'a Contraction,
        symbol: &str,
        tiling: Tiling,
    ) -> Driver<'a, 'c> {
        let roles = Roles::of(c);
        let plain = roles::plain_store(c, arguments, &roles)
            .filter(|_| roles.n.is_multiple_of(tiling.lanes) || isa.masks(c.accumulator.size()));
        let tiles = tiles(&tiling, &roles, c.accumulator, isa, plain.map(|(_, row)| row));
        let tiles = tiles.into_iter().map(|t| (t, t.emit(b))).collect();

        let entry = b.entry(symbol, true);
        let parameter = |i| entry.get_nth_param(i).expect("the entry has four parameters");
        let pointers = (0..arguments.len() as i64).map(|i| {
            let place = b.gep(b.ptr_ty(), parameter(0), b.i64(i));
            b.load(b.ptr_ty(), place, 8)
        });
        let emitter = Emitter {
            build: b,
            isa,
            exprs: &c.exprs,
            extents: c.extents(),
            arguments,
            pointers: pointers.collect(),
            streaming: vec![false; arguments.len()],
            ahead: vec![0; arguments.len()],
            detours: Vec::new(),
            aligned: None,
        };
        let scratch = Scratch::new(&tiling, c.accumulator.size() as u64, plain.is_some());
        Driver {
            b,
            c,
            roles,
            tiling,
            emitter,
            needs: Needs::of(c, &roles),
            plain,
            tiles,
            scratch,
            scratch_ptr: parameter(1),
            range: (parameter(2), parameter(3)),
        }
    }

    /// The units of work of a call, those of one column block together.
    pub fn grid(&self) {
        let (b, t) = (self.b, &self.tiling);
        let (begin, end) = self.range;
        let units = t.units.parts as i64;
        let first = b.op(Op::UDiv, begin, b.i64(units));
        let last = b.op(Op::UDiv, b.add(end, b.i64(units - 1)), b.i64(units));
        // An empty range may round to one block.
        let last = b.select(b.icmp(IntPredicate::ULT, begin, end), last, first);
        self.each("block", (first, last, 1), |block| {
            let start = b.mul(block, b.i64(units));
            let from = b.sub(self.max(begin, start), start);
            let to = b.sub(self.min(end, b.add(start, b.i64(units))), start);
            let blocks = b.i64(t.column_blocks.parts as i64);
            let mut place = Place::scalar(self.points(b.op(Op::UDiv, block, blocks)));
            let block = b.op(Op::URem, block, blocks);
            place.lanes.axis = self.roles.column;
            let mut values = Values::new(&self.c.exprs);
            self.emitter.evaluate(&self.needs.batch, &place, &mut values);
            let (column, column_end) = self.run(t.column_blocks, block);
            let rows = (self.start(t.units, from), self.start(t.units, to));
            let vector = self.start(t.column_panels, column);
            self.block(&Block { place, values, columns: (column, column_end), vector, rows });
        });
    }

    /// The indices of a batch by number.
    fn points(&self, batch: Value<'c>) -> Vec<Value<'c>> {
        let b = self.b;
        let mut rest = batch;
        let mut points: Vec<Value> = (self.c.batch.iter().rev())
            .map(|&extent| {
                let point = b.op(Op::URem, rest, b.i64(extent as i64));
                rest = b.op(Op::UDiv, rest, b.i64(extent as i64));
                point
            })
            .collect();
        points.reverse();
        points
    }

    fn block(&self, block: &Block<'c>) {
        let (b, t) = (self.b, &self.tiling);
        self.each("section", (block.rows.0, block.rows.1, t.section), |panel| {
            let end = self.min(b.add(panel, b.i64(t.section as i64)), block.rows.1);
            let row = self.start(t.row_panels, panel);
            // A sum of no products has one block, of no steps.
            let last = b.i64(self.c.k.max(1) as i64);
            self.each("inner", (b.i64(0), last, t.k_block), |from| {
                let left = b.sub(b.i64(self.c.k as i64), from);
                let steps = Steps { from, count: self.min(left, b.i64(t.k_block as i64)) };
                if let Right::Panels(along) = t.right {
                    self.pack_right(block, steps, along);
                }
                self.each("chunk", (panel, end, t.chunk), |panel| {
                    let end = self.min(b.add(panel, b.i64(t.chunk as i64)), end);
                    self.chunk(block, steps, (panel, end), row);
                });
            });
        });
    }

    /// Row panels whose part of the left factor is packed together. Sums that are kept
    /// start with row `kept`.
    fn chunk(
        &self,
        block: &Block<'c>,
        steps: Steps<'c>,
        panels: (Value<'c>, Value<'c>),
        kept: Value<'c>,
    ) {
        let (b, t) = (self.b, &self.tiling);
        match t.left {
            Left::Direct(_) => {}
            Left::Rows { stride } => self.pack_rows(block, steps, panels, stride),
            Left::Panels { width, stride } => {
                self.pack_panels(block, steps, panels, (width, stride));
            }
        }
        let first = self.start(t.row_panels, panels.0);
        self.each("rows", (panels.0, panels.1, 1), |panel| {
            let (row, row_end) = self.run(t.row_panels, panel);
            let mut place = Place { inner: Some(steps.from), ..block.place.clone() };
            set(&mut place, self.roles.row, row);
            let left = match t.left {
                Left::Direct(_) => self.address(self.roles.left, &place, &block.values),
                Left::Rows { stride } => self.part(self.scratch.left, b.sub(row, first), stride),
                Left::Panels { stride, .. } => {
                    self.part(self.scratch.left, b.sub(panel, panels.0), stride)
                }
            };
            self.each("columns", (block.columns.0, block.columns.1, 1), |column| {
                let (vector, end) = self.run(t.column_panels, column);
                let mut place = place.clone();
                set(&mut place, self.roles.column, b.mul(vector, b.i64(t.lanes as i64)));
                let right = match t.right {
                    Right::Direct(_) => self.address(self.roles.right, &place, &block.values),
                    Right::Panels(_) => {
                        let vector = b.sub(vector, block.vector);
                        self.part(self.scratch.right, vector, t.lanes * t.packed_steps())
                    }
                };
                let sums = self.sums(block, &place, vector, b.sub(row, kept));
                let rows = b.sub(row_end, row);
                let spot = Spot { row, rows, vector, end, sums };
                self.tile((panel, column), left, right, steps, &spot);
                if self.plain.is_none() {
                    let done = b.add(steps.from, steps.count);
                    let done = b.icmp(IntPredicate::EQ, done, b.i64(self.c.k as i64));
                    b.when("finish", done, || self.finish(block, &spot));
                }
            });
        });
    }

    /// Where the sums of a tile go.
    fn sums(
        &self,
        block: &Block<'c>,
        place: &Place<'c>,
        vector: Value<'c>,
        row: Value<'c>,
    ) -> Value<'c> {
        let (b, t) = (self.b, &self.tiling);
        if let Some((argument, _)) = self.plain {
            let index = &self.c.stores[0].index;
            let index = self.emitter.index(index, &place.first_lane(), &block.values, 64);
            let ty = b.memory_ty(self.c.accumulator);
            return b.gep(ty, self.emitter.pointers[argument], index);
        }
        if t.k_blocks == 1 {
            return self.part(self.scratch.sums, b.i64(0), 0);
        }
        let vector = b.mul(b.sub(vector, block.vector), b.i64(t.lanes as i64));
        let row = b.mul(row, b.i64(t.block_columns() as i64));
        self.part(self.scratch.sums, b.add(row, vector), 1)
    }

    /// Calls the micro-kernel for a tile of this many rows and vectors.
    fn tile(
        &self,
        (panel, column): (Value<'c>, Value<'c>),
        left: Value<'c>,
        right: Value<'c>,
        steps: Steps<'c>,
        spot: &Spot<'c>,
    ) {
        let (b, t) = (self.b, &self.tiling);
        // Only the very last vector may end early.
        let last = b.icmp(IntPredicate::EQ, spot.end, b.i64(t.column_panels.total as i64));
        let lanes = b.i64(t.lanes as i64);
        let live = match self.roles.n % t.lanes {
            0 => lanes,
            rest => b.select(last, b.i64(rest as i64), lanes),
        };
        let resume = b.icmp(IntPredicate::NE, steps.from, b.i64(0));
        let sums = spot.sums;
        let call = Call { left, right, sums, steps: steps.count, live, resume };
        let tile = |rows, vectors| {
            let fits = |(t, _): &&(Tile, _)| t.rows == rows && t.vectors == vectors;
            let (_, function) = self.tiles.iter().find(fits).expect("a tile of every size");
            b.call(*function, &call.arguments());
        };
        self.by_length(t.row_panels, panel, |rows| {
            self.by_length(t.column_panels, column, |vectors| tile(rows, vectors));
        });
    }

    /// Values and stores of a tile whose sums are complete.
    fn finish(&self, block: &Block<'c>, spot: &Spot<'c>) {
        let (b, t) = (self.b, &self.tiling);
        let stride = self.sum_stride();
        self.each("row", (b.i64(0), spot.rows, 1), |r| {
            let mut place = block.place.clone();
            set(&mut place, self.roles.row, b.add(spot.row, r));
            place.lanes.width = t.lanes as u32;
            let mut values = block.values.clone();
            self.emitter.evaluate(&self.needs.row, &place, &mut values);
            let sums = self.elements(spot.sums, b.mul(r, b.i64(stride as i64)));
            self.vectors(spot.vector, spot.end, |vector, mask| {
                let mut place = place.clone();
                let offset = b.mul(b.sub(vector, spot.vector), b.i64(t.lanes as i64));
                let sum = self.elements(sums, offset);
                let width = t.lanes as u32;
                let sum = self.emitter.load_contiguous(self.c.accumulator, sum, width, None);
                place.sum = Some(sum);
                place.lanes = Lanes { axis: self.roles.column, width, mask };
                set(&mut place, self.roles.column, b.mul(vector, b.i64(t.lanes as i64)));
                let mut values = values.clone();
                self.emitter.evaluate(&self.needs.result, &place, &mut values);
                self.emitter.stores(&self.c.stores, &[(place, values)]);
            });
        });
    }

    /// Elements between rows of sums in scratch.
    fn sum_stride(&self) -> u64 {
        match self.tiling.k_blocks {
            1 => self.tiling.tile_columns(),
            _ => self.tiling.block_columns(),
        }
    }

    // --- small things ---------------------------------------------------

    /// `for i in (from..to).step_by(step)`.
    pub fn each(
        &self,
        name: &str,
        range: (Value<'c>, Value<'c>, u64),
        body: impl FnOnce(Value<'c>),
    ) {
        self.b.for_each(name, range, Vec::new(), |i, _| {
            body(i);
            Vec::new()
        });
    }

    /// Runs `body` for each vector in `from..to`; a last one that ends early is given
    /// with a mask.
    pub fn vectors(
        &self,
        from: Value<'c>,
        to: Value<'c>,
        mut body: impl FnMut(Value<'c>, Option<Value<'c>>),
    ) {
        let (b, t) = (self.b, &self.tiling);
        let rest = self.roles.n % t.lanes;
        if rest == 0 {
            return self.each("vector", (from, to, 1), |v| body(v, None));
        }
        let whole = b.i64((self.roles.n / t.lanes) as i64);
        self.each("vector", (from, self.min(to, whole), 1), |v| body(v, None));
        b.when("edge", b.icmp(IntPredicate::UGT, to, whole), || {
            body(whole, Some(tile::mask(b, t.lanes, b.i64(rest as i64))));
        });
    }

    /// Runs `body` with the length of run `i`, a constant.
    fn by_length(&self, split: Split, i: Value<'c>, mut body: impl FnMut(u64)) {
        let b = self.b;
        let &[long, short] = &split.lengths()[..] else { return body(split.longest()) };
        let [end, no, yes] = ["sized", "short", "long"].map(|name| b.block(name));
        let (start, next) = self.run(split, i);
        let is_long = b.icmp(IntPredicate::EQ, b.sub(next, start), b.i64(long as i64));
        b.branch(is_long, yes, no);
        for (block, length) in [(yes, long), (no, short)] {
            b.at(block);
            body(length);
            b.jump(end);
        }
        b.at(end);
    }

    /// First item of run `i` of a split.
    pub fn start(&self, split: Split, i: Value<'c>) -> Value<'c> {
        let b = self.b;
        match split.total % split.parts {
            0 => b.mul(i, b.i64(split.short() as i64)),
            _ => {
                let product = b.mul(i, b.i64(split.total as i64));
                b.op(Op::UDiv, product, b.i64(split.parts as i64))
            }
        }
    }

    /// First item of run `i` and of the next.
    pub fn run(&self, split: Split, i: Value<'c>) -> (Value<'c>, Value<'c>) {
        (self.start(split, i), self.start(split, self.b.add(i, self.b.i64(1))))
    }

    /// Address of element `index * factor` of a part of scratch.
    pub fn part(&self, start: u64, index: Value<'c>, factor: u64) -> Value<'c> {
        let b = self.b;
        let part = tile::bytes(b, self.scratch_ptr, start as i64);
        self.elements(part, b.mul(index, b.i64(factor as i64)))
    }

    /// Address of element `index` of the accumulator's type after `ptr`.
    pub fn elements(&self, ptr: Value<'c>, index: Value<'c>) -> Value<'c> {
        self.b.gep(self.b.memory_ty(self.c.accumulator), ptr, index)
    }

    /// Address of the element that a factor loads at a place.
    fn address(&self, factor: ExprId, place: &Place<'c>, values: &Values<'c>) -> Value<'c> {
        let Expr::Load { argument, index, .. } = self.c.exprs.get(factor) else {
            unreachable!("only loads are read where they lie")
        };
        let index = self.emitter.index(index, &place.first_lane(), values, 64);
        self.elements(self.emitter.pointers[*argument as usize], index)
    }

    pub fn min(&self, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        self.b.binary_intrinsic("llvm.umin", x, y)
    }

    pub fn max(&self, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        self.b.binary_intrinsic("llvm.umax", x, y)
    }
}

/// The micro-kernels that a tiling calls.
fn tiles(tiling: &Tiling, roles: &Roles, dtype: DType, isa: Isa, plain: Option<i64>) -> Vec<Tile> {
    let size = dtype.size() as i64;
    let lanes = tiling.lanes as i64;
    let ends_early = !roles.n.is_multiple_of(tiling.lanes);
    let left = match tiling.left {
        Left::Direct(s) => (s.free * size, s.inner * size),
        Left::Rows { stride } => (stride as i64 * size, size),
        Left::Panels { width, .. } => (size, width as i64 * size),
    };
    let sums = plain.unwrap_or(match tiling.k_blocks {
        1 => tiling.tile_columns() as i64,
        _ => tiling.block_columns() as i64,
    });
    let mut tiles = Vec::new();
    for rows in tiling.row_panels.lengths() {
        for vectors in tiling.column_panels.lengths() {
            let (right, direct) = match tiling.right {
                Right::Direct(s) => (s.inner, true),
                Right::Panels(_) => (vectors as i64 * lanes, false),
            };
            tiles.push(Tile {
                rows,
                vectors,
                lanes: tiling.lanes,
                dtype,
                fused: fuses(isa, dtype),
                left,
                right: right * size,
                right_aligned: !direct,
                right_masked: direct && ends_early,
                sums: sums * size,
                sums_aligned: plain.is_none(),
                sums_masked: plain.is_some() && ends_early,
                resumes: tiling.k_blocks > 1,
            });
        }
    }
    tiles
}
