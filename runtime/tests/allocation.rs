//! A steady-state run allocates nothing on the heap, counted by a global allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln_executable::{
    Access, Base, Code, Executable, Kernel, KernelFn, LoadError, Loader, Memory, Output, Parameter,
    Parts, Slot, Step, Storage, Traffic,
};
use kiln_ir::{DType, Scalar, Type};
use kiln_runtime::{Array, Cause, Config, Device, Input};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: forwards to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: forwarded.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: forwarded.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

/// `state[i] += rate; sum = state[0]`, with a temporary.
unsafe extern "C" fn step(arguments: *const *mut u8, _: *mut u8, begin: u64, end: u64) {
    // SAFETY: the test passes buffers of 16, 1, 1 and 16 floats.
    unsafe {
        let f = |i: usize| *arguments.add(i) as *mut f32;
        for i in 8 * begin as usize..8 * end as usize {
            *f(3).add(i) = *f(0).add(i) + *f(1);
            *f(0).add(i) = *f(3).add(i);
        }
        if begin == 0 {
            *f(2) = *f(0);
        }
    }
}

#[derive(Debug)]
struct Mock;

impl Loader for Mock {
    fn load(&self, _: &Executable) -> Result<Box<dyn Code>, LoadError> {
        Ok(Box::new(Mock))
    }
}

impl Code for Mock {
    fn entry(&self, _: usize) -> KernelFn {
        step
    }

    fn code_bytes(&self) -> u64 {
        1
    }
}

#[test]
fn a_steady_state_run_allocates_nothing() {
    // Split between threads, queued, and inline.
    for (traffic, threads) in [(0, 1), (1 << 17, 2), (1 << 30, 2)] {
        let state = Type::new(DType::F32, [16]);
        let number = Type::scalar(DType::F32);
        let slot = |base| Slot { base, offset: 0 };
        let parts = Parts {
            name: "step".into(),
            parameters: vec![
                Parameter { ty: state.clone(), name: "state".into(), donated: true },
                Parameter { ty: number.clone(), name: "rate".into(), donated: false },
            ],
            outputs: vec![
                Output { ty: state.clone(), name: String::new(), storage: Storage::Parameter(0) },
                Output { ty: number, name: String::new(), storage: Storage::Fresh },
            ],
            constants: Arc::from([]),
            arena: 64,
            kernels: vec![Kernel {
                name: "step".into(),
                object: 0,
                symbol: "step".into(),
                arguments: vec![
                    Access::ReadWrite(64),
                    Access::Read(4),
                    Access::Write(4),
                    Access::Write(64),
                ],
                grid: 2,
                grain: 1,
                scratch: 0,
                traffic: Traffic { read: traffic, written: 0, flops: 0 },
            }],
            objects: vec![Arc::from([0u8])],
            steps: vec![Step::Launch {
                kernel: 0,
                arguments: vec![
                    slot(Base::Parameter(0)),
                    slot(Base::Parameter(1)),
                    slot(Base::Output(1)),
                    slot(Base::Arena),
                ],
            }],
            memory: Memory::default(),
        };
        let device = Device::cpu(Config { threads, capacity: 1 << 20 }).unwrap();
        let program = device.load(&Executable::new(parts).unwrap(), &Mock).unwrap();
        let array = device.put(&state, &[0; 64], Cause::Explicit).unwrap();
        let mut inputs = Vec::with_capacity(4);
        let mut outputs: Vec<Array> = vec![array];
        let rate = Scalar::from_f64(DType::F32, 0.5);
        let mut before = 0;
        const WARM: u64 = 100;
        const RUNS: u64 = 10_000;
        for i in 0..WARM + RUNS {
            if i == WARM {
                device.synchronize();
                // New threads allocate while they start.
                std::thread::sleep(std::time::Duration::from_millis(100));
                before = ALLOCATIONS.load(Ordering::Relaxed);
            }
            outputs.truncate(1);
            let state = outputs.pop().unwrap();
            inputs.push(Input::Donated(state));
            inputs.push(Input::Scalar(rate));
            program.run(&mut inputs, &mut outputs).unwrap();
        }
        device.synchronize();
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert_eq!(allocations, 0, "heap allocations in {RUNS} runs of traffic {traffic}");
        let sum: Vec<f32> = outputs[1].to_literal().unwrap().to_vec().unwrap();
        assert_eq!(sum, [0.5 * (WARM + RUNS) as f32]);
        assert_eq!(device.memory_stats().blocks, 2);
    }
}
