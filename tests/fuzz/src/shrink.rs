//! Makes a failing program small.
//!
//! Steps that may each make the program smaller are tried in turn; one is kept if the
//! smaller program still fails in the same way; all of it is repeated until nothing helps.
//!
//! 1. One output alone.
//! 2. Calls inlined, nothing donated.
//! 3. Returning an operand instead of the result: cuts from the end.
//! 4. Giving a value as an argument instead of computing it: cuts from the start.
//! 5. Reading an operand of the same type instead of the result: cuts from within.
//! 6. Shorter axes: an extent is replaced wherever its number stands in the text.
//! 7. Plainer arguments: zeros, ones, small integers.
//!
//! At last arguments of equal elements become constants, which are easier to read. (That
//! adds nodes, so step 4 would undo it.)

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use kiln_ir::op::{Attr, Broadcast, Constant};
use kiln_ir::{Graph, Literal, Scalar, Type, Value};

use crate::extract::{evaluate, extract};
use crate::generate::Program;

/// The smallest program found, within the time, for which `fails` still holds.
pub fn shrink(program: Program, time: Duration, fails: impl Fn(&Program) -> bool) -> Program {
    let mut shrinker = Shrinker { best: program, end: Instant::now() + time, fails: &fails };
    while shrinker.round() {}
    while shrinker.constants() {}
    shrinker.best
}

struct Shrinker<'f> {
    best: Program,
    end: Instant,
    fails: &'f dyn Fn(&Program) -> bool,
}

impl Shrinker<'_> {
    /// Tries everything once. Whether anything helped.
    fn round(&mut self) -> bool {
        let steps: [fn(&mut Self) -> bool; 7] = [
            Self::outputs,
            Self::inline_and_keep,
            Self::ends,
            Self::starts,
            Self::bypasses,
            Self::extents,
            Self::arguments,
        ];
        let mut helped = false;
        for step in steps {
            while step(self) {
                helped = true;
            }
        }
        helped && Instant::now() < self.end
    }

    /// Takes a candidate that still fails.
    fn accept(&mut self, candidate: Option<Program>) -> bool {
        let Some(candidate) = candidate.filter(|_| Instant::now() < self.end) else {
            return false;
        };
        let fails = kiln_ir::verify(&candidate.graph).is_ok() && (self.fails)(&candidate);
        if fails {
            self.best = candidate;
        }
        fails
    }

    /// The outputs, each with whether it is exact.
    fn returned(&self) -> Vec<(Value, bool)> {
        let outputs = self.best.graph.outputs().iter().copied();
        outputs.zip(self.best.exact.iter().copied()).collect()
    }

    fn outputs(&mut self) -> bool {
        let returned = self.returned();
        // Extraction also drops what no output needs.
        let all = extract(&self.best, &returned, &HashMap::new());
        (all.graph.len() < self.best.graph.len() && self.accept(Some(all)))
            || (returned.len() > 1
                && returned.iter().any(|&output| {
                    let alone = extract(&self.best, &[output], &HashMap::new());
                    self.accept(Some(alone))
                }))
    }

    fn ends(&mut self) -> bool {
        let returned = self.returned();
        (0..returned.len()).any(|o| {
            let (value, exact) = returned[o];
            self.best.graph.operands(value.node).into_iter().any(|operand| {
                let mut outputs = returned.clone();
                outputs[o] = (operand, exact);
                self.accept(Some(extract(&self.best, &outputs, &HashMap::new())))
            })
        })
    }

    fn starts(&mut self) -> bool {
        let Ok(values) = evaluate(&self.best) else { return false };
        let graph = self.best.graph.clone();
        let order: Vec<_> = graph.order();
        let computed = |node| graph.parameter_index(node).is_none();
        let returned = self.returned();
        // Many at first, then fewer, at last one alone wherever it stands.
        let mut many = order.len();
        while many > 1 {
            many /= 2;
            let first = order[..many].iter().copied().filter(|&n| computed(n));
            let cuts: HashMap<Value, Literal> =
                first.flat_map(|n| graph.results(n)).map(|v| (v, values[&v].clone())).collect();
            let candidate = extract(&self.best, &returned, &cuts);
            if candidate.graph.len() < graph.len() && self.accept(Some(candidate)) {
                return true;
            }
        }
        order.iter().rev().copied().filter(|&n| computed(n)).any(|node| {
            let cuts: HashMap<Value, Literal> =
                graph.results(node).map(|v| (v, values[&v].clone())).collect();
            let candidate = extract(&self.best, &returned, &cuts);
            // A constant that becomes a parameter is no gain.
            (candidate.graph.len() < graph.len()) && self.accept(Some(candidate))
        })
    }

    fn bypasses(&mut self) -> bool {
        let graph = self.best.graph.clone();
        let order = graph.order();
        for &node in order.iter().rev() {
            if graph.parameter_index(node).is_some() {
                continue;
            }
            for value in graph.results(node) {
                let ty = graph.ty(value);
                let operands = graph.operands(node).into_iter();
                let others = operands.filter(|&o| graph.ty(o) == ty).collect::<Vec<Value>>();
                for other in others {
                    let mut candidate = self.best.clone();
                    candidate.graph.replace_uses(value, other);
                    let returned: Vec<(Value, bool)> = candidate
                        .graph
                        .outputs()
                        .iter()
                        .copied()
                        .zip(candidate.exact.iter().copied())
                        .collect();
                    let candidate = extract(&candidate, &returned, &HashMap::new());
                    if candidate.graph.len() < graph.len() && self.accept(Some(candidate)) {
                        return true;
                    }
                }
            }
        }
        false
    }

    fn inline_and_keep(&mut self) -> bool {
        let mut helped = false;
        let calls = |g: &Graph| g.nodes().any(|n| g.op(n).name() == "call");
        if calls(&self.best.graph) {
            let mut options = kiln_opt::Options::none();
            options.only = Some("inline".into());
            if let Ok(optimized) = kiln_opt::optimize(self.best.graph.clone(), &options)
                && !calls(&optimized.graph)
            {
                helped |=
                    self.accept(Some(Program { graph: optimized.graph, ..self.best.clone() }));
            }
        }
        for i in 0..self.best.arguments.len() {
            if self.best.graph.parameter_info(i).donated {
                let mut candidate = self.best.clone();
                candidate.graph.parameter_info_mut(i).donated = false;
                helped |= self.accept(Some(candidate));
            }
        }
        helped
    }

    fn extents(&mut self) -> bool {
        let graph = &self.best.graph;
        let mut extents: Vec<usize> = graph
            .nodes()
            .flat_map(|n| graph.types(n).to_vec())
            .flat_map(|ty| ty.shape.to_vec())
            .filter(|&d| d > 1)
            .collect();
        extents.sort_unstable();
        extents.dedup();
        extents.into_iter().rev().any(|extent| {
            let mut shorter = vec![1, 2, 3, extent / 2, extent - extent / 4, extent - 1];
            shorter.retain(|&s| s < extent && s > 0);
            shorter.dedup();
            shorter.into_iter().any(|s| {
                let candidate = with_extent(&self.best, extent, s);
                self.accept(candidate)
            })
        })
    }

    fn arguments(&mut self) -> bool {
        let mut helped = false;
        for i in 0..self.best.arguments.len() {
            let ty = self.best.arguments[i].ty().clone();
            let plain: [&dyn Fn(usize) -> Scalar; 3] =
                [&|_| Scalar::zero(ty.dtype), &|_| Scalar::one(ty.dtype), &|i| {
                    Scalar::from_i128(ty.dtype, (i % 7) as i128)
                }];
            for element in plain {
                let literal = Literal::from_fn(ty.clone(), element);
                if self.best.arguments[i] == literal {
                    break;
                }
                let mut candidate = self.best.clone();
                candidate.arguments[i] = literal;
                if self.accept(Some(candidate)) {
                    helped = true;
                    break;
                }
            }
        }
        helped
    }

    fn constants(&mut self) -> bool {
        (0..self.best.arguments.len()).any(|i| {
            let argument = &self.best.arguments[i];
            let alike = argument.iter().zip(argument.iter().skip(1)).all(|(a, b)| a == b);
            let candidate = (alike && argument.ty().elements() > 0)
                .then(|| as_constant(&self.best, i))
                .flatten();
            self.accept(candidate)
        })
    }
}

/// The program with parameter `i` replaced by its argument's first element.
fn as_constant(program: &Program, i: usize) -> Option<Program> {
    let mut candidate = program.clone();
    let parameter = candidate.graph.parameters().nth(i)?;
    let ty = candidate.graph.ty(parameter).clone();
    let value = Literal::scalar(program.arguments[i].get(0));
    let constant = candidate.graph.add1(Constant { value }, &[], None).ok()?;
    let broadcast = Broadcast { shape: ty.shape, axes: vec![] };
    let constant = candidate.graph.add1(broadcast, &[constant], None).ok()?;
    candidate.graph.replace_uses(parameter, constant);
    let outputs = candidate.graph.outputs().iter().copied();
    let outputs: Vec<(Value, bool)> = outputs.zip(candidate.exact.iter().copied()).collect();
    Some(extract(&candidate, &outputs, &HashMap::new()))
}

/// The program with one extent exchanged for a shorter one wherever the number stands.
/// Arguments keep the elements that still have a place.
fn with_extent(program: &Program, from: usize, to: usize) -> Option<Program> {
    let text = replace_number(&program.graph.to_string(), from, to);
    let graph = Graph::parse(&text).ok()?;
    let types: Vec<Type> = graph.parameters().map(|p| graph.ty(p).clone()).collect();
    if types.len() != program.arguments.len() || graph.outputs().len() != program.exact.len() {
        return None;
    }
    let arguments = program.arguments.iter().zip(types).map(|(old, ty)| crop(old, ty)).collect();
    Some(Program { graph, arguments, exact: program.exact.clone() })
}

/// `text` with every whole number `from` replaced.
fn replace_number(text: &str, from: usize, to: usize) -> String {
    let from = from.to_string();
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_alphanumeric() || "_%@.".contains(c)) {
        let (before, word) = rest.split_at(at);
        let end = word
            .find(|c: char| !(c.is_ascii_alphanumeric() || "_%@.".contains(c)))
            .unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        result.push_str(before);
        if word == from {
            result.push_str(&to.to_string());
        } else {
            result.push_str(word);
        }
        rest = after;
    }
    result.push_str(rest);
    result
}

/// The corner of a literal that fits `ty`, which has the same rank.
fn crop(old: &Literal, ty: Type) -> Literal {
    let (from, to) = (old.ty().shape.to_vec(), ty.shape.to_vec());
    if from == to {
        return old.clone();
    }
    Literal::from_fn(ty.clone(), |i| {
        let (mut left, mut scale, mut at) = (i, 1, 0);
        for (&f, &t) in from.iter().zip(&to).rev() {
            at += (left % t.max(1)).min(f.saturating_sub(1)) * scale;
            left /= t.max(1);
            scale *= f;
        }
        old.get(at.min(old.ty().elements().saturating_sub(1)))
    })
}

/// A program as the text of a file test that compares with the interpreter.
///
/// # Errors
/// The interpreter's message.
pub fn to_file(program: &Program, note: &str) -> Result<String, String> {
    let list = |literals: &[Literal]| {
        let one = |l: &Literal| format!("{} {}", l.ty(), Attr::Literal(l.clone()));
        literals.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let outputs = kiln_ir::eval(&program.graph, &program.arguments).map_err(|e| e.to_string())?;
    let note: String = note.lines().map(|line| format!("// {line}\n")).collect();
    Ok(format!(
        "// test: eval, run\n{note}// run: @{}({}) -> {}\n\n{}",
        program.graph.name(),
        list(&program.arguments),
        if outputs.is_empty() { "()".to_string() } else { list(&outputs) },
        program.graph
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::generate;

    /// Shrinks the first random program that needs the op, as if the op were faulty.
    fn smallest_with(op: &str) -> Program {
        let has = |p: &Program| {
            let outputs = p.graph.outputs().iter().map(|&v| (v, true)).collect::<Vec<_>>();
            let needed = extract(p, &outputs, &HashMap::new()).graph;
            needed.nodes().any(|n| needed.op(n).name() == op)
        };
        let large = |p: &Program| p.graph.len() > 12 && has(p);
        let program = (0..).map(generate).find(|p| large(p)).expect("seeds do not end");
        shrink(program, Duration::from_secs(30), has)
    }

    #[test]
    fn what_does_not_matter_goes() {
        for op in ["dot_general", "reduce_sum", "pad", "dynamic_update_slice", "select"] {
            let small = smallest_with(op);
            let computed = small.graph.len() - small.graph.parameters().len();
            // The op, and a constant and a broadcast for each operand.
            assert!(computed <= 7, "{op}:\n{}", small.graph);
            assert_eq!(small.exact.len(), 1, "{op}:\n{}", small.graph);
            let elements: usize = small.arguments.iter().map(|a| a.ty().elements()).sum();
            assert!(elements <= 40, "{op}:\n{}", small.graph);
        }
    }

    #[test]
    fn a_shrunk_program_is_a_file_test() {
        let text = to_file(&smallest_with("pad"), "found by chance").unwrap();
        let case = kiln_filetest::Case::new(std::path::Path::new("small.kiln"), &text).unwrap();
        let ran = case.run_with(|graph, arguments| {
            kiln_ir::eval(graph, arguments).map_err(|e| e.to_string())
        });
        ran.unwrap();
    }

    #[test]
    fn numbers_are_replaced_whole() {
        let text = "%17 = pad %1 {low = [17, -17]} : f32[17,170] 17.0";
        let want = "%17 = pad %1 {low = [4, -4]} : f32[4,170] 17.0";
        assert_eq!(replace_number(text, 17, 4), want);
    }

    #[test]
    fn cropped_arguments_keep_the_corner() {
        let old = Literal::from_fn(Type::new(kiln_ir::DType::I32, [2, 3]), |i| {
            Scalar::from_i128(kiln_ir::DType::I32, i as i128)
        });
        let new = crop(&old, Type::new(kiln_ir::DType::I32, [2, 2]));
        let elements: Vec<i128> = new.iter().map(|s| s.as_i128().unwrap()).collect();
        assert_eq!(elements, [0, 1, 3, 4]);
    }
}
