//! The compile pipeline: from a graph to an executable.
//!
//! ```text
//! Graph ─ optimize ─▶ Fusion ─ lower ─▶ kernels ─ plan ─▶ Plan ─ code ─▶ Executable
//! ```
//!
//! [`compile`] runs it and returns the executable with a [`Report`]: everything
//! that the stages decided, kept as data, from which `explain` and the dumps are
//! made. It does no IO and reads no environment; the façade does both.

#![forbid(unsafe_code)]

mod assemble;
mod memory;
mod report;
mod unread;

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use kiln_codegen::kernel::{Kernel, Structure};
use kiln_codegen::llvm;
use kiln_codegen::lower::{LowerError, lower};
use kiln_executable::{CheckError, Executable, Traffic};
use kiln_ir::Graph;
use kiln_opt::{OptError, Optimized};
use kiln_plan::check::Unsound;
use kiln_plan::problem::Malformed;

pub use kiln_codegen::llvm::{Isa, OrcLoader};
pub use report::{Report, Stage};

/// How to compile.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the passes do.
    pub opt: kiln_opt::Options,
    /// What code generation does.
    pub code: llvm::Options,
    /// Replay every plan in the independent checker. On by default in debug builds.
    pub check_plans: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            opt: kiln_opt::Options::default(),
            code: llvm::Options::default(),
            check_plans: cfg!(debug_assertions),
        }
    }
}

impl Options {
    /// Everything that can change the code, as text: part of cache keys.
    pub fn key(&self) -> String {
        format!("{:?} {:?}", self.opt, self.code)
    }
}

/// A compiled graph.
#[derive(Debug)]
pub struct Compiled {
    /// What the runtime runs.
    pub executable: Executable,
    /// What the compiler decided.
    pub report: Report,
    /// Time of each phase, in order.
    pub times: Vec<(&'static str, Duration)>,
}

/// Compilation failed.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// A pass failed or made an invalid graph.
    #[error(transparent)]
    Optimize(#[from] OptError),
    /// A group could not be lowered.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The planner was asked something malformed: a fault of ours.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The planner answered with an unsound plan: a fault of ours.
    #[error(transparent)]
    Unsound(#[from] Unsound),
    /// LLVM did not compile a kernel.
    #[error(transparent)]
    Code(#[from] llvm::CompileError),
    /// The parts do not fit together: a fault of ours.
    #[error(transparent)]
    Assemble(#[from] CheckError),
}

/// Compiles `graph`.
///
/// # Errors
/// If a stage fails. Invalid user programs are refused before this point, so what
/// is left is an unsupported combination, a toolchain failure, or a fault of ours.
pub fn compile(graph: Graph, options: &Options) -> Result<Compiled, CompileError> {
    let mut times = Vec::new();
    let mut timed = Timed { times: &mut times, since: Instant::now() };

    let traced = graph.clone();
    let Optimized { graph, fusion, donations, report: passes, .. } =
        kiln_opt::optimize(graph, &options.opt)?;
    timed.lap("optimize");

    let lowered: Vec<_> =
        fusion.groups.iter().map(|group| lower(&graph, group)).collect::<Result<_, _>>()?;
    let (kernels, kernel_of) = distinct(&lowered);
    let traffic: Vec<Traffic> = kernels.iter().map(kiln_codegen::kernel::traffic).collect();
    timed.lap("lower");

    let layout = memory::layout(&graph, &fusion, &lowered, &donations);
    let plan = kiln_plan::plan(&layout.problem)?;
    if options.check_plans {
        kiln_plan::check::check(&layout.problem, &plan)?;
    }
    timed.lap("plan");

    let unread = unread::unread(&layout, &plan, &kernels, &kernel_of);
    let code = llvm::compile_jobs(&report::jobs(&kernels, &unread), &options.code)?;
    timed.lap("code");

    let executable = assemble::assemble(assemble::Pieces {
        graph: &graph,
        layout: &layout,
        plan: &plan,
        kernels: &kernels,
        kernel_of: &kernel_of,
        traffic: &traffic,
        code,
    })?;
    let report = Report {
        traced,
        graph,
        fusion,
        kernels,
        kernel_of,
        unread,
        layout,
        plan,
        passes,
        code: options.code.clone(),
        traffic,
        memory: executable.parts().memory,
    };
    Ok(Compiled { executable, report, times })
}

/// Notes how long each phase took.
struct Timed<'a> {
    times: &'a mut Vec<(&'static str, Duration)>,
    since: Instant,
}

impl Timed<'_> {
    fn lap(&mut self, phase: &'static str) {
        let now = Instant::now();
        self.times.push((phase, now - self.since));
        self.since = now;
    }
}

/// The kernels of all launches, equal ones once, and for each group and launch
/// which it is.
fn distinct(lowered: &[kiln_codegen::lower::Lowered]) -> (Vec<Kernel>, Vec<Vec<usize>>) {
    let mut kernels: Vec<Kernel> = Vec::new();
    let mut known: HashMap<Structure<'_>, usize> = HashMap::new();
    let kernel_of = lowered
        .iter()
        .map(|group| {
            group
                .launches
                .iter()
                .map(|launch| {
                    *known.entry(Structure(&launch.kernel)).or_insert_with(|| {
                        kernels.push(launch.kernel.clone());
                        kernels.len() - 1
                    })
                })
                .collect()
        })
        .collect();
    (kernels, kernel_of)
}
