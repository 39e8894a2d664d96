//! From fusion groups to kernels.
//!
//! [`lower`] turns one [`Group`] into the launches that compute its roots from its
//! inputs. It relies on what a group promises (`kiln_opt::group`) and answers with
//! a [`LowerError`] when a promise is broken.
//!
//! | file | holds |
//! |---|---|
//! | `cut` | pointwise groups, cut at the joints of long concatenations |
//! | `evaluate` | the value of a node at an index, as an expression |
//! | `scalar` | what an elementwise op means for one element |
//! | `rows` | reductions: stages and slots |
//! | `keep` | what a stage keeps for later ones of its row |
//! | `split` | long reductions over few rows, in chunks |
//! | `fold` | general reductions, windows and running results |
//! | `contraction` | sums of products with prologue and epilogue |
//! | `sort` | rows in order |
//! | `update` | a box written into a buffer that holds the rest |
//! | `scatter` | windows at indices, combined with what a buffer holds |
//! | `finish` | unused axes, expressions and arguments out; the launch as data |

mod bits;
mod contraction;
mod cut;
mod evaluate;
mod finish;
mod fold;
mod keep;
mod rows;
mod scalar;
mod scatter;
mod sort;
mod split;
mod update;

use kiln_ir::{DType, Form, Graph, NodeId, Value};
use kiln_opt::group::{Group, Kind};

use crate::kernel::{Axis, Body, Index, Kernel, Loops};
pub use rows::lanes;
#[cfg(test)]
pub(crate) use scalar::apply;
pub use scalar::identity;
pub(crate) use scalar::primitive;

/// What computes the roots of a group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lowered {
    /// Run one after the other.
    pub launches: Vec<Launch>,
    /// Buffers that live between the launches.
    pub temporaries: Vec<Temporary>,
}

/// One run of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// What runs.
    pub kernel: Kernel,
    /// What it is given, in the order of [`Kernel::arguments`]: inputs, then roots,
    /// then temporaries; those that it does not touch are left out.
    pub arguments: Vec<Operand>,
}

/// A buffer that a launch is given.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// An input or root of the group.
    Value(Value),
    /// A temporary of the lowered group, by number.
    Temporary(usize),
}

/// A buffer that lives between the launches of one group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Temporary {
    /// Element type.
    pub dtype: DType,
    /// Number of elements.
    pub elements: u64,
}

/// A group that cannot be lowered: it does not keep what groups promise.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("lowering {op}: {message}")]
pub struct LowerError {
    op: &'static str,
    node: NodeId,
    message: &'static str,
    /// Not a fault: the value whose index has become too long.
    long: Option<Value>,
}

impl LowerError {
    fn new(graph: &Graph, node: NodeId, message: &'static str) -> LowerError {
        LowerError { op: graph.op(node).name(), node, message, long: None }
    }

    fn long(graph: &Graph, value: Value) -> LowerError {
        let message = "depends on a reduction by an index that is too long";
        LowerError { long: Some(value), ..LowerError::new(graph, value.node, message) }
    }

    fn form(graph: &Graph, node: NodeId) -> LowerError {
        LowerError::new(graph, node, "its form cannot be part of this kind of group")
    }

    fn complex(graph: &Graph, node: NodeId) -> LowerError {
        LowerError::new(graph, node, "computes on complex numbers: kernels only move them")
    }

    fn input(graph: &Graph, node: NodeId) -> LowerError {
        LowerError::new(graph, node, "is read by the group but is not one of its inputs")
    }

    fn reduction(graph: &Graph, node: NodeId) -> LowerError {
        LowerError::new(graph, node, "is not a reduction of the group's space at its own row")
    }

    fn root(graph: &Graph, node: NodeId) -> LowerError {
        LowerError::new(graph, node, "is a root of another shape than the group's")
    }

    /// The node at which lowering stopped.
    pub fn node(&self) -> NodeId {
        self.node
    }
}

/// The launches that compute the roots of `group`.
///
/// # Errors
/// If the group does not keep what groups promise.
pub fn lower(graph: &Graph, group: &Group) -> Result<Lowered, LowerError> {
    // Values that are computed first, each into a temporary, because the index at which
    // they are needed has become too long. Each is a group of its own, which may need
    // others first.
    let mut early: Vec<Value> = Vec::new();
    let mut lowered = attempt(graph, group, &mut early)?;
    let mut before = Vec::new();
    for i in 0.. {
        let Some(&value) = early.get(i) else { break };
        let kind = Kind::Map { space: graph.ty(value).shape.clone() };
        let part = Group { members: group.members.clone(), roots: vec![value], kind };
        before.push((value, attempt(graph, &part, &mut early)?.launches));
    }
    let place = |value: Value| group.members.iter().position(|&n| n == value.node);
    before.sort_by_key(|(value, _)| place(*value));
    let first = lowered.temporaries.len();
    let temporary = |value| early.iter().position(|&e| e == value).map(|t| first + t);
    let mut launches: Vec<Launch> = before.into_iter().flat_map(|(_, launches)| launches).collect();
    for launch in &mut launches {
        rename(launch, |_, value| temporary(value));
    }
    for mut launch in lowered.launches {
        // A root may be early too: then it is copied from there to its own buffer.
        rename(&mut launch, |writes, value| temporary(value).filter(|_| !writes));
        launches.push(launch);
    }
    for &value in &early {
        let ty = graph.ty(value);
        lowered.temporaries.push(Temporary { dtype: ty.dtype, elements: ty.elements() as u64 });
    }
    Ok(Lowered { launches, temporaries: lowered.temporaries })
}

/// Passes temporaries instead of values where `f` of (whether it is written, the value)
/// names one.
fn rename(launch: &mut Launch, f: impl Fn(bool, Value) -> Option<usize>) {
    for (operand, argument) in launch.arguments.iter_mut().zip(&launch.kernel.arguments) {
        if let Operand::Value(value) = *operand
            && let Some(t) = f(argument.writes, value)
        {
            *operand = Operand::Temporary(t);
        }
    }
}

/// Lowers a group that may read `early` values, to which it adds those it turns out to need.
fn attempt(graph: &Graph, group: &Group, early: &mut Vec<Value>) -> Result<Lowered, LowerError> {
    loop {
        let lowered = match &group.kind {
            Kind::Alias => Ok(Lowered::default()),
            Kind::Map { space } => cut::lower(graph, group, space, early),
            Kind::Rows { space, axes } => rows::lower(graph, group, space, axes, early),
            Kind::Fold { node } => fold::lower(graph, group, *node, early),
            Kind::Contraction { dot } => contraction::lower(graph, group, *dot, early),
            Kind::Update { node } => match graph.op(*node).lower() {
                Form::Scatter(form) => scatter::lower(graph, group, *node, &form, early),
                _ => update::lower(graph, group, *node, early),
            },
            Kind::Sort { node } => sort::lower(graph, group, *node),
            Kind::Together { parts } => together(graph, group, parts),
        };
        match lowered {
            Err(LowerError { long: Some(value), .. }) if !early.contains(&value) => {
                early.push(value);
            }
            other => return other,
        }
    }
}

/// What a group reads and writes: argument numbers of the kernels being built.
struct Buffers<'g> {
    graph: &'g Graph,
    inputs: Vec<Value>,
    roots: Vec<Value>,
    temporaries: Vec<Temporary>,
}

impl<'g> Buffers<'g> {
    fn new(graph: &'g Graph, group: &Group, early: &[Value]) -> Buffers<'g> {
        let mut inputs = group.inputs(graph);
        inputs.extend(early.iter().filter(|value| group.roots != [**value]));
        Buffers { graph, inputs, roots: group.roots.clone(), temporaries: Vec::new() }
    }

    fn root(&self, i: usize) -> u32 {
        (self.inputs.len() + i) as u32
    }

    /// Adds a temporary and returns its argument number.
    fn temporary(&mut self, dtype: DType, elements: u64) -> u32 {
        self.temporaries.push(Temporary { dtype, elements });
        (self.inputs.len() + self.roots.len() + self.temporaries.len() - 1) as u32
    }

    fn operand(&self, argument: u32) -> Operand {
        let i = argument as usize;
        let values = self.inputs.len() + self.roots.len();
        match i.checked_sub(values) {
            Some(t) => Operand::Temporary(t),
            None => Operand::Value(
                *self.inputs.get(i).unwrap_or_else(|| &self.roots[i - self.inputs.len()]),
            ),
        }
    }

    /// What a kernel sees: a complex element is two floats.
    fn describe(&self, argument: u32) -> (DType, u64) {
        let (dtype, elements) = match self.operand(argument) {
            Operand::Value(value) => {
                let ty = self.graph.ty(value);
                (ty.dtype, ty.elements() as u64)
            }
            Operand::Temporary(t) => (self.temporaries[t].dtype, self.temporaries[t].elements),
        };
        let parts = (dtype.size() / dtype.part().size()) as u64;
        (dtype.part(), elements * parts)
    }

    /// Bodies that run one after the other.
    fn lowered(&self, name: &str, bodies: Vec<Body>) -> Lowered {
        let launches = bodies.into_iter().map(|b| finish::launch(self, name, b)).collect();
        Lowered { launches, temporaries: self.temporaries.clone() }
    }

    /// Loops that do not depend on each other, as one launch.
    fn together(&self, name: &str, parts: Vec<Loops>) -> Lowered {
        let parts = parts.into_iter().map(Body::Loops).collect();
        let mut lowered = self.lowered(name, parts);
        if lowered.launches.len() > 1 {
            lowered.launches = vec![finish::join(name, lowered.launches)];
        }
        lowered
    }
}

/// The index map of a shape over point axes, one for each extent above 1, and
/// their extents.
fn over_points(shape: &[usize]) -> (Vec<Index>, Vec<u64>) {
    let mut points = Vec::new();
    let map = shape.iter().map(|&extent| match extent {
        1 => Index::default(),
        _ => {
            points.push(extent as u64);
            Index::axis(Axis::Point(points.len() as u32 - 1))
        }
    });
    (map.collect(), points)
}

/// Parts that need one launch each become one; the others follow one by one.
fn together(graph: &Graph, group: &Group, parts: &[Group]) -> Result<Lowered, LowerError> {
    let mut lowered = Lowered::default();
    let mut joined = Vec::new();
    for part in parts {
        let mut of_part = lower(graph, part)?;
        let loops = of_part.launches.iter().all(|l| matches!(l.kernel.body, Body::Loops(_)));
        if of_part.launches.len() == 1 && loops {
            joined.append(&mut of_part.launches);
            continue;
        }
        let first = lowered.temporaries.len();
        lowered.temporaries.append(&mut of_part.temporaries);
        for mut launch in of_part.launches {
            for operand in &mut launch.arguments {
                if let Operand::Temporary(t) = operand {
                    *t += first;
                }
            }
            lowered.launches.push(launch);
        }
    }
    if joined.len() == 1 {
        lowered.launches.append(&mut joined);
    } else if !joined.is_empty() {
        lowered.launches.push(finish::join(&name(graph, &group.members), joined));
    }
    Ok(lowered)
}

/// The ops of a kernel, for people: `exp_add_reduce_sum`, at most 60 characters.
fn name(graph: &Graph, members: &[NodeId]) -> String {
    const LIMIT: usize = 60;
    let silent = ["constant", "broadcast", "reshape", "real", "imag", "complex"];
    let mut ops: Vec<&str> = members.iter().map(|&n| graph.op(n).name()).collect();
    if ops.iter().any(|op| !silent.contains(op)) {
        ops.retain(|op| !silent.contains(op));
    }
    let mut name = String::new();
    for (i, op) in ops.iter().enumerate() {
        let rest = format!("_and_{}_more", ops.len() - i);
        let room = if i + 1 == ops.len() { 0 } else { rest.len() };
        if name.len() + 1 + op.len() + room > LIMIT {
            name.push_str(&rest);
            break;
        }
        if i > 0 {
            name.push('_');
        }
        name.push_str(op);
    }
    name
}
