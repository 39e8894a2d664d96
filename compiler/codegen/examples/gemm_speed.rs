//! How fast generated matrix products are, beside what the machine can do.
//!
//! ```text
//! cargo run --release -p kiln-codegen --example gemm_speed [-- name]
//! ```
//!
//! Each line gives the rate of one thread, by the time that it ran, at the 10th
//! percentile and the median of the repetitions, both also as a fraction of the rate of a
//! loop of fused multiply-adds in registers that was measured between them, and the time
//! to compile. A busy machine slows a product, which needs its caches, more than the loop.

use std::error::Error;
use std::time::Instant;

use kiln_codegen::kernel::expr::BinaryOp;
use kiln_codegen::kernel::{
    Argument, Axis, Body, Contraction, Expr, ExprId, Exprs, Index, Kernel, Store,
};
use kiln_codegen::llvm::{self, Options, OrcLoader};
use kiln_executable::{
    Access, Base, Executable, Kernel as Entry, Loader, Output, Parameter, Parts, Slot, Step,
    Storage,
};
use kiln_ir::{DType, Type};

/// Which factors are stored transposed, and what follows the sum.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    LeftTurned,
    RightTurned,
    BiasGelu,
}

/// Name, batch, rows, columns, steps.
const CASES: [(&str, u64, u64, u64, u64, Form); 16] = [
    ("square_1024", 1, 1024, 1024, 1024, Form::Plain),
    ("square_2048", 1, 2048, 2048, 2048, Form::Plain),
    ("square_1024_atb", 1, 1024, 1024, 1024, Form::LeftTurned),
    ("square_1024_abt", 1, 1024, 1024, 1024, Form::RightTurned),
    ("odd", 1, 1000, 777, 513, Form::Plain),
    ("mlp_forward", 1, 128, 512, 784, Form::Plain),
    ("mlp_dw", 1, 784, 512, 128, Form::LeftTurned),
    ("mlp_dx", 1, 128, 512, 512, Form::RightTurned),
    ("classifier", 1, 128, 10, 784, Form::Plain),
    ("gpt_qkv", 1, 1024, 768, 256, Form::Plain),
    ("gpt_qkv_dx", 1, 1024, 256, 768, Form::RightTurned),
    ("gpt_qkv_dw", 1, 256, 768, 1024, Form::LeftTurned),
    ("bias_gelu", 1, 1024, 4096, 1024, Form::BiasGelu),
    ("batch_64", 64, 256, 256, 256, Form::Plain),
    ("vector_matrix", 1, 1, 4096, 4096, Form::Plain),
    ("matrix_vector", 1, 4096, 1, 4096, Form::Plain),
];

fn main() -> Result<(), Box<dyn Error>> {
    let only = std::env::args().nth(1);
    println!("{:16} {:>16} {:>16} {:>9} {:>8}", "", "10th percentile", "median", "ms", "compile");
    for (name, batch, m, n, k, form) in CASES {
        if only.as_ref().is_none_or(|o| o == name) {
            measure(name, &product(batch, (m, n, k), form), 2.0 * (batch * m * n * k) as f64)?;
        }
    }
    Ok(())
}

fn measure(name: &str, kernel: &Kernel, flops: f64) -> Result<(), Box<dyn Error>> {
    let options = Options { threads: 1, ..Options::default() };
    llvm::compile(std::slice::from_ref(kernel), &options)?; // LLVM's own first use
    let start = Instant::now();
    let code = llvm::compile(std::slice::from_ref(kernel), &options)?;
    let compile = start.elapsed().as_secs_f64() * 1e3;
    let executable = executable(kernel, code)?;
    let loaded = OrcLoader::new()?.load(&executable)?;
    let entry = &executable.parts().kernels[0];

    let mut buffers: Vec<Buffer> =
        kernel.arguments.iter().map(|a| Buffer::new(a.elements as usize * 4)).collect();
    let mut scratch = Buffer::new(entry.scratch as usize);
    let pointers: Vec<*mut u8> = buffers.iter_mut().map(Buffer::pointer).collect();
    let mut run = || {
        let start = cpu_seconds();
        // SAFETY: one aligned buffer for each argument, of its size, and scratch of this
        // thread's own; the range is the whole grid.
        unsafe { loaded.entry(0)(pointers.as_ptr(), scratch.pointer(), 0, entry.grid) };
        cpu_seconds() - start
    };
    let repetitions = (4e10 / flops).clamp(20.0, 4000.0) as usize;
    let (mut times, mut peaks) = (Vec::new(), Vec::new());
    for i in 0..repetitions {
        if i % (repetitions / 10) == 0 {
            peaks.push(peak::rate());
            run();
        }
        times.push(run());
    }
    times.sort_by(f64::total_cmp);
    peaks.sort_by(f64::total_cmp);
    let peak = peaks[peaks.len() / 2];
    let rate = |at: usize| {
        let rate = flops / times[at] / 1e9;
        format!("{rate:6.1} ({:5.3})", rate / peak)
    };
    let (tenth, median) = (times.len() / 10, times.len() / 2);
    let ms = times[tenth] * 1e3;
    println!("{name:16} {:>16} {:>16} {ms:9.3} {compile:8.1}", rate(tenth), rate(median));
    Ok(())
}

// --- kernels --------------------------------------------------------------

fn load(exprs: &mut Exprs, argument: u32, strides: &[(Axis, u64)]) -> ExprId {
    let index = index(strides);
    exprs.add(Expr::Load { argument, index, valid: None }, DType::F32)
}

fn index(strides: &[(Axis, u64)]) -> Index {
    let scaled = strides.iter().map(|&(axis, by)| Index::axis(axis).scale(by as i64));
    scaled.fold(Index::default(), |sum, term| sum.add(&term))
}

fn product(batch: u64, (m, n, k): (u64, u64, u64), form: Form) -> Kernel {
    const BATCH: Axis = Axis::Point(0);
    const ROW: Axis = Axis::Row;
    const COLUMN: Axis = Axis::Column;
    const STEP: Axis = Axis::Inner;
    let mut exprs = Exprs::default();
    let lhs = match form {
        Form::LeftTurned => [(BATCH, m * k), (STEP, m), (ROW, 1)],
        _ => [(BATCH, m * k), (ROW, k), (STEP, 1)],
    };
    let rhs = match form {
        Form::RightTurned => [(BATCH, n * k), (COLUMN, k), (STEP, 1)],
        _ => [(BATCH, n * k), (STEP, n), (COLUMN, 1)],
    };
    let lhs = load(&mut exprs, 0, &lhs);
    let rhs = load(&mut exprs, 1, &rhs);
    let mut value = exprs.add(Expr::Sum, DType::F32);
    let argument = |elements, reads| {
        let dtype = DType::F32;
        Argument { dtype, elements, reads, writes: !reads }
    };
    let mut arguments = vec![
        argument(batch * m * k, true),
        argument(batch * n * k, true),
        argument(batch * m * n, false),
    ];
    if form == Form::BiasGelu {
        arguments.push(argument(n, true));
        let bias = load(&mut exprs, 3, &[(COLUMN, 1)]);
        value = exprs.binary(BinaryOp::Add, value, bias);
        value = gelu(&mut exprs, value);
    }
    let index = index(&[(BATCH, m * n), (ROW, n), (COLUMN, 1)]);
    let stores = vec![Store { argument: 2, index, value }];
    let (batch, accumulator) = (vec![batch], DType::F32);
    let c = Contraction { batch, m, n, k, accumulator, exprs, lhs, rhs, stores };
    Kernel { name: "product".to_string(), arguments, body: Body::Contraction(c) }
}

/// `x / (1 + exp(-2u))` with `u = 0.797 * (x + 0.0447 * x^3)`, the tanh form of gelu, and
/// a short polynomial for the power of two.
fn gelu(e: &mut Exprs, x: ExprId) -> ExprId {
    use BinaryOp::{Add, Div, Max, Min, Mul, ShiftLeft, Sub};
    let c = |e: &mut Exprs, value| e.float(DType::F32, value);
    let square = e.binary(Mul, x, x);
    let (cubic, linear) = (c(e, -0.044715 * 2.302208), c(e, -2.302208));
    let factor = e.fma(square, cubic, linear);
    let power = e.binary(Mul, factor, x);
    let (low, high) = (c(e, -125.0), c(e, 125.0));
    let power = e.binary(Max, power, low);
    let power = e.binary(Min, power, high);
    // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
    let shift = c(e, 12_582_912.0);
    let moved = e.binary(Add, power, shift);
    let whole = e.binary(Sub, moved, shift);
    let rest = e.binary(Sub, power, whole);
    let mut p = c(e, 0.001_333_355_8);
    for next in [0.009_618_129, 0.055_504_11, 0.240_226_5, std::f64::consts::LN_2, 1.0] {
        let next = c(e, next);
        p = e.fma(p, rest, next);
    }
    let bits = e.bitcast(moved, DType::I32);
    let bias = e.integer(DType::I32, 127);
    let exponent = e.binary(Add, bits, bias);
    let places = e.integer(DType::I32, 23);
    let exponent = e.binary(ShiftLeft, exponent, places);
    let scale = e.bitcast(exponent, DType::F32);
    let one = c(e, 1.0);
    let below = e.fma(p, scale, one);
    e.binary(Div, x, below)
}

/// A program of one launch.
fn executable(kernel: &Kernel, code: llvm::Code) -> Result<Executable, Box<dyn Error>> {
    let ty = |a: &Argument| Type::new(a.dtype, vec![a.elements as usize]);
    let mut parts = Parts { objects: code.objects, ..Parts::default() };
    let (mut accesses, mut slots) = (Vec::new(), Vec::new());
    for argument in &kernel.arguments {
        let bytes = argument.elements * argument.dtype.size() as u64;
        let name = String::new();
        let base = if argument.writes {
            accesses.push(Access::Write(bytes));
            parts.outputs.push(Output { ty: ty(argument), name, storage: Storage::Fresh });
            Base::Output(parts.outputs.len() as u32 - 1)
        } else {
            accesses.push(Access::Read(bytes));
            parts.parameters.push(Parameter { ty: ty(argument), name, donated: false });
            Base::Parameter(parts.parameters.len() as u32 - 1)
        };
        slots.push(Slot { base, offset: 0 });
    }
    let entry = code.entries.into_iter().next().ok_or("one kernel")?;
    parts.kernels.push(Entry {
        name: kernel.name.clone(),
        object: entry.object,
        symbol: entry.symbol,
        arguments: accesses,
        grid: entry.grid,
        grain: entry.grain,
        scratch: entry.scratch,
        traffic: Default::default(),
    });
    parts.steps.push(Step::Launch { kernel: 0, arguments: slots });
    Ok(Executable::new(parts)?)
}

// --- time, memory and peak ------------------------------------------------

/// Time that this thread has run: other programs may take turns with it.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Small numbers in large pages.
struct Buffer(Vec<Page>);

#[repr(C, align(2097152))]
#[derive(Clone, Copy)]
struct Page([f32; 1 << 19]);

impl Buffer {
    fn new(bytes: usize) -> Buffer {
        let pages = bytes.div_ceil(size_of::<Page>()).max(1);
        let mut buffer: Vec<Page> = Vec::with_capacity(pages);
        // SAFETY: the capacity was just allocated; advice changes nothing but speed. All
        // bit patterns are numbers, and every one is written before it is read.
        unsafe {
            let bytes = pages * size_of::<Page>();
            libc::madvise(buffer.as_mut_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
            let numbers = buffer.as_mut_ptr().cast::<f32>();
            for i in 0..bytes / 4 {
                numbers.add(i).write((i * 7 % 13) as f32 / 13.0 - 0.4);
            }
            buffer.set_len(pages);
        }
        Buffer(buffer)
    }

    fn pointer(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// The rate of fused multiply-adds between registers.
mod peak {
    use std::hint::black_box;

    /// GFLOP/s of one thread, the best of a few tries.
    pub fn rate() -> f64 {
        (0..5).map(|_| once()).fold(0.0, f64::max)
    }

    fn once() -> f64 {
        const TURNS: u64 = 300_000;
        let start = super::cpu_seconds();
        let flops = turns(TURNS);
        flops / (super::cpu_seconds() - start) / 1e9
    }

    #[cfg(target_arch = "x86_64")]
    fn turns(turns: u64) -> f64 {
        use std::arch::x86_64::{
            __m256, __m512, _mm256_fmadd_ps, _mm256_set1_ps, _mm512_fmadd_ps, _mm512_set1_ps,
        };
        /// Sums enough to hide the latency of one.
        const SUMS: usize = 12;

        #[target_feature(enable = "avx512f")]
        fn wide(turns: u64) -> [__m512; SUMS] {
            let (x, y) = (_mm512_set1_ps(black_box(0.999)), _mm512_set1_ps(black_box(0.001)));
            let mut sums = [y; SUMS];
            for _ in 0..turns {
                sums.iter_mut().for_each(|s| *s = _mm512_fmadd_ps(*s, x, y));
            }
            sums
        }

        #[target_feature(enable = "avx2,fma")]
        fn narrow(turns: u64) -> [__m256; SUMS] {
            let (x, y) = (_mm256_set1_ps(black_box(0.999)), _mm256_set1_ps(black_box(0.001)));
            let mut sums = [y; SUMS];
            for _ in 0..turns {
                sums.iter_mut().for_each(|s| *s = _mm256_fmadd_ps(*s, x, y));
            }
            sums
        }

        let lanes = if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the instructions.
            black_box(unsafe { wide(turns) });
            16
        } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: as above.
            black_box(unsafe { narrow(turns) });
            8
        } else {
            return f64::NAN;
        };
        (turns * SUMS as u64 * 2 * lanes) as f64
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn turns(_: u64) -> f64 {
        f64::NAN
    }
}
