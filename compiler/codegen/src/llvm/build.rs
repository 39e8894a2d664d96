//! LLVM instructions on values that may be scalars or vectors.
//!
//! A thin layer over inkwell: its builder types scalars and vectors apart, while an
//! expression emitter wants one `add` for both. Nothing here knows kernel IR beyond
//! [`DType`]; nothing here decides anything.
//!
//! In registers a `bool` is an `i1`, half types are the `i16` of their bits, and
//! everything else is what one expects. In memory a `bool` is a byte.

use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::llvm_sys;
use inkwell::module::{Linkage, Module};
use inkwell::types::{BasicTypeEnum, IntType, VectorType};
use inkwell::values::{
    ArrayValue, AsValueRef, BasicValue, BasicValueEnum, FunctionValue, InstructionOpcode as Op,
    IntValue, VectorValue,
};
use inkwell::{AddressSpace, FloatPredicate, IntPredicate};
use kiln_ir::{DType, Scalar};

/// A value in a register: a scalar, a pointer or a vector.
pub(crate) type Value<'c> = BasicValueEnum<'c>;
/// The type of a [`Value`].
pub(crate) type Type<'c> = BasicTypeEnum<'c>;

/// Emits instructions into one module.
pub(crate) struct Build<'c> {
    pub context: &'c Context,
    pub module: Module<'c>,
    pub(super) builder: Builder<'c>,
}

/// inkwell reports only misuse of the builder, which would be a fault of ours.
pub(super) const BUILT: &str = "the builder is positioned and operands have fitting types";

impl<'c> Build<'c> {
    pub fn new(context: &'c Context, module: Module<'c>) -> Build<'c> {
        Build { context, module, builder: context.create_builder() }
    }

    // --- types and constants --------------------------------------------

    /// How an element is held in a register.
    pub fn ty(&self, dtype: DType) -> Type<'c> {
        match dtype {
            DType::Bool => self.context.bool_type().into(),
            DType::I8 | DType::U8 => self.context.i8_type().into(),
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => self.context.i16_type().into(),
            DType::I32 | DType::U32 => self.context.i32_type().into(),
            DType::I64 | DType::U64 => self.context.i64_type().into(),
            DType::F32 => self.context.f32_type().into(),
            DType::F64 => self.context.f64_type().into(),
            DType::C64 | DType::C128 => unreachable!("kernels hold parts of complex numbers"),
        }
    }

    /// How an element is held in memory.
    pub fn memory_ty(&self, dtype: DType) -> Type<'c> {
        match dtype {
            DType::Bool => self.context.i8_type().into(),
            _ => self.ty(dtype),
        }
    }

    pub fn ptr_ty(&self) -> Type<'c> {
        self.context.ptr_type(AddressSpace::default()).into()
    }

    pub fn int_ty(&self, bits: u32) -> IntType<'c> {
        match bits {
            1 => self.context.bool_type(),
            8 => self.context.i8_type(),
            16 => self.context.i16_type(),
            32 => self.context.i32_type(),
            64 => self.context.i64_type(),
            _ => unreachable!("integers of {bits} bits"),
        }
    }

    pub fn f32_ty(&self) -> Type<'c> {
        self.context.f32_type().into()
    }

    pub fn f64_ty(&self) -> Type<'c> {
        self.context.f64_type().into()
    }

    pub fn i64(&self, x: i64) -> Value<'c> {
        self.context.i64_type().const_int(x as u64, true).into()
    }

    pub fn i32(&self, x: i64) -> Value<'c> {
        self.context.i32_type().const_int(x as u64, true).into()
    }

    pub fn bool(&self, x: bool) -> Value<'c> {
        self.context.bool_type().const_int(x as u64, false).into()
    }

    /// A constant of an element type.
    pub fn constant(&self, value: Scalar) -> Value<'c> {
        let bits = value.bits();
        // Floats through their bits: by way of a double, signalling NaNs would turn quiet.
        match value.dtype() {
            DType::F32 => {
                self.bitcast(self.int_ty(32).const_int(bits, false).into(), self.f32_ty())
            }
            DType::F64 => {
                self.bitcast(self.int_ty(64).const_int(bits, false).into(), self.f64_ty())
            }
            dtype => self.ty(dtype).into_int_type().const_int(bits, false).into(),
        }
    }

    /// An integer constant of the type of `like`, in every lane.
    pub fn int_like(&self, like: Value<'c>, x: i64) -> Value<'c> {
        let bits = self.int_bits(like);
        let scalar: Value<'c> = self.int_ty(bits).const_int(x as u64, true).into();
        self.splat(scalar, lanes(like))
    }

    /// A float constant of the type of `like`, in every lane.
    pub fn float_like(&self, like: Value<'c>, x: f64) -> Value<'c> {
        let scalar: Value<'c> = scalar_ty(like.get_type()).into_float_type().const_float(x).into();
        self.splat(scalar, lanes(like))
    }

    /// Bits of an integer, or of an element of an integer vector.
    pub fn int_bits(&self, value: Value<'c>) -> u32 {
        scalar_ty(value.get_type()).into_int_type().get_bit_width()
    }

    /// `0, 1, 2, ..` as a vector of integers of `bits` bits.
    pub fn iota(&self, width: u32, bits: u32) -> Value<'c> {
        let ty = self.int_ty(bits);
        let lanes: Vec<IntValue> = (0..width).map(|i| ty.const_int(i.into(), false)).collect();
        VectorType::const_vector(&lanes).into()
    }

    // --- arithmetic -----------------------------------------------------

    pub fn op(&self, op: Op, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        self.builder.build_binop(op, a, b, "").expect(BUILT)
    }

    pub fn add(&self, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        self.op(Op::Add, a, b)
    }

    pub fn sub(&self, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        self.op(Op::Sub, a, b)
    }

    pub fn mul(&self, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        self.op(Op::Mul, a, b)
    }

    pub fn and(&self, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        self.op(Op::And, a, b)
    }

    pub fn or(&self, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        self.op(Op::Or, a, b)
    }

    pub fn xor(&self, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        self.op(Op::Xor, a, b)
    }

    pub fn not(&self, a: Value<'c>) -> Value<'c> {
        self.xor(a, self.int_like(a, -1))
    }

    pub fn float_neg(&self, a: Value<'c>) -> Value<'c> {
        match a {
            Value::VectorValue(a) => self.builder.build_float_neg(a, "").expect(BUILT).into(),
            a => self.builder.build_float_neg(a.into_float_value(), "").expect(BUILT).into(),
        }
    }

    /// Converts to elements of type `to`, keeping the number of lanes.
    pub fn cast(&self, op: Op, a: Value<'c>, to: Type<'c>) -> Value<'c> {
        self.builder.build_cast(op, a, with_lanes(to, lanes(a)), "").expect(BUILT)
    }

    pub fn bitcast(&self, a: Value<'c>, to: Type<'c>) -> Value<'c> {
        self.cast(Op::BitCast, a, to)
    }

    /// An integer made wider or narrower by dropping or adding high bits.
    pub fn resize(&self, a: Value<'c>, bits: u32, signed: bool) -> Value<'c> {
        let op = match self.int_bits(a).cmp(&bits) {
            std::cmp::Ordering::Equal => return a,
            std::cmp::Ordering::Greater => Op::Trunc,
            std::cmp::Ordering::Less if signed => Op::SExt,
            std::cmp::Ordering::Less => Op::ZExt,
        };
        self.cast(op, a, self.int_ty(bits).into())
    }

    pub fn icmp(&self, op: IntPredicate, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        match (a, b) {
            (Value::VectorValue(a), Value::VectorValue(b)) => {
                self.builder.build_int_compare(op, a, b, "").expect(BUILT).into()
            }
            (a, b) => {
                let (a, b) = (a.into_int_value(), b.into_int_value());
                self.builder.build_int_compare(op, a, b, "").expect(BUILT).into()
            }
        }
    }

    pub fn fcmp(&self, op: FloatPredicate, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        match (a, b) {
            (Value::VectorValue(a), Value::VectorValue(b)) => {
                self.builder.build_float_compare(op, a, b, "").expect(BUILT).into()
            }
            (a, b) => {
                let (a, b) = (a.into_float_value(), b.into_float_value());
                self.builder.build_float_compare(op, a, b, "").expect(BUILT).into()
            }
        }
    }

    /// `c ? a : b`; a scalar condition may choose between vectors.
    pub fn select(&self, c: Value<'c>, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        match c {
            Value::VectorValue(c) => self.builder.build_select(c, a, b, "").expect(BUILT),
            c => self.builder.build_select(c.into_int_value(), a, b, "").expect(BUILT),
        }
    }

    /// Calls an intrinsic overloaded on `types`.
    pub fn intrinsic(&self, name: &str, types: &[Type<'c>], args: &[Value<'c>]) -> Value<'c> {
        let call = self.call_intrinsic(name, types, args);
        call.basic().unwrap_or_else(|| unreachable!("{name} has a result"))
    }

    /// Calls an intrinsic without a result.
    pub fn intrinsic_void(&self, name: &str, types: &[Type<'c>], args: &[Value<'c>]) {
        self.call_intrinsic(name, types, args);
    }

    fn call_intrinsic(
        &self,
        name: &str,
        types: &[Type<'c>],
        args: &[Value<'c>],
    ) -> inkwell::values::ValueKind<'c> {
        let intrinsic = Intrinsic::find(name).unwrap_or_else(|| unreachable!("no {name}"));
        let function = intrinsic.get_declaration(&self.module, types).expect("types it takes");
        let args: Vec<_> = args.iter().map(|&a| a.into()).collect();
        self.builder.build_call(function, &args, "").expect(BUILT).try_as_basic_value()
    }

    /// An intrinsic of one operand, overloaded on its type.
    pub fn unary_intrinsic(&self, name: &str, a: Value<'c>) -> Value<'c> {
        self.intrinsic(name, &[a.get_type()], &[a])
    }

    /// An intrinsic of two operands of one type, overloaded on it.
    pub fn binary_intrinsic(&self, name: &str, a: Value<'c>, b: Value<'c>) -> Value<'c> {
        self.intrinsic(name, &[a.get_type()], &[a, b])
    }

    // --- vectors --------------------------------------------------------

    /// `value` in every lane; the value itself for one lane or if it is a vector.
    pub fn splat(&self, value: Value<'c>, width: u32) -> Value<'c> {
        if width == 1 || value.is_vector_value() {
            return value;
        }
        if is_const(value) {
            return match value {
                Value::IntValue(v) => VectorType::const_vector(&vec![v; width as usize]).into(),
                Value::FloatValue(v) => VectorType::const_vector(&vec![v; width as usize]).into(),
                _ => unreachable!("constant vectors of pointers"),
            };
        }
        let poison = with_lanes(value.get_type(), width).into_vector_type().get_poison();
        let zero = self.context.i32_type().const_zero();
        let first = self.builder.build_insert_element(poison, value, zero, "").expect(BUILT);
        self.shuffle(first.into(), &vec![0; width as usize])
    }

    /// The lanes of `value` named by `lanes`, in that order.
    pub fn shuffle(&self, value: Value<'c>, lanes: &[u32]) -> Value<'c> {
        let value: VectorValue = value.into_vector_value();
        let i32 = self.context.i32_type();
        let mask: Vec<IntValue> = lanes.iter().map(|&l| i32.const_int(l.into(), false)).collect();
        let mask = VectorType::const_vector(&mask);
        let poison = value.get_type().get_poison();
        self.builder.build_shuffle_vector(value, poison, mask, "").expect(BUILT).into()
    }

    /// The lanes named by `lanes` of two vectors, those of `y` counted after those of `x`.
    pub fn shuffle_pair(&self, x: Value<'c>, y: Value<'c>, lanes: &[u32]) -> Value<'c> {
        let i32 = self.context.i32_type();
        let mask: Vec<IntValue> = lanes.iter().map(|&l| i32.const_int(l.into(), false)).collect();
        let mask = VectorType::const_vector(&mask);
        let (x, y) = (x.into_vector_value(), y.into_vector_value());
        self.builder.build_shuffle_vector(x, y, mask, "").expect(BUILT).into()
    }

    /// One lane of a vector.
    pub fn extract(&self, value: Value<'c>, lane: u32) -> Value<'c> {
        let lane = self.context.i32_type().const_int(lane.into(), false);
        self.builder.build_extract_element(value.into_vector_value(), lane, "").expect(BUILT)
    }

    /// A vector with its lanes in the opposite order.
    pub fn reverse(&self, value: Value<'c>) -> Value<'c> {
        match lanes(value) {
            1 => value,
            width => self.shuffle(value, &(0..width).rev().collect::<Vec<_>>()),
        }
    }

    /// `f` of vectors of any width, where it takes `width` lanes of each at a time.
    pub fn in_parts(
        &self,
        width: u32,
        operands: &[Value<'c>],
        f: &dyn Fn(&[Value<'c>]) -> Value<'c>,
    ) -> Value<'c> {
        let all = lanes(operands[0]);
        let part = |kept: &[u32]| -> Vec<Value<'c>> {
            operands.iter().map(|&operand| self.shuffle(operand, kept)).collect()
        };
        if all == width {
            return f(operands);
        }
        if all < width {
            // What is in the lanes that are dropped again does not matter.
            let wide = f(&part(&(0..width).map(|l| l % all).collect::<Vec<_>>()));
            return self.shuffle(wide, &(0..all).collect::<Vec<_>>());
        }
        let half = |from: u32| {
            let operands = part(&(from..from + all / 2).collect::<Vec<_>>());
            self.in_parts(width, &operands, f)
        };
        self.shuffle_pair(half(0), half(all / 2), &(0..all).collect::<Vec<_>>())
    }

    // --- memory ---------------------------------------------------------

    /// Address of element `index` behind `ptr`; a vector of addresses for a vector.
    pub fn gep(&self, element: Type<'c>, ptr: Value<'c>, index: Value<'c>) -> Value<'c> {
        use inkwell::types::AsTypeRef;
        let mut indices = [index.as_value_ref()];
        // SAFETY: the builder, type and values belong to one live context, `indices`
        // holds one index, and the name is a terminated string. LLVM gives back a
        // value, which is a pointer or a vector of pointers. inkwell's own method
        // takes no vectors as indices.
        unsafe {
            Value::new(llvm_sys::core::LLVMBuildGEP2(
                self.builder.as_mut_ptr(),
                element.as_type_ref(),
                ptr.as_value_ref(),
                indices.as_mut_ptr(),
                1,
                c"".as_ptr(),
            ))
        }
    }

    /// Room for an array in the frame of the function.
    pub fn array(&self, element: Type<'c>, length: u32) -> Value<'c> {
        let length = self.context.i32_type().const_int(length.into(), false);
        self.builder.build_array_alloca(element, length, "").expect(BUILT).into()
    }

    /// The address of constant numbers of 64 bits.
    pub fn table(&self, numbers: &[i64]) -> Value<'c> {
        let ty = self.int_ty(64);
        let numbers: Vec<_> = numbers.iter().map(|&x| ty.const_int(x as u64, true)).collect();
        self.data(ty.const_array(&numbers))
    }

    /// The address of the addresses of functions.
    pub fn addresses(&self, functions: &[FunctionValue<'c>]) -> Value<'c> {
        let ty = self.context.ptr_type(AddressSpace::default());
        let functions = functions.iter().map(|f| f.as_global_value().as_pointer_value());
        self.data(ty.const_array(&functions.collect::<Vec<_>>()))
    }

    fn data(&self, contents: ArrayValue<'c>) -> Value<'c> {
        let global = self.module.add_global(contents.get_type(), None, "table");
        global.set_linkage(Linkage::Private);
        global.set_constant(true);
        global.set_unnamed_addr(true);
        global.set_alignment(8);
        global.set_initializer(&contents);
        global.as_pointer_value().into()
    }

    pub fn load(&self, ty: Type<'c>, ptr: Value<'c>, align: u32) -> Value<'c> {
        let value = self.builder.build_load(ty, ptr.into_pointer_value(), "").expect(BUILT);
        let instruction = value.as_instruction_value().expect("a load is an instruction");
        instruction.set_alignment(align).expect("a power of two");
        value
    }

    /// Stores, past the caches if `streaming`, which needs full alignment to help.
    pub fn store(&self, value: Value<'c>, ptr: Value<'c>, align: u32, streaming: bool) {
        let store = self.builder.build_store(ptr.into_pointer_value(), value).expect(BUILT);
        store.set_alignment(align).expect("a power of two");
        if streaming {
            let one = self.context.i32_type().const_int(1, false);
            let node = self.context.metadata_node(&[one.into()]);
            let kind = self.context.get_kind_id("nontemporal");
            store.set_metadata(node, kind).expect("a node");
        }
    }
}

/// Lanes of a value; 1 for a scalar.
pub(crate) fn lanes(value: Value<'_>) -> u32 {
    match value {
        Value::VectorValue(v) => v.get_type().get_size(),
        _ => 1,
    }
}

/// The type of one lane.
pub(crate) fn scalar_ty(ty: Type<'_>) -> Type<'_> {
    match ty {
        Type::VectorType(v) => v.get_element_type(),
        ty => ty,
    }
}

/// A vector of `width` elements, or the element for 1.
pub(crate) fn with_lanes(ty: Type<'_>, width: u32) -> Type<'_> {
    match ty {
        ty if width == 1 => ty,
        Type::IntType(t) => t.vec_type(width).into(),
        Type::FloatType(t) => t.vec_type(width).into(),
        Type::PointerType(t) => t.vec_type(width).into(),
        _ => unreachable!("vectors of vectors"),
    }
}

fn is_const(value: Value<'_>) -> bool {
    match value {
        Value::IntValue(v) => v.is_const(),
        Value::FloatValue(v) => v.is_const(),
        _ => false,
    }
}
