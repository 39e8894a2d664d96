//! What fuses and what does not, by counts of kernels.

mod support;

use kiln_ir::op::{
    Binary, Compare, Concatenate, DynamicSlice, DynamicUpdateSlice, Iota, Pad, Reverse, Unary,
};
use kiln_ir::{DType, Type};
use kiln_opt::Options;
use support::Builder;

#[test]
fn elementwise_chain_is_one_kernel() {
    let mut b = Builder::new("gelu");
    let x = b.parameter("x", [1 << 12, 1 << 12]);
    let y = b.gelu(x);
    b.output(y);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.maps), (1, 1));
    assert_eq!(m.bytes, m.compulsory_bytes);
}

#[test]
fn softmax_reads_each_row_once() {
    let mut b = Builder::new("softmax");
    let x = b.parameter("x", [4096, 1024]);
    let y = b.softmax(x);
    b.output(y);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.rows), (1, 1));
    assert_eq!(m.bytes, m.compulsory_bytes);
}

#[test]
fn log_softmax_is_one_kernel() {
    let mut b = Builder::new("log_softmax");
    let x = b.parameter("x", [4096, 1024]);
    let m = b.max(x, &[1]);
    let m = b.spread(m, x, &[0]);
    let d = b.sub(x, m);
    let e = b.exp(d);
    let s = b.sum(e, &[1]);
    let l = b.unary(Unary::Log, s);
    let l = b.spread(l, x, &[0]);
    let y = b.sub(d, l);
    b.output(y);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.rows), (1, 1));
    assert_eq!(m.bytes, m.compulsory_bytes);
}

fn layernorm(b: &mut Builder, rows: usize, columns: usize) {
    let x = b.parameter("x", [rows, columns]);
    let g = b.parameter("g", [columns]);
    let c = b.parameter("c", [columns]);
    let n = 1.0 / columns as f64;
    let s = b.sum(x, &[1]);
    let mean = b.times(n, s);
    let mean = b.reshape(mean, [rows, 1]);
    let mean = b.spread(mean, x, &[0, 1]);
    let d = b.sub(x, mean);
    let d2 = b.mul(d, d);
    let v = b.sum(d2, &[1]);
    let v = b.times(n, v);
    let v = b.plus(1e-5, v);
    let r = b.unary(Unary::Rsqrt, v);
    let r = b.reshape(r, [rows, 1]);
    let r = b.spread(r, x, &[0, 1]);
    let y = b.mul(d, r);
    let g = b.spread(g, x, &[1]);
    let y = b.mul(y, g);
    let c = b.spread(c, x, &[1]);
    let y = b.add(y, c);
    b.output(y);
}

#[test]
fn layernorm_is_one_kernel() {
    for (rows, columns) in [(4096, 1024), (8, 16)] {
        let mut b = Builder::new("layernorm");
        layernorm(&mut b, rows, columns);
        let (_, m) = b.optimize();
        assert_eq!((m.kernels, m.rows), (1, 1));
        assert_eq!(m.bytes, m.compulsory_bytes);
    }
}

#[test]
fn layernorm_gradient_reads_rows_once() {
    // dx = r * (dy - mean(dy) - xhat * mean(dy * xhat)), xhat = (x - mean(x)) * r
    let mut b = Builder::new("layernorm_grad");
    let x = b.parameter("x", [4096, 1024]);
    let dy = b.parameter("dy", [4096, 1024]);
    let mean = |b: &mut Builder, v| {
        let s = b.sum(v, &[1]);
        let m = b.times(1.0 / 1024.0, s);
        b.spread(m, x, &[0])
    };
    let m = mean(&mut b, x);
    let d = b.sub(x, m);
    let d2 = b.mul(d, d);
    let v = mean(&mut b, d2);
    let v = b.plus(1e-5, v);
    let r = b.unary(Unary::Rsqrt, v);
    let xhat = b.mul(d, r);
    let p = b.mul(dy, xhat);
    let (a, c) = (mean(&mut b, dy), mean(&mut b, p));
    let q = b.mul(xhat, c);
    let t = b.sub(dy, a);
    let t = b.sub(t, q);
    let dx = b.mul(r, t);
    b.output(dx);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.rows), (1, 1));
    assert_eq!(m.bytes, m.compulsory_bytes);
}

#[test]
fn mean_and_variance_share_one_read() {
    let mut b = Builder::new("moments");
    let x = b.parameter("x", [512, 512]);
    let s = b.sum(x, &[1]);
    let x2 = b.mul(x, x);
    let q = b.sum(x2, &[1]);
    b.output(s);
    b.output(q);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.rows), (1, 1));
    assert_eq!(m.bytes, m.compulsory_bytes);
}

#[test]
fn matmul_takes_bias_and_gelu() {
    let mut b = Builder::new("mm_bias_gelu");
    let x = b.parameter("x", [512, 256]);
    let w = b.parameter("w", [256, 384]);
    let c = b.parameter("c", [384]);
    let h = b.matmul(x, w);
    let c = b.spread(c, h, &[1]);
    let h = b.add(h, c);
    let y = b.gelu(h);
    b.output(y);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.contractions), (1, 1));
    assert_eq!(m.bytes, m.compulsory_bytes);
}

#[test]
fn matmul_reads_a_converted_transposed_operand() {
    let mut b = Builder::new("prologue");
    let x = b.typed("x", Type::new(DType::F16, [256, 512]));
    let w = b.parameter("w", [256, 384]);
    let x = b.convert(x, DType::F32);
    let x = b.transpose(x, &[1, 0]);
    let y = b.matmul(x, w);
    b.output(y);
    assert_eq!(b.kernels(), 1);
}

#[test]
fn gradient_step_joins_the_product() {
    let mut b = Builder::new("sgd");
    let w = b.donated("w", [784, 10]);
    let x = b.parameter("x", [128, 784]);
    let g = b.parameter("g", [128, 10]);
    let d = b.matmul_t(x, g);
    let d = b.times(0.1, d);
    let w = b.sub(w, d);
    b.output(w);
    let (optimized, m) = b.optimize();
    assert_eq!((m.kernels, m.contractions), (1, 1));
    assert_eq!(optimized.donations, [(0, 0)]);
}

/// A softmax classifier's step: loss and new parameters.
fn classifier(b: &mut Builder, batch: usize) {
    let w = b.donated("w", [784, 10]);
    let c = b.donated("c", [10]);
    let x = b.parameter("x", [batch, 784]);
    let y = b.typed("y", Type::new(DType::I32, [batch]));
    let h = b.matmul(x, w);
    let c_wide = b.spread(c, h, &[1]);
    let logits = b.add(h, c_wide);
    // Labels as one-hot rows.
    let iota = b.op(Iota { ty: Type::new(DType::I32, [batch, 10]), axis: 1 }, &[]);
    let y = b.spread(y, iota, &[0]);
    let hot = b.compare(Compare::Eq, iota, y);
    let hot = b.convert(hot, DType::F32);
    let m = b.max(logits, &[1]);
    let m = b.spread(m, logits, &[0]);
    let d = b.sub(logits, m);
    let e = b.exp(d);
    let s = b.sum(e, &[1]);
    let l = b.unary(Unary::Log, s);
    let l_wide = b.spread(l, logits, &[0]);
    let logp = b.sub(d, l_wide);
    let picked = b.mul(hot, logp);
    let loss = b.sum(picked, &[0, 1]);
    let loss = b.times(-1.0 / batch as f64, loss);
    let s = b.spread(s, e, &[0]);
    let p = b.div(e, s);
    let g = b.sub(p, hot);
    let g = b.times(1.0 / batch as f64, g);
    let dw = b.matmul_t(x, g);
    let dw = b.times(0.1, dw);
    let w = b.sub(w, dw);
    let dc = b.sum(g, &[0]);
    let dc = b.times(0.1, dc);
    let c = b.sub(c, dc);
    b.output(w);
    b.output(c);
    b.output(loss);
}

#[test]
fn classifier_step_is_at_most_five_kernels() {
    let mut b = Builder::new("step");
    classifier(&mut b, 128);
    let (optimized, m) = b.optimize();
    println!("{}", kiln_opt::print::fused(&optimized.graph, &optimized.fusion));
    assert!(m.kernels <= 5, "{m:?}");
    assert_eq!(m.contractions, 2);
    assert_eq!(optimized.donations, [(0, 0), (1, 1)]);
}

#[test]
fn adam_over_many_parameters_is_one_launch() {
    let mut b = Builder::new("adam");
    let t = b.parameter("t", []);
    let (b1, b2) = (0.9, 0.999);
    let correction = |b: &mut Builder, beta: f64| {
        let beta = b.scalar(beta);
        let p = b.binary(Binary::Pow, beta, t);
        let one = b.scalar(1.0);
        b.sub(one, p)
    };
    let c1 = correction(&mut b, b1);
    let c2 = correction(&mut b, b2);
    for (i, n) in [10usize, 784, 32, 1000, 64, 64, 17, 5].into_iter().enumerate() {
        let p = b.donated(&format!("p{i}"), [n, 10]);
        let m = b.donated(&format!("m{i}"), [n, 10]);
        let v = b.donated(&format!("v{i}"), [n, 10]);
        let g = b.parameter(&format!("g{i}"), [n, 10]);
        let (x, y) = (b.times(b1, m), b.times(1.0 - b1, g));
        let m = b.add(x, y);
        let g2 = b.mul(g, g);
        let (x, y) = (b.times(b2, v), b.times(1.0 - b2, g2));
        let v = b.add(x, y);
        let c1 = b.spread(c1, m, &[]);
        let c2 = b.spread(c2, v, &[]);
        let mhat = b.div(m, c1);
        let vhat = b.div(v, c2);
        let r = b.unary(Unary::Sqrt, vhat);
        let r = b.plus(1e-8, r);
        let u = b.div(mhat, r);
        let u = b.times(1e-3, u);
        let p = b.sub(p, u);
        b.output(p);
        b.output(m);
        b.output(v);
    }
    let (optimized, m) = b.optimize();
    println!("{}", kiln_opt::print::fused(&optimized.graph, &optimized.fusion));
    assert_eq!((m.kernels, m.togethers), (1, 1));
    assert_eq!(optimized.donations.len(), 24);
}

// --- views and several outputs ----------------------------------------------

#[test]
fn views_cost_no_kernel() {
    let mut b = Builder::new("views");
    let x = b.parameter("x", [64, 128]);
    let y = b.parameter("y", [64, 128]);
    let zero = b.scalar(0.0);
    let t = b.transpose(x, &[1, 0]);
    let t = b.reshape(t, [64, 128]);
    let r = b.op(Reverse { axes: vec![0] }, &[y]);
    let s = b.slice(r, &[0, 64], &[64, 128]);
    let p = b.op(Pad { low: vec![0, 32], high: vec![0, 32], interior: vec![0, 0] }, &[s, zero]);
    let l = b.slice(t, &[0, 0], &[64, 64]);
    let c = b.op(Concatenate { axis: 1 }, &[l, s]);
    let z = b.add(p, c);
    b.output(z);
    assert_eq!(b.kinds(), [1, 0, 0, 0, 0]);
}

#[test]
fn a_returned_reshape_is_an_alias() {
    let mut b = Builder::new("alias");
    let x = b.parameter("x", [64, 128]);
    let y = b.exp(x);
    let z = b.reshape(y, [8192]);
    b.output(y);
    b.output(z);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.aliases), (1, 1));
}

#[test]
fn two_maps_of_one_input_read_it_once() {
    let mut b = Builder::new("sincos");
    let x = b.parameter("x", [1 << 20]);
    let (s, c) = (b.unary(Unary::Sin, x), b.unary(Unary::Cos, x));
    b.output(s);
    b.output(c);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.maps), (1, 1));
    assert_eq!(m.bytes, m.compulsory_bytes);
}

#[test]
fn a_value_and_its_function_leave_together() {
    let mut b = Builder::new("both");
    let x = b.parameter("x", [1 << 20]);
    let y = b.exp(x);
    let z = b.mul(y, x);
    b.output(y);
    b.output(z);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.bytes), (1, m.compulsory_bytes));
}

#[test]
fn a_map_and_a_row_sum_read_once() {
    let mut b = Builder::new("map_and_sum");
    let x = b.parameter("x", [1024, 1024]);
    let y = b.exp(x);
    let s = b.sum(y, &[1]);
    b.output(y);
    b.output(s);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.rows, m.bytes), (1, 1, m.compulsory_bytes));
}

// --- reductions ---------------------------------------------------------------

#[test]
fn cross_entropy_and_its_gradient_are_one_kernel() {
    let mut b = Builder::new("cross_entropy");
    let x = b.parameter("x", [4096, 1024]);
    let y = b.parameter("y", [4096, 1024]);
    let m = b.max(x, &[1]);
    let m = b.spread(m, x, &[0]);
    let d = b.sub(x, m);
    let e = b.exp(d);
    let s = b.sum(e, &[1]);
    let l = b.unary(Unary::Log, s);
    let l = b.spread(l, x, &[0]);
    let logp = b.sub(d, l);
    let picked = b.mul(y, logp);
    let loss = b.sum(picked, &[1]);
    let loss = b.unary(Unary::Neg, loss);
    let s = b.spread(s, x, &[0]);
    let p = b.div(e, s);
    let g = b.sub(p, y);
    b.output(loss);
    b.output(g);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.rows, m.bytes), (1, 1, m.compulsory_bytes));
}

#[test]
fn column_statistics_of_short_columns_are_one_kernel() {
    let mut b = Builder::new("batchnorm");
    let x = b.parameter("x", [64, 4096]);
    let s = b.sum(x, &[0]);
    let m = b.times(1.0 / 64.0, s);
    let m = b.spread(m, x, &[1]);
    let y = b.sub(x, m);
    b.output(y);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.rows, m.bytes), (1, 1, m.compulsory_bytes));
}

/// Tall columns leave the cache between two passes, so the second is a kernel whose
/// loads are in order.
#[test]
fn refuse_to_go_over_tall_columns_twice() {
    let mut b = Builder::new("tall");
    let x = b.parameter("x", [100_000, 64]);
    let s = b.sum(x, &[0]);
    let s = b.spread(s, x, &[1]);
    let y = b.div(x, s);
    b.output(y);
    assert_eq!(b.kinds(), [1, 1, 0, 0, 0]);
}

/// One row of a million elements is one unit of work; what reads the sum is not.
#[test]
fn refuse_to_serialise_behind_a_full_reduction() {
    let mut b = Builder::new("centre");
    let x = b.parameter("x", [1 << 20]);
    let s = b.sum(x, &[0]);
    let m = b.times(1.0 / (1 << 20) as f64, s);
    let m = b.spread(m, x, &[]);
    let y = b.sub(x, m);
    b.output(y);
    assert_eq!(b.kinds(), [1, 1, 0, 0, 0]);
}

#[test]
fn a_full_reduction_takes_its_producer() {
    let mut b = Builder::new("norm");
    let x = b.parameter("x", [1 << 20]);
    let x2 = b.mul(x, x);
    let s = b.sum(x2, &[0]);
    let s = b.unary(Unary::Sqrt, s);
    b.output(s);
    assert_eq!(b.kinds(), [0, 1, 0, 0, 0]);
}

/// Sums along different axes go over the data in different orders.
#[test]
fn refuse_sums_along_different_axes() {
    let mut b = Builder::new("axes");
    let x = b.parameter("x", [2048, 2048]);
    let (r, c) = (b.sum(x, &[1]), b.sum(x, &[0]));
    b.output(r);
    b.output(c);
    assert_eq!(b.kinds(), [0, 2, 0, 0, 0]);
}

/// The softmax of a transposed softmax: the second needs whole columns of the first.
#[test]
fn refuse_a_reader_of_other_rows() {
    let mut b = Builder::new("transposed");
    let x = b.parameter("x", [512, 512]);
    let y = b.softmax(x);
    let t = b.transpose(y, &[1, 0]);
    let z = b.softmax(t);
    b.output(z);
    assert_eq!(b.kinds(), [0, 2, 0, 0, 0]);
}

// --- what is computed twice -----------------------------------------------------

/// A long computation with two readers that cannot be one kernel is stored once.
#[test]
fn refuse_to_repeat_expensive_work() {
    let mut b = Builder::new("expensive");
    let x = b.parameter("x", [2048, 2048]);
    let mut y = x;
    for _ in 0..6 {
        y = b.unary(Unary::Sin, y);
    }
    let (r, c) = (b.sum(y, &[1]), b.sum(y, &[0]));
    b.output(r);
    b.output(c);
    let (optimized, _) = b.optimize();
    let sines = |g: &kiln_opt::Group| {
        let sin = |&&n: &&kiln_ir::NodeId| optimized.graph.op(n).name() == "sin";
        g.members.iter().filter(sin).count()
    };
    let all: usize = optimized.fusion.groups.iter().map(sines).sum();
    assert_eq!(all, 6);
}

/// A cheap one is computed in both.
#[test]
fn repeat_cheap_work() {
    let mut b = Builder::new("cheap");
    let x = b.parameter("x", [2048, 2048]);
    let y = b.times(2.0, x);
    let (r, c) = (b.sum(y, &[1]), b.sum(y, &[0]));
    b.output(r);
    b.output(c);
    assert_eq!(b.kinds(), [0, 2, 0, 0, 0]);
}

#[test]
fn never_repeat_a_product() {
    let mut b = Builder::new("product");
    let x = b.parameter("x", [8, 8]);
    let w = b.parameter("w", [8, 8]);
    let h = b.matmul(x, w);
    let (r, c) = (b.sum(h, &[1]), b.sum(h, &[0]));
    b.output(r);
    b.output(c);
    let (optimized, m) = b.optimize();
    assert_eq!((m.contractions, m.togethers), (1, 1));
    assert_eq!(optimized.graph.len(), 5);
}

// --- circles --------------------------------------------------------------------

/// a ─▶ product ─▶ c, and a ─▶ c: one group of a and c would wait for itself.
#[test]
fn refuse_a_circle_through_another_group() {
    let mut b = Builder::new("circle");
    let x = b.parameter("x", [256, 256]);
    let w = b.parameter("w", [256, 256]);
    let mut a = x;
    for _ in 0..8 {
        a = b.unary(Unary::Sin, a);
    }
    let h = b.matmul(a, w);
    let c = b.add(a, h);
    b.output(c);
    // The sines are not repeated for both, nor is the sum part of their group.
    assert_eq!(b.kinds(), [1, 0, 1, 0, 0]);
}

// --- contractions -----------------------------------------------------------------

#[test]
fn a_product_returns_before_and_after_the_activation() {
    let mut b = Builder::new("pre_and_post");
    let x = b.parameter("x", [512, 256]);
    let w = b.parameter("w", [256, 384]);
    let h = b.matmul(x, w);
    let y = b.gelu(h);
    b.output(h);
    b.output(y);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.contractions, m.bytes), (1, 1, m.compulsory_bytes));
}

/// Dense layers of a batch of sequences, flattened for the product.
#[test]
fn a_reshaped_product_takes_its_bias() {
    let mut b = Builder::new("flattened");
    let x = b.parameter("x", [8, 16, 64]);
    let w = b.parameter("w", [64, 32]);
    let c = b.parameter("c", [32]);
    let flat = b.reshape(x, [128, 64]);
    let h = b.matmul(flat, w);
    let h = b.reshape(h, [8, 16, 32]);
    let c = b.spread(c, h, &[2]);
    let h = b.add(h, c);
    let y = b.gelu(h);
    b.output(y);
    assert_eq!(b.kinds(), [0, 0, 1, 0, 0]);
}

#[test]
fn products_in_a_row_stay_apart() {
    let mut b = Builder::new("mlp");
    let x = b.parameter("x", [64, 256]);
    let w1 = b.parameter("w1", [256, 512]);
    let w2 = b.parameter("w2", [512, 10]);
    let h = b.matmul(x, w1);
    let h = b.gelu(h);
    let y = b.matmul(h, w2);
    let y = b.softmax(y);
    b.output(y);
    assert_eq!(b.kinds(), [0, 1, 2, 0, 0]);
}

// --- updates ----------------------------------------------------------------------

#[test]
fn an_update_computes_what_it_writes() {
    let mut b = Builder::new("cache");
    let cache = b.donated("cache", [512, 64]);
    let x = b.parameter("x", [1, 64]);
    let i = b.typed("i", Type::scalar(DType::I32));
    let zero = b.op(
        kiln_ir::op::Constant {
            value: kiln_ir::Literal::scalar(kiln_ir::Scalar::zero(DType::I32)),
        },
        &[],
    );
    let y = b.gelu(x);
    let new = b.op(DynamicUpdateSlice, &[cache, y, i, zero]);
    b.output(new);
    let (optimized, m) = b.optimize();
    assert_eq!((m.kernels, m.updates), (1, 1));
    assert_eq!(optimized.donations, [(0, 0)]);
}

/// The base of an update is a buffer; a computed one is stored first.
#[test]
fn an_updates_base_is_in_memory() {
    let mut b = Builder::new("base");
    let x = b.parameter("x", [512]);
    let u = b.parameter("u", [4]);
    let i = b.typed("i", Type::scalar(DType::I32));
    let y = b.exp(x);
    let new = b.op(DynamicUpdateSlice, &[y, u, i]);
    b.output(new);
    assert_eq!(b.kinds(), [1, 0, 0, 1, 0]);
}

#[test]
fn a_read_at_a_run_time_start_joins_its_reader() {
    let mut b = Builder::new("slice");
    let x = b.parameter("x", [512, 64]);
    let i = b.typed("i", Type::scalar(DType::I32));
    let y = b.op(DynamicSlice { sizes: vec![8, 64] }, &[x, i, i]);
    let y = b.exp(y);
    b.output(y);
    assert_eq!(b.kinds(), [1, 0, 0, 0, 0]);
}

// --- limits -----------------------------------------------------------------------

#[test]
fn groups_stay_within_their_limits() {
    let mut b = Builder::new("many");
    let mut sum = b.parameter("p", [1024, 1024]);
    for i in 0..300 {
        let p = b.parameter(&format!("p{i}"), [1024, 1024]);
        sum = b.add(sum, p);
    }
    b.output(sum);
    let (optimized, m) = b.optimize();
    for group in &optimized.fusion.groups {
        let arguments = group.inputs(&optimized.graph).len() + group.roots.len();
        assert!(arguments <= 60, "{arguments}");
    }
    assert!(m.kernels >= 6 && m.kernels <= 14, "{m:?}");
}

#[test]
fn without_fusion_every_node_is_a_group() {
    let mut b = Builder::new("unfused");
    let x = b.parameter("x", [64, 64]);
    let y = b.softmax(x);
    b.output(y);
    let (optimized, m) = b.optimize_with(&Options { fuse: None, ..Options::default() });
    assert_eq!(optimized.fusion.groups.len(), optimized.graph.len() - 1);
    assert_eq!((m.rows, m.maps), (2, 5));
}
