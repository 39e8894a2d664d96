//! Sorting integers digit by digit, least significant first.
//!
//! ```text
//! for each digit:  count how often each value occurs
//!                  first place of a value = how many have a lesser one
//!                  move every entry to the next place of its value
//! ```
//!
//! Each pass keeps the order of entries with equal digits, so the whole is stable. All
//! digits are counted in one pass over the input, and a digit that is the same everywhere
//! is not moved by. Eleven bits a digit is what a level-1 cache holds the counters of, and
//! makes three passes of 32 bits; where there are fewer entries than counters, eight.

/// An entry that is sorted by an unsigned integer.
pub(super) trait Entry: Copy {
    /// The integer.
    fn word(self) -> u64;
}

impl Entry for u32 {
    #[inline(always)]
    fn word(self) -> u64 {
        self.into()
    }
}

impl Entry for u64 {
    #[inline(always)]
    fn word(self) -> u64 {
        self
    }
}

/// A rank that does not leave room for the position beside it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub(super) struct Pair {
    pub rank: u64,
    pub at: u32,
}

impl Entry for Pair {
    #[inline(always)]
    fn word(self) -> u64 {
        self.rank
    }
}

/// Sorts `entries` by bits `low..high` of their words, with as many entries of room. The
/// two slices may change places.
pub(super) fn sort<'a, E: Entry>(
    entries: &mut &'a mut [E],
    room: &mut &'a mut [E],
    (low, high): (u32, u32),
) {
    if entries.len() < 1 << 14 {
        digits::<E, 8, 256, 8>(entries, room, low, high);
    } else {
        digits::<E, 11, 2048, 6>(entries, room, low, high);
    }
}

fn digits<'a, E: Entry, const BITS: u32, const VALUES: usize, const MOST: usize>(
    from: &mut &'a mut [E],
    to: &mut &'a mut [E],
    low: u32,
    high: u32,
) {
    let passes = (high - low).div_ceil(BITS) as usize;
    debug_assert!(passes <= MOST && from.len() == to.len() && from.len() <= u32::MAX as usize);
    let mut counts = [[0u32; VALUES]; MOST];
    let counts = &mut counts[..passes];
    let digit = |e: E, pass: usize| (e.word() >> (low + pass as u32 * BITS)) as usize % VALUES;
    for &e in from.iter() {
        for (pass, counts) in counts.iter_mut().enumerate() {
            counts[digit(e, pass)] += 1;
        }
    }
    for (pass, next) in counts.iter_mut().enumerate() {
        let Some(&first) = from.first() else { return };
        if next[digit(first, pass)] as usize == from.len() {
            continue;
        }
        let mut before = 0;
        for count in next.iter_mut() {
            (*count, before) = (before, before + *count);
        }
        for &e in from.iter() {
            let place = &mut next[digit(e, pass)];
            // In bounds, because the counts add up to the length; the check costs less
            // than the store.
            to[*place as usize] = e;
            *place += 1;
        }
        std::mem::swap(from, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_ordered_and_stable() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 20
        };
        for n in [0, 1, 2, 255, 5000, 40_000] {
            for mask in [0, 7, 0xffff_ffff, u64::MAX] {
                let entries = (0..n).map(|at| Pair { rank: random() & mask, at });
                let mut entries: Vec<Pair> = entries.collect();
                let mut want = entries.clone();
                want.sort();
                let mut room = entries.clone();
                let (mut entries, mut room) = (&mut entries[..], &mut room[..]);
                sort(&mut entries, &mut room, (0, 64));
                assert!(*entries == *want, "{n} entries, mask {mask:x}");
            }
        }
    }
}
