//! Derivatives and batches of windows at indices.
//!
//! A gather moves elements, so its cotangent is summed where each came from, which is a
//! scatter; and the other way round. Where several updates meet, the rules follow what the
//! definition says: the last one set has all of the cotangent, equal extremes have equal
//! parts of it.

use smallvec::smallvec;

use super::{Batch, Derived, NoRule, Results, Rule};
use crate::op::{
    Binary, Compare, Concatenate, Constant, Convert, DynamicSlice, Gather, GatherDims, GatherMode,
    Iota, Reshape, Scatter, ScatterDims, ScatterKind, ScatterMode,
};
use crate::{DType, Literal, Scalar, Type, Value};

/// The tangent: the same windows of the tangents.
pub(crate) fn gather_jvp(op: &Gather, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Derived {
    let fill = rule.operands.get(2).copied();
    if tangents.iter().all(Option::is_none) {
        return smallvec![None];
    }
    let mut operands = vec![rule.or_zeros(tangents[0], rule.operands[0]), rule.operands[1]];
    if let Some(fill) = fill {
        operands.push(rule.or_zeros(tangents[2], fill));
    }
    smallvec![Some(rule.add(op.clone(), &operands))]
}

/// The cotangent: sums of what each element went to; half types are summed in `f32`.
pub(crate) fn gather_vjp(op: &Gather, rule: &mut Rule<'_>, ct: Value) -> Derived {
    let (x, indices) = (rule.operands[0], rule.operands[1]);
    let (mode, elements) = match op.mode {
        GatherMode::Clip => (ScatterMode::Clip, false),
        GatherMode::Fill => (ScatterMode::Drop, true),
    };
    let single = op.dims.start_index_map.iter().all(|&axis| op.slice_sizes[axis] == 1);
    let scatter = Scatter {
        kind: ScatterKind::Add,
        dims: ScatterDims::of_gather(&op.dims),
        mode,
        // Different vectors are different elements if none is moved and windows are one wide.
        unique_indices: op.unique_indices && elements && single,
        indices_are_sorted: op.indices_are_sorted,
    };
    let ty = rule.ty(x);
    let wide = ty.with_dtype(ty.dtype.accumulator());
    let zeros = constant(rule, &wide, Scalar::zero(wide.dtype));
    let summed = rule.convert_like(ct, zeros);
    let sum = rule.add(scatter, &[zeros, indices, summed]);
    let mut cotangents: Derived = smallvec![Some(rule.convert_like(sum, x)), None];
    if op.mode == GatherMode::Fill {
        let inside = in_range(op, rule, x, indices);
        let zeros = rule.zeros(ct);
        let filled = rule.select(inside, zeros, ct);
        let axes = (0..rule.ty(ct).shape.rank()).collect();
        cotangents.push(Some(rule.sum(filled, axes)));
    }
    cotangents
}

/// Whether each element of a gather lies in a window that is in range.
fn in_range(op: &Gather, rule: &mut Rule<'_>, x: Value, indices: Value) -> Value {
    let yes = rule.ty(x).with_dtype(DType::Bool);
    let yes = constant(rule, &yes, Scalar::bool(true));
    let no = rule.add(Constant { value: Literal::scalar(Scalar::bool(false)) }, &[]);
    rule.add(Gather { mode: GatherMode::Fill, ..op.clone() }, &[yes, indices, no])
}

fn constant(rule: &mut Rule<'_>, ty: &Type, value: Scalar) -> Value {
    let scalar = rule.add(Constant { value: Literal::scalar(value) }, &[]);
    rule.spread(scalar, &[], ty)
}

/// Where the updates of a scatter went.
struct Updates<'o> {
    op: &'o Scatter,
    sizes: Vec<usize>,
    /// Whether a window can be in range at all.
    fits: bool,
}

impl<'o> Updates<'o> {
    fn of(op: &'o Scatter, rule: &Rule<'_>) -> Updates<'o> {
        let (x, updates) = (rule.ty(rule.operands[0]), rule.ty(rule.operands[2]));
        let sizes = op.dims.window_sizes(&x.shape, &updates.shape);
        let fits = sizes.iter().zip(x.shape.iter()).all(|(size, extent)| size <= extent);
        Updates { op, sizes, fits }
    }

    /// For each update, the element of `x` that it was combined with; zero if it was left out.
    fn read(&self, rule: &mut Rule<'_>, x: Value) -> Value {
        let dtype = rule.ty(x).dtype;
        self.read_or(rule, x, Scalar::zero(dtype))
    }

    fn read_or(&self, rule: &mut Rule<'_>, x: Value, dropped: Scalar) -> Value {
        let mode = match self.op.mode {
            ScatterMode::Drop => GatherMode::Fill,
            ScatterMode::Clip => GatherMode::Clip,
        };
        let gather = Gather {
            dims: self.op.dims.as_gather(),
            slice_sizes: self.sizes.clone(),
            mode,
            unique_indices: self.op.unique_indices,
            indices_are_sorted: self.op.indices_are_sorted,
        };
        let mut operands = vec![x, rule.operands[1]];
        if mode == GatherMode::Fill {
            operands.push(rule.add(Constant { value: Literal::scalar(dropped) }, &[]));
        }
        rule.add(gather, &operands)
    }

    /// The same places, combined in another way.
    fn write(&self, rule: &mut Rule<'_>, kind: ScatterKind, x: Value, updates: Value) -> Value {
        let indices = rule.operands[1];
        rule.add(Scatter { kind, ..self.op.clone() }, &[x, indices, updates])
    }

    /// Which updates are those that a set left in place: numbered, set and read again.
    fn last(&self, rule: &mut Rule<'_>) -> Value {
        let (x, updates) = (rule.ty(rule.operands[0]), rule.ty(rule.operands[2]));
        let ty = Type::new(DType::I64, [updates.elements()]);
        let count = rule.add(Iota { ty, axis: 0 }, &[]);
        let numbers = rule.add(Reshape { shape: updates.shape }, &[count]);
        let none = constant(rule, &x.with_dtype(DType::I64), Scalar::from_i128(DType::I64, -1));
        let winners = self.write(rule, ScatterKind::Set, none, numbers);
        let winner = self.read_or(rule, winners, Scalar::from_i128(DType::I64, -1));
        rule.compare(Compare::Eq, winner, numbers)
    }

    /// Of an extreme: which elements of the operand and which updates equal it, and how
    /// many there are at each element.
    fn extremes(&self, rule: &mut Rule<'_>) -> (Value, Value, Value) {
        let (x, updates, result) = (rule.operands[0], rule.operands[2], rule.results[0]);
        let own = rule.compare(Compare::Eq, x, result);
        let reached = self.read(rule, result);
        let theirs = rule.compare(Compare::Eq, reached, updates);
        let one = rule.convert_like(own, x);
        let ones = rule.convert_like(theirs, updates);
        let count = self.write(rule, ScatterKind::Add, one, ones);
        (own, theirs, count)
    }
}

fn no_product() -> NoRule {
    NoRule::new(
        "scatter_mul",
        "products of several updates have no derivative: promise unique indices, or multiply by \
         a gather",
    )
}

pub(crate) fn scatter_jvp(
    op: &Scatter,
    rule: &mut Rule<'_>,
    tangents: &[Option<Value>],
) -> Result<Derived, NoRule> {
    let places = Updates::of(op, rule);
    let (x, updates) = (rule.operands[0], rule.operands[2]);
    let (tx, tu) = (tangents[0], tangents[2]);
    if !places.fits || tx.is_none() && tu.is_none() {
        return Ok(smallvec![tx]);
    }
    Ok(smallvec![Some(match op.kind {
        ScatterKind::Set | ScatterKind::Add => {
            let (tx, tu) = (rule.or_zeros(tx, x), rule.or_zeros(tu, updates));
            places.write(rule, op.kind, tx, tu)
        }
        ScatterKind::Mul if op.unique_indices => {
            let tx = rule.or_zeros(tx, x);
            let scaled = places.write(rule, ScatterKind::Mul, tx, updates);
            match tu {
                None => scaled,
                Some(tu) => {
                    let there = places.read(rule, x);
                    let moved = rule.mul(there, tu);
                    places.write(rule, ScatterKind::Add, scaled, moved)
                }
            }
        }
        ScatterKind::Mul => return Err(no_product()),
        ScatterKind::Min | ScatterKind::Max => {
            let (own, theirs, count) = places.extremes(rule);
            let (tx, tu) = (rule.or_zeros(tx, x), rule.or_zeros(tu, updates));
            let (tx, tu) = (rule.select_or_zero(own, tx), rule.select_or_zero(theirs, tu));
            let sum = places.write(rule, ScatterKind::Add, tx, tu);
            rule.div(sum, count)
        }
        ScatterKind::And | ScatterKind::Or | ScatterKind::Xor => return Ok(smallvec![None]),
    })])
}

pub(crate) fn scatter_vjp(op: &Scatter, rule: &mut Rule<'_>, ct: Value) -> Result<Derived, NoRule> {
    let places = Updates::of(op, rule);
    let (x, updates) = (rule.operands[0], rule.operands[2]);
    if !places.fits {
        return Ok(smallvec![Some(ct), None, None]);
    }
    let (dx, du) = match op.kind {
        ScatterKind::Set => {
            let nothing = rule.zeros(updates);
            let kept = places.write(rule, ScatterKind::Set, ct, nothing);
            let mut taken = places.read(rule, ct);
            if !op.unique_indices {
                let last = places.last(rule);
                taken = rule.select_or_zero(last, taken);
            }
            (kept, taken)
        }
        ScatterKind::Add => (ct, places.read(rule, ct)),
        ScatterKind::Mul if op.unique_indices => {
            let (there, taken) = (places.read(rule, x), places.read(rule, ct));
            let du = rule.binary(Binary::Mul, there, taken);
            (places.write(rule, ScatterKind::Mul, ct, updates), du)
        }
        ScatterKind::Mul => return Err(no_product()),
        ScatterKind::Min | ScatterKind::Max => {
            let (own, theirs, count) = places.extremes(rule);
            let part = rule.div(ct, count);
            let taken = places.read(rule, part);
            (rule.select_or_zero(own, part), rule.select_or_zero(theirs, taken))
        }
        ScatterKind::And | ScatterKind::Or | ScatterKind::Xor => {
            return Ok(smallvec![None, None, None]);
        }
    };
    Ok(smallvec![Some(dx), None, Some(du)])
}

/// Batched indices make the batch a position of the result; a batched operand has it as a
/// part of every window; where both are, it is a batching axis.
pub(crate) fn gather_vmap(op: &Gather, rule: &mut Rule<'_>, batch: Batch<'_>) -> Results {
    let (x, indices) = (batch.operands[0], batch.operands[1]);
    let batched = batched_gather(op, x, indices, batch.size);
    let [values, at] = [rule.operands[0], rule.operands[1]];
    let Some(&fill) = rule.operands.get(2) else {
        return smallvec![rule.add(batched, &[values, at])];
    };
    if !batch.operands[2] {
        return smallvec![rule.add(batched, &[values, at, fill])];
    }
    // Another fill value at each entry: chosen where the window is out of range.
    let clipped = rule.add(Gather { mode: GatherMode::Clip, ..batched.clone() }, &[values, at]);
    let inside = in_range(&batched, rule, values, at);
    let mut shape = rule.ty(clipped).shape.to_vec();
    if !x && !indices {
        shape.insert(0, batch.size);
    }
    let axes: Vec<usize> = (1..shape.len()).collect();
    let ty = rule.ty(values).with_shape(shape);
    let mut spread = |value: Value, ty: &Type| rule.spread(value, &axes, ty);
    let (clipped, inside) = (spread(clipped, &ty), spread(inside, &ty.with_dtype(DType::Bool)));
    let fill = rule.spread(fill, &[0], &ty);
    smallvec![rule.select(inside, clipped, fill)]
}

fn batched_gather(op: &Gather, x: bool, indices: bool, size: usize) -> Gather {
    let mut op = op.clone();
    let dims = &mut op.dims;
    if !x && !indices {
        return op;
    }
    let shift = |axes: &mut Vec<usize>| axes.iter_mut().for_each(|a| *a += 1);
    shift(&mut dims.offset_dims);
    if x {
        shift(&mut dims.collapsed_slice_dims);
        shift(&mut dims.operand_batching_dims);
        shift(&mut dims.start_index_map);
        op.slice_sizes.insert(0, if indices { 1 } else { size });
    }
    if indices {
        shift(&mut dims.start_indices_batching_dims);
        dims.index_vector_dim += 1;
    }
    match (x, indices) {
        (true, true) => {
            dims.operand_batching_dims.insert(0, 0);
            dims.start_indices_batching_dims.insert(0, 0);
        }
        (true, false) => dims.offset_dims.insert(0, 0),
        _ => {}
    }
    op
}

/// As for a gather; operand and updates are both batched.
pub(crate) fn scatter_vmap(op: &Scatter, rule: &mut Rule<'_>, batch: Batch<'_>) -> Results {
    let gather = Gather {
        dims: op.dims.as_gather(),
        slice_sizes: Vec::new(),
        mode: GatherMode::Clip,
        unique_indices: op.unique_indices,
        indices_are_sorted: op.indices_are_sorted,
    };
    let dims = batched_gather(&gather, true, batch.operands[1], batch.size).dims;
    let op = Scatter { dims: ScatterDims::of_gather(&dims), ..op.clone() };
    let operands = [batch.operand(rule, 0), rule.operands[1], batch.operand(rule, 2)];
    smallvec![rule.add(op, &operands)]
}

/// Boxes at starts that differ along the batch: windows at index vectors, which clip as the
/// starts do.
pub(crate) fn dynamic_slice(op: &DynamicSlice, rule: &mut Rule<'_>, batch: Batch<'_>) -> Results {
    let x = rule.operands[0];
    let indices = starts(rule, batch, 1);
    let single = Gather {
        dims: boxes(op.sizes.len()),
        slice_sizes: op.sizes.clone(),
        mode: GatherMode::Clip,
        unique_indices: false,
        indices_are_sorted: false,
    };
    // Of one entry, the indices are one vector.
    let gather = batched_gather(&single, batch.operands[0], true, batch.size);
    smallvec![rule.add(gather, &[x, indices])]
}

/// As [`dynamic_slice`]; no two entries share an element.
pub(crate) fn dynamic_update_slice(rule: &mut Rule<'_>, batch: Batch<'_>) -> Results {
    let operands = [batch.operand(rule, 0), batch.operand(rule, 1)];
    let indices = starts(rule, batch, 2);
    let rank = rule.ty(operands[0]).shape.rank() - 1;
    let single = Gather {
        dims: boxes(rank),
        slice_sizes: Vec::new(),
        mode: GatherMode::Clip,
        unique_indices: true,
        indices_are_sorted: false,
    };
    let dims = batched_gather(&single, true, true, batch.size).dims;
    let scatter = Scatter {
        kind: ScatterKind::Set,
        dims: ScatterDims::of_gather(&dims),
        mode: ScatterMode::Clip,
        unique_indices: true,
        indices_are_sorted: false,
    };
    smallvec![rule.add(scatter, &[operands[0], indices, operands[1]])]
}

/// A box of rank `rank` at one index vector, as a window.
fn boxes(rank: usize) -> GatherDims {
    GatherDims {
        offset_dims: (0..rank).collect(),
        start_index_map: (0..rank).collect(),
        index_vector_dim: 0,
        ..GatherDims::default()
    }
}

/// The starts from operand `first` on as index vectors, one for each entry of the batch.
fn starts(rule: &mut Rule<'_>, batch: Batch<'_>, first: usize) -> Value {
    let columns: Vec<Value> = (first..rule.operands.len())
        .map(|i| {
            let mut start = batch.operand(rule, i);
            let ty = rule.ty(start);
            if ty.dtype == DType::U64 {
                // What no i64 holds is beyond every axis, as the greatest is.
                let most = constant(rule, &ty, Scalar::from_i128(DType::U64, i64::MAX.into()));
                start = rule.binary(Binary::Min, start, most);
            }
            if ty.dtype != DType::I64 {
                start = rule.add(Convert { to: DType::I64 }, &[start]);
            }
            rule.add(Reshape { shape: [batch.size, 1].into() }, &[start])
        })
        .collect();
    rule.add(Concatenate { axis: 1 }, &columns)
}
