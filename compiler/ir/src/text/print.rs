//! Graphs to text.
//!
//! Promises: what is printed parses back to an equal graph, printing that gives the
//! same text, and nothing depends on hashing. A callee is printed before its first
//! caller, once, however often it is called. Names that the text could not tell apart
//! get a number at the end. Nodes on a cycle, which only a faulty pass makes, come last
//! and make a text that does not parse.

use std::fmt::{self, Write};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::name::{Quoted, Sigil};
use crate::op::Attr;
use crate::{Graph, NodeId, Op, Type, Value};

/// What to print beyond the graph itself.
#[derive(Clone, Copy, Default)]
pub struct Printer<'a> {
    /// Ends each node with its `loc(..)`.
    pub locations: bool,
    /// Ends lines of the outermost graph with `// what this says` about the node.
    pub annotate: Option<&'a dyn Fn(NodeId) -> Option<String>>,
}

impl Printer<'_> {
    /// The text of `graph`, preceded by that of the graphs it calls.
    pub fn print(&self, graph: &Graph) -> String {
        let mut out = String::new();
        let mut taken = HashSet::new();
        let mut names = HashMap::new();
        for callee in callees(graph, all_nodes) {
            let name = unique(callee.name(), &mut taken);
            let inner = Printer { locations: self.locations, annotate: None };
            let _ = write!(out, "graph {}", Sigil('@', &name));
            Body::new(&callee, inner).write(&mut out, &names);
            out.push('\n');
            names.insert(Arc::as_ptr(&callee), name);
        }
        let _ = write!(out, "graph {}", Sigil('@', &unique(graph.name(), &mut taken)));
        Body::new(graph, *self).write(&mut out, &names);
        out
    }
}

/// The line of one node as the text of its graph has it, for messages.
pub(crate) fn print_node(graph: &Graph, node: NodeId) -> String {
    let mut line = String::new();
    let callee = |callee: Arc<Graph>| (Arc::as_ptr(&callee), callee.name().to_string());
    let names = callees(graph, all_nodes).into_iter().map(callee).collect();
    // Writing to a string does not fail.
    let _ = Body::new(graph, Printer::default()).node(&mut line, node, &names);
    line.trim().to_string()
}

impl fmt::Display for Graph {
    /// The text format, without locations.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Printer::default().print(self))
    }
}

/// What the graphs called are called in the text.
pub(super) type Callees = HashMap<*const Graph, String>;

/// Everything of a graph's text after its name.
pub(super) struct Body<'a> {
    pub graph: &'a Graph,
    /// The nodes to print, without parameters, in the order to print them.
    pub nodes: Vec<NodeId>,
    /// What each value is called.
    pub values: HashMap<Value, String>,
    pub output_names: bool,
    pub printer: Printer<'a>,
}

impl<'a> Body<'a> {
    fn new(graph: &'a Graph, printer: Printer<'a>) -> Body<'a> {
        let mut taken = HashSet::new();
        let mut values = HashMap::new();
        for (i, value) in graph.parameters().enumerate() {
            let name = match graph.parameter_info(i).name.as_str() {
                "" => format!("p{i}"),
                name => name.to_string(),
            };
            values.insert(value, unique(&name, &mut taken));
        }
        let mut nodes = all_nodes(graph);
        nodes.retain(|&node| !matches!(graph.op(node), Op::Parameter(_)));
        let mut fresh = (0u32..).map(|n| n.to_string()).filter(|name| !taken.contains(name));
        for value in nodes.iter().flat_map(|&node| graph.results(node)) {
            values.insert(value, fresh.next().expect("numbers do not end"));
        }
        Body { graph, nodes, values, output_names: true, printer }
    }

    /// Writes the signature, the nodes and the return, with a line break at the end.
    pub fn write(&self, out: &mut String, callees: &Callees) {
        // Writing to a string does not fail.
        let _ = self.signature(out);
        for &node in &self.nodes {
            let _ = self.node(out, node, callees);
        }
        let _ = self.outputs(out);
    }

    fn signature(&self, out: &mut String) -> fmt::Result {
        out.push('(');
        for (i, value) in self.graph.parameters().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(out, "{comma}{}: {}", self.value(value), self.graph.ty(value))?;
            if self.graph.parameter_info(i).donated {
                out.push_str(" {donated}");
            }
        }
        out.push_str(") -> ");
        let results: Vec<&Type> = self.graph.outputs().iter().map(|&v| self.graph.ty(v)).collect();
        match results[..] {
            [ty] => write!(out, "{ty}")?,
            _ => write!(out, "({})", Commas(&results))?,
        }
        out.push_str(" {\n");
        Ok(())
    }

    fn node(&self, out: &mut String, node: NodeId, callees: &Callees) -> fmt::Result {
        let graph = self.graph;
        out.push_str("  ");
        let results: Vec<Sigil> = graph.results(node).map(|v| self.value(v)).collect();
        if !results.is_empty() {
            write!(out, "{} = ", Commas(&results))?;
        }
        out.push_str(graph.op(node).name());
        let operands: Vec<Sigil> = graph.operands(node).iter().map(|&v| self.value(v)).collect();
        if !operands.is_empty() {
            write!(out, " {}", Commas(&operands))?;
        }
        let attrs = graph.op(node).attrs();
        for (i, (name, attr)) in attrs.iter().enumerate() {
            write!(out, "{}{name} = ", if i > 0 { ", " } else { " {" })?;
            match attr {
                Attr::Graph(callee) => {
                    let name = callees.get(&Arc::as_ptr(callee));
                    write!(out, "{}", Sigil('@', name.expect("callees are named first")))?;
                }
                attr => write!(out, "{attr}")?,
            }
        }
        if !attrs.is_empty() {
            out.push('}');
        }
        match graph.types(node) {
            [] => out.push_str(" : ()"),
            types => write!(out, " : {}", Commas(types))?,
        }
        if let Some(source) = graph.source(node).filter(|_| self.printer.locations) {
            write!(out, " loc({}:{}", Quoted(&source.file), source.line)?;
            if source.column > 0 {
                write!(out, ":{}", source.column)?;
            }
            if let Some(scope) = &source.scope {
                write!(out, " {}", Quoted(scope))?;
            }
            out.push(')');
        }
        if let Some(note) = self.printer.annotate.and_then(|annotate| annotate(node)) {
            write!(out, " // {}", note.replace(['\n', '\r'], " "))?;
        }
        out.push('\n');
        Ok(())
    }

    fn outputs(&self, out: &mut String) -> fmt::Result {
        out.push_str("  return");
        for (i, &value) in self.graph.outputs().iter().enumerate() {
            write!(out, "{} {}", if i > 0 { "," } else { "" }, self.value(value))?;
            let name = self.graph.output_name(i);
            if self.output_names && !name.is_empty() {
                write!(out, " {}", Quoted(name))?;
            }
        }
        out.push_str("\n}\n");
        Ok(())
    }

    fn value(&self, value: Value) -> Sigil<'_> {
        Sigil('%', self.values.get(&value).map_or("?", String::as_str))
    }
}

/// Items with commas between them.
struct Commas<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for Commas<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// `name`, numbered if it is taken already.
fn unique(name: &str, taken: &mut HashSet<String>) -> String {
    let numbered = (1u32..).map(|n| format!("{name}_{n}"));
    let name = std::iter::once(name.to_string())
        .chain(numbered)
        .find(|name| !taken.contains(name))
        .expect("numbers do not end");
    taken.insert(name.clone());
    name
}

/// The nodes in order, then those on cycles.
pub(crate) fn all_nodes(graph: &Graph) -> Vec<NodeId> {
    let mut nodes = graph.order();
    if nodes.len() < graph.len() {
        let ordered: HashSet<NodeId> = nodes.iter().copied().collect();
        nodes.extend(graph.nodes().filter(|node| !ordered.contains(node)));
    }
    nodes
}

/// The graphs that ops of `graph` apply, calls and bodies of folds, directly or not, each
/// once and after those it needs itself.
/// Looks at the nodes of each graph that `nodes` gives, in that order.
pub(crate) fn callees(graph: &Graph, nodes: fn(&Graph) -> Vec<NodeId>) -> Vec<Arc<Graph>> {
    let called = |graph: &Graph| -> std::vec::IntoIter<Arc<Graph>> {
        let callees = |node: NodeId| graph.op(node).graphs().into_iter().cloned();
        nodes(graph).into_iter().flat_map(callees).collect::<Vec<_>>().into_iter()
    };
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    // A stack of our own: calls may nest deeper than the machine's allows.
    let mut open = vec![(None, called(graph))];
    while let Some((_, pending)) = open.last_mut() {
        match pending.next() {
            Some(callee) if seen.insert(Arc::as_ptr(&callee)) => {
                let inner = called(&callee);
                open.push((Some(callee), inner));
            }
            Some(_) => {}
            None => found.extend(open.pop().and_then(|(done, _)| done)),
        }
    }
    found
}
