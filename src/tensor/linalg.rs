//! Products of matrices.

use kiln_ir::op::{Binary, DotDims, DotGeneral};
use kiln_trace::At;

use super::Tensor;
use super::movement::broadcast_shapes;
use super::resolve_axis;
use crate::{DType, Shape};

/// Which axes [`Tensor::tensordot`] sums over: how many, or which of each side.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Contracted {
    /// The last so many of the left, with the first of the right.
    Last(usize),
    /// These of the left with these of the right, one with one.
    Pairs(Vec<i64>, Vec<i64>),
}

impl From<usize> for Contracted {
    fn from(n: usize) -> Contracted {
        Contracted::Last(n)
    }
}

impl<const N: usize> From<([i64; N], [i64; N])> for Contracted {
    fn from((lhs, rhs): ([i64; N], [i64; N])) -> Contracted {
        Contracted::Pairs(lhs.to_vec(), rhs.to_vec())
    }
}

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

    /// [`Tensor::dot_general`] with sums and result of another type, which holds every value
    /// of the operands': `I8` factors into `I32`, half types into `F32`.
    ///
    /// ```
    /// use kiln::DotDims;
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([[100i8, 100], [1, 2]]);
    /// let y = x.dot_general_preferred(&x, DotDims::matmul(), I32);
    /// assert_eq!(y.to_vec::<i32>()?, [10100, 10200, 102, 104]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn dot_general_preferred(
        &self,
        rhs: &Tensor,
        dims: DotDims,
        preferred_element_type: DType,
    ) -> Tensor {
        let at = At::caller();
        self.dot_into("dot_general_preferred", rhs, dims, Some(preferred_element_type), at)
    }

    /// The sum of products over several axes, as `numpy.tensordot`: the last `n` of the
    /// left with the first `n` of the right, or those that are named.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::iota([2, 3, 4], 2, F32);
    /// let y = Tensor::ones([3, 4, 5], F32);
    /// assert_eq!(x.tensordot(&y, 2).shape(), [2, 5]);
    /// assert_eq!(x.tensordot(&y, ([2, 1], [1, 0])).to_vec::<f32>()?, [18.0; 10]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn tensordot(&self, rhs: &Tensor, axes: impl Into<Contracted>) -> Tensor {
        let at = At::caller();
        let (Ok(l), Ok(r)) = (self.try_ty(), rhs.try_ty()) else {
            return if self.error().is_some() { self.clone() } else { rhs.clone() };
        };
        let (lr, rr) = (l.shape.rank(), r.shape.rank());
        let axes = axes.into();
        let resolved = match &axes {
            Contracted::Last(n) if *n <= lr && *n <= rr => {
                Some(((lr - n..lr).collect(), (0..*n).collect()))
            }
            Contracted::Last(_) => None,
            Contracted::Pairs(lhs, rhs) if lhs.len() == rhs.len() => {
                let all = |axes: &[i64], rank| -> Option<Vec<usize>> {
                    axes.iter().map(|&a| resolve_axis(a, rank)).collect()
                };
                all(lhs, lr).zip(all(rhs, rr))
            }
            Contracted::Pairs(..) => None,
        };
        let Some((lhs_contract, rhs_contract)) = resolved else {
            let message = format!("{axes:?} are no pairs of axes of lhs {l} and rhs {r}");
            let operands = [("lhs", self), ("rhs", rhs)];
            return Tensor::fail_operands("tensordot", message, &operands, at);
        };
        let (lhs_batch, rhs_batch) = (vec![], vec![]);
        let dims = DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract };
        self.dot_named("tensordot", rhs, dims, at)
    }

    /// The sum of products along the last axes of both, as `numpy.inner`; a scalar scales.
    #[track_caller]
    pub fn inner(&self, rhs: &Tensor) -> Tensor {
        let at = At::caller();
        let (Ok(l), Ok(r)) = (self.try_ty(), rhs.try_ty()) else {
            return if self.error().is_some() { self.clone() } else { rhs.clone() };
        };
        if l.shape.rank() == 0 || r.shape.rank() == 0 {
            return self.product("inner", rhs, at);
        }
        let dims = DotDims {
            lhs_batch: vec![],
            rhs_batch: vec![],
            lhs_contract: vec![l.shape.rank() - 1],
            rhs_contract: vec![r.shape.rank() - 1],
        };
        self.dot_named("inner", rhs, dims, at)
    }

    /// The sum of the products of all elements, which are as many on both sides, in
    /// row-major order: `numpy.vdot`.
    #[track_caller]
    pub fn vdot(&self, rhs: &Tensor) -> Tensor {
        let at = At::caller();
        let (Ok(l), Ok(r)) = (self.try_ty(), rhs.try_ty()) else {
            return if self.error().is_some() { self.clone() } else { rhs.clone() };
        };
        let operands = [("lhs", self), ("rhs", rhs)];
        if l.elements() != r.elements() {
            let message = format!("differ in number of elements: lhs {l}, rhs {r}");
            return Tensor::fail_operands("vdot", message, &operands, at);
        }
        let flat = |x: &Tensor, n: usize| x.reshaped([n].into(), at);
        let dims = DotDims {
            lhs_batch: vec![],
            rhs_batch: vec![],
            lhs_contract: vec![0],
            rhs_contract: vec![0],
        };
        flat(self, l.elements()).dot_named("vdot", &flat(rhs, r.elements()), dims, at)
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
        self.dot_into(op, rhs, dims, None, at)
    }

    fn dot_into(
        &self,
        op: &str,
        rhs: &Tensor,
        dims: DotDims,
        preferred: Option<DType>,
        at: At,
    ) -> Tensor {
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
        let dtype = preferred.unwrap_or(l.dtype);
        Tensor::apply(DotGeneral { dims, dtype }, &[self, rhs], at)
    }
}
