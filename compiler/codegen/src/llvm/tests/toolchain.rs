//! Compiling and loading as such: determinism, damage, sharing, several parts.

use std::sync::Arc;

use kiln_ir::DType;

use super::*;
use crate::kernel::expr::BinaryOp;
use crate::llvm::{Code, Job, TextKind, compile_jobs, text, text_of_jobs};

fn add(n: u64) -> Kernel {
    let mut b = Builder::new();
    b.stage(1);
    let (a, c) = (b.read(DType::F32, n), b.read(DType::F32, n));
    let (x, y) = (b.load(a, point(0)), b.load(c, point(0)));
    let sum = b.exprs.binary(BinaryOp::Add, x, y);
    b.store(n, point(0), sum);
    b.kernel(&[n], Lanes::Points)
}

fn options(isa: Isa) -> Options {
    Options { isa, threads: 1, ..Options::default() }
}

fn compile_one(kernel: &Kernel) -> Code {
    compile(std::slice::from_ref(kernel), &options(Isa::detect())).unwrap()
}

#[test]
fn the_same_kernels_are_the_same_bytes_on_any_number_of_threads() {
    let kernels: Vec<Kernel> = (1..100).map(|n| add(10 * n)).collect();
    let one = compile(&kernels, &options(Isa::detect())).unwrap();
    let four = compile(&kernels, &Options { threads: 4, ..Options::default() }).unwrap();
    assert_eq!(one.objects, four.objects);
    assert_eq!(one.entries, four.entries);
    assert!(one.objects.len() > 1 && one.objects.len() < kernels.len());
}

#[test]
fn equal_kernels_are_compiled_once() {
    let mut renamed = add(100);
    let kernels = [add(100), add(200), add(100)];
    let code = compile(&kernels, &options(Isa::detect())).unwrap();
    assert_eq!(code.entries[0], code.entries[2]);
    assert_ne!(code.entries[0].symbol, code.entries[1].symbol);
    renamed.name = "a name: with (signs)".to_string();
    let symbol = &compile_one(&renamed).entries[0].symbol;
    assert!(symbol.starts_with("kiln_a_name__with__signs__"), "{symbol}");
}

#[test]
fn no_kernels_is_no_code() {
    let code = compile(&[], &Options::default()).unwrap();
    assert!(code.entries.is_empty() && code.objects.is_empty());
    let loaded = loader().load_objects(&[], &[]).unwrap();
    assert_eq!(loaded.code_bytes(), 0);
}

#[test]
fn every_level_makes_objects_and_text() {
    for isa in Isa::ALL {
        let code = compile(&[add(100)], &options(isa)).unwrap();
        assert_eq!(&code.objects[0][..4], b"\x7fELF");
        for (kind, want) in [(TextKind::Ir, "define void"), (TextKind::Assembly, ".text")] {
            let text = text(&[add(100)], &options(isa), kind).unwrap();
            assert!(text.contains("kernel test(read a0: f32[100]"), "{text}");
            assert!(text.contains(want), "{text}");
        }
    }
}

#[test]
fn vectors_fill_registers_and_nothing_is_spilled() {
    for (isa, register) in [(Isa::V2, "%xmm"), (Isa::V3, "%ymm"), (Isa::V4, "%zmm")] {
        let text = text(&[add(1 << 20)], &options(isa), TextKind::Assembly).unwrap();
        assert!(text.contains(register), "{text}");
        assert!(!text.contains("(%rsp)") && !text.contains("call"), "{text}");
    }
}

#[test]
fn only_large_results_bypass_the_caches() {
    let asm = |n| text(&[add(n)], &options(Isa::V4), TextKind::Assembly).unwrap();
    assert!(!asm(1 << 20).contains("vmovntps"));
    let large = asm(1 << 24);
    assert!(large.contains("vmovntps") && large.contains("sfence"), "{large}");
    // One that is read too may already be in a cache.
    let mut updated = add(1 << 24);
    updated.arguments[2].reads = true;
    let updated = text(&[updated], &options(Isa::V4), TextKind::Assembly).unwrap();
    assert!(!updated.contains("vmovnt"), "{updated}");
}

#[test]
fn results_for_the_caller_bypass_the_caches_sooner() {
    let streams = |n, unread: &[bool]| {
        let job = Job { kernel: &add(n), unread: unread.to_vec() };
        let asm = text_of_jobs(&[job], &options(Isa::V4), TextKind::Assembly).unwrap();
        asm.contains("vmovntps")
    };
    assert!(streams(1 << 21, &[false, false, true]));
    assert!(!streams(1 << 21, &[]));
    assert!(!streams(1 << 20, &[false, false, true]));
    assert!(streams(1 << 24, &[]));
    // Both forms of one kernel can be in one program.
    let kernel = add(1 << 21);
    let jobs = [
        Job { kernel: &kernel, unread: vec![false, false, true] },
        Job { kernel: &kernel, unread: vec![false; 3] },
    ];
    let code = compile_jobs(&jobs, &options(Isa::V4)).unwrap();
    assert_ne!(code.entries[0].symbol, code.entries[1].symbol);
}

#[test]
fn damaged_objects_are_refused() {
    let code = compile_one(&add(100));
    let symbol = code.entries[0].symbol.as_str();
    let load = |bytes: Vec<u8>| {
        let object: Arc<[u8]> = bytes.into();
        loader().load_objects(&[object], &[symbol]).map(|_| ()).map_err(|e| e.0)
    };
    let good = code.objects[0].to_vec();
    assert_eq!(load(good.clone()), Ok(()));
    for at in (0..good.len()).step_by(97) {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert!(load(bad).is_err(), "byte {at}");
    }
    for length in [0, 15, 16, 100, good.len() - 1] {
        assert!(load(good[..length].to_vec()).is_err(), "{length} bytes");
    }
}

#[test]
fn objects_of_other_machines_and_missing_symbols_are_refused() {
    let other = if cfg!(target_arch = "x86_64") { Isa::Neon } else { Isa::V4 };
    let code = compile(&[add(100)], &options(other)).unwrap();
    let symbol = code.entries[0].symbol.as_str();
    let error = loader().load_objects(&code.objects, &[symbol]).unwrap_err();
    assert!(error.0.contains("another machine"), "{error}");

    let code = compile_one(&add(100));
    let error = loader().load_objects(&code.objects, &["kiln_nothing"]).unwrap_err();
    assert!(error.0.contains("kiln_nothing"), "{error}");
    // The loader is as good as before.
    let symbol = code.entries[0].symbol.as_str();
    assert!(loader().load_objects(&code.objects, &[symbol]).is_ok());
}

#[test]
fn code_is_loaded_and_unloaded_by_several_threads() {
    let codes: Vec<Code> = (1..5).map(|n| compile_one(&add(16 * n))).collect();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let codes = &codes;
            scope.spawn(move || {
                for round in 0..25 {
                    let n = (t + round) % codes.len();
                    let entry = &codes[n].entries[0];
                    // The same symbols are loaded elsewhere at the same time.
                    let loaded =
                        loader().load_objects(&codes[n].objects, &[&entry.symbol]).unwrap();
                    assert!(loaded.code_bytes() > 0);
                    let one = Buffer {
                        dtype: DType::F32,
                        elements: vec![1f32.to_bits().into(); 16 * (n + 1)],
                    };
                    let mut memories: Vec<Memory> = (0..3).map(|_| Memory::of(&one)).collect();
                    call(loaded.entry(0), 0, &mut memories, &[(0, entry.grid)]);
                    let sum = memories[2].buffer(DType::F32);
                    assert!(sum.elements.iter().all(|&x| x == u64::from(2f32.to_bits())));
                }
            });
        }
    });
}

/// Additions of some lengths as one launch, each with arguments of its own.
fn additions(sizes: &[u64]) -> Kernel {
    let (mut arguments, mut parts) = (Vec::new(), Vec::new());
    for &n in sizes {
        let kernel = add(n);
        let first = arguments.len() as u32;
        arguments.extend(kernel.arguments);
        let Body::Loops(loops) = kernel.body else { unreachable!() };
        let mut exprs = Exprs::default();
        for (_, expr, dtype) in loops.exprs.iter() {
            let moved = match expr.clone() {
                Expr::Load { argument, index, valid } => {
                    Expr::Load { argument: argument + first, index, valid }
                }
                other => other,
            };
            exprs.add(moved, dtype);
        }
        let mut stages = loops.stages.clone();
        stages[0].stores[0].argument += first;
        parts.push(Loops { exprs, stages, ..loops });
    }
    Kernel { name: "parts".to_string(), arguments, body: Body::Together(parts) }
}

#[test]
fn parts_share_one_launch() {
    check(&additions(&[5, 300]), 1);
    check(&additions(&[20_000, 1, 70, 9_000]), 2);
    check(&additions(&[70, 70, 5, 70]), 3);
}

#[test]
fn small_parts_are_not_worth_a_thread_each() {
    let launch = |sizes: &[u64]| {
        let code = compile_one(&additions(sizes));
        code.entries[0].grid / code.entries[0].grain
    };
    assert_eq!(launch(&[8, 8, 8, 8]), 0);
    let alone = compile_one(&add(1 << 20));
    let alone = alone.entries[0].grid / alone.entries[0].grain;
    assert!(alone > 8);
    assert!(launch(&[1 << 20, 8, 1 << 20]).abs_diff(2 * alone) <= 2);
}

#[test]
fn equal_parts_are_one_function() {
    let functions = |sizes: &[u64]| {
        let ir = text(&[additions(sizes)], &options(Isa::detect()), TextKind::Ir).unwrap();
        ir.matches("define internal").count()
    };
    assert_eq!(functions(&[70, 300, 70, 300, 300]), 2);
    assert_eq!(functions(&[70; 100]), 1);
}

/// `n` rows of `length` elements copied into one buffer, as one launch.
fn rows(n: u64, length: u64) -> Kernel {
    let argument = |elements, reads| {
        let dtype = DType::F32;
        Argument { dtype, elements, reads, writes: !reads }
    };
    let mut arguments = vec![argument(length, true); n as usize];
    arguments.push(argument(n * length, false));
    let part = |row: u64| {
        let mut exprs = Exprs::default();
        let index = Index::axis(Axis::Point(0));
        let load = Expr::Load { argument: row as u32, index: index.clone(), valid: None };
        let value = exprs.add(load, DType::F32);
        let index = index.offset((row * length) as i64);
        let stores = vec![Store { argument: n as u32, index, value }];
        let stages = vec![Stage { stores, ..Stage::new(1) }];
        Loops { points: vec![length], lanes: Lanes::Points, exprs, stages }
    };
    let parts = (0..n).map(part).collect();
    Kernel { name: "rows".to_string(), arguments, body: Body::Together(parts) }
}

#[test]
fn parts_that_start_elsewhere_are_one_function_where_lines_do() {
    let functions = |n, length| {
        let kernel = rows(n, length);
        check(&kernel, n + length);
        let ir = text(&[kernel], &options(Isa::detect()), TextKind::Ir).unwrap();
        ir.matches("define internal").count()
    };
    assert_eq!(functions(40, 64), 1);
    // A row of 40 bytes starts at one of eight places in a line.
    assert_eq!(functions(40, 10), 8);
}

#[test]
fn the_code_of_a_launch_does_not_grow_with_like_parts() {
    let lines = |n| {
        let ir = text(&[rows(n, 64)], &options(Isa::detect()), TextKind::Ir).unwrap();
        ir.lines().filter(|line| !line.starts_with(';')).count()
    };
    assert_eq!(lines(20), lines(200));
}

#[test]
fn nothing_to_do_has_no_units() {
    let mut kernel = add(0);
    kernel.arguments.iter_mut().for_each(|a| a.elements = 0);
    let code = compile_one(&kernel);
    assert_eq!((code.entries[0].grid, code.entries[0].grain), (0, 1));
}
