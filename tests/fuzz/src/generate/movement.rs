//! Random views, and boxes at starts that are data.

use kiln_ir::op::{
    Broadcast, Concatenate, Constant, DynamicSlice, DynamicUpdateSlice, Pad, Reshape, Reverse,
    Slice, Transpose,
};
use kiln_ir::{DType, Literal, Scalar, Type, Value};

use super::Generator;

impl Generator {
    pub(super) fn broadcast(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let mut dims = Vec::new();
        let mut axes = Vec::new();
        let mut room = self.elements / ty.shape.checked_elements().unwrap_or(1).max(1);
        for &d in ty.shape.iter() {
            while dims.len() < 5 && self.random.one_in(3) {
                let extra = self.random.below(room.min(40) + 1);
                room /= extra.max(1);
                dims.push(extra);
            }
            axes.push(dims.len());
            let stretched = if d == 1 && self.random.one_in(2) {
                self.random.below(room.min(70) + 1)
            } else {
                d
            };
            room /= (stretched / d.max(1)).max(1);
            dims.push(stretched);
        }
        if dims.len() < 5 && self.random.one_in(2) {
            dims.push(self.random.below(room.min(70) + 1));
        }
        let k = &self.known[i];
        let (value, exact, depth) = (k.value, k.exact, k.depth);
        self.add(Broadcast { shape: dims.into(), axes }, &[value], exact, depth);
    }

    pub(super) fn reshape(&mut self) {
        let i = self.any();
        let n = self.ty(i).elements();
        let mut dims = Vec::new();
        let mut left = n;
        while left > 1 && dims.len() < 4 {
            let divisors: Vec<usize> =
                (1..=left.min(600)).filter(|d| left.is_multiple_of(*d)).collect();
            let d = self.random.pick(&divisors);
            dims.push(d);
            left /= d;
        }
        if left != 1 || dims.is_empty() || self.random.one_in(3) {
            let at = self.random.below(dims.len() + 1);
            dims.insert(at, left);
        }
        let k = &self.known[i];
        let (value, exact, depth) = (k.value, k.exact, k.depth);
        self.add(Reshape { shape: dims.into() }, &[value], exact, depth);
    }

    pub(super) fn permute(&mut self) {
        let i = self.any();
        let rank = self.ty(i).shape.rank();
        let k = &self.known[i];
        let (value, exact, depth) = (k.value, k.exact, k.depth);
        if self.random.one_in(2) {
            let axes: Vec<usize> = (0..rank).filter(|_| self.random.one_in(2)).collect();
            self.add(Reverse { axes }, &[value], exact, depth);
        } else {
            let mut permutation: Vec<usize> = (0..rank).collect();
            for j in (1..rank).rev() {
                permutation.swap(j, self.random.below(j + 1));
            }
            self.add(Transpose { permutation }, &[value], exact, depth);
        }
    }

    pub(super) fn slice(&mut self) {
        let i = self.any();
        let shape = self.ty(i).shape;
        let (mut start, mut limit, mut stride) = (vec![], vec![], vec![]);
        for &d in shape.iter() {
            let s = if self.random.one_in(2) { 0 } else { self.random.below(d + 1) };
            let e = if self.random.one_in(2) { d } else { s + self.random.below(d - s + 1) };
            start.push(s);
            limit.push(e.max(s));
            stride.push(self.random.pick(&[1, 1, 1, 2, 3, 7]));
        }
        let k = &self.known[i];
        let (value, exact, depth) = (k.value, k.exact, k.depth);
        self.add(Slice { start, limit, stride }, &[value], exact, depth);
    }

    pub(super) fn pad(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let rank = ty.shape.rank();
        let mut ends = || -> Vec<i64> {
            (0..rank).map(|_| self.random.pick(&[0, 0, 0, 1, 2, 5, -1, -2])).collect()
        };
        let (low, high) = (ends(), ends());
        let interior: Vec<usize> = (0..rank).map(|_| self.random.pick(&[0, 0, 0, 1, 2])).collect();
        let j = self.of_type(&Type::scalar(ty.dtype));
        let exact = self.known[i].exact && self.known[j].exact;
        let depth = self.known[i].depth.max(self.known[j].depth);
        let (a, b) = (self.known[i].value, self.known[j].value);
        self.add(Pad { low, high, interior }, &[a, b], exact, depth);
    }

    pub(super) fn concatenate(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let rank = ty.shape.rank();
        if rank == 0 {
            return;
        }
        let axis = self.random.below(rank);
        let mut parts = vec![i];
        // From five pieces on, lowering cuts the space at the joints.
        let more = if self.random.one_in(4) { self.random.below(20) } else { self.random.below(4) };
        for _ in 0..more {
            let mut dims = ty.shape.to_vec();
            if self.random.one_in(2) {
                dims[axis] = self.random.pick(&[0, 1, 2, 3, 8, 17]);
            }
            parts.push(self.of_type(&ty.with_shape(dims)));
        }
        let total: usize = parts.iter().map(|&p| self.ty(p).elements()).sum();
        if total > 2 * self.elements {
            return;
        }
        let exact = parts.iter().all(|&p| self.known[p].exact);
        let depth = parts.iter().map(|&p| self.known[p].depth).max().unwrap_or(0);
        let values: Vec<Value> = parts.iter().map(|&p| self.known[p].value).collect();
        self.add(Concatenate { axis }, &values, exact, depth);
    }

    pub(super) fn dynamic(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let sizes: Vec<usize> = ty
            .shape
            .iter()
            .map(|&d| if self.random.one_in(3) { d } else { self.random.below(d + 1) })
            .collect();
        let index = self.random.pick(&[DType::I32, DType::I64, DType::U8, DType::I8, DType::U32]);
        let mut operands = vec![self.known[i].value];
        let (mut exact, mut depth) = (self.known[i].exact, self.known[i].depth);
        let update = self.random.one_in(2);
        if update {
            let j = self.of_type(&ty.with_shape(sizes.clone()));
            exact &= self.known[j].exact;
            depth = depth.max(self.known[j].depth);
            operands.push(self.known[j].value);
        }
        for &d in ty.shape.iter() {
            let j = if self.random.one_in(2) {
                self.of_type(&Type::scalar(index))
            } else {
                let start = self.random.below(d + 3) as i128 - 1;
                let start = Literal::scalar(Scalar::from_i128(index, start));
                self.add(Constant { value: start }, &[], true, 0);
                self.known.len() - 1
            };
            operands.push(self.known[j].value);
        }
        if update {
            self.add(DynamicUpdateSlice, &operands, exact, depth);
        } else {
            self.add(DynamicSlice { sizes }, &operands, exact, depth);
        }
    }
}
