//! From a pending expression to a run.
//!
//! ```text
//!   collect ──▶ key ──▶ cache ──(miss)──▶ graph ──▶ compile
//!      │                  └──(hit)───────────────────┐
//!      └── leaves: arrays and numbers ──────────▶ run ──▶ settle
//! ```
//!
//! The key says which ops are applied to which operands and which of them are
//! kept; of the leaves it has types only. It is exact: equal keys are equal
//! programs.

use std::hash::Hash;
use std::sync::{Arc, LazyLock};

use hashbrown::{HashMap, HashSet};
use kiln_ir::form::Form;
use kiln_ir::{Graph, Op, ParameterInfo, Value};
use kiln_trace::At;
use smallvec::SmallVec;

use super::{Lazy, State};
use crate::cache::{Built, Origin, Table};
use crate::compile::{self, Input};
use crate::device::Array;
use crate::tensor::Repr;
use crate::tree::{KeyWriter, Passing};
use crate::{Error, Scalar, Tensor, Type};

/// Programs of lazy expressions.
static TABLE: LazyLock<Arc<Table>> = LazyLock::new(|| Table::new("lazy"));

/// Computes the expressions, and with them every part that is held from outside.
pub(crate) fn evaluate(roots: &[Arc<Lazy>]) -> Result<(), Error> {
    let expression = Expression::collect(roots);
    if expression.nodes.is_empty() {
        return Ok(());
    }
    let mut key = KeyWriter::with_capacity(64);
    expression.write_key(&mut key);
    let entry = TABLE.get_or_build(key.words(), || expression.build())?;
    let mut inputs: Vec<Input> = expression.leaves.into_iter().map(Leaf::into_input).collect();
    let mut outputs: Vec<Array> = Vec::with_capacity(expression.outputs.len());
    entry.run(&mut inputs, &mut outputs)?;
    for (&i, array) in expression.outputs.iter().zip(outputs) {
        expression.nodes[i].lazy.settle(array);
    }
    Ok(())
}

/// How many pending nodes there are in the expressions.
pub(super) fn count(roots: &[Arc<Lazy>]) -> u32 {
    Expression::collect(roots).nodes.len() as u32
}

/// A snapshot of a pending expression.
struct Expression {
    /// Operands come before the nodes that read them.
    nodes: Vec<Node>,
    leaves: Vec<Leaf>,
    /// Nodes whose values are kept: the roots, and what is held from outside.
    outputs: Vec<usize>,
}

struct Node {
    lazy: Arc<Lazy>,
    op: Op,
    /// Which of the op's results.
    result: u32,
    operands: SmallVec<[Operand; 3]>,
    at: At,
    /// How many operands of other nodes it is.
    uses: usize,
}

#[derive(Clone, Copy)]
enum Operand {
    Node(usize),
    Leaf(usize),
}

enum Leaf {
    Array(Array),
    Number(Scalar),
}

impl Leaf {
    fn ty(&self) -> Type {
        match self {
            Leaf::Array(array) => array.ty().clone(),
            Leaf::Number(scalar) => Type::scalar(scalar.dtype()),
        }
    }

    fn into_input(self) -> Input {
        match self {
            Leaf::Array(array) => Input::Kept(array),
            Leaf::Number(scalar) => Input::Scalar(scalar),
        }
    }
}

/// A node whose operands are still being collected.
struct Visit {
    lazy: Arc<Lazy>,
    op: Op,
    result: u32,
    at: At,
    /// Operands not yet visited, the next one last.
    rest: SmallVec<[Tensor; 3]>,
    done: SmallVec<[Operand; 3]>,
}

impl Visit {
    /// `None` when the node has its value already.
    fn begin(lazy: &Arc<Lazy>) -> Option<Visit> {
        match &*lazy.lock() {
            State::Ready(_) => None,
            State::Pending(pending) => Some(Visit {
                lazy: lazy.clone(),
                op: pending.op.clone(),
                result: pending.result,
                at: pending.at,
                rest: pending.operands.iter().rev().cloned().collect(),
                done: SmallVec::new(),
            }),
        }
    }
}

impl Expression {
    /// A depth-first walk with its own stack, in an order that depends only on the
    /// expression.
    fn collect(roots: &[Arc<Lazy>]) -> Expression {
        let mut expression = Expression {
            nodes: Vec::with_capacity(8),
            leaves: Vec::with_capacity(8),
            outputs: Vec::new(),
        };
        let mut nodes: HashMap<*const Lazy, usize> = HashMap::new();
        let mut arrays: HashMap<u64, usize> = HashMap::new();
        for root in roots {
            if nodes.contains_key(&Arc::as_ptr(root)) {
                continue;
            }
            let mut stack: Vec<Visit> = Visit::begin(root).into_iter().collect();
            while let Some(visit) = stack.last_mut() {
                if let Some(operand) = visit.rest.pop() {
                    let found = match operand.repr() {
                        Repr::Lazy(lazy) => match nodes.get(&Arc::as_ptr(lazy)) {
                            Some(&i) => Operand::Node(i),
                            None => match Visit::begin(lazy) {
                                Some(below) => {
                                    // Its number is known when it is done; look again then.
                                    visit.rest.push(operand.clone());
                                    stack.push(below);
                                    continue;
                                }
                                None => expression.leaf(&operand, &mut arrays),
                            },
                        },
                        _ => expression.leaf(&operand, &mut arrays),
                    };
                    visit.done.push(found);
                    continue;
                }
                let Some(Visit { lazy, op, result, at, done, .. }) = stack.pop() else { break };
                for operand in &done {
                    if let Operand::Node(i) = *operand {
                        expression.nodes[i].uses += 1;
                    }
                }
                nodes.insert(Arc::as_ptr(&lazy), expression.nodes.len());
                expression.nodes.push(Node { lazy, op, result, operands: done, at, uses: 0 });
            }
        }
        let root_nodes: HashSet<*const Lazy> = roots.iter().map(Arc::as_ptr).collect();
        expression.outputs = (0..expression.nodes.len())
            .filter(|&i| {
                let node = &expression.nodes[i];
                root_nodes.contains(&Arc::as_ptr(&node.lazy)) || node.is_held_elsewhere()
            })
            .collect();
        expression
    }

    fn leaf(&mut self, tensor: &Tensor, arrays: &mut HashMap<u64, usize>) -> Operand {
        let leaf = match tensor.repr() {
            Repr::Scalar(scalar) => Leaf::Number(*scalar),
            Repr::Array(array) => Leaf::Array(array.clone()),
            Repr::Lazy(lazy) => Leaf::Array(lazy.ready().expect("a leaf has its value")),
            _ => unreachable!("expressions are made of concrete tensors"),
        };
        let i = self.leaves.len();
        let i = match &leaf {
            // Numbers are never merged: that two are equal now says nothing about
            // the next run.
            Leaf::Number(_) => i,
            Leaf::Array(array) => *arrays.entry(array.id()).or_insert(i),
        };
        if i == self.leaves.len() {
            self.leaves.push(leaf);
        }
        Operand::Leaf(i)
    }

    fn write_key(&self, key: &mut KeyWriter) {
        key.length(self.leaves.len());
        for leaf in &self.leaves {
            key.leaf(&leaf.ty(), Passing::Borrowed);
        }
        key.length(self.nodes.len());
        for node in &self.nodes {
            node.op.hash(key);
            key.length(node.result as usize);
            key.length(node.operands.len());
            for operand in &node.operands {
                match *operand {
                    Operand::Node(i) => key.length(2 * i),
                    Operand::Leaf(i) => key.length(2 * i + 1),
                }
            }
        }
        key.length(self.outputs.len());
        self.outputs.iter().for_each(|&i| key.length(i));
    }

    fn build(&self) -> Result<Built, Error> {
        let mut graph = Graph::new("lazy");
        let leaves: Vec<Value> = self
            .leaves
            .iter()
            .map(|leaf| graph.add_parameter(leaf.ty(), ParameterInfo::default()))
            .collect();
        let mut values: Vec<Value> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let operands: SmallVec<[Value; 3]> = node
                .operands
                .iter()
                .map(|operand| match *operand {
                    Operand::Node(i) => values[i],
                    Operand::Leaf(i) => leaves[i],
                })
                .collect();
            let made = graph
                .add(node.op.clone(), &operands, Some(node.at.source()))
                .map_err(|e| Error::internal(format!("an expression of bad types: {e}")))?;
            values.push(Value { node: made, result: node.result });
        }
        for &i in &self.outputs {
            graph.add_output(values[i], "");
        }
        let source = self.nodes.last().map(|node| node.at.source());
        let fields = self.describe();
        let compiled = compile::compile(graph)?;
        Ok(Built {
            compiled,
            origin: Origin { source, fields },
            captures: Vec::new(),
            template: Box::new(()),
            phases: Vec::new(),
        })
    }

    /// The parts of the key for people: one field for each leaf and op.
    fn describe(&self) -> Vec<(String, String)> {
        let name = |operand: &Operand| match *operand {
            Operand::Node(i) => format!("%{i}"),
            Operand::Leaf(i) => format!("leaf{i}"),
        };
        let leaves = self
            .leaves
            .iter()
            .enumerate()
            .map(|(i, leaf)| (format!("leaf{i}"), leaf.ty().to_string()));
        let nodes = self.nodes.iter().enumerate().map(|(i, node)| {
            let operands: Vec<String> = node.operands.iter().map(name).collect();
            let text = format!("{} {} : {}", node.op, operands.join(", "), node.lazy.ty());
            (format!("%{i}"), text)
        });
        let outputs: Vec<String> = self.outputs.iter().map(|i| format!("%{i}")).collect();
        leaves.chain(nodes).chain([("kept".to_string(), outputs.join(", "))]).collect()
    }
}

impl Node {
    /// Whether a handle exists that is neither an operand inside the expression nor
    /// this snapshot's. Then somebody may look at the value later, and it is kept,
    /// unless making it again costs nothing: views and generated values are index
    /// arithmetic inside whatever kernel reads them.
    fn is_held_elsewhere(&self) -> bool {
        let inside = self.uses + 1;
        Arc::strong_count(&self.lazy) > inside
            && !matches!(self.op.lower(), Form::View(_) | Form::Generate(_) | Form::DynamicSlice)
    }
}
