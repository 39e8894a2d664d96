//! The reserved range of addresses behind a pool.

use std::ptr::NonNull;

/// Reserved memory, given back when dropped. Pages come when they are touched.
pub(crate) struct Reserved {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the range belongs to this value alone; who may touch which byte of it is
// decided by the pool, under a lock.
unsafe impl Send for Reserved {}
// SAFETY: as above; the methods only read the address.
unsafe impl Sync for Reserved {}

impl Reserved {
    /// Reserves `bytes` bytes of address space. Where the system grants it, memory
    /// comes in huge pages: faults on 4 KiB pages are most of the cost of writing
    /// fresh memory.
    pub(crate) fn new(bytes: u64) -> std::io::Result<Reserved> {
        const HUGE: usize = 2 << 20;
        let bytes = (bytes as usize).max(1).next_multiple_of(HUGE);
        // SAFETY: an anonymous mapping at an address of the system's choosing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the range was just mapped. Advice may be refused; nothing depends on it.
        unsafe { libc::madvise(start, bytes, libc::MADV_HUGEPAGE) };
        let start = NonNull::new(start.cast()).expect("a mapping is never at address 0");
        Ok(Reserved { start, bytes })
    }

    /// The address `offset` bytes from the start.
    pub(crate) fn at(&self, offset: u64) -> NonNull<u8> {
        assert!(offset as usize <= self.bytes, "offset inside the reserved range");
        // SAFETY: inside the mapping, or one past its end.
        unsafe { self.start.add(offset as usize) }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length. Every array holds the device
        // that holds this, so nothing points into the range any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
