//! Whether nodes can be one group, of which kind, and what running it costs.
//!
//! [`Assessor::assess`] is given the nodes that may be computed and the values that
//! are wanted. It answers with the group that computes just that, or `None` when no
//! [`Kind`] fits. What a kind promises is written in [`crate::group`]; three more
//! refusals are made here because the group would be legal but slow:
//!
//! - *An update that reads its base.* It would read elements that it overwrites, so the
//!   whole base would be copied first. Computed by another kernel, the box is all that
//!   moves.
//! - *Long rows.* Lowering splits the reduction of few long rows between threads,
//!   one pair of launches for each level of dependent reductions. Whatever depends
//!   on such a reduction element by element is better off in a kernel of its own,
//!   where every element is a unit of work.
//! - *Tall columns.* When the rows of a program are columns in memory, going over one
//!   twice is cheap only while the cache lines that hold it stay in the cache.
//!
//! The cost counts, for every member, at how many different index maps it is
//! evaluated ("contexts"): a value read through three different slices is computed
//! three times. That is also what bounds the size of the expressions.

use hashbrown::HashMap;
use kiln_ir::form::View;
use kiln_ir::{Form, Shape};
use smallvec::SmallVec;

use super::cost::Machine;
use super::nodes::{At, Nodes, Source};
use super::rows::Place;
use crate::group::Kind;

/// A group that can be.
#[derive(Clone, Debug)]
pub(crate) struct Assessed {
    pub kind: Kind,
    /// The nodes that the roots need, increasing.
    pub members: Vec<At>,
    /// Increasing.
    pub roots: Vec<At>,
    /// Values read from memory, increasing.
    pub inputs: Vec<At>,
    /// Picoseconds.
    pub time: u64,
    /// Primitive operations in its expressions.
    pub operations: u32,
    /// Bytes read and written.
    pub bytes: u64,
}

impl Assessed {
    /// Whether it is no larger than groups may grow.
    pub fn fits(&self, machine: &Machine) -> bool {
        self.operations <= machine.operations
            && self.inputs.len() + self.roots.len() <= machine.arguments
    }
}

/// An index map that members are evaluated at, by number.
type Context = u32;

/// At every element of the iteration space, or of the left operand of a contraction.
const WIDE: Context = 0;
/// Once for each row.
const NARROW: Context = 1;
/// Once.
const ONCE: Context = 2;
/// At every element of the right operand of a contraction.
const RIGHT: Context = 3;
/// At every element of a contraction's result.
const RESULT: Context = 4;
/// The first context that a view makes.
const FIRST_VIEW: Context = 5;

/// Where a value is wanted.
#[derive(Clone, Copy)]
struct Wanted {
    context: Context,
    /// How many times it is evaluated.
    times: u64,
    /// How many different elements that can be.
    domain: u64,
}

/// What a group's kind follows from.
enum Fit {
    Alias,
    Map(Shape),
    Rows(RowProgram),
    Contraction(At),
    Update(At),
}

struct RowProgram {
    space: Shape,
    axes: Vec<usize>,
    rows: u64,
    /// Levels of dependent reductions.
    depth: u32,
    wide_roots: bool,
    long: bool,
}

/// Assesses sets of nodes of one graph. Holds tables that are reused.
pub(crate) struct Assessor<'g> {
    nodes: &'g Nodes,
    machine: Machine,
    /// By node: the assessment in which it was last a candidate, and needed.
    candidate: Vec<u32>,
    needed: Vec<u32>,
    epoch: u32,
    /// By node: where it is wanted in this assessment.
    wanted: Vec<SmallVec<[Wanted; 2]>>,
    /// By node: its place, if it depends on a reduction of this assessment; and how
    /// many levels of reductions are behind it.
    places: Vec<Option<Place>>,
    levels: Vec<u32>,
    contexts: HashMap<(At, u32, Context), Context>,
}

impl<'g> Assessor<'g> {
    pub fn new(nodes: &'g Nodes, machine: &Machine) -> Assessor<'g> {
        let n = nodes.len();
        Assessor {
            nodes,
            machine: machine.clone(),
            candidate: vec![0; n],
            needed: vec![0; n],
            epoch: 0,
            wanted: vec![SmallVec::new(); n],
            places: vec![None; n],
            levels: vec![0; n],
            contexts: HashMap::new(),
        }
    }

    /// The group that computes `roots` from `candidates`, both increasing.
    pub fn assess(&mut self, candidates: &[At], roots: &[At]) -> Option<Assessed> {
        self.epoch += 1;
        let members = self.prune(candidates, roots);
        let inputs = self.inputs(&members);
        let fit = self.fit(&members, &inputs, roots)?;
        Some(self.cost(fit, members, inputs, roots))
    }

    fn is_member(&self, at: At) -> bool {
        self.needed[at as usize] == self.epoch
    }

    /// The candidates that the roots need.
    fn prune(&mut self, candidates: &[At], roots: &[At]) -> Vec<At> {
        for &c in candidates {
            self.candidate[c as usize] = self.epoch;
        }
        for &r in roots {
            debug_assert_eq!(self.candidate[r as usize], self.epoch, "roots are candidates");
            self.needed[r as usize] = self.epoch;
        }
        for &c in candidates.iter().rev() {
            if self.needed[c as usize] == self.epoch {
                for &o in &self.nodes[c].operands {
                    if self.candidate[o as usize] == self.epoch {
                        self.needed[o as usize] = self.epoch;
                    }
                }
            }
        }
        candidates.iter().copied().filter(|&c| self.is_member(c)).collect()
    }

    /// What the members read from memory; forgets what was noted about them before.
    fn inputs(&mut self, members: &[At]) -> Vec<At> {
        let nodes = self.nodes;
        let mut inputs = Vec::new();
        for &m in members {
            self.wanted[m as usize].clear();
            self.places[m as usize] = None;
            self.levels[m as usize] = 0;
            for &o in &nodes[m].operands {
                if !self.is_member(o) && nodes.source(o) != Source::Code {
                    inputs.push(o);
                    self.wanted[o as usize].clear();
                }
            }
        }
        inputs.sort_unstable();
        inputs.dedup();
        inputs
    }

    // --- kind ---------------------------------------------------------------

    fn fit(&mut self, members: &[At], inputs: &[At], roots: &[At]) -> Option<Fit> {
        let nodes = self.nodes;
        let mut heavy = members.iter().copied().filter(|&m| !nodes.pointwise(m));
        let Some(first) = heavy.next() else {
            return self.pointwise(members, inputs, roots);
        };
        match nodes[first].form {
            Form::Contraction(_) if heavy.next().is_none() => {
                self.contraction(first, members, roots).then_some(Fit::Contraction(first))
            }
            Form::Update if heavy.next().is_none() => {
                let base = nodes[first].operands[0];
                let reads = |&m: &At| m != first && nodes[m].operands.contains(&base);
                let copied = nodes.updated(base) && members.iter().any(reads);
                let fits = roots == [first] && !self.is_member(base) && !copied;
                fits.then_some(Fit::Update(first))
            }
            Form::Reduce(..) | Form::ArgReduce(..) => {
                self.row_program(first, members, roots).map(Fit::Rows)
            }
            _ => None,
        }
    }

    fn pointwise(&self, members: &[At], inputs: &[At], roots: &[At]) -> Option<Fit> {
        let nodes = self.nodes;
        let space = &nodes[roots[0]].shape;
        if roots.iter().any(|&r| nodes[r].shape != *space) {
            return None;
        }
        let reshape = matches!(nodes[roots[0]].form, Form::View(View::Reshape));
        if members.len() == 1 && reshape && inputs.len() == 1 {
            return Some(Fit::Alias);
        }
        Some(Fit::Map(space.clone()))
    }

    /// Whether what depends on the contraction are maps, and all roots do.
    fn contraction(&mut self, dot: At, members: &[At], roots: &[At]) -> bool {
        // `levels` says what depends on it.
        for &m in members {
            let row = &self.nodes[m];
            let depends = m == dot
                || row.operands.iter().any(|&o| self.is_member(o) && self.levels[o as usize] > 0);
            if depends && m != dot && !matches!(row.form, Form::Map(_)) {
                return false;
            }
            self.levels[m as usize] = depends as u32;
        }
        roots.iter().all(|&r| self.levels[r as usize] > 0)
    }

    /// Finds every member's place; `None` when a reduction does not fit the first
    /// or something depends on another row.
    fn row_program(&mut self, first: At, members: &[At], roots: &[At]) -> Option<RowProgram> {
        let nodes = self.nodes;
        let reduced = |at: At| match &nodes[at].form {
            Form::Reduce(_, axes) => Some(axes.clone()),
            Form::ArgReduce(_, axis) => Some(vec![*axis]),
            _ => None,
        };
        let axes = reduced(first)?;
        let space = nodes[nodes[first].operands[0]].shape.clone();
        let wide = Place::wide(&space);
        let narrow = Place::narrow(&space, &axes);
        for &m in members {
            let row = &nodes[m];
            let mut place: Option<Place> = None;
            let mut level = 0;
            for &o in row.operands.iter().filter(|&&o| self.is_member(o)) {
                let Some(at) = &self.places[o as usize] else { continue };
                level = level.max(self.levels[o as usize]);
                match &place {
                    Some(other) if other != at => return None,
                    Some(_) => {}
                    None => place = Some(at.clone()),
                }
            }
            let place = if nodes.pointwise(m) {
                match place {
                    None => None,
                    // Views that choose between operands or move elements end here.
                    Some(at) => {
                        let operand = &nodes[row.operands[0]].shape;
                        Some(at.through(&row.form, operand, &row.shape, &space)?)
                    }
                }
            } else {
                let operand = &nodes[row.operands[0]].shape;
                let fits = reduced(m)? == axes && *operand == space;
                if !fits || place.is_some_and(|at| at != wide) {
                    return None;
                }
                level += 1;
                Some(narrow.clone())
            };
            self.places[m as usize] = place;
            self.levels[m as usize] = level;
        }
        let row_shape = space.without(&axes);
        let ones: Shape =
            (0..space.rank()).map(|k| if axes.contains(&k) { 1 } else { space[k] }).collect();
        let mut wide_roots = false;
        for &r in roots {
            let shape = &nodes[r].shape;
            let (is_wide, is_row) = (*shape == space, *shape == row_shape || *shape == ones);
            let fits = match &self.places[r as usize] {
                None => is_wide || is_row,
                Some(at) => (is_wide && *at == wide) || (is_row && at.same_axes(&narrow)),
            };
            if !fits {
                return None;
            }
            wide_roots |= is_wide && !is_row;
        }
        let depth = members.iter().map(|&m| self.levels[m as usize]).max().unwrap_or(0);
        let rows: u64 = row_shape.iter().map(|&d| d as u64).product();
        let inner: u64 = axes.iter().map(|&a| space[a] as u64).product();
        let columns = space.iter().rposition(|&d| d > 1).is_some_and(|last| !axes.contains(&last));
        // Where lowering splits rows into chunks.
        let long = if columns { rows < 1024 && inner >= 2048 } else { rows < 64 && inner >= 65536 };
        if long && (depth > 1 || wide_roots) {
            return None;
        }
        // A column's elements lie in different cache lines: 4096 lines are 256 KiB.
        if columns && inner > 4096 && (depth > 1 || wide_roots) {
            return None;
        }
        Some(RowProgram { space, axes, rows, depth, wide_roots, long })
    }

    // --- cost ---------------------------------------------------------------

    fn cost(&mut self, fit: Fit, members: Vec<At>, inputs: Vec<At>, roots: &[At]) -> Assessed {
        let nodes = self.nodes;
        let roots = roots.to_vec();
        if matches!(fit, Fit::Alias) {
            let (kind, time) = (Kind::Alias, 0);
            return Assessed { kind, members, roots, inputs, time, operations: 0, bytes: 0 };
        }
        self.contexts.clear();
        let mut flops = 0u64;
        let mut operations = 0u32;
        let everywhere =
            |elements: u64, context| Wanted { context, times: elements, domain: elements };
        for &r in &roots {
            let elements = nodes[r].elements;
            let context = match &fit {
                Fit::Rows(rows) if nodes[r].shape != rows.space => NARROW,
                Fit::Contraction(_) => RESULT,
                _ => WIDE,
            };
            if !matches!(fit, Fit::Update(_)) {
                self.want(r, everywhere(elements, context));
            }
        }
        if let Fit::Update(node) = fit {
            self.want(node, everywhere(1, ONCE));
        }
        for &m in members.iter().rev() {
            let wanted = std::mem::take(&mut self.wanted[m as usize]);
            let row = &nodes[m];
            let weight = u64::from(row.weight);
            operations = operations.saturating_add(row.weight.saturating_mul(wanted.len() as u32));
            match &row.form {
                Form::Reduce(_, axes) if !axes.is_empty() => {
                    flops = flops.saturating_add(self.reduce(m, weight));
                }
                Form::ArgReduce(..) => flops = flops.saturating_add(self.reduce(m, weight)),
                Form::Contraction(dims) => {
                    let (lhs, rhs) = (row.operands[0], row.operands[1]);
                    let summed: u64 =
                        dims.lhs_contract.iter().map(|&a| nodes[lhs].shape[a] as u64).product();
                    flops = flops.saturating_add(row.elements.saturating_mul(summed));
                    // Operands are packed, by more than one thread.
                    for (o, context) in [(lhs, WIDE), (rhs, RIGHT)] {
                        let elements = nodes[o].elements;
                        self.want(o, Wanted { context, times: 2 * elements, domain: elements });
                    }
                }
                Form::Update => {
                    let elements = nodes[row.operands[1]].elements;
                    flops = flops.saturating_add(weight * elements);
                    self.want(row.operands[1], everywhere(elements, WIDE));
                    for &start in &row.operands[2..] {
                        self.want(start, everywhere(1, ONCE));
                    }
                }
                form => {
                    for &w in &wanted {
                        flops = flops.saturating_add(weight.saturating_mul(w.times));
                        self.operands(m, form, w);
                    }
                }
            }
            self.wanted[m as usize] = wanted;
        }
        let mut bytes = 0u64;
        for &i in &inputs {
            let row = &nodes[i];
            let touched: u64 =
                self.wanted[i as usize].iter().fold(0, |sum, w| w.domain.saturating_add(sum));
            bytes = bytes.saturating_add(touched.min(row.elements) * row.size);
        }
        let mut launches = 1;
        if let Fit::Rows(rows) = &fit {
            let row_bytes = bytes / rows.rows.max(1);
            if row_bytes > 256 << 10 {
                // The row leaves the cache between two passes over it.
                let passes = u64::from(rows.depth) + u64::from(rows.wide_roots);
                bytes = bytes.saturating_mul(passes.max(1));
            }
            launches = if rows.long { 2 } else { 1 };
        }
        for &r in &roots {
            let written = match fit {
                Fit::Update(node) => nodes[nodes[node].operands[1]].elements,
                _ => nodes[r].elements,
            };
            bytes = bytes.saturating_add(written * nodes[r].size);
        }
        let time = launches * self.machine.launch + self.machine.work(bytes, flops);
        let kind = match fit {
            Fit::Alias => Kind::Alias,
            Fit::Map(space) => Kind::Map { space },
            Fit::Rows(rows) => Kind::Rows { space: rows.space, axes: rows.axes },
            Fit::Contraction(dot) => Kind::Contraction { dot: nodes[dot].id },
            Fit::Update(node) => Kind::Update { node: nodes[node].id },
        };
        Assessed { kind, members, roots, inputs, time, operations, bytes }
    }

    /// Notes that `at` is wanted somewhere; once for each context.
    fn want(&mut self, at: At, mut wanted: Wanted) {
        let row = &self.nodes[at];
        if row.elements == 1 {
            wanted = Wanted { context: ONCE, times: 1, domain: 1 };
        }
        wanted.domain = wanted.domain.min(row.elements);
        let list = &mut self.wanted[at as usize];
        if !list.iter().any(|w| w.context == wanted.context) {
            list.push(wanted);
        }
    }

    /// A reduction reads the space; returns its operations.
    fn reduce(&mut self, m: At, weight: u64) -> u64 {
        let operand = self.nodes[m].operands[0];
        let elements = self.nodes[operand].elements;
        self.want(operand, Wanted { context: WIDE, times: elements, domain: elements });
        weight.saturating_mul(elements)
    }

    /// Wants the operands of a pointwise member that is wanted at `w`.
    fn operands(&mut self, m: At, form: &Form, w: Wanted) {
        let nodes = self.nodes;
        let row = &nodes[m];
        match form {
            Form::View(view) => {
                for (k, &o) in row.operands.iter().enumerate() {
                    // What depends on a reduction is wanted at its own place.
                    let context = match &self.places[o as usize] {
                        Some(_) if self.is_member(o) => {
                            if nodes[o].elements < row.elements {
                                NARROW
                            } else {
                                w.context
                            }
                        }
                        _ => self.view(m, k as u32, w.context),
                    };
                    let mut times = w.times;
                    if let View::Broadcast { axes } = view {
                        times = hoisted(times, &row.shape, axes, &nodes[o].shape);
                    }
                    let domain = w.domain.min(row.elements);
                    self.want(o, Wanted { context, times, domain });
                }
            }
            Form::DynamicSlice => {
                let context = self.view(m, 0, w.context);
                let domain = w.domain.min(row.elements);
                self.want(row.operands[0], Wanted { context, times: w.times, domain });
                for &start in &row.operands[1..] {
                    self.want(start, Wanted { context: ONCE, times: 1, domain: 1 });
                }
            }
            _ => {
                for &o in &row.operands {
                    self.want(o, w);
                }
            }
        }
    }

    /// The context of operand `k` of view `m` wanted at `context`.
    fn view(&mut self, m: At, k: u32, context: Context) -> Context {
        let next = FIRST_VIEW + self.contexts.len() as Context;
        *self.contexts.entry((m, k, context)).or_insert(next)
    }
}

/// How often a broadcast's operand is evaluated when its result is, `times` times:
/// loops over the last axes that the operand does not have leave it outside.
fn hoisted(times: u64, result: &Shape, axes: &[usize], operand: &Shape) -> u64 {
    let mut times = times;
    for axis in (0..result.rank()).rev() {
        let has = axes.iter().zip(operand.iter()).any(|(&a, &d)| a == axis && d != 1);
        if has {
            break;
        }
        times /= result[axis].max(1) as u64;
    }
    times
}
