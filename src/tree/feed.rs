//! Arguments on their way into a call.
//!
//! A call walks its arguments three times at most: for the key; on a miss for
//! the placeholders that the closure sees; then to hand over the leaves.

use std::cell::RefCell;

use kiln_ir::{ParameterInfo, Type};
use kiln_trace::Trace;

use super::key::Passing;
use super::{Feed, KeyWriter, Tree, Walk};
use crate::tensor::{HostData, Repr};
use crate::{Error, Tensor, device};

/// The leaves of a call's arguments.
#[derive(Default)]
pub struct Arguments {
    pub(crate) items: Vec<Fed>,
    pub(crate) error: Option<Error>,
}

/// One leaf, handed over.
pub(crate) struct Fed {
    pub tensor: Tensor,
    pub passing: Passing,
}

impl Arguments {
    pub(crate) fn moved(&mut self, tensor: Tensor) {
        self.items.push(Fed { tensor, passing: Passing::Moved });
    }

    pub(crate) fn borrowed(&mut self, tensor: Tensor) {
        self.items.push(Fed { tensor, passing: Passing::Borrowed });
    }

    /// Host data, put on the device for the call: a transfer that the program did
    /// not spell out.
    pub(crate) fn host(&mut self, data: &(impl HostData + ?Sized)) {
        match device::put(data, device::Cause::Implicit) {
            Ok(array) => self.borrowed(Tensor::array(array)),
            Err(error) => _ = self.error.get_or_insert(error),
        }
    }
}

/// Makes the tensors that stand for arguments while a function is traced.
pub struct Placeholders<'t> {
    pub(crate) trace: &'t Trace,
    /// Leaf paths, in order.
    pub(crate) names: std::vec::IntoIter<String>,
}

impl Placeholders<'_> {
    pub(crate) fn leaf(&mut self, ty: &Type, passing: Passing) -> Tensor {
        let name = self.names.next().unwrap_or_default();
        let donated = passing == Passing::Moved;
        let traced = self.trace.parameter(ty.clone(), ParameterInfo { name, donated });
        Tensor::traced(traced)
    }
}

/// Writes a tensor leaf to a key.
fn key_leaf(tensor: &Tensor, passing: Passing, key: &mut KeyWriter) {
    match tensor.repr() {
        Repr::Poisoned(error) => key.fail(error.clone()),
        Repr::Traced(_) => key.fail(Error::user(
            "an argument is a traced tensor that outlived its trace: \
             return it from the jitted closure instead",
        )),
        _ => key.leaf(tensor.ty(), passing),
    }
}

/// What `Feed<T> for T` does for every tree: its leaves are given up.
pub mod owned {
    use super::*;

    /// See [`Feed::key`].
    pub fn key<T: Tree>(tree: &T, key: &mut KeyWriter) {
        tree.structure(key);
        tree.visit(&mut |t| key_leaf(t, Passing::Moved, key));
    }

    /// See [`Feed::describe`].
    pub fn describe<T: Tree>(tree: &T, walk: &mut Walk<'_>) {
        walk.moved(|walk| Tree::walk(tree, walk));
    }

    /// See [`Feed::placeholder`].
    pub fn placeholder<T: Tree>(tree: &T, make: &mut Placeholders<'_>) -> T {
        tree.map(&mut |t| make.leaf(t.ty(), Passing::Moved))
    }

    /// See [`Feed::feed`].
    pub fn feed<T: Tree>(tree: T, arguments: &mut Arguments) {
        tree.into_leaves(&mut |t| arguments.moved(t));
    }
}

/// A reference keeps its tensors.
impl<T: Tree> Feed<T> for &T {
    fn key(&self, key: &mut KeyWriter) {
        self.structure(key);
        self.visit(&mut |t| key_leaf(t, Passing::Borrowed, key));
    }

    fn describe(&self, walk: &mut Walk<'_>) {
        Tree::walk(*self, walk);
    }

    fn placeholder(&self, make: &mut Placeholders<'_>) -> T {
        self.map(&mut |t| make.leaf(t.ty(), Passing::Borrowed))
    }

    fn inline(self) -> T {
        self.map(&mut Tensor::clone)
    }

    fn feed(self, arguments: &mut Arguments) {
        self.visit(&mut |t| arguments.borrowed(t.clone()));
    }
}

/// State that a call is given on loan: donated like a moved value, and put back
/// by the caller, new or as it was.
pub(crate) struct Lease<'s, S>(pub &'s RefCell<&'s mut S>);

impl<S: Tree> Feed<S> for Lease<'_, S> {
    fn key(&self, key: &mut KeyWriter) {
        owned::key(&**self.0.borrow(), key);
    }

    fn describe(&self, walk: &mut Walk<'_>) {
        owned::describe(&**self.0.borrow(), walk);
    }

    fn placeholder(&self, make: &mut Placeholders<'_>) -> S {
        owned::placeholder(&**self.0.borrow(), make)
    }

    fn inline(self) -> S {
        self.0.borrow().map(&mut Tensor::clone)
    }

    fn feed(self, arguments: &mut Arguments) {
        self.0.borrow_mut().visit_mut(&mut |t| arguments.moved(std::mem::take(t)));
    }
}
