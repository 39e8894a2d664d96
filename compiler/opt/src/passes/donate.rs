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
//! roots that may share buffers, group by group, to such parameters, and among several
//! takes the one whose name is most alike (`out.0.w` and `arg0.w`). What is left over
//! is paired by name, then by type.
//!
//! The pairs are wishes. The memory planner knows the schedule and decides; it must
//! not rely on a wish being sound.

use std::cmp::Reverse;
use std::collections::BTreeSet;

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
    let donated = (0..parameters.len()).filter(|&p| graph.parameter_info(p).donated);
    let mut pairing = Pairing {
        free: donated.collect(),
        open: vec![true; graph.outputs().len()],
        pairs: Vec::new(),
    };
    if pairing.free.is_empty() {
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
    let by_value: HashMap<Value, usize> =
        pairing.free.iter().map(|&p| (parameters[p], p)).collect();
    let flows: Vec<Vec<usize>> =
        outputs.iter().map(|&(_, v)| origins(graph, &owner, v, &by_value)).collect();
    let likeness =
        |o: usize, p: usize| likeness(graph.output_name(o), &graph.parameter_info(p).name);
    // The first of those whose names are most alike, if any are.
    let most_alike = |o: usize, candidates: &mut dyn Iterator<Item = usize>| {
        let alike = candidates.map(|p| (likeness(o, p), Reverse(p))).filter(|(n, _)| *n > 0);
        alike.max().map(|(_, Reverse(p))| p)
    };
    let is_free = |free: &BTreeSet<usize>, p: &usize| free.contains(p);
    // For output `outputs[i]`, the parameter of its choice among the free ones.
    type Choice<'a> = &'a dyn Fn(usize, &BTreeSet<usize>) -> Option<usize>;
    let rounds: [(&'static str, Choice); 5] = [
        // A parameter that is returned stays where it is.
        ("donate.self", &|i, free| {
            by_value.get(&outputs[i].1).copied().filter(|p| is_free(free, p))
        }),
        ("donate.flow", &|i, free| {
            let mut flow = flows[i].iter().copied().filter(|p| is_free(free, p));
            most_alike(outputs[i].0, &mut flow)
        }),
        ("donate.flow", &|i, free| flows[i].iter().copied().find(|p| is_free(free, p))),
        ("donate.name", &|i, free| {
            let (o, value) = outputs[i];
            let bytes = |p: &usize| graph.ty(parameters[*p]).bytes();
            let same = |p: &usize| bytes(p) == graph.ty(value).bytes();
            most_alike(o, &mut free.iter().copied().filter(same))
        }),
        ("donate.type", &|i, free| {
            let same = |p: &usize| graph.ty(parameters[*p]) == graph.ty(outputs[i].1);
            free.iter().copied().find(same)
        }),
    ];
    for (rule, choice) in rounds {
        for (i, &(o, _)) in outputs.iter().enumerate() {
            if pairing.open[o]
                && let Some(p) = choice(i, &pairing.free)
            {
                pairing.pair(o, p, rule, cx);
            }
        }
    }
    pairing.pairs.sort_unstable();
    pairing.pairs
}

/// How many fields at the end of two leaf paths are the same: those of `out.0.adam.m`
/// and `arg0.adam.m` have two.
fn likeness(a: &str, b: &str) -> usize {
    if a.is_empty() || b.is_empty() {
        return 0;
    }
    a.rsplit('.').zip(b.rsplit('.')).take_while(|(a, b)| a == b).count()
}

#[derive(Debug)]
struct Pairing {
    /// Donated parameters that no output wishes for yet.
    free: BTreeSet<usize>,
    /// By output: whether it has no wish yet.
    open: Vec<bool>,
    pairs: Vec<(usize, usize)>,
}

impl Pairing {
    fn pair(&mut self, output: usize, parameter: usize, rule: &'static str, cx: &mut PassCx) {
        if cx.rewrite(rule) {
            self.free.remove(&parameter);
            self.open[output] = false;
            self.pairs.push((output, parameter));
        }
    }
}

/// The donated parameters among the values whose buffers `value` may have, through any
/// number of groups; nearest first.
fn origins(
    graph: &Graph,
    owner: &HashMap<Value, &Group>,
    value: Value,
    donated: &HashMap<Value, usize>,
) -> Vec<usize> {
    let mut found = Vec::new();
    let mut queue = vec![value];
    let mut next = 0;
    while next < queue.len().min(STEPS) {
        let value = queue[next];
        next += 1;
        found.extend(donated.get(&value));
        let Some(group) = owner.get(&value) else { continue };
        let before: Vec<Value> = match group.kind {
            // Of a reshape its operand, of a barrier the one of this result.
            Kind::Alias => vec![graph.operands(value.node)[value.result as usize]],
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
    found
}
