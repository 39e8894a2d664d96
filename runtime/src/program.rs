//! Loaded programs and their runs.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kiln_executable::{Base, Code, Executable, KernelFn, Loader, Slot as Place, Step, Storage};
use kiln_ir::{DType, Scalar, Type};

use crate::ALIGNMENT;
use crate::array::{Array, Handle};
use crate::device::{Device, Error};
use crate::pool::End;
use crate::threads::{Job, SPLIT_BYTES, SPLIT_FLOPS, Scratch};

/// An argument of a run.
#[derive(Clone, Debug)]
pub enum Input {
    /// An array that stays as it is.
    Kept(Array),
    /// An array given up. Its buffer is overwritten if this is the last handle; else
    /// the runtime copies it first where the program would write to it.
    Donated(Array),
    /// A number for a rank-0 parameter. No transfer: it travels with the call.
    Scalar(Scalar),
}

/// A run estimated to be shorter is done by the calling thread when nothing is
/// before it: twice what waking the queue's thread takes, and then some for the
/// caller, who usually waits anyway.
const SHORT_NANOSECONDS: u64 = 300_000;

/// Estimates for [`SHORT_NANOSECONDS`]: bytes per nanosecond of one thread from
/// memory, and operations per nanosecond in vector code.
const BYTES_PER_NANOSECOND: u64 = 10;
const FLOPS_PER_NANOSECOND: u64 = 50;

struct Loaded {
    executable: Executable,
    /// Holds the machine code that `entries` point into.
    code: Box<dyn Code>,
    entries: Vec<KernelFn>,
    constants: Option<Handle>,
    device: Device,
    /// Whether a run is short.
    short: bool,
    /// Threads for each kernel.
    threads: Vec<u32>,
}

/// A program on a device. Cloning makes another handle.
#[derive(Clone)]
pub struct Program(Arc<Loaded>);

impl Device {
    /// Loads a program: its machine code, and its constants into the pool.
    ///
    /// # Errors
    /// If the code cannot be loaded, or the pool is full.
    pub fn load(&self, executable: &Executable, loader: &dyn Loader) -> Result<Program, Error> {
        let code = loader.load(executable)?;
        let parts = executable.parts();
        let constants = match parts.constants.len() {
            0 => None,
            n => {
                let ty = Type::new(DType::U8, [n]);
                Some(self.fill(&ty, &parts.constants)?.into_handle())
            }
        };
        let cost: u64 = parts.steps.iter().map(|step| estimate(step, parts)).sum();
        let threads = parts
            .kernels
            .iter()
            .map(|k| {
                let bytes = k.traffic.read + k.traffic.written;
                let worth = bytes >= SPLIT_BYTES || k.traffic.flops >= SPLIT_FLOPS;
                if worth { (k.grid / k.grain).clamp(1, self.0.threads.count() as u64) as u32 } else { 1 }
            })
            .collect();
        let entries = (0..parts.kernels.len()).map(|k| code.entry(k)).collect();
        self.0.queue.make_room(Sizes {
            parameters: parts.parameters.len(),
            outputs: parts.outputs.len(),
            arguments: parts.kernels.iter().map(|k| k.arguments.len()).max().unwrap_or(0),
        });
        Ok(Program(Arc::new(Loaded {
            executable: executable.clone(),
            code,
            entries,
            constants,
            device: self.clone(),
            short: cost < SHORT_NANOSECONDS,
            threads,
        })))
    }
}

fn estimate(step: &Step, parts: &kiln_executable::Parts) -> u64 {
    match step {
        Step::Launch { kernel, .. } => {
            let t = parts.kernels[*kernel as usize].traffic;
            (t.read + t.written) / BYTES_PER_NANOSECOND + t.flops / FLOPS_PER_NANOSECOND
        }
        Step::Copy { bytes, .. } => 2 * bytes / BYTES_PER_NANOSECOND,
    }
}

impl Program {
    /// The executable it was loaded from.
    pub fn executable(&self) -> &Executable {
        &self.0.executable
    }

    /// The device it was loaded on.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Bytes of machine code.
    pub fn code_bytes(&self) -> u64 {
        self.0.code.code_bytes()
    }

    /// Submits a run. `inputs` is drained; the outputs are appended, as arrays whose
    /// contents may still be on their way.
    ///
    /// # Errors
    /// If an argument does not fit its parameter, or the pool is full. `inputs` and
    /// `outputs` are then as they were.
    pub fn run(&self, inputs: &mut Vec<Input>, outputs: &mut Vec<Array>) -> Result<(), Error> {
        self.check(inputs)?;
        let queue = &self.0.device.0.queue;
        let mut record = queue.record();
        let before = outputs.len();
        if let Err(e) = self.prepare(inputs, outputs, &mut record) {
            outputs.truncate(before);
            record.clear();
            queue.give_back(record);
            return Err(e);
        }
        record.program = Some(self.clone());

        let turn = queue.turn();
        let ticket = turn.ticket;
        for input in inputs.iter() {
            if let Input::Kept(a) | Input::Donated(a) = input {
                a.handle().slot().used.store(ticket, Ordering::Release);
            }
        }
        for output in &outputs[before..] {
            let slot = output.handle().slot();
            slot.ready.store(ticket, Ordering::Release);
            slot.used.store(ticket, Ordering::Release);
        }
        for handle in &record.held {
            handle.slot().used.store(ticket, Ordering::Release);
        }
        let counters = &self.0.device.0.counters;
        counters.runs.fetch_add(1, Ordering::Relaxed);
        if turn.submit(record, self.0.short) {
            counters.inline.fetch_add(1, Ordering::Relaxed);
        }
        inputs.clear();
        Ok(())
    }

    fn check(&self, inputs: &[Input]) -> Result<(), Error> {
        let parts = self.0.executable.parts();
        if inputs.len() != parts.parameters.len() {
            return Err(Error::ArgumentCount {
                program: parts.name.clone(),
                wanted: parts.parameters.len(),
                given: inputs.len(),
            });
        }
        for (index, (input, parameter)) in inputs.iter().zip(&parts.parameters).enumerate() {
            let fits = match input {
                Input::Kept(a) | Input::Donated(a) => {
                    if !a.device().is_same(&self.0.device) {
                        return Err(Error::OtherDevice {
                            program: parts.name.clone(),
                            index,
                            name: parameter.name.clone(),
                        });
                    }
                    *a.ty() == parameter.ty
                }
                Input::Scalar(s) => {
                    parameter.ty.shape.rank() == 0 && parameter.ty.dtype == s.dtype()
                }
            };
            if !fits {
                let given = match input {
                    Input::Kept(a) | Input::Donated(a) => a.ty().clone(),
                    Input::Scalar(s) => Type::scalar(s.dtype()),
                };
                return Err(Error::ArgumentType {
                    program: parts.name.clone(),
                    index,
                    name: parameter.name.clone(),
                    wanted: Box::new(parameter.ty.clone()),
                    given: Box::new(given),
                });
            }
        }
        Ok(())
    }

    /// Finds or allocates every buffer of a run. Changes nothing else.
    fn prepare(
        &self,
        inputs: &[Input],
        outputs: &mut Vec<Array>,
        record: &mut Record,
    ) -> Result<(), Error> {
        let Loaded { executable, device, constants, .. } = &*self.0;
        let parts = executable.parts();
        record.numbers.resize(parts.parameters.len(), Number::default());
        // For each parameter, the handle an output may take.
        for (i, (input, parameter)) in inputs.iter().zip(&parts.parameters).enumerate() {
            let bytes = parameter.ty.bytes() as u64;
            let own_copy = parameter.donated
                && match input {
                    Input::Donated(a) => !a.handle().is_unique(),
                    Input::Kept(_) | Input::Scalar(_) => true,
                };
            let mut start = match input {
                Input::Kept(a) | Input::Donated(a) => a.handle().slot().start,
                Input::Scalar(s) => {
                    record.numbers[i].0[..8].copy_from_slice(&s.bits().to_le_bytes());
                    record.numbers[i].0.as_mut_ptr()
                }
            };
            record.taken.push(None);
            if own_copy {
                let what =
                    || format!("a copy of `{}`, which is still held elsewhere", parameter.name);
                let copy = device.allocate(bytes, End::High, what)?;
                record.copies.push((start, copy.slot().start, bytes));
                start = copy.slot().start;
                record.taken[i] = Some(copy);
            }
            record.parameters.push(start);
        }
        for output in &parts.outputs {
            let handle = match output.storage {
                Storage::Fresh => {
                    let what = || format!("an output of {}", output.ty);
                    device.allocate(output.ty.bytes() as u64, End::High, what)?
                }
                Storage::Parameter(p) => match (&record.taken[p as usize], &inputs[p as usize]) {
                    (Some(copy), _) => copy.clone(),
                    (None, Input::Donated(a)) => a.handle().clone(),
                    (None, _) => unreachable!("what is not donated was copied"),
                },
            };
            record.outputs.push(handle.slot().start);
            outputs.push(Array::new(output.ty.clone(), handle));
        }
        // Copies that no output took live as long as the run.
        record.held.extend(record.taken.drain(..).flatten());
        if parts.arena > 0 {
            let what = || format!("the temporaries of `{}`", parts.name);
            let arena = device.allocate(parts.arena, End::Low, what)?;
            record.arena = arena.slot().start;
            record.held.push(arena);
        }
        record.constants = constants.as_ref().map_or(std::ptr::null_mut(), |c| c.slot().start);
        Ok(())
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({})", self.0.executable.parts().name)
    }
}

/// A rank-0 argument, aligned as kernels expect.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Number([u8; ALIGNMENT as usize]);

impl Default for Number {
    fn default() -> Number {
        Number([0; ALIGNMENT as usize])
    }
}

/// How much room a program needs in a record.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sizes {
    parameters: usize,
    outputs: usize,
    arguments: usize,
}

impl Sizes {
    pub(crate) fn max(self, other: Sizes) -> Sizes {
        Sizes {
            parameters: self.parameters.max(other.parameters),
            outputs: self.outputs.max(other.outputs),
            arguments: self.arguments.max(other.arguments),
        }
    }
}

/// A submitted run: where everything is. Used again once it has finished.
pub(crate) struct Record {
    pub ticket: u64,
    program: Option<Program>,
    parameters: Vec<*mut u8>,
    outputs: Vec<*mut u8>,
    arena: *mut u8,
    constants: *mut u8,
    numbers: Vec<Number>,
    /// Copies made before the first step: from, to, bytes.
    copies: Vec<(*mut u8, *mut u8, u64)>,
    /// Buffers that live as long as the run.
    held: Vec<Handle>,
    /// Working memory of `prepare`.
    taken: Vec<Option<Handle>>,
    /// Working memory of `execute`.
    arguments: Vec<*mut u8>,
}

impl Default for Record {
    fn default() -> Record {
        Record {
            ticket: 0,
            program: None,
            parameters: Vec::new(),
            outputs: Vec::new(),
            arena: std::ptr::null_mut(),
            constants: std::ptr::null_mut(),
            numbers: Vec::new(),
            copies: Vec::new(),
            held: Vec::new(),
            taken: Vec::new(),
            arguments: Vec::new(),
        }
    }
}

// SAFETY: the pointers are to buffers that the run holds: outputs and parameters by
// their slots' tickets, the rest by handles. One thread at a time has the record.
unsafe impl Send for Record {}

impl Record {
    /// Does the run on this thread and the workers.
    pub(crate) fn execute(&mut self, scratch: &mut Scratch) {
        let Some(program) = self.program.take() else { return };
        let loaded = &*program.0;
        let parts = loaded.executable.parts();
        let counters = &loaded.device.0.counters;
        for &(from, to, bytes) in &self.copies {
            counters.copies.add(bytes);
            // SAFETY: `to` is a buffer of that size made for this copy.
            unsafe { std::ptr::copy_nonoverlapping(from, to, bytes as usize) };
        }
        for step in &parts.steps {
            match step {
                Step::Launch { kernel, arguments } => {
                    let k = *kernel as usize;
                    let mut addresses = std::mem::take(&mut self.arguments);
                    addresses.clear();
                    addresses.extend(arguments.iter().map(|&place| self.address(place)));
                    let job = Job {
                        entry: loaded.entries[k],
                        arguments: addresses.as_ptr(),
                        grid: parts.kernels[k].grid,
                        scratch: parts.kernels[k].scratch,
                        threads: loaded.threads[k],
                    };
                    // SAFETY: the executable was checked: each slot holds the bytes the
                    // kernel touches. The buffers are alive until the run's ticket
                    // finishes. One thread at a time does runs.
                    unsafe { loaded.device.0.threads.run(job, scratch) };
                    self.arguments = addresses;
                    counters.launches.fetch_add(1, Ordering::Relaxed);
                }
                Step::Copy { from, to, bytes } => {
                    counters.copies.add(*bytes);
                    let (from, to) = (self.address(*from), self.address(*to));
                    // SAFETY: the executable was checked: both slots have that many
                    // bytes and do not overlap.
                    unsafe { std::ptr::copy_nonoverlapping(from, to, *bytes as usize) };
                }
            }
        }
        self.program = Some(program);
    }

    fn address(&self, place: Place) -> *mut u8 {
        let base = match place.base {
            Base::Parameter(p) => self.parameters[p as usize],
            Base::Output(o) => self.outputs[o as usize],
            Base::Arena => self.arena,
            Base::Constants => self.constants,
        };
        // SAFETY: the executable was checked: the offset lies inside the buffer.
        unsafe { base.add(place.offset as usize) }
    }

    /// Makes room in an empty record.
    pub(crate) fn reserve(&mut self, sizes: Sizes) {
        self.parameters.reserve(sizes.parameters);
        self.numbers.reserve(sizes.parameters.saturating_sub(self.numbers.len()));
        self.copies.reserve(sizes.parameters);
        self.taken.reserve(sizes.parameters);
        self.held.reserve(sizes.parameters + 1);
        self.outputs.reserve(sizes.outputs);
        self.arguments.reserve(sizes.arguments.saturating_sub(self.arguments.len()));
    }

    /// Lets go of everything but the capacity.
    pub(crate) fn clear(&mut self) {
        self.held.clear();
        self.taken.clear();
        self.copies.clear();
        self.parameters.clear();
        self.outputs.clear();
        self.program = None;
    }
}
