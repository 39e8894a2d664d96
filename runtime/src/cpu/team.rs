//! The worker threads: fork and join over a static partition.
//!
//! One thread at a time, whoever has the queue's turn, is the *leader*: it publishes
//! a job, does its own share and waits for the others. Share `i` of `n` is the units
//! `grid·i/n .. grid·(i+1)/n`, and worker `i` takes it, so that what a core has in its
//! cache it finds there again. Kernels promise that the cut does not show in the
//! results, so any number of threads gives the same bytes.
//!
//! A worker may be late: asleep, or kept from its core by another process. It *takes*
//! its share before it touches anything, and after a little patience the leader takes
//! the shares that are left. So the leader waits only for those who have started.
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
//! job is ever given to a sleeping team, which is what makes the leader notice that it
//! should wake it or work alone.

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

/// Turns of the leader's spin loop before it takes the shares of those who have not
/// come: about 2 µs. All the others' cache lines are touched for that, which would
/// cost more than it gains if they are on their way.
const PATIENCE: u32 = 128;

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
    /// Shares of the present job that are not done.
    left: Line<AtomicU32>,
    /// For each share, the generation of the last job of which it was taken.
    taken: Box<[Line<AtomicU64>]>,
    job: UnsafeCell<Option<Job>>,
}

// SAFETY: `job` is written by the leader, of whom there is one at a time, only while
// `left` is 0 and before the generation is raised with `Release`. A worker reads it after
// loading the new word with `Acquire` and only if it took a share of that generation,
// which it has not done before it lowers `left`. The job's pointers are used only by
// kernels, whose contract allows disjoint ranges on several threads.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    /// Whether share `i` of the job of this generation is now the caller's to do.
    fn take(&self, i: u64, generation: u64) -> bool {
        let taken = &self.taken[i as usize].0;
        let mut last = taken.load(Ordering::Relaxed);
        // A later generation: the caller is a worker who comes much too late.
        while last < generation {
            match taken.compare_exchange_weak(
                last,
                generation,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => last = now,
            }
        }
        false
    }
}

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
            left: Line(AtomicU32::new(0)),
            taken: (0..threads).map(|_| Line(AtomicU64::new(0))).collect(),
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
        // SAFETY: the caller's word: nobody else leads.
        let published = if threads > 1 { unsafe { self.publish(job, threads) } } else { None };
        let Some(generation) = published else {
            // SAFETY: passed on to the caller.
            return unsafe { alone(job, scratch) };
        };
        let threads = u64::from(threads);
        // SAFETY: passed on to the caller; share 0 is the leader's.
        unsafe { share(job, 0, threads, scratch) };
        let left = &self.shared.left.0;
        let mut turns = 0u32;
        while left.load(Ordering::Acquire) > 0 {
            turns = turns.wrapping_add(1);
            if turns == PATIENCE {
                for i in 1..threads {
                    if self.shared.take(i, generation) {
                        // SAFETY: passed on to the caller; this share was just taken.
                        unsafe { share(job, i, threads, scratch) };
                        left.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            } else if turns.is_multiple_of(4 * TURNS) {
                // Who has started may be without a core: do not keep ours from it.
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Publishes a job for `threads` threads and says under which generation, unless
    /// the team sleeps and the job is not worth waking it.
    ///
    /// # Safety
    /// Nobody else may lead at the same time, and every job before must be done.
    unsafe fn publish(&self, job: &Job, threads: u32) -> Option<u64> {
        let Shared { word, left, job: cell, .. } = &*self.shared;
        let mut seen = word.0.load(Ordering::Relaxed);
        if seen & ASLEEP != 0 && job.nanoseconds < WAKE_NANOSECONDS {
            return None;
        }
        // SAFETY: nobody has a share of a job, and there is one leader: see `Shared`.
        unsafe { *cell.get() = Some(*job) };
        left.0.store(threads - 1, Ordering::Relaxed);
        loop {
            if seen & ASLEEP != 0 {
                // Also for a small job, if the team fell asleep just now: it may do
                // without, but there may be more of them.
                self.wake();
                seen &= !ASLEEP;
            }
            let generation = (seen & !(GENERATION - 1)).wrapping_add(GENERATION);
            let next = generation | u64::from(threads) << THREADS_SHIFT;
            match word.0.compare_exchange_weak(seen, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Some(generation),
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
    let (mut turns, mut until) = (0, Instant::now() + SPIN);
    loop {
        let word = shared.word.0.load(Ordering::Acquire);
        if word & STOP != 0 {
            return;
        }
        if word & !(GENERATION - 1) != generation {
            generation = word & !(GENERATION - 1);
            let threads = threads_of(word);
            if i < threads && shared.take(i, generation) {
                // SAFETY: a share of this generation is this worker's, so that the job
                // stays as it was published until `left` is lowered; see `Shared`.
                let job = unsafe { (*shared.job.get()).expect("published before the word") };
                // SAFETY: the leader vouches for the job and waits for `left`.
                unsafe { share(&job, i, threads, &mut scratch) };
                shared.left.0.fetch_sub(1, Ordering::Release);
            }
            (turns, until) = (0, Instant::now() + SPIN);
            continue;
        }
        if word & ASLEEP != 0 {
            // Returns at once if the leader cleared the bit after it was looked at: it
            // unparks everybody afterwards.
            std::thread::park();
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
    use std::sync::atomic::AtomicUsize;
    use std::time::Instant;

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

    /// Writes which thread did each of two units. Unit 0, the leader's, waits a while for
    /// unit 1, so that a worker who is awake has time to come: whether one does must not
    /// hang on how fast the machine schedules it.
    unsafe extern "C" fn who(arguments: *const *mut u8, _: *mut u8, begin: u64, end: u64) {
        thread_local!(static MARK: u8 = const { 0 });
        let me = MARK.with(|mark| std::ptr::from_ref(mark) as usize);
        // SAFETY: the test passes one cell for each unit.
        let cells = unsafe { &*(*arguments).cast::<[AtomicUsize; 2]>() };
        for i in begin..end {
            cells[i as usize].store(me, Ordering::Relaxed);
        }
        let start = Instant::now();
        while (begin, end) == (0, 1)
            && cells[1].load(Ordering::Relaxed) == 0
            && start.elapsed() < Duration::from_millis(200)
        {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_team_that_is_awake_shares_small_launches() {
        let team = Team::new(0, 2).unwrap();
        let mut scratch = Scratch::default();
        let mut cells = [const { AtomicUsize::new(0) }; 2];
        let arguments = [std::ptr::from_mut(&mut cells).cast()];
        let small = Job { entry: who, ..job(&arguments, 2, 2, 1) };
        let large = Job { nanoseconds: WAKE_NANOSECONDS, ..small };
        // A worker may sleep again in between if the machine is busy: it must work in
        // the end, not each time.
        sleep_until(|| {
            let mut shared = |job: &Job| {
                // SAFETY: two cells, which live as long as the team; this thread alone leads.
                unsafe {
                    team.run(job, &mut scratch);
                    let cells = &*arguments[0].cast::<[AtomicUsize; 2]>();
                    let [a, b] = [0, 1].map(|i: usize| cells[i].swap(0, Ordering::Relaxed));
                    assert!(a != 0 && b != 0);
                    a != b
                }
            };
            shared(&large) & shared(&small)
        });
    }

    #[test]
    fn who_does_not_come_is_not_waited_for() {
        let team = Team::new(0, 4).unwrap();
        let mut scratch = Scratch::default();
        let mut cells = vec![0u32; 100];
        let arguments = [cells.as_mut_ptr().cast()];
        sleep_until(|| team.is_asleep());
        std::thread::sleep(Duration::from_millis(10));
        for round in 1..=100 {
            // As if they were awake; but nobody wakes them.
            team.shared.word.0.fetch_and(!ASLEEP, Ordering::Relaxed);
            // SAFETY: one cell for each unit; this thread alone leads.
            unsafe { team.run(&job(&arguments, 100, 4, 0), &mut scratch) };
            assert_eq!(cells, [round; 100]);
        }
    }
}
