//! Which devices this thread is doing a run of.
//!
//! Code that a kernel calls may want to run something itself. A device does one run
//! at a time, so that waiting for another one there would never end; those who could
//! wait ask here first. The answer is a chain of frames on the thread's own stack,
//! since a run of one device may call another device.

use std::cell::Cell;
use std::ptr;

struct Frame {
    device: u64,
    outer: *const Frame,
}

thread_local! {
    static INNERMOST: Cell<*const Frame> = const { Cell::new(ptr::null()) };
}

/// Puts the outer frame back, also when the work unwinds.
struct Leave(*const Frame);

impl Drop for Leave {
    fn drop(&mut self) {
        INNERMOST.set(self.0);
    }
}

/// Does `work`, during which this thread counts as inside a run of `device`.
pub(crate) fn enter<R>(device: u64, work: impl FnOnce() -> R) -> R {
    let frame = Frame { device, outer: INNERMOST.get() };
    let _leave = Leave(frame.outer);
    INNERMOST.set(&raw const frame);
    work()
}

/// Whether this thread is inside a run of `device`.
pub(crate) fn is_inside(device: u64) -> bool {
    let mut at = INNERMOST.get();
    while !at.is_null() {
        // SAFETY: a frame stays in place on this thread's stack until `enter` returns,
        // and `Leave` takes it out of the chain before that.
        let frame = unsafe { &*at };
        if frame.device == device {
            return true;
        }
        at = frame.outer;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{enter, is_inside};

    #[test]
    fn frames_nest_and_are_left() {
        assert!(!is_inside(1));
        enter(1, || {
            enter(2, || assert!(is_inside(1) && is_inside(2) && !is_inside(3)));
            assert!(is_inside(1) && !is_inside(2));
            let unwound =
                std::panic::catch_unwind(|| enter(2, || std::panic::resume_unwind(Box::new(()))));
            assert!(unwound.is_err() && is_inside(1) && !is_inside(2));
            std::thread::scope(|s| s.spawn(|| assert!(!is_inside(1))).join().unwrap());
        });
        assert!(!is_inside(1));
    }
}
