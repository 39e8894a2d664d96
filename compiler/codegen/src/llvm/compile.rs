//! From kernels to object files.
//!
//! Kernels are emitted into modules, a few small ones together, and the modules are
//! compiled by several threads, each with an LLVM context and a target machine of its
//! own. Which kernels share a module depends on the kernels alone, so objects are the
//! same bytes on any number of threads.

use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{FileType, TargetMachine};
use inkwell::values::FunctionValue;

use super::build::Build;
use super::elf;
use super::gemm;
use super::loops::{self, Buffers, Launch};
use super::sort;
use super::target::{self, Isa};
use super::together;
use crate::kernel::{Argument, Body, Kernel};

/// How to generate code.
#[derive(Clone, Debug)]
pub struct Options {
    /// The instructions to use.
    pub isa: Isa,
    /// Most threads to compile on.
    pub threads: usize,
    /// A buffer that a kernel only writes is written past the caches from this many
    /// bytes on, since it would not stay in them.
    pub stream_bytes: u64,
    /// The same for a buffer that the program does not read again ([`Job::unread`]),
    /// which need not stay in them.
    pub stream_unread_bytes: u64,
}

impl Default for Options {
    /// For this machine and all its processors.
    fn default() -> Options {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        Options {
            isa: Isa::detect(),
            threads,
            stream_bytes: 64 << 20,
            stream_unread_bytes: 8 << 20,
        }
    }
}

/// A kernel to compile, and what the program around it knows.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// For each argument, whether what is written to it is never read by the program:
    /// it goes to the caller, who may take his time. Empty: nothing is known.
    pub unread: Vec<bool>,
}

impl Job<'_> {
    /// Which arguments are written past the caches: those that are only written, are
    /// larger than the caches, or large and not needed in them. One that is read too
    /// is in the caches already.
    fn streaming(&self, options: &Options) -> Vec<bool> {
        let streams = |(i, a): (usize, &Argument)| {
            let bytes = a.elements * a.dtype.size() as u64;
            let least = match self.unread.get(i) {
                Some(true) => options.stream_unread_bytes.min(options.stream_bytes),
                _ => options.stream_bytes,
            };
            a.writes && !a.reads && bytes >= least
        };
        self.kernel.arguments.iter().enumerate().map(streams).collect()
    }

    /// The kernels themselves, of which nothing more is known.
    fn all(kernels: &[Kernel]) -> Vec<Job<'_>> {
        kernels.iter().map(|kernel| Job { kernel, unread: Vec::new() }).collect()
    }
}

/// Compiled kernels.
#[derive(Clone, Debug)]
pub struct Code {
    /// One for each kernel, in order.
    pub entries: Vec<Entry>,
    /// The object files they are in.
    pub objects: Vec<Arc<[u8]>>,
}

/// Where a kernel's code is and how it is launched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Index into [`Code::objects`].
    pub object: u32,
    /// Symbol in that object, of type [`kiln_executable::KernelFn`].
    pub symbol: String,
    /// Units of work.
    pub grid: u64,
    /// Least units worth handing to another thread.
    pub grain: u64,
    /// Bytes of scratch for each thread.
    pub scratch: u64,
}

/// A kernel could not be compiled: a failure of the toolchain, or a fault of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompileError {
    what: String,
    message: String,
}

impl CompileError {
    pub(crate) fn target(isa: Isa, message: impl fmt::Display) -> CompileError {
        CompileError { what: format!("target {isa:?}"), message: message.to_string() }
    }

    pub(crate) fn kernel(name: &str, message: impl fmt::Display) -> CompileError {
        CompileError { what: format!("kernel `{name}`"), message: message.to_string() }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generating code for {}: {}", self.what, self.message)
    }
}

impl std::error::Error for CompileError {}

/// What [`text`] writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextKind {
    /// LLVM IR after the passes.
    Ir,
    /// Assembly.
    Assembly,
}

/// Compiles `kernels`.
///
/// # Errors
/// If LLVM refuses, which is a fault of its installation or of ours.
pub fn compile(kernels: &[Kernel], options: &Options) -> Result<Code, CompileError> {
    compile_jobs(&Job::all(kernels), options)
}

/// Compiles kernels of which more is known.
///
/// # Errors
/// As [`compile`].
pub fn compile_jobs(jobs: &[Job], options: &Options) -> Result<Code, CompileError> {
    // Equal kernels are compiled once.
    let pieces: Vec<Piece> = jobs.iter().map(|job| Piece::new(job, options)).collect();
    let mut first: HashMap<&str, usize> = HashMap::new();
    let mut distinct = Vec::new();
    for (i, piece) in pieces.iter().enumerate() {
        first.entry(&piece.symbol).or_insert_with(|| {
            distinct.push(i);
            i
        });
    }
    let groups = group(&pieces, &distinct);
    let made = in_parallel(groups.len(), options.threads, |worker: &mut Option<Worker>, g| {
        if worker.is_none() {
            *worker = Some(Worker::new(options)?);
        }
        let worker = worker.as_ref().expect("made above");
        let members: Vec<&Piece> = groups[g].iter().map(|&i| &pieces[i]).collect();
        worker.object(&members)
    })?;

    let mut objects = Vec::with_capacity(made.len());
    let mut at: HashMap<usize, Entry> = HashMap::new();
    for (group, (object, launches)) in groups.iter().zip(made) {
        for (&i, launch) in group.iter().zip(launches) {
            let (object, symbol) = (objects.len() as u32, pieces[i].symbol.clone());
            let Launch { grid, grain, scratch } = launch;
            at.insert(i, Entry { object, symbol, grid, grain, scratch });
        }
        objects.push(object);
    }
    let entries = pieces.iter().map(|p| at[&first[p.symbol.as_str()]].clone()).collect();
    Ok(Code { entries, objects })
}

/// The code of `kernels` for people to read.
///
/// # Errors
/// As [`compile`].
pub fn text(kernels: &[Kernel], options: &Options, kind: TextKind) -> Result<String, CompileError> {
    text_of_jobs(&Job::all(kernels), options, kind)
}

/// The code that [`compile_jobs`] makes, for people to read.
///
/// # Errors
/// As [`compile`].
pub fn text_of_jobs(
    jobs: &[Job],
    options: &Options,
    kind: TextKind,
) -> Result<String, CompileError> {
    let worker = Worker::new(options)?;
    let mut text = String::new();
    for job in jobs {
        let comment = if kind == TextKind::Ir { ';' } else { '#' };
        for line in job.kernel.to_string().lines() {
            let _ = writeln!(text, "{comment} {line}");
        }
        let (module, _) = worker.module(&[&Piece::new(job, options)])?;
        match kind {
            TextKind::Ir => text.push_str(&module.print_to_string().to_string_lossy()),
            TextKind::Assembly => {
                let buffer = worker
                    .machine
                    .write_to_memory_buffer(&module, FileType::Assembly)
                    .map_err(|e| CompileError::kernel(&job.kernel.name, e))?;
                text.push_str(&String::from_utf8_lossy(buffer.as_slice()));
            }
        }
        text.push('\n');
    }
    Ok(text)
}

/// A kernel about to be emitted.
struct Piece<'a> {
    kernel: &'a Kernel,
    /// Which arguments are written past the caches.
    streaming: Vec<bool>,
    symbol: String,
}

impl<'a> Piece<'a> {
    fn new(job: &Job<'a>, options: &Options) -> Piece<'a> {
        let streaming = job.streaming(options);
        let symbol = symbol(job.kernel, &streaming);
        Piece { kernel: job.kernel, streaming, symbol }
    }
}

/// Kernels that share a module: as they come, until there is enough for one.
fn group(pieces: &[Piece], distinct: &[usize]) -> Vec<Vec<usize>> {
    /// Expressions from which on a module is full: some milliseconds of compile time,
    /// against which the fixed cost of a module is small.
    const FULL: usize = 120;
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut size = FULL;
    for &i in distinct {
        if size >= FULL {
            groups.push(Vec::new());
            size = 0;
        }
        groups.last_mut().expect("pushed above").push(i);
        size += match &pieces[i].kernel.body {
            Body::Loops(loops) => loops.exprs.len(),
            Body::Together(parts) => parts.iter().map(|p| p.exprs.len()).sum(),
            Body::Contraction(_) => FULL,
            // A call, and a function of a few expressions.
            Body::Sort(_) => FULL / 8,
        };
    }
    groups
}

/// Runs `job(state, i)` for `0..count` on up to `threads` threads, with one state for
/// each thread. The error is that of the least `i`.
fn in_parallel<T: Send, S: Default>(
    count: usize,
    threads: usize,
    job: impl Fn(&mut S, usize) -> Result<T, CompileError> + Sync,
) -> Result<Vec<T>, CompileError> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<Result<T, CompileError>>>> =
        Mutex::new((0..count).map(|_| None).collect());
    let work = || {
        let mut state = S::default();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                return;
            }
            let result = job(&mut state, i);
            results.lock().unwrap_or_else(PoisonError::into_inner)[i] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(work);
        }
        work();
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.into_iter().map(|r| r.expect("every job was done")).collect()
}

/// What one thread compiles with.
struct Worker {
    context: Context,
    machine: TargetMachine,
    isa: Isa,
}

/// Light passes: emission has placed values outside loops and chosen vectors, so what
/// is left is folding, common subexpressions across copies, and addresses and
/// broadcasts that are constant in a loop.
const PASSES: &str = "function(early-cse<memssa>,loop-mssa(licm),instcombine<no-verify-fixpoint>,early-cse<memssa>,\
                      simplifycfg,adce)";

impl Worker {
    fn new(options: &Options) -> Result<Worker, CompileError> {
        let machine = target::machine(options.isa)?;
        Ok(Worker { context: Context::create(), machine, isa: options.isa })
    }

    /// An object file with some kernels, and how each is launched.
    fn object(&self, pieces: &[&Piece]) -> Result<(Arc<[u8]>, Vec<Launch>), CompileError> {
        let (module, launches) = self.module(pieces)?;
        let buffer = self
            .machine
            .write_to_memory_buffer(&module, FileType::Object)
            .map_err(|e| CompileError::kernel(&pieces[0].kernel.name, e))?;
        Ok((elf::seal(buffer.as_slice()).into(), launches))
    }

    /// An optimised module with some kernels.
    fn module(&self, pieces: &[&Piece]) -> Result<(Module<'_>, Vec<Launch>), CompileError> {
        let fail =
            |e: inkwell::support::LLVMString| CompileError::kernel(&pieces[0].kernel.name, e);
        let module = target::module(&self.context, &self.machine, &pieces[0].symbol);
        let build = Build::new(&self.context, module);
        let launches = pieces.iter().map(|piece| self.emit(&build, piece)).collect();
        for function in build.module.get_functions().filter(|f| f.count_basic_blocks() > 0) {
            self.attributes(&build, function);
        }
        let module = build.module;
        if cfg!(debug_assertions) {
            module.verify().map_err(fail)?;
        }
        module.run_passes(PASSES, &self.machine, PassBuilderOptions::create()).map_err(fail)?;
        Ok((module, launches))
    }

    fn attributes<'c>(&'c self, build: &Build<'c>, function: FunctionValue<'c>) {
        build.attribute(function, "tune-cpu", self.isa.tune());
        let bits = self.isa.vector_bits().to_string();
        build.attribute(function, "prefer-vector-width", &bits);
    }

    fn emit<'c>(&'c self, build: &Build<'c>, piece: &Piece) -> Launch {
        let Piece { kernel, streaming, symbol } = piece;
        let arguments = &kernel.arguments[..];
        let buffers = Buffers { arguments, streaming };
        match &kernel.body {
            Body::Loops(loops) => loops::emit(build, self.isa, buffers, loops, symbol, true).1,
            Body::Together(parts) => together::emit(build, self.isa, buffers, parts, symbol),
            Body::Sort(sort) => sort::emit(build, self.isa, arguments, sort, symbol),
            Body::Contraction(c) => gemm::emit(build, self.isa, arguments, c, symbol),
        }
    }
}

/// A symbol that follows from what the kernel computes, and says what that is.
fn symbol(kernel: &Kernel, streaming: &[bool]) -> String {
    let mut hasher = elf::Fnv::default();
    kernel.arguments.hash(&mut hasher);
    kernel.body.hash(&mut hasher);
    streaming.hash(&mut hasher);
    let name: String =
        kernel.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("kiln_{name}_{:016x}", hasher.finish())
}
