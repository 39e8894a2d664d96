//! The best programs we could write by hand: what a compiler has to come up to.
//!
//! Each computes its workload in one pass over memory, with 512-bit vectors, its own
//! vector math, outputs that exist already, two threads that stay awake, streaming
//! stores where the output does not fit a cache, and prefetching where it helped.
//! They assume finite inputs, which a compiler may not.
//!
//! On a machine without AVX-512 the plain loops run instead; their name says so, and
//! ratios to them mean less. The plain loops also test the fast ones.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod indexed;
mod plain;

use crate::buffer::Buffer;
use crate::harness::Subject;
use crate::limits::avx512 as has_avx512;
use crate::team::{Parts, Team, share};
use crate::workload::Workload;

/// How results are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stores {
    /// Through the caches.
    Plain,
    /// Past the caches, without reading the line first.
    Streaming,
}

impl Stores {
    /// Streaming pays from the size on at which each thread's part of the output
    /// no longer fits its L2 cache.
    pub fn for_output(elements: usize, threads: usize) -> Self {
        const L2_ELEMENTS: usize = (2 << 20) / size_of::<f32>();
        if elements / threads >= L2_ELEMENTS { Stores::Streaming } else { Stores::Plain }
    }
}

/// The computation of a floor on one member's part.
#[derive(Clone, Copy)]
enum Kernel {
    /// Elementwise over `x` and `r`.
    Gelu,
    /// Row programs, over rows of this many elements.
    Softmax(usize),
    LayerNorm(usize),
    RmsNorm(usize),
    Cumsum(usize),
    /// Rows of this many elements, at indices.
    Gather(usize),
    ScatterAdd(usize),
    /// One addition; the smallest call there is.
    Increment,
}

/// A hand-written program for a workload.
pub struct Floor<'a> {
    kernel: Kernel,
    team: Team,
    inputs: &'a [Buffer],
    output: Buffer,
    stores: Stores,
    /// Of sums of rows.
    sorted: indexed::Sorted,
}

impl<'a> Floor<'a> {
    /// The floor of a workload over its inputs; `None` where we have none.
    pub fn new(workload: &Workload, inputs: &'a [Buffer], threads: usize) -> Option<Self> {
        let row = workload.output[workload.output.len() - 1];
        let kernel = match workload.name {
            "gelu_16m" | "gelu_64k" => Kernel::Gelu,
            "softmax_4096" => Kernel::Softmax(row),
            "cumsum_rows" => Kernel::Cumsum(row),
            // Threads would have to wait for each other's totals; the floor is for one.
            "cumsum_1d_16m" if threads == 1 => Kernel::Cumsum(row),
            "layernorm" => Kernel::LayerNorm(row),
            "rmsnorm" => Kernel::RmsNorm(row),
            "gather_64k_256" => Kernel::Gather(row),
            "scatter_add_64k_256" => Kernel::ScatterAdd(row),
            "dispatch" => Kernel::Increment,
            _ => return None,
        };
        let elements = workload.output_elements();
        // Nobody would wake a second thread for eight elements.
        let threads = if matches!(kernel, Kernel::Increment) { 1 } else { threads };
        Some(Floor {
            kernel,
            team: Team::new(threads),
            inputs,
            output: Buffer::zeros(elements),
            stores: Stores::for_output(elements, threads),
            sorted: match kernel {
                Kernel::ScatterAdd(row) => indexed::Sorted::new(elements / row, inputs[0].len()),
                _ => indexed::Sorted::default(),
            },
        })
    }
}

impl Subject for Floor<'_> {
    fn name(&self) -> &str {
        if has_avx512() { "floor" } else { "plain loops" }
    }

    fn run(&mut self) {
        let (kernel, stores, inputs) = (self.kernel, self.stores, self.inputs);
        let (len, size) = (self.output.len(), self.team.size());
        let grain = match kernel {
            Kernel::Softmax(row)
            | Kernel::LayerNorm(row)
            | Kernel::RmsNorm(row)
            | Kernel::Cumsum(row)
            | Kernel::Gather(row)
            | Kernel::ScatterAdd(row) => row,
            Kernel::Gelu => 1024,
            Kernel::Increment => 8,
        };
        if let Kernel::ScatterAdd(_) = kernel {
            self.sorted.sort(&inputs[0]);
        }
        let sorted = &self.sorted;
        let parts = Parts::new(&mut self.output);
        self.team.run(&|member| {
            let range = share(len, grain, member, size);
            // SAFETY: the shares of members do not overlap.
            let y = unsafe { parts.part(range.clone()) };
            match kernel {
                Kernel::Gather(row) => {
                    let at = &inputs[1][range.start / row..range.end / row];
                    indexed::gather(stores, row, &inputs[0], at, y);
                    return fence();
                }
                Kernel::ScatterAdd(row) => {
                    indexed::scatter_add(stores, row, sorted, range.start / row, &inputs[1], y);
                    return fence();
                }
                _ => {}
            }
            let x = &inputs[0][range.clone()];
            let rest = match kernel {
                Kernel::Gelu => [&inputs[1][range], &[]],
                Kernel::LayerNorm(_) => [&inputs[1][..], &inputs[2][..]],
                Kernel::RmsNorm(_) => [&inputs[1][..], &[]],
                _ => [&[][..], &[]],
            };
            part(kernel, stores, x, rest, y);
        });
    }

    fn output(&mut self) -> Option<Vec<f32>> {
        Some(self.output.to_vec())
    }
}

/// After streaming stores, before other threads are told of them.
fn fence() {
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the features were detected.
        unsafe { avx512::fence() };
    }
}

/// One member's part, by the best means that the machine has.
fn part(kernel: Kernel, stores: Stores, x: &[f32], [a, b]: [&[f32]; 2], y: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the features were detected.
        unsafe {
            match kernel {
                Kernel::Gelu => avx512::gelu(stores, x, a, y),
                Kernel::Softmax(row) => avx512::softmax(stores, row, x, y),
                Kernel::LayerNorm(row) => avx512::layer_norm(stores, row, x, a, b, y),
                Kernel::RmsNorm(row) => avx512::rms_norm(stores, row, x, a, y),
                Kernel::Cumsum(row) => avx512::cumsum(stores, row, x, y),
                Kernel::Increment => avx512::increment(x, y),
                Kernel::Gather(_) | Kernel::ScatterAdd(_) => unreachable!("done already"),
            }
        }
        return;
    }
    let _ = stores;
    match kernel {
        Kernel::Gelu => plain::gelu(x, a, y),
        Kernel::Softmax(row) => plain::softmax(row, x, y),
        Kernel::LayerNorm(row) => plain::layer_norm(row, x, a, b, y),
        Kernel::RmsNorm(row) => plain::rms_norm(row, x, a, y),
        Kernel::Cumsum(row) => plain::cumsum(row, x, y),
        Kernel::Increment => plain::increment(x, y),
        Kernel::Gather(_) | Kernel::ScatterAdd(_) => unreachable!("done already"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Kernel, Stores, part, plain};
    use crate::buffer::Buffer;
    use crate::input::uniform;

    /// The largest difference, relative to the largest magnitude.
    fn difference(found: &[f32], wanted: &[f32]) -> f64 {
        let scale = wanted.iter().fold(0.0f64, |m, &x| m.max(f64::from(x).abs()));
        let error = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).abs();
        found.iter().zip(wanted).map(error).fold(0.0, f64::max) / scale
    }

    #[test]
    fn the_fast_programs_agree_with_the_plain_ones() {
        const ROW: usize = 256;
        let len = 16 * ROW;
        let x = Buffer::from_fn(len, |i| uniform(1, i, -6.0, 6.0));
        let r = Buffer::from_fn(len, |i| uniform(2, i, -1.0, 1.0));
        let (g, b) = (&r[..ROW], &r[ROW..2 * ROW]);
        for stores in [Stores::Plain, Stores::Streaming] {
            let (mut found, mut wanted) = (Buffer::zeros(len), Buffer::zeros(len));
            part(Kernel::Gelu, stores, &x, [&r, &[]], &mut found);
            plain::gelu(&x, &r, &mut wanted);
            assert!(difference(&found, &wanted) < 1e-6);
            part(Kernel::Softmax(ROW), stores, &x, [&[], &[]], &mut found);
            plain::softmax(ROW, &x, &mut wanted);
            assert!(difference(&found, &wanted) < 1e-6);
            part(Kernel::LayerNorm(ROW), stores, &x, [g, b], &mut found);
            plain::layer_norm(ROW, &x, g, b, &mut wanted);
            assert!(difference(&found, &wanted) < 1e-6);
            part(Kernel::Cumsum(ROW), stores, &x, [&[], &[]], &mut found);
            plain::cumsum(ROW, &x, &mut wanted);
            assert!(difference(&found, &wanted) < 1e-6);
            part(Kernel::RmsNorm(ROW), stores, &x, [g, &[]], &mut found);
            plain::rms_norm(ROW, &x, g, &mut wanted);
            assert!(difference(&found, &wanted) < 1e-6);
        }
    }
}
