//! Reverse mode: from results back to arguments.

use std::marker::PhantomData;

use kiln_ir::derive::graph as transform;
use kiln_trace::At;

use super::function::{Function, apply, check, poison, rebuild};
use crate::{DType, Error, Tensor, Tree};

/// What can be differentiated in reverse: a rank-0 float, alone or beside other results,
/// which are returned as they are.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a loss",
    note = "the closure returns a rank-0 float `Tensor`, or `(loss, aux)` with any tree beside it"
)]
pub trait Loss: Tree {
    /// The loss itself.
    fn loss(&self) -> &Tensor;
}

impl Loss for Tensor {
    fn loss(&self) -> &Tensor {
        self
    }
}

impl<A: Tree> Loss for (Tensor, A) {
    fn loss(&self) -> &Tensor {
        &self.0
    }
}

/// The value of a function and its gradient by `at`, a tree of floats.
///
/// The function returns a rank-0 float, or a pair of one and of anything else, which is
/// returned with it. What it captures is constant.
///
/// A mistake poisons the results.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::value_and_grad;
///
/// let x = Tensor::from([1.0f32, 2.0, 3.0]);
/// let (loss, gradient) = value_and_grad(|x: &Tensor| (x * x).sum(..), &x);
/// assert_eq!(loss.item::<f32>()?, 14.0);
/// assert_eq!(gradient.to_vec::<f32>()?, [2.0, 4.0, 6.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Panics
/// If no trace is open and the closure asks for the shape of a tensor that comes from a
/// mistake.
#[track_caller]
pub fn value_and_grad<T: Tree, L: Loss>(f: impl FnOnce(&T) -> L, at: &T) -> (L, T) {
    gradient(f, at, At::caller())
}

fn gradient<T: Tree, L: Loss>(f: impl FnOnce(&T) -> L, at: &T, caller: At) -> (L, T) {
    let function = match Function::trace("grad", at, Clone::clone, f, caller) {
        Ok(function) => function,
        Err((result, error)) => return (result, poison(at, &error)),
    };
    let derive = || -> Result<_, Error> {
        floats("grad", at)?;
        let outputs = function.graph.outputs();
        let dtype = loss_dtype(&function)?;
        let seeded: Vec<bool> = (0..outputs.len()).map(|i| i == 0).collect();
        let joint = transform::vjp(&function.graph, &function.is_explicit(), &seeded)?;
        let mut operands = function.operands(at);
        operands.push(Tensor::number(1.0, dtype, caller));
        Ok(apply(&joint, &operands, caller).into_iter())
    };
    match derive() {
        Ok(mut results) => (rebuild(&function.result, &mut results), rebuild(at, &mut results)),
        Err(error) => {
            let error = kiln_trace::fail(error, caller);
            (poison(&function.result, &error), poison(at, &error))
        }
    }
}

/// The type of the loss, which is the first result.
fn loss_dtype<L: Loss>(function: &Function<L>) -> Result<DType, Error> {
    let ty = function.graph.outputs().first().map(|&loss| function.graph.ty(loss));
    match ty {
        Some(ty) if ty.shape.rank() == 0 && ty.dtype.is_float() => Ok(ty.dtype),
        ty => {
            let got = ty.map_or("nothing".to_string(), |ty| ty.to_string());
            let message = format!("wants a rank-0 float to differentiate, got {got}");
            Err(Error::user(message).with_op("grad"))
        }
    }
}

/// The function's gradient, as a function.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::grad;
///
/// let slope = grad(|x: &Tensor| x.sin());
/// let curvature = grad(grad(|x: &Tensor| x.sin()));
/// let x = Tensor::from(1.0f32);
/// assert!((slope(&x).item::<f32>()? - 1f32.cos()).abs() < 1e-6);
/// assert!((curvature(&x).item::<f32>()? + 1f32.sin()).abs() < 1e-6);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn grad<T: Tree>(f: impl Fn(&T) -> Tensor) -> impl Fn(&T) -> T {
    let caller = At::caller();
    move |at| gradient(&f, at, caller).1
}

/// The result of a function, and what takes a cotangent of it back to the argument.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::vjp;
///
/// let x = Tensor::from([1.0f32, 2.0]);
/// let (y, back) = vjp(|x: &Tensor| x * x, &x);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 4.0]);
/// assert_eq!(back.call(&Tensor::from([1.0f32, 10.0])).to_vec::<f32>()?, [2.0, 40.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Panics
/// As [`value_and_grad`]; and if the argument has a leaf that is not a float.
#[track_caller]
pub fn vjp<T: Tree, R: Tree>(f: impl FnOnce(&T) -> R, at: &T) -> (R, Pullback<T, R>) {
    let caller = At::caller();
    let function = match Function::trace("vjp", at, Clone::clone, f, caller) {
        Ok(function) => function,
        Err((result, error)) => return (result, Pullback::failed(at, error)),
    };
    let graph = &function.graph;
    let (parameters, outputs) = (graph.parameters().len(), graph.outputs().len());
    let seeded: Vec<bool> =
        graph.outputs().iter().map(|&v| graph.ty(v).dtype.is_inexact()).collect();
    let derive = || -> Result<_, Error> {
        floats("vjp", at)?;
        let joint = transform::vjp(graph, &function.is_explicit(), &seeded)?;
        Ok(transform::split(&joint, parameters, outputs, &|_| true))
    };
    match derive() {
        Ok(parts) => {
            let mut results = apply(&parts.forward, &function.operands(at), caller);
            let residuals = results.split_off(outputs);
            let value = rebuild(&function.result, &mut results.into_iter());
            let back = Ok(Back { graph: parts.backward, residuals, seeded });
            (value, Pullback { back, argument: at.map(&mut Tensor::clone), _result: PhantomData })
        }
        Err(error) => {
            let error = kiln_trace::fail(error, caller);
            (poison(&function.result, &error), Pullback::failed(at, error))
        }
    }
}

/// Takes cotangents of a function's result back to its argument. It holds what the function
/// has computed and the way back needs.
pub struct Pullback<T, R> {
    back: Result<Back, Error>,
    argument: T,
    _result: PhantomData<fn(R)>,
}

struct Back {
    graph: kiln_ir::Graph,
    residuals: Vec<Tensor>,
    /// Which leaves of the result have a cotangent.
    seeded: Vec<bool>,
}

impl<T: Tree, R: Tree> Pullback<T, R> {
    fn failed(at: &T, error: Error) -> Pullback<T, R> {
        let argument = at.map(&mut Tensor::clone);
        Pullback { back: Err(error), argument, _result: PhantomData }
    }

    /// The argument's cotangent for a cotangent of the result: a tree of its structure and
    /// types. (Leaves that are not floats have none: what stands there is not looked at.)
    #[track_caller]
    pub fn call(&self, cotangent: &R) -> T {
        let caller = At::caller();
        let run = |back: &Back| {
            let leaves = cotangent.leaves().into_iter().zip(&back.seeded);
            let given = leaves.filter(|(_, seeded)| **seeded).map(|(leaf, _)| leaf.clone());
            let operands: Vec<Tensor> = back.residuals.iter().cloned().chain(given).collect();
            check(&back.graph, &operands, "vjp").map_err(|e| kiln_trace::fail(e, caller))?;
            Ok(apply(&back.graph, &operands, caller))
        };
        match self.back.as_ref().map_err(Error::clone).and_then(run) {
            Ok(results) => rebuild(&self.argument, &mut results.into_iter()),
            Err(error) => poison(&self.argument, &error),
        }
    }

    /// What is kept for the way back.
    pub fn residuals(&self) -> &[Tensor] {
        self.back.as_ref().map_or(&[], |back| &back.residuals)
    }
}

/// Whether all leaves are floats.
fn floats<T: Tree>(op: &str, at: &T) -> Result<(), Error> {
    for (path, leaf) in at.leaves_with_paths() {
        let ty = leaf.try_ty()?;
        if !ty.dtype.is_inexact() {
            let place = if path.is_empty() { String::new() } else { format!(" at `{path}`") };
            let message = format!(
                "differentiates by floats, got {ty}{place}: capture it, or pass it beside the \
                 argument that is differentiated by"
            );
            return Err(Error::user(message).with_op(op));
        }
    }
    Ok(())
}
