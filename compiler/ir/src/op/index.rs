//! Multi-indices, in which `eval` thinks.
//!
//! The interpreter takes an offset apart and puts it together again for each
//! element: slow, and easy to believe.

use smallvec::SmallVec;

/// One index for each axis.
pub(super) type Index = SmallVec<[usize; 6]>;

/// The multi-index of element `offset` in row-major order.
pub(super) fn unravel(shape: &[usize], mut offset: usize) -> Index {
    let mut index = Index::from_elem(0, shape.len());
    for axis in (0..shape.len()).rev() {
        index[axis] = offset % shape[axis];
        offset /= shape[axis];
    }
    index
}

/// The place of the element at `index` in row-major order.
pub(super) fn ravel(shape: &[usize], index: &[usize]) -> usize {
    debug_assert!(index.len() == shape.len() && index.iter().zip(shape).all(|(i, d)| i < d));
    index.iter().zip(shape).fold(0, |offset, (i, d)| offset * d + i)
}

/// Every index of `shape` in row-major order.
pub(super) fn indices(shape: &[usize]) -> impl Iterator<Item = Index> + '_ {
    (0..shape.iter().product()).map(|offset| unravel(shape, offset))
}
