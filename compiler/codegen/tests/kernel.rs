//! What kernel IR says about itself: the verifier, traffic, keys, shared buffers.

mod common;

use std::collections::HashSet;

use common::{Builder, single};
use kiln_codegen::interpret::{Buffer, run_shared};
use kiln_codegen::kernel::expr::{BinaryOp, UnaryOp};
use kiln_codegen::kernel::{
    Axis, Body, Expr, Index, Kernel, Lanes, Ragged, Structure, Tree, traffic, verify,
};
use kiln_codegen::lower::lower;
use kiln_ir::op::{
    Binary, Broadcast, Constant, DotDims, DotGeneral, Reduce, ReduceKind, Reverse, Unary,
};
use kiln_ir::{DType, Literal, Scalar, Shape};
use kiln_opt::group::{Group, Kind};

fn shape(dims: &[usize]) -> Shape {
    dims.into()
}

fn lowered(b: &Builder, group: &Group) -> Vec<Kernel> {
    let lowered = lower(&b.graph, group).expect("a sound group");
    lowered.launches.into_iter().map(|l| l.kernel).collect()
}

fn only(b: &Builder, group: &Group) -> Kernel {
    let mut kernels = lowered(b, group);
    assert_eq!(kernels.len(), 1);
    kernels.remove(0)
}

fn softmax(dims: &[usize]) -> Kernel {
    let mut b = Builder::new();
    let text = format!("f32{}", shape(dims));
    let x = b.parameter(&text);
    let reduce = |b: &mut Builder, kind, v| {
        let s = b.add(Reduce { kind, axes: vec![1] }, &[v]);
        b.add(Broadcast { shape: shape(dims), axes: vec![0] }, &[s])
    };
    let max = reduce(&mut b, ReduceKind::Max, x);
    let d = b.add(Binary::Sub, &[x, max]);
    let e = b.add(Unary::Exp, &[d]);
    let sum = reduce(&mut b, ReduceKind::Sum, e);
    let y = b.add(Binary::Div, &[e, sum]);
    only(&b, &b.group(Kind::Rows { space: shape(dims), axes: vec![1] }, &[y]))
}

/// `x * w + c`, `w` repeated along rows.
fn affine(dims: [usize; 2]) -> (Builder, Group) {
    let mut b = Builder::new();
    let x = b.parameter(&format!("f32[{},{}]", dims[0], dims[1]));
    let w = b.parameter(&format!("f32[{}]", dims[1]));
    let w = b.add(Broadcast { shape: shape(&dims), axes: vec![1] }, &[w]);
    let c = b.add(Constant { value: Literal::scalar(Scalar::from_f64(DType::F32, 2.0)) }, &[]);
    let c = b.add(Broadcast { shape: shape(&dims), axes: vec![] }, &[c]);
    let y = b.add(Binary::Mul, &[x, w]);
    let z = b.add(Binary::Add, &[y, c]);
    let group = b.group(Kind::Map { space: shape(&dims) }, &[z]);
    (b, group)
}

#[test]
fn fused_programs_have_compulsory_traffic() {
    let t = traffic(&softmax(&[4096, 1024]));
    assert_eq!((t.read, t.written), (16 << 20, 16 << 20));
    let (b, group) = affine([1000, 300]);
    let t = traffic(&only(&b, &group));
    assert_eq!((t.read, t.written, t.flops), (1_201_200, 1_200_000, 600_000));
}

#[test]
fn rows_beyond_the_cache_are_read_once_a_stage() {
    // 2 MiB rows: the maximum, the sum and the quotient each read them.
    let t = traffic(&softmax(&[64, 1 << 19]));
    assert_eq!((t.read, t.written), (3 * (64 << 21), 64 << 21));
}

#[test]
fn splitting_adds_one_element_a_chunk() {
    let mut b = Builder::new();
    let x = b.parameter("f32[1000000]");
    let y = b.add(Reduce { kind: ReduceKind::Sum, axes: vec![0] }, &[x]);
    let kernels = lowered(&b, &single(&b.graph, y.node).expect("a group"));
    let [partial, combine] = &kernels[..] else { panic!("two launches") };
    assert_eq!((traffic(partial).read, traffic(partial).written), (4_000_000, 4 * 31));
    assert_eq!((traffic(combine).read, traffic(combine).written), (4 * 31, 4));
    assert_eq!(
        partial.to_string(),
        "kernel reduce_sum(read a0: f32[1000000], write a1: f32[31])\n  \
           points [31], lanes inner\n  \
           stage inner 32768 of 1000000, chunk p0\n    \
             s0 = reduce_sum load a0[32768*p0 + r], tree 64 x 32768\n  \
           stage inner 1\n    \
             store a1[p0] = s0\n"
    );
}

#[test]
fn products_count_each_operand_once() {
    let mut b = Builder::new();
    let (x, w) = (b.parameter("bf16[64,128]"), b.parameter("bf16[128,32]"));
    let y = b.add(DotGeneral { dims: DotDims::matmul(), dtype: DType::BF16 }, &[x, w]);
    let t = traffic(&only(&b, &single(&b.graph, y.node).expect("a group")));
    assert_eq!((t.read, t.written), (2 * (64 * 128 + 128 * 32), 2 * 64 * 32));
    assert_eq!(t.flops, 2 * 64 * 128 * 32);
}

#[test]
fn names_do_not_separate_kernels() {
    let (b, group) = affine([10, 30]);
    let kernel = only(&b, &group);
    let renamed = Kernel { name: "other".into(), ..kernel.clone() };
    let wider = {
        let (b, group) = affine([10, 31]);
        only(&b, &group)
    };
    let keys: HashSet<Structure> = [&kernel, &renamed, &wider].map(Structure).into();
    assert_eq!(keys.len(), 2);
}

#[test]
fn elementwise_arguments_may_share_and_moved_ones_may_not() {
    let (b, group) = affine([10, 30]);
    let kernel = only(&b, &group);
    assert!(kernel.may_share(1, 2), "x is read where z is written");
    assert!(!kernel.may_share(0, 2), "w is smaller than z");
    let mut b = Builder::new();
    let x = b.parameter("f32[8]");
    let r = b.add(Reverse { axes: vec![0] }, &[x]);
    let y = b.add(Binary::Add, &[r, x]);
    let kernel = only(&b, &b.group(Kind::Map { space: shape(&[8]) }, &[y]));
    assert!(!kernel.may_share(0, 1), "x is read for two elements");
    assert!(softmax(&[3, 20]).may_share(0, 1), "each row is read before it is written");
}

#[test]
fn shared_buffers_give_the_same_result() {
    let kernel = softmax(&[3, 20]);
    let x: Vec<u64> = (0..60).map(|i| f32::to_bits(i as f32 * 0.1).into()).collect();
    let x = Buffer { dtype: DType::F32, elements: x };
    let mut apart = [x.clone(), Buffer::zeros(DType::F32, 60)];
    run_shared(&kernel, &mut apart, &[0, 1]);
    let mut shared = [x];
    run_shared(&kernel, &mut shared, &[0, 0]);
    assert_eq!(apart[1], shared[0]);
}

#[test]
#[should_panic(expected = "is read after it was written")]
fn a_wrongly_shared_buffer_is_found() {
    let mut b = Builder::new();
    let x = b.parameter("f32[8]");
    let y = b.add(Reverse { axes: vec![0] }, &[x]);
    let kernel = only(&b, &b.group(Kind::Map { space: shape(&[8]) }, &[y]));
    run_shared(&kernel, &mut [Buffer::zeros(DType::F32, 8)], &[0, 0]);
}

/// Changes a kernel's loops and says what the verifier finds.
fn broken(mut kernel: Kernel, change: impl FnOnce(&mut Kernel)) -> String {
    change(&mut kernel);
    verify(&kernel).expect_err("the change breaks a rule").to_string()
}

fn loops(kernel: &mut Kernel) -> &mut kiln_codegen::kernel::Loops {
    match &mut kernel.body {
        Body::Loops(loops) => loops,
        _ => panic!("no loops"),
    }
}

#[test]
fn the_verifier_names_what_is_broken() {
    let good = softmax(&[3, 20]);
    assert_eq!(verify(&good), Ok(()));
    let says = |change: &dyn Fn(&mut Kernel), want: &str| {
        let got = broken(good.clone(), change);
        assert!(got.contains(want), "`{got}` does not say `{want}`");
    };
    says(&|k| k.arguments[0].elements = 59, "runs from 0 to 59 in 59 elements");
    says(&|k| k.arguments[0].reads = false, "argument 0 is neither read nor written");
    says(&|k| k.arguments[1].dtype = DType::I32, "argument 1 holds i32, not f32");
    says(&|k| loops(k).stages.swap(0, 1), "slot 0 is read before it is filled");
    says(&|k| loops(k).stages.clear(), "no stages");
    says(&|k| loops(k).points[0] = 0, "no points");
    says(&|k| loops(k).stages[0].inner = 0, "a stage of no steps");
    says(&|k| loops(k).stages[1].reductions[0].slot = 0, "slot 0 is filled twice");
    says(&|k| loops(k).stages[0].reductions[0].tree = Tree { lanes: 3, chunk: 3 }, "3 lanes");
    says(&|k| loops(k).stages[1].keeps.clear(), "row array 0 is read before it is filled");
    says(&|k| loops(k).lanes = Lanes::Points, "rows are kept where lanes are points");
    says(&|k| loops(k).stages[0].ragged = Some(Ragged { axis: 0, total: 99 }), "do not make 99");
    says(
        &|k| loops(k).stages[2].stores[0].index = Index::axis(Axis::Row),
        "axis i means nothing here",
    );
    says(
        &|k| loops(k).stages[2].stores[0].index = Index::axis(Axis::Point(4)),
        "there is no axis p4",
    );
    says(&|k| loops(k).stages[2].stores[0].argument = 7, "there is no argument 7");
    says(
        &|k| {
            let x = &mut loops(k).exprs;
            let half = x.float(DType::F16, 1.0);
            x.add(Expr::Unary(UnaryOp::Neg, half), DType::F16);
        },
        "a type that its operands do not give",
    );
    says(
        &|k| {
            let x = &mut loops(k).exprs;
            let (a, b) = (x.float(DType::F32, 1.0), x.float(DType::F64, 1.0));
            x.add(Expr::Binary(BinaryOp::Add, a, b), DType::F32);
        },
        "a type that its operands do not give",
    );
    says(
        &|k| {
            let part = loops(k).clone();
            k.body = Body::Together(vec![part]);
        },
        "one launch of 1 parts",
    );
}

#[test]
fn groups_that_break_their_promises_are_errors() {
    let mut b = Builder::new();
    let x = b.parameter("f32[3,4]");
    let y = b.add(Reduce { kind: ReduceKind::Sum, axes: vec![1] }, &[x]);
    let as_map = b.group(Kind::Map { space: shape(&[3]) }, &[y]);
    let error = lower(&b.graph, &as_map).expect_err("a reduction in a map");
    assert_eq!(error.node(), y.node);
    let wrong_axis = b.group(Kind::Rows { space: shape(&[3, 4]), axes: vec![0] }, &[y]);
    assert!(lower(&b.graph, &wrong_axis).is_err());
    let wrong_shape = b.group(Kind::Map { space: shape(&[4]) }, &[y]);
    let error = lower(&b.graph, &wrong_shape).expect_err("a root of another shape");
    assert_eq!(
        error.to_string(),
        "lowering reduce_sum: is a root of another shape than the group's"
    );
}
