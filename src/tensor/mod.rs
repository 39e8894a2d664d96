//! The tensor.
//!
//! One type in every place: inside a jitted closure it is a value of the trace;
//! outside it is a device array, or an expression over device arrays that is
//! compiled and run when somebody looks at its value. Methods return tensors and
//! never fail: a mistake gives a poisoned tensor that carries the error to
//! whoever looks.
//!
//! | module | holds |
//! |---|---|
//! | `apply` | the one place where an op becomes a graph node or an expression |
//! | `operand` | operators, and numbers as operands |
//! | `index`, `at`, `gather` | parts by numbers and ranges; updates of them; index arrays |
//! | `elementwise`, `complex`, `special`, `bits`, `divide`, `movement`, `reduce`, `linalg`, `sort`, `create`, `nn` | the other methods |
//! | `host` | conversions from and to host data |
//! | `display` | printing |

mod activation;
mod apply;
mod at;
mod bits;
mod complex;
mod create;
mod cumulative;
mod display;
mod divide;
mod elementwise;
mod gather;
mod host;
mod index;
mod linalg;
mod movement;
mod nn;
mod operand;
mod reduce;
mod sort;
mod special;
mod window;

use std::sync::{Arc, LazyLock};

pub(crate) use apply::lift;
pub use at::{At as IndexUpdate, IndexMode};
pub(crate) use host::HostData;
#[cfg(feature = "ndarray")]
pub(crate) use host::host_data;
pub use host::{HostArray, HostElement};
pub use index::{Index, TensorIndex};
use kiln_trace::Traced;
pub use linalg::Contracted;
pub use movement::IntoShape;
pub use operand::Operand;
pub use reduce::{Axes, keepdims};
pub(crate) use reduce::{resolve_axes, resolve_axis};
pub use window::{Padding, Window};

use crate::device::Array;
use crate::lazy::Lazy;
use crate::{DType, Error, Scalar, Shape, Type};

/// An array of numbers of one element type: a device array, a lazy expression,
/// or a value of the function being traced.
///
/// Cloning is cheap and shares the data; nothing changes a tensor in place.
/// Operators and methods take other tensors of the same element type, with
/// numpy's broadcasting between shapes, and Rust numbers, which adopt the
/// tensor's element type.
///
/// ```
/// use kiln::prelude::*;
///
/// let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// let y = (&x * 2.0 + 1.0).sum(0);
/// assert_eq!(y.to_vec::<f32>()?, [10.0, 14.0]);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// There is no `==` or `<` on tensors: a traced value has no truth yet.
///
/// ```compile_fail,E0369
/// # use kiln::prelude::*;
/// let f = jit(|x: Tensor| if x > 0.0 { x } else { -x });
/// ```
#[derive(Clone)]
pub struct Tensor {
    repr: Repr,
}

#[derive(Clone)]
pub(crate) enum Repr {
    /// On the device.
    Array(Array),
    /// A rank-0 number that never needed to be on the device.
    Scalar(Scalar),
    /// An expression, or the result of one.
    Lazy(Arc<Lazy>),
    /// A value of an open trace.
    Traced(Arc<Traced>),
    /// A type without a value, for compiling ahead of time.
    Spec(Arc<Type>),
    /// The result of a mistake.
    Poisoned(Error),
}

static SCALAR_TYPES: LazyLock<[Type; DType::ALL.len()]> =
    LazyLock::new(|| DType::ALL.map(Type::scalar));

impl Tensor {
    pub(crate) fn new(repr: Repr) -> Tensor {
        Tensor { repr }
    }

    pub(crate) fn array(array: Array) -> Tensor {
        Tensor { repr: Repr::Array(array) }
    }

    pub(crate) fn traced(traced: Traced) -> Tensor {
        Tensor { repr: Repr::Traced(Arc::new(traced)) }
    }

    pub(crate) fn scalar(scalar: Scalar) -> Tensor {
        Tensor { repr: Repr::Scalar(scalar) }
    }

    pub(crate) fn poisoned(error: Error) -> Tensor {
        Tensor { repr: Repr::Poisoned(error) }
    }

    pub(crate) fn repr(&self) -> &Repr {
        &self.repr
    }

    pub(crate) fn into_repr(self) -> Repr {
        self.repr
    }

    /// A type without a value, to compile ahead of time with `Jit::lower`; poisoned if
    /// no array can have it.
    ///
    /// ```
    /// use kiln::prelude::*;
    ///
    /// let double = jit(|x: Tensor| x * 2.0);
    /// double.compile(&Tensor::spec([4, 8], F32))?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn spec(shape: impl Into<Shape>, dtype: DType) -> Tensor {
        let ty = Type::new(dtype, shape);
        if !ty.fits() {
            let message = format!("{ty} is too large: its size passes an i64");
            return Tensor::fail("spec", message, kiln_trace::At::caller());
        }
        Tensor { repr: Repr::Spec(Arc::new(ty)) }
    }

    /// Element type and shape, or the error that poisoned the tensor.
    ///
    /// # Errors
    /// If the tensor comes from a mistake.
    pub fn try_ty(&self) -> Result<&Type, Error> {
        match &self.repr {
            Repr::Array(array) => Ok(array.ty()),
            Repr::Scalar(scalar) => Ok(scalar_type(scalar.dtype())),
            Repr::Lazy(lazy) => Ok(lazy.ty()),
            Repr::Traced(traced) => Ok(traced.ty()),
            Repr::Spec(ty) => Ok(ty),
            Repr::Poisoned(error) => Err(error.clone()),
        }
    }

    /// Element type and shape.
    ///
    /// Asking a tensor that comes from a mistake has no right answer. Inside a
    /// trace it ends the trace, whose call returns the error.
    ///
    /// # Panics
    /// If the tensor comes from a mistake and no trace is open;
    /// [`Tensor::try_ty`] returns the error instead.
    #[track_caller]
    pub fn ty(&self) -> &Type {
        match self.try_ty() {
            Ok(ty) => ty,
            Err(error) if kiln_trace::is_open() => kiln_trace::unwind(error),
            Err(error) => panic!("the type of a tensor that comes from a mistake:\n{error}"),
        }
    }

    /// Extents, outermost first. See [`Tensor::ty`] for tensors that come from a
    /// mistake.
    #[track_caller]
    pub fn shape(&self) -> &[usize] {
        &self.ty().shape
    }

    /// Element type. See [`Tensor::ty`] for tensors that come from a mistake.
    #[track_caller]
    pub fn dtype(&self) -> DType {
        self.ty().dtype
    }

    /// Number of axes. See [`Tensor::ty`] for tensors that come from a mistake.
    #[track_caller]
    pub fn ndim(&self) -> usize {
        self.ty().shape.rank()
    }

    /// Number of elements. See [`Tensor::ty`] for tensors that come from a mistake.
    #[track_caller]
    pub fn size(&self) -> usize {
        self.ty().elements()
    }

    /// The extent of an axis; negative axes count from the last.
    ///
    /// # Panics
    /// If there is no such axis and no trace is open; inside a trace that is an
    /// error of the trace.
    #[track_caller]
    pub fn dim(&self, axis: isize) -> usize {
        let at = kiln_trace::At::caller();
        let ty = self.ty();
        match reduce::resolve_axis(axis as i64, ty.shape.rank()) {
            Some(axis) => ty.shape[axis],
            None => {
                let message = format!("axis {axis} is out of range for {ty}");
                let error = kiln_trace::fail(Error::user(message).with_op("dim"), at);
                if kiln_trace::is_open() {
                    kiln_trace::unwind(error)
                }
                panic!("{error}")
            }
        }
    }

    /// Whether the tensor is a value of a trace, so that it has no numbers yet.
    pub fn is_traced(&self) -> bool {
        matches!(self.repr, Repr::Traced(_))
    }

    /// The mistake that the tensor comes from, if it does.
    pub fn error(&self) -> Option<&Error> {
        match &self.repr {
            Repr::Poisoned(error) => Some(error),
            _ => None,
        }
    }
}

fn scalar_type(dtype: DType) -> &'static Type {
    &SCALAR_TYPES[DType::ALL.iter().position(|&d| d == dtype).expect("every type is listed")]
}

/// Rank-0 zero in `f32`. What `std::mem::take` leaves behind.
impl Default for Tensor {
    fn default() -> Tensor {
        Tensor::scalar(Scalar::zero(DType::F32))
    }
}
