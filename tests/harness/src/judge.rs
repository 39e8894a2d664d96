//! Compares what runners return with what a file expects.

use std::collections::BTreeMap;

use crate::Case;

/// What a runner has found out.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Compared with what follows `// expect:`.
    Text(String),
    /// Compared with the `// check:` lines.
    Counts(BTreeMap<String, String>),
    /// Nothing to compare: the runner has judged by itself.
    Done,
}

/// A test of files, under the name that `// test:` lines have for it.
pub type Runner<'a> = (&'a str, &'a dyn Fn(&Case) -> Result<Outcome, String>);

/// What came of a case.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    /// What is wrong, runner by runner.
    pub failures: Vec<String>,
    /// The text that the file should expect, where it expects another or none.
    pub text: Option<String>,
    /// How many runners were applied.
    pub runs: usize,
}

/// Applies the runners that the case names. Names among `elsewhere` are for another
/// test; what the file expects of them stays open.
pub(crate) fn judge(case: &Case, runners: &[Runner], elsewhere: &[&str]) -> Verdict {
    let mut verdict = Verdict::default();
    let (mut texts, mut skipped) = (0, false);
    let mut unanswered: Vec<&str> = case.checks.iter().map(|(key, _)| key.as_str()).collect();
    for name in &case.tests {
        let Some((_, runner)) = runners.iter().find(|(known, _)| known == name) else {
            skipped = true;
            if !elsewhere.contains(&name.as_str()) {
                verdict.failures.push(format!("no runner is called `{name}`"));
            }
            continue;
        };
        verdict.runs += 1;
        let outcome = runner(case);
        let failure = match (outcome, case.errors.as_slice()) {
            (Err(message), []) => Some(message),
            (outcome, [(line, wanted)]) => wrong_error(case, outcome, *line, wanted),
            (_, [_, _, ..]) => Some("more than one line is marked with an error".to_string()),
            (Ok(Outcome::Done), []) => None,
            (Ok(Outcome::Text(text)), []) => {
                texts += 1;
                wrong_text(case, text, &mut verdict)
            }
            (Ok(Outcome::Counts(counts)), []) => {
                unanswered.retain(|key| !counts.contains_key(*key));
                wrong_count(case, &counts)
            }
        };
        verdict.failures.extend(failure.map(|message| format!("{name}: {message}")));
    }
    if !skipped && verdict.failures.is_empty() {
        if case.expected.is_some() && texts == 0 {
            verdict.failures.push("no runner returns a text to expect".to_string());
        }
        if let Some(key) = unanswered.first() {
            verdict.failures.push(format!("no runner counts `{key}`"));
        }
    }
    verdict
}

/// The marked line must be the one that the message names.
fn wrong_error(
    case: &Case,
    outcome: Result<Outcome, String>,
    line: usize,
    wanted: &str,
) -> Option<String> {
    let Err(message) = outcome else {
        return Some(format!("line {line}: no error, expects `{wanted}`"));
    };
    let place = format!("{}:{line}", case.name());
    let is_there = message
        .match_indices(&place)
        .any(|(i, _)| !message[i + place.len()..].starts_with(|c: char| c.is_ascii_digit()));
    let right = is_there && message.contains(wanted);
    (!right).then(|| format!("line {line}: expects `{wanted}`, got:\n{message}"))
}

fn wrong_text(case: &Case, text: String, verdict: &mut Verdict) -> Option<String> {
    let text = format!("{}\n", text.trim_end());
    let failure = match &case.expected {
        None => "no `// expect:` (KILN_BLESS=1 adds one)".to_string(),
        Some(expected) if expected.trim_end() == text.trim_end() => return None,
        Some(expected) => difference(expected, &text),
    };
    if verdict.text.as_ref().is_some_and(|other| *other != text) {
        return Some("runners return different texts; one file can expect one".to_string());
    }
    verdict.text = Some(text);
    Some(failure)
}

/// The first line that differs, and the whole of what was found.
fn difference(expected: &str, text: &str) -> String {
    let (mut wanted, mut got) = (expected.trim_end().lines(), text.trim_end().lines());
    let mut number = 0;
    loop {
        number += 1;
        let (wanted, got) = (wanted.next(), got.next());
        if wanted != got {
            let show = |line: Option<&str>| line.unwrap_or("(the end)").to_string();
            let (wanted, got) = (show(wanted), show(got));
            return format!(
                "line {number} of the text differs (KILN_BLESS=1 accepts it)\n\
                 -  {wanted}\n+  {got}\nall of it:\n{text}"
            );
        }
    }
}

fn wrong_count(case: &Case, counts: &BTreeMap<String, String>) -> Option<String> {
    if case.checks.is_empty() {
        return Some("counts, but no `// check:` line asserts any".to_string());
    }
    let wrong = |(key, wanted): &(String, String)| {
        let got = counts.get(key).filter(|got| *got != wanted)?;
        Some(format!("{key} = {got}, expects {wanted}"))
    };
    let wrong: Vec<String> = case.checks.iter().filter_map(wrong).collect();
    (!wrong.is_empty()).then(|| wrong.join("\n"))
}
