//! Printing tensors.
//!
//! `Display` waits for the value and prints it nested by axes; large ones are
//! abbreviated. `Debug` computes nothing.

use std::fmt;

use kiln_ir::Literal;
use kiln_trace::At;

use super::{Repr, Tensor};

/// With more elements than this, each axis shows its first and last [`EDGE`].
const FULL: usize = 1000;
const EDGE: usize = 3;

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Repr::Traced(_) | Repr::Spec(_) = self.repr() {
            return fmt::Debug::fmt(self, f);
        }
        match self.literal("display", At::caller()) {
            Ok(literal) => values(&literal, f),
            Err(error) => write!(f, "<{error}>"),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.repr() {
            Repr::Array(_) => "Tensor",
            Repr::Scalar(scalar) => return write!(f, "Tensor({scalar:?})"),
            Repr::Lazy(lazy) => lazy.describe(),
            Repr::Traced(_) => "Traced",
            Repr::Spec(_) => "Spec",
            Repr::Poisoned(error) => return write!(f, "Poisoned({error})"),
        };
        match self.try_ty() {
            Ok(ty) => write!(f, "{what}({ty})"),
            Err(error) => write!(f, "{what}({error})"),
        }
    }
}

fn values(literal: &Literal, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let shape = &literal.ty().shape;
    let abbreviate = literal.ty().elements() > FULL;
    axis(literal, 0, 0, &shape.strides(), abbreviate, f)
}

/// Prints the part of axis `k` and below that starts at element `offset`.
fn axis(
    literal: &Literal,
    k: usize,
    offset: usize,
    strides: &[usize],
    abbreviate: bool,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let shape = &literal.ty().shape;
    let Some(&extent) = shape.get(k) else {
        return write!(f, "{}", literal.get(offset));
    };
    let separator = match k + 1 == shape.rank() {
        true => ", ".to_string(),
        false => format!(",\n{:1$}", "", k + 1),
    };
    let middle = if abbreviate && extent > 2 * EDGE { EDGE..extent - EDGE } else { 0..0 };
    f.write_str("[")?;
    for i in (0..extent).filter(|i| !middle.contains(i) || *i == middle.start) {
        if i > 0 {
            f.write_str(&separator)?;
        }
        if middle.contains(&i) {
            f.write_str("…")?;
        } else {
            axis(literal, k + 1, offset + i * strides[k], strides, abbreviate, f)?;
        }
    }
    f.write_str("]")
}
