//! The measuring.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln_ir::{DType, Scalar};

use super::Function;
use super::compiled::{BATCH, Code};
use super::error::{Exact, error};
use super::points::points;
use super::reference::{Reference, SPECIAL, cancellation, interval, pair, reference};
use crate::Random;

/// How much to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Which bit patterns of `f32`: every so many.
    pub stride: u64,
    /// Random arguments or pairs, in tens of thousands.
    pub random: u64,
}

impl Effort {
    /// For every run of the tests.
    pub const CI: Effort = Effort { stride: 16_381, random: 2 };
    /// Every `f32`, and a million of what cannot be exhausted.
    pub const FULL: Effort = Effort { stride: 1, random: 100 };
}

/// The largest error found, in units in the last place.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Worst {
    /// The error; infinite for a wrong NaN, infinity or sign of a zero.
    pub error: f64,
    /// Its arguments, as bit patterns.
    pub at: [u64; 2],
    /// How many arguments were tried.
    pub tried: u64,
}

impl Worst {
    const NONE: Worst = Worst { error: 0.0, at: [0; 2], tried: 0 };

    fn join(&mut self, other: Worst) {
        self.tried += other.tried;
        if other.error > self.error {
            (self.error, self.at) = (other.error, other.at);
        }
    }
}

/// Columns of arguments, and their exact results.
type Batch = (Vec<Vec<u64>>, Vec<Exact>);

/// Measures one function on one type. Uses every core.
///
/// # Errors
/// What the compiler or the runtime said.
pub fn measure(function: Function, dtype: DType, effort: Effort) -> Result<Worst, String> {
    let code = Code::new(function, dtype)?;
    let batches = Batches::new(function, dtype, effort);
    let next = AtomicU64::new(0);
    let outcome = Mutex::new(Ok(Worst::NONE));
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = batches.get(i) else { return };
            let found = compare(function, &code, dtype, &batch);
            let mut outcome = outcome.lock().expect("no thread panics while it holds this");
            match (&mut *outcome, found) {
                (Ok(worst), Ok(found)) => worst.join(found),
                (Ok(_), Err(message)) => *outcome = Err(message),
                (Err(_), _) => {}
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    outcome.into_inner().expect("no thread panicked")
}

fn compare(function: Function, code: &Code, dtype: DType, batch: &Batch) -> Result<Worst, String> {
    let (columns, exact) = batch;
    if exact.is_empty() {
        return Ok(Worst::NONE);
    }
    let got = code.run(columns)?;
    let mut worst = Worst { tried: exact.len() as u64, ..Worst::NONE };
    for (i, (&got, &want)) in got.iter().zip(exact).enumerate() {
        // Most results are correctly rounded. Once worse is known, they need no more.
        if worst.error >= 0.5 && Scalar::from_f64(dtype, want.0[0]).bits() == got {
            continue;
        }
        let mut error = error(Scalar::from_bits(dtype, got), want);
        if dtype == DType::F64 && error > worst.error {
            let x = f64::from_bits(columns[0][i]);
            error /= cancellation(function, x, want.0[0]);
        }
        if error > worst.error {
            worst.error = error;
            worst.at = [columns[0][i], columns.last().map_or(0, |c| c[i])];
        }
    }
    Ok(worst)
}

/// What is measured, in numbered batches.
struct Batches {
    function: Function,
    dtype: DType,
    effort: Effort,
    /// Batches of bit patterns in order, before the random ones.
    ordered: u64,
    /// Random arguments, where not every pattern was tried in order.
    random: u64,
}

impl Batches {
    fn new(function: Function, dtype: DType, effort: Effort) -> Batches {
        let patterns = match (function, dtype) {
            (Function::Binary(_), _) | (_, DType::F64) => 0,
            (_, DType::F32) => (1u64 << 32).div_ceil(effort.stride),
            _ => 1 << 16,
        };
        let random = if patterns == 1 << dtype.bits().min(63) { 0 } else { effort.random * 10_000 };
        Batches { function, dtype, effort, ordered: patterns.div_ceil(BATCH as u64), random }
    }

    /// The first batch holds special values and stored points, the next ones bit patterns
    /// in order, the rest random arguments.
    fn get(&self, i: u64) -> Option<Batch> {
        let columns = match i.checked_sub(1) {
            None => {
                let (mut columns, mut exact) = self.judged(self.special());
                if self.dtype == DType::F64 {
                    let points = points(self.function.name(), columns.len());
                    exact.extend(points.exact);
                    for (column, more) in columns.iter_mut().zip(points.columns) {
                        column.extend(more);
                    }
                }
                return Some((columns, exact));
            }
            Some(n) if n < self.ordered => {
                let stride = if self.dtype == DType::F32 { self.effort.stride } else { 1 };
                let first = n * BATCH as u64;
                let all = 1u64 << self.dtype.bits();
                let patterns = (first..first + BATCH as u64).map(|k| k * stride);
                vec![patterns.take_while(|&bits| bits < all).collect()]
            }
            Some(n) if (n - self.ordered) * (BATCH as u64) < self.random => self.random(n),
            _ => return None,
        };
        Some(self.judged(columns))
    }

    /// Special values with both signs, and their neighbours; all pairs of special values.
    fn special(&self) -> Vec<Vec<u64>> {
        let bits = |x: f64| Scalar::from_f64(self.dtype, x).bits();
        let sign = 1u64 << (self.dtype.bits() - 1);
        match self.function {
            Function::Unary(_) => {
                let near = |x: f64| (-8i64..=8).map(move |d| bits(x).wrapping_add_signed(d));
                let patterns = SPECIAL.into_iter().flat_map(near).filter(|&p| p < sign);
                vec![patterns.flat_map(|p| [p, p | sign]).collect()]
            }
            Function::Binary(_) => {
                let signed = || SPECIAL.into_iter().flat_map(|x| [bits(x), bits(-x)]);
                let pairs = signed().flat_map(|a| signed().map(move |b| (a, b)));
                let (a, b) = pairs.unzip();
                vec![a, b]
            }
        }
    }

    /// A batch of random arguments: any bit patterns, and where the curvature is, in turns.
    fn random(&self, seed: u64) -> Vec<Vec<u64>> {
        let mut random = Random::new(seed);
        let mask = u64::MAX >> (64 - self.dtype.bits());
        let bits = |x: f64| Scalar::from_f64(self.dtype, x).bits();
        match self.function {
            Function::Unary(f) => {
                let (low, high) = interval(f);
                let one = |i: usize| match i % 2 {
                    0 => random.bits() & mask,
                    _ => bits(random.float(low, high)),
                };
                vec![(0..BATCH).map(one).collect()]
            }
            Function::Binary(f) => {
                let one = |i: usize| match i % 4 {
                    0 => (random.bits() & mask, random.bits() & mask),
                    1 => (bits(random.float(-4.0, 4.0)), bits(random.float(-4.0, 4.0))),
                    _ => {
                        let (a, b) = pair(f, random.float(0.0, 1.0), random.float(0.0, 1.0));
                        (bits(a), bits(b))
                    }
                };
                let (a, b) = (0..BATCH).map(one).unzip();
                vec![a, b]
            }
        }
    }

    /// The arguments whose exact results are known, with the results.
    fn judged(&self, columns: Vec<Vec<u64>>) -> Batch {
        let value = |bits: u64| Scalar::from_bits(self.dtype, bits).as_f64();
        match (self.function, reference(self.function)) {
            (Function::Unary(f), Reference::Unary(of)) => {
                let x = columns[0].iter().map(|&bits| value(bits));
                let exact = if self.dtype == DType::F64 {
                    x.map_while(|x| f.precise(x)).collect()
                } else {
                    x.map(|x| ([of(x), 0.0], 0)).collect::<Vec<_>>()
                };
                // None, where only the stored points judge.
                let columns = if exact.is_empty() { vec![Vec::new()] } else { columns };
                (columns, exact)
            }
            (_, Reference::Binary(_)) if self.dtype == DType::F64 => {
                (vec![Vec::new(), Vec::new()], Vec::new())
            }
            (_, Reference::Binary(of)) => {
                let pairs = columns[0].iter().zip(&columns[1]);
                let exact = pairs.map(|(&a, &b)| ([of(value(a), value(b)), 0.0], 0)).collect();
                (columns, exact)
            }
            (Function::Binary(_), Reference::Unary(_)) => unreachable!("references match"),
        }
    }
}
