//! The bits of an element as another type.

use crate::derive::{
    Batch, Derived, NoRule, Results, Rule, batch,
    elementwise::{
        self,
        Direction::{Back, Forward},
    },
};
use crate::form::ScalarFn;
use crate::op::sample::TAILS;
use crate::op::{Attrs, InferError, OpDef, Sample, Share, Types, attr, check, sample};
use crate::{DType, Form, Literal, Scalar, Type, Value};

/// The same bits as elements of another type of equal width.
///
/// Other widths are compositions: the façade's `bitcast_convert_type` adds or drops an
/// axis, as StableHLO does. `bool` takes no part: only two of its byte's patterns are
/// values. What bits a NaN has that was computed is not specified, and so neither is
/// what this makes of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BitcastConvert {
    /// The element type of the result.
    pub to: DType,
}

impl OpDef for BitcastConvert {
    fn name(&self) -> &'static str {
        "bitcast_convert"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    fn parse(name: &str, _attrs: &mut Attrs, results: &[Type]) -> Option<Result<Self, String>> {
        (name == "bitcast_convert").then(|| Ok(BitcastConvert { to: attr::result(results)?.dtype }))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x] = check::operands(op, operands)?;
        let bool = x.dtype == DType::Bool || self.to == DType::Bool;
        for dtype in [x.dtype, self.to] {
            let real = x.with_dtype(dtype);
            check::dtype(op, &real, |d| !d.is_complex(), "bits of real numbers")?;
        }
        if bool || x.dtype.size() != self.to.size() {
            let message =
                format!("wants types of one width other than bool, got {x} to {}", self.to);
            return Err(InferError::new(op, message));
        }
        check::result(op, self.to, x.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        vec![Literal::from_fn(results[0].clone(), |i| {
            Scalar::from_bits(self.to, operands[0].get(i).bits())
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::bitcast(*self, rule, Forward, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::bitcast(*self, rule, Back, cotangents))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::elementwise(*self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Bitcast(self.to))
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        for to in DType::ALL {
            for from in DType::ALL {
                let op = BitcastConvert { to };
                let ty = Type::new(from, [TAILS[samples.len() % TAILS.len()]]);
                if op.infer(&[&ty]).is_ok() {
                    samples.push(sample::one(op, ty));
                }
            }
        }
        let bits = BitcastConvert { to: DType::U32 };
        samples.extend(sample::shaped(DType::F32).map(|ty| sample::one(bits, ty)));
        samples
    }
}
