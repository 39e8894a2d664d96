//! Calls replaced by the bodies they call.
//!
//! Promises that the result means what the graph meant and has its signature; takes no stack, however deep bodies call each other.

use smallvec::SmallVec;

use crate::op::Call;
use crate::{Graph, NodeId, Op, Source, Value};

/// A body being copied.
struct Frame<'g> {
    graph: &'g Graph,
    order: std::vec::IntoIter<NodeId>,
    /// By node of the body: what its results became.
    became: Vec<SmallVec<[Value; 1]>>,
    /// The call, in the frame before.
    call: Option<NodeId>,
    source: Option<Source>,
}

impl<'g> Frame<'g> {
    fn new(graph: &'g Graph, arguments: &[Value], call: Option<NodeId>) -> Frame<'g> {
        let mut became = vec![SmallVec::new(); graph.bound()];
        for (p, &argument) in graph.parameters().zip(arguments) {
            became[p.node.index()].push(argument);
        }
        let order = graph.order().into_iter();
        Frame { graph, order, became, call, source: None }
    }

    fn value(&self, value: Value) -> Value {
        self.became[value.node.index()][value.result as usize]
    }
}

/// The graph with the bodies of all calls in their places.
///
/// A call means its body applied to the operands, so this changes nothing. The graph is
/// built anew, bodies where their calls were: the order of nodes is that in which a reader
/// of the program meets them. A node of a body keeps its own source, or has that of the
/// call.
pub fn inline(graph: &Graph) -> Graph {
    inline_calls(graph, &mut |_| true)
}

/// As [`inline`], of the calls that `which` chooses.
pub fn inline_calls(graph: &Graph, which: &mut dyn FnMut(&Call) -> bool) -> Graph {
    if !graph.nodes().any(|n| matches!(graph.op(n), Op::Call(_))) {
        return graph.clone();
    }
    let old = graph;
    let mut new = Graph::new(old.name());
    let parameters: Vec<Value> = old
        .parameters()
        .enumerate()
        .map(|(i, p)| new.add_parameter(old.ty(p).clone(), old.parameter_info(i).clone()))
        .collect();
    // Bodies inside bodies: a stack, so that no program is too deep.
    let mut frames = vec![Frame::new(old, &parameters, None)];
    while let Some(frame) = frames.last_mut() {
        let Some(node) = frame.order.next() else {
            let done = frames.pop().expect("the frame is there");
            let outputs = done.graph.outputs().iter().map(|&v| done.value(v));
            match (frames.last_mut(), done.call) {
                (Some(caller), Some(call)) => caller.became[call.index()] = outputs.collect(),
                _ => {
                    for (i, v) in outputs.enumerate() {
                        new.add_output(v, old.output_name(i));
                    }
                }
            }
            continue;
        };
        let operands: SmallVec<[Value; 3]> =
            frame.graph.operands(node).iter().map(|&v| frame.value(v)).collect();
        let source = frame.graph.source(node).cloned().or_else(|| frame.source.clone());
        match frame.graph.op(node) {
            Op::Parameter(_) => {}
            Op::Call(call) if which(call) => {
                let mut body = Frame::new(&call.graph, &operands, Some(node));
                body.source = source;
                frames.push(body);
            }
            op => {
                let copy = new.add(op.clone(), &operands, source).expect("as it was inferred");
                frame.became[node.index()] = new.results(copy).collect();
            }
        }
    }
    new
}
