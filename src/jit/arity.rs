//! `call`, `update` and their like for each number of arguments.
//!
//! They are inherent methods of `Jit<(A, B), R>` for each arity, so that a wrong
//! number of arguments is the compiler's own error. Each only makes a tuple.

use std::cell::RefCell;

use kiln_trace::At;

use super::{Jit, Lowered, Program};
use crate::tree::Lease;
use crate::{Error, Feed, Tree};

macro_rules! call {
    ($($t:ident $x:ident)*) => {
        impl<$($t: Tree,)* R: Tree> Jit<($($t,)*), R> {
            /// Runs the function. An argument by value is given up, a reference kept;
            /// a tensor may be fed with a number or a host array.
            ///
            /// # Errors
            /// The first mistake in tracing, the function's own error, or a failure to
            /// compile or run.
            #[track_caller]
            #[allow(clippy::too_many_arguments)]
            pub fn call(&self, $($x: impl Feed<$t>),*) -> Result<R, Error> {
                let at = At::caller();
                self.run(($($x,)*)).map_err(|e| called(e, at))
            }

            /// Traces the function for arguments of these types, without compiling.
            /// [`Tensor::spec`](crate::Tensor::spec) stands for a tensor of a type.
            ///
            /// # Errors
            /// The first mistake in tracing, or the function's own error.
            #[allow(clippy::too_many_arguments)]
            pub fn lower(&self, $($x: impl Feed<$t>),*) -> Result<Lowered, Error> {
                self.lower_tuple(&($($x,)*))
            }

            /// Compiles the function for arguments of these types, without running it.
            /// Calls with such arguments then find it in the cache.
            ///
            /// # Errors
            /// The first mistake in tracing, the function's own error, or a failure to
            /// compile.
            #[allow(clippy::too_many_arguments)]
            pub fn compile(&self, $($x: impl Feed<$t>),*) -> Result<Program, Error> {
                self.compile_tuple(&($($x,)*))
            }
        }
    };
}

call!();
call!(A a);
call!(A a B b);
call!(A a B b C c);
call!(A a B b C c D d);
call!(A a B b C c D d E e);
call!(A a B b C c D d E e G g);
call!(A a B b C c D d E e G g H h);
call!(A a B b C c D d E e G g H h I i);

/// The error with the line of the call.
fn called(error: Error, at: At) -> Error {
    match error.location() {
        Some(_) => error.with_origin("called", at.source()),
        None => error.with_source(at.source()),
    }
}

macro_rules! update {
    ($($t:ident $x:ident)*) => {
        impl<S: Tree, $($t: Tree,)* R: Tree> Jit<(S, $($t,)*), (S, R)> {
            /// Runs a function that takes a state first and returns the new one first:
            /// gives the state's memory up and puts the new state in its place.
            ///
            /// # Errors
            /// As `call`. The state is then as it was.
            #[track_caller]
            #[allow(clippy::too_many_arguments)]
            pub fn update(&self, state: &mut S, $($x: impl Feed<$t>),*) -> Result<R, Error> {
                let (at, state) = (At::caller(), RefCell::new(state));
                self.run_update(&state, (Lease(&state), $($x,)*)).map_err(|e| called(e, at))
            }
        }
    };
}

update!();
update!(A a);
update!(A a B b);
update!(A a B b C c);
update!(A a B b C c D d);
update!(A a B b C c D d E e);
update!(A a B b C c D d E e G g);
update!(A a B b C c D d E e G g H h);
