//! Sums of products.

use super::{Attrs, InferError, OpDef, Sample, Share, Types};
use crate::{DType, Form, Literal, Type};

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

impl OpDef for DotGeneral {
    fn name(&self) -> &'static str {
        "dot_general"
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
        Form::Contraction(self.dims.clone())
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}
