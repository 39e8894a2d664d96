//! What runs a program: machine code, or the reference interpreter.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use kiln_driver::{CompileError, OrcLoader, Report};
use kiln_executable::Memory;
use kiln_ir::{Graph, Literal, Value};
use kiln_runtime::{Input, Program};

use super::{Options, Stage, Work};
use crate::device::{self, Array};
use crate::{Error, ErrorKind};

#[derive(Debug)]
pub(super) enum Backend {
    /// Machine code on the device.
    Native(Box<Native>),
    /// The reference interpreter, node by node (`KILN_DEVICE=eval`).
    Eval,
}

#[derive(Debug)]
pub(super) struct Native {
    program: Program,
    report: Report,
}

type Phases = Vec<(&'static str, Duration)>;

impl Backend {
    /// Compiles the graph and loads what comes out; the phases with their times.
    pub(super) fn build(graph: &Graph, options: &Options) -> Result<(Backend, Phases), Error> {
        if options.eval {
            return Ok((Backend::Eval, Vec::new()));
        }
        let kiln_driver::Compiled { executable, report, times } =
            kiln_driver::compile(graph.clone(), &options.driver).map_err(|e| failed(&e))?;
        let mut phases = times;
        let start = Instant::now();
        let program =
            device::device()?.load(&executable, loader()?).map_err(|e| device::error(&e))?;
        phases.push(("load", start.elapsed()));
        Ok((Backend::Native(Box::new(Native { program, report })), phases))
    }

    pub(super) fn run(
        &self,
        graph: &Graph,
        inputs: &mut Vec<Input>,
        outputs: &mut Vec<Array>,
    ) -> Result<(), Error> {
        match self {
            Backend::Native(native) => {
                native.program.run(inputs, outputs).map_err(|e| device::error(&e))
            }
            Backend::Eval => {
                let results = eval(graph, inputs)?;
                inputs.clear();
                outputs.extend(results);
                Ok(())
            }
        }
    }

    pub(super) fn code_bytes(&self) -> u64 {
        match self {
            Backend::Native(native) => native.program.code_bytes(),
            Backend::Eval => 0,
        }
    }

    pub(super) fn memory(&self, graph: &Graph) -> Memory {
        let bytes = |v: Value| graph.ty(v).bytes() as u64;
        match self {
            Backend::Native(native) => native.report.memory(),
            Backend::Eval => Memory {
                parameters: graph.parameters().map(bytes).sum(),
                outputs: graph.outputs().iter().map(|&v| bytes(v)).sum(),
                ..Memory::default()
            },
        }
    }

    pub(super) fn work(&self) -> Work {
        match self {
            Backend::Native(native) => Work {
                launches: native.report.launches(),
                copies: native.report.copies(),
                traffic: native.report.traffic(),
            },
            Backend::Eval => Work::default(),
        }
    }

    pub(super) fn dump(&self, stage: Stage) -> Result<String, Error> {
        match self {
            Backend::Native(native) => {
                native.report.dump(stage).map_err(|e| Error::new(ErrorKind::Compile, e.to_string()))
            }
            Backend::Eval => {
                let message = format!("the interpreter has no stage `{}`", stage.name());
                Err(Error::new(ErrorKind::Unsupported, message))
            }
        }
    }

    pub(super) fn explain(&self, graph: &Graph) -> String {
        match self {
            Backend::Native(native) => native.report.explain(),
            Backend::Eval => {
                let peak = self.memory(graph).peak();
                format!("interpreted: {} nodes\nmemory: peak {peak} B\n", graph.len())
            }
        }
    }

    pub(super) fn unused_donations(&self) -> Vec<(usize, String)> {
        match self {
            Backend::Native(native) => native.report.unused_donations(),
            Backend::Eval => Vec::new(),
        }
    }
}

/// The process's loader of machine code.
fn loader() -> Result<&'static OrcLoader, Error> {
    static LOADER: OnceLock<Result<OrcLoader, Error>> = OnceLock::new();
    let loader = LOADER.get_or_init(|| {
        OrcLoader::new().map_err(|e| Error::new(ErrorKind::Compile, e.to_string()))
    });
    loader.as_ref().map_err(Error::clone)
}

/// Why compiling failed, as the user sees it: the toolchain, or a fault of ours.
fn failed(error: &CompileError) -> Error {
    let kind = match error {
        CompileError::Code(_) => ErrorKind::Compile,
        CompileError::Optimize(_)
        | CompileError::Lower(_)
        | CompileError::Malformed(_)
        | CompileError::Unsound(_)
        | CompileError::Assemble(_) => ErrorKind::Internal,
    };
    Error::new(kind, error.to_string())
}

fn eval(graph: &Graph, inputs: &[Input]) -> Result<Vec<Array>, Error> {
    let literals: Vec<Literal> = inputs
        .iter()
        .map(|input| match input {
            Input::Kept(array) | Input::Donated(array) => device::peek(array),
            Input::Scalar(scalar) => Ok(Literal::scalar(*scalar)),
        })
        .collect::<Result<_, Error>>()?;
    let results = kiln_ir::eval(graph, &literals)
        .map_err(|e| Error::internal(format!("a call of the wrong shape: {e}")))?;
    results.iter().map(device::adopt).collect()
}
