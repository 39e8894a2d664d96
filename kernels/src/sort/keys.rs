//! Rows by keys.
//!
//! | method | when | entries |
//! |---|---|---|
//! | top | few of a row are wanted | see `top` |
//! | alone | the key is all there is | ranks; the elements are made from them again |
//! | narrow | one key of at most 32 bits | rank and place in one word |
//! | chain | several keys, or 64 bits | rank and place; by the last key first |
//!
//! *Alone* writes +0 for −0 and one NaN for all, since equal elements have one rank. If
//! there are any, a second pass over the row writes them over as they came: they are next
//! to each other in the result, in the order of the row.

use std::ops::Range;

use super::element::{Bits, Ranked, Row, with_type};
use super::job::{PIECES, Words};
use super::merge::merge_runs;
use super::radix::{self, Entry, Pair};
use super::{Key, Source, top};

/// Entries up to which comparing them costs less than counting digits.
const FEW: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Top,
    Alone,
    Narrow,
    Chain,
}

fn method(words: &Words) -> Method {
    let first = words.keys().next().expect("a sort by keys has one");
    let element = words.operand(first.operand as usize).element;
    match words.keys().len() {
        1 if 4 * words.take() < words.length() => Method::Top,
        1 if words.operands().len() == 1 && words.take() == words.length() => Method::Alone,
        1 if element.size() <= 4 => Method::Narrow,
        _ => Method::Chain,
    }
}

/// Bytes of scratch of a thread.
pub(super) fn scratch(words: &Words) -> u64 {
    let entry = match method(words) {
        Method::Top => return top::scratch(words),
        Method::Alone => words.operand(0).element.size().max(4),
        Method::Narrow => size_of::<u64>(),
        Method::Chain => size_of::<Pair>(),
    };
    2 * ((entry * words.length()) as u64).next_multiple_of(64)
}

/// Cuts `count` values of scratch off the front, and all that is needed for what follows
/// to start on a cache line.
///
/// # Safety
/// There must be as much left, on a cache line, for as long as the slice is used. It holds
/// whatever it held; `T` must be an integer or made of integers and addresses.
pub(super) unsafe fn bump<'a, T>(scratch: &mut *mut u8, count: usize) -> &'a mut [T] {
    let bytes = (count * size_of::<T>()).next_multiple_of(64);
    // SAFETY: the caller's.
    unsafe {
        let slice = std::slice::from_raw_parts_mut(scratch.cast(), count);
        *scratch = scratch.add(bytes);
        slice
    }
}

/// The row `(outer, column)` of the operand of a key.
///
/// # Safety
/// The arguments must be those of the job.
unsafe fn row<T: Copy>(
    words: &Words,
    arguments: *const *mut u8,
    operand: u32,
    (outer, column): (u64, u64),
) -> Row<T> {
    let Source::Argument(argument) = words.operand(operand as usize).from else {
        unreachable!("positions are no keys")
    };
    let (length, stride) = (words.length(), words.inner());
    // SAFETY: the row starts inside the argument.
    let first = unsafe {
        let start: *const T = (*arguments.add(argument as usize)).cast();
        start.add(outer as usize * length * stride + column as usize)
    };
    Row { first, stride, length }
}

/// # Safety
/// As `kiln_sort_keys`.
pub(super) unsafe fn sort(
    words: &Words,
    arguments: *const *mut u8,
    scratch: *mut u8,
    units: Range<u64>,
) {
    let method = method(words);
    let key = words.keys().next().expect("a sort by keys has one");
    let element = words.operand(key.operand as usize).element;
    words.parts(units, |part| {
        for column in part.inner {
            let at = (part.outer, column);
            let pieces = part.pieces.clone();
            // SAFETY: `T` is the element of the key, the rest is the caller's.
            unsafe {
                with_type!(element, T => {
                    let row = row::<T>(words, arguments, key.operand, at);
                    let job = One { words, arguments, at, key, row, pieces };
                    match method {
                        Method::Top => top::sort(words, arguments, at, key, row, scratch),
                        Method::Alone if T::BITS <= 32 => job.alone::<u32>(scratch),
                        Method::Alone => job.alone::<u64>(scratch),
                        Method::Narrow => job.narrow(scratch),
                        Method::Chain => job.chain(scratch),
                    }
                });
            }
        }
    });
}

/// Entries that are made of a rank.
trait Word: Entry + Ord {
    fn of(rank: u64) -> Self;
}

impl Word for u32 {
    #[inline(always)]
    fn of(rank: u64) -> u32 {
        rank as u32
    }
}

impl Word for u64 {
    #[inline(always)]
    fn of(rank: u64) -> u64 {
        rank
    }
}

/// One row, or some pieces of it.
struct One<'a, T> {
    words: &'a Words<'a>,
    arguments: *const *mut u8,
    at: (u64, u64),
    key: Key,
    row: Row<T>,
    pieces: Option<Range<u64>>,
}

impl<T: Ranked> One<'_, T> {
    /// Makes an entry of each element that belongs to the pieces, in the order of the row.
    /// Returns how many there are, and how many elements belong to earlier pieces.
    ///
    /// # Safety
    /// The row must be readable.
    unsafe fn fill<E>(
        &self,
        entries: &mut [E],
        entry: impl Fn(T::Bits, usize) -> E,
    ) -> (usize, usize) {
        let (row, descending) = (self.row, self.key.descending);
        // SAFETY: places are below the length.
        let key = |i: usize| unsafe { row.get(i) }.key(descending);
        let Some(pieces) = &self.pieces else {
            if row.stride == 1 {
                // SAFETY: a row without gaps is a slice.
                let row = unsafe { std::slice::from_raw_parts(row.first, row.length) };
                for (i, (slot, x)) in entries.iter_mut().zip(row).enumerate() {
                    *slot = entry(x.key(descending), i);
                }
            } else {
                for (i, slot) in entries[..row.length].iter_mut().enumerate() {
                    *slot = entry(key(i), i);
                }
            }
            return (row.length, 0);
        };
        let (low, high) = self.bounds(pieces, key);
        let (mut count, mut lesser) = (0, 0);
        for i in 0..row.length {
            // Written in any case, kept if it belongs here: no branch to mispredict.
            let key = key(i);
            entries[count] = entry(key, i);
            let below = key < low;
            lesser += usize::from(below);
            count += usize::from(!below & high.is_none_or(|high| key < high));
            if count == entries.len() {
                break;
            }
        }
        (count, lesser)
    }

    /// The least key of the pieces, and the least beyond them: quantiles of a sample that
    /// is the same for whoever takes it.
    fn bounds(
        &self,
        pieces: &Range<u64>,
        key: impl Fn(usize) -> T::Bits,
    ) -> (T::Bits, Option<T::Bits>) {
        const EACH: usize = 16;
        const SAMPLE: usize = EACH * PIECES as usize;
        let step = self.row.length / SAMPLE;
        let mut sample = [T::Bits::narrow(0); SAMPLE];
        for (i, slot) in sample.iter_mut().enumerate() {
            *slot = key(i * step + i % step.max(1));
        }
        sample.sort_unstable();
        let pivot = |piece: u64| sample[piece as usize * EACH];
        let low = if pieces.start == 0 { T::Bits::narrow(0) } else { pivot(pieces.start) };
        (low, (pieces.end < PIECES).then(|| pivot(pieces.end)))
    }

    /// # Safety
    /// As `kiln_sort_keys`, for a job with one operand.
    unsafe fn alone<W: Word>(&self, mut scratch: *mut u8) {
        let (length, descending) = (self.row.length, self.key.descending);
        // SAFETY: `scratch` asked for as much.
        let (entries, room) =
            unsafe { (bump::<W>(&mut scratch, length), bump::<W>(&mut scratch, length)) };
        // SAFETY: the caller's.
        let (count, offset) = unsafe { self.fill(entries, |rank, _| W::of(rank.wide())) };
        let mut sorted = &mut entries[..count];
        if count <= FEW {
            sorted.sort_unstable();
        } else {
            radix::sort(&mut sorted, &mut &mut room[..count], (0, T::BITS));
        }
        let stride = self.words.inner();
        let to = self.words.operand(0).to.expect("a row that somebody wants");
        let (outer, column) = self.at;
        // SAFETY: the result has as many elements as the row, of which these are a run.
        let out = unsafe {
            let start: *mut T = (*self.arguments.add(to as usize)).cast();
            start.add((outer as usize * length + offset) * stride + column as usize)
        };
        for (j, &word) in sorted.iter().enumerate() {
            let rank = T::Bits::narrow(word.word());
            let x = T::of_rank(if descending { !rank } else { rank });
            // SAFETY: as above.
            unsafe { *out.add(j * stride) = x };
        }
        if !T::FLOAT {
            return;
        }
        let greatest = !T::Bits::narrow(0);
        // The rank of zero is the sign bit alone.
        for rank in [T::Bits::narrow(1 << (T::BITS - 1)), greatest] {
            let key = W::of(if descending { !rank } else { rank }.wide());
            let first = sorted.partition_point(|e| *e < key);
            let count = sorted[first..].partition_point(|e| *e == key);
            let mut j = first;
            let mut i = 0;
            while j < first + count {
                // SAFETY: the row has as many elements of this rank as were counted, and
                // they are what is between `first` and `first + count`.
                unsafe {
                    let x = self.row.get(i);
                    if x.rank() == rank {
                        *out.add(j * stride) = x;
                        j += 1;
                    }
                }
                i += 1;
            }
        }
    }

    /// # Safety
    /// As `kiln_sort_keys`.
    unsafe fn narrow(&self, mut scratch: *mut u8) {
        let length = self.row.length;
        // SAFETY: `scratch` asked for as much.
        let (entries, room) =
            unsafe { (bump::<u64>(&mut scratch, length), bump::<u64>(&mut scratch, length)) };
        let entry = |rank: T::Bits, i: usize| rank.wide() << 32 | i as u64;
        // SAFETY: the caller's.
        let (count, offset) = unsafe { self.fill(entries, entry) };
        let mut sorted = &mut entries[..count];
        if count <= FEW {
            // No two are equal, so this is stable.
            sorted.sort_unstable();
        } else {
            radix::sort(&mut sorted, &mut &mut room[..count], (32, 32 + T::BITS));
        }
        let places = sorted.iter().map(|&e| e as u32);
        // SAFETY: the caller's; places are below the length.
        unsafe { write(self.words, self.arguments, self.at, offset, places) };
    }

    /// # Safety
    /// As `kiln_sort_keys`.
    unsafe fn chain(&self, mut scratch: *mut u8) {
        let length = self.row.length;
        // SAFETY: `scratch` asked for as much.
        let (entries, room) =
            unsafe { (bump::<Pair>(&mut scratch, length), bump::<Pair>(&mut scratch, length)) };
        let entry = |rank: T::Bits, i: usize| Pair { rank: rank.wide(), at: i as u32 };
        // SAFETY: the caller's.
        let (count, offset) = unsafe { self.fill(entries, entry) };
        let (mut entries, mut room) = (&mut entries[..count], &mut room[..count]);
        for key in self.words.keys().rev() {
            let element = self.words.operand(key.operand as usize).element;
            // SAFETY: `K` is the element of the key, and places are below the length.
            unsafe {
                with_type!(element, K => {
                    let row = row::<K>(self.words, self.arguments, key.operand, self.at);
                    for e in entries.iter_mut() {
                        e.rank = row.get(e.at as usize).key(key.descending).wide();
                    }
                });
            }
            if count <= FEW {
                merge_runs(&mut entries, &mut room, |a, b| a.rank < b.rank);
            } else {
                radix::sort(&mut entries, &mut room, (0, 8 * element.size() as u32));
            }
        }
        let places = entries.iter().map(|e| e.at);
        // SAFETY: the caller's; places are below the length.
        unsafe { write(self.words, self.arguments, self.at, offset, places) };
    }
}

/// Writes the elements at `places`, from the one numbered `offset` of each result's row on.
///
/// # Safety
/// The arguments must be those of the job, all places below its length, and no more of
/// them behind `offset` than results have elements.
pub(super) unsafe fn write(
    words: &Words,
    arguments: *const *mut u8,
    (outer, column): (u64, u64),
    offset: usize,
    places: impl ExactSizeIterator<Item = u32> + Clone,
) {
    let (outer, column) = (outer as usize, column as usize);
    let (length, inner, take) = (words.length(), words.inner(), words.take());
    let places = places.take(take);
    for operand in words.operands() {
        let Some(to) = operand.to else { continue };
        let start = (outer * take + offset) * inner + column;
        // SAFETY: the caller's arguments; results start at `start` and go on in steps of
        // `inner`, elements of the row likewise.
        unsafe {
            let to = *arguments.add(to as usize);
            macro_rules! move_elements {
                ($t:ty) => {{
                    let to = to.cast::<$t>().add(start);
                    match operand.from {
                        Source::Position => {
                            for (j, place) in places.clone().enumerate() {
                                *to.add(j * inner) = place as $t;
                            }
                        }
                        Source::Argument(from) => {
                            let from: *const $t = (*arguments.add(from as usize)).cast();
                            let from = from.add(outer * length * inner + column);
                            for (j, place) in places.clone().enumerate() {
                                *to.add(j * inner) = *from.add(place as usize * inner);
                            }
                        }
                    }
                }};
            }
            match operand.element.size() {
                1 => move_elements!(u8),
                2 => move_elements!(u16),
                4 => move_elements!(u32),
                _ => move_elements!(u64),
            }
        }
    }
}
