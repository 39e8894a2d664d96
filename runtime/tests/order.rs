//! Asynchrony: order, memory that pending runs still use, waiting, many threads.
//!
//! A kernel that waits for a gate makes "still pending" a fact rather than a guess
//! about time.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{LONG, Mock, add_one, chain, device, get, load, put, run, ty};
use kiln_executable::Executable;
use kiln_runtime::{Array, Cause, Config, Device, Error, Input, RUN_AHEAD};

/// Gates, one for each test that has one.
static GATES: [AtomicBool; 8] = [const { AtomicBool::new(false) }; 8];

fn open(gate: usize) {
    GATES[gate].store(true, Ordering::Release);
}

/// As `add_one`, once the gate is open.
unsafe extern "C" fn gated<const GATE: usize>(
    arguments: *const *mut u8,
    scratch: *mut u8,
    begin: u64,
    end: u64,
) {
    let start = Instant::now();
    while !GATES[GATE].load(Ordering::Acquire) {
        assert!(start.elapsed() < Duration::from_secs(60), "nobody opened gate {GATE}");
        std::thread::sleep(Duration::from_micros(100));
    }
    // SAFETY: passed on.
    unsafe { add_one(arguments, scratch, begin, end) };
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}: not in 60 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_long_run_returns_before_its_work_is_done_and_keeps_its_buffers() {
    let device = device();
    let program = load(&device, chain(16, 3, false, LONG), gated::<0>);
    let x = put(&device, &[0.0; 16]);
    let y = run(&program, Input::Donated(x));
    assert!(!y.is_ready());
    assert_eq!(device.run_stats().inline, 0);
    // The donated input is gone for the host, but pending work still reads it: new
    // arrays must not land on it, nor on the arena.
    let noise: Vec<Array> = (0..64).map(|_| put(&device, &[9.0; 16])).collect();
    open(0);
    assert_eq!(get(&y), vec![3.0; 16]);
    assert!(y.is_ready());
    drop(noise);
    drop(y);
    device.synchronize();
    assert_eq!(device.memory_stats().in_use, 0);
}

#[test]
fn runs_that_are_ahead_use_the_memory_of_one() {
    let device = device();
    let program = load(&device, chain(1024, 3, false, LONG), gated::<1>);
    let x = put(&device, &[0.0; 1024]);
    device.reset_peak();
    for _ in 2..RUN_AHEAD {
        // The result is dropped while the run is pending.
        run(&program, Input::Kept(x.clone()));
    }
    // What a run needs: its argument, its output, an arena of two such.
    assert_eq!(device.memory_stats().peak, 4 * 4096);
    // The host gets memory of its own meanwhile.
    let other = put(&device, &[5.0; 1024]);
    assert_eq!(device.memory_stats().in_use, 5 * 4096);
    let y = run(&program, Input::Donated(x));
    open(1);
    assert_eq!(get(&y), vec![3.0; 1024]);
    assert_eq!(get(&other), vec![5.0; 1024]);
    drop((y, other));
    device.synchronize();
    assert_eq!(device.memory_stats().in_use, 0);
}

#[test]
fn running_ahead_is_bounded() {
    let device = device();
    let program = load(&device, chain(16, 1, true, LONG), gated::<2>);
    let mut x = put(&device, &[0.0; 16]);
    let runs = 3 * RUN_AHEAD;
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            for _ in 0..runs {
                x = run(&program, Input::Donated(x.clone()));
            }
            x
        });
        eventually("the queue fills", || device.run_stats().runs >= RUN_AHEAD as u64);
        std::thread::sleep(Duration::from_millis(20));
        // One more may be with the thread that does it.
        assert!(device.run_stats().runs <= RUN_AHEAD as u64 + 1);
        open(2);
        assert_eq!(get(&worker.join().unwrap()), vec![runs as f32; 16]);
    });
}

#[test]
fn runs_follow_each_other_through_their_arrays() {
    let device = device();
    let long = load(&device, chain(16, 1, true, LONG), add_one);
    let short = load(&device, chain(16, 1, true, 0), add_one);
    let mut x = put(&device, &[0.0; 16]);
    for i in 0..5_000 {
        x = run(if i % 3 == 0 { &long } else { &short }, Input::Donated(x));
    }
    assert_eq!(get(&x), vec![5_000.0; 16]);
    assert_eq!(device.run_stats().copies, 0);
}

#[test]
fn a_failed_run_leaves_earlier_and_later_ones_right() {
    // K86: between runs that are pending, one that does not fit.
    let device = Device::cpu(Config { threads: 2, capacity: 1 << 20 }).unwrap();
    let program = load(&device, chain(16, 1, false, LONG), gated::<3>);
    let large = load(&device, chain(1 << 18, 1, false, LONG), add_one);
    let x = put(&device, &[1.0; 16]);
    let y = run(&program, Input::Kept(x.clone()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            open(3);
        });
        // No room for its argument even; it waits for pending runs before it gives up.
        let big = device.put_with(&ty(1 << 18), Cause::Explicit, |_| panic!("no room for this"));
        assert!(matches!(big, Err(Error::OutOfMemory { requested: 0x100000, .. })), "{big:?}");
    });
    let half = device.put_with(&ty(1 << 17), Cause::Explicit, |bytes| bytes.fill(0)).unwrap();
    let mut inputs = vec![Input::Kept(half)];
    let mut outputs = Vec::new();
    assert!(matches!(large.run(&mut inputs, &mut outputs), Err(Error::ArgumentType { .. })));
    assert_eq!((inputs.len(), outputs.len()), (1, 0));
    let z = run(&program, Input::Kept(y.clone()));
    assert_eq!((get(&x), get(&y), get(&z)), (vec![1.0; 16], vec![2.0; 16], vec![3.0; 16]));
}

#[test]
fn a_full_pool_waits_for_what_pending_runs_give_back() {
    let n = 1 << 16; // 256 KiB each: argument, output and an arena of two fill the pool.
    let device = Device::cpu(Config { threads: 2, capacity: 1 << 20 }).unwrap();
    let program = load(&device, chain(n, 3, false, LONG), add_one);
    let mut x = put(&device, &vec![0.0; n]);
    for i in 1..=20 {
        // The argument of the run before is still pending when this one is prepared.
        x = run(&program, Input::Donated(x));
        if i % 7 == 0 {
            assert_eq!(get(&x)[n - 1], 3.0 * i as f32);
        }
    }
    assert_eq!(get(&x), vec![60.0; n]);
    assert_eq!(device.memory_stats().peak, 1 << 20);
}

#[test]
fn four_threads_never_read_a_stale_byte() {
    // K89: each thread puts, runs and reads patterns of its own.
    let device = device();
    let short = load(&device, chain(256, 1, true, 0), add_one);
    let long = load(&device, chain(256, 2, false, LONG), add_one);
    std::thread::scope(|scope| {
        for t in 0..4 {
            let (device, short, long) = (&device, &short, &long);
            scope.spawn(move || {
                let mut back = vec![0; 1024];
                for i in 0..10_000 {
                    let pattern = (t * 100_000 + i) as f32;
                    let x = put(device, &[pattern; 256]);
                    let (program, more) = if i % 4 == 0 { (long, 2.0) } else { (short, 1.0) };
                    let y = run(program, Input::Donated(x));
                    y.copy_to(&mut back).unwrap();
                    let wanted = (pattern + more).to_le_bytes();
                    assert!(back.chunks(4).all(|b| b == wanted), "thread {t}, round {i}");
                }
            });
        }
    });
    device.synchronize();
    assert_eq!(device.memory_stats().in_use, 0);
    assert_eq!(device.run_stats().runs, 40_000);
}

#[test]
fn large_arrays_survive_four_threads() {
    // K89 with 1 MB arrays, whose copies take long enough to be overtaken.
    let device = device();
    std::thread::scope(|scope| {
        for t in 0..4u8 {
            let device = &device;
            scope.spawn(move || {
                let mut back = vec![0; 1 << 20];
                for i in 0..100 {
                    let pattern = t * 64 + i % 64;
                    let write = |bytes: &mut [u8]| bytes.fill(pattern);
                    let x = device.put_with(&ty(1 << 18), Cause::Explicit, write).unwrap();
                    x.copy_to(&mut back).unwrap();
                    assert!(back.iter().all(|&b| b == pattern), "thread {t}, round {i}");
                }
            });
        }
    });
    assert_eq!(device.memory_stats().in_use, 0);
}

#[test]
fn threads_share_an_array_that_some_of_them_donate() {
    // Each donates a handle of its own; only copies are ever overwritten.
    let device = device();
    let short = load(&device, chain(256, 1, true, 0), add_one);
    let long = load(&device, chain(256, 1, true, LONG), add_one);
    let x = put(&device, &[7.0; 256]);
    std::thread::scope(|scope| {
        for t in 0..4 {
            let (x, short, long) = (x.clone(), &short, &long);
            scope.spawn(move || {
                for i in 0..2_000 {
                    let y =
                        run(if (i + t) % 3 == 0 { long } else { short }, Input::Donated(x.clone()));
                    assert_eq!(get(&y)[i % 256], 8.0);
                }
            });
        }
    });
    assert_eq!(get(&x), vec![7.0; 256]);
    assert_eq!(device.run_stats().copies, 8_000);
}

#[test]
fn dropping_everything_in_flight_is_safe_and_unloads() {
    let mock = Mock::new(&[gated::<4>]);
    {
        let device = device();
        let executable = Executable::new(chain(16, 2, false, LONG)).unwrap();
        let program = device.load(&executable, &mock).unwrap();
        let x = put(&device, &[0.0; 16]);
        for _ in 0..5 {
            run(&program, Input::Kept(x.clone()));
        }
        assert_eq!(mock.loaded(), 1);
    }
    // The queue's thread finishes what is pending, then lets go of the program and with
    // it of the device.
    open(4);
    eventually("the code is unloaded", || mock.loaded() == 0);
}

#[test]
fn devices_come_and_go() {
    for threads in [1, 2, 4] {
        for _ in 0..50 {
            let device = Device::cpu(Config { threads, capacity: 1 << 30 }).unwrap();
            let program = load(&device, chain(64, 2, true, LONG), add_one);
            let y = run(&program, Input::Donated(put(&device, &[1.0; 64])));
            drop((program, device));
            // An array is enough to keep its device.
            assert_eq!(get(&y), vec![3.0; 64]);
        }
    }
}

/// What nested runs are made of; set by the tests below, read by their kernels.
static INNER: std::sync::Mutex<Option<(kiln_runtime::Program, Array)>> =
    std::sync::Mutex::new(None);
static NESTED: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// As `add_one`, by way of a run of its own for each unit.
unsafe extern "C" fn nesting(arguments: *const *mut u8, scratch: *mut u8, begin: u64, end: u64) {
    let (inner, x) = INNER.lock().unwrap().clone().unwrap();
    for _ in begin..end {
        let y = run(&inner, Input::Kept(x.clone()));
        assert_eq!(get(&y), vec![2.0; 1024]);
        // One that nobody else holds may be overwritten, and freed.
        let z = run(&inner, Input::Donated(y));
        assert_eq!(get(&z), vec![3.0; 1024]);
        inner.device().synchronize();
        NESTED.fetch_add(2, Ordering::Relaxed);
    }
    // SAFETY: passed on.
    unsafe { add_one(arguments, scratch, begin, end) };
}

/// Waits for the very run it is part of, and says what came of it.
unsafe extern "C" fn waiting(arguments: *const *mut u8, scratch: *mut u8, begin: u64, end: u64) {
    let (inner, _) = INNER.lock().unwrap().clone().unwrap();
    let pending = PENDING.lock().unwrap().clone();
    if let Some(pending) = pending {
        let errors = [
            pending.block_until_ready().unwrap_err(),
            pending.to_literal().unwrap_err(),
            inner.run(&mut vec![Input::Kept(pending)], &mut Vec::new()).unwrap_err(),
        ];
        assert_eq!(errors, [Error::Nested, Error::Nested, Error::Nested]);
        REFUSED.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: passed on.
    unsafe { gated::<5>(arguments, scratch, begin, end) };
}

static PENDING: std::sync::Mutex<Option<Array>> = std::sync::Mutex::new(None);

#[test]
fn a_kernel_may_run_programs_but_not_wait_for_itself() {
    // K88: from the leader, from workers, queued and inline, for pools of 1, 2 and 4.
    for threads in [1, 2, 4] {
        let device = Device::cpu(Config { threads, capacity: 64 << 20 }).unwrap();
        let inner = load(&device, chain(1024, 1, false, 1 << 20), add_one);
        *INNER.lock().unwrap() = Some((inner, put(&device, &[1.0; 1024])));
        let before = NESTED.load(Ordering::Relaxed);
        let programs = [
            load(&device, chain(64, 1, false, 1 << 17), nesting),
            load(&device, chain(64, 1, false, LONG), nesting),
        ];
        let x = put(&device, &[0.0; 64]);
        std::thread::scope(|scope| {
            for t in 0..4 {
                let (programs, x) = (&programs, &x);
                scope.spawn(move || {
                    for i in 0..250 {
                        let y = run(&programs[(t + i) % 2], Input::Kept(x.clone()));
                        assert_eq!(get(&y), vec![1.0; 64]);
                    }
                });
            }
        });
        assert_eq!(NESTED.load(Ordering::Relaxed) - before, 1000 * 4 * 2, "{threads} threads");
    }

    let device = device();
    let inner = load(&device, chain(16, 1, false, 0), add_one);
    *INNER.lock().unwrap() = Some((inner, put(&device, &[1.0; 16])));
    let first = load(&device, chain(16, 1, false, LONG), gated::<6>);
    let program = load(&device, chain(16, 1, false, LONG), waiting);
    // Holds the queue until the array to wait for is in place.
    let x = run(&first, Input::Kept(put(&device, &[0.0; 16])));
    let y = run(&program, Input::Kept(x));
    *PENDING.lock().unwrap() = Some(y.clone());
    open(5);
    open(6);
    assert_eq!(get(&y), vec![2.0; 16]);
    assert_eq!(REFUSED.load(Ordering::Relaxed), 1);
    *PENDING.lock().unwrap() = None;
    *INNER.lock().unwrap() = None;
}
