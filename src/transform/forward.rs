//! Forward mode: from arguments on to results.

use kiln_ir::derive::graph as transform;
use kiln_trace::At;

use super::function::{Function, apply, check, poison, rebuild};
use crate::{Error, Tensor, Tree};

/// The result of a function at `at`, and how it changes along `tangent`.
///
/// Leaves of the result that are not floats do not change: zeros stand there.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::jvp;
///
/// let (x, dx) = (Tensor::from([1.0f32, 2.0]), Tensor::from([1.0f32, 10.0]));
/// let (y, dy) = jvp(|x: &Tensor| x * x, &x, &dx);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 4.0]);
/// assert_eq!(dy.to_vec::<f32>()?, [2.0, 40.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Panics
/// If no trace is open and the closure asks for the shape of a tensor that comes from a
/// mistake.
#[track_caller]
pub fn jvp<T: Tree, R: Tree>(f: impl FnOnce(&T) -> R, at: &T, tangent: &T) -> (R, R) {
    let caller = At::caller();
    let function = match Function::trace("jvp", at, Clone::clone, f, caller) {
        Ok(function) => function,
        Err((result, error)) => return (poison(&result, &error), result),
    };
    let derive = || -> Result<_, Error> {
        let joint = transform::jvp(&function.graph, &float_parameters(&function))?;
        let mut operands = function.operands(at);
        operands.extend(float_leaves(at, tangent));
        check(&joint, &operands, "jvp")?;
        Ok(apply(&joint, &operands, caller).into_iter())
    };
    match derive() {
        Ok(mut results) => {
            let value = rebuild(&function.result, &mut results);
            let change = tangents(&value, &mut results, caller);
            (value, change)
        }
        Err(error) => {
            let error = kiln_trace::fail(error, caller);
            (poison(&function.result, &error), poison(&function.result, &error))
        }
    }
}

/// The result of a function at `at`, and its derivative there as a linear function of
/// tangents, which may be applied to many without computing the function again.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::linearize;
///
/// let x = Tensor::from([1.0f32, 2.0]);
/// let (y, slope) = linearize(|x: &Tensor| x * x, &x);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 4.0]);
/// assert_eq!(slope.call(&Tensor::from([1.0f32, 10.0])).to_vec::<f32>()?, [2.0, 40.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Panics
/// As [`jvp`].
#[track_caller]
pub fn linearize<T: Tree, R: Tree>(f: impl FnOnce(&T) -> R, at: &T) -> (R, Pushforward<T, R>) {
    let caller = At::caller();
    let function = match Function::trace("linearize", at, Clone::clone, f, caller) {
        Ok(function) => function,
        Err((result, error)) => {
            let slope = Pushforward::failed(at, &result, error);
            return (result, slope);
        }
    };
    let graph = &function.graph;
    match transform::jvp(graph, &float_parameters(&function)) {
        Ok(joint) => {
            let (parameters, outputs) = (graph.parameters().len(), graph.outputs().len());
            let parts = transform::split(&joint, parameters, outputs, &|_| true);
            let mut results = apply(&parts.forward, &function.operands(at), caller);
            let residuals = results.split_off(outputs);
            let value = rebuild(&function.result, &mut results.into_iter());
            let argument = at.map(&mut Tensor::clone);
            let result = value.map(&mut Tensor::clone);
            let linear = Ok((parts.backward, residuals));
            (value, Pushforward { linear, argument, result })
        }
        Err(missing) => {
            let error = kiln_trace::fail(missing.into(), caller);
            let result = poison(&function.result, &error);
            let slope = Pushforward::failed(at, &result, error);
            (result, slope)
        }
    }
}

/// The derivative of a function at a point: takes tangents of the argument to tangents of
/// the result.
pub struct Pushforward<T, R> {
    /// The linear function of residuals and tangents, and the residuals.
    linear: Result<(kiln_ir::Graph, Vec<Tensor>), Error>,
    argument: T,
    result: R,
}

impl<T: Tree, R: Tree> Pushforward<T, R> {
    fn failed(at: &T, result: &R, error: Error) -> Pushforward<T, R> {
        let argument = at.map(&mut Tensor::clone);
        Pushforward { linear: Err(error), argument, result: result.map(&mut Tensor::clone) }
    }

    /// How the result changes along `tangent`, a tree like the argument.
    #[track_caller]
    pub fn call(&self, tangent: &T) -> R {
        let caller = At::caller();
        let run = |(linear, residuals): &(kiln_ir::Graph, Vec<Tensor>)| {
            let mut operands = residuals.clone();
            operands.extend(float_leaves(&self.argument, tangent));
            check(linear, &operands, "linearize").map_err(|e| kiln_trace::fail(e, caller))?;
            Ok(apply(linear, &operands, caller))
        };
        match self.linear.as_ref().map_err(Error::clone).and_then(run) {
            Ok(results) => tangents(&self.result, &mut results.into_iter(), caller),
            Err(error) => poison(&self.result, &error),
        }
    }
}

/// Whether each parameter has a tangent: arguments that are floats.
fn float_parameters<R: Tree>(function: &Function<R>) -> Vec<bool> {
    let parameters = function.graph.parameters().enumerate();
    parameters
        .map(|(i, p)| i < function.explicit && function.graph.ty(p).dtype.is_inexact())
        .collect()
}

/// The leaves of `tangent` where those of `at` are floats.
fn float_leaves<T: Tree>(at: &T, tangent: &T) -> Vec<Tensor> {
    let is_float = |leaf: &Tensor| leaf.try_ty().is_ok_and(|ty| ty.dtype.is_inexact());
    let pairs = at.leaves().into_iter().zip(tangent.leaves());
    pairs.filter(|(leaf, _)| is_float(leaf)).map(|(_, tangent)| tangent.clone()).collect()
}

/// A tree of tangents like `value`: zeros where it is not a float.
fn tangents<R: Tree>(value: &R, results: &mut impl Iterator<Item = Tensor>, at: At) -> R {
    value.map(&mut |leaf| match leaf.try_ty() {
        Ok(ty) if ty.dtype.is_inexact() => results.next().expect("a tangent for each float"),
        Ok(ty) => Tensor::number(0.0, ty.dtype, at).broadcast_to(ty.shape.clone()),
        Err(error) => Tensor::poisoned(error),
    })
}
