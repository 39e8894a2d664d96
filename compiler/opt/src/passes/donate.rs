//! Donation: which donated parameter's buffer an output would best take.
//!
//! ```kiln before
//! graph @step(%g: f32[64], %w: f32[64] {donated}) -> (f32[], f32[64]) {
//!   %0 = sub %w, %g : f32[64]
//!   %1 = reduce_sum %g {axes = [0]} : f32[]
//!   return %1, %0
//! }
//! ```
//! ```kiln wishes
//! output 1 takes parameter 1
//! ```
//!
//! An output that is computed element by element from a donated parameter of as many
//! bytes can overwrite it in place. The pass follows the output backward through
//! roots that may share buffers, group by group, to such a parameter. What is left
//! over is paired by name (`state.w` with `state.w`), then by type.
//!
//! The pairs are wishes. The memory planner knows the schedule and decides; it must
//! not rely on a wish being sound.

use hashbrown::{HashMap, HashSet};
use kiln_ir::{Graph, Value};

use crate::analysis::share::may_share;
use crate::group::{Fusion, Group, Kind};
use crate::pipeline::PassCx;

/// Values looked at for one output: it is the near past that counts.
const STEPS: usize = 64;

/// Pairs (output, parameter): each output and each parameter at most once.
pub(crate) fn run(graph: &Graph, fusion: &Fusion, cx: &mut PassCx) -> Vec<(usize, usize)> {
    let parameters: Vec<Value> = graph.parameters().collect();
    let donated: Vec<usize> =
        (0..parameters.len()).filter(|&p| graph.parameter_info(p).donated).collect();
    let mut pairing = Pairing { graph, free: donated.clone(), pairs: Vec::new() };
    if donated.is_empty() {
        return pairing.pairs;
    }
    let mut owner: HashMap<Value, &Group> = HashMap::new();
    for group in &fusion.groups {
        group.roots.iter().for_each(|&r| _ = owner.insert(r, group));
    }
    let mut seen = HashSet::new();
    let outputs: Vec<(usize, Value)> = graph
        .outputs()
        .iter()
        .copied()
        .enumerate()
        // A value returned twice has one buffer.
        .filter(|&(_, v)| seen.insert(v))
        .collect();
    // A parameter that is returned stays where it is.
    for &(o, value) in &outputs {
        if let Some(p) = pairing.free.iter().copied().find(|&p| parameters[p] == value) {
            pairing.pair(o, p, "donate.self", cx);
        }
    }
    for &(o, value) in &outputs {
        let found = origin(graph, &owner, value, |v| {
            pairing.free.iter().copied().find(|&p| parameters[p] == v)
        });
        if let Some(p) = found {
            pairing.pair(o, p, "donate.flow", cx);
        }
    }
    let same_bytes = |v: Value, p: usize| graph.ty(v).bytes() == graph.ty(parameters[p]).bytes();
    for &(o, value) in &outputs {
        let name = graph.output_name(o);
        let named = |&p: &usize| {
            !name.is_empty() && graph.parameter_info(p).name == name && same_bytes(value, p)
        };
        if let Some(p) = pairing.free.iter().copied().find(named) {
            pairing.pair(o, p, "donate.name", cx);
        }
    }
    for &(o, value) in &outputs {
        let same = |&p: &usize| graph.ty(value) == graph.ty(parameters[p]);
        if let Some(p) = pairing.free.iter().copied().find(same) {
            pairing.pair(o, p, "donate.type", cx);
        }
    }
    pairing.pairs.sort_unstable();
    pairing.pairs
}

struct Pairing<'g> {
    graph: &'g Graph,
    /// Donated parameters that no output wishes for yet.
    free: Vec<usize>,
    pairs: Vec<(usize, usize)>,
}

impl Pairing<'_> {
    fn pair(&mut self, output: usize, parameter: usize, rule: &'static str, cx: &mut PassCx) {
        debug_assert!(parameter < self.graph.parameters().len());
        let taken = self.pairs.iter().any(|&(o, _)| o == output);
        if !taken && cx.rewrite(rule) {
            self.free.retain(|&p| p != parameter);
            self.pairs.push((output, parameter));
        }
    }
}

/// The first parameter that `wanted` knows, going backward from `value` through
/// values whose buffers may be shared.
fn origin(
    graph: &Graph,
    owner: &HashMap<Value, &Group>,
    value: Value,
    wanted: impl Fn(Value) -> Option<usize>,
) -> Option<usize> {
    let mut queue = vec![value];
    let mut next = 0;
    while next < queue.len().min(STEPS) {
        let value = queue[next];
        next += 1;
        if let Some(p) = wanted(value) {
            return Some(p);
        }
        let Some(group) = owner.get(&value) else { continue };
        let before: Vec<Value> = match group.kind {
            Kind::Alias => graph.operands(value.node)[..1].to_vec(),
            Kind::Update { node } => graph.operands(node)[..1].to_vec(),
            _ => {
                let inputs = group.inputs(graph);
                inputs.into_iter().filter(|&i| may_share(graph, group, i, value)).collect()
            }
        };
        for v in before {
            if !queue.contains(&v) {
                queue.push(v);
            }
        }
    }
    None
}
