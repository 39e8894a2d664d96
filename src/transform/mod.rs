//! Transformations of functions: derivatives and batches.
//!
//! A transformation runs a closure once, in a trace of its own, transforms the graph, and
//! puts the result where it was called: into the enclosing trace, or among the lazy
//! expressions. So it works inside and outside `jit`, nests in any way, and costs nothing
//! when a jitted function is called again.
//!
//! What the closure uses without being given it is constant for the transformation: it is
//! not differentiated by and not batched.
//!
//! | module | holds |
//! |---|---|
//! | `function` | a closure as a graph, and a graph applied to tensors |
//! | `reverse` | [`grad`], [`value_and_grad`], [`vjp`] |
//! | `forward` | [`jvp`], [`linearize`] |
//! | `batch` | [`vmap`], [`vmap_axes`] |
//! | `custom` | [`checkpoint`], [`stop_gradient`], [`custom_jvp`], [`custom_vjp`] |
//! | `fold` | [`reduce`], [`reduce_window`]: reductions by a closure |
//! | `jacobian` | [`jacfwd`], [`jacrev`], [`hessian`] |

mod batch;
mod custom;
mod fold;
mod forward;
mod function;
mod jacobian;
mod reverse;

pub use batch::{vmap, vmap_axes};
pub use custom::{Policy, checkpoint, checkpoint_policy, custom_jvp, custom_vjp, stop_gradient};
pub use fold::{reduce, reduce_window};
pub use forward::{Pushforward, jvp, linearize};
pub use jacobian::{hessian, jacfwd, jacrev};
pub use reverse::{Loss, Pullback, grad, value_and_grad, vjp};
