//! Ops whose value follows from the index alone.

use super::{Attrs, InferError, OpDef, Sample, Share, Types};
use crate::form::Generate;
use crate::{Form, Literal, Type};

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
        todo!()
    }

    fn parse(_name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        todo!()
    }

    fn infer(&self, _operands: &[&Type]) -> Result<Types, InferError> {
        todo!()
    }

    fn eval(&self, _operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        todo!()
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
        todo!()
    }

    fn parse(_name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        todo!()
    }

    fn infer(&self, _operands: &[&Type]) -> Result<Types, InferError> {
        todo!()
    }

    fn eval(&self, _operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        todo!()
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
