//! One random program, run in every way, and compared.
//!
//! | compared | must be |
//! |---|---|
//! | interpreter and unfused | equal where exact, near where rough |
//! | unfused and fused | equal to the bit, rough or not |
//! | one thread and two | equal to the bit |
//! | arguments donated and kept | equal to the bit |
//! | first run and second | equal to the bit |

use kiln_driver::Isa;
use kiln_ir::{DType, Literal};

use crate::compare::{Closeness, difference};
use crate::execute::{Way, build, run};
use crate::generate::{Program, generate};
use crate::random::Random;

/// What a clean program did, for counting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Nodes of the graph.
    pub nodes: usize,
    /// Outputs compared with the interpreter to the bit.
    pub exact: usize,
    /// Outputs compared with the interpreter within a tolerance.
    pub rough: usize,
    /// Kernel launches of the fused program.
    pub launches: usize,
}

/// Checks the program of `seed`.
///
/// # Errors
/// What differed, with the seed, the way and the program's text.
pub fn check_seed(seed: u64) -> Result<Tally, String> {
    let program = generate(seed);
    let isa = level(seed);
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&program, isa)));
    let checked = checked.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("panic: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?")))
    });
    checked.map_err(|message| format!("seed {seed} on {isa:?}: {message}\n{}", program.graph))
}

/// The instruction set that the program of a seed is checked on.
pub fn level(seed: u64) -> Isa {
    let levels: Vec<Isa> =
        [Isa::V2, Isa::V3, Isa::V4].into_iter().filter(|isa| isa.is_supported()).collect();
    Random::new(seed ^ 0x5eed).pick(&levels)
}

/// Checks one program on one instruction set.
///
/// # Errors
/// What differed.
pub fn check(program: &Program, isa: Isa) -> Result<Tally, String> {
    let Program { graph, arguments, exact } = program;
    kiln_ir::verify(graph).map_err(|e| format!("the program is invalid: {e}"))?;
    let want = kiln_ir::eval(graph, arguments).map_err(|e| e.to_string())?;

    let plain = Way { isa, fused: false, threads: 1, donate: false };
    let compiled = build(graph, plain).map_err(|e| format!("unfused: {e}"))?;
    let unfused = run(&compiled, plain, arguments, 1)?;
    let mut tally = Tally { nodes: graph.len(), ..Tally::default() };
    for (o, ((want, got), &exact)) in want.iter().zip(&unfused).zip(exact).enumerate() {
        let closeness = if exact { Closeness::Exact } else { rough(want) };
        if let Some(difference) = difference(want, got, closeness) {
            return Err(format!("unfused, output {o} (exact: {exact}): {difference}"));
        }
        if exact { tally.exact += 1 } else { tally.rough += 1 }
    }

    let fused = Way { fused: true, ..plain };
    let compiled = build(graph, fused).map_err(|e| format!("fused: {e}"))?;
    tally.launches = compiled.report.launches();
    for (threads, donate, times) in [(1, false, 1), (2, true, 2), (1, true, 1)] {
        let way = Way { threads, donate, ..fused };
        let got = run(&compiled, way, arguments, times)?;
        for (o, (want, got)) in unfused.iter().zip(&got).enumerate() {
            if let Some(difference) = difference(want, got, Closeness::Exact) {
                return Err(format!("{way:?}, output {o} against unfused: {difference}"));
            }
        }
    }
    Ok(tally)
}

/// The first node of a failing program whose own value already differs when it is the
/// only output, for people: inlined, in order, with its operands.
pub fn first_difference(program: &Program, isa: Isa) -> Option<String> {
    let options = kiln_opt::Options::none();
    let graph = kiln_opt::optimize(program.graph.clone(), &options).ok()?.graph;
    let way = Way { isa, fused: false, threads: 1, donate: false };
    for node in graph.order() {
        if graph.parameter_index(node).is_some() {
            continue;
        }
        for value in graph.results(node) {
            let mut alone = graph.clone();
            for o in 0..alone.outputs().len() {
                alone.set_output(o, value);
            }
            let want = kiln_ir::eval(&alone, &program.arguments).ok()?;
            let got = build(&alone, way).and_then(|c| run(&c, way, &program.arguments, 1));
            let message = match got {
                Ok(got) => difference(&want[0], &got[0], rough(&want[0])),
                Err(message) => Some(message),
            };
            if let Some(message) = message {
                let op = graph.op(node);
                return Some(format!("first at {op} {:?}: {message}\n{alone}", graph.types(node)));
            }
        }
    }
    None
}

/// How near a rough output must be: a fraction of the largest element, since sums
/// cancel, and generous units in the last place for what was rounded on the way.
fn rough(want: &Literal) -> Closeness {
    let largest =
        want.iter().map(|s| s.as_f64().abs()).filter(|x| x.is_finite()).fold(1.0, f64::max);
    let relative = match want.ty().dtype {
        DType::F16 => 2e-2,
        DType::BF16 => 1e-1,
        _ => 1e-3,
    };
    Closeness::Near { ulps: 64.0, absolute: relative * largest }
}
