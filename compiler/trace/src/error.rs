//! The error type.
//!
//! One opaque, cheaply cloned struct: a mistake may poison many tensors, and
//! each of them must be able to report it. What kind of failure it is decides
//! who can do something about it, so the kinds are few and fixed.
//!
//! The text of an error is its message, then the user's line, then the lines
//! its operands come from:
//!
//! ```text
//! add: shapes do not broadcast: lhs f32[4,8], rhs f32[3]
//!   --> src/model.rs:41
//!   lhs f32[4,8] from src/model.rs:12
//! ```

use std::fmt;
use std::sync::Arc;

use kiln_ir::Source;
use kiln_ir::derive::NoRule;

/// Who can do something about an [`Error`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The program asks for something that has no meaning; change the program.
    User,
    /// The program is right, and Kiln cannot do it.
    Unsupported,
    /// A device refused: memory, missing hardware.
    Device(DeviceErrorKind),
    /// Machine code could not be made or loaded.
    Compile,
    /// A file or stream could not be read or written.
    Io,
    /// A bug in Kiln.
    Internal,
}

/// What a device refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum DeviceErrorKind {
    /// The pool has no free block that is large enough.
    OutOfMemory,
    /// The device is not there, or not usable.
    Unavailable,
    /// Anything else.
    Other,
}

/// What went wrong, where, and in which op.
#[derive(Clone)]
pub struct Error {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    op: Option<String>,
    message: String,
    source: Option<Source>,
    origins: Vec<(String, Source)>,
    notes: Vec<String>,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of a kind with a message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error {
            inner: Arc::new(Inner {
                kind,
                op: None,
                message: message.into(),
                source: None,
                origins: Vec::new(),
                notes: Vec::new(),
                cause: None,
            }),
        }
    }

    /// A user's mistake.
    pub fn user(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::User, message)
    }

    /// A bug of ours.
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Internal, message)
    }

    /// An error that the user's own function returned.
    pub fn from_user(cause: Box<dyn std::error::Error + Send + Sync>) -> Error {
        match cause.downcast::<Error>() {
            Ok(own) => *own,
            Err(cause) => {
                let mut error = Error::user(cause.to_string());
                error.edit(|e| e.cause = Some(cause));
                error
            }
        }
    }

    /// With the op's name.
    pub fn with_op(mut self, op: impl Into<String>) -> Error {
        self.edit(|e| e.op = Some(op.into()));
        self
    }

    /// With the user's line.
    pub fn with_source(mut self, source: Source) -> Error {
        self.edit(|e| e.source = Some(source));
        self
    }

    /// With the user's line, unless it has one already.
    pub fn or_source(self, source: impl FnOnce() -> Source) -> Error {
        if self.inner.source.is_some() { self } else { self.with_source(source()) }
    }

    /// With the line of something that led to it.
    pub fn with_origin(mut self, label: impl Into<String>, source: Source) -> Error {
        self.edit(|e| e.origins.push((label.into(), source)));
        self
    }

    /// With a sentence that helps to understand it.
    pub fn with_note(mut self, note: impl Into<String>) -> Error {
        self.edit(|e| e.notes.push(note.into()));
        self
    }

    /// Builders run before the error is shared; a shared one is copied, without
    /// its cause.
    fn edit(&mut self, f: impl FnOnce(&mut Inner)) {
        if Arc::get_mut(&mut self.inner).is_none() {
            let e = &self.inner;
            self.inner = Arc::new(Inner {
                kind: e.kind,
                op: e.op.clone(),
                message: e.message.clone(),
                source: e.source.clone(),
                origins: e.origins.clone(),
                notes: e.notes.clone(),
                cause: None,
            });
        }
        f(Arc::get_mut(&mut self.inner).expect("the only handle"));
    }

    /// Who can do something about it.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The op that failed, if one did.
    pub fn op(&self) -> Option<&str> {
        self.inner.op.as_deref()
    }

    /// The message, without op and lines.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The user's line, if known.
    pub fn location(&self) -> Option<&Source> {
        self.inner.source.as_ref()
    }

    /// What led to it, and where: for a mistake in an op, its operands.
    pub fn origins(&self) -> impl ExactSizeIterator<Item = (&str, &Source)> {
        self.inner.origins.iter().map(|(label, source)| (label.as_str(), source))
    }

    /// Sentences that help to understand it.
    pub fn notes(&self) -> impl ExactSizeIterator<Item = &str> {
        self.inner.notes.iter().map(String::as_str)
    }

    /// Whether two errors are the same event, reported twice.
    pub fn same(&self, other: &Error) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(op) = self.op() {
            write!(f, "{op}: ")?;
        }
        f.write_str(self.message())?;
        if let Some(source) = self.location() {
            write!(f, "\n  --> {source}")?;
        }
        for (label, source) in self.origins() {
            write!(f, "\n  {label} from {source}")?;
        }
        for note in self.notes() {
            write!(f, "\n  {note}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    /// The text, so that `unwrap` shows it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:?}] {self}", self.kind())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.cause.as_ref().map(|c| &**c as _)
    }
}

impl From<NoRule> for Error {
    fn from(missing: NoRule) -> Error {
        let error = Error::new(ErrorKind::Unsupported, missing.reason).with_op(missing.op);
        match missing.place {
            Some(source) => error.with_source(source),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(line: u32) -> Source {
        Source { file: "src/model.rs".into(), line, column: 1, scope: None }
    }

    #[test]
    fn text_names_op_line_and_origins() {
        let e = Error::user("shapes do not broadcast")
            .with_op("add")
            .with_source(source(41))
            .with_origin("lhs f32[4]", source(12))
            .with_note("rhs f32[3] is the argument `x`");
        assert_eq!(
            e.to_string(),
            "add: shapes do not broadcast\n  --> src/model.rs:41\n  lhs f32[4] from src/model.rs:12\n  rhs f32[3] is the argument `x`"
        );
        assert_eq!(e.location().unwrap().line, 41);
    }

    #[test]
    fn a_shared_error_is_not_edited_behind_its_other_handles() {
        let e = Error::user("no").with_source(source(1));
        let f = e.clone().with_source(source(2));
        assert_eq!((e.location().unwrap().line, f.location().unwrap().line), (1, 2));
    }

    #[test]
    fn an_own_error_returned_by_user_code_stays_itself() {
        let e = Error::new(ErrorKind::Unsupported, "sparse");
        let back = Error::from_user(Box::new(e.clone()));
        assert!(back.same(&e));
        let other = Error::from_user("bad input".into());
        assert_eq!((other.kind(), other.message()), (ErrorKind::User, "bad input"));
        assert!(std::error::Error::source(&other).is_some());
    }
}
