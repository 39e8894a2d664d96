//! Parameters and calls.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::{Attr, Attrs, InferError, OpDef, Sample, Share, Types, check};
use crate::eval::eval;
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
        Attrs::new()
    }

    fn parse(_name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        // Written in the graph's signature, not as an op.
        None
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [] = check::operands(op, operands)?;
        check::result(op, self.ty.dtype, self.ty.shape.clone())
    }

    fn eval(&self, _operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        unreachable!("the caller of a graph gives its parameters their values")
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
        let mut attrs = Attrs::new();
        attrs.push("graph", Attr::Graph(self.graph.clone()));
        attrs
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "call").then(|| Ok(Call { graph: attrs.take_graph("graph")? }))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let (callee, parameters) = (self.graph.name(), self.graph.parameters());
        if operands.len() != parameters.len() {
            let (wanted, given) = (parameters.len(), operands.len());
            let message = format!("@{callee} wants {wanted} operands, got {given}");
            return Err(InferError::new(op, message));
        }
        for (i, (parameter, &given)) in parameters.zip(operands).enumerate() {
            let wanted = self.graph.ty(parameter);
            if wanted != given {
                let name = match self.graph.parameter_info(i).name.as_str() {
                    "" => String::new(),
                    name => format!(" (%{name})"),
                };
                let message = format!("@{callee} wants {wanted} as operand {i}{name}, got {given}");
                return Err(InferError::new(op, message));
            }
        }
        Ok(self.graph.outputs().iter().map(|&v| self.graph.ty(v).clone()).collect())
    }

    fn eval(&self, operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        let arguments: Vec<Literal> = operands.iter().map(|&x| x.clone()).collect();
        eval(&self.graph, &arguments).expect("infer checked the arguments")
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
