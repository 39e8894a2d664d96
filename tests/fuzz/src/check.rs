//! One random program, run in every way, and compared.
//!
//! | compared | must be |
//! |---|---|
//! | interpreter and unfused | equal where exact, near where rough |
//! | unfused and fused | equal to the bit, rough or not |
//! | one thread and two | equal to the bit |
//! | arguments donated and kept | equal to the bit |
//! | first run and second | equal to the bit |
//! | the program and a [variant](crate::variant) of it | equal to the bit |

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use kiln_driver::Isa;
use kiln_ir::{DType, Literal, Scalar};

use crate::compare::{Closeness, difference};
use crate::execute::{Way, build, run};
use crate::generate::{Program, generate};
use crate::random::Random;
use crate::shrink::{shrink, to_file};
use crate::variant::Variant;

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

/// What is wrong with a program, or with Kiln.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Which comparison failed. Shrinking keeps it.
    pub kind: Kind,
    /// What differed, where.
    pub message: String,
}

/// Which comparison failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The program itself is not valid: the generator's fault.
    Invalid,
    /// It did not compile op by op.
    UnfusedBuild,
    /// Compiled op by op it is not what the interpreter says.
    Unfused,
    /// It did not compile with passes and fusion.
    FusedBuild,
    /// Fused, split between threads, donated or run again, it has other bits.
    Fused,
    /// Said in other words it has other bits.
    Variant,
    /// Something panicked.
    Panic,
}

impl Kind {
    fn with(self, message: impl std::fmt::Display) -> Failure {
        Failure { kind: self, message: message.to_string() }
    }
}

/// How a program is checked: drawn for each seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Instructions.
    pub isa: Isa,
    /// The variant that the program is compared with.
    pub variant: Variant,
    /// What the variant draws from.
    pub seed: u64,
}

impl Setting {
    /// The setting of a seed.
    pub fn of(seed: u64) -> Setting {
        let mut random = Random::new(seed ^ 0x5eed);
        let levels = [Isa::V2, Isa::V3, Isa::V4].into_iter().filter(|isa| isa.is_supported());
        let isa = random.pick(&levels.collect::<Vec<Isa>>());
        let variant = random.pick(&Variant::ALL);
        Setting { isa, variant, seed: random.bits() }
    }
}

/// Checks the program of `seed`.
///
/// # Errors
/// What differed, with the seed, the setting and the program's text.
pub fn check_seed(seed: u64) -> Result<Tally, String> {
    let (program, setting) = (generate(seed), Setting::of(seed));
    check(&program, setting).map_err(|Failure { kind, message }| {
        format!("seed {seed}, {setting:?}, {kind:?}: {message}\n{}", program.graph)
    })
}

/// The program of a failing seed, made small: the text of a file test, or the reason why
/// there is none.
pub fn shrink_seed(seed: u64, time: Duration) -> Result<String, String> {
    let setting = Setting::of(seed);
    let program = generate(seed);
    let Err(Failure { kind, .. }) = check(&program, setting) else {
        return Err("it does not fail".into());
    };
    let same = |p: &Program| check(p, setting).is_err_and(|f| f.kind == kind);
    // A failure that is a panic is repeated many times over: once was enough to read.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let small = shrink(program, time, same);
    std::panic::set_hook(hook);
    let message = check(&small, setting).err().map_or(String::new(), |f| f.message);
    to_file(&small, &format!("Seed {seed}, {setting:?}, {kind:?}: {message}"))
}

/// Checks one program. A panic is a failure like another.
///
/// # Errors
/// What differed.
pub fn check(program: &Program, setting: Setting) -> Result<Tally, Failure> {
    let checked = catch_unwind(AssertUnwindSafe(|| compare(program, setting)));
    checked.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(Kind::Panic.with(text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?")))
    })
}

fn compare(program: &Program, setting: Setting) -> Result<Tally, Failure> {
    let Program { graph, arguments, exact } = program;
    let Setting { isa, variant, seed } = setting;
    kiln_ir::verify(graph).map_err(|e| Kind::Invalid.with(e))?;
    let want = kiln_ir::eval(graph, arguments).map_err(|e| Kind::Invalid.with(e))?;

    let plain = Way { isa, fused: false, threads: 1, donate: false };
    let compiled = build(graph, plain).map_err(|e| Kind::UnfusedBuild.with(e))?;
    let unfused = run(&compiled, plain, arguments, 1).map_err(|e| Kind::Unfused.with(e))?;
    let mut tally = Tally { nodes: graph.len(), ..Tally::default() };
    for (o, ((want, got), &exact)) in want.iter().zip(&unfused).zip(exact).enumerate() {
        let closeness = if exact { Closeness::Exact } else { rough(want) };
        if let Some(difference) = difference(want, got, closeness) {
            return Err(Kind::Unfused.with(format!("output {o} (exact: {exact}): {difference}")));
        }
        if exact { tally.exact += 1 } else { tally.rough += 1 }
    }

    let same = |kind: Kind, what: &dyn std::fmt::Debug, got: &[Literal]| {
        for (o, (want, got)) in unfused.iter().zip(got).enumerate() {
            if let Some(difference) = difference(want, got, Closeness::Exact) {
                let message = format!("{what:?}, output {o} against unfused: {difference}");
                return Err(kind.with(message));
            }
        }
        Ok(())
    };
    let fused = Way { fused: true, ..plain };
    let compiled = build(graph, fused).map_err(|e| Kind::FusedBuild.with(e))?;
    tally.launches = compiled.report.launches();
    for (threads, donate, times) in [(1, false, 1), (2, true, 2), (1, true, 1)] {
        let way = Way { threads, donate, ..fused };
        let got = run(&compiled, way, arguments, times).map_err(|e| Kind::Fused.with(e))?;
        same(Kind::Fused, &way, &got)?;
    }
    let got = variant.run(program, fused, seed).map_err(|e| Kind::Variant.with(e))?;
    same(Kind::Variant, &variant, &got)?;
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
    let parts = |x: Scalar| match x.dtype().is_complex() {
        true => [x.real(), x.imag()],
        false => [x, x],
    };
    let magnitudes = want.iter().flat_map(parts).map(|x| x.as_f64().abs());
    let largest = magnitudes.filter(|x| x.is_finite()).fold(1.0, f64::max);
    let relative = match want.ty().dtype {
        DType::F16 => 2e-2,
        DType::BF16 => 1e-1,
        _ => 1e-3,
    };
    Closeness::Near { ulps: 64.0, absolute: relative * largest }
}
