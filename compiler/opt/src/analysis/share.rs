//! Which input's buffer a root may take.
//!
//! [`may_share`] answers for one group: if both were one buffer, would every element
//! still be read before it is overwritten? The units of work of a kernel run in any
//! order, so the element must be read by the unit that overwrites it, and by no other.
//!
//! What lowering guarantees, by kind:
//!
//! - `Map`: a point reads all its inputs before it writes.
//! - `Rows`: a row reads its own part of inputs that are read at every element of the
//!   space, in any of its stages; roots of the space's shape are stored by the last
//!   stage that reads such an input, step by step; roots with one element for each
//!   row are stored after all stages.
//! - `Fold`: inputs of what follows the fold are read where the result is written; those
//!   of a running result too, unless a long row is cut into chunks, which are read twice:
//!   both times before the chunk is written. Inputs of other folds are read anywhere.
//! - `Contraction`: inputs of what follows the sum are read where the result is
//!   written. Inputs of the operands are read anywhere, any time.
//! - `Update`: what is updated *is* the result.

use hashbrown::{HashMap, HashSet};
use kiln_ir::form::View;
use kiln_ir::{Form, Graph, NodeId, Value};

use crate::group::{Group, Kind};

/// Which element of a value a unit of work reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum At {
    /// Of the iteration space: the element with its own row-major number.
    Wide,
    /// The element with the row-major number of the row.
    Narrow,
    /// Some other element, or several.
    Elsewhere,
}

/// Whether the kernel of `group` may be given one buffer for the input `input` and
/// the root `root`, provided that nothing else needs the input afterwards.
pub fn may_share(graph: &Graph, group: &Group, input: Value, root: Value) -> bool {
    let (from, to) = (graph.ty(input), graph.ty(root));
    if from.elements() != to.elements() || from.dtype.size() != to.dtype.size() {
        return false;
    }
    if let Kind::Together { parts } = &group.kind {
        // Parts run in any order: no other part may read the input.
        let reads = |part: &Group| part.inputs(graph).contains(&input);
        return parts.iter().all(|part| match part.roots.contains(&root) {
            true => may_share(graph, part, input, root),
            false => !reads(part),
        });
    }
    if let Kind::Rows { space, axes } = &group.kind
        && axes.iter().all(|&a| space[a] == 1)
    {
        // Rows and elements are the same: which stage reads what is not told apart.
        return false;
    }
    let Some(place) = root_place(graph, group, root) else { return false };
    if let Kind::Update { node } = group.kind
        && input == graph.operands(node)[0]
    {
        // Not when what is written is computed from it.
        return !reads(graph, group).contains_key(&input);
    }
    let reads = reads(graph, group);
    reads.get(&input).is_some_and(|places| *places == [place])
}

/// Where a root is written.
fn root_place(graph: &Graph, group: &Group, root: Value) -> Option<At> {
    match &group.kind {
        Kind::Alias => None,
        Kind::Map { .. } | Kind::Contraction { .. } | Kind::Fold { .. } => Some(At::Wide),
        Kind::Rows { space, .. } => {
            Some(if graph.ty(root).shape == *space { At::Wide } else { At::Narrow })
        }
        Kind::Update { .. } => Some(At::Elsewhere),
        // Threads that share a row read all of it.
        Kind::Sort { .. } => None,
        Kind::Together { .. } => unreachable!("its parts were asked"),
    }
}

/// For each input of a group, the different places where it is read.
fn reads(graph: &Graph, group: &Group) -> HashMap<Value, Vec<At>> {
    let members: HashSet<NodeId> = group.members.iter().copied().collect();
    let mut places: HashMap<Value, Vec<At>> = HashMap::new();
    let mut note = |value: Value, at: At| {
        let list = places.entry(value).or_default();
        let new = !list.contains(&at);
        if new {
            list.push(at);
        }
        new
    };
    let mut stack: Vec<(Value, At)> = Vec::new();
    for &root in &group.roots {
        let at = root_place(graph, group, root).unwrap_or(At::Elsewhere);
        if note(root, at) {
            stack.push((root, at));
        }
    }
    while let Some((value, at)) = stack.pop() {
        if !members.contains(&value.node) {
            continue;
        }
        let operands = graph.operands(value.node);
        let skipped = usize::from(graph.op(value.node).lower().overwrites());
        for &operand in &operands[skipped..] {
            let at = read_at(graph, group, value, operand, at);
            if note(operand, at) {
                stack.push((operand, at));
            }
        }
    }
    places
}

/// Where `operand` is read for `value` at `at`.
fn read_at(graph: &Graph, group: &Group, value: Value, operand: Value, at: At) -> At {
    match graph.op(value.node).lower() {
        Form::Map(_) | Form::View(View::Reshape) | Form::Cumulative(..) => at,
        Form::Reduce(_, axes) if axes.is_empty() => at,
        Form::Reduce(..) | Form::ArgReduce(..) => At::Wide,
        Form::View(View::Broadcast { axes }) => {
            if graph.ty(operand).elements() == graph.ty(value).elements() {
                return at;
            }
            // A row's own value, spread over the row.
            let Kind::Rows { space, axes: reduced } = &group.kind else { return At::Elsewhere };
            let narrow = at == At::Wide
                && graph.ty(value).shape == *space
                && (0..space.rank()).all(|k| {
                    let has = axes
                        .iter()
                        .zip(graph.ty(operand).shape.iter())
                        .any(|(&a, &d)| a == k && d != 1);
                    has != reduced.contains(&k) || space[k] == 1
                });
            if narrow { At::Narrow } else { At::Elsewhere }
        }
        _ => At::Elsewhere,
    }
}
