//! Windows of a tensor at indices, as a new tensor.

use smallvec::smallvec;

use super::{Names, apart, patterns, result_shape, window_start};
use crate::derive::{Batch, Derived, NoRule, Results, Rule, indexed};
use crate::op::index::{ravel, unravel};
use crate::op::{Attrs, Domain, InferError, OpDef, Sample, Share, Types, check, sample};
use crate::{DType, Form, Literal, Type, Value};

/// Which axes of operand, indices and result of a gather belong together.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct GatherDims {
    /// Axes of the result that run along a window, increasing.
    pub offset_dims: Vec<usize>,
    /// Axes of the operand along which windows have one element, which the result lacks,
    /// increasing.
    pub collapsed_slice_dims: Vec<usize>,
    /// Axes of the operand that the indices have too, increasing; windows have one
    /// element along them.
    pub operand_batching_dims: Vec<usize>,
    /// The axes of the indices that they are, in that order.
    pub start_indices_batching_dims: Vec<usize>,
    /// Axes of the operand that the elements of an index vector stand for.
    pub start_index_map: Vec<usize>,
    /// The axis of the indices that holds index vectors; their rank, if each index is a
    /// vector of one.
    pub index_vector_dim: usize,
}

impl GatherDims {
    /// The axes of an operand of rank `rank` that windows have, in the order of
    /// [`GatherDims::offset_dims`].
    pub fn window_dims(&self, rank: usize) -> Vec<usize> {
        let dropped = [&self.collapsed_slice_dims[..], &self.operand_batching_dims].concat();
        (0..rank).filter(|a| !dropped.contains(a)).collect()
    }

    /// The axes of a result of rank `rank` that are no part of windows: one for each axis
    /// of the indices but that of index vectors.
    pub fn position_dims(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|a| !self.offset_dims.contains(a)).collect()
    }
}

/// What a gather gives for a window that is out of range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum GatherMode {
    /// The nearest window that is in range.
    Clip,
    /// The fill value, operand 2, everywhere.
    Fill,
}

/// The windows of operand 0 at operand 1, whose elements are integers. With
/// [`GatherMode::Fill`], operand 2 is a rank-0 fill value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Gather {
    /// Which axes are which.
    pub dims: GatherDims,
    /// Extents of a window, one for each axis of operand 0.
    pub slice_sizes: Vec<usize>,
    /// What is given out of range.
    pub mode: GatherMode,
    /// A promise that no two index vectors are equal. It never changes a result.
    pub unique_indices: bool,
    /// A promise that index vectors increase. It never changes a result.
    pub indices_are_sorted: bool,
}

const NAMES: Names = Names {
    offset: "offset_dims",
    collapsed: "collapsed_slice_dims",
    indices_batching: "start_indices_batching_dims",
    map: "start_index_map",
};

impl OpDef for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn attrs(&self) -> Attrs {
        let dims = &self.dims;
        let attrs = Attrs::new()
            .ints_unless("offset_dims", &dims.offset_dims, &[])
            .ints_unless("collapsed_slice_dims", &dims.collapsed_slice_dims, &[])
            .ints_unless("operand_batching_dims", &dims.operand_batching_dims, &[])
            .ints_unless("start_indices_batching_dims", &dims.start_indices_batching_dims, &[])
            .ints("start_index_map", &dims.start_index_map)
            .int("index_vector_dim", dims.index_vector_dim)
            .ints("slice_sizes", &self.slice_sizes);
        let attrs = match self.mode {
            GatherMode::Clip => attrs.word("mode", "clip"),
            GatherMode::Fill => attrs.word("mode", "fill"),
        };
        attrs
            .flag("unique_indices", self.unique_indices)
            .flag("indices_are_sorted", self.indices_are_sorted)
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "gather").then(|| {
            Ok(Gather {
                dims: GatherDims {
                    offset_dims: attrs.take_ints_or("offset_dims", &[])?,
                    collapsed_slice_dims: attrs.take_ints_or("collapsed_slice_dims", &[])?,
                    operand_batching_dims: attrs.take_ints_or("operand_batching_dims", &[])?,
                    start_indices_batching_dims: attrs
                        .take_ints_or("start_indices_batching_dims", &[])?,
                    start_index_map: attrs.take_ints("start_index_map")?,
                    index_vector_dim: attrs.take_int("index_vector_dim")?,
                },
                slice_sizes: attrs.take_ints("slice_sizes")?,
                mode: match attrs.take_word("mode")?.as_str() {
                    "clip" => GatherMode::Clip,
                    "fill" => GatherMode::Fill,
                    mode => return Err(format!("`mode` is clip or fill, got {mode}")),
                },
                unique_indices: attrs.take_flag("unique_indices")?,
                indices_are_sorted: attrs.take_flag("indices_are_sorted")?,
            })
        })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let (x, indices) = match self.mode {
            GatherMode::Clip => {
                let [x, indices] = check::operands(op, operands)?;
                (x, indices)
            }
            GatherMode::Fill => {
                let [x, indices, fill] = check::operands(op, operands)?;
                if *fill != Type::scalar(x.dtype) {
                    let message = format!("wants a rank-0 {} to fill with, got {fill}", x.dtype);
                    return Err(InferError::new(op, message));
                }
                (x, indices)
            }
        };
        let shape = result_shape(op, &NAMES, &self.dims, &self.slice_sizes, x, indices)?;
        for (axis, (&size, &extent)) in self.slice_sizes.iter().zip(x.shape.iter()).enumerate() {
            if size > extent {
                let message = format!("a window has size {size}, {x} axis {axis} is {extent}");
                return Err(InferError::new(op, message));
            }
        }
        check::result(op, x.dtype, shape)
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let (x, indices) = (operands[0], operands[1]);
        let extents = &x.ty().shape;
        vec![Literal::from_fn(results[0].clone(), |i| {
            let index = unravel(&results[0].shape, i);
            let (position, mut place) = apart(&self.dims, extents.rank(), &index);
            let start = window_start(&self.dims, extents.rank(), indices, &position);
            for axis in 0..extents.rank() {
                let room = (extents[axis] - self.slice_sizes[axis]) as i128;
                if self.mode == GatherMode::Fill && !(0..=room).contains(&start[axis]) {
                    return operands[2].get(0);
                }
                place[axis] += start[axis].clamp(0, room) as usize;
            }
            x.get(ravel(extents, &place))
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(indexed::gather_jvp(self, rule, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(cotangents[0]
            .map_or(smallvec![None; rule.operands.len()], |ct| indexed::gather_vjp(self, rule, ct)))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(indexed::gather_vmap(self, rule, batch))
    }

    fn share(&self) -> Share {
        // An element is read for many, in any order.
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::Gather(self.clone())
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut add =
            |x: Type, index: DType, sizes: &[usize], dims: &GatherDims, shape: &[usize]| {
                for mode in [GatherMode::Clip, GatherMode::Fill] {
                    let op = Gather {
                        dims: dims.clone(),
                        slice_sizes: sizes.to_vec(),
                        mode,
                        unique_indices: false,
                        indices_are_sorted: false,
                    };
                    let mut operands = vec![x.clone(), Type::new(index, shape)];
                    operands.extend((mode == GatherMode::Fill).then(|| Type::scalar(x.dtype)));
                    // Indices all over the type are mostly out of range, small ones mostly in it.
                    for domain in [Domain::Any, Domain::Range(-3.0, 14.0)] {
                        samples.push(Sample {
                            op: op.clone().into(),
                            operands: operands.clone(),
                            domain,
                        });
                    }
                }
            };
        let indices = DType::ALL.into_iter().filter(|d| d.is_integer()).cycle();
        for (pattern, index) in patterns().iter().zip(indices.clone()) {
            add(
                Type::new(DType::F32, pattern.x),
                index,
                pattern.sizes,
                &pattern.dims,
                pattern.indices,
            );
        }
        let rows = &patterns()[0];
        for (x, index) in sample::typed(rows.x).zip(indices.clone()) {
            add(x, index, rows.sizes, &rows.dims, rows.indices);
        }
        let elements = &patterns()[4];
        for (x, index) in sample::typed(elements.x).zip(indices.skip(3)) {
            add(x, index, elements.sizes, &elements.dims, elements.indices);
        }
        samples
    }
}
