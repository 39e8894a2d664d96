//! How a contraction is cut into blocks, panels and tiles.
//!
//! A pure function of the shape, the element size, the machine's vectors and how the
//! operands lie in memory; never of the number of threads. Results do not depend on
//! any of it, since each element's sum runs over increasing `k` in every tiling.
//!
//! ```text
//!          one column block: its part of the right factor stays in the L2 cache
//!          |<---------- 256 columns ---------->|
//!          +--------+--------+--------+--------+
//!     unit |  tile  |        |        |        |  row panel: its rows of the left
//!          +--------+--------+--------+--------+  factor stay in the L1 cache
//!          |        |        |        |        |
//!          +--------+--------+--------+--------+
//!     unit |        |        |        |        |
//!          :                                   :
//! ```
//!
//! The units of work of a launch are row ranges of column blocks of batches, rows
//! fastest, so that a thread that runs neighbouring units packs a column block once.
//!
//! Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008),
//! with their roles of L1 and L2 exchanged: the right factor's block lies in L2, which
//! large and cheap vector loads stream from, and the left factor's few rows in L1,
//! which are then broadcast from where they lie and need no packing.

/// `total` items cut into `parts` runs whose lengths differ by at most one, the longer
/// ones spread evenly: the first half of the runs, or any other part of them, is that
/// part of the items. Threads each take some runs in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Split {
    /// How many items.
    pub total: u64,
    /// How many runs; at least 1.
    pub parts: u64,
}

impl Split {
    /// As few runs as possible of at most `longest` items; one empty run for none.
    pub fn at_most(longest: u64, total: u64) -> Split {
        Split { total, parts: total.div_ceil(longest).max(1) }
    }

    /// Length of the shorter runs.
    pub fn short(&self) -> u64 {
        self.total / self.parts
    }

    /// How many runs are one longer than [`Split::short`].
    fn longer(&self) -> u64 {
        self.total % self.parts
    }

    /// Length of the longest run.
    pub fn longest(&self) -> u64 {
        self.total.div_ceil(self.parts)
    }

    /// First item of run `i`, which may be one past the last.
    pub fn start(&self, i: u64) -> u64 {
        i * self.total / self.parts
    }

    /// The distinct lengths of runs, longest first, and how many have each.
    pub fn histogram(&self) -> impl Iterator<Item = (u64, u64)> {
        let (long, short) = (self.longer(), self.parts - self.longer());
        let all = [(self.short() + 1, long), (self.short(), short)];
        all.into_iter().filter(move |&(length, count)| count > 0 && (length > 0 || long == 0))
    }

    /// The distinct lengths of runs, longest first.
    pub fn lengths(&self) -> Vec<u64> {
        self.histogram().map(|(length, _)| length).collect()
    }
}

/// What the choice of tiles needs to know of a processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Bytes of a vector register.
    pub vector_bytes: u64,
    /// Number of vector registers.
    pub registers: u64,
    /// Whether a product and a sum are one instruction.
    pub fused: bool,
    /// Whether one instruction loads or stores some lanes of a vector.
    pub masks: bool,
}

/// Elements between neighbours of a factor that is read where it lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strides {
    /// Between rows of the left factor, columns of the right one.
    pub free: i64,
    /// Between steps of the sum.
    pub inner: i64,
}

/// Along which axis the elements of a factor lie side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Along {
    /// Rows of the left factor, columns of the right one.
    Free,
    /// Steps of the sum.
    Inner,
}

/// How a factor can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Set when the factor is an argument's elements as they are.
    pub strides: Option<Strides>,
    /// Along which axis vectors are best loaded while packing.
    pub along: Along,
}

/// The extents of a contraction and how its factors lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Product of the batch axes.
    pub batch: u64,
    /// Rows.
    pub m: u64,
    /// Columns.
    pub n: u64,
    /// Steps of a sum.
    pub k: u64,
    /// Bytes of an element of the accumulator's type.
    pub element: u64,
    /// The left factor.
    pub lhs: Access,
    /// The right factor.
    pub rhs: Access,
}

/// Where tiles read the left factor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// Where it lies.
    Direct(Strides),
    /// From packed rows, `stride` elements apart.
    Rows {
        /// Elements between rows; a multiple of the lanes and not of a page.
        stride: u64,
    },
    /// From packed panels: the rows of a panel side by side, `width` for each step.
    Panels {
        /// Elements between steps, at least the rows of a panel.
        width: u64,
        /// Elements between panels.
        stride: u64,
    },
}

/// Where tiles read the right factor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// Where it lies; neighbouring columns are neighbours in memory.
    Direct(Strides),
    /// From packed panels: the vectors of a panel side by side for each step.
    Panels(Along),
}

/// How a contraction is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tiling {
    /// Elements of a vector.
    pub lanes: u64,
    /// Rows cut into panels, the rows of a tile.
    pub row_panels: Split,
    /// Vectors that hold the columns cut into panels, the columns of a tile.
    pub column_panels: Split,
    /// Column panels cut into blocks.
    pub column_blocks: Split,
    /// Row panels of a column block cut into units of work.
    pub units: Split,
    /// Steps of a block of the sum; the last block may have fewer.
    pub k_block: u64,
    /// How many such blocks.
    pub k_blocks: u64,
    /// Row panels of the left factor that are packed together.
    pub chunk: u64,
    /// Row panels whose unfinished sums are kept together between blocks of the sum.
    pub section: u64,
    /// The left factor.
    pub left: Left,
    /// The right factor.
    pub right: Right,
    /// Number of batches.
    pub batch: u64,
    /// Least units worth handing to another thread.
    pub grain: u64,
}

/// Bytes of the right factor that stay in the L2 cache, which has 1 to 2 MiB on server
/// cores. Half of it measured as well on a quiet machine as all, and better on a busy one.
const RIGHT_BYTES: u64 = 768 << 10;
/// Steps of a block when a factor's rows are far apart in memory: their lines and pages
/// crowd the first-level caches otherwise.
const SHORT_STEPS: u64 = 256;
/// Steps of a block when the left factor is packed in panels: few, so that the right
/// block is wide and the left factor is packed seldom.
const PANEL_STEPS: u64 = 192;
/// Bytes of a packed left block, which shares L2 with the right one.
const LEFT_BYTES: u64 = 192 << 10;
/// Bytes of one row of the left factor in a block: six such rows fill half of L1.
const ROW_BYTES: u64 = 4096;
/// Bytes of unfinished sums kept by a thread.
const SUM_BYTES: u64 = 1 << 20;
/// Rows up to which packing the right factor costs more than it saves.
const FEW_ROWS: u64 = 128;
/// Bytes of a cache line.
const LINE: u64 = 64;
/// A stride that is a multiple of this puts all rows into one set of the L1 cache.
const ALIASING: u64 = 4096;
/// Ways of the L1 cache that rows of one set may take.
const WAYS: u64 = 9;
/// Units a launch should have, so that any number of threads divides it well.
const UNITS: u64 = 128;

impl Tiling {
    /// The tiling of `problem`, none of whose extents is 0, on `machine`.
    pub fn new(problem: &Problem, machine: &Machine) -> Tiling {
        let Problem { batch, m, n, k, element, .. } = *problem;
        let lanes = machine.vector_bytes / element;
        let columns = n.div_ceil(lanes);
        let (rows, vectors) = tile(m, columns, problem.lhs.along, machine);
        let row_panels = Split::at_most(rows, m);
        let column_panels = Split::at_most(vectors, columns);

        let right = right(problem, machine);
        let direct = matches!(right, Right::Direct(_));
        // One or two rows read the right factor once: it is taken from memory in the
        // order in which it lies, a few steps at a time, and the sums stay in L1.
        let stream = m <= 2;
        let left = left(problem, row_panels.longest(), column_panels.parts);
        let longest_k = match (stream, direct, left) {
            (true, true, _) => 16,
            (true, false, _) => 512,
            (false, true, _) => SHORT_STEPS,
            (_, _, Left::Panels { .. }) => PANEL_STEPS,
            _ => ROW_BYTES / element,
        };
        let k_blocks = k.div_ceil(longest_k);
        let k_block = if k_blocks == 1 { k } else { k.div_ceil(k_blocks).next_multiple_of(8) };
        let k_blocks = k.div_ceil(k_block);
        let left = match left {
            Left::Rows { .. } => Left::Rows { stride: k_block.next_multiple_of(lanes) + lanes },
            Left::Panels { width, .. } => {
                // An odd number of lines, for the reason given at `packed_steps`.
                let lines = (width * k_block * element).div_ceil(LINE) | 1;
                Left::Panels { width, stride: lines * LINE / element }
            }
            left => left,
        };

        let widest = match (stream, direct) {
            (true, true) => 4096,
            (true, false) => 512,
            _ => (RIGHT_BYTES / k_block).clamp(512, 4096),
        };
        let row_bytes = vectors * machine.vector_bytes;
        let column_blocks = Split::at_most(widest.div_ceil(row_bytes), column_panels.parts);
        let block_vectors = column_blocks.longest() * column_panels.longest();
        let rows = row_panels.longest();

        let mut chunk = match left {
            Left::Direct(_) => row_panels.parts,
            Left::Rows { stride } => LEFT_BYTES / (rows * stride * element),
            Left::Panels { stride, .. } => LEFT_BYTES / (stride * element),
        };
        chunk = chunk.clamp(1, row_panels.parts);
        let panel_sums = rows * block_vectors * machine.vector_bytes;
        let section = match k_blocks {
            1 => row_panels.parts,
            _ => (SUM_BYTES / panel_sums).clamp(1, row_panels.parts),
        };

        // Multiply-adds of one column block, padding included.
        let work = m * block_vectors * lanes * k;
        let enough = 1 << 14;
        let blocks = batch.saturating_mul(column_blocks.parts);
        let units =
            (work / (enough * lanes)).min(UNITS.div_ceil(blocks)).clamp(1, row_panels.parts);
        let units = Split { total: row_panels.parts, parts: units };
        let grain = (enough * lanes / 2).div_ceil(work / units.parts).max(1);
        Tiling {
            lanes,
            row_panels,
            column_panels,
            column_blocks,
            units,
            k_block,
            k_blocks,
            chunk,
            section,
            left,
            right,
            batch,
            grain,
        }
    }

    /// Units of work of a launch.
    pub fn grid(&self) -> u64 {
        self.batch * self.column_blocks.parts * self.units.parts
    }

    /// Columns of the widest column block, padding included.
    pub fn block_columns(&self) -> u64 {
        self.column_blocks.longest() * self.column_panels.longest() * self.lanes
    }

    /// Columns of the widest tile, padding included.
    pub fn tile_columns(&self) -> u64 {
        self.column_panels.longest() * self.lanes
    }

    /// Steps that a packed panel of the right factor has room for.
    ///
    /// Packing by squares of vectors writes whole squares. And an odd number keeps the
    /// starts of panels, all of which packing writes to in turn, from sharing a set of
    /// the L1 cache.
    pub fn packed_steps(&self) -> u64 {
        match self.right {
            Right::Panels(Along::Inner) => self.k_block.next_multiple_of(self.lanes) + 1,
            _ => self.k_block | 1,
        }
    }

    /// Elements of unfinished sums, or of one tile if none outlive it.
    pub fn sum_elements(&self) -> u64 {
        let rows = self.row_panels.longest();
        match self.k_blocks {
            1 => rows * self.tile_columns(),
            _ => self.section * rows * self.block_columns(),
        }
    }

    /// Elements of the packed right block.
    pub fn right_elements(&self) -> u64 {
        match self.right {
            Right::Direct(_) => 0,
            Right::Panels(_) => self.packed_steps() * self.block_columns(),
        }
    }

    /// Elements of the packed left block.
    pub fn left_elements(&self) -> u64 {
        match self.left {
            Left::Direct(_) => 0,
            Left::Rows { stride } => self.chunk * self.row_panels.longest() * stride,
            Left::Panels { stride, .. } => self.chunk * stride,
        }
    }
}

/// Rows and vectors of a tile.
///
/// The accumulators, one row of vectors of the right factor and one broadcast element
/// fit the registers; at least eight accumulators hide the latency of the fused
/// multiply-add (4 cycles, 2 a cycle). Six rows of four vectors need the fewest loads
/// for each multiply-add, but eight of three fewer from L2: alike where the left factor
/// lies in rows, 8 % better where it is packed in panels (1024^3, December 2026,
/// Xeon of the Sapphire Rapids class). Narrow or flat results want what they can fill.
fn tile(m: u64, columns: u64, left: Along, machine: &Machine) -> (u64, u64) {
    // Tiles of few rows come first: they are for results of few rows.
    type Tiles = &'static [(u64, u64)];
    let (flat, tall): (Tiles, Tiles) = match (machine.registers, machine.fused) {
        (32.., _) => {
            (&[(1, 8), (2, 8), (3, 7), (4, 5), (5, 4)], &[(8, 3), (6, 4), (12, 2), (12, 1)])
        }
        (_, true) => (&[(1, 7), (2, 5), (3, 3), (4, 3), (5, 2)], &[(6, 2), (12, 1)]),
        (_, false) => (&[(1, 6), (2, 4), (3, 2)], &[(4, 2), (8, 1)]),
    };
    if let Some(tile) = flat.iter().find(|t| t.0 == m) {
        return *tile;
    }
    // Half cycles that a step of a tile takes: two multiply-adds or loads a cycle, four
    // cycles until a sum can be added to again, and two for each vector from L2. Loads
    // break ties, those from L2 first.
    let far = if left == Along::Free { 3 } else { 2 };
    let step = |r: u64, v: u64| 8 * (r * v).max(r + v).max(4 * v).max(8) + r + far * v;
    let cost = |&(rows, vectors): &(u64, u64)| {
        let mut total = 0;
        for (r, row_panels) in Split::at_most(rows, m).histogram() {
            for (v, column_panels) in Split::at_most(vectors, columns).histogram() {
                total += row_panels * column_panels * step(r, v);
            }
        }
        (total, vectors)
    };
    *tall.iter().min_by_key(|t| cost(t)).expect("tiles")
}

fn right(problem: &Problem, machine: &Machine) -> Right {
    let panels = Right::Panels(problem.rhs.along);
    let Some(strides @ Strides { free: 1, inner }) = problem.rhs.strides else {
        return panels;
    };
    let lanes = machine.vector_bytes / problem.element;
    if !problem.n.is_multiple_of(lanes) && !machine.masks {
        return panels;
    }
    let stride = inner.unsigned_abs() * problem.element;
    let aligned = stride.is_multiple_of(machine.vector_bytes);
    let direct = problem.m <= if aligned { FEW_ROWS } else { FEW_ROWS / 4 };
    if direct { Right::Direct(strides) } else { panels }
}

/// The left factor; strides of what is packed depend on the steps of a block and are
/// filled in by the caller.
fn left(problem: &Problem, rows: u64, column_panels: u64) -> Left {
    let Access { strides, along } = problem.lhs;
    if let Some(strides) = strides {
        let Strides { free, inner } = strides;
        let bytes = |stride: i64| stride.unsigned_abs() * problem.element;
        let direct = match (free, inner) {
            (_, 0 | 1) => rows <= WAYS || bytes(free) % ALIASING != 0,
            (0 | 1, _) => problem.k <= SHORT_STEPS && bytes(inner) % ALIASING != 0,
            _ => false,
        };
        if direct || column_panels <= 1 {
            return Left::Direct(strides);
        }
    }
    match along {
        Along::Inner => Left::Rows { stride: 0 },
        Along::Free => Left::Panels { width: rows.next_power_of_two(), stride: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: Machine = Machine { vector_bytes: 64, registers: 32, fused: true, masks: true };
    const V3: Machine = Machine { vector_bytes: 32, registers: 16, fused: true, masks: true };
    const V2: Machine = Machine { vector_bytes: 16, registers: 16, fused: false, masks: false };
    const NEON: Machine = Machine { registers: 32, fused: true, ..V2 };

    /// A left factor `[m, k]` and a right factor `[k, n]` of four bytes an element.
    fn plain(m: u64, n: u64, k: u64) -> Problem {
        let lhs = Strides { free: k as i64, inner: 1 };
        let rhs = Strides { free: 1, inner: n as i64 };
        let lhs = Access { strides: Some(lhs), along: Along::Inner };
        let rhs = Access { strides: Some(rhs), along: Along::Free };
        Problem { batch: 1, m, n, k, element: 4, lhs, rhs }
    }

    /// The same with the left factor stored as `[k, m]`.
    fn left_turned(m: u64, n: u64, k: u64) -> Problem {
        let lhs = Strides { free: 1, inner: m as i64 };
        let lhs = Access { strides: Some(lhs), along: Along::Free };
        Problem { lhs, ..plain(m, n, k) }
    }

    /// The same with the right factor stored as `[n, k]`.
    fn right_turned(m: u64, n: u64, k: u64) -> Problem {
        let rhs = Strides { free: k as i64, inner: 1 };
        let rhs = Access { strides: Some(rhs), along: Along::Inner };
        Problem { rhs, ..plain(m, n, k) }
    }

    fn tile_of(t: &Tiling) -> (u64, u64) {
        (t.row_panels.longest(), t.column_panels.longest())
    }

    #[test]
    fn runs_cover_everything_once_and_are_balanced() {
        for total in 0..60 {
            for parts in 1..12 {
                let split = Split { total, parts };
                assert_eq!(split.start(0), 0);
                assert_eq!(split.start(parts), total);
                let lengths: Vec<u64> =
                    (0..parts).map(|i| split.start(i + 1) - split.start(i)).collect();
                let allowed = split.lengths();
                assert!(lengths.iter().all(|n| *n == 0 || allowed.contains(n)), "{split:?}");
                let long = lengths.iter().filter(|&&n| n == split.short() + 1).count();
                assert_eq!(long as u64, split.longer());
                for i in 0..=parts {
                    let fair = i as f64 * total as f64 / parts as f64;
                    assert!((split.start(i) as f64 - fair).abs() < 1.0, "{split:?}");
                }
            }
        }
        assert_eq!(Split::at_most(6, 1024).parts, 171);
        assert_eq!(Split::at_most(6, 1024).lengths(), [6, 5]);
        assert_eq!(Split::at_most(4, 0), Split { total: 0, parts: 1 });
    }

    #[test]
    fn tiles_fit_the_registers() {
        for machine in [V4, V3, V2, NEON] {
            // One register for a broadcast element, one for a product before its sum.
            let spare = if machine.fused { 1 } else { 2 };
            for m in 1..40 {
                for columns in 1..40 {
                    let (rows, vectors) = tile(m, columns, Along::Inner, &machine);
                    assert!(
                        rows * vectors + vectors + spare <= machine.registers,
                        "{rows} x {vectors} on {machine:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn extents_and_scratch_are_bounded() {
        let extents = [1, 2, 3, 5, 6, 7, 17, 64, 100, 129, 500, 1024, 3001, 100_000];
        for machine in [V4, V3, V2, NEON] {
            for (i, m) in extents.into_iter().enumerate() {
                for n in extents {
                    let k = extents[(i + n as usize) % extents.len()];
                    for p in [plain(m, n, k), left_turned(m, n, k), right_turned(m, n, k)] {
                        let t = Tiling::new(&p, &machine);
                        let note = format!("{p:?}\n{t:?}");
                        assert_eq!(t.row_panels.total, m, "{note}");
                        assert_eq!(t.column_panels.total, n.div_ceil(t.lanes), "{note}");
                        assert_eq!(t.column_blocks.total, t.column_panels.parts, "{note}");
                        assert_eq!(t.units.total, t.row_panels.parts, "{note}");
                        assert!(t.units.parts <= t.units.total.max(1), "{note}");
                        assert!((t.k_blocks - 1) * t.k_block < k, "{note}");
                        assert!(t.k_blocks * t.k_block >= k, "{note}");
                        assert!(t.grain >= 1 && t.chunk >= 1 && t.section >= 1, "{note}");
                        let elements = t.right_elements() + t.left_elements() + t.sum_elements();
                        assert!(elements * 4 <= 4 << 20, "{note}");
                        if let Left::Panels { width, stride } = t.left {
                            assert!(width >= t.row_panels.longest(), "{note}");
                            assert!(stride >= width * t.k_block, "{note}");
                        }
                        if let Left::Rows { stride } = t.left {
                            assert!(stride >= t.k_block.next_multiple_of(t.lanes), "{note}");
                        }
                        assert!(
                            matches!(t.right, Right::Panels(_))
                                || machine.masks
                                || n % t.lanes == 0
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_large_product_packs_one_factor_and_divides_well() {
        let t = Tiling::new(&plain(1024, 1024, 1024), &V4);
        assert_eq!(tile_of(&t), (6, 4));
        assert_eq!((t.k_blocks, t.block_columns()), (1, 192));
        assert!(matches!(t.left, Left::Direct(_)));
        assert_eq!(t.right, Right::Panels(Along::Free));
        assert!(t.grid() >= 64, "{t:?}");
        assert_eq!(t.grain, 1);
    }

    #[test]
    fn threads_have_equal_shares_of_the_tiles() {
        // 16 column panels in blocks of 3 and 2: with the wider blocks first, the first of
        // two threads would have nine panels and the second seven.
        let t = Tiling::new(&plain(1024, 1024, 1024), &V4);
        assert_eq!((t.column_panels.parts, t.column_blocks.parts), (16, 6));
        for threads in 1..=16 {
            // What the runtime gives thread `i`: see `share` in its `team`.
            let cut = |i: u64| t.grid() * i / threads;
            let tiles = |unit: u64| {
                let (block, unit) = (unit / t.units.parts, unit % t.units.parts);
                let length = |split: Split, i| split.start(i + 1) - split.start(i);
                length(t.column_blocks, block) * length(t.units, unit)
            };
            let most = (0..threads).map(|i| (cut(i)..cut(i + 1)).map(tiles).sum::<u64>()).max();
            let fair = t.row_panels.parts * t.column_panels.parts / threads;
            // Nobody has as much as one column panel too many, and two threads nothing.
            let spare = if threads <= 2 { 0 } else { t.row_panels.parts };
            assert!(most.unwrap() <= fair + spare, "{most:?} of {fair} for {threads} threads");
        }
    }

    #[test]
    fn turned_factors_are_packed_along_their_neighbours() {
        let t = Tiling::new(&right_turned(1024, 1024, 1024), &V4);
        assert_eq!(t.right, Right::Panels(Along::Inner));
        let t = Tiling::new(&left_turned(1024, 1024, 1024), &V4);
        assert!(matches!(t.left, Left::Panels { width: 8, .. }), "{t:?}");
        assert_eq!(tile_of(&t), (8, 3));
        // A few steps of few rows are read where they lie.
        let t = Tiling::new(&left_turned(784, 512, 128), &V4);
        assert!(matches!(t.left, Left::Direct(_)), "{t:?}");
    }

    #[test]
    fn few_rows_leave_the_right_factor_where_it_lies() {
        for m in [1, 32, 128] {
            let t = Tiling::new(&plain(m, 512, 784), &V4);
            assert!(matches!(t.right, Right::Direct(_)), "{t:?}");
        }
        // Rows that start anywhere in a line are packed sooner.
        let t = Tiling::new(&plain(128, 500, 784), &V4);
        assert!(matches!(t.right, Right::Panels(_)), "{t:?}");
    }

    #[test]
    fn narrow_and_flat_results_get_tiles_that_they_fill() {
        assert_eq!(tile_of(&Tiling::new(&plain(128, 10, 784), &V4)), (12, 1));
        assert_eq!(tile_of(&Tiling::new(&plain(1, 4096, 4096), &V4)), (1, 8));
        assert_eq!(tile_of(&Tiling::new(&plain(4, 4096, 64), &V4)), (4, 5));
        assert_eq!(tile_of(&Tiling::new(&plain(512, 512, 512), &V3)), (6, 2));
        assert_eq!(tile_of(&Tiling::new(&plain(512, 512, 512), &V2)), (4, 2));
    }

    #[test]
    fn small_products_are_not_worth_a_thread() {
        let t = Tiling::new(&plain(16, 16, 16), &V4);
        assert_eq!((t.grid(), t.units.parts), (1, 1));
        let t = Tiling::new(&Problem { batch: 1000, ..plain(16, 16, 16) }, &V4);
        assert_eq!(t.grid(), 1000);
        assert!(t.grain >= 16, "{t:?}");
    }
}
