//! Batching.

use crate::derive::{Batch, NoRule, Rule};
use crate::inline::inline_calls;
use crate::op::Broadcast;
use crate::{Graph, Op, Shape, Value};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// The graph over a batch of `size`: each parameter that `batched` marks has one axis more,
/// the first, and so has every output.
///
/// What depends on no batched parameter is computed once.
///
/// # Errors
/// If an op on the way has no rule.
pub fn vmap(graph: &Graph, batched: &[bool], size: usize) -> Result<Graph, NoRule> {
    let graph = inline_calls(graph, &mut |call| call.is_plain());
    let mut over = Graph::new(graph.name());
    // What each value became, and whether it is batched.
    let mut places: HashMap<Value, (Value, bool)> = HashMap::new();
    for (i, parameter) in graph.parameters().enumerate() {
        let ty = graph.ty(parameter);
        let ty = if batched[i] { ty.with_shape(with_first(size, &ty.shape)) } else { ty.clone() };
        let place = over.add_parameter(ty, graph.parameter_info(i).clone());
        places.insert(parameter, (place, batched[i]));
    }
    for node in graph.order() {
        if graph.parameter_index(node).is_some() {
            continue;
        }
        let (operands, marks): (SmallVec<[Value; 3]>, SmallVec<[bool; 3]>) =
            graph.operands(node).iter().map(|v| places[v]).unzip();
        let (op, source): (&Op, _) = (graph.op(node), graph.source(node).cloned());
        let any = marks.iter().any(|&batched| batched);
        let results: SmallVec<[Value; 1]> = if any {
            let mut rule = Rule::new(&mut over, source, &operands, &[]);
            let batch = Batch { operands: &marks, size };
            op.vmap(&mut rule, batch).map_err(|e| e.at(graph.source(node)))?
        } else {
            let copy = over.add(op.clone(), &operands, source);
            over.results(copy.expect("the same op takes operands of the same types")).collect()
        };
        debug_assert_eq!(results.len(), graph.types(node).len(), "{}: all results", op.name());
        for (old, new) in graph.results(node).zip(results) {
            if any {
                let wanted = with_first(size, &graph.ty(old).shape);
                debug_assert_eq!(over.ty(new).shape, wanted, "a batched result of {}", op.name());
            }
            places.insert(old, (new, any));
        }
    }
    for (i, output) in graph.outputs().iter().enumerate() {
        let (mut value, batched) = places[output];
        if !batched {
            let shape = with_first(size, &graph.ty(*output).shape);
            let axes = (1..shape.rank()).collect();
            let repeated = over.add1(Broadcast { shape, axes }, &[value], None);
            value = repeated.expect("any shape repeats along a new axis");
        }
        over.add_output(value, graph.output_name(i));
    }
    Ok(over)
}

fn with_first(size: usize, shape: &Shape) -> Shape {
    std::iter::once(size).chain(shape.iter().copied()).collect()
}
