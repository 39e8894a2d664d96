//! `cargo xtask fuzz --hours N`: random programs until the time is over.
//!
//! ```text
//! kiln-fuzz [--hours H | --seconds S] [--seed FIRST]    run from a seed on
//! kiln-fuzz --one SEED                                  run and print one
//! ```
//!
//! Prints each failure with its seed as it is found, makes the first few small and writes
//! them to `target/fuzz` as file tests, and prints the count at the end; exits
//! with 1 if there was one. Without `--seed`, seeds follow from the clock, so that
//! every run tries other programs; the first is printed.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use kiln_fuzz::check::{Setting, check_seed, first_difference, shrink_seed};
use kiln_fuzz::generate::generate;

fn main() -> ExitCode {
    let mut time = Duration::from_secs(60);
    let clock = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_nanos() as u64);
    let mut first = clock & 0xffff_ffff_0000;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let Ok(number) = value.parse::<f64>() else {
            eprintln!("{name} needs a number");
            return ExitCode::from(2);
        };
        match &*name {
            "--hours" => time = Duration::from_secs_f64(number.clamp(0.0, 1e6) * 3600.0),
            "--seconds" => time = Duration::from_secs_f64(number.clamp(0.0, 1e9)),
            "--seed" => first = number as u64,
            "--one" => return one(value.parse().unwrap_or(number as u64)),
            _ => {
                eprintln!("{name} is not understood");
                return ExitCode::from(2);
            }
        }
    }
    println!("first seed {first}");
    let start = Instant::now();
    let (mut programs, mut failures, mut nodes, mut exact, mut rough) = (0u64, 0u64, 0, 0, 0);
    while start.elapsed() < time {
        match check_seed(first + programs) {
            Ok(tally) => {
                nodes += tally.nodes;
                exact += tally.exact;
                rough += tally.rough;
            }
            Err(message) => {
                failures += 1;
                println!("{message}\n");
                if failures <= SHRUNK {
                    shrink(first + programs);
                }
            }
        }
        programs += 1;
    }
    println!(
        "{programs} programs of {nodes} nodes in {:.0} s: {exact} outputs exact, {rough} near, \
         {failures} failures",
        start.elapsed().as_secs_f64()
    );
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn one(seed: u64) -> ExitCode {
    println!("{}", generate(seed).graph);
    match check_seed(seed) {
        Ok(tally) => {
            println!("{tally:?}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            println!("{message}");
            let program = generate(seed);
            match first_difference(&program, Setting::of(seed).isa) {
                Some(found) => println!("{found}"),
                None => println!("every node alone is right"),
            }
            shrink(seed);
            ExitCode::FAILURE
        }
    }
}

/// Failures of one run that are made small; the others are likely to have the same cause.
const SHRUNK: u64 = 5;

/// Longest time to make one failure small.
const PATIENCE: Duration = Duration::from_secs(120);

/// Writes the failure of a seed, made small, as a file test.
fn shrink(seed: u64) {
    let path = format!("target/fuzz/seed-{seed}.kiln");
    let written = shrink_seed(seed, PATIENCE).and_then(|text| {
        println!("small:\n{text}");
        std::fs::create_dir_all("target/fuzz").map_err(|e| e.to_string())?;
        std::fs::write(&path, text).map_err(|e| e.to_string())
    });
    match written {
        Ok(()) => println!("written to {path}\n"),
        Err(message) => println!("seed {seed} was not made small: {message}\n"),
    }
}
