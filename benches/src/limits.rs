//! What the machine can do at most: bytes moved and multiply-adds per second.
//!
//! Two uses. [`measure`] prints the machine's limits for arrays that fit each level
//! of the memory. [`Traffic`] and [`MultiplyAdd`] are [`Subject`]s that do nothing
//! but a workload's compulsory traffic or arithmetic, and so take part in its rounds.

use std::hint::black_box;

use crate::buffer::Buffer;
use crate::floors::Stores;
use crate::harness::{Budget, Subject, Timing, compare};
use crate::team::{Parts, Team, share};

/// f32 in a cache line: the unit of sharing work.
const LINE: usize = 16;

/// Streams arrays in and one out, with one addition where there are two.
pub struct Traffic<'a> {
    team: Team,
    inputs: Vec<&'a [f32]>,
    output: Buffer,
    stores: Stores,
}

impl<'a> Traffic<'a> {
    /// The traffic of reading `inputs` and writing `output` elements. Inputs shorter
    /// than the output stay in cache and count for nothing. At most two may be long.
    pub fn new(threads: usize, inputs: &[&'a [f32]], output: usize) -> Self {
        let long: Vec<_> = inputs.iter().copied().filter(|input| input.len() >= output).collect();
        assert!((1..=2).contains(&long.len()), "one or two arrays stream in");
        let stores = Stores::for_output(output, threads);
        Traffic { team: Team::new(threads), inputs: long, output: Buffer::zeros(output), stores }
    }

    /// The same with a fixed kind of store.
    pub fn with_stores(mut self, stores: Stores) -> Self {
        self.stores = stores;
        self
    }
}

impl Subject for Traffic<'_> {
    fn name(&self) -> &str {
        "traffic"
    }

    fn run(&mut self) {
        let (len, size, stores) = (self.output.len(), self.team.size(), self.stores);
        let parts = Parts::new(&mut self.output);
        let inputs = &self.inputs;
        self.team.run(&|member| {
            let range = share(len, LINE, member, size);
            // SAFETY: the shares of members do not overlap.
            let y = unsafe { parts.part(range.clone()) };
            match inputs[..] {
                [x] => copy(stores, &x[range], y),
                [a, b] => add(stores, &a[range.clone()], &b[range], y),
                _ => unreachable!("checked when made"),
            }
        });
    }

    fn output(&mut self) -> Option<Vec<f32>> {
        None
    }
}

/// Reads an array and keeps nothing but a sum.
pub struct Read<'a> {
    team: Team,
    input: &'a [f32],
}

impl<'a> Read<'a> {
    /// Of this array.
    pub fn new(threads: usize, input: &'a [f32]) -> Self {
        Read { team: Team::new(threads), input }
    }
}

impl Subject for Read<'_> {
    fn name(&self) -> &str {
        "read"
    }

    fn run(&mut self) {
        let (input, size) = (self.input, self.team.size());
        self.team.run(&|member| {
            black_box(sum(&input[share(input.len(), LINE, member, size)]));
        });
    }

    fn output(&mut self) -> Option<Vec<f32>> {
        None
    }
}

/// Independent chains of multiply-adds in registers.
pub struct MultiplyAdd {
    team: Team,
    steps: usize,
}

impl MultiplyAdd {
    /// About as many floating-point operations as `flops`, over all members.
    pub fn new(threads: usize, flops: u64) -> Self {
        let steps = flops / (threads as u64 * flops_per_step());
        MultiplyAdd { team: Team::new(threads), steps: steps.max(1) as usize }
    }

    /// Floating-point operations of one run.
    pub fn flops(&self) -> u64 {
        self.steps as u64 * self.team.size() as u64 * flops_per_step()
    }
}

impl Subject for MultiplyAdd {
    fn name(&self) -> &str {
        "multiply-add"
    }

    fn run(&mut self) {
        let steps = self.steps;
        self.team.run(&|_| {
            black_box(multiply_add(steps));
        });
    }

    fn output(&mut self) -> Option<Vec<f32>> {
        None
    }
}

/// Chains that are independent of each other: more than latency × throughput, which
/// is 4 cycles × 2 units on the machines we know.
const CHAINS: usize = 12;

/// Neither these nor where the chains start may be known to the compiler: `1 * 0.999 +
/// 0.001` is 1, so that it once left out the chain that starts there, and the limit came
/// out a twelfth too high.
const FACTOR_AND_TERM: [f32; 2] = [0.999, 0.001];

fn flops_per_step() -> u64 {
    let lanes = if avx512() {
        16
    } else if fma() {
        8
    } else {
        1
    };
    (CHAINS * lanes * 2) as u64
}

/// Whether the 512-bit paths can run.
pub fn avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

fn fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

fn copy(stores: Stores, x: &[f32], y: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if avx512() {
        // SAFETY: the feature was detected.
        return unsafe { x86::copy(stores, x, y) };
    }
    let _ = stores;
    y.copy_from_slice(x);
}

fn add(stores: Stores, a: &[f32], b: &[f32], y: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if avx512() {
        // SAFETY: the feature was detected.
        return unsafe { x86::add(stores, a, b, y) };
    }
    let _ = stores;
    for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
        *y = a + b;
    }
}

fn sum(x: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if avx512() {
        // SAFETY: the feature was detected.
        return unsafe { x86::sum(x) };
    }
    x.iter().sum()
}

fn multiply_add(steps: usize) -> f32 {
    #[cfg(target_arch = "x86_64")]
    {
        if avx512() {
            // SAFETY: the feature was detected.
            return unsafe { x86::multiply_add_512(steps) };
        }
        if fma() {
            // SAFETY: the features were detected.
            return unsafe { x86::multiply_add_256(steps) };
        }
    }
    let [m, d] = FACTOR_AND_TERM.map(black_box);
    let mut chains: [f32; CHAINS] = std::array::from_fn(|i| black_box(i as f32));
    for _ in 0..steps {
        chains = chains.map(|x| x * m + d);
    }
    chains.iter().sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! The loops, with intrinsics: the compiler must not choose their form.

    use std::arch::x86_64::*;
    use std::hint::black_box;

    use super::{CHAINS, FACTOR_AND_TERM};
    use crate::floors::Stores;
    use crate::floors::avx512::{LANES, load, store};

    #[target_feature(enable = "avx512f")]
    pub fn copy(stores: Stores, x: &[f32], y: &mut [f32]) {
        let whole = y.len() / LANES * LANES;
        for i in (0..whole).step_by(LANES) {
            store(stores, y, i, load(x, i));
        }
        y[whole..].copy_from_slice(&x[whole..]);
        _mm_sfence();
    }

    #[target_feature(enable = "avx512f")]
    pub fn add(stores: Stores, a: &[f32], b: &[f32], y: &mut [f32]) {
        let whole = y.len() / LANES * LANES;
        for i in (0..whole).step_by(LANES) {
            store(stores, y, i, _mm512_add_ps(load(a, i), load(b, i)));
        }
        for i in whole..y.len() {
            y[i] = a[i] + b[i];
        }
        _mm_sfence();
    }

    #[target_feature(enable = "avx512f")]
    pub fn sum(x: &[f32]) -> f32 {
        let mut sums = [_mm512_setzero_ps(); 4];
        let whole = x.len() / (4 * LANES) * (4 * LANES);
        for i in (0..whole).step_by(4 * LANES) {
            for (k, sum) in sums.iter_mut().enumerate() {
                *sum = _mm512_add_ps(*sum, load(x, i + k * LANES));
            }
        }
        let total = _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
        _mm512_reduce_add_ps(total) + x[whole..].iter().sum::<f32>()
    }

    #[target_feature(enable = "avx512f")]
    pub fn multiply_add_512(steps: usize) -> f32 {
        let [m, d] = FACTOR_AND_TERM.map(|x| _mm512_set1_ps(black_box(x)));
        let mut chains: [__m512; CHAINS] =
            std::array::from_fn(|i| _mm512_set1_ps(black_box(i as f32)));
        for _ in 0..steps {
            for chain in &mut chains {
                *chain = _mm512_fmadd_ps(*chain, m, d);
            }
        }
        let mut total = chains[0];
        for chain in &chains[1..] {
            total = _mm512_add_ps(total, *chain);
        }
        _mm512_reduce_add_ps(total)
    }

    #[target_feature(enable = "avx2,fma")]
    pub fn multiply_add_256(steps: usize) -> f32 {
        let [m, d] = FACTOR_AND_TERM.map(|x| _mm256_set1_ps(black_box(x)));
        let mut chains: [__m256; CHAINS] =
            std::array::from_fn(|i| _mm256_set1_ps(black_box(i as f32)));
        for _ in 0..steps {
            for chain in &mut chains {
                *chain = _mm256_fmadd_ps(*chain, m, d);
            }
        }
        let mut total = chains[0];
        for chain in &chains[1..] {
            total = _mm256_add_ps(total, *chain);
        }
        _mm256_cvtss_f32(total)
    }
}

/// A limit of the machine.
#[derive(Clone, Debug)]
pub struct Limit {
    /// What is done.
    pub name: &'static str,
    /// Bytes of each array, or zero for arithmetic.
    pub array_bytes: usize,
    /// How many threads do it.
    pub threads: usize,
    /// Bytes or floating-point operations per second, at the median time.
    pub per_second: f64,
}

/// Elements of the arrays: within L2, within a share of a large L3, and beyond.
const SIZES: [usize; 3] = [64 << 10, 16 << 20, 128 << 20];

/// Measures bandwidths and the multiply-add peak, one row of results after another.
pub fn measure(threads: &[usize], seconds: f64, mut each: impl FnMut(&Limit)) {
    let budget = Budget { most_rounds: 100, ..Budget::seconds(seconds) };
    for &threads in threads {
        let mut peak = MultiplyAdd::new(threads, 4 << 30);
        peak.run();
        let flops = peak.flops() as f64;
        let timing = &compare(&mut [Box::new(peak)], budget)[0];
        each(&limit("multiply-add f32", 0, threads, flops, timing));
    }
    for len in SIZES {
        let (a, b) = (Buffer::zeros(len), Buffer::zeros(len));
        for &threads in threads {
            measure_traffic(&a, &b, threads, budget, &mut each);
        }
    }
}

fn measure_traffic(
    a: &[f32],
    b: &[f32],
    threads: usize,
    budget: Budget,
    each: &mut impl FnMut(&Limit),
) {
    let len = a.len();
    let names = ["read", "copy, plain", "copy, streaming", "add, plain", "add, streaming"];
    let arrays = [1, 2, 2, 3, 3];
    let traffic = |inputs, stores| -> Box<dyn Subject + '_> {
        Box::new(Traffic::new(threads, inputs, len).with_stores(stores))
    };
    let (one, two): ([&[f32]; 1], [&[f32]; 2]) = ([a], [a, b]);
    let mut subjects: Vec<Box<dyn Subject + '_>> = vec![
        Box::new(Read::new(threads, a)),
        traffic(&one, Stores::Plain),
        traffic(&one, Stores::Streaming),
        traffic(&two, Stores::Plain),
        traffic(&two, Stores::Streaming),
    ];
    for ((name, arrays), timing) in
        names.into_iter().zip(arrays).zip(compare(&mut subjects, budget))
    {
        let bytes = (arrays * size_of_val(a)) as f64;
        each(&limit(name, size_of_val(a), threads, bytes, &timing));
    }
}

fn limit(
    name: &'static str,
    array_bytes: usize,
    threads: usize,
    amount: f64,
    timing: &Timing,
) -> Limit {
    Limit { name, array_bytes, threads, per_second: amount / timing.median }
}

#[cfg(test)]
mod tests {
    use super::{MultiplyAdd, Traffic, multiply_add, sum};
    use crate::floors::Stores;
    use crate::harness::Subject;

    #[test]
    fn traffic_moves_every_element() {
        let a: Vec<f32> = (0..1000).map(|i| i as f32).collect();
        let b: Vec<f32> = (0..1000).map(|i| (i * i) as f32).collect();
        for stores in [Stores::Plain, Stores::Streaming] {
            for threads in [1, 2] {
                let mut one = Traffic::new(threads, &[&a], 1000).with_stores(stores);
                one.run();
                assert_eq!(&one.output[..], &a[..]);
                let mut two = Traffic::new(threads, &[&a, &b, &a[..3]], 1000).with_stores(stores);
                two.run();
                assert!((0..1000).all(|i| two.output[i] == a[i] + b[i]));
            }
        }
        assert_eq!(sum(&a), 499_500.0);
    }

    #[test]
    fn multiply_adds_converge_to_their_fixed_point() {
        // x = 0.999 x + 0.001 has the fixed point 1. The total adds chains, and lanes
        // where they are all kept: at least one lane's chains.
        let chains = multiply_add(100_000) / super::CHAINS as f32;
        assert!((chains / chains.round() - 1.0).abs() < 1e-3 && chains > 0.5, "{chains}");
        assert!(MultiplyAdd::new(2, 1 << 20).flops() <= 1 << 20);
    }
}
