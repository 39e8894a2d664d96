//! Fusion groups: which nodes become one kernel.
//!
//! A [`Fusion`] partitions the work of a graph into [`Group`]s. The graph itself
//! stays as it is; a group is a view of it. A cheap node may be a member of several
//! groups and is then recomputed in each.
//!
//! What every group promises, and lowering relies on (`check` verifies it):
//!
//! 1. Members are in topological order, and contain no parameter, no constant and
//!    no call.
//! 2. An operand of a member is a member, a constant with one distinct element
//!    (which becomes part of the code, but not of a sort's), or an *input*: a parameter,
//!    another constant, or a root of another group.
//! 3. Groups do not depend on each other in a circle.
//! 4. A root is made by one group, and is read by another or returned.
//! 5. What its [`Kind`] says.

use hashbrown::HashSet;
use kiln_ir::form::Order;
use kiln_ir::{DType, Form, Graph, NodeId, Op, Scalar, Shape, Value};

/// Operands from which on a concatenation is no longer a view that each reader computes
/// again: it has a kernel, which lowering cuts at the joints.
pub const CUT: usize = 5;

/// Most operands of a concatenation whose elements choose between them at run time,
/// because it is read through a view, by a row program or by a contraction.
pub const CHOICES: usize = 16;

/// A fused graph: groups in a topological order.
#[derive(Clone, Debug, Default)]
pub struct Fusion {
    /// The groups. A group reads only parameters, constants and roots of earlier groups.
    pub groups: Vec<Group>,
}

/// Nodes computed together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The nodes, in topological order.
    pub members: Vec<NodeId>,
    /// The values written to memory: read by other groups or returned.
    pub roots: Vec<Value>,
    /// What the group iterates over.
    pub kind: Kind,
}

/// What a group iterates over, and which forms its members have.
///
/// *Pointwise* below means: of form `Map`, `View`, `Generate`, `DynamicSlice` or `Gather`,
/// or a `Reduce` along no axes, which is its operand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The same bytes as inputs, no kernel: one root that is a `Reshape` of an input, or
    /// roots that are results of a `Barrier`, each its operand.
    Alias,
    /// All members are pointwise; all roots have the shape.
    Map {
        /// The iteration space.
        space: Shape,
    },
    /// A program over rows. Reductions (`Reduce`, `ArgReduce`) among the members all
    /// reduce an operand of shape `space` along `axes`; everything else is pointwise.
    /// A member depends on a reduction only at its own row: every path from a
    /// reduction leads through maps on `space.without(axes)`, broadcasts (and
    /// reshapes that only add or remove axes of extent 1) back to `space` along the
    /// kept axes, and maps on `space`. Roots have shape `space`, or
    /// `space.without(axes)`, or that with axes of extent 1 put back.
    Rows {
        /// The shape that is reduced.
        space: Shape,
        /// The reduced axes, strictly increasing, none when the shape is rank 0.
        axes: Vec<usize>,
    },
    /// One contraction. Other members either feed its operands (pointwise, from
    /// inputs), or follow it (maps on its result's shape whose other operands are
    /// pointwise from inputs). Roots have the contraction's result shape.
    Contraction {
        /// The `dot_general` node.
        dot: NodeId,
    },
    /// One fold: a `Fold`, a `Window` or a `Cumulative`. Other members either feed it
    /// (pointwise, from inputs), or follow it (maps on its results' shape whose other
    /// operands are pointwise from inputs). Roots follow it or are its results, of whose
    /// shape they are.
    Fold {
        /// The node that folds.
        node: NodeId,
    },
    /// One `dynamic_update_slice` or scatter whose operand 0 is an input or any constant,
    /// and no member. Other members are pointwise and feed what is written and where. The
    /// one root is its result, and only what is written is computed: memory must already
    /// hold operand 0, by sharing its buffer or by a copy made first.
    Update {
        /// The `dynamic_update_slice` or scatter node.
        node: NodeId,
    },
    /// One sort or `top_k`, which reads its operands from memory. Other members are
    /// positions: iotas along the sorted axis that it carries along without comparing
    /// them ([`is_position`]). Roots are its results.
    Sort {
        /// The node that sorts.
        node: NodeId,
    },
    /// Several groups of kind `Map`, `Rows` or `Fold` run as one launch. They do not depend
    /// on each other.
    Together {
        /// The parts; `members` and `roots` of the whole are theirs in order.
        parts: Vec<Group>,
    },
}

impl Group {
    /// The values read from memory, each once, in order of first use.
    ///
    /// Operands of members that are not members themselves, but for constants with
    /// one element, which are part of the code.
    /// Those of a [`Kind::Together`] are those of its parts.
    pub fn inputs(&self, graph: &Graph) -> Vec<Value> {
        let parts = match &self.kind {
            Kind::Together { parts } => parts.as_slice(),
            _ => std::slice::from_ref(self),
        };
        let mut seen = HashSet::new();
        let mut inputs = Vec::new();
        for part in parts {
            let members: HashSet<NodeId> = part.members.iter().copied().collect();
            for &node in &part.members {
                for value in graph.operands(node) {
                    // A sort has no code that a constant could be part of.
                    let sort = matches!(part.kind, Kind::Sort { .. });
                    let outside =
                        !members.contains(&value.node) && (sort || splat(graph, value).is_none());
                    if outside && seen.insert(value) {
                        inputs.push(value);
                    }
                }
            }
        }
        inputs
    }
}

/// Whether operand `k` of the sort `node` holds each element's own position along the
/// sorted axis, and is no key: `iota` in `sort x, iota`. Such an operand is not read
/// from memory.
pub fn is_position(graph: &Graph, node: NodeId, k: usize) -> bool {
    let Form::Sort { axis, order: Order::Keys(keys) } = graph.op(node).lower() else {
        return false;
    };
    let operand = graph.operands(node)[k];
    let counts = match graph.op(operand.node) {
        Op::Iota(iota) => iota.axis == axis,
        _ => false,
    };
    // Narrower types would wrap, and floats would round.
    let whole = |d: DType| d.is_integer() && d.size() >= 4;
    counts && whole(graph.ty(operand).dtype) && keys.iter().all(|key| key.operand != k)
}

/// The one distinct element of a constant, if `value` is one. An empty constant
/// counts as zero.
pub fn splat(graph: &Graph, value: Value) -> Option<Scalar> {
    let Op::Constant(constant) = graph.op(value.node) else { return None };
    let literal = &constant.value;
    match literal.ty().elements() {
        0 => Some(Scalar::zero(literal.ty().dtype)),
        _ => literal.uniform(),
    }
}
