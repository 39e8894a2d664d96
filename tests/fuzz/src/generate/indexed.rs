//! Random gathers and scatters.

use kiln_ir::op::{
    Constant, Gather, GatherDims, GatherMode, Scatter, ScatterDims, ScatterKind, ScatterMode,
};
use kiln_ir::{DType, Literal, OpDef, ParameterInfo, Scalar, Type};

use super::{Generator, Known};

impl Generator {
    /// A gather or a scatter with random axes of every kind.
    pub(super) fn indexed(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let mut dims = GatherDims::default();
        let (mut sizes, mut window) = (ty.shape.to_vec(), 0);
        // Axes of the indices but that of vectors, batching ones among them.
        let mut positions: Vec<usize> =
            (0..self.random.below(3)).map(|_| self.random.pick(&[0, 1, 2, 3, 5, 8, 17])).collect();
        let free = positions.len();
        for (axis, size) in sizes.iter_mut().enumerate() {
            match self.random.below(5) {
                0 if self.random.one_in(2) && ty.shape[axis] < 70 => {
                    dims.operand_batching_dims.push(axis);
                    dims.start_indices_batching_dims.push(positions.len());
                    positions.push(ty.shape[axis]);
                    *size = 1;
                    continue;
                }
                0 | 1 => {
                    dims.collapsed_slice_dims.push(axis);
                    dims.start_index_map.push(axis);
                    *size = 1;
                    continue;
                }
                2 => {
                    dims.start_index_map.push(axis);
                    *size = self.random.below(ty.shape[axis] + 1).min(9);
                }
                _ => {}
            }
            window += 1;
        }
        for j in (1..dims.start_index_map.len()).rev() {
            dims.start_index_map.swap(j, self.random.below(j + 1));
        }
        // The batching axes come first or last.
        if free > 0 && self.random.one_in(2) {
            positions.rotate_left(free);
            dims.start_indices_batching_dims.iter_mut().for_each(|a| *a -= free);
        }
        let vector = self.random.below(positions.len() + 1);
        let mut shape = positions.clone();
        dims.index_vector_dim = vector;
        if dims.start_index_map.len() == 1 && self.random.one_in(2) {
            dims.index_vector_dim = shape.len();
        } else {
            shape.insert(vector, dims.start_index_map.len());
            dims.start_indices_batching_dims
                .iter_mut()
                .filter(|a| **a >= vector)
                .for_each(|a| *a += 1);
        }
        let mut order: Vec<usize> = (0..positions.len() + window).collect();
        for j in (1..order.len()).rev() {
            order.swap(j, self.random.below(j + 1));
        }
        dims.offset_dims = order[..window].to_vec();
        dims.offset_dims.sort_unstable();

        // Indices near the operand, as constants, or whatever is at hand.
        let index = self.random.pick(&[DType::I32, DType::I32, DType::I64, DType::U8, DType::I8]);
        let indices = Type::new(index, shape);
        if indices.elements() > 4096 {
            return;
        }
        let j = if self.random.one_in(3) {
            self.of_type(&indices)
        } else {
            let most = ty.shape.iter().copied().max().unwrap_or(0).min(100) + 2;
            let random = &mut self.random;
            let value = Literal::from_fn(indices, |_| {
                Scalar::from_i128(index, random.below(most) as i128 - 1)
            });
            if self.nested || self.random.one_in(2) {
                self.add(Constant { value }, &[], true, 0);
            } else {
                let info = ParameterInfo { name: String::new(), donated: false };
                let parameter = self.graph.add_parameter(value.ty().clone(), info);
                self.arguments.push(value);
                self.known.push(Known { value: parameter, exact: true, depth: 0 });
            }
            self.known.len() - 1
        };
        let (x, at) = (self.known[i].value, self.known[j].value);
        let (exact, depth) = (self.known[i].exact && self.known[j].exact, self.known[i].depth);
        let mode = self.random.pick(&[GatherMode::Clip, GatherMode::Fill]);
        let (unique_indices, indices_are_sorted) = (false, false);
        let gather = Gather {
            dims: dims.clone(),
            slice_sizes: sizes,
            mode: GatherMode::Clip,
            unique_indices,
            indices_are_sorted,
        };
        if self.random.one_in(2) {
            let mut operands = vec![x, at];
            if mode == GatherMode::Fill {
                let fill = self.of_type(&Type::scalar(ty.dtype));
                operands.push(self.known[fill].value);
                let exact = exact && self.known[fill].exact;
                return self.add(Gather { mode, ..gather }, &operands, exact, depth.max(1));
            }
            return self.add(gather, &operands, exact, depth);
        }
        // What the gather would give is what updates look like.
        let types = [&ty, &self.graph.ty(at).clone()];
        let Ok(updates) = gather.infer(&types) else { return };
        if updates[0].elements() > self.elements {
            return;
        }
        let k = self.of_type(&updates[0]);
        let kind = match ty.dtype {
            d if d.is_half() => ScatterKind::Set,
            d if d.is_float() => {
                let kinds =
                    [ScatterKind::Set, ScatterKind::Add, ScatterKind::Min, ScatterKind::Max];
                self.random.pick(&kinds)
            }
            _ => self.random.pick(&ScatterKind::ALL),
        };
        let exact = exact && self.known[k].exact;
        // Sums of rough values may cancel, as those of reductions do.
        let depth = match kind {
            ScatterKind::Add if !exact => 3,
            _ => depth.max(self.known[k].depth),
        };
        let mode = self.random.pick(&[ScatterMode::Drop, ScatterMode::Clip]);
        let dims = ScatterDims::of_gather(&dims);
        let scatter = Scatter { kind, dims, mode, unique_indices, indices_are_sorted };
        self.add(scatter, &[x, at, self.known[k].value], exact, depth);
    }
}
