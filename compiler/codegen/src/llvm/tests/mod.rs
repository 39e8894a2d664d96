//! Tests of generated code: every kernel is run on each level of instructions that
//! this machine has, cut into units of work in several ways, and compared with the
//! interpreter bit for bit.

mod elementwise;
mod fence;
mod fuzz;
mod inner;
mod points;
mod toolchain;

use std::sync::OnceLock;

use inkwell::context::Context;
use inkwell::targets::FileType;
use kiln_executable::KernelFn;
use kiln_ir::{DType, Scalar};

use super::build::Build;
use super::loops::Launch;
use super::{Entry, Isa, Options, OrcLoader, compile, elf, target};
use crate::interpret::{self, Buffer};
use crate::kernel::{
    Argument, Axis, Body, Expr, ExprId, Exprs, Index, Kernel, Lanes, Loops, Stage, Store,
};
use fence::{Fenced, Line};

/// A small generator: the same numbers on every machine.
pub(super) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A bit pattern: an everyday value, a corner case, or anything.
    pub fn element(&mut self, dtype: DType) -> u64 {
        let mask = if dtype.size() == 8 { u64::MAX } else { (1 << (8 * dtype.size())) - 1 };
        if dtype == DType::Bool {
            return self.next() & 1;
        }
        match self.below(8) {
            0 if dtype.is_float() => {
                let special = [
                    0.0,
                    -0.0,
                    f64::NAN,
                    f64::INFINITY,
                    f64::NEG_INFINITY,
                    1e-40,
                    -1e-7,
                    1e30,
                    65520.0,
                    2147483648.0,
                    -9.3e18,
                    0.5,
                    2.5,
                ];
                Scalar::from_f64(dtype, self.pick(&special)).bits()
            }
            0 => self.pick(&[0, 1, u64::MAX, u64::MAX - 1, 1 << 63, 1 << 31, 0x7f, 0x80]) & mask,
            1 => self.next() & mask,
            _ if dtype.is_float() => {
                let x = (self.next() as i64 >> 40) as f64 / 65536.0;
                Scalar::from_f64(dtype, x).bits()
            }
            _ => Scalar::from_i128(dtype, self.below(40) as i128 - 20).bits() & mask,
        }
    }

    pub fn buffer(&mut self, argument: &Argument) -> Buffer {
        let elements = (0..argument.elements).map(|_| self.element(argument.dtype)).collect();
        Buffer { dtype: argument.dtype, elements }
    }
}

/// Builds kernels of one part in few words.
pub(super) struct Builder {
    pub arguments: Vec<Argument>,
    pub exprs: Exprs,
    pub stages: Vec<Stage>,
}

impl Builder {
    pub fn new() -> Builder {
        Builder { arguments: Vec::new(), exprs: Exprs::default(), stages: Vec::new() }
    }

    pub fn read(&mut self, dtype: DType, elements: u64) -> u32 {
        self.arguments.push(Argument { dtype, elements, reads: true, writes: false });
        self.arguments.len() as u32 - 1
    }

    pub fn write(&mut self, dtype: DType, elements: u64) -> u32 {
        self.arguments.push(Argument { dtype, elements, reads: false, writes: true });
        self.arguments.len() as u32 - 1
    }

    pub fn load(&mut self, argument: u32, index: Index) -> ExprId {
        let dtype = self.arguments[argument as usize].dtype;
        self.exprs.add(Expr::Load { argument, index, valid: None }, dtype)
    }

    pub fn load_if(&mut self, argument: u32, index: Index, valid: ExprId) -> ExprId {
        let dtype = self.arguments[argument as usize].dtype;
        self.exprs.add(Expr::Load { argument, index, valid: Some(valid) }, dtype)
    }

    /// Adds a stage and returns it.
    pub fn stage(&mut self, inner: u64) -> &mut Stage {
        self.stages.push(Stage::new(inner));
        self.stages.last_mut().unwrap()
    }

    /// Stores to a new argument of the value's type, in the last stage.
    pub fn store(&mut self, elements: u64, index: Index, value: ExprId) -> u32 {
        let argument = self.write(self.exprs.dtype(value), elements);
        self.stages.last_mut().unwrap().stores.push(Store { argument, index, value });
        argument
    }

    pub fn kernel(self, points: &[u64], lanes: Lanes) -> Kernel {
        let Builder { arguments, exprs, stages } = self;
        let loops = Loops { points: points.to_vec(), lanes, exprs, stages };
        Kernel { name: "test".to_string(), arguments, body: Body::Loops(loops) }
    }
}

/// `Axis::Point(p)` as an index.
pub(super) fn point(p: u32) -> Index {
    Index::axis(Axis::Point(p))
}

/// `Axis::Inner` as an index.
pub(super) fn inner() -> Index {
    Index::axis(Axis::Inner)
}

// --- running ------------------------------------------------------------

const GUARD: u8 = 0xa5;

/// Aligned memory with a guard line before it and, after the rest of its last line, a
/// page whose touch ends the test: a kernel may not even read past an argument.
struct Memory {
    lines: Fenced,
    bytes: usize,
}

impl Memory {
    fn new(bytes: usize) -> Memory {
        let mut lines = Fenced::new(bytes.div_ceil(64) + 1);
        lines.fill(Line([GUARD; 64]));
        Memory { lines, bytes }
    }

    fn of(buffer: &Buffer) -> Memory {
        let size = buffer.dtype.size();
        let mut memory = Memory::new(size * buffer.elements.len());
        let lines = memory.lines[1..].iter_mut();
        for (line, elements) in lines.zip(buffer.elements.chunks(64 / size)) {
            for (place, element) in line.0.chunks_exact_mut(size).zip(elements) {
                place.copy_from_slice(&element.to_le_bytes()[..size]);
            }
        }
        memory
    }

    fn buffer(&self, dtype: DType) -> Buffer {
        let size = dtype.size();
        let element = |place: &[u8]| {
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(place);
            u64::from_le_bytes(bytes)
        };
        let places = self.lines[1..].iter().flat_map(|line| line.0.chunks_exact(size));
        Buffer { dtype, elements: places.take(self.bytes / size).map(element).collect() }
    }

    fn pointer(&mut self) -> *mut u8 {
        self.lines[1..].as_mut_ptr() as *mut u8
    }

    fn check_guards(&self) {
        let after =
            (self.bytes..(self.lines.len() - 1) * 64).map(|at| self.lines[1 + at / 64].0[at % 64]);
        assert!(
            self.lines[0].0.iter().copied().chain(after).all(|b| b == GUARD),
            "a kernel wrote outside its argument"
        );
    }
}

/// One loader for all tests, as in a program.
pub(super) fn loader() -> &'static OrcLoader {
    static LOADER: OnceLock<OrcLoader> = OnceLock::new();
    LOADER.get_or_init(|| OrcLoader::new().unwrap())
}

/// Calls an entry for some ranges of units.
fn call(entry: KernelFn, scratch: u64, memories: &mut [Memory], ranges: &[(u64, u64)]) {
    let mut memory = Memory::new(scratch as usize);
    let pointers: Vec<*mut u8> = memories.iter_mut().map(Memory::pointer).collect();
    for &(begin, end) in ranges {
        // SAFETY: there is one pointer for each argument, to aligned memory of its size
        // that nothing else uses; scratch is as long as asked for; ranges are within
        // the grid.
        unsafe { entry(pointers.as_ptr(), memory.pointer(), begin, end) };
        memory.check_guards();
    }
}

/// Ways to cut a grid into ranges; all units, in some order.
fn partitions(grid: u64) -> Vec<Vec<(u64, u64)>> {
    let mut all = vec![vec![(0, grid)]];
    if grid > 1 {
        let cut = grid / 3 + 1;
        all.push(vec![(cut, grid), (0, cut)]);
        let step = (grid / 7).max(1);
        let pieces = (0..grid).step_by(step as usize).map(|b| (b, (b + step).min(grid)));
        let mut pieces: Vec<_> = pieces.collect();
        pieces.reverse();
        all.push(pieces);
    }
    all
}

/// Equal bits, or both NaN: which payload survives is not defined.
pub(super) fn same(dtype: DType, a: u64, b: u64) -> bool {
    let nan = |bits| dtype.is_float() && Scalar::from_bits(dtype, bits).as_f64().is_nan();
    a == b || (nan(a) && nan(b))
}

/// The levels that this machine can run.
pub(super) fn levels() -> Vec<Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_supported()).collect()
}

/// Runs `kernel` everywhere on `inputs` and compares with the interpreter.
pub(super) fn check_on(kernel: &Kernel, inputs: &[Buffer]) {
    check_levels(kernel, inputs, &levels());
}

/// Runs `kernel` on some levels and compares with the interpreter.
pub(super) fn check_levels(kernel: &Kernel, inputs: &[Buffer], levels: &[Isa]) {
    let mut expected = inputs.to_vec();
    interpret::run(kernel, &mut expected);
    check_expected(kernel, inputs, &expected, levels);
}

/// Runs `kernel` on some levels and compares with what is expected.
pub(super) fn check_expected(
    kernel: &Kernel,
    inputs: &[Buffer],
    expected: &[Buffer],
    levels: &[Isa],
) {
    for &isa in levels {
        let options = Options { isa, threads: 1, ..Options::default() };
        let code = compile(std::slice::from_ref(kernel), &options).unwrap();
        let Entry { grid, scratch, symbol, .. } = &code.entries[0];
        let loaded = loader().load_objects(&code.objects, &[symbol]).unwrap();
        let note = format!("{isa:?}");
        compare(kernel, (loaded.entry(0), *grid, *scratch), inputs, expected, &note);
    }
}

/// Runs what `emit` makes of `kernel`, on `isa` and without passes, and compares with
/// the interpreter.
pub(super) fn check_emitted(
    kernel: &Kernel,
    inputs: &[Buffer],
    isa: Isa,
    emit: &dyn Fn(&Build, &str) -> Launch,
    note: &str,
) {
    let context = Context::create();
    let machine = target::machine(isa).unwrap();
    let build = Build::new(&context, target::module(&context, &machine, "test"));
    let launch = emit(&build, "entry");
    build.module.verify().unwrap();
    let object = machine.write_to_memory_buffer(&build.module, FileType::Object).unwrap();
    let object = elf::seal(object.as_slice()).into();
    let loaded = loader().load_objects(&[object], &["entry"]).unwrap();
    let mut expected = inputs.to_vec();
    interpret::run(kernel, &mut expected);
    let entry = (loaded.entry(0), launch.grid, launch.scratch);
    compare(kernel, entry, inputs, &expected, note);
}

/// Runs an entry with its grid cut in several ways.
fn compare(
    kernel: &Kernel,
    (entry, grid, scratch): (KernelFn, u64, u64),
    inputs: &[Buffer],
    expected: &[Buffer],
    note: &str,
) {
    for ranges in partitions(grid) {
        let mut memories: Vec<Memory> = inputs.iter().map(Memory::of).collect();
        call(entry, scratch, &mut memories, &ranges);
        for (i, (memory, want)) in memories.iter().zip(expected).enumerate() {
            memory.check_guards();
            let got = memory.buffer(want.dtype);
            for (k, (g, w)) in got.elements.iter().zip(&want.elements).enumerate() {
                let show = |bits| Scalar::from_bits(want.dtype, bits);
                assert!(
                    same(want.dtype, *g, *w),
                    "{note}, units {ranges:?}: element {k} of argument {i} is {:?} \
                     (0x{g:x}), not {:?} (0x{w:x})\n{kernel}",
                    show(*g),
                    show(*w),
                );
            }
        }
    }
}

/// [`check_on`] random inputs.
pub(super) fn check(kernel: &Kernel, seed: u64) {
    let mut random = Random(seed);
    let inputs: Vec<Buffer> = kernel.arguments.iter().map(|a| random.buffer(a)).collect();
    check_on(kernel, &inputs);
}
