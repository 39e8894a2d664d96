//! Forward mode.

use crate::derive::{NoRule, Rule};
use crate::inline::inline_calls;
use crate::op::{Broadcast, Constant};
use crate::{Graph, Literal, ParameterInfo, Scalar, Value};
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::dependent;

/// The graph together with its derivative along tangents of some parameters.
///
/// Parameters: those of `graph`, then one tangent for each that `active` marks. Outputs:
/// those of `graph`, then the tangent of each float output. Parameters that are not floats
/// have no tangent: `active` must not mark them.
///
/// # Errors
/// If an op on the way has no rule.
pub fn jvp(graph: &Graph, active: &[bool]) -> Result<Graph, NoRule> {
    let mut joint = inline_calls(graph, &mut |call| call.is_plain());
    let outputs = joint.outputs().to_vec();
    let sources: Vec<Value> =
        joint.parameters().zip(active).filter(|(_, active)| **active).map(|(p, _)| p).collect();
    let order = joint.order();
    let dependent = dependent(&joint, &order, &sources);
    let mut tangents: HashMap<Value, Value> = HashMap::new();
    for &source in &sources {
        let ty = joint.ty(source).clone();
        let info = ParameterInfo { name: derived_name(&joint, source), donated: false };
        tangents.insert(source, joint.add_parameter(ty, info));
    }
    for node in order {
        let results: SmallVec<[Value; 1]> = joint.results(node).collect();
        let is_parameter = joint.parameter_index(node).is_some();
        if is_parameter || !results.iter().any(|v| dependent.contains(v)) {
            continue;
        }
        let operands = joint.operands(node);
        let given: SmallVec<[Option<Value>; 3]> =
            operands.iter().map(|v| tangents.get(v).copied()).collect();
        if given.iter().all(Option::is_none) {
            continue;
        }
        let (op, source) = (joint.op(node).clone(), joint.source(node).cloned());
        let derived = op.jvp(&mut Rule::new(&mut joint, source, &operands, &results), &given);
        let derived = derived.map_err(|e| e.at(joint.source(node)))?;
        debug_assert_eq!(derived.len(), results.len(), "{}: a tangent for each result", op.name());
        for (result, tangent) in results.into_iter().zip(derived) {
            if let Some(tangent) = tangent {
                debug_assert_eq!(joint.ty(tangent), joint.ty(result), "tangent of {}", op.name());
                tangents.insert(result, tangent);
            }
        }
    }
    for output in outputs {
        if joint.ty(output).dtype.is_inexact() {
            let tangent =
                tangents.get(&output).copied().unwrap_or_else(|| zeros(&mut joint, output));
            joint.add_output(tangent, "");
        }
    }
    Ok(joint)
}

/// What the derivative by a parameter is called.
pub(super) fn derived_name(graph: &Graph, parameter: Value) -> String {
    let name = graph.parameter_index(parameter.node).map(|i| &graph.parameter_info(i).name);
    name.filter(|name| !name.is_empty()).map_or(String::new(), |name| format!("d_{name}"))
}

/// Zeros in the type of `like`.
pub(super) fn zeros(graph: &mut Graph, like: Value) -> Value {
    let ty = graph.ty(like).clone();
    let value = Literal::scalar(Scalar::zero(ty.dtype));
    let zero = graph.add1(Constant { value }, &[], None).expect("constants are well typed");
    let broadcast = Broadcast { shape: ty.shape, axes: vec![] };
    graph.add1(broadcast, &[zero], None).expect("a scalar broadcasts to any shape")
}
