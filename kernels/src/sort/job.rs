//! What a sort is told, as plain data and as the words that a kernel holds.
//!
//! ```text
//! words   outer length inner take keys operands   then for each operand
//!         element  from  to                        then for each key
//!         operand  descending
//! ```
//!
//! `from` and `to` are numbers of arguments; [`NONE`] as `from` stands for the position of
//! each element along its row, as `to` for a result that nobody wants.

use std::ops::Range;

use super::Element;

/// No argument.
const NONE: u64 = u64::MAX;

/// A sort of rows: row `(o, c)` of an operand are its elements
/// `(o * length + i) * inner + c`, and its result's `(o * take + i) * inner + c`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// Rows one after the other.
    pub outer: u64,
    /// Elements of a row, 1 to 2³² − 1.
    pub length: u64,
    /// Rows side by side, at least 1.
    pub inner: u64,
    /// Elements of each sorted row that are written, 1 to `length`.
    pub take: u64,
    /// What moves.
    pub operands: Vec<Operand>,
    /// What is compared, first of all the first. Empty: a function compares.
    pub keys: Vec<Key>,
}

/// One array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// What its elements are.
    pub element: Element,
    /// Where they come from.
    pub from: Source,
    /// The argument that they go to, if anybody wants them.
    pub to: Option<u32>,
}

/// Where elements come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// This argument.
    Argument(u32),
    /// Their positions along the row: of an integer of 32 or 64 bits, and no key.
    Position,
}

/// A compared operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Which operand.
    pub operand: u32,
    /// Whether the greatest comes first.
    pub descending: bool,
}

/// Rows side by side that are one unit of work: their elements share cache lines.
const SIDE_BY_SIDE: u64 = 16;

/// Pieces of a long row, and what counts as long: some hundred microseconds of work.
pub(super) const PIECES: u64 = 64;
const LONG: u64 = 1 << 15;

impl Job {
    /// The words for `kiln_sort_keys` or `kiln_sort_by`.
    pub fn words(&self) -> Vec<u64> {
        let (keys, operands) = (self.keys.len() as u64, self.operands.len() as u64);
        let mut words = vec![self.outer, self.length, self.inner, self.take, keys, operands];
        for operand in &self.operands {
            let from = match operand.from {
                Source::Argument(a) => a.into(),
                Source::Position => NONE,
            };
            words.extend([operand.element as u64, from, operand.to.map_or(NONE, u64::from)]);
        }
        for key in &self.keys {
            words.extend([u64::from(key.operand), u64::from(key.descending)]);
        }
        words
    }

    /// Units of work.
    pub fn grid(&self) -> u64 {
        Words(&self.words()).grid()
    }

    /// Units that together are worth another thread: some ten thousand elements.
    pub fn grain(&self) -> u64 {
        let words = self.words();
        let words = Words(&words);
        if words.pieces() > 1 {
            return PIECES / 8;
        }
        (1 << 14) / (self.length * self.inner.min(SIDE_BY_SIDE)).clamp(1, 1 << 14)
    }

    /// Bytes of scratch that each thread needs.
    pub fn scratch(&self) -> u64 {
        let words = self.words();
        let words = Words(&words);
        match self.keys.is_empty() {
            true => super::merge::scratch(&words),
            false => super::keys::scratch(&words),
        }
    }
}

/// The words of a [`Job`].
pub(super) struct Words<'a>(pub &'a [u64]);

/// Some rows, and of each of them some pieces.
pub(super) struct Part {
    pub outer: u64,
    pub inner: Range<u64>,
    /// Pieces `0..PIECES` of a row that is cut, or everything.
    pub pieces: Option<Range<u64>>,
}

impl Words<'_> {
    /// # Safety
    /// `words` must be the words of a job.
    pub unsafe fn new<'a>(words: *const u64) -> Words<'a> {
        // SAFETY: the words say how many they are.
        unsafe {
            let (keys, operands) = (*words.add(4), *words.add(5));
            let count = 6 + 3 * operands as usize + 2 * keys as usize;
            Words(std::slice::from_raw_parts(words, count))
        }
    }

    pub fn outer(&self) -> u64 {
        self.0[0]
    }

    pub fn length(&self) -> usize {
        self.0[1] as usize
    }

    pub fn inner(&self) -> usize {
        self.0[2] as usize
    }

    pub fn take(&self) -> usize {
        self.0[3] as usize
    }

    pub fn operands(&self) -> impl ExactSizeIterator<Item = Operand> + '_ {
        (0..self.0[5] as usize).map(|k| self.operand(k))
    }

    pub fn operand(&self, k: usize) -> Operand {
        let [element, from, to] = self.0[6 + 3 * k..][..3] else { unreachable!() };
        let argument = |word: u64| (word != NONE).then_some(word as u32);
        Operand {
            element: Element::ALL[element as usize],
            from: argument(from).map_or(Source::Position, Source::Argument),
            to: argument(to),
        }
    }

    pub fn keys(&self) -> impl DoubleEndedIterator<Item = Key> + ExactSizeIterator + '_ {
        let first = 6 + 3 * self.0[5] as usize;
        let pairs = self.0[first..].chunks_exact(2);
        pairs.map(|pair| Key { operand: pair[0] as u32, descending: pair[1] != 0 })
    }

    /// Pieces that each row is cut into.
    fn pieces(&self) -> u64 {
        let few = self.outer() * (self.inner() as u64) < PIECES;
        let whole = self.take() == self.length() && self.keys().len() > 0;
        if few && whole && self.length() as u64 >= LONG { PIECES } else { 1 }
    }

    fn grid(&self) -> u64 {
        match self.pieces() {
            1 => self.outer() * (self.inner() as u64).div_ceil(SIDE_BY_SIDE),
            pieces => self.outer() * self.inner() as u64 * pieces,
        }
    }

    /// Calls `f` with the parts that the units `units` are.
    pub fn parts(&self, units: Range<u64>, mut f: impl FnMut(Part)) {
        let inner = self.inner() as u64;
        let pieces = self.pieces();
        if pieces == 1 {
            let blocks = inner.div_ceil(SIDE_BY_SIDE);
            for unit in units {
                let first = unit % blocks * SIDE_BY_SIDE;
                let inner = first..(first + SIDE_BY_SIDE).min(inner);
                f(Part { outer: unit / blocks, inner, pieces: None });
            }
            return;
        }
        let mut unit = units.start;
        while unit < units.end {
            let row = unit / pieces;
            let end = units.end.min((row + 1) * pieces);
            let (from, to) = (unit - row * pieces, end - row * pieces);
            let all = to - from == pieces;
            let column = row % inner;
            f(Part {
                outer: row / inner,
                inner: column..column + 1,
                pieces: (!all).then_some(from..to),
            });
            unit = end;
        }
    }
}
