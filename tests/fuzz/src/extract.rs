//! Parts of a program as programs of their own.

use hashbrown::{HashMap, HashSet};
use kiln_ir::{Graph, Literal, NodeId, Op, ParameterInfo, Value};

use crate::generate::Program;

/// The values of all nodes, by the interpreter.
///
/// # Errors
/// The interpreter's message.
pub fn evaluate(program: &Program) -> Result<HashMap<Value, Literal>, String> {
    let graph = &program.graph;
    let mut all = graph.clone();
    let values: Vec<Value> = graph.order().into_iter().flat_map(|n| graph.results(n)).collect();
    for &value in &values {
        all.add_output(value, "");
    }
    let results = kiln_ir::eval(&all, &program.arguments).map_err(|e| e.to_string())?;
    Ok(values.into_iter().zip(results.into_iter().skip(graph.outputs().len())).collect())
}

/// What `outputs` need of a program, as a program that returns them. A value of `cuts`
/// becomes a parameter, with the literal as its argument, and what only it needed is gone.
pub fn extract(
    program: &Program,
    outputs: &[(Value, bool)],
    cuts: &HashMap<Value, Literal>,
) -> Program {
    let graph = &program.graph;
    let Needed { computed, given } = needed(graph, outputs, cuts);
    let mut part = Graph::new(graph.name());
    let mut arguments = Vec::new();
    let mut places: HashMap<Value, Value> = HashMap::new();
    for (i, parameter) in graph.parameters().enumerate() {
        if computed.contains(&parameter.node) {
            let info = graph.parameter_info(i).clone();
            places.insert(parameter, part.add_parameter(graph.ty(parameter).clone(), info));
            arguments.push(program.arguments[i].clone());
        }
    }
    for node in graph.order() {
        if computed.contains(&node) && !matches!(graph.op(node), Op::Parameter(_)) {
            let operands: Vec<Value> = graph.operands(node).iter().map(|v| places[v]).collect();
            let source = graph.source(node).cloned();
            let copy = part.add(graph.op(node).clone(), &operands, source);
            let copy = copy.expect("the same op takes operands of the same types");
            places.extend(graph.results(node).zip(part.results(copy)));
        }
        for value in graph.results(node).filter(|value| given.contains(value)) {
            let ty = graph.ty(value).clone();
            places.insert(value, part.add_parameter(ty, ParameterInfo::default()));
            arguments.push(cuts[&value].clone());
        }
    }
    for (value, _) in outputs {
        part.add_output(places[value], "");
    }
    let exact = outputs.iter().map(|&(_, exact)| exact).collect();
    Program { graph: part, arguments, exact }
}

/// What outputs need.
#[derive(Default)]
struct Needed {
    /// Nodes that stay.
    computed: HashSet<NodeId>,
    /// Cut values that become parameters.
    given: HashSet<Value>,
}

/// What is behind `outputs`, not looking behind a cut.
fn needed(graph: &Graph, outputs: &[(Value, bool)], cuts: &HashMap<Value, Literal>) -> Needed {
    let mut needed = Needed::default();
    let mut open: Vec<Value> = outputs.iter().map(|&(value, _)| value).collect();
    while let Some(value) = open.pop() {
        if cuts.contains_key(&value) {
            needed.given.insert(value);
        } else if needed.computed.insert(value.node) {
            open.extend(graph.operands(value.node));
        }
    }
    needed
}
