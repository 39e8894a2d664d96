//! Views that keep every element: broadcast and reshape.

use crate::form::View;
use crate::op::index::{Index, ravel, unravel};
use crate::op::{Attrs, InferError, OpDef, Sample, Share, Types, attr, check};
use crate::{Form, Literal, Shape, Type};

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

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::View(View::Broadcast { axes: self.axes.clone() })
    }

    fn samples() -> Vec<Sample> {
        todo!()
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

    fn share(&self) -> Share {
        Share::Bytes
    }

    fn lower(&self) -> Form {
        Form::View(View::Reshape)
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}
