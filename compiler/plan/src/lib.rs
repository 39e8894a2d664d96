//! Schedules and memory plans.
//!
//! The planner is given a [`Problem`]: steps that read and write buffers. It
//! answers with a [`Plan`]: a total order of the steps, a place in memory for
//! every buffer, and the copies that could not be avoided. It knows nothing of
//! graphs or kernels; the driver translates.
//!
//! ```text
//! Problem ─ schedule candidates ─▶ order ─ share ─▶ storages ─ offsets ─▶ Plan ─ check
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`mod@problem`] | the question: buffers, steps, outputs |
//! | `schedule` | candidate orders: creation, depth-first, least peak first |
//! | `share` | which buffers take over another's storage; donation |
//! | `offsets` | greedy best-fit packing under several keys, and the lower bound |
//! | [`mod@check`] | the independent checker: replays a plan, shares no code with the rest |
//!
//! A plan is trusted only after [`check`](check::check).

#![forbid(unsafe_code)]

pub mod check;
mod offsets;
pub mod problem;
mod schedule;
mod share;

use std::fmt;

pub use problem::{Buffer, BufferId, Origin, Problem, Step, StepId};

/// Offsets and sizes are multiples of this many bytes.
pub const ALIGNMENT: u64 = 64;

/// `bytes` rounded up to a multiple of [`ALIGNMENT`].
pub fn align(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Where a buffer lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the memory of this parameter.
    Parameter(usize),
    /// In memory allocated for this output.
    Output(usize),
    /// In constant memory.
    Constant(usize),
    /// In the arena of temporaries, at this offset.
    Arena(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Parameter(i) => write!(f, "parameter {i}"),
            Place::Output(i) => write!(f, "output {i}"),
            Place::Constant(i) => write!(f, "constant {i}"),
            Place::Arena(offset) => write!(f, "arena+{offset}"),
        }
    }
}

/// Where an output's bytes are at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputPlace {
    /// In memory allocated for it.
    Fresh,
    /// In the memory of this donated parameter.
    Parameter(usize),
}

/// One entry of the total order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Run a step of the problem.
    Run(StepId),
    /// Copy a buffer's bytes to the place of another.
    Copy {
        /// Read.
        from: BufferId,
        /// Written.
        to: BufferId,
    },
}

/// The answer. Trusted only after [`check::check`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// What happens, in order. Nothing may reorder it later.
    pub actions: Vec<Action>,
    /// The place of every buffer of the problem, and after them of the buffers
    /// that only copies write: one for each output that repeats or returns a
    /// buffer it cannot take.
    pub places: Vec<Place>,
    /// Where each output is. Output `o` holds buffer `output_buffers[o]`.
    pub outputs: Vec<OutputPlace>,
    /// The buffer each output holds at the end.
    pub output_buffers: Vec<BufferId>,
    /// Bytes of the arena.
    pub arena: u64,
    /// Most bytes of arena buffers alive at one action: no packing is smaller.
    pub lower_bound: u64,
    /// For each buffer of `places` that lives in the arena, first and last action
    /// that touch its storage; `None` for others. For reports.
    pub live: Vec<Option<(usize, usize)>>,
    /// The name of the schedule that won.
    pub schedule: &'static str,
}

impl Plan {
    /// Bytes copied by copies that the planner inserted.
    pub fn copied_bytes(&self, problem: &Problem) -> u64 {
        self.actions
            .iter()
            .map(|a| match a {
                Action::Copy { from, .. } => problem.buffers[from.0].bytes,
                Action::Run(_) => 0,
            })
            .sum()
    }

    /// Arena bytes divided by the lower bound; 1 when both are 0.
    pub fn ratio(&self) -> f64 {
        if self.lower_bound == 0 { 1.0 } else { self.arena as f64 / self.lower_bound as f64 }
    }
}

/// Plans a problem: tries every schedule candidate and keeps the plan with the
/// fewest copied bytes among those with the lowest peak, the first of equals.
///
/// Peak counts the arena and the outputs' own memory.
///
/// # Errors
/// If the problem itself is malformed: a buffer read before it is made, made
/// twice, or steps that depend on each other in a circle.
pub fn plan(problem: &Problem) -> Result<Plan, problem::Malformed> {
    problem.validate()?;
    let mut best: Option<(u64, u64, Plan)> = None;
    for (name, order) in schedule::candidates(problem) {
        let mut plan = offsets::pack(problem, share::assign(problem, &order));
        plan.schedule = name;
        let fresh: u64 = (0..plan.outputs.len())
            .filter(|&o| plan.outputs[o] == OutputPlace::Fresh)
            .map(|o| align(problem.buffers[problem.outputs[o].0].bytes))
            .sum();
        let cost = (plan.arena + fresh, plan.copied_bytes(problem));
        if best.as_ref().is_none_or(|b| cost < (b.0, b.1)) {
            best = Some((cost.0, cost.1, plan));
        }
    }
    Ok(best.expect("there is always a candidate").2)
}
