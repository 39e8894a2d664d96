//! Trees made of std types, and how they are fed: element by element, so that a
//! tuple may hold some moved and some borrowed parts.

use std::collections::BTreeMap;
use std::fmt::Debug;

use super::key::Passing;
use super::{Arguments, Feed, KeyWriter, Placeholders, StaticValue, Tree, Walk, owned};
use crate::Tensor;
use crate::tensor::Repr;

impl Tree for Tensor {
    fn visit<'t>(&'t self, f: &mut dyn FnMut(&'t Tensor)) {
        f(self);
    }
    fn visit_mut<'t>(&'t mut self, f: &mut dyn FnMut(&'t mut Tensor)) {
        f(self);
    }
    fn into_leaves(self, f: &mut dyn FnMut(Tensor)) {
        f(self);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Tensor {
        f(self)
    }
    fn structure(&self, _: &mut KeyWriter) {}
    fn walk(&self, walk: &mut Walk<'_>) {
        walk.leaf(match self.repr() {
            Repr::Poisoned(_) => None,
            _ => Some(self.ty()),
        });
    }
}

impl Feed<Tensor> for Tensor {
    fn key(&self, key: &mut KeyWriter) {
        owned::key(self, key);
    }
    fn describe(&self, walk: &mut Walk<'_>) {
        owned::describe(self, walk);
    }
    fn placeholder(&self, make: &mut Placeholders<'_>) -> Tensor {
        make.leaf(self.ty(), Passing::Moved)
    }
    fn inline(self) -> Tensor {
        self
    }
    fn feed(self, arguments: &mut Arguments) {
        arguments.moved(self);
    }
}

macro_rules! tuples {
    ($($t:ident $f:ident $i:tt)*) => {
        impl<$($t: Tree),*> Tree for ($($t,)*) {
            fn visit<'t>(&'t self, _f: &mut dyn FnMut(&'t Tensor)) {
                $(self.$i.visit(_f);)*
            }
            fn visit_mut<'t>(&'t mut self, _f: &mut dyn FnMut(&'t mut Tensor)) {
                $(self.$i.visit_mut(_f);)*
            }
            fn into_leaves(self, _f: &mut dyn FnMut(Tensor)) {
                $(self.$i.into_leaves(_f);)*
            }
            #[allow(clippy::unused_unit)]
            fn map(&self, _f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
                ($(self.$i.map(_f),)*)
            }
            fn structure(&self, _key: &mut KeyWriter) {
                $(self.$i.structure(_key);)*
            }
            fn walk(&self, _walk: &mut Walk<'_>) {
                $(_walk.element($i, |walk| Tree::walk(&self.$i, walk));)*
            }
        }

        impl<$($t: Tree, $f: Feed<$t>),*> Feed<($($t,)*)> for ($($f,)*) {
            fn key(&self, _key: &mut KeyWriter) {
                $(self.$i.key(_key);)*
            }
            fn describe(&self, _walk: &mut Walk<'_>) {
                $(_walk.element($i, |walk| Feed::describe(&self.$i, walk));)*
            }
            #[allow(clippy::unused_unit)]
            fn placeholder(&self, _make: &mut Placeholders<'_>) -> ($($t,)*) {
                ($(self.$i.placeholder(_make),)*)
            }
            #[allow(clippy::unused_unit)]
            fn inline(self) -> ($($t,)*) {
                ($(self.$i.inline(),)*)
            }
            fn feed(self, _arguments: &mut Arguments) {
                $(self.$i.feed(_arguments);)*
            }
        }
    };
}

tuples!();
tuples!(A FA 0);
tuples!(A FA 0 B FB 1);
tuples!(A FA 0 B FB 1 C FC 2);
tuples!(A FA 0 B FB 1 C FC 2 D FD 3);
tuples!(A FA 0 B FB 1 C FC 2 D FD 3 E FE 4);
tuples!(A FA 0 B FB 1 C FC 2 D FD 3 E FE 4 G FG 5);
tuples!(A FA 0 B FB 1 C FC 2 D FD 3 E FE 4 G FG 5 H FH 6);
tuples!(A FA 0 B FB 1 C FC 2 D FD 3 E FE 4 G FG 5 H FH 6 I FI 7);

/// A list of any length; the length is part of the structure.
macro_rules! lists {
    ($([$($generics:tt)*] $list:ty, $feeds:ty, $structure:expr, |$items:ident| $collect:expr;)*) => {$(
        impl<T: Tree, $($generics)*> Tree for $list {
            fn visit<'t>(&'t self, f: &mut dyn FnMut(&'t Tensor)) {
                self.iter().for_each(|x| x.visit(f));
            }
            fn visit_mut<'t>(&'t mut self, f: &mut dyn FnMut(&'t mut Tensor)) {
                self.iter_mut().for_each(|x| x.visit_mut(f));
            }
            fn into_leaves(self, f: &mut dyn FnMut(Tensor)) {
                self.into_iter().for_each(|x| x.into_leaves(f));
            }
            fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
                let $items = self.iter().map(|x| x.map(f));
                $collect
            }
            fn structure(&self, key: &mut KeyWriter) {
                if $structure {
                    key.length(self.len());
                }
                self.iter().for_each(|x| x.structure(key));
            }
            fn walk(&self, walk: &mut Walk<'_>) {
                if $structure {
                    walk.fixed("len", &self.len());
                }
                for (i, x) in self.iter().enumerate() {
                    walk.index(i, |walk| Tree::walk(x, walk));
                }
            }
        }

        impl<T: Tree, F: Feed<T>, $($generics)*> Feed<$list> for $feeds {
            fn key(&self, key: &mut KeyWriter) {
                if $structure {
                    key.length(self.len());
                }
                self.iter().for_each(|x| x.key(key));
            }
            fn describe(&self, walk: &mut Walk<'_>) {
                if $structure {
                    walk.fixed("len", &self.len());
                }
                for (i, x) in self.iter().enumerate() {
                    walk.index(i, |walk| x.describe(walk));
                }
            }
            fn placeholder(&self, make: &mut Placeholders<'_>) -> $list {
                let $items = self.iter().map(|x| x.placeholder(make));
                $collect
            }
            fn inline(self) -> $list {
                let $items = self.into_iter().map(F::inline);
                $collect
            }
            fn feed(self, arguments: &mut Arguments) {
                self.into_iter().for_each(|x| x.feed(arguments));
            }
        }
    )*};
}

lists! {
    [] Vec<T>, Vec<F>, true, |items| items.collect();
    [const N: usize] [T; N], [F; N], false, |items| {
        let mut items = items;
        std::array::from_fn(|_| items.next().expect("as many as the array"))
    };
}

impl<T: Tree> Tree for Option<T> {
    fn visit<'t>(&'t self, f: &mut dyn FnMut(&'t Tensor)) {
        self.iter().for_each(|x| x.visit(f));
    }
    fn visit_mut<'t>(&'t mut self, f: &mut dyn FnMut(&'t mut Tensor)) {
        self.iter_mut().for_each(|x| x.visit_mut(f));
    }
    fn into_leaves(self, f: &mut dyn FnMut(Tensor)) {
        self.into_iter().for_each(|x| x.into_leaves(f));
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.as_ref().map(|x| x.map(f))
    }
    fn structure(&self, key: &mut KeyWriter) {
        key.length(self.is_some() as usize);
        self.iter().for_each(|x| x.structure(key));
    }
    fn walk(&self, walk: &mut Walk<'_>) {
        walk.fixed("is_some", &self.is_some());
        self.iter().for_each(|x| Tree::walk(x, walk));
    }
}

impl<T: Tree, F: Feed<T>> Feed<Option<T>> for Option<F> {
    fn key(&self, key: &mut KeyWriter) {
        key.length(self.is_some() as usize);
        self.iter().for_each(|x| x.key(key));
    }
    fn describe(&self, walk: &mut Walk<'_>) {
        walk.fixed("is_some", &self.is_some());
        self.iter().for_each(|x| x.describe(walk));
    }
    fn placeholder(&self, make: &mut Placeholders<'_>) -> Option<T> {
        self.as_ref().map(|x| x.placeholder(make))
    }
    fn inline(self) -> Option<T> {
        self.map(F::inline)
    }
    fn feed(self, arguments: &mut Arguments) {
        self.into_iter().for_each(|x| x.feed(arguments));
    }
}

impl<T: Tree> Tree for Box<T> {
    fn visit<'t>(&'t self, f: &mut dyn FnMut(&'t Tensor)) {
        (**self).visit(f);
    }
    fn visit_mut<'t>(&'t mut self, f: &mut dyn FnMut(&'t mut Tensor)) {
        (**self).visit_mut(f);
    }
    fn into_leaves(self, f: &mut dyn FnMut(Tensor)) {
        (*self).into_leaves(f);
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        Box::new((**self).map(f))
    }
    fn structure(&self, key: &mut KeyWriter) {
        (**self).structure(key);
    }
    fn walk(&self, walk: &mut Walk<'_>) {
        Tree::walk(&**self, walk);
    }
}

impl<T: Tree> Feed<Box<T>> for Box<T> {
    fn key(&self, key: &mut KeyWriter) {
        owned::key(self, key);
    }
    fn describe(&self, walk: &mut Walk<'_>) {
        owned::describe(self, walk);
    }
    fn placeholder(&self, make: &mut Placeholders<'_>) -> Box<T> {
        owned::placeholder(self, make)
    }
    fn inline(self) -> Box<T> {
        self
    }
    fn feed(self, arguments: &mut Arguments) {
        owned::feed(self, arguments);
    }
}

impl<K: StaticValue + Ord, T: Tree> Tree for BTreeMap<K, T> {
    fn visit<'t>(&'t self, f: &mut dyn FnMut(&'t Tensor)) {
        self.values().for_each(|x| x.visit(f));
    }
    fn visit_mut<'t>(&'t mut self, f: &mut dyn FnMut(&'t mut Tensor)) {
        self.values_mut().for_each(|x| x.visit_mut(f));
    }
    fn into_leaves(self, f: &mut dyn FnMut(Tensor)) {
        self.into_values().for_each(|x| x.into_leaves(f));
    }
    fn map(&self, f: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
        self.iter().map(|(k, x)| (k.clone(), x.map(f))).collect()
    }
    fn structure(&self, key: &mut KeyWriter) {
        key.length(self.len());
        for (k, x) in self {
            k.encode(key);
            x.structure(key);
        }
    }
    fn walk(&self, walk: &mut Walk<'_>) {
        walk.fixed("len", &self.len());
        for (k, x) in self {
            walk.field(&entry_name(k), |walk| Tree::walk(x, walk));
        }
    }
}

impl<K: StaticValue + Ord, T: Tree, F: Feed<T>> Feed<BTreeMap<K, T>> for BTreeMap<K, F> {
    fn key(&self, key: &mut KeyWriter) {
        key.length(self.len());
        for (k, x) in self {
            k.encode(key);
            x.key(key);
        }
    }
    fn describe(&self, walk: &mut Walk<'_>) {
        walk.fixed("len", &self.len());
        for (k, x) in self {
            walk.field(&entry_name(k), |walk| x.describe(walk));
        }
    }
    fn placeholder(&self, make: &mut Placeholders<'_>) -> BTreeMap<K, T> {
        self.iter().map(|(k, x)| (k.clone(), x.placeholder(make))).collect()
    }
    fn inline(self) -> BTreeMap<K, T> {
        self.into_iter().map(|(k, x)| (k, x.inline())).collect()
    }
    fn feed(self, arguments: &mut Arguments) {
        self.into_values().for_each(|x| x.feed(arguments));
    }
}

/// How a map's key appears in a path: a string without its quotes.
fn entry_name(key: &impl Debug) -> String {
    format!("{key:?}").trim_matches('"').to_string()
}
