//! Row programs: lanes along the inner axis.

use kiln_ir::DType;
use kiln_ir::op::{ArgKind, ReduceKind};

use super::super::TextKind;
use super::*;
use crate::kernel::expr::{BinaryOp, UnaryOp};
use crate::kernel::{Combine, Ragged, Reduction, Tree};

/// Extents around vectors and trees (16 lanes below 512 steps, then 64).
const EXTENTS: [u64; 15] = [1, 2, 3, 15, 16, 17, 31, 48, 63, 64, 65, 500, 511, 512, 600];

pub(super) const KINDS: [ReduceKind; 7] = ReduceKind::ALL;

/// The reductions of a type.
pub(super) fn combines(dtype: DType) -> Vec<Combine> {
    use ReduceKind::*;
    let kinds = match dtype {
        DType::Bool => vec![And, Or, Xor],
        d if d.is_float() => vec![Sum, Prod, Min, Max],
        _ => KINDS.to_vec(),
    };
    let mut combines: Vec<Combine> = kinds.into_iter().map(Combine::Value).collect();
    if dtype != DType::Bool {
        combines.extend([Combine::Arg(ArgKind::Min), Combine::Arg(ArgKind::Max)]);
    }
    combines
}

/// One row of `n` reduced in every way, for each of `rows` rows.
fn reductions(dtype: DType, rows: u64, n: u64, tree: Tree, combines: &[Combine]) -> Kernel {
    let mut b = Builder::new();
    let a = b.read(dtype, rows * n);
    let x = b.load(a, point(0).scale(n as i64).add(&inner()));
    let reductions = combines.iter().enumerate().map(|(slot, &combine)| Reduction {
        combine,
        value: x,
        slot: slot as u32,
        tree,
    });
    b.stage(n).reductions = reductions.collect();
    b.stage(1);
    for (slot, combine) in combines.iter().enumerate() {
        let result = match combine {
            Combine::Value(_) => dtype,
            Combine::Arg(_) => DType::I64,
        };
        let s = b.exprs.add(Expr::Slot(slot as u32), result);
        b.store(rows, point(0), s);
    }
    b.kernel(&[rows], Lanes::Inner)
}

#[test]
fn every_reduction_of_every_type() {
    for dtype in DType::REAL.into_iter().filter(|d| !d.is_half()) {
        for n in [1, 7, 64, 131, 600] {
            let tree = Tree::of(n, Lanes::Inner);
            for combine in combines(dtype) {
                check(&reductions(dtype, 5, n, tree, &[combine]), n);
            }
        }
    }
}

#[test]
fn extents_around_the_tree() {
    for n in EXTENTS {
        let tree = Tree::of(n, Lanes::Inner);
        for dtype in [DType::F32, DType::F64, DType::I16] {
            check(&reductions(dtype, 3, n, tree, &combines(dtype)), n);
        }
    }
}

#[test]
fn one_lane_in_order() {
    for n in [1, 2, 31] {
        let tree = Tree { lanes: 1, chunk: n };
        check(&reductions(DType::F32, 2, n, tree, &combines(DType::F32)), n);
    }
}

#[test]
fn rows_longer_than_a_chunk() {
    // A tree with small chunks walks the same code as one of 32,768 steps.
    for n in [128, 129, 300, 512, 1000] {
        for tree in [Tree { lanes: 16, chunk: 128 }, Tree { lanes: 64, chunk: 128 }] {
            check(&reductions(DType::F32, 2, n, tree, &combines(DType::F32)), n);
            check(&reductions(DType::U8, 2, n, tree, &combines(DType::U8)), n);
        }
    }
    let n = 70_001;
    let tree = Tree::of(n, Lanes::Inner);
    check(&reductions(DType::F32, 1, n, tree, &combines(DType::F32)), n);
}

#[test]
fn nan_wins_wherever_it_is() {
    let n = 70;
    let combines: Vec<Combine> = combines(DType::F32)
        .into_iter()
        .filter(|c| !matches!(c, Combine::Value(ReduceKind::Sum | ReduceKind::Prod)))
        .collect();
    let kernel = reductions(DType::F32, n, n, Tree::of(n, Lanes::Inner), &combines);
    let mut inputs: Vec<Buffer> =
        kernel.arguments.iter().map(|a| Buffer::zeros(a.dtype, a.elements as usize)).collect();
    for row in 0..n {
        inputs[0].elements[(row * n + row) as usize] = f32::NAN.to_bits().into();
        // A second one, later, changes nothing.
        inputs[0].elements[(row * n + n - 1) as usize] = f32::NAN.to_bits().into();
    }
    check_on(&kernel, &inputs);
    // Rows of nothing but the identity, and of −0 among +0.
    for x in [f32::INFINITY, f32::NEG_INFINITY, -0.0] {
        let mut inputs = inputs.clone();
        inputs[0].elements.fill(x.to_bits().into());
        check_on(&kernel, &inputs);
        for row in 0..n {
            inputs[0].elements[(row * n + row) as usize] = 0;
        }
        check_on(&kernel, &inputs);
    }
}

#[test]
fn long_bodies_keep_their_accumulators_in_memory() {
    // Enough operations that no level keeps them in registers.
    for (n, chunk) in [(1, 1 << 15), (64, 1 << 15), (75, 1 << 15), (600, 1 << 15), (600, 128)] {
        for dtype in [DType::F32, DType::F64, DType::I16, DType::Bool] {
            let mut b = Builder::new();
            let a = b.read(dtype, 3 * n);
            let x = b.load(a, point(0).scale(n as i64).add(&inner()));
            let mut y = x;
            for i in 0..260 {
                y = match (dtype, i % 3) {
                    (DType::Bool, _) => b.exprs.binary(BinaryOp::Xor, y, x),
                    (_, 0) => b.exprs.binary(BinaryOp::Max, y, x),
                    (_, 1) => b.exprs.unary(UnaryOp::Neg, y),
                    _ => b.exprs.binary(BinaryOp::Sub, y, x),
                };
            }
            let tree = Tree { chunk, ..Tree::of(n, Lanes::Inner) };
            let combines = combines(dtype);
            let reductions = combines.iter().enumerate();
            b.stage(n).reductions = reductions
                .map(|(i, &combine)| Reduction { combine, value: y, slot: i as u32, tree })
                .collect();
            b.stage(1);
            for (i, combine) in combines.iter().enumerate() {
                let arg = matches!(combine, Combine::Arg(_));
                let slot = Expr::Slot(i as u32);
                let s = b.exprs.add(slot, if arg { DType::I64 } else { dtype });
                b.store(3, point(0), s);
            }
            check(&b.kernel(&[3], Lanes::Inner), n);
        }
    }
}

/// Softmax with a rational function for the exponential.
fn softmax(rows: u64, n: u64, in_place: bool) -> Kernel {
    let tree = Tree::of(n, Lanes::Inner);
    let at = point(0).scale(n as i64).add(&inner());
    let mut b = Builder::new();
    let a = b.read(DType::F32, rows * n);
    let x = b.load(a, at.clone());
    let max = Reduction { combine: Combine::Value(ReduceKind::Max), value: x, slot: 0, tree };
    b.stage(n).reductions = vec![max];

    let s0 = b.exprs.add(Expr::Slot(0), DType::F32);
    let shifted = b.exprs.binary(BinaryOp::Sub, x, s0);
    let square = b.exprs.binary(BinaryOp::Mul, shifted, shifted);
    let one = b.exprs.float(DType::F32, 1.0);
    let below = b.exprs.binary(BinaryOp::Add, square, one);
    let e = b.exprs.binary(BinaryOp::Div, one, below);
    let sum = Reduction { combine: Combine::Value(ReduceKind::Sum), value: e, slot: 1, tree };
    let stage = b.stage(n);
    stage.keeps = vec![(0, e)];
    stage.reductions = vec![sum];

    let kept = b.exprs.add(Expr::Kept(0), DType::F32);
    let s1 = b.exprs.add(Expr::Slot(1), DType::F32);
    let y = b.exprs.binary(BinaryOp::Div, kept, s1);
    b.stage(n);
    b.store(rows * n, at, y);
    b.stage(1);
    b.store(rows, point(0), s1);
    if in_place {
        b.arguments[0].writes = true;
        b.stages[2].stores[0].argument = 0;
        b.arguments[1] = Argument { dtype: DType::Bool, elements: 0, reads: true, writes: false };
    }
    b.kernel(&[rows], Lanes::Inner)
}

#[test]
fn kept_rows_and_slots() {
    for n in [1, 16, 40, 64, 513, 640] {
        check(&softmax(9, n, false), n);
        check(&softmax(9, n, true), n);
    }
}

#[test]
fn kept_bools_and_narrow_values() {
    let n = 77;
    let mut b = Builder::new();
    let a = b.read(DType::F32, 3 * n);
    let at = point(0).scale(n as i64).add(&inner());
    let x = b.load(a, at.clone());
    let zero = b.exprs.float(DType::F32, 0.0);
    let positive = b.exprs.compare(kiln_ir::op::Compare::Gt, x, zero);
    let half = b.exprs.convert(x, DType::BF16);
    let tree = Tree::of(n, Lanes::Inner);
    let any = Reduction { combine: Combine::Value(ReduceKind::Or), value: positive, slot: 0, tree };
    let stage = b.stage(n);
    stage.keeps = vec![(1, positive), (0, half)];
    stage.reductions = vec![any];
    b.stage(n);
    let c = b.exprs.add(Expr::Kept(1), DType::Bool);
    let h = b.exprs.add(Expr::Kept(0), DType::BF16);
    let s = b.exprs.add(Expr::Slot(0), DType::Bool);
    let c = b.exprs.binary(BinaryOp::Xor, c, s);
    b.store(3 * n, at.clone(), c);
    b.store(3 * n, at, h);
    check(&b.kernel(&[3], Lanes::Inner), 1);
}

#[test]
fn chunks_of_a_longer_axis() {
    for total in [1u64, 100, 128, 129, 300] {
        let chunk = 128;
        let chunks = total.div_ceil(chunk);
        let mut b = Builder::new();
        let a = b.read(DType::F32, 2 * total);
        let at = point(0).scale(total as i64).add(&point(1).scale(chunk as i64)).add(&inner());
        let x = b.load(a, at.clone());
        let tree = Tree { lanes: 16, chunk };
        let reductions = combines(DType::F32).into_iter().enumerate();
        let reductions =
            reductions.map(|(i, combine)| Reduction { combine, value: x, slot: i as u32, tree });
        let stage = b.stage(chunk);
        stage.ragged = Some(Ragged { axis: 1, total });
        stage.reductions = reductions.collect();
        b.stage(chunk).ragged = Some(Ragged { axis: 1, total });
        let negative = b.exprs.unary(UnaryOp::Neg, x);
        b.store(2 * total, at, negative);
        b.stage(1);
        let row = point(0).scale(chunks as i64).add(&point(1));
        for (i, combine) in combines(DType::F32).into_iter().enumerate() {
            let dtype = if matches!(combine, Combine::Arg(_)) { DType::I64 } else { DType::F32 };
            let s = b.exprs.add(Expr::Slot(i as u32), dtype);
            b.store(2 * chunks, row.clone(), s);
        }
        check(&b.kernel(&[2, chunks], Lanes::Inner), total);
    }
}

#[test]
fn rows_in_odd_orders() {
    // Reversed, strided, broadcast and divided along the row.
    for n in [5i64, 64, 600] {
        let extents = crate::kernel::index::Extents {
            points: vec![4],
            inner: n as u64,
            ..Default::default()
        };
        let mut b = Builder::new();
        let a = b.read(DType::F32, 4 * n as u64);
        let reversed = b.load(a, point(0).scale(n).sub_inner(n));
        let column = b.load(a, inner().scale(4).add(&point(0)));
        let uniform = b.load(a, point(0).scale(n));
        let shared = b.load(a, inner().quotient(3, &extents));
        let sum = b.exprs.binary(BinaryOp::Add, reversed, column);
        let sum = b.exprs.fma(sum, uniform, shared);
        let tree = Tree::of(n as u64, Lanes::Inner);
        let reduction =
            Reduction { combine: Combine::Value(ReduceKind::Sum), value: sum, slot: 0, tree };
        b.stage(n as u64).reductions = vec![reduction];
        b.stage(1);
        let s = b.exprs.add(Expr::Slot(0), DType::F32);
        b.store(4, point(0), s);
        check(&b.kernel(&[4], Lanes::Inner), 1);
    }
}

#[test]
fn rows_that_jump_between_runs() {
    // A sum over the first and last of three axes reads runs of `run` elements, `jump`
    // apart. Runs of whole vectors are loaded as such, others element by element.
    for (run, runs) in [(16, 5), (48, 3), (64, 11), (32, 20), (20, 9), (7, 30)] {
        for dtype in [DType::F32, DType::F64, DType::I8] {
            let (n, jump) = (run * runs, 3 * run);
            let extents = crate::kernel::index::Extents {
                points: vec![3],
                inner: n as u64,
                ..Default::default()
            };
            let r = inner();
            let at = r.quotient(run, &extents).scale(jump).add(&r.remainder(run, &extents));
            let at = at.add(&point(0).scale(run));
            let mut b = Builder::new();
            let a = b.read(dtype, (jump * runs) as u64);
            let x = b.load(a, at.clone());
            let tree = Tree::of(n as u64, Lanes::Inner);
            let combine = Combine::Value(ReduceKind::Sum);
            b.stage(n as u64).reductions = vec![Reduction { combine, value: x, slot: 0, tree }];
            b.stage(n as u64);
            let s = b.exprs.add(Expr::Slot(0), dtype);
            let y = b.exprs.binary(BinaryOp::Sub, x, s);
            b.store((jump * runs) as u64, at, y);
            let kernel = b.kernel(&[3], Lanes::Inner);
            check(&kernel, n as u64);
            if dtype == DType::F32 && run % 16 == 0 {
                let ir = super::super::text(&[kernel], &Options::default(), TextKind::Ir).unwrap();
                assert!(!ir.contains("masked.gather"), "runs of {run} are gathered");
            }
        }
    }
}

trait SubInner {
    fn sub_inner(&self, n: i64) -> Index;
}

impl SubInner for Index {
    /// `self + (n - 1 - r)`.
    fn sub_inner(&self, n: i64) -> Index {
        self.add(&inner().scale(-1)).offset(n - 1)
    }
}
