//! The compile driver: from a traced graph to something that runs.
//!
//! Everything between the graph and the machine meets here and nowhere else in
//! the façade. Programs with one content (graph, names of parameters and
//! outputs, options) are compiled once while any of them is held, whoever asks.

use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use kiln_executable::{Memory, Traffic};
use kiln_ir::{Graph, Literal, Value};
pub(crate) use kiln_runtime::Input;

use crate::config::config;
use crate::device::{self, Array};
use crate::tree::KeyWriter;
use crate::{Error, ErrorKind};

/// What changes the result of compiling, beside the graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Options {
    /// Run on the reference interpreter instead of compiling.
    pub eval: bool,
}

impl Options {
    /// Those of the environment.
    pub(crate) fn current() -> Result<Options, Error> {
        Ok(Options { eval: config()?.eval })
    }
}

/// A form that a program takes on its way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// The graph as it was traced.
    Graph,
    /// The graph after the passes, with its fusion groups.
    Fused,
    /// The schedule and the memory plan.
    Plan,
    /// The kernel IR.
    Kernel,
    /// LLVM IR.
    Llvm,
    /// Assembly.
    Asm,
    /// The graph for Graphviz, with its fusion groups.
    Dot,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Stage; 7] = [
        Stage::Graph,
        Stage::Fused,
        Stage::Plan,
        Stage::Kernel,
        Stage::Llvm,
        Stage::Asm,
        Stage::Dot,
    ];

    /// As `KILN_DUMP` spells it.
    pub fn name(self) -> &'static str {
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

    /// The stage of that name.
    pub fn from_name(name: &str) -> Option<Stage> {
        Stage::ALL.into_iter().find(|s| s.name() == name)
    }

    pub(crate) fn names() -> String {
        Stage::ALL.map(Stage::name).join(", ")
    }
}

/// What one run of a program does, known before it runs. All zero on the
/// interpreter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Kernels launched, each as often as it is.
    pub launches: usize,
    /// Copies between buffers.
    pub copies: usize,
    /// Bytes that kernels read and write, and their arithmetic operations.
    pub traffic: Traffic,
}

/// A compiled program.
#[derive(Debug)]
pub(crate) struct Compiled {
    /// As it was traced: what dumps start from.
    graph: Graph,
    backend: Backend,
    phases: Vec<(&'static str, Duration)>,
    memory: Memory,
}

#[derive(Debug)]
enum Backend {
    /// The reference interpreter, node by node.
    Eval,
}

impl Compiled {
    /// Runs the program; the outputs are appended.
    ///
    /// # Errors
    /// If it cannot run. The inputs and outputs are then as they were.
    pub(crate) fn run(
        &self,
        inputs: &mut Vec<Input>,
        outputs: &mut Vec<Array>,
    ) -> Result<(), Error> {
        match &self.backend {
            Backend::Eval => {
                let results = self.eval(inputs)?;
                inputs.clear();
                outputs.extend(results);
                Ok(())
            }
        }
    }

    fn eval(&self, inputs: &[Input]) -> Result<Vec<Array>, Error> {
        let literals: Vec<Literal> = inputs
            .iter()
            .map(|input| match input {
                Input::Kept(array) | Input::Donated(array) => device::peek(array),
                Input::Scalar(scalar) => Literal::scalar(*scalar),
            })
            .collect();
        let results = kiln_ir::eval(&self.graph, &literals)
            .map_err(|e| Error::internal(format!("a call of the wrong shape: {e}")))?;
        results.iter().map(device::adopt).collect()
    }

    /// Time per phase of compiling, in order.
    pub(crate) fn phases(&self) -> &[(&'static str, Duration)] {
        &self.phases
    }

    /// Bytes of machine code.
    pub(crate) fn code_bytes(&self) -> u64 {
        match self.backend {
            Backend::Eval => 0,
        }
    }

    /// Bytes known before a run.
    pub(crate) fn memory(&self) -> Memory {
        self.memory
    }

    /// What a run does, in numbers.
    pub(crate) fn work(&self) -> Work {
        match self.backend {
            Backend::Eval => Work::default(),
        }
    }

    /// The graph as it was traced.
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The program at a stage, as text.
    ///
    /// # Errors
    /// If the program does not go through that stage.
    pub(crate) fn dump(&self, stage: Stage) -> Result<String, Error> {
        match (&self.backend, stage) {
            (_, Stage::Graph) => Ok(text(&self.graph)),
            (Backend::Eval, _) => {
                let message = format!("the interpreter has no stage `{}`", stage.name());
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    /// What a run does, for people: kernels, plan, bytes.
    pub(crate) fn explain(&self) -> String {
        match &self.backend {
            Backend::Eval => {
                format!("interpreted node by node: {} nodes\n", self.graph.len())
            }
        }
    }

    /// Donated parameters whose buffer no output or temporary could take, with the
    /// reason.
    pub(crate) fn unused_donations(&self) -> Vec<(usize, String)> {
        match &self.backend {
            Backend::Eval => Vec::new(),
        }
    }
}

/// The graph as text.
pub(crate) fn text(graph: &Graph) -> String {
    let mut text = format!("graph @{}\n", graph.name());
    for node in graph.order() {
        let operands: Vec<usize> = graph.operands(node).iter().map(|v| v.node.index()).collect();
        let (op, types) = (graph.op(node), graph.types(node));
        text.push_str(&format!("  %{} = {op} {operands:?} : {types:?}\n", node.index()));
    }
    text
}

/// Programs by content, for as long as somebody holds them.
static CONTENT: LazyLock<Mutex<HashMap<Content, Weak<Compiled>>>> = LazyLock::new(Mutex::default);

/// A digest of a program's content, long enough that two programs never share one
/// by chance. Constants may be large, so that the words themselves are not kept.
type Content = [u64; 3];

/// Compiles a graph, or finds the program that has the same content.
///
/// # Errors
/// If a switch is not understood, or the graph cannot be compiled.
pub(crate) fn compile(graph: Graph, options: Options) -> Result<Arc<Compiled>, Error> {
    let key = content(&graph, options);
    let known = {
        let content = CONTENT.lock().unwrap_or_else(PoisonError::into_inner);
        content.get(&key).and_then(Weak::upgrade)
    };
    if let Some(compiled) = known {
        return Ok(compiled);
    }
    let compiled = Arc::new(build(graph, options)?);
    dump(&compiled)?;
    let mut content = CONTENT.lock().unwrap_or_else(PoisonError::into_inner);
    content.retain(|_, program| program.strong_count() > 0);
    content.insert(key, Arc::downgrade(&compiled));
    Ok(compiled)
}

fn build(graph: Graph, options: Options) -> Result<Compiled, Error> {
    let start = Instant::now();
    let bytes = |v: Value| graph.ty(v).bytes() as u64;
    let memory = Memory {
        parameters: graph.parameters().map(bytes).sum(),
        outputs: graph.outputs().iter().map(|&v| bytes(v)).sum(),
        ..Memory::default()
    };
    let _ = options.eval;
    let phases = vec![("compile", start.elapsed())];
    Ok(Compiled { graph, backend: Backend::Eval, phases, memory })
}

/// The words that say what a program does: ops, edges, types of parameters, names
/// that reports show. Sources are not among them.
fn content(graph: &Graph, options: Options) -> Content {
    let mut key = KeyWriter::default();
    options.hash(&mut key);
    let order = graph.order();
    let mut number: HashMap<kiln_ir::NodeId, usize> = HashMap::new();
    key.length(graph.parameters().len());
    for (i, parameter) in graph.parameters().enumerate() {
        number.insert(parameter.node, i);
        graph.ty(parameter).hash(&mut key);
        graph.parameter_info(i).hash(&mut key);
    }
    for node in order {
        if number.contains_key(&node) {
            continue;
        }
        number.insert(node, number.len());
        graph.op(node).hash(&mut key);
        for operand in graph.operands(node) {
            key.length(number[&operand.node]);
            key.length(operand.result as usize);
        }
    }
    for (i, output) in graph.outputs().iter().enumerate() {
        key.length(number[&output.node]);
        key.length(output.result as usize);
        graph.output_name(i).hash(&mut key);
    }
    digest(key.words())
}

/// Two independent multiplicative hashes of the words with a fold after each, and their number.
fn digest(words: &[u64]) -> Content {
    let step = |h: u64, word: u64, multiplier: u64| {
        let h = (h ^ word).wrapping_mul(multiplier);
        h ^ (h >> 32)
    };
    let [mut a, mut b] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];
    for &word in words {
        a = step(a, word, 0x9e37_79b9_7f4a_7c15);
        b = step(b.rotate_left(23), word, 0xd6e8_feb8_6659_fd93);
    }
    [a, b, words.len() as u64]
}

/// Writes the stages that `KILN_DUMP` asks for.
fn dump(compiled: &Compiled) -> Result<(), Error> {
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let config = config()?;
    if config.dump.is_empty() {
        return Ok(());
    }
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = compiled.graph.name();
    for &stage in &config.dump {
        // A stage that this program does not have is no reason to fail it.
        let Ok(text) = compiled.dump(stage) else { continue };
        let Some(folder) = &config.dump_dir else {
            eprintln!("# {number:03} {name} {}\n{text}", stage.name());
            continue;
        };
        let path = folder.join(format!("{number:03}-{name}.{}", stage.name()));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
        written.map_err(|e| {
            let message = format!("KILN_DUMP_DIR: cannot write {}: {e}", path.display());
            Error::new(ErrorKind::Io, message)
        })?;
    }
    Ok(())
}
