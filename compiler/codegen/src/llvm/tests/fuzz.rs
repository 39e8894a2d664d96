//! Random kernels against the interpreter.
//!
//! A kernel is made of random expressions over random index maps, with stages,
//! reductions, kept rows and stores where its lanes allow them. Seeds are numbers
//! in order, so that a failure names one.

use kiln_ir::DType;
use kiln_ir::op::Compare;

use super::inner::combines;
use super::*;
use crate::kernel::expr::{BinaryOp, UnaryOp};
use crate::kernel::index::{Extents, linearize};
use crate::kernel::{Combine, Reduction, Tree};

struct Fuzz {
    random: Random,
    b: Builder,
    extents: Extents,
    lanes: Lanes,
    /// Axes that may be used at the moment.
    axes: Vec<Axis>,
    /// Expressions that may be used at the moment.
    pool: Vec<ExprId>,
}

impl Fuzz {
    fn extent(&mut self) -> u64 {
        self.random.pick(&[1, 2, 3, 5, 8, 15, 16, 17, 33, 64, 70])
    }

    /// A random index over the axes at hand, never negative, and its greatest value.
    fn index(&mut self) -> (Index, u64) {
        let mut index = Index::constant(self.random.below(3) as i64);
        for axis in self.axes.clone() {
            let factor = self.random.pick(&[0, 1, 1, 1, -1, 2, 3, -2, 17]);
            index = index.add(&Index::axis(axis).scale(factor));
        }
        let (low, _) = index.range(&self.extents);
        index = index.offset(-low.min(0));
        match self.random.below(8) {
            0 => {
                let d = 1 + self.random.below(9) as i64;
                index = index.quotient(d, &self.extents);
            }
            1 => {
                let d = 1 + self.random.below(40) as i64;
                index = index.remainder(d, &self.extents);
            }
            _ => {}
        }
        let high = index.range(&self.extents).1;
        (index, high as u64)
    }

    fn leaf(&mut self) -> ExprId {
        let (index, high) = self.index();
        match self.random.below(8) {
            0 => self.b.exprs.index(index),
            1 => {
                let dtype = self.random.pick(&DType::REAL);
                let bits = self.random.element(dtype);
                self.b.exprs.constant(Scalar::from_bits(dtype, bits))
            }
            2 => {
                // Valid at some places only, and out of range at others.
                let dtype = self.random.pick(&DType::REAL);
                let a = self.b.read(dtype, high / 2 + 1);
                let at = self.b.exprs.index(index.clone());
                let end = self.b.exprs.integer(DType::I64, high as i64 / 2 + 1);
                let valid = self.b.exprs.compare(Compare::Lt, at, end);
                self.b.load_if(a, index, valid)
            }
            _ => {
                let dtype = self.random.pick(&DType::REAL);
                let a = self.b.read(dtype, high + 1);
                self.b.load(a, index)
            }
        }
    }

    fn any(&mut self) -> ExprId {
        self.pool[self.random.below(self.pool.len())]
    }

    /// A value of a type, from one at hand.
    fn of(&mut self, dtype: DType) -> ExprId {
        let all: Vec<ExprId> =
            self.pool.iter().copied().filter(|&e| self.b.exprs.dtype(e) == dtype).collect();
        if !all.is_empty() && self.random.below(4) > 0 {
            return all[self.random.below(all.len())];
        }
        let e = self.any();
        let x = &mut self.b.exprs;
        let (from, wide) = (x.dtype(e), |d: DType| d == DType::F32 || !d.is_half());
        if !wide(from) || !wide(dtype) {
            let e = x.convert(e, DType::F32);
            return x.convert(e, dtype);
        }
        x.convert(e, dtype)
    }

    fn operation(&mut self) -> ExprId {
        use BinaryOp::*;
        use UnaryOp::*;
        let numbers: Vec<DType> = DType::REAL.into_iter().filter(|d| !d.is_half()).collect();
        let dtype = self.random.pick(&numbers);
        let (a, b, c) = (self.of(dtype), self.of(dtype), self.of(dtype));
        let flag = self.of(DType::Bool);
        let x = &mut self.b.exprs;
        if dtype == DType::Bool {
            return match self.random.below(3) {
                0 => x.unary(Not, a),
                _ => x.binary(self.random.pick(&[And, Or, Xor]), a, b),
            };
        }
        match self.random.below(7) {
            0 if dtype.is_float() => {
                x.unary(self.random.pick(&[Neg, Abs, Sqrt, Floor, Ceil, Round, Truncate]), a)
            }
            0 => x.unary(self.random.pick(&[Neg, Abs, Not]), a),
            1 | 2 => x.binary(self.random.pick(&[Add, Sub, Mul, Div, Rem, Min, Max]), a, b),
            3 if dtype.is_integer() => {
                let ops = [And, Or, Xor, ShiftLeft, ShiftRightLogical, ShiftRightArithmetic];
                x.binary(self.random.pick(&ops), a, b)
            }
            3 | 4 => {
                let ops =
                    [Compare::Eq, Compare::Ne, Compare::Lt, Compare::Le, Compare::Gt, Compare::Ge];
                x.compare(self.random.pick(&ops), a, b)
            }
            5 => x.select(flag, a, b),
            _ => x.fma(a, b, c),
        }
    }

    /// Adds some expressions to the pool.
    fn grow(&mut self, leaves: usize, operations: usize) {
        for _ in 0..leaves {
            let e = self.leaf();
            self.pool.push(e);
        }
        for _ in 0..operations {
            let e = self.operation();
            self.pool.push(e);
        }
    }

    /// A store of some value at every step of `shape`, in some order of its axes.
    fn store(&mut self, shape: &[(Axis, u64)]) {
        let mut order = shape.to_vec();
        if self.random.below(4) == 0 {
            order.reverse();
        }
        let indices: Vec<Index> = order
            .iter()
            .map(|&(axis, extent)| match self.random.below(5) {
                0 => Index::axis(axis).scale(-1).offset(extent as i64 - 1),
                _ => Index::axis(axis),
            })
            .collect();
        let extents: Vec<usize> = order.iter().map(|&(_, e)| e as usize).collect();
        let value = self.any();
        let spread = self.random.pick(&[1, 1, 1, 2]);
        let index = linearize(&indices, &extents).scale(spread);
        let elements: u64 = order.iter().map(|&(_, e)| e).product::<u64>() * spread as u64;
        self.b.store(elements, index, value);
    }

    fn reductions(&mut self, n: u64, slot: &mut u32) -> Vec<(Reduction, DType)> {
        let tree = Tree::of(n, self.lanes);
        let chunk = if self.random.below(3) == 0 { 64 } else { tree.chunk };
        let tree = Tree { chunk, ..tree };
        (0..1 + self.random.below(3))
            .map(|_| {
                let mut value = self.any();
                let mut dtype = self.b.exprs.dtype(value);
                if dtype.is_half() {
                    value = self.b.exprs.convert(value, DType::F32);
                    dtype = DType::F32;
                }
                let combine = self.random.pick(&combines(dtype));
                *slot += 1;
                let result = if matches!(combine, Combine::Arg(_)) { DType::I64 } else { dtype };
                (Reduction { combine, value, slot: *slot - 1, tree }, result)
            })
            .collect()
    }
}

fn kernel(seed: u64) -> Kernel {
    let mut random = Random(seed);
    let lanes = random.pick(&[Lanes::Points, Lanes::Inner]);
    let rank = random.below(4);
    let mut f = Fuzz {
        random,
        b: Builder::new(),
        extents: Extents::default(),
        lanes,
        axes: Vec::new(),
        pool: Vec::new(),
    };
    let points: Vec<u64> = (0..rank)
        .map(|k| if k + 1 < rank { 1 + f.random.below(3) as u64 } else { f.extent() })
        .collect();
    let n = if f.random.below(3) == 0 { 1 } else { f.extent() };
    f.extents = Extents { points: points.clone(), inner: n, ..Extents::default() };
    let box_: Vec<(Axis, u64)> =
        points.iter().enumerate().map(|(p, &e)| (Axis::Point(p as u32), e)).collect();
    let row: Vec<(Axis, u64)> = [&box_[..], &[(Axis::Inner, n)]].concat();
    f.axes = box_.iter().map(|(a, _)| *a).collect();

    let (mut slot, mut kept) = (0, 0);
    for _ in 0..1 + f.random.below(2) {
        // What was computed for each point stays; what changes along the row does not.
        let (leaves, operations) = (1 + f.random.below(2), f.random.below(3));
        f.grow(leaves, operations);
        let outside = f.pool.len();
        f.axes.push(Axis::Inner);
        let (leaves, operations) = (1 + f.random.below(3), f.random.below(12));
        f.grow(leaves, operations);
        f.b.stage(n);
        let mut found = Vec::new();
        if f.random.below(4) > 0 {
            found = f.reductions(n, &mut slot);
            f.b.stages.last_mut().unwrap().reductions =
                found.iter().map(|(r, _)| r.clone()).collect();
        }
        if f.lanes == Lanes::Inner && f.random.below(2) == 0 {
            let value = f.any();
            f.b.stages.last_mut().unwrap().keeps.push((kept, value));
            kept += 1;
        }
        if f.random.below(2) == 0 || found.is_empty() {
            f.store(&row);
        }
        f.pool.truncate(outside);
        f.axes.pop();
        for (reduction, dtype) in found {
            let s = f.b.exprs.add(Expr::Slot(reduction.slot), dtype);
            f.pool.push(s);
        }
        // A stage that reads kept rows.
        if kept > 0 && f.random.below(2) == 0 {
            let outside = f.pool.len();
            let of = f.b.stages.iter().flat_map(|s| &s.keeps).last().map(|k| k.1).unwrap();
            let dtype = f.b.exprs.dtype(of);
            let e = f.b.exprs.add(Expr::Kept(kept - 1), dtype);
            f.pool.push(e);
            let e = f.operation();
            f.pool.push(e);
            f.b.stage(n);
            f.store(&row);
            f.pool.truncate(outside);
        }
    }
    f.b.stage(1);
    f.grow(1, 2);
    f.store(&box_);
    f.b.kernel(&points, lanes)
}

#[test]
fn random_kernels() {
    // Each seed is another kernel and another input.
    for seed in 0..150 {
        check(&kernel(seed), seed);
    }
}

#[test]
#[ignore = "runs for minutes"]
fn many_random_kernels() {
    for seed in 1000..20_000 {
        check(&kernel(seed), seed);
    }
}
