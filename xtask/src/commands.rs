//! The commands that are one program each: demo, bench, bless, fuzz, ulp.

use crate::args::Args;
use crate::{setup, shell};

/// Builds the example in release mode and trains it on Fashion-MNIST. The step's stages
/// are written below `target/demo`.
pub fn demo(mut args: Args) -> Result<(), String> {
    let asked = args.value("--data")?;
    setup::build()?;
    let data = setup::fashion_mnist(asked)?;
    let mut cargo = shell::cargo();
    cargo.args(["run", "--release", "--example", "fashion_mnist", "--"]);
    cargo.args(["--dump", "target/demo", "--data"]);
    shell::run(cargo.arg(data).args(args.remaining()))
}

/// Measures; the options are those of `kiln-bench`. Without options the time of a first
/// call is measured too.
pub fn bench(args: Args) -> Result<(), String> {
    setup::build()?;
    let options = args.remaining();
    let bench = |program: &str| {
        let mut cargo = shell::cargo();
        cargo.args(["run", "--release", "--package", "kiln-bench", "--bin", program, "--"]);
        cargo
    };
    shell::run(bench("kiln-bench").args(&options))?;
    if options.is_empty() { shell::run(&mut bench("kiln-first-call")) } else { Ok(()) }
}

/// Reruns the file tests with leave to rewrite what they expect.
pub fn bless(args: Args) -> Result<(), String> {
    setup::build()?;
    let mut cargo = shell::cargo();
    cargo.env("KILN_BLESS", "1");
    cargo.args(["test", "--workspace", "--test", "filetests", "--test", "files", "--test", "text"]);
    cargo.arg("--");
    shell::run(cargo.args(args.remaining()))
}

/// Random programs for some hours.
pub fn fuzz(mut args: Args) -> Result<(), String> {
    let hours = args.value("--hours")?.unwrap_or("1".into());
    if !hours.parse::<f64>().is_ok_and(|hours| hours > 0.0) {
        return Err(format!("`--hours {hours}`: hours are a number above zero"));
    }
    setup::build()?;
    let mut cargo = shell::cargo();
    cargo.args(["run", "--release", "--package", "kiln-fuzz", "--", "--hours"]);
    shell::run(cargo.arg(hours).args(args.remaining()))
}

/// The table of errors; the words are those of `kiln-ulp`.
pub fn ulp(args: Args) -> Result<(), String> {
    setup::build()?;
    let mut cargo = shell::cargo();
    cargo.args(["run", "--release", "--package", "kiln-fuzz", "--bin", "kiln-ulp", "--"]);
    shell::run(cargo.args(args.remaining()))
}
