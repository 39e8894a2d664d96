//! Random programs of the fuzzer, through the passes: the graph keeps its meaning
//! after each pass alone and after all, with any amount of fuel, and every fusion
//! keeps its promises.

// The generator is the fuzzer's; its crate compiles kernels, which is not needed here.
#[path = "../../../tests/fuzz/src/generate.rs"]
#[allow(dead_code, clippy::manual_is_multiple_of)]
mod generate;
#[path = "../../../tests/fuzz/src/random.rs"]
#[allow(dead_code)]
mod random;

use generate::{Program, generate};
use kiln_ir::op::Unary;
use kiln_ir::{Graph, Literal, Op, Scalar, Value, eval};
use kiln_opt::check::check;
use kiln_opt::{Options, optimize};
use random::Random;

fn same(a: &Literal, b: &Literal) -> bool {
    let part = |x: Scalar, y: Scalar| x == y || x.is_nan() && y.is_nan();
    let each = |(x, y): (Scalar, Scalar)| part(x.real(), y.real()) && part(x.imag(), y.imag());
    a.ty() == b.ty() && a.iter().zip(b.iter()).all(each)
}

/// Whether a function of complex numbers is among the ops: taken apart, it means the
/// same within a bound, not to the bit.
fn has_complex_functions(graph: &Graph) -> bool {
    graph.order().into_iter().any(|node| match graph.op(node) {
        Op::Call(call) => has_complex_functions(&call.graph),
        Op::Unary(f) => {
            let complex = |v: &Value| graph.ty(*v).dtype.is_complex();
            graph.operands(node).iter().any(complex) && !matches!(f, Unary::Neg | Unary::IsFinite)
        }
        _ => false,
    })
}

/// Optimizes with these options; what comes out must mean what went in.
fn keeps_meaning(seed: u64, program: &Program, wanted: &[Literal], options: &Options) -> Graph {
    let optimized = optimize(program.graph.clone(), options)
        .unwrap_or_else(|e| panic!("seed {seed}: {e} with {options:?}"));
    if let Err(e) = check(&optimized.fusion, &optimized.graph) {
        panic!("seed {seed}: {e} with {options:?}");
    }
    let given = eval(&optimized.graph, &program.arguments).expect("arguments fit");
    for (o, (a, b)) in given.iter().zip(wanted).enumerate() {
        if has_complex_functions(&program.graph) {
            assert_eq!(a.ty(), b.ty(), "seed {seed}: output {o}");
            continue;
        }
        assert!(same(a, b), "seed {seed}: output {o} changed with {options:?}");
    }
    assert_eq!(given.len(), wanted.len());
    optimized.graph
}

#[test]
fn passes_keep_meaning() {
    for seed in 0..150 {
        let program = generate(seed);
        let wanted = eval(&program.graph, &program.arguments).expect("arguments fit");
        keeps_meaning(seed, &program, &wanted, &Options::default());
        keeps_meaning(seed, &program, &wanted, &Options::none());
        if seed % 5 == 0 {
            for pass in ["inline", "split_complex", "dce", "cse", "simplify", "fuse", "donate"] {
                let only = Options { only: Some(pass.into()), ..Options::default() };
                keeps_meaning(seed, &program, &wanted, &only);
            }
        }
        if seed % 3 == 0 {
            let fuel = Some(seed / 3);
            keeps_meaning(seed, &program, &wanted, &Options { fuel, ..Options::default() });
        }
    }
}

/// Optimizing twice finds nothing new in the graph, and the same program gives the
/// same groups each time.
#[test]
fn optimizing_is_idempotent_and_repeatable() {
    for seed in 1000..1150 {
        let program = generate(seed);
        let first = optimize(program.graph.clone(), &Options::default()).expect("optimizes");
        let again = optimize(program.graph, &Options::default()).expect("optimizes");
        assert_eq!(first.fusion.groups, again.fusion.groups, "seed {seed}");
        let second = optimize(first.graph.clone(), &Options::default()).expect("optimizes");
        let rewritten: Vec<_> = second
            .rewrites
            .keys()
            .filter(|rule| !rule.starts_with("fuse.") && !rule.starts_with("donate."))
            .collect();
        assert!(rewritten.is_empty(), "seed {seed}: {rewritten:?} again");
    }
}

#[test]
fn generator_draws_are_used() {
    // The random source is deterministic: the seeds above always mean these programs.
    let (mut a, mut b) = (Random::new(7), Random::new(7));
    assert_eq!(a.below(1 << 30), b.below(1 << 30));
}
