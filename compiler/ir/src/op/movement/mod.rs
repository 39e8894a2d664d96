//! Ops that move elements without computing on them.
//!
//! The result at an index is an operand's element at another index that follows
//! from the attributes, or, for `pad`, a given value.

mod broadcast;
mod concatenate;
mod pad;
mod permute;
mod slice;

pub use broadcast::{Broadcast, Reshape};
pub use concatenate::Concatenate;
pub use pad::Pad;
pub use permute::{Reverse, Transpose};
pub use slice::Slice;
