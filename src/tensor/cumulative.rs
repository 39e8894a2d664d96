//! Running results along an axis, and differences of neighbours.

use kiln_ir::op::{Binary, Cumulative, CumulativeKind, Slice};
use kiln_trace::At;

use super::{Axes, Tensor};
use crate::DType;

impl Tensor {
    fn cumulative(&self, op: &str, kind: CumulativeKind, axes: Axes, at: At) -> Tensor {
        // All axes means the elements in row-major order, as in numpy.
        let operand = match (axes.count(), self.try_ty()) {
            (None, Ok(ty)) if ty.shape.rank() != 1 => self.reshaped([ty.elements()].into(), at),
            _ => self.clone(),
        };
        let (resolved, _) = match operand.resolve(op, &axes, at) {
            Ok(resolved) => resolved,
            Err(poisoned) => return poisoned,
        };
        let [axis] = resolved[..] else {
            let message = format!("takes one axis or `..` of {}, got {axes}", self.ty());
            return Tensor::fail_operands(op, message, &[("operand", self)], at);
        };
        let operand = match kind {
            CumulativeKind::Sum | CumulativeKind::Prod if operand.dtype() == DType::Bool => {
                operand.convert(DType::I32, at)
            }
            _ => operand,
        };
        Tensor::apply(Cumulative { kind, axis, reverse: false }, &[&operand], at)
    }

    /// The sum of all elements up to each, along an axis, or of the flattened tensor for
    /// `..`. Half types accumulate in `f32`; `bool` is counted in `i32`.
    ///
    /// From the end to the beginning: between two [`Tensor::flip`]s, which cost nothing.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([1.0f32, 2.0, 3.0]);
    /// assert_eq!(x.cumsum(0).to_vec::<f32>()?, [1.0, 3.0, 6.0]);
    /// assert_eq!(x.flip(0).cumsum(0).flip(0).to_vec::<f32>()?, [6.0, 5.0, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn cumsum(&self, axis: impl Into<Axes>) -> Tensor {
        self.cumulative("cumsum", CumulativeKind::Sum, axis.into(), At::caller())
    }

    /// The product of all elements up to each; see [`Tensor::cumsum`].
    #[track_caller]
    pub fn cumprod(&self, axis: impl Into<Axes>) -> Tensor {
        self.cumulative("cumprod", CumulativeKind::Prod, axis.into(), At::caller())
    }

    /// The least element up to each; from a NaN on, NaN. See [`Tensor::cumsum`].
    #[track_caller]
    pub fn cummin(&self, axis: impl Into<Axes>) -> Tensor {
        self.cumulative("cummin", CumulativeKind::Min, axis.into(), At::caller())
    }

    /// The greatest element up to each; from a NaN on, NaN. See [`Tensor::cumsum`].
    #[track_caller]
    pub fn cummax(&self, axis: impl Into<Axes>) -> Tensor {
        self.cumulative("cummax", CumulativeKind::Max, axis.into(), At::caller())
    }

    /// `log Σ exp(x)` of all elements up to each, without overflow; see [`Tensor::cumsum`].
    #[track_caller]
    pub fn cumlogsumexp(&self, axis: impl Into<Axes>) -> Tensor {
        self.cumulative("cumlogsumexp", CumulativeKind::LogSumExp, axis.into(), At::caller())
    }

    /// The difference of each element to the one before it along an axis, `n` times over.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([1.0f32, 4.0, 9.0, 16.0]);
    /// assert_eq!(x.diff(1, 0).to_vec::<f32>()?, [3.0, 5.0, 7.0]);
    /// assert_eq!(x.diff(2, 0).to_vec::<f32>()?, [2.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn diff(&self, n: usize, axis: impl Into<Axes>) -> Tensor {
        let (at, axes) = (At::caller(), axis.into());
        let (resolved, rank) = match self.resolve("diff", &axes, at) {
            Ok(resolved) => resolved,
            Err(poisoned) => return poisoned,
        };
        let [axis] = resolved[..] else {
            let message = format!("takes one axis of {}, got {axes}", self.ty());
            return Tensor::fail_operands("diff", message, &[("operand", self)], at);
        };
        let mut result = self.clone();
        for _ in 0..n {
            let shape = result.ty().shape.to_vec();
            let part = |first: usize, last: usize| {
                let mut start = vec![0; rank];
                let mut limit = shape.clone();
                (start[axis], limit[axis]) = (first.min(shape[axis]), last);
                Tensor::apply(Slice { start, limit, stride: vec![1; rank] }, &[&result], at)
            };
            let (before, after) = (part(0, shape[axis].saturating_sub(1)), part(1, shape[axis]));
            // Neighbouring truths differ where they are not equal.
            result = match result.dtype() {
                DType::Bool => after.binary(Binary::Xor, &before, at),
                _ => after.binary(Binary::Sub, &before, at),
            };
        }
        result
    }
}
