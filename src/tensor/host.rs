//! Conversions from and to host data.
//!
//! `Tensor::from` copies host data to the device; inside a trace it becomes a
//! constant of the program. `to_vec` and `item` wait for the value and copy it
//! back.

use kiln_ir::{Element, Literal};
use kiln_trace::At;
use num_complex::Complex;

use super::{Repr, Tensor};
use crate::device;
use crate::tree::{Arguments, KeyWriter, Passing, Placeholders, Walk};
use crate::{DType, Error, Feed, Scalar, Shape, Type};

/// A Rust type that is an element of a tensor on the host.
pub trait HostElement: Element {}

macro_rules! host_elements {
    ($($t:ty),*) => {$(impl HostElement for $t {})*};
}

host_elements!(bool, i8, i16, i32, i64, u8, u16, u32, u64, half::f16, half::bf16, f32, f64);
host_elements!(Complex<f32>, Complex<f64>);

/// A dense row-major array on the host, of any element type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostArray {
    literal: Literal,
}

impl HostArray {
    /// From elements in row-major order.
    ///
    /// # Errors
    /// If there are not as many as the shape holds.
    pub fn from_vec<T: HostElement>(
        data: Vec<T>,
        shape: impl Into<Shape>,
    ) -> Result<HostArray, Error> {
        let shape = shape.into();
        check_count::<T>(data.len(), &shape)?;
        Ok(HostArray { literal: Literal::from_slice(shape, &data) })
    }

    /// From bytes in row-major order, little-endian.
    ///
    /// # Errors
    /// If there are not as many as the type takes, or one of a `bool` is not 0 or 1.
    pub fn from_bytes(ty: Type, bytes: &[u8]) -> Result<HostArray, Error> {
        if !ty.fits() || ty.bytes() != bytes.len() {
            return Err(Error::user(format!("{} bytes for an array {ty}", bytes.len())));
        }
        if ty.dtype == DType::Bool && bytes.iter().any(|&b| b > 1) {
            return Err(Error::user("a byte of a bool array is neither 0 nor 1"));
        }
        Ok(HostArray { literal: Literal::from_bytes(ty, bytes) })
    }

    pub(crate) fn from_literal(literal: Literal) -> HostArray {
        HostArray { literal }
    }

    /// Element type and shape.
    pub fn ty(&self) -> &Type {
        self.literal.ty()
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.ty().dtype
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.ty().shape
    }

    /// The bytes in row-major order, little-endian.
    pub fn bytes(&self) -> &[u8] {
        self.literal.bytes()
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    /// If the array has another element type.
    pub fn to_vec<T: HostElement>(&self) -> Result<Vec<T>, Error> {
        self.literal.to_vec().ok_or_else(|| wrong_element::<T>(self.ty(), "to_vec"))
    }
}

fn check_count<T: Element>(count: usize, shape: &Shape) -> Result<(), Error> {
    if Type::new(T::DTYPE, shape.clone()).fits() && shape.elements() == count {
        return Ok(());
    }
    Err(Error::user(format!("{count} elements for an array of shape {shape}")))
}

fn wrong_element<T: Element>(ty: &Type, op: &str) -> Error {
    let message = format!(
        "the tensor is {ty}, not {}; convert it: `.astype({})`",
        T::DTYPE,
        T::DTYPE.name().to_uppercase()
    );
    Error::user(message).with_op(op)
}

impl Tensor {
    /// From elements in row-major order; poisoned if there are not as many as the
    /// shape holds.
    #[track_caller]
    pub fn from_vec<T: HostElement>(data: Vec<T>, shape: impl Into<Shape>) -> Tensor {
        Tensor::from_elements("from_vec", &data, shape.into(), At::caller())
    }

    /// From elements in row-major order; poisoned if there are not as many as the
    /// shape holds.
    #[track_caller]
    pub fn from_slice<T: HostElement>(data: &[T], shape: impl Into<Shape>) -> Tensor {
        Tensor::from_elements("from_slice", data, shape.into(), At::caller())
    }

    fn from_elements<T: HostElement>(op: &str, data: &[T], shape: Shape, at: At) -> Tensor {
        match check_count::<T>(data.len(), &shape) {
            Ok(()) => Tensor::from_host(&Shaped(data, shape), at),
            Err(error) => Tensor::poisoned(kiln_trace::fail(error.with_op(op), at)),
        }
    }

    /// The elements in row-major order. Waits for the value.
    ///
    /// # Errors
    /// If the tensor comes from a mistake, is being traced, has another element
    /// type, or its computation fails.
    #[track_caller]
    pub fn to_vec<T: HostElement>(&self) -> Result<Vec<T>, Error> {
        let at = At::caller();
        let ty = self.try_ty()?;
        if ty.dtype != T::DTYPE {
            return Err(wrong_element::<T>(ty, "to_vec").with_source(at.source()));
        }
        self.literal("to_vec", at)?.to_vec().ok_or_else(|| wrong_element::<T>(ty, "to_vec"))
    }

    /// The one element of the tensor. Waits for the value.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`], or if there is not exactly one element.
    #[track_caller]
    pub fn item<T: HostElement>(&self) -> Result<T, Error> {
        let at = At::caller();
        let ty = self.try_ty()?;
        if ty.dtype != T::DTYPE {
            return Err(wrong_element::<T>(ty, "item").with_source(at.source()));
        }
        if ty.elements() != 1 {
            let message = format!("the tensor is {ty}, which has {} elements", ty.elements());
            return Err(Error::user(message).with_op("item").with_source(at.source()));
        }
        self.literal("item", at)?.get(0).get().ok_or_else(|| wrong_element::<T>(ty, "item"))
    }

    /// A copy on the host. Waits for the value.
    ///
    /// # Errors
    /// If the tensor comes from a mistake, is being traced, or its computation fails.
    #[track_caller]
    pub fn to_host(&self) -> Result<HostArray, Error> {
        self.literal("to_host", At::caller()).map(HostArray::from_literal)
    }

    pub(crate) fn literal(&self, op: &str, at: At) -> Result<Literal, Error> {
        match self.repr() {
            Repr::Array(array) => device::get(array),
            Repr::Scalar(scalar) => Ok(Literal::scalar(*scalar)),
            Repr::Lazy(lazy) => device::get(&lazy.evaluate()?),
            Repr::Traced(traced) => {
                let message = format!(
                    "the value of a traced tensor ({}) is not known while tracing",
                    traced.ty()
                );
                Err(kiln_trace::fail(Error::user(message).with_op(op), at))
            }
            Repr::Spec(ty) => {
                let message = format!("a spec ({ty}) has no value");
                Err(Error::user(message).with_op(op).with_source(at.source()))
            }
            Repr::Poisoned(error) => Err(error.clone()),
        }
    }

    /// Waits until the value is there.
    ///
    /// # Errors
    /// If the tensor comes from a mistake, is being traced, or its computation fails.
    #[track_caller]
    pub fn block_until_ready(&self) -> Result<&Tensor, Error> {
        let at = At::caller();
        match self.repr() {
            Repr::Array(array) => device::wait(array)?,
            Repr::Lazy(lazy) => device::wait(&lazy.evaluate()?)?,
            Repr::Scalar(_) => {}
            _ => return self.literal("block_until_ready", at).map(|_| self),
        }
        Ok(self)
    }
}

/// Host data: a type, and bytes written in place.
pub(crate) trait HostData {
    fn ty(&self) -> Type;
    /// Writes the bytes of the array, row-major and little-endian.
    fn write(&self, bytes: &mut [u8]);
}

impl<T: HostElement> HostData for [T] {
    fn ty(&self) -> Type {
        Type::new(T::DTYPE, [self.len()])
    }
    fn write(&self, bytes: &mut [u8]) {
        // The size is a constant of `T`: this loop is a copy.
        let size = const { T::DTYPE.size() };
        for (bytes, x) in bytes.chunks_exact_mut(size).zip(self) {
            bytes.copy_from_slice(&x.to_bits().to_le_bytes()[..size]);
        }
    }
}

/// Elements in row-major order with their shape, which has as many.
struct Shaped<'a, T>(&'a [T], Shape);

impl<T: HostElement> HostData for Shaped<'_, T> {
    fn ty(&self) -> Type {
        Type::new(T::DTYPE, self.1.clone())
    }
    fn write(&self, bytes: &mut [u8]) {
        self.0.write(bytes);
    }
}

impl<T: HostElement, const N: usize, const M: usize> HostData for [[T; M]; N] {
    fn ty(&self) -> Type {
        Type::new(T::DTYPE, [N, M])
    }
    fn write(&self, bytes: &mut [u8]) {
        self.as_flattened().write(bytes);
    }
}

impl<T: HostElement, const N: usize, const M: usize, const K: usize> HostData for [[[T; K]; M]; N] {
    fn ty(&self) -> Type {
        Type::new(T::DTYPE, [N, M, K])
    }
    fn write(&self, bytes: &mut [u8]) {
        self.as_flattened().as_flattened().write(bytes);
    }
}

impl HostData for HostArray {
    fn ty(&self) -> Type {
        HostArray::ty(self).clone()
    }
    fn write(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(self.bytes());
    }
}

impl Tensor {
    /// Host data on the device, or as a constant of the open trace.
    pub(crate) fn from_host(data: &(impl HostData + ?Sized), at: At) -> Tensor {
        if kiln_trace::is_open() {
            let ty = data.ty();
            let mut bytes = vec![0; ty.bytes()];
            data.write(&mut bytes);
            return Tensor::constant(Literal::from_bytes(ty, &bytes), at);
        }
        match device::put(data, device::Cause::Explicit) {
            Ok(array) => Tensor::array(array),
            Err(error) => Tensor::poisoned(kiln_trace::fail(error, at)),
        }
    }
}

/// A container becomes a tensor, and is an argument of a call that takes one.
macro_rules! host_data {
    ($([$($generics:tt)*] $t:ty => |$x:ident| $data:expr;)*) => {$(
        impl<$($generics)*> From<$t> for Tensor {
            #[track_caller]
            fn from(host: $t) -> Tensor {
                let $x = &host;
                Tensor::from_host(&$data, At::caller())
            }
        }

        impl<$($generics)*> Feed<Tensor> for $t {
            fn key(&self, key: &mut KeyWriter) {
                let $x = self;
                key.leaf(&HostData::ty(&$data), Passing::Borrowed);
            }
            fn describe(&self, walk: &mut Walk<'_>) {
                let $x = self;
                walk.leaf(Some(&HostData::ty(&$data)));
            }
            fn placeholder(&self, make: &mut Placeholders<'_>) -> Tensor {
                let $x = self;
                make.leaf(&HostData::ty(&$data), Passing::Borrowed)
            }
            fn inline(self) -> Tensor {
                Tensor::from(self)
            }
            fn feed(self, arguments: &mut Arguments) {
                let $x = &self;
                arguments.host(&$data);
            }
        }
    )*};
}

#[cfg(feature = "ndarray")]
pub(crate) use host_data;

host_data! {
    [T: HostElement] Vec<T> => |x| x[..];
    [T: HostElement] &[T] => |x| x[..];
    [T: HostElement, const N: usize] [T; N] => |x| x[..];
    [T: HostElement, const N: usize, const M: usize] [[T; M]; N] => |x| *x;
    [T: HostElement, const N: usize, const M: usize, const K: usize] [[[T; K]; M]; N] => |x| *x;
    [] HostArray => |x| *x;
    [] &HostArray => |x| **x;
}

impl<T: HostElement> TryFrom<&Tensor> for Vec<T> {
    type Error = Error;
    #[track_caller]
    fn try_from(tensor: &Tensor) -> Result<Vec<T>, Error> {
        tensor.to_vec()
    }
}

/// A number is a rank-0 tensor of its type.
macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl From<$t> for Tensor {
            fn from(x: $t) -> Tensor {
                Tensor::scalar(Scalar::of(x))
            }
        }

        impl TryFrom<&Tensor> for $t {
            type Error = Error;
            #[track_caller]
            fn try_from(tensor: &Tensor) -> Result<$t, Error> {
                tensor.item()
            }
        }
    )*};
}

numbers!(i8, i16, i32, i64, u8, u16, u32, u64, half::f16, half::bf16, f32, f64, bool);
numbers!(Complex<f32>, Complex<f64>);

/// A number is fed to a rank-0 parameter of its type. `f64` is not among them: a
/// literal such as `0.1` would then be one, and the parameter `f64`.
macro_rules! fed_numbers {
    ($($t:ty),*) => {$(
        impl Feed<Tensor> for $t {
            fn key(&self, key: &mut KeyWriter) {
                key.scalar_leaf(<$t>::DTYPE);
            }
            fn describe(&self, walk: &mut Walk<'_>) {
                walk.leaf(Some(super::scalar_type(<$t>::DTYPE)));
            }
            fn placeholder(&self, make: &mut Placeholders<'_>) -> Tensor {
                make.leaf(super::scalar_type(<$t>::DTYPE), Passing::Borrowed)
            }
            fn inline(self) -> Tensor {
                Tensor::from(self)
            }
            fn feed(self, arguments: &mut Arguments) {
                arguments.borrowed(Tensor::from(self));
            }
        }
    )*};
}

fed_numbers!(i8, i16, i32, i64, u8, u16, u32, u64, half::f16, half::bf16, f32, bool);
fed_numbers!(Complex<f32>, Complex<f64>);
