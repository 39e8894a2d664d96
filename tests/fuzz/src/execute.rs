//! Running one graph in several ways.

use std::sync::OnceLock;

use kiln_driver::{Compiled, Isa, Options, OrcLoader, compile};
use kiln_ir::{Graph, Literal};
use kiln_opt::Options as OptOptions;
use kiln_runtime::{Cause, Config, Device, Input};

/// One way to compile and run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// Instructions.
    pub isa: Isa,
    /// Passes and fusion, or one kernel for each node of the graph as written.
    pub fused: bool,
    /// Threads that run kernels: 1 or 2.
    pub threads: usize,
    /// Give up the donated arguments, or keep all of them.
    pub donate: bool,
}

impl Way {
    /// Fused, for this machine, on two threads, donating.
    pub fn usual() -> Way {
        Way { isa: Isa::detect(), fused: true, threads: 2, donate: true }
    }
}

/// The devices of this process, one for each number of threads.
pub fn device(threads: usize) -> Result<&'static Device, String> {
    static DEVICES: [OnceLock<Result<Device, String>>; 2] = [OnceLock::new(), OnceLock::new()];
    let threads = threads.clamp(1, 2);
    DEVICES[threads - 1]
        .get_or_init(|| {
            Device::cpu(Config { threads, capacity: 2 << 30 }).map_err(|e| e.to_string())
        })
        .as_ref()
        .map_err(Clone::clone)
}

/// The one loader of this process.
pub fn loader() -> Result<&'static OrcLoader, String> {
    static LOADER: OnceLock<Result<OrcLoader, String>> = OnceLock::new();
    LOADER
        .get_or_init(|| OrcLoader::new().map_err(|e| e.to_string()))
        .as_ref()
        .map_err(Clone::clone)
}

/// Compiles a graph one way. Plans are always checked.
///
/// # Errors
/// The compiler's message.
pub fn build(graph: &Graph, way: Way) -> Result<Compiled, String> {
    let mut options = Options { check_plans: true, ..Options::default() };
    options.code.isa = way.isa;
    options.code.threads = 1;
    options.opt = if way.fused { OptOptions::default() } else { OptOptions::none() };
    options.opt.verify = true;
    compile(graph.clone(), &options).map_err(|e| e.to_string())
}

/// Runs a compiled graph on `arguments`, as often as `times`, and returns the outputs
/// of the last run.
///
/// # Errors
/// The runtime's message.
pub fn run(
    compiled: &Compiled,
    way: Way,
    arguments: &[Literal],
    times: usize,
) -> Result<Vec<Literal>, String> {
    let device = device(way.threads)?;
    let program = device.load(&compiled.executable, loader()?).map_err(|e| e.to_string())?;
    let mut outputs = Vec::new();
    for _ in 0..times {
        outputs.clear();
        let mut inputs = arguments
            .iter()
            .zip(&compiled.executable.parts().parameters)
            .map(|(literal, parameter)| {
                let array = device
                    .put(literal.ty(), literal.bytes(), Cause::Explicit)
                    .map_err(|e| e.to_string())?;
                Ok(if parameter.donated && way.donate {
                    Input::Donated(array)
                } else {
                    Input::Kept(array)
                })
            })
            .collect::<Result<Vec<Input>, String>>()?;
        program.run(&mut inputs, &mut outputs).map_err(|e| e.to_string())?;
    }
    outputs.iter().map(|array| array.to_literal().map_err(|e| e.to_string())).collect()
}
