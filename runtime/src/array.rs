//! Arrays on a device, and the counted handles behind them.
//!
//! A handle is a pointer to a recycled slot with a count, so that a compiled call in
//! the steady state allocates nothing on the heap. There are no weak handles: when
//! the one who owns a handle sees the count 1, nobody else can ever gain another,
//! which is what makes donation by ownership sound.
//!
//! ```text
//!   Array { ty, handle } ──▶ Slot { references, ready, used, block, start, device }
//!                                                            │             │
//!                                       bytes of the pool ◀──┘   counted ◀─┘
//! ```
//!
//! The slot, not each handle, holds the device: cloning an array is one atomic add.

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use kiln_ir::{Literal, Type};

use crate::device::Device;
use crate::error::Error;
use crate::pool::{Block, End};

/// What a handle points to.
pub(crate) struct Slot {
    references: AtomicUsize,
    /// Ticket of the last queued run that writes the buffer; 0 if none does.
    pub ready: AtomicU64,
    /// Ticket of the last queued run that touches it.
    pub used: AtomicU64,
    pub block: Block,
    pub end: End,
    pub start: *mut u8,
    /// Counted for as long as there are handles.
    device: Option<Device>,
}

// SAFETY: the counts are atomic; the rest changes only while nobody holds a handle,
// by whoever took the slot from the store's table, or the last handle out of it.
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
            end: End::High,
            start: std::ptr::null_mut(),
            device: None,
        }
    }
}

/// A counted reference to a buffer.
pub(crate) struct Handle(NonNull<Slot>);

// SAFETY: a handle is a counted reference to a `Slot`, which is `Sync` and lives as
// long as the device, which the slot holds while there are handles.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// The first handle of a slot that nobody holds.
    ///
    /// # Safety
    /// The slot must be of a table that lives as long as the device, and the caller
    /// must be the only one who knows it.
    pub(crate) unsafe fn first(mut slot: NonNull<Slot>, device: Device) -> Handle {
        // SAFETY: the caller's word.
        let fields = unsafe { slot.as_mut() };
        *fields.references.get_mut() = 1;
        fields.device = Some(device);
        Handle(slot)
    }

    pub(crate) fn slot(&self) -> &Slot {
        // SAFETY: slots live as long as their device, which this one holds.
        unsafe { self.0.as_ref() }
    }

    pub(crate) fn device(&self) -> &Device {
        self.slot().device.as_ref().expect("a slot with handles holds its device")
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
        Handle(self.0)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.slot().references.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: that was the last handle, and none can come back.
            let device = unsafe { self.0.as_mut() }.device.take();
            // Dropped last: it may be what keeps the table of slots alive.
            let device = device.expect("a slot with handles holds its device");
            device.release(self.0);
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
        self.handle.0.as_ptr() as u64
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

    /// Whether the contents are there.
    pub fn is_ready(&self) -> bool {
        self.handle.slot().ready.load(Ordering::Acquire) <= self.device().completed()
    }

    /// Waits until the contents are there.
    ///
    /// # Errors
    /// [`Error::Nested`]; other devices than the CPU may fail.
    pub fn block_until_ready(&self) -> Result<(), Error> {
        self.device().wait(self.handle.slot().ready.load(Ordering::Acquire))
    }

    /// Copies the contents to the host, waiting for them. A device-to-host transfer.
    ///
    /// # Errors
    /// [`Error::Nested`]; other devices than the CPU may fail.
    pub fn to_literal(&self) -> Result<Literal, Error> {
        let literal = self.with_bytes(|bytes| Literal::from_bytes(self.ty.clone(), bytes))?;
        self.device().count_transfer_out(literal.bytes().len());
        Ok(literal)
    }

    /// Copies the contents to `host`, waiting for them. A device-to-host transfer that
    /// allocates nothing.
    ///
    /// # Errors
    /// [`Error::HostBytes`] if the sizes differ, and as [`Array::to_literal`].
    pub fn copy_to(&self, host: &mut [u8]) -> Result<(), Error> {
        self.device().check_host_bytes(&self.ty, host.len())?;
        self.with_bytes(|bytes| host.copy_from_slice(bytes))?;
        self.device().count_transfer_out(host.len());
        Ok(())
    }

    /// Lends the contents to `f`, waiting for them. No transfer: on the CPU the host
    /// sees the device's memory.
    ///
    /// # Errors
    /// [`Error::Nested`]; other devices than the CPU may fail.
    pub fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R, Error> {
        self.block_until_ready()?;
        let slot = self.handle.slot();
        // SAFETY: the run that writes the buffer has finished. A later writer would
        // need this buffer donated, and the runtime copies a donated buffer that has
        // another handle, such as `self`.
        Ok(f(unsafe { std::slice::from_raw_parts(slot.start, self.ty.bytes()) }))
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({} at {:p})", self.ty, self.handle.slot().start)
    }
}
