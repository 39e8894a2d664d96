//! Running both sides of a rewrite, and what they are run on.

use std::collections::BTreeSet;

use kiln_ir::op::{Broadcast, Constant};
use kiln_ir::{DType, Graph, Literal, ParameterInfo, Scalar, Type, Value, eval};
use kiln_opt::{Options, optimize};

/// The rules that fired.
#[derive(Default)]
pub(crate) struct Fired(pub BTreeSet<&'static str>);

pub(crate) fn only_simplify() -> Options {
    Options { only: Some("simplify".into()), fuse: None, ..Options::default() }
}

pub(crate) fn same(a: &Literal, b: &Literal) -> bool {
    let part = |x: Scalar, y: Scalar| x == y || x.is_nan() && y.is_nan();
    let each = |(x, y): (Scalar, Scalar)| part(x.real(), y.real()) && part(x.imag(), y.imag());
    a.ty() == b.ty() && a.iter().zip(b.iter()).all(each)
}

impl Fired {
    /// Simplifies the graph; if that changes it, both must agree on the arguments.
    pub fn prove(&mut self, graph: Graph, arguments: &[Literal]) {
        let optimized = optimize(graph.clone(), &only_simplify()).expect("simplifies");
        if optimized.rewrites.is_empty() {
            return;
        }
        let before = eval(&graph, arguments).expect("arguments fit");
        let after = eval(&optimized.graph, arguments).expect("arguments fit");
        for (b, a) in before.iter().zip(&after) {
            if !same(b, a) {
                let i = (0..b.ty().elements())
                    .find(|&i| b.get(i) != a.get(i))
                    .expect("some element differs");
                let ops: Vec<String> = graph
                    .order()
                    .iter()
                    .map(|&n| format!("{:?} : {}", graph.op(n), graph.types(n)[0]))
                    .collect();
                panic!(
                    "{:?} changed element {i} from {} to {} of arguments {:?} in\n{}",
                    optimized.rewrites,
                    b.get(i),
                    a.get(i),
                    arguments.iter().map(|l| l.get(i % l.ty().elements())).collect::<Vec<_>>(),
                    ops.join("\n")
                );
            }
        }
        self.0.extend(optimized.rewrites.keys());
    }

    /// Proves the program that `build` makes of parameters of the arguments' types,
    /// if its ops accept them.
    pub fn program(
        &mut self,
        arguments: &[Literal],
        build: impl FnOnce(&mut Graph, &[Value]) -> Option<Value>,
    ) {
        let mut graph = Graph::new("rule");
        let parameters: Vec<Value> = arguments
            .iter()
            .map(|l| graph.add_parameter(l.ty().clone(), ParameterInfo::default()))
            .collect();
        if let Some(value) = build(&mut graph, &parameters) {
            graph.add_output(value, "");
            self.prove(graph, arguments);
        }
    }
}

/// Every value of a type of at most 16 bits; some of a wider one.
pub(crate) fn all(dtype: DType) -> Literal {
    let values: Vec<Scalar> = match dtype {
        DType::Bool => vec![Scalar::bool(false), Scalar::bool(true)],
        // Every seventh of `bf16`, special values among them: `f16` is looked at whole.
        DType::BF16 => {
            let bits = (0..1u64 << 16).step_by(7).map(|bits| Scalar::from_bits(dtype, bits));
            bits.chain(constants(dtype)).collect()
        }
        d if d.bits() <= 16 => {
            (0..1u64 << d.bits()).map(|bits| Scalar::from_bits(d, bits)).collect()
        }
        d => {
            let mut values = constants(d);
            values.extend((0..200).map(|i| Scalar::from_f64(d, (f64::from(i) - 99.5) * 1.37)));
            values
        }
    };
    Literal::from_fn(Type::new(dtype, [values.len()]), |i| values[i])
}

/// All pairs of values of an 8-bit type.
pub(crate) fn pairs(dtype: DType) -> [Literal; 2] {
    let ty = Type::new(dtype, [256 * 256]);
    let at = |bits: usize| Scalar::from_bits(dtype, bits as u64);
    [Literal::from_fn(ty.clone(), |i| at(i / 256)), Literal::from_fn(ty, |i| at(i % 256))]
}

/// Constants at which ops behave specially.
pub(crate) fn constants(dtype: DType) -> Vec<Scalar> {
    if dtype == DType::Bool {
        return vec![Scalar::bool(false), Scalar::bool(true)];
    }
    if dtype.is_float() {
        let exponent = match dtype {
            DType::F16 => 14,
            _ => 126,
        };
        let mut values = vec![0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 0.25, 3.0, 1024.0];
        values.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 65504.0, 1.5, 1e-5]);
        values.extend([2f64.powi(exponent), 2f64.powi(-exponent), 2f64.powi(exponent + 1)]);
        values.extend([2f64.powi(-exponent - 1), 2f64.powi(-exponent - 5)]);
        return values.into_iter().map(|x| Scalar::from_f64(dtype, x)).collect();
    }
    let values = [0, 1, 2, 3, 4, 7, 8, 16, 64, 127, 128, -1, -2, -127, -128, i128::MAX];
    let mut values: Vec<Scalar> = values.iter().map(|&x| Scalar::from_i128(dtype, x)).collect();
    let bits = dtype.bits();
    values.push(Scalar::from_i128(dtype, 1 << (bits - 1)));
    values.push(Scalar::from_i128(dtype, (1 << (bits - 1)) - 1));
    values
}

pub(crate) const SMALL: [DType; 5] = [DType::Bool, DType::I8, DType::U8, DType::F16, DType::BF16];

pub(crate) fn full(graph: &mut Graph, value: Scalar, like: Value) -> Value {
    let shape = graph.ty(like).shape.clone();
    let scalar = graph.add1(Constant { value: Literal::scalar(value) }, &[], None).unwrap();
    graph.add1(Broadcast { shape, axes: vec![] }, &[scalar], None).unwrap()
}

/// An `i32` array that counts.
pub(crate) fn counting(shape: &[usize]) -> Literal {
    Literal::from_fn(Type::new(DType::I32, shape), |i| Scalar::from_i128(DType::I32, i as i128))
}
