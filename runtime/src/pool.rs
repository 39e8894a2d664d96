//! The memory pool: one reserved range of addresses, handed out in blocks.
//!
//! Addresses are reserved once and touched on demand. Allocation is best fit over
//! segregated lists with immediate coalescing, and two-ended: what lives for one
//! run is cut from the low end of a free block, what lives long from the high end,
//! so that short lives do not leave holes between long ones.
//!
//! ```text
//!   low                                                   high
//!   | run | run |            free             | array | array |
//! ```
//!
//! Promises: blocks are [`ALIGNMENT`](crate::ALIGNMENT)-aligned and disjoint; the
//! bytes in use are exact; memory is refused only when no free block fits; when all
//! is freed there is one block. Nothing here allocates on the heap once the table
//! of blocks has grown to the number of blocks alive at once.

use crate::ALIGNMENT;

/// Which end of a free block an allocation is cut from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// For what lives during one run.
    Low,
    /// For what may live long.
    High,
}

/// A block that was handed out, to be given back to [`Pool::free`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Block(u32);

/// No free block was large enough.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full {
    /// Bytes of the pool.
    pub capacity: u64,
    /// Bytes handed out.
    pub in_use: u64,
    /// Bytes of the largest free block.
    pub largest_free: u64,
}

/// Counts of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolStats {
    /// Bytes of the reserved range.
    pub capacity: u64,
    /// Bytes handed out, alignment included.
    pub in_use: u64,
    /// Most bytes ever handed out at once.
    pub peak: u64,
    /// Bytes of the largest free block.
    pub largest_free: u64,
    /// Blocks handed out now.
    pub blocks: u64,
    /// Blocks ever handed out.
    pub allocations: u64,
}

impl PoolStats {
    /// How much of the free memory one allocation cannot have: 0 when it is one block.
    pub fn fragmentation(&self) -> f64 {
        match self.capacity - self.in_use {
            0 => 0.0,
            free => 1.0 - self.largest_free as f64 / free as f64,
        }
    }
}

const NONE: u32 = u32::MAX;

/// Free lists: one for each quarter of a power of two.
const BINS: usize = 4 * 64;

#[derive(Clone, Copy)]
struct Node {
    offset: u64,
    bytes: u64,
    free: bool,
    /// Neighbours in address order.
    before: u32,
    after: u32,
    /// Neighbours in the free list.
    previous: u32,
    next: u32,
}

/// Bookkeeping of a range of addresses. Offsets count from its start; the memory
/// itself is somebody else's.
pub struct Pool {
    nodes: Vec<Node>,
    /// The first unused entry of `nodes`; the others follow it.
    spare: u32,
    bins: Vec<u32>,
    stats: PoolStats,
}

impl Pool {
    /// A pool over `capacity` bytes, rounded down to the alignment.
    pub fn new(capacity: u64) -> Pool {
        let capacity = capacity / ALIGNMENT * ALIGNMENT;
        let mut pool = Pool {
            nodes: Vec::with_capacity(4096),
            spare: NONE,
            bins: vec![NONE; BINS],
            stats: PoolStats { capacity, ..PoolStats::default() },
        };
        if capacity > 0 {
            let node = pool.node(0, capacity);
            pool.link(node);
        }
        pool
    }

    /// Hands out at least `bytes` bytes (at least one alignment unit), and says at
    /// which offset.
    pub fn allocate(&mut self, bytes: u64, end: End) -> Result<(Block, u64), Full> {
        let wanted = Pool::rounded(bytes);
        let found = wanted.and_then(|wanted| Some((wanted, self.best_fit(wanted)?)));
        let Some((wanted, found)) = found else {
            let PoolStats { capacity, in_use, .. } = self.stats;
            return Err(Full { capacity, in_use, largest_free: self.largest_free() });
        };
        self.unlink(found);
        let Node { offset, bytes, before, after, .. } = self.nodes[found as usize];
        let rest = bytes - wanted;
        let taken = if rest == 0 {
            found
        } else {
            // `found` keeps the rest; a new node becomes the block.
            let taken_offset = if end == End::Low { offset } else { offset + rest };
            let taken = self.node(taken_offset, wanted);
            self.nodes[found as usize].bytes = rest;
            match end {
                End::Low => {
                    self.nodes[found as usize].offset = offset + wanted;
                    self.join(before, taken);
                    self.join(taken, found);
                }
                End::High => {
                    self.join(taken, after);
                    self.join(found, taken);
                }
            }
            self.link(found);
            taken
        };
        self.nodes[taken as usize].free = false;
        self.stats.in_use += wanted;
        self.stats.peak = self.stats.peak.max(self.stats.in_use);
        self.stats.blocks += 1;
        self.stats.allocations += 1;
        Ok((Block(taken), self.nodes[taken as usize].offset))
    }

    /// How many bytes an allocation of `bytes` bytes takes, if that many can be.
    pub fn rounded(bytes: u64) -> Option<u64> {
        bytes.max(1).checked_next_multiple_of(ALIGNMENT)
    }

    /// Bytes of a block that is handed out.
    pub fn bytes(&self, block: Block) -> u64 {
        self.nodes[block.0 as usize].bytes
    }

    /// Takes a block back.
    ///
    /// # Panics
    /// If the block is not handed out: a fault of ours.
    pub fn free(&mut self, block: Block) {
        let mut at = block.0;
        assert!(!self.nodes[at as usize].free, "block freed twice");
        self.stats.in_use -= self.nodes[at as usize].bytes;
        self.stats.blocks -= 1;
        let Node { before, after, .. } = self.nodes[at as usize];
        if after != NONE && self.nodes[after as usize].free {
            self.unlink(after);
            self.nodes[at as usize].bytes += self.nodes[after as usize].bytes;
            let beyond = self.nodes[after as usize].after;
            self.join(at, beyond);
            self.discard(after);
        }
        if before != NONE && self.nodes[before as usize].free {
            self.unlink(before);
            self.nodes[before as usize].bytes += self.nodes[at as usize].bytes;
            let beyond = self.nodes[at as usize].after;
            self.join(before, beyond);
            self.discard(at);
            at = before;
        }
        self.nodes[at as usize].free = true;
        self.link(at);
    }

    /// The counts.
    pub fn stats(&self) -> PoolStats {
        PoolStats { largest_free: self.largest_free(), ..self.stats }
    }

    /// Makes the present use the peak.
    pub fn reset_peak(&mut self) {
        self.stats.peak = self.stats.in_use;
    }

    fn largest_free(&self) -> u64 {
        let Some(&first) = self.bins.iter().rev().find(|&&b| b != NONE) else { return 0 };
        self.list(first).map(|n| self.nodes[n as usize].bytes).max().unwrap_or(0)
    }

    /// The smallest free block of at least `wanted` bytes; of equals, the last freed.
    fn best_fit(&self, wanted: u64) -> Option<u32> {
        let lists = self.bins[bin(wanted)..].iter().filter(|&&first| first != NONE);
        lists.copied().find_map(|first| {
            let mut best: Option<(u64, u32)> = None;
            for n in self.list(first) {
                let bytes = self.nodes[n as usize].bytes;
                if bytes == wanted {
                    return Some(n);
                }
                if bytes > wanted && best.is_none_or(|(least, _)| bytes < least) {
                    best = Some((bytes, n));
                }
            }
            best.map(|(_, n)| n)
        })
    }

    fn list(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors((first != NONE).then_some(first), |&n| {
            let next = self.nodes[n as usize].next;
            (next != NONE).then_some(next)
        })
    }

    fn node(&mut self, offset: u64, bytes: u64) -> u32 {
        let node = Node {
            offset,
            bytes,
            free: true,
            before: NONE,
            after: NONE,
            previous: NONE,
            next: NONE,
        };
        match self.spare {
            NONE => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
            i => {
                self.spare = self.nodes[i as usize].next;
                self.nodes[i as usize] = node;
                i
            }
        }
    }

    /// Makes an entry unused. It counts as free, which catches who frees it again.
    fn discard(&mut self, n: u32) {
        self.nodes[n as usize].next = self.spare;
        self.nodes[n as usize].free = true;
        self.spare = n;
    }

    /// Makes `b` follow `a` in address order.
    fn join(&mut self, a: u32, b: u32) {
        if a != NONE {
            self.nodes[a as usize].after = b;
        }
        if b != NONE {
            self.nodes[b as usize].before = a;
        }
    }

    fn link(&mut self, n: u32) {
        let bin = bin(self.nodes[n as usize].bytes);
        let first = self.bins[bin];
        self.nodes[n as usize].previous = NONE;
        self.nodes[n as usize].next = first;
        if first != NONE {
            self.nodes[first as usize].previous = n;
        }
        self.bins[bin] = n;
    }

    fn unlink(&mut self, n: u32) {
        let Node { previous, next, bytes, .. } = self.nodes[n as usize];
        match previous {
            NONE => self.bins[bin(bytes)] = next,
            _ => self.nodes[previous as usize].next = next,
        }
        if next != NONE {
            self.nodes[next as usize].previous = previous;
        }
    }
}

/// The list of blocks of this size: the power of two below and its quarter.
fn bin(bytes: u64) -> usize {
    let power = 63 - bytes.leading_zeros() as usize;
    let quarter = if power >= 2 { (bytes >> (power - 2)) & 3 } else { 0 };
    4 * power + quarter as usize
}
