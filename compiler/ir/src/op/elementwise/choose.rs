//! Comparing elements, and choosing between them.

use std::cmp::Ordering;

use smallvec::smallvec;

use super::order::{compare, greater, lesser};
use crate::derive::{
    Batch, Derived, NoRule, Results, Rule, batch,
    elementwise::{
        self,
        Direction::{Back, Forward},
    },
};
use crate::form::ScalarFn;
use crate::op::{Attrs, Domain, InferError, Op, OpDef, Sample, Share, Types, check, sample};
use crate::{DType, Form, Literal, Scalar, Type, Value};

/// A comparison of two elements of one type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Compare {
    /// Equal; false if either is NaN.
    Eq,
    /// Not equal; true if either is NaN.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

impl Compare {
    /// Every one.
    pub const ALL: [Compare; 6] =
        [Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge];

    /// The name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            Compare::Eq => "eq",
            Compare::Ne => "ne",
            Compare::Lt => "lt",
            Compare::Le => "le",
            Compare::Gt => "gt",
            Compare::Ge => "ge",
        }
    }
}

/// `operand0 ? operand1 : operand2`; operand 0 is `bool` and of the same shape.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Select;

/// `min(max(value, low), high)` of operands low, value, high, all of one
/// type and shape. NaN in any gives NaN.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Clamp;

impl OpDef for Compare {
    fn name(&self) -> &'static str {
        Compare::name(*self)
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    fn parse(name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        Compare::ALL.into_iter().find(|op| op.name() == name).map(Ok)
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [a, b] = check::operands(op, operands)?;
        check::same(op, a, b)?;
        if !matches!(self, Compare::Eq | Compare::Ne) {
            check::ordered(op, a)?;
        }
        check::result(op, DType::Bool, a.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        vec![Literal::from_fn(results[0].clone(), |i| {
            let ordering = compare(operands[0].get(i), operands[1].get(i));
            Scalar::bool(match self {
                Compare::Eq => ordering == Some(Ordering::Equal),
                Compare::Ne => ordering != Some(Ordering::Equal),
                Compare::Lt => ordering.is_some_and(Ordering::is_lt),
                Compare::Le => ordering.is_some_and(Ordering::is_le),
                Compare::Gt => ordering.is_some_and(Ordering::is_gt),
                Compare::Ge => ordering.is_some_and(Ordering::is_ge),
            })
        })]
    }

    fn jvp(&self, _rule: &mut Rule<'_>, _tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(smallvec![None])
    }

    fn vjp(&self, _rule: &mut Rule<'_>, _cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(smallvec![None, None])
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::elementwise(*self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Compare(*self))
    }

    fn samples() -> Vec<Sample> {
        let mut samples = sample::elementwise(&Compare::ALL.map(Op::Compare), 2);
        for op in Compare::ALL {
            // Operands that are equal now and then.
            for dtype in [DType::I8, DType::F16] {
                samples.push(sample::alike(op, 2, Type::new(dtype, [129]), Domain::Small));
            }
        }
        samples.extend(
            sample::shapes().into_iter().map(|shape| {
                sample::alike(Compare::Lt, 2, Type::new(DType::F32, shape), Domain::Any)
            }),
        );
        samples
    }
}

impl OpDef for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    fn parse(name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "select").then_some(Ok(Select))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [chooser, yes, no] = check::operands(op, operands)?;
        check::dtype(op, chooser, |d| d == DType::Bool, "a bool as operand 0")?;
        check::same(op, yes, no)?;
        if chooser.shape != yes.shape {
            let message =
                format!("wants operand 0 in the shape of the others, got {chooser} for {yes}");
            return Err(InferError::new(op, message));
        }
        check::result(op, yes.dtype, yes.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        vec![Literal::from_fn(results[0].clone(), |i| {
            let chosen = if operands[0].get(i) == Scalar::bool(true) { 1 } else { 2 };
            operands[chosen].get(i)
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::select(*self, rule, Forward, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::select(*self, rule, Back, cotangents))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::elementwise(*self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Select)
    }

    fn samples() -> Vec<Sample> {
        let types = sample::typed_tails().chain(sample::shaped(DType::F32));
        types
            .map(|ty| {
                let operands = vec![ty.with_dtype(DType::Bool), ty.clone(), ty];
                Sample { op: Select.into(), operands, domain: Domain::Any }
            })
            .collect()
    }
}

impl OpDef for Clamp {
    fn name(&self) -> &'static str {
        "clamp"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    fn parse(name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "clamp").then_some(Ok(Clamp))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [low, value, high] = check::operands(op, operands)?;
        if low != value || high != value {
            let message = format!("wants one type, got low {low}, value {value}, high {high}");
            return Err(InferError::new(op, message));
        }
        check::ordered(op, value)?;
        check::result(op, value.dtype, value.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let [low, value, high] = operands else { unreachable!("infer counts operands") };
        vec![Literal::from_fn(results[0].clone(), |i| {
            lesser(greater(value.get(i), low.get(i)), high.get(i))
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::clamp(*self, rule, Forward, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::clamp(*self, rule, Back, cotangents))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::elementwise(*self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Clamp)
    }

    fn samples() -> Vec<Sample> {
        let ordered = sample::typed_tails().filter(|ty| !ty.dtype.is_complex());
        let types = ordered.chain(sample::shaped(DType::F32));
        types
            .flat_map(|ty| {
                [Domain::Any, Domain::Small]
                    .map(|domain| sample::alike(Clamp, 3, ty.clone(), domain))
            })
            .collect()
    }
}
