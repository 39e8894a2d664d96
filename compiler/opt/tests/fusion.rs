//! What fuses and what does not, by counts of kernels.

mod support;

use kiln_ir::op::{Binary, Compare, Iota, Unary};
use kiln_ir::{DType, Type};
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
