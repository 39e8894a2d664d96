//! Sorting, and what follows from it.
//!
//! The order is total: NaN is above every number, −0 and +0 are equal, and equal elements
//! keep their order. `docs/numerics.md` has the rules.

use std::sync::Arc;

use kiln_ir::op::{Comparator, Sort, SortBy, TopK};
use kiln_ir::{Graph, ParameterInfo};
use kiln_trace::{At, Finished, Trace};

use super::{Axes, Tensor, lift, resolve_axis};
use crate::{DType, Error, Shape, Type};

/// Ascending by the first operand, or descending.
fn by_first(descending: bool) -> SortBy {
    SortBy::Keys { count: 1, descending: if descending { vec![0] } else { vec![] } }
}

impl Tensor {
    /// The elements of each row along `axis` in ascending order, NaN last.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([[3.0f32, 1.0, 2.0], [0.0, f32::NAN, -1.0]]);
    /// let y = x.sort(-1).to_vec::<f32>()?;
    /// assert_eq!(y[..5], [1.0, 2.0, 3.0, -1.0, 0.0]);
    /// assert!(y[5].is_nan());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn sort(&self, axis: i64) -> Tensor {
        sorted("sort", &[self], axis, by_first(false), At::caller()).remove(0)
    }

    /// The elements of each row along `axis` in descending order, NaN first.
    #[track_caller]
    pub fn sort_descending(&self, axis: i64) -> Tensor {
        sorted("sort_descending", &[self], axis, by_first(true), At::caller()).remove(0)
    }

    /// Where the elements of `sort` come from, as `i32`. Equal elements keep their order.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([0.0f32, -0.0, -1.0]);
    /// assert_eq!(x.argsort(0).to_vec::<i32>()?, [2, 0, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn argsort(&self, axis: i64) -> Tensor {
        self.positions("argsort", axis, false, At::caller())
    }

    /// Where the elements of `sort_descending` come from, as `i32`.
    #[track_caller]
    pub fn argsort_descending(&self, axis: i64) -> Tensor {
        self.positions("argsort_descending", axis, true, At::caller())
    }

    fn positions(&self, op: &str, axis: i64, descending: bool, at: At) -> Tensor {
        let Ok(ty) = self.try_ty() else { return self.clone() };
        let Some(axis) = resolve_axis(axis, ty.shape.rank()) else {
            return out_of_range(op, self, axis, at);
        };
        let positions = Type { dtype: DType::I32, shape: ty.shape.clone() };
        let iota = Tensor::apply(kiln_ir::op::Iota { ty: positions, axis }, &[], at);
        sorted(op, &[self, &iota], axis as i64, by_first(descending), at).remove(1)
    }

    /// All operands reordered alike along `axis`: in ascending order of the first, where
    /// that is equal of the second, and so on up to the first `num_keys`. JAX: `lax.sort`.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let (k, v) = (Tensor::from([2i32, 1, 2]), Tensor::from([5.0f32, 6.0, 4.0]));
    /// let sorted = Tensor::sort_with(&[&k, &v], 0, 2);
    /// assert_eq!(sorted[0].to_vec::<i32>()?, [1, 2, 2]);
    /// assert_eq!(sorted[1].to_vec::<f32>()?, [6.0, 4.0, 5.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn sort_with(operands: &[&Tensor], axis: i64, num_keys: usize) -> Vec<Tensor> {
        let by = SortBy::Keys { count: num_keys, descending: vec![] };
        sorted("sort_with", operands, axis, by, At::caller())
    }

    /// All operands reordered alike along `axis`, so that `before` holds between neighbours
    /// where it can: it is given the elements of all operands at two places and says
    /// whether the first place comes first. It is traced once, on scalars, and may hold
    /// elementwise operations alone.
    ///
    /// Sorting is stable. If `before` contradicts itself, the result is still a
    /// permutation.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([-3.0f32, 1.0, 2.0, -1.0]);
    /// let nearest = Tensor::sort_by(&[&x], 0, |a, b| a[0].abs().lt(b[0].abs()));
    /// assert_eq!(nearest[0].to_vec::<f32>()?, [1.0, -1.0, 2.0, -3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn sort_by(
        operands: &[&Tensor],
        axis: i64,
        before: impl FnOnce(&[Tensor], &[Tensor]) -> Tensor,
    ) -> Vec<Tensor> {
        let at = At::caller();
        match comparator(operands, before, at) {
            Ok(graph) => {
                let by = SortBy::Function(Comparator(Arc::new(graph)));
                sorted("sort_by", operands, axis, by, at)
            }
            Err(error) => {
                vec![Tensor::poisoned(kiln_trace::fail(error, at)); operands.len().max(1)]
            }
        }
    }

    /// The `k` greatest elements of each row along the last axis, greatest first, and their
    /// indices as `i32`. NaN is the greatest; of equal elements the first comes first.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let (values, indices) = Tensor::from([1.0f32, 5.0, 2.0, 5.0]).top_k(3);
    /// assert_eq!(values.to_vec::<f32>()?, [5.0, 5.0, 2.0]);
    /// assert_eq!(indices.to_vec::<i32>()?, [1, 3, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn top_k(&self, k: usize) -> (Tensor, Tensor) {
        let mut both = Tensor::apply_all(TopK { k }, &[self], 2, At::caller());
        let indices = both.remove(1);
        (both.remove(0), indices)
    }

    /// The median along axes, none of which may be empty: of an even number of elements
    /// halfway between the two in the middle. NaN anywhere gives NaN.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([[3.0f32, 1.0, 2.0, 10.0], [1.0, 1.0, 1.0, 2.0]]);
    /// assert_eq!(x.median(1).to_vec::<f32>()?, [2.5, 1.0]);
    /// assert_eq!(x.median(..).item::<f32>()?, 1.5);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn median(&self, axes: impl Into<Axes>) -> Tensor {
        self.quantile_named("median", 0.5, axes.into(), At::caller())
    }

    /// The `q`-th quantile along axes, none of which may be empty, for `q` in `0..=1`: on
    /// the straight line between the two nearest elements. NaN anywhere gives NaN.
    #[track_caller]
    pub fn quantile(&self, q: f64, axes: impl Into<Axes>) -> Tensor {
        self.quantile_named("quantile", q, axes.into(), At::caller())
    }

    /// `quantile(q / 100)`, for `q` in `0..=100`.
    #[track_caller]
    pub fn percentile(&self, q: f64, axes: impl Into<Axes>) -> Tensor {
        self.quantile_named("percentile", q / 100.0, axes.into(), At::caller())
    }

    fn quantile_named(&self, op: &str, q: f64, axes: Axes, at: At) -> Tensor {
        let (resolved, rank) = match self.resolve(op, &axes, at) {
            Ok(resolved) => resolved,
            Err(poisoned) => return poisoned,
        };
        let ty = self.ty();
        let fail = |message| Tensor::fail_operands(op, message, &[("operand", self)], at);
        if !ty.dtype.is_float() {
            return fail(format!("wants floats, got {ty}; convert it: `.astype(F32)`"));
        }
        if !(0.0..=1.0).contains(&q) {
            return fail(format!("{q} of all elements is no part of them"));
        }
        let kept: Vec<usize> = (0..rank).filter(|a| !resolved.contains(a)).collect();
        let n: usize = resolved.iter().map(|&a| ty.shape[a]).product();
        if n == 0 {
            return fail(format!("{axes} of {ty} hold nothing, and nothing has no {op}"));
        }
        // The reduced axes last, as one; then the row is in order.
        let permutation: Vec<usize> = kept.iter().chain(&resolved).copied().collect();
        let mut shape: Vec<usize> = kept.iter().map(|&a| ty.shape[a]).collect();
        let result: Shape = match axes.keeps() {
            true => (0..rank).map(|a| if kept.contains(&a) { ty.shape[a] } else { 1 }).collect(),
            false => shape.clone().into(),
        };
        shape.push(n);
        let moved = match permutation.is_sorted() {
            true => self.clone(),
            false => Tensor::apply(kiln_ir::op::Transpose { permutation }, &[self], at),
        };
        let rows = moved.reshaped(shape.clone().into(), at);
        let axis = shape.len() as i64 - 1;
        let sorted = sorted(op, &[&rows], axis, by_first(false), at).remove(0);
        let element = |i: usize| {
            let (mut start, mut limit) = (vec![0; shape.len()], shape.clone());
            (start[shape.len() - 1], limit[shape.len() - 1]) = (i, i + 1);
            let stride = vec![1; shape.len()];
            let slice = kiln_ir::op::Slice { start, limit, stride };
            Tensor::apply(slice, &[&sorted], at).reshaped(result.clone(), at)
        };
        let place = q * (n - 1) as f64;
        let (low, weight) = (place.floor() as usize, place.fract());
        let mut value = element(low);
        if weight > 0.0 {
            // Of weights that add up to one, so that it never leaves the interval.
            value = value * (1.0 - weight) + element(low + 1) * weight;
        }
        // The greatest is NaN if any is.
        let last = element(n - 1);
        last.isnan().select(&last, &value)
    }

    /// Where each of `values` would go in this sorted vector, as `i32`: how many elements
    /// are less, so before equal ones. Compares every value with every element.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let sorted = Tensor::from([1.0f32, 2.0, 2.0, 4.0]);
    /// let values = Tensor::from([2.0f32, 0.0, 9.0]);
    /// assert_eq!(sorted.searchsorted(&values).to_vec::<i32>()?, [1, 0, 4]);
    /// assert_eq!(sorted.searchsorted_right(&values).to_vec::<i32>()?, [3, 0, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn searchsorted(&self, values: &Tensor) -> Tensor {
        self.search("searchsorted", values, false, At::caller())
    }

    /// As [`Tensor::searchsorted`], behind equal elements: how many are not greater.
    #[track_caller]
    pub fn searchsorted_right(&self, values: &Tensor) -> Tensor {
        self.search("searchsorted_right", values, true, At::caller())
    }

    fn search(&self, op: &str, values: &Tensor, right: bool, at: At) -> Tensor {
        let (Ok(s), Ok(v)) = (self.try_ty(), values.try_ty()) else {
            return if self.error().is_some() { self.clone() } else { values.clone() };
        };
        let operands = [("sorted", self), ("values", values)];
        if s.shape.rank() != 1 || s.dtype != v.dtype {
            let message = format!("wants a vector and values of its type, got {s} and {v}");
            return Tensor::fail_operands(op, message, &operands, at);
        }
        // One axis more, the last, for the elements.
        let rank = v.shape.rank();
        let both: Shape = v.shape.iter().copied().chain([s.shape[0]]).collect();
        let spread = |x: &Tensor, axes: Vec<usize>| {
            Tensor::apply(kiln_ir::op::Broadcast { shape: both.clone(), axes }, &[x], at)
        };
        let (element, value) = (spread(self, vec![rank]), spread(values, (0..rank).collect()));
        let mut before = if right { element.le(&value) } else { element.lt(&value) };
        if s.dtype.is_float() {
            // NaN is above every number, and equal to NaN.
            let above = match right {
                true => value.isnan(),
                false => value.isnan().logical_and(!element.isnan()),
            };
            before = before.logical_or(above);
        }
        before.astype(DType::I32).sum(-1)
    }
}

fn out_of_range(op: &str, operand: &Tensor, axis: i64, at: At) -> Tensor {
    let ty = operand.ty();
    let message = format!("axis {axis} is out of range for {ty}");
    Tensor::fail_operands(op, message, &[("operand", operand)], at)
}

/// One result for each operand, for a method called `op`.
fn sorted(op: &str, operands: &[&Tensor], axis: i64, by: SortBy, at: At) -> Vec<Tensor> {
    let Some(first) = operands.first() else {
        return vec![Tensor::fail(op, "no tensors to sort", at)];
    };
    let poisoned = operands.iter().find(|t| t.error().is_some());
    if let Some(poisoned) = poisoned {
        return vec![(*poisoned).clone(); operands.len()];
    }
    match resolve_axis(axis, first.ty().shape.rank()) {
        Some(axis) => Tensor::apply_all(Sort { axis, by }, operands, operands.len(), at),
        None => vec![out_of_range(op, first, axis, at); operands.len()],
    }
}

/// The closure as a graph of scalars: for each operand its element at the one place and at
/// the other, to one `bool`.
fn comparator(
    operands: &[&Tensor],
    before: impl FnOnce(&[Tensor], &[Tensor]) -> Tensor,
    at: At,
) -> Result<Graph, Error> {
    let trace = Trace::begin("before", at);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for operand in operands {
        let ty = Type::scalar(operand.try_ty()?.dtype);
        for side in [&mut a, &mut b] {
            let parameter = trace.parameter(ty.clone(), ParameterInfo::default());
            side.push(Tensor::traced(parameter));
        }
    }
    let result = trace.run(|| before(&a, &b))?;
    trace.output(&lift(&result, at)?, String::new())?;
    let Finished { graph, captures } = trace.finish()?;
    if !captures.is_empty() {
        let message = "the comparator uses a tensor that is not one of its arguments: \
                       pass it as one more operand";
        return Err(Error::user(message).with_op("sort_by"));
    }
    Ok(kiln_ir::inline(&graph))
}
