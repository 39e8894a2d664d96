//! The micro-kernel: sums of products for one tile of the result, in registers.
//!
//! ```text
//! for k in 0..steps {
//!     for r in 0..rows { for v in 0..vectors { acc[r][v] += a[r][k] * b[k][v] } }
//! }
//! ```
//!
//! The loops over `r` and `v` are unrolled, so that every `acc` is a register, and the
//! loop over `k` a few times. Vectors run along columns; an element of the left factor is
//! broadcast to all lanes. Strides are constants of the code, so that all rows are
//! reached by displacements from one pointer.
//!
//! Each element's sum takes its products in increasing `k`, one rounding a step: the
//! unrolling does not split it.

use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::module::Linkage;
use inkwell::values::{FunctionValue, InstructionOpcode as Op};
use kiln_ir::DType;

use super::super::build::{Build, Type, Value, with_lanes};

/// How often the loop over the steps is unrolled. Not for integers: LLVM would use that
/// their additions may be reordered, and run out of registers.
fn unroll(dtype: DType) -> u64 {
    if dtype.is_float() { 4 } else { 1 }
}

/// What one micro-kernel does. Strides are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tile {
    /// Rows of the tile.
    pub rows: u64,
    /// Vectors of a row.
    pub vectors: u64,
    /// Elements of a vector.
    pub lanes: u64,
    /// The accumulator's type.
    pub dtype: DType,
    /// Whether a product and a sum are one instruction, which rounds once.
    pub fused: bool,
    /// Between rows and between steps of the left factor.
    pub left: (i64, i64),
    /// Between steps of the right factor.
    pub right: i64,
    /// Whether rows of the right factor start on a multiple of a vector.
    pub right_aligned: bool,
    /// Whether the last vector of the right factor may end early.
    pub right_masked: bool,
    /// Between rows of the sums.
    pub sums: i64,
    /// Whether rows of the sums start on a multiple of a vector.
    pub sums_aligned: bool,
    /// Whether the last vector of the sums may end early.
    pub sums_masked: bool,
    /// Whether sums may continue earlier ones.
    pub resumes: bool,
}

/// What a call of a micro-kernel is given.
pub(super) struct Call<'c> {
    /// Row 0, step 0 of the left factor.
    pub left: Value<'c>,
    /// Step 0, column 0 of the right factor.
    pub right: Value<'c>,
    /// Row 0, column 0 of the sums.
    pub sums: Value<'c>,
    /// How many steps.
    pub steps: Value<'c>,
    /// Lanes of the last vector that exist.
    pub live: Value<'c>,
    /// Whether to continue the sums there (`i1`); they start at zero if not.
    pub resume: Value<'c>,
}

impl<'c> Call<'c> {
    /// In the order of the function's parameters.
    pub fn arguments(&self) -> [Value<'c>; 6] {
        [self.left, self.right, self.sums, self.steps, self.live, self.resume]
    }
}

impl Tile {
    /// Emits the function; the caller's insertion point is lost.
    pub fn emit<'c>(&self, b: &Build<'c>) -> FunctionValue<'c> {
        let (ptr, i64, i1) = (b.ptr_ty(), b.int_ty(64), b.int_ty(1));
        let types = [ptr.into(), ptr.into(), ptr.into(), i64.into(), i64.into(), i1.into()];
        let ty = b.context.void_type().fn_type(&types, false);
        let name = format!("tile_{}x{}", self.rows, self.vectors);
        let function = b.module.add_function(&name, ty, Some(Linkage::Internal));
        for name in ["noinline", "nounwind"] {
            let kind = Attribute::get_named_enum_kind_id(name);
            let attribute = b.context.create_enum_attribute(kind, 0);
            function.add_attribute(AttributeLoc::Function, attribute);
        }
        b.at(b.context.append_basic_block(function, "entry"));
        let parameter = |i| function.get_nth_param(i).expect("six parameters");
        let (left, right, sums) = (parameter(0), parameter(1), parameter(2));
        let (steps, live, resume) = (parameter(3), parameter(4), parameter(5));

        let mask = (self.right_masked || self.sums_masked).then(|| mask(b, self.lanes, live));
        let start = self.start(b, sums, mask, resume);
        let unroll = unroll(self.dtype);
        let whole = b.op(Op::And, steps, b.i64(-(unroll as i64)));
        let mut carried = vec![left, right];
        carried.extend(start);
        let turn = |count: u64| {
            move |_, state: Vec<Value<'c>>| {
                let mut acc = state[2..].to_vec();
                for step in 0..count as i64 {
                    self.step(b, (state[0], state[1]), step, mask, &mut acc);
                }
                let count = count as i64;
                let mut next = vec![
                    bytes(b, state[0], self.left.1 * count),
                    bytes(b, state[1], self.right * count),
                ];
                next.extend(acc);
                next
            }
        };
        let zero = b.i64(0);
        let mut carried = b.for_each("steps", (zero, whole, unroll), carried, turn(unroll));
        if unroll > 1 {
            carried = b.for_each("rest", (whole, steps, 1), carried, turn(1));
        }
        self.finish(b, sums, mask, &carried[2..]);
        b.ret();
        function
    }

    /// Zeros, or the sums so far.
    fn start<'c>(
        &self,
        b: &Build<'c>,
        sums: Value<'c>,
        mask: Option<Value<'c>>,
        resume: Value<'c>,
    ) -> Vec<Value<'c>> {
        let zero = self.vector(b).into_vector_type().const_zero().into();
        let zeros = vec![zero; (self.rows * self.vectors) as usize];
        if !self.resumes {
            return zeros;
        }
        let before = b.here();
        let join = b.block("start");
        let resumed = b.block("resume");
        b.branch(resume, resumed, join);
        b.at(resumed);
        let loaded = self.sums(|r, v| {
            let place = self.place(b, sums, r, v);
            let mask = mask.filter(|_| self.sums_masked && self.is_last(v));
            load(b, self.vector(b), place, self.sums_align(), mask)
        });
        b.jump(join);
        b.at(join);
        let phis = loaded.into_iter().map(|value| {
            let phi = b.phi(self.vector(b));
            phi.add_incoming(&[(&zero, before), (&value, resumed)]);
            phi.as_basic_value()
        });
        phis.collect()
    }

    /// One step: `acc[r][v] += left[r] * right[v]`.
    fn step<'c>(
        &self,
        b: &Build<'c>,
        (left, right): (Value<'c>, Value<'c>),
        step: i64,
        mask: Option<Value<'c>>,
        acc: &mut [Value<'c>],
    ) {
        let vector = self.vector(b);
        let width = self.lanes as i64 * self.size();
        let align = if self.right_aligned { width } else { self.size() } as u32;
        let row: Vec<Value> = (0..self.vectors)
            .map(|v| {
                let place = bytes(b, right, step * self.right + v as i64 * width);
                let mask = mask.filter(|_| self.right_masked && self.is_last(v));
                load(b, vector, place, align, mask)
            })
            .collect();
        for r in 0..self.rows {
            let place = bytes(b, left, r as i64 * self.left.0 + step * self.left.1);
            let element = b.load(b.memory_ty(self.dtype), place, self.size() as u32);
            let element = b.splat(element, self.lanes as u32);
            for v in 0..self.vectors {
                let sum = &mut acc[(r * self.vectors + v) as usize];
                *sum = self.multiply_add(b, element, row[v as usize], *sum);
            }
        }
    }

    fn multiply_add<'c>(
        &self,
        b: &Build<'c>,
        x: Value<'c>,
        y: Value<'c>,
        z: Value<'c>,
    ) -> Value<'c> {
        match self.dtype {
            DType::F32 | DType::F64 if self.fused => {
                b.intrinsic("llvm.fma", &[z.get_type()], &[x, y, z])
            }
            DType::F32 | DType::F64 => b.op(Op::FAdd, z, b.op(Op::FMul, x, y)),
            DType::Bool => b.or(z, b.and(x, y)),
            _ => b.add(z, b.mul(x, y)),
        }
    }

    fn finish<'c>(
        &self,
        b: &Build<'c>,
        sums: Value<'c>,
        mask: Option<Value<'c>>,
        acc: &[Value<'c>],
    ) {
        let mut acc = acc.iter();
        self.sums(|r, v| {
            let place = self.place(b, sums, r, v);
            let value = *acc.next().expect("an accumulator");
            let mask = mask.filter(|_| self.sums_masked && self.is_last(v));
            store(b, value, place, self.sums_align(), mask);
        });
    }

    /// Calls `f` for each row and vector, rows outermost.
    fn sums<T>(&self, mut f: impl FnMut(u64, u64) -> T) -> Vec<T> {
        let all = (0..self.rows).flat_map(|r| (0..self.vectors).map(move |v| (r, v)));
        all.map(|(r, v)| f(r, v)).collect()
    }

    fn place<'c>(&self, b: &Build<'c>, sums: Value<'c>, r: u64, v: u64) -> Value<'c> {
        bytes(b, sums, r as i64 * self.sums + (v * self.lanes) as i64 * self.size())
    }

    fn is_last(&self, v: u64) -> bool {
        v + 1 == self.vectors
    }

    fn vector<'c>(&self, b: &Build<'c>) -> Type<'c> {
        with_lanes(b.memory_ty(self.dtype), self.lanes as u32)
    }

    fn size(&self) -> i64 {
        self.dtype.size() as i64
    }

    fn sums_align(&self) -> u32 {
        let width = if self.sums_aligned { self.lanes as i64 } else { 1 };
        (width * self.size()) as u32
    }
}

/// The address `offset` bytes after `ptr`.
pub(super) fn bytes<'c>(b: &Build<'c>, ptr: Value<'c>, offset: i64) -> Value<'c> {
    match offset {
        0 => ptr,
        _ => b.gep(b.int_ty(8).into(), ptr, b.i64(offset)),
    }
}

/// Which of `lanes` lanes are below `live`.
pub(super) fn mask<'c>(b: &Build<'c>, lanes: u64, live: Value<'c>) -> Value<'c> {
    let live = b.splat(b.resize(live, 32, false), lanes as u32);
    b.icmp(inkwell::IntPredicate::ULT, b.iota(lanes as u32, 32), live)
}

/// The lanes in `mask`, or all, from memory; zero elsewhere.
pub(super) fn load<'c>(
    b: &Build<'c>,
    ty: Type<'c>,
    ptr: Value<'c>,
    align: u32,
    mask: Option<Value<'c>>,
) -> Value<'c> {
    let Some(mask) = mask else { return b.load(ty, ptr, align) };
    let zero = ty.into_vector_type().const_zero().into();
    b.intrinsic("llvm.masked.load", &[ty, b.ptr_ty()], &[ptr, b.i32(align.into()), mask, zero])
}

/// Writes the lanes in `mask`, or all.
pub(super) fn store<'c>(
    b: &Build<'c>,
    value: Value<'c>,
    ptr: Value<'c>,
    align: u32,
    mask: Option<Value<'c>>,
) {
    let Some(mask) = mask else { return b.store(value, ptr, align, false) };
    let args = [value, ptr, b.i32(align.into()), mask];
    b.intrinsic_void("llvm.masked.store", &[value.get_type(), b.ptr_ty()], &args);
}
