//! `cargo xtask`: every developer command, in one place.
//!
//! Promises: depends on nothing but the standard library, so that it builds in
//! seconds on a machine that has only rustup and a C linker; each command brings
//! what it needs (see [`setup`]), says aloud what it runs, and may be repeated.
//! Refuses: unknown commands and options, with the list of known ones.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod goldens;
mod setup;
mod shell;
mod test;
mod tidy;

use std::process::ExitCode;

use args::Args;

const HELP: &str = "\
cargo xtask COMMAND

  demo [--data DIR] [-- OPTIONS]   install what is missing, build, train on Fashion-MNIST
  test [--quick]                   format, tidy, clippy, every test; times in a closing table
  bench [OPTIONS]                  limits, hand-written floors and Kiln, as ratios
  bless [FILTER]                   rewrite the expectations of file tests; read the diff
  tidy                             crate boundaries, headers, paths, switches, links
  goldens [--verify]               numpy's values for the ops: regenerate, or compare
  ulp [--stride N] [FUNCTION..]    the errors of functions, as the table in docs/numerics.md
  fuzz [--hours N]                 random programs for that long; prints its seed
  setup                            install what a build needs
  help                             this text

Without a network, `demo` takes the four IDX files of Fashion-MNIST from --data DIR
or from the folder that KILN_FASHION_MNIST names.";

fn main() -> ExitCode {
    let mut args = Args::from_env();
    let command = args.command();
    let outcome = match command.as_deref() {
        Some("demo") => commands::demo(args),
        Some("test") => test::run(args),
        Some("bench") => commands::bench(args),
        Some("bless") => commands::bless(args),
        Some("tidy") => tidy::command(args),
        Some("goldens") => goldens::run(args),
        Some("fuzz") => commands::fuzz(args),
        Some("ulp") => commands::ulp(args),
        Some("setup") => args.done().and_then(|()| setup::build()),
        None | Some("help" | "--help" | "-h") => {
            println!("{HELP}");
            Ok(())
        }
        Some(other) => Err(format!("there is no command `{other}`\n\n{HELP}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
