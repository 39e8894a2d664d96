//! The digest that says which programs are the same.
//!
//! It covers what a program does and what its reports show: ops, edges, types and
//! names of parameters and outputs, donation, options. Sources are not part of
//! it: one program may stand for many places.

use std::hash::Hash;

use hashbrown::HashMap;
use kiln_ir::{Graph, NodeId};

use crate::tree::KeyWriter;

/// A digest of a program's content, long enough that two programs never share one
/// by chance. Constants may be large, so that the words themselves are not kept.
pub(super) type Content = [u64; 3];

pub(super) fn content(graph: &Graph, options: &str) -> Content {
    let mut key = KeyWriter::default();
    options.hash(&mut key);
    let mut number: HashMap<NodeId, usize> = HashMap::new();
    key.length(graph.parameters().len());
    for (i, parameter) in graph.parameters().enumerate() {
        number.insert(parameter.node, i);
        graph.ty(parameter).hash(&mut key);
        graph.parameter_info(i).hash(&mut key);
    }
    for node in graph.order() {
        if number.contains_key(&node) {
            continue;
        }
        number.insert(node, number.len());
        graph.op(node).hash(&mut key);
        for operand in graph.operands(node) {
            key.length(number[&operand.node]);
            key.length(operand.result as usize);
        }
    }
    for (i, output) in graph.outputs().iter().enumerate() {
        key.length(number[&output.node]);
        key.length(output.result as usize);
        graph.output_name(i).hash(&mut key);
    }
    digest(key.words())
}

/// Two independent multiplicative hashes of the words with a fold after each, and
/// their number.
fn digest(words: &[u64]) -> Content {
    let step = |h: u64, word: u64, multiplier: u64| {
        let h = (h ^ word).wrapping_mul(multiplier);
        h ^ (h >> 32)
    };
    let [mut a, mut b] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];
    for &word in words {
        a = step(a, word, 0x9e37_79b9_7f4a_7c15);
        b = step(b.rotate_left(23), word, 0xd6e8_feb8_6659_fd93);
    }
    [a, b, words.len() as u64]
}

#[cfg(test)]
mod tests {
    use kiln_ir::op::{Binary, Unary};
    use kiln_ir::{DType, ParameterInfo, Source, Type};

    use super::*;

    fn graph(op: Binary, swap: bool, line: u32) -> Graph {
        let mut g = Graph::new("f");
        let ty = Type::new(DType::F32, [4]);
        let x = g.add_parameter(ty.clone(), ParameterInfo::default());
        let y = g.add_parameter(ty, ParameterInfo::default());
        let source = Source { file: "a.rs".into(), line, column: 0, scope: None };
        let e = g.add1(Unary::Exp, &[x], Some(source)).unwrap();
        let operands = if swap { [y, e] } else { [e, y] };
        let sum = g.add1(op, &operands, None).unwrap();
        g.add_output(sum, "out");
        g
    }

    #[test]
    fn what_is_the_same_and_what_is_not() {
        let base = content(&graph(Binary::Sub, false, 1), "");
        assert_eq!(base, content(&graph(Binary::Sub, false, 2), ""), "lines do not matter");
        assert_ne!(base, content(&graph(Binary::Div, false, 1), ""));
        assert_ne!(base, content(&graph(Binary::Sub, true, 1), ""));
        assert_ne!(base, content(&graph(Binary::Sub, false, 1), "isa"));
        let mut donated = graph(Binary::Sub, false, 1);
        donated.parameter_info_mut(0).donated = true;
        assert_ne!(base, content(&donated, ""));
    }
}
