//! Conversion between element types.

use crate::form::ScalarFn;
use crate::op::{Attrs, InferError, OpDef, Sample, Share, Types, attr, check};
use crate::{DType, Form, Literal, Scalar, Type};

/// Converts elements to another type by the rules of `docs/numerics.md`.
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
        check::result(op, self.to, x.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        vec![Literal::from_fn(results[0].clone(), |i| {
            let x = operands[0].get(i);
            match x.as_i128() {
                Some(integer) => Scalar::from_i128(self.to, integer),
                None => Scalar::from_f64(self.to, x.as_f64()),
            }
        })]
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Convert(self.to))
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}
