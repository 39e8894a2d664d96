//! Comparing programs that do the same thing, by taking turns.
//!
//! Every round runs each subject once, in an order that rotates, so that a slow
//! minute of the machine slows all of them. Before each timed run comes one that is
//! not timed: it wakes the subject's threads and leaves the caches as the subject
//! itself leaves them. Short calls are timed many at a time.
//!
//! To compare something new, implement [`Subject`] or hand two closures to
//! [`subject`]; the rest is the same for all.

use std::time::{Duration, Instant};

/// A program that computes a workload from resident inputs.
pub trait Subject {
    /// How reports call it.
    fn name(&self) -> &str;

    /// Computes; when it returns, the result is complete.
    fn run(&mut self);

    /// The result of the last run, flat and row-major. `None` for a subject that
    /// only moves bytes or burns cycles.
    fn output(&mut self) -> Option<Vec<f32>>;
}

/// A subject of two closures: one that computes, one that tells the result.
pub fn subject(
    name: impl Into<String>,
    run: impl FnMut(),
    output: impl FnMut() -> Vec<f32>,
) -> impl Subject {
    Closures { name: name.into(), run, output }
}

struct Closures<R, O> {
    name: String,
    run: R,
    output: O,
}

impl<R: FnMut(), O: FnMut() -> Vec<f32>> Subject for Closures<R, O> {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&mut self) {
        (self.run)();
    }

    fn output(&mut self) -> Option<Vec<f32>> {
        Some((self.output)())
    }
}

/// How long a measurement may take.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Rounds are added until this has passed.
    pub time: Duration,
    /// But never fewer rounds than this.
    pub least_rounds: usize,
    /// Nor more than this.
    pub most_rounds: usize,
}

impl Budget {
    /// About this long, at least nine rounds.
    pub fn seconds(seconds: f64) -> Self {
        Budget { time: Duration::from_secs_f64(seconds), least_rounds: 9, most_rounds: 400 }
    }
}

/// What one subject needed.
#[derive(Clone, Debug)]
pub struct Timing {
    /// The middle of the rounds, in seconds.
    pub median: f64,
    /// The best of the rounds, in seconds.
    pub least: f64,
    /// How many rounds.
    pub rounds: usize,
    /// For each round, this subject's time over that of the first subject.
    pub ratios: Vec<f64>,
}

impl Timing {
    /// The median over rounds of the ratio to the first subject: both were timed
    /// within the same moment, which their medians were not.
    pub fn ratio(&self) -> f64 {
        let mut ratios = self.ratios.clone();
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    }
}

/// Timed runs shorter than this, in seconds, are repeated within one timing.
const SHORTEST_TIMING: f64 = 200e-6;
const MOST_REPEATS: u32 = 20_000;

/// Times the subjects in turns. Their first runs must have been made.
pub fn compare(subjects: &mut [Box<dyn Subject + '_>], budget: Budget) -> Vec<Timing> {
    let repeats: Vec<u32> = subjects.iter_mut().map(|subject| repeats(&mut **subject)).collect();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); subjects.len()];
    let start = Instant::now();
    for round in 0..budget.most_rounds {
        if round >= budget.least_rounds && start.elapsed() >= budget.time {
            break;
        }
        for turn in 0..subjects.len() {
            let at = (round + turn) % subjects.len();
            times[at].push(timed(&mut *subjects[at], repeats[at]));
        }
    }
    let first = times[0].clone();
    times.into_iter().map(|rounds| timing(rounds, &first)).collect()
}

fn repeats(subject: &mut dyn Subject) -> u32 {
    let mut repeats = 1;
    while repeats < MOST_REPEATS && timed(subject, repeats) * f64::from(repeats) < SHORTEST_TIMING {
        repeats *= 2;
    }
    repeats
}

/// The seconds of one run, as the mean of `repeats`, after one that does not count.
fn timed(subject: &mut dyn Subject, repeats: u32) -> f64 {
    subject.run();
    let start = Instant::now();
    for _ in 0..repeats {
        subject.run();
    }
    start.elapsed().as_secs_f64() / f64::from(repeats)
}

fn timing(rounds: Vec<f64>, first: &[f64]) -> Timing {
    let ratios = rounds.iter().zip(first).map(|(own, first)| own / first).collect();
    let mut sorted = rounds;
    sorted.sort_by(f64::total_cmp);
    Timing { median: sorted[sorted.len() / 2], least: sorted[0], rounds: sorted.len(), ratios }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::{Budget, Subject, compare, subject, timing};

    #[test]
    fn subjects_take_turns_equally() {
        let counts = [Cell::new(0u32), Cell::new(0)];
        let pause = |at: usize| {
            counts[at].set(counts[at].get() + 1);
            std::thread::sleep(Duration::from_micros(300));
        };
        let mut subjects: Vec<Box<dyn Subject + '_>> = vec![
            Box::new(subject("a", || pause(0), Vec::new)),
            Box::new(subject("b", || pause(1), Vec::new)),
        ];
        let budget = Budget { time: Duration::ZERO, least_rounds: 9, most_rounds: 100 };
        let timings = compare(&mut subjects, budget);
        drop(subjects);
        assert!(timings.iter().all(|timing| timing.rounds == 9));
        assert_eq!(counts[0], counts[1]);
        // One round is one untimed and one timed run; finding the repeats is one more.
        assert_eq!(counts[0].get(), 2 * (9 + 1));
    }

    #[test]
    fn ratios_pair_the_rounds() {
        let (first, own) = ([1.0, 2.0, 100.0], vec![2.0, 4.0, 200.0]);
        let timing = timing(own, &first);
        assert_eq!((timing.median, timing.least), (4.0, 2.0));
        assert_eq!(timing.ratio(), 2.0);
    }
}
