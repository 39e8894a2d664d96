//! An operand spread out in a field of one value.

use smallvec::smallvec;

use crate::derive::{Batch, Derived, NoRule, Results, Rule, batch, movement};
use crate::form::View;
use crate::op::index::{Index, ravel, unravel};
use crate::op::{Attrs, Domain, InferError, OpDef, Sample, Share, Types, check, sample};
use crate::{DType, Form, Literal, Type, Value};

/// Surrounds operand 0 with operand 1, a scalar, and puts `interior` of it between
/// neighbours. Negative `low` and `high` cut. JAX: `lax.pad`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pad {
    /// Elements before the first on each axis; negative removes.
    pub low: Vec<i64>,
    /// Elements after the last on each axis; negative removes.
    pub high: Vec<i64>,
    /// Elements between neighbours on each axis.
    pub interior: Vec<usize>,
}

impl Pad {
    /// The index along `axis` of the element of `x` that lands on `at`, if one does.
    fn source(&self, axis: usize, at: usize, x: &Type) -> Option<usize> {
        let inside = at as i128 - self.low[axis] as i128;
        let step = self.interior[axis] as i128 + 1;
        let from = usize::try_from(inside / step).ok()?;
        (inside >= 0 && inside % step == 0 && from < x.shape[axis]).then_some(from)
    }
}

impl OpDef for Pad {
    fn name(&self) -> &'static str {
        "pad"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().signed("low", &self.low).signed("high", &self.high).ints_unless(
            "interior",
            &self.interior,
            &vec![0; self.interior.len()],
        )
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "pad").then(|| {
            let (low, high) = (attrs.take_signed("low")?, attrs.take_signed("high")?);
            let interior = attrs.take_ints_or("interior", &vec![0; low.len()])?;
            Ok(Pad { low, high, interior })
        })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x, value] = check::operands(op, operands)?;
        if *value != Type::scalar(x.dtype) {
            let wanted = Type::scalar(x.dtype);
            return Err(InferError::new(
                op,
                format!("wants {wanted} to pad {x} with, got {value}"),
            ));
        }
        check::per_axis(op, "low", self.low.len(), x)?;
        check::per_axis(op, "high", self.high.len(), x)?;
        check::per_axis(op, "interior", self.interior.len(), x)?;
        let mut shape = Vec::with_capacity(x.shape.rank());
        for (axis, &extent) in x.shape.iter().enumerate() {
            let (low, high, interior) = (self.low[axis], self.high[axis], self.interior[axis]);
            // Exact in i128: each term is below 2^127.
            let spread = extent as i128 + extent.saturating_sub(1) as i128 * interior as i128;
            let padded = spread + low as i128 + high as i128;
            let Ok(padded) = usize::try_from(padded) else {
                let message = format!(
                    "low {low}, high {high} and interior {interior} give {x} axis {axis} \
                     the extent {padded}"
                );
                return Err(InferError::new(op, message));
            };
            shape.push(padded);
        }
        check::result(op, x.dtype, shape.into())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let [x, value] = operands else { unreachable!("infer counts operands") };
        vec![Literal::from_fn(results[0].clone(), |i| {
            let index = unravel(&results[0].shape, i);
            let from: Option<Index> =
                (0..index.len()).map(|axis| self.source(axis, index[axis], x.ty())).collect();
            from.map_or(value.get(0), |from| x.get(ravel(&x.ty().shape, &from)))
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(movement::same_of_all(self.clone(), rule, tangents, 2))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(cotangents[0].map_or(smallvec![None, None], |ct| movement::pad(self, rule, ct)))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::pad(self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::View(View::Pad { low: self.low.clone(), interior: self.interior.clone() })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut add = |ty: Type, low: &[i64], high: &[i64], interior: &[usize]| {
            let op = Pad { low: low.to_vec(), high: high.to_vec(), interior: interior.to_vec() };
            let operands = vec![ty.clone(), Type::scalar(ty.dtype)];
            samples.push(Sample { op: op.into(), operands, domain: Domain::Any });
        };
        for ty in sample::typed_tails() {
            add(ty.clone(), &[2], &[1], &[0]);
            add(ty, &[1], &[0], &[2]);
        }
        // Extents, low, high, interior.
        type Case<'a> = (&'a [usize], &'a [i64], &'a [i64], &'a [usize]);
        let cases: [Case; 22] = [
            (&[], &[], &[], &[]),
            (&[0], &[0], &[0], &[0]),
            (&[0], &[3], &[4], &[5]),
            (&[1], &[0], &[0], &[9]),
            (&[9], &[0], &[0], &[0]),
            (&[9], &[-2], &[0], &[0]),
            (&[9], &[0], &[-2], &[0]),
            (&[9], &[-4], &[-5], &[0]),
            (&[9], &[-5], &[130], &[0]),
            (&[9], &[-9], &[3], &[0]),
            (&[9], &[-12], &[5], &[0]),
            (&[9], &[4], &[-11], &[0]),
            (&[9], &[-3], &[-2], &[2]),
            (&[9], &[-4], &[1], &[3]),
            (&[7, 33], &[1, 0], &[0, 2], &[0, 0]),
            (&[7, 33], &[-1, 2], &[2, -3], &[1, 0]),
            (&[7, 33], &[0, 0], &[0, 0], &[0, 1]),
            (&[3, 0], &[1, 2], &[0, 0], &[0, 0]),
            (&[1, 17], &[2, -1], &[0, 1], &[3, 0]),
            (&[2, 3, 8], &[0, 1, 0], &[1, 0, 7], &[0, 2, 0]),
            (&[2, 3, 2, 8], &[1, 0, 0, 1], &[0, 1, 0, 0], &[0, 0, 1, 0]),
            (&[2, 3, 2, 8], &[-1, 0, 1, -2], &[1, -1, 0, 4], &[1, 0, 0, 1]),
        ];
        for (shape, low, high, interior) in cases {
            add(Type::new(DType::F32, shape), low, high, interior);
        }
        samples
    }
}
