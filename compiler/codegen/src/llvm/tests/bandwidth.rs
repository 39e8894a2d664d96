//! How fast generated code is, for people who change it; asserts nothing.
//!
//! ```text
//! cargo test -p kiln-codegen --lib bandwidth -- --ignored --nocapture
//! ```
//!
//! Each line gives the milliseconds of one run on one and on two threads, the traffic
//! per second that they come to, and the time to compile. The first line is a copy by
//! the C library, to compare with. Set `BENCH_ASM` to a kernel's name to print
//! its assembly instead.

use std::time::Instant;

use kiln_ir::DType;
use kiln_ir::op::{ArgKind, ReduceKind};

use super::*;
use crate::kernel::expr::{BinaryOp, UnaryOp};
use crate::kernel::{Combine, Reduction, Tree};
use crate::llvm::{TextKind, text};
use crate::math;

const N: u64 = 1 << 24;
const SIDE: u64 = 1 << 12;

fn muladd(n: u64) -> Kernel {
    let mut b = Builder::new();
    b.stage(1);
    let loads: Vec<ExprId> = (0..3)
        .map(|_| {
            let a = b.read(DType::F32, n);
            b.load(a, point(0))
        })
        .collect();
    let p = b.exprs.binary(BinaryOp::Mul, loads[0], loads[1]);
    let s = b.exprs.binary(BinaryOp::Add, p, loads[2]);
    b.store(n, point(0), s);
    b.kernel(&[n], Lanes::Points)
}

fn copy(dtype: DType, n: u64) -> Kernel {
    let mut b = Builder::new();
    b.stage(1);
    let a = b.read(dtype, n);
    let x = b.load(a, point(0));
    b.store(n, point(0), x);
    b.kernel(&[n], Lanes::Points)
}

/// `x + r`, then gelu by tanh.
fn gelu(n: u64) -> Kernel {
    let mut b = Builder::new();
    b.stage(1);
    let (a, r) = (b.read(DType::F32, n), b.read(DType::F32, n));
    let (x, r) = (b.load(a, point(0)), b.load(r, point(0)));
    let e = &mut b.exprs;
    let c = |e: &mut Exprs, v| e.float(DType::F32, v);
    let x = e.binary(BinaryOp::Add, x, r);
    let x2 = e.binary(BinaryOp::Mul, x, x);
    let x3 = e.binary(BinaryOp::Mul, x2, x);
    let k = c(e, 0.044715);
    let inside = e.fma(x3, k, x);
    let k = c(e, 0.797_884_560_802_865_4);
    let inside = e.binary(BinaryOp::Mul, inside, k);
    let t = math::tanh(e, inside);
    let one = c(e, 1.0);
    let t = e.binary(BinaryOp::Add, t, one);
    let half = c(e, 0.5);
    let h = e.binary(BinaryOp::Mul, x, half);
    let y = e.binary(BinaryOp::Mul, h, t);
    b.store(n, point(0), y);
    b.kernel(&[n], Lanes::Points)
}

fn exponential(n: u64) -> Kernel {
    let mut b = Builder::new();
    b.stage(1);
    let a = b.read(DType::F32, n);
    let x = b.load(a, point(0));
    let y = math::exp(&mut b.exprs, x);
    b.store(n, point(0), y);
    b.kernel(&[n], Lanes::Points)
}

fn transpose(n: u64) -> Kernel {
    let mut b = Builder::new();
    b.stage(1);
    let a = b.read(DType::F32, n * n);
    let x = b.load(a, point(1).scale(n as i64).add(&point(0)));
    b.store(n * n, point(0).scale(n as i64).add(&point(1)), x);
    b.kernel(&[n, n], Lanes::Points)
}

fn softmax(rows: u64, n: u64) -> Kernel {
    let tree = Tree::of(n, Lanes::Inner);
    let at = point(0).scale(n as i64).add(&inner());
    let mut b = Builder::new();
    let a = b.read(DType::F32, rows * n);
    let x = b.load(a, at.clone());
    let max = Reduction { combine: Combine::Value(ReduceKind::Max), value: x, slot: 0, tree };
    b.stage(n).reductions = vec![max];
    let s0 = b.exprs.add(Expr::Slot(0), DType::F32);
    let shifted = b.exprs.binary(BinaryOp::Sub, x, s0);
    let e = math::exp(&mut b.exprs, shifted);
    let sum = Reduction { combine: Combine::Value(ReduceKind::Sum), value: e, slot: 1, tree };
    let stage = b.stage(n);
    stage.keeps = vec![(0, e)];
    stage.reductions = vec![sum];
    let kept = b.exprs.add(Expr::Kept(0), DType::F32);
    let s1 = b.exprs.add(Expr::Slot(1), DType::F32);
    let y = b.exprs.binary(BinaryOp::Div, kept, s1);
    b.stage(n);
    b.store(rows * n, at, y);
    b.kernel(&[rows], Lanes::Inner)
}

/// `(x - mean) / sqrt(variance + epsilon) * g + b`.
fn layer_norm(rows: u64, n: u64) -> Kernel {
    let tree = Tree::of(n, Lanes::Inner);
    let at = point(0).scale(n as i64).add(&inner());
    let sum =
        |value, slot| Reduction { combine: Combine::Value(ReduceKind::Sum), value, slot, tree };
    let mut b = Builder::new();
    let (a, g, c) = (b.read(DType::F32, rows * n), b.read(DType::F32, n), b.read(DType::F32, n));
    let x = b.load(a, at.clone());
    b.stage(n).reductions = vec![sum(x, 0)];
    let e = &mut b.exprs;
    let count = e.float(DType::F32, n as f64);
    let s0 = e.add(Expr::Slot(0), DType::F32);
    let mean = e.binary(BinaryOp::Div, s0, count);
    let centred = e.binary(BinaryOp::Sub, x, mean);
    let square = e.binary(BinaryOp::Mul, centred, centred);
    b.stage(n).reductions = vec![sum(square, 1)];
    let e = &mut b.exprs;
    let s1 = e.add(Expr::Slot(1), DType::F32);
    let variance = e.binary(BinaryOp::Div, s1, count);
    let epsilon = e.float(DType::F32, 1e-5);
    let variance = e.binary(BinaryOp::Add, variance, epsilon);
    let root = e.unary(UnaryOp::Sqrt, variance);
    let y = e.binary(BinaryOp::Div, centred, root);
    let (g, c) = (b.load(g, inner()), b.load(c, inner()));
    let y = b.exprs.binary(BinaryOp::Mul, y, g);
    let y = b.exprs.binary(BinaryOp::Add, y, c);
    b.stage(n);
    b.store(rows * n, at, y);
    b.kernel(&[rows], Lanes::Inner)
}

fn rows(combine: Combine, rows: u64, n: u64) -> Kernel {
    let tree = Tree::of(n, Lanes::Inner);
    let mut b = Builder::new();
    let a = b.read(DType::F32, rows * n);
    let x = b.load(a, point(0).scale(n as i64).add(&inner()));
    b.stage(n).reductions = vec![Reduction { combine, value: x, slot: 0, tree }];
    let dtype = if matches!(combine, Combine::Arg(_)) { DType::I64 } else { DType::F32 };
    let s = b.exprs.add(Expr::Slot(0), dtype);
    b.stage(1);
    b.store(rows, point(0), s);
    b.kernel(&[rows], Lanes::Inner)
}

fn columns(n: u64, m: u64) -> Kernel {
    let tree = Tree::of(n, Lanes::Points);
    let mut b = Builder::new();
    let a = b.read(DType::F32, n * m);
    let x = b.load(a, inner().scale(m as i64).add(&point(0)));
    let combine = Combine::Value(ReduceKind::Sum);
    b.stage(n).reductions = vec![Reduction { combine, value: x, slot: 0, tree }];
    let s = b.exprs.add(Expr::Slot(0), DType::F32);
    b.stage(1);
    b.store(m, point(0), s);
    b.kernel(&[m], Lanes::Points)
}

/// The least of some runs, in milliseconds: other work on the machine only adds.
fn time(mut run: impl FnMut()) -> f64 {
    run();
    let timed = (0..25).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64() * 1e3
    });
    timed.fold(f64::MAX, f64::min)
}

/// Arguments as one thread passes them. The memory outlives the threads.
struct Pointers(Vec<*mut u8>);
// SAFETY: the threads of a run write disjoint parts, as entries promise.
unsafe impl Sync for Pointers {}

#[test]
#[ignore = "prints times"]
fn bandwidth() {
    let sum = Combine::Value(ReduceKind::Sum);
    let max = Combine::Value(ReduceKind::Max);
    let kernels = [
        ("copy_16m", copy(DType::F32, N)),
        ("muladd_16m", muladd(N)),
        ("muladd_64k", muladd(1 << 16)),
        ("muladd_4k", muladd(1 << 12)),
        ("exp_16m", exponential(N)),
        ("exp_8k", exponential(1 << 13)),
        ("gelu_16m", gelu(N)),
        ("gelu_8k", gelu(1 << 13)),
        ("softmax_4096", softmax(SIDE, SIDE)),
        ("softmax_64x1000", softmax(64, 1000)),
        ("layernorm", layer_norm(8192, 1024)),
        ("sum_rows", rows(sum, SIDE, SIDE)),
        ("sum_rows_64x1000", rows(sum, 64, 1000)),
        ("max_rows", rows(max, SIDE, SIDE)),
        ("max_rows_64x1000", rows(max, 64, 1000)),
        ("argmax_rows", rows(Combine::Arg(ArgKind::Max), SIDE, SIDE)),
        ("sum_columns", columns(SIDE, SIDE)),
        ("sum_columns_64x1000", columns(64, 1000)),
        ("transpose_4096", transpose(SIDE)),
        ("transpose_64", transpose(64)),
    ];
    let options = Options { threads: 1, stream_bytes: 16 << 20, ..Options::default() };
    if let Ok(name) = std::env::var("BENCH_ASM") {
        let (_, kernel) = kernels.iter().find(|(n, _)| *n == name).expect("a kernel of the list");
        for kind in [TextKind::Ir, TextKind::Assembly] {
            println!("{}", text(std::slice::from_ref(kernel), &options, kind).unwrap());
        }
        return;
    }
    let bytes = 4 * N as usize;
    let (from, mut to) = (vec![1u8; bytes], vec![0u8; bytes]);
    let ms = time(|| to.copy_from_slice(&from));
    println!("{:20} {ms:8.4} ms {:6.1} GB/s", "memcpy_64MiB", 2.0 * bytes as f64 / ms / 1e6);
    drop((from, to));
    compile(&[copy(DType::F32, 5)], &options).unwrap();
    for (name, kernel) in &kernels {
        let start = Instant::now();
        let code = compile(std::slice::from_ref(kernel), &options).unwrap();
        let compiling = start.elapsed().as_secs_f64() * 1e3;
        let entry = &code.entries[0];
        let loaded = loader().load_objects(&code.objects, &[&entry.symbol]).unwrap();
        let f = loaded.entry(0);
        let mut memories: Vec<Memory> = kernel
            .arguments
            .iter()
            .map(|a| {
                let mut memory = Memory::new(a.elements as usize * a.dtype.size());
                // Ones, near enough, of whatever type.
                memory.lines.fill(Line([0x3f; 64]));
                memory
            })
            .collect();
        let traffic: usize = memories.iter().map(|m| m.bytes).sum();
        let pointers = Pointers(memories.iter_mut().map(Memory::pointer).collect());
        let grid = entry.grid;
        let work = |begin: u64, end: u64, scratch: &mut Memory, times: u32| {
            let pointers = &pointers;
            for _ in 0..times {
                // SAFETY: as in `call`.
                unsafe { f(pointers.0.as_ptr(), scratch.pointer(), begin, end) };
            }
        };
        let repeat = if traffic < 4 << 20 { 100 } else { 1 };
        let mut scratch = Memory::new(entry.scratch as usize);
        let one = time(|| work(0, grid, &mut scratch, repeat)) / f64::from(repeat);
        let two = time(|| {
            std::thread::scope(|s| {
                s.spawn(|| work(0, grid / 2, &mut Memory::new(entry.scratch as usize), repeat));
                work(grid / 2, grid, &mut scratch, repeat);
            })
        }) / f64::from(repeat);
        let rate = |ms: f64| traffic as f64 / ms / 1e6;
        println!(
            "{name:20} {one:8.4} ms {:6.1} GB/s {two:8.4} ms {:6.1} GB/s  compile {compiling:5.1} ms, {} bytes, grid {grid}, grain {}",
            rate(one),
            rate(two),
            loaded.code_bytes(),
            entry.grain,
        );
    }
}
