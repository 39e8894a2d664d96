//! Reductions, contractions, slices at run-time starts, constants.

use kiln_ir::op::{
    ArgKind, ArgReduce, Binary, Broadcast, Constant, Cumulative, CumulativeKind, DotDims,
    DotGeneral, DynamicSlice, DynamicUpdateSlice, Reduce, ReduceKind, ReduceWindow, Reverse,
    Scatter, ScatterDims, ScatterKind, ScatterMode, Slice, Transpose, Unary, Window, WindowCombine,
};
use kiln_ir::{DType, Literal, Scalar, Shape, Type};

use crate::proof::{Fired, all, constants, counting};

pub(crate) fn reductions(fired: &mut Fired) {
    for dtype in [DType::I8, DType::F16, DType::F32, DType::Bool] {
        // −0 and 0, NaN and infinities among them.
        let values = constants(dtype);
        let ty = Type::new(dtype, [3, 1, 4]);
        let x = [Literal::from_fn(ty, |i| values[i * 5 % values.len()])];
        let all_axes: [&[usize]; 8] =
            [&[], &[0], &[1], &[2], &[0, 1], &[1, 2], &[0, 2], &[0, 1, 2]];
        for kind in ReduceKind::ALL {
            for axes in all_axes {
                let reduce = Reduce { kind, axes: axes.to_vec() };
                fired.program(&x, |g, p| g.add1(reduce.clone(), p, None).ok());
                for then in all_axes {
                    fired.program(&x, |g, p| {
                        let y = g.add1(reduce.clone(), p, None).ok()?;
                        g.add1(Reduce { kind, axes: then.to_vec() }, &[y], None).ok()
                    });
                }
            }
        }
        for kind in ArgKind::ALL {
            for axis in 0..3 {
                let arg = ArgReduce { kind, axis, dtype: DType::I32 };
                fired.program(&x, |g, p| g.add1(arg.clone(), p, None).ok());
            }
        }
    }
}

pub(crate) fn folds(fired: &mut Fired) {
    for dtype in [DType::I8, DType::F16, DType::F32, DType::Bool] {
        let values = constants(dtype);
        let ty = Type::new(dtype, [3, 1, 4]);
        let x = [Literal::from_fn(ty, |i| values[i * 5 % values.len()])];
        for kind in CumulativeKind::ALL {
            for axis in 0..3 {
                for reverse in [false, true] {
                    let op = Cumulative { kind, axis, reverse };
                    fired.program(&x, |g, p| g.add1(op.clone(), p, None).ok());
                    for axes in [vec![axis], vec![0], vec![0, axis]] {
                        fired.program(&x, |g, p| {
                            let reverse = Reverse { axes };
                            let y = g.add1(reverse.clone(), p, None).ok()?;
                            let y = g.add1(op.clone(), &[y], None).ok()?;
                            g.add1(reverse, &[y], None).ok()
                        });
                    }
                }
            }
        }
        for kind in ReduceKind::ALL {
            for size in [vec![1, 1, 1], vec![1, 1, 2]] {
                let combine = WindowCombine::Kind(kind);
                let window = Window::new(size, vec![1; 3]);
                fired.program(&x, |g, p| g.add1(ReduceWindow { combine, window }, p, None).ok());
            }
        }
    }
}

pub(crate) fn contractions(fired: &mut Fired) {
    let permutations: [&[usize]; 6] =
        [&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]];
    let float = |shape: [usize; 3]| {
        Literal::from_fn(Type::new(DType::F32, shape), |i| {
            Scalar::from_f64(DType::F32, (i as f64 * 0.37).sin())
        })
    };
    for left in permutations {
        for right in permutations {
            // Transposed, both have extents [2, 3, 3] with 2 as the batch.
            let source = |p: &[usize]| {
                let mut shape = [0; 3];
                (0..3).for_each(|k| shape[p[k]] = [2, 3, 3][k]);
                float(shape)
            };
            fired.program(&[source(left), source(right)], |g, p| {
                let a = Transpose { permutation: left.to_vec() };
                let b = Transpose { permutation: right.to_vec() };
                let a = g.add1(a, &[p[0]], None).ok()?;
                let b = g.add1(b, &[p[1]], None).ok()?;
                let dims = DotDims {
                    lhs_batch: vec![0],
                    rhs_batch: vec![0],
                    lhs_contract: vec![2],
                    rhs_contract: vec![1],
                };
                g.add1(DotGeneral { dims, dtype: DType::F32 }, &[a, b], None).ok()
            });
            fired.program(&[source(left), source(right)], |g, p| {
                let a = Transpose { permutation: left.to_vec() };
                let b = Transpose { permutation: right.to_vec() };
                let a = g.add1(a, &[p[0]], None).ok()?;
                let b = g.add1(b, &[p[1]], None).ok()?;
                let dims = DotDims {
                    lhs_batch: vec![],
                    rhs_batch: vec![],
                    lhs_contract: vec![0],
                    rhs_contract: vec![0],
                };
                g.add1(DotGeneral { dims, dtype: DType::F32 }, &[a, b], None).ok()
            });
        }
    }
}

pub(crate) fn run_time_slices(fired: &mut Fired) {
    let x = counting(&[10]);
    for size in [0, 1, 4, 10] {
        for start in [-3i64, 0, 5, 9, 200] {
            for dtype in [DType::I8, DType::U8, DType::I64, DType::U64] {
                let value = Literal::scalar(Scalar::from_i128(dtype, i128::from(start)));
                fired.program(std::slice::from_ref(&x), |g, p| {
                    let i = g.add1(Constant { value: value.clone() }, &[], None).ok()?;
                    g.add1(DynamicSlice { sizes: vec![size] }, &[p[0], i], None).ok()
                });
                let update = Literal::splat(
                    Type::new(DType::I32, [size]),
                    Scalar::from_i128(DType::I32, -1),
                );
                fired.program(&[x.clone(), update, value], |g, p| {
                    g.add1(DynamicUpdateSlice, &[p[0], p[1], p[2]], None).ok()
                });
            }
        }
    }
}

pub(crate) fn scatters(fired: &mut Fired) {
    for updates in [0, 2] {
        let indices =
            Literal::splat(Type::new(DType::I32, [updates]), Scalar::from_i128(DType::I32, 3));
        let update =
            Literal::splat(Type::new(DType::I32, [updates]), Scalar::from_i128(DType::I32, -1));
        fired.program(&[counting(&[10]), indices, update], |g, p| {
            let scatter = Scatter {
                kind: ScatterKind::Add,
                dims: ScatterDims {
                    inserted_window_dims: vec![0],
                    scatter_dims_to_operand_dims: vec![0],
                    index_vector_dim: 1,
                    ..ScatterDims::default()
                },
                mode: ScatterMode::Drop,
                unique_indices: false,
                indices_are_sorted: false,
            };
            g.add1(scatter, p, None).ok()
        });
    }
}

pub(crate) fn constants_fold(fired: &mut Fired) {
    let value = counting(&[4, 4]);
    fired.program(&[], |g, _| {
        let c = g.add1(Constant { value: value.clone() }, &[], None).ok()?;
        let y = g.add1(Binary::Mul, &[c, c], None).ok()?;
        g.add1(Reduce { kind: ReduceKind::Sum, axes: vec![0] }, &[y], None).ok()
    });
    let value = Literal::splat(Type::new(DType::F32, [300]), Scalar::from_f64(DType::F32, -0.0));
    fired.program(&[all(DType::F32)], |g, p| {
        let c = g.add1(Constant { value: value.clone() }, &[], None).ok()?;
        let y = g.add1(Slice { start: vec![0], limit: vec![40], stride: vec![1] }, &[c], None);
        let z = g.add1(Slice { start: vec![0], limit: vec![40], stride: vec![1] }, p, None);
        g.add1(Binary::Add, &[z.ok()?, y.ok()?], None).ok()
    });
    fired.program(&[counting(&[0, 3])], |g, p| g.add1(Unary::Neg, p, None).ok());
    // Functions of broadcasts.
    let (row, scalar) = (counting(&[4]), counting(&[]));
    fired.program(&[row, scalar], |g, p| {
        let shape = Shape::from([3, 4]);
        let a = g.add1(Broadcast { shape: shape.clone(), axes: vec![1] }, &[p[0]], None).ok()?;
        let b = g.add1(Broadcast { shape, axes: vec![] }, &[p[1]], None).ok()?;
        let y = g.add1(Binary::Sub, &[b, a], None).ok()?;
        g.add1(Unary::Neg, &[y], None).ok()
    });
}
