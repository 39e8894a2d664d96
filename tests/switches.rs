//! The environment's switches, each in a process of its own: a test runs this
//! program again, with the switch set and the name of an ignored test.

// A borrowed argument is kept and a moved one given up: the `&` matters.
#![allow(clippy::needless_borrows_for_generic_args)]

use std::path::PathBuf;
use std::process::{Command, Output};

use kiln::prelude::*;
use kiln::{DeviceErrorKind, ErrorKind, Stage, memory_stats};

fn again(test: &str, switches: &[(&str, &str)]) -> Output {
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", test, "--ignored", "--nocapture"];
    let mut command = Command::new(program);
    command.args(arguments).envs(switches.iter().copied()).output().unwrap()
}

#[track_caller]
fn passes(test: &str, switches: &[(&str, &str)]) -> String {
    let output = again(test, switches);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{switches:?}\n{out}\n{err}");
    err
}

/// A program with a contraction, a reduction and elementwise ops.
fn layer(x: Tensor, w: Tensor) -> Tensor {
    x.dot(&w).gelu().softmax(-1)
}

fn input(shape: [usize; 2]) -> Tensor {
    Tensor::iota(shape, 1, F32) * 0.25 - 0.5
}

#[test]
#[ignore = "run by other tests"]
fn computes() {
    let y = jit(layer).call(&input([3, 4]), &input([4, 5])).unwrap();
    let rows = y.sum(-1).to_vec::<f32>().unwrap();
    assert!(rows.iter().all(|sum| (sum - 1.0).abs() < 1e-5), "{rows:?}");
    println!("bits {:?}", y.to_vec::<f32>().unwrap().map_bits());
}

trait MapBits {
    fn map_bits(self) -> Vec<u32>;
}

impl MapBits for Vec<f32> {
    fn map_bits(self) -> Vec<u32> {
        self.into_iter().map(f32::to_bits).collect()
    }
}

#[test]
fn every_way_to_compile_computes() {
    for switch in [
        ("KILN_DEVICE", "eval"),
        ("KILN_DEVICE", "cpu"),
        ("KILN_FUSE", "0"),
        ("KILN_FUEL", "0"),
        ("KILN_SKIP", "simplify,cse"),
        ("KILN_ISA", "v2"),
        ("KILN_THREADS", "1"),
        ("KILN_THREADS", "3"),
        ("KILN_POOL_BYTES", "8M"),
    ] {
        passes("computes", &[switch]);
    }
}

/// Results do not depend on the number of threads.
#[test]
fn one_thread_and_three_give_the_same_bits() {
    let bits = |threads| {
        let output = again("computes", &[("KILN_THREADS", threads)]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().find(|l| l.contains("bits")).map(str::to_string).unwrap()
    };
    assert_eq!(bits("1"), bits("3"));
}

#[test]
fn dumps_go_to_the_folder() {
    let folder = std::env::temp_dir().join(format!("kiln-dump-{}", std::process::id()));
    let all = Stage::ALL.map(Stage::name).join(",");
    let switches = [("KILN_DUMP", &*all), ("KILN_DUMP_DIR", folder.to_str().unwrap())];
    passes("computes", &switches);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let names: Vec<&str> = files.iter().map(|f| f.file_name().unwrap().to_str().unwrap()).collect();
    for stage in Stage::ALL {
        let part = format!("-layer.{}.", stage.name());
        assert!(names.iter().any(|n| n.contains(&part)), "{part} in {names:?}");
    }
    assert!(files.iter().all(|f| std::fs::metadata(f).unwrap().len() > 0));
    std::fs::remove_dir_all(&folder).unwrap();
    // Without a folder they go to standard error.
    let err = passes("computes", &[("KILN_DUMP", "graph")]);
    assert!(err.contains("dot_general"), "{err}");
}

#[test]
#[ignore = "run by other tests"]
fn refuses_the_switch() {
    let f = jit(|x: Tensor| x + 1.0);
    for _ in 0..2 {
        let error = f.call(1.0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::User);
        assert!(error.message().contains("is not understood; wanted"), "{error}");
    }
    assert!((Tensor::from(1.0f32) + 1.0).item::<f32>().is_err());
}

#[test]
fn a_value_that_is_not_understood_is_an_error() {
    for switch in [
        ("KILN_DEVICE", "gpu7"),
        ("KILN_DUMP", "graph,everything"),
        ("KILN_THREADS", "many"),
        ("KILN_POOL_BYTES", "-1"),
        ("KILN_ISA", "mmx"),
        ("KILN_FUEL", "full"),
        ("KILN_FUSE", "maybe"),
        ("KILN_CACHE_ENTRIES", "0"),
    ] {
        passes("refuses_the_switch", &[switch]);
    }
}

/// An error in the middle leaves earlier results right and later work possible. [K86]
#[test]
#[ignore = "run by other tests"]
fn runs_out_of_memory() {
    let out_of_memory = ErrorKind::Device(DeviceErrorKind::OutOfMemory);
    let a = Tensor::from([1.0f32, 2.0]);
    let b = (&a * 2.0).block_until_ready().unwrap().clone();
    let in_use = memory_stats().unwrap().in_use;

    // A lazy expression that is kept and too large.
    let large = Tensor::iota([1 << 24], 0, F32) + 1.0;
    let error = large.block_until_ready().unwrap_err();
    assert_eq!(error.kind(), out_of_memory, "{error}");
    assert!(error.message().contains("out of memory"), "{error}");
    // Host data that is too large.
    let host = Tensor::from(vec![0.0f32; 1 << 24]);
    assert_eq!(host.error().unwrap().kind(), out_of_memory);
    // A step whose second output is too large: the state is as it was.
    let step = jit(|x: Tensor| (&x + 1.0, x.sum(..).broadcast_to([1 << 24])));
    let mut state = device_put(Tensor::from([1.0f32, 2.0])).unwrap();
    assert_eq!(step.update(&mut state).unwrap_err().kind(), out_of_memory);
    assert_eq!(state.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    drop(state);

    assert_eq!(b.to_vec::<f32>().unwrap(), [2.0, 4.0]);
    assert_eq!(memory_stats().unwrap().in_use, in_use, "nothing is left behind");
    assert_eq!((&b + 1.0).to_vec::<f32>().unwrap(), [3.0, 5.0]);
}

#[test]
fn running_out_of_memory_is_an_error() {
    passes("runs_out_of_memory", &[("KILN_POOL_BYTES", "32M")]);
}
