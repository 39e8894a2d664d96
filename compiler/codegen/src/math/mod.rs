//! Transcendental functions as plain arithmetic.

use crate::kernel::{ExprId, Exprs};

macro_rules! todo_fn { ($($n:ident),*) => {$(
    pub(crate) fn $n(_x: &mut Exprs, a: ExprId) -> ExprId { a }
)*} }
todo_fn!(exp, log, tanh, sin, cos, erf);
pub(crate) fn pow(_x: &mut Exprs, a: ExprId, _b: ExprId) -> ExprId {
    a
}
pub(crate) fn integer_pow(_x: &mut Exprs, a: ExprId, _b: ExprId) -> ExprId {
    a
}
