//! `cargo xtask ulp`: the table of errors in `docs/numerics.md`, measured.
//!
//! ```text
//! kiln-ulp [--stride N] [FUNCTION..]
//! ```
//!
//! Writes one row of the table a function to the output, and where each largest error is to
//! the error output. Without `--stride` every `f32` is tried, which takes minutes for
//! each function. Exits with 1 if a bound does not hold.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use kiln_fuzz::ulp::{DTYPES, Effort, Function, HEADER, line, measure};
use kiln_ir::Scalar;

fn main() -> ExitCode {
    match table(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// Whether every bound holds.
fn table(mut arguments: impl Iterator<Item = String>) -> Result<bool, String> {
    let mut effort = Effort::FULL;
    let mut chosen = Vec::new();
    while let Some(word) = arguments.next() {
        if word == "--stride" {
            let stride = arguments.next().and_then(|n| n.parse().ok()).filter(|&n| n > 0);
            effort.stride = stride.ok_or("--stride needs a number above 0")?;
        } else {
            let function = Function::all().into_iter().find(|f| f.name() == word);
            chosen.push(function.ok_or_else(|| format!("{word} has no row in the table"))?);
        }
    }
    if chosen.is_empty() {
        chosen = Function::all();
    }
    let mut all_hold = true;
    println!("{HEADER}");
    for function in chosen {
        let mut row = Vec::new();
        for dtype in DTYPES {
            let worst = measure(function, dtype, effort)?;
            let [a, b] = worst.at.map(|bits| Scalar::from_bits(dtype, bits));
            let holds = worst.error <= function.bound(dtype);
            all_hold &= holds;
            eprintln!(
                "{:<9} {dtype:<4} {:.4} at {a} {b}, of {}{}",
                function.name(),
                worst.error,
                worst.tried,
                if holds { "" } else { ": MORE THAN THE BOUND" }
            );
            row.push(worst);
        }
        println!("{}", line(function, &row.try_into().expect("a figure for each type")));
    }
    Ok(all_hold)
}
