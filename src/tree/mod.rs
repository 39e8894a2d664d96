//! Trees of tensors: what a jitted function takes and returns.
//!
//! A [`Tree`] is a value with tensors at its leaves: a tensor, a tuple, an
//! array, a `Vec`, an `Option`, a map with ordered keys, or a type with
//! `#[derive(Tree)]`. [`Feed`] says what may be passed where a tree is expected:
//! the tree itself, which gives its tensors up; a reference, which keeps them; a
//! Rust number or host array where a tensor is expected.
//!
//! Every method visits the leaves in one order, declaration order; keys, leaf
//! paths, arguments and results all rely on it.
//!
//! | module | holds |
//! |---|---|
//! | `key` | the words that a call is looked up by |
//! | `walk` | leaf paths, for dumps and messages |
//! | `feed` | arguments on their way into a call |
//! | `impls` | trees made of std types |
//! | `statics` | values that are part of the key |

mod feed;
mod impls;
mod key;
mod statics;
mod walk;

pub use feed::{Arguments, Placeholders, owned};
pub(crate) use feed::{Fed, Lease};
pub use key::KeyWriter;
pub(crate) use key::Passing;
pub use statics::{Static, StaticValue};
pub use walk::Walk;
pub(crate) use walk::{Item, LeafNames};

use crate::Tensor;

/// A value with tensors at its leaves.
///
/// Derive it; the methods are for Kiln and for generic code over trees. A number
/// in a tree must say that it is static:
///
/// ```compile_fail,E0277
/// use kiln::prelude::*;
///
/// #[derive(Tree)]
/// struct Sgd { velocity: Tensor, rate: f32 }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tree of tensors",
    label = "neither a tensor nor made of tensors",
    note = "derive it: `#[derive(Tree)]`",
    note = "a number in a tree is part of the key: mark its field `#[tree(static)]`, \
            or make it a rank-0 `Tensor`"
)]
pub trait Tree: Sized + Send + Sync + 'static + Feed<Self> {
    /// Calls `f` with each leaf.
    fn visit<'t>(&'t self, f: &mut dyn FnMut(&'t Tensor));
    /// Calls `f` with each leaf, to change.
    fn visit_mut<'t>(&'t mut self, f: &mut dyn FnMut(&'t mut Tensor));
    /// Calls `f` with each leaf, given away.
    fn into_leaves(self, f: &mut dyn FnMut(Tensor));
    /// The same tree with each leaf replaced.
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self;
    /// Writes what is not in the leaves: lengths, variants, statics. Two trees of
    /// one type with equal structure have equally many leaves.
    fn structure(&self, key: &mut KeyWriter);
    /// Visits leaves and statics with their paths.
    fn walk(&self, walk: &mut Walk<'_>);

    /// The leaves in order.
    fn leaves(&self) -> Vec<&Tensor> {
        let mut leaves = Vec::new();
        self.visit(&mut |t| leaves.push(t));
        leaves
    }

    /// The leaves with their paths, such as `layers[2].w`: no path occurs twice.
    fn leaves_with_paths(&self) -> Vec<(String, &Tensor)> {
        named_leaves(self, "")
    }
}

/// The leaves with their paths below `root`.
pub(crate) fn named_leaves<'t>(tree: &'t impl Tree, root: &str) -> Vec<(String, &'t Tensor)> {
    let mut names = LeafNames::default();
    tree.walk(&mut Walk::new(root, &mut |item| {
        if let Item::Leaf { path, .. } = item {
            names.add(path);
        }
    }));
    names.into_vec().into_iter().zip(tree.leaves()).collect()
}

/// What may be passed where a `T` is expected: a `T`, which is given up; a `&T`,
/// which is kept; for tuples, lists and maps the parts one by one; and for a
/// [`Tensor`] a number or host array.
///
/// ```compile_fail,E0277
/// use kiln::prelude::*;
///
/// let f = jit(|x: Tensor| x + 1.0);
/// f.call("three");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed where the jitted function takes `{T}`",
    label = "not a `{T}`, a reference to one, or something that becomes one",
    note = "a tensor takes a `Tensor`, `&Tensor`, a number (`f32` or an integer), or a host array"
)]
pub trait Feed<T> {
    /// Writes what the call is looked up by.
    fn key(&self, key: &mut KeyWriter);
    /// Visits leaves and statics with their paths.
    fn describe(&self, walk: &mut Walk<'_>);
    /// The value that the closure sees while it is traced.
    fn placeholder(&self, make: &mut Placeholders<'_>) -> T;
    /// The value itself, for a call inside another trace.
    fn inline(self) -> T;
    /// Hands the leaves to the call.
    fn feed(self, arguments: &mut Arguments);
}
