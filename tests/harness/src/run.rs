//! `// run:` lines: arguments, and the outputs they must give.

use kiln_ir::text::parse_literal;
use kiln_ir::{Literal, Scalar};

/// `@main(f32[2] [1.0, 2.0], i32[] 3) -> f32[2] [1.0, 8.0] ~2, i32[] 3`
#[derive(Clone, Debug)]
pub struct Run {
    /// The line of the file.
    pub line: usize,
    /// The graph's name, without `@`.
    pub graph: String,
    /// What it is applied to.
    pub arguments: Vec<Literal>,
    /// What must come out.
    pub expected: Vec<Expected>,
}

/// One expected output.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Its value.
    pub value: Literal,
    /// How many floats away each element may be.
    pub ulps: u64,
}

impl Run {
    pub(crate) fn parse(line: usize, text: &str) -> Result<Run, String> {
        let at = |message: String| format!("line {line}: {message}");
        let form = || at("wants `// run: @graph(arguments) -> outputs`".to_string());
        let rest = text.strip_prefix('@').ok_or_else(form)?;
        let (graph, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or_else(form)?,
            None => rest.split_at(rest.find('(').ok_or_else(form)?),
        };
        let rest = rest.strip_prefix('(').ok_or_else(form)?;
        let end = closing(rest).ok_or_else(form)?;
        let (arguments, rest) = (&rest[..end], &rest[end + 1..]);
        let outputs = rest.trim().strip_prefix("->").ok_or_else(form)?.trim();
        let literal = |text: &str| parse_literal(text).map_err(|e| at(e.to_string()));
        let arguments = items(arguments).into_iter().map(literal).collect::<Result<_, _>>()?;
        let expected = |item: &str| -> Result<Expected, String> {
            let (value, ulps) = match item.split_once('~') {
                Some((value, ulps)) => {
                    (value, ulps.trim().parse().map_err(|_| at(format!("`~{ulps}`: not a count")))?)
                }
                None => (item, 0),
            };
            Ok(Expected { value: literal(value)?, ulps })
        };
        let outputs = if outputs == "()" { "" } else { outputs };
        let expected = items(outputs).into_iter().map(expected).collect::<Result<_, _>>()?;
        Ok(Run { line, graph: graph.to_string(), arguments, expected })
    }

    /// Whether these outputs are the expected ones; else the first that is not.
    ///
    /// # Errors
    /// If an output is not the expected one.
    pub fn judge(&self, outputs: &[Literal]) -> Result<(), String> {
        let (wanted, got) = (self.expected.len(), outputs.len());
        if wanted != got {
            return Err(format!("expects {wanted} outputs, got {got}"));
        }
        for (i, (expected, output)) in self.expected.iter().zip(outputs).enumerate() {
            let (wanted, got) = (expected.value.ty(), output.ty());
            if wanted != got {
                return Err(format!("output {i}: expects type {wanted}, got {got}"));
            }
            let pairs = expected.value.iter().zip(output.iter()).enumerate();
            let far = |(wanted, got)| !is_near(wanted, got, expected.ulps);
            let far: Vec<usize> = pairs.filter(|&(_, pair)| far(pair)).map(|(i, _)| i).collect();
            if let Some(&first) = far.first() {
                let (wanted, got) = (expected.value.get(first), output.get(first));
                let (count, all) = (far.len(), output.ty().elements());
                return Err(format!(
                    "output {i}: element {first} is {got}, expects {wanted} \
                     ({count} of {all} elements differ)"
                ));
            }
        }
        Ok(())
    }
}

/// Where the parenthesis closes that was open before the text: complex elements, such as
/// `(1.0, -2.0)`, have their own.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    text.char_indices().find_map(|(i, c)| {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(i),
            ')' => depth -= 1,
            _ => {}
        }
        None
    })
}

/// The parts between the commas that stand in no brackets or parentheses.
fn items(text: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let mut parts: Vec<&str> = text
        .split(|c| {
            match c {
                '[' | '(' => depth += 1,
                ']' | ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        })
        .map(str::trim)
        .collect();
    if parts == [""] {
        parts.clear();
    }
    parts
}

/// Whether `got` is `wanted` or, of a float, at most `ulps` floats away; so each part of a
/// complex number. Every NaN is every other; with no distance allowed, zeros of different
/// sign differ.
fn is_near(wanted: Scalar, got: Scalar, ulps: u64) -> bool {
    if wanted == got {
        return true;
    }
    if wanted.dtype().is_complex() {
        return is_near(wanted.real(), got.real(), ulps)
            && is_near(wanted.imag(), got.imag(), ulps);
    }
    if !wanted.dtype().is_float() {
        return false;
    }
    let (x, y) = (wanted.as_f64(), got.as_f64());
    if x.is_nan() || y.is_nan() {
        return x.is_nan() && y.is_nan();
    }
    let finite = x.is_finite() && y.is_finite();
    finite && ulps > 0 && rank(wanted).abs_diff(rank(got)) <= ulps as u128
}

/// The place of a float among the floats of its type in order of value; 0 for zeros.
fn rank(x: Scalar) -> i128 {
    let sign = 1u64 << (x.dtype().bits() - 1);
    let magnitude = (x.bits() & !sign) as i128;
    if x.bits() & sign == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(line: &str, outputs: &[&str]) -> Result<(), String> {
        let outputs: Vec<Literal> = outputs.iter().map(|t| parse_literal(t).unwrap()).collect();
        Run::parse(1, line)?.judge(&outputs)
    }

    #[test]
    fn arguments_and_outputs_are_literals() {
        let run =
            Run::parse(7, "@f(f32[2] [1.0, nan], i32[] 3) -> f32[1,2] [1.0, inf] ~2, bool[] true");
        let run = run.unwrap();
        assert_eq!((run.graph.as_str(), run.arguments.len(), run.expected.len()), ("f", 2, 2));
        assert_eq!(run.arguments[1], parse_literal("i32[] 3").unwrap());
        assert_eq!((run.expected[0].ulps, run.expected[1].ulps), (2, 0));
        let empty = Run::parse(1, "@\"f (2)\"() -> ()").unwrap();
        assert_eq!(empty.graph, "f (2)");
        assert!(empty.arguments.is_empty() && empty.expected.is_empty());
        let complex =
            Run::parse(1, "@f(c64[2] [(1.0, 2.0), (nan, -0.0)], c128[] (0.5, inf)) -> ()");
        assert_eq!(complex.unwrap().arguments[1], parse_literal("c128[] (0.5, inf)").unwrap());
    }

    #[test]
    fn malformed_lines_are_refused() {
        for line in
            ["f()", "@\"f()", "@f() f32[] 1.0", "@f(f32[] x) -> ()", "@f() -> f32[] 1.0 ~much"]
        {
            let message = Run::parse(5, line).unwrap_err();
            assert!(message.starts_with("line 5: "), "{message}");
        }
    }

    #[test]
    fn nan_is_nan_and_zeros_differ() {
        judge("@f() -> f32[] nan", &["f32[] 0x7fc00001"]).unwrap();
        judge("@f() -> f32[] nan", &["f32[] 1.0"]).unwrap_err();
        judge("@f() -> f32[] 0.0", &["f32[] -0.0"]).unwrap_err();
        judge("@f() -> f32[] 0.0 ~1", &["f32[] -0.0"]).unwrap();
    }

    #[test]
    fn distances_count_floats() {
        let near = "@f() -> f32[] 1.0 ~1";
        judge(near, &["f32[] 1.0000001"]).unwrap();
        judge(near, &["f32[] 0.99999994"]).unwrap();
        judge(near, &["f32[] 1.0000002"]).unwrap_err();
        judge("@f() -> f32[] 1e-45 ~2", &["f32[] -1e-45"]).unwrap();
        judge("@f() -> f64[] 1.7976931348623157e308 ~1", &["f64[] inf"]).unwrap_err();
        judge("@f() -> bf16[] 1.0 ~1", &["bf16[] 1.0078125"]).unwrap();
        judge("@f() -> i32[] 1 ~1", &["i32[] 2"]).unwrap_err();
    }

    #[test]
    fn messages_name_output_and_element() {
        let message = judge("@f() -> i32[] 1, i32[3] [1, 2, 3]", &["i32[] 1", "i32[3] [1, 5, 4]"]);
        assert_eq!(
            message.unwrap_err(),
            "output 1: element 1 is 5, expects 2 (2 of 3 elements differ)"
        );
        let message = judge("@f() -> i32[] 1", &["f32[] 1.0"]).unwrap_err();
        assert_eq!(message, "output 0: expects type i32[], got f32[]");
        assert_eq!(judge("@f() -> ()", &["i32[] 1"]).unwrap_err(), "expects 0 outputs, got 1");
    }
}
