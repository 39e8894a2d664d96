//! The groups that merging starts from.

use kiln_ir::Form;
use kiln_ir::form::View;

use crate::analysis::assess::{Assessed, Assessor};
use crate::analysis::cost::Machine;
use crate::analysis::nodes::{At, Nodes};
use crate::group::CUT;
use crate::pipeline::PassCx;

/// Most views that are computed again for one reader: a longer chain, or one whose
/// parts are shared like `concatenate x x` of `concatenate x x`, gets a group.
const VIEWS: u32 = 32;

/// Most operations and operands of a chain of maps joined before anything is weighed.
const CHAIN: u32 = 128;
const CHAIN_OPERANDS: usize = 24;

/// One group for each node that computes, or for each tree of maps.
pub(crate) fn start(
    nodes: &Nodes,
    assessor: &mut Assessor,
    machine: &Machine,
    cx: &mut PassCx,
) -> Vec<Assessed> {
    let free = free(nodes, cx);
    let chain = chains(nodes, machine, cx);
    let n = nodes.len() as At;
    // By the node that ends each chain, the nodes of the chain.
    let mut trees: Vec<Vec<At>> = vec![Vec::new(); nodes.len()];
    for at in (0..n).filter(|&at| nodes[at].live && nodes.computed(at)) {
        trees[chain[at as usize] as usize].push(at);
    }
    joins(nodes, &free, &mut trees, cx);
    let mut groups = Vec::new();
    for at in 0..n {
        let own = !free[at as usize] || nodes[at].output;
        if trees[at as usize].is_empty() || !own {
            continue;
        }
        let mut members = std::mem::take(&mut trees[at as usize]);
        let roots = roots(nodes, at);
        views(nodes, &free, &mut members);
        groups.push(assessor.assess(&members, &roots).expect("a node with its views is a group"));
    }
    groups
}

/// What a group that starts from the node of `at` makes: `at`, or those of several
/// results that are read by others or returned.
pub(super) fn roots(nodes: &Nodes, at: At) -> Vec<At> {
    let results = nodes.results(at);
    if results.len() == 1 {
        return vec![at];
    }
    let read = |&r: &At| nodes[r].live && !results.contains(&r);
    let wanted = |&r: &At| nodes[r].output || nodes[r].readers.iter().any(read);
    results.clone().filter(wanted).collect()
}

/// Which nodes are computed again by every reader.
fn free(nodes: &Nodes, cx: &mut PassCx) -> Vec<bool> {
    let mut free = vec![false; nodes.len()];
    let mut behind = vec![0u32; nodes.len()];
    for at in 0..nodes.len() as At {
        let row = &nodes[at];
        let view = match &row.form {
            Form::View(View::Concatenate { .. }) => row.operands.len() < CUT,
            Form::View(_) | Form::Generate(_) => true,
            _ => false,
        };
        // The base of an update must be in memory.
        let base =
            row.readers.iter().any(|&r| nodes[r].form.overwrites() && nodes[r].operands[0] == at);
        let mut readers = row.readers.iter();
        let memory = readers.any(|&r| nodes.reads_memory(r) && !nodes.is_position(r, at));
        // What reads it may not be part of the update (see `assess`).
        let reads_base = row.operands.iter().any(|&o| nodes.updated(o));
        if !view || base || memory || reads_base || !row.live || !nodes.computed(at) {
            continue;
        }
        let count =
            row.operands.iter().fold(1u32, |sum, &o| sum.saturating_add(behind[o as usize]));
        if count <= VIEWS && cx.rewrite("fuse.view") {
            free[at as usize] = true;
            behind[at as usize] = count;
        }
    }
    free
}

/// For each node, the last node of the chain of maps that it belongs to: itself
/// unless it is a map whose one reader is a map. Several results belong to the first.
fn chains(nodes: &Nodes, machine: &Machine, cx: &mut PassCx) -> Vec<At> {
    let mut end: Vec<At> = (0..nodes.len() as At).map(|at| at - nodes[at].result).collect();
    let limit = CHAIN.min(machine.operations / 4);
    let mut operations = vec![0u32; nodes.len()];
    let mut operands = vec![0usize; nodes.len()];
    let map = |at: At| matches!(nodes[at].form, Form::Map(_));
    for at in (0..nodes.len() as At).rev() {
        let row = &nodes[at];
        if !map(at) || !row.live {
            continue;
        }
        let live: Vec<At> = row.readers.iter().copied().filter(|&r| nodes[r].live).collect();
        if let [reader] = live[..]
            && map(reader)
            && !row.output
        {
            let last = end[reader as usize] as usize;
            let fits = operations[last] + row.weight <= limit
                && operands[last] + row.operands.len() <= CHAIN_OPERANDS;
            if fits && cx.rewrite("fuse.chain") {
                end[at as usize] = last as At;
            }
        }
        let last = end[at as usize] as usize;
        operations[last] += row.weight;
        operands[last] += row.operands.len();
    }
    end
}

/// Lets concatenations that have a kernel compute the pieces that nobody else reads: its
/// loops, one for each piece, write them where they belong. Each piece is as large as a
/// chain may be, whatever the number of pieces; merging would find the same, but weighs
/// every piece against all others.
fn joins(nodes: &Nodes, free: &[bool], trees: &mut [Vec<At>], cx: &mut PassCx) {
    let join = |at: &At| {
        let row = &nodes[*at];
        let joins = matches!(row.form, Form::View(View::Concatenate { .. }));
        joins && row.live && nodes.computed(*at) && !free[*at as usize]
    };
    for at in (0..nodes.len() as At).filter(join) {
        for &operand in &nodes[at].operands {
            let Some(piece) = piece(nodes, free, operand) else { continue };
            if !trees[piece as usize].is_empty() && cx.rewrite("fuse.join") {
                let tree = std::mem::take(&mut trees[piece as usize]);
                trees[at as usize].extend(tree);
            }
        }
    }
}

/// The map behind an operand of a concatenation, if all of it is read there alone.
fn piece(nodes: &Nodes, free: &[bool], operand: At) -> Option<At> {
    let mut at = operand;
    loop {
        let row = &nodes[at];
        let mut readers = row.readers.iter().filter(|&&r| nodes[r].live);
        let alone = readers.next().is_some() && readers.next().is_none() && !row.output;
        match &row.form {
            _ if !alone => return None,
            Form::Map(_) => return Some(at),
            Form::View(View::Reshape | View::Broadcast { .. } | View::Transpose { .. })
                if free[at as usize] && nodes[row.operands[0]].elements == row.elements =>
            {
                at = row.operands[0];
            }
            _ => return None,
        }
    }
}

/// Adds the free nodes that the members read, and those that these read.
fn views(nodes: &Nodes, free: &[bool], members: &mut Vec<At>) {
    let mut next = 0;
    while next < members.len() {
        for &o in &nodes[members[next]].operands {
            if free[o as usize] && !members.contains(&o) {
                members.push(o);
            }
        }
        next += 1;
    }
    members.sort_unstable();
}
