//! The graph: SSA over petgraph.
//!
//! Nodes are ops, edges carry values from the node that makes them to the node
//! that reads them. A [`Value`] names one result of one node. The graph is the
//! only place that names petgraph; everything else sees nodes, values and uses.
//!
//! ```text
//!   node a ──(result 0 → operand 1)──▶ node b
//! ```
//!
//! Promises:
//! - Every value has a static [`Type`], computed by the op's `infer` when the
//!   node is added and never changed afterwards.
//! - The graph is acyclic: a node's operands exist when it is added, and
//!   [`Graph::replace_uses`] refuses nothing but must be given an equal type;
//!   `verify` finds a cycle that a faulty pass made.
//! - [`Graph::order`] is a topological order that depends only on the sequence
//!   of edits, never on hashing. Nodes keep the order in which they were added
//!   as far as their edges allow.
//! - Source locations live in a side table and take no part in equality or text.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use petgraph::Direction;
use petgraph::stable_graph::{NodeIndex, StableDiGraph};
use petgraph::visit::EdgeRef;
use smallvec::SmallVec;

use crate::op::{InferError, Op, Parameter};
use crate::{Source, Type};

/// Identifies a node of one graph. Reused after the node is removed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(u32);

impl NodeId {
    /// A small dense number, for side tables of length [`Graph::bound`].
    pub fn index(self) -> usize {
        self.0 as usize
    }

    fn raw(self) -> NodeIndex {
        NodeIndex::new(self.0 as usize)
    }
}

/// One result of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Value {
    /// The node that makes it.
    pub node: NodeId,
    /// Which of the node's results.
    pub result: u32,
}

/// A place where a value is read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Use {
    /// Operand number `operand` of `node`.
    Operand {
        /// The reader.
        node: NodeId,
        /// Which of its operands.
        operand: u32,
    },
    /// Output number of the graph.
    Output(u32),
}

/// Operands of a node, in order.
pub type Operands = SmallVec<[Value; 3]>;

struct Node {
    op: Op,
    types: SmallVec<[Type; 1]>,
    /// Creation number: the tie-break of [`Graph::order`].
    sequence: u64,
    /// Its position among the parameters, if it is one.
    parameter: Option<u32>,
}

#[derive(Clone, Copy)]
struct Edge {
    result: u32,
    operand: u32,
}

/// What a graph knows about one of its parameters beyond its type.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ParameterInfo {
    /// Name in the text format (`%name`) and leaf path in messages, such as
    /// `state.adam.m[3].w`. Empty: numbered by position.
    pub name: String,
    /// The caller gives the buffer up: it may be overwritten or returned.
    pub donated: bool,
}

/// A function over tensors: parameters, nodes, outputs.
#[derive(Clone)]
pub struct Graph {
    name: String,
    dag: StableDiGraph<Arc<Node>, Edge>,
    parameters: Vec<(NodeId, ParameterInfo)>,
    outputs: Vec<Value>,
    output_names: Vec<String>,
    /// By node: how many outputs are results of it. Most nodes are none, and there may be
    /// thousands of outputs to look through.
    returned: Vec<u32>,
    sources: Vec<Option<Source>>,
    next: u64,
}

impl Graph {
    /// An empty graph. The name appears as `@name` in text.
    pub fn new(name: impl Into<String>) -> Graph {
        Graph {
            name: name.into(),
            dag: StableDiGraph::default(),
            parameters: Vec::new(),
            outputs: Vec::new(),
            output_names: Vec::new(),
            returned: Vec::new(),
            sources: Vec::new(),
            next: 0,
        }
    }

    /// The name, without `@`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Renames the graph.
    pub fn set_name(&mut self, name: impl Into<String>) {
        self.name = name.into();
    }

    // --- building -------------------------------------------------------

    /// Appends a parameter.
    pub fn add_parameter(&mut self, ty: Type, info: ParameterInfo) -> Value {
        let op = Op::Parameter(Parameter { ty: ty.clone() });
        let position = Some(self.parameters.len() as u32);
        let node = self.insert(op, SmallVec::from_elem(ty, 1), &[], None, position);
        self.parameters.push((node, info));
        Value { node, result: 0 }
    }

    /// Appends a node; its result types come from the op's `infer`.
    ///
    /// # Errors
    /// If `infer` rejects the operand types.
    pub fn add(
        &mut self,
        op: impl Into<Op>,
        operands: &[Value],
        source: Option<Source>,
    ) -> Result<NodeId, InferError> {
        let op = op.into();
        let results = {
            let types: SmallVec<[&Type; 3]> = operands.iter().map(|&v| self.ty(v)).collect();
            op.infer(&types)?
        };
        Ok(self.insert(op, results, operands, source, None))
    }

    /// Like [`Graph::add`] for an op with one result, which it returns.
    ///
    /// # Errors
    /// If `infer` rejects the operand types.
    pub fn add1(
        &mut self,
        op: impl Into<Op>,
        operands: &[Value],
        source: Option<Source>,
    ) -> Result<Value, InferError> {
        self.add(op, operands, source).map(|node| Value { node, result: 0 })
    }

    fn insert(
        &mut self,
        op: Op,
        types: SmallVec<[Type; 1]>,
        operands: &[Value],
        source: Option<Source>,
        parameter: Option<u32>,
    ) -> NodeId {
        let sequence = self.next;
        self.next += 1;
        let raw = self.dag.add_node(Arc::new(Node { op, types, sequence, parameter }));
        let node = NodeId(raw.index() as u32);
        for (i, v) in operands.iter().enumerate() {
            self.dag.add_edge(v.node.raw(), raw, Edge { result: v.result, operand: i as u32 });
        }
        if self.sources.len() <= node.index() {
            self.sources.resize(node.index() + 1, None);
            self.returned.resize(node.index() + 1, 0);
        }
        self.sources[node.index()] = source;
        node
    }

    /// Appends an output. The name is a leaf path for messages; it may be empty.
    pub fn add_output(&mut self, value: Value, name: impl Into<String>) {
        self.outputs.push(value);
        self.returned[value.node.index()] += 1;
        self.output_names.push(name.into());
    }

    /// Removes the first `count` outputs.
    pub fn drop_outputs(&mut self, count: usize) {
        self.outputs.drain(..count);
        self.output_names.drain(..count);
    }

    // --- reading --------------------------------------------------------

    /// The parameters in order.
    pub fn parameters(&self) -> impl ExactSizeIterator<Item = Value> + '_ {
        self.parameters.iter().map(|&(node, _)| Value { node, result: 0 })
    }

    /// Name and donation of parameter `i`.
    pub fn parameter_info(&self, i: usize) -> &ParameterInfo {
        &self.parameters[i].1
    }

    /// Name and donation of parameter `i`, to change.
    pub fn parameter_info_mut(&mut self, i: usize) -> &mut ParameterInfo {
        &mut self.parameters[i].1
    }

    /// The position of `node` among the parameters, if it is one.
    pub fn parameter_index(&self, node: NodeId) -> Option<usize> {
        self.dag[node.raw()].parameter.map(|i| i as usize)
    }

    /// The outputs in order.
    pub fn outputs(&self) -> &[Value] {
        &self.outputs
    }

    /// The leaf path of output `i`; may be empty.
    pub fn output_name(&self, i: usize) -> &str {
        &self.output_names[i]
    }

    /// The op of a node.
    pub fn op(&self, node: NodeId) -> &Op {
        &self.dag[node.raw()].op
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.dag[value.node.raw()].types[value.result as usize]
    }

    /// The types of all results of a node.
    pub fn types(&self, node: NodeId) -> &[Type] {
        &self.dag[node.raw()].types
    }

    /// The results of a node.
    pub fn results(&self, node: NodeId) -> impl ExactSizeIterator<Item = Value> + use<> {
        (0..self.types(node).len() as u32).map(move |result| Value { node, result })
    }

    /// The operands of a node, in order.
    pub fn operands(&self, node: NodeId) -> Operands {
        let edges = self.dag.edges_directed(node.raw(), Direction::Incoming);
        let mut edges: SmallVec<[(u32, Value); 3]> = edges
            .map(|e| {
                let value =
                    Value { node: NodeId(e.source().index() as u32), result: e.weight().result };
                (e.weight().operand, value)
            })
            .collect();
        // Edges are listed the latest first: this is their order unless one was replaced.
        edges.reverse();
        if !edges.is_sorted_by_key(|&(operand, _)| operand) {
            edges.sort_unstable_by_key(|&(operand, _)| operand);
        }
        edges.into_iter().map(|(_, v)| v).collect()
    }

    /// The numbers of a node's operands, increasing: `0..n` unless an edit went wrong.
    pub(crate) fn operand_numbers(&self, node: NodeId) -> Vec<u32> {
        let edges = self.dag.edges_directed(node.raw(), Direction::Incoming);
        let mut numbers: Vec<u32> = edges.map(|e| e.weight().operand).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Every use of every result of `node`, with the value used, in a fixed order.
    pub fn node_uses(&self, node: NodeId) -> Vec<(Value, Use)> {
        let mut uses: Vec<(Value, Use)> = self
            .dag
            .edges_directed(node.raw(), Direction::Outgoing)
            .map(|e| {
                let reader = NodeId(e.target().index() as u32);
                let at = Use::Operand { node: reader, operand: e.weight().operand };
                (Value { node, result: e.weight().result }, at)
            })
            .collect();
        if self.returned[node.index()] > 0 {
            let outputs = self.outputs.iter().enumerate().filter(|(_, v)| v.node == node);
            uses.extend(outputs.map(|(i, &v)| (v, Use::Output(i as u32))));
        }
        uses.sort_unstable();
        uses
    }

    /// The nodes that read a result of `node`, once for each operand that does.
    pub fn readers(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let readers = self.dag.neighbors_directed(node.raw(), Direction::Outgoing);
        readers.map(|raw| NodeId(raw.index() as u32))
    }

    /// Every use of `value`, in a fixed order.
    pub fn uses(&self, value: Value) -> Vec<Use> {
        self.node_uses(value.node)
            .into_iter()
            .filter(|&(v, _)| v == value)
            .map(|(_, u)| u)
            .collect()
    }

    /// Where `node` comes from, if known.
    pub fn source(&self, node: NodeId) -> Option<&Source> {
        self.sources.get(node.index())?.as_ref()
    }

    /// Sets where `node` comes from.
    pub fn set_source(&mut self, node: NodeId, source: Option<Source>) {
        self.sources[node.index()] = source;
    }

    /// Whether `node` exists.
    pub fn contains(&self, node: NodeId) -> bool {
        self.dag.contains_node(node.raw())
    }

    /// All nodes by index, those on a cycle included. Edits are better made along
    /// [`Graph::order`], which does not depend on how indices were reused.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.dag.node_indices().map(|raw| NodeId(raw.index() as u32))
    }

    /// Number of nodes, parameters included.
    pub fn len(&self) -> usize {
        self.dag.node_count()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One more than the largest [`NodeId::index`]: the length of a side table.
    pub fn bound(&self) -> usize {
        self.sources.len()
    }

    /// All nodes in a topological order that follows creation order where edges
    /// allow (Kahn's algorithm with a heap on the creation number).
    ///
    /// Nodes on a cycle are left out; `verify` reports them.
    pub fn order(&self) -> Vec<NodeId> {
        let mut missing = vec![0u32; self.bound()];
        let mut ready = BinaryHeap::new();
        for raw in self.dag.node_indices() {
            let n = self.dag.edges_directed(raw, Direction::Incoming).count() as u32;
            missing[raw.index()] = n;
            if n == 0 {
                ready.push(Reverse((self.dag[raw].sequence, raw.index())));
            }
        }
        let mut order = Vec::with_capacity(self.len());
        while let Some(Reverse((_, i))) = ready.pop() {
            order.push(NodeId(i as u32));
            for e in self.dag.edges_directed(NodeIndex::new(i), Direction::Outgoing) {
                let t = e.target().index();
                missing[t] -= 1;
                if missing[t] == 0 {
                    ready.push(Reverse((self.dag[e.target()].sequence, t)));
                }
            }
        }
        order
    }

    // --- editing --------------------------------------------------------

    /// Makes every use of `old` read `new` instead.
    ///
    /// # Panics
    /// If the types differ: that is a bug of the calling pass.
    pub fn replace_uses(&mut self, old: Value, new: Value) {
        assert_eq!(self.ty(old), self.ty(new), "replacement of another type");
        if old == new {
            return;
        }
        let edges: Vec<_> = self
            .dag
            .edges_directed(old.node.raw(), Direction::Outgoing)
            .filter(|e| e.weight().result == old.result)
            .map(|e| (e.id(), e.target(), e.weight().operand))
            .collect();
        for (id, target, operand) in edges {
            self.dag.remove_edge(id);
            self.dag.add_edge(new.node.raw(), target, Edge { result: new.result, operand });
        }
        if self.returned[old.node.index()] > 0 {
            for v in self.outputs.iter_mut().filter(|v| **v == old) {
                *v = new;
                self.returned[old.node.index()] -= 1;
                self.returned[new.node.index()] += 1;
            }
        }
    }

    /// Makes operand `operand` of `node` read `new`.
    ///
    /// # Panics
    /// If the types differ or there is no such operand.
    pub fn set_operand(&mut self, node: NodeId, operand: u32, new: Value) {
        let (id, old) = self
            .dag
            .edges_directed(node.raw(), Direction::Incoming)
            .find(|e| e.weight().operand == operand)
            .map(|e| {
                (
                    e.id(),
                    Value { node: NodeId(e.source().index() as u32), result: e.weight().result },
                )
            })
            .expect("operand exists");
        assert_eq!(self.ty(old), self.ty(new), "operand of another type");
        self.dag.remove_edge(id);
        self.dag.add_edge(new.node.raw(), node.raw(), Edge { result: new.result, operand });
    }

    /// Makes output `i` return `new`, which may have another type.
    pub fn set_output(&mut self, i: usize, new: Value) {
        let old = std::mem::replace(&mut self.outputs[i], new);
        self.returned[old.node.index()] -= 1;
        self.returned[new.node.index()] += 1;
    }

    /// Removes every node for which `keep` is false. Parameters always stay.
    ///
    /// # Panics
    /// If a kept node or an output reads a removed one.
    pub fn sweep(&mut self, mut keep: impl FnMut(NodeId) -> bool) {
        let dead: Vec<NodeIndex> = self
            .dag
            .node_indices()
            .filter(|&raw| {
                let node = NodeId(raw.index() as u32);
                !matches!(self.op(node), Op::Parameter(_)) && !keep(node)
            })
            .collect();
        let is_dead: hashbrown::HashSet<NodeIndex> = dead.iter().copied().collect();
        for &raw in &dead {
            let node = NodeId(raw.index() as u32);
            assert_eq!(self.returned[node.index()], 0, "output of a removed node");
            assert!(
                self.dag.neighbors_directed(raw, Direction::Outgoing).all(|r| is_dead.contains(&r)),
                "operand of a kept node removed"
            );
        }
        for raw in dead {
            self.dag.remove_node(raw);
            self.sources[raw.index()] = None;
        }
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "graph @{} ({} nodes)", self.name, self.len())
    }
}
