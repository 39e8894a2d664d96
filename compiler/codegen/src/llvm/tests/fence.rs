//! Memory that ends where a page begins that may not be touched.

use std::ops::{Deref, DerefMut};
use std::ptr;

/// A cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(super) struct Line(pub [u8; 64]);

/// Lines of which the last is the end of a page; the next page faults.
pub(super) struct Fenced {
    /// What was mapped, and its bytes.
    map: (*mut u8, usize),
    /// The first line.
    start: *mut Line,
    lines: usize,
}

impl Fenced {
    /// `lines` lines of zeros.
    pub fn new(lines: usize) -> Fenced {
        const PAGE: usize = 4096;
        let used = (lines * size_of::<Line>()).next_multiple_of(PAGE);
        let bytes = used + PAGE;
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping of its own, of which the last page is then closed; the
        // lines end where that page starts and begin inside the mapping.
        unsafe {
            let map = libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0);
            assert!(map != libc::MAP_FAILED, "mapping {bytes} bytes");
            let fence = map.byte_add(used);
            assert_eq!(libc::mprotect(fence, PAGE, libc::PROT_NONE), 0, "closing a page");
            let start = (fence as *mut Line).sub(lines);
            Fenced { map: (map as *mut u8, bytes), start, lines }
        }
    }
}

impl Deref for Fenced {
    type Target = [Line];

    fn deref(&self) -> &[Line] {
        // SAFETY: `new` mapped as many lines, zeroed, and they live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start, self.lines) }
    }
}

impl DerefMut for Fenced {
    fn deref_mut(&mut self) -> &mut [Line] {
        // SAFETY: as above; nothing else refers to them while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.lines) }
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made, released once.
        unsafe { libc::munmap(self.map.0.cast(), self.map.1) };
    }
}
