//! What functions give where no error bound says it: NaN, infinities, zeros, the ends of
//! domains. On the interpreter of kernels, which shares nothing with LLVM.
//!
//! The sweeps of `tests/fuzz/src/ulp` hold the same functions to their error bounds, as
//! compiled code.

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

/// Where no error bound applies: NaN, infinities, zeros, ends of the domain.
#[test]
fn special_values() {
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
        (Unary::Exp2, inf, inf),
        (Unary::Exp2, -inf, 0.0),
        (Unary::Exp2, nan, nan),
        (Unary::Exp2, -0.0, 1.0),
        (Unary::Exp2, 5000.0, inf),
        (Unary::Exp2, 10.0, 1024.0),
        (Unary::Exp2, -10.0, 0.0009765625),
        (Unary::Expm1, inf, inf),
        (Unary::Expm1, -inf, -1.0),
        (Unary::Expm1, nan, nan),
        (Unary::Expm1, -0.0, -0.0),
        (Unary::Expm1, -1000.0, -1.0),
        (Unary::Expm1, 710.0, inf),
        (Unary::Log1p, inf, inf),
        (Unary::Log1p, -1.0, -inf),
        (Unary::Log1p, -1.5, nan),
        (Unary::Log1p, -inf, nan),
        (Unary::Log1p, nan, nan),
        (Unary::Log1p, -0.0, -0.0),
        (Unary::Log2, 0.0, -inf),
        (Unary::Log2, -0.0, -inf),
        (Unary::Log2, -1.0, nan),
        (Unary::Log2, inf, inf),
        (Unary::Log2, nan, nan),
        (Unary::Log2, 1024.0, 10.0),
        (Unary::Log2, 0.0009765625, -10.0),
        (Unary::Log10, 0.0, -inf),
        (Unary::Log10, -1.0, nan),
        (Unary::Log10, inf, inf),
        (Unary::Log10, nan, nan),
        (Unary::Log10, 1000.0, 3.0),
        (Unary::Cbrt, inf, inf),
        (Unary::Cbrt, -inf, -inf),
        (Unary::Cbrt, nan, nan),
        (Unary::Cbrt, -0.0, -0.0),
        (Unary::Cbrt, -27.0, -3.0),
        (Unary::Rsqrt, inf, 0.0),
        (Unary::Rsqrt, 0.0, inf),
        (Unary::Rsqrt, -0.0, -inf),
        (Unary::Rsqrt, -1.0, nan),
        (Unary::Rsqrt, nan, nan),
        (Unary::Logistic, inf, 1.0),
        (Unary::Logistic, -inf, 0.0),
        (Unary::Logistic, nan, nan),
        (Unary::Logistic, -0.0, 0.5),
        (Unary::Sinh, inf, inf),
        (Unary::Sinh, -inf, -inf),
        (Unary::Sinh, nan, nan),
        (Unary::Sinh, -0.0, -0.0),
        (Unary::Sinh, -800.0, -inf),
        (Unary::Cosh, inf, inf),
        (Unary::Cosh, -inf, inf),
        (Unary::Cosh, nan, nan),
        (Unary::Cosh, -0.0, 1.0),
        (Unary::Cosh, -800.0, inf),
        (Unary::Asinh, inf, inf),
        (Unary::Asinh, -inf, -inf),
        (Unary::Asinh, nan, nan),
        (Unary::Asinh, -0.0, -0.0),
        (Unary::Acosh, inf, inf),
        (Unary::Acosh, 1.0, 0.0),
        (Unary::Acosh, 0.5, nan),
        (Unary::Acosh, -2.0, nan),
        (Unary::Acosh, -1e300, nan),
        (Unary::Acosh, -inf, nan),
        (Unary::Acosh, nan, nan),
        (Unary::Atanh, 1.0, inf),
        (Unary::Atanh, -1.0, -inf),
        (Unary::Atanh, 1.5, nan),
        (Unary::Atanh, -inf, nan),
        (Unary::Atanh, nan, nan),
        (Unary::Atanh, -0.0, -0.0),
    ];
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        for &(f, x, want) in cases {
            let [of, want] = [x, want].map(|x| Scalar::from_f64(dtype, x));
            // Where the type does not hold the argument, its edge is elsewhere.
            if of.as_f64() != x && !x.is_nan() {
                continue;
            }
            let got = map(dtype, ScalarFn::Unary(f), &[&[of.bits()]])[0];
            let got = Scalar::from_bits(dtype, got);
            let nan = got.as_f64().is_nan() && want.as_f64().is_nan();
            assert!(got == want || nan, "{} {dtype} of {x}: {got}, not {want}", f.name());
        }
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
