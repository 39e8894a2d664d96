//! Keeping parts of a program apart.

use kiln_ir::op::OptimizationBarrier;
use kiln_trace::At;

use crate::{Tensor, Tree};

/// The tree, unchanged. Nothing is merged, folded or fused across: what comes before is
/// computed as it stands, all of it before anything that reads the result. It moves no
/// data and is no kernel.
///
/// ```
/// use kiln::prelude::*;
///
/// let step = jit(|x: Tensor| kiln::optimization_barrier(&(&x + 1.0)) * 2.0);
/// assert_eq!(step.call(Tensor::from([1.0f32]))?.to_vec::<f32>()?, [4.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn optimization_barrier<T: Tree>(tree: &T) -> T {
    let at = At::caller();
    let leaves = tree.leaves();
    let kept = Tensor::apply_all(OptimizationBarrier, &leaves, leaves.len(), at);
    let mut kept = kept.into_iter();
    tree.map(&mut |_| kept.next().expect("a result for each leaf"))
}
