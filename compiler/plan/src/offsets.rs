//! Offsets: packing storages with lifetimes into one arena.
//!
//! Greedy best fit: storages are taken in some order, and each goes into the
//! smallest gap that fits between those already placed that live at the same time
//! (Pisarchyk and Lee 2020, "Efficient Memory Management for Deep Neural Net
//! Inference", greedy by size). The order decides the quality, so several are
//! tried and the smallest arena kept; the first that meets the lower bound ends
//! the search.
//!
//! ```text
//!   offset
//!     ▲   ┌────┐ ┌─────────┐
//!     │   │ a  │ │    c    │     a and c are never alive together
//!     │   └────┘ └─────────┘
//!     │   ┌───────────┐
//!     │   │     b     │
//!     └───┴───────────┴──────▶ action
//! ```

use crate::problem::Problem;
use crate::share::{Assignment, Owner, Storage};
use crate::{Place, Plan, align};

/// Places every storage and makes the plan.
pub(crate) fn pack(problem: &Problem, assignment: Assignment) -> Plan {
    let Assignment { actions, storages, storage_of, outputs, output_buffers } = assignment;
    let arena: Vec<usize> =
        (0..storages.len()).filter(|&s| storages[s].owner == Owner::Arena).collect();
    let lower_bound = lower_bound(&storages, &arena, actions.len());
    let (offsets, size) = best_packing(&storages, &arena, lower_bound);

    let place = |s: usize| match storages[s].owner {
        Owner::Parameter(p) => Place::Parameter(p),
        Owner::Constant(c) => Place::Constant(c),
        Owner::Output(o) => Place::Output(o),
        Owner::Arena => Place::Arena(offsets[s]),
    };
    debug_assert!(storage_of.len() >= problem.buffers.len());
    Plan {
        places: storage_of.iter().map(|&s| place(s)).collect(),
        live: storage_of
            .iter()
            .map(|&s| {
                (storages[s].owner == Owner::Arena).then_some((storages[s].first, storages[s].last))
            })
            .collect(),
        actions,
        outputs,
        output_buffers,
        arena: size,
        lower_bound,
        schedule: "",
    }
}

/// Most bytes alive at one action.
fn lower_bound(storages: &[Storage], arena: &[usize], actions: usize) -> u64 {
    let mut change = vec![0i64; actions + 1];
    for &s in arena {
        change[storages[s].first] += align(storages[s].bytes) as i64;
        change[storages[s].last + 1] -= align(storages[s].bytes) as i64;
    }
    let mut alive = 0;
    let mut most = 0;
    for c in change {
        alive += c;
        most = most.max(alive);
    }
    most as u64
}

/// Offsets by storage number, and the arena's size.
fn best_packing(storages: &[Storage], arena: &[usize], bound: u64) -> (Vec<u64>, u64) {
    type Key = fn(&Storage) -> (u64, u64);
    // Larger keys go first.
    let keys: [Key; 4] = [
        |s| (s.bytes, (s.last - s.first) as u64),
        |s| (s.bytes.saturating_mul((s.last - s.first + 1) as u64), s.bytes),
        |s| ((s.last - s.first) as u64, s.bytes),
        |s| (u64::MAX - s.first as u64, s.bytes),
    ];
    let mut best: Option<(Vec<u64>, u64)> = None;
    for key in keys {
        let mut order = arena.to_vec();
        order.sort_by_key(|&s| std::cmp::Reverse(key(&storages[s])));
        let (offsets, size) = first_best_fit(storages, &order);
        if best.as_ref().is_none_or(|b| size < b.1) {
            best = Some((offsets, size));
        }
        if best.as_ref().is_some_and(|b| b.1 == bound) {
            break;
        }
    }
    best.expect("at least one key")
}

fn first_best_fit(storages: &[Storage], order: &[usize]) -> (Vec<u64>, u64) {
    let mut offsets = vec![0; storages.len()];
    // Placed storages by offset.
    let mut placed: Vec<usize> = Vec::new();
    let mut size = 0;
    for &s in order {
        let Storage { first, last, .. } = storages[s];
        let bytes = align(storages[s].bytes);
        let mut end = 0;
        let mut best: Option<(u64, u64)> = None;
        for &p in &placed {
            let other = &storages[p];
            if other.first > last || other.last < first {
                continue;
            }
            if offsets[p] > end {
                let gap = offsets[p] - end;
                if gap >= bytes && best.is_none_or(|(g, _)| gap < g) {
                    best = Some((gap, end));
                }
            }
            end = end.max(offsets[p] + align(other.bytes));
        }
        let offset = best.map_or(end, |(_, o)| o);
        offsets[s] = offset;
        size = size.max(offset + bytes);
        let i = placed.partition_point(|&p| (offsets[p], p) < (offset, s));
        placed.insert(i, s);
    }
    (offsets, size)
}
