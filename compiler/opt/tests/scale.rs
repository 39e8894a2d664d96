//! Programs whose naive handling is slow: long chains, shared diamonds, many nodes.
//!
//! Each finishes in well under a second in release builds; here the counts are
//! asserted and the clock is not.

mod support;

use std::sync::Arc;

use kiln_ir::op::{Binary, Call, Concatenate, Reduce, ReduceKind, Unary};
use kiln_ir::{Graph, Value};
use support::Builder;

/// K77: x_{k+1} = x_k + x_k. Walked as a tree it has 2^256 leaves.
#[test]
fn doubling_is_one_kernel() {
    let mut b = Builder::new("doubling");
    let mut x = b.parameter("x", [1024]);
    for _ in 0..256 {
        x = b.add(x, x);
    }
    b.output(x);
    assert_eq!(b.kernels_quietly(), 1);
}

/// K77: pairs in which each reads both of the level before.
#[test]
fn connected_pairs_are_few_kernels() {
    let mut b = Builder::new("pairs");
    let (mut x, mut y) = (b.parameter("x", [1024]), b.parameter("y", [1024]));
    for _ in 0..200 {
        (x, y) = (b.add(x, y), b.sub(x, y));
    }
    b.output(x);
    b.output(y);
    assert!(b.kernels_quietly() <= 4);
}

/// Views shared by views: written out at each reader there would be 2^60 of them.
#[test]
fn doubling_by_concatenation_stays_small() {
    let mut b = Builder::new("concatenations");
    let mut x = b.parameter("x", [2]);
    for _ in 0..16 {
        let y = b.op(Concatenate { axis: 0 }, &[x, x]);
        x = b.unary(Unary::Neg, y);
    }
    b.output(x);
    let (optimized, m) = b.optimize();
    let members: usize = optimized.fusion.groups.iter().map(|g| g.members.len()).sum();
    assert!(members <= 4 * optimized.graph.len(), "{members} members");
    assert!(m.kernels <= 16);
}

#[test]
fn a_chain_of_ten_thousand_maps() {
    let mut b = Builder::new("chain");
    let mut x = b.parameter("x", [1 << 20]);
    for i in 0..10_000 {
        x = b.unary(if i % 2 == 0 { Unary::Sin } else { Unary::Neg }, x);
    }
    b.output(x);
    let kernels = b.kernels_quietly();
    // 5,000 sines, 512 operations to a kernel.
    assert!((300..=700).contains(&kernels), "{kernels}");
}

#[test]
fn ten_thousand_shared_maps() {
    let mut b = Builder::new("diamonds");
    let mut x = b.parameter("x", [1 << 20]);
    for _ in 0..3_300 {
        let y = b.unary(Unary::Neg, x);
        let z = b.unary(Unary::Abs, x);
        x = b.mul(y, z);
    }
    b.output(x);
    let kernels = b.kernels_quietly();
    assert!((15..=60).contains(&kernels), "{kernels}");
}

/// A value that ten thousand nodes read.
#[test]
fn ten_thousand_readers() {
    let mut b = Builder::new("readers");
    let x = b.parameter("x", [64]);
    let s = b.op(Reduce { kind: ReduceKind::Sum, axes: vec![0] }, &[x]);
    for i in 0..5_000 {
        let p = b.parameter(&format!("p{i}"), [64]);
        let s = b.spread(s, p, &[]);
        let y = b.binary(Binary::Mul, p, s);
        b.output(y);
    }
    let (_, m) = b.optimize();
    assert!(m.kernels <= 1 + 5_000usize.div_ceil(64), "{m:?}");
}

/// Launches that parts share stay of a size that compiles.
#[test]
fn shared_launches_are_bounded() {
    let mut b = Builder::new("parts");
    for i in 0..40 {
        let x = b.parameter(&format!("x{i}"), [64 + i]);
        let mut y = x;
        for _ in 0..10 {
            y = b.unary(Unary::Sin, y);
        }
        b.output(y);
    }
    let (_, m) = b.optimize();
    // 40 times 320 operations, 2,048 to a launch.
    assert_eq!((m.kernels, m.togethers), (7, 7));
}

/// A thousand computed rows become one array: each is computed where it belongs.
#[test]
fn a_thousand_pieces_are_one_kernel() {
    let mut b = Builder::new("pieces");
    let mut rows = Vec::new();
    for i in 0..1000 {
        let x = b.parameter(&format!("x{i}"), [64]);
        let y = b.times(f64::from(i), x);
        let y = b.plus(1.0, y);
        rows.push(b.reshape(y, [1, 64]));
    }
    let joined = b.op(Concatenate { axis: 0 }, &rows);
    b.output(joined);
    let (optimized, m) = b.optimize();
    assert_eq!((m.kernels, m.maps), (1, 1));
    assert_eq!(optimized.rewrites["fuse.join"], 1000);
    assert_eq!(m.bytes, 2 * 4 * 64 * 1000, "each row is read and written once");
    let members: usize = optimized.fusion.groups.iter().map(|g| g.members.len()).sum();
    assert!(members <= optimized.graph.len(), "nothing is computed twice");
}

/// Elsewhere than in front of maps, elements choose between few pieces only.
#[test]
fn long_concatenations_are_not_chosen_from() {
    for pieces in [8, 40] {
        let mut b = Builder::new("chosen");
        let mut rows: Vec<Value> = Vec::new();
        for i in 0..pieces {
            rows.push(b.parameter(&format!("x{i}"), [4, 32]));
        }
        let joined = b.op(Concatenate { axis: 1 }, &rows);
        let y = b.softmax(joined);
        b.output(y);
        let (_, m) = b.optimize();
        assert_eq!((m.rows, m.kernels), (1, if pieces == 8 { 1 } else { 2 }), "{pieces}");
    }
}

/// Calls a thousand deep are inlined without a stack a thousand deep.
#[test]
fn deep_calls_are_inlined() {
    let mut callee: Option<Arc<Graph>> = None;
    for depth in 0..1000 {
        let mut b = Builder::new(&format!("f{depth}"));
        let x = b.parameter("x", [4]);
        let y = match callee.take() {
            Some(graph) => b.op(Call::new(graph), &[x]),
            None => x,
        };
        let y = b.unary(Unary::Sin, y);
        b.output(y);
        callee = Some(Arc::new(b.graph));
    }
    let graph = Graph::clone(&callee.expect("made above"));
    let optimized = kiln_opt::optimize(graph, &kiln_opt::Options::default()).expect("optimizes");
    assert_eq!(optimized.graph.len(), 1001);
    assert_eq!(optimized.rewrites["inline.call"], 999);
}

/// A deep network of dense layers and normalisations.
#[test]
fn a_thousand_layers() {
    let mut b = Builder::new("deep");
    let mut x = b.parameter("x", [64, 64]);
    let layers = 500;
    for i in 0..layers {
        let w = b.parameter(&format!("w{i}"), [64, 64]);
        let h = b.matmul(x, w);
        let h = b.add(h, x);
        x = b.softmax(h);
    }
    b.output(x);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.contractions, m.rows), (2 * layers, layers, layers));
}
