//! Parameters, calls and barriers.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::smallvec;

use super::{Attr, Attrs, Binary, Domain, InferError, OpDef, Sample, Share, Types, check, sample};
use crate::derive::{self, Batch, Derived, NoRule, Results, Rule};
use crate::eval::eval;
use crate::{DType, Form, Graph, Literal, ParameterInfo, Type, Value};

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

/// The operands, unchanged. What comes before stays before and what comes after stays
/// after: nothing is merged, folded or fused across it, and whatever reads one of its
/// results runs after all of its operands are computed. JAX: `lax.optimization_barrier`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OptimizationBarrier;

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

    fn jvp(&self, _rule: &mut Rule<'_>, _tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        unreachable!("no operand could be differentiated")
    }

    fn vjp(&self, _rule: &mut Rule<'_>, _cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(smallvec![])
    }

    fn vmap(&self, _rule: &mut Rule<'_>, _batch: Batch<'_>) -> Result<Results, NoRule> {
        unreachable!("no operand could be batched")
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::Parameter
    }

    fn samples() -> Vec<Sample> {
        // Not an op that a program can apply: every sample of another op has some.
        vec![]
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

    fn jvp(&self, _rule: &mut Rule<'_>, _tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        unreachable!("transformations inline calls first")
    }

    fn vjp(&self, _rule: &mut Rule<'_>, _cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        unreachable!("transformations inline calls first")
    }

    fn vmap(&self, _rule: &mut Rule<'_>, _batch: Batch<'_>) -> Result<Results, NoRule> {
        unreachable!("transformations inline calls first")
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::Call(self.graph.clone())
    }

    fn samples() -> Vec<Sample> {
        // (x, y) -> (x + y, x, (x + y) * x): a value that is used twice, an operand that
        // is returned as it came.
        let callee = |ty: &Type| -> Result<Graph, InferError> {
            let mut graph = Graph::new("callee");
            let x = graph.add_parameter(ty.clone(), ParameterInfo::default());
            let y = graph.add_parameter(ty.clone(), ParameterInfo::default());
            let sum = graph.add1(Binary::Add, &[x, y], None)?;
            let product = graph.add1(Binary::Mul, &[sum, x], None)?;
            for output in [sum, x, product] {
                graph.add_output(output, "");
            }
            Ok(graph)
        };
        let types = sample::typed_tails().chain(sample::shaped(DType::F32));
        let mut samples: Vec<Sample> = types
            .map(|ty| {
                let graph = callee(&ty).expect("every type adds and multiplies");
                sample::alike(Call { graph: Arc::new(graph) }, 2, ty, Domain::Small)
            })
            .collect();
        // A call inside a call, and a callee without parameters or results.
        let ty = Type::new(DType::F32, [9]);
        let mut outer = Graph::new("outer");
        let x = outer.add_parameter(ty.clone(), ParameterInfo::default());
        let inner = Call { graph: Arc::new(callee(&ty).expect("floats add and multiply")) };
        let call = outer.add(inner, &[x, x], None).expect("the parameter has the callee's type");
        let results: Vec<Value> = outer.results(call).collect();
        outer.add_output(results[2], "");
        outer.add_output(results[0], "");
        samples.push(sample::alike(Call { graph: Arc::new(outer) }, 1, ty, Domain::Small));
        let empty = Call { graph: Arc::new(Graph::new("empty")) };
        samples.push(Sample { op: empty.into(), operands: vec![], domain: Domain::Any });
        samples
    }
}

impl OpDef for OptimizationBarrier {
    fn name(&self) -> &'static str {
        "optimization_barrier"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    fn parse(name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "optimization_barrier").then_some(Ok(OptimizationBarrier))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        Ok(operands.iter().map(|&ty| ty.clone()).collect())
    }

    fn eval(&self, operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        operands.iter().map(|&x| x.clone()).collect()
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(derive::sort::barrier(rule, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(derive::sort::barrier(rule, cotangents))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(derive::sort::barrier_vmap(rule, batch))
    }

    fn share(&self) -> Share {
        // Each result is its operand's buffer, not only the first: see `Form::Barrier`.
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::Barrier
    }

    fn samples() -> Vec<Sample> {
        let one = sample::typed_tails().map(|ty| sample::one(OptimizationBarrier, ty));
        let many = sample::shaped(DType::F32).map(|ty| {
            let operands = vec![ty.clone(), Type::new(DType::I8, [7]), ty];
            Sample { op: OptimizationBarrier.into(), operands, domain: Domain::Any }
        });
        one.chain(many).collect()
    }
}
