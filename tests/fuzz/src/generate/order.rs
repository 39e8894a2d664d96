//! Random sorts, by keys and by comparators.

use kiln_ir::op::{Comparator, Compare, Iota, Sort, SortBy, TopK, Unary};
use kiln_ir::{DType, Graph, ParameterInfo, Type, Value};

use super::{Generator, Known};

impl Generator {
    /// A sort by exact keys or by a comparator, which may well contradict itself, or the
    /// greatest of each row.
    pub(super) fn sort(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        if ty.shape.rank() == 0 || self.is_rough(i) {
            return;
        }
        let first = self.known[i].value;
        if self.random.one_in(3) {
            let length = ty.shape[ty.shape.rank() - 1];
            let k = if self.random.one_in(2) { length } else { length.min(5) };
            let k = self.random.below(k + 1);
            return self.add(TopK { k }, &[first], true, 1);
        }
        let axis = self.random.below(ty.shape.rank());
        let mut operands = vec![i];
        while operands.len() < 4 && self.random.one_in(2) {
            let dtype = self.dtype();
            if self.random.one_in(3) && dtype.is_integer() {
                self.add(Iota { ty: ty.with_dtype(dtype), axis }, &[], true, 1);
                operands.push(self.known.len() - 1);
            } else {
                operands.push(self.of_type(&ty.with_dtype(dtype)));
            }
        }
        if operands.iter().any(|&o| self.ty(o).dtype.is_complex()) {
            return;
        }
        let keys = operands.iter().take_while(|&&o| self.known[o].exact).count();
        let count = 1 + self.random.below(keys);
        // A comparator is interpreted for every comparison.
        let by = if ty.elements() <= 300 && self.random.one_in(3) {
            let types: Vec<DType> = operands.iter().map(|&o| self.ty(o).dtype).collect();
            SortBy::Function(self.comparator(&types, count - 1))
        } else {
            let descending = (0..count).filter(|_| self.random.one_in(2)).collect();
            SortBy::Keys { count, descending }
        };
        let values: Vec<Value> = operands.iter().map(|&o| self.known[o].value).collect();
        let Ok(node) = self.graph.add(Sort { axis, by }, &values, None) else { return };
        for (value, &o) in self.graph.results(node).zip(&operands) {
            let (exact, depth) = (self.known[o].exact, self.known[o].depth);
            self.known.push(Known { value, exact, depth });
        }
    }

    /// Compares elements of operand `key`, perhaps after a function of each.
    pub(super) fn comparator(&mut self, types: &[DType], key: usize) -> Comparator {
        let mut graph = Graph::new("before");
        let mut sides = Vec::new();
        for (k, &dtype) in types.iter().enumerate() {
            for _ in 0..2 {
                let x = graph.add_parameter(Type::scalar(dtype), ParameterInfo::default());
                if k == key {
                    sides.push(x);
                }
            }
        }
        let f = self.random.pick(&[Unary::Abs, Unary::Neg, Unary::Not, Unary::Sign]);
        for side in &mut sides {
            // Not every type has every function.
            *side = graph.add1(f, &[*side], None).unwrap_or(*side);
        }
        let compare = self.random.pick(&Compare::ALL);
        let before = graph.add1(compare, &sides, None).expect("every type compares");
        graph.add_output(before, "");
        Comparator(std::sync::Arc::new(graph))
    }
}
