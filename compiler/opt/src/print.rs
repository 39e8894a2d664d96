//! Fused graphs as text, for people.

use std::fmt;

use kiln_ir::{Graph, Op, Value};

use crate::group::{Fusion, Group, Kind};

/// A graph with its groups, one after the other.
pub fn fused<'a>(graph: &'a Graph, fusion: &'a Fusion) -> impl fmt::Display + 'a {
    Fused { graph, fusion, names: names(graph) }
}

struct Fused<'a> {
    graph: &'a Graph,
    fusion: &'a Fusion,
    names: Vec<String>,
}

/// Parameters by name, other nodes by number, in the order in which graphs print.
fn names(graph: &Graph) -> Vec<String> {
    let mut names = vec![String::new(); graph.bound()];
    for (i, p) in graph.parameters().enumerate() {
        let name = &graph.parameter_info(i).name;
        names[p.node.index()] = if name.is_empty() { format!("p{i}") } else { name.clone() };
    }
    let nodes = graph.order().into_iter().filter(|&n| !matches!(graph.op(n), Op::Parameter(_)));
    for (i, node) in nodes.enumerate() {
        names[node.index()] = i.to_string();
    }
    names
}

impl Fused<'_> {
    fn name(&self, value: Value) -> String {
        format!("%{}", self.names[value.node.index()])
    }

    fn names(&self, values: &[Value]) -> String {
        values.iter().map(|&v| self.name(v)).collect::<Vec<_>>().join(", ")
    }

    fn group(&self, f: &mut fmt::Formatter<'_>, group: &Group, indent: &str) -> fmt::Result {
        for &node in &group.members {
            let value = Value { node, result: 0 };
            let operands = self.names(&self.graph.operands(node));
            let op = self.graph.op(node);
            write!(f, "{indent}{} = {}", self.name(value), op.name())?;
            if !operands.is_empty() {
                write!(f, " {operands}")?;
            }
            for (i, (name, attr)) in op.attrs().iter().enumerate() {
                write!(f, "{}{name} = {attr}", if i == 0 { " {" } else { ", " })?;
            }
            let close = if op.attrs().is_empty() { "" } else { "}" };
            let root = if group.roots.contains(&value) { "  // root" } else { "" };
            writeln!(f, "{close} : {}{root}", self.graph.ty(value))?;
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
