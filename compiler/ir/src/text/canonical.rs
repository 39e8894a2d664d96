//! A text that depends on what a graph computes with, not on how it came to be.

use std::fmt::Write;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::name::Sigil;
use super::print::{Body, Callees, Printer, callees};
use crate::{Graph, NodeId, Op};

impl Graph {
    /// Text for comparing and caching: equal for graphs that differ only in names,
    /// sources, the order of edits, and nodes that no output needs.
    ///
    /// Nodes stand in the order in which a walk from the outputs through the operands
    /// leaves them. Parameters, even unused ones, and their donation are part of the text.
    /// Callees with equal texts are one.
    pub fn canonical_text(&self) -> String {
        let mut out = String::new();
        let (mut names, mut printed) = (Callees::new(), HashMap::new());
        for callee in callees(self, from_outputs) {
            let mut body = String::new();
            canonical(&callee).write(&mut body, &names);
            let fresh = printed.len().to_string();
            let name = printed.entry(body).or_insert_with_key(|body| {
                let _ = writeln!(out, "graph {}{body}", Sigil('@', &fresh));
                fresh
            });
            names.insert(Arc::as_ptr(&callee), name.clone());
        }
        out.push_str("graph @main");
        canonical(self).write(&mut out, &names);
        out
    }

    /// Whether both compute the same in the same way: their canonical texts are equal.
    pub fn same_as(&self, other: &Graph) -> bool {
        self.canonical_text() == other.canonical_text()
    }
}

fn canonical(graph: &Graph) -> Body<'_> {
    let mut nodes = from_outputs(graph);
    nodes.retain(|&node| !matches!(graph.op(node), Op::Parameter(_)));
    let results = nodes.iter().flat_map(|&node| graph.results(node));
    let values = graph.parameters().enumerate().map(|(i, value)| (value, format!("p{i}")));
    let values = values.chain(results.enumerate().map(|(i, v)| (v, i.to_string()))).collect();
    Body { graph, nodes, values, output_names: false, printer: Printer::default() }
}

/// The nodes that outputs need, each after its operands.
fn from_outputs(graph: &Graph) -> Vec<NodeId> {
    let (mut order, mut seen) = (Vec::new(), HashSet::new());
    // A stack of our own: chains of nodes may be longer than the machine's allows.
    let mut open = Vec::new();
    for output in graph.outputs() {
        let mut next = Some(output.node);
        loop {
            if let Some(node) = next.filter(|&node| seen.insert(node)) {
                open.push((node, graph.operands(node).into_iter()));
            }
            let Some((node, operands)) = open.last_mut() else { break };
            next = operands.next().map(|value| value.node);
            if next.is_none() {
                order.push(*node);
                open.pop();
            }
        }
    }
    order
}
