//! Kiln: a lazy tracing JIT compiler for array programs.
//!
//! A plain Rust closure over [`Tensor`]s is traced once into a graph, the graph is
//! fused and planned, and a few machine-code kernels come out, which run on
//! preallocated memory. Names are JAX's where JAX has one.
//!
//! ```
//! use kiln::prelude::*;
//!
//! #[derive(Tree)]
//! struct Line { w: Tensor, b: Tensor }
//!
//! // One step of gradient descent on (w x + b − y)².
//! let step = jit(|line: Line, x: Tensor, y: Tensor| {
//!     let error = &line.w * &x + &line.b - y;
//!     let w = &line.w - 0.1 * (&error * &x).mean(..);
//!     let b = &line.b - 0.1 * error.mean(..);
//!     (Line { w, b }, error.square().mean(..))
//! });
//!
//! let mut line = Line { w: 0.0f32.into(), b: 0.0f32.into() };
//! let (x, y) = (Tensor::from([1.0f32, 2.0]), Tensor::from([3.0f32, 5.0]));
//! let mut loss = Tensor::default();
//! for _ in 0..500 {
//!     loss = step.update(&mut line, &x, &y)?;
//! }
//! assert!(loss.item::<f32>()? < 1e-3);
//! # Ok::<(), kiln::Error>(())
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `tensor` | [`Tensor`], its operators and methods |
//! | `jit` | [`jit()`], [`jit!`], [`Jit`] |
//! | `transform` | [`grad`], [`vjp`], [`jvp`], [`vmap`] and their kin |
//! | [`tree`] | [`Tree`], [`Feed`], [`Static`]: arguments and results |
//! | `lazy` | expressions outside a trace |
//! | [`cache`] | the compile cache |
//! | `compile` | the one place where the front end meets the compiler |
//! | `device` | devices, transfers, memory |
//! | [`random`] | random bits |
//! | [`io`] | `.npy` and safetensors files |

#![forbid(unsafe_code)]

extern crate self as kiln;

mod barrier;
pub mod cache;
mod compile;
mod config;
mod device;
pub mod io;
mod jit;
mod lazy;
#[cfg(feature = "ndarray")]
mod ndarray;
pub mod random;
mod tensor;
mod transform;
pub mod tree;

pub use barrier::optimization_barrier;
pub use compile::{Stage, Work};
pub use device::{Device, block_until_ready, device_get, device_put, memory_stats, transfers};
pub use jit::{Jit, Lowered, Output, Program, Traceable, jit, named as __named_jit};
pub use kiln_executable::{Memory, Traffic};
pub use kiln_ir::op::{DotDims, GatherDims, ScatterDims};
pub use kiln_ir::{DType, Scalar, Shape, Source, Type};
pub use kiln_macros::Tree;
pub use kiln_runtime::{Count, PoolStats, RunStats, TransferStats};
pub use kiln_trace::{DeviceErrorKind, Error, ErrorKind, named_scope};
pub use tensor::{
    Axes, Contracted, HostArray, HostElement, Index, IndexMode, IndexUpdate, IntoShape, Operand,
    Padding, Tensor, TensorIndex, Window, keepdims,
};
pub use transform::{
    Loss, Policy, Pullback, Pushforward, checkpoint, checkpoint_policy, custom_jvp, custom_vjp,
    grad, hessian, jacfwd, jacrev, jvp, linearize, reduce, reduce_window, stop_gradient,
    value_and_grad, vjp, vmap, vmap_axes,
};
pub use tree::{Feed, Static, Tree};

/// The result of what may fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What most programs name.
pub mod prelude {
    pub use kiln_ir::DType::{self, *};

    pub use crate::tensor::{Tensor, keepdims};
    pub use crate::{
        Jit, Static, Tree, block_until_ready, checkpoint, device_get, device_put, grad, jit,
        named_scope, stop_gradient, value_and_grad, vmap,
    };
}

/// Lines of Kiln's own sources are never shown as the user's.
fn declare_own_lines() {
    kiln_trace::set_own_folder(file!().trim_end_matches("lib.rs"));
}
