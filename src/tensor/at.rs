//! `x.at(i)`: a part of a tensor, to read, replace or combine with a value.
//!
//! Where the index is numbers and ranges, the part is a box: read, combined and written back.
//! With index arrays it is a scatter, which combines the updates of one element in order.
//! Either way the tensor is overwritten in place where nobody else needs it.

use kiln_ir::op::{Binary, ScatterKind};
use kiln_trace::At as Caller;

use super::gather::Arrays;
use super::index::{Index, resolve};
use super::operand::OperandKind;
use super::{Operand, Tensor};
use crate::{DType, Scalar};

/// What happens to an element of an index array that is out of range. The names are JAX's.
///
/// No mode is undefined, so that none is a promise that indices are in range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexMode {
    /// The nearest index in range is used.
    Clip,
    /// A read gives the fill value, an update is left out.
    Fill,
    /// The same as [`IndexMode::Fill`].
    Drop,
    /// It is an error of the call that names the op, the index and the line.
    ///
    /// The indices are looked at when the op is called, which computes them. A function that
    /// is being traced has no indices to look at yet: there this mode is refused, and says so.
    Error,
}

/// How index arrays are read or written.
#[derive(Clone, Default)]
pub(super) struct Access {
    /// The op's own default, if none.
    pub mode: Option<IndexMode>,
    /// What a read out of range gives; by default NaN, the least signed integer, the greatest
    /// unsigned one, `true`.
    pub fill: Option<Tensor>,
    pub unique: bool,
    pub sorted: bool,
}

/// A part of a tensor, to read, replace or combine. Made by [`Tensor::at`].
///
/// ```
/// use kiln::prelude::*;
///
/// let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
/// assert_eq!(x.at(1..3).set(0.0).to_vec::<f32>()?, [1.0, 0.0, 0.0, 4.0]);
///
/// // An index twice counts twice; what is out of range is left out.
/// let i = Tensor::from([0, 2, 2, -1, 9]);
/// assert_eq!(x.at(&i).add(10.0).to_vec::<f32>()?, [11.0, 2.0, 23.0, 14.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
pub struct At<'t> {
    tensor: &'t Tensor,
    indices: Vec<Index>,
    access: Access,
    /// A mistake in what the access was told.
    mistake: Option<Tensor>,
}

// The names are JAX's: `x.at[i].add(y)`.
#[allow(clippy::should_implement_trait)]
impl<'t> At<'t> {
    pub(super) fn new(tensor: &'t Tensor, indices: Vec<Index>) -> At<'t> {
        At { tensor, indices, access: Access::default(), mistake: None }
    }

    /// What happens to elements of index arrays that are out of range. By default, reads
    /// clip and updates drop.
    pub fn mode(mut self, mode: IndexMode) -> At<'t> {
        self.access.mode = Some(mode);
        self
    }

    /// What a read out of range gives under [`IndexMode::Fill`], which this chooses. By
    /// default NaN, the least of the signed integers, the greatest of the unsigned ones, and
    /// `true`.
    #[track_caller]
    pub fn fill_value(mut self, value: impl Operand) -> At<'t> {
        if let Ok(ty) = self.tensor.try_ty() {
            let value = value.operand().tensor(ty.dtype, "at.fill_value", Caller::caller());
            if value.error().is_some() {
                self.mistake = Some(value.clone());
            }
            self.access.fill = Some(value);
        }
        self.access.mode = Some(IndexMode::Fill);
        self
    }

    /// Promises that no element is named twice. If one is, its value is not specified.
    pub fn unique_indices(mut self) -> At<'t> {
        self.access.unique = true;
        self
    }

    /// Promises that indices do not decrease. It never changes a result.
    pub fn indices_are_sorted(mut self) -> At<'t> {
        self.access.sorted = true;
        self
    }

    /// The part itself; see [`Tensor::get`].
    #[track_caller]
    pub fn get(self) -> Tensor {
        let at = Caller::caller();
        match self.mistake {
            Some(mistake) => mistake,
            None => self.tensor.part("at.get", &self.indices, &self.access, at),
        }
    }

    /// The tensor with this part replaced by `value`, broadcast to it. Where index arrays
    /// name an element twice, the last one stays.
    #[track_caller]
    pub fn set(self, value: impl Operand) -> Tensor {
        self.update("at.set", ScatterKind::Set, value.operand(), Caller::caller())
    }

    /// The tensor with `value` added to this part.
    ///
    /// Where index arrays name an element several times, the values are added one after the
    /// other in the order of the indices; half types in `f32`, rounded once.
    #[track_caller]
    pub fn add(self, value: impl Operand) -> Tensor {
        self.update("at.add", ScatterKind::Add, value.operand(), Caller::caller())
    }

    /// The tensor with `value` subtracted from this part; see [`At::add`].
    #[track_caller]
    pub fn subtract(self, value: impl Operand) -> Tensor {
        let at = Caller::caller();
        let Ok(ty) = self.tensor.try_ty() else { return self.tensor.clone() };
        // The difference from 0 and not the negation, which unsigned numbers lack.
        let value = value.operand().tensor(ty.dtype, "at.subtract", at);
        let value = match value.try_ty() {
            Ok(value_ty) if value_ty.dtype == ty.dtype => {
                Tensor::number(0.0, ty.dtype, at).binary(Binary::Sub, &value, at)
            }
            _ => value,
        };
        self.update("at.subtract", ScatterKind::Add, OperandKind::Tensor(&value), at)
    }

    /// The tensor with this part multiplied by `value`; in order, as [`At::add`].
    #[track_caller]
    pub fn mul(self, value: impl Operand) -> Tensor {
        self.update("at.mul", ScatterKind::Mul, value.operand(), Caller::caller())
    }

    /// The tensor with the lesser of this part and `value`; NaN wins.
    #[track_caller]
    pub fn min(self, value: impl Operand) -> Tensor {
        self.update("at.min", ScatterKind::Min, value.operand(), Caller::caller())
    }

    /// The tensor with the greater of this part and `value`; NaN wins.
    #[track_caller]
    pub fn max(self, value: impl Operand) -> Tensor {
        self.update("at.max", ScatterKind::Max, value.operand(), Caller::caller())
    }

    fn update(self, op: &str, kind: ScatterKind, value: OperandKind, at: Caller) -> Tensor {
        let x = self.tensor;
        let Ok(ty) = x.try_ty() else { return x.clone() };
        if let Some(mistake) = self.mistake {
            return mistake;
        }
        let fail = |message: String| Tensor::fail_operands(op, message, &[("operand", x)], at);
        let value = value.tensor(ty.dtype, op, at);
        let value_ty = match value.try_ty() {
            Ok(value_ty) => value_ty,
            Err(error) => return Tensor::poisoned(error),
        };
        if value_ty.dtype != ty.dtype {
            return fail(format!("the value is {value_ty}, the tensor {ty}"));
        }
        let broadcasts = |part: &crate::Shape| {
            super::movement::broadcast_shapes(&value_ty.shape, part).as_ref() == Some(part)
        };
        let refusal = |part: &crate::Shape| {
            fail(format!("the value {value_ty} does not broadcast to the part {part}"))
        };
        let resolved = match resolve(&self.indices, ty) {
            Ok(resolved) => resolved,
            Err(message) => return fail(message),
        };
        if resolved.slice.stride.iter().any(|&s| s != 1) {
            return fail("a range with a step cannot be replaced".into());
        }
        if self.indices.iter().any(|i| matches!(i, Index::Array(_))) {
            let arrays = match Arrays::new(op, x, &self.indices, &self.access, at) {
                Ok(arrays) => arrays,
                Err(poisoned) => return poisoned,
            };
            let part = arrays.shape();
            if !broadcasts(&part) {
                return refusal(&part);
            }
            return arrays.write(kind, &value.expand(&part, at), &self.access, at);
        }
        let part = resolved.part(x, at);
        let Ok(part_ty) = part.try_ty() else { return part };
        // What the user sees of the part lacks the axes that a number took.
        let seen = part_ty.shape.without(&resolved.dropped);
        if !broadcasts(&seen) {
            return refusal(&seen);
        }
        let value = value.expand(&seen, at).reshaped(part_ty.shape.clone(), at);
        let update = match kind.combine() {
            None => value,
            Some(f) => part.binary(f, &value, at),
        };
        resolved.replace(x, &update, at)
    }
}

/// What a read out of range gives, unless something else is asked for.
pub(super) fn default_fill(dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::bool(true),
        d if d.is_float() => Scalar::from_f64(d, f64::NAN),
        d if d.is_unsigned() => Scalar::from_i128(d, -1),
        d => Scalar::from_i128(d, -1 << (d.bits() - 1)),
    }
}
