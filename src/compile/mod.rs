//! The compile driver: from a traced graph to something that runs.
//!
//! Everything between the graph and the machine meets here and nowhere else in
//! the façade. Programs with one content (graph, names of parameters and
//! outputs, options) are compiled once while any of them is held, whoever asks.
//!
//! | module | holds |
//! |---|---|
//! | `backend` | what runs a program: machine code, or the interpreter |
//! | `content` | the digest that says which programs are the same |

mod backend;
mod content;

use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use backend::Backend;
use content::Content;
use hashbrown::HashMap;
pub use kiln_driver::Stage;
use kiln_executable::{Memory, Traffic};
use kiln_ir::Graph;
pub(crate) use kiln_runtime::Input;

use crate::config::{Config, config};
use crate::device::Array;
use crate::{Error, ErrorKind};

/// What changes the result of compiling, beside the graph. The same for the whole
/// process.
#[derive(Debug)]
pub(crate) struct Options {
    /// Run on the reference interpreter instead of compiling.
    pub eval: bool,
    /// What the compiler does.
    pub driver: kiln_driver::Options,
    /// Both as text, for the content key.
    key: String,
}

impl Options {
    /// Those of the environment.
    ///
    /// # Errors
    /// If a switch is not understood.
    pub(crate) fn current() -> Result<&'static Options, Error> {
        static CURRENT: OnceLock<Options> = OnceLock::new();
        let config = config()?;
        Ok(CURRENT.get_or_init(|| Options::new(config)))
    }

    fn new(config: &Config) -> Options {
        let mut driver = kiln_driver::Options::default();
        if let Some(isa) = config.isa {
            driver.code.isa = isa;
        }
        driver.opt.fuel = config.fuel;
        driver.opt.skip = config.skip.clone();
        if config.unfused {
            driver.opt.fuse = None;
        }
        let key = format!("{} {}", config.eval, driver.key());
        Options { eval: config.eval, driver, key }
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
    /// As it was traced: names, sources and captured data for reports.
    graph: Graph,
    backend: Backend,
    phases: Vec<(&'static str, Duration)>,
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
        self.backend.run(&self.graph, inputs, outputs)
    }

    /// Time per phase of compiling, in order.
    pub(crate) fn phases(&self) -> &[(&'static str, Duration)] {
        &self.phases
    }

    /// Bytes of machine code.
    pub(crate) fn code_bytes(&self) -> u64 {
        self.backend.code_bytes()
    }

    /// Bytes known before a run.
    pub(crate) fn memory(&self) -> Memory {
        self.backend.memory(&self.graph)
    }

    /// What a run does, in numbers.
    pub(crate) fn work(&self) -> Work {
        self.backend.work()
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
        match stage {
            Stage::Graph => Ok(self.graph.to_string()),
            stage => self.backend.dump(stage),
        }
    }

    /// What a run does, for people: kernels, plan, bytes, donations.
    pub(crate) fn explain(&self) -> String {
        self.backend.explain(&self.graph)
    }

    /// Donated parameters whose buffer no output took, with the reason.
    pub(crate) fn unused_donations(&self) -> Vec<(usize, String)> {
        self.backend.unused_donations()
    }
}

/// Programs by content, for as long as somebody holds them.
static CONTENT: LazyLock<Mutex<HashMap<Content, Weak<Compiled>>>> = LazyLock::new(Mutex::default);

/// Compiles a graph, or finds the program that has the same content.
///
/// # Errors
/// If a switch is not understood, or the graph cannot be compiled.
pub(crate) fn compile(graph: Graph) -> Result<Arc<Compiled>, Error> {
    let options = Options::current()?;
    let key = content::content(&graph, &options.key);
    let known = {
        let content = CONTENT.lock().unwrap_or_else(PoisonError::into_inner);
        content.get(&key).and_then(Weak::upgrade)
    };
    if let Some(compiled) = known {
        return Ok(compiled);
    }
    let (backend, phases) = Backend::build(&graph, options)?;
    let compiled = Arc::new(Compiled { graph, backend, phases });
    dump(&compiled)?;
    let mut content = CONTENT.lock().unwrap_or_else(PoisonError::into_inner);
    content.retain(|_, program| program.strong_count() > 0);
    content.insert(key, Arc::downgrade(&compiled));
    Ok(compiled)
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
        let file = format!("{number:03}-{name}.{}.{}", stage.name(), stage.extension());
        let path = folder.join(file);
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text));
        written.map_err(|e| {
            let message = format!("KILN_DUMP_DIR: cannot write {}: {e}", path.display());
            Error::new(ErrorKind::Io, message)
        })?;
    }
    Ok(())
}
