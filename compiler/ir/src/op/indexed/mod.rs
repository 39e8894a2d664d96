//! Reads and writes at indices that are data: gather and scatter.
//!
//! Both move *windows*: boxes of the operand, one for each index vector. Axes belong
//! together as StableHLO's dimension numbers say:
//!
//! ```text
//! operand  [batching, .., start_index_map and window axes in any order]
//! indices  [batching, .., positions,  index vector at index_vector_dim]
//! result   [batching, .., positions,  window]      window axes at offset_dims
//! ```
//!
//! A window's first element is its index vector, laid out along `start_index_map`; its
//! size is 1 along collapsed and batching axes. An `index_vector_dim` one past the last
//! axis of the indices means that each of them is a vector of one.
//!
//! A window that does not lie inside the operand as a whole is *out of range*. What
//! happens then is the op's mode, and always defined (C2 in `docs/numerics.md`).

mod gather;
mod scatter;

pub use gather::{Gather, GatherDims, GatherMode};
pub use scatter::{Scatter, ScatterDims, ScatterKind, ScatterMode};

use super::index::{Index, ravel};
use super::{InferError, check};
use crate::{Literal, Shape, Type};

/// What messages call the lists of axes.
struct Names {
    offset: &'static str,
    collapsed: &'static str,
    indices_batching: &'static str,
    map: &'static str,
}

/// The shape of windows put together: the result of a gather, the updates of a scatter.
fn result_shape(
    op: &'static str,
    names: &Names,
    dims: &GatherDims,
    sizes: &[usize],
    x: &Type,
    indices: &Type,
) -> Result<Shape, InferError> {
    let fail = |message: String| Err(InferError::new(op, message));
    check::integer(op, indices)?;
    check::per_axis(op, "slice_sizes", sizes.len(), x)?;
    let (rank, vector) = (x.shape.rank(), dims.index_vector_dim);
    if vector > indices.shape.rank() {
        return fail(format!("index_vector_dim {vector} is out of range for {indices}"));
    }
    check::increasing_axes(op, &dims.collapsed_slice_dims, x)?;
    check::increasing_axes(op, &dims.operand_batching_dims, x)?;
    let (collapsed, batching) = (&dims.collapsed_slice_dims, &dims.operand_batching_dims);
    if let Some(axis) = collapsed.iter().find(|a| batching.contains(a)) {
        return fail(format!("axis {axis} is both in {} and batching", names.collapsed));
    }
    for (k, &axis) in dims.start_index_map.iter().enumerate() {
        check::axis(op, axis, x)?;
        if dims.start_index_map[..k].contains(&axis) || batching.contains(&axis) {
            return fail(format!("axis {axis} in {} is taken already", names.map));
        }
    }
    let length = indices.shape.get(vector).copied().unwrap_or(1);
    if dims.start_index_map.len() != length {
        return fail(format!(
            "{} has {} axes, index vectors of {indices} along axis {vector} have {length}",
            names.map,
            dims.start_index_map.len()
        ));
    }
    if dims.start_indices_batching_dims.len() != batching.len() {
        return fail(format!(
            "{} has {} axes, operand_batching_dims {}",
            names.indices_batching,
            dims.start_indices_batching_dims.len(),
            batching.len()
        ));
    }
    for (k, (&axis, &of)) in dims.start_indices_batching_dims.iter().zip(batching).enumerate() {
        check::axis(op, axis, indices)?;
        if axis == vector || dims.start_indices_batching_dims[..k].contains(&axis) {
            return fail(format!("axis {axis} in {} is taken already", names.indices_batching));
        }
        let (have, want) = (indices.shape[axis], x.shape[of]);
        if have != want {
            return fail(format!(
                "batching axes differ in length: {x} axis {of} is {want}, {indices} axis {axis} is {have}"
            ));
        }
    }
    for &axis in collapsed.iter().chain(batching) {
        if sizes[axis] != 1 {
            return fail(format!("a window has size {} along axis {axis}, wants 1", sizes[axis]));
        }
    }
    let window: Vec<usize> = (0..rank)
        .filter(|a| !collapsed.contains(a) && !batching.contains(a))
        .map(|a| sizes[a])
        .collect();
    if dims.offset_dims.len() != window.len() {
        return fail(format!(
            "{} has {} axes, windows of {x} have {}",
            names.offset,
            dims.offset_dims.len(),
            window.len()
        ));
    }
    let positions = indices.shape.without(if vector < indices.shape.rank() {
        std::slice::from_ref(&dims.index_vector_dim)
    } else {
        &[]
    });
    let total = positions.rank() + window.len();
    if !dims.offset_dims.is_sorted_by(|a, b| a < b) || dims.offset_dims.iter().any(|&a| a >= total)
    {
        return fail(format!(
            "wants increasing axes of a rank-{total} result as {}, got {:?}",
            names.offset, dims.offset_dims
        ));
    }
    let (mut window, mut positions) = (window.into_iter(), positions.iter().copied());
    let extent = |axis: usize| match dims.offset_dims.contains(&axis) {
        true => window.next(),
        false => positions.next(),
    };
    Ok((0..total).map(extent).map(|d| d.expect("as many axes")).collect())
}

/// Where the window at `position` starts along each axis of the operand, as the indices
/// say, and 0 along the axes of which they say nothing. For `eval`.
fn window_start(
    dims: &GatherDims,
    rank: usize,
    indices: &Literal,
    position: &[usize],
) -> Vec<i128> {
    let vector = dims.index_vector_dim;
    (0..rank)
        .map(|axis| {
            if let Some(k) = dims.operand_batching_dims.iter().position(|&a| a == axis) {
                let of = dims.start_indices_batching_dims[k];
                // Positions lack the index vector's axis.
                return position[if of > vector { of - 1 } else { of }] as i128;
            }
            let Some(k) = dims.start_index_map.iter().position(|&a| a == axis) else { return 0 };
            let mut at = Index::from_slice(position);
            if vector < indices.ty().shape.rank() {
                at.insert(vector, k);
            }
            let start = indices.get(ravel(&indices.ty().shape, &at));
            start.as_i128().expect("infer wants integers")
        })
        .collect()
}

/// The position and the place in the window of an index of the result. For `eval`.
fn apart(dims: &GatherDims, rank: usize, index: &[usize]) -> (Index, Index) {
    let mut place = Index::from_elem(0, rank);
    let window = (0..rank).filter(|a| {
        !dims.collapsed_slice_dims.contains(a) && !dims.operand_batching_dims.contains(a)
    });
    for (axis, &at) in window.zip(&dims.offset_dims) {
        place[axis] = index[at];
    }
    let position = index.iter().enumerate().filter(|(a, _)| !dims.offset_dims.contains(a));
    (position.map(|(_, &i)| i).collect(), place)
}

/// A program of the samples: operand and indices, sizes of windows, axes.
pub(super) struct Pattern {
    pub x: &'static [usize],
    pub indices: &'static [usize],
    pub sizes: &'static [usize],
    pub dims: GatherDims,
}

/// The patterns of samples: all kinds of axes, in usual and unusual places.
pub(super) fn patterns() -> Vec<Pattern> {
    type List = &'static [usize];
    let pattern = |x: List, indices: List, sizes: List, lists: [List; 3], vector: usize| {
        let [offset, collapsed, map] = lists.map(<[usize]>::to_vec);
        let dims = GatherDims {
            offset_dims: offset,
            collapsed_slice_dims: collapsed,
            start_index_map: map,
            index_vector_dim: vector,
            ..GatherDims::default()
        };
        Pattern { x, indices, sizes, dims }
    };
    let batched = |mut p: Pattern, operand: List, indices: List| {
        p.dims.operand_batching_dims = operand.to_vec();
        p.dims.start_indices_batching_dims = indices.to_vec();
        p
    };
    vec![
        // Rows; of a table with several axes of positions; one row.
        pattern(&[9, 33], &[7], &[1, 33], [&[1], &[0], &[0]], 1),
        pattern(&[4, 2], &[1, 3, 1], &[1, 2], [&[2], &[0], &[0]], 2),
        pattern(&[9, 5], &[], &[1, 5], [&[0], &[0], &[0]], 0),
        pattern(&[12, 129], &[17], &[1, 129], [&[1], &[0], &[0]], 1),
        // Elements of a vector, columns, parts of rows.
        pattern(&[11], &[65], &[1], [&[], &[0], &[0]], 1),
        pattern(&[7, 10], &[17], &[7, 1], [&[0], &[1], &[1]], 1),
        pattern(&[9, 20], &[6], &[1, 7], [&[1], &[0], &[0]], 1),
        // Elements by index vectors along each axis, in both orders.
        pattern(&[5, 7], &[19, 2], &[1, 1], [&[], &[0, 1], &[0, 1]], 1),
        pattern(&[5, 7], &[2, 19], &[1, 1], [&[], &[0, 1], &[1, 0]], 0),
        pattern(&[3, 4, 5], &[2, 3, 8], &[1, 1, 1], [&[], &[0, 1, 2], &[2, 0, 1]], 1),
        // Windows that overlap; boxes; windows before positions; around them.
        pattern(&[17], &[6], &[4], [&[1], &[], &[0]], 1),
        pattern(&[6, 8], &[5, 2], &[2, 3], [&[1, 2], &[], &[0, 1]], 1),
        pattern(&[6, 8], &[5, 2], &[2, 8], [&[0, 1], &[], &[0, 1]], 1),
        pattern(&[6, 4, 3], &[5], &[6, 1, 3], [&[0, 2], &[1], &[1]], 1),
        // A window of the operand's own size starts at 0 or is out of range.
        pattern(&[3, 4], &[5, 2], &[3, 2], [&[1, 2], &[], &[0, 1]], 1),
        // No index at all; no positions; empty windows.
        pattern(&[2, 3], &[4, 0], &[2, 3], [&[1, 2], &[], &[]], 1),
        pattern(&[9, 5], &[0], &[1, 5], [&[1], &[0], &[0]], 1),
        pattern(&[3, 0], &[4], &[1, 0], [&[1], &[0], &[0]], 1),
        // Batching axes: in front, behind, two of them crossed.
        batched(pattern(&[4, 9, 3], &[4, 6], &[1, 1, 3], [&[2], &[1], &[1]], 2), &[0], &[0]),
        batched(pattern(&[9, 4], &[6, 4], &[1, 1], [&[], &[0], &[0]], 2), &[1], &[1]),
        batched(
            pattern(&[2, 3, 6], &[3, 1, 5, 2], &[1, 1, 2], [&[3], &[], &[2]], 1),
            &[0, 1],
            &[3, 0],
        ),
    ]
}
