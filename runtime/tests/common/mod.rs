//! Kernels written by hand, a loader that hands them out, and small programs of them.

#![allow(dead_code)] // Each test binary uses its part.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln_executable::{
    Access, Base, Code, Executable, Kernel, KernelFn, LoadError, Loader, Memory, Output, Parameter,
    Parts, Slot, Step, Storage, Traffic,
};
use kiln_ir::{DType, Type};
use kiln_runtime::{Array, Cause, Config, Device, Input, Program};

/// Traffic that makes a run long, so that it is queued.
pub const LONG: u64 = 1 << 30;

/// `y[i] = x[i] + 1` over blocks of 16.
pub unsafe extern "C" fn add_one(arguments: *const *mut u8, _: *mut u8, begin: u64, end: u64) {
    // SAFETY: the tests pass two buffers of `16 * grid` floats.
    unsafe {
        let (x, y) = (*arguments as *const f32, *arguments.add(1) as *mut f32);
        for i in 16 * begin as usize..16 * end as usize {
            *y.add(i) = *x.add(i) + 1.0;
        }
    }
}

/// Hands out kernels, and counts what is loaded.
#[derive(Debug, Default)]
pub struct Mock {
    kernels: Vec<KernelFn>,
    loaded: Arc<AtomicU64>,
}

impl Mock {
    pub fn new(kernels: &[KernelFn]) -> Mock {
        Mock { kernels: kernels.to_vec(), loaded: Arc::default() }
    }

    /// How many programs are loaded now.
    pub fn loaded(&self) -> u64 {
        self.loaded.load(Ordering::Relaxed)
    }
}

impl Loader for Mock {
    fn load(&self, executable: &Executable) -> Result<Box<dyn Code>, LoadError> {
        if executable.parts().objects[0][0] == 0xff {
            return Err(LoadError("damaged object".into()));
        }
        self.loaded.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(MockCode { kernels: self.kernels.clone(), loaded: self.loaded.clone() }))
    }
}

#[derive(Debug)]
struct MockCode {
    kernels: Vec<KernelFn>,
    loaded: Arc<AtomicU64>,
}

impl Code for MockCode {
    fn entry(&self, kernel: usize) -> KernelFn {
        self.kernels[kernel]
    }

    fn code_bytes(&self) -> u64 {
        1
    }
}

impl Drop for MockCode {
    fn drop(&mut self) {
        self.loaded.fetch_sub(1, Ordering::Relaxed);
    }
}

pub fn ty(n: usize) -> Type {
    Type::new(DType::F32, [n])
}

/// A chain of `steps` launches on `n` floats, through the arena.
pub fn chain(n: usize, steps: usize, donated: bool, traffic: u64) -> Parts {
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

/// Two threads and 64 MiB.
pub fn device() -> Device {
    Device::cpu(Config { threads: 2, capacity: 64 << 20 }).unwrap()
}

pub fn load(device: &Device, parts: Parts, entry: KernelFn) -> Program {
    device.load(&Executable::new(parts).unwrap(), &Mock::new(&[entry])).unwrap()
}

pub fn put(device: &Device, data: &[f32]) -> Array {
    let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    device.put(&ty(data.len()), &bytes, Cause::Explicit).unwrap()
}

pub fn get(array: &Array) -> Vec<f32> {
    array.to_literal().unwrap().to_vec().unwrap()
}

pub fn run(program: &Program, input: Input) -> Array {
    let mut outputs = Vec::new();
    program.run(&mut vec![input], &mut outputs).unwrap();
    outputs.pop().unwrap()
}
