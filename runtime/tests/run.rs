//! Runs, donation, order and errors, on kernels written here and loaded by a mock.

mod common;

use std::sync::Arc;

use common::{LONG, Mock, add_one, chain, device, get, load, put, run, ty};
use kiln_executable::{
    Access, Base, Executable, Kernel, Output, Parameter, Parts, Slot, Step, Storage, Traffic,
};
use kiln_ir::{DType, Literal, Scalar, Type};
use kiln_runtime::{Cause, Config, Device, Error, Input};

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
    let damaged = device.load(&Executable::new(parts).unwrap(), &Mock::new(&[add_one]));
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
    x.with_bytes(|bytes| assert_eq!(bytes.len(), 64)).unwrap();
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
fn a_donated_argument_that_is_only_read_is_never_copied() {
    let device = device();
    let mut parts = chain(16, 1, false, 0);
    parts.parameters[0].donated = true;
    let program = load(&device, parts, add_one);
    let x = put(&device, &[1.0; 16]);
    let inputs = [Input::Donated(x.clone()), Input::Kept(x.clone()), Input::Donated(x)];
    for input in inputs {
        assert_eq!(get(&run(&program, input)), vec![2.0; 16]);
    }
    assert_eq!(device.run_stats().copies, 0);
    device.synchronize();
    assert_eq!(device.memory_stats().in_use, 0);
}

#[test]
fn one_array_may_be_given_for_several_parameters() {
    // Both are overwritten; both must start from what was given.
    let device = device();
    let slot = |p| Slot { base: Base::Parameter(p), offset: 0 };
    let mut parts = chain(16, 1, true, 0);
    parts.parameters.push(Parameter { name: "y".into(), ..parts.parameters[0].clone() });
    parts.outputs.push(Output { storage: Storage::Parameter(1), ..parts.outputs[0].clone() });
    let launch = |p| Step::Launch { kernel: 0, arguments: vec![slot(p), slot(p)] };
    parts.steps = vec![launch(0), launch(1), launch(1)];
    let program = load(&device, parts, add_one);
    let x = put(&device, &[0.0; 16]);
    let mut inputs = vec![Input::Donated(x.clone()), Input::Donated(x)];
    let mut outputs = Vec::new();
    program.run(&mut inputs, &mut outputs).unwrap();
    assert_eq!((get(&outputs[0]), get(&outputs[1])), (vec![1.0; 16], vec![2.0; 16]));
    assert_eq!(device.run_stats().copies, 2);
}

#[test]
fn constants_are_loaded_once_and_go_with_the_program() {
    let device = device();
    let mut parts = chain(16, 1, false, 0);
    let data: Vec<u8> = [41f32; 32].iter().flat_map(|x| x.to_le_bytes()).collect();
    parts.constants = data.into();
    parts.steps = vec![Step::Launch {
        kernel: 0,
        arguments: vec![
            Slot { base: Base::Constants, offset: 64 },
            Slot { base: Base::Output(0), offset: 0 },
        ],
    }];
    let program = load(&device, parts, add_one);
    let x = put(&device, &[0.0; 16]);
    let transfers = device.transfers();
    for _ in 0..3 {
        assert_eq!(get(&run(&program, Input::Kept(x.clone()))), vec![42.0; 16]);
    }
    assert_eq!(device.transfers().host_to_device, transfers.host_to_device);
    drop((program, x));
    assert_eq!(device.memory_stats().in_use, 0);
}

/// A program that copies `bytes` bytes from its argument to its output.
fn copying(bytes: usize) -> Parts {
    let ty = Type::new(DType::U8, [bytes]);
    Parts {
        name: "copy".into(),
        parameters: vec![Parameter { ty: ty.clone(), name: "x".into(), donated: false }],
        outputs: vec![Output { ty, name: String::new(), storage: Storage::Fresh }],
        objects: vec![Arc::from([0u8])],
        steps: vec![Step::Copy {
            from: Slot { base: Base::Parameter(0), offset: 0 },
            to: Slot { base: Base::Output(0), offset: 0 },
            bytes: bytes as u64,
        }],
        ..Parts::default()
    }
}

#[test]
fn copies_are_exact_at_every_cut() {
    let device = device();
    // Around one unit, around what is split, and enough to wake the workers.
    let sizes = [0, 1, 63, 32767, 32768, 32769, 65535, 65536, 65537, 98304, 3_000_001];
    for bytes in sizes {
        let program = load(&device, copying(bytes), add_one);
        let x = Literal::from_fn(Type::new(DType::U8, [bytes]), |i| {
            Scalar::from_bits(DType::U8, (i * 7 % 251) as u64)
        });
        let before = device.run_stats();
        let y = run(&program, Input::Kept(device.put(x.ty(), x.bytes(), Cause::Explicit).unwrap()));
        assert!(y.to_literal().unwrap() == x, "{bytes} bytes");
        let after = device.run_stats();
        assert_eq!(after.copied_bytes - before.copied_bytes, bytes as u64);
        assert_eq!((after.copies - before.copies, after.launches - before.launches), (1, 0));
    }
}

/// Sums the units' numbers into each unit's cell, by way of scratch.
unsafe extern "C" fn scratching(arguments: *const *mut u8, scratch: *mut u8, begin: u64, end: u64) {
    assert!(scratch.addr().is_multiple_of(64));
    for unit in begin..end {
        // SAFETY: the program below has 16 floats for each unit and 4096 bytes of scratch.
        unsafe {
            let cells = scratch.cast::<u64>();
            (0..512).for_each(|i| *cells.add(i) = unit);
            std::thread::yield_now();
            let sum: u64 = (0..512).map(|i| *cells.add(i)).sum();
            *(*arguments.add(1)).cast::<f32>().add(16 * unit as usize) = (sum / 512) as f32;
        }
    }
}

#[test]
fn results_do_not_depend_on_threads_and_scratch_is_each_threads_own() {
    let device = Device::cpu(Config { threads: 4, capacity: 64 << 20 }).unwrap();
    let mut parts = chain(16 * 64, 1, false, LONG);
    parts.kernels[0].scratch = 4096;
    let program = load(&device, parts, scratching);
    let x = put(&device, &[0.0; 16 * 64]);
    for threads in [1, 2, 3, 4, 9, 0] {
        device.set_threads(threads);
        assert_eq!(device.threads(), threads.clamp(1, 4));
        let y = get(&run(&program, Input::Kept(x.clone())));
        assert!((0..64).all(|unit| y[16 * unit] == unit as f32), "{threads} threads");
    }
}

#[test]
fn a_number_travels_with_the_call() {
    let device = device();
    let number = Type::scalar(DType::F64);
    let parts = Parts {
        name: "number".into(),
        parameters: vec![Parameter { ty: number.clone(), name: "n".into(), donated: true }],
        outputs: vec![Output { ty: number, name: String::new(), storage: Storage::Parameter(0) }],
        kernels: vec![Kernel {
            name: "none".into(),
            object: 0,
            symbol: "none".into(),
            arguments: vec![Access::ReadWrite(8)],
            grid: 0,
            grain: 1,
            scratch: 0,
            traffic: Traffic::default(),
        }],
        objects: vec![Arc::from([0u8])],
        ..Parts::default()
    };
    let program = load(&device, parts, add_one);
    for x in [1.5, -0.0, f64::NAN] {
        let y = run(&program, Input::Scalar(Scalar::from_f64(DType::F64, x)));
        assert_eq!(y.to_literal().unwrap().get(0).bits(), x.to_bits());
    }
    assert_eq!(device.transfers().host_to_device.count, 0);
}

#[test]
fn host_memory_of_another_size_is_refused() {
    let device = device();
    let said = device.put(&ty(4), &[0; 15], Cause::Explicit).unwrap_err().to_string();
    assert_eq!(said, "15 bytes of host memory for an array of type f32[4], which has 16");
    let x = put(&device, &[1.0; 4]);
    assert!(matches!(x.copy_to(&mut [0; 17]), Err(Error::HostBytes { given: 17, .. })));
    let mut back = [0; 16];
    x.copy_to(&mut back).unwrap();
    assert_eq!(back[..4], 1f32.to_le_bytes());
    assert_eq!(device.transfers().device_to_host.count, 1);
}

#[test]
fn a_device_that_cannot_be_set_up_says_why() {
    for capacity in [u64::MAX, 1 << 62] {
        let error = Device::cpu(Config { threads: 1, capacity }).unwrap_err();
        assert!(matches!(error, Error::Setup(_)));
        assert!(error.to_string().contains("address space for the pool"), "{error}");
    }
    // A pool of nothing is one that is always full.
    let device = Device::cpu(Config { threads: 0, capacity: 0 }).unwrap();
    assert_eq!(device.threads(), 1);
    let full = device.put(&ty(0), &[], Cause::Explicit);
    assert!(matches!(full, Err(Error::OutOfMemory { capacity: 0, .. })), "{full:?}");
}
