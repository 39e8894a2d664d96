//! All files of a folder.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::case::{EXPECT, split_expected};
use crate::judge::{Verdict, judge};
use crate::{Case, Runner};

/// Applies `runners` to every `.kiln` file in `folder` and the folders inside it, each to
/// the files that name it. Names among `elsewhere` are runners of other tests.
///
/// # Panics
/// With all failures, after the last file; and if no file named any of the runners.
pub fn run_folder(folder: impl AsRef<Path>, runners: &[Runner], elsewhere: &[&str]) {
    let folder = folder.as_ref();
    let bless = std::env::var_os("KILN_BLESS").is_some_and(|value| value == "1");
    let filter = std::env::var("KILN_FILES").unwrap_or_default();
    let (mut failures, mut runs) = (Vec::new(), 0);
    for path in files(folder) {
        if !path.to_string_lossy().contains(&filter) {
            continue;
        }
        let verdict = judge_file(&path, runners, elsewhere, bless);
        runs += verdict.runs;
        let failed = verdict.failures.into_iter();
        failures.extend(failed.map(|message| format!("{}: {message}", path.display())));
    }
    assert!(failures.is_empty(), "{}\n{} failures", failures.join("\n"), failures.len());
    assert!(runs > 0 || !filter.is_empty(), "no file in {} names a runner", folder.display());
}

fn judge_file(path: &Path, runners: &[Runner], elsewhere: &[&str], bless: bool) -> Verdict {
    let failed = |message: String| Verdict { failures: vec![message], ..Verdict::default() };
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return failed(error.to_string()),
    };
    let case = match Case::new(path, &text) {
        Ok(case) => case,
        Err(message) => return failed(message),
    };
    // A runner that panics is a failure of its file, not the end of the test.
    let judged = catch_unwind(AssertUnwindSafe(|| judge(&case, runners, elsewhere)));
    let verdict = match judged {
        Ok(verdict) => verdict,
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            return failed(format!("panicked: {message}"));
        }
    };
    match &verdict.text {
        // Only where the text is all that is wrong.
        Some(wanted) if bless && verdict.failures.len() == 1 => {
            match fs::write(path, blessed(&text, wanted)) {
                Ok(()) => Verdict { runs: verdict.runs, ..Verdict::default() },
                Err(error) => failed(error.to_string()),
            }
        }
        _ => verdict,
    }
}

/// The file with `wanted` as its expected text.
fn blessed(text: &str, wanted: &str) -> String {
    let (program, _) = split_expected(text);
    let gap = if program.ends_with("\n\n") { "" } else { "\n" };
    let gap = if program.ends_with('\n') { gap } else { "\n\n" };
    format!("{program}{gap}{EXPECT}\n{wanted}")
}

/// The `.kiln` files below `folder`, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
        for entry in entries {
            let path = entry.expect("entries of a folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "kiln") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Outcome;

    const PROGRAM: &str = "graph @main(%x: f32[2]) -> f32[2] {\n  return %x\n}\n";

    fn case(header: &str, program: &str) -> Case {
        Case::new(Path::new("folder/case.kiln"), &format!("{header}\n\n{program}")).unwrap()
    }

    fn failures(case: &Case, outcome: Result<Outcome, &str>) -> Vec<String> {
        let outcome = outcome.map_err(str::to_string);
        judge(case, &[("it", &|_| outcome.clone())], &["other"]).failures
    }

    #[test]
    fn texts_are_compared_and_blessed() {
        let text = || Ok(Outcome::Text(PROGRAM.to_string()));
        let file = blessed(&format!("// test: it\n\n{PROGRAM}"), PROGRAM);
        assert_eq!(file, format!("// test: it\n\n{PROGRAM}\n// expect:\n{PROGRAM}"));
        assert_eq!(blessed(&file, "new\n"), format!("// test: it\n\n{PROGRAM}\n// expect:\nnew\n"));
        let expecting = Case::new(Path::new("case.kiln"), &file).unwrap();
        assert_eq!(failures(&expecting, text()), [""; 0]);
        let other = failures(&expecting, Ok(Outcome::Text(PROGRAM.replace("%x", "%y"))));
        assert!(other[0].contains("line 1 of the text differs"), "{other:?}");
        let none = failures(&case("// test: it", PROGRAM), text());
        assert_eq!(none, ["it: no `// expect:` (KILN_BLESS=1 adds one)"]);
        let unanswered = failures(&expecting, Ok(Outcome::Done));
        assert_eq!(unanswered, ["no runner returns a text to expect"]);
    }

    #[test]
    fn counts_are_compared() {
        let counts = |n: &str| {
            let counts = [("kernels", n), ("copies", "0")];
            let counts = counts.map(|(key, value)| (key.to_string(), value.to_string()));
            Ok(Outcome::Counts(BTreeMap::from(counts)))
        };
        let checking = case("// test: it\n// check: kernels = 1", PROGRAM);
        assert_eq!(failures(&checking, counts("1")), [""; 0]);
        assert_eq!(failures(&checking, counts("2")), ["it: kernels = 2, expects 1"]);
        let none = failures(&case("// test: it", PROGRAM), counts("1"));
        assert_eq!(none, ["it: counts, but no `// check:` line asserts any"]);
        let unknown = case("// test: it\n// check: bytes = 1", PROGRAM);
        assert_eq!(failures(&unknown, counts("1")), ["no runner counts `bytes`"]);
        // Perhaps the runner that is not here counts it.
        let elsewhere = case("// test: it, other\n// check: bytes = 1", PROGRAM);
        assert_eq!(failures(&elsewhere, counts("1")), [""; 0]);
    }

    #[test]
    fn errors_stand_on_their_line() {
        let wrong = case("// test: it", "graph @f() -> () {\n  %0 = hop // error: unknown op\n");
        assert_eq!(failures(&wrong, Err("case.kiln:4:3: unknown op `hop`")), [""; 0]);
        assert_eq!(failures(&wrong, Err("case.kiln:3:3: unknown op `hop`")).len(), 1);
        assert_eq!(failures(&wrong, Err("case.kiln:40:3: unknown op `hop`")).len(), 1);
        assert_eq!(failures(&wrong, Err("case.kiln:4:3: another")).len(), 1);
        let none = failures(&wrong, Ok(Outcome::Done));
        assert_eq!(none, ["it: line 4: no error, expects `unknown op`"]);
        let right = case("// test: it", PROGRAM);
        assert_eq!(failures(&right, Err("bad")), ["it: bad"]);
    }

    #[test]
    fn names_of_runners_are_known_or_refused() {
        let none = Case::new(Path::new("case.kiln"), PROGRAM).unwrap_err();
        assert_eq!(none, "no `// test:` line names a runner");
        let unknown = failures(&case("// test: it, that", PROGRAM), Ok(Outcome::Done));
        assert_eq!(unknown, ["no runner is called `that`"]);
    }

    #[test]
    fn directives_after_the_header_are_refused() {
        // They would assert nothing.
        for line in ["// check: kernels = 2", "  //run: @main() -> ()", "// test: other"] {
            let text = format!("// test: it\n\n{PROGRAM}{line}\n");
            let message = Case::new(Path::new("case.kiln"), &text).unwrap_err();
            assert_eq!(message, "line 6: directives stand before the program");
        }
        let free = format!("// test: it\n\n{PROGRAM}// a check: whether it is one\n");
        Case::new(Path::new("case.kiln"), &free).unwrap();
    }

    #[test]
    fn programs_run_by_their_lines() {
        let identity = |header: &str| {
            case(header, PROGRAM).run_with(|_, arguments| Ok(arguments.to_vec())).map(|_| ())
        };
        identity("// test: it\n// run: @main(f32[2] [1.0, nan]) -> f32[2] [1.0, nan]").unwrap();
        let wrong = identity("// test: it\n// run: @main(f32[2] 1.0) -> f32[2] 2.0").unwrap_err();
        assert!(wrong.starts_with("line 2: output 0: element 0 is 1.0"), "{wrong}");
        let missing = identity("// test: it\n// run: @f() -> ()").unwrap_err();
        assert_eq!(missing, "line 2: no graph @f");
        let none = identity("// test: it").unwrap_err();
        assert_eq!(none, "no `// run:` line says what to run");
    }
}
