//! Reductions by a closure.

use std::sync::Arc;

use kiln_ir::op::{Binary, ReduceBy, ReduceKind, ReduceWindow, WindowCombine};
use kiln_ir::{DType, Graph, Op, Type};
use kiln_trace::At;

use super::function::Function;
use crate::tensor::{Window, resolve_axes};
use crate::{Axes, Tensor};

/// Folds tensors of one shape along axes by a closure, from `inits`: the closure is given
/// what it returned last and one element of each tensor, all scalars, in row-major order.
///
/// A closure that adds, multiplies, or takes the lesser or greater of its two arguments
/// becomes that reduction, whose order is that of `sum`, `prod`, `min` or `max`; the
/// initial value is combined with its result. All others run in order, to the bit.
///
/// ```
/// use kiln::prelude::*;
///
/// // The greatest element and where it is, of every column.
/// let x = Tensor::from([1.0f32, 7.0, 9.0, 3.0]).reshape([2, 2]);
/// let row = Tensor::iota([2, 2], 0, I32);
/// let (low, none) = (Tensor::from(f32::NEG_INFINITY), Tensor::from(-1i32));
/// let [best, at] = kiln::reduce([&x, &row], [&low, &none], 0, |[best, at], [x, row]| {
///     let better = x.gt(&best);
///     [better.select(&x, &best), better.select(&row, &at)]
/// });
/// assert_eq!(best.to_vec::<f32>()?, [9.0, 7.0]);
/// assert_eq!(at.to_vec::<i32>()?, [1, 0]);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Panics
/// If no trace is open and the closure asks for the shape of a tensor that comes from a
/// mistake.
#[track_caller]
pub fn reduce<const N: usize>(
    operands: [&Tensor; N],
    inits: [&Tensor; N],
    axes: impl Into<Axes>,
    body: impl FnOnce([Tensor; N], [Tensor; N]) -> [Tensor; N],
) -> [Tensor; N] {
    let (at, axes) = (At::caller(), axes.into());
    fold("reduce", operands, inits, body, at, |rank, body| {
        let axes = resolve_axes(&axes, rank)
            .ok_or_else(|| format!("{axes} is out of range, or named twice, for {rank} axes"))?;
        Ok(ReduceBy { body, axes }.into())
    })
}

/// Folds every window of tensors of one shape by a closure, from `inits`, which padding has
/// too; see [`reduce`].
///
/// # Panics
/// As [`reduce`].
#[track_caller]
pub fn reduce_window<const N: usize>(
    operands: [&Tensor; N],
    inits: [&Tensor; N],
    window: &Window,
    body: impl FnOnce([Tensor; N], [Tensor; N]) -> [Tensor; N],
) -> [Tensor; N] {
    let at = At::caller();
    let shape = operands.first().and_then(|x| Some(x.try_ty().ok()?.shape.to_vec()));
    fold("reduce_window", operands, inits, body, at, |_, body| {
        let window = window.on(&shape.unwrap_or_default());
        Ok(ReduceWindow { combine: WindowCombine::Body(body), window }.into())
    })
}

fn fold<const N: usize>(
    op: &'static str,
    operands: [&Tensor; N],
    inits: [&Tensor; N],
    body: impl FnOnce([Tensor; N], [Tensor; N]) -> [Tensor; N],
    at: At,
    make: impl FnOnce(usize, Arc<Graph>) -> Result<Op, String>,
) -> [Tensor; N] {
    let all = || operands.iter().chain(&inits);
    let failed = |message: String| -> [Tensor; N] {
        let poisoned = Tensor::fail(op, message, at);
        std::array::from_fn(|_| poisoned.clone())
    };
    if let Some(&&poisoned) = all().find(|t| t.error().is_some()).as_ref() {
        return std::array::from_fn(|_| poisoned.clone());
    }
    let Some(first) = operands.first() else { return failed("wants an array".to_string()) };
    let arguments = (inits.map(Tensor::clone), operands.map(Tensor::clone));
    let scalar = |ty: &Type| Type::new(ty.dtype, []);
    let trace = |args: &([Tensor; N], [Tensor; N])| body(args.0.clone(), args.1.clone());
    let function = match Function::trace("body", &arguments, scalar, trace, at) {
        Ok(function) => function,
        Err((poisoned, _)) => return poisoned,
    };
    if !function.captured.is_empty() {
        return failed(
            "its body uses a tensor from outside: only numbers and its arguments are at hand \
             there"
                .to_string(),
        );
    }
    let rank = first.ty().shape.rank();
    let made = make(rank, Arc::new(function.graph));
    let made = match made {
        Ok(made) => made,
        Err(message) => return failed(message),
    };
    if let Some(known) = known(&made, first.dtype()) {
        let reduced = Tensor::apply(known.0, &[first], at);
        let result = inits[0].broadcast_to(reduced.shape()).binary(known.1, &reduced, at);
        return std::array::from_fn(|_| result.clone());
    }
    let operands: Vec<&Tensor> = all().copied().collect();
    let mut results = Tensor::apply_all(made, &operands, N, at).into_iter();
    std::array::from_fn(|_| results.next().expect("a result for each array"))
}

/// The reduction that a body is, and how the initial value joins it.
fn known(op: &Op, dtype: DType) -> Option<(Op, Binary)> {
    let body = *op.graphs().first()?;
    let parameters: Vec<_> = body.parameters().collect();
    let (&[carry, element], &[output]) = (&parameters[..], body.outputs()) else { return None };
    let Op::Binary(binary) = body.op(output.node) else { return None };
    let operands = body.operands(output.node);
    if operands[..] != [carry, element] && operands[..] != [element, carry] {
        return None;
    }
    let kind = match binary {
        Binary::Add if dtype != DType::Bool => ReduceKind::Sum,
        Binary::Mul if dtype != DType::Bool => ReduceKind::Prod,
        Binary::Min => ReduceKind::Min,
        Binary::Max => ReduceKind::Max,
        Binary::And => ReduceKind::And,
        Binary::Or => ReduceKind::Or,
        Binary::Xor => ReduceKind::Xor,
        _ => return None,
    };
    // Padding has the initial value, not the identity: windows stay as they are.
    let Op::ReduceBy(reduce) = op else { return None };
    let op = kiln_ir::op::Reduce { kind, axes: reduce.axes.clone() };
    Some((op.into(), *binary))
}
