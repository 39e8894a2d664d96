//! Maps: every function, every type, every way through memory, sizes around every
//! threshold.

use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::*;
use crate::kernel::expr::{BinaryOp, UnaryOp};
use crate::kernel::index::Extents;
use crate::kernel::{Table, Term};

/// Sizes around vectors, strips and blocks of every level and type.
const SIZES: [u64; 19] = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 257, 5000];

/// Types with arithmetic.
const NUMBERS: [DType; 10] = [
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F32,
    DType::F64,
];

/// `out[i] = f(a0[i], a1[i], ..)`.
fn map(
    dtype: DType,
    n: u64,
    inputs: usize,
    f: impl FnOnce(&mut Exprs, &[ExprId]) -> ExprId,
) -> Kernel {
    let mut b = Builder::new();
    b.stage(1);
    let arguments: Vec<u32> = (0..inputs).map(|_| b.read(dtype, n)).collect();
    let loads: Vec<ExprId> = arguments.iter().map(|&a| b.load(a, point(0))).collect();
    let value = f(&mut b.exprs, &loads);
    b.store(n, point(0), value);
    b.kernel(&[n], Lanes::Points)
}

#[test]
fn sizes_around_vectors_and_strips() {
    for n in SIZES {
        for dtype in [DType::F32, DType::F64, DType::I8, DType::I16, DType::Bool, DType::BF16] {
            let kernel = map(dtype, n, 2, |x, a| match dtype {
                d if d.is_half() => a[1],
                DType::Bool => x.binary(BinaryOp::Xor, a[0], a[1]),
                _ => x.binary(BinaryOp::Add, a[0], a[1]),
            });
            check(&kernel, n);
        }
    }
}

#[test]
fn blocks_of_one_row_and_of_many() {
    // Around the block of an f32 kernel (a few thousand elements), alone and in rows.
    for n in [4095, 4096, 4097, 9000] {
        check(&map(DType::F32, n, 2, |x, a| x.binary(BinaryOp::Sub, a[0], a[1])), n);
        let mut b = Builder::new();
        b.stage(1);
        let argument = b.read(DType::F32, 3 * n);
        let at = point(0).scale(n as i64).add(&point(1));
        let load = b.load(argument, at.clone());
        let value = b.exprs.unary(UnaryOp::Neg, load);
        b.store(3 * n, at, value);
        check(&b.kernel(&[3, n], Lanes::Points), n);
    }
    for n in [1, 3, 5, 17] {
        let mut b = Builder::new();
        b.stage(1);
        let argument = b.read(DType::I16, 70 * n);
        let at = point(0).scale(7 * n as i64).add(&point(1).scale(n as i64)).add(&point(2));
        let load = b.load(argument, at.clone());
        let value = b.exprs.unary(UnaryOp::Not, load);
        b.store(70 * n, at, value);
        check(&b.kernel(&[10, 7, n], Lanes::Points), n);
    }
}

#[test]
fn unary_functions() {
    use UnaryOp::*;
    for dtype in NUMBERS {
        let float = [Neg, Abs, Sqrt, Floor, Ceil, Round, Truncate];
        let ops = if dtype.is_float() { &float[..] } else { &[Neg, Abs, Not][..] };
        for (i, &op) in ops.iter().enumerate() {
            check(&map(dtype, 203, 1, |x, a| x.unary(op, a[0])), i as u64);
        }
    }
    check(&map(DType::Bool, 203, 1, |x, a| x.unary(Not, a[0])), 1);
}

#[test]
fn binary_functions() {
    use BinaryOp::*;
    for dtype in NUMBERS {
        let float = [Add, Sub, Mul, Div, Rem, Min, Max];
        let bits = [And, Or, Xor, ShiftLeft, ShiftRightLogical, ShiftRightArithmetic];
        let integer = [&float[..], &bits[..]].concat();
        let ops = if dtype.is_float() { &float[..] } else { &integer[..] };
        for (i, &op) in ops.iter().enumerate() {
            check(&map(dtype, 411, 2, |x, a| x.binary(op, a[0], a[1])), i as u64);
        }
    }
    for op in [And, Or, Xor] {
        check(&map(DType::Bool, 203, 2, |x, a| x.binary(op, a[0], a[1])), 1);
    }
}

#[test]
fn integers_divide_exactly() {
    // All pairs of 8 bits, and corners of the wider types.
    for dtype in NUMBERS.into_iter().filter(|d| d.is_integer()) {
        let bits = dtype.bits();
        let mask = u64::MAX >> (64 - bits);
        let corners: Vec<u64> = match bits {
            8 => (0..256).collect(),
            _ => (0..bits)
                .flat_map(|k| [1u64 << k, (1 << k) - 1, (1 << k) + 1, !(1u64 << k)])
                .map(|x| x & mask)
                .collect(),
        };
        let pairs: Vec<(u64, u64)> =
            corners.iter().flat_map(|&a| corners.iter().map(move |&b| (a, b))).collect();
        let n = pairs.len() as u64;
        for op in [BinaryOp::Div, BinaryOp::Rem] {
            let kernel = map(dtype, n, 2, |x, a| x.binary(op, a[0], a[1]));
            let buffer = |elements| Buffer { dtype, elements };
            let inputs = [
                buffer(pairs.iter().map(|p| p.0).collect()),
                buffer(pairs.iter().map(|p| p.1).collect()),
                Buffer::zeros(dtype, pairs.len()),
            ];
            check_on(&kernel, &inputs);
        }
    }
}

#[test]
fn divisors_and_shifts_that_are_constant() {
    for dtype in [DType::I8, DType::I32, DType::U16, DType::U64] {
        for c in [0, 1, -1, 3, 7, 31, 64, -3] {
            for op in [BinaryOp::Div, BinaryOp::Rem, BinaryOp::ShiftRightArithmetic] {
                let kernel = map(dtype, 100, 1, |x, a| {
                    let c = x.integer(dtype, c);
                    x.binary(op, a[0], c)
                });
                check(&kernel, 5);
            }
        }
    }
}

/// Long bodies over enough elements are several vectors whose operations alternate.
#[test]
fn vectors_that_take_turns() {
    for n in [16 << 10, (16 << 10) + 37] {
        let kernel = map(DType::F32, n, 1, |x, a| {
            let e = crate::math::exp(x, a[0]);
            let t = crate::math::tanh(x, e);
            let sum = x.binary(BinaryOp::Add, t, a[0]);
            x.binary(BinaryOp::Mul, sum, e)
        });
        check(&kernel, n);
    }
}

#[test]
fn tables_in_vectors_of_any_width() {
    const VALUES: [f32; Table::LEN as usize] = {
        let mut values = [0.0; Table::LEN as usize];
        let mut i = 0;
        while i < values.len() {
            values[i] = 1.5 - 0.25 * i as f32;
            i += 1;
        }
        values
    };
    static TABLE: Table = Table::new(VALUES, 7);
    for n in [1, 5, 16, 17, 65, 5000] {
        // As many lanes as a register has of f32, half as many, and several registers.
        check(&map(DType::U32, n, 1, |x, a| x.lookup(&TABLE, a[0])), n);
        let wide = map(DType::U32, n, 1, |x, a| {
            let value = x.lookup(&TABLE, a[0]);
            let value = x.convert(value, DType::F64);
            let root = x.unary(UnaryOp::Abs, value);
            x.binary(BinaryOp::Add, root, value)
        });
        check(&wide, n);
        let narrow = map(DType::U8, n, 1, |x, a| {
            let product = x.binary(BinaryOp::Mul, a[0], a[0]);
            let sum = x.binary(BinaryOp::Add, product, a[0]);
            let index = x.binary(BinaryOp::Xor, sum, a[0]);
            let index = x.convert(index, DType::U32);
            x.lookup(&TABLE, index)
        });
        check(&narrow, n);
    }
}

#[test]
fn powers_of_two_round_once() {
    for (dtype, most) in [(DType::F32, 254), (DType::F64, 2046)] {
        let parts = [0.5, 0.75, 1.0, 1.25, 1.9999998807907104, -1.1, f64::NAN];
        let pairs = || parts.iter().flat_map(|&p| (-most..=most).map(move |n| (p, n as f64)));
        let bits = |x| kiln_ir::Scalar::from_f64(dtype, x).bits();
        let elements = pairs().count();
        let kernel = map(dtype, elements as u64, 2, |x, a| x.binary(BinaryOp::Scale, a[0], a[1]));
        let inputs = [
            Buffer { dtype, elements: pairs().map(|(p, _)| bits(p)).collect() },
            Buffer { dtype, elements: pairs().map(|(_, n)| bits(n)).collect() },
            Buffer::zeros(dtype, elements),
        ];
        check_on(&kernel, &inputs);
    }
}

#[test]
fn fused_multiply_add_and_comparisons() {
    for dtype in NUMBERS {
        check(&map(dtype, 203, 3, |x, a| x.fma(a[0], a[1], a[2])), 1);
        for op in [Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge] {
            check(&map(dtype, 203, 2, |x, a| x.compare(op, a[0], a[1])), 2);
            let kernel = map(dtype, 75, 2, |x, a| {
                let c = x.compare(op, a[0], a[1]);
                x.select(c, a[1], a[0])
            });
            check(&kernel, 3);
        }
    }
}

#[test]
fn fused_multiply_add_rounds_once() {
    // Products and sums that nearly cancel, ties, subnormals and overflows.
    let mut random = Random(9);
    let n = 60_000;
    let mut columns = [const { Vec::new() }; 3];
    for i in 0..n {
        let float = |exponent: i32, random: &mut Random| {
            let significand = match random.below(3) {
                0 => random.next() & 0x7f_ffff,
                1 => 1 << random.below(23),
                _ => 0x7f_ffff & !((1 << random.below(23)) - 1),
            };
            let exponent = exponent.clamp(0, 254) as u64;
            ((random.next() & 1) << 31) | (exponent << 23) | significand
        };
        let (a, c) = (random.below(255) as i32, random.below(255) as i32);
        let near = a + c - 127 + random.below(60) as i32 - 30;
        let [x, y, z] = &mut columns;
        x.push(float(a, &mut random));
        y.push(float(c, &mut random));
        z.push(match i % 8 {
            // The product itself, rounded, with the other sign: the error is what is left.
            0 => {
                let product = f32::from_bits(x[i] as u32) * f32::from_bits(y[i] as u32);
                u64::from((-product).to_bits())
            }
            _ => float(near, &mut random),
        });
    }
    let kernel = map(DType::F32, n as u64, 3, |x, a| x.fma(a[0], a[1], a[2]));
    let mut inputs: Vec<Buffer> =
        columns.into_iter().map(|elements| Buffer { dtype: DType::F32, elements }).collect();
    inputs.push(Buffer::zeros(DType::F32, n));
    check_on(&kernel, &inputs);
}

#[test]
fn conversions() {
    for from in DType::REAL {
        for to in DType::REAL {
            if (from.is_half() || to.is_half()) && from != DType::F32 && to != DType::F32 {
                continue;
            }
            check(&map(from, 333, 1, |x, a| x.convert(a[0], to)), 1 + from.size() as u64);
        }
    }
}

#[test]
fn half_types_convert_every_value() {
    for half in [DType::F16, DType::BF16] {
        let n = 1 << 16;
        let kernel = map(half, n, 1, |x, a| x.convert(a[0], DType::F32));
        let all = Buffer { dtype: half, elements: (0..n).collect() };
        check_on(&kernel, &[all, Buffer::zeros(DType::F32, n as usize)]);

        // Every f32 with few bits set, which meets all ties and overflows.
        let mut wide = Vec::new();
        for top in 0..1u64 << 13 {
            for low in [0, 1, 0xfff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0x7ffff] {
                wide.push((top << 19) | low);
            }
        }
        let n = wide.len() as u64;
        let kernel = map(DType::F32, n, 1, |x, a| x.convert(a[0], half));
        let zeros = Buffer::zeros(half, wide.len());
        check_on(&kernel, &[Buffer { dtype: DType::F32, elements: wide }, zeros]);
    }
}

#[test]
fn bits_as_another_type() {
    let pairs = [
        (DType::F32, DType::U32),
        (DType::I64, DType::F64),
        (DType::F16, DType::I16),
        (DType::U16, DType::BF16),
        (DType::Bool, DType::U8),
    ];
    for (from, to) in pairs {
        check(&map(from, 99, 1, |x, a| x.bitcast(a[0], to)), 1);
    }
}

#[test]
fn elements_in_other_orders() {
    for dtype in [DType::F32, DType::I8, DType::F64, DType::BF16, DType::Bool] {
        for n in [1u64, 5, 16, 47, 300] {
            let last = n as i64 - 1;
            let mut b = Builder::new();
            b.stage(1);
            let reversed = b.read(dtype, n);
            let strided = b.read(dtype, 3 * n);
            let one = b.read(dtype, 2);
            let flag = b.read(DType::Bool, n);
            let r = b.load(reversed, point(0).scale(-1).offset(last));
            let s = b.load(strided, point(0).scale(3).offset(1));
            let u = b.load(one, Index::constant(1));
            let c = b.load(flag, point(0));
            let d = b.load(flag, point(0).scale(-1).offset(last));
            let x = b.exprs.select(c, r, s);
            let y = b.exprs.select(d, x, u);
            b.store(n, point(0), y);
            b.store(n, point(0).scale(-1).offset(last), x);
            b.store(4 * n, point(0).scale(4).offset(3), r);
            check(&b.kernel(&[n], Lanes::Points), n);
        }
    }
}

#[test]
fn transposes_and_reshapes() {
    for (n, m) in [(3u64, 5u64), (16, 16), (33, 20), (1, 64)] {
        let extents = Extents { points: vec![n, m], inner: 1, ..Extents::default() };
        let flat = point(0).scale(m as i64).add(&point(1));
        let mut b = Builder::new();
        b.stage(1);
        let a = b.read(DType::F32, n * m);
        let transposed = b.load(a, point(1).scale(n as i64).add(&point(0)));
        // Element (i / 3, i % 3) of something else, both parts of the index apart.
        let other = b.read(DType::F32, 4 * n * m + 8);
        let split = flat.quotient(3, &extents).scale(4).add(&flat.remainder(3, &extents));
        let gathered = b.load(other, split);
        let number = b.exprs.index(flat.remainder(7, &extents));
        let number = b.exprs.convert(number, DType::F32);
        let sum = b.exprs.fma(transposed, gathered, number);
        b.store(n * m, flat, sum);
        check(&b.kernel(&[n, m], Lanes::Points), n);
    }
}

#[test]
fn padding_touches_only_what_exists() {
    for dtype in [DType::F32, DType::I8, DType::F16, DType::F64] {
        for n in [3u64, 16, 40, 129] {
            // out[i] = 2 <= i < n + 2 ? a[i - 2] : 0, and the same reversed and strided.
            let total = n + 5;
            let mut b = Builder::new();
            b.stage(1);
            let a = b.read(dtype, n);
            let at = b.exprs.index(point(0).offset(-2));
            let zero = b.exprs.integer(DType::I64, 0);
            let end = b.exprs.integer(DType::I64, n as i64);
            let low = b.exprs.compare(Compare::Ge, at, zero);
            let high = b.exprs.compare(Compare::Lt, at, end);
            let valid = b.exprs.binary(BinaryOp::And, low, high);
            let x = b.load_if(a, point(0).offset(-2), valid);
            let y = b.load_if(a, point(0).scale(-1).offset(n as i64 + 1), valid);
            let wide = b.read(dtype, 3 * n);
            let z = b.load_if(wide, point(0).scale(3).offset(-6), valid);
            // One element for all lanes, where it exists.
            let u = b.load_if(a, Index::constant(n as i64 - 1), low);
            for value in [x, y, z, u] {
                b.store(total, point(0), value);
            }
            check(&b.kernel(&[total], Lanes::Points), n);
        }
    }
}

#[test]
fn nothing_is_read_from_an_empty_argument() {
    let mut b = Builder::new();
    b.stage(1);
    let a = b.read(DType::F32, 0);
    let at = b.exprs.index(point(0));
    let never = b.exprs.integer(DType::I64, -1);
    let valid = b.exprs.compare(Compare::Le, at, never);
    let x = b.load_if(a, point(0), valid);
    b.store(20, point(0), x);
    check(&b.kernel(&[20], Lanes::Points), 1);
}

#[test]
fn starts_known_at_run_time() {
    let n = 50;
    let mut b = Builder::new();
    b.stage(1);
    let a = b.read(DType::F32, 2 * n);
    let start = b.read(DType::I64, 1);
    let s = b.load(start, Index::default());
    let index = point(0).add(&Index::term(Term::Dynamic(s, 0, n as i64)));
    let x = b.load(a, index);
    b.store(n, point(0), x);
    let kernel = b.kernel(&[n], Lanes::Points);
    for start in [0, 7, n] {
        let mut random = Random(start);
        let mut inputs: Vec<Buffer> = kernel.arguments.iter().map(|a| random.buffer(a)).collect();
        inputs[1].elements[0] = start;
        check_on(&kernel, &inputs);
    }
}

#[test]
fn gathers_with_wide_indices() {
    // A start that may be anything needs 64 bits to each lane's index.
    let n = 50;
    let mut b = Builder::new();
    b.stage(1);
    let a = b.read(DType::F32, 4 * n);
    let start = b.read(DType::I64, 1);
    let s = b.load(start, Index::default());
    let index = point(0).scale(3).add(&Index::term(Term::Dynamic(s, 0, 1 << 40)));
    let extents = Extents { points: vec![n], inner: 1, ..Extents::default() };
    let x = b.load(a, index.clone());
    let y = b.load(a, index.quotient(2, &extents));
    let number = b.exprs.index(index.remainder(5, &extents));
    b.store(n, point(0), x);
    b.store(n, point(0), y);
    b.store(n, point(0), number);
    let kernel = b.kernel(&[n], Lanes::Points);
    let mut random = Random(1);
    let mut inputs: Vec<Buffer> = kernel.arguments.iter().map(|a| random.buffer(a)).collect();
    inputs[1].elements[0] = 41;
    check_on(&kernel, &inputs);
}

#[test]
fn no_points_is_one_point() {
    let mut b = Builder::new();
    b.stage(1);
    let a = b.read(DType::F32, 1);
    let x = b.load(a, Index::default());
    let y = b.exprs.binary(BinaryOp::Add, x, x);
    b.store(1, Index::default(), y);
    check(&b.kernel(&[], Lanes::Points), 1);
}

#[test]
fn mixed_widths() {
    for n in [1u64, 13, 64, 200] {
        let mut b = Builder::new();
        b.stage(1);
        let narrow = b.read(DType::U8, n);
        let wide = b.read(DType::F64, n);
        let half = b.read(DType::BF16, n);
        let x = b.load(narrow, point(0));
        let y = b.load(wide, point(0));
        let z = b.load(half, point(0));
        let x = b.exprs.convert(x, DType::F32);
        let z = b.exprs.convert(z, DType::F32);
        let xz = b.exprs.binary(BinaryOp::Mul, x, z);
        let wider = b.exprs.convert(xz, DType::F64);
        let sum = b.exprs.binary(BinaryOp::Add, wider, y);
        b.store(n, point(0), sum);
        let small = b.exprs.convert(xz, DType::BF16);
        b.store(n, point(0), small);
        let positive = b.exprs.compare(Compare::Gt, sum, y);
        b.store(n, point(0), positive);
        check(&b.kernel(&[n], Lanes::Points), n);
    }
}
