//! Ops whose value follows from the index alone.

use super::index::unravel;
use super::{Attr, Attrs, InferError, OpDef, Sample, Share, Types, attr, check};
use crate::form::Generate;
use crate::{Form, Literal, Scalar, Type};

/// A literal. Equal only to a literal of the same bits.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Constant {
    /// The value.
    pub value: Literal,
}

/// `result[i] = i[axis]`, converted to the element type (integers wrap).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Iota {
    /// The result type.
    pub ty: Type,
    /// Which index counts.
    pub axis: usize,
}

impl OpDef for Constant {
    fn name(&self) -> &'static str {
        "constant"
    }

    fn attrs(&self) -> Attrs {
        // One element stands for an array of equal ones: zeros print as one zero.
        let value = &self.value;
        let splat = value.ty().elements() > 1 && value.iter().all(|s| s == value.get(0));
        let value = if splat { Literal::scalar(value.get(0)) } else { value.clone() };
        let mut attrs = Attrs::new();
        attrs.push("value", Attr::Literal(value));
        attrs
    }

    fn parse(name: &str, attrs: &mut Attrs, results: &[Type]) -> Option<Result<Self, String>> {
        (name == "constant").then(|| {
            let ty = attr::result(results)?;
            let value = attrs.take_literal("value")?;
            if value.ty() == ty {
                Ok(Constant { value })
            } else if *value.ty() == Type::scalar(ty.dtype) {
                check::result("constant", ty.dtype, ty.shape.clone())
                    .map_err(|e| e.message().to_string())?;
                Ok(Constant { value: Literal::splat(ty.clone(), value.get(0)) })
            } else {
                Err(format!("attribute `value` is {}, the result {ty}", value.ty()))
            }
        })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [] = check::operands(op, operands)?;
        check::result(op, self.value.ty().dtype, self.value.ty().shape.clone())
    }

    fn eval(&self, _operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        vec![self.value.clone()]
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::Generate(Generate::Constant(self.value.clone()))
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}

impl OpDef for Iota {
    fn name(&self) -> &'static str {
        "iota"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().int("axis", self.axis)
    }

    fn parse(name: &str, attrs: &mut Attrs, results: &[Type]) -> Option<Result<Self, String>> {
        (name == "iota")
            .then(|| Ok(Iota { ty: attr::result(results)?.clone(), axis: attrs.take_int("axis")? }))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [] = check::operands(op, operands)?;
        check::number(op, &self.ty)?;
        check::axis(op, self.axis, &self.ty)?;
        check::result(op, self.ty.dtype, self.ty.shape.clone())
    }

    fn eval(&self, _operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        vec![Literal::from_fn(results[0].clone(), |i| {
            let index = unravel(&results[0].shape, i);
            Scalar::from_i128(self.ty.dtype, index[self.axis] as i128)
        })]
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::Generate(Generate::Iota { axis: self.axis })
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}
