//! Indexing: parts of a tensor by ranges, at starts known now or at run time, and
//! tensors with a part replaced.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo};

use kiln_ir::op::{DynamicSlice, DynamicUpdateSlice, Slice};
use kiln_ir::{Literal, Scalar};
use kiln_trace::At as Caller;

use super::operand::OperandKind;
use super::{Operand, Tensor};
use crate::{DType, Type};

/// What is taken along one axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Index {
    /// One element; the axis goes. Negative counts from the end.
    At(i64),
    /// The elements from `start` (or the first) to before `end` (or the last), in
    /// steps of `step`.
    Range {
        /// First element; negative counts from the end.
        start: Option<i64>,
        /// One past the last; negative counts from the end.
        end: Option<i64>,
        /// At least 1.
        step: usize,
    },
}

impl Index {
    /// The elements from `start` (or the first) to before `end` (or the last). The
    /// same as a range, for bounds like `1` and `-1` that look reversed as one.
    ///
    /// ```
    /// use kiln::{Index, prelude::*};
    ///
    /// let x = Tensor::arange(5, I32);
    /// assert_eq!(x.get(Index::range(1, -1)).to_vec::<i32>()?, [1, 2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn range(start: impl Into<Option<i64>>, end: impl Into<Option<i64>>) -> Index {
        Index::Range { start: start.into(), end: end.into(), step: 1 }
    }

    /// Every `step`-th element of the range.
    pub fn step_by(self, step: usize) -> Index {
        match self {
            Index::Range { start, end, step: s } => {
                Index::Range { start, end, step: s.saturating_mul(step) }
            }
            at => at,
        }
    }
}

impl From<RangeFull> for Index {
    fn from(_: RangeFull) -> Index {
        Index::range(None, None)
    }
}

/// As an index; one that no `i64` holds is out of range, as the greatest is.
fn bound(i: impl TryInto<i64>) -> i64 {
    i.try_into().unwrap_or(i64::MAX)
}

macro_rules! index_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Index {
            fn from(i: $t) -> Index {
                Index::At(bound(i))
            }
        }
        impl From<Range<$t>> for Index {
            fn from(r: Range<$t>) -> Index {
                Index::range(bound(r.start), bound(r.end))
            }
        }
        impl From<RangeInclusive<$t>> for Index {
            fn from(r: RangeInclusive<$t>) -> Index {
                // An inclusive −1 is the last element: no end, rather than end 0.
                let end = bound(*r.end()).saturating_add(1);
                Index::range(bound(*r.start()), (end != 0).then_some(end))
            }
        }
        impl From<RangeFrom<$t>> for Index {
            fn from(r: RangeFrom<$t>) -> Index {
                Index::range(bound(r.start), None)
            }
        }
        impl From<RangeTo<$t>> for Index {
            fn from(r: RangeTo<$t>) -> Index {
                Index::range(None, bound(r.end))
            }
        }
    )*};
}

index_from!(i32, i64, usize);

/// An index for each of the leading axes: a tuple of numbers and ranges, or one.
pub trait TensorIndex {
    /// The indices.
    #[doc(hidden)]
    fn indices(self) -> Vec<Index>;
}

impl<T: Into<Index>> TensorIndex for T {
    fn indices(self) -> Vec<Index> {
        vec![self.into()]
    }
}

macro_rules! tuple_index {
    ($($t:ident)*) => {
        impl<$($t: Into<Index>),*> TensorIndex for ($($t,)*) {
            #[allow(non_snake_case)]
            fn indices(self) -> Vec<Index> {
                let ($($t,)*) = self;
                vec![$($t.into()),*]
            }
        }
    };
}

tuple_index!(A);
tuple_index!(A B);
tuple_index!(A B C);
tuple_index!(A B C D);
tuple_index!(A B C D E);

/// An index, checked against a type.
struct Resolved {
    slice: Slice,
    /// Axes that one number took.
    dropped: Vec<usize>,
}

fn resolve(indices: &[Index], ty: &Type) -> Result<Resolved, String> {
    let rank = ty.shape.rank();
    if indices.len() > rank {
        return Err(format!("{} indices for {ty}, which has {rank} axes", indices.len()));
    }
    let mut slice = Slice { start: vec![0; rank], limit: ty.shape.to_vec(), stride: vec![1; rank] };
    let mut dropped = Vec::new();
    for (axis, index) in indices.iter().enumerate() {
        let extent = ty.shape[axis] as i64;
        match *index {
            Index::At(i) => {
                let from_front = if i < 0 { i + extent } else { i };
                if !(0..extent).contains(&from_front) {
                    return Err(format!("index {i} is out of range for axis {axis} of {ty}"));
                }
                slice.start[axis] = from_front as usize;
                slice.limit[axis] = from_front as usize + 1;
                dropped.push(axis);
            }
            Index::Range { start, end, step } => {
                let bound = |b: i64| if b < 0 { b + extent } else { b };
                let (start, end) = (bound(start.unwrap_or(0)), end.map_or(extent, bound));
                if step == 0 {
                    return Err(format!("a step of 0 along axis {axis}"));
                }
                if start < 0 || start > extent || end < 0 || end > extent {
                    return Err(format!(
                        "range {start}..{end} is out of range for axis {axis} of {ty}"
                    ));
                }
                slice.start[axis] = start as usize;
                slice.limit[axis] = end.max(start) as usize;
                slice.stride[axis] = step;
            }
        }
    }
    Ok(Resolved { slice, dropped })
}

impl Tensor {
    /// A part of the tensor, by a number or range for each leading axis. A number
    /// removes its axis; negative ones count from the end.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::arange(12, I32).reshape([3, 4]);
    /// assert_eq!(x.get((1, ..2)).to_vec::<i32>()?, [4, 5]);
    /// assert_eq!(x.get((.., -1)).to_vec::<i32>()?, [3, 7, 11]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn get(&self, index: impl TensorIndex) -> Tensor {
        let at = Caller::caller();
        let Ok(ty) = self.try_ty() else { return self.clone() };
        match resolve(&index.indices(), ty) {
            Ok(Resolved { slice, dropped }) => {
                let part = Tensor::apply(slice, &[self], at);
                match part.try_ty() {
                    Ok(ty) => part.reshaped(ty.shape.without(&dropped), at),
                    Err(_) => part,
                }
            }
            Err(message) => Tensor::fail_operands("get", message, &[("operand", self)], at),
        }
    }

    /// A part of the tensor to replace: `x.at((0, 1..3)).set(y)`.
    pub fn at<I: TensorIndex>(&self, index: I) -> At<'_, I> {
        At { tensor: self, index }
    }

    /// The box of extents `sizes` whose start is known at run time: one rank-0
    /// integer for each axis, all of one type. Starts are clamped so that the box
    /// lies inside.
    #[track_caller]
    pub fn dynamic_slice<T: Operand>(&self, starts: &[T], sizes: &[usize]) -> Tensor {
        let at = Caller::caller();
        let starts = start_tensors("dynamic_slice", starts, at);
        let operands: Vec<&Tensor> = std::iter::once(self).chain(&starts).collect();
        Tensor::apply(DynamicSlice { sizes: sizes.to_vec() }, &operands, at)
    }

    /// With `update` written over it at starts known at run time; see
    /// [`Tensor::dynamic_slice`].
    #[track_caller]
    pub fn dynamic_update_slice<T: Operand>(&self, update: &Tensor, starts: &[T]) -> Tensor {
        let at = Caller::caller();
        let starts = start_tensors("dynamic_update_slice", starts, at);
        let operands: Vec<&Tensor> = [self, update].into_iter().chain(&starts).collect();
        Tensor::apply(DynamicUpdateSlice, &operands, at)
    }
}

/// Starts as rank-0 tensors: numbers adopt the type of the first tensor, or `i32`, or
/// `i64` where that is too narrow. Starts clamp, so a negative number is 0 and one
/// beyond `i64` the greatest.
fn start_tensors<T: Operand>(op: &str, starts: &[T], at: Caller) -> Vec<Tensor> {
    let narrow = |s: &T| match s.operand() {
        OperandKind::Integer(i) => i <= i32::MAX.into(),
        _ => true,
    };
    let dtype = starts.iter().find_map(|s| s.operand().dtype()).unwrap_or(
        match starts.iter().all(narrow) {
            true => DType::I32,
            false => DType::I64,
        },
    );
    starts
        .iter()
        .map(|start| match start.operand() {
            // Known now: a constant, so that the slice is seen to be static.
            OperandKind::Integer(i) if dtype.is_integer() => {
                let i = i.clamp(0, i64::MAX.into());
                let scalar = Scalar::from_i128(dtype, i);
                match scalar.as_i128() == Some(i) {
                    true => Tensor::constant(Literal::scalar(scalar), at),
                    false => OperandKind::Integer(i).tensor(dtype, op, at),
                }
            }
            start => start.tensor(dtype, op, at),
        })
        .collect()
}

/// A part of a tensor, to replace. Made by [`Tensor::at`].
pub struct At<'t, I> {
    tensor: &'t Tensor,
    index: I,
}

// The names are JAX's: `x.at[i].add(y)`.
#[allow(clippy::should_implement_trait)]
impl<I: TensorIndex> At<'_, I> {
    /// The tensor with this part replaced by `value`, broadcast to it.
    #[track_caller]
    pub fn set(self, value: impl Operand) -> Tensor {
        self.update("at.set", value, Caller::caller(), |_, value| value)
    }

    /// The tensor with `value` added to this part.
    #[track_caller]
    pub fn add(self, value: impl Operand) -> Tensor {
        self.update("at.add", value, Caller::caller(), |part, value| part + value)
    }

    /// The tensor with this part multiplied by `value`.
    #[track_caller]
    pub fn mul(self, value: impl Operand) -> Tensor {
        self.update("at.mul", value, Caller::caller(), |part, value| part * value)
    }

    fn update(
        self,
        op: &str,
        value: impl Operand,
        at: Caller,
        combine: impl Fn(Tensor, Tensor) -> Tensor,
    ) -> Tensor {
        let x = self.tensor;
        let Ok(ty) = x.try_ty() else { return x.clone() };
        let fail = |message: String| Tensor::fail_operands(op, message, &[("operand", x)], at);
        let Resolved { slice, dropped } = match resolve(&self.index.indices(), ty) {
            Ok(resolved) => resolved,
            Err(message) => return fail(message),
        };
        if slice.stride.iter().any(|&s| s != 1) {
            return fail("a range with a step cannot be replaced".into());
        }
        let start = slice.start.clone();
        let part = Tensor::apply(slice, &[x], at);
        let Ok(part_ty) = part.try_ty() else { return part };
        // What the user sees of the part lacks the axes that a number took.
        let seen = part_ty.shape.without(&dropped);
        let value = value.operand().tensor(ty.dtype, op, at);
        let value_ty = match value.try_ty() {
            Ok(value_ty) => value_ty,
            Err(error) => return Tensor::poisoned(error),
        };
        if value_ty.dtype != ty.dtype {
            return fail(format!("the value is {value_ty}, the tensor {ty}"));
        }
        if super::movement::broadcast_shapes(&value_ty.shape, &seen).as_ref() != Some(&seen) {
            return fail(format!("the value {value_ty} does not broadcast to the part {seen}"));
        }
        let value = value.expand(&seen, at).reshaped(part_ty.shape.clone(), at);
        let update = combine(part, value);
        let starts: Vec<Tensor> =
            start.iter().map(|&s| Tensor::number(s as f64, DType::I64, at)).collect();
        let operands: Vec<&Tensor> = [x, &update].into_iter().chain(&starts).collect();
        Tensor::apply(DynamicUpdateSlice, &operands, at)
    }
}
