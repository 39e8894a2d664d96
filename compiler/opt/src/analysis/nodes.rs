//! The nodes of a graph as a table in topological order.
//!
//! Fusion looks at every node many times. Here each is a row, named by its position
//! in [`Graph::order`]: operands come before their readers, and a set of nodes is a
//! sorted list of numbers.

use kiln_ir::{Form, Graph, NodeId, Op, Shape, Type, Value};
use smallvec::SmallVec;

use super::cost;
use crate::group::{is_position, splat};

/// A node by its place in the table.
pub(crate) type At = u32;

/// One node, or one of its results.
pub(crate) struct Row {
    pub id: NodeId,
    /// The first result that it stands for.
    pub result: u32,
    pub form: Form,
    /// The makers of its operands, in order; of a result after the first, the first.
    pub operands: SmallVec<[At; 3]>,
    /// The nodes that read it, each once, increasing.
    pub readers: Vec<At>,
    pub shape: Shape,
    pub elements: u64,
    /// Bytes of one element, of all results together.
    pub size: u64,
    /// Primitive operations for one element.
    pub weight: u32,
    /// Whether it is returned.
    pub output: bool,
    /// Whether an output depends on it.
    pub live: bool,
    /// How many results it stands for, all of one shape.
    pub results: u32,
}

impl Row {
    /// Of a form that overwrites operand 0: the operand that is written over it.
    pub fn updates(&self) -> At {
        self.operands[if matches!(self.form, Form::Scatter(_)) { 2 } else { 1 }]
    }
}

/// How a node's value comes to where it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// It is in memory before the program starts: a parameter or a constant.
    Given,
    /// It is part of the code: a constant with one distinct element.
    Code,
    /// Some kernel computes it.
    Computed,
}

/// All nodes of a graph.
pub(crate) struct Nodes {
    rows: Vec<Row>,
    sources: Vec<Source>,
    /// By node: an update may overwrite it in place.
    updated: Vec<bool>,
    /// By node: which of its operands are positions.
    positions: Vec<SmallVec<[usize; 1]>>,
}

/// Whether results of these types have a row each: their shapes differ. The first row
/// stands for the node and the others read it, so that wherever a result is needed, the
/// node and what it reads are.
fn apart(types: &[Type]) -> bool {
    types.windows(2).any(|pair| pair[0].shape != pair[1].shape)
}

impl Nodes {
    /// The table for `graph`, which holds no calls.
    pub fn new(graph: &Graph) -> Nodes {
        let order = graph.order();
        let mut at = vec![At::MAX; graph.bound()];
        let mut rows: Vec<Row> = Vec::with_capacity(order.len());
        let mut sources = Vec::with_capacity(order.len());
        let mut positions = Vec::with_capacity(order.len());
        let place = |at: &[At], v: Value| {
            at[v.node.index()] + if apart(graph.types(v.node)) { v.result } else { 0 }
        };
        let values = order.iter().flat_map(|&id| {
            let count = graph.types(id).len();
            let rows = if apart(graph.types(id)) { count } else { count.min(1) };
            (0..rows as u32).map(move |result| Value { node: id, result })
        });
        for value in values {
            let i = rows.len();
            let Value { node: id, result } = value;
            let op = graph.op(id);
            assert!(!matches!(op, Op::Call(_)), "fuse: a call was not inlined");
            if result == 0 {
                at[id.index()] = i as At;
            }
            let operands: SmallVec<[At; 3]> = match result {
                0 => graph.operands(id).iter().map(|&v| place(&at, v)).collect(),
                _ => SmallVec::from_slice(&[at[id.index()]]),
            };
            for &o in &operands {
                let readers = &mut rows[o as usize].readers;
                if readers.last() != Some(&(i as At)) {
                    readers.push(i as At);
                }
            }
            let types = match apart(graph.types(id)) {
                true => std::slice::from_ref(graph.ty(value)),
                false => graph.types(id),
            };
            let Some(ty) = types.first() else { unreachable!("its results are looked at") };
            let form = op.lower();
            let mut weight = cost::weight(&form, ty.dtype);
            if matches!(op, Op::Concatenate(_)) {
                weight *= operands.len().saturating_sub(1) as u32;
            }
            sources.push(match op {
                Op::Parameter(_) => Source::Given,
                Op::Constant(_) if splat(graph, value).is_some() => Source::Code,
                Op::Constant(_) => Source::Given,
                _ => Source::Computed,
            });
            positions.push(match form {
                Form::Sort { .. } => {
                    (0..operands.len()).filter(|&k| is_position(graph, id, k)).collect()
                }
                _ => SmallVec::new(),
            });
            rows.push(Row {
                id,
                result,
                form,
                operands,
                readers: Vec::new(),
                shape: ty.shape.clone(),
                elements: ty.elements() as u64,
                size: types.iter().map(|ty| ty.dtype.size() as u64).sum(),
                weight,
                output: false,
                live: false,
                results: types.len() as u32,
            });
        }
        for value in graph.outputs() {
            let row = &mut rows[place(&at, *value) as usize];
            (row.output, row.live) = (true, true);
        }
        for i in (0..rows.len()).rev() {
            if rows[i].live {
                for o in rows[i].operands.clone() {
                    rows[o as usize].live = true;
                }
            }
        }
        let mut updated = vec![false; rows.len()];
        for row in rows.iter().filter(|r| r.live && r.form.overwrites()) {
            let base = row.operands[0];
            updated[base as usize] = sources[base as usize] == Source::Computed;
        }
        for (i, parameter) in graph.parameters().enumerate() {
            let p = at[parameter.node.index()] as usize;
            let base = |r: &At| {
                let row = &rows[*r as usize];
                row.form.overwrites() && row.operands[0] as usize == p
            };
            updated[p] = graph.parameter_info(i).donated && rows[p].readers.iter().any(base);
        }
        Nodes { rows, sources, updated, positions }
    }

    /// Whether an update may overwrite the value where it is: it is the base of one, and
    /// neither kept by the caller nor a constant.
    pub fn updated(&self, at: At) -> bool {
        self.updated[at as usize]
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn source(&self, at: At) -> Source {
        self.sources[at as usize]
    }

    pub fn computed(&self, at: At) -> bool {
        self.source(at) == Source::Computed
    }

    /// The values that a node makes.
    pub fn values(&self, at: At) -> impl Iterator<Item = Value> + use<> {
        let row = &self[at];
        let node = row.id;
        (row.result..row.result + row.results).map(move |result| Value { node, result })
    }

    /// The rows of all results of the same node.
    pub fn results(&self, at: At) -> std::ops::Range<At> {
        let first = at - self[at].result;
        let same = |&i: &At| (i as usize) < self.rows.len() && self[i].id == self[at].id;
        first..(first..).find(|i| !same(i)).expect("the table ends")
    }

    /// Whether the operands of the node must be in memory, but for positions.
    pub fn reads_memory(&self, at: At) -> bool {
        matches!(self[at].form, Form::Sort { .. } | Form::TopK { .. } | Form::Barrier)
    }

    /// Whether `at` is an operand of the sort `reader` that is not read from memory.
    pub fn is_position(&self, reader: At, at: At) -> bool {
        let mut places = self[reader].operands.iter().enumerate().filter(|(_, o)| **o == at);
        places.all(|(k, _)| self.positions[reader as usize].contains(&k))
    }

    /// Whether the node's element at an index needs only elements of its operands,
    /// no loop: the forms called *pointwise* in [`crate::group`].
    pub fn pointwise(&self, at: At) -> bool {
        match &self[at].form {
            Form::Map(_)
            | Form::View(_)
            | Form::Generate(_)
            | Form::DynamicSlice
            | Form::Gather(_) => true,
            Form::Reduce(_, axes) => axes.is_empty(),
            _ => false,
        }
    }
}

impl std::ops::Index<At> for Nodes {
    type Output = Row;
    fn index(&self, at: At) -> &Row {
        &self.rows[at as usize]
    }
}
