//! Sorting, by the merges that define it.

use hashbrown::{HashMap, HashSet};
use kiln_ir::Scalar;
use kiln_ir::op::Compare;

use super::scalar::{compare, is_nan};
use super::{Buffer, Memory, Place, evaluate, needed};
use crate::kernel::sort::{Key, Ordering, Sorted, Source};
use crate::kernel::{Argument, Body, Kernel, Sort};

pub(super) fn run_sort(sort: &Sort, memory: &mut Memory) {
    for row in 0..sort.rows() {
        let at = |extent: u64, i: u64| {
            ((row / sort.inner * extent + i) * sort.inner + row % sort.inner) as i64
        };
        let elements = |operand: &Sorted| match operand.from {
            Source::Argument(a) => Buffer {
                dtype: memory.kernel.arguments[a as usize].dtype,
                elements: (0..sort.length).map(|i| memory.load(a, at(sort.length, i))).collect(),
            },
            Source::Position(dtype) => Buffer { dtype, elements: (0..sort.length).collect() },
        };
        let mut rows: Vec<Buffer> = sort.operands.iter().map(elements).collect();
        let places = match &sort.order {
            Ordering::Keys(keys) => merged(sort.length, |a, b| {
                let key = |key: &Key| {
                    let Buffer { dtype, elements } = &rows[key.operand as usize];
                    let [a, b] = [a, b].map(|i| Scalar::from_bits(*dtype, elements[i]));
                    let (low, high) = if key.descending { (b, a) } else { (a, b) };
                    // NaN is above everything else, and equals itself.
                    match (is_nan(low), is_nan(high)) {
                        (false, false) => [Compare::Lt, Compare::Gt].map(|c| compare(c, low, high)),
                        (low, high) => [!low & high, low & !high],
                    }
                };
                let decided = keys.iter().map(key).find(|[less, greater]| *less || *greater);
                decided.is_some_and(|[less, _]| less)
            }),
            Ordering::Function { exprs, before } => {
                let order = needed(exprs, [*before]);
                let mut values = vec![0; exprs.len()];
                let argument = |row: &Buffer| Argument {
                    dtype: row.dtype,
                    elements: sort.length,
                    reads: true,
                    writes: false,
                };
                let arguments = rows.iter().map(argument).collect();
                let body = Body::Sort(sort.clone());
                let kernel = Kernel { name: memory.kernel.name.clone(), arguments, body };
                let which: Vec<usize> = (0..rows.len()).collect();
                let (buffers, written) = (&mut rows[..], HashSet::new());
                let scattered = HashMap::new();
                let row = Memory { kernel: &kernel, buffers, which: &which, written, scattered };
                merged(sort.length, |a, b| {
                    let points = vec![a as u64, b as u64];
                    let place = Place { points, ..Place::default() };
                    evaluate(exprs, &order, &place, &row, &mut values);
                    values[before.0 as usize] != 0
                })
            }
        };
        for (operand, row) in sort.operands.iter().zip(&rows) {
            let Some(to) = operand.to else { continue };
            for (i, &place) in (0..sort.take).zip(&places) {
                memory.store(to, at(sort.take, i), row.elements[place]);
            }
        }
    }
}

/// The places of a row by the merges that [`Ordering::Function`] defines.
fn merged(length: u64, mut before: impl FnMut(usize, usize) -> bool) -> Vec<usize> {
    let mut runs: Vec<Vec<usize>> = (0..length as usize).map(|i| vec![i]).collect();
    while runs.len() > 1 {
        let mut longer = Vec::new();
        let mut pairs = runs.into_iter();
        while let Some(left) = pairs.next() {
            let (mut left, mut right) =
                (left.into_iter().peekable(), pairs.next().into_iter().flatten().peekable());
            let mut run = Vec::new();
            while let (Some(&l), Some(&r)) = (left.peek(), right.peek()) {
                run.extend(if before(r, l) { right.next() } else { left.next() });
            }
            run.extend(left.chain(right));
            longer.push(run);
        }
        runs = longer;
    }
    runs.pop().unwrap_or_default()
}
