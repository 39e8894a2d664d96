//! Rows at indices: copied to where they are wanted, and summed to where they belong.
//!
//! Indices are floats that are whole after truncation, since all inputs are floats.
//!
//! What makes the sums fast: indices are sorted by counting, which a core does in a
//! fraction of the time that the rows take. Then each row of the result is summed in
//! registers and written once, past the caches, instead of being read and written for
//! each update. Updates of a row keep their order, so that the sums are those of a loop.

use super::Stores;
use crate::limits::avx512 as has_avx512;

/// Updates by the row that they go to, in order.
#[derive(Default)]
pub struct Sorted {
    /// Of row `d`: where its updates start in `order`. One more than there are rows.
    starts: Vec<u32>,
    order: Vec<u32>,
    next: Vec<u32>,
}

impl Sorted {
    /// Room for updates of so many rows.
    pub fn new(rows: usize, updates: usize) -> Self {
        Sorted { starts: vec![0; rows + 1], order: vec![0; updates], next: vec![0; rows] }
    }

    /// Sorts the numbers of updates by their rows.
    pub fn sort(&mut self, indices: &[f32]) {
        self.starts.fill(0);
        indices.iter().for_each(|&i| self.starts[i as usize + 1] += 1);
        for d in 1..self.starts.len() {
            self.starts[d] += self.starts[d - 1];
        }
        let rows = self.next.len();
        self.next.copy_from_slice(&self.starts[..rows]);
        for (k, &i) in indices.iter().enumerate() {
            let place = &mut self.next[i as usize];
            self.order[*place as usize] = k as u32;
            *place += 1;
        }
    }

    fn of_row(&self, d: usize) -> &[u32] {
        &self.order[self.starts[d] as usize..self.starts[d + 1] as usize]
    }
}

/// Row `k` of `y` is row `indices[k]` of `table`.
pub fn gather(stores: Stores, row: usize, table: &[f32], indices: &[f32], y: &mut [f32]) {
    for (&i, y) in indices.iter().zip(y.chunks_exact_mut(row)) {
        let from = &table[i as usize * row..][..row];
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            // SAFETY: the features were detected.
            unsafe { super::avx512::copy(stores, from, y) };
            continue;
        }
        let _ = stores;
        y.copy_from_slice(from);
    }
}

/// The rows of `y`, of which the first has number `first`, are sums of their updates.
pub fn scatter_add(
    stores: Stores,
    row: usize,
    sorted: &Sorted,
    first: usize,
    updates: &[f32],
    y: &mut [f32],
) {
    for (d, y) in y.chunks_exact_mut(row).enumerate() {
        let own = sorted.of_row(first + d);
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            // SAFETY: the features were detected.
            unsafe { super::avx512::sum_rows(stores, own, updates, y) };
            continue;
        }
        let _ = stores;
        y.fill(0.0);
        for &k in own {
            let update = &updates[k as usize * row..][..row];
            y.iter_mut().zip(update).for_each(|(y, u)| *y += u);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Sorted, gather, scatter_add};
    use crate::buffer::Buffer;
    use crate::floors::Stores;
    use crate::input::uniform;

    #[test]
    fn rows_go_where_loops_put_them() {
        const ROW: usize = 128;
        let (rows, count) = (37, 90);
        let at = Buffer::from_fn(count, |k| uniform(3, k, 0.0, rows as f64));
        let table = Buffer::from_fn(rows * ROW, |i| uniform(1, i, -1.0, 1.0));
        let updates = Buffer::from_fn(count * ROW, |i| uniform(2, i, -1.0, 1.0));
        let mut sums = vec![0.0f32; rows * ROW];
        for (k, &d) in at.iter().enumerate() {
            for c in 0..ROW {
                sums[d as usize * ROW + c] += updates[k * ROW + c];
            }
        }
        let mut sorted = Sorted::new(rows, count);
        for stores in [Stores::Plain, Stores::Streaming] {
            let mut taken = Buffer::zeros(count * ROW);
            gather(stores, ROW, &table, &at, &mut taken);
            for (k, y) in taken.chunks_exact(ROW).enumerate() {
                assert_eq!(*y, table[at[k] as usize * ROW..][..ROW]);
            }
            let mut found = Buffer::zeros(rows * ROW);
            sorted.sort(&at);
            scatter_add(stores, ROW, &sorted, 0, &updates, &mut found);
            assert_eq!(found[..], sums[..]);
        }
    }
}
