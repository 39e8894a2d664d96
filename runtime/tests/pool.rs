//! The pool against a model: random traces, exact accounting, full coalescing.

use std::collections::BTreeMap;

use kiln_runtime::ALIGNMENT;
use kiln_runtime::pool::{End, Pool};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Log-uniform in `1..=2^bits`.
    fn size(&mut self, bits: u32) -> u64 {
        let power = self.next() % u64::from(bits);
        (1 << power) + self.next() % (1 << power)
    }
}

#[test]
fn random_traces_agree_with_the_model() {
    // K87: never refuse while a contiguous free block fits; no overlap; exact bytes.
    let capacity = 1 << 24;
    for seed in 1..=4 {
        let mut random = Random(seed);
        let mut pool = Pool::new(capacity);
        // The model: offset -> (bytes, block) of what is handed out.
        let mut out: BTreeMap<u64, (u64, kiln_runtime::pool::Block)> = BTreeMap::new();
        let (mut refused, mut in_use) = (0, 0);
        for step in 0..50_000 {
            let crowded = in_use > capacity * 9 / 10;
            if random.next() % 100 < if crowded { 30 } else { 60 } {
                let bytes = if random.next().is_multiple_of(50) { 0 } else { random.size(22) };
                let end = if random.next().is_multiple_of(2) { End::Low } else { End::High };
                let rounded = bytes.max(1).next_multiple_of(ALIGNMENT);
                match pool.allocate(bytes, end) {
                    Ok((block, offset)) => {
                        assert_eq!(offset % ALIGNMENT, 0);
                        let before = out.range(..=offset).next_back();
                        assert!(before.is_none_or(|(&o, &(b, _))| o + b <= offset), "overlap");
                        let after = out.range(offset..).next();
                        assert!(after.is_none_or(|(&o, _)| offset + rounded <= o), "overlap");
                        assert!(offset + rounded <= capacity);
                        out.insert(offset, (rounded, block));
                        in_use += rounded;
                    }
                    Err(full) => {
                        refused += 1;
                        let mut largest = 0;
                        let mut end = 0;
                        for (&o, &(b, _)) in &out {
                            largest = largest.max(o - end);
                            end = o + b;
                        }
                        largest = largest.max(capacity - end);
                        assert!(rounded > largest, "seed {seed} step {step}: refused what fits");
                        assert_eq!(full.largest_free, largest);
                    }
                }
            } else if !out.is_empty() {
                let at = random.next() % capacity;
                let offset = *out.range(at..).next().or_else(|| out.iter().next()).unwrap().0;
                let (bytes, block) = out.remove(&offset).unwrap();
                pool.free(block);
                in_use -= bytes;
            }
            assert_eq!(pool.stats().in_use, in_use);
            assert_eq!(pool.stats().blocks, out.len() as u64);
        }
        assert!(refused > 100, "the trace must fill the pool: {refused} refusals");
        for (_, (_, block)) in out {
            pool.free(block);
        }
        let stats = pool.stats();
        assert_eq!((stats.in_use, stats.largest_free), (0, capacity), "one block remains");
    }
}

#[test]
fn short_lives_come_from_the_low_end_and_long_ones_from_the_high() {
    let mut pool = Pool::new(1 << 20);
    let (a, low) = pool.allocate(100, End::Low).unwrap();
    let (b, high) = pool.allocate(100, End::High).unwrap();
    assert_eq!((low, high), (0, (1 << 20) - 128));
    pool.free(a);
    // Another run finds the same place: no hole is left below the arrays.
    assert_eq!(pool.allocate(1000, End::Low).unwrap().1, 0);
    assert_eq!(pool.stats().fragmentation(), 0.0);
    // A hole among the arrays: that much of the free memory is no part of the largest block.
    pool.allocate(64, End::High).unwrap();
    pool.free(b);
    let free = (1 << 20) - 1024 - 64;
    assert_eq!(pool.stats().largest_free, free - 128);
    assert_eq!(pool.stats().fragmentation(), 1.0 - (free - 128) as f64 / free as f64);
}

#[test]
fn absurd_requests_are_refused() {
    let mut pool = Pool::new(1 << 20);
    assert!(pool.allocate(u64::MAX, End::Low).is_err());
    assert!(pool.allocate((1 << 20) + 1, End::Low).is_err());
    assert!(Pool::new(0).allocate(0, End::Low).is_err());
    assert_eq!(pool.stats().in_use, 0);
}
