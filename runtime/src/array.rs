//! Arrays on a device, and the counted handles behind them.
//!
//! A handle is a pointer to a recycled slot with a count, so that a compiled call in
//! the steady state allocates nothing on the heap. There are no weak handles: when
//! the one who owns a handle sees the count 1, nobody else can ever gain another,
//! which is what makes donation by ownership sound.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::{fmt, mem};

use kiln_ir::{Literal, Type};

use crate::device::{Device, Error};
use crate::pool::Block;

/// What a handle points to.
pub(crate) struct Slot {
    references: AtomicUsize,
    /// Ticket of the last run that writes the buffer.
    pub ready: AtomicU64,
    /// Ticket of the last run that touches it.
    pub used: AtomicU64,
    pub block: Block,
    pub start: *mut u8,
}

// SAFETY: the counts are atomic; `block` and `start` change only while nobody holds
// a handle, under the lock of the device's store.
unsafe impl Sync for Slot {}
// SAFETY: as above.
unsafe impl Send for Slot {}

impl Slot {
    pub(crate) fn empty() -> Slot {
        Slot {
            references: AtomicUsize::new(0),
            ready: AtomicU64::new(0),
            used: AtomicU64::new(0),
            block: Block::default(),
            start: std::ptr::null_mut(),
        }
    }
}

/// A counted reference to a buffer.
pub(crate) struct Handle {
    slot: NonNull<Slot>,
    device: Device,
}

// SAFETY: a handle is a counted reference to a `Slot`, which is `Sync` and lives as
// long as the device, which the handle holds.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// The first handle of a slot that nobody holds.
    ///
    /// # Safety
    /// The slot must belong to the device and have no handles.
    pub(crate) unsafe fn first(slot: NonNull<Slot>, device: Device) -> Handle {
        // SAFETY: slots live as long as their device.
        unsafe { slot.as_ref() }.references.store(1, Ordering::Relaxed);
        Handle { slot, device }
    }

    pub(crate) fn slot(&self) -> &Slot {
        // SAFETY: slots live as long as their device, which `self` holds.
        unsafe { self.slot.as_ref() }
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Whether this is the only handle. Called by the owner of the handle, the answer
    /// `true` cannot turn wrong.
    pub(crate) fn is_unique(&self) -> bool {
        self.slot().references.load(Ordering::Acquire) == 1
    }
}

impl Clone for Handle {
    fn clone(&self) -> Handle {
        self.slot().references.fetch_add(1, Ordering::Relaxed);
        Handle { slot: self.slot, device: self.device.clone() }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.slot().references.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            self.device.release(self.slot);
        }
    }
}

/// A dense row-major array on a device. Cloning makes another handle.
///
/// Its contents may still be on their way: reading waits for them.
#[derive(Clone)]
pub struct Array {
    ty: Type,
    handle: Handle,
}

impl Array {
    pub(crate) fn new(ty: Type, handle: Handle) -> Array {
        Array { ty, handle }
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn into_handle(self) -> Handle {
        self.handle
    }

    /// The type.
    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// The device it is on.
    pub fn device(&self) -> &Device {
        self.handle.device()
    }

    /// A number that no other array alive has; clones share it.
    pub fn id(&self) -> u64 {
        self.handle.slot.as_ptr() as u64
    }

    /// Whether this is the only handle of its buffer.
    pub fn is_unique(&self) -> bool {
        self.handle.is_unique()
    }

    /// The same bytes under another type of equal size.
    ///
    /// # Panics
    /// If the sizes differ: a fault of the caller.
    pub fn with_type(&self, ty: Type) -> Array {
        assert_eq!(ty.bytes(), self.ty.bytes(), "bytes of a retyped array");
        Array { ty, handle: self.handle.clone() }
    }

    /// Waits until the contents are there.
    pub fn block_until_ready(&self) {
        self.device().wait(self.handle.slot().ready.load(Ordering::Acquire));
    }

    /// Copies the contents to the host, waiting for them. A device-to-host transfer.
    ///
    /// # Errors
    /// None on the CPU; other devices may fail.
    pub fn to_literal(&self) -> Result<Literal, Error> {
        Ok(self.with_bytes(|bytes| {
            self.device().count_transfer_out(bytes.len());
            Literal::from_bytes(self.ty.clone(), bytes)
        }))
    }

    /// Lends the contents to `f`, waiting for them. No transfer: on the CPU the host
    /// sees the device's memory.
    pub fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        self.block_until_ready();
        let slot = self.handle.slot();
        // SAFETY: the run that writes the buffer has finished. A later writer would
        // need this buffer donated, and the runtime copies a donated buffer that has
        // another handle, such as `self`.
        f(unsafe { std::slice::from_raw_parts(slot.start, self.ty.bytes()) })
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({} at {:p})", self.ty, self.handle.slot().start)
    }
}

/// Slots in chunks that never move.
#[derive(Default)]
pub(crate) struct Slots {
    chunks: Vec<NonNull<[Slot]>>,
    spare: Vec<NonNull<Slot>>,
}

// SAFETY: pointers into `chunks`, which this value owns.
unsafe impl Send for Slots {}

impl Slots {
    const CHUNK: usize = 256;

    /// A slot that nobody holds.
    pub(crate) fn take(&mut self) -> NonNull<Slot> {
        if let Some(slot) = self.spare.pop() {
            return slot;
        }
        let chunk: Box<[Slot]> = (0..Slots::CHUNK).map(|_| Slot::empty()).collect();
        let capacity = (self.chunks.len() + 1) * Slots::CHUNK;
        self.spare.reserve(capacity - self.spare.len());
        let chunk = NonNull::from(Box::leak(chunk));
        let first = chunk.cast::<Slot>();
        // SAFETY: inside the chunk.
        self.spare.extend((0..Slots::CHUNK).map(|i| unsafe { first.add(i) }));
        self.chunks.push(chunk);
        self.spare.pop().expect("a chunk was just added")
    }

    pub(crate) fn give_back(&mut self, slot: NonNull<Slot>) {
        self.spare.push(slot);
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for chunk in self.chunks.drain(..) {
            // SAFETY: leaked in `take`. Handles hold the device that holds this, so
            // that none is left.
            drop(unsafe { Box::from_raw(chunk.as_ptr()) });
        }
    }
}

const _: () = assert!(mem::size_of::<Handle>() == 16);
