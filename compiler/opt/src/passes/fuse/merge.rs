//! The priority queue that merges groups.
//!
//! Every step that could be taken waits in a heap with what it saves. Taking one
//! changes the groups around it; steps weighed before that are recognised by the
//! versions of their groups, dropped, and weighed anew.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use super::circle::Line;
use crate::analysis::assess::{Assessed, Assessor};
use crate::analysis::cost::Machine;
use crate::analysis::nodes::{At, Nodes};
use crate::group::Kind;
use crate::pipeline::PassCx;

/// A group by number: that of the start it grew from.
type Id = u32;

/// Most readers that a group is inlined into at once. One that more read is cheap to
/// keep in memory, by comparison.
const READERS: usize = 32;

/// How many readers of a value before and after a group are tried as siblings.
const SIBLINGS: usize = 8;

/// How many readers of a group are tried when it changes: a value that thousands read
/// would otherwise be weighed against all of them after each merge.
const TRIED: usize = 16;

/// Siblings must share this part of the smaller one's traffic.
const SHARED: u64 = 8;

/// Something that could be done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Action {
    /// The first group and the second, which stands later, become one.
    Merge(Id, Id),
    /// The group's nodes join all its readers.
    Inline(Id),
}

/// Heap order: what saves most, then the earlier groups.
type Entry = (u64, Reverse<Action>, u64);

struct State<'a, 'g> {
    nodes: &'g Nodes,
    assessor: &'a mut Assessor<'g>,
    machine: &'a Machine,
    groups: Vec<Option<Assessed>>,
    /// Changes with the group, or with the groups that read it.
    versions: Vec<u64>,
    /// By node: the group whose root it is.
    owner: Vec<Option<Id>>,
    /// By node: the groups that read it from memory, increasing.
    readers: Vec<Vec<Id>>,
    line: Line,
    heap: BinaryHeap<Entry>,
    /// Groups whose steps must be weighed anew.
    dirty: BTreeSet<Id>,
}

/// Merges `groups`, given in topological order, as long as that saves time.
pub(crate) fn merge<'g>(
    nodes: &'g Nodes,
    assessor: &mut Assessor<'g>,
    machine: &Machine,
    groups: Vec<Assessed>,
    cx: &mut PassCx,
) -> Vec<Assessed> {
    let n = groups.len();
    let mut state = State {
        nodes,
        assessor,
        machine,
        groups: groups.into_iter().map(Some).collect(),
        versions: vec![0; n],
        owner: vec![None; nodes.len()],
        readers: vec![Vec::new(); nodes.len()],
        line: Line::new(n),
        heap: BinaryHeap::new(),
        dirty: (0..n as Id).collect(),
    };
    for (id, group) in state.groups.iter().enumerate() {
        let group = group.as_ref().expect("all there at the start");
        group.roots.iter().for_each(|&r| state.owner[r as usize] = Some(id as Id));
        group.inputs.iter().for_each(|&i| state.readers[i as usize].push(id as Id));
    }
    state.queue(cx);
    state.absorb(cx);
    state.groups.into_iter().flatten().collect()
}

impl State<'_, '_> {
    fn group(&self, id: Id) -> &Assessed {
        self.groups[id as usize].as_ref().expect("the group is there")
    }

    /// The groups that read a root of `id`, increasing.
    fn readers_of(&self, id: Id) -> Vec<Id> {
        let roots = &self.group(id).roots;
        let mut readers: Vec<Id> =
            roots.iter().flat_map(|&r| &self.readers[r as usize]).copied().collect();
        readers.sort_unstable();
        readers.dedup();
        readers
    }

    /// The groups whose roots `id` reads, increasing.
    fn makers_of(&self, id: Id) -> Vec<Id> {
        let inputs = &self.group(id).inputs;
        let mut makers: Vec<Id> = inputs.iter().filter_map(|&i| self.owner[i as usize]).collect();
        makers.sort_unstable();
        makers.dedup();
        makers
    }

    // --- the queue ------------------------------------------------------------

    fn queue(&mut self, cx: &mut PassCx) {
        loop {
            while let Some(id) = self.dirty.pop_first() {
                if self.groups[id as usize].is_some() {
                    self.propose(id);
                }
            }
            let Some((_, Reverse(action), stamp)) = self.heap.pop() else { break };
            if self.stamp(action) == Some(stamp) && !self.take(action, cx) {
                break;
            }
        }
    }

    /// The versions that an action was weighed with; `None` when a group is gone.
    fn stamp(&self, action: Action) -> Option<u64> {
        let version =
            |id: Id| self.groups[id as usize].as_ref().map(|_| self.versions[id as usize]);
        match action {
            Action::Merge(a, b) => Some(version(a)? + version(b)?),
            Action::Inline(p) => {
                let own = version(p)?;
                let readers = self.readers_of(p);
                Some(own + readers.iter().filter_map(|&r| version(r)).sum::<u64>())
            }
        }
    }

    /// Weighs every action that touches `id`.
    fn propose(&mut self, id: Id) {
        let mut actions = BTreeSet::from([Action::Inline(id)]);
        for maker in self.makers_of(id) {
            actions.insert(Action::Inline(maker));
            actions.insert(Action::Merge(maker, id));
        }
        for reader in self.readers_of(id).into_iter().take(TRIED) {
            actions.insert(Action::Merge(id, reader));
        }
        for sibling in self.siblings(id) {
            let ordered = self.line.place(id) < self.line.place(sibling);
            let (a, b) = if ordered { (id, sibling) } else { (sibling, id) };
            actions.insert(Action::Merge(a, b));
        }
        for action in actions {
            if let Some((gain, _)) = self.weigh(action) {
                let stamp = self.stamp(action).expect("weighed groups are there");
                self.heap.push((gain, Reverse(action), stamp));
            }
        }
    }

    /// Other readers of what `id` reads, where reading it once would matter.
    fn siblings(&self, id: Id) -> BTreeSet<Id> {
        let group = self.group(id);
        let mut found = BTreeSet::new();
        for &i in group.inputs.iter().filter(|&&i| self.nodes[i].elements > 1) {
            let readers = &self.readers[i as usize];
            let Ok(here) = readers.binary_search(&id) else { continue };
            let near = here.saturating_sub(SIBLINGS)..(here + SIBLINGS + 1).min(readers.len());
            found.extend(readers[near].iter().filter(|&&r| r != id));
        }
        found.retain(|&other| {
            let other = self.group(other);
            let common = group.inputs.iter().filter(|i| other.inputs.binary_search(i).is_ok());
            let shared: u64 = common.map(|&i| self.nodes[i].elements * self.nodes[i].size).sum();
            shared.saturating_mul(SHARED) >= group.bytes.min(other.bytes)
        });
        found
    }

    /// What an action saves, and the groups it makes; `None` when it cannot be done
    /// or saves nothing.
    fn weigh(&mut self, action: Action) -> Option<(u64, Vec<(Id, Assessed)>)> {
        let (before, after) = match action {
            Action::Merge(a, b) => {
                let (first, second) = (self.group(a), self.group(b));
                if first.operations + second.operations > 2 * self.machine.operations {
                    return None;
                }
                let before = first.time + second.time;
                let members = union(&first.members, &second.members);
                let roots = union(&first.roots, &second.roots);
                let read = |r: At| self.readers[r as usize].iter().any(|&g| g != a && g != b);
                let roots: Vec<At> =
                    roots.into_iter().filter(|&r| self.nodes[r].output || read(r)).collect();
                (before, vec![(b, self.assess(&members, &roots)?)])
            }
            Action::Inline(p) => {
                let group = self.group(p);
                let pointwise = matches!(group.kind, Kind::Map { .. } | Kind::Alias);
                let kept =
                    |&r: &At| self.nodes[r].output || self.readers[r as usize].len() > READERS;
                if !pointwise || group.roots.iter().any(kept) {
                    return None;
                }
                let readers = self.readers_of(p);
                if readers.len() < 2 || readers.len() > READERS {
                    return None;
                }
                let mut before = group.time;
                let members = group.members.clone();
                let mut after = Vec::with_capacity(readers.len());
                for reader in readers {
                    let old = self.group(reader);
                    before += old.time;
                    let members = union(&members, &old.members);
                    let roots = old.roots.clone();
                    after.push((reader, self.assess(&members, &roots)?));
                }
                (before, after)
            }
        };
        let gain = before.checked_sub(after.iter().map(|(_, a)| a.time).sum())?;
        (gain > 0).then_some((gain, after))
    }

    fn assess(&mut self, members: &[At], roots: &[At]) -> Option<Assessed> {
        self.assessor.assess(members, roots).filter(|a| a.fits(self.machine))
    }

    /// Does it, if the groups stay without a circle. Whether there is fuel left.
    fn take(&mut self, action: Action, cx: &mut PassCx) -> bool {
        let Some((_, after)) = self.weigh(action) else { return true };
        match action {
            Action::Merge(a, b) => {
                // The line may have changed since the action was proposed.
                let ordered = self.line.place(a) < self.line.place(b);
                let (a, b) = if ordered { (a, b) } else { (b, a) };
                let readers = |id: Id, f: &mut dyn FnMut(Id)| {
                    self.readers_of(id).into_iter().for_each(f);
                };
                let Some(reached) = self.line.reached(a, b, readers) else { return true };
                if !cx.rewrite("fuse.merge") {
                    return false;
                }
                self.line.merge(a, b, &reached);
                let [(_, merged)] = <[_; 1]>::try_from(after).expect("one group");
                self.merged(a, b, merged);
            }
            Action::Inline(_) => {
                if !cx.rewrite("fuse.inline") {
                    return false;
                }
                for (id, new) in after {
                    self.replace(id, new);
                }
            }
        }
        true
    }

    /// `a` and `b` have become `merged`, which keeps the number of `b`.
    fn merged(&mut self, a: Id, b: Id, merged: Assessed) {
        let old = self.groups[a as usize].take().expect("the group is there");
        for &i in &old.inputs {
            forget(&mut self.readers[i as usize], a);
        }
        for &r in &old.roots {
            self.owner[r as usize] = None;
        }
        let inputs = old.inputs;
        self.replace(b, merged);
        self.unread(inputs);
    }

    /// Makes `id` the group `new`, and lets go of what it no longer reads.
    fn replace(&mut self, id: Id, new: Assessed) {
        let old = self.groups[id as usize].take().expect("the group is there");
        for &r in &old.roots {
            self.owner[r as usize] = None;
        }
        for &r in &new.roots {
            self.owner[r as usize] = Some(id);
        }
        let lost: Vec<At> =
            old.inputs.iter().copied().filter(|i| new.inputs.binary_search(i).is_err()).collect();
        for &i in &lost {
            forget(&mut self.readers[i as usize], id);
        }
        for &i in &new.inputs {
            if let Err(place) = self.readers[i as usize].binary_search(&id) {
                self.readers[i as usize].insert(place, id);
            }
            if let Some(maker) = self.owner[i as usize] {
                self.touch(maker);
            }
        }
        self.groups[id as usize] = Some(new);
        self.touch(id);
        self.unread(lost);
    }

    fn touch(&mut self, id: Id) {
        self.versions[id as usize] += 1;
        self.dirty.insert(id);
    }

    /// Lets go of those of `values` that nobody reads any more.
    fn unread(&mut self, mut values: Vec<At>) {
        while let Some(value) = values.pop() {
            let Some(id) = self.owner[value as usize] else { continue };
            self.touch(id);
            if self.nodes[value].output || !self.readers[value as usize].is_empty() {
                continue;
            }
            let old = self.group(id).clone();
            let roots: Vec<At> = old.roots.iter().copied().filter(|&r| r != value).collect();
            let new = if roots.is_empty() {
                self.line.remove(id);
                None
            } else {
                // Fewer roots are a group too: a reduction's readers do not vanish, since
                // nobody else computes it, so what made roots of two shapes one group
                // is still there. If that were wrong, the value would stay, unread.
                let Some(new) = self.assessor.assess(&old.members, &roots) else { continue };
                Some(new)
            };
            self.owner[value as usize] = None;
            for &i in &old.inputs {
                if new.as_ref().is_none_or(|n| n.inputs.binary_search(&i).is_err()) {
                    forget(&mut self.readers[i as usize], id);
                    values.push(i);
                }
            }
            self.groups[id as usize] = new;
        }
    }

    // --- absorbing ------------------------------------------------------------

    /// Lets each group compute what that is cheaper for than reading it.
    fn absorb(&mut self, cx: &mut PassCx) {
        for id in 0..self.groups.len() as Id {
            let Some(group) = &self.groups[id as usize] else { continue };
            let mut inputs = group.inputs.clone();
            while let Some(input) = inputs.pop() {
                let group = self.group(id);
                let Some(maker) = self.owner[input as usize] else { continue };
                let made = self.group(maker);
                if !matches!(made.kind, Kind::Map { .. }) || group.kind == Kind::Alias {
                    continue;
                }
                let (time, roots) = (group.time, group.roots.clone());
                let members = union(&made.members, &group.members);
                let Some(new) = self.assess(&members, &roots) else { continue };
                if new.time >= time {
                    continue;
                }
                if !cx.rewrite("fuse.absorb") {
                    return;
                }
                inputs.retain(|i| new.inputs.contains(i));
                self.replace(id, new);
            }
        }
    }
}

/// The sorted union of two sorted lists.
fn union(a: &[At], b: &[At]) -> Vec<At> {
    let mut all = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let next = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => *x.min(y),
            (x, y) => *x.or(y).expect("one is left"),
        };
        all.push(next);
        i += usize::from(a.get(i) == Some(&next));
        j += usize::from(b.get(j) == Some(&next));
    }
    all
}

fn forget(readers: &mut Vec<Id>, id: Id) {
    if let Ok(place) = readers.binary_search(&id) {
        readers.remove(place);
    }
}
