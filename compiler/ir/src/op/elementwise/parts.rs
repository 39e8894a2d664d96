//! Complex numbers from their parts, and their parts.

use crate::derive::elementwise::Direction::{Back, Forward};
use crate::derive::{Batch, Derived, NoRule, Results, Rule, batch, elementwise};
use crate::form::ScalarFn;
use crate::op::{Attrs, Domain, InferError, Op, OpDef, Sample, Share, Types, check, sample};
use crate::{DType, Form, Literal, Scalar, Type, Value};

/// The complex number of real part operand 0 and imaginary part operand 1, which are
/// both `f32` or both `f64`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Complex;

/// One part of a complex number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Part {
    /// The real part.
    Real,
    /// The imaginary part.
    Imag,
}

impl Part {
    /// Both, as they lie in memory.
    pub const ALL: [Part; 2] = [Part::Real, Part::Imag];

    /// The name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Real => "real",
            Part::Imag => "imag",
        }
    }

    /// Its place among the parts of an element in memory.
    pub const fn offset(self) -> usize {
        match self {
            Part::Real => 0,
            Part::Imag => 1,
        }
    }

    /// The part of a number.
    pub fn of(self, x: Scalar) -> Scalar {
        match self {
            Part::Real => x.real(),
            Part::Imag => x.imag(),
        }
    }
}

impl OpDef for Complex {
    fn name(&self) -> &'static str {
        "complex"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    fn parse(name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "complex").then_some(Ok(Complex))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [re, im] = check::operands(op, operands)?;
        check::same(op, re, im)?;
        let Some(dtype) = re.dtype.complex() else {
            return Err(InferError::new(op, format!("wants parts of f32 or f64, got {re}")));
        };
        check::result(op, dtype, re.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        vec![Literal::from_fn(results[0].clone(), |i| {
            Scalar::complex(operands[0].get(i), operands[1].get(i))
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::complex(*self, rule, Forward, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::complex(*self, rule, Back, cotangents))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::elementwise(*self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Complex)
    }

    fn samples() -> Vec<Sample> {
        let mut samples = sample::elementwise(&[Op::Complex(Complex)], 2);
        for ty in sample::shaped(DType::F32).chain(sample::shaped(DType::F64)) {
            samples.push(sample::alike(Complex, 2, ty, Domain::Any));
        }
        samples
    }
}

impl OpDef for Part {
    fn name(&self) -> &'static str {
        Part::name(*self)
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    fn parse(name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        Part::ALL.into_iter().find(|part| part.name() == name).map(Ok)
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x] = check::operands(op, operands)?;
        check::complex(op, x)?;
        check::result(op, x.dtype.part(), x.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        vec![Literal::from_fn(results[0].clone(), |i| self.of(operands[0].get(i)))]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::part(*self, rule, Forward, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(elementwise::part(*self, rule, Back, cotangents))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::elementwise(*self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Part(*self))
    }

    fn samples() -> Vec<Sample> {
        let mut samples = sample::elementwise(&Part::ALL.map(Op::Part), 1);
        for ty in sample::shaped(DType::C64).chain(sample::shaped(DType::C128)) {
            samples.extend(Part::ALL.map(|part| sample::one(part, ty.clone())));
        }
        samples
    }
}
