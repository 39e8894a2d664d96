//! Fusion where a file cannot say it: large programs, limits, options. What fuses and
//! what does not is in `tests/files/opt/fuse`.

mod support;

use kiln_ir::op::{Binary, Unary};
use kiln_opt::Options;
use support::Builder;

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
