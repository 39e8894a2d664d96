//! Conversions from and to `ndarray` arrays (feature `ndarray`).
//!
//! Any owned array or view becomes a tensor, in whatever memory order it is, and
//! is an argument of a call that takes one. A tensor becomes an `ArrayD`.

use kiln_ir::Literal;
use kiln_trace::At;
use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use crate::tree::{Arguments, KeyWriter, Passing, Placeholders, Walk};
use crate::{Error, Feed, HostElement, Tensor, Type};

fn ty<T: HostElement, S: Data<Elem = T>, D: Dimension>(array: &ArrayBase<S, D>) -> Type {
    Type::new(T::DTYPE, array.shape())
}

fn literal<T: HostElement, S: Data<Elem = T>, D: Dimension>(array: &ArrayBase<S, D>) -> Literal {
    match array.as_slice() {
        Some(elements) => Literal::from_slice(array.shape(), elements),
        None => Literal::from_slice(array.shape(), &array.iter().copied().collect::<Vec<T>>()),
    }
}

macro_rules! arrays {
    ($($array:ty),*) => {$(
        impl<T: HostElement, S: Data<Elem = T>, D: Dimension> From<$array> for Tensor {
            #[track_caller]
            fn from(array: $array) -> Tensor {
                Tensor::from_literal(literal(&array), At::caller())
            }
        }

        impl<T: HostElement, S: Data<Elem = T>, D: Dimension> Feed<Tensor> for $array {
            fn key(&self, key: &mut KeyWriter) {
                key.leaf(&ty(self), Passing::Borrowed);
            }
            fn describe(&self, walk: &mut Walk<'_>) {
                walk.leaf(Some(&ty(self)));
            }
            fn placeholder(&self, make: &mut Placeholders<'_>) -> Tensor {
                make.leaf(&ty(self), Passing::Borrowed)
            }
            fn inline(self) -> Tensor {
                Tensor::from(self)
            }
            fn feed(self, arguments: &mut Arguments) {
                arguments.host(&literal(&self));
            }
        }
    )*};
}

arrays!(ArrayBase<S, D>, &ArrayBase<S, D>);

impl<T: HostElement> TryFrom<&Tensor> for ArrayD<T> {
    type Error = Error;
    #[track_caller]
    fn try_from(tensor: &Tensor) -> Result<ArrayD<T>, Error> {
        let host = tensor.to_host()?;
        ArrayD::from_shape_vec(IxDyn(host.shape()), host.to_vec()?)
            .map_err(|e| Error::internal(format!("a host array of another shape: {e}")))
    }
}
