//! Index arrays: reads and updates at indices that are data.
//!
//! [`Arrays`] turns numpy's advanced indexing into one gather or scatter:
//!
//! ```text
//! x.get((1..3, &i, .., &j))     i: [5,1]   j: [4]
//!
//!   x' = the ranges of x, a view                     [2, n1, n2, n3]
//!   indices = i and j, wrapped, broadcast, joined    [5, 4, 2]
//!   gather over axes 1 and 3                         [5, 4, 2, n2]     a range is between
//! ```
//!
//! Negative elements count from the end, once: what is still negative is out of range.

use kiln_ir::op::{
    Binary, Compare, Gather, GatherDims, GatherMode, Scatter, ScatterDims, ScatterKind,
    ScatterMode, Select,
};
use kiln_trace::At as Caller;

use super::Tensor;
use super::at::{Access, IndexMode, default_fill};
use super::index::{Index, Resolved, resolve};
use super::movement::broadcast_shapes;
use super::reduce::resolve_axis;
use crate::{DType, Scalar, Shape, Type};

/// A tensor at index arrays.
pub(super) struct Arrays<'t> {
    op: &'t str,
    whole: &'t Tensor,
    /// The ranges among the indices.
    ranges: Resolved,
    /// The tensor at the ranges.
    part: Tensor,
    /// Index vectors, or indices if there is one array.
    indices: Tensor,
    dims: GatherDims,
    sizes: Vec<usize>,
    shape: Shape,
    /// Whether an indexed axis is empty, so that every index is out of range.
    empty: bool,
}

impl<'t> Arrays<'t> {
    /// Checks `indices`, of which one at least is an array, against the tensor.
    pub fn new(
        op: &'t str,
        x: &'t Tensor,
        indices: &[Index],
        access: &Access,
        at: Caller,
    ) -> Result<Arrays<'t>, Tensor> {
        let ty = x.try_ty().map_err(Tensor::poisoned)?;
        let fail = |message: String| Tensor::fail_operands(op, message, &[("operand", x)], at);
        let mut ranges = resolve(indices, ty).map_err(&fail)?;
        // Numbers are index arrays of rank 0, checked already.
        let numbers = std::mem::take(&mut ranges.dropped);
        let mut arrays: Vec<(usize, Tensor)> = Vec::new();
        for (axis, index) in indices.iter().enumerate() {
            let extent = ty.shape[axis];
            match index {
                Index::At(_) => {
                    debug_assert!(numbers.contains(&axis));
                    let number = ranges.slice.start[axis];
                    (ranges.slice.start[axis], ranges.slice.limit[axis]) = (0, extent);
                    let number = Scalar::from_i128(DType::I64, number as i128);
                    arrays.push((axis, Tensor::scalar(number)));
                }
                Index::Array(array) => {
                    let array_ty = array.try_ty().map_err(Tensor::poisoned)?;
                    if array_ty.dtype == DType::Bool {
                        let message = format!(
                            "a mask ({array_ty}) is no index: how many elements it takes is known \
                             only at run time; use `where_`"
                        );
                        return Err(Tensor::fail_operands(op, message, &[("index", array)], at));
                    }
                    if !array_ty.dtype.is_integer() {
                        let message = format!("wants integers as indices, got {array_ty}");
                        return Err(Tensor::fail_operands(op, message, &[("index", array)], at));
                    }
                    if access.mode == Some(IndexMode::Error) {
                        check(op, array, axis, ty, at)?;
                    }
                    arrays.push((axis, wrapped(array, extent, at)));
                }
                Index::Range { .. } => {}
            }
        }
        let part = ranges.part(x, at);
        let part_ty = part.try_ty().map_err(Tensor::poisoned)?.clone();

        let mut common = Shape::scalar();
        for (axis, array) in &arrays {
            let shape = &array.try_ty().map_err(Tensor::poisoned)?.shape;
            let Some(both) = broadcast_shapes(&common, shape) else {
                let message =
                    format!("index arrays do not broadcast: {common}, axis {axis} {shape}");
                return Err(fail(message));
            };
            common = both;
        }
        let axes: Vec<usize> = arrays.iter().map(|(axis, _)| *axis).collect();
        let adjacent = axes.windows(2).all(|w| w[0] + 1 == w[1]);
        let first = if adjacent { axes[0] } else { 0 };
        let rank = part_ty.shape.rank();
        let window: Vec<usize> = (0..rank).filter(|a| !axes.contains(a)).collect();
        let offset = |k: usize| if k < first { k } else { k + common.rank() };
        let dims = GatherDims {
            offset_dims: (0..window.len()).map(offset).collect(),
            collapsed_slice_dims: axes.clone(),
            start_index_map: axes.clone(),
            index_vector_dim: common.rank(),
            ..GatherDims::default()
        };
        let sizes: Vec<usize> =
            (0..rank).map(|a| if axes.contains(&a) { 1 } else { part_ty.shape[a] }).collect();
        let mut shape: Vec<usize> = window.iter().map(|&a| part_ty.shape[a]).collect();
        shape.splice(first..first, common.iter().copied());
        let indices = vectors(arrays.into_iter().map(|(_, array)| array).collect(), &common, at);
        indices.try_ty().map_err(Tensor::poisoned)?;
        let empty = axes.iter().any(|&a| part_ty.shape[a] == 0);
        let shape = shape.into();
        Ok(Arrays { op, whole: x, ranges, part, indices, dims, sizes, shape, empty })
    }

    /// The shape of what is read, and of updates.
    pub fn shape(&self) -> Shape {
        self.shape.clone()
    }

    /// The elements. Out of range they clip, unless the access says otherwise.
    pub fn read(self, access: &Access, at: Caller) -> Tensor {
        let ty = self.part.ty();
        let fill = match access.mode {
            Some(IndexMode::Fill | IndexMode::Drop) => Some(match &access.fill {
                Some(fill) => fill.clone(),
                None => fill_constant(ty.dtype, at),
            }),
            _ => None,
        };
        if self.empty {
            let nothing = self.shape.elements() == 0;
            return match fill.or_else(|| nothing.then(|| fill_constant(ty.dtype, at))) {
                Some(fill) => fill.broadcast_named(self.op, self.shape, at),
                None => {
                    let message = format!("an index into an empty axis of {ty}");
                    Tensor::fail_operands(self.op, message, &[("operand", self.whole)], at)
                }
            };
        }
        let gather = Gather {
            dims: self.dims,
            slice_sizes: self.sizes,
            mode: if fill.is_some() { GatherMode::Fill } else { GatherMode::Clip },
            unique_indices: access.unique,
            indices_are_sorted: access.sorted,
        };
        let operands: Vec<&Tensor> = [&self.part, &self.indices].into_iter().chain(&fill).collect();
        Tensor::apply(gather, &operands, at)
    }

    /// The tensor with updates, of [`Arrays::shape`]. Out of range they drop, unless the
    /// access says otherwise.
    pub fn write(self, kind: ScatterKind, updates: &Tensor, access: &Access, at: Caller) -> Tensor {
        let mode = match access.mode {
            Some(IndexMode::Clip) if !self.empty => ScatterMode::Clip,
            _ => ScatterMode::Drop,
        };
        let scatter = Scatter {
            kind,
            dims: ScatterDims::of_gather(&self.dims),
            mode,
            unique_indices: access.unique,
            indices_are_sorted: access.sorted,
        };
        let part = scattered(scatter, &self.part, &self.indices, updates, at);
        let whole = self.part.try_ty().is_ok_and(|part| *part == *self.whole.ty());
        if whole { part } else { self.ranges.replace(self.whole, &part, at) }
    }
}

/// A scatter. Half types are combined in `f32` and rounded once.
fn scattered(op: Scatter, x: &Tensor, indices: &Tensor, updates: &Tensor, at: Caller) -> Tensor {
    let half = x.try_ty().ok().map(|ty| ty.dtype).filter(|d| d.is_half());
    match half {
        Some(half) if op.kind != ScatterKind::Set => {
            let [x, updates] = [x, updates].map(|t| t.convert(DType::F32, at));
            Tensor::apply(op, &[&x, indices, &updates], at).convert(half, at)
        }
        _ => Tensor::apply(op, &[x, indices, updates], at),
    }
}

fn fill_constant(dtype: DType, at: Caller) -> Tensor {
    Tensor::constant(kiln_ir::Literal::scalar(default_fill(dtype)), at)
}

/// Refuses indices of which one is out of range, naming the first.
fn check(op: &str, array: &Tensor, axis: usize, ty: &Type, at: Caller) -> Result<(), Tensor> {
    if array.is_traced() || kiln_trace::is_open() {
        let message = "mode Error looks at the indices, which a function that is being traced \
                       does not have: look at them outside, or choose another mode";
        return Err(Tensor::fail_operands(op, message, &[("index", array)], at));
    }
    let literal = array.literal(op, at).map_err(Tensor::poisoned)?;
    let extent = ty.shape[axis] as i128;
    let wrong = literal.iter().find_map(|s| {
        let i = s.as_i128().expect("indices are integers");
        (!(-extent..extent).contains(&i)).then_some(i)
    });
    match wrong {
        None => Ok(()),
        Some(i) => {
            let message = format!("index {i} is out of range for axis {axis} of {ty}");
            Err(Tensor::fail_operands(op, message, &[("index", array)], at))
        }
    }
}

/// Indices with negative ones counted from the end, in a type that holds the extent.
fn wrapped(array: &Tensor, extent: usize, at: Caller) -> Tensor {
    let Ok(ty) = array.try_ty() else { return array.clone() };
    if ty.dtype.is_unsigned() {
        return array.clone();
    }
    let holds = |dtype: DType| (extent as u128) < 1u128 << (dtype.bits() - 1);
    let dtype = [ty.dtype, DType::I32].into_iter().find(|&d| holds(d)).unwrap_or(DType::I64);
    let array = array.convert(dtype, at);
    let number = |x: f64| Tensor::number(x, dtype, at).expand(&ty.shape, at);
    let negative = Tensor::apply(Compare::Lt, &[&array, &number(0.0)], at);
    let from_end = Tensor::apply(Binary::Add, &[&array, &number(extent as f64)], at);
    Tensor::apply(Select, &[&negative, &from_end, &array], at)
}

/// Arrays of one type that broadcast to `shape`, as index vectors along a last axis; one
/// array as it is.
fn vectors(arrays: Vec<Tensor>, shape: &Shape, at: Caller) -> Tensor {
    let dtypes: Vec<DType> = arrays.iter().map(|a| a.ty().dtype).collect();
    let same = dtypes.iter().all(|&d| d == dtypes[0]);
    let wide = |array: &Tensor, dtype: DType| match dtype {
        // What no i64 holds is out of range, as the greatest is.
        DType::U64 => {
            let most = Tensor::constant(
                kiln_ir::Literal::scalar(Scalar::from_i128(dtype, i64::MAX.into())),
                at,
            );
            array.binary(Binary::Min, &most, at).convert(DType::I64, at)
        }
        _ => array.convert(DType::I64, at),
    };
    let alike: Vec<Tensor> = arrays
        .iter()
        .zip(&dtypes)
        .map(|(array, &dtype)| if same { array.clone() } else { wide(array, dtype) })
        .map(|array| array.expand(shape, at))
        .collect();
    match &alike[..] {
        [one] => one.clone(),
        several => {
            let column: Shape = shape.iter().copied().chain([1]).collect();
            let columns: Vec<Tensor> =
                several.iter().map(|a| a.reshaped(column.clone(), at)).collect();
            let columns: Vec<&Tensor> = columns.iter().collect();
            Tensor::apply(kiln_ir::op::Concatenate { axis: shape.rank() }, &columns, at)
        }
    }
}

impl Tensor {
    /// The elements at `indices` along an axis, whose place the axes of `indices` take:
    /// `jnp.take`. Out of range there is NaN (the least signed integer, the greatest unsigned
    /// one, `true`); [`Tensor::take_with`] has other modes.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// // Looking up embeddings: rows of a table.
    /// let table = Tensor::arange(6, F32).reshape([3, 2]);
    /// let rows = table.take([2, 0, -1], 0);
    /// assert_eq!(rows.to_vec::<f32>()?, [4.0, 5.0, 0.0, 1.0, 4.0, 5.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn take(&self, indices: impl Into<Index>, axis: i64) -> Tensor {
        self.taken(indices.into(), axis, IndexMode::Fill, Caller::caller())
    }

    /// As [`Tensor::take`], with another mode for what is out of range.
    #[track_caller]
    pub fn take_with(&self, indices: impl Into<Index>, axis: i64, mode: IndexMode) -> Tensor {
        self.taken(indices.into(), axis, mode, Caller::caller())
    }

    fn taken(&self, index: Index, axis: i64, mode: IndexMode, at: Caller) -> Tensor {
        let Ok(ty) = self.try_ty() else { return self.clone() };
        let Some(axis) = resolve_axis(axis, ty.shape.rank()) else {
            let message = format!("axis {axis} is out of range for {ty}");
            return Tensor::fail_operands("take", message, &[("operand", self)], at);
        };
        let mut indices = vec![Index::from(..); axis];
        indices.push(index);
        self.part("take", &indices, &Access { mode: Some(mode), ..Access::default() }, at)
    }

    /// The elements at `indices` along an axis, each at its own place along the others:
    /// `result[i, j] = self[i, indices[i, j]]` for axis 1 of two. The other axes broadcast.
    /// Out of range there is what [`Tensor::take`] gives.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([[3, 1, 2], [4, 6, 5]]);
    /// let best = x.argmax(keepdims(1));
    /// assert_eq!(x.take_along_axis(&best, 1).to_vec::<i32>()?, [3, 6]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn take_along_axis(&self, indices: &Tensor, axis: i64) -> Tensor {
        let (op, at) = ("take_along_axis", Caller::caller());
        let (ty, index_ty) = match (self.try_ty(), indices.try_ty()) {
            (Ok(ty), Ok(index_ty)) => (ty, index_ty),
            (Err(error), _) | (_, Err(error)) => return Tensor::poisoned(error),
        };
        let fail = |message: String| {
            let operands = [("operand", self), ("indices", indices)];
            Tensor::fail_operands(op, message, &operands, at)
        };
        let rank = ty.shape.rank();
        let Some(axis) = resolve_axis(axis, rank) else {
            return fail(format!("axis {axis} is out of range for {ty}"));
        };
        if index_ty.shape.rank() != rank || !index_ty.dtype.is_integer() {
            return fail(format!("wants integers of rank {rank} for {ty}, got {index_ty}"));
        }
        // Everything but the axis broadcasts.
        let without = |shape: &Shape| shape.without(&[axis]);
        let Some(common) = broadcast_shapes(&without(&ty.shape), &without(&index_ty.shape)) else {
            return fail(format!("{ty} and {index_ty} do not broadcast beside axis {axis}"));
        };
        let with = |extent: usize| {
            let mut shape = common.to_vec();
            shape.insert(axis, extent);
            Shape::from(shape)
        };
        let extent = ty.shape[axis];
        let shape = with(index_ty.shape[axis]);
        let fill = fill_constant(ty.dtype, at);
        if extent == 0 {
            return fill.broadcast_named(op, shape, at);
        }
        let x = self.expand(&with(extent), at);
        let indices = wrapped(indices, extent, at).expand(&shape, at);
        let batching: Vec<usize> = (0..rank).filter(|&a| a != axis).collect();
        let gather = Gather {
            dims: GatherDims {
                offset_dims: Vec::new(),
                collapsed_slice_dims: vec![axis],
                operand_batching_dims: batching.clone(),
                start_indices_batching_dims: batching,
                start_index_map: vec![axis],
                index_vector_dim: rank,
            },
            slice_sizes: vec![1; rank],
            mode: GatherMode::Fill,
            unique_indices: false,
            indices_are_sorted: false,
        };
        Tensor::apply(gather, &[&x, &indices, &fill], at)
    }
}

// --- segments ------------------------------------------------------------------------------

macro_rules! segments {
    ($($(#[$doc:meta])* $name:ident $kind:ident $start:expr;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&self, segment_ids: &Tensor, num_segments: usize) -> Tensor {
                let at = Caller::caller();
                let start: fn(DType) -> Scalar = $start;
                segments(self, stringify!($name), ScatterKind::$kind, start, segment_ids, num_segments, at)
            }
        )*}
    };
}

segments! {
    /// Sums of the entries along axis 0 that have the same id, which is its place in the
    /// result: `jax.ops.segment_sum`. Ids outside `0..num_segments` count for nothing.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
    /// let ids = Tensor::from([0, 2, 0, 7]);
    /// assert_eq!(x.segment_sum(&ids, 3).to_vec::<f32>()?, [4.0, 0.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    segment_sum Add |dtype| Scalar::zero(dtype);
    /// Products of the entries that have the same id; see [`Tensor::segment_sum`].
    segment_prod Mul |dtype| Scalar::one(dtype);
    /// The least of the entries that have the same id, the greatest number where there is
    /// none; see [`Tensor::segment_sum`].
    segment_min Min |dtype| limit(dtype, true);
    /// The greatest of the entries that have the same id, the least number where there is
    /// none; see [`Tensor::segment_sum`].
    segment_max Max |dtype| limit(dtype, false);
}

/// What no element is above, or below.
fn limit(dtype: DType, above: bool) -> Scalar {
    match dtype {
        DType::Bool => Scalar::bool(above),
        d if d.is_float() => {
            Scalar::from_f64(d, if above { f64::INFINITY } else { f64::NEG_INFINITY })
        }
        d if d.is_unsigned() => Scalar::from_i128(d, if above { -1 } else { 0 }),
        d => {
            let low = -1i128 << (d.bits() - 1);
            Scalar::from_i128(d, if above { -1 - low } else { low })
        }
    }
}

fn segments(
    data: &Tensor,
    op: &str,
    kind: ScatterKind,
    start: fn(DType) -> Scalar,
    ids: &Tensor,
    count: usize,
    at: Caller,
) -> Tensor {
    let (ty, ids_ty) = match (data.try_ty(), ids.try_ty()) {
        (Ok(ty), Ok(ids_ty)) => (ty, ids_ty),
        (Err(error), _) | (_, Err(error)) => return Tensor::poisoned(error),
    };
    let fits = ids_ty.dtype.is_integer()
        && ids_ty.shape.rank() == 1
        && ty.shape.first() == ids_ty.shape.first();
    if !fits {
        let message = format!("wants one integer id for each entry of {ty}, got {ids_ty}");
        let operands = [("data", data), ("segment_ids", ids)];
        return Tensor::fail_operands(op, message, &operands, at);
    }
    let mut shape = ty.shape.to_vec();
    shape[0] = count;
    let start = Tensor::constant(kiln_ir::Literal::scalar(start(ty.dtype)), at);
    let start = start.broadcast_named(op, shape.into(), at);
    let scatter = Scatter {
        kind,
        dims: ScatterDims {
            update_window_dims: (1..ty.shape.rank()).collect(),
            inserted_window_dims: vec![0],
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1,
            ..ScatterDims::default()
        },
        mode: ScatterMode::Drop,
        unique_indices: false,
        indices_are_sorted: false,
    };
    scattered(scatter, &start, ids, data, at)
}

impl Tensor {
    /// How often each of `0..length` occurs: `jnp.bincount`. Negative elements count as 0,
    /// those from `length` on for nothing.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// assert_eq!(Tensor::from([1, 3, 1, 9]).bincount(4).to_vec::<i32>()?, [0, 2, 0, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn bincount(&self, length: usize) -> Tensor {
        let at = Caller::caller();
        let Ok(ty) = self.try_ty() else { return self.clone() };
        if !ty.dtype.is_integer() {
            let message = format!("wants integers, got {ty}");
            return Tensor::fail_operands("bincount", message, &[("operand", self)], at);
        }
        let flat = self.reshaped(Shape::from([ty.shape.elements()]), at);
        let zero = Tensor::number(0.0, ty.dtype, at);
        let ids = flat.binary(Binary::Max, &zero, at);
        let one = Tensor::number(1.0, DType::I32, at);
        let ones = one.broadcast_named("bincount", Shape::from([ty.shape.elements()]), at);
        segments(&ones, "bincount", ScatterKind::Add, Scalar::zero, &ids, length, at)
    }
}

// --- all dimension numbers ------------------------------------------------------------------

macro_rules! scatters {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)*) => {
        impl Tensor {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(
                &self,
                indices: &Tensor,
                updates: &Tensor,
                dims: ScatterDims,
                mode: IndexMode,
            ) -> Tensor {
                let at = Caller::caller();
                let mode = match mode {
                    IndexMode::Clip => ScatterMode::Clip,
                    IndexMode::Fill | IndexMode::Drop => ScatterMode::Drop,
                    IndexMode::Error => return unchecked(stringify!($name), at),
                };
                let (unique_indices, indices_are_sorted) = (false, false);
                let kind = ScatterKind::$kind;
                let op = Scatter { kind, dims, mode, unique_indices, indices_are_sorted };
                scattered(op, self, indices, updates, at)
            }
        )*}
    };
}

scatters! {
    /// `lax.scatter`: with windows replaced by updates, by dimension numbers. Of several
    /// updates of one element the last stays. [`Tensor::at`] says the same with indices as
    /// one writes them.
    scatter Set;
    /// `lax.scatter_add`; see [`Tensor::scatter`].
    scatter_add Add;
    /// `lax.scatter_mul`; see [`Tensor::scatter`].
    scatter_mul Mul;
    /// `lax.scatter_min`; see [`Tensor::scatter`].
    scatter_min Min;
    /// `lax.scatter_max`; see [`Tensor::scatter`].
    scatter_max Max;
}

fn unchecked(op: &str, at: Caller) -> Tensor {
    let message = "mode Error is for index arrays: `get`, `at` and `take_with`";
    Tensor::fail(op, message, at)
}

impl Tensor {
    /// `lax.gather`: windows at index vectors, by dimension numbers. Indices are not wrapped.
    /// [`Tensor::get`], [`Tensor::take`] and [`Tensor::take_along_axis`] say the usual ones
    /// shorter.
    ///
    /// ```
    /// use kiln::{GatherDims, IndexMode, prelude::*};
    ///
    /// // Windows of two elements.
    /// let dims = GatherDims {
    ///     offset_dims: vec![1],
    ///     start_index_map: vec![0],
    ///     index_vector_dim: 1,
    ///     ..GatherDims::default()
    /// };
    /// let x = Tensor::from([0, 10, 20, 30]);
    /// let windows = x.gather(&Tensor::from([1, 9]), dims, &[2], IndexMode::Clip);
    /// assert_eq!(windows.to_vec::<i32>()?, [10, 20, 20, 30]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn gather(
        &self,
        indices: &Tensor,
        dims: GatherDims,
        slice_sizes: &[usize],
        mode: IndexMode,
    ) -> Tensor {
        let at = Caller::caller();
        let Ok(ty) = self.try_ty() else { return self.clone() };
        let fill = match mode {
            IndexMode::Clip => None,
            IndexMode::Fill | IndexMode::Drop => Some(fill_constant(ty.dtype, at)),
            IndexMode::Error => return unchecked("gather", at),
        };
        let gather = Gather {
            dims,
            slice_sizes: slice_sizes.to_vec(),
            mode: if fill.is_some() { GatherMode::Fill } else { GatherMode::Clip },
            unique_indices: false,
            indices_are_sorted: false,
        };
        let operands: Vec<&Tensor> = [self, indices].into_iter().chain(&fill).collect();
        Tensor::apply(gather, &operands, at)
    }
}
