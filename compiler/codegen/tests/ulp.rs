//! The error of every `f32` function over many arguments, in compiled code.
//!
//! `math/sweep.rs` measures on the interpreter, which shares nothing with LLVM but is
//! slow. Here the same functions run as machine code: every 1,009th bit pattern in CI,
//! and all of them when asked, which takes minutes:
//!
//! ```text
//! cargo test --release -p kiln-codegen --test ulp -- --ignored --nocapture
//! ```
//!
//! The reference is the `f64` function of the standard library; for `erf`, Kiln's own
//! in `f64`, which `sweep.rs` compares with results of many digits.

mod common;

use common::Builder;
use kiln_codegen::kernel::Kernel;
use kiln_codegen::llvm::{Options, OrcLoader, compile};
use kiln_codegen::lower::lower;
use kiln_executable::{Access, Code, Executable, Loader, Parts, Traffic};
use kiln_ir::op::{Convert, Unary};
use kiln_ir::{DType, Shape};
use kiln_opt::group::Kind;

/// Elements of one call.
const BATCH: usize = 1 << 18;

/// A function, its reference, and the bound that `docs/numerics.md` states.
const FUNCTIONS: [(Unary, Reference, f64); 8] = [
    (Unary::Exp, Reference::Std(f64::exp), 1.0),
    (Unary::Log, Reference::Std(f64::ln), 1.0),
    (Unary::Tanh, Reference::Std(f64::tanh), 2.0),
    (Unary::Erf, Reference::Compiled, 2.0),
    (Unary::Sin, Reference::Std(f64::sin), 1.0),
    (Unary::Cos, Reference::Std(f64::cos), 1.0),
    (Unary::Rsqrt, Reference::Std(|x| 1.0 / x.sqrt()), 1.5),
    (Unary::Sqrt, Reference::Std(f64::sqrt), 0.5),
];

#[derive(Clone, Copy)]
enum Reference {
    Std(fn(f64) -> f64),
    Compiled,
}

/// Memory at the alignment that kernels expect.
#[derive(Clone, Copy)]
#[repr(align(64))]
#[allow(dead_code, reason = "read through pointers")]
struct Line([u8; 64]);

/// A compiled elementwise function from `f32`.
struct Function {
    code: Box<dyn Code>,
    grid: u64,
}

impl Function {
    /// `f` in `f32`; or of the same arguments in `f64`, which the result is then, too.
    fn new(loader: &OrcLoader, f: Unary, result: DType) -> Function {
        let mut b = Builder::new();
        let x = b.parameter(&format!("f32[{BATCH}]"));
        let x = if result == DType::F64 { b.add(Convert { to: DType::F64 }, &[x]) } else { x };
        let y = b.add(f, &[x]);
        let space: Shape = [BATCH].into();
        let lowered = lower(&b.graph, &b.group(Kind::Map { space }, &[y])).expect("a map");
        let kernels: Vec<Kernel> = lowered.launches.into_iter().map(|l| l.kernel).collect();
        let code = compile(&kernels, &Options::default()).expect("LLVM compiles");
        let entry = &code.entries[0];
        assert_eq!(entry.scratch, 0, "an elementwise kernel needs no scratch");
        let kernel = kiln_executable::Kernel {
            name: kernels[0].name.clone(),
            object: entry.object,
            symbol: entry.symbol.clone(),
            arguments: vec![
                Access::Read(4 * BATCH as u64),
                Access::Write((result.size() * BATCH) as u64),
            ],
            grid: entry.grid,
            grain: entry.grain,
            scratch: 0,
            traffic: Traffic::default(),
        };
        let objects = code.objects.clone();
        let parts = Parts { kernels: vec![kernel], objects, ..Parts::default() };
        let executable = Executable::new(parts).expect("sound parts");
        let grid = entry.grid;
        Function { code: loader.load(&executable).expect("the code loads"), grid }
    }

    /// The bytes of the results for one batch of bit patterns.
    fn run(&self, patterns: &[u32], result: DType) -> Vec<u8> {
        let lines = |bytes: usize| vec![Line([0; 64]); bytes.div_ceil(64)];
        let (mut input, bytes) = (lines(4 * BATCH), result.size() * BATCH);
        let mut output = lines(bytes);
        let input_at = input.as_mut_ptr().cast::<u32>();
        for (i, &pattern) in patterns.iter().enumerate() {
            // SAFETY: the input holds BATCH words and there are at most as many patterns.
            unsafe { input_at.add(i).write(pattern) };
        }
        let arguments = [input_at.cast::<u8>(), output.as_mut_ptr().cast::<u8>()];
        // SAFETY: there is one pointer for each argument, to aligned memory of its size
        // that nothing else uses; the kernel asked for no scratch; the range is its grid.
        unsafe { self.code.entry(0)(arguments.as_ptr(), std::ptr::null_mut(), 0, self.grid) };
        // SAFETY: the output holds at least that many initialised bytes.
        unsafe { std::slice::from_raw_parts(arguments[1], bytes) }.to_vec()
    }
}

/// Distance of `got` from the exact `want` in units of the last place of `want`; infinite
/// where one is NaN, infinite or a zero of a sign and the other is not.
fn error(got: f32, want: f64) -> f64 {
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let nearest = want as f32;
    if nearest.is_infinite() || got.is_infinite() {
        let edge = (want.abs() / f64::from(f32::MAX) - 1.0).abs() < 1e-7;
        return if nearest == got || edge { 0.0 } else { f64::INFINITY };
    }
    if got == 0.0 && want == 0.0 {
        let same = got.is_sign_negative() == want.is_sign_negative();
        return if same { 0.0 } else { f64::INFINITY };
    }
    let exponent = ((want.abs().to_bits() >> 52) as i32 - 1023).max(-126);
    (f64::from(got) - want).abs() / 2f64.powi(exponent - 23)
}

fn check(stride: usize) {
    let loader = OrcLoader::new().expect("a loader");
    let mut found = Vec::new();
    for (f, reference, bound) in FUNCTIONS {
        let function = Function::new(&loader, f, DType::F32);
        let compiled = match reference {
            Reference::Compiled => Some(Function::new(&loader, f, DType::F64)),
            Reference::Std(_) => None,
        };
        let mut worst = (0.0, 0.0f32);
        let mut next = 0u64;
        while next <= u32::MAX.into() {
            let batch = (0..BATCH as u64).map(|i| next + i * stride as u64);
            let patterns: Vec<u32> = batch.map_while(|p| u32::try_from(p).ok()).collect();
            let got = function.run(&patterns, DType::F32);
            let wide = compiled.as_ref().map(|c| c.run(&patterns, DType::F64));
            for (i, &pattern) in patterns.iter().enumerate() {
                let x = f32::from_bits(pattern);
                let got = f32::from_le_bytes(got[4 * i..4 * i + 4].try_into().expect("4 bytes"));
                let want = match (reference, &wide) {
                    (Reference::Std(f), _) => f(x.into()),
                    (_, Some(wide)) => {
                        f64::from_le_bytes(wide[8 * i..8 * i + 8].try_into().expect("8 bytes"))
                    }
                    _ => unreachable!("a reference is one of the two"),
                };
                let error = error(got, want);
                if error > worst.0 {
                    worst = (error, x);
                }
            }
            next += (BATCH * stride) as u64;
        }
        let (error, x) = worst;
        println!("{:<6} {error:.3} ulp at {x:e} ({:#010x})", f.name(), x.to_bits());
        if error > bound {
            found.push(format!("{}: {error} ulp at {x:e}, the bound is {bound}", f.name()));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_thousandth_argument_is_within_bounds() {
    check(1009);
}

#[test]
#[ignore = "minutes, and only in release"]
fn every_argument_is_within_bounds() {
    check(1);
}
