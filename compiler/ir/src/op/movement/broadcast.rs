//! Views that keep every element: broadcast and reshape.

use smallvec::smallvec;

use crate::derive::{Batch, Derived, NoRule, Results, Rule, batch, movement};
use crate::form::View;
use crate::op::index::{Index, ravel, unravel};
use crate::op::{Attrs, InferError, OpDef, Sample, Share, Types, attr, check, sample};
use crate::{DType, Form, Literal, Shape, Type, Value};

/// Repeats the operand: operand axis `k` becomes result axis `axes[k]`, and an
/// operand axis of extent 1 stretches. JAX: `broadcast_in_dim`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Broadcast {
    /// The result's shape.
    pub shape: Shape,
    /// One result axis for each operand axis, strictly increasing.
    pub axes: Vec<usize>,
}

/// The same elements in row-major order under another shape.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reshape {
    /// The result's shape: as many elements.
    pub shape: Shape,
}

impl OpDef for Broadcast {
    fn name(&self) -> &'static str {
        "broadcast"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().ints_unless("axes", &self.axes, &[])
    }

    fn parse(name: &str, attrs: &mut Attrs, results: &[Type]) -> Option<Result<Self, String>> {
        (name == "broadcast").then(|| {
            let axes = attrs.take_ints_or("axes", &[])?;
            Ok(Broadcast { shape: attr::result(results)?.shape.clone(), axes })
        })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x] = check::operands(op, operands)?;
        let result = x.with_shape(self.shape.clone());
        check::per_axis(op, "axes", self.axes.len(), x)?;
        check::increasing_axes(op, &self.axes, &result)?;
        for (axis, &to) in self.axes.iter().enumerate() {
            let (given, wanted) = (x.shape[axis], self.shape[to]);
            if given != wanted && given != 1 {
                let message = format!(
                    "an axis keeps its extent or has extent 1: {x} axis {axis} is {given}, \
                     {result} axis {to} is {wanted}"
                );
                return Err(InferError::new(op, message));
            }
        }
        check::result(op, result.dtype, result.shape)
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let x = operands[0];
        vec![Literal::from_fn(results[0].clone(), |i| {
            let index = unravel(&results[0].shape, i);
            let from: Index = (x.ty().shape.iter().zip(&self.axes))
                .map(|(&extent, &axis)| if extent == 1 { 0 } else { index[axis] })
                .collect();
            x.get(ravel(&x.ty().shape, &from))
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(movement::same(self.clone(), rule, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(cotangents[0]
            .map_or(smallvec![None; rule.operands.len()], |ct| movement::broadcast(self, rule, ct)))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::broadcast(self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::View(View::Broadcast { axes: self.axes.clone() })
    }

    fn samples() -> Vec<Sample> {
        let mut samples: Vec<Sample> = sample::typed([17])
            .map(|ty| sample::one(Broadcast { shape: [3, 17].into(), axes: vec![1] }, ty))
            .collect();
        let cases: [(&[usize], &[usize], &[usize]); 21] = [
            (&[], &[], &[]),
            (&[], &[], &[129]),
            (&[], &[], &[2, 3, 4, 5]),
            (&[], &[], &[0, 3]),
            (&[1], &[0], &[65]),
            (&[1], &[0], &[0]),
            (&[0], &[0], &[0]),
            (&[0], &[1], &[3, 0]),
            (&[0], &[0], &[0, 3]),
            (&[7], &[0], &[7, 33]),
            (&[33], &[1], &[7, 33]),
            (&[7, 1], &[0, 1], &[7, 33]),
            (&[1, 33], &[0, 1], &[7, 33]),
            (&[1, 1], &[0, 1], &[3, 31]),
            (&[1, 0], &[0, 1], &[4, 0]),
            (&[7, 9], &[0, 1], &[7, 9]),
            (&[3], &[1], &[2, 3, 5]),
            (&[2, 5], &[0, 2], &[2, 3, 5]),
            (&[1, 3, 1], &[0, 1, 2], &[2, 3, 4]),
            (&[1, 3, 1, 16], &[0, 1, 2, 3], &[2, 3, 4, 16]),
            (&[3, 1], &[1, 3], &[2, 3, 2, 8]),
        ];
        for (from, axes, to) in cases {
            let op = Broadcast { shape: to.into(), axes: axes.to_vec() };
            samples.push(sample::one(op, Type::new(DType::F32, from)));
        }
        samples
    }
}

impl OpDef for Reshape {
    fn name(&self) -> &'static str {
        "reshape"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    fn parse(name: &str, _attrs: &mut Attrs, results: &[Type]) -> Option<Result<Self, String>> {
        (name == "reshape").then(|| Ok(Reshape { shape: attr::result(results)?.shape.clone() }))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x] = check::operands(op, operands)?;
        // Both can be counted.
        check::result(op, x.dtype, x.shape.clone())?;
        let types = check::result(op, x.dtype, self.shape.clone())?;
        let (given, wanted) = (x.elements(), types[0].elements());
        if given != wanted {
            let message = format!("{x} has {given} elements, {} has {wanted}", types[0]);
            return Err(InferError::new(op, message));
        }
        Ok(types)
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        vec![operands[0].reshaped(results[0].shape.clone())]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(movement::same(self.clone(), rule, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(cotangents[0]
            .map_or(smallvec![None; rule.operands.len()], |ct| movement::reshape(rule, ct)))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::reshape(self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Bytes
    }

    fn lower(&self) -> Form {
        Form::View(View::Reshape)
    }

    fn samples() -> Vec<Sample> {
        let mut samples: Vec<Sample> = sample::typed([6, 5])
            .map(|ty| sample::one(Reshape { shape: [3, 10].into() }, ty))
            .collect();
        let cases: [(&[usize], &[usize]); 16] = [
            (&[], &[]),
            (&[], &[1]),
            (&[], &[1, 1, 1]),
            (&[1, 1], &[]),
            (&[0], &[0]),
            (&[0], &[3, 0, 2]),
            (&[2, 0], &[0]),
            (&[129], &[129, 1]),
            (&[1, 129], &[129]),
            (&[7, 9], &[63]),
            (&[63], &[9, 7]),
            (&[4, 9], &[9, 4]),
            (&[2, 3, 5], &[6, 5]),
            (&[2, 3, 5], &[5, 3, 2]),
            (&[2, 3, 4, 5], &[120]),
            (&[120], &[5, 4, 3, 2]),
        ];
        for (from, to) in cases {
            samples.push(sample::one(Reshape { shape: to.into() }, Type::new(DType::F32, from)));
        }
        samples
    }
}
