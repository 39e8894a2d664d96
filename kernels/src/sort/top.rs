//! The first few of a row.
//!
//! Candidates gather in a list with room for more than are wanted. When it is full, the
//! best are selected, and the worst of them is the limit that every later element has to
//! pass: an element of equal key comes later and does not. Once there is a limit, most
//! blocks of a row hold nothing that passes, and a block is looked at with vectors.
//!
//! ```text
//! list   [ wanted | 1,024 and more ]      full: select, and go on behind the wanted ones
//! ```

use super::Key;
use super::element::{Bits, Ranked, Row};
use super::job::Words;
use super::keys::{bump, write};
use super::radix::Pair;

/// Elements that are compared with the limit at once.
const BLOCK: usize = 128;

/// Candidates beyond those wanted.
fn spare(take: usize) -> usize {
    take.max(1024)
}

/// Bytes of scratch of a thread.
pub(super) fn scratch(words: &Words) -> u64 {
    let entries = (words.take() + spare(words.take())).min(words.length());
    ((entries * size_of::<Pair>()) as u64).next_multiple_of(64)
}

/// # Safety
/// As `kiln_sort_keys`, where the row is that of the key.
pub(super) unsafe fn sort<T: Ranked>(
    words: &Words,
    arguments: *const *mut u8,
    at: (u64, u64),
    key: Key,
    row: Row<T>,
    mut scratch: *mut u8,
) {
    let take = words.take();
    let room = (take + spare(take)).min(row.length);
    // SAFETY: `scratch` asked for as much.
    let list = unsafe { bump::<Pair>(&mut scratch, room) };
    let (mut count, mut limit) = (0, None);
    for start in (0..row.length).step_by(BLOCK) {
        let end = (start + BLOCK).min(row.length);
        if let Some(limit) = limit
            && row.stride == 1
        {
            // SAFETY: a row without gaps is a slice.
            let block = unsafe { std::slice::from_raw_parts(row.first.add(start), end - start) };
            if !passes(block, key.descending, limit) {
                continue;
            }
        }
        for i in start..end {
            // SAFETY: places are below the length.
            let rank = unsafe { row.get(i) }.key(key.descending);
            if limit.is_some_and(|limit| rank >= limit) {
                continue;
            }
            list[count] = Pair { rank: rank.wide(), at: i as u32 };
            count += 1;
            if count == room && i + 1 < row.length {
                list.select_nth_unstable(take - 1);
                limit = Some(T::Bits::narrow(list[take - 1].rank));
                count = take;
            }
        }
    }
    let list = &mut list[..count];
    list.select_nth_unstable(take - 1);
    let best = &mut list[..take];
    best.sort_unstable();
    // SAFETY: the caller's; places are below the length.
    unsafe { write(words, arguments, at, 0, best.iter().map(|e| e.at)) };
}

/// Whether any element's key is below the limit.
fn passes<T: Ranked>(block: &[T], descending: bool, limit: T::Bits) -> bool {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions.
        return unsafe { passes_avx2(block, descending, limit) };
    }
    any_below(block, descending, limit)
}

/// [`any_below`] on wider vectors.
///
/// # Safety
/// The processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn passes_avx2<T: Ranked>(block: &[T], descending: bool, limit: T::Bits) -> bool {
    any_below(block, descending, limit)
}

#[inline(always)]
fn any_below<T: Ranked>(block: &[T], descending: bool, limit: T::Bits) -> bool {
    // Two loops, so that neither asks which it is; no early end, so that they vectorise.
    match descending {
        true => block.iter().fold(false, |any, x| any | (!x.rank() < limit)),
        false => block.iter().fold(false, |any, x| any | (x.rank() < limit)),
    }
}
