//! Lowering against `eval`: every sample of every op, as a group of its own.
//!
//! Integers, `bool`, moves and the arithmetic that IEEE 754 fixes must agree to the
//! bit; functions with an error bound within it; sums and products of many elements
//! within the bound of any order of summation.

mod common;

use common::{Builder, Random, arguments, run_group, same, single};
use kiln_codegen::interpret::Buffer;
use kiln_ir::op::{CumulativeKind, ErrorBound, ReduceKind, WindowCombine};
use kiln_ir::{DType, Form, Literal, Op, Scalar, Value, eval};

/// How a result may differ from `eval`.
enum Bound {
    Exact,
    /// Places of the result's type between neighbours.
    Ulps(u64),
    /// A multiple of the type's epsilon times the result for the operands' magnitudes.
    Sum(f64),
}

fn bound(op: &Op, result: DType, steps: usize) -> Bound {
    let steps = steps as f64 + 2.0;
    match op {
        _ if !result.is_float() => Bound::Exact,
        Op::Unary(f) => near(f.error_bound(), result),
        Op::Binary(f) => near(f.error_bound(), result),
        Op::Reduce(reduce) if matches!(reduce.kind, ReduceKind::Sum | ReduceKind::Prod) => {
            Bound::Sum(steps)
        }
        Op::ReduceWindow(window) => match window.combine {
            WindowCombine::Kind(ReduceKind::Sum | ReduceKind::Prod) => Bound::Sum(steps),
            _ => Bound::Exact,
        },
        Op::Cumulative(running) => match running.kind {
            CumulativeKind::Sum | CumulativeKind::Prod => Bound::Sum(steps),
            // Two exponentials and an addition a step, then a logarithm.
            CumulativeKind::LogSumExp => Bound::Sum(4.0 * steps + 8.0),
            CumulativeKind::Min | CumulativeKind::Max => Bound::Exact,
        },
        Op::DotGeneral(_) => Bound::Sum(steps),
        _ => Bound::Exact,
    }
}

/// `eval` rounds once more, so a bound of 1.5 units may be 2 places away.
fn near(bound: Option<ErrorBound>, result: DType) -> Bound {
    bound.map_or(Bound::Exact, |b| Bound::Ulps((b.ulps(result) + 0.5) as u64))
}

fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        DType::F32 => 2f64.powi(-23),
        _ => 2f64.powi(-52),
    }
}

/// Position of a float among all of its type, so that neighbours differ by one.
fn place(x: Scalar) -> i128 {
    let sign = 1i128 << (x.dtype().bits() - 1);
    let bits = i128::from(x.bits());
    if bits & sign != 0 { sign - bits } else { bits }
}

fn magnitudes(operands: &[Literal]) -> Vec<Literal> {
    operands
        .iter()
        .map(|l| {
            let abs = |i| Scalar::from_f64(l.ty().dtype, l.get(i).as_f64().abs());
            if l.ty().dtype.is_float() { Literal::from_fn(l.ty().clone(), abs) } else { l.clone() }
        })
        .collect()
}

#[test]
fn every_sample_agrees_with_eval() {
    let mut compared = 0;
    for (seed, (row, samples)) in Op::samples().into_iter().enumerate() {
        let mut random = Random(seed as u64);
        for sample in samples {
            let operands = random.operands(&sample);
            let mut b = Builder::new();
            let parameters: Vec<Value> = sample
                .operands
                .iter()
                .map(|ty| b.graph.add_parameter(ty.clone(), Default::default()))
                .collect();
            let node = b.graph.add(sample.op.clone(), &parameters, None).expect("a sample");
            let Some(group) = single(&b.graph, node) else { continue };
            if matches!(sample.op, Op::Constant(_)) {
                continue;
            }
            // Kernels move complex numbers; arithmetic on them is taken apart before.
            let types = b.graph.types(node).iter().chain(&sample.operands);
            if types.clone().any(|ty| ty.dtype.is_complex()) && !sample.op.lower().moves() {
                continue;
            }
            for result in b.graph.results(node).collect::<Vec<_>>() {
                b.graph.add_output(result, "");
            }
            let wanted = eval(&b.graph, &operands).expect("arguments fit");
            let mut values = arguments(&b.graph, &operands);
            let lowered = run_group(&b.graph, &group, &mut values);
            let steps = match sample.op.lower() {
                Form::Reduce(..) | Form::Contraction(_) => {
                    sample.operands[0].elements() / wanted[0].ty().elements().max(1) + 1
                }
                Form::Cumulative(_, axis, _) => sample.operands[0].shape[axis],
                Form::Window(_, window) => window.size.iter().product(),
                _ => 1,
            };
            for (result, wanted) in (0..).zip(&wanted) {
                let bound = bound(&sample.op, wanted.ty().dtype, steps);
                let scale = match bound {
                    Bound::Sum(_) => eval(&b.graph, &magnitudes(&operands)).expect("arguments fit"),
                    _ => vec![wanted.clone()],
                };
                let got = &values[&Value { node, result }];
                for (i, &bits) in Buffer::from_literal(wanted).elements.iter().enumerate() {
                    let want = Scalar::from_bits(got.dtype, bits);
                    let got = Scalar::from_bits(got.dtype, got.elements[i]);
                    let fits = same(got, want)
                        || match bound {
                            Bound::Exact => false,
                            Bound::Ulps(n) => place(got).abs_diff(place(want)) <= n.into(),
                            Bound::Sum(n) => {
                                let scale = scale[0].get(i).as_f64().abs();
                                let error = (got.as_f64() - want.as_f64()).abs();
                                error <= n * epsilon(want.dtype()) * scale
                            }
                        };
                    let kernels = || -> String {
                        lowered.launches.iter().map(|l| l.kernel.to_string()).collect()
                    };
                    assert!(
                        fits,
                        "{row} {sample:?}\nelement {i}: got {got:?}, want {want:?}\n{}\n{operands:?}",
                        kernels()
                    );
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 50_000, "only {compared} elements were compared");
}

/// Running results of more steps than a chunk, along rows and down columns.
#[test]
fn long_running_results_agree_with_eval() {
    use kiln_ir::op::Cumulative;
    let mut random = Random(11);
    let cases = [
        ("f32[16384]", 0),
        ("f32[16385]", 0),
        ("f32[2,40000]", 1),
        ("f64[1023,3]", 0),
        ("f64[1024,3]", 0),
        ("bf16[1025,3]", 0),
        ("f32[2049,3]", 0),
        ("i32[3,33000]", 1),
        ("bool[20000]", 0),
    ];
    for (text, axis) in cases {
        for (turn, kind) in CumulativeKind::ALL.into_iter().enumerate() {
            let mut b = Builder::new();
            let x = b.parameter(text);
            let op = Cumulative { kind, axis, reverse: turn % 2 == 1 };
            if kind == CumulativeKind::LogSumExp
                || Op::from(op.clone()).infer(&[b.graph.ty(x)]).is_err()
            {
                continue;
            }
            let y = b.add(op, &[x]);
            b.graph.add_output(y, "");
            // Products neither vanish nor overflow.
            let domain = match kind {
                CumulativeKind::Prod => kiln_ir::op::Domain::Range(0.999, 1.001),
                _ => kiln_ir::op::Domain::Small,
            };
            let operand = random.literal(b.graph.ty(x), domain);
            let mut values = arguments(&b.graph, std::slice::from_ref(&operand));
            run_group(&b.graph, &single(&b.graph, y.node).expect("a group"), &mut values);
            let want = eval(&b.graph, std::slice::from_ref(&operand)).expect("arguments fit");
            let scale = eval(&b.graph, &magnitudes(&[operand])).expect("arguments fit");
            for (i, want) in want[0].iter().enumerate() {
                let got = Scalar::from_bits(want.dtype(), values[&y].elements[i]);
                // A thousand steps down a column, or as many blocks of a chunk, and chunks.
                let error = (got.as_f64() - want.as_f64()).abs();
                let rounded = matches!(kind, CumulativeKind::Sum | CumulativeKind::Prod)
                    && want.dtype().is_float();
                let limit = 1100.0 * epsilon(want.dtype()) * scale[0].get(i).as_f64().abs();
                let limit = if rounded { limit } else { 0.0 };
                assert!(error <= limit, "{kind:?} of {text} at {i}: got {got:?}, want {want:?}");
            }
        }
    }
}

/// A reduction, an update and a slice on sizes where splitting begins.
#[test]
fn long_reductions_agree_with_eval() {
    use kiln_ir::op::{ArgKind, ArgReduce, Reduce};
    let mut random = Random(7);
    let cases: &[(&str, Vec<usize>)] = &[
        ("f32[65535]", vec![0]),
        ("f32[65536]", vec![0]),
        ("f32[65537]", vec![0]),
        ("f32[2,70000]", vec![1]),
        ("i32[3,98305]", vec![1]),
        ("f32[2047,5]", vec![0]),
        ("f32[2048,5]", vec![0]),
        ("f32[2049,5]", vec![0]),
        ("f32[40,60,3]", vec![0, 1]),
        ("f64[300,2,300]", vec![0, 2]),
    ];
    for (text, axes) in cases {
        for kind in [ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min] {
            let mut b = Builder::new();
            let x = b.parameter(text);
            let y = b.add(Reduce { kind, axes: axes.clone() }, &[x]);
            b.graph.add_output(y, "");
            let operand = random.literal(b.graph.ty(x), kiln_ir::op::Domain::Small);
            let mut values = arguments(&b.graph, std::slice::from_ref(&operand));
            run_group(&b.graph, &single(&b.graph, y.node).expect("a group"), &mut values);
            let want = eval(&b.graph, std::slice::from_ref(&operand)).expect("arguments fit");
            let scale = eval(&b.graph, &magnitudes(&[operand])).expect("arguments fit");
            for (i, want) in want[0].iter().enumerate() {
                let got = Scalar::from_bits(want.dtype(), values[&y].elements[i]);
                let error = (got.as_f64() - want.as_f64()).abs();
                let exact = kind != ReduceKind::Sum || !want.dtype().is_float();
                let limit = if exact { 0.0 } else { 1e-3 * scale[0].get(i).as_f64().abs() };
                assert!(error <= limit, "{kind:?} of {text}: got {got:?}, want {want:?}");
            }
        }
        if axes.len() == 1 {
            for kind in ArgKind::ALL {
                let mut b = Builder::new();
                let x = b.parameter(text);
                let y = b.add(ArgReduce { kind, axis: axes[0], dtype: DType::I32 }, &[x]);
                b.graph.add_output(y, "");
                // Few distinct values: the first of equals matters.
                let operand = random.literal(b.graph.ty(x), kiln_ir::op::Domain::Small);
                let coarse = |i| {
                    let x = operand.get(i).as_f64();
                    let nan = operand.ty().dtype.is_float() && i % 1500 == 1499;
                    Scalar::from_f64(operand.ty().dtype, if nan { f64::NAN } else { x.round() })
                };
                let operand = Literal::from_fn(operand.ty().clone(), coarse);
                for operand in [operand.clone(), magnitudes(&[operand]).remove(0)] {
                    let mut values = arguments(&b.graph, std::slice::from_ref(&operand));
                    run_group(&b.graph, &single(&b.graph, y.node).expect("a group"), &mut values);
                    let want = eval(&b.graph, &[operand]).expect("arguments fit");
                    assert_eq!(values[&y], Buffer::from_literal(&want[0]), "{kind:?} of {text}");
                }
            }
        }
    }
}

/// Conversions to half types from wider ones, next to the ties where rounding by way of
/// a third type would go wrong.
#[test]
fn conversions_round_once() {
    use kiln_ir::op::Convert;
    let mut halves =
        vec![0.0, 1.0, -1.0, 65504.0, 65519.0, 65520.0, 3e38, 3.4e38, 6e-8, 1e-39, 1e-300];
    for digits in [8, 11] {
        for unit in [1.0, 3.0, 2f64.powi(-14), 2f64.powi(-20), 2f64.powi(20)] {
            let tie = unit * (1.0 + 2f64.powi(-digits));
            for nudge in [0.0, 2f64.powi(-26), 2f64.powi(-40), 2f64.powi(-51)] {
                halves.extend([tie * (1.0 + nudge), tie * (1.0 - nudge), -tie * (1.0 + nudge)]);
            }
        }
    }
    let mut integers = vec![0i128, 1, -1, 65519, 65520, i64::MAX.into(), i64::MIN.into()];
    for bits in [8u32, 11] {
        for width in [16u32, 31, 40, 55, 62] {
            let tie = (1i128 << width) + (1i128 << (width - bits.min(width)));
            for near in [0, 1, -1] {
                integers.extend([tie + near, -(tie + near), tie * 3 + near]);
            }
        }
    }
    for to in [DType::F16, DType::BF16] {
        for from in DType::REAL {
            let all: Vec<Scalar> = match from {
                DType::F64 | DType::F32 => {
                    halves.iter().map(|&x| Scalar::from_f64(from, x)).collect()
                }
                d if d.is_integer() => {
                    integers.iter().map(|&i| Scalar::from_i128(from, i)).collect()
                }
                _ => continue,
            };
            let mut b = Builder::new();
            let x = b.parameter(&format!("{from}[{}]", all.len()));
            let y = b.add(Convert { to }, &[x]);
            let literal = Literal::from_fn(b.graph.ty(x).clone(), |i| all[i]);
            let mut values = arguments(&b.graph, &[literal]);
            run_group(&b.graph, &single(&b.graph, y.node).expect("a group"), &mut values);
            for (x, &got) in all.iter().zip(&values[&y].elements) {
                let want = match x.as_i128() {
                    Some(i) => Scalar::from_i128(to, i),
                    None => Scalar::from_f64(to, x.as_f64()),
                };
                assert_eq!(Scalar::from_bits(to, got), want, "{x:?} to {to}");
            }
        }
    }
}
