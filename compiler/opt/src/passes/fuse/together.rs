//! Small groups that do not depend on each other share a launch.
//!
//! Groups are ranked from the end: a group's rank is one above the highest among its
//! readers. Groups of one rank cannot depend on each other, and joining them cannot
//! make a circle, because every dependency leads to a lower rank. Ranking from the
//! end brings together what is ready early but needed late, such as the updates of
//! all parameters of a model.
//!
//! Only groups that move few bytes are joined: for others a launch costs nothing
//! beside the work, and joining would keep all their operands in memory at once.
//!
//! Declines to join a group that reads a donated parameter with one whose result
//! could overwrite it: within a launch nothing says that the reader comes first, so
//! the result would need a buffer of its own.

use hashbrown::HashSet;
use kiln_ir::{Graph, Value};

use super::{Kept, Links, group, topological};
use crate::analysis::assess::Assessed;
use crate::analysis::cost::Machine;
use crate::analysis::nodes::{At, Nodes};
use crate::analysis::share::may_share;
use crate::group::{Fusion, Group, Kind};
use crate::pipeline::PassCx;

/// Most parts of one launch, and most operations of all of them together, in terms of
/// what one group may have: bounds the size of its code.
const PARTS: usize = 64;
const OPERATIONS: u32 = 4;

/// The groups, given in topological order, as a fusion.
pub(crate) fn together(
    graph: &Graph,
    nodes: &Nodes,
    machine: &Machine,
    groups: Vec<Assessed>,
    cx: &mut PassCx,
) -> Fusion {
    let ranks = ranks(nodes, &groups);
    let highest = ranks.iter().copied().max().unwrap_or(0);
    let mut by_rank = vec![Vec::new(); highest + 1];
    for (g, &rank) in ranks.iter().enumerate() {
        let small = groups[g].bytes <= machine.small;
        if small
            && matches!(groups[g].kind, Kind::Map { .. } | Kind::Rows { .. } | Kind::Fold { .. })
        {
            by_rank[rank].push(g);
        }
    }
    let signature = Signature::new(graph);
    let kept = Kept::new(graph, nodes, &groups);
    let mut launches: Vec<Vec<usize>> = Vec::new();
    let mut joined = vec![false; groups.len()];
    for rank in by_rank {
        let mut open: Vec<(Vec<usize>, Donated)> = Vec::new();
        let operations =
            |parts: &[usize]| -> u32 { parts.iter().map(|&g| groups[g].operations).sum() };
        for g in rank {
            let part = Donated::new(graph, &signature, &group(nodes, &kept, &groups[g]));
            let room = |(parts, of): &&mut (Vec<usize>, Donated)| {
                let sum = operations(parts) + groups[g].operations;
                parts.len() < PARTS
                    && sum <= OPERATIONS * machine.operations
                    && !of.conflicts(&part)
            };
            match open.iter_mut().find(room) {
                Some((parts, of)) => {
                    parts.push(g);
                    of.join(part);
                }
                None => open.push((vec![g], part)),
            }
        }
        for (parts, _) in open {
            if parts.len() > 1 && cx.rewrite("fuse.together") {
                parts.iter().for_each(|&g| joined[g] = true);
                launches.push(parts);
            }
        }
    }
    launches.extend((0..groups.len()).filter(|&g| !joined[g]).map(|g| vec![g]));
    let all = |launch: &[usize], values: fn(&Assessed) -> &[At]| -> Vec<At> {
        launch.iter().flat_map(|&g| values(&groups[g])).copied().collect()
    };
    let roots: Vec<Vec<At>> = launches.iter().map(|l| all(l, |g| &g.roots)).collect();
    let inputs: Vec<Vec<At>> = launches.iter().map(|l| all(l, |g| &g.inputs)).collect();
    let links: Vec<Links> =
        roots.iter().zip(&inputs).map(|(roots, inputs)| Links { roots, inputs }).collect();
    let groups = topological(nodes, &links).into_iter().map(|l| match launches[l][..] {
        [g] => group(nodes, &kept, &groups[g]),
        ref parts => join(parts.iter().map(|&g| group(nodes, &kept, &groups[g])).collect()),
    });
    Fusion { groups: groups.collect() }
}

/// What groups do with donated parameters.
struct Donated {
    read: HashSet<Value>,
    /// A result that is returned could take their buffers.
    overwritten: HashSet<Value>,
}

/// The donated parameters and the outputs of a graph.
struct Signature {
    donated: HashSet<Value>,
    outputs: HashSet<Value>,
}

impl Signature {
    fn new(graph: &Graph) -> Signature {
        let parameters = graph.parameters().enumerate();
        let donated = parameters.filter(|&(i, _)| graph.parameter_info(i).donated);
        Signature {
            donated: donated.map(|(_, p)| p).collect(),
            outputs: graph.outputs().iter().copied().collect(),
        }
    }
}

impl Donated {
    fn new(graph: &Graph, signature: &Signature, group: &Group) -> Donated {
        let mut of = Donated { read: HashSet::new(), overwritten: HashSet::new() };
        if signature.donated.is_empty() {
            return of;
        }
        let inputs = group.inputs(graph).into_iter();
        of.read = inputs.filter(|i| signature.donated.contains(i)).collect();
        for &input in &of.read {
            let mut outputs = group.roots.iter().filter(|r| signature.outputs.contains(*r));
            if outputs.any(|&root| may_share(graph, group, input, root)) {
                of.overwritten.insert(input);
            }
        }
        of
    }

    fn conflicts(&self, other: &Donated) -> bool {
        let kept = |a: &Donated, b: &Donated| a.read.is_disjoint(&b.overwritten);
        !kept(self, other) || !kept(other, self)
    }

    fn join(&mut self, other: Donated) {
        self.read.extend(other.read);
        self.overwritten.extend(other.overwritten);
    }
}

fn join(parts: Vec<Group>) -> Group {
    Group {
        members: parts.iter().flat_map(|p| p.members.clone()).collect(),
        roots: parts.iter().flat_map(|p| p.roots.clone()).collect(),
        kind: Kind::Together { parts },
    }
}

/// The length of the longest chain of groups that reads each.
fn ranks(nodes: &Nodes, groups: &[Assessed]) -> Vec<usize> {
    let mut owner = vec![usize::MAX; nodes.len()];
    for (g, group) in groups.iter().enumerate() {
        group.roots.iter().for_each(|&r| owner[r as usize] = g);
    }
    let mut ranks = vec![0; groups.len()];
    for (g, group) in groups.iter().enumerate().rev() {
        for &i in group.inputs.iter().filter(|&&i| nodes.computed(i)) {
            let maker = owner[i as usize];
            ranks[maker] = ranks[maker].max(ranks[g] + 1);
        }
    }
    ranks
}
