//! Runs, donation, order and errors, on kernels written here and loaded by a mock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kiln_executable::{
    Access, Base, Code, Executable, Kernel, KernelFn, LoadError, Loader, Memory, Output, Parameter,
    Parts, Slot, Step, Storage, Traffic,
};
use kiln_ir::{DType, Scalar, Type};
use kiln_runtime::{Array, Cause, Config, Device, Error, Input, Program};

/// `y[i] = x[i] + 1` over blocks of 16.
unsafe extern "C" fn add_one(arguments: *const *mut u8, _: *mut u8, begin: u64, end: u64) {
    // SAFETY: the tests pass two buffers of `16 * grid` floats.
    unsafe {
        let (x, y) = (*arguments as *const f32, *arguments.add(1) as *mut f32);
        for i in 16 * begin as usize..16 * end as usize {
            *y.add(i) = *x.add(i) + 1.0;
        }
    }
}

/// As `add_one`, after a while.
unsafe extern "C" fn slow_add_one(arguments: *const *mut u8, s: *mut u8, begin: u64, end: u64) {
    std::thread::sleep(Duration::from_millis(20));
    // SAFETY: passed on.
    unsafe { add_one(arguments, s, begin, end) };
}

static LOADED: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
struct Mock(Vec<KernelFn>);

impl Loader for Mock {
    fn load(&self, executable: &Executable) -> Result<Box<dyn Code>, LoadError> {
        if executable.parts().objects[0][0] == 0xff {
            return Err(LoadError("damaged object".into()));
        }
        LOADED.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(MockCode(self.0.clone())))
    }
}

#[derive(Debug)]
struct MockCode(Vec<KernelFn>);

impl Code for MockCode {
    fn entry(&self, kernel: usize) -> KernelFn {
        self.0[kernel]
    }

    fn code_bytes(&self) -> u64 {
        1
    }
}

impl Drop for MockCode {
    fn drop(&mut self) {
        LOADED.fetch_sub(1, Ordering::Relaxed);
    }
}

fn ty(n: usize) -> Type {
    Type::new(DType::F32, [n])
}

/// A chain of `steps` additions of one to `n` floats, through the arena.
fn chain(n: usize, steps: usize, donated: bool, traffic: u64) -> Parts {
    let bytes = 4 * n as u64;
    let slot = |i: usize| match i {
        0 => Slot { base: Base::Parameter(0), offset: 0 },
        i if i == steps && donated => Slot { base: Base::Parameter(0), offset: 0 },
        i if i == steps => Slot { base: Base::Output(0), offset: 0 },
        i => Slot { base: Base::Arena, offset: if i % 2 == 0 { 0 } else { bytes } },
    };
    Parts {
        name: "chain".into(),
        parameters: vec![Parameter { ty: ty(n), name: "x".into(), donated }],
        outputs: vec![Output {
            ty: ty(n),
            name: String::new(),
            storage: if donated { Storage::Parameter(0) } else { Storage::Fresh },
        }],
        constants: Arc::from([]),
        arena: 2 * bytes,
        kernels: vec![Kernel {
            name: "add".into(),
            object: 0,
            symbol: "add".into(),
            arguments: vec![Access::Read(bytes), Access::Write(bytes)],
            grid: n as u64 / 16,
            grain: 1,
            scratch: 64,
            traffic: Traffic { read: traffic, written: traffic, flops: 0 },
        }],
        objects: vec![Arc::from([0u8])],
        steps: (0..steps)
            .map(|i| Step::Launch { kernel: 0, arguments: vec![slot(i), slot(i + 1)] })
            .collect(),
        memory: Memory::default(),
    }
}

fn device() -> Device {
    Device::cpu(Config { threads: 2, capacity: 64 << 20 }).unwrap()
}

fn load(device: &Device, parts: Parts, entry: KernelFn) -> Program {
    device.load(&Executable::new(parts).unwrap(), &Mock(vec![entry])).unwrap()
}

fn put(device: &Device, data: &[f32]) -> Array {
    let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    device.put(&ty(data.len()), &bytes, Cause::Explicit).unwrap()
}

fn get(array: &Array) -> Vec<f32> {
    array.to_literal().unwrap().to_vec().unwrap()
}

fn run(program: &Program, input: Input) -> Array {
    let mut outputs = Vec::new();
    program.run(&mut vec![input], &mut outputs).unwrap();
    outputs.pop().unwrap()
}

#[test]
fn a_chain_runs_in_order_split_or_not() {
    for traffic in [0, 1 << 20] {
        let device = device();
        let program = load(&device, chain(1600, 5, false, traffic), add_one);
        let x = put(&device, &vec![1.0; 1600]);
        let y = run(&program, Input::Kept(x.clone()));
        assert_eq!(get(&y), vec![6.0; 1600]);
        assert_eq!(get(&x), vec![1.0; 1600]);
        assert_eq!(device.run_stats().launches, 5);
        assert_eq!(device.run_stats().copies, 0);
    }
}

#[test]
fn donation_reuses_the_last_handle_and_copies_a_shared_one() {
    let device = device();
    let program = load(&device, chain(16, 1, true, 0), add_one);
    let x = put(&device, &[1.0; 16]);
    let id = x.id();
    let y = run(&program, Input::Donated(x));
    assert_eq!((y.id(), device.run_stats().copies), (id, 0));
    // Shared: another handle is alive.
    let other = y.clone();
    let z = run(&program, Input::Donated(y));
    assert_ne!(z.id(), other.id());
    assert_eq!((get(&z), get(&other)), (vec![3.0; 16], vec![2.0; 16]));
    assert_eq!(device.run_stats().copies, 1);
    // Kept though the program wants it donated.
    let w = run(&program, Input::Kept(other.clone()));
    assert_eq!((get(&w), get(&other)), (vec![3.0; 16], vec![2.0; 16]));
    assert_eq!(device.run_stats().copies, 2);
}

#[test]
fn a_long_run_returns_before_its_work_is_done_and_keeps_its_buffers() {
    let device = device();
    // Claimed traffic makes the run long, so that it is queued.
    let program = load(&device, chain(16, 3, false, 1 << 30), slow_add_one);
    let x = put(&device, &[0.0; 16]);
    let y = run(&program, Input::Donated(x));
    assert_eq!(device.run_stats().inline, 0);
    // The donated input is gone for the host, but pending work still reads it: new
    // arrays must not land on it, nor on the arena.
    let noise: Vec<Array> = (0..64).map(|_| put(&device, &[9.0; 16])).collect();
    assert_eq!(get(&y), vec![3.0; 16]);
    drop(noise);
    drop(y);
    device.synchronize();
    assert_eq!(device.memory_stats().in_use, 0);
}

#[test]
fn runs_follow_each_other_through_their_arrays() {
    let device = device();
    let slow = load(&device, chain(16, 1, true, 1 << 30), slow_add_one);
    let fast = load(&device, chain(16, 1, true, 0), add_one);
    let mut x = put(&device, &[0.0; 16]);
    for i in 0..40 {
        x = run(if i % 3 == 0 { &slow } else { &fast }, Input::Donated(x));
    }
    assert_eq!(get(&x), vec![40.0; 16]);
}

#[test]
fn mistakes_are_errors_and_consume_nothing() {
    let device = device();
    let program = load(&device, chain(16, 1, true, 0), add_one);
    let mut outputs = Vec::new();
    let mut none = Vec::new();
    let said = program.run(&mut none, &mut outputs).unwrap_err().to_string();
    assert_eq!(said, "`chain` takes 1 arguments, not 0");

    let mut wrong = vec![Input::Donated(put(&device, &[0.0; 32]))];
    let said = program.run(&mut wrong, &mut outputs).unwrap_err().to_string();
    assert_eq!(said, "`chain`: argument 0 `x` is f32[32], not f32[16]");
    assert_eq!((wrong.len(), outputs.len()), (1, 0));

    let mut number = vec![Input::Scalar(Scalar::from_f64(DType::F32, 1.0))];
    let said = program.run(&mut number, &mut outputs).unwrap_err().to_string();
    assert_eq!(said, "`chain`: argument 0 `x` is f32[], not f32[16]");

    let elsewhere = self::device();
    let mut other = vec![Input::Kept(put(&elsewhere, &[0.0; 16]))];
    let said = program.run(&mut other, &mut outputs).unwrap_err().to_string();
    assert_eq!(said, "`chain`: argument 0 `x` is on another device");

    let mut parts = chain(16, 1, true, 0);
    parts.objects = vec![Arc::from([0xffu8])];
    let damaged = device.load(&Executable::new(parts).unwrap(), &Mock(vec![add_one]));
    assert_eq!(damaged.unwrap_err().to_string(), "loading machine code: damaged object");
}

#[test]
fn out_of_memory_is_an_error_that_loses_nothing() {
    let device = Device::cpu(Config { threads: 1, capacity: 1 << 20 }).unwrap();
    let n = 1 << 16; // 256 KiB: input, output and an arena of two fit only just.
    let program = load(&device, chain(n, 2, false, 0), add_one);
    let x = put(&device, &vec![1.0; n]);
    let hog = put(&device, &[0.0; 16]);
    let mut inputs = vec![Input::Kept(x.clone())];
    let mut outputs = Vec::new();
    let error = program.run(&mut inputs, &mut outputs).unwrap_err();
    match &error {
        Error::OutOfMemory { what, requested, capacity, in_use, .. } => {
            assert_eq!(what, "the temporaries of `chain`");
            assert_eq!((*requested, *capacity), (512 << 10, 1 << 20));
            assert_eq!(*in_use, (512 << 10) + 64);
        }
        other => panic!("{other}"),
    }
    assert_eq!((inputs.len(), outputs.len()), (1, 0));
    assert_eq!(device.memory_stats().in_use, (256 << 10) + 64);
    drop(hog);
    program.run(&mut inputs, &mut outputs).unwrap();
    assert_eq!(get(&outputs[0]), vec![3.0; n]);
    // Everything that lives during the run was in use at once, and no more.
    assert_eq!(device.memory_stats().peak, 1 << 20);
}

#[test]
fn transfers_are_counted_by_direction_and_cause() {
    let device = device();
    let x = put(&device, &[1.0; 16]);
    device.put(&ty(16), &[0; 64], Cause::Implicit).unwrap();
    let many = [x.to_literal().unwrap(), x.to_literal().unwrap()];
    device.put_all(&many, Cause::Explicit).unwrap();
    let t = device.transfers();
    assert_eq!((t.host_to_device.count, t.host_to_device.bytes), (2, 64 + 128));
    assert_eq!((t.implicit_host_to_device.count, t.implicit_host_to_device.bytes), (1, 64));
    assert_eq!((t.device_to_host.count, t.device_to_host.bytes), (2, 128));
    x.with_bytes(|bytes| assert_eq!(bytes.len(), 64));
    assert_eq!(device.transfers(), t, "looking at device memory moves nothing");
}

#[test]
fn empty_arrays_and_programs_work() {
    let device = device();
    let x = put(&device, &[]);
    assert_eq!(get(&x), Vec::<f32>::new());
    let program = load(&device, chain(0, 1, false, 0), add_one);
    assert_eq!(get(&run(&program, Input::Kept(x))), Vec::<f32>::new());
}

#[test]
fn four_threads_never_read_a_stale_byte() {
    // K89: each thread puts, runs and reads patterns of its own.
    let device = device();
    let program = load(&device, chain(256, 1, true, 0), add_one);
    let slow = load(&device, chain(256, 2, false, 1 << 30), add_one);
    std::thread::scope(|scope| {
        for t in 0..4 {
            let (device, program, slow) = (&device, &program, &slow);
            scope.spawn(move || {
                for i in 0..2_500 {
                    let pattern = (t * 10_000 + i) as f32;
                    let x = put(device, &[pattern; 256]);
                    let y = run(if i % 4 == 0 { slow } else { program }, Input::Donated(x));
                    let wanted = pattern + if i % 4 == 0 { 2.0 } else { 1.0 };
                    assert_eq!(get(&y), [wanted; 256], "thread {t}, round {i}");
                }
            });
        }
    });
    device.synchronize();
    assert_eq!(device.memory_stats().in_use, 0);
}

#[test]
fn dropping_everything_in_flight_is_safe_and_unloads() {
    let before = LOADED.load(Ordering::Relaxed);
    {
        let device = device();
        let program = load(&device, chain(16, 2, false, 1 << 30), slow_add_one);
        let x = put(&device, &[0.0; 16]);
        for _ in 0..5 {
            run(&program, Input::Kept(x.clone()));
        }
    }
    // The queue's thread finishes what is pending, then lets go of the program.
    for _ in 0..500 {
        if LOADED.load(Ordering::Relaxed) <= before {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // Other tests load and unload at the same time; only a lasting excess is a leak.
    assert!(LOADED.load(Ordering::Relaxed) <= before + 2, "code was not unloaded");
}
