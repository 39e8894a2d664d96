//! Methods that move elements without computing on them.

use kiln_ir::op::{Broadcast, Concatenate, Pad, Reshape, Reverse, Slice, Transpose};
use kiln_trace::At;

use super::reduce::{resolve_axes, resolve_axis};
use super::{Axes, Operand, Tensor};
use crate::Shape;

/// A shape to reshape to. With signed numbers, one extent may be −1: as many
/// elements as are left.
pub trait IntoShape {
    /// The extents; −1 for the one to infer. One that no `i64` holds is the greatest,
    /// which no tensor has.
    #[doc(hidden)]
    fn extents(self) -> Vec<i64>;
}

fn extent(d: usize) -> i64 {
    i64::try_from(d).unwrap_or(i64::MAX)
}

impl IntoShape for Shape {
    fn extents(self) -> Vec<i64> {
        self.iter().map(|&d| extent(d)).collect()
    }
}

impl IntoShape for &[usize] {
    fn extents(self) -> Vec<i64> {
        self.iter().map(|&d| extent(d)).collect()
    }
}

impl IntoShape for Vec<usize> {
    fn extents(self) -> Vec<i64> {
        self.into_iter().map(extent).collect()
    }
}

impl<const N: usize> IntoShape for [usize; N] {
    fn extents(self) -> Vec<i64> {
        self.into_iter().map(extent).collect()
    }
}

impl<const N: usize> IntoShape for [i32; N] {
    fn extents(self) -> Vec<i64> {
        self.into_iter().map(i64::from).collect()
    }
}

/// The shape that two shapes broadcast to: aligned at the last axis, an extent of
/// 1 stretches.
pub(crate) fn broadcast_shapes(a: &[usize], b: &[usize]) -> Option<Shape> {
    let rank = a.len().max(b.len());
    let extent = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    (0..rank)
        .map(|i| match (extent(a, i), extent(b, i)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

impl Tensor {
    /// Broadcast to a shape that [`broadcast_shapes`] gave.
    pub(crate) fn expand(&self, shape: &Shape, at: At) -> Tensor {
        match self.try_ty() {
            Ok(ty) if ty.shape == *shape => self.clone(),
            Ok(ty) => {
                let axes = (shape.rank() - ty.shape.rank()..shape.rank()).collect();
                Tensor::apply(Broadcast { shape: shape.clone(), axes }, &[self], at)
            }
            Err(error) => Tensor::poisoned(error),
        }
    }

    /// Repeated along new leading axes and axes of extent 1.
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Tensor {
        self.broadcast_named("broadcast_to", shape.into(), At::caller())
    }

    /// [`Tensor::broadcast_to`] for a method called `op`.
    pub(crate) fn broadcast_named(&self, op: &str, shape: Shape, at: At) -> Tensor {
        match self.try_ty() {
            Ok(ty) if broadcast_shapes(&ty.shape, &shape).as_ref() != Some(&shape) => {
                let message = format!("{ty} does not broadcast to {shape}");
                Tensor::fail_operands(op, message, &[("operand", self)], at)
            }
            _ => self.expand(&shape, at),
        }
    }

    /// Operand axis `k` becomes axis `axes[k]` of the result; every other axis, and
    /// every axis of extent 1, repeats.
    #[track_caller]
    pub fn broadcast_in_dim(&self, shape: impl Into<Shape>, axes: &[usize]) -> Tensor {
        Tensor::apply(Broadcast { shape: shape.into(), axes: axes.to_vec() }, &[self], At::caller())
    }

    /// The same elements in row-major order under another shape. One extent may
    /// be −1.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::arange(6, I32);
    /// assert_eq!(x.reshape([2, -1]).shape(), [2, 3]);
    /// ```
    #[track_caller]
    pub fn reshape(&self, shape: impl IntoShape) -> Tensor {
        let at = At::caller();
        let extents = shape.extents();
        let Ok(ty) = self.try_ty() else { return self.clone() };
        let inferred = extents.iter().filter(|&&d| d == -1).count();
        let known = extents
            .iter()
            .filter(|&&d| d != -1)
            .try_fold(1usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?));
        let missing = match known {
            Some(n) if inferred == 0 && n == ty.elements() => Some(0),
            Some(n) if inferred == 1 && n > 0 && ty.elements() % n == 0 => Some(ty.elements() / n),
            _ => None,
        };
        let Some(missing) = missing else {
            let wanted: Vec<String> = extents.iter().map(i64::to_string).collect();
            let message = format!("{ty} does not reshape to [{}]", wanted.join(","));
            return Tensor::fail_operands("reshape", message, &[("operand", self)], at);
        };
        let shape = extents.iter().map(|&d| usize::try_from(d).unwrap_or(missing)).collect();
        self.reshaped(shape, at)
    }

    pub(crate) fn reshaped(&self, shape: Shape, at: At) -> Tensor {
        if self.try_ty().is_ok_and(|ty| ty.shape == shape) {
            return self.clone();
        }
        Tensor::apply(Reshape { shape }, &[self], at)
    }

    /// All elements along one axis.
    #[track_caller]
    pub fn flatten(&self) -> Tensor {
        match self.try_ty() {
            Ok(ty) => self.reshaped([ty.elements()].into(), At::caller()),
            Err(_) => self.clone(),
        }
    }

    /// Result axis `k` is axis `permutation[k]`.
    #[track_caller]
    pub fn transpose(&self, permutation: &[usize]) -> Tensor {
        Tensor::apply(Transpose { permutation: permutation.to_vec() }, &[self], At::caller())
    }

    /// The axes in reverse order; a matrix transposed.
    #[track_caller]
    pub fn t(&self) -> Tensor {
        let rank = self.try_ty().map_or(0, |ty| ty.shape.rank());
        Tensor::apply(Transpose { permutation: (0..rank).rev().collect() }, &[self], At::caller())
    }

    /// Two axes exchanged.
    #[track_caller]
    pub fn swapaxes(&self, a: i64, b: i64) -> Tensor {
        let at = At::caller();
        if a == b {
            return match self.resolve("swapaxes", &Axes::from(a), at) {
                Ok(_) => self.clone(),
                Err(poisoned) => poisoned,
            };
        }
        match self.resolve("swapaxes", &Axes::from([a, b]), at) {
            Ok((axes, rank)) => {
                let mut permutation: Vec<usize> = (0..rank).collect();
                // Resolved axes are sorted; which is which makes no difference here.
                if let [a, b] = axes[..] {
                    permutation.swap(a, b);
                }
                Tensor::apply(Transpose { permutation }, &[self], at)
            }
            Err(poisoned) => poisoned,
        }
    }

    /// Axis `from` moved to place `to`; the others keep their order.
    #[track_caller]
    pub fn moveaxis(&self, from: i64, to: i64) -> Tensor {
        let at = At::caller();
        let Ok(ty) = self.try_ty() else { return self.clone() };
        let rank = ty.shape.rank();
        let (Some(from), Some(to)) = (resolve_axis(from, rank), resolve_axis(to, rank)) else {
            let message = format!("axis {from} or {to} is out of range for {ty}");
            return Tensor::fail("moveaxis", message, at);
        };
        let mut permutation: Vec<usize> = (0..rank).filter(|&a| a != from).collect();
        permutation.insert(to, from);
        Tensor::apply(Transpose { permutation }, &[self], at)
    }

    /// With new axes of extent 1 at these places of the result.
    #[track_caller]
    pub fn expand_dims(&self, axes: impl Into<Axes>) -> Tensor {
        let at = At::caller();
        let Ok(ty) = self.try_ty() else { return self.clone() };
        let axes = axes.into();
        let rank = ty.shape.rank() + axes.count().unwrap_or(0);
        let Some(new) = resolve_axes(&axes, rank) else {
            let message = format!("{axes} are not axes of a result of rank {rank} made of {ty}");
            return Tensor::fail("expand_dims", message, at);
        };
        let mut old = ty.shape.iter();
        let shape = (0..rank)
            .map(|a| if new.contains(&a) { 1 } else { *old.next().expect("one for each") })
            .collect();
        self.reshaped(shape, at)
    }

    /// Without these axes, which must have extent 1; `..` removes every such axis.
    #[track_caller]
    pub fn squeeze(&self, axes: impl Into<Axes>) -> Tensor {
        let (at, axes) = (At::caller(), axes.into());
        let Ok(ty) = self.try_ty() else { return self.clone() };
        if axes.count().is_none() {
            return self.reshaped(ty.shape.iter().copied().filter(|&d| d != 1).collect(), at);
        }
        match self.resolve("squeeze", &axes, at) {
            Ok((axes, _)) => match axes.iter().find(|&&a| ty.shape[a] != 1) {
                Some(a) => {
                    let message = format!("axis {a} of {ty} has extent {}, not 1", ty.shape[*a]);
                    Tensor::fail_operands("squeeze", message, &[("operand", self)], at)
                }
                None => self.reshaped(ty.shape.without(&axes), at),
            },
            Err(poisoned) => poisoned,
        }
    }

    /// These axes run backwards.
    #[track_caller]
    pub fn flip(&self, axes: impl Into<Axes>) -> Tensor {
        let at = At::caller();
        match self.resolve("flip", &axes.into(), at) {
            Ok((axes, _)) => Tensor::apply(Reverse { axes }, &[self], at),
            Err(poisoned) => poisoned,
        }
    }

    /// The box from `start` to `limit` (exclusive). Static bounds; see
    /// [`Tensor::get`] for ranges and [`Tensor::dynamic_slice`] for run-time starts.
    #[track_caller]
    pub fn slice(&self, start: &[usize], limit: &[usize]) -> Tensor {
        let stride = vec![1; start.len()];
        self.slice_strided(start, limit, &stride)
    }

    /// The elements `start`, `start + stride`, … below `limit` on each axis.
    #[track_caller]
    pub fn slice_strided(&self, start: &[usize], limit: &[usize], stride: &[usize]) -> Tensor {
        let slice = Slice { start: start.to_vec(), limit: limit.to_vec(), stride: stride.to_vec() };
        Tensor::apply(slice, &[self], At::caller())
    }

    /// Surrounded by `value`: `(low, high)` elements on each axis; negative ones
    /// cut.
    #[track_caller]
    pub fn pad(&self, value: impl Operand, padding: &[(i64, i64)]) -> Tensor {
        let interior = vec![0; padding.len()];
        self.pad_with(value, padding, &interior)
    }

    /// As [`Tensor::pad`], with `interior` elements between neighbours on each axis.
    #[track_caller]
    pub fn pad_with(
        &self,
        value: impl Operand,
        padding: &[(i64, i64)],
        interior: &[usize],
    ) -> Tensor {
        let at = At::caller();
        let Ok(ty) = self.try_ty() else { return self.clone() };
        let value = value.operand().tensor(ty.dtype, "pad", at);
        let pad = Pad {
            low: padding.iter().map(|p| p.0).collect(),
            high: padding.iter().map(|p| p.1).collect(),
            interior: interior.to_vec(),
        };
        Tensor::apply(pad, &[self, &value], at)
    }

    /// Joined along an existing axis.
    #[track_caller]
    pub fn concatenate<T: std::borrow::Borrow<Tensor>>(tensors: &[T], axis: i64) -> Tensor {
        let at = At::caller();
        let tensors: Vec<&Tensor> = tensors.iter().map(T::borrow).collect();
        concatenate("concatenate", &tensors, axis, at)
    }

    /// Joined along a new axis.
    #[track_caller]
    pub fn stack<T: std::borrow::Borrow<Tensor>>(tensors: &[T], axis: i64) -> Tensor {
        let at = At::caller();
        let Some(first) = tensors.first().map(T::borrow) else {
            return Tensor::fail("stack", "no tensors to join", at);
        };
        let first_ty = match first.try_ty() {
            Ok(ty) => ty,
            Err(error) => return Tensor::poisoned(error),
        };
        let Some(axis) = resolve_axis(axis, first_ty.shape.rank() + 1) else {
            let message = format!("axis {axis} is out of range for a stack of {first_ty}");
            return Tensor::fail_operands("stack", message, &[("operand", first)], at);
        };
        let mut rows = Vec::with_capacity(tensors.len());
        for t in tensors {
            let t = t.borrow();
            let Ok(ty) = t.try_ty() else { return t.clone() };
            if ty != first_ty {
                let message = format!("operands differ in type: first {first_ty}, then {ty}");
                return Tensor::fail_operands(
                    "stack",
                    message,
                    &[("first", first), ("then", t)],
                    at,
                );
            }
            let mut shape = ty.shape.to_vec();
            shape.insert(axis, 1);
            rows.push(t.reshaped(shape.into(), at));
        }
        concatenate("stack", &rows.iter().collect::<Vec<_>>(), axis as i64, at)
    }

    /// The axes for a method called `op`, with this tensor's rank.
    pub(crate) fn resolve(
        &self,
        op: &str,
        axes: &Axes,
        at: At,
    ) -> Result<(Vec<usize>, usize), Tensor> {
        let ty = self.try_ty().map_err(Tensor::poisoned)?;
        resolve_axes(axes, ty.shape.rank()).map(|axes| (axes, ty.shape.rank())).ok_or_else(|| {
            let message = format!("{axes} is out of range, or named twice, for {ty}");
            Tensor::fail_operands(op, message, &[("operand", self)], at)
        })
    }
}

fn concatenate(op: &str, tensors: &[&Tensor], axis: i64, at: At) -> Tensor {
    let Some(first) = tensors.first() else {
        return Tensor::fail(op, "no tensors to join", at);
    };
    let Ok(ty) = first.try_ty() else { return (*first).clone() };
    match resolve_axis(axis, ty.shape.rank()) {
        Some(axis) => Tensor::apply(Concatenate { axis }, tensors, at),
        None => Tensor::fail(op, format!("axis {axis} is out of range for {ty}"), at),
    }
}
