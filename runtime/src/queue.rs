//! The queue of a device: runs in order, asynchronous to the caller.
//!
//! One thread at a time has the *turn* and does a run. Which one is chosen by what is
//! fastest:
//!
//! - A short run on an idle queue is done by its caller at once. Waking another thread
//!   takes 60 µs or more, longer than the run; taking the turn is one atomic
//!   instruction. It needs no ticket: when the call returns, the run is done.
//! - A longer run gets a ticket and is queued, and the call returns. The queue's own
//!   thread does it, after those before it.
//! - A caller who waits for a ticket does queued runs itself if the turn is free, which
//!   it is when the queue's thread has not even woken up yet.
//!
//! Tickets finish in order. At most [`RUN_AHEAD`] runs are queued; a caller who is
//! further ahead helps or waits.
//!
//! `word` is twice the number of queued runs, plus 1 while the turn is taken. As it is
//! one word, either the thread that queues a run sees that the turn is free, or the one
//! that gives the turn back sees the run: none is forgotten.
//!
//! A run that was queued cannot fail: everything that can is done before.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::cpu::inside;
use crate::cpu::team::Scratch;
use crate::lock;
use crate::program::{Frame, Record, Sizes};

/// Most runs that may be queued.
pub const RUN_AHEAD: usize = 32;

/// How long a waiting caller looks before it sleeps: about what sleeping costs.
const SPIN: Duration = Duration::from_micros(100);

/// Turns of the spin loop between two looks at the clock.
const TURNS: u32 = 64;

const TAKEN: u64 = 1;
const QUEUED: u64 = 2;

struct State {
    queued: VecDeque<Record>,
    /// Records to use again: as many as can ever be needed.
    spare: Vec<Record>,
    /// What the largest program needs of a record.
    sizes: Sizes,
    /// The last ticket.
    submitted: u64,
    /// Whether the queue's thread sleeps on `work` and nobody has woken it yet.
    resting: bool,
    /// Callers that sleep on `done`.
    waiting: usize,
    stop: bool,
}

struct Shared {
    /// The device's number.
    device: u64,
    /// See the module.
    word: AtomicU64,
    completed: AtomicU64,
    state: Mutex<State>,
    /// There is a run and nobody has the turn, or the queue stops.
    work: Condvar,
    /// A ticket finished, or the turn is free.
    done: Condvar,
    /// Belongs to whoever has the turn.
    workspace: UnsafeCell<Workspace>,
}

// SAFETY: `workspace` is touched only through a `Turn`, of which there is one at a time:
// it is made by setting TAKEN in `word` with `Acquire`, and clears it with `Release`.
unsafe impl Sync for Shared {}
// SAFETY: as above; frames hold pointers to buffers, and a run holds its buffers.
unsafe impl Send for Shared {}

/// What the thread that does runs works with.
#[derive(Default)]
pub(crate) struct Workspace {
    /// For runs done at once.
    pub frame: Frame,
    pub scratch: Scratch,
}

/// See the module.
pub(crate) struct Queue(Arc<Shared>);

impl Queue {
    /// A queue with its thread. The thread holds the queue, not the device; a queued
    /// run holds its program and so the device.
    ///
    /// # Errors
    /// If the system refuses the thread.
    pub(crate) fn new(device: u64) -> std::io::Result<Queue> {
        let state = State {
            queued: VecDeque::with_capacity(RUN_AHEAD),
            spare: (0..RUN_AHEAD + 2).map(|_| Record::default()).collect(),
            sizes: Sizes::default(),
            submitted: 0,
            resting: false,
            waiting: 0,
            stop: false,
        };
        let shared = Arc::new(Shared {
            device,
            word: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            state: Mutex::new(state),
            work: Condvar::new(),
            done: Condvar::new(),
            workspace: UnsafeCell::new(Workspace::default()),
        });
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new().name("kiln-queue".into()).spawn(move || of_thread.serve())?;
        Ok(Queue(shared))
    }

    /// The last ticket that has finished.
    pub(crate) fn completed(&self) -> u64 {
        self.0.completed.load(Ordering::Acquire)
    }

    /// The last ticket that was given out.
    pub(crate) fn last_ticket(&self) -> u64 {
        lock(&self.0.state).submitted
    }

    /// The turn, if the queue is idle.
    pub(crate) fn try_turn(&self) -> Option<Turn<'_>> {
        self.0.take_turn(0)
    }

    /// Makes room in the records for a program, so that its runs need none.
    pub(crate) fn make_room(&self, sizes: Sizes) {
        let mut state = lock(&self.0.state);
        state.sizes = state.sizes.max(sizes);
        let sizes = state.sizes;
        for record in &mut state.spare {
            record.frame.reserve(sizes);
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

    /// Queues a run. `mark` is told the ticket before anybody can do the run.
    pub(crate) fn submit(&self, mut record: Record, mark: impl FnOnce(&mut Record, u64)) {
        let shared = &*self.0;
        let mut state = lock(&shared.state);
        while state.queued.len() >= RUN_AHEAD {
            state = match shared.do_next(state) {
                Ok(state) => state,
                Err(state) => shared.sleep(state),
            };
        }
        state.submitted += 1;
        record.ticket = state.submitted;
        mark(&mut record, state.submitted);
        state.queued.push_back(record);
        let before = shared.word.fetch_add(QUEUED, Ordering::AcqRel);
        if before & TAKEN == 0 && std::mem::take(&mut state.resting) {
            drop(state);
            shared.work.notify_one();
        }
    }

    /// Waits for a ticket, doing queued runs if nobody else does. Not for a thread that
    /// has the turn or helps with a run: it would wait for itself.
    pub(crate) fn wait(&self, ticket: u64) {
        let shared = &*self.0;
        let finished = || shared.completed.load(Ordering::Acquire) >= ticket;
        if finished() {
            return;
        }
        let mut state = lock(&shared.state);
        while !finished() {
            state = match shared.do_next(state) {
                Ok(state) => state,
                Err(state) => {
                    // Another thread is at it. Look for a while before sleeping.
                    drop(state);
                    let until = Instant::now() + SPIN;
                    let mut turns = 0u32;
                    while !finished() && shared.word.load(Ordering::Relaxed) & TAKEN != 0 {
                        turns += 1;
                        if !turns.is_multiple_of(TURNS) {
                            std::hint::spin_loop();
                        } else if Instant::now() < until {
                            // It may need this very core.
                            std::thread::yield_now();
                        } else {
                            break;
                        }
                    }
                    let state = lock(&shared.state);
                    if finished() || shared.word.load(Ordering::Relaxed) & TAKEN == 0 {
                        state
                    } else {
                        shared.sleep(state)
                    }
                }
            };
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Queued runs hold the device that holds this queue, so there are none.
        lock(&self.0.state).stop = true;
        self.0.work.notify_one();
    }
}

impl Shared {
    /// Takes the turn if it is free and `queued` runs are queued.
    fn take_turn(&self, queued: u64) -> Option<Turn<'_>> {
        let free = QUEUED * queued;
        self.word
            .compare_exchange(free, free | TAKEN, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
            .then(|| Turn { shared: self })
    }

    /// The life of the queue's thread.
    fn serve(&self) {
        let mut state = lock(&self.state);
        loop {
            state = match self.do_next(state) {
                Ok(state) => state,
                Err(state) if state.stop => return,
                Err(mut state) => {
                    state.resting = true;
                    let mut state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.resting = false;
                    state
                }
            };
        }
    }

    /// Does the first queued run, or gives the lock back if there is none or the turn
    /// is taken.
    fn do_next<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
    ) -> Result<MutexGuard<'s, State>, MutexGuard<'s, State>> {
        // Runs join and leave the queue under the lock, so the number is right.
        let Some(mut turn) =
            (!state.queued.is_empty()).then(|| self.take_turn(state.queued.len() as u64)).flatten()
        else {
            return Err(state);
        };
        let mut record = state.queued.pop_front().expect("it is not empty");
        self.word.fetch_sub(QUEUED, Ordering::Relaxed);
        drop(state);
        turn.work(|workspace| record.execute(&mut workspace.scratch));
        self.completed.store(record.ticket, Ordering::Release);
        // Dropping the program may free its constants and unload its code.
        record.clear();
        let mut state = lock(&self.state);
        record.frame.reserve(state.sizes);
        state.spare.push(record);
        turn.end(&mut state);
        Ok(state)
    }

    /// Sleeps until a run finishes or the turn is free. The turn must be taken: who
    /// gives it back wakes those who sleep.
    fn sleep<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        state.waiting += 1;
        let mut state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    /// Wakes who may go on now that the turn is free.
    fn wake(&self, state: &mut State) {
        if state.waiting > 0 {
            self.done.notify_all();
        }
        if !state.queued.is_empty() && std::mem::take(&mut state.resting) {
            self.work.notify_one();
        }
    }
}

/// The right to do a run. There is one at a time.
pub(crate) struct Turn<'q> {
    shared: &'q Shared,
}

impl Turn<'_> {
    /// Does a run's work with the workspace. During it, this thread counts as inside
    /// the device.
    pub(crate) fn work<R>(&mut self, work: impl FnOnce(&mut Workspace) -> R) -> R {
        let abort = AbortOnUnwind;
        // SAFETY: this is the one turn, borrowed mutably.
        let workspace = unsafe { &mut *self.shared.workspace.get() };
        let result = inside::enter(self.shared.device, || work(workspace));
        std::mem::forget(abort);
        result
    }

    /// Gives the turn back under the lock.
    fn end(self, state: &mut State) {
        self.shared.word.fetch_sub(TAKEN, Ordering::Release);
        self.shared.wake(state);
        std::mem::forget(self);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Nobody waits while nothing is queued, since an inline run has no ticket.
        if self.shared.word.fetch_sub(TAKEN, Ordering::AcqRel) != TAKEN {
            self.shared.wake(&mut lock(&self.shared.state));
        }
    }
}

/// A run that unwinds halfway is a fault of ours and leaves memory half written and
/// workers at it: nothing could be trusted afterwards.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("kiln-runtime: a run panicked; this is a bug of Kiln");
        std::process::abort();
    }
}
