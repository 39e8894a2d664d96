//! Conversion between element types.

use crate::derive::{
    Batch, Derived, NoRule, Results, Rule, batch,
    elementwise::{
        self,
        Direction::{Back, Forward},
    },
};
use crate::form::ScalarFn;
use crate::op::sample::TAILS;
use crate::op::{Attrs, Domain, InferError, OpDef, Sample, Share, Types, attr, check, sample};
use crate::{DType, Form, Literal, Scalar, Type, Value};

/// Converts elements to another type by the rules of `docs/numerics.md`. Complex numbers
/// become complex numbers only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Convert {
    /// The element type of the result.
    pub to: DType,
}

impl OpDef for Convert {
    fn name(&self) -> &'static str {
        "convert"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    fn parse(name: &str, _attrs: &mut Attrs, results: &[Type]) -> Option<Result<Self, String>> {
        (name == "convert").then(|| Ok(Convert { to: attr::result(results)?.dtype }))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x] = check::operands(op, operands)?;
        if x.dtype.is_complex() && !self.to.is_complex() {
            let message = format!(
                "{x} has an imaginary part, which {} cannot hold: take `real` or `abs` first",
                self.to
            );
            return Err(InferError::new(op, message));
        }
        check::result(op, self.to, x.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        vec![Literal::from_fn(results[0].clone(), |i| {
            let x = operands[0].get(i);
            if x.dtype().is_complex() {
                return Scalar::from_parts(self.to, x.real().as_f64(), x.imag().as_f64());
            }
            match x.as_i128() {
                Some(integer) => Scalar::from_i128(self.to, integer),
                None => Scalar::from_f64(self.to, x.as_f64()),
            }
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::convert(*self, rule, Forward, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::convert(*self, rule, Back, cotangents))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::elementwise(*self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Convert(self.to))
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for to in DType::ALL {
            for from in DType::ALL {
                if from.is_complex() && !to.is_complex() {
                    continue;
                }
                let extent = TAILS[samples.len() % TAILS.len()];
                samples.push(sample::one(Convert { to }, Type::new(from, [extent])));
                // Around the least and greatest values of the narrow integers.
                if from == DType::F32 && to.is_integer() {
                    let ty = Type::new(from, [129]);
                    samples.push(sample::alike(
                        Convert { to },
                        1,
                        ty,
                        Domain::Range(-300.0, 300.0),
                    ));
                }
            }
        }
        let f16 = Convert { to: DType::F16 };
        samples
            .extend(sample::shaped(DType::F32).map(|ty| sample::alike(f16, 1, ty, Domain::Small)));
        samples
    }
}
