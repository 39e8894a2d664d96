//! Operators, and Rust numbers as operands.
//!
//! The right side of an operator is a tensor, a reference to one, or any Rust
//! number. The left side may be an `f32` or `i32`: with more types on the left,
//! the literal in `(1.0 - &x).exp()` would no longer be inferred.
//!
//! A number adopts the tensor's element type. One that the type cannot hold
//! (0.5 or 300 with `u8`) is a mistake; a float that is rounded is not.

use std::ops::{
    Add, AddAssign, BitAnd, BitOr, BitXor, Div, DivAssign, Mul, MulAssign, Neg, Not, Rem,
    RemAssign, Shl, Shr, Sub, SubAssign,
};

use half::{bf16, f16};
use kiln_ir::op::{Binary, Unary};
use kiln_trace::At;
use num_complex::Complex;

use super::Tensor;
use crate::{DType, Error, Scalar};

/// The right side of an operator: a tensor, or a number that adopts the other
/// side's element type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an operand of a tensor",
    label = "neither a tensor nor a number",
    note = "host arrays become tensors with `Tensor::from`"
)]
pub trait Operand {
    /// What it is.
    #[doc(hidden)]
    fn operand(&self) -> OperandKind<'_>;
}

/// What an operand is.
#[doc(hidden)]
pub enum OperandKind<'a> {
    Tensor(&'a Tensor),
    Float(f64),
    Integer(i128),
    Bool(bool),
    Complex(Complex<f64>),
}

impl Operand for Tensor {
    fn operand(&self) -> OperandKind<'_> {
        OperandKind::Tensor(self)
    }
}

impl Operand for &Tensor {
    fn operand(&self) -> OperandKind<'_> {
        OperandKind::Tensor(self)
    }
}

macro_rules! numbers {
    ($($t:ty => |$x:ident| $kind:expr;)*) => {$(
        impl Operand for $t {
            fn operand(&self) -> OperandKind<'_> {
                let $x = *self;
                $kind
            }
        }
    )*};
}

numbers! {
    f32 => |x| OperandKind::Float(x as f64);
    f64 => |x| OperandKind::Float(x);
    f16 => |x| OperandKind::Float(x.to_f64());
    bf16 => |x| OperandKind::Float(x.to_f64());
    i8 => |x| OperandKind::Integer(x as i128);
    i16 => |x| OperandKind::Integer(x as i128);
    i32 => |x| OperandKind::Integer(x as i128);
    i64 => |x| OperandKind::Integer(x as i128);
    isize => |x| OperandKind::Integer(x as i128);
    u8 => |x| OperandKind::Integer(x as i128);
    u16 => |x| OperandKind::Integer(x as i128);
    u32 => |x| OperandKind::Integer(x as i128);
    u64 => |x| OperandKind::Integer(x as i128);
    usize => |x| OperandKind::Integer(x as i128);
    bool => |x| OperandKind::Bool(x);
    Complex<f32> => |x| OperandKind::Complex(Complex::new(x.re.into(), x.im.into()));
    Complex<f64> => |x| OperandKind::Complex(x);
}

impl OperandKind<'_> {
    /// The element type it insists on; a number has none.
    pub(crate) fn dtype(&self) -> Option<DType> {
        match self {
            OperandKind::Tensor(t) => t.try_ty().ok().map(|ty| ty.dtype),
            _ => None,
        }
    }

    /// The mistake that it comes from, if it does.
    pub(crate) fn error(&self) -> Option<&Error> {
        match self {
            OperandKind::Tensor(t) => t.error(),
            _ => None,
        }
    }

    /// The type of a number that nothing else gives a type to.
    pub(crate) fn default_dtype(&self) -> DType {
        match self {
            OperandKind::Tensor(t) => t.dtype(),
            OperandKind::Float(_) => DType::F32,
            OperandKind::Integer(_) => DType::I32,
            OperandKind::Bool(_) => DType::Bool,
            OperandKind::Complex(_) => DType::C64,
        }
    }

    /// The operand as a tensor; a number becomes one of type `dtype`.
    pub(crate) fn tensor(&self, dtype: DType, op: &str, at: At) -> Tensor {
        let scalar = match *self {
            OperandKind::Tensor(t) => return t.clone(),
            OperandKind::Float(x) if dtype.is_inexact() => Ok(Scalar::from_f64(dtype, x)),
            OperandKind::Complex(x) if dtype.is_complex() => {
                Ok(Scalar::from_parts(dtype, x.re, x.im))
            }
            OperandKind::Complex(x) => Err(format!("the number {x}")),
            OperandKind::Float(x) => Err(format!("the number {x:?}")),
            OperandKind::Integer(x) => {
                let scalar = Scalar::from_i128(dtype, x);
                let holds = dtype.is_inexact() || scalar.as_i128() == Some(x);
                if holds && dtype != DType::Bool { Ok(scalar) } else { Err(format!("{x}")) }
            }
            OperandKind::Bool(x) if dtype == DType::Bool => Ok(Scalar::bool(x)),
            OperandKind::Bool(x) => Err(format!("{x}")),
        };
        match scalar {
            Ok(scalar) => Tensor::scalar(scalar),
            Err(number) => {
                let message = format!("{number} cannot be a {dtype}, the tensor's element type");
                Tensor::fail(op, message, at)
            }
        }
    }
}

impl Tensor {
    /// `op` on two operands of one element type, broadcast against each other.
    pub(crate) fn binary(&self, op: Binary, rhs: impl Operand, at: At) -> Tensor {
        match self.pair(op.name(), rhs, at) {
            Ok((lhs, rhs)) => Tensor::apply(op, &[&lhs, &rhs], at),
            Err(poisoned) => poisoned,
        }
    }

    /// Both operands with one element type and one shape, or a poisoned tensor.
    pub(crate) fn pair(
        &self,
        op: &str,
        rhs: impl Operand,
        at: At,
    ) -> Result<(Tensor, Tensor), Tensor> {
        let lhs_ty = self.try_ty().map_err(Tensor::poisoned)?;
        let rhs = rhs.operand().tensor(lhs_ty.dtype, op, at);
        let rhs_ty = rhs.try_ty().map_err(Tensor::poisoned)?;
        if lhs_ty.dtype != rhs_ty.dtype {
            let message = format!(
                "element types differ: lhs {lhs_ty}, rhs {rhs_ty}; \
                 convert one with `astype({})`",
                lhs_ty.dtype.name().to_uppercase()
            );
            return Err(Tensor::fail_operands(op, message, &[("lhs", self), ("rhs", &rhs)], at));
        }
        if lhs_ty.shape == rhs_ty.shape {
            return Ok((self.clone(), rhs));
        }
        let Some(shape) = super::movement::broadcast_shapes(&lhs_ty.shape, &rhs_ty.shape) else {
            let message = format!("shapes do not broadcast: lhs {lhs_ty}, rhs {rhs_ty}");
            return Err(Tensor::fail_operands(op, message, &[("lhs", self), ("rhs", &rhs)], at));
        };
        let (lhs, rhs) = (self.expand(&shape, at), rhs.expand(&shape, at));
        Ok((lhs, rhs))
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<T: Operand> $trait<T> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: T) -> Tensor {
                self.binary(Binary::$op, rhs, At::caller())
            }
        }

        impl<T: Operand> $trait<T> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: T) -> Tensor {
                self.binary(Binary::$op, rhs, At::caller())
            }
        }
    )*};
}

operators! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    Div div Div;
    Rem rem Rem;
    BitAnd bitand And;
    BitOr bitor Or;
    BitXor bitxor Xor;
    Shl shl ShiftLeft;
}

macro_rules! left_numbers {
    ($t:ty: $($trait:ident $method:ident $op:ident;)*) => {$(
        impl $trait<Tensor> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: Tensor) -> Tensor {
                left(self, Binary::$op, &rhs, At::caller())
            }
        }

        impl $trait<&Tensor> for $t {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Tensor {
                left(self, Binary::$op, rhs, At::caller())
            }
        }
    )*};
}

left_numbers! { f32: Add add Add; Sub sub Sub; Mul mul Mul; Div div Div; Rem rem Rem; }
left_numbers! { i32: Add add Add; Sub sub Sub; Mul mul Mul; Div div Div; Rem rem Rem; }

fn left(lhs: impl Operand, op: Binary, rhs: &Tensor, at: At) -> Tensor {
    match rhs.try_ty() {
        Ok(ty) => lhs.operand().tensor(ty.dtype, op.name(), at).binary(op, rhs, at),
        Err(error) => Tensor::poisoned(error),
    }
}

macro_rules! assignments {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<T: Operand> $trait<T> for Tensor {
            #[track_caller]
            fn $method(&mut self, rhs: T) {
                *self = self.binary(Binary::$op, rhs, At::caller());
            }
        }
    )*};
}

assignments! {
    AddAssign add_assign Add;
    SubAssign sub_assign Sub;
    MulAssign mul_assign Mul;
    DivAssign div_assign Div;
    RemAssign rem_assign Rem;
}

/// `>>` fills with the sign for signed integers and with zeros for unsigned ones,
/// as in Rust.
impl<T: Operand> Shr<T> for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn shr(self, rhs: T) -> Tensor {
        let unsigned = self.try_ty().is_ok_and(|ty| ty.dtype.is_unsigned());
        let op = if unsigned { Binary::ShiftRightLogical } else { Binary::ShiftRightArithmetic };
        self.binary(op, rhs, At::caller())
    }
}

impl<T: Operand> Shr<T> for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn shr(self, rhs: T) -> Tensor {
        &self >> rhs
    }
}

impl Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        Tensor::apply(Unary::Neg, &[self], At::caller())
    }
}

impl Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        -&self
    }
}

impl Not for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        Tensor::apply(Unary::Not, &[self], At::caller())
    }
}

impl Not for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn not(self) -> Tensor {
        !&self
    }
}
