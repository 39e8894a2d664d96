//! A strided box of the operand.

use smallvec::smallvec;

use crate::derive::{Batch, Derived, NoRule, Results, Rule, batch, movement};
use crate::form::View;
use crate::op::index::{ravel, unravel};
use crate::op::{Attrs, InferError, OpDef, Sample, Share, Types, check, sample};
use crate::{DType, Form, Literal, Type, Value};

/// Takes a strided box: indices `start`, `start + stride`, … below `limit`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Slice {
    /// First index on each axis.
    pub start: Vec<usize>,
    /// Exclusive end on each axis.
    pub limit: Vec<usize>,
    /// Step on each axis, at least 1.
    pub stride: Vec<usize>,
}

impl OpDef for Slice {
    fn name(&self) -> &'static str {
        "slice"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().ints("start", &self.start).ints("limit", &self.limit).ints_unless(
            "stride",
            &self.stride,
            &vec![1; self.stride.len()],
        )
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "slice").then(|| {
            let (start, limit) = (attrs.take_ints("start")?, attrs.take_ints("limit")?);
            let stride = attrs.take_ints_or("stride", &vec![1; start.len()])?;
            Ok(Slice { start, limit, stride })
        })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x] = check::operands(op, operands)?;
        check::per_axis(op, "start", self.start.len(), x)?;
        check::per_axis(op, "limit", self.limit.len(), x)?;
        check::per_axis(op, "stride", self.stride.len(), x)?;
        let mut shape = Vec::with_capacity(x.shape.rank());
        for (axis, &extent) in x.shape.iter().enumerate() {
            let (start, limit, stride) = (self.start[axis], self.limit[axis], self.stride[axis]);
            if start > limit || limit > extent {
                let message = format!("{start}..{limit} is not a range of {x} axis {axis}");
                return Err(InferError::new(op, message));
            }
            if stride == 0 {
                let message = format!("wants strides of at least 1, got 0 on axis {axis}");
                return Err(InferError::new(op, message));
            }
            shape.push((limit - start).div_ceil(stride));
        }
        check::result(op, x.dtype, shape.into())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let x = operands[0];
        vec![Literal::from_fn(results[0].clone(), |i| {
            let mut index = unravel(&results[0].shape, i);
            for (axis, at) in index.iter_mut().enumerate() {
                *at = self.start[axis] + self.stride[axis] * *at;
            }
            x.get(ravel(&x.ty().shape, &index))
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(movement::same(self.clone(), rule, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(cotangents[0]
            .map_or(smallvec![None; rule.operands.len()], |ct| movement::slice(self, rule, ct)))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::slice(self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::View(View::Slice { start: self.start.clone(), stride: self.stride.clone() })
    }

    fn samples() -> Vec<Sample> {
        let mut samples: Vec<Sample> = sample::typed([37])
            .map(|ty| sample::one(Slice { start: vec![3], limit: vec![36], stride: vec![1] }, ty))
            .collect();
        // Extents, start, limit, stride.
        type Case<'a> = (&'a [usize], &'a [usize], &'a [usize], &'a [usize]);
        let cases: [Case; 22] = [
            (&[], &[], &[], &[]),
            (&[0], &[0], &[0], &[1]),
            (&[9], &[9], &[9], &[1]),
            (&[9], &[4], &[4], &[3]),
            (&[9], &[0], &[9], &[1]),
            (&[9], &[8], &[9], &[1]),
            (&[130], &[1], &[130], &[1]),
            (&[130], &[0], &[129], &[2]),
            (&[130], &[1], &[130], &[2]),
            (&[130], &[5], &[127], &[7]),
            (&[130], &[0], &[130], &[200]),
            (&[7, 33], &[2, 0], &[5, 33], &[1, 1]),
            (&[7, 33], &[0, 1], &[7, 32], &[1, 1]),
            (&[7, 33], &[1, 3], &[7, 33], &[2, 3]),
            (&[7, 33], &[3, 4], &[3, 30], &[1, 1]),
            (&[3, 0], &[1, 0], &[3, 0], &[1, 1]),
            (&[1, 65], &[0, 1], &[1, 65], &[1, 1]),
            (&[2, 3, 17], &[1, 0, 1], &[2, 3, 17], &[1, 1, 1]),
            (&[2, 3, 17], &[0, 1, 0], &[2, 2, 17], &[1, 1, 4]),
            (&[4, 3, 2, 9], &[0, 0, 0, 0], &[4, 3, 2, 9], &[3, 2, 1, 1]),
            (&[4, 3, 2, 9], &[1, 1, 1, 1], &[3, 3, 2, 8], &[1, 1, 1, 1]),
            (&[4, 3, 2, 9], &[1, 1, 1, 1], &[4, 3, 2, 9], &[2, 1, 1, 5]),
        ];
        for (shape, start, limit, stride) in cases {
            let op =
                Slice { start: start.to_vec(), limit: limit.to_vec(), stride: stride.to_vec() };
            samples.push(sample::one(op, Type::new(DType::F32, shape)));
        }
        samples
    }
}
