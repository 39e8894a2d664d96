//! Jitted functions.
//!
//! [`jit`] wraps a closure over trees of tensors. The first call with arguments
//! of given types traces the closure, compiles the graph and runs it; later calls
//! with such arguments run the program. The closure itself runs once per
//! combination of types, structures and statics.
//!
//! | module | holds |
//! |---|---|
//! | `call` | one call, from arguments to results |
//! | `traceable` | which closures can be jitted, and what they may return |
//! | `arity` | `call`, `update` and their like for each number of arguments |
//! | `report` | `explain`, `dump` and ahead-of-time programs |

mod arity;
mod call;
mod report;
mod traceable;

use std::marker::PhantomData;
use std::sync::Arc;

use kiln_trace::At;
pub use report::{Lowered, Program};
pub use traceable::{Output, Traceable};

use crate::Error;
use crate::cache::Table;

/// A compiled function: what [`jit`] returns.
///
/// The type names arguments and result, not the closure, so that it can be a
/// field: `Jit<(Mlp, Tensor), (Mlp, Tensor)>`.
///
/// An argument passed by value is given up: its memory may become a result's. A
/// reference keeps it. Use after giving up does not compile:
///
/// ```compile_fail,E0382
/// use kiln::prelude::*;
///
/// let double = jit(|x: Tensor| x * 2.0);
/// let x = Tensor::ones([4], F32);
/// let y = double.call(x)?;
/// println!("{x}");
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// A wrong number of arguments does not compile either:
///
/// ```compile_fail,E0061
/// use kiln::prelude::*;
///
/// let add = jit(|x: Tensor, y: Tensor| x + y);
/// add.call(1.0);
/// ```
pub struct Jit<Args, R> {
    trace: Box<dyn Fn(Args) -> Result<R, Error> + Send + Sync>,
    core: Core,
    _signature: PhantomData<fn(Args) -> R>,
}

/// What does not depend on the types.
struct Core {
    table: Arc<Table>,
    /// Where `jit` was called.
    at: At,
    /// Names of the parameters.
    names: Vec<String>,
    strict_donation: bool,
}

/// Compiles a closure over tensors and trees of tensors when it is called.
///
/// Parameters need types (or use [`jit!`](crate::jit!), where one without a type
/// is a `Tensor`). The closure returns a tree, or a `Result` of one.
///
/// ```
/// use kiln::prelude::*;
///
/// let step = jit(|w: Tensor, x: Tensor, lr: Tensor| &w - lr * x);
/// let w = Tensor::zeros([3], F32);
/// let w = step.call(w, [1.0f32, 2.0, 3.0], 0.5)?;
/// assert_eq!(w.to_vec::<f32>()?, [-0.5, -1.0, -1.5]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn jit<Args, F>(f: F) -> Jit<Args, <F::Out as Output>::Tree>
where
    F: Traceable<Args>,
{
    named(f, &[])
}

/// Like [`jit`], with names for the parameters, as the macro knows them.
#[doc(hidden)]
#[track_caller]
pub fn named<Args, F>(f: F, names: &[&str]) -> Jit<Args, <F::Out as Output>::Tree>
where
    F: Traceable<Args>,
{
    crate::declare_own_lines();
    let names = (0..F::ARITY)
        .map(|i| names.get(i).map_or_else(|| format!("arg{i}"), |name| name.to_string()))
        .collect();
    Jit {
        core: Core {
            table: Table::new(function_name(std::any::type_name::<F>())),
            at: At::caller(),
            names,
            strict_donation: false,
        },
        trace: Box::new(move |args| f.trace(args).into_result()),
        _signature: PhantomData,
    }
}

/// A short name from a type's: `train::step` gives `step`, a closure the function
/// around it.
fn function_name(type_name: &str) -> String {
    let base = type_name.split('<').next().unwrap_or(type_name);
    let mut segments = base.rsplit("::").filter(|s| !s.contains("{{"));
    let name = segments.next().unwrap_or("function");
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

impl<Args, R> Jit<Args, R> {
    /// Makes it an error when the memory of an argument passed by value cannot be
    /// used for a result or temporary.
    pub fn strict_donation(mut self) -> Jit<Args, R> {
        self.core.strict_donation = true;
        self
    }

    /// The name that reports use.
    pub fn name(&self) -> &str {
        self.core.table.name()
    }
}

impl<Args, R> std::fmt::Debug for Jit<Args, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Jit({} at {})", self.name(), self.core.at.source())
    }
}

/// [`jit`](crate::jit()) for closures whose parameters have no types: each is a
/// `Tensor`. Dumps and messages know the parameters by their names.
///
/// ```
/// use kiln::prelude::*;
///
/// let axpy = jit!(|a, x, y| a * x + y);
/// let z = axpy.call(2.0, [1.0f32, 2.0], [10.0f32, 10.0])?;
/// assert_eq!(z.to_vec::<f32>()?, [12.0, 14.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[macro_export]
macro_rules! jit {
    (|| $body:expr) => { $crate::jit(|| $body) };
    (move || $body:expr) => { $crate::jit(move || $body) };
    (|$($x:ident $(: $t:ty)?),* $(,)?| -> $r:ty $body:block) => {
        $crate::__named_jit(
            |$($x: $crate::__jit_type!($($t)?)),*| -> $r { $body }, &[$(stringify!($x)),*])
    };
    (move |$($x:ident $(: $t:ty)?),* $(,)?| -> $r:ty $body:block) => {
        $crate::__named_jit(
            move |$($x: $crate::__jit_type!($($t)?)),*| -> $r { $body }, &[$(stringify!($x)),*])
    };
    (|$($x:ident $(: $t:ty)?),* $(,)?| $body:expr) => {
        $crate::__named_jit(|$($x: $crate::__jit_type!($($t)?)),*| $body, &[$(stringify!($x)),*])
    };
    (move |$($x:ident $(: $t:ty)?),* $(,)?| $body:expr) => {
        $crate::__named_jit(
            move |$($x: $crate::__jit_type!($($t)?)),*| $body, &[$(stringify!($x)),*])
    };
}

/// The type of a parameter of `jit!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __jit_type {
    () => {
        $crate::Tensor
    };
    ($t:ty) => {
        $t
    };
}
