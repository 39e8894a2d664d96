//! Fusion: which nodes become one kernel.
//!
//! ```kiln before
//! graph @f(%x: f32[64,128], %w: f32[128,32], %b: f32[32]) -> f32[64,32] {
//!   %0 = reduce_max %x {axes = [1]} : f32[64]
//!   %1 = broadcast %0 {axes = [0]} : f32[64,128]
//!   %2 = sub %x, %1 : f32[64,128]
//!   %3 = dot_general %2, %w {lhs_contract = [1], rhs_contract = [0]} : f32[64,32]
//!   %4 = broadcast %b {axes = [1]} : f32[64,32]
//!   %5 = add %3, %4 : f32[64,32]
//!   %6 = tanh %5 : f32[64,32]
//!   return %6
//! }
//! ```
//! ```kiln fused
//! group 0: rows [64,128] along [1] (%x) -> (%0)
//!   %0 = reduce_max %x {axes = [1]} : f32[64]  // root
//! group 1: contraction (%0, %x, %w, %b) -> (%6)
//!   %1 = broadcast %0 {axes = [0]} : f32[64,128]
//!   %2 = sub %x, %1 : f32[64,128]
//!   %3 = dot_general %2, %w {lhs_contract = [1], rhs_contract = [0]} : f32[64,32]
//!   %4 = broadcast %b {axes = [1]} : f32[64,32]
//!   %5 = add %3, %4 : f32[64,32]
//!   %6 = tanh %5 : f32[64,32]  // root
//! return %6
//! ```
//!
//! The graph stays as it is; the result is a view of it ([`Fusion`]). Four steps:
//!
//! 1. *Start* (`start`): every node that computes is a group, with the views that
//!    feed it. Views (broadcast, reshape, transpose, slice, pad, concatenate) and
//!    iota cost next to nothing and are computed again wherever they are read. Maps
//!    with one reader join it at once.
//! 2. *Merge* (`merge`): a priority queue over pairs of groups. The step that saves
//!    most, by the model of [`crate::analysis::cost`], is done next, and what it
//!    changes is weighed anew, until nothing saves anything:
//!
//!    ```text
//!    inline   P ─▶ C1, C2     P's nodes join every reader; P disappears
//!    merge    P ─▶ C          one group; what others read of P stays a root
//!    siblings A, B            two readers of one value read it once
//!    ```
//!
//! 3. *Absorb*: a reader takes in what is cheaper to compute again than to read,
//!    though it stays in memory for others.
//! 4. *Together* (`together`): small groups that do not depend on each other share
//!    a launch.
//!
//! A step is taken only if the result is of a [`Kind`](crate::group::Kind), is not
//! too large, and leaves the groups without a circle. Everything is decided in a
//! fixed order: equal graphs fuse equally.
//!
//! Declines: reductions, contractions and updates are never computed twice; see also
//! `analysis::assess` for programs over long rows and tall columns.

mod circle;
mod merge;
mod start;
mod together;

use hashbrown::HashSet;
use kiln_ir::{Graph, NodeId, Value};

use crate::analysis::assess::{Assessed, Assessor};
use crate::analysis::cost::Machine;
use crate::analysis::nodes::{At, Nodes};
use crate::group::{Fusion, Group};
use crate::pipeline::PassCx;

/// Groups the nodes of `graph`, which holds no calls.
pub(crate) fn run(graph: &Graph, machine: &Machine, cx: &mut PassCx) -> Fusion {
    let nodes = Nodes::new(graph);
    let mut assessor = Assessor::new(&nodes, machine);
    let start = start::start(&nodes, &mut assessor, machine, cx);
    let groups = merge::merge(&nodes, &mut assessor, machine, start, cx);
    let groups = sorted(&nodes, groups);
    together::together(graph, &nodes, machine, groups, cx)
}

/// Every node a group of its own.
pub(crate) fn each_alone(graph: &Graph) -> Fusion {
    let nodes = Nodes::new(graph);
    let mut assessor = Assessor::new(&nodes, &Machine::default());
    let alone = (0..nodes.len() as At)
        .filter(|&at| nodes[at].result == 0 && nodes[at].live && nodes.computed(at))
        .map(|at| {
            let results: Vec<At> = nodes.results(at).collect();
            assessor.assess(&results, &start::roots(&nodes, at)).expect("one node is a group")
        });
    let alone: Vec<Assessed> = alone.collect();
    let kept = Kept::new(graph, &nodes, &alone);
    Fusion { groups: alone.iter().map(|a| group(&nodes, &kept, a)).collect() }
}

fn group(nodes: &Nodes, kept: &Kept, assessed: &Assessed) -> Group {
    let mut members: Vec<NodeId> = assessed.members.iter().map(|&m| nodes[m].id).collect();
    members.dedup();
    Group {
        members,
        roots: assessed.roots.iter().flat_map(|&r| kept.roots(nodes, r)).collect(),
        kind: assessed.kind.clone(),
    }
}

/// Which results of nodes that have several are in memory: a group may be the only one to
/// read one of them.
struct Kept(HashSet<Value>);

impl Kept {
    fn new(graph: &Graph, nodes: &Nodes, groups: &[Assessed]) -> Kept {
        let mut kept: HashSet<Value> = graph.outputs().iter().copied().collect();
        for group in groups {
            let several = |&i: &At| nodes[i].results > 1;
            if !group.inputs.iter().any(several) {
                continue;
            }
            let inputs: HashSet<NodeId> = group.inputs.iter().map(|&i| nodes[i].id).collect();
            let operands = group.members.iter().flat_map(|&m| graph.operands(nodes[m].id));
            kept.extend(operands.filter(|v| inputs.contains(&v.node)));
        }
        Kept(kept)
    }

    /// The values that a root writes to memory.
    fn roots<'a>(&'a self, nodes: &Nodes, root: At) -> impl Iterator<Item = Value> + use<'a> {
        let one = nodes[root].results == 1;
        nodes.values(root).filter(move |value| one || self.0.contains(value))
    }
}

/// The groups in a topological order that follows the order of their first roots.
fn sorted(nodes: &Nodes, groups: Vec<Assessed>) -> Vec<Assessed> {
    let order = {
        let links: Vec<Links> =
            groups.iter().map(|g| Links { roots: &g.roots, inputs: &g.inputs }).collect();
        topological(nodes, &links)
    };
    let mut groups: Vec<Option<Assessed>> = groups.into_iter().map(Some).collect();
    order.into_iter().map(|g| groups[g].take().expect("each once")).collect()
}

/// What a group makes and reads.
struct Links<'a> {
    roots: &'a [At],
    inputs: &'a [At],
}

/// An order in which every group comes after those it reads; where there is a choice,
/// the group with the first root comes first.
fn topological(nodes: &Nodes, groups: &[Links]) -> Vec<usize> {
    let mut owner = vec![usize::MAX; nodes.len()];
    for (g, group) in groups.iter().enumerate() {
        group.roots.iter().for_each(|&r| owner[r as usize] = g);
    }
    let mut missing = vec![0; groups.len()];
    let mut readers = vec![Vec::new(); groups.len()];
    for (g, group) in groups.iter().enumerate() {
        for &i in group.inputs.iter().filter(|&&i| nodes.computed(i)) {
            missing[g] += 1;
            readers[owner[i as usize]].push(g);
        }
    }
    let first = |g: usize| (groups[g].roots[0], g);
    let mut ready: std::collections::BTreeSet<(At, usize)> =
        (0..groups.len()).filter(|&g| missing[g] == 0).map(first).collect();
    let mut order = Vec::with_capacity(groups.len());
    while let Some((_, g)) = ready.pop_first() {
        order.push(g);
        for &r in &readers[g] {
            missing[r] -= 1;
            if missing[r] == 0 {
                ready.insert(first(r));
            }
        }
    }
    assert_eq!(order.len(), groups.len(), "fuse: groups depend on each other in a circle");
    order
}
