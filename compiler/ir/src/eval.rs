//! The reference interpreter: what a graph means.
//!
//! [`eval`] runs the ops of a graph one after the other through their definitions
//! ([`OpDef::eval`](crate::OpDef::eval)) and is what every pass and backend is judged
//! by. It is written to be believed, not to be fast: it shares no code with lowering,
//! knows no fusion, and computes in whatever way is plainest.
//!
//! It expects a graph that passes `verify`, and refuses arguments that do not fit the
//! graph's parameters. A value is dropped after its last use, so that memory follows
//! what is live and not the length of the program.

use crate::{Graph, Literal, Op, Value};

/// Arguments that do not fit a graph's parameters.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("@{graph}: {message}")]
pub struct EvalError {
    graph: String,
    parameter: Option<usize>,
    message: String,
}

impl EvalError {
    /// The graph's name, without `@`.
    pub fn graph(&self) -> &str {
        &self.graph
    }

    /// The parameter whose argument has another type; `None` when the number of
    /// arguments is wrong.
    pub fn parameter(&self) -> Option<usize> {
        self.parameter
    }
}

/// The outputs of `graph` for these arguments.
///
/// # Errors
/// If the arguments differ from the parameters in number or type.
///
/// # Panics
/// If the graph would not pass `verify`.
pub fn eval(graph: &Graph, arguments: &[Literal]) -> Result<Vec<Literal>, EvalError> {
    check(graph, arguments)?;
    let mut values: Vec<Vec<Literal>> = vec![Vec::new(); graph.bound()];
    let mut uses: Vec<usize> = vec![0; graph.bound()];
    let order = graph.order();
    for &node in &order {
        uses[node.index()] = graph.node_uses(node).len();
    }
    for &node in &order {
        let operands = graph.operands(node);
        let results = match graph.op(node) {
            Op::Parameter(_) => {
                let i = graph.parameter_index(node).expect("a parameter of this graph");
                vec![arguments[i].clone()]
            }
            op => {
                let literals: Vec<&Literal> =
                    operands.iter().map(|v| &values[v.node.index()][v.result as usize]).collect();
                op.eval(&literals, graph.types(node))
            }
        };
        debug_assert!(
            results.iter().map(Literal::ty).eq(graph.types(node)),
            "{} gives the types it inferred",
            graph.op(node)
        );
        if uses[node.index()] > 0 {
            values[node.index()] = results;
        }
        for v in operands {
            uses[v.node.index()] -= 1;
            if uses[v.node.index()] == 0 {
                values[v.node.index()].clear();
            }
        }
    }
    let output = |v: &Value| values[v.node.index()][v.result as usize].clone();
    Ok(graph.outputs().iter().map(output).collect())
}

fn check(graph: &Graph, arguments: &[Literal]) -> Result<(), EvalError> {
    let refuse =
        |parameter, message| Err(EvalError { graph: graph.name().to_string(), parameter, message });
    let (wanted, given) = (graph.parameters().len(), arguments.len());
    if wanted != given {
        let plural = if wanted == 1 { "" } else { "s" };
        return refuse(None, format!("wants {wanted} argument{plural}, got {given}"));
    }
    for (i, (parameter, argument)) in graph.parameters().zip(arguments).enumerate() {
        let (wanted, given) = (graph.ty(parameter), argument.ty());
        if wanted != given {
            let name = match graph.parameter_info(i).name.as_str() {
                "" => String::new(),
                name => format!(" (%{name})"),
            };
            return refuse(Some(i), format!("parameter {i}{name} wants {wanted}, got {given}"));
        }
    }
    Ok(())
}
