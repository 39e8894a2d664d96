//! Contractions against the interpreter, bit for bit, on every level of instructions.

use kiln_ir::{DType, Scalar};

use super::tiling::{Along, Left, Right, Split, Tiling};
use crate::interpret::Buffer;
use crate::kernel::expr::{BinaryOp, UnaryOp};
use crate::kernel::{
    Argument, Axis, Body, Contraction, Expr, ExprId, Exprs, Index, Kernel, Store, Term,
};
use crate::llvm::tests::{self, Random};
use crate::llvm::{Isa, Options, TextKind, compile, text};

/// A contraction in the making.
struct Dot {
    batch: Vec<u64>,
    m: u64,
    n: u64,
    k: u64,
    accumulator: DType,
    arguments: Vec<Argument>,
    exprs: Exprs,
}

/// How a factor lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lies {
    /// Rows of the left factor, steps of the right one, outermost.
    Plain,
    /// The other way round.
    Turned,
    /// Every other element of every other row.
    Sparse,
}

const ROW: Axis = Axis::Row;
const COLUMN: Axis = Axis::Column;
const INNER: Axis = Axis::Inner;

impl Dot {
    fn new(batch: &[u64], (m, n, k): (u64, u64, u64), accumulator: DType) -> Dot {
        let (arguments, exprs) = (Vec::new(), Exprs::default());
        Dot { batch: batch.to_vec(), m, n, k, accumulator, arguments, exprs }
    }

    fn argument(&mut self, dtype: DType, elements: u64, reads: bool, writes: bool) -> u32 {
        self.arguments.push(Argument { dtype, elements, reads, writes });
        self.arguments.len() as u32 - 1
    }

    fn extent(&self, axis: Axis) -> u64 {
        match axis {
            Axis::Point(p) => self.batch[p as usize],
            Axis::Inner => self.k,
            Axis::Row => self.m,
            Axis::Column => self.n,
        }
    }

    /// A dense array over the batch and `axes`, as elements and an index.
    fn array(&self, axes: &[Axis], spread: i64) -> (u64, Index) {
        let points = (0..self.batch.len() as u32).map(Axis::Point);
        let axes: Vec<Axis> = points.chain(axes.iter().copied()).collect();
        let (mut index, mut stride) = (Index::default(), spread);
        for &axis in axes.iter().rev() {
            if self.extent(axis) > 1 {
                index = index.add(&Index::axis(axis).scale(stride));
            }
            stride *= self.extent(axis) as i64 * if spread > 1 { 2 } else { 1 };
        }
        (stride as u64, index)
    }

    fn load(&mut self, dtype: DType, axes: &[Axis]) -> ExprId {
        let (elements, index) = self.array(axes, 1);
        let argument = self.argument(dtype, elements, true, false);
        self.exprs.add(Expr::Load { argument, index, valid: None }, dtype)
    }

    fn factor(&mut self, dtype: DType, free: Axis, lies: Lies) -> ExprId {
        let axes = match (free, lies == Lies::Turned) {
            (Axis::Row, false) | (Axis::Column, true) => [free, INNER],
            _ => [INNER, free],
        };
        let (elements, index) = self.array(&axes, if lies == Lies::Sparse { 2 } else { 1 });
        let argument = self.argument(dtype, elements, true, false);
        let value = self.exprs.add(Expr::Load { argument, index, valid: None }, dtype);
        self.exprs.convert(value, self.accumulator)
    }

    fn sum(&mut self) -> ExprId {
        self.exprs.add(Expr::Sum, self.accumulator)
    }

    fn store(&mut self, value: ExprId) -> Store {
        let (elements, index) = self.array(&[ROW, COLUMN], 1);
        let argument = self.argument(self.exprs.dtype(value), elements, false, true);
        Store { argument, index, value }
    }

    fn kernel(self, lhs: ExprId, rhs: ExprId, stores: Vec<Store>) -> Kernel {
        let Dot { batch, m, n, k, accumulator, arguments, exprs } = self;
        let c = Contraction { batch, m, n, k, accumulator, exprs, lhs, rhs, stores };
        Kernel { name: "dot".to_string(), arguments, body: Body::Contraction(c) }
    }
}

/// The product of two arrays.
fn product(dtype: DType, batch: &[u64], shape: (u64, u64, u64), lies: (Lies, Lies)) -> Kernel {
    let mut dot = Dot::new(batch, shape, dtype.accumulator());
    let lhs = dot.factor(dtype, ROW, lies.0);
    let rhs = dot.factor(dtype, COLUMN, lies.1);
    let sum = dot.sum();
    let value = dot.exprs.convert(sum, dtype);
    let store = dot.store(value);
    dot.kernel(lhs, rhs, vec![store])
}

/// Small whole numbers: their sums of products are exact in every order, so that levels
/// without fused multiply-adds agree too.
fn whole_numbers(random: &mut Random, argument: &Argument) -> Buffer {
    let dtype = argument.dtype;
    let element = |random: &mut Random| match dtype {
        DType::Bool => random.next() & 1,
        d if d.is_integer() => random.element(d),
        d => Scalar::from_i128(d, random.below(9) as i128 - 4).bits(),
    };
    let elements = (0..argument.elements).map(|_| element(random)).collect();
    Buffer { dtype, elements }
}

/// Compares with the interpreter: on levels with fused multiply-adds with numbers that
/// round at every step, on all with numbers that do not.
fn check(kernel: &Kernel, seed: u64) {
    let mut random = Random(seed);
    let float = kernel.arguments.iter().any(|a| a.dtype.is_float());
    if float {
        let inputs: Vec<Buffer> = kernel.arguments.iter().map(|a| random.buffer(a)).collect();
        let fused: Vec<Isa> = tests::levels().into_iter().filter(|&i| i != Isa::V2).collect();
        tests::check_levels(kernel, &inputs, &fused);
    }
    let inputs: Vec<Buffer> =
        kernel.arguments.iter().map(|a| whole_numbers(&mut random, a)).collect();
    let rest: Vec<Isa> = tests::levels().into_iter().filter(|&i| !float || i == Isa::V2).collect();
    tests::check_levels(kernel, &inputs, &rest);
}

const PLAIN: (Lies, Lies) = (Lies::Plain, Lies::Plain);

#[test]
fn sizes_around_every_edge_of_a_tile() {
    let mut seed = 0;
    // Rows and vectors of tiles, vectors of all levels, unrolling and squares.
    for m in [1, 2, 5, 7, 8, 9, 17] {
        for n in [1, 3, 4, 5, 15, 16, 17, 48, 49, 97] {
            let ks: &[u64] = if m == 9 || n == 17 { &[1, 4, 5, 17] } else { &[6] };
            for &k in ks {
                seed += 1;
                check(&product(DType::F32, &[], (m, n, k), PLAIN), seed);
            }
        }
    }
}

#[test]
fn blocks_of_every_kind_in_their_natural_sizes() {
    // More rows, columns and steps than one block of any level has, and not multiples.
    let (m, n, k) = (135, 410, 1030);
    let mut random = Random(50);
    for lies in [PLAIN, (Lies::Turned, Lies::Plain), (Lies::Plain, Lies::Turned)] {
        let kernel = product(DType::F32, &[], (m, n, k), lies);
        let mut fill = |a: &Argument| {
            let mut number = || random.below(2000) as f64 / 999.0 - 1.0;
            let elements = (0..a.elements).map(|_| Scalar::from_f64(DType::F32, number()).bits());
            Buffer { dtype: DType::F32, elements: elements.collect() }
        };
        let inputs: Vec<Buffer> = kernel.arguments.iter().map(&mut fill).collect();
        let numbers = |b: &Buffer| -> Vec<f32> {
            b.elements.iter().map(|&e| f32::from_bits(e as u32)).collect()
        };
        let (x, y) = (numbers(&inputs[0]), numbers(&inputs[1]));
        let (m, n, k) = (m as usize, n as usize, k as usize);
        let mut expected = inputs.clone();
        for i in 0..m {
            for j in 0..n {
                let mut sum = 0.0f32;
                for r in 0..k {
                    let a = if lies.0 == Lies::Turned { x[r * m + i] } else { x[i * k + r] };
                    let b = if lies.1 == Lies::Turned { y[j * k + r] } else { y[r * n + j] };
                    sum = a.mul_add(b, sum);
                }
                expected[2].elements[i * n + j] = sum.to_bits().into();
            }
        }
        let fused: Vec<Isa> = tests::levels().into_iter().filter(|&i| i != Isa::V2).collect();
        tests::check_expected(&kernel, &inputs, &expected, &fused);
    }
}

#[test]
fn factors_that_lie_in_every_way() {
    let ways = [Lies::Plain, Lies::Turned, Lies::Sparse];
    let mut seed = 100;
    for lhs in ways {
        for rhs in ways {
            for shape in [(1, 40, 33), (9, 1, 20), (40, 1, 18), (14, 35, 19), (3, 130, 16)] {
                seed += 1;
                check(&product(DType::F32, &[], shape, (lhs, rhs)), seed);
            }
        }
    }
}

#[test]
fn every_type() {
    for (i, dtype) in DType::REAL.into_iter().enumerate() {
        for (j, shape) in [(7, 35, 9), (2, 5, 66), (13, 1, 4)].into_iter().enumerate() {
            let lies = [PLAIN, (Lies::Turned, Lies::Turned)][j % 2];
            check(&product(dtype, &[], shape, lies), (200 + 10 * i + j) as u64);
        }
    }
}

#[test]
fn batches_are_numbered_in_order() {
    check(&product(DType::F32, &[3, 2], (5, 18, 7), PLAIN), 400);
    check(&product(DType::F64, &[2, 1, 3], (1, 9, 5), (Lies::Turned, Lies::Turned)), 401);
    check(&product(DType::I32, &[4], (6, 1, 5), PLAIN), 402);
}

#[test]
fn a_sum_of_nothing_is_zero() {
    check(&product(DType::F32, &[2], (5, 18, 0), PLAIN), 405);
    check(&product(DType::BF16, &[], (5, 18, 0), (Lies::Turned, Lies::Turned)), 406);
}

#[test]
fn empty_results_do_nothing() {
    for (batch, shape) in [(vec![], (0, 5, 3)), (vec![], (5, 0, 3)), (vec![0], (2, 2, 2))] {
        check(&product(DType::F32, &batch, shape, PLAIN), 410);
    }
}

/// `w - rate * (x . y)` in the buffer of `w`, with a bias for each column and a scale
/// for each row.
fn update(shape: (u64, u64, u64)) -> Kernel {
    let mut dot = Dot::new(&[], shape, DType::F32);
    let lhs = dot.factor(DType::F32, ROW, Lies::Turned);
    let rhs = dot.factor(DType::F32, COLUMN, Lies::Plain);
    let (elements, index) = dot.array(&[ROW, COLUMN], 1);
    let argument = dot.argument(DType::F32, elements, true, true);
    let old = Expr::Load { argument, index: index.clone(), valid: None };
    let old = dot.exprs.add(old, DType::F32);
    let bias = dot.load(DType::F32, &[COLUMN]);
    let scale = dot.load(DType::BF16, &[ROW]);
    let scale = dot.exprs.convert(scale, DType::F32);
    let sum = dot.sum();
    let sum = dot.exprs.binary(BinaryOp::Mul, sum, scale);
    let sum = dot.exprs.binary(BinaryOp::Add, sum, bias);
    let value = dot.exprs.binary(BinaryOp::Sub, old, sum);
    let second = dot.exprs.convert(sum, DType::F16);
    let stores = vec![Store { argument, index, value }, dot.store(second)];
    dot.kernel(lhs, rhs, stores)
}

#[test]
fn the_old_value_may_lie_where_the_result_goes() {
    for (i, shape) in [(1, 1, 1), (5, 33, 6), (13, 70, 5), (20, 1, 7)].into_iter().enumerate() {
        check(&update(shape), 420 + i as u64);
    }
}

#[test]
fn an_operand_of_the_result_may_share_its_buffer() {
    let mut dot = Dot::new(&[], (8, 8, 8), DType::F32);
    let lhs = dot.factor(DType::F32, ROW, Lies::Plain);
    let rhs = dot.factor(DType::F32, COLUMN, Lies::Plain);
    let old = dot.load(DType::F32, &[ROW, COLUMN]);
    let turned = dot.load(DType::F32, &[COLUMN, ROW]);
    let sum = dot.sum();
    let value = dot.exprs.binary(BinaryOp::Add, sum, old);
    let value = dot.exprs.binary(BinaryOp::Add, value, turned);
    let store = dot.store(value);
    let kernel = dot.kernel(lhs, rhs, vec![store]);
    assert!(kernel.may_share(2, 4), "{kernel}");
    for read in [0, 1, 3] {
        assert!(!kernel.may_share(read, 4), "argument {read} is read for other elements");
    }
}

#[test]
fn operands_may_be_computed() {
    for (i, shape) in [(7, 19, 21), (14, 33, 34), (5, 1, 20)].into_iter().enumerate() {
        let mut dot = Dot::new(&[2], shape, DType::F32);
        // The left factor: converted, scaled by a row's value, zero above the diagonal.
        let x = dot.factor(DType::BF16, ROW, Lies::Plain);
        let scale = dot.load(DType::F32, &[ROW]);
        let x = dot.exprs.binary(BinaryOp::Mul, x, scale);
        let row = dot.exprs.index(Index::axis(ROW));
        let step = dot.exprs.index(Index::axis(INNER));
        let below = dot.exprs.compare(kiln_ir::op::Compare::Le, step, row);
        let zero = dot.exprs.float(DType::F32, 0.0);
        let lhs = dot.exprs.select(below, x, zero);
        // The right factor: part of it padding, from neighbours along the steps.
        let inside = dot.exprs.integer(DType::I64, shape.2 as i64 - 2);
        let valid = dot.exprs.compare(kiln_ir::op::Compare::Lt, step, inside);
        let (elements, index) = dot.array(&[COLUMN, INNER], 1);
        let argument = dot.argument(DType::F32, elements, true, false);
        let y = Expr::Load { argument, index, valid: Some(valid) };
        let y = dot.exprs.add(y, DType::F32);
        let rhs = dot.exprs.unary(UnaryOp::Abs, y);
        let sum = dot.sum();
        let store = dot.store(sum);
        check(&dot.kernel(lhs, rhs, vec![store]), 430 + i as u64);
    }
}

#[test]
fn operands_may_start_where_data_says() {
    let mut dot = Dot::new(&[], (9, 20, 11), DType::F32);
    let argument = dot.argument(DType::U8, 1, true, false);
    let start = Expr::Load { argument, index: Index::default(), valid: None };
    let start = dot.exprs.add(start, DType::U8);
    let start = dot.exprs.convert(start, DType::I64);
    let limit = dot.exprs.integer(DType::I64, 3);
    let start = dot.exprs.binary(BinaryOp::Min, start, limit);
    let lhs = dot.factor(DType::F32, ROW, Lies::Plain);
    let (elements, index) = dot.array(&[INNER, COLUMN], 1);
    let argument = dot.argument(DType::F32, elements + 60, true, false);
    let index = index.add(&Index::term(Term::Dynamic(start, 0, 3)).scale(20));
    let rhs = dot.exprs.add(Expr::Load { argument, index, valid: None }, DType::F32);
    let sum = dot.sum();
    let store = dot.store(sum);
    check(&dot.kernel(lhs, rhs, vec![store]), 440);
}

#[test]
fn levels_that_do_not_run_here_compile() {
    for isa in Isa::ALL {
        let options = Options { isa, threads: 1, ..Options::default() };
        let kernels = [update((13, 70, 300)), product(DType::F64, &[3], (40, 1, 20), PLAIN)];
        let code = compile(&kernels, &options).unwrap();
        assert!(code.entries.iter().all(|e| e.grid >= 1), "{isa:?}");
    }
}

/// The assembly of each micro-kernel of a kernel.
fn micro_kernels(kernel: &Kernel, isa: Isa) -> Vec<String> {
    let options = Options { isa, threads: 1, ..Options::default() };
    let text = text(std::slice::from_ref(kernel), &options, TextKind::Assembly).unwrap();
    let starts = text.match_indices("\ntile_").map(|(i, _)| i + 1);
    let body = |start: usize| text[start..].split(".Lfunc_end").next().unwrap().to_string();
    starts.map(body).collect()
}

#[test]
fn sums_stay_in_registers() {
    let count = |text: &str, what: &str| text.matches(what).count();
    let mut spilled = Vec::new();
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
        for m in [1, 2, 3, 4, 5, 6, 8, 1024] {
            for isa in [Isa::V2, Isa::V3, Isa::V4] {
                let lies = (if m == 8 { Lies::Turned } else { Lies::Plain }, Lies::Plain);
                let kernel = product(dtype, &[], (m, 1024, 1024), lies);
                let tiles = micro_kernels(&kernel, isa);
                assert!((1..=4).contains(&tiles.len()), "{} micro-kernels", tiles.len());
                let name = |text: &String| text.lines().next().unwrap().to_string();
                let bad: Vec<String> =
                    tiles.iter().filter(|t| t.contains("(%rsp)")).map(name).collect();
                if !bad.is_empty() {
                    spilled.push(format!("{isa:?} {dtype} m {m}: {bad:?}"));
                }
            }
        }
    }
    assert!(spilled.is_empty(), "{spilled:#?}");
    // Four steps unrolled and one for the rest, of six rows and four vectors each.
    let tiles = micro_kernels(&product(DType::F32, &[], (1024, 1024, 1024), PLAIN), Isa::V4);
    let text = tiles.iter().find(|t| t.starts_with("tile_6x4")).unwrap();
    assert_eq!(count(text, "vfmadd"), 5 * 24, "{text}");
    assert_eq!(count(text, "vbroadcastss"), 5 * 6, "{text}");
}

// --- tilings of the test's choice -----------------------------------------

/// Runs a kernel under many tilings that its shape would not get.
fn check_tilings(kernel: &Kernel, seed: u64) {
    let Body::Contraction(c) = &kernel.body else { unreachable!() };
    let mut random = Random(seed);
    for isa in tests::levels() {
        let inputs: Vec<Buffer> = match isa {
            Isa::V2 => kernel.arguments.iter().map(|a| whole_numbers(&mut random, a)).collect(),
            _ => kernel.arguments.iter().map(|a| random.buffer(a)).collect(),
        };
        let usual = super::tiling(isa, &kernel.arguments, c);
        for _ in 0..8 {
            let t = shuffled(&usual, c, &mut random);
            let emit = |b: &crate::llvm::build::Build, symbol: &str| {
                super::emit_tiled(b, isa, &kernel.arguments, c, symbol, t)
            };
            tests::check_emitted(kernel, &inputs, isa, &emit, &format!("{t:?}"));
        }
    }
}

fn shuffled(usual: &Tiling, c: &Contraction, random: &mut Random) -> Tiling {
    let mut t = *usual;
    let mut up_to = |n: u64| 1 + random.below(n as usize) as u64;
    t.row_panels = Split::at_most(up_to(6), t.row_panels.total);
    t.column_panels = Split::at_most(up_to(3), t.column_panels.total);
    t.column_blocks = Split::at_most(up_to(3), t.column_panels.parts);
    t.units = Split { total: t.row_panels.parts, parts: up_to(t.row_panels.parts) };
    t.k_block = up_to(c.k);
    t.k_blocks = c.k.div_ceil(t.k_block);
    t.section = up_to(t.row_panels.parts);
    t.chunk = up_to(t.row_panels.parts);
    let stride = t.k_block.next_multiple_of(t.lanes) + t.lanes * up_to(2);
    t.left = match (up_to(3), t.left) {
        (1, left @ Left::Direct(_)) => left,
        (2, _) => Left::Rows { stride },
        _ => {
            let width = t.row_panels.longest().next_power_of_two();
            Left::Panels { width, stride: width * t.k_block + up_to(2) - 1 }
        }
    };
    t.right = match (up_to(3), t.right) {
        (1, right @ Right::Direct(_)) => right,
        (2, _) => Right::Panels(Along::Free),
        _ => Right::Panels(Along::Inner),
    };
    t
}

#[test]
fn results_do_not_depend_on_the_tiling() {
    for (i, lies) in [PLAIN, (Lies::Turned, Lies::Turned)].into_iter().enumerate() {
        check_tilings(&product(DType::F32, &[2], (17, 50, 23), lies), 500 + i as u64);
    }
    check_tilings(&product(DType::BF16, &[], (9, 37, 20), PLAIN), 510);
    check_tilings(&update((15, 70, 26)), 511);
    check_tilings(&update((2, 35, 40)), 512);
}
