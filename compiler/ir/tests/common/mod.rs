//! Short ways to write types and values in tests.
#![allow(dead_code, reason = "each test crate uses some of these")]

use kiln_ir::{DType, InferError, Literal, Op, Type};

/// A type as the text format writes it: `f32[4,8]`.
pub fn ty(text: &str) -> Type {
    let (dtype, shape) = text.strip_suffix(']').and_then(|t| t.split_once('[')).expect("a type");
    let dtype = DType::from_name(dtype).expect("an element type");
    let extents = shape.split(',').filter(|d| !d.is_empty());
    Type::new(dtype, extents.map(|d| d.parse().expect("an extent")).collect::<Vec<usize>>())
}

/// The op's results for these operands, or why there are none.
pub fn try_apply(op: impl Into<Op>, operands: &[&Literal]) -> Result<Vec<Literal>, InferError> {
    let op = op.into();
    let types: Vec<&Type> = operands.iter().map(|x| x.ty()).collect();
    let results = op.infer(&types)?;
    Ok(op.eval(operands, &results))
}

/// The one result of the op.
pub fn apply(op: impl Into<Op>, operands: &[&Literal]) -> Literal {
    let mut results = try_apply(op, operands).expect("operands fit");
    assert_eq!(results.len(), 1);
    results.remove(0)
}

/// A vector.
pub fn vector<T: kiln_ir::Element>(elements: &[T]) -> Literal {
    Literal::from_slice([elements.len()], elements)
}

/// A rank-0 array.
pub fn scalar<T: kiln_ir::Element>(element: T) -> Literal {
    Literal::from_slice([], &[element])
}
