//! Index maps as addresses, and the loads and stores behind them.
//!
//! How neighbouring lanes move through memory decides what a load becomes:
//!
//! | index along the lanes | load |
//! |---|---|
//! | does not change | one scalar load |
//! | factor 1 | a vector load |
//! | factor −1 | a vector load, reversed |
//! | factor 2, in pairs of elements | a load of twice the lanes, of which every other is kept |
//! | anything else, or data | a gather |
//!
//! So are the parts of complex numbers read: both loads are one, of which either keeps
//! its half. Two stores that write both elements of pairs become one in the same way.
//!
//! Lanes that do not exist, or whose `valid` is false, touch no memory. A scalar
//! load that may be invalid reads element 0 instead and drops it.
//!
//! Addresses are summed in the order in which their parts change, outermost first,
//! so that LLVM can move the sums out of the loops in which they are constant.

use inkwell::IntPredicate;
use inkwell::values::InstructionOpcode as Op;
use kiln_ir::DType;

use super::build::{Value, lanes, with_lanes};
use super::expr::{Emitter, Place, Values};
use crate::kernel::{Axis, ExprId, Index, Scatter, Store, Term};

/// How near prefetching brings a line, as LLVM counts: into the first cache, or only into
/// the second, which does not use up what the first has to wait for memory with.
const FIRST: i64 = 3;
const SECOND: i64 = 2;

/// Bytes up to which what comes next has room in the first cache beside what is there.
const NEAR: i64 = 8 << 10;

/// Where the elements of the lanes are.
enum Address<'c> {
    /// All lanes at one element.
    One(Value<'c>),
    /// Lane `l` at element `l` behind the address.
    Ascending(Value<'c>),
    /// Lane `l` at element `width - 1 - l` behind the address.
    Descending(Value<'c>),
    /// Lane `l` at one of the elements `2 * l` and `2 * l + 1` behind the address, both
    /// of which exist: which one the number says.
    Paired(Value<'c>, u32),
    /// Each lane at its own address.
    Scattered(Value<'c>),
}

impl<'c> Emitter<'_, 'c> {
    // --- indices --------------------------------------------------------

    /// Whether an index may differ between lanes.
    fn differs(&self, index: &Index, place: &Place<'c>, values: &Values<'c>) -> bool {
        let mut dynamic = false;
        index.for_each_dynamic(&mut |e: ExprId| dynamic |= lanes(values.get(e)) > 1);
        place.lanes.width > 1 && (dynamic || index.depends_on(place.lanes.axis))
    }

    /// The value of an index as integers of at least `bits` bits: a vector if lanes
    /// differ.
    pub fn index(
        &self,
        index: &Index,
        place: &Place<'c>,
        values: &Values<'c>,
        bits: u32,
    ) -> Value<'c> {
        let b = self.build;
        if !self.differs(index, place, values) {
            return self.scalar_index(index, place, values);
        }
        let (same, different): (Vec<_>, Vec<_>) = index
            .terms
            .iter()
            .cloned()
            .partition(|(t, _)| !self.differs(&Index::term(t.clone()), place, values));
        let same = Index { constant: index.constant, terms: same };
        let narrow = |v| b.splat(b.resize(v, bits, true), place.lanes.width);
        let mut sum = narrow(self.scalar_index(&same, place, values));
        for (term, factor) in &different {
            let value = match term {
                Term::Axis(axis) => {
                    b.add(narrow(place.axis(*axis)), b.iota(place.lanes.width, bits))
                }
                Term::Quotient(x, d) => {
                    let x = self.index(x, place, values, bits);
                    b.op(Op::UDiv, x, b.int_like(x, *d))
                }
                Term::Remainder(x, d) => {
                    let x = self.index(x, place, values, bits);
                    b.op(Op::URem, x, b.int_like(x, *d))
                }
                Term::Dynamic(e, ..) => b.resize(values.get(*e), bits, true),
            };
            sum = b.add(sum, b.mul(value, b.int_like(value, *factor)));
        }
        sum
    }

    /// The value of an index in the first lane, as `i64`.
    fn scalar_index(&self, index: &Index, place: &Place<'c>, values: &Values<'c>) -> Value<'c> {
        let b = self.build;
        let mut sum: Option<Value<'c>> = None;
        for (term, factor) in self.outermost_first(index, place) {
            let value = match term {
                Term::Axis(axis) => place.axis(*axis),
                Term::Quotient(x, d) => {
                    b.op(Op::UDiv, self.scalar_index(x, place, values), b.i64(*d))
                }
                Term::Remainder(x, d) => {
                    b.op(Op::URem, self.scalar_index(x, place, values), b.i64(*d))
                }
                Term::Dynamic(e, ..) => match values.get(*e) {
                    v if lanes(v) > 1 => b.extract(v, 0),
                    v => v,
                },
            };
            let value = if factor == 1 { value } else { b.mul(value, b.i64(factor)) };
            sum = Some(sum.map_or(value, |s| b.add(s, value)));
        }
        match (sum, index.constant) {
            (None, constant) => b.i64(constant),
            (Some(sum), 0) => sum,
            (Some(sum), constant) => b.add(sum, b.i64(constant)),
        }
    }

    /// The terms with those first that change in the outermost loops.
    fn outermost_first<'i>(&self, index: &'i Index, place: &Place<'c>) -> Vec<(&'i Term, i64)> {
        let depth = |term: &Term| {
            let index = Index::term(term.clone());
            let lane = index.depends_on(place.lanes.axis);
            2 * u32::from(index.depends_on(Axis::Inner)) + u32::from(lane)
        };
        let mut terms: Vec<_> = index.terms.iter().map(|(t, f)| (t, *f)).collect();
        terms.sort_by_key(|(t, _)| depth(t));
        terms
    }

    /// Bits in which a vector of this index and all parts of it can be computed.
    pub fn bits(&self, index: &Index) -> u32 {
        let (low, high) = index.range(&self.extents);
        let here = i32::try_from(low).is_ok() && i32::try_from(high).is_ok();
        let inside = index.terms.iter().all(|(term, factor)| {
            let (l, h) = Index::term(term.clone()).scale(*factor).range(&self.extents);
            let part = i32::try_from(l).is_ok() && i32::try_from(h).is_ok();
            match term {
                Term::Quotient(x, _) | Term::Remainder(x, _) => part && self.bits(x) == 32,
                _ => part,
            }
        });
        if here && inside { 32 } else { 64 }
    }

    /// How many elements neighbouring lanes are apart, if that is the same for all.
    fn step(&self, index: &Index, place: &Place<'c>, values: &Values<'c>) -> Option<i64> {
        if !self.differs(index, place, values) {
            return Some(0);
        }
        let mut dynamic = false;
        index.for_each_dynamic(&mut |e: ExprId| dynamic |= lanes(values.get(e)) > 1);
        let lanes = place.lanes;
        match (dynamic, self.aligned == Some(lanes.axis)) {
            (true, _) => None,
            (false, true) => index.coefficient_in_blocks(lanes.axis, lanes.width.into()),
            (false, false) => index.coefficient(lanes.axis),
        }
    }

    fn address(
        &self,
        argument: u32,
        index: &Index,
        place: &Place<'c>,
        values: &Values<'c>,
    ) -> Address<'c> {
        let b = self.build;
        let element = b.memory_ty(self.arguments[argument as usize].dtype);
        let base = self.pointers[argument as usize];
        match self.step(index, place, values) {
            Some(0) => Address::One(b.gep(element, base, self.scalar_index(index, place, values))),
            Some(1) => {
                Address::Ascending(b.gep(element, base, self.scalar_index(index, place, values)))
            }
            Some(-1) => {
                let last = index.offset(1 - i64::from(place.lanes.width));
                Address::Descending(b.gep(element, base, self.scalar_index(&last, place, values)))
            }
            Some(2) if self.in_pairs(argument, index) => {
                let which = index.constant.rem_euclid(2);
                let first = index.offset(-which);
                let address = b.gep(element, base, self.scalar_index(&first, place, values));
                Address::Paired(address, which as u32)
            }
            _ => {
                let bits = self.bits(index);
                Address::Scattered(b.gep(element, base, self.index(index, place, values, bits)))
            }
        }
    }

    /// Whether an index names the same element of each pair `2n`, `2n + 1` of elements
    /// that it comes to, and both of a pair exist.
    fn in_pairs(&self, argument: u32, index: &Index) -> bool {
        let even = |(_, factor): &(Term, i64)| factor % 2 == 0;
        let whole = self.arguments[argument as usize].elements.is_multiple_of(2);
        whole && index.terms.iter().all(even)
    }

    // --- loads ----------------------------------------------------------

    /// Element `index` of an argument in each lane; zero where `valid` is false.
    pub fn load(
        &self,
        argument: u32,
        index: &Index,
        valid: Option<Value<'c>>,
        place: &Place<'c>,
        values: &Values<'c>,
    ) -> Value<'c> {
        let b = self.build;
        let dtype = self.arguments[argument as usize].dtype;
        let width = place.lanes.width;
        if self.arguments[argument as usize].elements == 0 {
            return b.constant(kiln_ir::Scalar::zero(dtype));
        }
        match self.address(argument, index, place, values) {
            Address::One(ptr) => {
                let Some(valid) = valid else {
                    return self.load_contiguous(dtype, ptr, 1, None);
                };
                let (valid, any) = match lanes(valid) {
                    1 => (valid, valid),
                    _ => {
                        let valid = self.masked(Some(valid), place).unwrap_or(valid);
                        (valid, b.unary_intrinsic("llvm.vector.reduce.or", valid))
                    }
                };
                let safe = b.select(any, ptr, self.pointers[argument as usize]);
                let value = self.load_contiguous(dtype, safe, 1, None);
                let value = b.splat(value, lanes(valid));
                b.select(valid, value, value.get_type().const_zero())
            }
            Address::Ascending(ptr) => {
                self.prefetch(argument, ptr, place);
                self.load_contiguous(dtype, ptr, width, self.masked(valid, place))
            }
            Address::Descending(ptr) => {
                let mask = self.masked(valid, place).map(|m| b.reverse(m));
                b.reverse(self.load_contiguous(dtype, ptr, width, mask))
            }
            Address::Paired(ptr, which) => {
                self.prefetch(argument, ptr, place);
                let mask = self.masked(valid, place).map(|m| self.twice(m));
                let pairs = self.load_contiguous(dtype, ptr, 2 * width, mask);
                b.shuffle(pairs, &(0..width).map(|l| 2 * l + which).collect::<Vec<_>>())
            }
            Address::Scattered(pointers) => {
                let ty = with_lanes(b.memory_ty(dtype), width);
                let mask = self.masked(valid, place);
                let mask = mask.unwrap_or_else(|| b.splat(b.bool(true), width));
                let args = [pointers, b.i32(dtype.size() as i64), mask, ty.const_zero()];
                let types = [ty, pointers.get_type()];
                self.to_register(dtype, b.intrinsic("llvm.masked.gather", &types, &args))
            }
        }
    }

    /// The lanes that exist and are valid; nothing if all are.
    fn masked(&self, valid: Option<Value<'c>>, place: &Place<'c>) -> Option<Value<'c>> {
        let valid = valid.map(|v| self.build.splat(v, place.lanes.width));
        match (place.lanes.mask, valid) {
            (Some(mask), Some(valid)) => Some(self.build.and(mask, valid)),
            (mask, valid) => mask.or(valid),
        }
    }

    /// Each lane of a vector twice.
    fn twice(&self, value: Value<'c>) -> Value<'c> {
        let lanes: Vec<u32> = (0..2 * lanes(value)).map(|l| l / 2).collect();
        self.build.shuffle(value, &lanes)
    }

    /// `width` elements from `ptr` on; zero in lanes that the mask excludes.
    pub fn load_contiguous(
        &self,
        dtype: DType,
        ptr: Value<'c>,
        width: u32,
        mask: Option<Value<'c>>,
    ) -> Value<'c> {
        let b = self.build;
        let ty = with_lanes(b.memory_ty(dtype), width);
        let align = dtype.size() as u32;
        let value = match mask {
            None => b.load(ty, ptr, align),
            Some(mask) => {
                let args = [ptr, b.i32(align.into()), mask, ty.const_zero()];
                b.intrinsic("llvm.masked.load", &[ty, b.ptr_ty()], &args)
            }
        };
        self.to_register(dtype, value)
    }

    fn to_register(&self, dtype: DType, value: Value<'c>) -> Value<'c> {
        match dtype {
            DType::Bool => self.build.icmp(IntPredicate::NE, value, self.build.int_like(value, 0)),
            _ => value,
        }
    }

    /// Asks for the elements ahead of a vector at `ptr`. An address past the end of an
    /// argument does no harm.
    fn prefetch(&self, argument: u32, ptr: Value<'c>, place: &Place<'c>) {
        let bytes = self.ahead[argument as usize];
        if place.ahead && bytes > 0 && self.is_line(argument, place) {
            self.prefetch_at(ptr, bytes as i64, FIRST);
        }
    }

    /// Whether a vector is a cache line. One prefetch for each narrower vector would ask
    /// for every line several times.
    fn is_line(&self, argument: u32, place: &Place<'c>) -> bool {
        self.arguments[argument as usize].dtype.size() as u32 * place.lanes.width >= 64
    }

    /// Asks for the line `bytes` behind an address, to have it in a level of caches.
    fn prefetch_at(&self, ptr: Value<'c>, bytes: i64, level: i64) {
        let b = self.build;
        let ptr = b.gep(b.int_ty(8).into(), ptr, b.i64(bytes));
        // For reading, how near, data.
        let args = [ptr, b.i32(0), b.i32(level), b.i32(1)];
        b.intrinsic_void("llvm.prefetch", &[b.ptr_ty()], &args);
    }

    /// Asks for what a load will read at the next step along `axis`, without loading: into
    /// the first cache if it is near.
    pub fn prefetch_load(
        &self,
        (argument, index): (u32, &Index),
        axis: Axis,
        place: &Place<'c>,
        values: &Values<'c>,
    ) {
        let size = self.arguments[argument as usize].dtype.size() as i64;
        let (Some(step), true) = (index.coefficient(axis), self.ahead[argument as usize] > 0)
        else {
            return;
        };
        if step == 0 || !self.is_line(argument, place) {
            return;
        }
        if let Address::Ascending(ptr) = self.address(argument, index, place, values) {
            let bytes = step * size;
            self.prefetch_at(ptr, bytes, if bytes.abs() <= NEAR { FIRST } else { SECOND });
        }
    }

    // --- stores ---------------------------------------------------------

    /// Writes what stores say at each place, in order.
    pub fn stores(&self, mut stores: &[Store], places: &[(Place<'c>, Values<'c>)]) {
        while let [first, rest @ ..] = stores {
            let pair = rest.first().filter(|second| self.are_pairs(first, second, places));
            for (place, values) in places {
                match pair {
                    Some(second) => self.store_pairs(first, second, place, values),
                    None => self.store(first, place, values),
                }
            }
            stores = if pair.is_some() { &rest[1..] } else { rest };
        }
    }

    /// Whether two stores together write pairs of neighbouring elements at vectors.
    fn are_pairs(&self, a: &Store, b: &Store, places: &[(Place<'c>, Values<'c>)]) -> bool {
        let parts = a.argument == b.argument && b.index == a.index.offset(1);
        parts
            && a.index.constant.rem_euclid(2) == 0
            && self.in_pairs(a.argument, &a.index)
            && places.iter().all(|(place, values)| self.step(&a.index, place, values) == Some(2))
    }

    /// Writes pairs of elements, or those of the lanes that exist.
    fn store_pairs(&self, first: &Store, second: &Store, place: &Place<'c>, values: &Values<'c>) {
        let b = self.build;
        let Address::Paired(ptr, _) = self.address(first.argument, &first.index, place, values)
        else {
            unreachable!("asked before");
        };
        let width = place.lanes.width;
        let [x, y] = [first, second].map(|store| b.splat(values.get(store.value), width));
        let lanes: Vec<u32> = (0..width).flat_map(|l| [l, width + l]).collect();
        let pairs = b.shuffle_pair(x, y, &lanes);
        let dtype = self.arguments[first.argument as usize].dtype;
        let streaming = self.streams(first, place, 2 * width);
        let mask = place.lanes.mask.map(|m| self.twice(m));
        self.store_contiguous(dtype, ptr, pairs, mask, streaming);
    }

    /// Writes a value, or its lanes that exist.
    pub fn store(&self, store: &Store, place: &Place<'c>, values: &Values<'c>) {
        let streaming = self.streams(store, place, place.lanes.width);
        let (target, value) = ((store.argument, &store.index), values.get(store.value));
        self.write(target, value, place.lanes.mask, streaming, place, values);
    }

    /// Combines a value with the element that is there, or its lanes that exist and are
    /// valid. A condition that is the same for all lanes has been checked before.
    pub fn scatter(&self, scatter: &Scatter, place: &Place<'c>, values: &Values<'c>) {
        let b = self.build;
        let dtype = self.arguments[scatter.argument as usize].dtype;
        let valid = scatter.valid.map(|v| values.get(v));
        let update = |valid: Option<Value<'c>>| {
            let mut value = values.get(scatter.value);
            if let Some(op) = scatter.combine {
                let old = self.load(scatter.argument, &scatter.index, valid, place, values);
                let width = lanes(old).max(lanes(value));
                let (old, new) = (b.splat(old, width), b.splat(value, width));
                value = self.arithmetic().binary(op, dtype, old, new);
            }
            let mask = self.masked(valid, place);
            let target = (scatter.argument, &scatter.index);
            self.write(target, value, mask, false, place, values);
        };
        match valid {
            Some(valid) if lanes(valid) == 1 => b.when("valid", valid, || update(None)),
            valid => update(valid),
        }
    }

    /// Writes a value to an argument, but for lanes that the mask excludes.
    fn write(
        &self,
        (argument, index): (u32, &Index),
        value: Value<'c>,
        mask: Option<Value<'c>>,
        streaming: bool,
        place: &Place<'c>,
        values: &Values<'c>,
    ) {
        let b = self.build;
        let dtype = self.arguments[argument as usize].dtype;
        match self.address(argument, index, place, values) {
            Address::One(ptr) => {
                let value = if lanes(value) > 1 { b.extract(value, 0) } else { value };
                self.store_contiguous(dtype, ptr, value, None, false);
            }
            Address::Ascending(ptr) => {
                let value = b.splat(value, place.lanes.width);
                self.store_contiguous(dtype, ptr, value, mask, streaming);
            }
            Address::Descending(ptr) => {
                let mask = mask.map(|m| b.reverse(m));
                let value = b.reverse(b.splat(value, place.lanes.width));
                self.store_contiguous(dtype, ptr, value, mask, false);
            }
            // One of each pair: the address behind the pair's would be as good.
            Address::Paired(..) | Address::Scattered(_) => {
                let bits = self.bits(index);
                let index = self.index(index, place, values, bits);
                let element = b.memory_ty(dtype);
                let pointers = b.gep(element, self.pointers[argument as usize], index);
                let width = place.lanes.width;
                let value = self.to_memory(dtype, b.splat(value, width));
                let mask = mask.unwrap_or_else(|| b.splat(b.bool(true), width));
                let args = [value, pointers, b.i32(dtype.size() as i64), mask];
                let types = [value.get_type(), pointers.get_type()];
                b.intrinsic_void("llvm.masked.scatter", &types, &args);
            }
        }
    }

    /// Writes elements from `ptr` on, but for lanes that the mask excludes.
    pub fn store_contiguous(
        &self,
        dtype: DType,
        ptr: Value<'c>,
        value: Value<'c>,
        mask: Option<Value<'c>>,
        streaming: bool,
    ) {
        let b = self.build;
        let align = dtype.size() as u32;
        let value = self.to_memory(dtype, value);
        match mask {
            None => {
                // Arguments start on a line, so no vector is known to be aligned further.
                let align = if streaming { (align * lanes(value)).min(64) } else { align };
                b.store(value, ptr, align, streaming);
            }
            Some(mask) => {
                let args = [value, ptr, b.i32(align.into()), mask];
                b.intrinsic_void("llvm.masked.store", &[value.get_type(), b.ptr_ty()], &args);
            }
        }
    }

    fn to_memory(&self, dtype: DType, value: Value<'c>) -> Value<'c> {
        match dtype {
            DType::Bool => self.build.resize(value, 8, false),
            _ => value,
        }
    }

    /// Whether a vector store of `width` elements goes past the caches: the argument is
    /// written so, and the address is aligned whatever the axes are, given that those
    /// along which lanes run move by whole vectors.
    fn streams(&self, store: &Store, place: &Place<'c>, width: u32) -> bool {
        let bytes = self.arguments[store.argument as usize].dtype.size() as i64;
        let width = i64::from(width);
        let vector = i64::from(self.isa.vector_bits() / 8);
        let aligned = |elements: i64| elements % width == 0;
        self.streaming[store.argument as usize]
            && place.lanes.mask.is_none()
            && width * bytes >= vector
            && aligned(store.index.constant)
            && store
                .index
                .terms
                .iter()
                .all(|(term, factor)| aligned(*factor) || *term == Term::Axis(place.lanes.axis))
    }
}
