//! Random folds: running results, windows, and reductions with random bodies.
//!
//! Bodies hold only ops that are defined to the bit, so a fold with a body of exact
//! values is exact whatever its order.

use std::sync::Arc;

use kiln_ir::op::{
    Binary, Clamp, Compare, Constant, Convert, Cumulative, CumulativeKind, ReduceBy, ReduceKind,
    ReduceWindow, Select, Unary, Window, WindowCombine,
};
use kiln_ir::{DType, Graph, Literal, Op, ParameterInfo, Type, Value};

use super::Generator;

/// Most bodies that the interpreter applies for one fold.
const STEPS: usize = 3000;

impl Generator {
    pub(super) fn fold(&mut self) {
        match self.random.below(3) {
            0 => self.cumulative(),
            1 => self.window(),
            _ => self.reduce_by(),
        }
    }

    fn cumulative(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        if ty.shape.rank() == 0 {
            return;
        }
        let axis = self.random.below(ty.shape.rank());
        let kind = self.random.pick(&CumulativeKind::ALL);
        let reverse = self.random.one_in(3);
        let (value, exact, depth) = (self.known[i].value, self.known[i].exact, self.known[i].depth);
        let float = ty.dtype.is_float();
        let (exact, depth) = match kind {
            CumulativeKind::Min | CumulativeKind::Max => (exact, depth),
            CumulativeKind::Sum | CumulativeKind::Prod if !float => (exact, depth),
            CumulativeKind::Sum if self.rough => (false, 3),
            // The interpreter takes every prefix by itself.
            CumulativeKind::LogSumExp if self.rough && ty.shape[axis] <= 600 => (false, 3),
            _ => return,
        };
        self.add(Cumulative { kind, axis, reverse }, &[value], exact, depth);
    }

    fn geometry(&mut self, shape: &[usize]) -> Window {
        let mut window = Window::new(vec![1; shape.len()], vec![1; shape.len()]);
        for (k, &extent) in shape.iter().enumerate() {
            if self.random.one_in(3) {
                continue;
            }
            window.size[k] = self.random.pick(&[1, 2, 2, 3, 3, 4, 7, 33]);
            window.stride[k] = self.random.pick(&[1, 1, 2, 3]);
            window.window_dilation[k] = self.random.pick(&[1, 1, 1, 2, 5]);
            if extent <= 300 {
                window.base_dilation[k] = self.random.pick(&[1, 1, 1, 2, 3]);
            }
            let mut side = || self.random.pick(&[0, 0, 1, 2, 6, -1, -2]);
            window.padding[k] = (side(), side());
        }
        window
    }

    fn window(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let window = self.geometry(&ty.shape);
        let steps = window.count(&ty.shape).elements() * window.size.iter().product::<usize>();
        let (value, exact, depth) = (self.known[i].value, self.known[i].exact, self.known[i].depth);
        if self.random.one_in(2) && steps <= STEPS {
            let Some((operands, body)) = self.body(i) else { return };
            let combine = WindowCombine::Body(body);
            self.add(ReduceWindow { combine, window }, &operands, true, depth);
            return;
        }
        let kind = self.random.pick(&ReduceKind::ALL);
        let sum = matches!(kind, ReduceKind::Sum | ReduceKind::Prod) && ty.dtype.is_float();
        if steps > 100 * STEPS || sum && (kind == ReduceKind::Prod || !self.rough) {
            return;
        }
        let (exact, depth) = if sum { (false, 3) } else { (exact, depth) };
        let combine = WindowCombine::Kind(kind);
        self.add(ReduceWindow { combine, window }, &[value], exact, depth);
    }

    fn reduce_by(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        if ty.elements() > STEPS {
            return;
        }
        let axes = self.axes(ty.shape.rank());
        let Some((operands, body)) = self.body(i) else { return };
        let depth = self.known[i].depth;
        self.add(ReduceBy { body, axes }, &operands, true, depth);
    }

    /// A body for value `i` and perhaps others of its shape, with all its operands.
    fn body(&mut self, i: usize) -> Option<(Vec<Value>, Arc<Graph>)> {
        let ty = self.ty(i);
        let mut arrays = vec![i];
        while arrays.len() < 3 && self.random.one_in(2) {
            let dtype = self.dtype();
            arrays.push(self.of_type(&ty.with_dtype(dtype)));
        }
        let dtypes: Vec<DType> = arrays.iter().map(|&a| self.ty(a).dtype).collect();
        let inits: Vec<usize> =
            dtypes.iter().map(|&dtype| self.of_type(&Type::scalar(dtype))).collect();
        let all = || arrays.iter().chain(&inits);
        if all().any(|&o| self.is_rough(o)) {
            return None;
        }
        let operands = all().map(|&o| self.known[o].value).collect();

        let mut graph = Graph::new("body");
        let parameter =
            |&dtype: &DType| graph.add_parameter(Type::scalar(dtype), ParameterInfo::default());
        let mut pool: Vec<Value> = dtypes.iter().chain(&dtypes).map(parameter).collect();
        for _ in 0..2 + self.random.below(6) {
            if let Some(value) = self.scalar_op(&mut graph, &pool) {
                pool.push(value);
            }
        }
        for (k, &dtype) in dtypes.iter().enumerate() {
            // The newest value of the type; now and then any.
            let fits: Vec<Value> =
                pool.iter().copied().filter(|&v| graph.ty(v).dtype == dtype).collect();
            let newest = *fits.last().expect("the carry has the type");
            let any = fits[self.random.below(fits.len())];
            graph.add_output(if self.random.one_in(4) { any } else { newest }, k.to_string());
        }
        Some((operands, Arc::new(graph)))
    }

    /// An op on some scalars that is defined to the bit, if it takes those drawn.
    fn scalar_op(&mut self, graph: &mut Graph, pool: &[Value]) -> Option<Value> {
        let a = pool[self.random.below(pool.len())];
        let dtype = graph.ty(a).dtype;
        let like = |generator: &mut Generator, graph: &mut Graph, dtype: DType| {
            let fits: Vec<Value> =
                pool.iter().copied().filter(|&v| graph.ty(v).dtype == dtype).collect();
            if fits.is_empty() || generator.random.one_in(5) {
                let value = Literal::scalar(generator.random.scalar(dtype, false));
                return graph.add1(Constant { value }, &[], None).expect("constants fit");
            }
            fits[generator.random.below(fits.len())]
        };
        let exact = [Unary::Neg, Unary::Abs, Unary::Not, Unary::Sign, Unary::Floor, Unary::Sqrt];
        let (op, operands): (Op, Vec<Value>) = match self.random.below(6) {
            0 => (self.random.pick(&exact).into(), vec![a]),
            1 | 2 => {
                let f = self.random.pick(&Binary::ALL);
                if f == Binary::Pow && dtype.is_float() {
                    return None;
                }
                (f.into(), vec![a, like(self, graph, dtype)])
            }
            3 => (self.random.pick(&Compare::ALL).into(), vec![a, like(self, graph, dtype)]),
            4 => {
                let (b, p) = (like(self, graph, dtype), like(self, graph, DType::Bool));
                (Select.into(), vec![p, a, b])
            }
            _ if self.random.one_in(2) => {
                (Clamp.into(), vec![a, like(self, graph, dtype), like(self, graph, dtype)])
            }
            _ => (Convert { to: self.dtype() }.into(), vec![a]),
        };
        graph.add1(op, &operands, None).ok()
    }
}
