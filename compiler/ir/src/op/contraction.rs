//! Sums of products.

use smallvec::smallvec;

use super::accumulate::Sum;
use super::elementwise::complex::Number;
use super::index::{Index, indices, ravel, unravel};
use super::{Attrs, Domain, InferError, OpDef, Sample, Share, Types, attr, check};
use crate::derive::{Batch, Derived, NoRule, Results, Rule, batch, contraction};
use crate::{DType, Form, Literal, Scalar, Type, Value};

/// Which axes of the two operands of a product are paired.
///
/// The result's axes are the batch axes, then the free axes of the left operand,
/// then those of the right, each in operand order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DotDims {
    /// Batch axes of the left operand.
    pub lhs_batch: Vec<usize>,
    /// Batch axes of the right operand, paired with `lhs_batch` in order.
    pub rhs_batch: Vec<usize>,
    /// Contracted axes of the left operand.
    pub lhs_contract: Vec<usize>,
    /// Contracted axes of the right operand, paired with `lhs_contract` in order.
    pub rhs_contract: Vec<usize>,
}

impl DotDims {
    /// The pairing of a plain matrix product `[m, k] x [k, n]`.
    pub fn matmul() -> DotDims {
        DotDims {
            lhs_batch: vec![],
            rhs_batch: vec![],
            lhs_contract: vec![1],
            rhs_contract: vec![0],
        }
    }

    /// The free axes of an operand of rank `rank`: those in neither list, in order.
    pub fn free(rank: usize, batch: &[usize], contract: &[usize]) -> Vec<usize> {
        (0..rank).filter(|a| !batch.contains(a) && !contract.contains(a)).collect()
    }
}

/// Batched contraction of two operands of one type. Half types accumulate in `f32`;
/// integers wrap. JAX: `lax.dot_general` with `preferred_element_type`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DotGeneral {
    /// The pairing of axes.
    pub dims: DotDims,
    /// The result's element type.
    pub dtype: DType,
}

/// Whether sums of products of `from` may be formed in `to`: a type that holds
/// every value of `from`.
fn holds(from: DType, to: DType) -> bool {
    let wider = to.bits() > from.bits();
    from == to
        || match (from, to) {
            (from, to) if from.is_float() && to.is_float() => wider,
            (from, to) if from.is_complex() && to.is_complex() => wider,
            (from, to) if from.is_signed_integer() => to.is_signed_integer() && wider,
            (from, to) if from.is_unsigned() => to.is_integer() && wider,
            _ => false,
        }
}

/// The axes of one operand: in range, none twice.
fn operand_axes(
    op: &'static str,
    side: &str,
    ty: &Type,
    batch: &[usize],
    contract: &[usize],
) -> Result<(), InferError> {
    let mut seen = vec![false; ty.shape.rank()];
    for &axis in batch.iter().chain(contract) {
        check::axis(op, axis, ty)?;
        if std::mem::replace(&mut seen[axis], true) {
            let message = format!("{side} {ty} axis {axis} is paired twice");
            return Err(InferError::new(op, message));
        }
    }
    Ok(())
}

/// Axes paired one with one, of equal extents.
fn paired(
    op: &'static str,
    what: &str,
    (lhs, lhs_axes): (&Type, &[usize]),
    (rhs, rhs_axes): (&Type, &[usize]),
) -> Result<(), InferError> {
    if lhs_axes.len() != rhs_axes.len() {
        let message = format!("{what} axes differ in number: lhs {lhs_axes:?}, rhs {rhs_axes:?}");
        return Err(InferError::new(op, message));
    }
    for (&a, &b) in lhs_axes.iter().zip(rhs_axes) {
        let (m, n) = (lhs.shape[a], rhs.shape[b]);
        if m != n {
            let message = format!(
                "{what} axes differ in length: lhs {lhs} axis {a} is {m}, rhs {rhs} axis {b} is {n}"
            );
            return Err(InferError::new(op, message));
        }
    }
    Ok(())
}

/// The element of `x` at an index given in parts: some axes, and the index along each.
fn element(x: &Literal, parts: [(&Vec<usize>, &[usize]); 3]) -> Scalar {
    let mut index = Index::from_elem(0, x.ty().shape.rank());
    for (axes, at) in parts {
        for (&axis, &at) in axes.iter().zip(at) {
            index[axis] = at;
        }
    }
    x.get(ravel(&x.ty().shape, &index))
}

/// The sum of the products, in the type `dtype`.
fn sum_of_products(dtype: DType, pairs: impl Iterator<Item = (Scalar, Scalar)>) -> Scalar {
    if dtype.is_float() {
        let mut sum = Sum::default();
        pairs.for_each(|(a, b)| sum.add_product(a.as_f64(), b.as_f64()));
        Scalar::from_f64(dtype, sum.value())
    } else if dtype.is_complex() {
        let (mut re, mut im) = (Sum::default(), Sum::default());
        pairs.for_each(|(a, b)| {
            let (a, b) = (Number::of(a), Number::of(b));
            re.add_product(a.re, b.re);
            re.add_product(-a.im, b.im);
            im.add_product(a.re, b.im);
            im.add_product(a.im, b.re);
        });
        Scalar::from_parts(dtype, re.value(), im.value())
    } else {
        let products = pairs.map(|(a, b)| {
            let (a, b) = (a.as_i128().expect("integer"), b.as_i128().expect("integer"));
            a.wrapping_mul(b)
        });
        Scalar::from_i128(dtype, products.fold(0, i128::wrapping_add))
    }
}

impl OpDef for DotGeneral {
    fn name(&self) -> &'static str {
        "dot_general"
    }

    fn attrs(&self) -> Attrs {
        let DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract } = &self.dims;
        Attrs::new()
            .ints_unless("lhs_batch", lhs_batch, &[])
            .ints_unless("rhs_batch", rhs_batch, &[])
            .ints("lhs_contract", lhs_contract)
            .ints("rhs_contract", rhs_contract)
    }

    fn parse(name: &str, attrs: &mut Attrs, results: &[Type]) -> Option<Result<Self, String>> {
        (name == "dot_general").then(|| {
            let dims = DotDims {
                lhs_batch: attrs.take_ints_or("lhs_batch", &[])?,
                rhs_batch: attrs.take_ints_or("rhs_batch", &[])?,
                lhs_contract: attrs.take_ints("lhs_contract")?,
                rhs_contract: attrs.take_ints("rhs_contract")?,
            };
            Ok(DotGeneral { dims, dtype: attr::result(results)?.dtype })
        })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [lhs, rhs] = check::operands(op, operands)?;
        let DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract } = &self.dims;
        if lhs.dtype != rhs.dtype {
            let message = format!("operands differ in element type: lhs {lhs}, rhs {rhs}");
            return Err(InferError::new(op, message));
        }
        check::number(op, lhs)?;
        if !holds(lhs.dtype, self.dtype) {
            let message =
                format!("wants a result type that holds {}, got {}", lhs.dtype, self.dtype);
            return Err(InferError::new(op, message));
        }
        operand_axes(op, "lhs", lhs, lhs_batch, lhs_contract)?;
        operand_axes(op, "rhs", rhs, rhs_batch, rhs_contract)?;
        paired(op, "batch", (lhs, lhs_batch), (rhs, rhs_batch))?;
        paired(op, "contracted", (lhs, lhs_contract), (rhs, rhs_contract))?;
        let lhs_free = DotDims::free(lhs.shape.rank(), lhs_batch, lhs_contract);
        let rhs_free = DotDims::free(rhs.shape.rank(), rhs_batch, rhs_contract);
        let lhs_axes = lhs_batch.iter().chain(&lhs_free).map(|&axis| lhs.shape[axis]);
        let rhs_axes = rhs_free.iter().map(|&axis| rhs.shape[axis]);
        check::result(op, self.dtype, lhs_axes.chain(rhs_axes).collect())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let ([lhs, rhs], result) = (operands, &results[0]) else {
            unreachable!("infer counts operands")
        };
        let DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract } = &self.dims;
        let lhs_free = DotDims::free(lhs.ty().shape.rank(), lhs_batch, lhs_contract);
        let rhs_free = DotDims::free(rhs.ty().shape.rank(), rhs_batch, rhs_contract);
        let contracted: Index = lhs_contract.iter().map(|&axis| lhs.ty().shape[axis]).collect();
        vec![Literal::from_fn(result.clone(), |i| {
            let index = unravel(&result.shape, i);
            let (batch, free) = index.split_at(lhs_batch.len());
            let (left, right) = free.split_at(lhs_free.len());
            let pairs = indices(&contracted).map(|k| {
                let a = [(lhs_batch, batch), (&lhs_free, left), (lhs_contract, &k)];
                let b = [(rhs_batch, batch), (&rhs_free, right), (rhs_contract, &k)];
                (element(lhs, a), element(rhs, b))
            });
            sum_of_products(self.dtype, pairs)
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(contraction::jvp(self, rule, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(cotangents[0].map_or(smallvec![None, None], |ct| contraction::vjp(self, rule, ct)))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::dot_general(self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::Contraction(self.dims.clone())
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut add = |dtype: DType, sum: DType, dims: DotDims, lhs: &[usize], rhs: &[usize]| {
            let domain = if dtype.is_inexact() { Domain::Small } else { Domain::Any };
            let op = DotGeneral { dims, dtype: sum }.into();
            let operands = vec![Type::new(dtype, lhs), Type::new(dtype, rhs)];
            samples.push(Sample { op, operands, domain });
        };
        for from in DType::ALL {
            for to in DType::ALL {
                if from != DType::Bool && holds(from, to) {
                    add(from, to, DotDims::matmul(), &[7, 17], &[17, 9]);
                }
            }
        }
        let plain: [(usize, usize, usize); 15] = [
            (1, 1, 1),
            (1, 129, 1),
            (1, 33, 65),
            (65, 33, 1),
            (2, 3, 4),
            (8, 8, 8),
            (9, 1, 9),
            (16, 16, 16),
            (15, 17, 31),
            (31, 64, 33),
            (33, 65, 7),
            (64, 8, 64),
            (0, 3, 4),
            (3, 0, 4),
            (3, 4, 0),
        ];
        for (m, k, n) in plain {
            add(DType::F32, DType::F32, DotDims::matmul(), &[m, k], &[k, n]);
        }
        let dims =
            |lhs_batch: &[usize], rhs_batch: &[usize], lhs: &[usize], rhs: &[usize]| DotDims {
                lhs_batch: lhs_batch.to_vec(),
                rhs_batch: rhs_batch.to_vec(),
                lhs_contract: lhs.to_vec(),
                rhs_contract: rhs.to_vec(),
            };
        let cases: [(DotDims, &[usize], &[usize]); 16] = [
            // Transposed operands of a plain product.
            (dims(&[], &[], &[0], &[0]), &[17, 9], &[17, 31]),
            (dims(&[], &[], &[1], &[1]), &[9, 17], &[31, 17]),
            (dims(&[], &[], &[0], &[1]), &[17, 9], &[31, 17]),
            // Vectors and scalars.
            (dims(&[], &[], &[0], &[0]), &[127], &[127]),
            (dims(&[], &[], &[1], &[0]), &[9, 33], &[33]),
            (dims(&[], &[], &[0], &[0]), &[33], &[33, 9]),
            (dims(&[], &[], &[], &[]), &[], &[]),
            (dims(&[], &[], &[], &[]), &[7], &[9]),
            (dims(&[], &[], &[], &[]), &[3], &[2, 5]),
            // Several contracted axes, in another order on each side.
            (dims(&[], &[], &[1, 2], &[1, 0]), &[4, 3, 5], &[5, 3, 8]),
            (dims(&[], &[], &[0, 1], &[0, 1]), &[7, 9], &[7, 9]),
            // Batches.
            (dims(&[0], &[0], &[2], &[1]), &[3, 4, 17], &[3, 17, 9]),
            (dims(&[0], &[2], &[1], &[0]), &[3, 8, 4], &[8, 5, 3]),
            (dims(&[0, 1], &[0, 1], &[3], &[3]), &[2, 3, 4, 16], &[2, 3, 5, 16]),
            (dims(&[0], &[0], &[], &[]), &[9], &[9]),
            (dims(&[1], &[0], &[0], &[1]), &[4, 0], &[0, 4]),
        ];
        for (dims, lhs, rhs) in cases {
            add(DType::F32, DType::F32, dims, lhs, rhs);
        }
        samples
    }
}
