//! Kiln's side of the workloads: the definitions as a user writes them, jitted.
//!
//! Inputs are resident on the device. A run is one call whose result is complete; the
//! result's buffer comes from the pool and goes back to it, as in a user's loop.

use std::rc::Rc;

use kiln::prelude::*;
use kiln::{Device, Jit};

use crate::buffer::Buffer;
use crate::harness::{Subject, subject};
use crate::workload::Workload;

/// GELU by its tanh form.
fn gelu(t: &Tensor) -> Tensor {
    let inner = 0.797_884_6 * (t + 0.044715 * (t * t * t));
    0.5 * t * (1.0 + inner.tanh())
}

fn gelu_residual(x: Tensor, r: Tensor) -> Tensor {
    gelu(&(x * 1.1 + 0.1)) + r
}

fn softmax(x: Tensor) -> Tensor {
    x.softmax(1)
}

fn layernorm(x: Tensor, g: Tensor, b: Tensor) -> Tensor {
    let centred = &x - x.mean(keepdims(1));
    let variance = centred.square().mean(keepdims(1));
    centred / (variance + 1e-5).sqrt() * g + b
}

fn rmsnorm(x: Tensor, g: Tensor) -> Tensor {
    let square = x.square().mean(keepdims(1));
    x / (square + 1e-6).sqrt() * g
}

/// Kiln on a workload; `None` where there is no definition here.
///
/// # Panics
/// If Kiln fails: the benchmark cannot go on.
pub fn contender<'a>(
    workload: &Workload,
    inputs: &[Buffer],
    threads: usize,
) -> Option<Box<dyn Subject + 'a>> {
    let device = Device::cpu().expect("a CPU device");
    device.set_threads(threads);
    let tensors: Vec<Tensor> = workload
        .inputs
        .iter()
        .zip(inputs)
        .map(|(input, data)| {
            let host = Tensor::from_slice::<f32>(data, input.shape);
            device_put(host).expect("inputs fit the device")
        })
        .collect();
    let one = |f: fn(Tensor) -> Tensor| {
        let (f, x) = (Rc::new(jit(f)), tensors[0].clone());
        boxed(move || f.call(&x))
    };
    let two = |f: Jit<(Tensor, Tensor), Tensor>| {
        let (f, x, y) = (Rc::new(f), tensors[0].clone(), tensors[1].clone());
        boxed(move || f.call(&x, &y))
    };
    let three = |f: Jit<(Tensor, Tensor, Tensor), Tensor>| {
        let f = Rc::new(f);
        let [x, y, z] = [0, 1, 2].map(|i| tensors[i].clone());
        boxed(move || f.call(&x, &y, &z))
    };
    Some(match workload.name {
        "gelu_16m" | "gelu_64k" => two(jit(gelu_residual)),
        "softmax_4096" => one(softmax),
        "cumsum_rows" | "cumsum_1d_16m" => one(|x| x.cumsum(-1)),
        "layernorm" => three(jit(layernorm)),
        "rmsnorm" => two(jit(rmsnorm)),
        "matmul_1024" => two(jit(|a: Tensor, b: Tensor| a.dot(&b))),
        "mm_bias_gelu" => three(jit(|x: Tensor, w: Tensor, b: Tensor| gelu(&(x.dot(&w) + b)))),
        "gather_64k_256" => two(jit(|t: Tensor, i: Tensor| t.get(i.astype(I32)))),
        "scatter_add_64k_256" => two(jit(|i: Tensor, v: Tensor| {
            Tensor::zeros([50_000, 256], F32).at(i.astype(I32)).add(v)
        })),
        "dispatch" => one(|x| x + 1.0),
        _ => return None,
    })
}

fn boxed<'a>(call: impl Fn() -> kiln::Result<Tensor> + Clone + 'a) -> Box<dyn Subject + 'a> {
    let last = call.clone();
    Box::new(subject(
        "kiln",
        move || {
            let y = call().expect("kiln runs the workload");
            y.block_until_ready().expect("the result is complete");
        },
        move || last().and_then(|y| y.to_vec::<f32>()).expect("the result comes back"),
    ))
}
