//! Graphs as pictures: the language of Graphviz's `dot`.
//!
//! Each node shows its text without operands, each edge which operand it is where a node
//! has several. Groups, such as those that fusion makes, are drawn as boxes. Callees are
//! named, not drawn. The same graph and groups give the same text.

use std::fmt::Write;

use crate::op::Attr;
use crate::{Graph, NodeId, Op};

/// Characters of an attribute that a node shows, and the longest constant it shows.
const SHOWN: usize = 40;

/// `graph` in the language of `dot`, with a box around the nodes of each group.
///
/// ```
/// # let graph = kiln_ir::Graph::new("main");
/// let picture = kiln_ir::dot(&graph, None);
/// assert!(picture.starts_with("digraph \"main\" {"));
/// ```
pub fn dot(graph: &Graph, groups: Option<&[Vec<NodeId>]>) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = draw(&mut out, graph, groups.unwrap_or_default());
    out
}

fn draw(out: &mut String, graph: &Graph, groups: &[Vec<NodeId>]) -> std::fmt::Result {
    writeln!(out, "digraph \"{}\" {{", escape(graph.name()))?;
    writeln!(out, "  node [shape=box, fontname=monospace];")?;
    let order = graph.order();
    let mut grouped = vec![false; graph.bound()];
    for (i, group) in groups.iter().enumerate() {
        writeln!(out, "  subgraph cluster_{i} {{\n    label=\"{i}\";")?;
        for &node in group.iter().filter(|&&node| graph.contains(node)) {
            grouped[node.index()] = true;
            writeln!(out, "    n{} [label=\"{}\"];", node.index(), label(graph, node))?;
        }
        writeln!(out, "  }}")?;
    }
    for &node in order.iter().filter(|node| !grouped[node.index()]) {
        let style = if matches!(graph.op(node), Op::Parameter(_)) { ", style=rounded" } else { "" };
        writeln!(out, "  n{} [label=\"{}\"{style}];", node.index(), label(graph, node))?;
    }
    for &node in &order {
        let operands = graph.operands(node);
        for (i, value) in operands.iter().enumerate() {
            let mut ends = Vec::new();
            if graph.types(value.node).len() > 1 {
                ends.push(format!("taillabel=\"{}\"", value.result));
            }
            if operands.len() > 1 {
                ends.push(format!("headlabel=\"{i}\""));
            }
            let ends =
                if ends.is_empty() { String::new() } else { format!(" [{}]", ends.join(", ")) };
            writeln!(out, "  n{} -> n{}{ends};", value.node.index(), node.index())?;
        }
    }
    for (i, value) in graph.outputs().iter().enumerate() {
        let name = match graph.output_name(i) {
            "" => format!("output {i}"),
            name => escape(name),
        };
        writeln!(out, "  output{i} [label=\"{name}\", style=rounded];")?;
        writeln!(out, "  n{} -> output{i};", value.node.index())?;
    }
    writeln!(out, "}}")
}

/// The op, its attributes and the types of its results, a line each.
fn label(graph: &Graph, node: NodeId) -> String {
    let op = graph.op(node);
    let mut lines = vec![match graph.parameter_index(node) {
        Some(i) if graph.parameter_info(i).name.is_empty() => format!("%p{i}"),
        Some(i) => format!("%{}", graph.parameter_info(i).name),
        None => op.name().to_string(),
    }];
    for (name, attr) in op.attrs().iter() {
        let value = match attr {
            Attr::Literal(literal) if literal.ty().elements() > SHOWN => "…".to_string(),
            attr => attr.to_string(),
        };
        let long = value.chars().count() > SHOWN;
        let shown: String = value.chars().take(SHOWN).collect();
        lines.push(format!("{name} = {shown}{}", if long { "…" } else { "" }));
    }
    let types: Vec<String> = graph.types(node).iter().map(ToString::to_string).collect();
    lines.push(types.join(", "));
    let lines: Vec<String> = lines.iter().map(|line| escape(line)).collect();
    lines.join("\\n")
}

/// The text inside a quoted string of `dot`.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
