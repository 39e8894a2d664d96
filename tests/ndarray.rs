//! Conversions from and to `ndarray`, in any memory order.
#![cfg(feature = "ndarray")]

use kiln::prelude::*;
use ndarray::{ArrayD, arr0, arr2, s};

#[test]
fn arrays_become_tensors_and_come_back() {
    let a = arr2(&[[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let t = Tensor::from(&a);
    assert_eq!(t.shape(), [2, 3]);
    let back = ArrayD::<f32>::try_from(&(&t * 2.0)).unwrap();
    assert_eq!(back, (a.clone() * 2.0).into_dyn());
    assert_eq!(Tensor::from(arr0(7i64)).item::<i64>().unwrap(), 7);
    // Views that are not in row-major order.
    assert_eq!(Tensor::from(a.t()).to_vec::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let every_other = a.slice(s![.., ..;2]);
    assert_eq!(Tensor::from(every_other).to_vec::<f32>().unwrap(), [1.0, 3.0, 4.0, 6.0]);
}

#[test]
fn calls_take_arrays() {
    let f = jit(|x: Tensor| x.sum(0));
    let a = arr2(&[[1.0f32, 2.0], [3.0, 4.0]]);
    assert_eq!(f.call(&a).unwrap().to_vec::<f32>().unwrap(), [4.0, 6.0]);
    assert_eq!(f.call(a.t()).unwrap().to_vec::<f32>().unwrap(), [3.0, 7.0]);
    assert_eq!(f.call(a).unwrap().to_vec::<f32>().unwrap(), [4.0, 6.0]);
    assert_eq!(f.compile_count(), 1);
}
