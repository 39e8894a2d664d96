//! Every rule of simplify, proven by running both sides over all values of small
//! types: all 256 of `i8` and `u8`, all 65,536 of `f16`, a seventh of `bf16`, all pairs
//! of bytes. Programs are enumerated, not chosen: every composition of two unary ops,
//! every binary op with every special constant on either side, and so on. Where
//! simplify does something, `eval` of the result must be that of the program, bit for
//! bit; any NaN for any NaN.
//!
//! `every_rule_fires` holds the list of rules, so that none goes unproven.

mod support;

use std::collections::BTreeSet;

use kiln_ir::op::{
    ArgKind, ArgReduce, Binary, Broadcast, Clamp, Compare, Concatenate, Constant, Convert, DotDims,
    DotGeneral, DynamicSlice, DynamicUpdateSlice, Pad, Reduce, ReduceKind, Reshape, Reverse,
    Select, Slice, Transpose, Unary,
};
use kiln_ir::{DType, Graph, Literal, Op, ParameterInfo, Scalar, Shape, Type, Value, eval};
use kiln_opt::{Options, optimize};

/// The rules that fired.
#[derive(Default)]
struct Fired(BTreeSet<&'static str>);

fn only_simplify() -> Options {
    Options { only: Some("simplify".into()), fuse: None, ..Options::default() }
}

fn same(a: &Literal, b: &Literal) -> bool {
    a.ty() == b.ty()
        && a.iter().zip(b.iter()).all(|(x, y)| {
            x == y || (x.dtype().is_float() && x.as_f64().is_nan() && y.as_f64().is_nan())
        })
}

impl Fired {
    /// Simplifies the graph; if that changes it, both must agree on the arguments.
    fn prove(&mut self, graph: Graph, arguments: &[Literal]) {
        let optimized = optimize(graph.clone(), &only_simplify()).expect("simplifies");
        if optimized.rewrites.is_empty() {
            return;
        }
        let before = eval(&graph, arguments).expect("arguments fit");
        let after = eval(&optimized.graph, arguments).expect("arguments fit");
        for (b, a) in before.iter().zip(&after) {
            if !same(b, a) {
                let i = (0..b.ty().elements())
                    .find(|&i| b.get(i) != a.get(i))
                    .expect("some element differs");
                let ops: Vec<String> = graph
                    .order()
                    .iter()
                    .map(|&n| format!("{:?} : {}", graph.op(n), graph.types(n)[0]))
                    .collect();
                panic!(
                    "{:?} changed element {i} from {} to {} of arguments {:?} in\n{}",
                    optimized.rewrites,
                    b.get(i),
                    a.get(i),
                    arguments.iter().map(|l| l.get(i % l.ty().elements())).collect::<Vec<_>>(),
                    ops.join("\n")
                );
            }
        }
        self.0.extend(optimized.rewrites.keys());
    }

    /// Proves the program that `build` makes of parameters of the arguments' types,
    /// if its ops accept them.
    fn program(
        &mut self,
        arguments: &[Literal],
        build: impl FnOnce(&mut Graph, &[Value]) -> Option<Value>,
    ) {
        let mut graph = Graph::new("rule");
        let parameters: Vec<Value> = arguments
            .iter()
            .map(|l| graph.add_parameter(l.ty().clone(), ParameterInfo::default()))
            .collect();
        if let Some(value) = build(&mut graph, &parameters) {
            graph.add_output(value, "");
            self.prove(graph, arguments);
        }
    }
}

/// Every value of a type of at most 16 bits; some of a wider one.
fn all(dtype: DType) -> Literal {
    let values: Vec<Scalar> = match dtype {
        DType::Bool => vec![Scalar::bool(false), Scalar::bool(true)],
        // Every seventh of `bf16`, special values among them: `f16` is looked at whole.
        DType::BF16 => {
            let bits = (0..1u64 << 16).step_by(7).map(|bits| Scalar::from_bits(dtype, bits));
            bits.chain(constants(dtype)).collect()
        }
        d if d.bits() <= 16 => {
            (0..1u64 << d.bits()).map(|bits| Scalar::from_bits(d, bits)).collect()
        }
        d => {
            let mut values = constants(d);
            values.extend((0..200).map(|i| Scalar::from_f64(d, (f64::from(i) - 99.5) * 1.37)));
            values
        }
    };
    Literal::from_fn(Type::new(dtype, [values.len()]), |i| values[i])
}

/// All pairs of values of an 8-bit type.
fn pairs(dtype: DType) -> [Literal; 2] {
    let ty = Type::new(dtype, [256 * 256]);
    let at = |bits: usize| Scalar::from_bits(dtype, bits as u64);
    [Literal::from_fn(ty.clone(), |i| at(i / 256)), Literal::from_fn(ty, |i| at(i % 256))]
}

/// Constants at which ops behave specially.
fn constants(dtype: DType) -> Vec<Scalar> {
    if dtype == DType::Bool {
        return vec![Scalar::bool(false), Scalar::bool(true)];
    }
    if dtype.is_float() {
        let exponent = match dtype {
            DType::F16 => 14,
            _ => 126,
        };
        let mut values = vec![0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 0.25, 3.0, 1024.0];
        values.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 65504.0, 1.5, 1e-5]);
        values.extend([2f64.powi(exponent), 2f64.powi(-exponent), 2f64.powi(exponent + 1)]);
        values.extend([2f64.powi(-exponent - 1), 2f64.powi(-exponent - 5)]);
        return values.into_iter().map(|x| Scalar::from_f64(dtype, x)).collect();
    }
    let values = [0, 1, 2, 3, 4, 7, 8, 16, 64, 127, 128, -1, -2, -127, -128, i128::MAX];
    let mut values: Vec<Scalar> = values.iter().map(|&x| Scalar::from_i128(dtype, x)).collect();
    let bits = dtype.bits();
    values.push(Scalar::from_i128(dtype, 1 << (bits - 1)));
    values.push(Scalar::from_i128(dtype, (1 << (bits - 1)) - 1));
    values
}

const SMALL: [DType; 5] = [DType::Bool, DType::I8, DType::U8, DType::F16, DType::BF16];

fn full(graph: &mut Graph, value: Scalar, like: Value) -> Value {
    let shape = graph.ty(like).shape.clone();
    let scalar = graph.add1(Constant { value: Literal::scalar(value) }, &[], None).unwrap();
    graph.add1(Broadcast { shape, axes: vec![] }, &[scalar], None).unwrap()
}

fn unary(fired: &mut Fired) {
    for dtype in SMALL {
        let x = [all(dtype)];
        for outer in Unary::ALL {
            for inner in Unary::ALL {
                fired.program(&x, |g, p| {
                    let y = g.add1(inner, p, None).ok()?;
                    g.add1(outer, &[y], None).ok()
                });
            }
        }
    }
}

fn binary_with_constants(fired: &mut Fired) {
    let wide = [DType::I32, DType::U32, DType::I64, DType::U64, DType::F32, DType::F64];
    for dtype in SMALL.into_iter().chain(wide) {
        let x = [all(dtype)];
        for c in constants(dtype) {
            for f in Binary::ALL {
                for side in [0, 1] {
                    fired.program(&x, |g, p| {
                        let c = full(g, c, p[0]);
                        let operands = if side == 0 { [c, p[0]] } else { [p[0], c] };
                        g.add1(f, &operands, None).ok()
                    });
                }
            }
            for f in Compare::ALL {
                for side in [0, 1] {
                    fired.program(&x, |g, p| {
                        let c = full(g, c, p[0]);
                        let operands = if side == 0 { [c, p[0]] } else { [p[0], c] };
                        g.add1(f, &operands, None).ok()
                    });
                }
            }
        }
    }
    // Two constants, one after the other.
    for dtype in [DType::Bool, DType::I8, DType::U8] {
        let x = [all(dtype)];
        let some: Vec<Scalar> = constants(dtype).into_iter().step_by(3).collect();
        for (c, d) in some.iter().flat_map(|&c| some.iter().map(move |&d| (c, d))) {
            for f in Binary::ALL {
                fired.program(&x, |g, p| {
                    let (c, d) = (full(g, c, p[0]), full(g, d, p[0]));
                    let y = g.add1(f, &[c, p[0]], None).ok()?;
                    g.add1(f, &[y, d], None).ok()
                });
            }
        }
    }
}

fn binary_of_values(fired: &mut Fired) {
    // x with itself.
    for dtype in SMALL {
        let x = [all(dtype)];
        for f in Binary::ALL {
            fired.program(&x, |g, p| g.add1(f, &[p[0], p[0]], None).ok());
        }
        for f in Compare::ALL {
            fired.program(&x, |g, p| g.add1(f, &[p[0], p[0]], None).ok());
        }
    }
    // Negations of both of all pairs of bytes; of many pairs of floats.
    let f16s = all(DType::F16);
    let shuffled = Literal::from_fn(f16s.ty().clone(), |i| f16s.get((i * 40503 + 7) % 65536));
    let arguments = [pairs(DType::I8), pairs(DType::U8), [f16s, shuffled]];
    for xy in &arguments {
        for f in Binary::ALL {
            for (a, b) in [(true, false), (false, true), (true, true)] {
                fired.program(xy, |g, p| {
                    let neg = |g: &mut Graph, v, yes| match yes {
                        true => g.add1(Unary::Neg, &[v], None).ok(),
                        false => Some(v),
                    };
                    let (x, y) = (neg(g, p[0], a)?, neg(g, p[1], b)?);
                    g.add1(f, &[x, y], None).ok()
                });
            }
        }
        for f in Compare::ALL {
            fired.program(xy, |g, p| {
                let y = g.add1(f, p, None).ok()?;
                g.add1(Unary::Not, &[y], None).ok()
            });
        }
    }
}

fn choices(fired: &mut Fired) {
    // p, q: bool and a, b: i8, in all combinations of p, q with some of a, b.
    let n = 2 * 2 * 256;
    let p = Literal::from_fn(Type::new(DType::Bool, [n]), |i| Scalar::bool(i % 2 == 1));
    let q = Literal::from_fn(Type::new(DType::Bool, [n]), |i| Scalar::bool(i / 2 % 2 == 1));
    let byte = |k: usize| {
        Literal::from_fn(Type::new(DType::I8, [n]), |i| {
            Scalar::from_bits(DType::I8, ((i / 4) * k % 256) as u64)
        })
    };
    let arguments = [p, q, byte(1), byte(37), byte(101)];
    type Build = fn(&mut Graph, &[Value]) -> Option<Value>;
    let programs: [Build; 9] = [
        |g, v| g.add1(Select, &[v[0], v[2], v[2]], None).ok(),
        |g, v| {
            let n = g.add1(Unary::Not, &[v[0]], None).ok()?;
            g.add1(Select, &[n, v[2], v[3]], None).ok()
        },
        |g, v| {
            let y = g.add1(Select, &[v[0], v[2], v[3]], None).ok()?;
            g.add1(Select, &[v[0], y, v[4]], None).ok()
        },
        |g, v| {
            let y = g.add1(Select, &[v[0], v[2], v[3]], None).ok()?;
            g.add1(Select, &[v[0], v[4], y], None).ok()
        },
        |g, v| {
            let y = g.add1(Select, &[v[0], v[2], v[3]], None).ok()?;
            g.add1(Select, &[v[1], v[4], y], None).ok()
        },
        |g, v| {
            let (t, f) = (full(g, Scalar::bool(true), v[0]), full(g, Scalar::bool(false), v[0]));
            g.add1(Select, &[v[0], t, f], None).ok()
        },
        |g, v| {
            let (t, f) = (full(g, Scalar::bool(true), v[0]), full(g, Scalar::bool(false), v[0]));
            g.add1(Select, &[v[0], f, t], None).ok()
        },
        |g, v| {
            let t = full(g, Scalar::bool(true), v[0]);
            g.add1(Select, &[t, v[2], v[3]], None).ok()
        },
        |g, v| {
            let f = full(g, Scalar::bool(false), v[0]);
            g.add1(Select, &[f, v[2], v[3]], None).ok()
        },
    ];
    for build in programs {
        fired.program(&arguments, build);
    }
    for dtype in SMALL {
        let x = [all(dtype)];
        for (low, high) in constants(dtype)
            .into_iter()
            .flat_map(|a| constants(dtype).into_iter().map(move |b| (a, b)))
        {
            fired.program(&x, |g, p| {
                let (low, high) = (full(g, low, p[0]), full(g, high, p[0]));
                g.add1(Clamp, &[low, p[0], high], None).ok()
            });
        }
    }
}

fn conversions(fired: &mut Fired) {
    for from in DType::ALL {
        let every = all(from);
        // Of 16-bit integers, a part: widening does not look at the value.
        let step = if matches!(from, DType::I16 | DType::U16) { 97 } else { 1 };
        let ty = Type::new(from, [every.ty().elements().div_ceil(step)]);
        let x = [Literal::from_fn(ty, |i| every.get(i * step))];
        for by in DType::ALL {
            for to in DType::ALL {
                fired.program(&x, |g, p| {
                    let y = g.add1(Convert { to: by }, p, None).ok()?;
                    g.add1(Convert { to }, &[y], None).ok()
                });
            }
        }
    }
}

/// An `i32` array that counts.
fn counting(shape: &[usize]) -> Literal {
    Literal::from_fn(Type::new(DType::I32, shape), |i| Scalar::from_i128(DType::I32, i as i128))
}

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

fn movements(fired: &mut Fired) {
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

fn joins(fired: &mut Fired) {
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

fn reductions(fired: &mut Fired) {
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

fn contractions(fired: &mut Fired) {
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

fn run_time_slices(fired: &mut Fired) {
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

fn constants_fold(fired: &mut Fired) {
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

fn functions_of_views(fired: &mut Fired) {
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

#[test]
fn every_rule_fires_and_is_exact() {
    let mut fired = Fired::default();
    unary(&mut fired);
    binary_with_constants(&mut fired);
    binary_of_values(&mut fired);
    choices(&mut fired);
    conversions(&mut fired);
    movements(&mut fired);
    joins(&mut fired);
    reductions(&mut fired);
    contractions(&mut fired);
    run_time_slices(&mut fired);
    constants_fold(&mut fired);
    functions_of_views(&mut fired);
    let rules: BTreeSet<&str> = kiln_opt::passes::simplify::rule_names().collect();
    let unproven: Vec<_> = rules.difference(&fired.0).collect();
    assert!(unproven.is_empty(), "no program of this test makes these rules fire: {unproven:?}");
}
