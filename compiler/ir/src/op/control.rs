//! Parameters and calls.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::{Attrs, InferError, OpDef, Sample, Share, Types};
use crate::{Form, Graph, Literal, Type};

/// A parameter of the graph. Made by `Graph::add_parameter` alone.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Parameter {
    /// Its type.
    pub ty: Type,
}

/// Applies another graph to the operands; its outputs are the results.
#[derive(Clone, Debug)]
pub struct Call {
    /// The callee.
    pub graph: Arc<Graph>,
}

impl PartialEq for Call {
    fn eq(&self, other: &Call) -> bool {
        Arc::ptr_eq(&self.graph, &other.graph)
    }
}

impl Eq for Call {}

impl Hash for Call {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.graph).hash(state);
    }
}

impl OpDef for Parameter {
    fn name(&self) -> &'static str {
        "parameter"
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
        Form::Parameter
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}

impl OpDef for Call {
    fn name(&self) -> &'static str {
        "call"
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
        Form::Call(self.graph.clone())
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}
