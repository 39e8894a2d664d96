//! The worker threads: fork and join over a static partition.
//!
//! One thread at a time (whoever holds the run lock) is the *leader*: it publishes
//! a job, does its own share and waits for the others. Worker `i` of `n` always
//! does the units `grid·i/n .. grid·(i+1)/n`. Kernels promise that the cut does not
//! show in the results, so any number of threads gives the same bytes.
//!
//! A worker that has nothing to do spins for a while, then parks: a spinning worker
//! answers in half a microsecond, a parked one in 70 or more, and calls of a training
//! loop come some ten microseconds apart. Work that one thread finishes sooner than
//! it could hand over is never split ([`SPLIT_BYTES`], [`SPLIT_FLOPS`]).

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use kiln_executable::KernelFn;

use crate::ALIGNMENT;

/// Least bytes a kernel moves before a second thread helps: 64 KiB are about 2 µs
/// of one thread in cache, four times the hand-over.
pub const SPLIT_BYTES: u64 = 64 << 10;

/// Least operations before a second thread helps: 2 µs at some 50 per nanosecond.
pub const SPLIT_FLOPS: u64 = 100_000;

/// Turns of the spin loop before a worker parks: about 300 µs of `pause`.
const SPINS: u32 = 20_000;

/// What workers are asked to do.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub entry: KernelFn,
    pub arguments: *const *mut u8,
    pub grid: u64,
    /// Bytes of scratch each thread needs.
    pub scratch: u64,
    /// Threads that take part, the leader included.
    pub threads: u32,
}

struct Shared {
    /// Counts jobs; a worker that sees a new number looks at `job`.
    generation: AtomicU64,
    job: UnsafeCell<Option<Job>>,
    /// Workers still busy with the present job.
    busy: AtomicU32,
    stop: AtomicBool,
    /// How many workers sleep on `wake`.
    parked: Mutex<u32>,
    wake: Condvar,
}

// SAFETY: `job` is written by the leader only while `busy` is 0 and before
// `generation` is raised with `Release`; workers read it after seeing the new
// generation with `Acquire` and before they lower `busy`. Its pointers are used only
// by kernels, whose contract allows disjoint ranges on several threads.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// The workers of a device.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    /// Most threads that take part; never more than there are.
    limit: AtomicU32,
}

impl Threads {
    /// Starts `threads - 1` workers; the leader is the first thread.
    pub(crate) fn new(threads: usize) -> std::io::Result<Threads> {
        let shared = Arc::new(Shared {
            generation: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            busy: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            parked: Mutex::new(0),
            wake: Condvar::new(),
        });
        let limit = AtomicU32::new(threads.max(1) as u32);
        let mut threads_started = Threads { shared, workers: Vec::new(), limit };
        for i in 1..threads.max(1) {
            let shared = Arc::clone(&threads_started.shared);
            let worker = std::thread::Builder::new()
                .name(format!("kiln-worker-{i}"))
                .spawn(move || work(&shared, i as u64))?;
            threads_started.workers.push(worker);
        }
        Ok(threads_started)
    }

    /// How many threads there are, the leader included.
    pub(crate) fn count(&self) -> usize {
        self.workers.len() + 1
    }

    /// How many threads take part in a split kernel at most.
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed) as usize
    }

    /// Lets at most `threads` threads take part from the next kernel on.
    pub(crate) fn set_limit(&self, threads: usize) {
        self.limit.store(threads.clamp(1, self.count()) as u32, Ordering::Relaxed);
    }

    /// Runs a job on `job.threads` threads and returns when all have finished.
    ///
    /// # Safety
    /// The arguments must be what the kernel expects, valid until this returns, and
    /// nobody else may call this at the same time.
    pub(crate) unsafe fn run(&self, mut job: Job, scratch: &mut Scratch) {
        job.threads = job.threads.clamp(1, self.limit() as u32);
        if job.threads == 1 {
            let scratch = scratch.of(job.scratch);
            // SAFETY: passed on to the caller.
            unsafe { (job.entry)(job.arguments, scratch, 0, job.grid) };
            return;
        }
        let shared = &*self.shared;
        // SAFETY: no worker is busy, and there is one leader: see `Shared`.
        unsafe { *shared.job.get() = Some(job) };
        shared.busy.store(self.workers.len() as u32, Ordering::Relaxed);
        shared.generation.fetch_add(1, Ordering::Release);
        if *lock(&shared.parked) > 0 {
            shared.wake.notify_all();
        }
        // SAFETY: the leader's share.
        unsafe { share(&job, 0, scratch) };
        let mut spins = 0;
        while shared.busy.load(Ordering::Acquire) > 0 {
            spins += 1;
            if spins > SPINS { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.generation.fetch_add(1, Ordering::Release);
        drop(lock(&self.shared.parked));
        self.shared.wake.notify_all();
        for worker in self.workers.drain(..) {
            // A worker cannot panic: it runs only kernels, which do not unwind.
            let _ = worker.join();
        }
    }
}

/// Does the share of thread `i`.
///
/// # Safety
/// As [`Threads::run`].
unsafe fn share(job: &Job, i: u64, scratch: &mut Scratch) {
    let threads = u64::from(job.threads);
    if i >= threads {
        return;
    }
    let cut = |i: u64| (u128::from(job.grid) * u128::from(i) / u128::from(threads)) as u64;
    let (begin, end) = (cut(i), cut(i + 1));
    if begin < end {
        let scratch = scratch.of(job.scratch);
        // SAFETY: passed on to the caller; ranges of different threads are disjoint.
        unsafe { (job.entry)(job.arguments, scratch, begin, end) };
    }
}

fn work(shared: &Shared, i: u64) {
    let mut scratch = Scratch::default();
    let mut seen = 0;
    loop {
        let mut spins = 0;
        while shared.generation.load(Ordering::Acquire) == seen {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
                continue;
            }
            let mut parked = lock(&shared.parked);
            *parked += 1;
            while shared.generation.load(Ordering::Acquire) == seen {
                parked = shared.wake.wait(parked).unwrap_or_else(PoisonError::into_inner);
            }
            *parked -= 1;
        }
        // Each generation is waited for by the leader, so none is ever missed.
        seen += 1;
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        // SAFETY: published before the generation was raised; see `Shared`.
        let job = unsafe { *shared.job.get() };
        if let Some(job) = job {
            // SAFETY: the leader vouches for the job and waits for `busy`.
            unsafe { share(&job, i, &mut scratch) };
        }
        shared.busy.fetch_sub(1, Ordering::Release);
    }
}

/// A thread's own working memory for kernels. Grows, never shrinks.
#[derive(Default)]
pub(crate) struct Scratch(Vec<Line>);

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; ALIGNMENT as usize]);

impl Scratch {
    /// At least `bytes` bytes, aligned; null when none are asked for.
    fn of(&mut self, bytes: u64) -> *mut u8 {
        if bytes == 0 {
            return std::ptr::null_mut();
        }
        self.reserve(bytes);
        self.0.as_mut_ptr().cast()
    }

    /// Grows to `bytes` bytes.
    pub(crate) fn reserve(&mut self, bytes: u64) {
        let lines = bytes.div_ceil(ALIGNMENT) as usize;
        if self.0.len() < lines {
            self.0.resize(lines, Line([0; ALIGNMENT as usize]));
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
