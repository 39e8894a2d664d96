//! Where in the user's program a node comes from.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// A position in a source file, with the scope that was open there.
///
/// Kept in a side table of the graph: neither emitted code nor cache keys
/// contain it, so that equal kernels are shared between call sites.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Source {
    /// File name as the compiler or the parser knows it.
    pub file: Cow<'static, str>,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 when unknown.
    pub column: u32,
    /// Path of named scopes, such as `block3/attention`; `None` outside any.
    pub scope: Option<Arc<str>>,
}

impl Source {
    /// The position of a `#[track_caller]` caller.
    pub fn from_location(at: &'static Location<'static>) -> Source {
        Source { file: at.file().into(), line: at.line(), column: at.column(), scope: None }
    }
}

impl fmt::Display for Source {
    /// `src/model.rs:41`, or with the scope: `src/model.rs:41 (block3/attention)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        match &self.scope {
            Some(scope) => write!(f, " ({scope})"),
            None => Ok(()),
        }
    }
}
