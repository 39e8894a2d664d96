//! Forward now, back later.

use crate::{Graph, NodeId, Op, ParameterInfo, Value};
use hashbrown::{HashMap, HashSet};

/// A graph in two parts, of which the second is given what the first computes for it.
#[derive(Clone, Debug)]
pub struct Split {
    /// The first parameters to the first outputs, then the residuals.
    pub forward: Graph,
    /// The residuals, then the other parameters, to the other outputs.
    pub backward: Graph,
    /// How many residuals there are.
    pub residuals: usize,
}

/// Splits a graph by its first `parameters`: `forward` computes the first `outputs`, which
/// must depend on nothing else, and the residuals; `backward` computes the other outputs from
/// those.
///
/// A value that is needed later and depends on nothing but the first parameters is a residual
/// if its op is one that `keep` keeps, or it is a parameter; else both parts compute it. So do
/// they with constants, and what is only a constant repeated: nothing is read for them.
///
/// # Panics
/// If one of the first outputs depends on another parameter: a bug of the caller.
pub fn split(
    graph: &Graph,
    parameters: usize,
    outputs: usize,
    keep: &dyn Fn(&Op) -> bool,
) -> Split {
    let order = graph.order();
    let mut late: HashSet<NodeId> =
        graph.parameters().skip(parameters).map(|value| value.node).collect();
    let mut fixed: HashSet<NodeId> = HashSet::new();
    for &node in &order {
        let operands = graph.operands(node);
        if operands.iter().any(|v| late.contains(&v.node)) {
            late.insert(node);
        } else if matches!(graph.op(node), Op::Constant(_) | Op::Broadcast(_) | Op::Iota(_))
            && operands.iter().all(|v| fixed.contains(&v.node))
        {
            fixed.insert(node);
        }
    }
    let (first, later) = graph.outputs().split_at(outputs);
    assert!(first.iter().all(|v| !late.contains(&v.node)), "forward outputs come first");

    // What the later part needs of the earlier, from the end: kept, or computed again from
    // what it needs itself.
    let kept = |node: NodeId| {
        graph.parameter_index(node).is_some() || (!fixed.contains(&node) && keep(graph.op(node)))
    };
    let mut again: HashSet<NodeId> = HashSet::new();
    let mut residuals: Vec<Value> = Vec::new();
    let mut seen = HashSet::new();
    let mut needed: Vec<Value> = later.to_vec();
    needed.extend(order.iter().filter(|n| late.contains(*n)).flat_map(|&n| graph.operands(n)));
    while let Some(value) = needed.pop() {
        if late.contains(&value.node) || !seen.insert(value) {
            continue;
        }
        if kept(value.node) {
            residuals.push(value);
        } else if again.insert(value.node) {
            needed.extend(graph.operands(value.node));
        }
    }
    let place: HashMap<NodeId, usize> = order.iter().copied().zip(0..).collect();
    residuals.sort_unstable_by_key(|value| (place[&value.node], value.result));

    let mut forward = Part::new(graph);
    for (i, parameter) in graph.parameters().enumerate().take(parameters) {
        forward.parameter(parameter, graph.parameter_info(i).clone());
    }
    let mut backward = Part::new(graph);
    for &residual in &residuals {
        backward.parameter(residual, ParameterInfo::default());
    }
    for (i, parameter) in graph.parameters().enumerate().skip(parameters) {
        backward.parameter(parameter, graph.parameter_info(i).clone());
    }
    for &node in &order {
        if graph.parameter_index(node).is_some() {
            continue;
        }
        if late.contains(&node) || again.contains(&node) {
            backward.copy(node);
        }
        if !late.contains(&node) {
            forward.copy(node);
        }
    }
    for (i, &output) in first.iter().enumerate() {
        forward.output(output, graph.output_name(i));
    }
    for &residual in &residuals {
        forward.output(residual, "");
    }
    for (i, &output) in later.iter().enumerate() {
        backward.output(output, graph.output_name(outputs + i));
    }
    Split { forward: forward.graph, backward: backward.graph, residuals: residuals.len() }
}

/// A part of a graph being copied.
struct Part<'g> {
    from: &'g Graph,
    graph: Graph,
    places: HashMap<Value, Value>,
}

impl<'g> Part<'g> {
    fn new(from: &'g Graph) -> Part<'g> {
        Part { from, graph: Graph::new(from.name()), places: HashMap::new() }
    }

    fn parameter(&mut self, value: Value, info: ParameterInfo) {
        let place = self.graph.add_parameter(self.from.ty(value).clone(), info);
        self.places.insert(value, place);
    }

    fn copy(&mut self, node: NodeId) {
        let operands: Vec<Value> =
            self.from.operands(node).iter().map(|v| self.places[v]).collect();
        let source = self.from.source(node).cloned();
        let copy = self.graph.add(self.from.op(node).clone(), &operands, source);
        let copy = copy.expect("the same op takes operands of the same types");
        // A residual that is given is not overwritten by what would compute it.
        for (value, place) in self.from.results(node).zip(self.graph.results(copy)) {
            self.places.entry(value).or_insert(place);
        }
    }

    fn output(&mut self, value: Value, name: &str) {
        self.graph.add_output(self.places[&value], name);
    }
}
