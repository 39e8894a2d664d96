//! Shapes and the static type of a value.
//!
//! A [`Shape`] is a list of extents, outermost first; rank 0 is a scalar and an
//! extent may be 0. A [`Type`] adds the element type. Layout is always dense and
//! row-major: transposes and slices are index maps inside kernels, never strides
//! in memory.

use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;

use crate::DType;

/// Extents of a tensor, outermost first.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Shape(SmallVec<[usize; 6]>);

impl Shape {
    /// Rank 0: one element.
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Number of elements, or `None` when it does not fit in an `i64`.
    ///
    /// Graphs that pass `verify` hold only shapes for which this is `Some`.
    pub fn checked_elements(&self) -> Option<usize> {
        if self.0.contains(&0) {
            return Some(0);
        }
        let n = self.0.iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        (n <= i64::MAX as usize).then_some(n)
    }

    /// Number of elements.
    ///
    /// # Panics
    /// If the product overflows; values of verified graphs never do.
    pub fn elements(&self) -> usize {
        self.checked_elements().expect("element count fits in i64")
    }

    /// Row-major strides in elements.
    pub fn strides(&self) -> SmallVec<[usize; 6]> {
        let mut strides: SmallVec<[usize; 6]> = SmallVec::from_elem(1, self.rank());
        for i in (1..self.rank()).rev() {
            strides[i - 1] = strides[i] * self.0[i];
        }
        strides
    }

    /// The extents without those at `axes` (in any order).
    pub fn without(&self, axes: &[usize]) -> Shape {
        self.iter().enumerate().filter(|(i, _)| !axes.contains(i)).map(|(_, &d)| d).collect()
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(dims: I) -> Shape {
        Shape(dims.into_iter().collect())
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Shape {
        Shape(dims.into())
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Shape {
        Shape(dims.as_slice().into())
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Shape {
        Shape(dims.into())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The static type of a value: element type and shape. Printed `f32[4,8]`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Type {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: Shape,
}

impl Type {
    /// A type from its parts.
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Type {
        Type { dtype, shape: shape.into() }
    }

    /// A rank-0 type.
    pub fn scalar(dtype: DType) -> Type {
        Type { dtype, shape: Shape::scalar() }
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.elements()
    }

    /// Bytes of the dense row-major array.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }

    /// Whether a program can hold it: neither its elements nor its bytes, nor the
    /// strides of any of its axes, pass an `i64`.
    pub fn fits(&self) -> bool {
        // Extents of 0 count as 1 here. Strides are products of some of the extents,
        // so that a zero elsewhere does not keep them small.
        let bytes = self.shape.iter().try_fold(self.dtype.size(), |n, &d| n.checked_mul(d.max(1)));
        bytes.is_some_and(|n| i64::try_from(n).is_ok())
    }

    /// The same shape with another element type.
    pub fn with_dtype(&self, dtype: DType) -> Type {
        Type { dtype, shape: self.shape.clone() }
    }

    /// The same element type with another shape.
    pub fn with_shape(&self, shape: impl Into<Shape>) -> Type {
        Type { dtype: self.dtype, shape: shape.into() }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
