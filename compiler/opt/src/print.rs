//! Fused graphs as text, for people.

use std::fmt;

use hashbrown::HashMap;
use kiln_ir::{Graph, Op, Value};

use crate::group::{Fusion, Group, Kind};

/// A graph with its groups, one after the other.
pub fn fused<'a>(graph: &'a Graph, fusion: &'a Fusion) -> impl fmt::Display + 'a {
    Fused { graph, fusion, names: names(graph) }
}

struct Fused<'a> {
    graph: &'a Graph,
    fusion: &'a Fusion,
    names: HashMap<Value, String>,
}

/// Parameters by name, other nodes by number, in the order in which graphs print.
fn names(graph: &Graph) -> HashMap<Value, String> {
    let mut names = HashMap::new();
    for (i, p) in graph.parameters().enumerate() {
        let name = &graph.parameter_info(i).name;
        names.insert(p, if name.is_empty() { format!("p{i}") } else { name.clone() });
    }
    let nodes = graph.order().into_iter().filter(|&n| !matches!(graph.op(n), Op::Parameter(_)));
    for (i, value) in nodes.flat_map(|node| graph.results(node)).enumerate() {
        names.insert(value, i.to_string());
    }
    names
}

impl Fused<'_> {
    fn name(&self, value: Value) -> String {
        format!("%{}", self.names[&value])
    }

    fn names(&self, values: &[Value]) -> String {
        values.iter().map(|&v| self.name(v)).collect::<Vec<_>>().join(", ")
    }

    fn group(&self, f: &mut fmt::Formatter<'_>, group: &Group, indent: &str) -> fmt::Result {
        for &node in &group.members {
            let results: Vec<Value> = self.graph.results(node).collect();
            let operands = self.names(&self.graph.operands(node));
            let op = self.graph.op(node);
            write!(f, "{indent}{} = {}", self.names(&results), op.name())?;
            if !operands.is_empty() {
                write!(f, " {operands}")?;
            }
            for (i, (name, attr)) in op.attrs().iter().enumerate() {
                write!(f, "{}{name} = {attr}", if i == 0 { " {" } else { ", " })?;
            }
            let close = if op.attrs().is_empty() { "" } else { "}" };
            let types: Vec<String> =
                results.iter().map(|&v| self.graph.ty(v).to_string()).collect();
            let made: Vec<Value> =
                results.iter().copied().filter(|v| group.roots.contains(v)).collect();
            let root = match made.len() {
                0 => String::new(),
                n if n == results.len() => "  // root".into(),
                _ => format!("  // root {}", self.names(&made)),
            };
            writeln!(f, "{close} : {}{root}", types.join(", "))?;
        }
        Ok(())
    }
}

fn kind(kind: &Kind) -> String {
    match kind {
        Kind::Alias => "alias".into(),
        Kind::Map { space } => format!("map {space}"),
        Kind::Rows { space, axes } => format!("rows {space} along {axes:?}"),
        Kind::Fold { .. } => "fold".into(),
        Kind::Contraction { .. } => "contraction".into(),
        Kind::Update { .. } => "update".into(),
        Kind::Sort { .. } => "sort".into(),
        Kind::Together { parts } => format!("together {}", parts.len()),
    }
}

impl fmt::Display for Fused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (g, group) in self.fusion.groups.iter().enumerate() {
            let inputs = self.names(&group.inputs(self.graph));
            let roots = self.names(&group.roots);
            writeln!(f, "group {g}: {} ({inputs}) -> ({roots})", kind(&group.kind))?;
            match &group.kind {
                Kind::Together { parts } => {
                    for part in parts {
                        writeln!(f, "  part: {}", kind(&part.kind))?;
                        self.group(f, part, "    ")?;
                    }
                }
                _ => self.group(f, group, "  ")?,
            }
        }
        let outputs = self.names(self.graph.outputs());
        writeln!(f, "return {outputs}")
    }
}
