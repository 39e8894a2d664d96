//! Samples of the folds.

use std::sync::Arc;

use super::{Cumulative, CumulativeKind, ReduceBy, ReduceWindow, Window, WindowCombine};
use crate::op::reduce::ReduceKind;
use crate::op::sample::{self, TAILS};
use crate::op::{Binary, Compare, Domain, Op, Sample, Select};
use crate::{DType, Graph, ParameterInfo, Type, Value};

fn scalars<const N: usize>(graph: &mut Graph, dtypes: [DType; N]) -> [Value; N] {
    dtypes.map(|dtype| graph.add_parameter(Type::new(dtype, []), ParameterInfo::default()))
}

/// `a - x`, of `bool` `a and not x`: neither commutative nor associative, so that every
/// order shows.
pub(super) fn difference(dtype: DType) -> Arc<Graph> {
    let mut graph = Graph::new("difference");
    let [a, x] = scalars(&mut graph, [dtype; 2]);
    let op = if dtype == DType::Bool { Op::from(Compare::Gt) } else { Binary::Sub.into() };
    let next = graph.add1(op, &[a, x], None).expect("two of one type");
    graph.add_output(next, "");
    Arc::new(graph)
}

/// The greater value with what stands beside it: a reduction of pairs.
pub(super) fn greatest_pair(value: DType, beside: DType) -> Arc<Graph> {
    let mut graph = Graph::new("greatest_pair");
    let [best, which, x, here] = scalars(&mut graph, [value, beside, value, beside]);
    let better = graph.add1(Compare::Gt, &[x, best], None).expect("two of one type");
    let best = graph.add1(Select, &[better, x, best], None).expect("two of one type");
    let which = graph.add1(Select, &[better, here, which], None).expect("two of one type");
    graph.add_output(best, "");
    graph.add_output(which, "");
    Arc::new(graph)
}

/// The operands of a fold with a body: the arrays, then a scalar for each.
fn with_inits(dtypes: &[DType], shape: &[usize]) -> Vec<Type> {
    let arrays = dtypes.iter().map(|&dtype| Type::new(dtype, shape));
    arrays.chain(dtypes.iter().map(|&dtype| Type::new(dtype, []))).collect()
}

pub(super) fn reduce_by() -> Vec<Sample> {
    let mut samples = Vec::new();
    for (i, dtype) in DType::REAL.into_iter().enumerate() {
        let extent = TAILS[(4 * i + 1) % TAILS.len()];
        for axes in [vec![0], vec![1], vec![0, 1]] {
            let op = ReduceBy { body: difference(dtype), axes };
            let operands = with_inits(&[dtype], &[5, extent]);
            samples.push(Sample { op: op.into(), operands, domain: Domain::Any });
        }
        let beside = [DType::I32, DType::F16, DType::Bool, DType::F64][i % 4];
        let op = ReduceBy { body: greatest_pair(dtype, beside), axes: vec![1] };
        let operands = with_inits(&[dtype, beside], &[extent, 9]);
        samples.push(Sample { op: op.into(), operands, domain: Domain::Any });
    }
    let cases: [(&[usize], &[usize]); 15] = [
        (&[], &[]),
        (&[7], &[]),
        (&[0], &[0]),
        (&[1], &[0]),
        (&[130], &[0]),
        (&[3, 0], &[0]),
        (&[3, 0], &[1]),
        (&[0, 3], &[0, 1]),
        (&[1, 17], &[0]),
        (&[33, 1], &[1]),
        (&[4, 5, 6], &[1]),
        (&[4, 5, 6], &[0, 2]),
        (&[2, 3, 4, 9], &[1, 2]),
        (&[2, 3, 4, 9], &[0, 3]),
        (&[2, 3, 4, 9], &[0, 1, 2, 3]),
    ];
    for (shape, axes) in cases {
        let pair = greatest_pair(DType::F32, DType::I32);
        let op = ReduceBy { body: pair, axes: axes.to_vec() };
        let operands = with_inits(&[DType::F32, DType::I32], shape);
        samples.push(Sample { op: op.into(), operands, domain: Domain::Small });
        let op = ReduceBy { body: difference(DType::F32), axes: axes.to_vec() };
        let operands = with_inits(&[DType::F32], shape);
        samples.push(Sample { op: op.into(), operands, domain: Domain::Small });
    }
    samples
}

/// Arrays and windows on them that use every attribute.
fn geometries() -> Vec<(Vec<usize>, Window)> {
    let mut all: Vec<(Vec<usize>, Window)> = vec![
        (vec![], Window::new(vec![], vec![])),
        (vec![9], Window::new(vec![3], vec![1])),
        (vec![9], Window::new(vec![1], vec![2])),
        (vec![0], Window::new(vec![2], vec![1])),
        (vec![2], Window::new(vec![3], vec![1])),
        (vec![130], Window::new(vec![33], vec![1])),
        (vec![70], Window::new(vec![40], vec![3])),
        (vec![6, 7], Window::new(vec![2, 2], vec![2, 2])),
        (vec![3, 0], Window::new(vec![1, 1], vec![1, 1])),
        (vec![1, 8, 8, 3], Window::new(vec![1, 2, 2, 1], vec![1, 2, 2, 1])),
        (vec![2, 3, 9, 17], Window::new(vec![1, 3, 3, 1], vec![1, 1, 2, 1])),
    ];
    let mut add = |shape: &[usize], size: &[usize], change: &dyn Fn(&mut Window)| {
        let mut window = Window::new(size.to_vec(), vec![1; size.len()]);
        change(&mut window);
        all.push((shape.to_vec(), window));
    };
    add(&[17], &[3], &|w| w.padding = vec![(1, 1)]);
    add(&[17], &[4], &|w| w.padding = vec![(3, 0)]);
    add(&[17], &[3], &|w| w.padding = vec![(-2, 1)]);
    add(&[3], &[2], &|w| w.padding = vec![(-1, -1)]);
    add(&[3], &[1], &|w| w.padding = vec![(-2, -2)]);
    add(&[5], &[3], &|w| {
        w.base_dilation = vec![2];
        w.stride = vec![2];
    });
    add(&[3], &[2], &|w| {
        w.base_dilation = vec![2];
        w.window_dilation = vec![2];
        w.padding = vec![(1, 0)];
    });
    add(&[7], &[3], &|w| {
        w.base_dilation = vec![3];
        w.window_dilation = vec![2];
        w.padding = vec![(2, -1)];
        w.stride = vec![2];
    });
    add(&[0], &[2], &|w| w.padding = vec![(2, 1)]);
    add(&[33], &[5], &|w| w.window_dilation = vec![7]);
    add(&[65], &[8], &|w| {
        w.window_dilation = vec![5];
        w.padding = vec![(20, 15)];
    });
    add(&[5, 3, 2], &[3, 1, 1], &|w| w.window_dilation = vec![3, 1, 1]);
    add(&[1], &[3], &|w| {
        w.window_dilation = vec![3];
        w.padding = vec![(3, 3)];
    });
    add(&[4, 5], &[3, 3], &|w| {
        w.padding = vec![(1, 1), (1, 1)];
        w.base_dilation = vec![1, 2];
    });
    add(&[4, 6, 5], &[2, 3, 6], &|w| w.padding = vec![(1, 0), (1, 1), (2, 3)]);
    all
}

pub(super) fn windows() -> Vec<Sample> {
    let mut samples = Vec::new();
    for (turn, kind) in ReduceKind::ALL.into_iter().enumerate() {
        let combine = WindowCombine::Kind(kind);
        let by = |size: &[usize], stride: &[usize], low: i64| {
            let mut window = Window::new(size.to_vec(), stride.to_vec());
            window.padding[1] = (low, 1);
            Op::from(ReduceWindow { combine: combine.clone(), window })
        };
        let plain = Op::from(ReduceWindow {
            combine: combine.clone(),
            window: Window::new(vec![1], vec![1]),
        });
        let domain = |dtype: DType| match kind {
            ReduceKind::Sum if dtype.is_float() => Domain::Small,
            ReduceKind::Prod if dtype.is_float() => Domain::Range(0.5, 1.75),
            _ => Domain::Any,
        };
        for (i, dtype) in sample::accepted(&plain, 1).enumerate() {
            let extent = TAILS[(4 * i + turn) % TAILS.len()];
            let ty = Type::new(dtype, [4, extent]);
            let op = match (i + turn) % 2 {
                0 => by(&[2, 3], &[1, 1], 1),
                _ => by(&[3, 14], &[1, 2], 13),
            };
            samples.push(sample::alike(op, 1, ty, domain(dtype)));
        }
    }
    for (i, (shape, window)) in geometries().into_iter().enumerate() {
        for kind in [ReduceKind::Sum, ReduceKind::Max] {
            let op = ReduceWindow { combine: WindowCombine::Kind(kind), window: window.clone() };
            let ty = Type::new(DType::F32, &shape[..]);
            samples.push(sample::alike(op, 1, ty, Domain::Small));
        }
        let dtype = [DType::I32, DType::F32, DType::U8, DType::BF16][i % 4];
        let dtypes = [dtype, [DType::I64, DType::F16][i % 2]];
        let body = WindowCombine::Body(greatest_pair(dtypes[0], dtypes[1]));
        let op = ReduceWindow { combine: body, window: window.clone() };
        let operands = with_inits(&dtypes, &shape);
        samples.push(Sample { op: op.into(), operands, domain: Domain::Any });
        let body = WindowCombine::Body(difference(dtype));
        let op = ReduceWindow { combine: body, window };
        let operands = with_inits(&[dtype], &shape);
        samples.push(Sample { op: op.into(), operands, domain: Domain::Any });
    }
    samples
}

pub(super) fn cumulative() -> Vec<Sample> {
    let mut samples = Vec::new();
    for (turn, kind) in CumulativeKind::ALL.into_iter().enumerate() {
        let domain = |dtype: DType| match kind {
            CumulativeKind::Sum | CumulativeKind::LogSumExp if dtype.is_float() => Domain::Small,
            CumulativeKind::Prod if dtype.is_float() => Domain::Range(0.5, 1.75),
            _ => Domain::Any,
        };
        let op = |axis: usize, reverse: bool| Op::from(Cumulative { kind, axis, reverse });
        for (i, dtype) in sample::accepted(&op(0, false), 1).enumerate() {
            let extent = TAILS[(4 * i + turn) % TAILS.len()];
            for (axis, reverse) in [(0, i % 2 == 0), (1, false), (1, true)] {
                let ty = Type::new(dtype, [5, extent]);
                samples.push(sample::alike(op(axis, reverse), 1, ty, domain(dtype)));
            }
        }
        let cases: [(&[usize], usize); 15] = [
            (&[0], 0),
            (&[1], 0),
            (&[15], 0),
            (&[16], 0),
            (&[17], 0),
            (&[300], 0),
            (&[3, 0], 0),
            (&[3, 0], 1),
            (&[1, 17], 0),
            (&[33, 1], 1),
            (&[2, 3, 31], 0),
            (&[2, 3, 31], 1),
            (&[2, 3, 31], 2),
            (&[2, 3, 4, 9], 1),
            (&[2, 3, 4, 9], 3),
        ];
        for (i, (shape, axis)) in cases.into_iter().enumerate() {
            let ty = Type::new(DType::F32, shape);
            let domain = domain(DType::F32);
            samples.push(sample::alike(op(axis, i % 3 == 2), 1, ty, domain));
        }
    }
    samples
}
