//! Random bits.
//!
//! The generator is Threefry-2x32, a pure function of a key and a counter: the same key
//! gives the same bits, on every machine, inside `jit` and outside, and they are the bits
//! that JAX draws from the same key data with its defaults
//! (`jax_threefry_partitionable=True`). Drawing costs no memory: it is elementwise, and is
//! computed where the bits are read.

use kiln_ir::op::{Binary, Iota, Reshape, Slice, Threefry2x32};
use kiln_trace::At;

use crate::{DType, Shape, Tensor, Type};

/// Both words of Threefry-2x32 with 20 rounds, elementwise: of a key, a `u32[2]`, and
/// counters, two `u32` tensors of one shape.
///
/// ```
/// use kiln::prelude::*;
///
/// let zero = Tensor::from([0u32]);
/// let [x, y] = kiln::random::threefry_2x32(&Tensor::from([0u32, 0]), [&zero, &zero]);
/// assert_eq!(x.to_vec::<u32>()?, [0x6b200159]);
/// assert_eq!(y.to_vec::<u32>()?, [0x99ba4efe]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn threefry_2x32(key: &Tensor, counters: [&Tensor; 2]) -> [Tensor; 2] {
    threefry("threefry_2x32", key, counters, At::caller())
}

/// Uniform random bits of an unsigned type of `bit_width` 8, 16, 32 or 64 bits for a key,
/// a `u32[2]`. JAX: `jax.random.bits` of a key with that data.
///
/// ```
/// use kiln::prelude::*;
///
/// let key = Tensor::from([0u32, 0]);
/// let bits = kiln::random::random_bits(&key, 32, [3]);
/// assert_eq!(bits.to_vec::<u32>()?, [4070199207, 4202968722, 1427181096]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[track_caller]
pub fn random_bits(key: &Tensor, bit_width: u32, shape: impl Into<Shape>) -> Tensor {
    let (at, shape) = (At::caller(), shape.into());
    let dtype = match bit_width {
        8 => DType::U8,
        16 => DType::U16,
        32 => DType::U32,
        64 => DType::U64,
        _ => {
            let message = format!("wants a width of 8, 16, 32 or 64 bits, got {bit_width}");
            return Tensor::fail("random_bits", message, at);
        }
    };
    // The counter of an element is its number in row-major order, in two words.
    let count = Type { dtype: DType::U64, shape: [shape.elements()].into() };
    let (low, high) = if count.elements() as u64 <= 1 << 32 {
        let low = Tensor::apply(Iota { ty: count.with_dtype(DType::U32), axis: 0 }, &[], at);
        (low, Tensor::zeros([count.elements()], DType::U32))
    } else {
        let count = Tensor::apply(Iota { ty: count, axis: 0 }, &[], at);
        (count.astype(DType::U32), (&count >> 32).astype(DType::U32))
    };
    let [high, low] =
        [high, low].map(|c| Tensor::apply(Reshape { shape: shape.clone() }, &[&c], at));
    let [x, y] = threefry("random_bits", key, [&high, &low], at);
    match dtype {
        DType::U64 => (x.astype(DType::U64) << 32) | y.astype(DType::U64),
        _ => Tensor::apply(Binary::Xor, &[&x, &y], at).astype(dtype),
    }
}

fn threefry(op: &str, key: &Tensor, [high, low]: [&Tensor; 2], at: At) -> [Tensor; 2] {
    let operands = [("key", key), ("counter", high), ("counter", low)];
    let types = [key, high, low].map(Tensor::try_ty);
    let [Ok(k), Ok(h), Ok(l)] = types else {
        let poisoned = operands.iter().find(|(_, t)| t.error().is_some());
        let poisoned = poisoned.map_or(key, |(_, t)| t);
        return [poisoned.clone(), poisoned.clone()];
    };
    if *k != Type::new(DType::U32, [2]) || h != l || h.dtype != DType::U32 {
        let message = format!(
            "wants u32[2] as key and u32 tensors of one shape as counters, got {k}, {h} and {l}"
        );
        let poisoned = Tensor::fail_operands(op, message, &operands, at);
        return [poisoned.clone(), poisoned];
    }
    let shape = h.shape.clone();
    let word = |i: usize| {
        let slice = Slice { start: vec![i], limit: vec![i + 1], stride: vec![1] };
        let scalar = Tensor::apply(slice, &[key], at).reshaped(Shape::scalar(), at);
        scalar.expand(&shape, at)
    };
    let (k0, k1) = (word(0), word(1));
    [0, 1].map(|word| Tensor::apply(Threefry2x32 { word }, &[&k0, &k1, high, low], at))
}
