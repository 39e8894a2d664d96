//! From a caller's location to the line of user code that a message shows.
//!
//! `#[track_caller]` gives the user's line for operators, methods and calls
//! inside functions that have the attribute. It is lost where a method is passed
//! as a function pointer (`.map(Tensor::exp)`): the location then lies in the
//! standard library or in Kiln itself. Such a location is replaced by the line
//! that opened the innermost scope.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

use kiln_ir::Source;

/// A caller's location, read once at the top of a public function.
#[derive(Clone, Copy, Debug)]
pub struct At(&'static Location<'static>);

impl At {
    /// The location of the caller of the `#[track_caller]` function this is called in.
    #[track_caller]
    pub fn caller() -> At {
        At(Location::caller())
    }

    /// The line to show, with the path of open scopes.
    pub fn source(self) -> Source {
        SCOPES.with_borrow(|scopes| {
            let at = match scopes.last() {
                Some(scope) if is_foreign(self.0.file()) => scope.at,
                _ => self.0,
            };
            Source {
                scope: scopes.last().and_then(|s| s.path.clone()),
                ..Source::from_location(at)
            }
        })
    }
}

struct Scope {
    /// `None` for the scope that a trace opens for itself.
    path: Option<Arc<str>>,
    at: &'static Location<'static>,
}

thread_local! {
    static SCOPES: RefCell<Vec<Scope>> = const { RefCell::new(Vec::new()) };
}

static OWN_FOLDER: OnceLock<&'static str> = OnceLock::new();

/// Declares the folder, as `file!()` spells it, whose lines are never the user's:
/// that of the façade's sources.
pub fn set_own_folder(folder: &'static str) {
    OWN_FOLDER.get_or_init(|| folder);
}

/// Whether a file belongs to the standard library or to Kiln.
fn is_foreign(file: &str) -> bool {
    let std = ["core", "alloc", "std"]
        .iter()
        .any(|lib| file.starts_with("/rustc/") || file.contains(&format!("/library/{lib}/src/")));
    std || OWN_FOLDER.get().is_some_and(|folder| file.starts_with(folder))
}

/// Runs `f` inside a scope called `name`: the names of open scopes, joined by `/`,
/// stand beside the line in messages and dumps.
#[track_caller]
pub fn named_scope<R>(name: &str, f: impl FnOnce() -> R) -> R {
    let path = SCOPES.with_borrow(|scopes| match scopes.last().and_then(|s| s.path.as_deref()) {
        Some(outer) => format!("{outer}/{name}"),
        None => name.to_string(),
    });
    let _open = OpenScope::push(Some(path.into()), At::caller());
    f()
}

/// Pops its scope when dropped, also by a panic.
pub(crate) struct OpenScope(());

impl OpenScope {
    pub(crate) fn push(path: Option<Arc<str>>, at: At) -> OpenScope {
        SCOPES.with_borrow_mut(|scopes| scopes.push(Scope { path, at: at.0 }));
        OpenScope(())
    }
}

impl Drop for OpenScope {
    fn drop(&mut self) {
        SCOPES.with_borrow_mut(|scopes| scopes.pop());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn source() -> Source {
        At::caller().source()
    }

    #[test]
    fn scopes_nest_and_close() {
        let here = line!() + 1;
        let s = named_scope("block3", || named_scope("attention", source));
        assert_eq!(s.scope.as_deref(), Some("block3/attention"));
        // A function passed by value has no caller of its own that is the user's;
        // this one's file is, so its line is kept.
        assert!(s.line >= here);
        assert_eq!(source().scope, None);
    }

    #[test]
    fn a_line_of_the_standard_library_falls_back_to_the_scope() {
        let here = line!() + 1;
        let s = named_scope("map", || [1].iter().map(|_| At(std_location()).source()).next());
        assert_eq!(s.unwrap().line, here);
    }

    /// A location inside `core`, which calls the function there.
    fn std_location() -> &'static Location<'static> {
        let [at] = [()].map(track);
        assert!(is_foreign(at.file()), "{at}");
        at
    }

    #[track_caller]
    fn track(_: ()) -> &'static Location<'static> {
        Location::caller()
    }

    #[test]
    fn a_panic_closes_its_scope() {
        let r = std::panic::catch_unwind(|| {
            named_scope("gone", || std::panic::resume_unwind(Box::new(())))
        });
        assert!(r.is_err());
        assert_eq!(source().scope, None);
    }
}
