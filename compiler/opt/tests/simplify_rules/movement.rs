//! Ops that move elements, on arrays that count.

use kiln_ir::op::{Binary, Broadcast, Clamp, Concatenate, Pad, Reshape, Reverse, Slice, Transpose};
use kiln_ir::{Graph, Op, Shape, Value};

use crate::proof::{Fired, counting};

/// Pairs of views of an array of this shape, each after each.
fn views(shape: &[usize]) -> Vec<Op> {
    let rank = shape.len();
    let mut ops: Vec<Op> = Vec::new();
    let elements: usize = shape.iter().product();
    for to in [vec![elements], vec![1, elements], vec![elements, 1], vec![2, elements / 2]] {
        ops.push(Reshape { shape: to.into() }.into());
    }
    let mut with_unit = shape.to_vec();
    with_unit.push(1);
    ops.push(Reshape { shape: with_unit.into() }.into());
    ops.push(Reverse { axes: (0..rank).collect() }.into());
    ops.push(Reverse { axes: (0..rank).step_by(2).collect() }.into());
    ops.push(Transpose { permutation: (0..rank).rev().collect() }.into());
    ops.push(Transpose { permutation: (1..rank).chain(0..rank.min(1)).collect() }.into());
    let zeros = vec![0; rank];
    for stride in [1, 2, 3] {
        for start in [0, 1] {
            let start: Vec<usize> = shape.iter().map(|&d| start.min(d)).collect();
            let slice = Slice { start, limit: shape.to_vec(), stride: vec![stride; rank] };
            ops.push(slice.into());
        }
    }
    let limit = shape.iter().map(|&d| d.div_ceil(2)).collect();
    ops.push(Slice { start: zeros.clone(), limit, stride: vec![1; rank] }.into());
    let mut repeated = shape.to_vec();
    repeated.insert(0, 3);
    ops.push(Broadcast { shape: repeated.into(), axes: (1..=rank).collect() }.into());
    let mut repeated = shape.to_vec();
    repeated.push(2);
    ops.push(Broadcast { shape: repeated.into(), axes: (0..rank).collect() }.into());
    let stretched: Shape = shape.iter().map(|&d| if d == 1 { 4 } else { d }).collect();
    ops.push(Broadcast { shape: stretched, axes: (0..rank).collect() }.into());
    ops
}

pub(crate) fn movements(fired: &mut Fired) {
    for shape in [vec![4, 6], vec![1, 6], vec![6], vec![2, 1, 3], vec![1, 1], vec![]] {
        let x = [counting(&shape)];
        for first in views(&shape) {
            fired.program(&x, |g, p| g.add1(first.clone(), p, None).ok());
            let ty = x[0].ty();
            let Ok(types) = first.infer(&[ty]) else { continue };
            for second in views(&types[0].shape) {
                fired.program(&x, |g, p| {
                    let y = g.add1(first.clone(), p, None).ok()?;
                    g.add1(second.clone(), &[y], None).ok()
                });
                // The same of equal elements.
                fired.program(&[counting(&[])], |g, p| {
                    let shape = Shape::from(shape.clone());
                    let y = g.add1(Broadcast { shape, axes: vec![] }, p, None).ok()?;
                    let y = g.add1(first.clone(), &[y], None).ok()?;
                    g.add1(second.clone(), &[y], None).ok()
                });
            }
        }
        for low in -2..=1i64 {
            for high in -2..=1i64 {
                for interior in [0, 1] {
                    let n = shape.len();
                    let pad =
                        Pad { low: vec![low; n], high: vec![high; n], interior: vec![interior; n] };
                    fired.program(&[x[0].clone(), counting(&[])], |g, p| {
                        g.add1(pad.clone(), p, None).ok()
                    });
                }
            }
        }
    }
}

pub(crate) fn joins(fired: &mut Fired) {
    let parts = [counting(&[2, 3]), counting(&[0, 3]), counting(&[4, 3])];
    let join = |g: &mut Graph, v: &[Value]| g.add1(Concatenate { axis: 0 }, v, None).ok();
    fired.program(&parts, |g, p| join(g, &p[..1]));
    fired.program(&parts, |g, p| join(g, p));
    fired.program(&parts, |g, p| {
        let inner = join(g, &[p[0], p[2]])?;
        join(g, &[p[2], inner, p[0]])
    });
    for start in 0..6 {
        for limit in start..=6 {
            for stride in 1..=3 {
                fired.program(&parts, |g, p| {
                    let y = join(g, &[p[0], p[2]])?;
                    let (start, limit) = (vec![start, 1], vec![limit, 3]);
                    g.add1(Slice { start, limit, stride: vec![stride, 1] }, &[y], None).ok()
                });
            }
        }
    }
}

pub(crate) fn functions_of_views(fired: &mut Fired) {
    // Beside a reshaped operand: another, a scalar, a kept axis, one that is not kept.
    let (x, y) = (counting(&[6, 4]), counting(&[6, 4]));
    for (extent, axis) in [(4, 2), (2, 0), (3, 1)] {
        let arguments = [x.clone(), y.clone(), counting(&[]), counting(&[extent])];
        fired.program(&arguments, |g, p| {
            let shape = Shape::from([2, 3, 4]);
            let reshape = Reshape { shape: shape.clone() };
            let a = g.add1(reshape.clone(), &[p[0]], None).ok()?;
            let b = g.add1(reshape, &[p[1]], None).ok()?;
            let s = g.add1(Broadcast { shape: shape.clone(), axes: vec![] }, &[p[2]], None).ok()?;
            let r = g.add1(Broadcast { shape, axes: vec![axis] }, &[p[3]], None).ok()?;
            let z = g.add1(Clamp, &[a, s, b], None).ok()?;
            g.add1(Binary::Sub, &[z, r], None).ok()
        });
    }
}
