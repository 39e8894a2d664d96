//! The worker threads: fork and join over a static partition.
//!
//! One thread at a time, whoever has the queue's turn, is the *leader*: it publishes
//! a job, does its own share and waits for the others. Thread `i` of `n` always does
//! the units `grid·i/n .. grid·(i+1)/n`. Kernels promise that the cut does not show in
//! the results, so any number of threads gives the same bytes.
//!
//! # Awake and asleep
//!
//! Handing work to a spinning worker costs half a microsecond, to a sleeping one some
//! 80. So workers spin for a while after each job, [`SPIN`], and then the whole team
//! goes to sleep at once. While it sleeps the leader works alone, unless what it has
//! to do is worth the waking ([`WAKE_NANOSECONDS`]): one kernel, one run, or several
//! runs together, each of which left that much work to one thread.
//!
//! # The word
//!
//! Everything that leader and workers agree on is one atomic word:
//!
//! ```text
//!   63            18 17         2     1        0
//!   |  generation   |  threads  | stop | asleep |
//! ```
//!
//! The leader publishes by raising the generation; `threads` says who takes part, so
//! that the others never look at the job. A worker sets `asleep`, and can do so only
//! if no job came in between; a job is only published while the bit is clear. So no
//! job is ever given to a sleeping team. And nobody who takes part misses one: a worker
//! looks at the generation first, so that one who is slow to get up does its share even
//! if the others have done theirs and gone to sleep again.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kiln_executable::KernelFn;

use super::inside;
use crate::ALIGNMENT;

/// How long a worker spins before the team goes to sleep. 30 µs would be too short
/// for calls that come 100 µs apart, as in a training loop.
const SPIN: Duration = Duration::from_micros(300);

/// Turns of the spin loop between two looks at the clock.
const TURNS: u32 = 256;

/// One-thread work that is worth waking the team for. Waking takes 70 to 90 µs, and
/// half of the work is saved at two threads: it pays from about twice that.
pub(crate) const WAKE_NANOSECONDS: u64 = 200_000;

const ASLEEP: u64 = 1;
const STOP: u64 = 2;
const THREADS_SHIFT: u32 = 2;
const THREADS_MASK: u64 = 0xffff << THREADS_SHIFT;
const GENERATION: u64 = 1 << 18;

/// Most threads of a team.
const MOST_THREADS: usize = 0xffff;

fn threads_of(word: u64) -> u64 {
    (word & THREADS_MASK) >> THREADS_SHIFT
}

/// A launch.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub entry: KernelFn,
    pub arguments: *const *mut u8,
    pub grid: u64,
    /// Bytes of scratch each thread needs.
    pub scratch: u64,
    /// Threads worth having, the leader included.
    pub threads: u32,
    /// What one thread would take, about.
    pub nanoseconds: u64,
}

/// On a cache line of its own: workers spin on it.
#[repr(align(64))]
struct Line<T>(T);

struct Shared {
    word: Line<AtomicU64>,
    /// Workers still busy with the present job.
    busy: Line<AtomicU32>,
    /// Workers that do not sleep.
    up: AtomicU32,
    job: UnsafeCell<Option<Job>>,
}

// SAFETY: `job` is written by the leader, of whom there is one at a time, only while
// `busy` is 0 and before the generation is raised with `Release`. A worker reads it only
// if the new word, loaded with `Acquire`, counts it in, and before it lowers `busy`. The
// job's pointers are used only by kernels, whose contract allows disjoint ranges on
// several threads.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// The threads of a device.
pub(crate) struct Team {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Most threads that take part; never more than there are.
    limit: AtomicU32,
    /// Work that one thread did because the others slept, in nanoseconds.
    missed: AtomicU64,
}

impl Team {
    /// Starts `threads - 1` workers; the leader is the first thread.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub(crate) fn new(device: u64, threads: usize) -> std::io::Result<Team> {
        let threads = threads.clamp(1, MOST_THREADS);
        let shared = Arc::new(Shared {
            word: Line(AtomicU64::new(0)),
            busy: Line(AtomicU32::new(0)),
            up: AtomicU32::new(threads as u32 - 1),
            job: UnsafeCell::new(None),
        });
        let mut team = Team {
            shared,
            workers: Vec::with_capacity(threads - 1),
            limit: AtomicU32::new(threads as u32),
            missed: AtomicU64::new(0),
        };
        for i in 1..threads as u64 {
            let shared = Arc::clone(&team.shared);
            let worker = std::thread::Builder::new()
                .name(format!("kiln-worker-{i}"))
                .spawn(move || inside::enter(device, || work(&shared, i)))?;
            team.workers.push(worker);
        }
        Ok(team)
    }

    /// How many threads there are, the leader included.
    pub(crate) fn count(&self) -> usize {
        self.workers.len() + 1
    }

    /// How many threads take part at most.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed) as usize
    }

    /// Lets at most `threads` threads take part from the next launch on.
    pub(crate) fn set_limit(&self, threads: usize) {
        self.limit.store(threads.clamp(1, self.count()) as u32, Ordering::Relaxed);
    }

    /// Called at the start of a run that has so much to share: wakes the team if that
    /// is worth it by now, without waiting for it.
    pub(crate) fn expect(&self, nanoseconds: u64) {
        if nanoseconds == 0 || self.limit() == 1 {
            return;
        }
        if self.shared.word.0.load(Ordering::Relaxed) & ASLEEP == 0 {
            self.missed.store(0, Ordering::Relaxed);
            return;
        }
        let missed = self.missed.load(Ordering::Relaxed).saturating_add(nanoseconds);
        self.missed.store(missed, Ordering::Relaxed);
        if missed >= WAKE_NANOSECONDS {
            self.wake();
        }
    }

    fn wake(&self) {
        self.missed.store(0, Ordering::Relaxed);
        self.shared.word.0.fetch_and(!ASLEEP, Ordering::Release);
        for worker in &self.workers {
            worker.thread().unpark();
        }
    }

    /// Does a launch, on as many threads as are worth it, and returns when it is done.
    ///
    /// # Safety
    /// The arguments must be what the kernel expects and valid until this returns, and
    /// nobody else may call this at the same time.
    pub(crate) unsafe fn run(&self, job: &Job, scratch: &mut Scratch) {
        let threads = job.threads.min(self.limit.load(Ordering::Relaxed));
        // SAFETY: passed on to the caller.
        if threads <= 1 || !unsafe { self.fork(job, threads) } {
            // SAFETY: passed on to the caller.
            unsafe { alone(job, scratch) };
            return;
        }
        // SAFETY: passed on to the caller; the leader's share is its own.
        unsafe { share(job, 0, u64::from(threads), scratch) };
        let busy = &self.shared.busy.0;
        let mut turns = 0u32;
        while busy.load(Ordering::Acquire) > 0 {
            turns = turns.wrapping_add(1);
            // Another process may have taken a worker's core: do not keep ours from it.
            if turns.is_multiple_of(4 * TURNS) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Publishes a job for `threads` threads, unless the team sleeps and the job is not
    /// worth waking it.
    ///
    /// # Safety
    /// As [`Team::run`].
    unsafe fn fork(&self, job: &Job, threads: u32) -> bool {
        let Shared { word, busy, up, job: cell } = &*self.shared;
        let worth = job.nanoseconds >= WAKE_NANOSECONDS;
        // Those who are still getting up would keep a small job waiting.
        if !worth && up.load(Ordering::Relaxed) as usize != self.workers.len() {
            return false;
        }
        // SAFETY: no worker is busy and there is one leader: see `Shared`.
        unsafe { *cell.get() = Some(*job) };
        busy.0.store(threads - 1, Ordering::Relaxed);
        let mut seen = word.0.load(Ordering::Relaxed);
        loop {
            if seen & ASLEEP != 0 {
                if !worth {
                    busy.0.store(0, Ordering::Relaxed);
                    return false;
                }
                self.wake();
                seen = word.0.load(Ordering::Relaxed);
                continue;
            }
            let generation = (seen & !(GENERATION - 1)).wrapping_add(GENERATION);
            let next = generation | u64::from(threads) << THREADS_SHIFT;
            match word.0.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether the team sleeps.
    #[cfg(test)]
    fn is_asleep(&self) -> bool {
        self.shared.word.0.load(Ordering::Relaxed) & ASLEEP != 0
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.word.0.fetch_or(STOP, Ordering::Release);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker cannot panic: it runs only kernels, which do not unwind.
            let _ = worker.join();
        }
    }
}

/// Does a whole launch on this thread.
///
/// # Safety
/// The arguments must be what the kernel expects.
pub(crate) unsafe fn alone(job: &Job, scratch: &mut Scratch) {
    // SAFETY: passed on to the caller.
    unsafe { share(job, 0, 1, scratch) };
}

/// Does the share of thread `i` of `threads`.
///
/// # Safety
/// As [`Team::run`], and nobody else does the share of `i`.
unsafe fn share(job: &Job, i: u64, threads: u64, scratch: &mut Scratch) {
    let cut = |i: u64| (u128::from(job.grid) * u128::from(i) / u128::from(threads)) as u64;
    let (begin, end) = if threads == 1 { (0, job.grid) } else { (cut(i), cut(i + 1)) };
    if begin < end {
        let scratch = scratch.of(job.scratch);
        // SAFETY: passed on to the caller; ranges of different threads are disjoint.
        unsafe { (job.entry)(job.arguments, scratch, begin, end) };
    }
}

/// What worker `i` does all its life.
fn work(shared: &Shared, i: u64) {
    let mut scratch = Scratch::default();
    let mut generation = 0;
    let mut asleep = false;
    let (mut turns, mut until) = (0, Instant::now() + SPIN);
    loop {
        let word = shared.word.0.load(Ordering::Acquire);
        if word & STOP != 0 {
            return;
        }
        let news = word & !(GENERATION - 1) != generation;
        if word & ASLEEP != 0 && !news {
            if !std::mem::replace(&mut asleep, true) {
                shared.up.fetch_sub(1, Ordering::Relaxed);
            }
            // Returns at once if the leader cleared the bit after it was looked at: it
            // unparks everybody afterwards.
            std::thread::park();
            continue;
        }
        if std::mem::replace(&mut asleep, false) {
            shared.up.fetch_add(1, Ordering::Relaxed);
            (turns, until) = (0, Instant::now() + SPIN);
        }
        if news {
            generation = word & !(GENERATION - 1);
            if i < threads_of(word) {
                // SAFETY: this worker takes part, so that the job stays as it was when
                // the word was published until `busy` is lowered; see `Shared`.
                let job = unsafe { (*shared.job.get()).expect("published before the word") };
                // SAFETY: the leader vouches for the job and waits for `busy`.
                unsafe { share(&job, i, threads_of(word), &mut scratch) };
                shared.busy.0.fetch_sub(1, Ordering::Release);
            }
            (turns, until) = (0, Instant::now() + SPIN);
            continue;
        }
        turns += 1;
        if turns < TURNS {
            std::hint::spin_loop();
        } else {
            turns = 0;
            if Instant::now() >= until {
                // Only if no job came since.
                let _ = shared.word.0.compare_exchange(
                    word,
                    word | ASLEEP,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
            }
        }
    }
}

/// A thread's own working memory for kernels. Grows, never shrinks.
#[derive(Default)]
pub(crate) struct Scratch(Vec<ScratchLine>);

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct ScratchLine([u8; ALIGNMENT as usize]);

impl Scratch {
    /// At least `bytes` bytes, aligned; null when none are asked for.
    fn of(&mut self, bytes: u64) -> *mut u8 {
        if bytes == 0 {
            return std::ptr::null_mut();
        }
        let lines = bytes.div_ceil(ALIGNMENT) as usize;
        if self.0.len() < lines {
            self.0.resize(lines, ScratchLine([0; ALIGNMENT as usize]));
        }
        self.0.as_mut_ptr().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds one to each unit's cell, and writes the scratch it was given.
    unsafe extern "C" fn count(arguments: *const *mut u8, scratch: *mut u8, begin: u64, end: u64) {
        // SAFETY: the tests pass one cell for each unit, and 64 bytes of scratch.
        unsafe {
            *scratch.add(63) = 1;
            for i in begin..end {
                *(*arguments).cast::<u32>().add(i as usize) += 1;
            }
        }
    }

    fn job(arguments: &[*mut u8; 1], grid: usize, threads: u32, nanoseconds: u64) -> Job {
        Job {
            entry: count,
            arguments: arguments.as_ptr(),
            grid: grid as u64,
            scratch: 64,
            threads,
            nanoseconds,
        }
    }

    fn sleep_until(mut what: impl FnMut() -> bool) {
        for _ in 0..10_000 {
            if what() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("did not come about in 10 s");
    }

    #[test]
    fn every_unit_is_done_once_by_any_number_of_threads() {
        for threads in [1, 2, 3, 7] {
            let team = Team::new(0, threads).unwrap();
            let mut scratch = Scratch::default();
            for grid in [0, 1, 2, 5, 64, 1000] {
                let mut cells = vec![0u32; grid];
                let arguments = [cells.as_mut_ptr().cast()];
                for rounds in 0..50 {
                    let wanted = rounds % 8;
                    let nanoseconds = if rounds % 2 == 0 { WAKE_NANOSECONDS } else { 0 };
                    let job = job(&arguments, grid, wanted, nanoseconds);
                    // SAFETY: one cell for each unit; this thread alone leads.
                    unsafe { team.run(&job, &mut scratch) };
                }
                assert!(cells.iter().all(|&c| c == 50), "{threads} threads, grid {grid}");
            }
        }
    }

    #[test]
    fn a_sleeping_team_is_woken_for_enough_work_only() {
        let team = Team::new(0, 3).unwrap();
        let mut scratch = Scratch::default();
        let mut cells = vec![0u32; 8];
        let arguments = [cells.as_mut_ptr().cast()];
        sleep_until(|| team.is_asleep());
        // SAFETY: one cell for each unit; this thread alone leads.
        unsafe { team.run(&job(&arguments, 8, 3, WAKE_NANOSECONDS - 1), &mut scratch) };
        assert!(team.is_asleep(), "not for a small launch");
        // SAFETY: as above.
        unsafe { team.run(&job(&arguments, 8, 3, WAKE_NANOSECONDS), &mut scratch) };
        assert_eq!(cells, [2; 8]);

        sleep_until(|| team.is_asleep());
        let part = WAKE_NANOSECONDS / 2;
        team.expect(part);
        assert!(team.is_asleep(), "not for a small run");
        team.expect(part);
        assert_eq!(team.missed.load(Ordering::Relaxed), 0, "for two of them");
        sleep_until(|| team.is_asleep());
        team.set_limit(1);
        team.expect(10 * WAKE_NANOSECONDS);
        assert!(team.is_asleep(), "not if nobody may help");
    }

    /// Writes which thread did each unit.
    unsafe extern "C" fn who(arguments: *const *mut u8, _: *mut u8, begin: u64, end: u64) {
        thread_local!(static MARK: u8 = const { 0 });
        for i in begin..end {
            let me = MARK.with(|mark| std::ptr::from_ref(mark) as usize);
            // SAFETY: the test passes one cell for each unit.
            unsafe { *(*arguments).cast::<usize>().add(i as usize) = me };
        }
    }

    #[test]
    fn a_team_that_is_awake_shares_small_launches() {
        let team = Team::new(0, 2).unwrap();
        let mut scratch = Scratch::default();
        let mut cells = [0usize; 2];
        let arguments = [cells.as_mut_ptr().cast()];
        let small = Job { entry: who, ..job(&arguments, 2, 2, 1) };
        let large = Job { nanoseconds: WAKE_NANOSECONDS, ..small };
        // A worker may sleep again in between if the machine is busy: it must work in
        // the end, not each time.
        sleep_until(|| {
            // SAFETY: one cell for each unit; this thread alone leads.
            unsafe {
                team.run(&large, &mut scratch);
                assert_ne!(cells[0], cells[1], "a large launch is always shared");
                team.run(&small, &mut scratch);
            }
            cells[0] != cells[1]
        });
    }
}
