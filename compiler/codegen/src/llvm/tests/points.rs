//! Reductions along an outer axis: lanes along points.

use kiln_ir::DType;
use kiln_ir::op::ReduceKind;

use super::inner::combines;
use super::*;
use crate::kernel::expr::BinaryOp;
use crate::kernel::{Combine, Ragged, Reduction, Tree};

/// The columns of a matrix of `n` rows reduced in some ways.
fn columns(dtype: DType, n: u64, m: u64, tree: Tree, combines: &[Combine]) -> Kernel {
    let mut b = Builder::new();
    let a = b.read(dtype, n * m);
    let x = b.load(a, inner().scale(m as i64).add(&point(0)));
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
        b.store(m, point(0), s);
    }
    b.kernel(&[m], Lanes::Points)
}

#[test]
fn every_reduction_of_every_type() {
    let tree = Tree::of(9, Lanes::Points);
    for dtype in DType::REAL.into_iter().filter(|d| !d.is_half()) {
        for m in [1, 3, 16, 70, 300] {
            check(&columns(dtype, 9, m, tree, &combines(dtype)), m);
        }
        for combine in combines(dtype) {
            check(&columns(dtype, 5, 130, tree, &[combine]), 1);
        }
    }
}

#[test]
fn columns_longer_than_a_chunk() {
    for n in [1, 7, 8, 9, 24, 31] {
        let tree = Tree { lanes: 1, chunk: 8 };
        check(&columns(DType::F32, n, 37, tree, &combines(DType::F32)), n);
    }
    check(&columns(DType::F32, 2500, 5, Tree::of(2500, Lanes::Points), &combines(DType::F32)), 1);
}

#[test]
fn values_that_do_not_differ_between_lanes() {
    let (n, m) = (6, 40);
    let mut b = Builder::new();
    let a = b.read(DType::F32, n);
    let x = b.load(a, inner());
    let tree = Tree::of(n, Lanes::Points);
    let sum = Reduction { combine: Combine::Value(ReduceKind::Sum), value: x, slot: 0, tree };
    b.stage(n).reductions = vec![sum];
    b.stage(1);
    let s = b.exprs.add(Expr::Slot(0), DType::F32);
    b.store(m, point(0), s);
    check(&b.kernel(&[m], Lanes::Points), 1);
}

#[test]
fn normalising_columns_in_rows_of_matrices() {
    for (n, m) in [(1u64, 4u64), (6, 17), (11, 130)] {
        let batch = 3;
        let at = point(0).scale((n * m) as i64).add(&inner().scale(m as i64)).add(&point(1));
        let mut b = Builder::new();
        let a = b.read(DType::F32, batch * n * m);
        let x = b.load(a, at.clone());
        let tree = Tree::of(n, Lanes::Points);
        let sum = Reduction { combine: Combine::Value(ReduceKind::Sum), value: x, slot: 0, tree };
        b.stage(n).reductions = vec![sum];
        let s = b.exprs.add(Expr::Slot(0), DType::F32);
        let y = b.exprs.binary(BinaryOp::Div, x, s);
        b.stage(n);
        b.store(batch * n * m, at, y);
        check(&b.kernel(&[batch, m], Lanes::Points), m);
    }
}

#[test]
fn chunks_of_a_longer_axis() {
    for total in [1u64, 8, 20] {
        let chunk = 8;
        let (chunks, m) = (total.div_ceil(chunk), 21);
        let mut b = Builder::new();
        let a = b.read(DType::F32, total * m);
        let step = point(0).scale(chunk as i64).add(&inner());
        let x = b.load(a, step.scale(m as i64).add(&point(1)));
        let tree = Tree { lanes: 1, chunk };
        let sum = Reduction { combine: Combine::Value(ReduceKind::Sum), value: x, slot: 0, tree };
        let stage = b.stage(chunk);
        stage.ragged = Some(Ragged { axis: 0, total });
        stage.reductions = vec![sum];
        b.stage(1);
        let s = b.exprs.add(Expr::Slot(0), DType::F32);
        b.store(chunks * m, point(0).scale(m as i64).add(&point(1)), s);
        check(&b.kernel(&[chunks, m], Lanes::Points), total);
    }
}
