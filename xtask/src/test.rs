//! `cargo xtask test`: everything CI wants to know.
//!
//! Format, tidy, clippy with warnings denied, and every test of the workspace in
//! one cargo invocation, so that nothing is built twice. All steps run even when
//! an early one fails: one run tells everything. Cargo's output passes through
//! unchanged while its lines are read for what each suite did and how long it took.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::{setup, shell, tidy};

/// How long the fuzzer may run: within CI's budget, or within a developer's patience.
const FUZZ_SECONDS: u32 = 420;
const FUZZ_SECONDS_QUICK: u32 = 15;

/// A line of the closing table.
struct Row {
    name: String,
    took: Duration,
    /// Passed, failed and ignored tests; `None` for a step that is no test suite.
    tests: Option<Tally>,
    failed: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Debug)]
struct Tally {
    passed: u32,
    failed: u32,
    ignored: u32,
}

/// Runs the steps and prints the table.
pub fn run(mut args: Args) -> Result<(), String> {
    let quick = args.flag("--quick");
    args.done()?;
    let start = Instant::now();
    let mut rows = Vec::new();

    setup::build()?;
    setup::lints()?;
    rows.push(row("set-up", start, true));
    step(&mut rows, "format", || {
        shell::run(shell::cargo().args(["fmt", "--all", "--check"])).is_ok()
    });
    step(&mut rows, "tidy", tidy::passes);
    step(&mut rows, "clippy", || {
        let mut clippy = shell::cargo();
        clippy.args(["clippy", "--workspace", "--all-targets", "--all-features"]);
        shell::run(clippy.args(["--", "--deny", "warnings"])).is_ok()
    });
    suites(&mut rows, quick)?;

    print_table(&rows, start.elapsed());
    let failed: Vec<&str> = rows.iter().filter(|row| row.failed).map(|row| &*row.name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

fn row(name: &str, start: Instant, ok: bool) -> Row {
    Row { name: name.into(), took: start.elapsed(), tests: None, failed: !ok }
}

fn step(rows: &mut Vec<Row>, name: &str, run: impl FnOnce() -> bool) {
    let start = Instant::now();
    let ok = run();
    rows.push(row(name, start, ok));
}

/// The hash of the commit that is checked out, where there is one.
fn commit() -> Option<String> {
    let output = std::process::Command::new("git").args(["rev-parse", "HEAD"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Runs `cargo test` and makes a row of its build and one of each suite.
fn suites(rows: &mut Vec<Row>, quick: bool) -> Result<(), String> {
    let mut cargo = shell::cargo();
    let seconds = if quick { FUZZ_SECONDS_QUICK } else { FUZZ_SECONDS };
    if std::env::var_os("KILN_FUZZ_SECONDS").is_none() {
        cargo.env("KILN_FUZZ_SECONDS", seconds.to_string());
    }
    // A commit tries programs of its own, the same whenever it is tested.
    if std::env::var_os("KILN_FUZZ_SEED").is_none()
        && let Some(seed) = commit().and_then(|hash| u64::from_str_radix(hash.get(..9)?, 16).ok())
    {
        cargo.env("KILN_FUZZ_SEED", (seed << 20).to_string());
    }
    cargo.args(["test", "--workspace", "--all-features", "--no-fail-fast"]);
    if quick {
        // Documentation tests link one program each: the slowest seconds per claim.
        cargo.args(["--lib", "--bins", "--tests", "--examples"]);
    }
    println!("$ {}", shell::line(&cargo));

    // One pipe for both streams keeps cargo's headings and the tests' output in
    // the order in which they were written.
    let pipe = |error| format!("cannot make a pipe: {error}");
    let (reader, writer) = std::io::pipe().map_err(pipe)?;
    cargo.stdout(writer.try_clone().map_err(pipe)?).stderr(writer);
    let mut watch = Watch::new();
    let mut child = cargo.spawn().map_err(|error| format!("cannot start cargo: {error}"))?;
    // The command holds our copies of the pipe's writing end; only when they are
    // gone does reading end with the child.
    drop(cargo);
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.map_err(pipe)?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        watch.see(&line, Instant::now());
    }
    let status = child.wait().map_err(|error| format!("cargo was lost: {error}"))?;
    let mut ran = watch.finish(Instant::now());
    if status.success() {
        // A suite with a harness of its own closes in words that we do not know.
        ran.iter_mut().for_each(|row| row.failed = false);
    }
    let explained = ran.iter().any(|row| row.failed);
    let none = ran.iter().all(|row| row.tests.is_none_or(|tally| tally.passed == 0));
    rows.extend(ran);
    if !status.success() && !explained {
        rows.push(Row { name: "build".into(), took: Duration::ZERO, tests: None, failed: true });
    } else if none {
        rows.push(Row {
            name: "no test ran".into(),
            took: Duration::ZERO,
            tests: None,
            failed: true,
        });
    }
    Ok(())
}

/// Reads cargo's output line by line and keeps the time of each suite.
struct Watch {
    rows: Vec<Row>,
    name: String,
    tally: Option<Tally>,
    failed: bool,
    start: Instant,
}

impl Watch {
    fn new() -> Self {
        let name = "build of the tests".into();
        Watch { rows: Vec::new(), name, tally: None, failed: false, start: Instant::now() }
    }

    fn see(&mut self, line: &str, now: Instant) {
        if let Some(name) = suite_name(line) {
            self.close(now);
            self.name = name;
            // A suite that dies says nothing more, so it has failed until it
            // has said how it went.
            self.failed = true;
        } else if let Some(tally) = tally(line) {
            let sum = self.tally.get_or_insert_default();
            // Documentation tests of one crate may close with two lines.
            self.failed = tally.failed > 0 || sum.failed > 0;
            sum.passed += tally.passed;
            sum.failed += tally.failed;
            sum.ignored += tally.ignored;
        }
    }

    fn close(&mut self, now: Instant) {
        let name = std::mem::take(&mut self.name);
        let (tests, failed) = (self.tally.take(), self.failed);
        self.rows.push(Row { name, took: now - self.start, tests, failed });
        self.start = now;
    }

    fn finish(mut self, now: Instant) -> Vec<Row> {
        self.close(now);
        self.rows
    }
}

/// The suite that a heading of cargo's announces:
///
/// ```text
///      Running unittests src/lib.rs (target/debug/deps/kiln_ir-0f4cbb2d6c1e9a57)
///      Running tests/conformance.rs (target/debug/deps/conformance-1b2c3d4e5f607182)
///    Doc-tests kiln_ir
/// ```
fn suite_name(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(package) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{package}: documentation"));
    }
    let (source, binary) = line.strip_prefix("Running ")?.split_once(" (")?;
    let file = binary.strip_suffix(')')?.rsplit(['/', '\\']).next()?;
    let (target, _hash) = file.rsplit_once('-')?;
    Some(match source.strip_prefix("unittests ") {
        Some(root) if root.ends_with("lib.rs") => format!("{target}: unit tests"),
        Some(root) => format!("{target}: unit tests of {root}"),
        None => format!("{target} ({source})"),
    })
}

/// The counts in `test result: ok. 12 passed; 0 failed; 1 ignored; ...`.
fn tally(line: &str) -> Option<Tally> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |word: &str| {
        let field = counts.split("; ").find_map(|field| field.strip_suffix(word))?;
        field.trim().parse().ok()
    };
    Some(Tally { passed: count("passed")?, failed: count("failed")?, ignored: count("ignored")? })
}

fn print_table(rows: &[Row], total: Duration) {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(5);
    println!(
        "\n{:<width$} {:>9}  {:>6} {:>6} {:>7}",
        "suite", "seconds", "passed", "failed", "ignored"
    );
    let mut sum = Tally::default();
    for row in rows {
        print!("{:<width$} {:>9.1}", row.name, row.took.as_secs_f64());
        match row.tests {
            Some(Tally { passed, failed, ignored }) => {
                print!("  {passed:>6} {failed:>6} {ignored:>7}");
                sum.passed += passed;
                sum.failed += failed;
                sum.ignored += ignored;
            }
            None => print!("  {:>6} {:>6} {:>7}", "-", "-", "-"),
        }
        println!("{}", if row.failed { "  FAILED" } else { "" });
    }
    let Tally { passed, failed, ignored } = sum;
    println!(
        "{:<width$} {:>9.1}  {passed:>6} {failed:>6} {ignored:>7}",
        "total",
        total.as_secs_f64()
    );
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Tally, Watch, suite_name, tally};

    #[test]
    fn names_suites_from_cargos_headings() {
        let name = |line| suite_name(line).unwrap();
        let unit = "     Running unittests src/lib.rs (target/debug/deps/kiln_ir-0f4cbb2d)";
        assert_eq!(name(unit), "kiln_ir: unit tests");
        let test = "     Running tests/conformance.rs (target/debug/deps/conformance-1b2c)";
        assert_eq!(name(test), "conformance (tests/conformance.rs)");
        assert_eq!(name("   Doc-tests kiln_ir"), "kiln_ir: documentation");
        assert_eq!(suite_name("running 3 tests"), None);
        assert_eq!(suite_name("   Compiling kiln-ir v0.1.0"), None);
    }

    #[test]
    fn reads_counts() {
        let line =
            "test result: FAILED. 12 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out";
        assert_eq!(tally(line), Some(Tally { passed: 12, failed: 2, ignored: 1 }));
        assert_eq!(tally("test shape::tests::zero ... ok"), None);
    }

    #[test]
    fn a_suite_that_dies_without_a_result_has_failed() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watch = Watch::new();
        watch.start = start;
        watch.see("   Compiling kiln-ir v0.1.0", at(1));
        watch.see("     Running unittests src/lib.rs (target/debug/deps/a-12)", at(10));
        watch.see("test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured", at(12));
        watch.see("     Running unittests src/lib.rs (target/debug/deps/b-34)", at(13));
        watch.see("error: test failed (signal: 11)", at(14));
        let rows = watch.finish(at(15));
        let seen: Vec<_> =
            rows.iter().map(|row| (&*row.name, row.took.as_secs(), row.failed)).collect();
        let expected = [
            ("build of the tests", 10, false),
            ("a: unit tests", 3, false),
            ("b: unit tests", 2, true),
        ];
        assert_eq!(seen, expected);
        assert_eq!(rows[1].tests, Some(Tally { passed: 3, failed: 0, ignored: 0 }));
    }
}
