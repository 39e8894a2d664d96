//! Batching: a function of one, applied to many at once.

use kiln_ir::Graph;
use kiln_ir::derive::graph as transform;
use kiln_trace::At;

use super::function::{Function, apply, poison, rebuild};
use crate::tensor::resolve_axis;
use crate::{Error, Tree, Type};

/// The function over a batch: each leaf of its argument has one axis more, the first, and so
/// has each leaf of the result. What it captures is the same for the whole batch.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::{grad, vmap};
///
/// let w = Tensor::from([1.0f32, 10.0]);
/// let dot = vmap(|x: &Tensor| (x * &w).sum(..));
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
/// assert_eq!(dot(&x).to_vec::<f32>()?, [21.0, 43.0, 65.0]);
///
/// // One gradient for each row.
/// let slopes = vmap(grad(|x: &Tensor| (x * x).sum(..)));
/// assert_eq!(slopes(&x).to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Panics
/// If no trace is open and the closure asks for the shape of a tensor that comes from a
/// mistake.
#[track_caller]
pub fn vmap<T: Tree, R: Tree>(f: impl Fn(&T) -> R) -> impl Fn(&T) -> R {
    over(f, 0, 0, At::caller())
}

/// As [`vmap`], with the batch along other axes: `axis` of each leaf of the argument, and
/// `out_axis` of each leaf of the result. Negative axes count from the last.
///
/// ```
/// use kiln::prelude::*;
/// use kiln::vmap_axes;
///
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// let sums = vmap_axes(|column: &Tensor| column.sum(..), 1, 0);
/// assert_eq!(sums(&x).to_vec::<f32>()?, [4.0, 6.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Panics
/// As [`vmap`].
#[track_caller]
pub fn vmap_axes<T: Tree, R: Tree>(
    f: impl Fn(&T) -> R,
    axis: i64,
    out_axis: i64,
) -> impl Fn(&T) -> R {
    over(f, axis, out_axis, At::caller())
}

fn over<T: Tree, R: Tree>(
    f: impl Fn(&T) -> R,
    axis: i64,
    out_axis: i64,
    caller: At,
) -> impl Fn(&T) -> R {
    move |args| batched(&f, args, axis, out_axis, caller)
}

pub(super) fn batched<T: Tree, R: Tree>(
    f: impl FnOnce(&T) -> R,
    args: &T,
    axis: i64,
    out_axis: i64,
    caller: At,
) -> R {
    let size = size(args, axis).map_err(|error| kiln_trace::fail(error, caller));
    let first = match &size {
        Ok(_) => args.map(&mut |leaf| leaf.moveaxis(axis, 0)),
        // The closure runs, on poisoned tensors, for the structure of its result.
        Err(error) => poison(args, error),
    };
    let entry = |ty: &Type| ty.with_shape(ty.shape[1..].to_vec());
    let function = match Function::trace("vmap", &first, entry, f, caller) {
        Ok(function) => function,
        Err((result, _)) => return result,
    };
    let derive = || -> Result<Graph, Error> {
        Ok(transform::vmap(&function.graph, &function.is_explicit(), size?)?)
    };
    match derive() {
        Ok(graph) => {
            let results = apply(&graph, &function.operands(&first), caller);
            let mut placed = results.into_iter().map(|leaf| leaf.moveaxis(0, out_axis));
            rebuild(&function.result, &mut placed)
        }
        Err(error) => poison(&function.result, &kiln_trace::fail(error, caller)),
    }
}

/// The extent of the batch, which all leaves agree on.
fn size<T: Tree>(args: &T, axis: i64) -> Result<usize, Error> {
    let mut agreed: Option<(String, usize)> = None;
    for (path, leaf) in args.leaves_with_paths() {
        let ty = leaf.try_ty()?;
        let place = if path.is_empty() { "the argument".to_string() } else { format!("`{path}`") };
        let Some(found) = resolve_axis(axis, ty.shape.rank()) else {
            let message = format!("wants an axis {axis} to batch over, got {ty} for {place}");
            return Err(Error::user(message).with_op("vmap"));
        };
        let extent = ty.shape[found];
        match &agreed {
            Some((other, size)) if *size != extent => {
                let message = format!("batches differ: {size} for {other}, {extent} for {place}");
                return Err(Error::user(message).with_op("vmap"));
            }
            _ => agreed = Some((place, extent)),
        }
    }
    let none = || Error::user("wants a tensor to batch over, got a tree without").with_op("vmap");
    agreed.map(|(_, size)| size).ok_or_else(none)
}
