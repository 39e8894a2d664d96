//! Ops that move elements without computing on them.

use super::{Attrs, InferError, OpDef, Sample, Share, Types};
use crate::form::View;
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

/// Permutes axes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Transpose {
    /// Result axis `k` is operand axis `permutation[k]`.
    pub permutation: Vec<usize>,
}

/// Runs axes backwards.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reverse {
    /// The reversed axes, strictly increasing.
    pub axes: Vec<usize>,
}

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

/// Joins one or more operands along an axis.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Concatenate {
    /// The joined axis.
    pub axis: usize,
}

impl OpDef for Broadcast {
    fn name(&self) -> &'static str {
        "broadcast"
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
        Share::Bytes
    }

    fn lower(&self) -> Form {
        Form::View(View::Reshape)
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}

impl OpDef for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
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
        Form::View(View::Transpose { permutation: self.permutation.clone() })
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}

impl OpDef for Reverse {
    fn name(&self) -> &'static str {
        "reverse"
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
        Form::View(View::Reverse { axes: self.axes.clone() })
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}

impl OpDef for Slice {
    fn name(&self) -> &'static str {
        "slice"
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
        Form::View(View::Slice { start: self.start.clone(), stride: self.stride.clone() })
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}

impl OpDef for Pad {
    fn name(&self) -> &'static str {
        "pad"
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
        Form::View(View::Pad { low: self.low.clone(), interior: self.interior.clone() })
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}

impl OpDef for Concatenate {
    fn name(&self) -> &'static str {
        "concatenate"
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
        Form::View(View::Concatenate { axis: self.axis })
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}
