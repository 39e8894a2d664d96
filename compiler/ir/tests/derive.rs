//! The rules of every op, over every sample of the op.
//!
//! | property | of |
//! |---|---|
//! | forward mode is the limit of differences | ops on `f64` and `c128` |
//! | reverse mode is forward mode the other way: `⟨ȳ, J ẋ⟩ = ⟨Jᵀ ȳ, ẋ⟩` | the same, with the real part of products |
//! | what a transformation makes is a valid graph of the right types | all |
//! | a batch is the entries one by one, to the bit | all, for every choice of batched operands |
//!
//! The interpreter computes both sides. An op without a rule must say why, and is named here.

use kiln_ir::derive::graph::{jvp, vjp, vmap};
use kiln_ir::op::{Derivative, Sample, ScatterKind};
use kiln_ir::{DType, Graph, Literal, Op, ParameterInfo, Scalar, Type, Value, eval, verify};

/// Ops that have no rule, with the transformation: each for a reason that its error gives.
/// And `reduce_precision`, whose tangents go through its steps as if they were none.
const WITHOUT: &[(&str, &str)] = &[
    ("digamma", "jvp"),
    ("nextafter", "jvp"),
    ("reduce_precision", "jvp"),
    ("reduce", "vjp"),
    ("reduce_window", "vjp"),
];

/// A small generator of words (SplitMix64): the same for every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn float(&mut self, low: f64, high: f64) -> f64 {
        low + (self.next() >> 11) as f64 / (1u64 << 53) as f64 * (high - low)
    }

    /// Floats where the op is smooth; small integers, which may be indices.
    fn literal(&mut self, ty: &Type, (low, high): (f64, f64)) -> Literal {
        Literal::from_fn(ty.clone(), |_| match ty.dtype {
            DType::Bool => Scalar::bool(self.next() & 1 == 1),
            dtype if dtype.is_float() => Scalar::from_f64(dtype, self.float(low, high)),
            dtype if dtype.is_complex() => {
                Scalar::from_parts(dtype, self.float(low, high), self.float(low, high))
            }
            dtype => Scalar::from_i128(dtype, (self.next() % 3) as i128),
        })
    }
}

/// An interval in which the op is smooth.
fn smooth(op: &Op) -> (f64, f64) {
    match op.name() {
        "acosh" => (1.2, 2.5),
        _ => (0.3, 0.9),
    }
}

/// The op as a graph.
fn graph(sample: &Sample) -> Graph {
    let mut graph = Graph::new(sample.op.name());
    let parameter = |ty: &Type| graph.add_parameter(ty.clone(), ParameterInfo::default());
    let operands: Vec<Value> = sample.operands.iter().map(parameter).collect();
    let node = graph.add(sample.op.clone(), &operands, None).expect("samples are accepted");
    for result in graph.results(node).collect::<Vec<_>>() {
        graph.add_output(result, "");
    }
    graph
}

/// Floats and complex numbers.
fn is_inexact(ty: &Type) -> bool {
    ty.dtype.is_inexact()
}

/// The parts of a number; the imaginary one of a float is zero.
fn parts(x: Scalar) -> [f64; 2] {
    [x.real().as_f64(), x.imag().as_f64()]
}

/// Samples of every op that can be told apart quickly.
fn samples() -> impl Iterator<Item = Sample> {
    let all = Op::samples().into_iter().flat_map(|(_, samples)| samples);
    all.filter(|s| s.operands.iter().all(|ty| ty.elements() <= 700))
}

/// The sample with doubles for singles, where the op takes them: differences of doubles
/// tell a right derivative from a wrong one.
fn doubled(mut sample: Sample) -> Sample {
    let double = |ty: &Type| match ty.dtype {
        DType::F32 => ty.with_dtype(DType::F64),
        DType::C64 => ty.with_dtype(DType::C128),
        _ => ty.clone(),
    };
    let operands: Vec<Type> = sample.operands.iter().map(double).collect();
    if sample.op.infer(&operands.iter().collect::<Vec<_>>()).is_ok() {
        sample.operands = operands;
    }
    sample
}

fn excused(sample: &Sample, transformation: &str) -> bool {
    // Products of several updates; those of one have a rule.
    let products = matches!(&sample.op, Op::Scatter(s)
        if s.kind == ScatterKind::Mul && !s.unique_indices && transformation == "jvp");
    // A reverse rule of the user's own has no forward mode.
    let reverse = matches!(&sample.op, Op::Call(call)
        if matches!(call.derivative, Derivative::Vjp { .. }) && transformation == "jvp");
    products || reverse || WITHOUT.contains(&(sample.op.name(), transformation))
}

/// The sum of the products of all elements, in order; of complex ones the real part.
fn inner(a: &[Literal], b: &[Literal]) -> f64 {
    let pairs = a.iter().zip(b).flat_map(|(a, b)| a.iter().zip(b.iter()));
    let product = |(a, b)| {
        let ([re, im], [re_b, im_b]) = (parts(a), parts(b));
        re * re_b - im * im_b
    };
    pairs.map(product).sum()
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * (1.0 + a.abs().max(b.abs()))
}

#[test]
fn derivatives_are_limits_and_each_others_transpose() {
    let (mut checked, mut kinks) = (0, 0);
    for (seed, sample) in samples().chain(samples().map(doubled)).enumerate() {
        let name = sample.op.name();
        let graph = graph(&sample);
        let active: Vec<bool> = sample.operands.iter().map(is_inexact).collect();
        let outputs: Vec<Type> = graph.outputs().iter().map(|&v| graph.ty(v).clone()).collect();
        let seeded: Vec<bool> = outputs.iter().map(is_inexact).collect();
        if !active.contains(&true) || excused(&sample, "jvp") {
            continue;
        }
        let forward = jvp(&graph, &active).unwrap_or_else(|e| panic!("{name}: {e}"));
        verify(&forward).unwrap_or_else(|e| panic!("{name}: {e}"));
        let back = vjp(&graph, &active, &seeded);
        let back = match excused(&sample, "vjp") {
            // What nothing flows through needs no rule.
            true => back.ok().filter(|_| !seeded.contains(&true)),
            false => Some(back.unwrap_or_else(|e| panic!("{name}: {e}"))),
        };
        if let Some(back) = &back {
            verify(back).unwrap_or_else(|e| panic!("{name}: {e}"));
        }

        let doubles = |ty: &Type| !is_inexact(ty) || ty.dtype.part() == DType::F64;
        if !sample.operands.iter().chain(&outputs).all(doubles) {
            continue;
        }
        let mut random = Random(seed as u64);
        let x: Vec<Literal> =
            sample.operands.iter().map(|ty| random.literal(ty, smooth(&sample.op))).collect();
        let of = |types: &[Type], random: &mut Random| -> Vec<Literal> {
            let floats = types.iter().filter(|ty| is_inexact(ty));
            floats.map(|ty| random.literal(ty, (-1.0, 1.0))).collect()
        };
        let tangents = of(&sample.operands, &mut random);
        let cotangents = of(&outputs, &mut random);

        let along = |step: f64| -> Vec<Literal> {
            let mut tangents = tangents.iter();
            let moved = x.iter().map(|x| match x.ty().dtype.is_inexact() {
                false => x.clone(),
                true => {
                    let t = tangents.next().expect("a tangent for each float");
                    Literal::from_fn(x.ty().clone(), |i| {
                        let ([re, im], [dre, dim]) = (parts(x.get(i)), parts(t.get(i)));
                        let (re, im) = (re + step * dre, im + step * dim);
                        match x.ty().dtype.is_complex() {
                            true => Scalar::from_parts(x.ty().dtype, re, im),
                            false => Scalar::from_f64(DType::F64, re),
                        }
                    })
                }
            });
            let y = eval(&graph, &moved.collect::<Vec<_>>()).expect("arguments fit");
            y.into_iter().filter(|y| is_inexact(y.ty())).collect()
        };
        let step = 1e-6;
        let (after, before) = (along(step), along(-step));
        let given: Vec<Literal> = x.iter().cloned().chain(tangents.iter().cloned()).collect();
        let mut y = eval(&forward, &given).expect("arguments fit");
        let dy = y.split_off(outputs.len());
        let here = along(0.0);
        for (((a, b), y), dy) in after.iter().zip(&before).zip(&here).zip(&dy) {
            for (((a, b), y), dy) in a.iter().zip(b.iter()).zip(y.iter()).zip(dy.iter()) {
                let [a, b, y, dy] = [a, b, y, dy].map(parts);
                for part in 0..2 {
                    let (a, b, y, dy) = (a[part], b[part], y[part], dy[part]);
                    if !close((a - y) / step, (y - b) / step, 1e-4) {
                        // Two elements so near each other that the step exchanges them.
                        kinks += 1;
                        continue;
                    }
                    let limit = (a - b) / (2.0 * step);
                    assert!(close(limit, dy, 1e-6), "{sample:?}: {dy}, differences {limit}");
                }
            }
        }

        let Some(back) = back else { continue };
        let given: Vec<Literal> = x.into_iter().chain(cotangents.iter().cloned()).collect();
        let mut y = eval(&back, &given).expect("arguments fit");
        let dx = y.split_off(outputs.len());
        let (there, here) = (inner(&cotangents, &dy), inner(&dx, &tangents));
        assert!(close(there, here, 1e-9), "{sample:?}: forward {there}, back {here}");
        checked += 1;
    }
    assert!(checked > 150, "{checked} samples on f64");
    assert!(kinks < 20, "{kinks} elements at kinks");
}

#[test]
fn a_batch_is_its_entries() {
    const SIZE: usize = 3;
    for (seed, sample) in samples().enumerate() {
        let (name, operands) = (sample.op.name(), &sample.operands);
        if operands.is_empty() || excused(&sample, "vmap") {
            continue;
        }
        let graph = graph(&sample);
        let mut random = Random(seed as u64);
        let whole = |ty: &Type| {
            let shape: Vec<usize> = [SIZE].into_iter().chain(ty.shape.iter().copied()).collect();
            ty.with_shape(shape)
        };
        // Each alone, all, and the first and last; operands may be many.
        let count = operands.len();
        let masks = (0..count)
            .map(|k| (0..count).map(|i| i == k).collect())
            .chain([vec![true; count], (0..count).map(|i| i == 0 || i + 1 == count).collect()]);
        // Initial values of a fold with a body are the same for all entries.
        let arrays = match name {
            "reduce" | "reduce_window" => count / 2,
            _ => count,
        };
        let fits = |batched: &Vec<bool>| !batched[arrays..].contains(&true);
        for batched in masks.filter(fits).take(6) {
            let over = vmap(&graph, &batched, SIZE).unwrap_or_else(|e| panic!("{name}: {e}"));
            verify(&over).unwrap_or_else(|e| panic!("{name}: {e}"));
            let arguments: Vec<Literal> = operands
                .iter()
                .zip(&batched)
                .map(|(ty, &batched)| {
                    let ty = if batched { whole(ty) } else { ty.clone() };
                    random.literal(&ty, smooth(&sample.op))
                })
                .collect();
            let got = eval(&over, &arguments).expect("arguments fit");
            for entry in 0..SIZE {
                let one: Vec<Literal> = arguments
                    .iter()
                    .zip(operands.iter().zip(&batched))
                    .map(|(x, (ty, &batched))| {
                        let first = if batched { entry * ty.elements() } else { 0 };
                        Literal::from_fn(ty.clone(), |i| x.get(first + i))
                    })
                    .collect();
                let want = eval(&graph, &one).expect("arguments fit");
                for (want, got) in want.iter().zip(&got) {
                    let first = entry * want.ty().elements();
                    let part = Literal::from_fn(want.ty().clone(), |i| got.get(first + i));
                    assert_eq!(*want, part, "entry {entry} of {sample:?}, batched {batched:?}");
                }
            }
        }
    }
}
