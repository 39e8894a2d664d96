//! The first call of a jitted function in a fresh process: what compiling costs a user.
//!
//! Starts itself several times; each process puts the inputs of `gelu_16m` on the
//! device, times the first call until its result is complete, and subtracts the median
//! of the calls after it. Prints the median of the processes.

use std::process::{Command, ExitCode};
use std::time::Instant;

use kiln_bench::contender::contender;
use kiln_bench::workload::Workload;

const PROCESSES: usize = 7;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--child") {
        let (first, steady) = measure();
        println!("{first} {steady}");
        return ExitCode::SUCCESS;
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(e) => {
            eprintln!("this program cannot find itself: {e}");
            return ExitCode::FAILURE;
        }
    };
    let mut extra = Vec::new();
    for _ in 0..PROCESSES {
        let output = match Command::new(&program).arg("--child").output() {
            Ok(output) if output.status.success() => output.stdout,
            Ok(output) => {
                eprintln!("{}", String::from_utf8_lossy(&output.stderr));
                return ExitCode::FAILURE;
            }
            Err(e) => {
                eprintln!("a process could not be started: {e}");
                return ExitCode::FAILURE;
            }
        };
        let text = String::from_utf8_lossy(&output);
        let numbers: Vec<f64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        if let [first, steady] = numbers[..] {
            println!(
                "first call {first:6.1} ms, steady {steady:6.1} ms: {:6.1} ms more",
                first - steady
            );
            extra.push(first - steady);
        }
    }
    extra.sort_by(f64::total_cmp);
    println!(
        "gelu_16m, first call minus a steady one, median of {PROCESSES} processes: {:.1} ms",
        extra[extra.len() / 2]
    );
    ExitCode::SUCCESS
}

/// Milliseconds of the first call and, at the median, of those after it.
fn measure() -> (f64, f64) {
    let workload = Workload::named("gelu_16m").expect("a workload of the list");
    let inputs = workload.make_inputs();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut kiln = contender(workload, &inputs, threads).expect("kiln has a definition");
    let mut timed = || {
        let start = Instant::now();
        kiln.run();
        start.elapsed().as_secs_f64() * 1e3
    };
    let first = timed();
    let mut steady: Vec<f64> = (0..15).map(|_| timed()).collect();
    steady.sort_by(f64::total_cmp);
    (first, steady[steady.len() / 2])
}
