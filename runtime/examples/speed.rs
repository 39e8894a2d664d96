//! What the runtime adds to a kernel: nanoseconds of a run of almost nothing, and of
//! handing work to another thread.
//!
//! `cargo run --release -p kiln-runtime --example speed`. Numbers are for people to
//! look at; tests assert counts.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_executable::{
    Access, Base, Code, Executable, Kernel, KernelFn, LoadError, Loader, Memory, Output, Parameter,
    Parts, Slot, Step, Storage, Traffic,
};
use kiln_ir::{DType, Type};
use kiln_runtime::{Array, Cause, Config, Device, Error, Input, Program};

/// `y[i] = x[i] + 1`, 8 floats for each unit of work.
unsafe extern "C" fn add_one(arguments: *const *mut u8, _: *mut u8, begin: u64, end: u64) {
    // SAFETY: the program below passes two buffers of `8 * grid` floats.
    unsafe {
        let (x, y) = (*arguments as *const f32, *arguments.add(1) as *mut f32);
        for i in 8 * begin as usize..8 * end as usize {
            *y.add(i) = *x.add(i) + 1.0;
        }
    }
}

#[derive(Debug)]
struct AddOne;

impl Loader for AddOne {
    fn load(&self, _: &Executable) -> Result<Box<dyn Code>, LoadError> {
        Ok(Box::new(AddOne))
    }
}

impl Code for AddOne {
    fn entry(&self, _: usize) -> KernelFn {
        add_one
    }

    fn code_bytes(&self) -> u64 {
        0
    }
}

/// `y = x + 1` on `n` floats, `steps` times over, each claiming `traffic` bytes.
fn program(device: &Device, n: usize, steps: usize, traffic: u64) -> Result<Program, Error> {
    let ty = Type::new(DType::F32, [n]);
    let bytes = ty.bytes() as u64;
    let slot = |base| Slot { base, offset: 0 };
    let parts = Parts {
        name: "add_one".into(),
        parameters: vec![Parameter { ty: ty.clone(), name: "x".into(), donated: false }],
        outputs: vec![Output { ty, name: String::new(), storage: Storage::Fresh }],
        constants: Arc::from([]),
        arena: 64,
        kernels: vec![Kernel {
            name: "add".into(),
            object: 0,
            symbol: "add".into(),
            arguments: vec![Access::Read(bytes), Access::Write(bytes)],
            grid: n as u64 / 8,
            grain: 1,
            scratch: 0,
            traffic: Traffic { read: traffic, written: 0, flops: 0 },
        }],
        objects: vec![Arc::from([0u8])],
        steps: vec![
            Step::Launch {
                kernel: 0,
                arguments: vec![slot(Base::Parameter(0)), slot(Base::Output(0))],
            };
            steps
        ],
        memory: Memory::default(),
    };
    let executable = Executable::new(parts).expect("a sound program");
    device.load(&executable, &AddOne)
}

/// The median of many short rounds of `runs` runs, each waited for, in nanoseconds a
/// run. Short, so that most rounds see no other process.
fn nanoseconds(program: &Program, x: &Array, runs: u32, pause: Duration) -> Result<f64, Error> {
    let mut inputs = Vec::with_capacity(1);
    let mut outputs = Vec::with_capacity(1);
    let mut rounds = Vec::new();
    for _ in 0..201 {
        std::thread::sleep(pause);
        let start = Instant::now();
        for _ in 0..runs {
            inputs.push(Input::Kept(x.clone()));
            program.run(&mut inputs, &mut outputs)?;
            outputs[0].with_bytes(|bytes| black_box(bytes[0]))?;
            outputs.clear();
        }
        rounds.push(start.elapsed().as_nanos() as f64 / f64::from(runs));
    }
    rounds.sort_by(f64::total_cmp);
    Ok(rounds[rounds.len() / 2])
}

fn main() -> Result<(), Error> {
    let config = Config { capacity: 64 << 20, ..Config::default() };
    let device = Device::cpu(config)?;
    println!("{} threads", device.threads());
    let x = device.put(&Type::new(DType::F32, [8]), &[0; 32], Cause::Explicit)?;
    let mut sample = [0; 32];
    let kernel = |sample: &mut [u8; 32]| {
        let start = Instant::now();
        for _ in 0..100_000 {
            let arguments = [sample.as_mut_ptr(), sample.as_mut_ptr()];
            // SAFETY: one unit of work is 8 floats.
            unsafe {
                black_box(add_one as KernelFn)(arguments.as_ptr(), sample.as_mut_ptr(), 0, 1)
            };
        }
        start.elapsed().as_nanos() as f64 / 1e5
    };
    println!("kernel alone, 8 elements        {:8.1} ns", kernel(&mut sample));
    let small = program(&device, 8, 1, 64)?;
    let rest = Duration::ZERO;
    println!("run, 8 elements, to its result  {:8.1} ns", nanoseconds(&small, &x, 100, rest)?);
    let queued = program(&device, 8, 1, 1 << 30)?;
    println!("run through the queue           {:8.1} ns", nanoseconds(&queued, &x, 100, rest)?);

    let x = device.put(&Type::new(DType::F32, [64]), &[0; 256], Cause::Explicit)?;
    let alone = nanoseconds(&program(&device, 64, 100, 64)?, &x, 10, rest)?;
    let split = nanoseconds(&program(&device, 64, 100, 64 << 10)?, &x, 10, rest)?;
    println!("a launch on one thread          {:8.1} ns", alone / 100.0);
    println!("a launch split (fork and join)  {:8.1} ns", split / 100.0);
    let cold = program(&device, 64, 1, 64 << 10)?;
    let pause = Duration::from_millis(1);
    println!("a small launch, team asleep     {:8.1} ns", nanoseconds(&cold, &x, 1, pause)?);
    Ok(())
}
