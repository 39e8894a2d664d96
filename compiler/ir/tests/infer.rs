//! What `infer` refuses, and how it says so: the op, what was given, what was wanted.

mod common;

use std::sync::Arc;

use common::ty;
use kiln_ir::op::{
    ArgKind, ArgReduce, Binary, BitcastConvert, Broadcast, Call, Clamp, Compare, Complex,
    Concatenate, Convert, DotDims, DotGeneral, DynamicSlice, DynamicUpdateSlice, Iota, Pad,
    Parameter, Part, Reduce, ReduceKind, ReducePrecision, Reshape, Reverse, Select, Slice,
    Transpose, Unary,
};
use kiln_ir::{DType, Graph, Op, ParameterInfo, Type};

fn infer(op: impl Into<Op>, operands: &[&str]) -> Result<Vec<Type>, String> {
    let operands: Vec<Type> = operands.iter().map(|text| ty(text)).collect();
    let types = op.into().infer(&operands.iter().collect::<Vec<_>>());
    types.map(|types| types.to_vec()).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(op: impl Into<Op>, operands: &[&str], message: &str) {
    assert_eq!(infer(op, operands).unwrap_err(), message);
}

#[track_caller]
fn gives(op: impl Into<Op>, operands: &[&str], result: &str) {
    assert_eq!(infer(op, operands).as_deref(), Ok(&[ty(result)][..]));
}

#[test]
fn operands_are_counted() {
    refused(Unary::Exp, &[], "exp: wants 1 operand, got 0");
    refused(Binary::Add, &["f32[4]"], "add: wants 2 operands, got 1");
    refused(Select, &["bool[4]", "f32[4]"], "select: wants 3 operands, got 2");
    refused(Iota { ty: ty("i32[3]"), axis: 0 }, &["i32[3]"], "iota: wants 0 operands, got 1");
    refused(Concatenate { axis: 0 }, &[], "concatenate: wants at least 1 operand, got 0");
    refused(
        DynamicUpdateSlice,
        &["f32[4]"],
        "dynamic_update_slice: wants an operand, an update and starts, got 1",
    );
}

#[test]
fn element_types_are_not_promoted() {
    refused(
        Binary::Mul,
        &["f32[4]", "f64[4]"],
        "mul: operands differ in element type: lhs f32[4], rhs f64[4]",
    );
    refused(
        Compare::Lt,
        &["i32[4]", "u32[4]"],
        "lt: operands differ in element type: lhs i32[4], rhs u32[4]",
    );
    refused(
        Binary::Add,
        &["f32[4]", "f32[1]"],
        "add: operands differ in shape: lhs f32[4], rhs f32[1]",
    );
    refused(
        Clamp,
        &["f32[]", "f32[4]", "f32[]"],
        "clamp: wants one type, got low f32[], value f32[4], high f32[]",
    );
    refused(
        Concatenate { axis: 0 },
        &["f32[4]", "f16[4]"],
        "concatenate: operands may differ in the extent of axis 0 only: operand 0 f32[4], \
         operand 1 f16[4]",
    );
}

/// What has no meaning for complex numbers names itself and them.
#[test]
fn complex_numbers_have_no_order_and_no_bits() {
    let z = "c64[4]";
    for f in [Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge] {
        let message = format!("{}: wants elements that have an order, got c64[4]", f.name());
        refused(f, &[z, z], &message);
    }
    for f in [Compare::Eq, Compare::Ne] {
        gives(f, &[z, z], "bool[4]");
    }
    for f in [Binary::Min, Binary::Max] {
        let message = format!("{}: wants elements that have an order, got c128[]", f.name());
        refused(f, &["c128[]", "c128[]"], &message);
    }
    refused(Clamp, &[z, z, z], "clamp: wants elements that have an order, got c64[4]");
    for kind in [ReduceKind::Min, ReduceKind::Max] {
        let op = Reduce { kind, axes: vec![0] };
        let message =
            format!("reduce_{}: wants elements that have an order, got c64[4]", kind.name());
        refused(op, &[z], &message);
    }
    let argmax = ArgReduce { kind: ArgKind::Max, axis: 0, dtype: DType::I32 };
    refused(argmax, &[z], "argmax: wants elements that have an order, got c64[4]");
    for f in [Binary::And, Binary::Or, Binary::Xor] {
        refused(f, &[z, z], &format!("{}: wants an integer or bool, got c64[4]", f.name()));
    }
    refused(Unary::Not, &[z], "not: wants an integer or bool, got c64[4]");
    refused(Unary::Floor, &[z], "floor: wants a float, got c64[4]");
    refused(Binary::Rem, &[z, z], "rem: wants an integer or a float, got c64[4]");
    refused(
        Binary::Add,
        &[z, "f32[4]"],
        "add: operands differ in element type: lhs c64[4], rhs f32[4]",
    );
    refused(
        Convert { to: DType::F32 },
        &[z],
        "convert: c64[4] has an imaginary part, which f32 cannot hold: take `real` or `abs` first",
    );
    gives(Convert { to: DType::C128 }, &["i8[4]"], "c128[4]");
    refused(Complex, &["f16[4]", "f16[4]"], "complex: wants parts of f32 or f64, got f16[4]");
    refused(
        Complex,
        &["f32[4]", "f64[4]"],
        "complex: operands differ in element type: lhs f32[4], rhs f64[4]",
    );
    gives(Complex, &["f64[2,3]", "f64[2,3]"], "c128[2,3]");
    refused(Part::Imag, &["f32[4]"], "imag: wants a complex number, got f32[4]");
    gives(Part::Real, &["c128[]"], "f64[]");
    gives(Unary::Abs, &[z], "f32[4]");
    gives(Unary::IsFinite, &[z], "bool[4]");
}

#[test]
fn element_types_must_suit_the_op() {
    refused(Unary::Exp, &["i32[4]"], "exp: wants a float or a complex number, got i32[4]");
    refused(
        Unary::IsFinite,
        &["bool[]"],
        "is_finite: wants a float or a complex number, got bool[]",
    );
    refused(Unary::Not, &["f32[4]"], "not: wants an integer or bool, got f32[4]");
    refused(Unary::Neg, &["bool[4]"], "neg: wants a number, got bool[4]");
    refused(Binary::Sub, &["bool[]", "bool[]"], "sub: wants a number, got bool[]");
    refused(Binary::Xor, &["f64[]", "f64[]"], "xor: wants an integer or bool, got f64[]");
    refused(Binary::ShiftLeft, &["bool[]", "bool[]"], "shift_left: wants an integer, got bool[]");
    let popcount = Unary::PopulationCount;
    refused(popcount, &["bool[4]"], "population_count: wants an integer, got bool[4]");
    refused(Unary::Trunc, &["i32[4]"], "trunc: wants a float, got i32[4]");
    refused(Binary::NextAfter, &["i32[]", "i32[]"], "nextafter: wants a float, got i32[]");
    for (to, from) in [(DType::F32, "f16[2]"), (DType::U8, "bool[2]"), (DType::Bool, "u8[2]")] {
        refused(
            BitcastConvert { to },
            &[from],
            &format!(
                "bitcast_convert: wants types of one width other than bool, got {from} to {to}"
            ),
        );
    }
    let none = ReducePrecision { exponent_bits: 0, mantissa_bits: 3 };
    refused(none, &["f32[]"], "reduce_precision: wants at least 1 exponent bit, got 0");
    let half = ReducePrecision { exponent_bits: 5, mantissa_bits: 10 };
    refused(half, &["i32[]"], "reduce_precision: wants a float, got i32[]");
    refused(
        Select,
        &["i32[4]", "f32[4]", "f32[4]"],
        "select: wants a bool as operand 0, got i32[4]",
    );
    refused(
        Select,
        &["bool[]", "f32[4]", "f32[4]"],
        "select: wants operand 0 in the shape of the others, got bool[] for f32[4]",
    );
    refused(Iota { ty: ty("bool[4]"), axis: 0 }, &[], "iota: wants a number, got bool[4]");
    let sum = Reduce { kind: ReduceKind::Sum, axes: vec![0] };
    refused(sum, &["bool[4]"], "reduce_sum: wants a number, got bool[4]");
    let or = Reduce { kind: ReduceKind::Or, axes: vec![0] };
    refused(or, &["f32[4]"], "reduce_or: wants an integer or bool, got f32[4]");
}

#[test]
fn each_family_accepts_what_it_should() {
    use DType::{Bool, F32, I32, U8};
    for (op, dtypes) in [
        (Op::from(Unary::Neg), &[I32, U8, F32][..]),
        (Unary::Sign.into(), &[I32, U8, F32]),
        (Unary::Not.into(), &[Bool, I32, U8]),
        (Unary::CountLeadingZeros.into(), &[I32, U8]),
        (Unary::RoundAway.into(), &[F32]),
        (Binary::NextAfter.into(), &[F32]),
        (Unary::Erf.into(), &[F32]),
        (Binary::Add.into(), &[Bool, I32, U8, F32]),
        (Binary::Sub.into(), &[I32, U8, F32]),
        (Binary::Pow.into(), &[I32, U8, F32]),
        (Binary::Max.into(), &[Bool, I32, U8, F32]),
        (Binary::And.into(), &[Bool, I32, U8]),
        (Binary::ShiftRightLogical.into(), &[I32, U8]),
        (Compare::Ge.into(), &[Bool, I32, U8, F32]),
    ] {
        let arity = if matches!(op, Op::Unary(_)) { 1 } else { 2 };
        for dtype in [Bool, I32, U8, F32] {
            let ty = Type::new(dtype, [2, 3]);
            let accepted = op.infer(&vec![&ty; arity]).is_ok();
            assert_eq!(accepted, dtypes.contains(&dtype), "{op} of {dtype}");
        }
    }
    gives(Unary::IsFinite, &["f16[2,3]"], "bool[2,3]");
    gives(Compare::Eq, &["u64[0]", "u64[0]"], "bool[0]");
    gives(Convert { to: DType::BF16 }, &["bool[2]"], "bf16[2]");
    gives(BitcastConvert { to: DType::BF16 }, &["u16[2,0]"], "bf16[2,0]");
}

#[test]
fn views() {
    let broadcast =
        |shape: &str, axes: &[usize]| Broadcast { shape: ty(shape).shape, axes: axes.to_vec() };
    gives(broadcast("f32[2,3,4]", &[0, 2]), &["f32[2,1]"], "f32[2,3,4]");
    gives(broadcast("f32[0,3]", &[0]), &["f32[1]"], "f32[0,3]");
    refused(
        broadcast("f32[2,3]", &[1]),
        &["f32[2]"],
        "broadcast: an axis keeps its extent or has extent 1: f32[2] axis 0 is 2, f32[2,3] axis 1 is 3",
    );
    refused(
        broadcast("f32[2,3]", &[]),
        &["f32[2]"],
        "broadcast: wants 1 `axes` value for f32[2], got 0",
    );
    refused(
        broadcast("f32[2,3]", &[1, 0]),
        &["f32[3,2]"],
        "broadcast: wants increasing axes, got [1, 0]",
    );
    refused(broadcast("f32[2]", &[1]), &["f32[2]"], "broadcast: axis 1 is out of range for f32[2]");

    let reshape = |shape: &str| Reshape { shape: ty(shape).shape };
    gives(reshape("f32[]"), &["f32[1,1]"], "f32[]");
    refused(
        reshape("f32[5,6]"),
        &["f32[4,8]"],
        "reshape: f32[4,8] has 32 elements, f32[5,6] has 30",
    );

    let transpose = |permutation: &[usize]| Transpose { permutation: permutation.to_vec() };
    gives(transpose(&[2, 0, 1]), &["i8[2,3,4]"], "i8[4,2,3]");
    refused(
        transpose(&[0, 0]),
        &["f32[2,3]"],
        "transpose: wants each axis of f32[2,3] once, got [0, 0]",
    );
    refused(
        transpose(&[0]),
        &["f32[2,3]"],
        "transpose: wants 2 `permutation` values for f32[2,3], got 1",
    );
    refused(
        Reverse { axes: vec![1, 1] },
        &["f32[2,3]"],
        "reverse: wants increasing axes, got [1, 1]",
    );
    refused(
        Reverse { axes: vec![2] },
        &["f32[2,3]"],
        "reverse: axis 2 is out of range for f32[2,3]",
    );
}

#[test]
fn boxes() {
    let slice = |start: usize, limit: usize, stride: usize| Slice {
        start: vec![start],
        limit: vec![limit],
        stride: vec![stride],
    };
    gives(slice(1, 8, 3), &["f32[9]"], "f32[3]");
    gives(slice(9, 9, 1), &["f32[9]"], "f32[0]");
    gives(slice(0, 9, usize::MAX), &["f32[9]"], "f32[1]");
    refused(slice(5, 4, 1), &["f32[9]"], "slice: 5..4 is not a range of f32[9] axis 0");
    refused(slice(0, 10, 1), &["f32[9]"], "slice: 0..10 is not a range of f32[9] axis 0");
    refused(slice(0, 9, 0), &["f32[9]"], "slice: wants strides of at least 1, got 0 on axis 0");
    refused(slice(0, 1, 1), &["f32[2,3]"], "slice: wants 2 `start` values for f32[2,3], got 1");

    let pad = |low: i64, high: i64, interior: usize| Pad {
        low: vec![low],
        high: vec![high],
        interior: vec![interior],
    };
    gives(pad(1, -2, 3), &["f32[4]", "f32[]"], "f32[12]");
    gives(pad(0, 5, 9), &["f32[0]", "f32[]"], "f32[5]");
    refused(
        pad(-3, -2, 0),
        &["f32[4]", "f32[]"],
        "pad: low -3, high -2 and interior 0 give f32[4] axis 0 the extent -1",
    );
    refused(pad(0, 0, 0), &["f32[4]", "f16[]"], "pad: wants f32[] to pad f32[4] with, got f16[]");
    refused(
        pad(0, 0, usize::MAX),
        &["f32[4]", "f32[]"],
        "pad: low 0, high 0 and interior 18446744073709551615 give f32[4] axis 0 the extent \
         55340232221128654849",
    );

    let slice = |sizes: &[usize]| DynamicSlice { sizes: sizes.to_vec() };
    gives(slice(&[2, 0]), &["f32[3,4]", "u64[]", "i8[]"], "f32[2,0]");
    refused(
        slice(&[5]),
        &["f32[4]", "i32[]"],
        "dynamic_slice: size 5 is more than f32[4] axis 0 has",
    );
    refused(slice(&[2]), &["f32[4]"], "dynamic_slice: wants 1 start for f32[4], got 0");
    refused(
        slice(&[2]),
        &["f32[4]", "f32[]"],
        "dynamic_slice: wants a rank-0 integer as start of axis 0, got f32[]",
    );
    refused(
        slice(&[2]),
        &["f32[4]", "i32[1]"],
        "dynamic_slice: wants a rank-0 integer as start of axis 0, got i32[1]",
    );
    refused(
        DynamicUpdateSlice,
        &["f32[4]", "f32[5]", "i32[]"],
        "dynamic_update_slice: update f32[5] does not fit into f32[4]",
    );
    refused(
        DynamicUpdateSlice,
        &["f32[4]", "i32[2]", "i32[]"],
        "dynamic_update_slice: update i32[2] does not fit into f32[4]",
    );
}

#[test]
fn reductions() {
    let max = |axes: &[usize]| Reduce { kind: ReduceKind::Max, axes: axes.to_vec() };
    gives(max(&[0, 2]), &["f32[2,3,4]"], "f32[3]");
    gives(max(&[]), &["f32[2]"], "f32[2]");
    refused(max(&[1]), &["f32[2]"], "reduce_max: axis 1 is out of range for f32[2]");
    refused(max(&[1, 0]), &["f32[2,3]"], "reduce_max: wants increasing axes, got [1, 0]");

    let argmax = |dtype: DType| ArgReduce { kind: ArgKind::Max, axis: 1, dtype };
    gives(argmax(DType::U16), &["bool[2,3]"], "u16[2]");
    refused(argmax(DType::F32), &["f32[2,3]"], "argmax: wants an integer result, got f32[2]");
    refused(
        argmax(DType::I32),
        &["f32[2,0]"],
        "argmax: wants at least one element along axis 1, got f32[2,0]",
    );
    gives(argmax(DType::I8), &["f32[2,128]"], "i8[2]");
    refused(
        argmax(DType::I8),
        &["f32[2,129]"],
        "argmax: index 128 of f32[2,129] axis 1 does not fit i8",
    );
}

#[test]
fn contractions() {
    let dot = |lhs: &[usize], rhs: &[usize], dtype: DType| DotGeneral {
        dims: DotDims {
            lhs_batch: vec![],
            rhs_batch: vec![],
            lhs_contract: lhs.to_vec(),
            rhs_contract: rhs.to_vec(),
        },
        dtype,
    };
    gives(dot(&[1], &[0], DType::F32), &["f16[4,8]", "f16[8,3]"], "f32[4,3]");
    gives(dot(&[], &[], DType::I64), &["u32[4]", "u32[3]"], "i64[4,3]");
    refused(
        dot(&[1], &[0], DType::F32),
        &["f32[4,8]", "f32[7,3]"],
        "dot_general: contracted axes differ in length: lhs f32[4,8] axis 1 is 8, \
         rhs f32[7,3] axis 0 is 7",
    );
    refused(
        dot(&[1], &[], DType::F32),
        &["f32[4,8]", "f32[7,3]"],
        "dot_general: contracted axes differ in number: lhs [1], rhs []",
    );
    refused(
        dot(&[1, 1], &[0, 1], DType::F32),
        &["f32[4,8]", "f32[8,8]"],
        "dot_general: lhs f32[4,8] axis 1 is paired twice",
    );
    refused(
        dot(&[0], &[2], DType::F32),
        &["f32[4]", "f32[4]"],
        "dot_general: axis 2 is out of range for f32[4]",
    );
    refused(
        dot(&[0], &[0], DType::F32),
        &["f32[4]", "f64[4]"],
        "dot_general: operands differ in element type: lhs f32[4], rhs f64[4]",
    );
    refused(
        dot(&[0], &[0], DType::BF16),
        &["f16[4]", "f16[4]"],
        "dot_general: wants a result type that holds f16, got bf16",
    );
    refused(
        dot(&[0], &[0], DType::Bool),
        &["bool[4]", "bool[4]"],
        "dot_general: wants a number, got bool[4]",
    );
    let mut batched = dot(&[2], &[1], DType::F32);
    (batched.dims.lhs_batch, batched.dims.rhs_batch) = (vec![0], vec![0]);
    gives(batched.clone(), &["f32[2,4,8]", "f32[2,8,3]"], "f32[2,4,3]");
    refused(
        batched,
        &["f32[2,4,8]", "f32[3,8,3]"],
        "dot_general: batch axes differ in length: lhs f32[2,4,8] axis 0 is 2, \
         rhs f32[3,8,3] axis 0 is 3",
    );
}

#[test]
fn calls_name_the_parameter() {
    let mut graph = Graph::new("step");
    for name in ["w", ""] {
        let info = ParameterInfo { name: name.into(), donated: false };
        let parameter = graph.add_parameter(ty("f32[4]"), info);
        graph.add_output(parameter, "");
    }
    let call = Call::new(Arc::new(graph));
    assert_eq!(infer(call.clone(), &["f32[4]", "f32[4]"]), Ok(vec![ty("f32[4]"); 2]));
    refused(call.clone(), &["f32[4]"], "call: @step wants 2 operands, got 1");
    refused(
        call.clone(),
        &["i32[4]", "f32[4]"],
        "call: @step wants f32[4] as operand 0 (%w), got i32[4]",
    );
    refused(call, &["f32[4]", "f32[5]"], "call: @step wants f32[4] as operand 1, got f32[5]");
}

/// K72: a shape that no program can hold is an error, not a wrapped or negative extent.
#[test]
fn shapes_that_pass_an_i64() {
    let broadcast = |shape: &str| Broadcast { shape: ty(shape).shape, axes: vec![] };
    gives(broadcast("u8[2147483648]"), &["u8[]"], "u8[2147483648]");
    let flat = Reshape { shape: [1 << 32].into() };
    gives(flat, &["u8[1073741824,4]"], "u8[4294967296]");
    refused(
        broadcast("u8[4294967296,4294967296]"),
        &["u8[]"],
        "broadcast: u8[4294967296,4294967296] is too large: its size passes an i64",
    );
    // The elements fit, their bytes do not.
    gives(broadcast("u8[2305843009213693952]"), &["u8[]"], "u8[2305843009213693952]");
    refused(
        broadcast("f64[2305843009213693952]"),
        &["f64[]"],
        "broadcast: f64[2305843009213693952] is too large: its size passes an i64",
    );
    // No elements at all, but strides that do not fit.
    refused(
        broadcast("u8[0,4294967296,4294967296]"),
        &["u8[]"],
        "broadcast: u8[0,4294967296,4294967296] is too large: its size passes an i64",
    );
    refused(
        Concatenate { axis: 0 },
        &["u8[9223372036854775807]", "u8[1]"],
        "concatenate: u8[9223372036854775808] is too large: its size passes an i64",
    );
    let outer = DotDims { lhs_contract: vec![], rhs_contract: vec![], ..DotDims::matmul() };
    refused(
        DotGeneral { dims: outer, dtype: DType::I8 },
        &["i8[4294967296]", "i8[4294967296]"],
        "dot_general: i8[4294967296,4294967296] is too large: its size passes an i64",
    );
    refused(
        Pad { low: vec![i64::MAX], high: vec![1], interior: vec![0] },
        &["u8[0]", "u8[]"],
        "pad: u8[9223372036854775808] is too large: its size passes an i64",
    );
    refused(
        Parameter { ty: ty("i32[4611686018427387904]") },
        &[],
        "parameter: i32[4611686018427387904] is too large: its size passes an i64",
    );
    refused(
        Convert { to: DType::I64 },
        &["u8[2305843009213693952]"],
        "convert: i64[2305843009213693952] is too large: its size passes an i64",
    );
}
