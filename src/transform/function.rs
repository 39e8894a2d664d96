//! A closure as a graph, and a graph applied to tensors.

use std::any::Any;

use hashbrown::HashMap;
use kiln_ir::{Graph, ParameterInfo, Value};
use kiln_trace::{At, CaptureKey, Finished, Trace, Traced};

use crate::tensor::lift;
use crate::tree::named_leaves;
use crate::{Error, Tensor, Tree, Type};

/// A closure, traced.
pub(super) struct Function<R> {
    /// Its arguments' leaves, then what it captured, to its result's leaves.
    pub graph: Graph,
    /// How many leaves the arguments have.
    pub explicit: usize,
    /// What it captured.
    pub captured: Vec<Tensor>,
    /// Its result, with leaves that say no more than how many there are.
    pub result: R,
}

impl<R: Tree> Function<R> {
    /// Runs `f` on placeholders for `args`, whose leaves have the types that `ty` gives.
    ///
    /// # Errors
    /// The first mistake that the closure, or what it was given, made; with the poisoned
    /// result.
    ///
    /// # Panics
    /// As [`without_result`], if the closure has not come to its end.
    pub(super) fn trace<T: Tree>(
        name: &str,
        args: &T,
        ty: impl Fn(&Type) -> Type,
        f: impl FnOnce(&T) -> R,
        at: At,
    ) -> Result<Function<R>, (R, Error)> {
        crate::declare_own_lines();
        let mut names = named_leaves(args, "").into_iter();
        let trace = Trace::begin(name, at);
        let placeholders = args.map(&mut |leaf| {
            let name = names.next().map_or(String::new(), |(path, _)| path);
            match leaf.try_ty() {
                Ok(leaf) => {
                    let info = ParameterInfo { name, donated: false };
                    Tensor::traced(trace.parameter(ty(leaf), info))
                }
                Err(error) => Tensor::poisoned(kiln_trace::fail(error, at)),
            }
        });
        let result = match trace.run(|| f(&placeholders)) {
            Ok(result) => result,
            Err(error) => {
                drop(trace);
                without_result(error, at)
            }
        };
        let finish = || {
            for (path, leaf) in named_leaves(&result, "out") {
                if let Ok(traced) = lift(leaf, at) {
                    trace.output(&traced, path)?;
                }
            }
            trace.finish()
        };
        match finish() {
            Ok(Finished { graph, captures }) => {
                let explicit = graph.parameters().len() - captures.len();
                let captured = captures.into_iter().map(|c| outer(c.key, c.payload)).collect();
                Ok(Function { graph, explicit, captured, result })
            }
            Err(error) => {
                let error = kiln_trace::fail(error, at);
                Err((poison(&result, &error), error))
            }
        }
    }

    /// Whether each parameter is one that the caller named: no capture is.
    pub(super) fn is_explicit(&self) -> Vec<bool> {
        (0..self.graph.parameters().len()).map(|i| i < self.explicit).collect()
    }

    /// The operands of the graph: the leaves of `args`, then what was captured.
    pub(super) fn operands<T: Tree>(&self, args: &T) -> Vec<Tensor> {
        let leaves = args.leaves().into_iter().cloned();
        leaves.chain(self.captured.iter().cloned()).collect()
    }
}

/// What was captured, as the tensor that the code around the closure knows.
fn outer(key: CaptureKey, payload: Box<dyn Any>) -> Tensor {
    let tensor = match key {
        CaptureKey::External(_) => payload.downcast::<Tensor>().map(|tensor| *tensor),
        CaptureKey::Outer(..) => payload.downcast::<Traced>().map(|t| Tensor::traced(*t)),
    };
    tensor.unwrap_or_else(|_| Tensor::poisoned(Error::internal("a capture of another kind")))
}

/// The graph applied to tensors, where the caller stands: recorded if a trace is open,
/// otherwise as lazy expressions.
pub(super) fn apply(graph: &Graph, operands: &[Tensor], at: At) -> Vec<Tensor> {
    if let Some(poisoned) = operands.iter().find(|t| t.error().is_some()) {
        return vec![poisoned.clone(); graph.outputs().len()];
    }
    if kiln_trace::is_open() {
        let lifted: Result<Vec<Traced>, Error> = operands.iter().map(|t| lift(t, at)).collect();
        return match lifted.and_then(|lifted| kiln_trace::replay(graph, &lifted, at)) {
            Ok(results) => results.into_iter().map(Tensor::traced).collect(),
            Err(error) => vec![Tensor::poisoned(error); graph.outputs().len()],
        };
    }
    let mut places: HashMap<Value, Tensor> =
        graph.parameters().zip(operands.iter().cloned()).collect();
    for node in graph.order() {
        if graph.parameter_index(node).is_some() {
            continue;
        }
        let operands = graph.operands(node);
        let operands: Vec<&Tensor> = operands.iter().map(|v| &places[v]).collect();
        let count = graph.types(node).len();
        let results = Tensor::apply_all(graph.op(node).clone(), &operands, count, at);
        places.extend(graph.results(node).zip(results));
    }
    graph.outputs().iter().map(|v| places[v].clone()).collect()
}

/// Whether the operands have the types of the graph's parameters.
///
/// # Errors
/// The first that has not.
pub(super) fn check(graph: &Graph, operands: &[Tensor], op: &str) -> Result<(), Error> {
    let parameters = graph.parameters();
    if parameters.len() != operands.len() {
        let message = format!("wants {} tensors, got {}", parameters.len(), operands.len());
        return Err(Error::user(message).with_op(op));
    }
    for (parameter, operand) in parameters.zip(operands) {
        let (wanted, got) = (graph.ty(parameter), operand.try_ty()?);
        if wanted != got {
            let message = format!("wants a tangent or cotangent of type {wanted}, got {got}");
            return Err(Error::user(message).with_op(op));
        }
    }
    Ok(())
}

/// A tree in the shape of `like` with these leaves.
pub(super) fn rebuild<T: Tree>(like: &T, leaves: &mut impl Iterator<Item = Tensor>) -> T {
    like.map(&mut |_| leaves.next().expect("a tensor for each leaf"))
}

/// The tree with every leaf poisoned.
pub(super) fn poison<T: Tree>(like: &T, error: &Error) -> T {
    like.map(&mut |_| Tensor::poisoned(error.clone()))
}

/// Leaves the closure of an enclosing trace with the error: there is no result to return.
///
/// # Panics
/// If no trace is open, as asking for the shape of a poisoned tensor does there.
fn without_result(error: Error, at: At) -> ! {
    let error = kiln_trace::fail(error, at);
    if kiln_trace::is_open() {
        kiln_trace::unwind(error)
    }
    panic!("{error}")
}
