//! Values that are part of the key: a call with another one compiles anew.

use std::fmt::Debug;
use std::hash::Hash;

use super::{KeyWriter, Placeholders, Tree, Walk};
use crate::{DType, Feed, Shape, Tensor};

/// A value that a jitted function may depend on without its being a tensor.
///
/// Implemented for numbers, strings, shapes and containers of them. For a type of
/// your own, derive [`Hash`] and write `self.hash(key)`:
///
/// ```
/// use std::hash::Hash;
/// use kiln::tree::{KeyWriter, StaticValue};
///
/// #[derive(Clone, Debug, Hash)]
/// enum Mode { Train, Predict }
///
/// impl StaticValue for Mode {
///     fn encode(&self, key: &mut KeyWriter) {
///         self.hash(key);
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a key",
    note = "implement `kiln::tree::StaticValue` for it"
)]
pub trait StaticValue: Clone + Debug + Send + Sync + 'static {
    /// Writes the whole value: two that write the same are taken for the same.
    fn encode(&self, key: &mut KeyWriter);
}

macro_rules! by_hash {
    ($($t:ty),*) => {$(
        impl StaticValue for $t {
            fn encode(&self, key: &mut KeyWriter) {
                self.hash(key);
            }
        }
    )*};
}

by_hash!((), bool, char, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);
by_hash!(String, &'static str, Shape, DType, std::time::Duration);

/// By bits: −0 and 0 are two keys, and each NaN is one.
impl StaticValue for f32 {
    fn encode(&self, key: &mut KeyWriter) {
        self.to_bits().hash(key);
    }
}

/// By bits: −0 and 0 are two keys, and each NaN is one.
impl StaticValue for f64 {
    fn encode(&self, key: &mut KeyWriter) {
        self.to_bits().hash(key);
    }
}

impl<T: StaticValue> StaticValue for Option<T> {
    fn encode(&self, key: &mut KeyWriter) {
        key.length(self.is_some() as usize);
        if let Some(x) = self {
            x.encode(key);
        }
    }
}

impl<T: StaticValue> StaticValue for Vec<T> {
    fn encode(&self, key: &mut KeyWriter) {
        key.length(self.len());
        self.iter().for_each(|x| x.encode(key));
    }
}

impl<T: StaticValue, const N: usize> StaticValue for [T; N] {
    fn encode(&self, key: &mut KeyWriter) {
        self.iter().for_each(|x| x.encode(key));
    }
}

macro_rules! tuples {
    ($($t:ident)*) => {
        impl<$($t: StaticValue),*> StaticValue for ($($t,)*) {
            #[allow(non_snake_case)]
            fn encode(&self, key: &mut KeyWriter) {
                let ($($t,)*) = self;
                $($t.encode(key);)*
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);

/// An argument that is part of the key: the closure sees its value, and a call
/// with another one compiles anew.
///
/// ```
/// use kiln::prelude::*;
///
/// let power = jit(|x: Tensor, n: Static<u32>| {
///     (0..*n).fold(Tensor::ones_like(&x), |acc, _| acc * &x)
/// });
/// assert_eq!(power.call([2.0f32], Static(3))?.to_vec::<f32>()?, [8.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Static<T>(pub T);

impl<T> std::ops::Deref for Static<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: StaticValue> Tree for Static<T> {
    fn visit<'t>(&'t self, _: &mut dyn FnMut(&'t Tensor)) {}
    fn visit_mut<'t>(&'t mut self, _: &mut dyn FnMut(&'t mut Tensor)) {}
    fn into_leaves(self, _: &mut dyn FnMut(Tensor)) {}
    fn map(&self, _: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.clone()
    }
    fn structure(&self, key: &mut KeyWriter) {
        self.0.encode(key);
    }
    fn walk(&self, walk: &mut Walk<'_>) {
        walk.fixed("", &self.0);
    }
}

impl<T: StaticValue> Feed<Static<T>> for Static<T> {
    fn key(&self, key: &mut KeyWriter) {
        self.structure(key);
    }
    fn describe(&self, walk: &mut Walk<'_>) {
        Tree::walk(self, walk);
    }
    fn placeholder(&self, _: &mut Placeholders<'_>) -> Self {
        self.clone()
    }
    fn inline(self) -> Self {
        self
    }
    fn feed(self, _: &mut super::Arguments) {}
}
