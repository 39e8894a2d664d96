//! A tensor with windows at indices replaced, or combined with updates.

use smallvec::smallvec;

use super::{GatherDims, Names, Pattern, apart, patterns, result_shape, window_start};
use crate::derive::{Batch, Derived, NoRule, Results, Rule, indexed};
use crate::op::elementwise::Binary;
use crate::op::index::{indices as every, ravel};
use crate::op::{Attrs, Domain, InferError, Op, OpDef, Sample, Share, Types, check};
use crate::{DType, Form, Literal, Scalar, Shape, Type, Value};

/// Which axes of operand, indices and updates of a scatter belong together.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ScatterDims {
    /// Axes of the updates that run along a window, increasing.
    pub update_window_dims: Vec<usize>,
    /// Axes of the operand along which windows have one element, which updates lack,
    /// increasing.
    pub inserted_window_dims: Vec<usize>,
    /// Axes of the operand that the indices have too, increasing; windows have one
    /// element along them.
    pub operand_batching_dims: Vec<usize>,
    /// The axes of the indices that they are, in that order.
    pub scatter_indices_batching_dims: Vec<usize>,
    /// Axes of the operand that the elements of an index vector stand for.
    pub scatter_dims_to_operand_dims: Vec<usize>,
    /// The axis of the indices that holds index vectors; their rank, if each index is a
    /// vector of one.
    pub index_vector_dim: usize,
}

impl ScatterDims {
    /// The axes of the gather that reads the windows which this writes.
    pub fn as_gather(&self) -> GatherDims {
        GatherDims {
            offset_dims: self.update_window_dims.clone(),
            collapsed_slice_dims: self.inserted_window_dims.clone(),
            operand_batching_dims: self.operand_batching_dims.clone(),
            start_indices_batching_dims: self.scatter_indices_batching_dims.clone(),
            start_index_map: self.scatter_dims_to_operand_dims.clone(),
            index_vector_dim: self.index_vector_dim,
        }
    }

    /// The axes of the scatter that writes the windows which a gather reads.
    pub fn of_gather(dims: &GatherDims) -> ScatterDims {
        ScatterDims {
            update_window_dims: dims.offset_dims.clone(),
            inserted_window_dims: dims.collapsed_slice_dims.clone(),
            operand_batching_dims: dims.operand_batching_dims.clone(),
            scatter_indices_batching_dims: dims.start_indices_batching_dims.clone(),
            scatter_dims_to_operand_dims: dims.start_index_map.clone(),
            index_vector_dim: dims.index_vector_dim,
        }
    }

    /// Extents of a window, one for each axis of the operand.
    pub fn window_sizes(&self, operand: &Shape, updates: &Shape) -> Vec<usize> {
        let mut sizes = vec![1; operand.rank()];
        let window = self.as_gather().window_dims(operand.rank());
        for (axis, &of) in window.into_iter().zip(&self.update_window_dims) {
            sizes[axis] = updates[of];
        }
        sizes
    }
}

/// What an update does to the element that is there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ScatterKind {
    /// Replaces it: the last of several updates wins.
    Set,
    /// Is added to it.
    Add,
    /// Is multiplied by it.
    Mul,
    /// Replaces it by the lesser; NaN wins.
    Min,
    /// Replaces it by the greater; NaN wins.
    Max,
    /// Bitwise; logical for `bool`.
    And,
    /// Bitwise; logical for `bool`.
    Or,
    /// Bitwise; logical for `bool`.
    Xor,
}

impl ScatterKind {
    /// Every one.
    pub const ALL: [ScatterKind; 8] = [
        ScatterKind::Set,
        ScatterKind::Add,
        ScatterKind::Mul,
        ScatterKind::Min,
        ScatterKind::Max,
        ScatterKind::And,
        ScatterKind::Or,
        ScatterKind::Xor,
    ];

    /// The name of the op in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            ScatterKind::Set => "scatter",
            ScatterKind::Add => "scatter_add",
            ScatterKind::Mul => "scatter_mul",
            ScatterKind::Min => "scatter_min",
            ScatterKind::Max => "scatter_max",
            ScatterKind::And => "scatter_and",
            ScatterKind::Or => "scatter_or",
            ScatterKind::Xor => "scatter_xor",
        }
    }

    /// The function of what is there and the update; nothing where it is replaced.
    pub const fn combine(self) -> Option<Binary> {
        match self {
            ScatterKind::Set => None,
            ScatterKind::Add => Some(Binary::Add),
            ScatterKind::Mul => Some(Binary::Mul),
            ScatterKind::Min => Some(Binary::Min),
            ScatterKind::Max => Some(Binary::Max),
            ScatterKind::And => Some(Binary::And),
            ScatterKind::Or => Some(Binary::Or),
            ScatterKind::Xor => Some(Binary::Xor),
        }
    }
}

/// What a scatter does with a window that is out of range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScatterMode {
    /// Leaves it out, all of it.
    Drop,
    /// Moves it to the nearest place that is in range.
    Clip,
}

/// Operand 0 with the windows at operand 1, whose elements are integers, combined with
/// operand 2.
///
/// Updates of one element combine one after the other, in the row-major order of their
/// index vectors, starting with the operand's element. Half types are replaced, but not
/// combined: many small updates of a large element would leave it as it is. Whoever has
/// them converts to `f32` and rounds once, at the end, as `Tensor`'s methods do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scatter {
    /// How updates combine.
    pub kind: ScatterKind,
    /// Which axes are which.
    pub dims: ScatterDims,
    /// What happens out of range.
    pub mode: ScatterMode,
    /// A promise that no element is updated twice. It never changes a result.
    pub unique_indices: bool,
    /// A promise that index vectors increase. It never changes a result.
    pub indices_are_sorted: bool,
}

const NAMES: Names = Names {
    offset: "update_window_dims",
    collapsed: "inserted_window_dims",
    indices_batching: "scatter_indices_batching_dims",
    map: "scatter_dims_to_operand_dims",
};

impl OpDef for Scatter {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn attrs(&self) -> Attrs {
        let dims = &self.dims;
        let batching = &dims.scatter_indices_batching_dims;
        let attrs = Attrs::new()
            .ints_unless("update_window_dims", &dims.update_window_dims, &[])
            .ints_unless("inserted_window_dims", &dims.inserted_window_dims, &[])
            .ints_unless("operand_batching_dims", &dims.operand_batching_dims, &[])
            .ints_unless("scatter_indices_batching_dims", batching, &[])
            .ints("scatter_dims_to_operand_dims", &dims.scatter_dims_to_operand_dims)
            .int("index_vector_dim", dims.index_vector_dim);
        let attrs = match self.mode {
            ScatterMode::Drop => attrs.word("mode", "drop"),
            ScatterMode::Clip => attrs.word("mode", "clip"),
        };
        attrs
            .flag("unique_indices", self.unique_indices)
            .flag("indices_are_sorted", self.indices_are_sorted)
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        let kind = ScatterKind::ALL.into_iter().find(|kind| kind.name() == name)?;
        let mut parsed = || {
            Ok(Scatter {
                kind,
                dims: ScatterDims {
                    update_window_dims: attrs.take_ints_or("update_window_dims", &[])?,
                    inserted_window_dims: attrs.take_ints_or("inserted_window_dims", &[])?,
                    operand_batching_dims: attrs.take_ints_or("operand_batching_dims", &[])?,
                    scatter_indices_batching_dims: attrs
                        .take_ints_or("scatter_indices_batching_dims", &[])?,
                    scatter_dims_to_operand_dims: attrs
                        .take_ints("scatter_dims_to_operand_dims")?,
                    index_vector_dim: attrs.take_int("index_vector_dim")?,
                },
                mode: match attrs.take_word("mode")?.as_str() {
                    "drop" => ScatterMode::Drop,
                    "clip" => ScatterMode::Clip,
                    mode => return Err(format!("`mode` is drop or clip, got {mode}")),
                },
                unique_indices: attrs.take_flag("unique_indices")?,
                indices_are_sorted: attrs.take_flag("indices_are_sorted")?,
            })
        };
        Some(parsed())
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x, indices, updates] = check::operands(op, operands)?;
        if self.kind != ScatterKind::Set && x.dtype.is_half() {
            let message = format!("combines no {}: convert to f32, and the result back", x.dtype);
            return Err(InferError::new(op, message));
        }
        match self.kind {
            ScatterKind::Set => {}
            ScatterKind::Add => check::number(op, x)?,
            // The parts of a product are not products of the parts.
            ScatterKind::Mul => check::real_number(op, x)?,
            ScatterKind::And | ScatterKind::Or | ScatterKind::Xor => check::bits(op, x)?,
            ScatterKind::Min | ScatterKind::Max => check::ordered(op, x)?,
        }
        if updates.dtype != x.dtype {
            let message = format!("operand {x} and updates {updates} differ in element type");
            return Err(InferError::new(op, message));
        }
        let window = &self.dims.update_window_dims;
        if window.iter().any(|&a| a >= updates.shape.rank()) {
            let message = format!("update_window_dims {window:?} are out of range for {updates}");
            return Err(InferError::new(op, message));
        }
        let sizes = self.dims.window_sizes(&x.shape, &updates.shape);
        let dims = self.dims.as_gather();
        let wanted = result_shape(op, &NAMES, &dims, &sizes, x, indices)?;
        if updates.shape != wanted {
            let message = format!("{x} at {indices} wants updates {wanted}, got {updates}");
            return Err(InferError::new(op, message));
        }
        for (axis, (&size, &extent)) in sizes.iter().zip(x.shape.iter()).enumerate() {
            // Nothing is dropped but windows: a single element is always out of an empty axis.
            if size > extent.max(usize::from(self.mode == ScatterMode::Drop)) {
                let message = format!("a window has size {size}, {x} axis {axis} is {extent}");
                return Err(InferError::new(op, message));
            }
        }
        check::result(op, x.dtype, x.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let (x, indices, updates) = (operands[0], operands[1], operands[2]);
        let (extents, dims) = (&x.ty().shape, self.dims.as_gather());
        let rank = extents.rank();
        let mut result: Vec<Scalar> = x.iter().collect();
        let sizes = self.dims.window_sizes(extents, &updates.ty().shape);
        let window_axes = &self.dims.update_window_dims;
        // By index vectors first: each window has an element once.
        let mut order: Vec<Vec<usize>> =
            every(&updates.ty().shape).map(|index| index.to_vec()).collect();
        order.sort_by_key(|index| -> Vec<usize> {
            let position = index.iter().enumerate().filter(|(a, _)| !window_axes.contains(a));
            position.map(|(_, &i)| i).collect()
        });
        'updates: for index in &order {
            let (position, mut place) = apart(&dims, rank, index);
            let start = window_start(&dims, rank, indices, &position);
            for axis in 0..rank {
                let room = extents[axis] as i128 - sizes[axis] as i128;
                if self.mode == ScatterMode::Drop && !(0..=room).contains(&start[axis]) {
                    continue 'updates;
                }
                place[axis] += start[axis].clamp(0, room) as usize;
            }
            let at = ravel(extents, &place);
            let update = updates.get(ravel(&updates.ty().shape, index));
            result[at] = match self.kind.combine() {
                None => update,
                Some(f) => f.apply(result[at], update),
            };
        }
        vec![Literal::from_fn(results[0].clone(), |i| result[i])]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        indexed::scatter_jvp(self, rule, tangents)
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        match cotangents[0] {
            Some(ct) => indexed::scatter_vjp(self, rule, ct),
            None => Ok(smallvec![None, None, None]),
        }
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(indexed::scatter_vmap(self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Update
    }

    fn lower(&self) -> Form {
        Form::Scatter(self.clone())
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut add = |kind, mode, x: Type, index: DType, pattern: &Pattern, domain: Domain| {
            let op = Scatter {
                kind,
                dims: ScatterDims::of_gather(&pattern.dims),
                mode,
                unique_indices: false,
                indices_are_sorted: false,
            };
            let indices = Type::new(index, pattern.indices);
            let shape = result_shape("scatter", &NAMES, &pattern.dims, pattern.sizes, &x, &indices);
            let updates = x.with_shape(shape.expect("patterns are well typed"));
            samples.push(Sample { op: op.into(), operands: vec![x, indices, updates], domain });
        };
        // Indices all over the type are mostly out of range, small ones mostly in it.
        let near = Domain::Range(-3.0, 14.0);
        let (drop, clip) = (ScatterMode::Drop, ScatterMode::Clip);
        let mut index = DType::ALL.into_iter().filter(|d| d.is_integer()).cycle();
        let mut index = || index.next().expect("endless");
        for pattern in patterns() {
            let x = Type::new(DType::F32, pattern.x);
            for (kind, far) in [(ScatterKind::Set, Domain::Any), (ScatterKind::Add, Domain::Small)]
            {
                add(kind, drop, x.clone(), index(), &pattern, near);
                add(kind, clip, x.clone(), index(), &pattern, far);
            }
        }
        let (rows, elements) = (&patterns()[0], &patterns()[4]);
        for kind in ScatterKind::ALL {
            for (i, dtype) in DType::ALL.into_iter().enumerate() {
                let takes = match kind {
                    ScatterKind::Set => true,
                    ScatterKind::Min | ScatterKind::Max => !dtype.is_complex(),
                    ScatterKind::Add => dtype != DType::Bool,
                    ScatterKind::Mul => dtype != DType::Bool && !dtype.is_complex(),
                    ScatterKind::And | ScatterKind::Or | ScatterKind::Xor => !dtype.is_inexact(),
                };
                if !takes || (kind != ScatterKind::Set && dtype.is_half()) {
                    continue;
                }
                let usual = matches!(dtype, DType::F32 | DType::I32 | DType::Bool);
                if usual || i % 2 == 0 {
                    add(kind, drop, Type::new(dtype, rows.x), index(), rows, near);
                }
                if usual || i % 2 == 1 {
                    add(kind, clip, Type::new(dtype, elements.x), index(), elements, near);
                }
            }
        }
        // One window keeps every promise.
        let one = &patterns()[2];
        for kind in [ScatterKind::Set, ScatterKind::Add, ScatterKind::Mul, ScatterKind::Max] {
            add(kind, drop, Type::new(DType::F32, one.x), index(), one, near);
        }
        let last = samples.len() - 4;
        for sample in &mut samples[last..] {
            let Op::Scatter(scatter) = &mut sample.op else { unreachable!("added above") };
            (scatter.unique_indices, scatter.indices_are_sorted) = (true, true);
        }
        samples
    }
}
