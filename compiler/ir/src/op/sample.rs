//! What the sample lists of all ops have in common.
//!
//! Samples run on every backend, so each is small. What code generators tell apart
//! is in the extents: below, at and above the widths of vectors and unrolled loops.

use super::{Domain, Op, Sample};
use crate::{DType, Shape, Type};

/// Extents around multiples of vector widths.
pub(super) const TAILS: [usize; 15] = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 127, 129];

/// Shapes of rank 0 to 4, with empty axes and axes of one element.
pub(super) fn shapes() -> Vec<Shape> {
    vec![
        Shape::scalar(),
        [0].into(),
        [1].into(),
        [129].into(),
        [3, 0].into(),
        [1, 17].into(),
        [33, 1].into(),
        [7, 65].into(),
        [1, 1, 1].into(),
        [2, 0, 3].into(),
        [2, 3, 31].into(),
        [2, 3, 4, 9].into(),
        [1, 2, 1, 16].into(),
    ]
}

/// The element types that `op` accepts when `count` operands have it.
pub(super) fn accepted(op: &Op, count: usize) -> impl Iterator<Item = DType> + '_ {
    DType::ALL.into_iter().filter(move |&dtype| {
        let ty = Type::new(dtype, [3]);
        op.infer(&vec![&ty; count]).is_ok()
    })
}

/// A sample of an op whose operands all have the type `ty`.
pub(super) fn alike(op: impl Into<Op>, count: usize, ty: Type, domain: Domain) -> Sample {
    Sample { op: op.into(), operands: vec![ty; count], domain }
}

/// A sample of an op with one operand of any elements.
pub(super) fn one(op: impl Into<Op>, ty: Type) -> Sample {
    alike(op, 1, ty, Domain::Any)
}

/// Every op on every element type it takes, with as many elements as comes next in
/// [`TAILS`]: over a family, each type meets each of them.
pub(super) fn elementwise(ops: &[Op], count: usize) -> Vec<Sample> {
    let mut samples = Vec::new();
    for op in ops {
        for dtype in accepted(op, count) {
            let extent = TAILS[samples.len() % TAILS.len()];
            samples.push(alike(op.clone(), count, Type::new(dtype, [extent]), Domain::Any));
        }
    }
    samples
}

/// One type for each element type, with the extents of [`TAILS`] in turn.
pub(super) fn typed_tails() -> impl Iterator<Item = Type> {
    // Step 4 and 15 extents have no common factor: short and long ones mix.
    (DType::ALL.into_iter().enumerate())
        .map(|(i, dtype)| Type::new(dtype, [TAILS[(4 * i + 3) % TAILS.len()]]))
}

/// The shapes of [`shapes`] with the element type `dtype`.
pub(super) fn shaped(dtype: DType) -> impl Iterator<Item = Type> {
    shapes().into_iter().map(move |shape| Type { dtype, shape })
}

/// One type for each element type, with the extents `shape`.
pub(super) fn typed(shape: impl Into<Shape>) -> impl Iterator<Item = Type> {
    let shape = shape.into();
    DType::ALL.into_iter().map(move |dtype| Type { dtype, shape: shape.clone() })
}
