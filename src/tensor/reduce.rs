//! Reductions, and the axes they take.

use std::fmt;
use std::ops::RangeFull;

use kiln_ir::op::{ArgKind, ArgReduce, Reduce, ReduceKind};
use kiln_trace::At;

use super::Tensor;
use crate::{DType, Shape};

/// Which axes a method works along: `1`, `-1`, `[0, 2]`, or `..` for all.
///
/// [`keepdims`] makes a reduction keep them with extent 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axes {
    /// `None`: all.
    axes: Option<Vec<i64>>,
    keepdims: bool,
}

/// The axes, kept by the reduction with extent 1.
///
/// ```
/// use kiln::prelude::*;
///
/// let x = Tensor::ones([2, 3], F32);
/// assert_eq!(x.sum(1).shape(), [2]);
/// assert_eq!(x.sum(keepdims(1)).shape(), [2, 1]);
/// ```
pub fn keepdims(axes: impl Into<Axes>) -> Axes {
    Axes { keepdims: true, ..axes.into() }
}

impl Axes {
    fn list(axes: impl IntoIterator<Item = i64>) -> Axes {
        Axes { axes: Some(axes.into_iter().collect()), keepdims: false }
    }

    /// Whether a reduction keeps them with extent 1.
    pub(crate) fn keeps(&self) -> bool {
        self.keepdims
    }

    /// How many; `None` for all.
    pub(crate) fn count(&self) -> Option<usize> {
        self.axes.as_ref().map(Vec::len)
    }
}

impl From<RangeFull> for Axes {
    fn from(_: RangeFull) -> Axes {
        Axes { axes: None, keepdims: false }
    }
}

/// An axis; one that no `i64` holds is out of range, as the greatest is.
fn axis_number(axis: impl TryInto<i64>) -> i64 {
    axis.try_into().unwrap_or(i64::MAX)
}

macro_rules! axes_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Axes {
            fn from(axis: $t) -> Axes {
                Axes::list([axis_number(axis)])
            }
        }

        impl<const N: usize> From<[$t; N]> for Axes {
            fn from(axes: [$t; N]) -> Axes {
                Axes::list(axes.map(axis_number))
            }
        }

        impl From<&[$t]> for Axes {
            fn from(axes: &[$t]) -> Axes {
                Axes::list(axes.iter().map(|&a| axis_number(a)))
            }
        }

        impl From<Vec<$t>> for Axes {
            fn from(axes: Vec<$t>) -> Axes {
                Axes::list(axes.into_iter().map(axis_number))
            }
        }
    )*};
}

axes_from!(i32, i64, usize);

impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.axes.as_deref() {
            None => f.write_str("all axes"),
            Some([axis]) => write!(f, "axis {axis}"),
            Some(axes) => write!(f, "axes {axes:?}"),
        }
    }
}

/// The axis counted from the front, if it exists.
pub(crate) fn resolve_axis(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis + rank as i64 } else { axis };
    usize::try_from(axis).ok().filter(|&a| a < rank)
}

/// The axes counted from the front, increasing; `None` if one does not exist or
/// occurs twice.
pub(crate) fn resolve_axes(axes: &Axes, rank: usize) -> Option<Vec<usize>> {
    let Some(axes) = &axes.axes else { return Some((0..rank).collect()) };
    let mut resolved: Vec<usize> =
        axes.iter().map(|&a| resolve_axis(a, rank)).collect::<Option<_>>()?;
    resolved.sort_unstable();
    resolved.windows(2).all(|w| w[0] != w[1]).then_some(resolved)
}

/// The shape with `axes` set to extent 1.
fn kept(shape: &Shape, axes: &[usize]) -> Shape {
    shape.iter().enumerate().map(|(i, &d)| if axes.contains(&i) { 1 } else { d }).collect()
}

impl Tensor {
    fn reduce(&self, op: &str, kind: ReduceKind, axes: Axes, at: At) -> Tensor {
        let (resolved, _) = match self.resolve(op, &axes, at) {
            Ok(resolved) => resolved,
            Err(poisoned) => return poisoned,
        };
        let ty = self.ty();
        let shape = kept(&ty.shape, &resolved);
        let counted = match kind {
            ReduceKind::Sum | ReduceKind::Prod if ty.dtype == DType::Bool => {
                &self.convert(DType::I32, at)
            }
            _ => self,
        };
        let reduced = Tensor::apply(Reduce { kind, axes: resolved }, &[counted], at);
        if axes.keepdims { reduced.reshaped(shape, at) } else { reduced }
    }

    /// Sum along axes; an empty one sums to 0. Half types accumulate in `f32`; `bool` is
    /// counted in `i32`.
    #[track_caller]
    pub fn sum(&self, axes: impl Into<Axes>) -> Tensor {
        self.reduce("sum", ReduceKind::Sum, axes.into(), At::caller())
    }

    /// Product along axes; an empty one gives 1. Half types accumulate in `f32`; of `bool`
    /// it is in `i32`.
    #[track_caller]
    pub fn prod(&self, axes: impl Into<Axes>) -> Tensor {
        self.reduce("prod", ReduceKind::Prod, axes.into(), At::caller())
    }

    /// Greatest element along axes, none of which may be empty; NaN wins.
    #[track_caller]
    pub fn max(&self, axes: impl Into<Axes>) -> Tensor {
        self.extreme("max", ReduceKind::Max, axes.into(), At::caller())
    }

    /// Least element along axes, none of which may be empty; NaN wins.
    #[track_caller]
    pub fn min(&self, axes: impl Into<Axes>) -> Tensor {
        self.extreme("min", ReduceKind::Min, axes.into(), At::caller())
    }

    fn extreme(&self, op: &str, kind: ReduceKind, axes: Axes, at: At) -> Tensor {
        let (resolved, _) = match self.resolve(op, &axes, at) {
            Ok(resolved) => resolved,
            Err(poisoned) => return poisoned,
        };
        let ty = self.ty();
        if let Some(a) = resolved.iter().find(|&&a| ty.shape[a] == 0) {
            let message = format!("axis {a} of {ty} is empty, and nothing has no {op}");
            return Tensor::fail_operands(op, message, &[("operand", self)], at);
        }
        self.reduce(op, kind, axes, at)
    }

    /// The greatest element along axes, −∞ of nothing, for a method called `op`.
    pub(crate) fn greatest(&self, op: &str, axes: Axes, at: At) -> Tensor {
        self.reduce(op, ReduceKind::Max, axes, at)
    }

    /// Whether all elements along axes are true.
    #[track_caller]
    pub fn all(&self, axes: impl Into<Axes>) -> Tensor {
        self.logical("all", ReduceKind::And, axes.into(), At::caller())
    }

    /// Whether any element along axes is true.
    #[track_caller]
    pub fn any(&self, axes: impl Into<Axes>) -> Tensor {
        self.logical("any", ReduceKind::Or, axes.into(), At::caller())
    }

    fn logical(&self, op: &str, kind: ReduceKind, axes: Axes, at: At) -> Tensor {
        match self.try_ty() {
            Ok(ty) if ty.dtype != DType::Bool => {
                let message = format!("wants a bool tensor, got {ty}; compare it first: `.ne(0)`");
                Tensor::fail_operands(op, message, &[("operand", self)], at)
            }
            _ => self.reduce(op, kind, axes, at),
        }
    }

    /// Mean along axes; that of nothing is NaN. Half types accumulate in `f32`.
    #[track_caller]
    pub fn mean(&self, axes: impl Into<Axes>) -> Tensor {
        self.mean_of("mean", axes.into(), At::caller())
    }

    fn mean_of(&self, op: &str, axes: Axes, at: At) -> Tensor {
        let wide = match self.widened(op, at) {
            Ok(wide) => wide,
            Err(poisoned) => return poisoned,
        };
        let (resolved, _) = match self.resolve(op, &axes, at) {
            Ok(resolved) => resolved,
            Err(poisoned) => return poisoned,
        };
        let ty = self.ty();
        let n: usize = resolved.iter().map(|&a| ty.shape[a]).product();
        let sum = wide.reduce(op, ReduceKind::Sum, axes, at);
        let mean = sum.binary(kiln_ir::op::Binary::Div, sum.like(n as f64, at), at);
        mean.convert(ty.dtype, at)
    }

    /// A float tensor in the type in which its elements accumulate.
    pub(crate) fn widened(&self, op: &str, at: At) -> Result<Tensor, Tensor> {
        self.floating(op, at).map(|dtype| self.convert(dtype.accumulator(), at))
    }

    /// The element type of a float tensor.
    pub(crate) fn floating(&self, op: &str, at: At) -> Result<DType, Tensor> {
        let ty = self.try_ty().map_err(Tensor::poisoned)?;
        if ty.dtype.is_float() {
            return Ok(ty.dtype);
        }
        let message = format!("wants a float tensor, got {ty}; convert it: `.astype(F32)`");
        Err(Tensor::fail_operands(op, message, &[("operand", self)], at))
    }

    /// Variance along axes: the mean of the squared distances from the mean.
    #[track_caller]
    pub fn var(&self, axes: impl Into<Axes>) -> Tensor {
        self.var_of("var", axes.into(), At::caller())
    }

    fn var_of(&self, op: &str, axes: Axes, at: At) -> Tensor {
        let wide = match self.widened(op, at) {
            Ok(wide) => wide,
            Err(poisoned) => return poisoned,
        };
        let mean = wide.mean_of(op, keepdims(axes.clone()), at);
        let distance = wide.binary(kiln_ir::op::Binary::Sub, &mean, at);
        let square = distance.binary(kiln_ir::op::Binary::Mul, &distance, at);
        let var = square.mean_of(op, axes, at);
        match self.try_ty() {
            Ok(ty) => var.convert(ty.dtype, at),
            Err(_) => var,
        }
    }

    /// Standard deviation along axes: the square root of the variance.
    #[track_caller]
    pub fn std(&self, axes: impl Into<Axes>) -> Tensor {
        self.var_of("std", axes.into(), At::caller()).sqrt()
    }

    /// How many elements along axes are not zero, as `i32`. NaN is not zero.
    #[track_caller]
    pub fn count_nonzero(&self, axes: impl Into<Axes>) -> Tensor {
        let at = At::caller();
        self.convert(DType::Bool, at).reduce("count_nonzero", ReduceKind::Sum, axes.into(), at)
    }

    /// The greatest element along axes less the least, none of which may be empty.
    #[track_caller]
    pub fn ptp(&self, axes: impl Into<Axes>) -> Tensor {
        let (at, axes) = (At::caller(), axes.into());
        let greatest = self.extreme("ptp", ReduceKind::Max, axes.clone(), at);
        let least = self.extreme("ptp", ReduceKind::Min, axes, at);
        greatest.binary(kiln_ir::op::Binary::Sub, &least, at)
    }

    /// The tensor with `x` for every NaN, and whether each was a number.
    fn without_nan(&self, op: &str, x: f64, at: At) -> Result<(Tensor, Tensor), Tensor> {
        self.floating(op, at)?;
        let number = Tensor::apply(kiln_ir::op::Compare::Eq, &[self, self], at);
        Ok((number.select(self, self.like(x, at)), number))
    }

    /// Sum along axes of all that is not NaN.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([1.0f32, f32::NAN, 3.0]);
    /// assert_eq!(x.nansum(..).item::<f32>()?, 4.0);
    /// assert_eq!(x.nanmean(..).item::<f32>()?, 2.0);
    /// assert_eq!(x.nanmax(..).item::<f32>()?, 3.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn nansum(&self, axes: impl Into<Axes>) -> Tensor {
        let at = At::caller();
        match self.without_nan("nansum", 0.0, at) {
            Ok((numbers, _)) => numbers.reduce("nansum", ReduceKind::Sum, axes.into(), at),
            Err(poisoned) => poisoned,
        }
    }

    /// Product along axes of all that is not NaN.
    #[track_caller]
    pub fn nanprod(&self, axes: impl Into<Axes>) -> Tensor {
        let at = At::caller();
        match self.without_nan("nanprod", 1.0, at) {
            Ok((numbers, _)) => numbers.reduce("nanprod", ReduceKind::Prod, axes.into(), at),
            Err(poisoned) => poisoned,
        }
    }

    /// Mean along axes of all that is not NaN; of nothing else it is NaN.
    #[track_caller]
    pub fn nanmean(&self, axes: impl Into<Axes>) -> Tensor {
        let (at, axes) = (At::caller(), axes.into());
        let (numbers, number) = match self.without_nan("nanmean", 0.0, at) {
            Ok(both) => both,
            Err(poisoned) => return poisoned,
        };
        let wide = numbers.convert(numbers.dtype().accumulator(), at);
        let sum = wide.reduce("nanmean", ReduceKind::Sum, axes.clone(), at);
        let count = number.reduce("nanmean", ReduceKind::Sum, axes, at);
        let mean = sum.binary(kiln_ir::op::Binary::Div, count.astype_like(&sum, at), at);
        mean.convert(numbers.dtype(), at)
    }

    /// The greatest number along axes, none of which may be empty; NaN among nothing else.
    #[track_caller]
    pub fn nanmax(&self, axes: impl Into<Axes>) -> Tensor {
        self.nan_extreme("nanmax", ReduceKind::Max, axes.into(), At::caller())
    }

    /// The least number along axes, none of which may be empty; NaN among nothing else.
    #[track_caller]
    pub fn nanmin(&self, axes: impl Into<Axes>) -> Tensor {
        self.nan_extreme("nanmin", ReduceKind::Min, axes.into(), At::caller())
    }

    fn nan_extreme(&self, op: &str, kind: ReduceKind, axes: Axes, at: At) -> Tensor {
        let least = if kind == ReduceKind::Max { f64::NEG_INFINITY } else { f64::INFINITY };
        let (numbers, number) = match self.without_nan(op, least, at) {
            Ok(both) => both,
            Err(poisoned) => return poisoned,
        };
        let found = numbers.extreme(op, kind, axes.clone(), at);
        let any = number.reduce(op, ReduceKind::Or, axes, at);
        any.select(&found, found.like(f64::NAN, at))
    }

    /// The tensor in another's element type.
    fn astype_like(&self, other: &Tensor, at: At) -> Tensor {
        match other.try_ty() {
            Ok(ty) => self.convert(ty.dtype, at),
            Err(error) => Tensor::poisoned(error),
        }
    }

    /// Index of the greatest element along an axis, as `i32`: the first of equals,
    /// the first NaN if there is one.
    #[track_caller]
    pub fn argmax(&self, axis: impl Into<Axes>) -> Tensor {
        self.arg_reduce("argmax", ArgKind::Max, axis.into(), At::caller())
    }

    /// Index of the least element along an axis, as `i32`: the first of equals, the
    /// first NaN if there is one.
    #[track_caller]
    pub fn argmin(&self, axis: impl Into<Axes>) -> Tensor {
        self.arg_reduce("argmin", ArgKind::Min, axis.into(), At::caller())
    }

    fn arg_reduce(&self, op: &str, kind: ArgKind, axes: Axes, at: At) -> Tensor {
        // All axes means the index in row-major order, as in numpy.
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
        let shape = match axes.count() {
            None => self.ty().shape.iter().map(|_| 1).collect(),
            Some(_) => kept(&self.ty().shape, &[axis]),
        };
        let reduced = Tensor::apply(ArgReduce { kind, axis, dtype: DType::I32 }, &[&operand], at);
        if axes.keepdims { reduced.reshaped(shape, at) } else { reduced }
    }
}
