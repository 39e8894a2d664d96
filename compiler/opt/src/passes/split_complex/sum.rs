//! Reductions and contractions of complex numbers.

use kiln_ir::Value;
use kiln_ir::op::{
    Concatenate, DotDims, DotGeneral, Reduce, ReduceKind, Reshape, Slice, Transpose,
};

use super::build::Build;
use super::number::Pair;

/// Sums are sums of the parts. A product of complex numbers is none of parts, so it is
/// formed by halving: element `i` times element `i + n/2`, until one is left.
pub(super) fn reduce(b: &mut Build, reduce: &Reduce, z: Pair) -> Pair {
    match reduce.kind {
        ReduceKind::Sum => z.each(|x| b.op(reduce.clone(), &[x])),
        ReduceKind::Prod => product(b, &reduce.axes, z),
        _ => unreachable!("complex numbers have no {}", reduce.kind.name()),
    }
}

fn product(b: &mut Build, axes: &[usize], z: Pair) -> Pair {
    let shape = b.graph.ty(z.re).shape.clone();
    let kept = shape.without(axes);
    let mut n: usize = axes.iter().map(|&a| shape[a]).product();
    if n == 0 {
        let dtype = z.dtype(b);
        return Pair { re: b.full(dtype, 1.0), im: b.full(dtype, 0.0) };
    }
    // The reduced axes last, as one.
    let permutation: Vec<usize> =
        (0..shape.rank()).filter(|a| !axes.contains(a)).chain(axes.iter().copied()).collect();
    let flat = kept.iter().copied().chain([n]).collect::<Vec<usize>>();
    let mut z = z.each(|x| {
        let x = b.op(Transpose { permutation: permutation.clone() }, &[x]);
        b.op(Reshape { shape: flat.clone().into() }, &[x])
    });
    let last = kept.rank();
    while n > 1 {
        let half = n / 2;
        let low = z.each(|x| take(b, x, last, 0, half));
        let high = z.each(|x| take(b, x, last, half, 2 * half));
        let mut halved = low.mul(b, high);
        if n % 2 == 1 {
            let rest = z.each(|x| take(b, x, last, n - 1, n));
            let join = |b: &mut Build, x, y| b.op(Concatenate { axis: last }, &[x, y]);
            halved = Pair { re: join(b, halved.re, rest.re), im: join(b, halved.im, rest.im) };
        }
        (z, n) = (halved, half + n % 2);
    }
    z.each(|x| b.op(Reshape { shape: kept.clone() }, &[x]))
}

/// Elements `from..to` along an axis.
fn take(b: &mut Build, x: Value, axis: usize, from: usize, to: usize) -> Value {
    let shape = b.graph.ty(x).shape.clone();
    let (mut start, mut limit) = (vec![0; shape.rank()], shape.to_vec());
    (start[axis], limit[axis]) = (from, to);
    b.op(Slice { start, limit, stride: vec![1; shape.rank()] }, &[x])
}

/// Values side by side along a new last axis.
fn stack(b: &mut Build, values: [Value; 2]) -> Value {
    let mut shape = b.graph.ty(values[0]).shape.to_vec();
    let axis = shape.len();
    shape.push(1);
    let values = values.map(|x| b.op(Reshape { shape: shape.clone().into() }, &[x]));
    b.op(Concatenate { axis }, &values)
}

/// One contraction of real numbers: with the parts of the left factor as an axis that is
/// contracted too, and those of the result as one more free axis on the right.
///
/// ```text
///                        [  re b   im b ]
/// [ re a   im a ]   ·    [              ]   =   [ re ab   im ab ]
///                        [ -im b   re b ]
/// ```
///
/// As many multiplications as four products of the parts take. With three (Gauss), each
/// part would be a difference of larger numbers, and a small part would be lost beside
/// a large one. Each part is one sum: of both products for each contracted index, in
/// increasing order.
pub(super) fn dot(b: &mut Build, dot: &DotGeneral, lhs: Pair, rhs: Pair) -> Pair {
    let left = stack(b, [lhs.re, lhs.im]);
    let minus = b.neg(rhs.im);
    let (re, im) = (stack(b, [rhs.re, minus]), stack(b, [rhs.im, rhs.re]));
    let right = stack(b, [re, im]);
    let mut dims: DotDims = dot.dims.clone();
    dims.lhs_contract.push(b.graph.ty(lhs.re).shape.rank());
    dims.rhs_contract.push(b.graph.ty(rhs.re).shape.rank());
    let product = b.op(DotGeneral { dims, dtype: dot.dtype.part() }, &[left, right]);
    let shape = b.graph.ty(product).shape.clone();
    let last = shape.rank() - 1;
    let [re, im] = [0, 1].map(|part| {
        let part = take(b, product, last, part, part + 1);
        b.op(Reshape { shape: shape[..last].to_vec().into() }, &[part])
    });
    Pair { re, im }
}
