//! Products of matrices.

use kiln_ir::op::{Binary, DotDims, DotGeneral};
use kiln_trace::At;

use super::Tensor;
use super::movement::broadcast_shapes;
use crate::Shape;

impl Tensor {
    /// The matrix product, as `numpy.matmul`: the last two axes are matrices, the
    /// axes before them broadcast; a vector on the left is a row, on the right a
    /// column, and that axis is dropped from the result.
    #[track_caller]
    pub fn matmul(&self, rhs: &Tensor) -> Tensor {
        let at = At::caller();
        let (Ok(l), Ok(r)) = (self.try_ty(), rhs.try_ty()) else {
            return if self.error().is_some() { self.clone() } else { rhs.clone() };
        };
        let (lr, rr) = (l.shape.rank(), r.shape.rank());
        let operands = [("lhs", self), ("rhs", rhs)];
        if lr == 0 || rr == 0 {
            let message = format!("wants vectors or matrices, got lhs {l}, rhs {r}; use `*`");
            return Tensor::fail_operands("matmul", message, &operands, at);
        }
        if lr == 1 || rr == 1 {
            // Contracts the last axis of the left with the first or only matrix axis
            // of the right; no batch axes are shared.
            let dims = DotDims {
                lhs_batch: vec![],
                rhs_batch: vec![],
                lhs_contract: vec![lr - 1],
                rhs_contract: vec![rr.saturating_sub(2)],
            };
            return self.dot_named("matmul", rhs, dims, at);
        }
        let (lb, rb) = (&l.shape[..lr - 2], &r.shape[..rr - 2]);
        let Some(batch) = broadcast_shapes(lb, rb) else {
            let message = format!("batch axes do not broadcast: lhs {l}, rhs {r}");
            return Tensor::fail_operands("matmul", message, &operands, at);
        };
        if rb.iter().all(|&d| d == 1) && rb.len() <= lb.len() {
            // One matrix for all batches: the batch axes are just more rows.
            let matrix = rhs.reshaped(r.shape[rr - 2..].into(), at);
            let dims = DotDims {
                lhs_batch: vec![],
                rhs_batch: vec![],
                lhs_contract: vec![lr - 1],
                rhs_contract: vec![0],
            };
            return self.dot_named("matmul", &matrix, dims, at);
        }
        let with_matrix = |shape: &Shape| -> Shape {
            batch.iter().chain(&shape[shape.rank() - 2..]).copied().collect()
        };
        let lhs = self.expand(&with_matrix(&l.shape), at);
        let rhs = rhs.expand(&with_matrix(&r.shape), at);
        let n = batch.rank();
        let dims = DotDims {
            lhs_batch: (0..n).collect(),
            rhs_batch: (0..n).collect(),
            lhs_contract: vec![n + 1],
            rhs_contract: vec![n],
        };
        lhs.dot_named("matmul", &rhs, dims, at)
    }

    /// The product `numpy.dot`: contracts the last axis of the left with the last
    /// but one of the right, or its only one.
    #[track_caller]
    pub fn dot(&self, rhs: &Tensor) -> Tensor {
        let at = At::caller();
        let (Ok(l), Ok(r)) = (self.try_ty(), rhs.try_ty()) else {
            return if self.error().is_some() { self.clone() } else { rhs.clone() };
        };
        if l.shape.rank() == 0 || r.shape.rank() == 0 {
            return self.product("dot", rhs, at);
        }
        let dims = DotDims {
            lhs_batch: vec![],
            rhs_batch: vec![],
            lhs_contract: vec![l.shape.rank() - 1],
            rhs_contract: vec![r.shape.rank().saturating_sub(2)],
        };
        self.dot_named("dot", rhs, dims, at)
    }

    /// The general contraction: batch and contracted axes of both sides by number.
    /// The result has the batch axes, then the left's other axes, then the right's.
    #[track_caller]
    pub fn dot_general(&self, rhs: &Tensor, dims: DotDims) -> Tensor {
        self.dot_named("dot_general", rhs, dims, At::caller())
    }

    /// The product of each pair of elements of two vectors.
    #[track_caller]
    pub fn outer(&self, rhs: &Tensor) -> Tensor {
        let at = At::caller();
        let (Ok(l), Ok(r)) = (self.try_ty(), rhs.try_ty()) else {
            return if self.error().is_some() { self.clone() } else { rhs.clone() };
        };
        if l.dtype != r.dtype {
            return self.different_types("outer", rhs, at);
        }
        let column = self.reshaped([l.elements(), 1].into(), at);
        let row = rhs.reshaped([1, r.elements()].into(), at);
        column.product("outer", &row, at)
    }

    /// The product of elements for a method called `op`.
    fn product(&self, op: &str, rhs: &Tensor, at: At) -> Tensor {
        match self.pair(op, rhs, at) {
            Ok((lhs, rhs)) => lhs.binary(Binary::Mul, &rhs, at),
            Err(poisoned) => poisoned,
        }
    }

    fn different_types(&self, op: &str, rhs: &Tensor, at: At) -> Tensor {
        let operands = [("lhs", self), ("rhs", rhs)];
        let [Ok(l), Ok(r)] = operands.map(|(_, t)| t.try_ty()) else {
            return if self.error().is_some() { self.clone() } else { rhs.clone() };
        };
        let message = format!("element types differ: lhs {l}, rhs {r}");
        Tensor::fail_operands(op, message, &operands, at)
    }

    fn dot_named(&self, op: &str, rhs: &Tensor, dims: DotDims, at: At) -> Tensor {
        let (Ok(l), Ok(r)) = (self.try_ty(), rhs.try_ty()) else {
            return if self.error().is_some() { self.clone() } else { rhs.clone() };
        };
        let operands = [("lhs", self), ("rhs", rhs)];
        if l.dtype != r.dtype {
            return self.different_types(op, rhs, at);
        }
        let pairs = [
            ("batch", &dims.lhs_batch, &dims.rhs_batch),
            ("contracted", &dims.lhs_contract, &dims.rhs_contract),
        ];
        for (what, lhs_axes, rhs_axes) in pairs {
            for (&a, &b) in lhs_axes.iter().zip(rhs_axes) {
                let (Some(x), Some(y)) = (l.shape.get(a), r.shape.get(b)) else { continue };
                if x != y {
                    let message = format!(
                        "{what} axes differ in length: lhs {l} axis {a} is {x}, \
                         rhs {r} axis {b} is {y}"
                    );
                    return Tensor::fail_operands(op, message, &operands, at);
                }
            }
        }
        let dtype = l.dtype;
        Tensor::apply(DotGeneral { dims, dtype }, &[self, rhs], at)
    }
}
