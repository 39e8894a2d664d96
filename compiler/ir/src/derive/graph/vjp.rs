//! Reverse mode.

use crate::derive::{NoRule, Rule};
use crate::inline::inline_calls;
use crate::op::Binary;
use crate::{Graph, Op, ParameterInfo, Value};
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::dependent;
use super::jvp::{derived_name, zeros};

/// The graph together with what a cotangent of its outputs is for some parameters.
///
/// Parameters: those of `graph`, then a cotangent for each output that `seeded` marks.
/// Outputs: those of `graph`, then a cotangent for each parameter that `active` marks. What
/// is marked must be floats. A value that is read in several places gets the sum of what
/// comes back, the last reader first.
///
/// # Errors
/// If an op on the way has no rule.
pub fn vjp(graph: &Graph, active: &[bool], seeded: &[bool]) -> Result<Graph, NoRule> {
    let mut joint = inline_calls(graph, &mut |call| call.is_plain());
    call_forward_parts(&mut joint)?;
    let outputs = joint.outputs().to_vec();
    let sources: Vec<Value> =
        joint.parameters().zip(active).filter(|(_, active)| **active).map(|(p, _)| p).collect();
    let order = joint.order();
    let dependent = dependent(&joint, &order, &sources);
    let mut back = Cotangents { sums: HashMap::new() };
    for (i, &output) in outputs.iter().enumerate() {
        let ty = joint.ty(output).clone();
        if seeded[i] {
            let name = match joint.output_name(i) {
                "" => String::new(),
                name => format!("ct_{name}"),
            };
            let cotangent = joint.add_parameter(ty, ParameterInfo { name, donated: false });
            if dependent.contains(&output) {
                back.add(&mut joint, output, cotangent);
            }
        }
    }
    for node in order.into_iter().rev() {
        let results: SmallVec<[Value; 1]> = joint.results(node).collect();
        let given: SmallVec<[Option<Value>; 3]> = results.iter().map(|v| back.get(*v)).collect();
        if joint.parameter_index(node).is_some() || given.iter().all(Option::is_none) {
            continue;
        }
        let operands = joint.operands(node);
        let (op, source) = (joint.op(node).clone(), joint.source(node).cloned());
        let derived = op.vjp(&mut Rule::new(&mut joint, source, &operands, &results), &given);
        let derived = derived.map_err(|e| e.at(joint.source(node)))?;
        debug_assert_eq!(derived.len(), operands.len(), "{}: one for each operand", op.name());
        for (operand, cotangent) in operands.into_iter().zip(derived) {
            if let Some(cotangent) = cotangent.filter(|_| dependent.contains(&operand)) {
                debug_assert_eq!(joint.ty(cotangent), joint.ty(operand), "of {}", op.name());
                back.add(&mut joint, operand, cotangent);
            }
        }
    }
    for source in sources {
        let name = derived_name(&joint, source);
        let cotangent = back.get(source).unwrap_or_else(|| zeros(&mut joint, source));
        joint.add_output(cotangent, name);
    }
    Ok(joint)
}

/// Replaces calls that reverse mode makes otherwise: by calls whose residuals are at hand.
fn call_forward_parts(graph: &mut Graph) -> Result<(), NoRule> {
    for node in graph.order() {
        let Op::Call(call) = graph.op(node) else { continue };
        let forward = call.forward().map_err(|e| e.at(graph.source(node)))?;
        let Some(forward) = forward else { continue };
        let (operands, source) = (graph.operands(node), graph.source(node).cloned());
        let instead = graph.add(forward, &operands, source).expect("of the same operands");
        let results: Vec<Value> = graph.results(node).collect();
        let new: Vec<Value> = graph.results(instead).take(results.len()).collect();
        for (old, new) in results.into_iter().zip(new) {
            graph.replace_uses(old, new);
        }
    }
    Ok(())
}

/// What has come back to each value so far.
struct Cotangents {
    sums: HashMap<Value, Value>,
}

impl Cotangents {
    fn get(&self, value: Value) -> Option<Value> {
        self.sums.get(&value).copied()
    }

    fn add(&mut self, graph: &mut Graph, value: Value, part: Value) {
        let sum = match self.get(value) {
            None => part,
            Some(before) => {
                let source = graph.source(part.node).cloned();
                graph.add1(Binary::Add, &[before, part], source).expect("of one type")
            }
        };
        self.sums.insert(value, sum);
    }
}
