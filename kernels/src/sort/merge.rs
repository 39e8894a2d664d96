//! Merging, for orders that are functions.
//!
//! The runs and the merges are part of the definition (`kernel::sort::Ordering` in code
//! generation), because a function may contradict itself and the result is then whatever
//! these merges make of it. Nothing is skipped that could ask it another question.

use std::ops::Range;

use super::job::Words;
use super::keys::{bump, write};
use super::{Before, Source};

/// Bytes of scratch of a thread: two lists of places, and an address for each operand.
pub(super) fn scratch(words: &Words) -> u64 {
    let places = (4 * words.length() as u64).next_multiple_of(64);
    2 * places + 8 * words.operands().len() as u64
}

/// # Safety
/// As `kiln_sort_by`.
pub(super) unsafe fn sort(
    words: &Words,
    arguments: *const *mut u8,
    scratch: *mut u8,
    units: Range<u64>,
    before: Before,
) {
    let (length, inner) = (words.length(), words.inner());
    let mut scratch = scratch;
    // SAFETY: `scratch` asked for as much.
    let (mut places, mut merged, rows) = unsafe {
        let places = bump::<u32>(&mut scratch, length);
        let merged = bump::<u32>(&mut scratch, length);
        (places, merged, bump::<*const u8>(&mut scratch, words.operands().len()))
    };
    words.parts(units, |part| {
        for column in part.inner {
            let first = part.outer as usize * length * inner + column as usize;
            for (row, operand) in rows.iter_mut().zip(words.operands()) {
                let Source::Argument(a) = operand.from else { unreachable!("compared") };
                // SAFETY: the row starts inside the argument.
                *row = unsafe { (*arguments.add(a as usize)).add(first * operand.element.size()) };
            }
            for (i, place) in places.iter_mut().enumerate() {
                *place = i as u32;
            }
            // SAFETY: the rows are those of the job, and places are below its length.
            let before = |a: u32, b: u32| unsafe { before(rows.as_ptr(), a.into(), b.into()) != 0 };
            merge_runs(&mut places, &mut merged, before);
            // SAFETY: the caller's arguments; all places are inside.
            unsafe { write(words, arguments, (part.outer, column), 0, places.iter().copied()) };
        }
    });
}

/// Sorts `entries` by merging runs, with as many entries of room; leaves them in the
/// first slice, which may have become the other one.
pub(super) fn merge_runs<'a, E: Copy>(
    entries: &mut &'a mut [E],
    room: &mut &'a mut [E],
    before: impl Fn(E, E) -> bool,
) {
    let n = entries.len();
    let mut width = 1;
    while width < n {
        for start in (0..n).step_by(2 * width) {
            let (middle, end) = ((start + width).min(n), (start + 2 * width).min(n));
            let (mut left, mut right) = (start, middle);
            for slot in &mut room[start..end] {
                let take_right =
                    left == middle || right < end && before(entries[right], entries[left]);
                let next = if take_right { &mut right } else { &mut left };
                *slot = entries[*next];
                *next += 1;
            }
        }
        std::mem::swap(entries, room);
        width *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_entries_keep_their_order() {
        for n in 0..70u32 {
            let mut entries: Vec<u32> = (0..n).map(|i| i * 7919 % 13 * 1000 + i).collect();
            let mut want = entries.clone();
            want.sort_by_key(|e| e / 1000);
            let mut room = entries.clone();
            let (mut entries, mut room) = (&mut entries[..], &mut room[..]);
            merge_runs(&mut entries, &mut room, |a, b| a / 1000 < b / 1000);
            assert_eq!(*entries, *want);
        }
    }

    #[test]
    fn a_function_that_contradicts_itself_permutes() {
        let mut entries: Vec<u32> = (0..37).collect();
        let mut room = entries.clone();
        let (mut entries, mut room) = (&mut entries[..], &mut room[..]);
        merge_runs(&mut entries, &mut room, |_, _| true);
        assert!(entries.iter().copied().eq((0..37).rev()));
    }
}
