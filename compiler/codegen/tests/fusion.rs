//! Fused groups against the same nodes unfused: equal bits, and the kernels' form.
//!
//! The forms are asserted as printed, since the printed kernel is what one reads to
//! see whether a program reads its rows once and divides nothing.

mod common;

use common::{Builder, Random, add_constants, arguments, run_group, run_unfused};
use kiln_codegen::kernel::{Body, Kernel};
use kiln_codegen::lower::Lowered;
use kiln_ir::op::{
    ArgKind, ArgReduce, Binary, Broadcast, Compare, Concatenate, Constant, Convert, Domain,
    DotDims, DotGeneral, DynamicSlice, DynamicUpdateSlice, Iota, Pad, Reduce, ReduceKind, Reshape,
    Reverse, Select, Slice, Transpose, Unary,
};
use kiln_ir::{DType, Literal, Scalar, Shape, Value};
use kiln_opt::group::{Group, Kind};

fn shape(dims: &[usize]) -> Shape {
    dims.into()
}

fn constant(b: &mut Builder, dtype: DType, x: f64) -> Value {
    b.add(Constant { value: Literal::scalar(Scalar::from_f64(dtype, x)) }, &[])
}

/// A scalar repeated over a shape.
fn splat(b: &mut Builder, dtype: DType, x: f64, dims: &[usize]) -> Value {
    let c = constant(b, dtype, x);
    b.add(Broadcast { shape: shape(dims), axes: vec![] }, &[c])
}

/// One value per row, repeated along the last axis.
fn along_rows(b: &mut Builder, x: Value, dims: &[usize]) -> Value {
    let axes = (0..dims.len() - 1).collect();
    b.add(Broadcast { shape: shape(dims), axes }, &[x])
}

fn reduce(b: &mut Builder, kind: ReduceKind, x: Value, axes: &[usize]) -> Value {
    b.add(Reduce { kind, axes: axes.to_vec() }, &[x])
}

/// Runs the group fused and its nodes one by one, and compares all roots.
fn check(b: &Builder, group: &Group, domain: Domain) -> Lowered {
    let mut random = Random(3);
    let types: Vec<_> = b.graph.parameters().map(|p| b.graph.ty(p).clone()).collect();
    let literals: Vec<Literal> = types.iter().map(|ty| random.literal(ty, domain)).collect();
    let unfused = run_unfused(&b.graph, &literals);
    let mut fused = arguments(&b.graph, &literals);
    add_constants(&b.graph, &mut fused);
    let lowered = run_group(&b.graph, group, &mut fused);
    for root in &group.roots {
        let kernels = || lowered.launches.iter().map(|l| l.kernel.to_string()).collect::<String>();
        assert!(fused[root] == unfused[root], "fused differs from unfused:\n{}", kernels());
    }
    lowered
}

fn only(lowered: &Lowered) -> &Kernel {
    assert_eq!(lowered.launches.len(), 1, "launches");
    &lowered.launches[0].kernel
}

fn softmax(b: &mut Builder, x: Value, dims: &[usize]) -> Value {
    let last = [dims.len() - 1];
    let max = reduce(b, ReduceKind::Max, x, &last);
    let max = along_rows(b, max, dims);
    let shifted = b.add(Binary::Sub, &[x, max]);
    let e = b.add(Unary::Exp, &[shifted]);
    let sum = reduce(b, ReduceKind::Sum, e, &last);
    let sum = along_rows(b, sum, dims);
    b.add(Binary::Div, &[e, sum])
}

#[test]
fn elementwise_of_any_rank_is_one_dimensional() {
    let mut b = Builder::new();
    let (x, y) = (b.parameter("f32[2,3,5,7]"), b.parameter("f32[2,3,5,7]"));
    let sum = b.add(Binary::Add, &[x, y]);
    let max = b.add(Binary::Max, &[sum, x]);
    let flat = b.add(Reshape { shape: shape(&[6, 35]) }, &[max]);
    let group = b.group(Kind::Map { space: shape(&[6, 35]) }, &[flat]);
    let lowered = check(&b, &group, Domain::Any);
    assert_eq!(
        only(&lowered).to_string(),
        "kernel add_max(read a0: f32[210], read a1: f32[210], write a2: f32[210])\n  \
           points [210], lanes points\n  \
           stage inner 1\n    \
             %0: f32 = load a0[p0]\n    \
             store a2[p0] = max(%0 + load a1[p0], %0)\n"
    );
}

#[test]
fn views_move_nothing() {
    let mut b = Builder::new();
    let (x, y) = (b.parameter("f32[4,6]"), b.parameter("f32[6]"));
    let t = b.add(Transpose { permutation: vec![1, 0] }, &[x]);
    let r = b.add(Reverse { axes: vec![0] }, &[t]);
    let y = b.add(Broadcast { shape: shape(&[6, 4]), axes: vec![0] }, &[y]);
    let sum = b.add(Binary::Mul, &[r, y]);
    let s = b.add(Slice { start: vec![1, 0], limit: vec![6, 4], stride: vec![2, 3] }, &[sum]);
    let zero = constant(&mut b, DType::F32, 0.0);
    let p = b.add(Pad { low: vec![1, -1], high: vec![0, 2], interior: vec![1, 0] }, &[s, zero]);
    let c = b.add(Concatenate { axis: 1 }, &[p, p, p]);
    let dims = b.graph.ty(c).shape.clone();
    let group = b.group(Kind::Map { space: dims }, &[c]);
    let lowered = check(&b, &group, Domain::Any);
    assert!(lowered.temporaries.is_empty());
}

/// How many expressions a kernel has, over all its parts.
fn expressions(kernel: &Kernel) -> usize {
    match &kernel.body {
        Body::Together(parts) => parts.iter().map(|part| part.exprs.len()).sum(),
        Body::Loops(loops) => loops.exprs.len(),
        Body::Contraction(c) => c.exprs.len(),
        Body::Sort(_) => 0,
    }
}

#[test]
fn the_space_is_cut_where_pieces_are_joined() {
    // Pieces of unlike extents, one of them empty and two of them of one parameter; two
    // roots, and another operand that is as long as the whole.
    for axis in [0, 1] {
        let mut b = Builder::new();
        let dims = |n: usize| if axis == 0 { format!("f32[{n},3]") } else { format!("f32[3,{n}]") };
        let mut pieces: Vec<Value> =
            [1, 7, 0, 2, 16].iter().map(|&n| b.parameter(&dims(n))).collect();
        pieces.push(pieces[1]);
        let neg = b.add(Unary::Neg, &[pieces[4]]);
        pieces.push(neg);
        let y = b.parameter(&dims(49));
        let joined = b.add(Concatenate { axis }, &pieces);
        let sum = b.add(Binary::Add, &[joined, y]);
        let space = b.graph.ty(sum).shape.clone();
        let group = b.group(Kind::Map { space }, &[joined, sum]);
        let lowered = check(&b, &group, Domain::Any);
        let Body::Together(parts) = &only(&lowered).body else { panic!("one part for each piece") };
        assert_eq!(parts.len(), 6);
        assert!(!only(&lowered).to_string().contains("select"), "nothing is left to choose");
    }
}

#[test]
fn joining_takes_expressions_for_each_piece() {
    let size = |n: usize| {
        let mut b = Builder::new();
        let rows: Vec<Value> = (0..n)
            .map(|_| {
                let x = b.parameter("f32[8]");
                let y = b.add(Unary::Neg, &[x]);
                b.add(Reshape { shape: shape(&[1, 8]) }, &[y])
            })
            .collect();
        let joined = b.add(Concatenate { axis: 0 }, &rows);
        let group = b.group(Kind::Map { space: shape(&[n, 8]) }, &[joined]);
        expressions(only(&check(&b, &group, Domain::Any)))
    };
    assert_eq!(size(300), 10 * size(30));
}

#[test]
fn what_is_joined_and_then_moved_is_not_cut() {
    let mut b = Builder::new();
    let rows: Vec<Value> = (0..6).map(|_| b.parameter("i32[2]")).collect();
    let joined = b.add(Concatenate { axis: 0 }, &rows);
    let back = b.add(Reverse { axes: vec![0] }, &[joined]);
    let group = b.group(Kind::Map { space: shape(&[12]) }, &[back]);
    let lowered = check(&b, &group, Domain::Any);
    assert!(matches!(only(&lowered).body, Body::Loops(_)));
}

#[test]
fn reshapes_that_split_axes_divide_nothing_after_merging() {
    let mut b = Builder::new();
    let x = b.parameter("f32[8,768]");
    let heads = b.add(Reshape { shape: shape(&[8, 12, 64]) }, &[x]);
    let back = b.add(Reshape { shape: shape(&[8, 768]) }, &[heads]);
    let y = b.add(Unary::Neg, &[back]);
    let group = b.group(Kind::Map { space: shape(&[8, 768]) }, &[y]);
    let lowered = check(&b, &group, Domain::Any);
    assert!(only(&lowered).to_string().contains("points [6144]"), "{}", only(&lowered));
}

#[test]
fn axes_that_indices_take_apart_are_taken_apart() {
    // Heads of attention put beside each other: [batch, head, time, 16].
    for (d, points) in [(16, "points [2, 5, 3, 16]"), (4, "points [2, 5, 12]")] {
        let mut b = Builder::new();
        let x = b.parameter(&format!("f32[2,3,5,{d}]"));
        let t = b.add(Transpose { permutation: vec![0, 2, 1, 3] }, &[x]);
        let merged = b.add(Reshape { shape: shape(&[2, 5, 3 * d]) }, &[t]);
        let y = b.add(Unary::Abs, &[merged]);
        let group = b.group(Kind::Map { space: shape(&[2, 5, 3 * d]) }, &[y]);
        let lowered = check(&b, &group, Domain::Any);
        let text = only(&lowered).to_string();
        // Runs of 4 are too short for lanes: there the division stays.
        assert!(text.contains(points), "{text}");
        assert_eq!(text.contains(")/"), d == 4, "{text}");
    }
}

#[test]
fn softmax_reads_each_row_once_and_keeps_its_exponentials() {
    let mut b = Builder::new();
    let x = b.parameter("f32[3,40]");
    let y = softmax(&mut b, x, &[3, 40]);
    let group = b.group(Kind::Rows { space: shape(&[3, 40]), axes: vec![1] }, &[y]);
    let lowered = check(&b, &group, Domain::Small);
    let text = only(&lowered).to_string();
    assert_eq!(text.matches("stage inner 40").count(), 3, "{text}");
    assert!(text.contains("keep k0 = "), "{text}");
    assert!(text.contains("store a1[40*p0 + r] = k0 / s1"), "{text}");
}

#[test]
fn long_rows_are_computed_again_instead_of_kept() {
    let mut b = Builder::new();
    let x = b.parameter("f32[1,16400]");
    let y = softmax(&mut b, x, &[1, 16400]);
    let group = b.group(Kind::Rows { space: shape(&[1, 16400]), axes: vec![1] }, &[y]);
    let lowered = check(&b, &group, Domain::Small);
    assert!(!only(&lowered).to_string().contains("keep"));
}

#[test]
fn independent_reductions_share_a_stage() {
    let dims = [6, 33];
    let mut b = Builder::new();
    let x = b.parameter("f32[6,33]");
    let sum = reduce(&mut b, ReduceKind::Sum, x, &[1]);
    let max = reduce(&mut b, ReduceKind::Max, x, &[1]);
    let arg = b.add(ArgReduce { kind: ArgKind::Max, axis: 1, dtype: DType::I32 }, &[x]);
    let wide = along_rows(&mut b, max, &dims);
    let less = b.add(Compare::Lt, &[x, wide]);
    let count = b.add(Convert { to: DType::I32 }, &[less]);
    let count = reduce(&mut b, ReduceKind::Sum, count, &[1]);
    let double = b.add(Binary::Add, &[x, x]);
    let roots = [sum, arg, count, double];
    let group = b.group(Kind::Rows { space: shape(&dims), axes: vec![1] }, &roots);
    let lowered = check(&b, &group, Domain::Any);
    let text = only(&lowered).to_string();
    assert_eq!(text.matches("stage").count(), 3, "{text}");
    let first = text.split("stage").nth(1).expect("a stage");
    assert!(first.contains("reduce_sum") && first.contains("argmax"), "{text}");
}

fn layernorm(b: &mut Builder, x: Value, g: Value, dims: &[usize], axis: usize) -> Value {
    let kept: Vec<usize> = (0..dims.len()).filter(|&k| k != axis).collect();
    let row: Shape = kept.iter().map(|&k| dims[k]).collect();
    let n = splat(b, DType::F32, dims[axis] as f64, &row);
    let sum = reduce(b, ReduceKind::Sum, x, &[axis]);
    let mean = b.add(Binary::Div, &[sum, n]);
    let mean = b.add(Broadcast { shape: shape(dims), axes: kept.clone() }, &[mean]);
    let centred = b.add(Binary::Sub, &[x, mean]);
    let square = b.add(Binary::Mul, &[centred, centred]);
    let sum = reduce(b, ReduceKind::Sum, square, &[axis]);
    let variance = b.add(Binary::Div, &[sum, n]);
    let eps = splat(b, DType::F32, 1e-5, &row);
    let variance = b.add(Binary::Add, &[variance, eps]);
    let scale = b.add(Unary::Rsqrt, &[variance]);
    let scale = b.add(Broadcast { shape: shape(dims), axes: kept }, &[scale]);
    let y = b.add(Binary::Mul, &[centred, scale]);
    let g = b.add(Broadcast { shape: shape(dims), axes: vec![axis] }, &[g]);
    b.add(Binary::Mul, &[y, g])
}

#[test]
fn layernorm_along_any_axis() {
    for axis in 0..3 {
        let dims = [3, 18, 21];
        let mut b = Builder::new();
        let x = b.parameter("f32[3,18,21]");
        let g = b.parameter(&format!("f32[{}]", dims[axis]));
        let y = layernorm(&mut b, x, g, &dims, axis);
        let group = b.group(Kind::Rows { space: shape(&dims), axes: vec![axis] }, &[y]);
        let lowered = check(&b, &group, Domain::Small);
        let text = only(&lowered).to_string();
        assert!(!text.contains("keep"), "cheap values are computed again:\n{text}");
        assert_eq!(text.matches("stage inner").count(), 3, "{text}");
    }
}

#[test]
fn reductions_over_several_axes() {
    for axes in [vec![0, 1], vec![1, 2], vec![0, 2], vec![0, 1, 2], vec![1]] {
        let dims = [4, 6, 10];
        let mut b = Builder::new();
        let x = b.parameter("f32[4,6,10]");
        let square = b.add(Binary::Mul, &[x, x]);
        let sum = reduce(&mut b, ReduceKind::Sum, square, &axes);
        let kept: Vec<usize> = (0..3).filter(|k| !axes.contains(k)).collect();
        let wide = b.add(Broadcast { shape: shape(&dims), axes: kept }, &[sum]);
        let y = b.add(Binary::Div, &[square, wide]);
        let ones: Shape = (0..3).map(|k| if axes.contains(&k) { 1 } else { dims[k] }).collect();
        let kept_dims = b.add(Reshape { shape: ones }, &[sum]);
        let kind = Kind::Rows { space: shape(&dims), axes };
        let group = b.group(kind, &[y, sum, kept_dims]);
        let lowered = check(&b, &group, Domain::Small);
        let text = only(&lowered).to_string();
        let divides = text.contains(")/") || text.contains(")%");
        assert!(!divides || text.contains("60*"), "only axes 0 and 2 need divisions:\n{text}");
    }
}

#[test]
fn splitting_keeps_the_bits_of_every_level() {
    for (text, dims, axis) in [("f32[1,65537]", [1, 65537], 1), ("f32[2049,3]", [2049, 3], 0)] {
        let mut b = Builder::new();
        let x = b.parameter(text);
        let kept = vec![1 - axis];
        let max = reduce(&mut b, ReduceKind::Max, x, &[axis]);
        let wide = b.add(Broadcast { shape: shape(&dims), axes: kept.clone() }, &[max]);
        let shifted = b.add(Binary::Sub, &[x, wide]);
        let e = b.add(Unary::Exp, &[shifted]);
        let sum = reduce(&mut b, ReduceKind::Sum, e, &[axis]);
        let arg = b.add(ArgReduce { kind: ArgKind::Min, axis, dtype: DType::I64 }, &[e]);
        let wide = b.add(Broadcast { shape: shape(&dims), axes: kept }, &[sum]);
        let y = b.add(Binary::Div, &[e, wide]);
        let both = b.add(Binary::Add, &[max, sum]);
        let kind = Kind::Rows { space: shape(&dims), axes: vec![axis] };
        let lowered = check(&b, &b.group(kind.clone(), &[y, both, arg]), Domain::Small);
        assert_eq!(lowered.launches.len(), 5, "two a level, then the wide root");
        let lowered = check(&b, &b.group(kind, &[both, arg]), Domain::Small);
        assert_eq!(lowered.launches.len(), 4, "two a level");
    }
}

/// The sum that `Tree` defines, written down once more.
fn tree_sum(row: &[f32], lanes: usize, chunk: usize) -> f32 {
    let chunks = row.chunks(chunk).map(|chunk| {
        let mut sums = vec![0f32; lanes];
        for (r, x) in chunk.iter().enumerate() {
            sums[r % lanes] += x;
        }
        let mut width = lanes;
        while width > 1 {
            width /= 2;
            for l in 0..width {
                sums[l] += sums[l + width];
            }
        }
        sums[0]
    });
    chunks.fold(0.0, |total, sum| total + sum)
}

#[test]
fn split_sums_have_the_bits_of_the_tree() {
    let cases = [
        ("f32[131073]", vec![0], 64, 1 << 15, 2),
        ("f32[65535]", vec![0], 64, 1 << 15, 1),
        ("f32[5000,3]", vec![0], 1, 1024, 2),
        ("f32[1100,3]", vec![0], 1, 1024, 1),
        ("f32[3,511]", vec![1], 16, 1 << 15, 1),
        ("f32[3,512]", vec![1], 64, 1 << 15, 1),
    ];
    for (text, axes, lanes, chunk, launches) in cases {
        let mut b = Builder::new();
        let x = b.parameter(text);
        let y = reduce(&mut b, ReduceKind::Sum, x, &axes);
        let ty = b.graph.ty(x).clone();
        let literal = Random(5).literal(&ty, Domain::Small);
        let mut values = arguments(&b.graph, std::slice::from_ref(&literal));
        let kind = Kind::Rows { space: ty.shape.clone(), axes: axes.clone() };
        let lowered = run_group(&b.graph, &b.group(kind, &[y]), &mut values);
        assert_eq!(lowered.launches.len(), launches, "{text}");
        let elements: Vec<f32> = literal.to_vec().expect("f32");
        let n: usize = axes.iter().map(|&a| ty.shape[a]).product();
        let rows = elements.len() / n;
        for (i, &got) in values[&y].elements.iter().enumerate() {
            let at = |r: usize| if axes == [0] { r * rows + i } else { i * n + r };
            let row: Vec<f32> = (0..n).map(|r| elements[at(r)]).collect();
            assert_eq!(got as u32, tree_sum(&row, lanes, chunk).to_bits(), "{text}, row {i}");
        }
    }
}

#[test]
fn an_early_root_waits_for_the_last_reader() {
    // `double` could be stored while the sum is formed, but then its buffer could not
    // be that of x, which the second pass over the row reads again.
    let dims = [4, 20];
    let mut b = Builder::new();
    let x = b.parameter("f32[4,20]");
    let double = b.add(Binary::Add, &[x, x]);
    let sum = reduce(&mut b, ReduceKind::Sum, x, &[1]);
    let sum = along_rows(&mut b, sum, &dims);
    let y = b.add(Binary::Sub, &[x, sum]);
    let kind = Kind::Rows { space: shape(&dims), axes: vec![1] };
    let lowered = check(&b, &b.group(kind.clone(), &[double, y]), Domain::Small);
    let kernel = only(&lowered);
    assert!(kernel.may_share(0, 1) && kernel.may_share(0, 2), "{kernel}");
    // With nothing to wait for, it takes no pass of its own.
    let sum = b.graph.operands(sum.node)[0];
    let group = Group { members: vec![double.node, sum.node], roots: vec![double, sum], kind };
    let lowered = check(&b, &group, Domain::Small);
    assert_eq!(only(&lowered).to_string().matches("stage inner 20").count(), 1);
}

#[test]
fn reductions_of_nothing_write_their_identities() {
    let mut b = Builder::new();
    let x = b.parameter("f32[3,0]");
    let sum = reduce(&mut b, ReduceKind::Sum, x, &[1]);
    let max = reduce(&mut b, ReduceKind::Max, x, &[1]);
    let exp = b.add(Unary::Exp, &[sum]);
    let group = b.group(Kind::Rows { space: shape(&[3, 0]), axes: vec![1] }, &[exp, max]);
    let lowered = check(&b, &group, Domain::Any);
    assert!(!only(&lowered).to_string().contains("s0"));
}

#[test]
fn half_types_round_after_every_op() {
    let mut b = Builder::new();
    let (x, y) = (b.parameter("bf16[5,24]"), b.parameter("bf16[5,24]"));
    let p = b.add(Binary::Mul, &[x, y]);
    let s = b.add(Binary::Add, &[p, x]);
    let sum = reduce(&mut b, ReduceKind::Sum, s, &[1]);
    let wide = along_rows(&mut b, sum, &[5, 24]);
    let z = b.add(Binary::Div, &[s, wide]);
    let group = b.group(Kind::Rows { space: shape(&[5, 24]), axes: vec![1] }, &[z, sum]);
    check(&b, &group, Domain::Small);
}

#[test]
fn a_product_takes_its_neighbours_in() {
    let mut b = Builder::new();
    let (x, w, bias) =
        (b.parameter("bf16[2,5,8]"), b.parameter("bf16[6,8]"), b.parameter("bf16[6]"));
    let x2 = b.add(Binary::Add, &[x, x]);
    let wt = b.add(Transpose { permutation: vec![1, 0] }, &[w]);
    let dims = DotDims { lhs_contract: vec![2], ..DotDims::matmul() };
    let y = b.add(DotGeneral { dims, dtype: DType::BF16 }, &[x2, wt]);
    let bias = b.add(Broadcast { shape: shape(&[2, 5, 6]), axes: vec![2] }, &[bias]);
    let z = b.add(Binary::Add, &[y, bias]);
    let t = b.add(Unary::Tanh, &[z]);
    let group = b.group(Kind::Contraction { dot: y.node }, &[z, t]);
    let lowered = check(&b, &group, Domain::Small);
    let text = only(&lowered).to_string();
    assert!(text.contains("batch [], m 10, n 6, k 8, sum f32"), "{text}");
    assert!(text.contains("rhs = f32(load a1[8*j + r])"), "{text}");
}

#[test]
fn batched_products_of_permuted_axes() {
    // Attention's scores: q[b,t,h,d] . k[b,s,h,d] over d, batched over b and h.
    let mut b = Builder::new();
    let (q, k) = (b.parameter("f32[2,3,4,5]"), b.parameter("f32[2,6,4,5]"));
    let dims = DotDims {
        lhs_batch: vec![0, 2],
        rhs_batch: vec![0, 2],
        lhs_contract: vec![3],
        rhs_contract: vec![3],
    };
    let s = b.add(DotGeneral { dims, dtype: DType::F32 }, &[q, k]);
    let scale = splat(&mut b, DType::F32, 0.125, &[2, 4, 3, 6]);
    let y = b.add(Binary::Mul, &[s, scale]);
    let group = b.group(Kind::Contraction { dot: s.node }, &[y]);
    let lowered = check(&b, &group, Domain::Small);
    let text = only(&lowered).to_string();
    assert!(text.contains("batch [2, 4], m 3, n 6, k 5"), "{text}");
}

#[test]
fn an_empty_product_is_the_epilogue_of_zero() {
    let mut b = Builder::new();
    let (x, w) = (b.parameter("f32[3,0]"), b.parameter("f32[0,4]"));
    let y = b.add(DotGeneral { dims: DotDims::matmul(), dtype: DType::F32 }, &[x, w]);
    let one = splat(&mut b, DType::F32, 1.0, &[3, 4]);
    let z = b.add(Binary::Add, &[y, one]);
    let group = b.group(Kind::Contraction { dot: y.node }, &[z]);
    check(&b, &group, Domain::Small);
}

#[test]
fn starts_known_at_run_time_clamp() {
    let mut b = Builder::new();
    let (x, i, j) = (b.parameter("f32[6,8]"), b.parameter("i32[]"), b.parameter("u64[]"));
    let s = b.add(DynamicSlice { sizes: vec![3, 8] }, &[x, i, j]);
    let t = b.add(DynamicSlice { sizes: vec![3, 2] }, &[s, i, j]);
    let y = b.add(Unary::Neg, &[t]);
    let group = b.group(Kind::Map { space: shape(&[3, 2]) }, &[y]);
    check(&b, &group, Domain::Any);
    check(&b, &group, Domain::Small);
}

#[test]
fn an_update_writes_its_box_alone() {
    let mut b = Builder::new();
    let (x, u, i) = (b.parameter("f32[6,8]"), b.parameter("f32[2,3]"), b.parameter("i8[]"));
    let i2 = b.add(Binary::Add, &[i, i]);
    let u = b.add(Unary::Exp, &[u]);
    let y = b.add(DynamicUpdateSlice, &[x, u, i2, i]);
    let group = b.group(Kind::Update { node: y.node }, &[y]);
    let lowered = check(&b, &group, Domain::Small);
    assert_eq!(only(&lowered).arguments.len(), 3, "operand 0 is no argument");
}

#[test]
fn parts_share_a_launch_and_their_inputs() {
    let mut b = Builder::new();
    let (x, y) = (b.parameter("f32[4,9]"), b.parameter("f32[5]"));
    let rate = b.parameter("f32[]");
    let r1 = b.add(Broadcast { shape: shape(&[4, 9]), axes: vec![] }, &[rate]);
    let a = b.add(Binary::Mul, &[x, r1]);
    let r2 = b.add(Broadcast { shape: shape(&[5]), axes: vec![] }, &[rate]);
    let c = b.add(Binary::Mul, &[y, r2]);
    let s = reduce(&mut b, ReduceKind::Sum, x, &[1]);
    let part = |nodes: &[Value], roots: &[Value], kind| Group {
        members: nodes.iter().map(|v| v.node).collect(),
        roots: roots.to_vec(),
        kind,
    };
    let parts = vec![
        part(&[r1, a], &[a], Kind::Map { space: shape(&[4, 9]) }),
        part(&[r2, c], &[c], Kind::Map { space: shape(&[5]) }),
        part(&[s], &[s], Kind::Rows { space: shape(&[4, 9]), axes: vec![1] }),
    ];
    let roots = [a, c, s];
    let group = b.group(Kind::Together { parts }, &roots);
    let lowered = check(&b, &group, Domain::Small);
    let kernel = only(&lowered);
    assert_eq!(kernel.arguments.len(), 6);
    assert_eq!(kernel.to_string().matches("part ").count(), 3, "{kernel}");
}

#[test]
fn iotas_and_selections() {
    // A causal mask, as index arithmetic.
    let dims = [7, 7];
    let mut b = Builder::new();
    let x = b.parameter("f32[7,7]");
    let ty = kiln_ir::Type::new(DType::I32, shape(&dims));
    let i = b.add(Iota { ty: ty.clone(), axis: 0 }, &[]);
    let j = b.add(Iota { ty, axis: 1 }, &[]);
    let keep = b.add(Compare::Ge, &[i, j]);
    let low = splat(&mut b, DType::F32, f64::NEG_INFINITY, &dims);
    let masked = b.add(Select, &[keep, x, low]);
    let y = softmax(&mut b, masked, &dims);
    let group = b.group(Kind::Rows { space: shape(&dims), axes: vec![1] }, &[y]);
    check(&b, &group, Domain::Small);
}

#[test]
fn chains_of_any_length_lower() {
    let mut b = Builder::new();
    let x = b.parameter("f32[3]");
    let mut y = x;
    for _ in 0..10_000 {
        y = b.add(Binary::Add, &[y, x]);
    }
    let group = b.group(Kind::Map { space: shape(&[3]) }, &[y]);
    let lowered = check(&b, &group, Domain::Small);
    assert!(only(&lowered).name.len() <= 60);
}

#[test]
fn shuffles_without_end_go_through_memory() {
    // Each round doubles the index: after forty it would have 2^40 terms.
    let mut b = Builder::new();
    let x = b.parameter("f32[35]");
    let mut y = x;
    let mut all = Vec::new();
    for _ in 0..40 {
        let grid = b.add(Reshape { shape: shape(&[5, 7]) }, &[y]);
        let turned = b.add(Transpose { permutation: vec![1, 0] }, &[grid]);
        let flat = b.add(Reshape { shape: shape(&[35]) }, &[turned]);
        y = b.add(Binary::Add, &[flat, x]);
        all.push(y);
    }
    let group = b.group(Kind::Map { space: shape(&[35]) }, &all);
    check(&b, &group, Domain::Small);
    let group = b.group(Kind::Map { space: shape(&[35]) }, &[y]);
    let lowered = check(&b, &group, Domain::Small);
    assert!((2..20).contains(&lowered.launches.len()), "{} launches", lowered.launches.len());
    // The same before a reduction.
    let sum = reduce(&mut b, ReduceKind::Sum, y, &[0]);
    let group = b.group(Kind::Rows { space: shape(&[35]), axes: vec![0] }, &[sum, y]);
    check(&b, &group, Domain::Small);
}
