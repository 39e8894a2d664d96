//! From lowered groups to a planning problem.
//!
//! Every value that exists in memory becomes a buffer: parameters, constants that
//! kernels read or the graph returns, roots of groups, and temporaries that a
//! lowering asked for. A root that is a reshape of another buffer is that buffer.
//! Every launch becomes a step.

use hashbrown::HashMap;
use kiln_codegen::kernel::{Body, Kernel};
use kiln_codegen::lower::{Lowered, Operand};
use kiln_ir::{Form, Graph, Literal, Op, Value};
use kiln_opt::{Fusion, Group, Kind, share};
use kiln_plan::{Buffer, BufferId, Origin, Problem, Step, StepId};

/// A planning problem and what its parts stand for.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// What the planner is asked.
    pub problem: Problem,
    /// For each step of the problem, the launch that does it; `None` when there is
    /// nothing to do because the results are empty.
    pub launches: Vec<Option<LaunchRef>>,
    /// For each buffer, what it is, for reports.
    pub meaning: Vec<Meaning>,
    /// Literals of the constants, by constant number.
    pub constants: Vec<Literal>,
}

/// A launch, found again by where it is.
#[derive(Clone, Debug)]
pub(crate) struct LaunchRef {
    /// Which group.
    pub group: usize,
    /// Which launch of it.
    pub launch: usize,
    /// The buffers of its arguments.
    pub arguments: Vec<BufferId>,
}

/// What a buffer holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning {
    /// A value of the graph.
    Value(Value),
    /// Working memory of a group.
    Temporary {
        /// Which group.
        group: usize,
    },
}

/// Builds the problem for a fused and lowered graph.
pub(crate) fn layout(
    graph: &Graph,
    fusion: &Fusion,
    lowered: &[Lowered],
    wishes: &[(usize, usize)],
) -> Layout {
    let (buffers, barriers) = (HashMap::new(), HashMap::new());
    let mut builder = Builder { graph, layout: Layout::default(), buffers, barriers };
    builder.layout.problem.wishes = wishes.to_vec();
    for (i, value) in graph.parameters().enumerate() {
        let donated = graph.parameter_info(i).donated;
        builder.add(value, Origin::Parameter { index: i, donated });
    }
    for (g, (group, lowered)) in fusion.groups.iter().zip(lowered).enumerate() {
        builder.group(g, group, lowered);
    }
    for &value in graph.outputs() {
        let buffer = builder.buffer(value);
        builder.layout.problem.outputs.push(buffer);
    }
    builder.layout
}

struct Builder<'a> {
    graph: &'a Graph,
    layout: Layout,
    buffers: HashMap<Value, BufferId>,
    /// The barrier that a value comes out of: whoever reads it comes after that step.
    barriers: HashMap<Value, StepId>,
}

impl Builder<'_> {
    fn push(&mut self, bytes: u64, origin: Origin, meaning: Meaning) -> BufferId {
        self.layout.problem.buffers.push(Buffer { bytes, origin });
        self.layout.meaning.push(meaning);
        BufferId(self.layout.problem.buffers.len() - 1)
    }

    fn add(&mut self, value: Value, origin: Origin) -> BufferId {
        let bytes = self.graph.ty(value).bytes() as u64;
        let buffer = self.push(bytes, origin, Meaning::Value(value));
        self.buffers.insert(value, buffer);
        buffer
    }

    /// The buffer of a value that exists in memory. Constants come into memory when
    /// they are first asked for.
    fn buffer(&mut self, value: Value) -> BufferId {
        if let Some(&buffer) = self.buffers.get(&value) {
            return buffer;
        }
        let Op::Constant(constant) = self.graph.op(value.node) else {
            unreachable!("a group reads a value that no earlier group makes");
        };
        let index = self.layout.constants.len();
        self.layout.constants.push(constant.value.clone());
        self.add(value, Origin::Constant { index })
    }

    fn group(&mut self, g: usize, group: &Group, lowered: &Lowered) {
        if group.kind == Kind::Alias {
            self.alias(group);
            return;
        }
        // The base of an update is no argument of its kernel, but must be in memory.
        let update = match group.kind {
            Kind::Update { node } => Some(self.buffer(self.graph.operands(node)[0])),
            _ => None,
        };
        let temporaries: Vec<BufferId> = lowered
            .temporaries
            .iter()
            .map(|t| {
                let bytes = t.elements * t.dtype.size() as u64;
                self.push(bytes, Origin::Step, Meaning::Temporary { group: g })
            })
            .collect();
        // Whatever the group reads comes out of barriers that it runs behind.
        let inputs = group.inputs(self.graph).into_iter();
        let base = update.map(|_| self.graph.operands(group.roots[0].node)[0]);
        let mut after: Vec<StepId> =
            inputs.chain(base).filter_map(|v| self.barriers.get(&v).copied()).collect();
        after.sort_unstable();
        after.dedup();
        if lowered.launches.is_empty() {
            let writes: Vec<BufferId> =
                group.roots.iter().map(|&r| self.add(r, Origin::Step)).collect();
            // An empty box written into a base leaves the base.
            let update = update.map(|base| (base, writes[0]));
            self.step(Step { writes, update, after, ..Step::default() }, None);
            return;
        }
        for (l, launch) in lowered.launches.iter().enumerate() {
            let mut step = Step { after: after.clone(), ..Step::default() };
            let mut arguments = Vec::with_capacity(launch.arguments.len());
            let mut values = Vec::with_capacity(launch.arguments.len());
            for (operand, argument) in launch.arguments.iter().zip(&launch.kernel.arguments) {
                let (buffer, value) = match *operand {
                    Operand::Temporary(t) => (temporaries[t], None),
                    Operand::Value(v) if argument.writes => (self.written(v), Some(v)),
                    Operand::Value(v) => (self.buffer(v), Some(v)),
                };
                arguments.push(buffer);
                values.push(value);
                if argument.writes {
                    step.writes.push(buffer);
                } else if !step.reads.contains(&buffer) {
                    step.reads.push(buffer);
                }
            }
            if l == 0 {
                // Roots without elements are written by no kernel.
                let empty = |r: &&Value| self.graph.ty(**r).elements() == 0;
                let empty: Vec<Value> = group.roots.iter().filter(empty).copied().collect();
                step.writes.extend(empty.into_iter().map(|r| self.written(r)));
            }
            if let Some(base) = update.filter(|_| l + 1 == lowered.launches.len()) {
                step.update = Some((base, step.writes[0]));
            } else if lowered.launches.len() == 1 {
                step.may_share = self.may_share(group, &launch.kernel, &values);
            }
            self.step(step, Some(LaunchRef { group: g, launch: l, arguments }));
        }
    }

    /// A reshape is its operand's buffer; so is each result of a barrier, which is a step
    /// that moves nothing: it reads all operands, and readers of the results follow it.
    fn alias(&mut self, group: &Group) {
        let node = group.roots[0].node;
        let operands = self.graph.operands(node);
        let barrier = matches!(self.graph.op(node).lower(), Form::Barrier).then(|| {
            let mut step = Step::default();
            for &operand in &operands {
                let buffer = self.buffer(operand);
                if !step.reads.contains(&buffer) {
                    step.reads.push(buffer);
                }
                step.after.extend(self.barriers.get(&operand));
            }
            self.step(step, None)
        });
        for &root in &group.roots {
            let operand = operands[root.result as usize];
            let buffer = self.buffer(operand);
            self.buffers.insert(root, buffer);
            if let Some(barrier) = barrier.or(self.barriers.get(&operand).copied()) {
                self.barriers.insert(root, barrier);
            }
        }
    }

    fn step(&mut self, step: Step, launch: Option<LaunchRef>) -> StepId {
        self.layout.problem.steps.push(step);
        self.layout.launches.push(launch);
        StepId(self.layout.problem.steps.len() - 1)
    }

    /// The buffer of a root, made by the first launch that writes it.
    fn written(&mut self, value: Value) -> BufferId {
        match self.buffers.get(&value) {
            Some(&buffer) => buffer,
            None => self.add(value, Origin::Step),
        }
    }

    /// Pairs (read, written) that may be one place: by what the group computes, and by
    /// what the kernel that was made of it does. A buffer that arrives as several
    /// arguments (a value and its reshape) may be shared only if each of them may.
    fn may_share(
        &self,
        group: &Group,
        kernel: &Kernel,
        values: &[Option<Value>],
    ) -> Vec<(BufferId, BufferId)> {
        let arguments = |writes: bool| {
            let kernel = &kernel.arguments;
            (0..values.len()).filter_map(move |i| {
                (kernel[i].writes == writes).then_some(())?;
                Some((i as u32, values[i]?))
            })
        };
        let mut pairs = Vec::new();
        for (w, root) in arguments(true) {
            for (_, input) in arguments(false) {
                let pair = (self.buffers[&input], self.buffers[&root]);
                let [from, to] = [pair.0, pair.1].map(|b| self.layout.problem.buffers[b.0].bytes);
                if from != to {
                    continue;
                }
                let all = arguments(false).filter(|(_, other)| self.buffers[other] == pair.0).all(
                    |(r, other)| {
                        // A contraction's tiles are not told apart by its kernel IR.
                        let by_kernel =
                            matches!(kernel.body, Body::Contraction(_)) || kernel.may_share(r, w);
                        by_kernel && share::may_share(self.graph, group, other, root)
                    },
                );
                if all && !pairs.contains(&pair) {
                    pairs.push(pair);
                }
            }
        }
        pairs
    }
}
