//! Functions with derivatives of their own: given, stopped, or computed with less memory.

use std::sync::Arc;

use kiln_ir::op::{Broadcast, Call, Constant, Derivative};
use kiln_ir::{Graph, Literal, ParameterInfo, Value};
use kiln_trace::At;

pub use kiln_ir::op::Policy;

use super::function::{Function, poison, rebuild};
use crate::{Error, Scalar, Tensor, Tree, Type};

/// The tree as a constant: derivatives do not flow through it. JAX: `lax.stop_gradient`.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::{grad, stop_gradient};
///
/// let f = grad(|x: &Tensor| x * stop_gradient(x));
/// assert_eq!(f(&Tensor::from(3.0f32)).item::<f32>()?, 3.0);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn stop_gradient<T: Tree>(tree: &T) -> T {
    let at = At::caller();
    tree.map(&mut |leaf| leaf.stopped(at))
}

impl Tensor {
    /// The tensor as a constant. What is not traced is not being differentiated.
    pub(crate) fn stopped(&self, at: At) -> Tensor {
        match self.try_ty() {
            Ok(ty) if self.is_traced() && ty.dtype.is_float() => {
                let mut identity = Graph::new("stop_gradient");
                let x = identity.add_parameter(ty.clone(), ParameterInfo::default());
                identity.add_output(x, "");
                let call = Call { graph: Arc::new(identity), derivative: Derivative::Stop };
                Tensor::apply(call, &[self], at)
            }
            _ => self.clone(),
        }
    }
}

/// The function, keeping nothing but its arguments for the way back, where it is computed
/// again: memory for time. JAX: `checkpoint`, `remat`.
///
/// Derivatives are the same to the bit.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::{checkpoint, grad};
///
/// let layer = |x: &Tensor| x.sin().exp();
/// let x = Tensor::from(0.5f32);
/// let plain = grad(layer)(&x).item::<f32>()?;
/// assert_eq!(grad(checkpoint(layer))(&x).item::<f32>()?, plain);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Panics
/// If no trace is open and the closure asks for the shape of a tensor that comes from a
/// mistake.
#[track_caller]
pub fn checkpoint<T: Tree, R: Tree>(f: impl Fn(&T) -> R) -> impl Fn(&T) -> R {
    checkpointed(f, Policy::Nothing, At::caller())
}

/// As [`checkpoint`], keeping what the policy says as well.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::{Policy, checkpoint_policy, grad};
///
/// let w = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// let layer = |x: &Tensor| x.matmul(&w).tanh().sum(..);
/// // The product is kept, the tanh computed again.
/// let slope = grad(checkpoint_policy(layer, Policy::Dots));
/// assert_eq!(slope(&Tensor::from([0.0f32, 0.0])).to_vec::<f32>()?, [3.0, 7.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Panics
/// As [`checkpoint`].
#[track_caller]
pub fn checkpoint_policy<T: Tree, R: Tree>(
    f: impl Fn(&T) -> R,
    policy: Policy,
) -> impl Fn(&T) -> R {
    checkpointed(f, policy, At::caller())
}

fn checkpointed<T: Tree, R: Tree>(
    f: impl Fn(&T) -> R,
    policy: Policy,
    caller: At,
) -> impl Fn(&T) -> R {
    move |args| {
        let function = match Function::trace("checkpoint", args, Clone::clone, &f, caller) {
            Ok(function) => function,
            Err((result, _)) => return result,
        };
        let operands = function.operands(args);
        let derivative = Derivative::Checkpoint(policy);
        call(function.graph, derivative, &operands, &function.result, caller)
    }
}

/// The function with a forward rule: `rule` takes an argument and its tangent to the tangent
/// of the result, and is linear in the tangent. JAX: `custom_jvp`.
///
/// It serves reverse mode too. What the closures capture is constant.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::{custom_jvp, grad};
///
/// // A derivative that is stable where the formula's is not.
/// let log1pexp = custom_jvp(
///     |x: &Tensor| (x.exp() + 1.0).log(),
///     |x: &Tensor, dx: &Tensor| dx * (1.0 - 1.0 / (x.exp() + 1.0)),
/// );
/// assert_eq!(grad(log1pexp)(&Tensor::from(100.0f32)).item::<f32>()?, 1.0);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Panics
/// As [`checkpoint`].
#[track_caller]
pub fn custom_jvp<T: Tree, R: Tree>(
    f: impl Fn(&T) -> R,
    rule: impl Fn(&T, &T) -> R,
) -> impl Fn(&T) -> R {
    let caller = At::caller();
    move |args| {
        let primal = match Function::trace("custom_jvp", args, Clone::clone, &f, caller) {
            Ok(primal) => primal,
            Err((result, _)) => return result,
        };
        let both = |(x, dx): &(T, T)| rule(x, dx);
        let pair = (args.map(&mut Tensor::clone), args.map(&mut Tensor::clone));
        let rule = match Function::trace("custom_jvp_rule", &pair, Clone::clone, both, caller) {
            Ok(rule) => rule,
            Err((result, _)) => return result,
        };
        let operands = Operands::new(args, &[&primal.captured, &rule.captured]);
        let build = || {
            let graph = operands.apply("custom_jvp", &primal.graph, 0)?;
            let jvp = tangents_of(&operands, &rule, &primal.graph)?;
            Ok((graph, Derivative::Jvp(Arc::new(jvp))))
        };
        finish(build(), &operands, &primal.result, caller)
    }
}

/// The function with a reverse rule: `forward` returns the result and what `backward` needs
/// to take a cotangent of the result to one of the argument. JAX: `custom_vjp`.
///
/// There is no forward mode. What the closures capture is constant. Cotangents of leaves that
/// are not floats are zeros that nobody reads.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::{custom_vjp, grad};
///
/// // Gradients limited on their way back.
/// let limited = custom_vjp(
///     |x: &Tensor| x.clone(),
///     |x: &Tensor| (x.clone(), ()),
///     |_: &(), ct: &Tensor| ct.clip(-1.0, 1.0),
/// );
/// let slope = grad(move |x: &Tensor| limited(x) * 5.0);
/// assert_eq!(slope(&Tensor::from(2.0f32)).item::<f32>()?, 1.0);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Panics
/// As [`checkpoint`].
#[track_caller]
pub fn custom_vjp<T: Tree, R: Tree, S: Tree>(
    f: impl Fn(&T) -> R,
    forward: impl Fn(&T) -> (R, S),
    backward: impl Fn(&S, &R) -> T,
) -> impl Fn(&T) -> R {
    let caller = At::caller();
    move |args| {
        let primal = match Function::trace("custom_vjp", args, Clone::clone, &f, caller) {
            Ok(primal) => primal,
            Err((result, _)) => return result,
        };
        let there = match Function::trace("forward", args, Clone::clone, &forward, caller) {
            Ok(there) => there,
            Err((_, error)) => return poison(&primal.result, &error),
        };
        let (result, kept) = &there.result;
        let given = (kept.map(&mut Tensor::clone), result.map(&mut Tensor::clone));
        let back = |(kept, ct): &(S, R)| backward(kept, ct);
        let back = match Function::trace("backward", &given, Clone::clone, back, caller) {
            Ok(back) => back,
            Err((_, error)) => return poison(&primal.result, &error),
        };
        let captured: [&[Tensor]; 3] = [&primal.captured, &there.captured, &back.captured];
        let operands = Operands::new(args, &captured);
        let build = || {
            let graph = operands.apply("custom_vjp", &primal.graph, 0)?;
            let mut forward = operands.apply("forward", &there.graph, 1)?;
            // What the way back captures is a residual like what the user keeps.
            for value in operands.captured(&forward, 2) {
                forward.add_output(value, "");
            }
            let results = primal.graph.outputs().len();
            let backward = cotangents_of(&operands, &back, &forward, results)?;
            let (forward, backward) = (Arc::new(forward), Arc::new(backward));
            Ok((graph, Derivative::Vjp { forward, backward }))
        };
        finish(build(), &operands, &primal.result, caller)
    }
}

/// What several closures are given and capture, as operands of one call.
struct Operands {
    tensors: Vec<Tensor>,
    types: Vec<Type>,
    explicit: usize,
    /// Where the captures of each closure begin and end.
    captured: Vec<std::ops::Range<usize>>,
}

impl Operands {
    fn new<T: Tree>(args: &T, captured: &[&[Tensor]]) -> Operands {
        let mut tensors: Vec<Tensor> = args.leaves().into_iter().cloned().collect();
        let explicit = tensors.len();
        let mut ranges = Vec::new();
        for captured in captured {
            let start = tensors.len();
            tensors.extend(captured.iter().cloned());
            ranges.push(start..tensors.len());
        }
        let types = tensors.iter().map(|t| t.try_ty().cloned().unwrap_or_else(|_| missing()));
        Operands { types: types.collect(), tensors, explicit, captured: ranges }
    }

    /// An empty graph over all operands.
    fn graph(&self, name: &str) -> Graph {
        let mut graph = Graph::new(name);
        for ty in &self.types {
            graph.add_parameter(ty.clone(), ParameterInfo::default());
        }
        graph
    }

    /// Closure number `which`, traced as `body`, as a graph over all operands.
    fn apply(&self, name: &str, body: &Graph, which: usize) -> Result<Graph, Error> {
        let mut graph = self.graph(name);
        let all: Vec<Value> = graph.parameters().collect();
        let own = self.captured[which].clone();
        let given: Vec<Value> = all[..self.explicit].iter().chain(&all[own]).copied().collect();
        for value in inline(&mut graph, body, &given)? {
            graph.add_output(value, "");
        }
        Ok(graph)
    }

    /// The parameters of `graph` that closure number `which` captures.
    fn captured(&self, graph: &Graph, which: usize) -> Vec<Value> {
        graph.parameters().collect::<Vec<_>>()[self.captured[which].clone()].to_vec()
    }
}

/// A type for an operand that has none: the call is never made.
fn missing() -> Type {
    Type::scalar(crate::DType::F32)
}

/// The forward rule as a graph over operands and tangents of those that are floats.
fn tangents_of<R: Tree>(
    operands: &Operands,
    rule: &Function<R>,
    primal: &Graph,
) -> Result<Graph, Error> {
    let mut graph = operands.graph("jvp");
    let all: Vec<Value> = graph.parameters().collect();
    let mut tangents = Vec::new();
    for (i, ty) in operands.types.iter().enumerate() {
        let tangent = match ty.dtype.is_float() {
            true => graph.add_parameter(ty.clone(), ParameterInfo::default()),
            false => zeros(&mut graph, ty)?,
        };
        if i < operands.explicit {
            tangents.push(tangent);
        }
    }
    let own = operands.captured[1].clone();
    let given: Vec<Value> =
        all[..operands.explicit].iter().chain(&tangents).chain(&all[own]).copied().collect();
    let results = inline(&mut graph, &rule.graph, &given)?;
    for (&result, &wanted) in results.iter().zip(primal.outputs()) {
        let (got, wanted) = (graph.ty(result), primal.ty(wanted));
        if wanted.dtype.is_float() {
            if got != wanted {
                let message = format!("the rule gives a tangent {got} for a result {wanted}");
                return Err(Error::user(message).with_op("custom_jvp"));
            }
            graph.add_output(result, "");
        }
    }
    Ok(graph)
}

/// The reverse rule as a graph over residuals and cotangents of results that are floats.
fn cotangents_of<T: Tree>(
    operands: &Operands,
    back: &Function<T>,
    forward: &Graph,
    results: usize,
) -> Result<Graph, Error> {
    let types: Vec<Type> = forward.outputs().iter().map(|&v| forward.ty(v).clone()).collect();
    let (results, residuals) = types.split_at(results);
    let mut graph = Graph::new("backward");
    let parameter =
        |graph: &mut Graph, ty: &Type| graph.add_parameter(ty.clone(), ParameterInfo::default());
    let residuals: Vec<Value> = residuals.iter().map(|ty| parameter(&mut graph, ty)).collect();
    let mut cotangents = Vec::new();
    for ty in results {
        cotangents.push(match ty.dtype.is_float() {
            true => parameter(&mut graph, ty),
            false => zeros(&mut graph, ty)?,
        });
    }
    let (kept, captured) = residuals.split_at(residuals.len() - operands.captured[2].len());
    let given: Vec<Value> = kept.iter().chain(&cotangents).chain(captured).copied().collect();
    let of_arguments = inline(&mut graph, &back.graph, &given)?;
    for (i, wanted) in operands.types.iter().enumerate() {
        if !wanted.dtype.is_float() {
            continue;
        }
        let cotangent = match of_arguments.get(i).filter(|_| i < operands.explicit) {
            Some(&cotangent) => cotangent,
            None => zeros(&mut graph, wanted)?,
        };
        let got = graph.ty(cotangent);
        if got != wanted {
            let message = format!("the rule gives a cotangent {got} for an argument {wanted}");
            return Err(Error::user(message).with_op("custom_vjp"));
        }
        graph.add_output(cotangent, "");
    }
    Ok(graph)
}

/// A call of the closure's graph, with its derivative, in the shape of its result.
fn finish<R: Tree>(
    built: Result<(Graph, Derivative), Error>,
    operands: &Operands,
    result: &R,
    at: At,
) -> R {
    match built {
        Ok((graph, derivative)) => call(graph, derivative, &operands.tensors, result, at),
        Err(error) => poison(result, &kiln_trace::fail(error, at)),
    }
}

fn call<R: Tree>(
    graph: Graph,
    derivative: Derivative,
    operands: &[Tensor],
    result: &R,
    at: At,
) -> R {
    let count = graph.outputs().len();
    if count == 0 {
        return result.map(&mut Tensor::clone);
    }
    let call = Call { graph: Arc::new(graph), derivative };
    let operands: Vec<&Tensor> = operands.iter().collect();
    rebuild(result, &mut Tensor::apply_all(call, &operands, count, at).into_iter())
}

/// Adds a call of `body` and returns its results.
fn inline(graph: &mut Graph, body: &Graph, operands: &[Value]) -> Result<Vec<Value>, Error> {
    let call = graph.add(Call::new(Arc::new(body.clone())), operands, None);
    let call = call.map_err(|e| Error::user(e.message()).with_op(e.op()))?;
    Ok(graph.results(call).collect())
}

fn zeros(graph: &mut Graph, ty: &Type) -> Result<Value, Error> {
    let fault = |e: kiln_ir::InferError| Error::internal(e.to_string());
    let value = Literal::scalar(Scalar::zero(ty.dtype));
    let zero = graph.add1(Constant { value }, &[], None).map_err(fault)?;
    let broadcast = Broadcast { shape: ty.shape.clone(), axes: vec![] };
    graph.add1(broadcast, &[zero], None).map_err(fault)
}
