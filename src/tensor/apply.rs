//! The one place where an op becomes a node of the open trace or a lazy
//! expression.

use kiln_ir::{Literal, Op};
use kiln_trace::{At, Traced};
use smallvec::{SmallVec, smallvec};

use super::{Repr, Tensor};
use crate::lazy::Lazy;
use crate::{DType, Error, Scalar};

impl Tensor {
    /// The op applied to the operands. With a trace open on this thread it is
    /// recorded there, whatever the operands are; concrete ones are captured.
    ///
    /// The first result of an op that has several.
    pub(crate) fn apply(op: impl Into<Op>, operands: &[&Tensor], at: At) -> Tensor {
        Tensor::apply_some(op.into(), operands, at).remove(0)
    }

    /// As [`Tensor::apply`], for all of the op's `count` results. A mistake poisons each.
    pub(crate) fn apply_all(
        op: impl Into<Op>,
        operands: &[&Tensor],
        count: usize,
        at: At,
    ) -> Vec<Tensor> {
        let mut results = Tensor::apply_some(op.into(), operands, at).into_vec();
        if results.first().is_some_and(|first| first.error().is_some()) {
            results = vec![results.remove(0); count];
        }
        assert_eq!(results.len(), count, "the op has as many results");
        results
    }

    /// All results, or one that a mistake has poisoned.
    fn apply_some(op: Op, operands: &[&Tensor], at: At) -> SmallVec<[Tensor; 1]> {
        if let Some(poisoned) = operands.iter().find(|t| t.error().is_some()) {
            return smallvec![(*poisoned).clone()];
        }
        let traced = operands.iter().any(|t| t.is_traced());
        if !traced && !kiln_trace::is_open() {
            return Lazy::expressions(op, operands, at);
        }
        if !kiln_trace::is_open() {
            let message = "a traced tensor is used outside the closure that made it, \
                           or on another thread: return it from the closure instead";
            return smallvec![Tensor::fail(op.name(), message, at)];
        }
        let lifted: Result<Vec<Traced>, Error> = operands.iter().map(|t| lift(t, at)).collect();
        let recorded = lifted.and_then(|lifted| {
            let operands: Vec<&Traced> = lifted.iter().collect();
            kiln_trace::record(op, &operands, at)
        });
        match recorded {
            Ok(results) => results.into_iter().map(Tensor::traced).collect(),
            Err(error) => smallvec![Tensor::poisoned(error)],
        }
    }

    /// The poisoned result of a mistake in the use of `op`.
    pub(crate) fn fail(op: &str, message: impl Into<String>, at: At) -> Tensor {
        Tensor::poisoned(kiln_trace::fail(Error::user(message).with_op(op), at))
    }

    /// Like [`Tensor::fail`], with the lines that the operands come from.
    pub(crate) fn fail_operands(
        op: &str,
        message: impl Into<String>,
        operands: &[(&str, &Tensor)],
        at: At,
    ) -> Tensor {
        let mut error = Error::user(message).with_op(op);
        for (name, operand) in operands {
            let Ok(ty) = operand.try_ty() else { continue };
            let label = format!("{name} {ty}");
            error = match operand.repr() {
                Repr::Traced(traced) => kiln_trace::blame(error, &label, traced),
                Repr::Lazy(lazy) => match lazy.source() {
                    Some(source) => error.with_origin(label, source),
                    None => error,
                },
                _ => error,
            };
        }
        Tensor::poisoned(kiln_trace::fail(error, at))
    }

    /// A constant of the program, as opposed to a number that a run is fed: what
    /// methods use for numbers of their own.
    pub(crate) fn constant(value: Literal, at: At) -> Tensor {
        Tensor::apply(kiln_ir::op::Constant { value }, &[], at)
    }

    /// The rank-0 constant `x` of an element type.
    pub(crate) fn number(x: f64, dtype: DType, at: At) -> Tensor {
        Tensor::constant(Literal::scalar(Scalar::from_f64(dtype, x)), at)
    }
}

/// The tensor as a value of the innermost open trace: itself, a constant for a
/// number, or a hidden parameter for what is on the device.
pub(crate) fn lift(tensor: &Tensor, at: At) -> Result<Traced, Error> {
    match tensor.repr() {
        Repr::Traced(traced) => Ok((**traced).clone()),
        Repr::Scalar(scalar) => kiln_trace::constant(Literal::scalar(*scalar), at),
        Repr::Array(array) => Ok(capture(tensor, array.id())),
        Repr::Lazy(lazy) => {
            let array = lazy.evaluate().map_err(|e| kiln_trace::fail(e, at))?;
            Ok(capture(&Tensor::array(array.clone()), array.id()))
        }
        Repr::Spec(ty) => {
            let message = format!("a spec ({ty}) has no value to compute with");
            Err(kiln_trace::fail(Error::user(message), at))
        }
        Repr::Poisoned(error) => Err(kiln_trace::fail(error.clone(), at)),
    }
}

fn capture(tensor: &Tensor, id: u64) -> Traced {
    let payload = || Box::new(tensor.clone()) as Box<dyn std::any::Any>;
    kiln_trace::capture(id, tensor.ty(), String::new(), payload)
}
