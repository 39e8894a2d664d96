//! Arrays of f32 that start on a 2 MiB boundary and ask for 2 MiB pages.
//!
//! Every page is touched when the array is made, so that no measured run pays for
//! page faults, and large arrays need few entries of the translation buffers.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

const HUGE_PAGE: usize = 2 << 20;

/// A fixed number of f32 in huge pages where the system grants them.
pub struct Buffer {
    /// What was mapped: the array and what aligning it wasted.
    mapping: NonNull<libc::c_void>,
    mapped_bytes: usize,
    data: NonNull<f32>,
    len: usize,
}

// SAFETY: a buffer owns its mapping as a Vec owns its block.
unsafe impl Send for Buffer {}
// SAFETY: shared access only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` zeros. Panics when the system has no memory left: a bench cannot go on.
    pub fn zeros(len: usize) -> Self {
        let bytes = (len * size_of::<f32>()).next_multiple_of(HUGE_PAGE);
        let mapped_bytes = bytes + HUGE_PAGE;
        // SAFETY: an anonymous mapping at an address of the system's choice aliases nothing.
        let mapping = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert!(mapping != libc::MAP_FAILED, "no memory for {mapped_bytes} bytes");
        let mapping = NonNull::new(mapping).expect("mmap does not return null");
        let offset = mapping.as_ptr().align_offset(HUGE_PAGE);
        // SAFETY: the mapping is one huge page longer than `bytes`, and the offset
        // to the next boundary is less than that.
        let data = unsafe { mapping.cast::<u8>().add(offset) };
        #[cfg(target_os = "linux")]
        // SAFETY: the range lies in the mapping; the advice changes no contents. A
        // system that declines it leaves small pages, which is slower but right.
        unsafe {
            libc::madvise(data.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
        }
        let mut buffer = Buffer { mapping, mapped_bytes, data: data.cast(), len };
        // The mapping is zero already: this is for the page faults.
        buffer.fill(0.0);
        buffer
    }

    /// The numbers that `f` gives for each index.
    pub fn from_fn(len: usize, f: impl Fn(usize) -> f32) -> Self {
        let mut buffer = Buffer::zeros(len);
        for (i, x) in buffer.iter_mut().enumerate() {
            *x = f(i);
        }
        buffer
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: `data` points at `len` initialised (zero-filled) f32 in our mapping.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: exactly what `zeros` mapped, and nobody can borrow it any more.
        unsafe { libc::munmap(self.mapping.as_ptr(), self.mapped_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::{Buffer, HUGE_PAGE};

    #[test]
    fn is_aligned_zeroed_and_writable_to_the_end() {
        for len in [0, 1, 1000, HUGE_PAGE / 4, HUGE_PAGE / 4 + 1] {
            let mut buffer = Buffer::zeros(len);
            assert_eq!(buffer.as_ptr() as usize % HUGE_PAGE, 0);
            assert_eq!(buffer.len(), len);
            assert!(buffer.iter().all(|&x| x == 0.0));
            if let Some(last) = buffer.last_mut() {
                *last = 1.0;
            }
        }
    }
}
