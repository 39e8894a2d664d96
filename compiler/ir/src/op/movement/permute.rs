//! Views that reorder elements: transpose and reverse.

use smallvec::smallvec;

use crate::derive::{Batch, Derived, NoRule, Results, Rule, batch, movement};
use crate::form::View;
use crate::op::index::{ravel, unravel};
use crate::op::{Attrs, InferError, OpDef, Sample, Share, Types, check, sample};
use crate::{DType, Form, Literal, Type, Value};

/// Permutes axes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Transpose {
    /// Result axis `k` is operand axis `permutation[k]`.
    pub permutation: Vec<usize>,
}

/// Runs axes backwards.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reverse {
    /// The reversed axes, strictly increasing.
    pub axes: Vec<usize>,
}

impl OpDef for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().ints("permutation", &self.permutation)
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "transpose")
            .then(|| Ok(Transpose { permutation: attrs.take_ints("permutation")? }))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x] = check::operands(op, operands)?;
        check::per_axis(op, "permutation", self.permutation.len(), x)?;
        let mut sorted = self.permutation.clone();
        sorted.sort_unstable();
        if sorted.iter().enumerate().any(|(i, &axis)| i != axis) {
            let message = format!("wants each axis of {x} once, got {:?}", self.permutation);
            return Err(InferError::new(op, message));
        }
        let shape = self.permutation.iter().map(|&axis| x.shape[axis]).collect();
        check::result(op, x.dtype, shape)
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let x = operands[0];
        vec![Literal::from_fn(results[0].clone(), |i| {
            let index = unravel(&results[0].shape, i);
            let mut from = index.clone();
            for (axis, &to) in self.permutation.iter().enumerate() {
                from[to] = index[axis];
            }
            x.get(ravel(&x.ty().shape, &from))
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(movement::same(self.clone(), rule, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(cotangents[0]
            .map_or(smallvec![None; rule.operands.len()], |ct| movement::transpose(self, rule, ct)))
    }

    fn vmap(&self, rule: &mut Rule<'_>, _batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::transpose(self, rule))
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::View(View::Transpose { permutation: self.permutation.clone() })
    }

    fn samples() -> Vec<Sample> {
        let mut samples: Vec<Sample> = sample::typed([9, 17])
            .map(|ty| sample::one(Transpose { permutation: vec![1, 0] }, ty))
            .collect();
        let cases: [(&[usize], &[usize]); 22] = [
            (&[], &[]),
            (&[0], &[0]),
            (&[129], &[0]),
            (&[3, 0], &[1, 0]),
            (&[1, 33], &[1, 0]),
            (&[33, 1], &[1, 0]),
            (&[7, 9], &[0, 1]),
            (&[31, 65], &[1, 0]),
            (&[64, 64], &[1, 0]),
            (&[8, 127], &[1, 0]),
            (&[3, 5, 17], &[0, 1, 2]),
            (&[3, 5, 17], &[0, 2, 1]),
            (&[3, 5, 17], &[1, 0, 2]),
            (&[3, 5, 17], &[1, 2, 0]),
            (&[3, 5, 17], &[2, 0, 1]),
            (&[3, 5, 17], &[2, 1, 0]),
            (&[2, 0, 3], &[2, 0, 1]),
            (&[2, 3, 4, 9], &[0, 2, 1, 3]),
            (&[2, 3, 4, 9], &[0, 1, 3, 2]),
            (&[2, 3, 4, 9], &[3, 2, 1, 0]),
            (&[2, 3, 4, 9], &[2, 3, 0, 1]),
            (&[1, 3, 1, 8], &[3, 0, 2, 1]),
        ];
        for (shape, permutation) in cases {
            let op = Transpose { permutation: permutation.to_vec() };
            samples.push(sample::one(op, Type::new(DType::F32, shape)));
        }
        samples
    }
}

impl OpDef for Reverse {
    fn name(&self) -> &'static str {
        "reverse"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().ints("axes", &self.axes)
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "reverse").then(|| Ok(Reverse { axes: attrs.take_ints("axes")? }))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x] = check::operands(op, operands)?;
        check::increasing_axes(op, &self.axes, x)?;
        check::result(op, x.dtype, x.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let x = operands[0];
        vec![Literal::from_fn(results[0].clone(), |i| {
            let mut index = unravel(&results[0].shape, i);
            for &axis in &self.axes {
                index[axis] = x.ty().shape[axis] - 1 - index[axis];
            }
            x.get(ravel(&x.ty().shape, &index))
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(movement::same(self.clone(), rule, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(cotangents[0]
            .map_or(smallvec![None; rule.operands.len()], |ct| movement::reverse(self, rule, ct)))
    }

    fn vmap(&self, rule: &mut Rule<'_>, _batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::reverse(self, rule))
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::View(View::Reverse { axes: self.axes.clone() })
    }

    fn samples() -> Vec<Sample> {
        let mut samples: Vec<Sample> =
            sample::typed_tails().map(|ty| sample::one(Reverse { axes: vec![0] }, ty)).collect();
        let cases: [(&[usize], &[usize]); 15] = [
            (&[], &[]),
            (&[0], &[0]),
            (&[7], &[]),
            (&[1], &[0]),
            (&[7, 33], &[0]),
            (&[7, 33], &[1]),
            (&[7, 33], &[0, 1]),
            (&[3, 0], &[0, 1]),
            (&[1, 17], &[0]),
            (&[2, 3, 16], &[1]),
            (&[2, 3, 16], &[0, 2]),
            (&[2, 3, 16], &[0, 1, 2]),
            (&[2, 3, 4, 9], &[3]),
            (&[2, 3, 4, 9], &[0, 2]),
            (&[2, 3, 4, 9], &[0, 1, 2, 3]),
        ];
        for (shape, axes) in cases {
            samples
                .push(sample::one(Reverse { axes: axes.to_vec() }, Type::new(DType::F32, shape)));
        }
        samples
    }
}
