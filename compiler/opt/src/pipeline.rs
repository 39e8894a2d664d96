//! The table of passes, and the driver that runs it.
//!
//! A pass decides and edits. Everything else is done here, the same for each of
//! them: verifying the graph, timing, counting changes, stopping when the fuel is
//! used up, dumping, leaving a pass out or running one alone.
//!
//! Where a pass stands is a row of [`PASSES`] with its reason; what must hold between
//! two rows is a row of [`FACTS`], checked whenever a graph is optimized.
//!
//! Refuses: names of passes that do not exist, in [`Options::skip`] and
//! [`Options::only`].

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use kiln_ir::Graph;

use crate::analysis::check;
use crate::analysis::cost::Machine;
use crate::group::Fusion;
use crate::passes::{cse, dce, donate, fuse, inline, simplify, split_complex};

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// The name in dumps, options and facts.
    pub name: &'static str,
    /// What it does.
    pub run: Run,
    /// Whether what follows cannot do without it.
    pub required: bool,
    /// Why it stands where it stands.
    pub why: &'static str,
}

/// What a pass does: one of three kinds of decision.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// Edits the graph.
    Rewrite(fn(&mut Graph, &mut PassCx)),
    /// Decides which nodes become one kernel.
    Fuse,
    /// Decides which parameter's buffer an output would best take.
    Donate,
}

/// The passes in the order in which they run.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "inline",
        run: Run::Rewrite(inline::run),
        required: true,
        why: "first: nothing else looks into calls",
    },
    Pass {
        name: "split_complex",
        run: Run::Rewrite(split_complex::run),
        required: true,
        why: "before every rule: none of them knows complex arithmetic",
    },
    Pass {
        name: "dce",
        run: Run::Rewrite(dce::run),
        required: false,
        why: "a dead reader would keep rules that want a single reader from firing",
    },
    Pass {
        name: "cse",
        run: Run::Rewrite(cse::run),
        required: false,
        why: "before simplify: rules such as x - x ask whether two operands are one value",
    },
    Pass {
        name: "simplify",
        run: Run::Rewrite(simplify::run),
        required: false,
        why: "on whole, live, shared code",
    },
    Pass {
        name: "cse",
        run: Run::Rewrite(cse::run),
        required: false,
        why: "again: different nodes may have become equal",
    },
    Pass {
        name: "dce",
        run: Run::Rewrite(dce::run),
        required: false,
        why: "again: rewrites leave their old nodes behind",
    },
    Pass {
        name: "fuse",
        run: Run::Fuse,
        required: true,
        why: "on the final graph, which groups only view",
    },
    Pass {
        name: "donate",
        run: Run::Donate,
        required: false,
        why: "last: sharing depends on the groups",
    },
];

/// What must hold between rows of the table.
#[derive(Clone, Copy, Debug)]
pub enum Fact {
    /// Every row called `.0` stands before every row called `.1`.
    Before(&'static str, &'static str, &'static str),
    /// After every row called `.0` there is one called `.1`.
    Then(&'static str, &'static str, &'static str),
}

use Fact::{Before, Then};

/// The facts, each with its reason.
pub const FACTS: &[Fact] = &[
    Before("inline", "split_complex", "bodies compute on complex numbers too"),
    Before("split_complex", "cse", "parts that two ops ask for are one value"),
    Before("split_complex", "simplify", "rules for numbers mean real ones"),
    Before("split_complex", "fuse", "kernels only move complex numbers"),
    Then("split_complex", "dce", "what was split is left whole beside its parts"),
    Before("inline", "simplify", "a call hides its body from every rule"),
    Before("inline", "cse", "equal bodies are found only where they stand side by side"),
    Before("inline", "fuse", "groups contain no calls"),
    Then("inline", "dce", "a body may compute results that the caller does not read"),
    Then("simplify", "cse", "rewriting makes nodes equal that were not"),
    Then("simplify", "dce", "rewriting leaves replaced nodes behind"),
    Then("cse", "dce", "merging leaves the other copies behind"),
    Before("simplify", "fuse", "groups view the graph: it may not change under them"),
    Before("cse", "fuse", "equal nodes in two groups would be computed and stored twice"),
    Before("dce", "fuse", "a dead reader would keep its operand in memory"),
    Before("fuse", "donate", "what a result may overwrite follows from its group"),
];

/// The first fact that the rows break, as a message.
pub fn broken_fact(passes: &[&str], facts: &[Fact]) -> Option<String> {
    let places = |name: &str| -> Vec<usize> {
        passes.iter().enumerate().filter(|(_, p)| **p == name).map(|(i, _)| i).collect()
    };
    facts.iter().find_map(|fact| {
        let (a, b, why, holds) = match *fact {
            Before(a, b, why) => {
                (a, b, why, places(a).iter().all(|i| places(b).iter().all(|j| i < j)))
            }
            Then(a, b, why) => {
                (a, b, why, places(a).iter().all(|i| places(b).iter().any(|j| i < j)))
            }
        };
        (!holds).then(|| format!("`{a}` must come before `{b}`: {why}"))
    })
}

/// What the passes do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Passes that are left out, by name. `fuse` cannot be: see [`Options::fuse`].
    pub skip: Vec<String>,
    /// Only the pass of this name rewrites the graph.
    pub only: Option<String>,
    /// How fusion weighs; `None`: every node is a group of its own.
    pub fuse: Option<Machine>,
    /// How many rewrites may happen in all: to find by bisection the one that breaks
    /// a program. `None`: as many as there are.
    pub fuel: Option<u64>,
    /// Verify the graph after every pass, and the fusion. On by default in debug builds.
    pub verify: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            skip: Vec::new(),
            only: None,
            fuse: Some(Machine::default()),
            fuel: None,
            verify: cfg!(debug_assertions),
        }
    }
}

impl Options {
    /// Every pass that can be left out left out, and no fusion.
    pub fn none() -> Options {
        let skip = ["dce", "cse", "simplify", "donate"].map(String::from).to_vec();
        Options { skip, fuse: None, ..Options::default() }
    }

    fn runs(&self, pass: &Pass) -> bool {
        let wanted = match &self.only {
            Some(only) => only == pass.name,
            None => !self.skip.iter().any(|s| s == pass.name),
        };
        wanted || pass.required
    }

    fn check(&self) -> Result<(), OptError> {
        for name in self.skip.iter().chain(&self.only) {
            match PASSES.iter().find(|p| p.name == name) {
                None => return Err(OptError::UnknownPass(name.clone())),
                Some(p) if p.required && self.skip.contains(name) => {
                    return Err(OptError::Required(p.name));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// Optimization failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OptError {
    /// The options name a pass that does not exist.
    #[error("there is no pass called `{0}`")]
    UnknownPass(String),
    /// The options leave out a pass that the rest cannot do without.
    #[error("pass `{0}` cannot be left out")]
    Required(&'static str),
    /// A pass made an invalid graph or fusion: a fault of ours.
    #[error("pass `{pass}` left the graph invalid: {message}")]
    Invalid {
        /// Which pass.
        pass: &'static str,
        /// What is wrong.
        message: String,
    },
}

/// What the passes made of a graph.
#[derive(Clone, Debug)]
pub struct Optimized {
    /// The graph after all rewrites.
    pub graph: Graph,
    /// Its groups.
    pub fusion: Fusion,
    /// Pairs (output, donated parameter) whose buffers would go well together. The
    /// memory planner decides.
    pub donations: Vec<(usize, usize)>,
    /// What each pass did, in the order in which they ran.
    pub report: Vec<PassReport>,
    /// How often each rule was applied.
    pub rewrites: BTreeMap<&'static str, u64>,
}

/// What one run of a pass did.
#[derive(Clone, Debug)]
pub struct PassReport {
    /// Which pass.
    pub name: &'static str,
    /// How long it took.
    pub time: Duration,
    /// How many rewrites, merges or wishes.
    pub changes: u64,
}

impl fmt::Display for PassReport {
    /// Without the time, so that equal programs have equal dumps.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} change{}", self.name, self.changes, plural(self.changes))
    }
}

fn plural(n: u64) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// What the driver gives a pass.
#[derive(Debug)]
pub struct PassCx {
    fuel: Option<u64>,
    changes: u64,
    rewrites: BTreeMap<&'static str, u64>,
}

impl PassCx {
    /// With this much fuel.
    pub fn new(fuel: Option<u64>) -> PassCx {
        PassCx { fuel, changes: 0, rewrites: BTreeMap::new() }
    }

    /// Asks to apply `rule` once. When the answer is no, the fuel is used up and the
    /// pass must leave things as they are.
    #[must_use]
    pub fn rewrite(&mut self, rule: &'static str) -> bool {
        if let Some(fuel) = &mut self.fuel {
            if *fuel == 0 {
                return false;
            }
            *fuel -= 1;
        }
        self.must(rule);
        true
    }

    /// Counts an edit that has no choice and uses no fuel.
    pub fn must(&mut self, rule: &'static str) {
        self.changes += 1;
        *self.rewrites.entry(rule).or_default() += 1;
    }

    /// How often each rule was applied so far.
    pub fn rewrites(&self) -> &BTreeMap<&'static str, u64> {
        &self.rewrites
    }
}

/// Runs the passes.
///
/// # Errors
/// If the options name an unknown pass, or a pass leaves something invalid behind.
pub fn optimize(graph: Graph, options: &Options) -> Result<Optimized, OptError> {
    optimize_with(graph, options, &mut |_, _, _| {})
}

/// Like [`optimize`]; calls `dump` with the graph before the first pass (as stage
/// `input`) and after each, with the fusion once there is one.
///
/// # Errors
/// As [`optimize`].
pub fn optimize_with(
    mut graph: Graph,
    options: &Options,
    dump: &mut dyn FnMut(&str, &Graph, Option<&Fusion>),
) -> Result<Optimized, OptError> {
    check_table();
    options.check()?;
    let mut cx = PassCx::new(options.fuel);
    let mut report = Vec::new();
    let mut fusion = Fusion::default();
    let mut donations = Vec::new();
    dump("input", &graph, None);
    for pass in PASSES {
        let since = Instant::now();
        cx.changes = 0;
        match pass.run {
            Run::Rewrite(run) if options.runs(pass) => run(&mut graph, &mut cx),
            Run::Rewrite(_) => continue,
            Run::Fuse => {
                fusion = match &options.fuse {
                    Some(machine) => fuse::run(&graph, machine, &mut cx),
                    None => fuse::each_alone(&graph),
                }
            }
            Run::Donate if options.runs(pass) => {
                donations = donate::run(&graph, &fusion, &mut cx);
            }
            Run::Donate => continue,
        }
        let time = since.elapsed();
        report.push(PassReport { name: pass.name, time, changes: cx.changes });
        if options.verify {
            let checked = match pass.run {
                Run::Rewrite(_) => kiln_ir::verify(&graph).map_err(|e| e.to_string()),
                Run::Fuse => check::check(&fusion, &graph),
                Run::Donate => Ok(()),
            };
            checked.map_err(|message| OptError::Invalid { pass: pass.name, message })?;
        }
        let groups = (!matches!(pass.run, Run::Rewrite(_))).then_some(&fusion);
        dump(pass.name, &graph, groups);
    }
    Ok(Optimized { graph, fusion, donations, report, rewrites: cx.rewrites })
}

/// Panics when the table breaks a fact. A few hundred comparisons: nothing beside the
/// rest.
fn check_table() {
    let names: Vec<&str> = PASSES.iter().map(|p| p.name).collect();
    if let Some(message) = broken_fact(&names, FACTS) {
        panic!("the table of passes is out of order: {message}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_keeps_its_facts() {
        let names: Vec<&str> = PASSES.iter().map(|p| p.name).collect();
        assert_eq!(broken_fact(&names, FACTS), None);
        for fact in FACTS {
            let (Before(a, b, _) | Then(a, b, _)) = fact;
            assert!(names.contains(a) && names.contains(b), "{fact:?} names no pass");
        }
    }

    #[test]
    fn a_broken_fact_is_found() {
        let facts = [Before("a", "b", "why")];
        assert_eq!(broken_fact(&["a", "b"], &facts), None);
        let message = broken_fact(&["a", "b", "a"], &facts).unwrap();
        assert_eq!(message, "`a` must come before `b`: why");
        assert!(broken_fact(&["b", "a"], &[Then("a", "b", "")]).is_some());
        assert_eq!(broken_fact(&["b", "a", "b"], &[Then("a", "b", "")]), None);
    }

    #[test]
    fn fuel_runs_out() {
        let mut cx = PassCx::new(Some(2));
        assert!(cx.rewrite("a") && cx.rewrite("b") && !cx.rewrite("a"));
        assert_eq!(cx.rewrites().values().sum::<u64>(), 2);
    }
}
