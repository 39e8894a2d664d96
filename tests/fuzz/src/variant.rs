//! The same program in other words: metamorphic variants.
//!
//! Each variant of a program computes the same values, and Kiln promises the same bits for
//! it. So a variant needs no oracle: it is compared with the program itself.
//!
//! | variant | differs by |
//! |---|---|
//! | `Outputs` | returning some of the values in between as well |
//! | `Split` | being two programs, one of which computes what the other is given |
//! | `Identities` | ops that change nothing, on some operands |
//! | `Swapped` | the order of operands that commute |

use hashbrown::{HashMap, HashSet};
use kiln_ir::op::{
    Binary, Compare, Concatenate, Convert, Reshape, Reverse, Slice, Transpose, Unary,
};
use kiln_ir::{DType, Graph, Literal, Op, Value};

use crate::Random;
use crate::execute::{Way, build, run};
use crate::extract::extract;
use crate::generate::Program;

/// A way to say the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Variant {
    Outputs,
    Split,
    Identities,
    Swapped,
}

impl Variant {
    /// Every one.
    pub const ALL: [Variant; 4] =
        [Variant::Outputs, Variant::Split, Variant::Identities, Variant::Swapped];

    /// The outputs of the program, computed by way of the variant that `seed` draws.
    ///
    /// # Errors
    /// The compiler's or the runtime's message.
    pub fn run(self, program: &Program, way: Way, seed: u64) -> Result<Vec<Literal>, String> {
        let mut random = Random::new(seed);
        let mut graph = program.graph.clone();
        match self {
            Variant::Outputs => more_outputs(&mut graph, &mut random),
            Variant::Identities => identities(&mut graph, &mut random),
            Variant::Swapped => swap(&mut graph, &mut random),
            Variant::Split => return split(program, way, &mut random),
        }
        kiln_ir::verify(&graph).map_err(|e| format!("the variant is invalid: {e}"))?;
        let mut outputs = run(&build(&graph, way)?, way, &program.arguments, 1)?;
        outputs.truncate(program.exact.len());
        Ok(outputs)
    }
}

fn more_outputs(graph: &mut Graph, random: &mut Random) {
    let values: Vec<Value> = graph.order().into_iter().flat_map(|n| graph.results(n)).collect();
    for _ in 0..1 + random.below(3) {
        graph.add_output(random.pick(&values), "");
    }
}

/// Runs what comes first in the order, then the rest on its results.
fn split(program: &Program, way: Way, random: &mut Random) -> Result<Vec<Literal>, String> {
    let graph = &program.graph;
    let order = graph.order();
    let first: HashSet<_> = order[..random.below(order.len() + 1)].iter().copied().collect();
    let read = order.iter().filter(|n| !first.contains(*n)).flat_map(|&n| graph.operands(n));
    let mut seen = HashSet::new();
    let mut border: Vec<Value> = read.chain(graph.outputs().iter().copied()).collect();
    border.retain(|v| {
        first.contains(&v.node) && graph.parameter_index(v.node).is_none() && seen.insert(*v)
    });

    let returned: Vec<(Value, bool)> = border.iter().map(|&v| (v, true)).collect();
    let before = extract(program, &returned, &HashMap::new());
    let results = run(&build(&before.graph, way)?, way, &before.arguments, 1)?;
    let outputs = graph.outputs().iter().copied().zip(program.exact.iter().copied());
    let outputs: Vec<(Value, bool)> = outputs.collect();
    let after = extract(program, &outputs, &border.into_iter().zip(results).collect());
    run(&build(&after.graph, way)?, way, &after.arguments, 1)
}

/// Puts ops that change nothing between some values and their readers.
fn identities(graph: &mut Graph, random: &mut Random) {
    for node in graph.order() {
        for (i, value) in graph.operands(node).into_iter().enumerate() {
            if random.one_in(4)
                && let Some(same) = identity(graph, value, random)
            {
                graph.set_operand(node, i as u32, same);
            }
        }
    }
}

/// The value again, by way of ops that cancel; `None` if those drawn do not apply.
fn identity(graph: &mut Graph, value: Value, random: &mut Random) -> Option<Value> {
    let ty = graph.ty(value).clone();
    let (shape, rank) = (ty.shape.clone(), ty.shape.rank());
    let ops: Vec<Op> = match random.below(7) {
        0 => vec![Reshape { shape: [ty.elements()].into() }.into(), Reshape { shape }.into()],
        1 => {
            let last_first: Vec<usize> = (0..rank).map(|i| (i + rank - 1) % rank).collect();
            let back: Vec<usize> = (0..rank).map(|i| (i + 1) % rank).collect();
            vec![
                Transpose { permutation: last_first }.into(),
                Transpose { permutation: back }.into(),
            ]
        }
        2 => {
            let axes: Vec<usize> = (0..rank).filter(|_| random.one_in(2)).collect();
            vec![Reverse { axes: axes.clone() }.into(), Reverse { axes }.into()]
        }
        3 => {
            let to = wider(ty.dtype)?;
            vec![Convert { to }.into(), Convert { to: ty.dtype }.into()]
        }
        4 => {
            let (start, stride) = (vec![0; rank], vec![1; rank]);
            vec![Slice { start, limit: shape.to_vec(), stride }.into()]
        }
        5 if rank > 0 => vec![Concatenate { axis: random.below(rank) }.into()],
        6 if ty.dtype == DType::Bool || ty.dtype.is_integer() => {
            vec![Unary::Not.into(), Unary::Not.into()]
        }
        _ => return None,
    };
    ops.into_iter().try_fold(value, |value, op| graph.add1(op, &[value], None).ok())
}

/// A type that holds every value of `dtype`.
fn wider(dtype: DType) -> Option<DType> {
    Some(match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        DType::F32 => DType::F64,
        DType::I8 | DType::I16 | DType::I32 => DType::I64,
        DType::U8 | DType::U16 | DType::U32 => DType::U64,
        DType::Bool => DType::I32,
        _ => return None,
    })
}

/// Exchanges the operands of some ops, which then say the same the other way round.
fn swap(graph: &mut Graph, random: &mut Random) {
    for node in graph.order() {
        let swapped: Op = match graph.op(node) {
            Op::Binary(
                op @ (Binary::Add
                | Binary::Mul
                | Binary::Min
                | Binary::Max
                | Binary::And
                | Binary::Or
                | Binary::Xor),
            ) => (*op).into(),
            Op::Compare(direction) => match direction {
                Compare::Lt => Compare::Gt.into(),
                Compare::Gt => Compare::Lt.into(),
                Compare::Le => Compare::Ge.into(),
                Compare::Ge => Compare::Le.into(),
                same @ (Compare::Eq | Compare::Ne) => (*same).into(),
            },
            _ => continue,
        };
        if random.one_in(2) {
            continue;
        }
        let [a, b] = graph.operands(node)[..] else { continue };
        let source = graph.source(node).cloned();
        if let Ok(other) = graph.add1(swapped, &[b, a], source) {
            graph.replace_uses(Value { node, result: 0 }, other);
        }
    }
}
