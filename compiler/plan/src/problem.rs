//! The question a plan answers.

/// A buffer of a problem, by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BufferId(pub usize);

/// A step of a problem, by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct StepId(pub usize);

/// A value in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// Its size.
    pub bytes: u64,
    /// Who makes it.
    pub origin: Origin,
}

/// Who makes a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The caller: parameter number. Memory of a donated one may be overwritten
    /// once its last reader has run.
    Parameter {
        /// Which parameter.
        index: usize,
        /// Whether the caller gives it up.
        donated: bool,
    },
    /// The compiler: constant number. Never written.
    Constant {
        /// Which constant.
        index: usize,
    },
    /// The one step that writes it.
    Step,
}

/// Something that runs: reads buffers, then writes others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Step {
    /// What it reads.
    pub reads: Vec<BufferId>,
    /// What it makes.
    pub writes: Vec<BufferId>,
    /// Pairs (read, written) that may be one place: element by element the step
    /// reads the one before it writes the other.
    pub may_share: Vec<(BufferId, BufferId)>,
    /// A pair (base, written): the step overwrites part of `written`, which must
    /// hold the bytes of `base` when it starts. `base` need not be among `reads`.
    pub update: Option<(BufferId, BufferId)>,
    /// Steps that come before it, whether it reads what they make or not: earlier ones.
    pub after: Vec<StepId>,
}

/// Buffers, the steps that make them, and the ones to return.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Problem {
    /// All buffers.
    pub buffers: Vec<Buffer>,
    /// All steps, in creation order, which must be a valid order.
    pub steps: Vec<Step>,
    /// What is returned; any buffer, any number of times.
    pub outputs: Vec<BufferId>,
    /// Outputs and donated parameters that would go well together. A hint: the
    /// planner takes it where it is sound.
    pub wishes: Vec<(usize, usize)>,
}

/// What is wrong with a problem.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("memory planning: {0}")]
pub struct Malformed(pub String);

impl Step {
    /// Every buffer whose bytes the step needs when it starts.
    pub fn needs(&self) -> impl Iterator<Item = BufferId> + '_ {
        let base = self.update.map(|(base, _)| base);
        self.reads.iter().copied().chain(base)
    }
}

impl Problem {
    /// For each buffer, the step that makes it.
    pub fn makers(&self) -> Vec<Option<StepId>> {
        let mut makers = vec![None; self.buffers.len()];
        for (s, step) in self.steps.iter().enumerate() {
            for w in &step.writes {
                makers[w.0] = Some(StepId(s));
            }
        }
        makers
    }

    /// Checks what the planner relies on.
    pub(crate) fn validate(&self) -> Result<(), Malformed> {
        let fail = |m: String| Err(Malformed(m));
        let mut made: Vec<bool> = self.buffers.iter().map(|b| b.origin != Origin::Step).collect();
        let known = |b: BufferId| b.0 < self.buffers.len();
        for (s, step) in self.steps.iter().enumerate() {
            for b in step.needs() {
                if !known(b) || !made[b.0] {
                    return fail(format!("step {s} reads buffer {} before it is made", b.0));
                }
            }
            if let Some(later) = step.after.iter().find(|earlier| earlier.0 >= s) {
                return fail(format!(
                    "step {s} comes after step {}, which is not earlier",
                    later.0
                ));
            }
            for &b in &step.writes {
                if !known(b) || made[b.0] {
                    return fail(format!("step {s} makes buffer {}, which exists", b.0));
                }
                made[b.0] = true;
            }
            for &(r, w) in step.may_share.iter().chain(&step.update) {
                if !step.writes.contains(&w) || !step.needs().any(|b| b == r) {
                    return fail(format!(
                        "step {s} shares buffers {} and {} it does not use",
                        r.0, w.0
                    ));
                }
            }
            if let Some((base, w)) = step.update
                && self.buffers[base.0].bytes != self.buffers[w.0].bytes
            {
                return fail(format!("step {s} updates buffers of different sizes"));
            }
        }
        for (o, b) in self.outputs.iter().enumerate() {
            if !known(*b) || !made[b.0] {
                return fail(format!("output {o} is buffer {}, which nothing makes", b.0));
            }
        }
        Ok(())
    }
}
