//! What the compiler decided, as text.
//!
//! [`Report::explain`] answers the questions a user asks of a compiled function:
//! which kernels run, what they read and write, how much memory a run needs, which
//! donated parameters were reused, and what was copied and why. [`Report::dump`]
//! shows one stage whole.

use std::fmt::Write;

use kiln_codegen::kernel::Kernel;
use kiln_codegen::llvm;
use kiln_executable::{Memory, Traffic};
use kiln_ir::{Graph, Op, Value};
use kiln_opt::{Fusion, Kind, PassReport};
use kiln_plan::{Action, BufferId, Origin, OutputPlace, Plan};

use crate::memory::{Layout, Meaning};

/// A stage that can be dumped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// The graph as traced.
    Graph,
    /// The optimized graph with its fusion groups.
    Fused,
    /// The memory plan.
    Plan,
    /// The kernel IR.
    Kernel,
    /// LLVM IR.
    Llvm,
    /// Machine code as text.
    Asm,
    /// The optimized graph for Graphviz, a cluster for each group.
    Dot,
}

impl Stage {
    /// Every stage, in pipeline order.
    pub const ALL: [Stage; 7] = [
        Stage::Graph,
        Stage::Fused,
        Stage::Plan,
        Stage::Kernel,
        Stage::Llvm,
        Stage::Asm,
        Stage::Dot,
    ];

    /// The name in `KILN_DUMP`.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Graph => "graph",
            Stage::Fused => "fused",
            Stage::Plan => "plan",
            Stage::Kernel => "kernel",
            Stage::Llvm => "llvm",
            Stage::Asm => "asm",
            Stage::Dot => "dot",
        }
    }

    /// The stage called `name`.
    pub fn from_name(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|s| s.name() == name)
    }

    /// The extension of a dump file.
    pub const fn extension(self) -> &'static str {
        match self {
            Stage::Graph | Stage::Fused => "kiln",
            Stage::Plan | Stage::Kernel => "txt",
            Stage::Llvm => "ll",
            Stage::Asm => "s",
            Stage::Dot => "dot",
        }
    }
}

/// Everything the stages decided.
#[derive(Debug)]
pub struct Report {
    pub(crate) traced: Graph,
    pub(crate) graph: Graph,
    pub(crate) fusion: Fusion,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) kernel_of: Vec<Vec<usize>>,
    pub(crate) unread: Vec<Vec<bool>>,
    pub(crate) layout: Layout,
    pub(crate) plan: Plan,
    pub(crate) passes: Vec<PassReport>,
    pub(crate) code: llvm::Options,
    pub(crate) traffic: Vec<Traffic>,
    pub(crate) memory: Memory,
}

/// The kernels with what is known of their results; see `unread`.
pub(crate) fn jobs<'a>(kernels: &'a [Kernel], unread: &[Vec<bool>]) -> Vec<llvm::Job<'a>> {
    let job =
        |(kernel, unread): (&'a Kernel, &Vec<bool>)| llvm::Job { kernel, unread: unread.clone() };
    kernels.iter().zip(unread).map(job).collect()
}

impl Report {
    /// Kernel launches of one run.
    pub fn launches(&self) -> usize {
        self.layout.launches.iter().flatten().count()
    }

    /// Distinct kernels.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// Copies that the planner inserted into one run.
    pub fn copies(&self) -> usize {
        self.plan.actions.iter().filter(|a| matches!(a, Action::Copy { .. })).count()
    }

    /// Bytes moved by those copies.
    pub fn copied_bytes(&self) -> u64 {
        self.plan.copied_bytes(&self.layout.problem)
    }

    /// Bytes known before a run.
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Bytes read and written by all launches of one run, counted from the kernel IR.
    pub fn traffic(&self) -> Traffic {
        let mut sum = Traffic::default();
        for launch in self.layout.launches.iter().flatten() {
            let t = self.traffic[self.kernel_of[launch.group][launch.launch]];
            sum.read += t.read;
            sum.written += t.written;
            sum.flops += t.flops;
        }
        sum
    }

    /// For each output, the donated parameter whose memory it takes.
    pub fn donations(&self) -> Vec<Option<usize>> {
        self.plan
            .outputs
            .iter()
            .map(|p| match p {
                OutputPlace::Parameter(p) => Some(*p),
                OutputPlace::Fresh => None,
            })
            .collect()
    }

    /// Donated parameters that no output took, with the reason.
    pub fn unused_donations(&self) -> Vec<(usize, String)> {
        (0..self.graph.parameters().len())
            .filter(|&p| self.graph.parameter_info(p).donated)
            .filter(|&p| !self.plan.outputs.contains(&OutputPlace::Parameter(p)))
            .map(|p| (p, self.why_unused(p)))
            .collect()
    }

    fn why_unused(&self, parameter: usize) -> String {
        let value = self.graph.parameters().nth(parameter).expect("parameter exists");
        let bytes = self.graph.ty(value).bytes();
        let fitting: Vec<usize> = (0..self.graph.outputs().len())
            .filter(|&o| self.graph.ty(self.graph.outputs()[o]).bytes() == bytes)
            .collect();
        if fitting.is_empty() {
            return format!("no output has {bytes} bytes");
        }
        if fitting.iter().all(|&o| self.plan.outputs[o] != OutputPlace::Fresh) {
            return "every output of its size took another parameter".into();
        }
        // The last reader is what keeps the buffer busy.
        let buffer = BufferId(parameter);
        let reader = self.plan.actions.iter().rev().find_map(|a| match a {
            Action::Run(s) if self.layout.problem.steps[s.0].needs().any(|b| b == buffer) => {
                self.layout.launches[s.0].as_ref()
            }
            _ => None,
        });
        match reader {
            Some(launch) => {
                let group = &self.fusion.groups[launch.group];
                let line = group.members.iter().rev().find_map(|&n| {
                    let reads = self.graph.operands(n).contains(&value);
                    if reads { self.graph.source(n) } else { None }
                });
                let kernel = &self.kernels[self.kernel_of[launch.group][launch.launch]].name;
                match line {
                    Some(source) => format!(
                        "still read by `{kernel}` at {source} when outputs of its size are written"
                    ),
                    None => {
                        format!("still read by `{kernel}` when outputs of its size are written")
                    }
                }
            }
            None => "nothing reads it".into(),
        }
    }

    /// What one run does, for people.
    pub fn explain(&self) -> String {
        let mut s = String::new();
        let total = self.traffic();
        let _ = writeln!(
            s,
            "{}: {} kernel launch{} ({} distinct), {} cop{}",
            self.graph.name(),
            self.launches(),
            if self.launches() == 1 { "" } else { "es" },
            self.kernels.len(),
            self.copies(),
            if self.copies() == 1 { "y" } else { "ies" },
        );
        for (i, action) in self.plan.actions.iter().enumerate() {
            match action {
                Action::Run(step) => {
                    let Some(launch) = &self.layout.launches[step.0] else { continue };
                    let k = self.kernel_of[launch.group][launch.launch];
                    let t = self.traffic[k];
                    let kind = match self.fusion.groups[launch.group].kind {
                        Kind::Alias => "alias",
                        Kind::Map { .. } => "map",
                        Kind::Rows { .. } => "rows",
                        Kind::Fold { .. } => "fold",
                        Kind::Contraction { .. } => "contraction",
                        Kind::Update { .. } => "update",
                        Kind::Sort { .. } => "sort",
                        Kind::Together { .. } => "together",
                    };
                    let _ = writeln!(
                        s,
                        "  {i:>3} {kind:<11} {}  reads {}, writes {}, {} flops{}",
                        self.kernels[k].name,
                        bytes(t.read),
                        bytes(t.written),
                        t.flops,
                        self.lines(launch.group),
                    );
                }
                Action::Copy { from, to } => {
                    let _ = writeln!(
                        s,
                        "  {i:>3} copy        {} to {}: {}",
                        self.describe(*from),
                        self.plan.places[to.0],
                        self.why_copied(*from, *to),
                    );
                }
            }
        }
        let _ =
            writeln!(s, "traffic: {} read, {} written", bytes(total.read), bytes(total.written));
        let m = self.memory;
        let _ = writeln!(
            s,
            "memory: peak {} = parameters {} + outputs {} + constants {} + temporaries {}",
            bytes(m.peak()),
            bytes(m.parameters),
            bytes(m.outputs),
            bytes(m.constants),
            bytes(m.arena),
        );
        let _ = writeln!(
            s,
            "plan: {} / lower bound {} = {:.3}, schedule {}",
            bytes(m.arena),
            bytes(m.arena_lower_bound),
            self.plan.ratio(),
            self.plan.schedule,
        );
        for (o, p) in self.donations().into_iter().enumerate() {
            if let Some(p) = p {
                let _ = writeln!(
                    s,
                    "donated: {} becomes output {}",
                    self.parameter_name(p),
                    self.output_name(o)
                );
            }
        }
        for (p, why) in self.unused_donations() {
            let _ = writeln!(s, "not reused: {}: {why}", self.parameter_name(p));
        }
        for literal in &self.layout.constants {
            let _ =
                writeln!(s, "constant: {} ({})", literal.ty(), bytes(literal.ty().bytes() as u64));
        }
        s
    }

    /// One stage, whole.
    ///
    /// # Errors
    /// If LLVM fails while the stage is made again for the dump.
    pub fn dump(&self, stage: Stage) -> Result<String, llvm::CompileError> {
        Ok(match stage {
            Stage::Graph => self.traced.to_string(),
            Stage::Fused => self.fused(),
            Stage::Plan => self.plan_text(),
            Stage::Kernel => {
                let texts: Vec<String> = self.kernels.iter().map(ToString::to_string).collect();
                texts.join("\n")
            }
            Stage::Llvm => self.code_text(llvm::TextKind::Ir)?,
            Stage::Asm => self.code_text(llvm::TextKind::Assembly)?,
            Stage::Dot => {
                let groups: Vec<_> = self.fusion.groups.iter().map(|g| g.members.clone()).collect();
                kiln_ir::dot(&self.graph, Some(&groups))
            }
        })
    }

    fn code_text(&self, kind: llvm::TextKind) -> Result<String, llvm::CompileError> {
        llvm::text_of_jobs(&jobs(&self.kernels, &self.unread), &self.code, kind)
    }

    fn fused(&self) -> String {
        let mut s = String::new();
        for pass in &self.passes {
            let _ = writeln!(s, "// pass {pass}");
        }
        let _ = write!(s, "{}", kiln_opt::print::fused(&self.graph, &self.fusion));
        s
    }

    fn plan_text(&self) -> String {
        let mut s = String::new();
        let _ = writeln!(
            s,
            "arena {} bytes, lower bound {}, ratio {:.3}, schedule {}",
            self.plan.arena,
            self.plan.lower_bound,
            self.plan.ratio(),
            self.plan.schedule
        );
        for (b, place) in self.plan.places.iter().enumerate() {
            let id = BufferId(b);
            let live = match self.plan.live[b] {
                Some((first, usize::MAX)) => format!("  actions {first}.."),
                Some((first, last)) => format!("  actions {first}..={last}"),
                None => String::new(),
            };
            let _ =
                writeln!(s, "buffer {b:>4}  {:<18} {}{live}", place.to_string(), self.describe(id));
        }
        for (i, action) in self.plan.actions.iter().enumerate() {
            let text = match action {
                Action::Copy { from, to } => format!("copy {} -> {}", from.0, to.0),
                Action::Run(step) => {
                    let step_data = &self.layout.problem.steps[step.0];
                    let ids = |v: &[BufferId]| {
                        v.iter().map(|b| b.0.to_string()).collect::<Vec<_>>().join(" ")
                    };
                    let name = match &self.layout.launches[step.0] {
                        Some(l) => self.kernels[self.kernel_of[l.group][l.launch]].name.as_str(),
                        None if step_data.writes.is_empty() => "barrier",
                        None => "nothing",
                    };
                    format!("{name}: {} -> {}", ids(&step_data.reads), ids(&step_data.writes))
                }
            };
            let _ = writeln!(s, "action {i:>4}  {}", text.trim_end());
        }
        s
    }

    fn describe(&self, b: BufferId) -> String {
        let Some(meaning) = self.layout.meaning.get(b.0) else {
            return "copy of an output".into();
        };
        match *meaning {
            Meaning::Temporary { group } => {
                format!(
                    "working memory of group {group}, {} bytes",
                    self.layout.problem.buffers[b.0].bytes
                )
            }
            Meaning::Value(v) => {
                let ty = self.graph.ty(v);
                match self.layout.problem.buffers[b.0].origin {
                    Origin::Parameter { index, .. } => {
                        format!("{} {ty}", self.parameter_name(index))
                    }
                    Origin::Constant { index } => format!("constant {index} {ty}"),
                    Origin::Step => format!("{} {ty}{}", self.graph.op(v.node), self.line(v)),
                }
            }
        }
    }

    fn why_copied(&self, from: BufferId, to: BufferId) -> String {
        let problem = &self.layout.problem;
        if to.0 >= problem.buffers.len() {
            return match problem.buffers[from.0].origin {
                Origin::Parameter { .. } => "a parameter that is kept is returned".into(),
                Origin::Constant { .. } => "a constant is returned".into(),
                Origin::Step => "the same value is returned twice".into(),
            };
        }
        match problem.buffers[from.0].origin {
            Origin::Parameter { donated: false, .. } => {
                "it is updated, and the parameter is not donated".into()
            }
            Origin::Constant { .. } => "it is updated, and constants are never written".into(),
            _ => {
                let reader = problem.steps.iter().enumerate().rev().find(|(_, step)| {
                    step.needs().any(|b| b == from) && !step.writes.contains(&to)
                });
                match reader.and_then(|(s, _)| self.layout.launches[s].as_ref()) {
                    Some(launch) => format!(
                        "it is updated while `{}` still reads it{}",
                        self.kernels[self.kernel_of[launch.group][launch.launch]].name,
                        self.lines(launch.group)
                    ),
                    None => "it is updated and still needed".into(),
                }
            }
        }
    }

    fn parameter_name(&self, p: usize) -> String {
        match self.graph.parameter_info(p).name.as_str() {
            "" => format!("parameter {p}"),
            name => format!("`{name}`"),
        }
    }

    fn output_name(&self, o: usize) -> String {
        match self.graph.output_name(o) {
            "" => o.to_string(),
            name => format!("`{name}`"),
        }
    }

    fn line(&self, v: Value) -> String {
        match self.graph.source(v.node) {
            Some(source) => format!("  at {source}"),
            None => String::new(),
        }
    }

    /// The first and last user line of a group.
    fn lines(&self, group: usize) -> String {
        let sources: Vec<_> = self.fusion.groups[group]
            .members
            .iter()
            .filter(|&&n| !matches!(self.graph.op(n), Op::Constant(_)))
            .filter_map(|&n| self.graph.source(n))
            .collect();
        let (Some(first), Some(last)) = (
            sources.iter().min_by_key(|s| (&s.file, s.line)),
            sources.iter().max_by_key(|s| (&s.file, s.line)),
        ) else {
            return String::new();
        };
        if first == last || (first.file == last.file && first.line == last.line) {
            format!("  ({first})")
        } else if first.file == last.file {
            format!("  ({}:{}-{})", first.file, first.line, last.line)
        } else {
            format!("  ({first} to {last})")
        }
    }
}

/// A byte count for people: exact below 10 KiB.
fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 10 * 1024 {
        return format!("{n} B");
    }
    let mut x = n as f64 / 1024.0;
    let mut unit = 0;
    while x >= 10.0 * 1024.0 && unit + 1 < UNITS.len() {
        x /= 1024.0;
        unit += 1;
    }
    format!("{x:.1} {}", UNITS[unit])
}
