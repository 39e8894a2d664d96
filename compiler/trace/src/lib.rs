//! Tracing: running a Rust closure once to record what it does as a graph.
//!
//! A [`Trace`] is open on one thread at a time; [`record`] appends an op to the
//! innermost one and returns a [`Traced`] value. The crate knows nothing of
//! devices or arrays: the façade decides what a tensor is and hands concrete
//! ones over with [`capture`].
//!
//! Promises:
//! - The first mistake in a trace is kept with the user's line, the operands'
//!   types and the lines they come from; what follows from it records nothing
//!   more, and [`Trace::finish`] returns that one [`Error`].
//! - Asking a poisoned value for what it cannot know ([`unwind`]) leaves the
//!   user's closure silently, without the panic hook, at the trace's boundary.
//! - A value used outside the trace that made it, on whatever thread, is an
//!   error and never another graph's node.
//! - A panic of the user's closure closes the trace and goes on.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@error`] | [`Error`]: the one error type, its kinds and its text |
//! | [`mod@location`] | from a caller's location and the open scopes to a `Source` |
//! | [`mod@tracer`] | the stack of open traces |

#![forbid(unsafe_code)]

pub mod error;
pub mod location;
pub mod tracer;

pub use error::{DeviceErrorKind, Error, ErrorKind};
pub use location::{At, named_scope, set_own_folder};
pub use tracer::{
    Capture, CaptureKey, Finished, Trace, TraceId, Traced, blame, capture, constant, fail, is_open,
    record, replay, unwind,
};
