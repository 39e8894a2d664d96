//! Operands one after the other.

use crate::form::View;
use crate::op::index::{ravel, unravel};
use crate::op::{Attrs, InferError, OpDef, Sample, Share, Types, check};
use crate::{Form, Literal, Type};

/// Joins one or more operands along an axis.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Concatenate {
    /// The joined axis.
    pub axis: usize,
}

impl OpDef for Concatenate {
    fn name(&self) -> &'static str {
        "concatenate"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().int("axis", self.axis)
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "concatenate").then(|| Ok(Concatenate { axis: attrs.take_int("axis")? }))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let Some((&first, rest)) = operands.split_first() else {
            return Err(InferError::new(op, "wants at least 1 operand, got 0"));
        };
        check::axis(op, self.axis, first)?;
        let mut joined = first.shape[self.axis];
        for (i, &ty) in rest.iter().enumerate() {
            let fits = ty.dtype == first.dtype
                && ty.shape.rank() == first.shape.rank()
                && ty.shape.without(&[self.axis]) == first.shape.without(&[self.axis]);
            if !fits {
                let message = format!(
                    "operands may differ in the extent of axis {} only: operand 0 {first}, \
                     operand {} {ty}",
                    self.axis,
                    i + 1
                );
                return Err(InferError::new(op, message));
            }
            joined = joined.saturating_add(ty.shape[self.axis]);
        }
        let mut shape = first.shape.to_vec();
        shape[self.axis] = joined;
        check::result(op, first.dtype, shape.into())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        vec![Literal::from_fn(results[0].clone(), |i| {
            let mut index = unravel(&results[0].shape, i);
            for x in operands {
                let extent = x.ty().shape[self.axis];
                if index[self.axis] < extent {
                    return x.get(ravel(&x.ty().shape, &index));
                }
                index[self.axis] -= extent;
            }
            unreachable!("the operands make up the result")
        })]
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::View(View::Concatenate { axis: self.axis })
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}
