//! Slices whose start is known only at run time.
//!
//! Starts are rank-0 integers, one for each axis, and clamp to `[0, extent - size]`
//! (C1 in `docs/numerics.md`).

use super::{Attrs, InferError, OpDef, Sample, Share, Types};
use crate::{Form, Literal, Type};

/// Takes a box of operand 0 at the starts given by operands 1...
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DynamicSlice {
    /// Extent taken on each axis.
    pub sizes: Vec<usize>,
}

/// Operand 0 with operand 1 written over it at the starts given by operands 2...
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DynamicUpdateSlice;

impl OpDef for DynamicSlice {
    fn name(&self) -> &'static str {
        "dynamic_slice"
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
        Form::DynamicSlice
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}

impl OpDef for DynamicUpdateSlice {
    fn name(&self) -> &'static str {
        "dynamic_update_slice"
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
        Share::Update
    }

    fn lower(&self) -> Form {
        Form::Update
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}
