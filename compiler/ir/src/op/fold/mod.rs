//! Combining in an order that the op fixes: reductions with any body, windows, and
//! running results along an axis.
//!
//! | file | holds |
//! |---|---|
//! | `reduce_by` | several operands combined along axes by a body |
//! | `window` | the same, or one of the known kinds, in every window of an array |
//! | `cumulative` | running sums, products, extrema and log-sum-exps |
//!
//! A *body* is a graph of scalars: `(carry 0, .., carry n-1, element 0, .., element n-1)`
//! to the next carries. It holds elementwise ops and constants only, so that every
//! backend can compute it in a register ([`check_body`]). A fold with a body starts from
//! its initial values and takes elements in row-major order, one after the other: that
//! is a definition to the bit, whatever the body.

mod cumulative;
mod reduce_by;
mod samples;
mod window;

pub use cumulative::{Cumulative, CumulativeKind};
pub use reduce_by::ReduceBy;
pub use window::{ReduceWindow, Window, WindowCombine};

use std::sync::Arc;

use super::InferError;
use crate::eval::eval;
use crate::form::Generate;
use crate::{Form, Graph, Literal, Scalar, Type};

/// The operands `2n` of a fold with a body as `n` arrays and `n` initial values.
fn halves<'o, 'a>(
    op: &'static str,
    operands: &'o [&'a Type],
) -> Result<(&'o [&'a Type], &'o [&'a Type]), InferError> {
    let n = operands.len() / 2;
    if n == 0 || operands.len() != 2 * n {
        let message =
            format!("wants n arrays and then n initial values, got {} operands", operands.len());
        return Err(InferError::new(op, message));
    }
    let (arrays, inits) = operands.split_at(n);
    for (i, (array, init)) in arrays.iter().zip(inits).enumerate() {
        if array.shape != arrays[0].shape {
            let message = format!("operands differ in shape: {}, {array}", arrays[0]);
            return Err(InferError::new(op, message));
        }
        if init.shape.rank() != 0 || init.dtype != array.dtype {
            let message = format!("wants a {} as initial value {i}, got {init}", array.dtype);
            return Err(InferError::new(op, message));
        }
    }
    Ok((arrays, inits))
}

/// Whether `body` maps carries and elements of the types `scalars` to next carries, by
/// elementwise ops and constants alone.
fn check_body(op: &'static str, body: &Graph, scalars: &[&Type]) -> Result<(), InferError> {
    let name = body.name();
    let refuse = |message: String| Err(InferError::new(op, message));
    let wanted: Vec<&Type> = scalars.iter().chain(scalars).copied().collect();
    let given: Vec<&Type> = body.parameters().map(|p| body.ty(p)).collect();
    let list = |types: &[&Type]| types.iter().map(|t| t.to_string()).collect::<Vec<_>>().join(", ");
    if given != wanted {
        let message = format!("@{name} takes ({}), wanted ({})", list(&given), list(&wanted));
        return refuse(message);
    }
    let results: Vec<&Type> = body.outputs().iter().map(|&v| body.ty(v)).collect();
    if results != scalars {
        let message = format!("@{name} returns ({}), wanted ({})", list(&results), list(scalars));
        return refuse(message);
    }
    for node in body.order() {
        let scalar = body.types(node).iter().all(|ty| ty.shape.rank() == 0);
        let plain = matches!(
            body.op(node).lower(),
            Form::Parameter | Form::Map(_) | Form::Generate(Generate::Constant(_))
        );
        if !scalar || !plain {
            let message =
                format!("@{name} holds `{}`: bodies are elementwise ops of scalars", body.op(node));
            return refuse(message);
        }
        // A fold's body is computed as it stands: nothing takes it apart.
        if let Some(ty) = body.types(node).iter().find(|ty| ty.dtype.is_complex()) {
            return refuse(format!("@{name} computes {ty}: bodies know no complex numbers"));
        }
    }
    Ok(())
}

/// The next carries: `body` of the carries and one element of each array.
fn step(body: &Graph, carries: &[Scalar], elements: impl Iterator<Item = Scalar>) -> Vec<Scalar> {
    let arguments: Vec<Literal> =
        carries.iter().copied().chain(elements).map(Literal::scalar).collect();
    let results = eval(body, &arguments).expect("infer checked the body");
    results.iter().map(|literal| literal.get(0)).collect()
}

/// Whether two bodies are one. Graphs have no equality of their own.
fn same_body(a: &Arc<Graph>, b: &Arc<Graph>) -> bool {
    Arc::ptr_eq(a, b)
}
