//! The buffers of a device: blocks of its pool, and when their memory may be used again.
//!
//! A buffer whose last handle is gone may still be touched by runs that are queued.
//! Its memory is then *deferred*: it goes back to the pool once those runs have
//! finished. Until then it may serve another buffer that only later runs of the same
//! queue touch, since those come after: that is how a loop that runs ahead of the
//! device uses the temporaries of one run, not of all that are pending.
//!
//! ```text
//!             last handle gone                     runs finished
//!   in use ────────────────────▶ deferred ────────────────────────▶ free in the pool
//!      ▲                             │                                     │
//!      └──── Use::AfterQueue ────────┘                                     │
//!      └─────────────────────── Use::Now, Use::AfterQueue ─────────────────┘
//! ```
//!
//! Only a block of exactly the right size is taken over, so the pool coalesces as if
//! there were no shortcut; and who finds the pool full waits for the queue first.

use std::ptr::NonNull;

use crate::array::{Handle, Slot};
use crate::cpu::memory::Reserved;
use crate::device::Device;
use crate::pool::{End, Full, Pool};

/// When a new buffer is touched first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// At once.
    Now,
    /// By a run that is put into the queue after those already there.
    AfterQueue,
}

/// How many deferred buffers a search looks at, the latest first.
const SEARCHED: usize = 64;

/// The pool and the slots of its buffers.
pub(crate) struct Store {
    pub pool: Pool,
    slots: Slots,
    /// With the ticket of the last run that touches them.
    deferred: Vec<(u64, NonNull<Slot>)>,
    /// The last ticket for which `deferred` was looked through.
    collected: u64,
}

// SAFETY: the pointers are to slots that `slots` owns.
unsafe impl Send for Store {}

impl Store {
    pub(crate) fn new(capacity: u64) -> Store {
        Store {
            pool: Pool::new(capacity),
            slots: Slots::default(),
            deferred: Vec::with_capacity(1024),
            collected: 0,
        }
    }

    /// A buffer of at least `bytes` bytes, in `memory`, which is the device's.
    pub(crate) fn allocate(
        &mut self,
        bytes: u64,
        end: End,
        used: Use,
        memory: &Reserved,
        device: &Device,
    ) -> Result<Handle, Full> {
        self.collect(device.completed());
        let slot = match used {
            Use::AfterQueue => self.take_over(bytes, end),
            Use::Now => None,
        };
        let slot = match slot {
            Some(slot) => slot,
            None => {
                let (block, offset) = self.pool.allocate(bytes, end)?;
                let mut slot = self.slots.take();
                // SAFETY: nobody holds a slot from the table.
                let fields = unsafe { slot.as_mut() };
                fields.block = block;
                fields.end = end;
                fields.start = memory.at(offset).as_ptr();
                *fields.ready.get_mut() = 0;
                *fields.used.get_mut() = 0;
                slot
            }
        };
        // SAFETY: nobody holds the slot, and it is out of the table; the table lives as
        // long as the device.
        Ok(unsafe { Handle::first(slot, device.clone()) })
    }

    /// A deferred buffer of exactly the right size from the right end.
    fn take_over(&mut self, bytes: u64, end: End) -> Option<NonNull<Slot>> {
        let wanted = Pool::rounded(bytes)?;
        let recent = self.deferred.len().saturating_sub(SEARCHED)..self.deferred.len();
        let found = recent.rev().find(|&i| {
            // SAFETY: slots live as long as the store, and nobody holds this one.
            let slot = unsafe { self.deferred[i].1.as_ref() };
            slot.end == end && self.pool.bytes(slot.block) == wanted
        })?;
        Some(self.deferred.swap_remove(found).1)
    }

    /// Takes back a slot whose last handle is gone.
    pub(crate) fn release(&mut self, mut slot: NonNull<Slot>, completed: u64) {
        // SAFETY: slots live as long as the store, and nobody holds this one.
        let used = *unsafe { slot.as_mut() }.used.get_mut();
        if used <= completed {
            self.free(slot);
        } else {
            self.deferred.push((used, slot));
        }
    }

    fn free(&mut self, slot: NonNull<Slot>) {
        // SAFETY: slots live as long as the store, and nobody holds this one.
        self.pool.free(unsafe { slot.as_ref() }.block);
        self.slots.give_back(slot);
    }

    /// Frees the deferred buffers whose runs have finished.
    pub(crate) fn collect(&mut self, completed: u64) {
        if self.collected == completed || self.deferred.is_empty() {
            return;
        }
        self.collected = completed;
        let mut i = 0;
        while i < self.deferred.len() {
            if self.deferred[i].0 <= completed {
                let (_, slot) = self.deferred.swap_remove(i);
                self.free(slot);
            } else {
                i += 1;
            }
        }
    }
}

/// Slots in chunks that never move.
#[derive(Default)]
struct Slots {
    chunks: Vec<NonNull<[Slot]>>,
    spare: Vec<NonNull<Slot>>,
}

// SAFETY: pointers into `chunks`, which this value owns.
unsafe impl Send for Slots {}

impl Slots {
    const CHUNK: usize = 256;

    /// A slot that nobody holds.
    fn take(&mut self) -> NonNull<Slot> {
        if let Some(slot) = self.spare.pop() {
            return slot;
        }
        let chunk: Box<[Slot]> = (0..Slots::CHUNK).map(|_| Slot::empty()).collect();
        // Room for every slot at once, so that giving one back never allocates.
        self.spare.reserve((self.chunks.len() + 1) * Slots::CHUNK);
        let chunk = NonNull::from(Box::leak(chunk));
        let first = chunk.cast::<Slot>();
        // SAFETY: inside the chunk.
        self.spare.extend((0..Slots::CHUNK).map(|i| unsafe { first.add(i) }));
        self.chunks.push(chunk);
        self.spare.pop().expect("a chunk was just added")
    }

    fn give_back(&mut self, slot: NonNull<Slot>) {
        self.spare.push(slot);
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for chunk in self.chunks.drain(..) {
            // SAFETY: leaked in `take`. A slot with handles holds the device that holds
            // this, so that none has any.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}
