//! From a checked plan and compiled kernels to an executable.

use std::sync::Arc;

use kiln_codegen::kernel::{Argument, Kernel};
use kiln_codegen::llvm;
use kiln_executable::{
    self as exe, ALIGNMENT, Access, Base, Executable, Memory, Output, Parameter, Parts, Slot,
    Storage, Traffic,
};
use kiln_ir::Graph;
use kiln_plan::{Action, BufferId, OutputPlace, Place, Plan};

use crate::memory::Layout;

/// Everything that goes into an executable.
pub(crate) struct Pieces<'a> {
    pub graph: &'a Graph,
    pub layout: &'a Layout,
    pub plan: &'a Plan,
    /// The distinct kernels, and for each group and launch which one it is.
    pub kernels: &'a [Kernel],
    pub kernel_of: &'a [Vec<usize>],
    pub traffic: &'a [Traffic],
    /// What code generation made of the kernels.
    pub code: llvm::Code,
}

pub(crate) fn assemble(pieces: Pieces<'_>) -> Result<Executable, exe::CheckError> {
    let Pieces { graph, layout, plan, kernels, kernel_of, traffic, code } = pieces;
    let (constants, constant_offsets) = pack_constants(layout);

    let slot = |b: BufferId| {
        let (base, offset) = match plan.places[b.0] {
            Place::Parameter(p) => (Base::Parameter(p as u32), 0),
            Place::Output(o) => (Base::Output(o as u32), 0),
            Place::Constant(c) => (Base::Constants, constant_offsets[c]),
            Place::Arena(offset) => (Base::Arena, offset),
        };
        Slot { base, offset }
    };

    let mut steps = Vec::with_capacity(plan.actions.len());
    for action in &plan.actions {
        match *action {
            Action::Copy { from, to } => {
                let bytes = layout.problem.buffers[from.0].bytes;
                if bytes > 0 {
                    steps.push(exe::Step::Copy { from: slot(from), to: slot(to), bytes });
                }
            }
            Action::Run(s) => {
                if let Some(launch) = &layout.launches[s.0] {
                    steps.push(exe::Step::Launch {
                        kernel: kernel_of[launch.group][launch.launch] as u32,
                        arguments: launch.arguments.iter().map(|&b| slot(b)).collect(),
                    });
                }
            }
        }
    }

    let parameters: Vec<Parameter> = graph
        .parameters()
        .enumerate()
        .map(|(i, value)| {
            let info = graph.parameter_info(i);
            Parameter {
                ty: graph.ty(value).clone(),
                name: info.name.clone(),
                donated: info.donated,
            }
        })
        .collect();
    let outputs: Vec<Output> = graph
        .outputs()
        .iter()
        .enumerate()
        .map(|(o, &value)| Output {
            ty: graph.ty(value).clone(),
            name: graph.output_name(o).to_string(),
            storage: match plan.outputs[o] {
                OutputPlace::Fresh => Storage::Fresh,
                OutputPlace::Parameter(p) => Storage::Parameter(p as u32),
            },
        })
        .collect();
    let memory = Memory {
        parameters: parameters.iter().map(|p| p.ty.bytes() as u64).sum(),
        outputs: outputs
            .iter()
            .filter(|o| o.storage == Storage::Fresh)
            .map(|o| o.ty.bytes() as u64)
            .sum(),
        constants: constants.len() as u64,
        arena: plan.arena,
        arena_lower_bound: plan.lower_bound,
    };
    let compiled = kernels
        .iter()
        .zip(code.entries)
        .zip(traffic)
        .map(|((kernel, entry), &traffic)| exe::Kernel {
            name: kernel.name.clone(),
            object: entry.object,
            symbol: entry.symbol,
            arguments: kernel.arguments.iter().map(access).collect(),
            grid: entry.grid,
            grain: entry.grain,
            scratch: entry.scratch,
            traffic,
        })
        .collect();

    Executable::new(Parts {
        name: graph.name().to_string(),
        parameters,
        outputs,
        constants,
        arena: plan.arena,
        kernels: compiled,
        objects: code.objects,
        steps,
        memory,
    })
}

fn access(argument: &Argument) -> Access {
    let bytes = argument.elements * argument.dtype.size() as u64;
    match (argument.reads, argument.writes) {
        (_, false) => Access::Read(bytes),
        (false, true) => Access::Write(bytes),
        (true, true) => Access::ReadWrite(bytes),
    }
}

/// All constants in one block, and where each begins.
fn pack_constants(layout: &Layout) -> (Arc<[u8]>, Vec<u64>) {
    let mut block = Vec::new();
    let mut offsets = Vec::with_capacity(layout.constants.len());
    for literal in &layout.constants {
        block.resize(block.len().next_multiple_of(ALIGNMENT as usize), 0);
        offsets.push(block.len() as u64);
        block.extend_from_slice(literal.bytes());
    }
    (block.into(), offsets)
}
