//! Operands one after the other.

use smallvec::smallvec;

use crate::derive::{Batch, Derived, NoRule, Results, Rule, batch, movement};
use crate::form::View;
use crate::op::index::{ravel, unravel};
use crate::op::{Attrs, Domain, InferError, OpDef, Sample, Share, Types, check};
use crate::{DType, Form, Literal, Type, Value};

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

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(movement::same_of_all(self.clone(), rule, tangents, tangents.len()))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(cotangents[0].map_or(smallvec![None; rule.operands.len()], |ct| {
            movement::concatenate(self, rule, ct)
        }))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::concatenate(self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::View(View::Concatenate { axis: self.axis })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut add = |dtype: DType, axis: usize, shapes: &[&[usize]]| {
            let operands = shapes.iter().map(|&shape| Type::new(dtype, shape)).collect();
            samples.push(Sample { op: Concatenate { axis }.into(), operands, domain: Domain::Any });
        };
        for dtype in DType::ALL {
            add(dtype, 0, &[&[17], &[8], &[1]]);
        }
        add(DType::F32, 0, &[&[129]]);
        add(DType::F32, 0, &[&[0]]);
        add(DType::F32, 0, &[&[0], &[0]]);
        add(DType::F32, 0, &[&[0], &[7], &[0], &[2]]);
        add(DType::F32, 0, &[&[64], &[65]]);
        add(DType::F32, 0, &[&[127], &[1], &[1]]);
        add(DType::F32, 0, &[&[3], &[1], &[2], &[1], &[3], &[1], &[2], &[1], &[3]]);
        add(DType::F32, 0, &[&[3, 9], &[2, 9]]);
        add(DType::F32, 1, &[&[3, 9], &[3, 31], &[3, 1]]);
        add(DType::F32, 1, &[&[7, 0], &[7, 16]]);
        add(DType::F32, 1, &[&[0, 2], &[0, 3]]);
        add(DType::F32, 1, &[&[1, 33], &[1, 15]]);
        add(DType::F32, 0, &[&[2, 3, 8], &[1, 3, 8]]);
        add(DType::F32, 1, &[&[2, 3, 8], &[2, 1, 8]]);
        add(DType::F32, 2, &[&[2, 3, 8], &[2, 3, 7]]);
        add(DType::F32, 0, &[&[1, 2, 3, 5], &[2, 2, 3, 5]]);
        add(DType::F32, 2, &[&[2, 2, 3, 5], &[2, 2, 1, 5], &[2, 2, 0, 5]]);
        add(DType::F32, 3, &[&[2, 2, 3, 5], &[2, 2, 3, 12]]);
        samples
    }
}
