//! Small programs that array compilers have got wrong, run by the interpreter.
//!
//! Every backend has to get them right; that `eval` does is where it starts. Each test
//! says what goes wrong elsewhere.

mod common;

use std::sync::Arc;

use common::{apply, scalar, try_apply, ty, vector};
use half::{bf16, f16};
use kiln_ir::op::{
    ArgKind, ArgReduce, Binary, Broadcast, Call, Clamp, Compare, Constant, Convert, DotDims,
    DotGeneral, DynamicSlice, DynamicUpdateSlice, Iota, Reduce, ReduceKind, Reshape, Reverse,
    Slice, Transpose, Unary,
};
use kiln_ir::{DType, Element, Graph, Literal, ParameterInfo, Scalar, Type, Value, eval};

fn iota(text: &str) -> Literal {
    let flat = ty(text);
    let shape = flat.shape.clone();
    let flat = flat.with_shape([shape.elements()]);
    let counted = apply(Iota { ty: flat, axis: 0 }, &[]);
    apply(Reshape { shape }, &[&counted])
}

/// `y` everywhere in the shape of `x`.
fn like<T: Element>(x: &Literal, y: T) -> Literal {
    let op = Broadcast { shape: x.ty().shape.clone(), axes: vec![] };
    apply(op, &[&scalar(y)])
}

fn elements<T: Element>(x: &Literal) -> Vec<T> {
    x.to_vec().expect("elements of that type")
}

/// Bits, so that NaN and −0 compare.
fn bits(x: &Literal) -> Vec<u64> {
    x.iter().map(Scalar::bits).collect()
}

fn parameter(graph: &mut Graph, text: &str) -> Value {
    graph.add_parameter(ty(text), ParameterInfo::default())
}

/// An update that reads what it overwrites must read all of it before.
#[test]
fn update_slice_reads_itself() {
    let x = iota("i32[6,2]");
    let b = apply(Binary::Mul, &[&x, &like(&x, 3)]);
    let top = Slice { start: vec![0, 0], limit: vec![5, 2], stride: vec![1, 1] };
    let top = apply(top, &[&b]);
    let y = apply(DynamicUpdateSlice, &[&b, &top, &scalar(1), &scalar(0)]);
    let y = apply(Reshape { shape: [2, 6].into() }, &[&y]);
    assert_eq!(elements::<i32>(&y), [0, 3, 0, 3, 6, 9, 12, 15, 18, 21, 24, 27]);
}

/// Equal constants are two values: updating one leaves the other.
#[test]
fn equal_constants_are_two_values() {
    let mut graph = Graph::new("f");
    let zeros = Constant { value: vector(&[0i32; 3]) };
    let first = graph.add1(zeros.clone(), &[], None).unwrap();
    let second = graph.add1(zeros, &[], None).unwrap();
    let five = graph.add1(Constant { value: vector(&[5]) }, &[], None).unwrap();
    let one = graph.add1(Constant { value: scalar(1u8) }, &[], None).unwrap();
    let updated = graph.add1(DynamicUpdateSlice, &[first, five, one], None).unwrap();
    graph.add_output(updated, "");
    graph.add_output(second, "");
    let outputs = eval(&graph, &[]).unwrap();
    assert_eq!(elements::<i32>(&outputs[0]), [0, 5, 0]);
    assert_eq!(elements::<i32>(&outputs[1]), [0, 0, 0]);
}

/// A view lives as long as its reader, not as long as the value it was made from.
#[test]
fn a_view_outlives_its_operand() {
    let mut graph = Graph::new("f");
    let x = parameter(&mut graph, "f32[5]");
    let quarter = graph.add1(Constant { value: vector(&[0.25f32; 5]) }, &[], None).unwrap();
    let eighth = graph.add1(Constant { value: vector(&[0.125f32; 5]) }, &[], None).unwrap();
    let s = graph.add1(Binary::Add, &[x, quarter], None).unwrap();
    let view = graph.add1(Reshape { shape: [5].into() }, &[s], None).unwrap();
    let r = graph.add1(Binary::Add, &[x, eighth], None).unwrap();
    let out = graph.add1(Binary::Add, &[view, r], None).unwrap();
    graph.add_output(out, "");
    let outputs = eval(&graph, &[vector(&[0f32, 1.0, 2.0, 3.0, 4.0])]).unwrap();
    assert_eq!(elements::<f32>(&outputs[0]), [0.375, 2.375, 4.375, 6.375, 8.375]);
}

/// Slices of slices clamp one after the other; their starts do not simply add.
#[test]
fn nested_dynamic_slices_clamp_in_turn() {
    let x = apply(Binary::Mul, &[&iota("i32[10]"), &vector(&[10; 10])]);
    for (outer, inner, wanted) in [(8, 0, [60, 70]), (2, 5, [40, 50]), (9, 9, [80, 90])] {
        let four = apply(DynamicSlice { sizes: vec![4] }, &[&x, &scalar(outer)]);
        let two = apply(DynamicSlice { sizes: vec![2] }, &[&four, &scalar(inner)]);
        assert_eq!(elements::<i32>(&two), wanted);
    }
}

/// Starts clamp in their own type, however large.
#[test]
fn starts_of_every_type_clamp() {
    let x = iota("i32[10]");
    let first =
        |start: Literal| elements::<i32>(&apply(DynamicSlice { sizes: vec![3] }, &[&x, &start]))[0];
    assert_eq!(first(scalar(u64::MAX)), 7);
    assert_eq!(first(scalar(1u64 << 63)), 7);
    assert_eq!(first(scalar(i64::MIN)), 0);
    assert_eq!(first(scalar(u8::MAX)), 7);
    assert_eq!(first(scalar(-1i8)), 0);
    assert_eq!(first(scalar(5u16)), 5);
}

/// Inverse functions do not cancel: what overflows between them stays lost.
#[test]
fn inverse_functions_do_not_cancel() {
    let x = vector(&[88f32, 89.0, 200.0, -200.0]);
    let y = elements::<f32>(&apply(Unary::Log, &[&apply(Unary::Exp, &[&x])]));
    assert_eq!(y, [88.0, f32::INFINITY, f32::INFINITY, f32::NEG_INFINITY]);
    let x = vector(&[1e19f32, 1e20, -3e38, 1e-30]);
    let y = elements::<f32>(&apply(Unary::Sqrt, &[&apply(Binary::Mul, &[&x, &x])]));
    assert_eq!(y, [1e19, f32::INFINITY, f32::INFINITY, 0.0]);
}

/// A negative factor common to dividend and divisor does not cancel.
#[test]
fn division_truncates_after_the_product() {
    let a = apply(Binary::Sub, &[&iota("i32[15]"), &vector(&[9; 15])]);
    let a = apply(Binary::Add, &[&a, &vector(&[5; 15])]);
    let a = apply(Binary::Mul, &[&a, &vector(&[-3; 15])]);
    let q = apply(Binary::Div, &[&a, &vector(&[6; 15])]);
    assert_eq!(elements::<i32>(&q), [2, 1, 1, 0, 0, 0, -1, -1, -2, -2, -3, -3, -4, -4, -5]);
}

/// Every quotient and remainder of 8-bit integers.
#[test]
fn eight_bit_division_is_exact() {
    let pairs: Vec<(u8, u8)> = (0..=255).flat_map(|x| (0..=255).map(move |d| (x, d))).collect();
    let unsigned = |f: fn(&(u8, u8)) -> u8| vector(&pairs.iter().map(f).collect::<Vec<u8>>());
    let signed = |f: fn(&(u8, u8)) -> i8| vector(&pairs.iter().map(f).collect::<Vec<i8>>());
    let (x, d) = (unsigned(|p| p.0), unsigned(|p| p.1));
    assert_eq!(
        apply(Binary::Div, &[&x, &d]),
        unsigned(|&(x, d)| x.checked_div(d).unwrap_or(u8::MAX))
    );
    assert_eq!(apply(Binary::Rem, &[&x, &d]), unsigned(|&(x, d)| x.checked_rem(d).unwrap_or(x)));
    let (x, d) = (signed(|p| p.0 as i8), signed(|p| p.1 as i8));
    let quotient = |&(x, d): &(u8, u8)| match (x as i8, d as i8) {
        (_, 0) => -1,
        (x, d) => x.wrapping_div(d),
    };
    let remainder = |&(x, d): &(u8, u8)| match (x as i8, d as i8) {
        (x, 0) => x,
        (x, d) => x.wrapping_rem(d),
    };
    assert_eq!(apply(Binary::Div, &[&x, &d]), signed(quotient));
    assert_eq!(apply(Binary::Rem, &[&x, &d]), signed(remainder));
}

/// A bound on the divisor holds also where a select hides the division.
#[test]
fn clamped_divisor_keeps_its_bound() {
    let t = vector(&[-20, 0, 3, 50]);
    let bounded = apply(Binary::Max, &[&t, &vector(&[10; 4])]);
    let doubled = apply(Binary::Mul, &[&bounded, &vector(&[2; 4])]);
    let q = apply(Binary::Div, &[&vector(&[1000; 4]), &doubled]);
    assert_eq!(elements::<i32>(&q), [50, 50, 50, 10]);
}

/// Products of 64-bit integers are not formed in 32 bits.
#[test]
fn products_use_their_own_width() {
    let x = iota("i64[9]");
    let y = apply(Binary::Mul, &[&x, &like(&x, 700_000_000i64)]);
    let wanted: Vec<i64> = (0..9).map(|i| i * 700_000_000).collect();
    assert_eq!(elements::<i64>(&y), wanted);
}

/// Sums of `bool` count nothing by accident: they are refused, and converted they count.
#[test]
fn bools_are_counted_in_a_wide_type() {
    let x = Literal::splat(ty("bool[300]"), Scalar::bool(true));
    let sum = Reduce { kind: ReduceKind::Sum, axes: vec![0] };
    assert!(try_apply(sum.clone(), &[&x]).is_err());
    let wide = apply(Convert { to: DType::I32 }, &[&x]);
    assert_eq!(elements::<i32>(&apply(sum, &[&wide])), [300]);
}

/// Division by zero and overflow of division have results.
#[test]
fn division_corners() {
    fn check<T: Element + PartialEq + std::fmt::Debug>((a, b): (&[T], &[T]), div: &[T], rem: &[T]) {
        assert_eq!(elements::<T>(&apply(Binary::Div, &[&vector(a), &vector(b)])), div);
        assert_eq!(elements::<T>(&apply(Binary::Rem, &[&vector(a), &vector(b)])), rem);
    }
    check((&[i8::MAX, i8::MIN, 7, 0], &[0, -1, 0, 0]), &[-1, i8::MIN, -1, -1], &[i8::MAX, 0, 7, 0]);
    check(
        (&[i32::MAX, i32::MIN, 7, 0], &[0, -1, 0, 0]),
        &[-1, i32::MIN, -1, -1],
        &[i32::MAX, 0, 7, 0],
    );
    check((&[i64::MIN, i64::MIN], &[-1, 0]), &[i64::MIN, -1], &[0, i64::MIN]);
    check((&[u8::MAX, 7, 0], &[0, 0, 0]), &[255, 255, 255], &[u8::MAX, 7, 0]);
    check((&[u64::MAX, 9], &[0, 2]), &[u64::MAX, 4], &[u64::MAX, 1]);
}

/// Shifts by the width, by more and by less than nothing.
#[test]
fn shifts_out_of_range() {
    let x = vector(&[-5i8; 6]);
    let by = vector(&[0i8, 1, 7, 8, 127, -1]);
    let shifted = |op| elements::<i8>(&apply(op, &[&x, &by]));
    assert_eq!(shifted(Binary::ShiftLeft), [-5, -10, -128, 0, 0, 0]);
    assert_eq!(shifted(Binary::ShiftRightLogical), [-5, 125, 1, 0, 0, 0]);
    assert_eq!(shifted(Binary::ShiftRightArithmetic), [-5, -3, -1, -1, -1, -1]);
    // The top bit is the sign of an arithmetic shift whatever the type makes of it.
    let x = vector(&[0x80u8, 0x40]);
    let y = apply(Binary::ShiftRightArithmetic, &[&x, &vector(&[1u8, 200])]);
    assert_eq!(elements::<u8>(&y), [0xc0, 0]);
    let x = vector(&[u64::MAX, 1]);
    let y = apply(Binary::ShiftLeft, &[&x, &vector(&[63u64, 1 << 40])]);
    assert_eq!(elements::<u64>(&y), [1 << 63, 0]);
}

/// Powers of integers wrap; only 1 and −1 have inverses.
#[test]
fn integer_powers() {
    let pow =
        |a: &[i32], b: &[i32]| elements::<i32>(&apply(Binary::Pow, &[&vector(a), &vector(b)]));
    assert_eq!(pow(&[2, 3, -2, 10, 7], &[31, 4, 3, 9, 0]), [i32::MIN, 81, -8, 1_000_000_000, 1]);
    assert_eq!(
        pow(&[0, 0, 1, -1, -1, 2, -3], &[0, -1, -5, -2, -3, -1, -1]),
        [1, 0, 1, 1, -1, 0, 0]
    );
    assert_eq!(pow(&[3, 3], &[i32::MAX, i32::MIN]), [3i32.wrapping_pow(i32::MAX as u32), 0]);
}

/// The first NaN wins an arg-reduction, in a vector's tail too; ties go to the first.
#[test]
fn arg_reductions() {
    let find = |kind, x: &Literal| {
        elements::<i32>(&apply(ArgReduce { kind, axis: 0, dtype: DType::I32 }, &[x]))[0]
    };
    let nan = f32::NAN;
    let x = vector(&[1.0, nan, 7.0, nan, f32::NEG_INFINITY]);
    let mut tail = [0f32; 37];
    tail[36] = nan;
    for kind in ArgKind::ALL {
        assert_eq!(find(kind, &x), 1);
        assert_eq!(find(kind, &vector(&tail)), 36);
        assert_eq!(find(kind, &vector(&[0f32, -0.0, 0.0])), 0);
        assert_eq!(find(kind, &vector(&[f32::NEG_INFINITY; 5])), 0);
    }
    assert_eq!(find(ArgKind::Max, &vector(&[3u8, 200, 100, 200])), 1);
    assert_eq!(find(ArgKind::Min, &vector(&[3i8, -56, 100, -56])), 1);
}

/// NaN comes through extrema and clamps wherever it stands.
#[test]
fn extrema_of_nan() {
    let nan = f32::NAN;
    for op in [Binary::Min, Binary::Max] {
        let y = apply(op, &[&vector(&[nan, 1.0]), &vector(&[1.0, nan])]);
        assert!(elements::<f32>(&y).iter().all(|x| x.is_nan()));
    }
    for n in 1..=70 {
        for at in 0..n {
            let mut x = vec![1f32; n];
            x[at] = nan;
            for kind in [ReduceKind::Min, ReduceKind::Max] {
                let y = apply(Reduce { kind, axes: vec![0] }, &[&vector(&x)]);
                assert!(elements::<f32>(&y)[0].is_nan(), "{kind:?} of {n} with NaN at {at}");
            }
        }
    }
    let clamp = |low: f32, x: f32, high: f32| {
        elements::<f32>(&apply(Clamp, &[&scalar(low), &scalar(x), &scalar(high)]))[0]
    };
    assert!(clamp(-1.0, nan, 1.0).is_nan());
    assert!(clamp(nan, 0.0, 1.0).is_nan());
    assert!(clamp(0.0, 0.5, nan).is_nan());
    assert_eq!((clamp(2.0, 0.0, 1.0), clamp(2.0, 5.0, 1.0)), (1.0, 1.0));
}

/// −0 is below +0 where one of them is chosen, and equal to it where they are compared.
#[test]
fn signed_zeros() {
    let (a, b) = (vector(&[0f32, -0.0]), vector(&[-0.0f32, 0.0]));
    assert_eq!(bits(&apply(Binary::Min, &[&a, &b])), bits(&vector(&[-0.0f32, -0.0])));
    assert_eq!(bits(&apply(Binary::Max, &[&a, &b])), bits(&vector(&[0.0f32, 0.0])));
    assert_eq!(elements::<bool>(&apply(Compare::Eq, &[&a, &b])), [true, true]);
    assert_eq!(elements::<bool>(&apply(Compare::Lt, &[&a, &b])), [false, false]);
    // No axes: nothing is added, not even to zero.
    let sum = |axes: &[usize]| Reduce { kind: ReduceKind::Sum, axes: axes.to_vec() };
    assert_eq!(bits(&apply(sum(&[]), &[&a])), bits(&a));
    assert_eq!(bits(&apply(sum(&[0]), &[&vector(&[-0f32])])), bits(&scalar(0f32)));
}

/// A truncated remainder has the sign of the dividend, zero included.
#[test]
fn remainders_take_the_dividends_sign() {
    let a = vector(&[-6f32, 6.0, -0.0, 5.5, -5.5]);
    let b = vector(&[3f32, -3.0, 5.0, -2.0, 2.0]);
    let y = apply(Binary::Rem, &[&a, &b]);
    assert_eq!(bits(&y), bits(&vector(&[-0f32, 0.0, -0.0, 1.5, -1.5])));
}

/// Subnormals are numbers like others.
#[test]
fn subnormals_are_kept() {
    let tiny = vector(&[1e-45f32]);
    assert_eq!(elements::<bool>(&apply(Compare::Eq, &[&tiny, &vector(&[0f32])])), [false]);
    let y = apply(Binary::Mul, &[&tiny, &vector(&[1e10f32])]);
    assert_eq!(elements::<f32>(&y), [1e-45f32 * 1e10]);
    let y = apply(Binary::Div, &[&vector(&[f32::MIN_POSITIVE]), &vector(&[2f32])]);
    assert_eq!(elements::<f32>(&y), [5.877472e-39]);
    let y = apply(Binary::Mul, &[&vector(&[1e-310f64]), &vector(&[1e100])]);
    assert_eq!(elements::<f64>(&y), [1e-310 * 1e100]);
    let y = apply(Convert { to: DType::F16 }, &[&vector(&[5e-8f32, 2e-8])]);
    assert_eq!(bits(&y), [1, 0]);
}

/// Half types compute as numbers, not on their bits, and round once.
#[test]
fn half_arithmetic() {
    let (a, b) = (vector(&[bf16::from_f32(1.5)]), vector(&[bf16::from_f32(2.0)]));
    assert_eq!(elements::<bf16>(&apply(Binary::Mul, &[&a, &b])), [bf16::from_f32(3.0)]);
    assert_eq!(elements::<bf16>(&apply(Binary::Add, &[&a, &b])), [bf16::from_f32(3.5)]);
    // 1 + 2^-8 + 2^-33 is above the middle between two bf16, by less than an f32 shows.
    let x = vector(&[1.0 + 2f64.powi(-8) + 2f64.powi(-33), 1.0 + 2f64.powi(-8)]);
    let y = apply(Convert { to: DType::BF16 }, &[&x]);
    assert_eq!(bits(&y), [0x3f81, 0x3f80]);
    let x = vector(&[1.0 + 2f64.powi(-11) + 2f64.powi(-40), 1.0 + 2f64.powi(-11)]);
    let y = apply(Convert { to: DType::F16 }, &[&x]);
    assert_eq!(bits(&y), [0x3c01, 0x3c00]);
    let x = vector(&[(1i64 << 62) + (1 << 54) + 1, (1 << 62) + (1 << 54)]);
    let y = apply(Convert { to: DType::BF16 }, &[&x]);
    assert_eq!(bits(&y), [0x5e81, 0x5e80]);
}

/// A mean whose sum overflows the type, taken in a wider one.
#[test]
fn half_means_are_summed_wide() {
    let x = Literal::splat(ty("f16[4096]"), Scalar::from_f64(DType::F16, 60000.0));
    let sum = Reduce { kind: ReduceKind::Sum, axes: vec![0] };
    assert_eq!(elements::<f16>(&apply(sum.clone(), &[&x])), [f16::INFINITY]);
    let wide = apply(Convert { to: DType::F32 }, &[&x]);
    let mean = apply(Binary::Div, &[&apply(sum, &[&wide]), &scalar(4096f32)]);
    let mean = apply(Convert { to: DType::F16 }, &[&mean]);
    assert_eq!(elements::<f16>(&mean), [f16::from_f32(60000.0)]);
}

/// Sums round once: neither order nor cancellation shows.
#[test]
fn sums_round_once() {
    let sum = |x: &Literal| apply(Reduce { kind: ReduceKind::Sum, axes: vec![0] }, &[x]);
    assert_eq!(elements::<f64>(&sum(&vector(&[1e16, 1.0, -1e16]))), [1.0]);
    assert_eq!(elements::<f32>(&sum(&vector(&[1e8f32, 1.0, -1e8]))), [1.0]);
    let x = Literal::splat(ty("f16[4099]"), Scalar::one(DType::F16));
    assert_eq!(elements::<f16>(&sum(&x)), [f16::from_f32(4100.0)]);
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    assert_eq!(elements::<f64>(&sum(&vector(&[1.0, inf, 2.0]))), [inf]);
    assert!(elements::<f64>(&sum(&vector(&[inf, -inf])))[0].is_nan());
    assert!(elements::<f64>(&sum(&vector(&[1.0, nan])))[0].is_nan());
    assert_eq!(elements::<f64>(&sum(&vector(&[f64::MAX, f64::MAX]))), [inf]);
    let product = |x: &Literal| apply(Reduce { kind: ReduceKind::Prod, axes: vec![0] }, &[x]);
    assert_eq!(bits(&product(&vector(&[-1f64, 0.0]))), bits(&scalar(-0f64)));
    assert_eq!(elements::<i8>(&product(&vector(&[16i8, 8, 3]))), [-128]);
}

/// Extrema of nothing are what every element would replace.
#[test]
fn empty_reductions() {
    let reduce = |kind, dtype: DType| {
        apply(Reduce { kind, axes: vec![0] }, &[&Literal::from_bytes(Type::new(dtype, [0]), &[])])
    };
    assert_eq!(elements::<f32>(&reduce(ReduceKind::Sum, DType::F32)), [0.0]);
    assert_eq!(elements::<f32>(&reduce(ReduceKind::Prod, DType::F32)), [1.0]);
    assert_eq!(elements::<f16>(&reduce(ReduceKind::Max, DType::F16)), [f16::NEG_INFINITY]);
    assert_eq!(elements::<i64>(&reduce(ReduceKind::Min, DType::I64)), [i64::MAX]);
    assert_eq!(elements::<u8>(&reduce(ReduceKind::Max, DType::U8)), [0]);
    assert_eq!(elements::<bool>(&reduce(ReduceKind::And, DType::Bool)), [true]);
    assert_eq!(elements::<i16>(&reduce(ReduceKind::And, DType::I16)), [-1]);
    assert_eq!(elements::<bool>(&reduce(ReduceKind::Or, DType::Bool)), [false]);
}

/// A broadcast from axes of extent 1 reads by axis, not by offset.
#[test]
fn broadcast_of_axes_of_one() {
    let x = Literal::from_slice([1, 3, 1], &[1f32, 2.0, 3.0]);
    let wide = apply(Broadcast { shape: [2, 3, 4].into(), axes: vec![0, 1, 2] }, &[&x]);
    let weighted = apply(Binary::Mul, &[&wide, &iota("f32[2,3,4]")]);
    let sums = apply(Reduce { kind: ReduceKind::Sum, axes: vec![0, 2] }, &[&weighted]);
    assert_eq!(elements::<f32>(&sums), [60.0, 2.0 * 92.0, 3.0 * 124.0]);
}

/// Views of a captured array mean its elements, not its bytes in some order.
#[test]
fn views_of_constants() {
    let c = Literal::from_slice([2, 3], &[0f32, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let t = apply(Transpose { permutation: vec![1, 0] }, &[&c]);
    assert_eq!(elements::<f32>(&t), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    let r = apply(Reverse { axes: vec![1] }, &[&t]);
    assert_eq!(elements::<f32>(&r), [3.0, 0.0, 4.0, 1.0, 5.0, 2.0]);
    let s = Slice { start: vec![0, 1], limit: vec![3, 2], stride: vec![2, 1] };
    assert_eq!(elements::<f32>(&apply(s, &[&t])), [3.0, 5.0]);
}

/// Matrix-vector products of every small size, exact.
#[test]
fn small_products_are_exact() {
    let dims = DotDims { rhs_contract: vec![1], ..DotDims::matmul() };
    for n in 1..=9usize {
        for k in 1..=9usize {
            let a: Vec<i32> = (0..k).map(|i| i as i32 * 3 - 7).collect();
            let b: Vec<i32> = (0..n * k).map(|i| i as i32 * 5 - 11).collect();
            let op = DotGeneral { dims: dims.clone(), dtype: DType::I32 };
            let y =
                apply(op, &[&Literal::from_slice([1, k], &a), &Literal::from_slice([n, k], &b)]);
            let row = |j: usize| b[j * k..(j + 1) * k].iter().zip(&a).map(|(x, y)| x * y).sum();
            assert_eq!(elements::<i32>(&y), (0..n).map(row).collect::<Vec<i32>>());
        }
    }
}

/// Floats out of an integer's range saturate, NaN is 0, fractions are cut off.
#[test]
fn floats_to_integers_saturate() {
    let x = vector(&[f32::NAN, f32::INFINITY, -1e30, 127.9, -128.9, -0.9, 3e9]);
    let to = |dtype| apply(Convert { to: dtype }, &[&x]);
    assert_eq!(elements::<i8>(&to(DType::I8)), [0, 127, -128, 127, -128, 0, 127]);
    assert_eq!(elements::<u32>(&to(DType::U32)), [0, u32::MAX, 0, 127, 0, 0, 3_000_000_000]);
    assert_eq!(elements::<i64>(&to(DType::I64))[1..3], [i64::MAX, i64::MIN]);
    assert_eq!(elements::<bool>(&to(DType::Bool)), [true, true, true, true, true, true, true]);
    let y = apply(Convert { to: DType::I8 }, &[&vector(&[300i32, -129, 128])]);
    assert_eq!(elements::<i8>(&y), [44, 127, -128]);
}

/// Arguments that do not fit are named.
#[test]
fn eval_refuses_wrong_arguments() {
    let mut graph = Graph::new("step");
    let info = ParameterInfo { name: "x".into(), donated: false };
    let x = graph.add_parameter(ty("f32[2]"), info);
    graph.add_output(x, "");
    let error = eval(&graph, &[]).unwrap_err();
    assert_eq!(error.to_string(), "@step: wants 1 argument, got 0");
    assert_eq!((error.graph(), error.parameter()), ("step", None));
    let error = eval(&graph, &[vector(&[1i32, 2])]).unwrap_err();
    assert_eq!(error.to_string(), "@step: parameter 0 (%x) wants f32[2], got i32[2]");
    assert_eq!(error.parameter(), Some(0));
}

/// Values that nobody reads, outputs that repeat, operands that are one value, results
/// of a call in another order.
#[test]
fn eval_follows_the_graph() {
    let mut callee = Graph::new("both");
    let a = parameter(&mut callee, "i32[2]");
    let b = parameter(&mut callee, "i32[2]");
    let difference = callee.add1(Binary::Sub, &[a, b], None).unwrap();
    callee.add_output(difference, "");
    callee.add_output(a, "");

    let mut graph = Graph::new("f");
    let x = parameter(&mut graph, "i32[2]");
    let unused = parameter(&mut graph, "i32[2]");
    let double = graph.add1(Binary::Add, &[x, x], None).unwrap();
    graph.add1(Binary::Mul, &[unused, double], None).unwrap();
    let call = graph.add(Call::new(Arc::new(callee)), &[double, x], None).unwrap();
    let results: Vec<Value> = graph.results(call).collect();
    for output in [results[1], results[0], x, results[1]] {
        graph.add_output(output, "");
    }
    let outputs = eval(&graph, &[vector(&[3, -4]), vector(&[0, 0])]).unwrap();
    let outputs: Vec<Vec<i32>> = outputs.iter().map(elements).collect();
    assert_eq!(outputs, [[6, -8], [3, -4], [3, -4], [6, -8]]);
}
