//! Ops whose value follows from the index alone.

use smallvec::smallvec;

use super::index::unravel;
use super::{Attr, Attrs, Domain, InferError, OpDef, Sample, Share, Types, attr, check, sample};
use crate::derive::{Batch, Derived, NoRule, Results, Rule};
use crate::form::Generate;
use crate::{DType, Form, Literal, Scalar, Type, Value};

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

/// Elements at the ends of a type, and some between.
fn edges(dtype: DType) -> Vec<Scalar> {
    if dtype.is_complex() {
        let parts = edges(dtype.part());
        let pairs = parts.iter().flat_map(|&re| [0, 3, 15].map(|k| (re, parts[k])));
        pairs.map(|(re, im)| Scalar::complex(re, im)).collect()
    } else if dtype.is_float() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let tiny = [1e-45, 1e-310, 5e-8, 1e-40];
        let plain = [0.0, -0.0, 1.0, -1.0, 0.1, 1.0 / 3.0, 65504.0, 3.4e38, 1e308];
        let all = plain.into_iter().chain(tiny).chain([inf, -inf, nan, -nan]);
        all.map(|x| Scalar::from_f64(dtype, x)).collect()
    } else {
        // Wrapped to the type, these include its least and its greatest value.
        let powers = [7, 8, 15, 16, 31, 32, 63, 64].map(|bits| 1i128 << bits);
        let around = powers.into_iter().flat_map(|p| [p - 1, p]);
        let all = [0, 1, -1, 2, 100].into_iter().chain(around);
        all.map(|x| Scalar::from_i128(dtype, x)).collect()
    }
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
        Form::Generate(Generate::Constant(self.value.clone()))
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut add = |value: Literal| {
            let op = Constant { value }.into();
            samples.push(Sample { op, operands: vec![], domain: Domain::Any });
        };
        for dtype in DType::ALL {
            let edges = edges(dtype);
            add(Literal::from_fn(Type::new(dtype, [edges.len()]), |i| edges[i]));
            add(Literal::scalar(edges[1]));
            add(Literal::splat(Type::new(dtype, [33]), *edges.last().expect("edges")));
        }
        for ty in sample::shaped(DType::F32) {
            add(Literal::from_fn(ty, |i| Scalar::from_f64(DType::F32, i as f64 * 0.37 - 11.0)));
        }
        samples
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
        Form::Generate(Generate::Iota { axis: self.axis })
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut add = |ty: Type, axis: usize| {
            let op = Iota { ty, axis }.into();
            samples.push(Sample { op, operands: vec![], domain: Domain::Any });
        };
        // 300 elements wrap 8-bit integers and pass the integers that bf16 holds.
        for ty in sample::typed([300]).filter(|ty| ty.dtype != DType::Bool) {
            add(ty, 0);
        }
        for ty in sample::shaped(DType::F32).chain(sample::shaped(DType::I32)) {
            (0..ty.shape.rank()).for_each(|axis| add(ty.clone(), axis));
        }
        samples
    }
}
