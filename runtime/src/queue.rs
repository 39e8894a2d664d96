//! The queue of a device: runs in order, asynchronous to the caller.
//!
//! A run gets a ticket when it is submitted; tickets finish in order. One thread at a
//! time does runs. Usually that is the queue's own thread, so that a call returns
//! before its work is done; but
//!
//! - a short run on an idle queue is done by the caller at once: waking another
//!   thread costs 60 µs, more than the run;
//! - a caller who waits for a ticket does pending runs itself rather than sleep.
//!
//! A run that was submitted cannot fail: everything that can is done before. At most
//! [`RUN_AHEAD`] runs are pending; a caller who is further ahead helps.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::device::Inner;
use crate::program::{Record, Sizes};
use crate::threads::{Scratch, lock};

/// Most runs that may be pending.
pub const RUN_AHEAD: usize = 32;

/// Turns of a waiting loop before it sleeps.
const SPINS: u32 = 2_000;

struct State {
    pending: VecDeque<Record>,
    /// Records to use again: as many as can ever be needed.
    spare: Vec<Record>,
    /// What the largest program needs of a record.
    sizes: Sizes,
    /// Whether a thread is doing a run.
    running: bool,
    stop: bool,
    submitted: u64,
}

struct Shared {
    state: Mutex<State>,
    /// Somebody submitted a run, or the queue stops.
    work: Condvar,
    /// A run finished.
    done: Condvar,
    completed: AtomicU64,
    /// Working memory of the thread that does runs.
    scratch: Mutex<Scratch>,
}

/// See the module.
pub(crate) struct Queue(Arc<Shared>);

/// The right to submit the next run.
pub(crate) struct Turn<'q> {
    queue: &'q Queue,
    state: MutexGuard<'q, State>,
    /// The ticket of the run.
    pub ticket: u64,
}

impl Queue {
    pub(crate) fn new() -> Queue {
        let state = State {
            pending: VecDeque::with_capacity(RUN_AHEAD + 1),
            spare: (0..RUN_AHEAD + 2).map(|_| Record::default()).collect(),
            sizes: Sizes::default(),
            running: false,
            stop: false,
            submitted: 0,
        };
        Queue(Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Condvar::new(),
            completed: AtomicU64::new(0),
            scratch: Mutex::new(Scratch::default()),
        }))
    }

    /// Starts the queue's thread. It holds the queue, not the device: a pending run
    /// holds its program and so the device.
    pub(crate) fn start(inner: &Arc<Inner>) -> std::io::Result<()> {
        let shared = Arc::clone(&inner.queue.0);
        std::thread::Builder::new()
            .name("kiln-queue".into())
            .spawn(move || {
                let mut state = lock(&shared.state);
                loop {
                    if state.running || state.pending.is_empty() {
                        if state.stop {
                            return;
                        }
                        state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                    } else {
                        state = do_next(&shared, state);
                    }
                }
            })
            .map(|_| ())
    }

    /// The last ticket that has finished.
    pub(crate) fn completed(&self) -> u64 {
        self.0.completed.load(Ordering::Acquire)
    }

    /// The last ticket that was given out.
    pub(crate) fn last_ticket(&self) -> u64 {
        lock(&self.0.state).submitted
    }

    /// Makes room in the records for a program, so that its runs need none.
    pub(crate) fn make_room(&self, sizes: Sizes) {
        let mut state = lock(&self.0.state);
        state.sizes = state.sizes.max(sizes);
        let sizes = state.sizes;
        for record in &mut state.spare {
            record.reserve(sizes);
        }
    }

    /// A record to fill.
    pub(crate) fn record(&self) -> Record {
        lock(&self.0.state).spare.pop().unwrap_or_default()
    }

    /// Gives back a record that was not submitted.
    pub(crate) fn give_back(&self, record: Record) {
        lock(&self.0.state).spare.push(record);
    }

    /// Waits for a place in the queue and takes the next turn.
    pub(crate) fn turn(&self) -> Turn<'_> {
        let mut state = lock(&self.0.state);
        while state.pending.len() >= RUN_AHEAD {
            state = if state.running {
                self.0.done.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                do_next(&self.0, state)
            };
        }
        state.submitted += 1;
        let ticket = state.submitted;
        Turn { queue: self, state, ticket }
    }

    /// Waits for a ticket, doing pending runs itself.
    pub(crate) fn wait(&self, _inner: &Inner, ticket: u64) {
        let shared = &*self.0;
        if shared.completed.load(Ordering::Acquire) >= ticket {
            return;
        }
        let mut state = lock(&shared.state);
        while shared.completed.load(Ordering::Acquire) < ticket {
            if !state.running {
                state = do_next(shared, state);
                continue;
            }
            // Another thread is at it. Look for a while before sleeping.
            drop(state);
            let mut spins = 0;
            while shared.completed.load(Ordering::Acquire) < ticket && spins < SPINS {
                spins += 1;
                if spins % 64 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
            state = lock(&shared.state);
            if state.running && shared.completed.load(Ordering::Acquire) < ticket {
                state = shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl Turn<'_> {
    /// Submits the run. A short one is done at once if nothing is before it; the
    /// answer says whether it was.
    pub(crate) fn submit(mut self, mut record: Record, short: bool) -> bool {
        record.ticket = self.ticket;
        let inline = short && !self.state.running && self.state.pending.is_empty();
        self.state.pending.push_back(record);
        if inline {
            drop(do_next(&self.queue.0, self.state));
        } else {
            drop(self.state);
            self.queue.0.work.notify_one();
        }
        inline
    }
}

/// Does the first pending run. Nobody else may be running.
fn do_next<'q>(shared: &'q Shared, mut state: MutexGuard<'q, State>) -> MutexGuard<'q, State> {
    let Some(mut record) = state.pending.pop_front() else { return state };
    debug_assert!(!state.running);
    state.running = true;
    drop(state);
    record.execute(&mut lock(&shared.scratch));
    shared.completed.store(record.ticket, Ordering::Release);
    // Dropping the program may free its constants and unload its code.
    record.clear();
    let mut state = lock(&shared.state);
    state.running = false;
    record.reserve(state.sizes);
    state.spare.push(record);
    shared.done.notify_all();
    if !state.pending.is_empty() {
        shared.work.notify_one();
    }
    state
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Pending runs hold the device that holds this queue, so there are none.
        lock(&self.0.state).stop = true;
        self.0.work.notify_all();
    }
}
