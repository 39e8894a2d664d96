//! Storage: which buffers live in the same memory one after the other.
//!
//! One walk over an order puts every buffer into a [`Storage`]:
//!
//! ```text
//!   y = x + 1     x dies here and is read element by element: y takes x's storage
//!   z = y · w     y is read out of order: z gets its own
//!   u = y with u0 written at i     y dies here: u takes its storage, else y is copied first
//! ```
//!
//! A parameter's storage may be written only when the parameter is donated. A
//! storage that ends as an output and is not a parameter's may then move into the
//! memory of a donated parameter of the same size that is dead by the time the
//! storage begins. What is left of the outputs gets memory of its own.

use crate::problem::{BufferId, Origin, Problem, StepId};
use crate::{Action, OutputPlace};

/// Memory that holds one buffer after another.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    /// Size. Only buffers of exactly this size share it.
    pub bytes: u64,
    /// Whose memory it is.
    pub owner: Owner,
    /// First and last action that touch it. An output's last is [`END`].
    pub first: usize,
    /// See `first`.
    pub last: usize,
}

/// Whose memory a storage is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Parameter(usize),
    Constant(usize),
    Output(usize),
    Arena,
}

/// Later than every action.
pub(crate) const END: usize = usize::MAX;

/// The outcome for one order.
pub(crate) struct Assignment {
    pub actions: Vec<Action>,
    pub storages: Vec<Storage>,
    /// For each buffer, those of the problem first, its storage.
    pub storage_of: Vec<usize>,
    pub outputs: Vec<OutputPlace>,
    pub output_buffers: Vec<BufferId>,
}

pub(crate) fn assign(problem: &Problem, order: &[StepId]) -> Assignment {
    let mut walk = Walk::new(problem, order);
    for (at, &s) in order.iter().enumerate() {
        walk.step(at, s);
    }
    walk.finish()
}

struct Walk<'a> {
    problem: &'a Problem,
    /// Position in the order of each buffer's last reader; [`END`] when returned.
    last_reader: Vec<usize>,
    /// The output that owns each buffer: its first, if the buffer can be taken.
    output_of: Vec<Option<usize>>,
    actions: Vec<Action>,
    storages: Vec<Storage>,
    storage_of: Vec<usize>,
}

impl<'a> Walk<'a> {
    fn new(problem: &'a Problem, order: &[StepId]) -> Walk<'a> {
        let n = problem.buffers.len();
        let mut last_reader = vec![0; n];
        for (at, s) in order.iter().enumerate() {
            for b in problem.steps[s.0].needs() {
                last_reader[b.0] = at;
            }
        }
        let mut output_of = vec![None; n];
        for (o, b) in problem.outputs.iter().enumerate() {
            last_reader[b.0] = END;
            let takable = match problem.buffers[b.0].origin {
                Origin::Step => true,
                Origin::Parameter { donated, .. } => donated,
                Origin::Constant { .. } => false,
            };
            if takable && output_of[b.0].is_none() {
                output_of[b.0] = Some(o);
            }
        }
        let mut walk = Walk {
            problem,
            last_reader,
            output_of,
            actions: Vec::with_capacity(order.len()),
            storages: Vec::new(),
            storage_of: vec![usize::MAX; n],
        };
        for (b, buffer) in problem.buffers.iter().enumerate() {
            let owner = match buffer.origin {
                Origin::Parameter { index, .. } => Owner::Parameter(index),
                Origin::Constant { index } => Owner::Constant(index),
                Origin::Step => continue,
            };
            walk.storage_of[b] = walk.storages.len();
            walk.storages.push(Storage { bytes: buffer.bytes, owner, first: 0, last: 0 });
        }
        walk
    }

    /// Whether the storage of `b` is free for another buffer once the step at
    /// position `at` has read it.
    fn dies_at(&self, b: BufferId, at: usize) -> bool {
        let writable = match self.problem.buffers[b.0].origin {
            Origin::Step => true,
            Origin::Parameter { donated, .. } => donated,
            Origin::Constant { .. } => false,
        };
        writable && self.last_reader[b.0] == at
    }

    fn step(&mut self, at: usize, s: StepId) {
        let step = &self.problem.steps[s.0];
        let mut claimed: Vec<usize> = Vec::new();
        for &w in &step.writes {
            let base = step.update.filter(|&(_, u)| u == w).map(|(base, _)| base);
            let shared = match base {
                // The kernel may read the base itself, elsewhere than where it writes.
                Some(base) if step.reads.contains(&base) => {
                    step.may_share.contains(&(base, w)).then_some(base)
                }
                Some(base) => Some(base),
                None => self.choose(w, at, &claimed, &step.may_share),
            };
            let shared =
                shared.filter(|&r| self.dies_at(r, at) && !claimed.contains(&self.storage_of[r.0]));
            match shared {
                Some(r) => self.storage_of[w.0] = self.storage_of[r.0],
                None => {
                    self.storage_of[w.0] = self.storages.len();
                    self.storages.push(Storage {
                        bytes: self.problem.buffers[w.0].bytes,
                        owner: Owner::Arena,
                        first: self.actions.len(),
                        last: self.actions.len(),
                    });
                    if let Some(base) = base {
                        self.touch(base);
                        self.actions.push(Action::Copy { from: base, to: w });
                    }
                }
            }
            claimed.push(self.storage_of[w.0]);
        }
        for b in step.needs().chain(step.writes.iter().copied()) {
            self.touch(b);
        }
        self.actions.push(Action::Run(s));
    }

    /// The operand whose storage `w` should take, if any.
    ///
    /// For an output, a donated parameter first (the one wished for before others),
    /// so that no memory is allocated for it; else the first temporary, so that
    /// parameters stay free for outputs.
    fn choose(
        &self,
        w: BufferId,
        at: usize,
        claimed: &[usize],
        may_share: &[(BufferId, BufferId)],
    ) -> Option<BufferId> {
        let size = self.problem.buffers[w.0].bytes;
        let output = self.output_of[w.0];
        may_share
            .iter()
            .filter(|&&(r, for_w)| {
                let storage = self.storage_of[r.0];
                for_w == w
                    && self.dies_at(r, at)
                    && self.storages[storage].bytes == size
                    && !claimed.contains(&storage)
            })
            .map(|&(r, _)| r)
            .min_by_key(|r| match (self.storages[self.storage_of[r.0]].owner, output) {
                (Owner::Parameter(p), Some(o)) if self.problem.wishes.contains(&(o, p)) => 0,
                (Owner::Parameter(_), Some(_)) => 1,
                (Owner::Parameter(_), None) => 3,
                _ => 2,
            })
    }

    fn touch(&mut self, b: BufferId) {
        let now = self.actions.len();
        let storage = &mut self.storages[self.storage_of[b.0]];
        storage.last = storage.last.max(now);
    }

    fn finish(mut self) -> Assignment {
        let outputs = self.problem.outputs.clone();
        let mut output_buffers = outputs.clone();
        let mut places = vec![OutputPlace::Fresh; outputs.len()];

        for (o, &b) in outputs.iter().enumerate() {
            if self.output_of[b.0] == Some(o) {
                self.storages[self.storage_of[b.0]].last = END;
            }
        }
        // Outputs that cannot take their buffer get a copy of it at the end.
        for (o, &b) in outputs.iter().enumerate() {
            if self.output_of[b.0] == Some(o) {
                continue;
            }
            let copy = BufferId(self.storage_of.len());
            let now = self.actions.len();
            self.touch(b);
            self.actions.push(Action::Copy { from: b, to: copy });
            self.storage_of.push(self.storages.len());
            self.storages.push(Storage {
                bytes: self.problem.buffers[b.0].bytes,
                owner: Owner::Output(o),
                first: now,
                last: END,
            });
            output_buffers[o] = copy;
        }
        for (o, b) in output_buffers.iter().enumerate() {
            let mine = self.storage_of[b.0];
            if let Owner::Parameter(p) = self.storages[mine].owner {
                places[o] = OutputPlace::Parameter(p);
                continue;
            }
            match self.idle_parameter(o, mine) {
                Some(idle) => {
                    let Owner::Parameter(p) = self.storages[idle].owner else { unreachable!() };
                    places[o] = OutputPlace::Parameter(p);
                    self.storages[mine].owner = Owner::Parameter(p);
                    self.storages[idle].last = END;
                }
                None => self.storages[mine].owner = Owner::Output(o),
            }
        }
        Assignment {
            actions: self.actions,
            storages: self.storages,
            storage_of: self.storage_of,
            outputs: places,
            output_buffers,
        }
    }

    /// The storage of a donated parameter of the same size whose last action comes
    /// before the first of storage `mine`; the one wished for, else the first.
    fn idle_parameter(&self, output: usize, mine: usize) -> Option<usize> {
        let Storage { bytes, first, .. } = self.storages[mine];
        self.problem
            .buffers
            .iter()
            .enumerate()
            .filter_map(|(b, buffer)| match buffer.origin {
                Origin::Parameter { index, donated: true } => Some((self.storage_of[b], index)),
                _ => None,
            })
            .filter(|&(s, _)| {
                let storage = &self.storages[s];
                let dead = storage.last < first || !self.parameter_used(s);
                storage.bytes == bytes && storage.last != END && dead
            })
            .min_by_key(|&(_, p)| !self.problem.wishes.contains(&(output, p)))
            .map(|(s, _)| s)
    }

    /// Whether any action touches the storage of a parameter.
    fn parameter_used(&self, storage: usize) -> bool {
        self.actions.iter().any(|a| match a {
            Action::Run(s) => {
                let step = &self.problem.steps[s.0];
                step.needs()
                    .chain(step.writes.iter().copied())
                    .any(|b| self.storage_of[b.0] == storage)
            }
            Action::Copy { from, .. } => self.storage_of[from.0] == storage,
        })
    }
}
