//! The walk: every sample of every op, compiled alone, against the interpreter.

use kiln_driver::Isa;
use kiln_ir::op::{
    Binary, CumulativeKind, Domain, ErrorBound, ReduceKind, Sample, Unary, WindowCombine,
};
use kiln_ir::{DType, Graph, Literal, Op, ParameterInfo, Scalar, Type};

use crate::compare::{Closeness, difference};
use crate::execute::{Way, build, run};
use crate::random::Random;

/// What the walk did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Walked {
    /// Programs run.
    pub programs: usize,
    /// Rows of the op list.
    pub ops: usize,
}

/// Runs every sample of every op on `isa`.
///
/// # Errors
/// Every sample that differs, up to a few, and every op without samples.
pub fn walk(isa: Isa) -> Result<Walked, String> {
    let mut walked = Walked::default();
    let mut failures = Vec::new();
    for (row, samples) in Op::samples() {
        walked.ops += 1;
        // Parameters and calls are no computation of their own; both are parts of
        // every random program.
        if samples.is_empty() && row != "Parameter" {
            failures.push(format!("op {row} has no samples"));
        }
        for (i, sample) in samples.iter().enumerate() {
            walked.programs += 1;
            if let Err(message) = check(sample, isa, i as u64) {
                failures.push(format!("{row} sample {i} on {isa:?}: {message}"));
            }
            if failures.len() > 20 {
                return Err(failures.join("\n"));
            }
        }
    }
    if failures.is_empty() { Ok(walked) } else { Err(failures.join("\n")) }
}

fn check(sample: &Sample, isa: Isa, seed: u64) -> Result<(), String> {
    let mut graph = Graph::new("sample");
    let operands: Vec<_> = sample
        .operands
        .iter()
        .map(|ty| graph.add_parameter(ty.clone(), ParameterInfo::default()))
        .collect();
    let node = graph.add(sample.op.clone(), &operands, None).map_err(|e| e.to_string())?;
    for result in graph.results(node) {
        graph.add_output(result, "");
    }
    let mut random = Random::new(seed);
    let arguments: Vec<Literal> =
        sample.operands.iter().map(|ty| literal(&mut random, ty, sample.domain)).collect();
    let want = kiln_ir::eval(&graph, &arguments).map_err(|e| e.to_string())?;
    let way = Way { isa, threads: 1 + (seed % 2) as usize, ..Way::usual() };
    let compiled = build(&graph, way)?;
    let got = run(&compiled, way, &arguments, 1)?;
    for (o, (want, got)) in want.iter().zip(&got).enumerate() {
        let closeness = closeness(&sample.op, &arguments, want);
        if let Some(difference) = difference(want, got, closeness) {
            return Err(format!("{} {:?} output {o}: {difference}", sample.op, sample.operands));
        }
    }
    Ok(())
}

/// What the documentation promises of one op.
fn closeness(op: &Op, arguments: &[Literal], want: &Literal) -> Closeness {
    if let Some(closeness) = complex_closeness(op, arguments, want) {
        return closeness;
    }
    let float = want.ty().dtype.is_float();
    // The interpreter's value is itself rounded: half a unit more.
    let near = |bound: Option<ErrorBound>| match bound {
        Some(bound) => Closeness::Near { ulps: bound.ulps(want.ty().dtype) + 0.5, absolute: 0.0 },
        None => Closeness::Exact,
    };
    match op {
        _ if !float => Closeness::Exact,
        Op::Unary(f) => near(f.error_bound()),
        Op::Binary(f) => near(f.error_bound()),
        Op::Reduce(r) if matches!(r.kind, ReduceKind::Sum | ReduceKind::Prod) => {
            sums(arguments[0].ty().elements() / want.ty().elements().max(1), &arguments[..1], want)
        }
        Op::ReduceWindow(w) => match w.combine {
            WindowCombine::Kind(ReduceKind::Sum | ReduceKind::Prod) => {
                sums(w.window.size.iter().product(), &arguments[..1], want)
            }
            _ => Closeness::Exact,
        },
        Op::Cumulative(c) => match c.kind {
            CumulativeKind::Min | CumulativeKind::Max => Closeness::Exact,
            _ => sums(want.ty().shape[c.axis], arguments, want),
        },
        Op::DotGeneral(d) => {
            let n = d.dims.lhs_contract.iter().map(|&a| arguments[0].ty().shape[a]).product();
            sums(n, arguments, want)
        }
        _ => Closeness::Exact,
    }
}

/// What is promised of an op on complex numbers: units of the larger part.
fn complex_closeness(op: &Op, arguments: &[Literal], want: &Literal) -> Option<Closeness> {
    let dtype = arguments.first()?.ty().dtype;
    let units = |c64: f64, c128: f64| {
        let ulps = if dtype == DType::C64 { c64 } else { c128 };
        Some(Closeness::Near { ulps, absolute: 0.0 })
    };
    match op {
        _ if !dtype.is_complex() => None,
        Op::Unary(Unary::Neg | Unary::IsFinite) => None,
        Op::Unary(Unary::Abs) => units(1.0, 2.0),
        Op::Unary(_) => units(1.0, 5.0),
        Op::Binary(Binary::Div) => units(1.0, 4.0),
        Op::Reduce(_) => {
            let n = arguments[0].ty().elements() / want.ty().elements().max(1);
            Some(sums(2 * n, &arguments[..1], want))
        }
        Op::DotGeneral(d) => {
            let n: usize =
                d.dims.lhs_contract.iter().map(|&a| arguments[0].ty().shape[a]).product();
            Some(sums(2 * n, arguments, want))
        }
        _ => None,
    }
}

/// The usual bound of a sum of `n` terms: `n` units of the sum of magnitudes, here
/// bounded by the largest possible term.
fn sums(n: usize, factors: &[Literal], want: &Literal) -> Closeness {
    let largest: f64 = factors
        .iter()
        .map(|l| l.iter().map(magnitude).filter(|x| x.is_finite()).fold(0.0, f64::max))
        .product();
    let epsilon = match want.ty().dtype {
        DType::F64 | DType::C128 => 2f64.powi(-53),
        _ => 2f64.powi(-24),
    };
    Closeness::Near { ulps: n as f64 + 1.0, absolute: 2.0 * epsilon * (n * n) as f64 * largest }
}

/// Of a number, or the sum of those of its parts.
fn magnitude(x: Scalar) -> f64 {
    let imag = if x.dtype().is_complex() { x.imag().as_f64().abs() } else { 0.0 };
    x.real().as_f64().abs() + imag
}

fn literal(random: &mut Random, ty: &Type, domain: Domain) -> Literal {
    Literal::from_fn(ty.clone(), |_| scalar(random, ty.dtype, domain))
}

fn scalar(random: &mut Random, dtype: DType, domain: Domain) -> Scalar {
    let mask =
        if dtype.part().size() == 8 { u64::MAX } else { (1 << (8 * dtype.part().size())) - 1 };
    match domain {
        _ if dtype.is_complex() => {
            let [re, im] = [(); 2].map(|()| scalar(random, dtype.part(), domain));
            Scalar::complex(re, im)
        }
        _ if dtype == DType::Bool => Scalar::bool(random.one_in(2)),
        Domain::Any => Scalar::from_bits(dtype, random.bits() & mask),
        Domain::Small if dtype.is_float() => Scalar::from_f64(dtype, random.float(-4.0, 4.0)),
        Domain::Small => Scalar::from_i128(dtype, random.below(9) as i128 - 4),
        Domain::Range(low, high) if dtype.is_float() => {
            Scalar::from_f64(dtype, random.float(low, high))
        }
        Domain::Range(low, high) => {
            let span = (high - low).max(1.0) as usize;
            Scalar::from_i128(dtype, low as i128 + random.below(span) as i128)
        }
    }
}
