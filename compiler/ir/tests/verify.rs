//! Graphs that no pass should make, and how they are refused; graphs as pictures.

mod common;

use std::sync::Arc;

use common::ty;
use kiln_ir::op::{Binary, Call, Unary};
use kiln_ir::{Graph, ParameterInfo, Source, Value, dot, verify};

fn parameter(graph: &mut Graph, text: &str) -> Value {
    graph.add_parameter(ty(text), ParameterInfo::default())
}

fn source(line: u32) -> Option<Source> {
    Some(Source { file: "src/model.rs".into(), line, column: 5, scope: None })
}

#[test]
fn a_cycle_is_found_where_it_is() {
    let mut graph = Graph::new("main");
    let x = parameter(&mut graph, "f32[4]");
    let a = graph.add1(Unary::Neg, &[x], source(1)).unwrap();
    let b = graph.add1(Binary::Add, &[a, x], source(2)).unwrap();
    let c = graph.add1(Unary::Exp, &[b], source(3)).unwrap();
    // `exp` depends on the cycle without being on it.
    graph.add_output(c, "");
    verify(&graph).unwrap();
    graph.set_operand(a.node, 0, b);
    let error = verify(&graph).unwrap_err();
    let on_cycle = [Some(a.node), Some(b.node)];
    assert!(on_cycle.contains(&error.node()), "{error}");
    assert!(error.message().ends_with("depends on itself"), "{error}");
    assert!(error.to_string().contains("--> src/model.rs:"), "{error}");
    // Such a graph prints all the same, to see what is wrong.
    assert!(graph.to_string().contains("neg"));
}

#[test]
fn an_output_must_exist() {
    let mut graph = Graph::new("main");
    let x = parameter(&mut graph, "f32[4]");
    graph.add_output(x, "");
    graph.set_output(0, Value { node: x.node, result: 1 });
    let error = verify(&graph).unwrap_err();
    assert_eq!(error.node(), None);
    assert_eq!(error.to_string(), "@main: output 0 does not exist");
}

#[test]
fn a_parameter_has_a_type_that_programs_can_hold() {
    let mut graph = Graph::new("main");
    let x = parameter(&mut graph, "f32[4611686018427387904,2]");
    let error = verify(&graph).unwrap_err();
    assert_eq!((error.graph(), error.node()), ("main", Some(x.node)));
    assert!(error.message().contains("too large"), "{error}");
}

#[test]
fn callees_are_verified() {
    let mut callee = Graph::new("inner");
    let x = parameter(&mut callee, "f32[4]");
    let a = callee.add1(Unary::Neg, &[x], None).unwrap();
    let b = callee.add1(Unary::Exp, &[a], None).unwrap();
    callee.set_operand(a.node, 0, b);
    let mut graph = Graph::new("main");
    let x = parameter(&mut graph, "f32[4]");
    graph.add(Call::new(Arc::new(callee)), &[x], None).unwrap();
    let error = verify(&graph).unwrap_err();
    assert_eq!(error.graph(), "inner");
}

#[test]
fn a_picture_has_every_node_edge_and_group() {
    let text = r#"
        graph @both(%x: f32[2]) -> (f32[2], f32[2]) {
          return %x, %x
        }
        graph @main(%"a \"b\"": f32[2]) -> (f32[2], f32[]) {
          %0, %1 = call %"a \"b\"" {graph = @both} : f32[2], f32[2]
          %2 = sub %1, %0 : f32[2]
          %3 = reduce_sum %2 {axes = [0]} : f32[]
          return %2, %3 "loss"
        }"#;
    let graph = Graph::parse(text).unwrap();
    let order = graph.order();
    let groups = [vec![order[2], order[3]]];
    assert_eq!(
        dot(&graph, Some(&groups)),
        r#"digraph "main" {
  node [shape=box, fontname=monospace];
  subgraph cluster_0 {
    label="0";
    n2 [label="sub\nf32[2]"];
    n3 [label="reduce_sum\naxes = [0]\nf32[]"];
  }
  n0 [label="%a \"b\"\nf32[2]", style=rounded];
  n1 [label="call\ngraph = @both\nf32[2], f32[2]"];
  n0 -> n1;
  n1 -> n2 [taillabel="1", headlabel="0"];
  n1 -> n2 [taillabel="0", headlabel="1"];
  n2 -> n3;
  output0 [label="output 0", style=rounded];
  n2 -> output0;
  output1 [label="loss", style=rounded];
  n3 -> output1;
}
"#
    );
}
