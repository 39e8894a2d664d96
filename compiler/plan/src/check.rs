//! The independent checker.
//!
//! It replays a plan on a picture of memory: which bytes of which place hold which
//! buffer's value. It shares no code with the planner and trusts none of its
//! bookkeeping (lifetimes, storages, bounds), only the problem and the plan's
//! actions and places. It checks that
//!
//! - every step runs exactly once, after the steps that make what it reads and those
//!   that it has to come after;
//! - when a buffer is read, its place holds that buffer's value, whole;
//! - a written buffer overlaps one read in the same step only as the step allows;
//! - an update finds the base's bytes in its place;
//! - kept parameters and constants are never written;
//! - at the end every output's place holds the right buffer, no two the same place;
//! - nothing lies outside the arena or a parameter, or off alignment.

use std::collections::BTreeMap;

use crate::problem::{BufferId, Origin, Problem};
use crate::{ALIGNMENT, Action, OutputPlace, Place, Plan};

/// What is wrong with a plan: a fault of the planner.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("memory plan: {0}")]
pub struct Unsound(pub String);

/// Which memory a place is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Region {
    Parameter(usize),
    Output(usize),
    Constant(usize),
    Arena,
}

/// The picture of memory: for each region, disjoint ranges and whose value they hold.
#[derive(Default)]
struct Memory(BTreeMap<Region, BTreeMap<u64, (u64, usize)>>);

impl Memory {
    fn write(&mut self, region: Region, start: u64, end: u64, value: usize) {
        if start == end {
            return;
        }
        let ranges = self.0.entry(region).or_default();
        // A value that lost any byte is gone as a whole.
        ranges.retain(|&s, &mut (e, _)| e <= start || s >= end);
        ranges.insert(start, (end, value));
    }

    fn holds(&self, region: Region, start: u64, end: u64, value: usize) -> bool {
        start == end || self.0.get(&region).and_then(|r| r.get(&start)) == Some(&(end, value))
    }
}

/// Checks `plan` against `problem`.
///
/// # Errors
/// Names the first action that would read or write the wrong bytes.
pub fn check(problem: &Problem, plan: &Plan) -> Result<(), Unsound> {
    let fail = |m: String| Err(Unsound(m));
    let count = problem.buffers.len();
    if plan.places.len() < count {
        return fail("some buffers have no place".into());
    }

    // Sizes of the buffers that only copies write follow from what is copied.
    let mut sizes: Vec<Option<u64>> = problem.buffers.iter().map(|b| Some(b.bytes)).collect();
    sizes.resize(plan.places.len(), None);
    for action in &plan.actions {
        if let Action::Copy { from, to } = *action
            && to.0 < sizes.len()
            && from.0 < count
        {
            sizes[to.0] = problem.buffers[from.0].bytes.into();
        }
    }
    let range = |b: BufferId| -> Result<(Region, u64, u64), Unsound> {
        let bytes = sizes[b.0].ok_or_else(|| Unsound(format!("buffer {} is never made", b.0)))?;
        Ok(match plan.places[b.0] {
            Place::Parameter(p) => (Region::Parameter(p), 0, bytes),
            Place::Output(o) => (Region::Output(o), 0, bytes),
            Place::Constant(c) => (Region::Constant(c), 0, bytes),
            Place::Arena(offset) => (Region::Arena, offset, offset + bytes),
        })
    };

    let mut memory = Memory::default();
    let mut donated: BTreeMap<usize, (bool, u64)> = BTreeMap::new();
    for (b, buffer) in problem.buffers.iter().enumerate() {
        let (region, start, end) = range(BufferId(b))?;
        match buffer.origin {
            Origin::Parameter { index, donated: d } => {
                if region != Region::Parameter(index) {
                    return fail(format!("parameter {index} is not in its own memory"));
                }
                donated.insert(index, (d, buffer.bytes));
                memory.write(region, start, end, b);
            }
            Origin::Constant { index } => {
                if region != Region::Constant(index) {
                    return fail(format!("constant {index} is not in its own memory"));
                }
                memory.write(region, start, end, b);
            }
            Origin::Step => {}
        }
    }
    let may_write = |region: Region, start: u64, end: u64| match region {
        Region::Constant(c) => Err(Unsound(format!("constant {c} is written"))),
        Region::Parameter(p) => match donated.get(&p) {
            Some(&(true, size)) if end <= size.next_multiple_of(ALIGNMENT) => Ok(()),
            Some(&(true, _)) => Err(Unsound(format!("write outside parameter {p}"))),
            _ => Err(Unsound(format!("parameter {p} is written though it is kept"))),
        },
        Region::Output(o) if plan.outputs.get(o) != Some(&OutputPlace::Fresh) => {
            Err(Unsound(format!("output {o} has no memory of its own")))
        }
        Region::Output(_) => Ok(()),
        Region::Arena if !start.is_multiple_of(ALIGNMENT) => {
            Err(Unsound(format!("arena offset {start} is off alignment")))
        }
        Region::Arena if end > plan.arena => {
            Err(Unsound(format!("write at {end} outside the arena")))
        }
        Region::Arena => Ok(()),
    };

    let mut ran = vec![false; problem.steps.len()];
    for (i, action) in plan.actions.iter().enumerate() {
        match *action {
            Action::Copy { from, to } => {
                let (fr, fs, fe) = range(from)?;
                let (tr, ts, te) = range(to)?;
                if !memory.holds(fr, fs, fe, from.0) {
                    return fail(format!("action {i} copies buffer {}, which is gone", from.0));
                }
                may_write(tr, ts, te)?;
                if fr == tr && fs < te && ts < fe {
                    return fail(format!("action {i} copies buffer {} onto itself", from.0));
                }
                // The place of `to` now holds the value of `from`; an update makes it
                // the value of `to`, an output is content with it.
                memory.write(tr, ts, te, from.0);
            }
            Action::Run(s) => {
                let Some(step) = problem.steps.get(s.0) else {
                    return fail(format!("action {i} runs step {}, which is not there", s.0));
                };
                if std::mem::replace(&mut ran[s.0], true) {
                    return fail(format!("step {} runs twice", s.0));
                }
                if let Some(earlier) = step.after.iter().find(|earlier| !ran[earlier.0]) {
                    return fail(format!("step {} runs before step {}", s.0, earlier.0));
                }
                for &b in &step.reads {
                    let (r, start, end) = range(b)?;
                    if !memory.holds(r, start, end, b.0) {
                        return fail(format!(
                            "action {i}, step {}: reads buffer {} at {}, which holds something else",
                            s.0, b.0, plan.places[b.0]
                        ));
                    }
                }
                let mut written: Vec<(Region, u64, u64)> = Vec::new();
                for &w in &step.writes {
                    let (wr, ws, we) = range(w)?;
                    may_write(wr, ws, we)?;
                    if let Some((base, u)) = step.update
                        && u == w
                        && !memory.holds(wr, ws, we, base.0)
                    {
                        return fail(format!(
                            "action {i}, step {}: updates buffer {}, whose place does not hold buffer {}",
                            s.0, w.0, base.0
                        ));
                    }
                    for &b in &step.reads {
                        let (r, start, end) = range(b)?;
                        let overlap = r == wr && start < we && ws < end;
                        let allowed = start == ws && end == we && step.may_share.contains(&(b, w));
                        if overlap && !allowed {
                            return fail(format!(
                                "action {i}, step {}: writes buffer {} over buffer {}, which it reads",
                                s.0, w.0, b.0
                            ));
                        }
                    }
                    if written.iter().any(|&(r, start, end)| r == wr && start < we && ws < end) {
                        return fail(format!("action {i}: step {} writes one place twice", s.0));
                    }
                    written.push((wr, ws, we));
                }
                for (&w, &(r, start, end)) in step.writes.iter().zip(&written) {
                    memory.write(r, start, end, w.0);
                }
            }
        }
    }
    if let Some(s) = ran.iter().position(|r| !r) {
        return fail(format!("step {s} never runs"));
    }

    if plan.outputs.len() != problem.outputs.len()
        || plan.output_buffers.len() != problem.outputs.len()
    {
        return fail("an output has no place".into());
    }
    let mut regions = Vec::new();
    for (o, &held) in plan.output_buffers.iter().enumerate() {
        let (region, start, end) = range(held)?;
        let wanted = match plan.outputs[o] {
            OutputPlace::Fresh => Region::Output(o),
            OutputPlace::Parameter(p) => Region::Parameter(p),
        };
        if region != wanted {
            return fail(format!("output {o} holds buffer {}, which is elsewhere", held.0));
        }
        if regions.contains(&region) {
            return fail(format!("output {o} shares memory with another output"));
        }
        regions.push(region);
        let asked = problem.outputs[o];
        if !memory.holds(region, start, end, asked.0) {
            return fail(format!("output {o} ends with other bytes than buffer {}", asked.0));
        }
    }
    Ok(())
}
