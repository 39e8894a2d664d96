//! Leaf paths, for dumps and messages.

use std::fmt::{Debug, Write as _};

use hashbrown::HashSet;
use kiln_ir::Type;

use super::Passing;

/// A walk over the leaves and statics of a tree that knows where it stands.
pub struct Walk<'f> {
    path: String,
    /// Names for the elements of the outermost tuple: a function's parameters.
    names: &'f [String],
    /// Whether the leaves here are given up.
    passing: Passing,
    visit: &'f mut dyn FnMut(Item<'_>),
}

/// What a walk comes across.
pub(crate) enum Item<'a> {
    /// A tensor, or what is passed for one; `None` when it is poisoned.
    Leaf { path: &'a str, ty: Option<&'a Type>, passing: Passing },
    /// A part of the structure: a static, a length, a variant.
    Fixed { path: &'a str, value: String },
}

impl<'f> Walk<'f> {
    pub(crate) fn new(root: &str, visit: &'f mut dyn FnMut(Item<'_>)) -> Walk<'f> {
        Walk { path: root.to_string(), names: &[], passing: Passing::Borrowed, visit }
    }

    /// A walk over the arguments of a function.
    pub(crate) fn arguments(names: &'f [String], visit: &'f mut dyn FnMut(Item<'_>)) -> Walk<'f> {
        Walk { path: String::new(), names, passing: Passing::Borrowed, visit }
    }

    /// A part whose leaves are given up.
    pub(crate) fn moved(&mut self, f: impl FnOnce(&mut Walk<'f>)) {
        let outer = std::mem::replace(&mut self.passing, Passing::Moved);
        f(self);
        self.passing = outer;
    }

    /// A branch called `name`.
    pub fn field(&mut self, name: &str, f: impl FnOnce(&mut Walk<'f>)) {
        self.at(|path| push_name(path, name), f);
    }

    /// Element `i` of a tuple.
    pub fn element(&mut self, i: usize, f: impl FnOnce(&mut Walk<'f>)) {
        let names = std::mem::take(&mut self.names);
        match names.get(i) {
            Some(name) => self.at(|path| path.push_str(name), f),
            None => self.at(|path| push_name(path, &i.to_string()), f),
        }
        self.names = names;
    }

    /// Element `i` of a list.
    pub fn index(&mut self, i: usize, f: impl FnOnce(&mut Walk<'f>)) {
        self.at(|path| _ = write!(path, "[{i}]"), f);
    }

    /// A static branch called `name`, or with an empty name this place itself.
    pub fn fixed(&mut self, name: &str, value: &dyn Debug) {
        let length = self.path.len();
        if !name.is_empty() {
            push_name(&mut self.path, name);
        }
        (self.visit)(Item::Fixed { path: &self.path, value: format!("{value:?}") });
        self.path.truncate(length);
    }

    pub(crate) fn leaf(&mut self, ty: Option<&Type>) {
        (self.visit)(Item::Leaf { path: &self.path, ty, passing: self.passing });
    }

    fn at(&mut self, push: impl FnOnce(&mut String), f: impl FnOnce(&mut Walk<'f>)) {
        let length = self.path.len();
        push(&mut self.path);
        f(self);
        self.path.truncate(length);
    }
}

/// Leaf paths as names, each of them once. Paths repeat only where characters that
/// they cannot hold were replaced; the later of two then gets a `_` more.
#[derive(Default)]
pub(crate) struct LeafNames {
    list: Vec<String>,
    taken: HashSet<String>,
}

impl LeafNames {
    pub(crate) fn add(&mut self, path: &str) {
        let mut name = path.to_string();
        while self.taken.contains(&name) {
            name.push('_');
        }
        self.taken.insert(name.clone());
        self.list.push(name);
    }

    /// The names in the order of the leaves.
    pub(crate) fn into_vec(self) -> Vec<String> {
        self.list
    }
}

/// Appends `.name`; characters that paths cannot hold become `_`.
fn push_name(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.extend(name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }));
}
