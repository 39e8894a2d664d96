//! Candidate orders of the steps.
//!
//! Order matters more than packing: it decides what is alive at once. Three orders
//! are tried and the best plan kept:
//!
//! - *creation*: as the user wrote the program;
//! - *depth first*: each output's needs in full before the next output's, so that
//!   chains finish before others start (post-order of the dependence graph);
//! - *least peak*: always the ready step that raises live bytes the least, a greedy
//!   in the manner of Sarkar and Hennessy's list scheduling. Ties fall to the
//!   earlier step, so that equal problems get equal orders.
//!
//! Each is linear in the edges but for a logarithm, and none recurses.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::problem::{Origin, Problem, StepId};

/// All candidates with their names, without repeats.
pub(crate) fn candidates(problem: &Problem) -> Vec<(&'static str, Vec<StepId>)> {
    let mut all: Vec<(&'static str, Vec<StepId>)> =
        vec![("creation", (0..problem.steps.len()).map(StepId).collect())];
    for (name, order) in
        [("depth-first", depth_first(problem)), ("least-peak", least_peak(problem))]
    {
        if all.iter().all(|(_, o)| *o != order) {
            all.push((name, order));
        }
    }
    all
}

/// For each step, the steps it needs, each once: in operand order, then those that it
/// comes after for other reasons.
fn needs(problem: &Problem) -> Vec<Vec<StepId>> {
    let makers = problem.makers();
    problem
        .steps
        .iter()
        .map(|step| {
            let made = step.needs().filter_map(|b| makers[b.0]);
            let mut needed: Vec<StepId> = made.chain(step.after.iter().copied()).collect();
            let mut seen = Vec::new();
            needed.retain(|s| {
                !seen.contains(s) && {
                    seen.push(*s);
                    true
                }
            });
            needed
        })
        .collect()
}

fn depth_first(problem: &Problem) -> Vec<StepId> {
    let needs = needs(problem);
    let makers = problem.makers();
    let mut done = vec![false; problem.steps.len()];
    let mut order = Vec::with_capacity(problem.steps.len());
    // Outputs first, then steps that no output needs, in creation order.
    let roots = problem
        .outputs
        .iter()
        .filter_map(|b| makers[b.0])
        .chain((0..problem.steps.len()).map(StepId));
    for root in roots {
        let mut stack = vec![(root, 0)];
        while let Some((s, i)) = stack.pop() {
            if done[s.0] {
                continue;
            }
            match needs[s.0].get(i) {
                Some(&n) => {
                    stack.push((s, i + 1));
                    if !done[n.0] {
                        stack.push((n, 0));
                    }
                }
                None => {
                    done[s.0] = true;
                    order.push(s);
                }
            }
        }
    }
    order
}

fn least_peak(problem: &Problem) -> Vec<StepId> {
    let n = problem.steps.len();
    let needs = needs(problem);
    let mut users: Vec<Vec<StepId>> = vec![Vec::new(); n];
    let mut missing = vec![0usize; n];
    for (s, needed) in needs.iter().enumerate() {
        missing[s] = needed.len();
        for d in needed {
            users[d.0].push(StepId(s));
        }
    }
    // Readers left of each buffer whose memory is freed by its last reader.
    let mut readers: Vec<Vec<StepId>> = vec![Vec::new(); problem.buffers.len()];
    for (s, step) in problem.steps.iter().enumerate() {
        for b in step.needs() {
            if !readers[b.0].contains(&StepId(s)) {
                readers[b.0].push(StepId(s));
            }
        }
    }
    let mut left: Vec<usize> = readers.iter().map(Vec::len).collect();
    for b in &problem.outputs {
        left[b.0] = usize::MAX / 2;
    }
    let frees = |b: usize, left: &[usize]| {
        left[b] == 1
            && matches!(
                problem.buffers[b].origin,
                Origin::Step | Origin::Parameter { donated: true, .. }
            )
    };
    let rise = |s: StepId, left: &[usize]| -> i64 {
        let step = &problem.steps[s.0];
        let made: i64 = step.writes.iter().map(|b| problem.buffers[b.0].bytes as i64).sum();
        let mut seen = Vec::new();
        let mut freed = 0;
        for b in step.needs() {
            if !seen.contains(&b) && frees(b.0, left) {
                freed += problem.buffers[b.0].bytes as i64;
            }
            seen.push(b);
        }
        made - freed
    };

    // The heap may hold stale entries: a step's rise only falls as others run, so
    // a popped entry whose rise no longer fits is pushed back with the new one.
    let mut heap = BinaryHeap::new();
    let mut order = Vec::with_capacity(n);
    let mut done = vec![false; n];
    for (s, &needed) in missing.iter().enumerate() {
        if needed == 0 {
            heap.push(Reverse((rise(StepId(s), &left), s)));
        }
    }
    while let Some(Reverse((was, s))) = heap.pop() {
        if done[s] {
            continue;
        }
        let now = rise(StepId(s), &left);
        if now != was {
            heap.push(Reverse((now, s)));
            continue;
        }
        done[s] = true;
        order.push(StepId(s));
        let mut touched = Vec::new();
        for b in problem.steps[s].needs() {
            if !touched.contains(&b) {
                touched.push(b);
                left[b.0] -= 1;
                // The one reader left may have become cheaper: offer it again.
                if left[b.0] == 1 {
                    for &r in &readers[b.0] {
                        if !done[r.0] && missing[r.0] == 0 {
                            heap.push(Reverse((rise(r, &left), r.0)));
                        }
                    }
                }
            }
        }
        for u in &users[s] {
            missing[u.0] -= 1;
            if missing[u.0] == 0 {
                heap.push(Reverse((rise(*u, &left), u.0)));
            }
        }
    }
    order
}
