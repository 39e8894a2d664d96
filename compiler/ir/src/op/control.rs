//! Parameters and barriers.

use smallvec::smallvec;

use super::{Attrs, Domain, InferError, OpDef, Sample, Share, Types, check, sample};
use crate::derive::{self, Batch, Derived, NoRule, Results, Rule};
use crate::{DType, Form, Literal, Type, Value};

/// A parameter of the graph. Made by `Graph::add_parameter` alone.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Parameter {
    /// Its type.
    pub ty: Type,
}

/// The operands, unchanged. What comes before stays before and what comes after stays
/// after: nothing is merged, folded or fused across it, and whatever reads one of its
/// results runs after all of its operands are computed. JAX: `lax.optimization_barrier`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OptimizationBarrier;

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
