//! One file, taken apart.

use std::path::{Path, PathBuf};

use kiln_ir::text::{Module, parse_module};
use kiln_ir::{Graph, Literal};

use crate::{Outcome, Run};

/// A file: the program, and what is expected of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Where the file is.
    pub path: PathBuf,
    /// The program: the file up to its `// expect:` line.
    pub program: String,
    /// The runners named by `// test:`.
    pub tests: Vec<String>,
    /// The `// run:` lines with their line numbers.
    pub(crate) runs: Vec<(usize, String)>,
    /// The `// check:` lines: keys and values.
    pub(crate) checks: Vec<(String, String)>,
    /// The `// error:` marks: line numbers and messages.
    pub(crate) errors: Vec<(usize, String)>,
    /// What follows `// expect:`.
    pub(crate) expected: Option<String>,
}

/// The line before an expected text.
pub(crate) const EXPECT: &str = "// expect:";

impl Case {
    /// Takes the text of the file at `path` apart.
    ///
    /// # Errors
    /// If a directive is not well formed, or no runner is named.
    pub fn new(path: &Path, text: &str) -> Result<Case, String> {
        let (program, expected) = split_expected(text);
        let mut case = Case {
            path: path.to_path_buf(),
            program: program.to_string(),
            tests: vec![],
            runs: vec![],
            checks: vec![],
            errors: vec![],
            expected: expected.map(str::to_string),
        };
        let mut header = true;
        for (number, line) in (1..).zip(program.lines()) {
            header &= line.is_empty() || line.starts_with("//");
            if header {
                case.directive(number, line)?;
            } else if let Some((_, message)) = line.split_once("// error:") {
                case.errors.push((number, message.trim().to_string()));
            } else if is_directive(line) {
                return Err(format!("line {number}: directives stand before the program"));
            }
        }
        if case.tests.is_empty() {
            return Err("no `// test:` line names a runner".to_string());
        }
        Ok(case)
    }

    fn directive(&mut self, number: usize, line: &str) -> Result<(), String> {
        let Some((key, value)) = line.trim_start_matches('/').split_once(':') else {
            return Ok(());
        };
        let value = value.trim();
        match key.trim() {
            "test" => {
                self.tests.extend(value.split(',').map(|name| name.trim().to_string()));
            }
            "run" => self.runs.push((number, value.to_string())),
            "check" => {
                let (key, value) = value
                    .split_once('=')
                    .ok_or_else(|| format!("line {number}: wants `// check: key = value`"))?;
                self.checks.push((key.trim().to_string(), value.trim().to_string()));
            }
            // An ordinary sentence with a colon in it.
            _ => {}
        }
        Ok(())
    }

    /// The file's name, as errors of the parser and sources have it.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Whether the file has an `// expect:` block.
    pub fn expects_text(&self) -> bool {
        self.expected.is_some()
    }

    /// The program, parsed.
    ///
    /// # Errors
    /// If it does not parse.
    pub fn module(&self) -> Result<Module, String> {
        parse_module(&self.name(), &self.program).map_err(|error| error.to_string())
    }

    /// The program's main graph.
    ///
    /// # Errors
    /// If the program does not parse or is empty.
    pub fn graph(&self) -> Result<Graph, String> {
        let module = self.module()?;
        module.main().map(|graph| Graph::clone(graph)).ok_or("no graph".to_string())
    }

    /// The `// run:` lines.
    ///
    /// # Errors
    /// If one of them is not well formed.
    pub fn runs(&self) -> Result<Vec<Run>, String> {
        self.runs.iter().map(|(number, text)| Run::parse(*number, text)).collect()
    }

    /// Applies `execute` to the graph and the arguments of each `// run:` line: what a
    /// runner that executes programs consists of.
    ///
    /// # Errors
    /// If the outputs are not the expected ones, `execute` fails, or there is no such line.
    pub fn run_with(
        &self,
        execute: impl Fn(&Graph, &[Literal]) -> Result<Vec<Literal>, String>,
    ) -> Result<Outcome, String> {
        let (module, runs) = (self.module()?, self.runs()?);
        if runs.is_empty() {
            return Err("no `// run:` line says what to run".to_string());
        }
        for run in runs {
            let at = |message: String| format!("line {}: {message}", run.line);
            let graph =
                module.get(&run.graph).ok_or_else(|| at(format!("no graph @{}", run.graph)))?;
            let outputs = execute(graph, &run.arguments).map_err(at)?;
            run.judge(&outputs).map_err(at)?;
        }
        Ok(Outcome::Done)
    }
}

/// Whether the line would be a directive of the header.
fn is_directive(line: &str) -> bool {
    let comment = line.trim_start().strip_prefix("//").and_then(|rest| rest.split_once(':'));
    comment.is_some_and(|(key, _)| matches!(key.trim(), "test" | "run" | "check"))
}

/// The text before and after the line [`EXPECT`].
pub(crate) fn split_expected(text: &str) -> (&str, Option<&str>) {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == EXPECT {
            return (&text[..start], Some(&text[start + line.len()..]));
        }
        start += line.len();
    }
    (text, None)
}
