//! `explain`, `dump`, and programs compiled ahead of time.

use std::fmt::Write as _;
use std::sync::Arc;

use kiln_executable::Memory;
use kiln_ir::{Graph, Op};

use super::Jit;
use crate::cache::{Entry, EntryInfo};
use crate::compile::{Stage, Work};
use crate::tree::KeyWriter;
use crate::{Error, Feed, Tree};

/// A host constant of at least this many bytes is worth a warning: it is stored in
/// the program, and a parameter would not be.
const LARGE_CONSTANT: usize = 1 << 20;

/// A traced function: what `lower` returns.
#[derive(Clone, Debug)]
pub struct Lowered {
    graph: Graph,
}

impl Lowered {
    /// The graph as text.
    pub fn text(&self) -> String {
        self.graph.to_string()
    }

    /// Number of nodes, parameters included.
    pub fn nodes(&self) -> usize {
        self.graph.len()
    }
}

/// A compiled function for arguments of certain types: what `compile` returns.
#[derive(Clone)]
pub struct Program {
    entry: Arc<Entry>,
}

impl Program {
    /// The cache's view of it: key, arguments, times, bytes.
    pub fn info(&self) -> EntryInfo {
        crate::cache::info(&self.entry)
    }

    /// Launches, copies and traffic of one run.
    pub fn work(&self) -> Work {
        self.entry.built.compiled.work()
    }

    /// Bytes of parameters, outputs, constants and temporaries, and the least bytes
    /// that the temporaries could take.
    pub fn memory(&self) -> Memory {
        self.entry.built.compiled.memory()
    }

    /// Bytes held while it runs: inputs, outputs, constants and temporaries.
    pub fn peak_bytes(&self) -> u64 {
        self.entry.built.compiled.memory().peak()
    }

    /// The program at a stage, as text.
    ///
    /// # Errors
    /// If the program does not go through that stage.
    pub fn dump(&self, stage: Stage) -> Result<String, Error> {
        self.entry.built.compiled.dump(stage)
    }

    /// Kernels, plan, peak bytes, donations and constants, for people.
    pub fn explain(&self) -> String {
        let built = &self.entry.built;
        let compiled = &built.compiled;
        let graph = compiled.graph();
        let mut text = format!("{}\n", self.entry.function);
        for (path, value) in &built.origin.fields {
            _ = writeln!(text, "  {path}: {value}");
        }
        text.push_str(&compiled.explain());
        let explicit = graph.parameters().len() - built.captures.len();
        for (i, parameter) in graph.parameters().enumerate().skip(explicit) {
            let name = &graph.parameter_info(i).name;
            _ = writeln!(text, "captured: {name}: {}, a hidden parameter", graph.ty(parameter));
        }
        for line in constants(graph) {
            _ = writeln!(text, "{line}");
        }
        text
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Program").field(&self.info()).finish()
    }
}

/// A line for each constant that is more than a number.
fn constants(graph: &Graph) -> Vec<String> {
    let lines = graph.order().into_iter().filter_map(|node| match graph.op(node) {
        Op::Constant(c) if c.value.ty().elements() > 1 => {
            let (ty, bytes) = (c.value.ty(), c.value.ty().bytes());
            let source = graph.source(node).map(|s| format!(" at {s}")).unwrap_or_default();
            let warning = match bytes >= LARGE_CONSTANT {
                true => "; warning: large, pass it as an argument instead",
                false => "",
            };
            Some(format!("captured: {ty}, {bytes} B of host data{source}{warning}"))
        }
        _ => None,
    });
    lines.collect()
}

impl<Args, R: Tree> Jit<Args, R> {
    pub(super) fn lower_tuple<F: Feed<Args>>(&self, feed: &F) -> Result<Lowered, Error> {
        // Arguments that cannot be those of a call have no placeholders either.
        let mut key = KeyWriter::default();
        feed.key(&mut key);
        key.take_error().map_or(Ok(()), Err)?;
        Ok(Lowered { graph: self.trace_for(feed)?.graph })
    }

    pub(super) fn compile_tuple<F: Feed<Args>>(&self, feed: &F) -> Result<Program, Error> {
        Ok(Program { entry: self.entry_for(feed)? })
    }
}

impl<Args, R> Jit<Args, R> {
    /// The programs this function has been compiled to, the longest unused first.
    pub fn programs(&self) -> Vec<Program> {
        self.core.table.entries().into_iter().map(|entry| Program { entry }).collect()
    }

    /// Kernels, plan, peak bytes, donations and constants of each program this
    /// function has been compiled to.
    pub fn explain(&self) -> String {
        let programs = self.programs();
        if programs.is_empty() {
            return format!("{}: not called yet\n", self.name());
        }
        programs.iter().map(Program::explain).collect::<Vec<_>>().join("\n")
    }

    /// The program used last, at a stage, as text.
    ///
    /// # Errors
    /// If the function has not been called, or its program does not go through that
    /// stage.
    pub fn dump(&self, stage: Stage) -> Result<String, Error> {
        match self.programs().last() {
            Some(program) => program.dump(stage),
            None => {
                let message = format!("`{}` has not been called or compiled yet", self.name());
                Err(Error::user(message).with_source(self.core.at.source()))
            }
        }
    }

    /// How many times the function has been compiled and kept.
    pub fn compile_count(&self) -> usize {
        self.core.table.entries().len()
    }

    /// Why the last new program was not served by an earlier one: the fields of the
    /// key that differ from the nearest.
    pub fn why(&self) -> Option<String> {
        self.programs().iter().map(|p| p.info()).next_back().map(|info| info.why)
    }
}
