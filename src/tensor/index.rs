//! Indexing: parts of a tensor by numbers, ranges and index arrays, and boxes at starts
//! known at run time.
//!
//! Numbers and ranges are known when the op is called: what is out of range is a mistake.
//! Elements of index arrays are data; what happens to them is in `gather`.
//!
//! Outside a trace the start of a part is fed to the program, so that a loop over indices
//! compiles once. Inside one it is a constant, and the part a view that costs nothing.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo};

use kiln_ir::op::{DynamicSlice, DynamicUpdateSlice, Slice};
use kiln_ir::{Literal, Scalar};
use kiln_trace::At as Caller;

use super::at::{Access, At};
use super::gather::Arrays;
use super::operand::OperandKind;
use super::{Operand, Tensor};
use crate::{DType, Type};

/// What is taken along one axis.
#[derive(Clone, Debug)]
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
    /// The elements at these integers, in their order, any number of times; negative ones
    /// count from the end. See [`Tensor::get`].
    Array(Tensor),
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
            other => other,
        }
    }
}

impl From<Tensor> for Index {
    fn from(indices: Tensor) -> Index {
        Index::Array(indices)
    }
}

impl From<&Tensor> for Index {
    fn from(indices: &Tensor) -> Index {
        Index::Array(indices.clone())
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
        impl<const N: usize> From<[$t; N]> for Index {
            fn from(indices: [$t; N]) -> Index {
                Index::from(&indices[..])
            }
        }
        impl From<&[$t]> for Index {
            fn from(indices: &[$t]) -> Index {
                let indices: Vec<i64> = indices.iter().map(|&i| bound(i)).collect();
                Index::Array(Tensor::from(&indices[..]))
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

/// An index for each of the leading axes: a tuple of numbers, ranges and index arrays, or
/// one of them.
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

/// An index of numbers and ranges, checked against a type.
pub(super) struct Resolved {
    pub slice: Slice,
    /// Axes that one number took.
    pub dropped: Vec<usize>,
}

impl Resolved {
    /// The part of `x`, with the axes that numbers took at extent 1.
    pub fn part(&self, x: &Tensor, at: Caller) -> Tensor {
        let slice = &self.slice;
        let Ok(ty) = x.try_ty() else { return x.clone() };
        let whole = (0..ty.shape.rank()).all(|k| self.whole(k, ty));
        if whole {
            return x.clone();
        }
        if kiln_trace::is_open() || slice.stride.iter().any(|&s| s != 1) {
            return Tensor::apply(slice.clone(), &[x], at);
        }
        let sizes = slice.start.iter().zip(&slice.limit).map(|(start, limit)| limit - start);
        let starts = self.starts(ty, at);
        let operands: Vec<&Tensor> = std::iter::once(x).chain(&starts).collect();
        Tensor::apply(DynamicSlice { sizes: sizes.collect() }, &operands, at)
    }

    /// `x` with `part` written over it, whose numbers' axes have extent 1.
    pub fn replace(&self, x: &Tensor, part: &Tensor, at: Caller) -> Tensor {
        let Ok(ty) = x.try_ty() else { return x.clone() };
        let starts = self.starts(ty, at);
        let operands: Vec<&Tensor> = [x, part].into_iter().chain(&starts).collect();
        Tensor::apply(DynamicUpdateSlice, &operands, at)
    }

    fn whole(&self, axis: usize, ty: &Type) -> bool {
        let Slice { start, limit, stride } = &self.slice;
        start[axis] == 0 && limit[axis] == ty.shape[axis] && stride[axis] == 1
    }

    /// The start along each axis: 0 where all is taken, else a number that a run is fed
    /// outside a trace, and a constant in one.
    fn starts(&self, ty: &Type, at: Caller) -> Vec<Tensor> {
        let start = |k: usize| match self.whole(k, ty) {
            true => Tensor::number(0.0, DType::I64, at),
            false => Tensor::scalar(Scalar::from_i128(DType::I64, self.slice.start[k] as i128)),
        };
        (0..ty.shape.rank()).map(start).collect()
    }
}

pub(super) fn resolve(indices: &[Index], ty: &Type) -> Result<Resolved, String> {
    let rank = ty.shape.rank();
    if indices.len() > rank {
        return Err(format!("{} indices for {ty}, which has {rank} axes", indices.len()));
    }
    let mut slice = Slice { start: vec![0; rank], limit: ty.shape.to_vec(), stride: vec![1; rank] };
    let mut dropped = Vec::new();
    for (axis, index) in indices.iter().enumerate() {
        let extent = ty.shape[axis] as i64;
        match *index {
            // Taken by a gather, from the part that this leaves whole.
            Index::Array(_) => {}
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
    ///
    /// Index arrays take elements in any order. Several of them, and numbers beside them,
    /// broadcast against each other, and their common axes stand where the first of them
    /// did, or in front where a range is between them, as in numpy. Their elements are data:
    /// one out of range takes the nearest that is in range (see [`Tensor::at`] for other
    /// modes).
    ///
    /// ```
    /// # use kiln::prelude::*;
    /// let x = Tensor::arange(12, I32).reshape([3, 4]);
    /// assert_eq!(x.get((.., [3, 0])).to_vec::<i32>()?, [3, 0, 7, 4, 11, 8]);
    /// let diagonal = Tensor::arange(3, I32);
    /// assert_eq!(x.get((&diagonal, &diagonal)).to_vec::<i32>()?, [0, 5, 10]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// A mask is no index, since how many elements it takes is known only at run time: use
    /// [`Tensor::where_`].
    #[track_caller]
    pub fn get(&self, index: impl TensorIndex) -> Tensor {
        self.part("get", &index.indices(), &Access::default(), Caller::caller())
    }

    /// The part at some indices.
    pub(super) fn part(&self, op: &str, indices: &[Index], access: &Access, at: Caller) -> Tensor {
        let Ok(ty) = self.try_ty() else { return self.clone() };
        if indices.iter().any(|i| matches!(i, Index::Array(_))) {
            return match Arrays::new(op, self, indices, access, at) {
                Ok(arrays) => arrays.read(access, at),
                Err(poisoned) => poisoned,
            };
        }
        match resolve(indices, ty) {
            Ok(resolved) => {
                let part = resolved.part(self, at);
                match part.try_ty() {
                    Ok(ty) => part.reshaped(ty.shape.without(&resolved.dropped), at),
                    Err(_) => part,
                }
            }
            Err(message) => Tensor::fail_operands(op, message, &[("operand", self)], at),
        }
    }

    /// A part of the tensor to replace or combine with a value: `x.at((0, 1..3)).set(y)`,
    /// `x.at(&indices).add(y)`.
    pub fn at<I: TensorIndex>(&self, index: I) -> At<'_> {
        At::new(self, index.indices())
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
