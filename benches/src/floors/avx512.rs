//! The same with 512-bit vectors.
//!
//! What makes them fast, beside width:
//! - one pass over memory: a row is read once, and what is kept of it stays in L1;
//! - streaming stores where the caller asks, which save reading each line that is
//!   about to be overwritten;
//! - prefetching ahead of arithmetic that is long enough to stall the loads;
//! - four independent accumulators for every reduction.
//!
//! Preconditions, checked where slices are indexed: rows are a multiple of 64
//! elements, outputs start on a 64-byte line.

use std::arch::x86_64::*;

use super::Stores;

/// f32 per vector.
pub const LANES: usize = 16;

/// Vectors handled together, for independent chains of arithmetic.
const UNROLL: usize = 4;
const BLOCK: usize = UNROLL * LANES;

/// How far ahead elementwise programs prefetch, in elements: 4 KiB.
const AHEAD: usize = 1024;

/// Row programs prefetch the row after the next into L2, in a pass that reads its own
/// row from L1: fetched in the pass that reads from memory, it would compete with that.
/// Which of the later passes is best was found by trying (2026-12-01, Sapphire Rapids,
/// two threads, as multiples of the bare traffic; one to four rows ahead are equal):
///
/// | program | in the last pass | in the pass before | in the first | not at all |
/// |---|---|---|---|---|
/// | softmax | 1.53 | 1.15 | - | - |
/// | layernorm | 1.28 | 1.06 | - | 1.28 |
/// | rmsnorm | 1.02 | (is the first) | 1.15 | 1.20 |
const ROWS_AHEAD: usize = 2;

/// Sixteen elements from index `i` on.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn load(x: &[f32], i: usize) -> __m512 {
    let from = &x[i..i + LANES];
    // SAFETY: the slice holds one whole vector.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

/// Writes sixteen elements from index `i` on. Streaming ones need a 64-byte boundary,
/// which parts of a [`Buffer`](crate::buffer::Buffer) split by lines have.
#[inline]
#[target_feature(enable = "avx512f")]
pub fn store(stores: Stores, y: &mut [f32], i: usize, value: __m512) {
    let to = &mut y[i..i + LANES];
    // SAFETY: the slice holds one whole vector. A streaming store to an address off
    // the boundary traps; it does not corrupt.
    unsafe {
        match stores {
            Stores::Plain => _mm512_storeu_ps(to.as_mut_ptr(), value),
            Stores::Streaming => _mm512_stream_ps(to.as_mut_ptr(), value),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn prefetch<const HINT: i32>(x: &[f32], i: usize) {
    // Past the end of the slice is fine: a prefetch of any address does no harm.
    _mm_prefetch::<HINT>(x.as_ptr().wrapping_add(i).cast());
}

/// The same elements elsewhere. Without a fence after streaming stores: a caller that
/// copies many rows needs one in all.
#[target_feature(enable = "avx512f")]
pub fn copy(stores: Stores, x: &[f32], y: &mut [f32]) {
    assert!(x.len() == y.len() && x.len().is_multiple_of(LANES), "whole vectors");
    for i in (0..x.len()).step_by(LANES) {
        store(stores, y, i, load(x, i));
    }
}

/// The sum of some rows of `x`, from 0 and in their order, a block of registers at a time.
/// Without a fence, as [`copy`].
#[target_feature(enable = "avx512f")]
pub fn sum_rows(stores: Stores, rows: &[u32], x: &[f32], y: &mut [f32]) {
    assert!(y.len().is_multiple_of(BLOCK), "whole blocks");
    for start in (0..y.len()).step_by(BLOCK) {
        let mut sums = [_mm512_setzero_ps(); UNROLL];
        for &row in rows {
            let from = &x[row as usize * y.len() + start..][..BLOCK];
            for (k, sum) in sums.iter_mut().enumerate() {
                *sum = _mm512_add_ps(*sum, load(from, k * LANES));
            }
        }
        for (k, sum) in sums.into_iter().enumerate() {
            store(stores, y, start + k * LANES, sum);
        }
    }
}

/// Makes streaming stores visible to other threads.
#[target_feature(enable = "avx512f")]
pub fn fence() {
    _mm_sfence();
}

/// e^x for x ≤ 88, to about one ULP; far below the least normal number it gives zero.
///
/// x = n·ln 2 + r with |r| ≤ ln 2 / 2, and e^x = 2^n · e^r. The polynomial is the
/// Chebyshev interpolant of degree 6 for e^r: its relative error is 2.5e-9, a
/// fiftieth of half an ULP, so that rounding is what remains.
#[inline]
#[target_feature(enable = "avx512f")]
fn exp(x: __m512) -> __m512 {
    const COEFFICIENTS: [f32; 7] =
        [0.001_394_111_9, 0.008_375_135, 0.041_666_354, 0.166_664_16, 0.5, 1.0, 1.0];
    // ln 2 in two parts, the first with few enough bits that n times it is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding and subtracting 1.5·2^23 rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;

    let round = _mm512_set1_ps(ROUND);
    let n =
        _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(std::f32::consts::LOG2_E), round), round);
    let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN2_HIGH), x);
    let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(LN2_LOW), r);
    let mut p = _mm512_set1_ps(COEFFICIENTS[0]);
    for &coefficient in &COEFFICIENTS[1..] {
        p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(coefficient));
    }
    _mm512_scalef_ps(p, n)
}

/// `gelu(1.1·x + 0.1) + r`.
///
/// ½ t (1 + tanh u) = t / (1 + e^(−2u)): one exponential and one division.
#[target_feature(enable = "avx512f")]
pub fn gelu(stores: Stores, x: &[f32], r: &[f32], y: &mut [f32]) {
    let whole = y.len() / BLOCK * BLOCK;
    assert!(whole == y.len() && x.len() == whole && r.len() == whole, "whole blocks");
    for i in (0..whole).step_by(BLOCK) {
        for k in (0..BLOCK).step_by(LANES) {
            prefetch::<_MM_HINT_T0>(x, i + k + AHEAD);
            prefetch::<_MM_HINT_T0>(r, i + k + AHEAD);
        }
        for k in (i..i + BLOCK).step_by(LANES) {
            store(stores, y, k, _mm512_add_ps(gelu_of(load(x, k)), load(r, k)));
        }
    }
    _mm_sfence();
}

#[inline]
#[target_feature(enable = "avx512f")]
fn gelu_of(x: __m512) -> __m512 {
    // −2 · √(2/π), and that times the cubic coefficient.
    const LINEAR: f32 = -1.595_769;
    const CUBIC: f32 = -0.071_354_814;
    let t = _mm512_fmadd_ps(x, _mm512_set1_ps(1.1), _mm512_set1_ps(0.1));
    let square = _mm512_mul_ps(t, t);
    let factor = _mm512_fmadd_ps(square, _mm512_set1_ps(CUBIC), _mm512_set1_ps(LINEAR));
    // Beyond this the quotient is the signed zero or t itself anyway.
    let exponent = _mm512_min_ps(_mm512_mul_ps(t, factor), _mm512_set1_ps(88.0));
    _mm512_div_ps(t, _mm512_add_ps(exp(exponent), _mm512_set1_ps(1.0)))
}

/// The longest row whose exponentials are kept beside it in L1.
const LONGEST_ROW: usize = 4096;

/// Softmax of rows: the maximum; exponentials into a buffer that stays in L1, with
/// their sum; scaled on the way out. The next row is fetched meanwhile.
#[target_feature(enable = "avx512f,avx512dq")]
pub fn softmax(stores: Stores, row: usize, x: &[f32], y: &mut [f32]) {
    #[repr(align(64))]
    struct Row([f32; LONGEST_ROW]);
    assert!(row.is_multiple_of(BLOCK) && row <= LONGEST_ROW && x.len() == y.len(), "whole blocks");
    let mut kept = Row([0.0; LONGEST_ROW]);
    for start in (0..x.len()).step_by(row) {
        let from = &x[start..start + row];
        let mut maxima = [load(from, 0); UNROLL];
        for i in (0..row).step_by(BLOCK) {
            for (k, max) in maxima.iter_mut().enumerate() {
                *max = _mm512_max_ps(*max, load(from, i + k * LANES));
            }
        }
        let max =
            _mm512_max_ps(_mm512_max_ps(maxima[0], maxima[1]), _mm512_max_ps(maxima[2], maxima[3]));
        let max = _mm512_set1_ps(_mm512_reduce_max_ps(max));
        let mut sums = [_mm512_setzero_ps(); UNROLL];
        for i in (0..row).step_by(BLOCK) {
            for (k, sum) in sums.iter_mut().enumerate() {
                let at = i + k * LANES;
                prefetch::<_MM_HINT_T1>(x, start + ROWS_AHEAD * row + at);
                let e = exp(_mm512_sub_ps(load(from, at), max));
                *sum = _mm512_add_ps(*sum, e);
                store(Stores::Plain, &mut kept.0, at, e);
            }
        }
        let scale = _mm512_set1_ps(1.0 / total(sums));
        let to = &mut y[start..start + row];
        for i in (0..row).step_by(LANES) {
            store(stores, to, i, _mm512_mul_ps(load(&kept.0, i), scale));
        }
    }
    _mm_sfence();
}

/// The sum of each row up to each element: four vectors at once by doubling in registers,
/// then what came before them.
#[target_feature(enable = "avx512f,avx512dq")]
pub fn cumsum(stores: Stores, row: usize, x: &[f32], y: &mut [f32]) {
    assert!(row.is_multiple_of(BLOCK) && x.len() == y.len(), "whole blocks");
    let last = _mm512_set1_epi32(LANES as i32 - 1);
    for start in (0..x.len()).step_by(row) {
        let mut before = _mm512_setzero_ps();
        for i in (start..start + row).step_by(BLOCK) {
            for k in (i..i + BLOCK).step_by(LANES) {
                prefetch::<_MM_HINT_T0>(x, k + AHEAD);
                let sums = prefixes(load(x, k));
                store(stores, y, k, _mm512_add_ps(before, sums));
                before = _mm512_add_ps(before, _mm512_permutexvar_ps(last, sums));
            }
        }
    }
    _mm_sfence();
}

/// The sum of the lanes up to each.
#[inline]
#[target_feature(enable = "avx512f")]
fn prefixes(x: __m512) -> __m512 {
    let zero = _mm512_setzero_si512();
    macro_rules! doubled {
        ($x:expr, $by:literal) => {{
            let moved = _mm512_alignr_epi32::<{ 16 - $by }>(_mm512_castps_si512($x), zero);
            _mm512_add_ps($x, _mm512_castsi512_ps(moved))
        }};
    }
    let x = doubled!(x, 1);
    let x = doubled!(x, 2);
    let x = doubled!(x, 4);
    doubled!(x, 8)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn total(sums: [__m512; UNROLL]) -> f32 {
    _mm512_reduce_add_ps(_mm512_add_ps(
        _mm512_add_ps(sums[0], sums[1]),
        _mm512_add_ps(sums[2], sums[3]),
    ))
}

/// Layer normalisation: the mean, then the variance around it (exact, not from the
/// difference of squares), then out. A row of 4 KiB stays in L1 for all three.
#[target_feature(enable = "avx512f,avx512dq")]
pub fn layer_norm(stores: Stores, row: usize, x: &[f32], g: &[f32], b: &[f32], y: &mut [f32]) {
    assert!(row.is_multiple_of(BLOCK) && x.len() == y.len(), "whole blocks");
    assert!(g.len() == row && b.len() == row, "one scale and shift per column");
    for start in (0..x.len()).step_by(row) {
        let from = &x[start..start + row];
        let mut sums = [_mm512_setzero_ps(); UNROLL];
        for i in (0..row).step_by(BLOCK) {
            for (k, sum) in sums.iter_mut().enumerate() {
                *sum = _mm512_add_ps(*sum, load(from, i + k * LANES));
            }
        }
        let mean = _mm512_set1_ps(total(sums) / row as f32);
        let mut squares = [_mm512_setzero_ps(); UNROLL];
        for i in (0..row).step_by(BLOCK) {
            for (k, square) in squares.iter_mut().enumerate() {
                prefetch::<_MM_HINT_T1>(x, start + ROWS_AHEAD * row + i + k * LANES);
                let d = _mm512_sub_ps(load(from, i + k * LANES), mean);
                *square = _mm512_fmadd_ps(d, d, *square);
            }
        }
        let scale = _mm512_set1_ps(1.0 / (total(squares) / row as f32 + 1e-5).sqrt());
        let to = &mut y[start..start + row];
        for i in (0..row).step_by(LANES) {
            let unit = _mm512_mul_ps(_mm512_sub_ps(load(from, i), mean), scale);
            store(stores, to, i, _mm512_fmadd_ps(unit, load(g, i), load(b, i)));
        }
    }
    _mm_sfence();
}

/// Normalisation by the root of the mean square.
#[target_feature(enable = "avx512f,avx512dq")]
pub fn rms_norm(stores: Stores, row: usize, x: &[f32], g: &[f32], y: &mut [f32]) {
    assert!(row.is_multiple_of(BLOCK) && x.len() == y.len() && g.len() == row, "whole blocks");
    for start in (0..x.len()).step_by(row) {
        let from = &x[start..start + row];
        let mut squares = [_mm512_setzero_ps(); UNROLL];
        for i in (0..row).step_by(BLOCK) {
            for (k, square) in squares.iter_mut().enumerate() {
                let v = load(from, i + k * LANES);
                *square = _mm512_fmadd_ps(v, v, *square);
            }
        }
        let scale = _mm512_set1_ps(1.0 / (total(squares) / row as f32 + 1e-6).sqrt());
        let to = &mut y[start..start + row];
        for i in (0..row).step_by(LANES) {
            prefetch::<_MM_HINT_T1>(x, start + ROWS_AHEAD * row + i);
            store(stores, to, i, _mm512_mul_ps(_mm512_mul_ps(load(from, i), scale), load(g, i)));
        }
    }
    _mm_sfence();
}

/// `x + 1` on half a vector.
#[target_feature(enable = "avx512f")]
pub fn increment(x: &[f32], y: &mut [f32]) {
    assert!(x.len() == 8 && y.len() == 8, "eight elements");
    // SAFETY: both hold exactly one 256-bit vector.
    unsafe {
        let sum = _mm256_add_ps(_mm256_loadu_ps(x.as_ptr()), _mm256_set1_ps(1.0));
        _mm256_storeu_ps(y.as_mut_ptr(), sum);
    }
}
