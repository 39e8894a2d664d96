//! Holds every function to its error bound.
//!
//! `f32` is compared with the `f64` functions of the standard library (for `erf`, a
//! series), whose own error is 2^-29 of an `f32` ulp; half types are compared at every
//! value. `f64` is compared with results of many digits that `fit.py points` computed.
//! `tests/ulp.rs` sweeps compiled code over every `f32`.
//!
//! An error of 1 ulp here is the distance of two neighbours around the exact result;
//! a correctly rounded function has 0.5.

use kiln_ir::op::{Binary, Unary};
use kiln_ir::{DType, Scalar, form::ScalarFn};

use crate::interpret::{Buffer, run};
use crate::kernel::{
    Argument, Axis, Body, Expr, ExprId, Exprs, Index, Kernel, Lanes, Loops, Stage, Store,
};
use crate::lower::apply;

/// Runs `f` elementwise over columns of bit patterns.
fn map(dtype: DType, f: ScalarFn, columns: &[&[u64]]) -> Vec<u64> {
    let n = columns[0].len();
    let mut exprs = Exprs::default();
    let index = Index::axis(Axis::Point(0));
    let operands: Vec<ExprId> = (0..columns.len() as u32)
        .map(|argument| {
            exprs.add(Expr::Load { argument, index: index.clone(), valid: None }, dtype)
        })
        .collect();
    let value = apply(&mut exprs, f, &operands);
    let out = columns.len() as u32;
    let stages =
        vec![Stage { stores: vec![Store { argument: out, index, value }], ..Stage::new(1) }];
    let argument = |writes: bool| Argument { dtype, elements: n as u64, reads: !writes, writes };
    let mut arguments = vec![argument(false); columns.len()];
    arguments.push(argument(true));
    let loops = Loops { points: vec![n as u64], lanes: Lanes::Points, exprs, stages };
    let kernel = Kernel { name: "sweep".into(), arguments, body: Body::Loops(loops) };
    let mut buffers: Vec<Buffer> =
        columns.iter().map(|c| Buffer { dtype, elements: c.to_vec() }).collect();
    buffers.push(Buffer::zeros(dtype, n));
    assert_eq!(run(&kernel, &mut buffers)[columns.len()], n);
    buffers.pop().expect("the result").elements
}

/// The error function by its Maclaurin series times exp(-x^2), whose terms are all
/// positive: 1e-15 or so, and 1 where that is nearer.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut k) = (x, x, 0.0);
    while term.abs() > sum.abs() * 1e-17 {
        k += 1.0;
        term *= 2.0 * x * x / (2.0 * k + 1.0);
        sum += term;
    }
    sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI
}

fn reference(f: Unary) -> fn(f64) -> f64 {
    match f {
        Unary::Exp => f64::exp,
        Unary::Log => f64::ln,
        Unary::Tanh => f64::tanh,
        Unary::Sin => f64::sin,
        Unary::Cos => f64::cos,
        Unary::Erf => erf,
        Unary::Rsqrt => |x| 1.0 / x.sqrt(),
        Unary::Sqrt => f64::sqrt,
        _ => unreachable!("not swept"),
    }
}

/// The bounds that `docs/numerics.md` states, in ulps: f32, f64.
const BOUNDS: [(Unary, f64, f64); 8] = [
    (Unary::Exp, 1.0, 1.0),
    (Unary::Log, 1.0, 1.0),
    (Unary::Tanh, 2.0, 2.0),
    (Unary::Erf, 2.0, 2.0),
    (Unary::Sin, 1.0, 1.0),
    (Unary::Cos, 1.0, 1.0),
    (Unary::Rsqrt, 1.5, 1.5),
    (Unary::Sqrt, 0.5, 0.5),
];
const POW_BOUNDS: (f64, f64) = (1.0, 2.0);

/// Distance of `got` from the exact `want` in ulps of `want` as an `f32`; 0 when both
/// are NaN, the same infinity, or zeros of one sign.
fn error_f32(got: u64, want: f64) -> f64 {
    let value = f32::from_bits(got as u32);
    if want.is_nan() || value.is_nan() {
        return if want.is_nan() && value.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let nearest = want as f32;
    if nearest.is_infinite() || value.is_infinite() {
        // Overflow is decided by less than an ulp of the largest number.
        let same = nearest == value || (want.abs() / f32::MAX as f64 - 1.0).abs() < 1e-7;
        return if same { 0.0 } else { f64::INFINITY };
    }
    if value == 0.0 && nearest == 0.0 {
        let same = value.is_sign_negative() == want.is_sign_negative();
        return if same { (want / 2f64.powi(-149)).abs() } else { f64::INFINITY };
    }
    let exponent = (want.abs().to_bits() >> 52) as i32 - 1023;
    let ulp = 2f64.powi(exponent.max(-126) - 23);
    (f64::from(value) - want).abs() / ulp
}

/// The largest error of `f` over the patterns, and where.
fn worst_f32(f: Unary, patterns: &[u64]) -> (f64, f32) {
    let reference = reference(f);
    let mut worst = (0.0, 0.0);
    for chunk in patterns.chunks(1 << 16) {
        let got = map(DType::F32, ScalarFn::Unary(f), &[chunk]);
        for (&x, got) in chunk.iter().zip(got) {
            let x = f32::from_bits(x as u32);
            let error = error_f32(got, reference(x.into()));
            if error > worst.0 {
                worst = (error, x);
            }
        }
    }
    worst
}

/// Every `stride`th pattern, and the neighbours of those where something changes.
fn patterns(stride: usize) -> Vec<u64> {
    let mut patterns: Vec<u64> = (0..=u32::MAX as u64).step_by(stride).collect();
    let special = [
        0.0f32,
        1.0,
        0.5,
        0.55,
        0.65,
        0.75,
        0.92,
        0.93,
        0.94,
        1.5,
        2.0,
        3.92,
        4.0,
        9.0,
        9.02,
        10.0,
        87.33655,
        88.72284,
        89.0,
        103.97208,
        104.0,
        1048576.0,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
        16367173.0 * 7.922816e28,
        std::f32::consts::FRAC_PI_2,
        std::f32::consts::PI,
        std::f32::consts::FRAC_PI_4,
    ];
    for x in special {
        for near in -8i32..=8 {
            let bits = x.to_bits().wrapping_add_signed(near);
            patterns.extend([bits as u64, (bits ^ 1 << 31) as u64]);
        }
    }
    patterns
}

#[test]
fn ulp_f32() {
    let patterns = patterns(20_011);
    for (f, bound, _) in BOUNDS {
        let (error, at) = worst_f32(f, &patterns);
        println!("{:<6} f32  {error:.3} ulp at {at:e} ({:#010x})", f.name(), at.to_bits());
        assert!(error <= bound, "{}: {error} ulp at {at:e}, the bound is {bound}", f.name());
    }
}

/// Half types: every value, against the exact result rounded once.
#[test]
fn ulp_half() {
    for dtype in [DType::F16, DType::BF16] {
        let all: Vec<u64> = (0..1 << 16).collect();
        for (f, ..) in BOUNDS {
            let reference = reference(f);
            let got = map(dtype, ScalarFn::Unary(f), &[&all]);
            let mut differ = 0;
            for (&x, got) in all.iter().zip(got) {
                let want = reference(Scalar::from_bits(dtype, x).as_f64());
                let (got, want) = (Scalar::from_bits(dtype, got), Scalar::from_f64(dtype, want));
                if got.as_f64().is_nan() && want.as_f64().is_nan() || got == want {
                    continue;
                }
                // Rounding twice differs from rounding once by one place, near a tie.
                let apart = (got.bits() as i64 - want.bits() as i64).abs();
                assert_eq!(apart, 1, "{} of {dtype} {x:#06x}: {got:?}, exact {want:?}", f.name());
                differ += 1;
            }
            assert!(differ < 40, "{} of {dtype}: {differ} values differ", f.name());
        }
    }
}

#[test]
fn ulp_pow_f32() {
    let values: Vec<f32> = vec![
        0.0,
        1.0,
        2.0,
        3.0,
        0.5,
        0.1,
        1.0000001,
        0.99999994,
        10.0,
        100.0,
        1e-3,
        7.25,
        1e20,
        1e-30,
        1e-40,
        3.4e38,
        f32::INFINITY,
        f32::NAN,
        0.33333334,
        16777216.0,
        5.0,
        127.0,
        149.0,
        2.5,
    ];
    let mut columns = (Vec::new(), Vec::new());
    let signed = || values.iter().flat_map(|&x| [x, -x]);
    for a in signed() {
        for b in signed() {
            columns.0.push(a);
            columns.1.push(b);
        }
    }
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1 << 24) as f32
    };
    for _ in 0..20_000 {
        columns.0.push((random() * 160.0 - 80.0).exp2());
        columns.1.push(random() * 4.0 - 2.0);
        columns.0.push(0.9 + 0.2 * random());
        columns.1.push(random() * 1600.0 - 800.0);
    }
    let bits = |c: &[f32]| -> Vec<u64> { c.iter().map(|x| x.to_bits().into()).collect() };
    let got =
        map(DType::F32, ScalarFn::Binary(Binary::Pow), &[&bits(&columns.0), &bits(&columns.1)]);
    let mut worst = (0.0, 0.0, 0.0);
    for ((&a, &b), got) in columns.0.iter().zip(&columns.1).zip(got) {
        let error = error_f32(got, f64::from(a).powf(b.into()));
        if error > worst.0 {
            worst = (error, a, b);
        }
    }
    println!("pow    f32  {:.3} ulp at {:e}^{:e}", worst.0, worst.1, worst.2);
    assert!(worst.0 <= POW_BOUNDS.0, "pow: {worst:?}");
}

#[test]
fn ulp_f64() {
    let mut report = Vec::new();
    let functions = BOUNDS.iter().map(|&(f, _, bound)| (f.name(), ScalarFn::Unary(f), bound));
    let pow = ("pow", ScalarFn::Binary(Binary::Pow), POW_BOUNDS.1);
    for (name, f, bound) in functions.chain([pow]) {
        let points: Vec<Vec<&str>> = include_str!("points.txt")
            .lines()
            .map(|line| line.split(' ').collect())
            .filter(|fields: &Vec<&str>| fields[0] == name)
            .collect();
        if points.is_empty() {
            continue;
        }
        let column = |i: usize| -> Vec<u64> {
            points.iter().map(|p| u64::from_str_radix(p[i], 16).expect("bits")).collect()
        };
        let n = points[0].len() - 3;
        let columns: Vec<Vec<u64>> = (1..=n).map(column).collect();
        let columns: Vec<&[u64]> = columns.iter().map(|c| &c[..]).collect();
        let got = map(DType::F64, f, &columns);
        let mut worst = (0.0, String::new());
        for ((point, nearest), got) in points.iter().zip(column(n + 1)).zip(got) {
            let rest: f64 = point[n + 2].parse().expect("a number");
            // Bit patterns of one sign count ulps; the rest is what nearest lacks.
            let apart = (got as i64).abs_diff(nearest as i64) as f64;
            let apart = if f64::from_bits(got) < f64::from_bits(nearest) { -apart } else { apart };
            let error = (apart - rest).abs();
            if error > worst.0 {
                worst = (error, point[..=n].join(" "));
            }
        }
        println!("{name:<6} f64  {:.3} ulp at {}", worst.0, worst.1);
        if worst.0 > bound {
            report.push(format!("{name} f64: {} ulp at {}", worst.0, worst.1));
        }
    }
    assert!(report.is_empty(), "{report:#?}");
}

/// Where no error bound applies: NaN, infinities, zeros, ends of the domain.
#[test]
fn special_values_f64() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let cases: &[(Unary, f64, f64)] = &[
        (Unary::Exp, inf, inf),
        (Unary::Exp, -inf, 0.0),
        (Unary::Exp, nan, nan),
        (Unary::Exp, 709.79, inf),
        (Unary::Exp, -746.0, 0.0),
        (Unary::Exp, -745.0, 5e-324),
        (Unary::Exp, -0.0, 1.0),
        (Unary::Log, inf, inf),
        (Unary::Log, 0.0, -inf),
        (Unary::Log, -0.0, -inf),
        (Unary::Log, -1.0, nan),
        (Unary::Log, -inf, nan),
        (Unary::Log, nan, nan),
        (Unary::Log, 1.0, 0.0),
        (Unary::Tanh, inf, 1.0),
        (Unary::Tanh, -inf, -1.0),
        (Unary::Tanh, nan, nan),
        (Unary::Tanh, -0.0, -0.0),
        (Unary::Tanh, 5e-324, 5e-324),
        (Unary::Erf, inf, 1.0),
        (Unary::Erf, -inf, -1.0),
        (Unary::Erf, nan, nan),
        (Unary::Erf, -0.0, -0.0),
        (Unary::Sin, inf, nan),
        (Unary::Sin, nan, nan),
        (Unary::Sin, -0.0, -0.0),
        (Unary::Sin, 5e-324, 5e-324),
        (Unary::Cos, -inf, nan),
        (Unary::Cos, nan, nan),
        (Unary::Cos, -0.0, 1.0),
    ];
    for &(f, x, want) in cases {
        let got = map(DType::F64, ScalarFn::Unary(f), &[&[x.to_bits()]])[0];
        let same = got == want.to_bits() || f64::from_bits(got).is_nan() && want.is_nan();
        assert!(same, "{}({x}) = {}, not {want}", f.name(), f64::from_bits(got));
    }
}

/// `pow` as C defines it, for both widths, on every pair of special values.
#[test]
fn special_values_pow_f64() {
    let values =
        [0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 4503599627370497.0, 1e300, 5e-324, f64::INFINITY, f64::NAN];
    for a in values.iter().flat_map(|&x| [x, -x]) {
        for b in values.iter().flat_map(|&x| [x, -x]) {
            let got =
                map(DType::F64, ScalarFn::Binary(Binary::Pow), &[&[a.to_bits()], &[b.to_bits()]]);
            let (got, want) = (f64::from_bits(got[0]), a.powf(b));
            let near = got.to_bits().abs_diff(want.to_bits()) <= 2;
            assert!(near || got.is_nan() && want.is_nan(), "{a}^{b} = {got}, not {want}");
        }
    }
}

#[test]
fn integer_powers_wrap() {
    let cases: &[(DType, i128, i128, i128)] = &[
        (DType::I8, 3, 5, -13),
        (DType::I8, -128, 1, -128),
        (DType::I8, 2, 8, 0),
        (DType::I8, -1, -3, -1),
        (DType::I8, -1, -128, 1),
        (DType::I8, 1, -100, 1),
        (DType::I8, 0, -1, 0),
        (DType::I8, 5, -1, 0),
        (DType::U8, 3, 255, 0xab),
        (DType::I32, 7, 0, 1),
        (DType::I32, 0, 0, 1),
        (DType::I64, 3, 41, 36472996377170786403 - (1 << 65)),
        (DType::U64, 10, 19, 10_000_000_000_000_000_000),
    ];
    for &(dtype, a, b, want) in cases {
        let [a, b, want] = [a, b, want].map(|v| Scalar::from_i128(dtype, v));
        let got = map(dtype, ScalarFn::Binary(Binary::Pow), &[&[a.bits()], &[b.bits()]]);
        assert_eq!(Scalar::from_bits(dtype, got[0]), want, "{a:?}^{b:?}");
    }
}
