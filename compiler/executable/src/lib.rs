//! Compiled programs as plain data.
//!
//! Code generation writes an [`Executable`], the runtime reads it, and neither
//! links the other. It holds no pointers and no closures. [`Executable::new`]
//! checks it once; the runtime relies on what that check established and checks
//! nothing again on the hot path.
//!
//! Machine code is reached through [`Loader`] and [`Code`], which a backend
//! implements and the façade hands to the runtime.

#![forbid(unsafe_code)]

mod check;

use std::fmt;
use std::sync::Arc;

use kiln_ir::Type;

/// Every buffer a kernel sees starts on a multiple of this many bytes.
pub const ALIGNMENT: u64 = 64;

/// The entry of a CPU kernel.
///
/// - `arguments` points to one pointer for each of the step's slots, in order;
/// - `scratch` points to [`Kernel::scratch`] bytes of the calling thread's own,
///   aligned to [`ALIGNMENT`] (null when that is 0);
/// - the call does the units of work `begin..end` of [`Kernel::grid`].
///
/// Disjoint ranges may run at the same time on different threads, and the bytes
/// written do not depend on how `0..grid` is cut into ranges.
pub type KernelFn =
    unsafe extern "C" fn(arguments: *const *mut u8, scratch: *mut u8, begin: u64, end: u64);

/// A compiled program. Build with [`Executable::new`], which checks it.
#[derive(Clone, Debug)]
pub struct Executable {
    parts: Parts,
}

/// The contents of an [`Executable`].
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Name of the traced function, for reports.
    pub name: String,
    /// Parameters in call order.
    pub parameters: Vec<Parameter>,
    /// Outputs in call order.
    pub outputs: Vec<Output>,
    /// Bytes of the constants, each at a multiple of [`ALIGNMENT`].
    pub constants: Arc<[u8]>,
    /// Bytes of the one slice of the pool that holds all temporaries of a run.
    pub arena: u64,
    /// Kernels, each once however often it is launched.
    pub kernels: Vec<Kernel>,
    /// Object files that hold the kernels' code.
    pub objects: Vec<Arc<[u8]>>,
    /// What a run does, in order.
    pub steps: Vec<Step>,
    /// What is known about the memory of a run before it starts.
    pub memory: Memory,
}

/// A parameter of an executable.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// Its type.
    pub ty: Type,
    /// Leaf path, for messages; may be empty.
    pub name: String,
    /// The caller gives the buffer up. Only then may a step write to it or an
    /// output take it.
    pub donated: bool,
}

/// An output of an executable.
#[derive(Clone, PartialEq, Debug)]
pub struct Output {
    /// Its type.
    pub ty: Type,
    /// Leaf path, for messages; may be empty.
    pub name: String,
    /// Where its bytes are after a run.
    pub storage: Storage,
}

/// Where the bytes of an output are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    /// In a buffer allocated for it before the run.
    Fresh,
    /// In the buffer of this donated parameter. No two outputs name the same.
    Parameter(u32),
}

/// Bytes known before a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// Sum of the parameters' bytes.
    pub parameters: u64,
    /// Sum of the bytes of outputs with [`Storage::Fresh`].
    pub outputs: u64,
    /// Bytes of constants.
    pub constants: u64,
    /// Bytes of the arena.
    pub arena: u64,
    /// Most bytes of temporaries that live at one step: no arena can be smaller.
    pub arena_lower_bound: u64,
}

impl Memory {
    /// Bytes held while a run is under way, inputs, outputs and constants included.
    pub fn peak(&self) -> u64 {
        self.parameters + self.outputs + self.constants + self.arena
    }
}

/// One piece of machine code.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// Which ops it holds, for people: `exp_add_reduce_sum`.
    pub name: String,
    /// Index into [`Parts::objects`].
    pub object: u32,
    /// Symbol of the entry ([`KernelFn`]) in that object.
    pub symbol: String,
    /// For each argument, whether the kernel writes to it, in order.
    pub arguments: Vec<Access>,
    /// Units of work.
    pub grid: u64,
    /// Least units worth handing to another thread; at least 1.
    pub grain: u64,
    /// Bytes of scratch each calling thread must have.
    pub scratch: u64,
    /// Bytes read and written by one launch, counted from the kernel IR.
    pub traffic: Traffic,
}

/// What a kernel does with an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads bytes `0..n`.
    Read(u64),
    /// Writes bytes `0..n`, or some of them; reads none that it has not written.
    Write(u64),
    /// Reads and writes bytes `0..n`.
    ReadWrite(u64),
}

impl Access {
    /// How many bytes the kernel may touch.
    pub fn bytes(self) -> u64 {
        match self {
            Access::Read(n) | Access::Write(n) | Access::ReadWrite(n) => n,
        }
    }

    /// Whether the kernel writes.
    pub fn writes(self) -> bool {
        !matches!(self, Access::Read(_))
    }
}

/// Compulsory memory traffic and arithmetic of one launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Bytes read, each counted as often as a pass over memory reads it.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Arithmetic operations on elements.
    pub flops: u64,
}

/// One thing a run does.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// Runs a kernel. The steps before have finished.
    Launch {
        /// Index into [`Parts::kernels`].
        kernel: u32,
        /// One slot for each of the kernel's arguments.
        arguments: Vec<Slot>,
    },
    /// Copies `bytes` bytes between slots that do not overlap.
    Copy {
        /// Read from here.
        from: Slot,
        /// Written here.
        to: Slot,
        /// How many.
        bytes: u64,
    },
}

/// A place in memory during a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot {
    /// Which buffer.
    pub base: Base,
    /// Bytes from its start, a multiple of [`ALIGNMENT`].
    pub offset: u64,
}

/// A buffer of a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Base {
    /// Parameter number.
    Parameter(u32),
    /// Output number; its storage must be [`Storage::Fresh`].
    Output(u32),
    /// The arena of temporaries.
    Arena,
    /// The constants.
    Constants,
}

impl Executable {
    /// Checks `parts` and wraps them.
    ///
    /// # Errors
    /// Names the first thing that is out of range, misaligned, or written though
    /// it may not be. That is a fault of whoever built the parts.
    pub fn new(parts: Parts) -> Result<Executable, CheckError> {
        check::check(&parts)?;
        Ok(Executable { parts })
    }

    /// The contents.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }
}

/// What [`Executable::new`] found.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("executable `{name}`: {message}")]
pub struct CheckError {
    pub(crate) name: String,
    pub(crate) message: String,
}

/// Makes machine code callable.
pub trait Loader: Send + Sync {
    /// Loads the objects and finds the entry of every kernel.
    ///
    /// # Errors
    /// If an object is damaged, for another machine, or lacks a symbol.
    fn load(&self, executable: &Executable) -> Result<Box<dyn Code>, LoadError>;
}

/// Loaded machine code. Dropping it unloads; nothing may be running in it then.
pub trait Code: Send + Sync + fmt::Debug {
    /// The entry of kernel `i` of the executable it was loaded from.
    fn entry(&self, kernel: usize) -> KernelFn;

    /// Bytes of machine code.
    fn code_bytes(&self) -> u64;
}

/// Machine code could not be loaded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("loading machine code: {0}")]
pub struct LoadError(pub String);
