//! Conversions from and to `ndarray` arrays (feature `ndarray`).
//!
//! Any owned array or view becomes a tensor, in whatever memory order it is, and
//! is an argument of a call that takes one. A tensor becomes an `ArrayD`.

use kiln_trace::At;
use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use crate::tensor::{HostData, host_data};
use crate::tree::{Arguments, KeyWriter, Passing, Placeholders, Walk};
use crate::{Error, Feed, HostElement, Tensor, Type};

impl<T: HostElement, S: Data<Elem = T>, D: Dimension> HostData for ArrayBase<S, D> {
    fn ty(&self) -> Type {
        Type::new(T::DTYPE, self.shape())
    }
    fn write(&self, bytes: &mut [u8]) {
        match self.as_slice() {
            Some(elements) => elements.write(bytes),
            None => self.iter().copied().collect::<Vec<T>>()[..].write(bytes),
        }
    }
}

host_data! {
    [T: HostElement, S: Data<Elem = T>, D: Dimension] ArrayBase<S, D> => |x| *x;
    [T: HostElement, S: Data<Elem = T>, D: Dimension] &ArrayBase<S, D> => |x| **x;
}

impl<T: HostElement> TryFrom<&Tensor> for ArrayD<T> {
    type Error = Error;
    #[track_caller]
    fn try_from(tensor: &Tensor) -> Result<ArrayD<T>, Error> {
        let host = tensor.to_host()?;
        ArrayD::from_shape_vec(IxDyn(host.shape()), host.to_vec()?)
            .map_err(|e| Error::internal(format!("a host array of another shape: {e}")))
    }
}
