//! Which closures can be jitted, and what they may return.

use crate::{Error, Tree};

/// A function that can be jitted: `Fn` of up to eight trees, returning a tree or
/// a `Result` of one.
#[diagnostic::on_unimplemented(
    message = "this closure cannot be jitted",
    note = "its parameters must be trees by value, with types: `|x: Tensor, m: Mlp| ..`",
    note = "its result must be a tree of tensors, or a `Result` of one",
    note = "it must be `Fn + Send + Sync + 'static`: `move` its captures, no `RefCell`, and no \
            borrowed parameters"
)]
pub trait Traceable<Args>: Send + Sync + 'static {
    /// What it returns.
    type Out: Output;
    /// How many parameters it has.
    const ARITY: usize;
    /// Calls it.
    fn trace(&self, args: Args) -> Self::Out;
}

macro_rules! functions {
    ($($arity:literal: $($t:ident)*;)*) => {$(
        impl<F, R, $($t),*> Traceable<($($t,)*)> for F
        where
            F: Fn($($t),*) -> R + Send + Sync + 'static,
            R: Output,
            $($t: Tree,)*
        {
            type Out = R;
            const ARITY: usize = $arity;
            #[allow(non_snake_case)]
            fn trace(&self, ($($t,)*): ($($t,)*)) -> R {
                self($($t),*)
            }
        }
    )*};
}

functions! {
    0: ;
    1: A;
    2: A B;
    3: A B C;
    4: A B C D;
    5: A B C D E;
    6: A B C D E G;
    7: A B C D E G H;
    8: A B C D E G H I;
}

/// What a jitted function returns: a tree, or a `Result` of one.
#[diagnostic::on_unimplemented(
    message = "a jitted function cannot return `{Self}`",
    note = "it returns a tree of tensors, or a `Result` of one whose error converts to \
            `Box<dyn Error + Send + Sync>`"
)]
pub trait Output {
    /// The tree.
    type Tree: Tree;
    /// The tree, or the function's own error as ours.
    #[doc(hidden)]
    fn into_result(self) -> Result<Self::Tree, Error>;
}

impl<T: Tree> Output for T {
    type Tree = T;
    fn into_result(self) -> Result<T, Error> {
        Ok(self)
    }
}

impl<T: Tree, E: Into<Box<dyn std::error::Error + Send + Sync>>> Output for Result<T, E> {
    type Tree = T;
    fn into_result(self) -> Result<T, Error> {
        self.map_err(|e| Error::from_user(e.into()))
    }
}
