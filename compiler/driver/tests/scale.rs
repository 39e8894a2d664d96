//! Large programs through the whole pipeline: what is counted does not grow as it must not.
//!
//! How long they take is what `examples/compile_speed.rs` prints.

use kiln_driver::{Compiled, Options, compile};
use kiln_ir::op::{Concatenate, Reshape, Unary};
use kiln_ir::{DType, Graph, ParameterInfo, Type, Value};

fn compiled(graph: Graph) -> Compiled {
    compile(graph, &Options::default()).expect("it compiles")
}

/// Bytes of all objects.
fn code(compiled: &Compiled) -> usize {
    compiled.executable.parts().objects.iter().map(|object| object.len()).sum()
}

/// `n` computed rows of 64 elements, joined.
fn joined(n: usize) -> Compiled {
    let mut graph = Graph::new("joined");
    let rows: Vec<Value> = (0..n)
        .map(|_| {
            let ty = Type::new(DType::F32, [64]);
            let x = graph.add_parameter(ty, ParameterInfo::default());
            let y = graph.add1(Unary::Neg, &[x], None).unwrap();
            graph.add1(Reshape { shape: [1, 64].into() }, &[y], None).unwrap()
        })
        .collect();
    let all = graph.add1(Concatenate { axis: 0 }, &rows, None).unwrap();
    graph.add_output(all, "");
    compiled(graph)
}

#[test]
fn a_thousand_pieces_are_one_launch_with_the_code_of_one() {
    let (few, many) = (joined(100), joined(1000));
    for (n, compiled) in [(100, &few), (1000, &many)] {
        let report = &compiled.report;
        assert_eq!((report.launches(), report.copies()), (1, 0));
        assert_eq!(report.memory().arena, 0);
        let traffic = report.traffic();
        assert_eq!((traffic.read, traffic.written), (256 * n, 256 * n));
    }
    // A part is a row of some numbers in a table, and addresses for the linker.
    let each = (code(&many) - code(&few)) / 900;
    assert!(each <= 128, "{each} bytes of code for each piece");
}

#[test]
fn a_long_chain_is_a_few_kernels() {
    let mut graph = Graph::new("chain");
    let ty = Type::new(DType::F32, [1 << 16]);
    let mut x = graph.add_parameter(ty, ParameterInfo::default());
    for i in 0..2_000 {
        let op = if i % 2 == 0 { Unary::Sin } else { Unary::Neg };
        x = graph.add1(op, &[x], None).unwrap();
    }
    graph.add_output(x, "");
    let report = compiled(graph).report;
    // A thousand sines, some fifteen to a kernel; equal kernels are compiled once.
    assert!((50..=150).contains(&report.launches()), "{}", report.launches());
    assert!(report.kernels().len() <= 4, "{}", report.kernels().len());
}
