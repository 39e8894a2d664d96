//! The nodes of a graph as a table in topological order.
//!
//! Fusion looks at every node many times. Here each is a row, named by its position
//! in [`Graph::order`]: operands come before their readers, and a set of nodes is a
//! sorted list of numbers.

use kiln_ir::{Form, Graph, NodeId, Op, Shape, Value};
use smallvec::SmallVec;

use super::cost;
use crate::group::splat;

/// A node by its position in the topological order.
pub(crate) type At = u32;

/// One node.
pub(crate) struct Row {
    pub id: NodeId,
    pub form: Form,
    /// The makers of its operands, in order.
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
    /// How many results it has, all of one shape.
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
}

impl Nodes {
    /// The table for `graph`, which holds no calls.
    pub fn new(graph: &Graph) -> Nodes {
        let order = graph.order();
        let mut at = vec![At::MAX; graph.bound()];
        for (i, node) in order.iter().enumerate() {
            at[node.index()] = i as At;
        }
        let mut rows: Vec<Row> = Vec::with_capacity(order.len());
        let mut sources = Vec::with_capacity(order.len());
        for (i, &id) in order.iter().enumerate() {
            let op = graph.op(id);
            assert!(!matches!(op, Op::Call(_)), "fuse: a call was not inlined");
            let operands: SmallVec<[At; 3]> =
                graph.operands(id).iter().map(|v| at[v.node.index()]).collect();
            for &o in &operands {
                let readers = &mut rows[o as usize].readers;
                if readers.last() != Some(&(i as At)) {
                    readers.push(i as At);
                }
            }
            let value = Value { node: id, result: 0 };
            let ty = graph.ty(value);
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
            rows.push(Row {
                id,
                form,
                operands,
                readers: Vec::new(),
                shape: ty.shape.clone(),
                elements: ty.elements() as u64,
                size: graph.types(id).iter().map(|ty| ty.dtype.size() as u64).sum(),
                weight,
                output: false,
                live: false,
                results: graph.types(id).len() as u32,
            });
        }
        for value in graph.outputs() {
            let row = &mut rows[at[value.node.index()] as usize];
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
        Nodes { rows, sources, updated }
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
        (0..row.results).map(move |result| Value { node, result })
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
