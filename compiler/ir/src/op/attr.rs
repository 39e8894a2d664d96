//! Attributes: what an op holds, as the text format writes it.

use std::fmt;
use std::sync::Arc;

use crate::{Graph, Literal, Type};

/// The value of one attribute.
#[derive(Clone, Debug)]
pub enum Attr {
    /// `axis = 1`
    Int(i64),
    /// `axes = [0, 2]`
    Ints(Vec<i64>),
    /// `kind = sum`
    Word(String),
    /// `value = [1.0, nan]`, typed by the annotated result.
    Literal(Literal),
    /// `graph = @name`
    Graph(Arc<Graph>),
}

/// Attributes in printing order.
#[derive(Clone, Debug, Default)]
pub struct Attrs(Vec<(String, Attr)>);

impl Attrs {
    /// No attributes.
    pub fn new() -> Attrs {
        Attrs::default()
    }

    /// Adds one at the end.
    pub fn push(&mut self, name: &str, value: Attr) {
        self.0.push((name.to_string(), value));
    }

    /// With an integer added.
    pub fn int(mut self, name: &str, value: usize) -> Attrs {
        self.push(name, Attr::Int(value as i64));
        self
    }

    /// With a list of integers added.
    pub fn ints(mut self, name: &str, values: &[usize]) -> Attrs {
        self.push(name, Attr::Ints(values.iter().map(|&v| v as i64).collect()));
        self
    }

    /// With a list of integers added, unless it is `default`, which a reader
    /// takes for granted.
    pub fn ints_unless(self, name: &str, values: &[usize], default: &[usize]) -> Attrs {
        if values == default { self } else { self.ints(name, values) }
    }

    /// With a list of signed integers added.
    pub fn signed(mut self, name: &str, values: &[i64]) -> Attrs {
        self.push(name, Attr::Ints(values.to_vec()));
        self
    }

    /// With a word added.
    pub fn word(mut self, name: &str, word: &str) -> Attrs {
        self.push(name, Attr::Word(word.to_string()));
        self
    }

    /// With the word `true` added if `value` is; a reader takes `false` for granted.
    pub fn flag(self, name: &str, value: bool) -> Attrs {
        if value { self.word(name, "true") } else { self }
    }

    /// Whether there is an attribute called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(n, _)| n == name)
    }

    /// Removes and returns the attribute called `name`.
    pub fn take(&mut self, name: &str) -> Option<Attr> {
        let i = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.remove(i).1)
    }

    /// Takes a non-negative integer.
    pub fn take_int(&mut self, name: &str) -> Result<usize, String> {
        match self.take(name) {
            Some(Attr::Int(v)) => {
                usize::try_from(v).map_err(|_| format!("attribute `{name}` is negative"))
            }
            Some(_) => Err(format!("attribute `{name}` must be an integer")),
            None => Err(format!("attribute `{name}` is missing")),
        }
    }

    /// Takes a list of integers.
    pub fn take_signed(&mut self, name: &str) -> Result<Vec<i64>, String> {
        match self.take(name) {
            Some(Attr::Ints(v)) => Ok(v),
            Some(_) => Err(format!("attribute `{name}` must be a list of integers")),
            None => Err(format!("attribute `{name}` is missing")),
        }
    }

    /// Takes a list of non-negative integers.
    pub fn take_ints(&mut self, name: &str) -> Result<Vec<usize>, String> {
        self.take_signed(name)?
            .into_iter()
            .map(|v| usize::try_from(v).map_err(|_| format!("attribute `{name}` is negative")))
            .collect()
    }

    /// Takes a word.
    pub fn take_word(&mut self, name: &str) -> Result<String, String> {
        match self.take(name) {
            Some(Attr::Word(w)) => Ok(w),
            Some(_) => Err(format!("attribute `{name}` must be a word")),
            None => Err(format!("attribute `{name}` is missing")),
        }
    }

    /// Takes `true` or `false`, which is `false` when left out.
    pub fn take_flag(&mut self, name: &str) -> Result<bool, String> {
        match self.take(name) {
            None => Ok(false),
            Some(Attr::Word(word)) if word == "true" => Ok(true),
            Some(Attr::Word(word)) if word == "false" => Ok(false),
            Some(_) => Err(format!("attribute `{name}` must be true or false")),
        }
    }

    /// Takes a list of non-negative integers, which is `default` when left out.
    pub fn take_ints_or(&mut self, name: &str, default: &[usize]) -> Result<Vec<usize>, String> {
        if self.has(name) { self.take_ints(name) } else { Ok(default.to_vec()) }
    }

    /// Takes a list of integers, which is `default` when left out.
    pub fn take_signed_or(&mut self, name: &str, default: &[i64]) -> Result<Vec<i64>, String> {
        if self.0.iter().any(|(n, _)| n == name) {
            self.take_signed(name)
        } else {
            Ok(default.to_vec())
        }
    }

    /// Takes a word, which is `default` when left out.
    pub fn take_word_or(&mut self, name: &str, default: &str) -> Result<String, String> {
        if self.0.iter().any(|(n, _)| n == name) {
            self.take_word(name)
        } else {
            Ok(default.to_string())
        }
    }

    /// Takes a literal.
    pub fn take_literal(&mut self, name: &str) -> Result<Literal, String> {
        match self.take(name) {
            Some(Attr::Literal(value)) => Ok(value),
            Some(_) => Err(format!("attribute `{name}` must be a literal")),
            None => Err(format!("attribute `{name}` is missing")),
        }
    }

    /// Takes a graph.
    pub fn take_graph(&mut self, name: &str) -> Result<Arc<Graph>, String> {
        match self.take(name) {
            Some(Attr::Graph(graph)) => Ok(graph),
            Some(_) => Err(format!("attribute `{name}` must be a graph")),
            None => Err(format!("attribute `{name}` is missing")),
        }
    }

    /// The attributes in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attr)> {
        self.0.iter().map(|(n, a)| (n.as_str(), a))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The annotated type of an op that has one result.
pub(super) fn result(results: &[Type]) -> Result<&Type, String> {
    match results {
        [ty] => Ok(ty),
        _ => Err(format!("wants one result type, got {}", results.len())),
    }
}

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::Display>(
            f: &mut fmt::Formatter<'_>,
            items: impl Iterator<Item = T>,
        ) -> fmt::Result {
            f.write_str("[")?;
            for (i, item) in items.enumerate() {
                write!(f, "{}{item}", if i > 0 { ", " } else { "" })?;
            }
            f.write_str("]")
        }
        match self {
            Attr::Int(v) => write!(f, "{v}"),
            Attr::Ints(v) => list(f, v.iter()),
            Attr::Word(w) => f.write_str(w),
            Attr::Literal(l) if l.ty().shape.rank() == 0 => write!(f, "{}", l.get(0)),
            Attr::Literal(l) => list(f, l.iter()),
            Attr::Graph(g) => write!(f, "@{}", g.name()),
        }
    }
}
