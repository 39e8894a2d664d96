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

use super::{Links, group, topological};
use crate::analysis::assess::Assessed;
use crate::analysis::cost::Machine;
use crate::analysis::nodes::{At, Nodes};
use crate::group::{Fusion, Group, Kind};
use crate::pipeline::PassCx;

/// Most parts of one launch: bounds the size of its code.
const PARTS: usize = 64;

/// The groups, given in topological order, as a fusion.
pub(crate) fn together(
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
        if small && matches!(groups[g].kind, Kind::Map { .. } | Kind::Rows { .. }) {
            by_rank[rank].push(g);
        }
    }
    let mut launches: Vec<Vec<usize>> = Vec::new();
    let mut joined = vec![false; groups.len()];
    for parts in by_rank.iter().flat_map(|rank| rank.chunks(PARTS)) {
        if parts.len() > 1 && cx.rewrite("fuse.together") {
            parts.iter().for_each(|&g| joined[g] = true);
            launches.push(parts.to_vec());
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
        [g] => group(nodes, &groups[g]),
        ref parts => join(parts.iter().map(|&g| group(nodes, &groups[g])).collect()),
    });
    Fusion { groups: groups.collect() }
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
