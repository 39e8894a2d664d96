//! The reserved range of addresses behind a pool.
//!
//! Reserved once, touched on demand: reserving costs a few microseconds whatever the
//! size, and pages that nobody touches cost nothing. Pages stay once touched.

use std::ptr::NonNull;

/// A huge page. The range starts on one, so that the first arrays get them too.
const HUGE: usize = 2 << 20;

/// Reserved memory, given back when dropped. Pages come when they are touched.
pub(crate) struct Reserved {
    /// The mapping.
    mapping: NonNull<u8>,
    mapped: usize,
    /// The first huge page boundary in it.
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
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn new(bytes: u64) -> std::io::Result<Reserved> {
        let too_much = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
        let bytes = usize::try_from(bytes).map_err(|_| too_much())?;
        let bytes = bytes.max(1).checked_next_multiple_of(HUGE).ok_or_else(too_much)?;
        let mapped = bytes.checked_add(HUGE).ok_or_else(too_much)?;
        let mapping = map(mapped)?;
        let skip = mapping.align_offset(HUGE);
        // SAFETY: less than HUGE bytes into a mapping that is HUGE bytes longer.
        let start = unsafe { mapping.add(skip) };
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: inside the mapping. Advice may be refused; nothing depends on it.
        unsafe {
            libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE)
        };
        Ok(Reserved { mapping, mapped, start, bytes })
    }

    /// The address `offset` bytes from the start.
    pub(crate) fn at(&self, offset: u64) -> NonNull<u8> {
        assert!(offset as usize <= self.bytes, "offset inside the reserved range");
        // SAFETY: inside the mapping, or one past the part in use.
        unsafe { self.start.add(offset as usize) }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length. Every array holds the device
        // that holds this, so nothing points into the range any more.
        unsafe { unmap(self.mapping, self.mapped) };
    }
}

/// Address space of the system's choosing.
#[cfg(not(miri))]
fn map(bytes: usize) -> std::io::Result<NonNull<u8>> {
    // SAFETY: a new anonymous mapping, which touches nothing there is.
    let mapping = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if mapping == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    Ok(NonNull::new(mapping.cast()).expect("mapped above address 0"))
}

/// # Safety
/// From `map` with this length, and nothing points into it any more.
#[cfg(not(miri))]
unsafe fn unmap(mapping: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's word.
    unsafe { libc::munmap(mapping.as_ptr().cast(), bytes) };
}

/// Miri has no address space to reserve: heap instead, so that it can judge the rest.
#[cfg(miri)]
fn map(bytes: usize) -> std::io::Result<NonNull<u8>> {
    let layout = std::alloc::Layout::from_size_align(bytes, 4096).expect("a layout");
    // SAFETY: `bytes` is not 0.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    NonNull::new(start).ok_or_else(|| std::io::ErrorKind::OutOfMemory.into())
}

/// # Safety
/// From `map` with this length, and nothing points into it any more.
#[cfg(miri)]
unsafe fn unmap(mapping: NonNull<u8>, bytes: usize) {
    let layout = std::alloc::Layout::from_size_align(bytes, 4096).expect("a layout");
    // SAFETY: the caller's word.
    unsafe { std::alloc::dealloc(mapping.as_ptr(), layout) };
}

/// Bytes of physical memory, or 64 GiB when the system does not say.
pub(crate) fn physical() -> u64 {
    // SAFETY: asks the system for two numbers.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    match (u64::try_from(pages), u64::try_from(size)) {
        (Ok(pages), Ok(size)) if pages > 0 && size > 0 => pages * size,
        _ => 64 << 30,
    }
}
