//! Graphs as large as models are: thousands of parameters and outputs, operations with
//! thousands of operands, constants of megabytes.
//!
//! Each test takes a moment where the work is linear, and minutes where it is quadratic.

use kiln_ir::op::{Concatenate, Constant, Unary};
use kiln_ir::{DType, Graph, Literal, ParameterInfo, Scalar, Type, Use, Value, dot, verify};

fn parameters(graph: &mut Graph, n: usize) -> Vec<Value> {
    let ty = Type::new(DType::F32, [1]);
    (0..n).map(|_| graph.add_parameter(ty.clone(), ParameterInfo::default())).collect()
}

#[test]
fn fifty_thousand_parameters_and_outputs() {
    let n = 50_000;
    let mut graph = Graph::new("wide");
    let inputs = parameters(&mut graph, n);
    for &x in &inputs {
        let y = graph.add1(Unary::Neg, &[x], None).unwrap();
        graph.add_output(y, "");
    }
    verify(&graph).unwrap();
    for (i, &x) in inputs.iter().enumerate() {
        assert_eq!(graph.parameter_index(x.node), Some(i));
        assert_eq!(graph.uses(x).len(), 1);
    }
    assert_eq!(Graph::parse(&graph.to_string()).unwrap().canonical_text(), graph.canonical_text());
    assert_eq!(dot(&graph, None).matches("->").count(), 2 * n);

    // An edit of what no output is leaves the outputs alone.
    for pair in inputs.chunks_exact(2) {
        graph.replace_uses(pair[0], pair[1]);
    }
    assert_eq!(graph.uses(inputs[1]).len(), 2);
    verify(&graph).unwrap();
    // And no output reads what is swept.
    let first = graph.outputs()[0];
    (0..n).for_each(|i| graph.set_output(i, first));
    graph.sweep(|node| node == first.node);
    assert_eq!(graph.len(), n + 1);
    assert_eq!(graph.uses(first).len(), n);
}

#[test]
fn an_operation_of_fifty_thousand_operands() {
    let mut graph = Graph::new("joined");
    let mut pieces = parameters(&mut graph, 50_000);
    let joined = graph.add1(Concatenate { axis: 0 }, &pieces, None).unwrap();
    graph.add_output(joined, "");
    assert_eq!(graph.operands(joined.node).to_vec(), pieces);
    // A replaced operand keeps its place.
    pieces[7] = pieces[3];
    graph.set_operand(joined.node, 7, pieces[3]);
    assert_eq!(graph.operands(joined.node).to_vec(), pieces);
    let uses = graph.uses(pieces[3]);
    let at = |operand| Use::Operand { node: joined.node, operand };
    assert_eq!(uses, [at(3), at(7)]);
    verify(&graph).unwrap();
}

#[test]
fn large_constants_are_bytes() {
    let ty = Type::new(DType::F32, [1 << 22]);
    let ones = Literal::splat(ty.clone(), Scalar::from_f64(DType::F32, 1.0));
    assert_eq!(ones.bytes().len(), 1 << 24);
    assert_eq!(ones.uniform(), Some(Scalar::from_f64(DType::F32, 1.0)));
    let mut bytes = ones.bytes().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(Literal::from_bytes(ty, &bytes).uniform(), None);
    let mut graph = Graph::new("constant");
    let value = graph.add1(Constant { value: ones.clone() }, &[], None).unwrap();
    graph.add_output(value, "");
    assert!(graph.to_string().len() < 200, "one element stands for all");
    let empty = Literal::splat(Type::new(DType::F32, [0]), Scalar::from_f64(DType::F32, 1.0));
    assert_eq!((empty.uniform(), empty.bytes().len()), (None, 0));
}
