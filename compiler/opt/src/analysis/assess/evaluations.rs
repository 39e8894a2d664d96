//! What running a group costs: how often each member is evaluated, and which bytes move.
//!
//! Members are asked in reverse order where they are wanted, starting from the roots;
//! a view that moves the index makes a new context for what it reads. That is how
//! lowering builds expressions, so the count is that of the operations in the kernel.

use kiln_ir::form::View;
use kiln_ir::op::{Window, WindowCombine};
use kiln_ir::{Form, Shape};

use super::{Assessed, Assessor, Fit};
use crate::analysis::nodes::At;
use crate::group::Kind;

/// An index map that members are evaluated at, by number.
pub(super) type Context = u32;

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
pub(super) struct Wanted {
    context: Context,
    /// How many times it is evaluated.
    times: u64,
    /// How many different elements that can be.
    domain: u64,
}

impl Assessor<'_> {
    /// The group of these members, which fit, with what it costs.
    pub(super) fn cost(
        &mut self,
        fit: Fit,
        members: Vec<At>,
        inputs: Vec<At>,
        roots: &[At],
    ) -> Assessed {
        let nodes = self.nodes;
        let roots = roots.to_vec();
        if matches!(fit, Fit::Alias) {
            let (kind, time) = (Kind::Alias, 0);
            return Assessed { kind, members, roots, inputs, time, operations: 0, bytes: 0 };
        }
        if let Fit::Sort(first) = fit {
            return self.sort(first, members, inputs, roots);
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
                Fit::Contraction(_) | Fit::Fold(_) => RESULT,
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
                Form::Scatter(_) => {
                    let (indices, updates) = (row.operands[1], row.operands[2]);
                    let elements = nodes[updates].elements;
                    flops = flops.saturating_add(weight * elements);
                    self.want(updates, everywhere(elements, WIDE));
                    let context = self.view(m, 1, WIDE);
                    self.want(indices, everywhere(nodes[indices].elements, context));
                }
                Form::Fold(..) | Form::Window(..) | Form::Cumulative(..) => {
                    flops = flops.saturating_add(self.fold(m, weight));
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
                Fit::Update(node) => nodes[nodes[node].updates()].elements,
                _ => nodes[r].elements,
            };
            bytes = bytes.saturating_add(written * nodes[r].size);
        }
        let time = launches * self.machine.launch + self.machine.work(bytes, flops);
        let kind = match fit {
            Fit::Alias => Kind::Alias,
            Fit::Map(space) => Kind::Map { space },
            Fit::Rows(rows) => Kind::Rows { space: rows.space, axes: rows.axes },
            Fit::Fold(node) => Kind::Fold { node: nodes[node].id },
            Fit::Contraction(dot) => Kind::Contraction { dot: nodes[dot].id },
            Fit::Update(node) => Kind::Update { node: nodes[node].id },
            Fit::Sort(node) => Kind::Sort { node: nodes[node].id },
        };
        Assessed { kind, members, roots, inputs, time, operations, bytes }
    }

    /// A sort reads its inputs, writes its roots, and goes over them as often as a merge
    /// sort would; whatever the method, that is how it grows.
    fn sort(&self, first: At, members: Vec<At>, inputs: Vec<At>, roots: Vec<At>) -> Assessed {
        let nodes = self.nodes;
        let moved = inputs.iter().chain(&roots).map(|&at| nodes[at].elements * nodes[at].size);
        let bytes = moved.fold(0, u64::saturating_add);
        let elements = inputs.iter().map(|&i| nodes[i].elements).max().unwrap_or(0);
        let compared = elements.saturating_mul(u64::from(elements.max(1).ilog2()) + 1);
        let time = self.machine.launch + self.machine.work(bytes, compared.saturating_mul(4));
        let kind = Kind::Sort { node: nodes[first].id };
        Assessed { kind, members, roots, inputs, time, operations: 1, bytes }
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

    /// Wants the operands of a fold; what it costs. Arrays are read at every step of every
    /// result, so that what feeds the windows of an array is computed once for each
    /// window that an element is in.
    fn fold(&mut self, m: At, weight: u64) -> u64 {
        let nodes = self.nodes;
        let row = &nodes[m];
        let elements = nodes[row.operands[0]].elements;
        let (arrays, steps) = match &row.form {
            Form::Window(WindowCombine::Kind(_), w) => (1, window_steps(row.elements, w)),
            Form::Window(WindowCombine::Body(_), w) => {
                (row.operands.len() / 2, window_steps(row.elements, w))
            }
            Form::Fold(..) => (row.operands.len() / 2, elements),
            _ => (1, elements),
        };
        for &array in &row.operands[..arrays] {
            let domain = nodes[array].elements;
            self.want(array, Wanted { context: WIDE, times: steps, domain });
        }
        for &init in &row.operands[arrays..] {
            self.want(init, Wanted { context: ONCE, times: 1, domain: 1 });
        }
        weight.saturating_mul(steps)
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
            Form::Gather(_) => {
                let domain = w.domain.min(row.elements);
                let operand =
                    Wanted { context: self.view(m, 0, w.context), times: w.times, domain };
                self.want(row.operands[0], operand);
                // An index is read once for the window that it is the start of.
                let indices = row.operands[1];
                let times = w.times.min(nodes[indices].elements);
                let context = self.view(m, 1, w.context);
                self.want(indices, Wanted { context, times, domain });
                for &fill in &row.operands[2..] {
                    self.want(fill, Wanted { context: ONCE, times: 1, domain: 1 });
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

/// Steps of all windows together.
fn window_steps(windows: u64, window: &Window) -> u64 {
    window.size.iter().fold(windows, |steps, &d| steps.saturating_mul(d as u64))
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
