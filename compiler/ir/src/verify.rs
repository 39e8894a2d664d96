//! The verifier: what holds of every graph that the rest of the compiler may see.
//!
//! - No node depends on itself.
//! - Every operand exists, and so does every output.
//! - Each op accepts its operands, and the types of its results are those that it infers
//!   from them.
//! - Each parameter node is a parameter of the graph.
//! - All of this holds of the graphs that are called, each of which is looked at once.
//!
//! Nothing is repaired. What is found is a bug of ours: of a pass, or of whoever built the
//! graph. The first finding in order is reported, so that the same graph always gives the
//! same error.

use std::fmt;

use crate::text::{all_nodes, callees, print_node};
use crate::{Graph, NodeId, Op, Source, Type, Value};

/// A graph that breaks a rule. The message names the op and the types.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    graph: String,
    message: String,
    place: Option<Box<Place>>,
}

/// The node that breaks the rule.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Place {
    node: NodeId,
    /// As the graph's text has it.
    line: String,
    source: Option<Source>,
}

impl VerifyError {
    /// The graph's name, without `@`.
    pub fn graph(&self) -> &str {
        &self.graph
    }

    /// The node that breaks the rule; `None` when an output does.
    pub fn node(&self) -> Option<NodeId> {
        self.place.as_ref().map(|place| place.node)
    }

    /// Where the node comes from, if known.
    pub fn source(&self) -> Option<&Source> {
        self.place.as_ref()?.source.as_ref()
    }

    /// The message without the graph, the node's text and its source.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl std::error::Error for VerifyError {}

impl fmt::Display for VerifyError {
    /// `@main: exp: wants a float, got i32[4]`, then the node and its source.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}: {}", self.graph, self.message)?;
        if let Some(place) = &self.place {
            write!(f, "\n  {}", place.line)?;
        }
        if let Some(source) = self.source() {
            write!(f, "\n  --> {source}")?;
        }
        Ok(())
    }
}

/// Checks `graph` and every graph that it calls.
///
/// # Errors
/// The first rule broken, callees first.
pub fn verify(graph: &Graph) -> Result<(), VerifyError> {
    callees(graph, all_nodes).iter().try_for_each(|callee| verify_one(callee))?;
    verify_one(graph)
}

fn verify_one(graph: &Graph) -> Result<(), VerifyError> {
    let nodes = all_nodes(graph);
    let ordered = graph.order().len();
    for &node in &nodes[..ordered] {
        check_node(graph, node).map_err(|message| error(graph, Some(node), message))?;
    }
    if ordered < nodes.len() {
        let node = on_cycle(graph, &nodes[ordered..]);
        let message = format!("{}: depends on itself", graph.op(node));
        return Err(error(graph, Some(node), message));
    }
    match graph.outputs().iter().position(|&v| !exists(graph, v)) {
        Some(i) => Err(error(graph, None, format!("output {i} does not exist"))),
        None => Ok(()),
    }
}

fn check_node(graph: &Graph, node: NodeId) -> Result<(), String> {
    let (op, operands) = (graph.op(node), graph.operands(node));
    let numbers = graph.operand_numbers(node);
    if !numbers.iter().copied().eq(0..numbers.len() as u32) {
        return Err(format!("{op}: operands are numbered {numbers:?}"));
    }
    if let Some(i) = operands.iter().position(|&v| !exists(graph, v)) {
        return Err(format!("{op}: operand {i} does not exist"));
    }
    if matches!(op, Op::Parameter(_)) && graph.parameter_index(node).is_none() {
        return Err(format!("{op}: is not among the graph's parameters"));
    }
    let types: Vec<&Type> = operands.iter().map(|&v| graph.ty(v)).collect();
    let inferred = op.infer(&types).map_err(|error| error.to_string())?;
    let stored = graph.types(node);
    if inferred[..] != *stored {
        return Err(format!("{op}: has types {stored:?}, infers {inferred:?}"));
    }
    Ok(())
}

fn exists(graph: &Graph, value: Value) -> bool {
    graph.contains(value.node) && (value.result as usize) < graph.types(value.node).len()
}

/// A node on a cycle, given the nodes that no order holds: those on cycles and those
/// that depend on them. Each has an operand among them, so a walk along such comes back.
fn on_cycle(graph: &Graph, unordered: &[NodeId]) -> NodeId {
    let mut walked = vec![false; graph.bound()];
    let mut node = unordered[0];
    while !std::mem::replace(&mut walked[node.index()], true) {
        let operands = graph.operands(node);
        let back = operands.iter().find(|v| unordered.contains(&v.node));
        node = back.expect("a node left out of the order has an operand left out").node;
    }
    node
}

fn error(graph: &Graph, node: Option<NodeId>, message: String) -> VerifyError {
    let place = |node| {
        let (line, source) = (print_node(graph, node), graph.source(node).cloned());
        Box::new(Place { node, line, source })
    };
    VerifyError { graph: graph.name().to_string(), message, place: node.map(place) }
}
