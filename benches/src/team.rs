//! A few threads that start work together within a microsecond.
//!
//! The caller is member 0. The others spin for a short while after each task and
//! sleep after that, so that a measured run finds them awake while a subject with
//! threads of its own soon has the cores to itself.
//!
//! ```text
//! caller   publish task, epoch += 1 ──▶ member 0's share ──▶ wait until pending = 0
//! worker   spin on epoch ─────────────▶ its share ─────────▶ pending -= 1
//! ```

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a worker spins before it sleeps. Waking a sleeper costs about as much.
const SPIN: Duration = Duration::from_micros(60);

type Task = *const (dyn Fn(usize) + Sync);

struct Shared {
    /// Counts tasks; a worker that sees it change has one to do.
    epoch: AtomicUsize,
    /// Workers that have not finished the current task.
    pending: AtomicUsize,
    stop: AtomicBool,
    /// Written by the caller while no worker is busy, read by workers after `epoch` moved.
    task: UnsafeCell<Option<Task>>,
}

// SAFETY: `task` is written only while `pending` is zero and published by the
// release store to `epoch`; see `Team::run`.
unsafe impl Sync for Shared {}
// SAFETY: the pointer in `task` is followed only while `Team::run` keeps its target alive.
unsafe impl Send for Shared {}

/// Threads that do one task at a time together.
pub struct Team {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl Team {
    /// A team of `size` members, the caller among them.
    pub fn new(size: usize) -> Self {
        assert!(size >= 1, "a team has at least its caller");
        let shared = Arc::new(Shared {
            epoch: AtomicUsize::new(0),
            pending: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            task: UnsafeCell::new(None),
        });
        let worker = |member| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || work(&shared, member))
        };
        let workers = (1..size).map(worker).collect();
        Team { shared, workers }
    }

    /// How many members.
    pub fn size(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task(member)` on every member at once and waits for all.
    pub fn run(&mut self, task: &(dyn Fn(usize) + Sync)) {
        if !self.workers.is_empty() {
            // SAFETY: erases the lifetime only. No worker follows the pointer after
            // `pending` is zero again, which we wait for below, and the borrow lasts longer.
            let task = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), Task>(task) };
            // SAFETY: `pending` is zero, so no worker reads the cell.
            unsafe { *self.shared.task.get() = Some(task) };
            self.shared.pending.store(self.workers.len(), Ordering::Relaxed);
            self.shared.epoch.fetch_add(1, Ordering::Release);
            self.workers.iter().for_each(|worker| worker.thread().unpark());
        }
        // Waits even if our own share panics: the others still borrow from our caller.
        let finish = Finish(&self.shared);
        task(0);
        drop(finish);
    }
}

struct Finish<'a>(&'a Shared);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        while self.0.pending.load(Ordering::Acquire) != 0 {
            spin_loop();
        }
    }
}

fn work(shared: &Shared, member: usize) {
    let mut seen = 0;
    loop {
        let start = Instant::now();
        while shared.epoch.load(Ordering::Acquire) == seen {
            // A wake-up that came before is kept as a token, so none is lost.
            if start.elapsed() < SPIN {
                spin_loop()
            } else {
                std::thread::park()
            }
            if shared.stop.load(Ordering::Relaxed) {
                return;
            }
        }
        seen += 1;
        // SAFETY: the epoch moved after the cell was written, and `Team::run` waits
        // for `pending` before it writes again or returns.
        let task = unsafe { &*(*shared.task.get()).expect("a task was published") };
        // A share that panicked would be waited for without end.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| task(member))).is_err() {
            std::process::abort();
        }
        shared.pending.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker never panics: it aborts instead.
            let _ = worker.join();
        }
    }
}

/// The part of `0..len` that `member` of `size` works on, in whole multiples of `grain`.
pub fn share(len: usize, grain: usize, member: usize, size: usize) -> std::ops::Range<usize> {
    let grains = len.div_ceil(grain);
    let bound = |member: usize| (grains * member / size * grain).min(len);
    bound(member)..bound(member + 1)
}

/// A mutable slice of which each member takes its own part.
///
/// The parts of a static partition do not overlap, but the borrow checker cannot see
/// that through a shared closure.
pub struct Parts<'a> {
    data: *mut f32,
    len: usize,
    _borrow: std::marker::PhantomData<&'a mut [f32]>,
}

// SAFETY: handing out parts is unsafe and asks for disjointness.
unsafe impl Sync for Parts<'_> {}

impl<'a> Parts<'a> {
    /// Lends the slice out in parts.
    pub fn new(slice: &'a mut [f32]) -> Self {
        let (data, len) = (slice.as_mut_ptr(), slice.len());
        Parts { data, len, _borrow: std::marker::PhantomData }
    }

    /// One part.
    ///
    /// # Safety
    /// While the part lives, no other part that overlaps it may exist.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn part(&self, range: std::ops::Range<usize>) -> &mut [f32] {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        // SAFETY: in bounds by the assertion, unaliased by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(range.start), range.len()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::{Parts, Team, share};

    #[test]
    fn every_member_works_once_per_task() {
        for size in [1, 2, 3] {
            let mut team = Team::new(size);
            let counts: Vec<_> = (0..size).map(|_| AtomicUsize::new(0)).collect();
            for round in 0..1000 {
                if round == 500 {
                    // Long enough that the workers have gone to sleep.
                    std::thread::sleep(Duration::from_millis(5));
                }
                team.run(&|member| {
                    counts[member].fetch_add(1, Ordering::Relaxed);
                });
            }
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1000));
        }
    }

    #[test]
    fn shares_cover_everything_once() {
        for (len, grain, size) in [(0, 16, 2), (1, 16, 2), (100, 16, 3), (4096, 64, 2), (5, 1, 7)] {
            let mut next = 0;
            for member in 0..size {
                let range = share(len, grain, member, size);
                assert_eq!(range.start, next);
                assert!(range.start.is_multiple_of(grain) || range.start == len);
                next = range.end;
            }
            assert_eq!(next, len);
        }
    }

    #[test]
    fn parts_write_through() {
        let mut data = vec![0.0; 10];
        let parts = Parts::new(&mut data);
        // SAFETY: the two ranges do not overlap.
        let (a, b) = unsafe { (parts.part(0..5), parts.part(5..10)) };
        a.fill(1.0);
        b.fill(2.0);
        assert_eq!(data.iter().sum::<f32>(), 15.0);
    }
}
