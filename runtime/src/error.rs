//! What can fail.
//!
//! Everything that can go wrong with a run goes wrong before it starts: types and
//! devices of arguments, memory. A run that was submitted on the CPU cannot fail; the
//! calls that wait return a `Result` since this is where other devices report.

use kiln_executable::LoadError;
use kiln_ir::Type;

/// A failure of the runtime.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The pool has no free block that is large enough.
    #[error(
        "out of memory: {what} needs {requested} bytes, but of {capacity} bytes {in_use} are in \
         use and the largest free block has {largest_free}"
    )]
    OutOfMemory {
        /// For what.
        what: String,
        /// How much.
        requested: u64,
        /// Bytes of the pool.
        capacity: u64,
        /// Bytes handed out.
        in_use: u64,
        /// Bytes of the largest free block.
        largest_free: u64,
    },
    /// The system refused address space or a thread.
    #[error("setting up the device: {0}")]
    Setup(String),
    /// Machine code could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A run was given another number of arguments than the program has parameters.
    #[error("`{program}` takes {wanted} arguments, not {given}")]
    ArgumentCount {
        /// Name of the program.
        program: String,
        /// Parameters.
        wanted: usize,
        /// Arguments.
        given: usize,
    },
    /// An argument has another type than its parameter.
    #[error("`{program}`: argument {index} `{name}` is {given}, not {wanted}")]
    ArgumentType {
        /// Name of the program.
        program: String,
        /// Which argument.
        index: usize,
        /// Leaf path of the parameter.
        name: String,
        /// The parameter's type.
        wanted: Box<Type>,
        /// The argument's type.
        given: Box<Type>,
    },
    /// An argument is on another device.
    #[error("`{program}`: argument {index} `{name}` is on another device")]
    OtherDevice {
        /// Name of the program.
        program: String,
        /// Which argument.
        index: usize,
        /// Leaf path of the parameter.
        name: String,
    },
    /// Code inside a run waits for work that comes after that run.
    #[error("inside a run of the same device: waiting for a later run would never end")]
    Nested,
    /// Host memory has another size than the array.
    #[error("{given} bytes of host memory for an array of type {ty}, which has {wanted}")]
    HostBytes {
        /// The array's type.
        ty: Box<Type>,
        /// Its bytes.
        wanted: usize,
        /// Bytes of the host memory.
        given: usize,
    },
}
