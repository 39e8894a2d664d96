//! Loaded programs and their runs.
//!
//! A run is prepared first: arguments are checked, and every buffer is found or
//! allocated, in a [`Frame`]. That is all that can fail, and until then nothing has
//! happened. Then the frame's steps are done, at once by the caller or by way of the
//! queue; see the `queue` module for who does what when.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kiln_executable::{Base, Code, Executable, Loader, Parts, Slot, Step, Storage};
use kiln_ir::{DType, Scalar, Type};

use crate::ALIGNMENT;
use crate::array::{Array, Handle};
use crate::cpu::inside;
use crate::cpu::launches::{Crew, Launches};
use crate::cpu::team::Scratch;
use crate::device::{Device, Inner};
use crate::error::Error;
use crate::lock;
use crate::pool::End;
use crate::store::Use;

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

/// A run estimated to be shorter is done by the calling thread when nothing is before
/// it. Handing it over would take 60 to 90 µs until it starts, and as long again until
/// a caller who waits wakes up.
const SHORT_NANOSECONDS: u64 = 200_000;

struct Loaded {
    executable: Executable,
    /// Holds the machine code that `launches` points into.
    code: Box<dyn Code>,
    launches: Launches,
    constants: Option<Handle>,
    /// For each parameter, whether a run writes to its buffer or gives it to an output.
    consumed: Vec<bool>,
    device: Device,
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
        let launches = Launches::new(parts, &*code, self.0.team.count());
        self.0.queue.make_room(Sizes {
            parameters: parts.parameters.len(),
            outputs: parts.outputs.len(),
            arguments: launches.most_arguments,
        });
        Ok(Program(Arc::new(Loaded {
            consumed: consumed(parts),
            executable: executable.clone(),
            code,
            launches,
            constants,
            device: self.clone(),
        })))
    }
}

/// For each parameter, whether a run overwrites it. Only donated ones can be.
fn consumed(parts: &Parts) -> Vec<bool> {
    let mut consumed = vec![false; parts.parameters.len()];
    for output in &parts.outputs {
        if let Storage::Parameter(p) = output.storage {
            consumed[p as usize] = true;
        }
    }
    let mut write = |slot: &Slot| {
        if let Base::Parameter(p) = slot.base {
            consumed[p as usize] = true;
        }
    };
    for step in &parts.steps {
        match step {
            Step::Launch { kernel, arguments } => {
                let accesses = &parts.kernels[*kernel as usize].arguments;
                let pairs = arguments.iter().zip(accesses);
                pairs.filter(|(_, access)| access.writes()).for_each(|(slot, _)| write(slot));
            }
            Step::Copy { to, .. } => write(to),
        }
    }
    consumed
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

    /// Starts a run. `inputs` is drained; the outputs are appended, as arrays whose
    /// contents may still be on their way.
    ///
    /// From inside a run of the same device, the new one is done at once on this
    /// thread alone.
    ///
    /// # Errors
    /// If an argument does not fit its parameter, or the pool is full. `inputs` and
    /// `outputs` are then as they were.
    pub fn run(&self, inputs: &mut Vec<Input>, outputs: &mut Vec<Array>) -> Result<(), Error> {
        self.check(inputs)?;
        let Inner { queue, team, counters, .. } = &*self.0.device.0;
        if self.0.device.is_inside() {
            self.run_nested(inputs, outputs)?;
            counters.inline.fetch_add(1, Ordering::Relaxed);
        } else if self.0.launches.nanoseconds < SHORT_NANOSECONDS
            && let Some(mut turn) = queue.try_turn()
            && let Ok(()) = turn.work(|workspace| {
                let frame = &mut workspace.frame;
                self.run_now(inputs, outputs, frame, &mut workspace.scratch, &Crew::Team(team))
            })
        {
            counters.inline.fetch_add(1, Ordering::Relaxed);
        } else {
            // Also if memory was short: other runs may have been queued since, whose
            // buffers can be waited for.
            self.submit(inputs, outputs)?;
        }
        counters.runs.fetch_add(1, Ordering::Relaxed);
        inputs.clear();
        Ok(())
    }

    /// Does a run on this thread, with nothing queued before it that matters.
    fn run_now(
        &self,
        inputs: &[Input],
        outputs: &mut Vec<Array>,
        frame: &mut Frame,
        scratch: &mut Scratch,
        crew: &Crew<'_>,
    ) -> Result<(), Error> {
        let prepared = self.prepare(inputs, outputs, frame, Use::Now);
        if prepared.is_ok() {
            // SAFETY: the frame was prepared for this program, whose executable was
            // checked. `inputs`, `outputs` and the frame hold the buffers. What is written
            // is new, or was donated by its only holder, or is a copy; no queued run
            // touches it, as nothing is queued, or, for a nested run, by `prepare`.
            unsafe { self.0.launches.run(frame, crew, scratch, &self.0.device.0.counters) };
        }
        frame.clear();
        prepared
    }

    /// A run inside another run of the device.
    fn run_nested(&self, inputs: &[Input], outputs: &mut Vec<Array>) -> Result<(), Error> {
        for input in inputs {
            if let Input::Kept(a) | Input::Donated(a) = input {
                // It cannot be waited for.
                a.block_until_ready()?;
            }
        }
        let (mut frame, mut scratch) = (Frame::default(), Scratch::default());
        inside::enter(self.0.device.0.number, || {
            self.run_now(inputs, outputs, &mut frame, &mut scratch, &Crew::Alone)
        })
    }

    /// Puts a run into the queue.
    fn submit(&self, inputs: &[Input], outputs: &mut Vec<Array>) -> Result<(), Error> {
        let queue = &self.0.device.0.queue;
        let before = outputs.len();
        let mut record = queue.record();
        let mut prepared = self.prepare(inputs, outputs, &mut record.frame, Use::AfterQueue);
        if prepared.is_err() {
            // Queued runs may give back what is missing.
            record.frame.clear();
            self.0.device.synchronize();
            prepared = self.prepare(inputs, outputs, &mut record.frame, Use::AfterQueue);
        }
        if let Err(error) = prepared {
            record.frame.clear();
            queue.give_back(record);
            return Err(error);
        }
        record.program = Some(self.clone());
        queue.submit(record, |record, ticket| {
            let touch = |handle: &Handle| handle.slot().used.store(ticket, Ordering::Release);
            for input in inputs {
                if let Input::Kept(a) | Input::Donated(a) = input {
                    touch(a.handle());
                }
            }
            for output in &outputs[before..] {
                touch(output.handle());
                output.handle().slot().ready.store(ticket, Ordering::Release);
            }
            record.frame.held.iter().for_each(touch);
            // They stay until the ticket finishes, and serve the runs queued after it.
            record.frame.held.clear();
        });
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

    /// Finds or allocates every buffer of a run. On an error, `outputs` is as it was and
    /// the frame holds what must be let go of; the only error is a full pool.
    fn prepare(
        &self,
        inputs: &[Input],
        outputs: &mut Vec<Array>,
        frame: &mut Frame,
        used: Use,
    ) -> Result<(), Error> {
        let before = outputs.len();
        let result = self.find_buffers(inputs, outputs, frame, used);
        if result.is_err() {
            outputs.truncate(before);
        }
        result
    }

    fn find_buffers(
        &self,
        inputs: &[Input],
        outputs: &mut Vec<Array>,
        frame: &mut Frame,
        used: Use,
    ) -> Result<(), Error> {
        let Loaded { executable, device, constants, consumed, .. } = &*self.0;
        let parts = executable.parts();
        // Held throughout: one lock for all buffers. No handle is dropped here.
        let mut store = lock(&device.0.store);
        let mut allocate = |bytes: u64, end: End, what: &dyn Fn() -> String| {
            store
                .allocate(bytes, end, used, &device.0.memory, device)
                .map_err(|full| device.out_of_memory(what(), bytes, full))
        };

        frame.bases.push(std::ptr::null_mut()); // ARENA, below
        frame.bases.push(constants.as_ref().map_or(std::ptr::null_mut(), |c| c.slot().start));
        frame.numbers.resize(parts.parameters.len(), Number::default());
        for (i, (input, parameter)) in inputs.iter().zip(&parts.parameters).enumerate() {
            let start = match input {
                Input::Kept(a) | Input::Donated(a) => a.handle().slot().start,
                Input::Scalar(s) => {
                    frame.numbers[i].0[..16].copy_from_slice(&s.to_le_bytes());
                    frame.numbers[i].0.as_mut_ptr()
                }
            };
            let own = match input {
                // A queued run may still read it. In the queue this one comes after.
                Input::Donated(a) => {
                    a.handle().is_unique()
                        && (used == Use::AfterQueue
                            || a.handle().slot().used.load(Ordering::Acquire) <= device.completed())
                }
                Input::Kept(_) | Input::Scalar(_) => false,
            };
            frame.copied.push(None);
            if own || !consumed[i] {
                frame.bases.push(start);
                continue;
            }
            let bytes = parameter.ty.bytes() as u64;
            let what = || format!("a copy of `{}`, which is still held elsewhere", parameter.name);
            let copy = allocate(bytes, End::High, &what)?;
            frame.copies.push((start, copy.slot().start, bytes));
            frame.bases.push(copy.slot().start);
            frame.copied[i] = Some(copy);
        }
        for output in &parts.outputs {
            let handle = match output.storage {
                Storage::Fresh => {
                    let what = || format!("an output of {}", output.ty);
                    allocate(output.ty.bytes() as u64, End::High, &what)?
                }
                Storage::Parameter(p) => match (&frame.copied[p as usize], &inputs[p as usize]) {
                    (Some(copy), _) => copy.clone(),
                    (None, Input::Donated(a)) => a.handle().clone(),
                    (None, _) => unreachable!("what is not donated was copied"),
                },
            };
            frame.bases.push(handle.slot().start);
            outputs.push(Array::new(output.ty.clone(), handle));
        }
        if parts.arena > 0 {
            let what = || format!("the temporaries of `{}`", parts.name);
            let arena = allocate(parts.arena, End::Low, &what)?;
            frame.bases[crate::cpu::launches::ARENA] = arena.slot().start;
            frame.held.push(arena);
        }
        // Copies that no output took live as long as the run.
        frame.held.extend(frame.copied.drain(..).flatten());
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

/// How much room a program needs in a frame.
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

/// Where everything of a run is. Used again for the next one.
#[derive(Default)]
pub(crate) struct Frame {
    /// Where buffers start: arena, constants, parameters, outputs.
    pub bases: Vec<*mut u8>,
    /// Rank-0 arguments that came as numbers; `bases` points to them, and they do not
    /// move while a run is under way.
    numbers: Vec<Number>,
    /// Copies made before the first step: from, to, bytes.
    pub copies: Vec<(*mut u8, *mut u8, u64)>,
    /// Buffers that live as long as the run.
    held: Vec<Handle>,
    /// For each parameter, the copy that is overwritten in its place.
    copied: Vec<Option<Handle>>,
    /// Addresses of the launch under way.
    pub arguments: Vec<*mut u8>,
}

impl Frame {
    /// Makes room in an empty frame.
    pub(crate) fn reserve(&mut self, sizes: Sizes) {
        self.bases.reserve(2 + sizes.parameters + sizes.outputs);
        self.numbers.reserve(sizes.parameters.saturating_sub(self.numbers.len()));
        self.copies.reserve(sizes.parameters);
        self.held.reserve(sizes.parameters + 1);
        self.copied.reserve(sizes.parameters);
        self.arguments.reserve(sizes.arguments.saturating_sub(self.arguments.len()));
    }

    /// Lets go of everything but the capacity.
    fn clear(&mut self) {
        self.held.clear();
        self.copied.clear();
        self.copies.clear();
        self.bases.clear();
    }
}

/// A queued run.
#[derive(Default)]
pub(crate) struct Record {
    pub ticket: u64,
    pub program: Option<Program>,
    pub frame: Frame,
}

// SAFETY: the pointers are to buffers that the run holds by their slots' tickets, and to
// the frame's own numbers. One thread at a time has the record.
unsafe impl Send for Record {}

impl Record {
    /// Does the run on this thread, which has the turn, and the team.
    pub(crate) fn execute(&mut self, scratch: &mut Scratch) {
        let Some(program) = &self.program else { return };
        let Inner { team, counters, .. } = &*program.0.device.0;
        // SAFETY: the frame was prepared for this program, whose executable was checked.
        // The buffers stay until this run's ticket finishes. What is written is new,
        // or was donated by its only holder, or is a copy, and the queue is in order.
        unsafe {
            program.0.launches.run(&mut self.frame, &Crew::Team(team), scratch, counters);
        }
    }

    /// Lets go of everything but the capacity.
    pub(crate) fn clear(&mut self) {
        self.frame.clear();
        self.program = None;
    }
}
