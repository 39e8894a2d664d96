//! The steps of a loaded program, flattened, and doing them.
//!
//! Loading resolves every name once: entries instead of kernel numbers, positions in
//! a table of base addresses instead of [`Base`]s, threads and times instead of
//! traffic. A run fills the table and goes through the steps.

use std::mem;
use std::ops::Range;
use std::sync::atomic::Ordering;

use kiln_executable::{Base, Code, KernelFn, Parts, Slot, Step, Traffic};

use super::team::{Job, Scratch, Team, alone};
use crate::program::Frame;
use crate::stats::Counters;

/// Least bytes a kernel moves before a second thread helps: 64 KiB are about 2 µs
/// of one thread in cache, four times the hand-over. Each further half brings one more.
pub const SPLIT_BYTES: u64 = 64 << 10;

/// Least operations before a second thread helps: 2 µs at some 50 per nanosecond.
pub const SPLIT_FLOPS: u64 = 100_000;

/// Rates of one thread for estimates: bytes from memory, and operations in vector code,
/// for each nanosecond.
const BYTES_PER_NANOSECOND: u64 = 10;
const FLOPS_PER_NANOSECOND: u64 = 50;

/// Bytes of one unit of work of a copy.
const COPY_UNIT: u64 = 32 << 10;

/// Where an argument is: a position in [`Frame::bases`], and bytes from there.
#[derive(Clone, Copy)]
struct Place {
    base: u32,
    offset: u64,
}

enum Action {
    Launch { entry: KernelFn, arguments: Range<usize>, grid: u64, scratch: u64 },
    Copy { from: Place, to: Place, bytes: u64 },
}

/// A step, with what it costs.
struct Timed {
    action: Action,
    threads: u32,
    nanoseconds: u64,
}

/// The steps of a program.
pub(crate) struct Launches {
    steps: Vec<Timed>,
    places: Vec<Place>,
    /// What one thread would take for everything, about.
    pub nanoseconds: u64,
    /// What it would take for the steps that several threads may share.
    shared: u64,
    /// Most arguments of a launch.
    pub most_arguments: usize,
}

/// Positions in [`Frame::bases`]: the arena, the constants, the parameters, the outputs.
pub(crate) const ARENA: usize = 0;
pub(crate) const CONSTANTS: usize = 1;
pub(crate) const PARAMETERS: usize = 2;

/// Who does the launches of a run.
pub(crate) enum Crew<'a> {
    /// The team, led by this thread, which has the queue's turn.
    Team(&'a Team),
    /// This thread: it is inside another run.
    Alone,
}

impl Launches {
    /// Flattens the steps for at most `most_threads` threads.
    pub(crate) fn new(parts: &Parts, code: &dyn Code, most_threads: usize) -> Launches {
        let entries: Vec<KernelFn> = (0..parts.kernels.len()).map(|k| code.entry(k)).collect();
        let place = |slot: &Slot| {
            let base = match slot.base {
                Base::Arena => ARENA,
                Base::Constants => CONSTANTS,
                Base::Parameter(p) => PARAMETERS + p as usize,
                Base::Output(o) => PARAMETERS + parts.parameters.len() + o as usize,
            };
            Place { base: base as u32, offset: slot.offset }
        };
        let mut places = Vec::new();
        let mut steps = Vec::with_capacity(parts.steps.len());
        let mut most_arguments = 0;
        for step in &parts.steps {
            steps.push(match step {
                Step::Launch { kernel, arguments } => {
                    let k = &parts.kernels[*kernel as usize];
                    let first = places.len();
                    places.extend(arguments.iter().map(place));
                    most_arguments = most_arguments.max(arguments.len());
                    Timed {
                        action: Action::Launch {
                            entry: entries[*kernel as usize],
                            arguments: first..places.len(),
                            grid: k.grid,
                            scratch: k.scratch,
                        },
                        threads: threads(&k.traffic, k.grid / k.grain, most_threads),
                        nanoseconds: nanoseconds(&k.traffic),
                    }
                }
                Step::Copy { from, to, bytes } => Timed {
                    action: Action::Copy { from: place(from), to: place(to), bytes: *bytes },
                    threads: copy_threads(*bytes, most_threads),
                    nanoseconds: nanoseconds(&copy_traffic(*bytes)),
                },
            });
        }
        let sum = |steps: &mut dyn Iterator<Item = &Timed>| {
            steps.fold(0u64, |sum, step| sum.saturating_add(step.nanoseconds))
        };
        Launches {
            nanoseconds: sum(&mut steps.iter()),
            shared: sum(&mut steps.iter().filter(|step| step.threads > 1)),
            steps,
            places,
            most_arguments,
        }
    }

    /// Does the copies of a frame, then the steps.
    ///
    /// # Safety
    /// The frame must hold the addresses of every buffer of this program, alive and as
    /// large as the executable's check assumed; nobody else may touch what the steps
    /// write or write what they read. A [`Crew::Team`] must be this thread's to lead.
    pub(crate) unsafe fn run(
        &self,
        frame: &mut Frame,
        crew: &Crew<'_>,
        scratch: &mut Scratch,
        counters: &Counters,
    ) {
        let most_threads = match crew {
            Crew::Team(team) => {
                team.expect(self.shared);
                team.count()
            }
            Crew::Alone => 1,
        };
        let mut launch = |job: &Job| match crew {
            // SAFETY: passed on to the caller.
            Crew::Team(team) => unsafe { team.run(job, scratch) },
            // SAFETY: as above.
            Crew::Alone => unsafe { alone(job, scratch) },
        };
        for &(from, to, bytes) in &frame.copies {
            counters.copies.add(bytes);
            copy(from, to, bytes, copy_threads(bytes, most_threads), &mut launch);
        }
        let mut launches = 0;
        let mut arguments = mem::take(&mut frame.arguments);
        for Timed { action, threads, nanoseconds } in &self.steps {
            match action {
                Action::Launch { entry, arguments: range, grid, scratch } => {
                    arguments.clear();
                    arguments.extend(self.places[range.clone()].iter().map(|&p| frame.address(p)));
                    launches += 1;
                    launch(&Job {
                        entry: *entry,
                        arguments: arguments.as_ptr(),
                        grid: *grid,
                        scratch: *scratch,
                        threads: *threads,
                        nanoseconds: *nanoseconds,
                    });
                }
                Action::Copy { from, to, bytes } => {
                    counters.copies.add(*bytes);
                    let (from, to) = (frame.address(*from), frame.address(*to));
                    copy(from, to, *bytes, *threads, &mut launch);
                }
            }
        }
        frame.arguments = arguments;
        counters.launches.fetch_add(launches, Ordering::Relaxed);
    }
}

impl Frame {
    fn address(&self, place: Place) -> *mut u8 {
        // Wrapping, since an empty buffer may have no address at all.
        self.bases[place.base as usize].wrapping_add(place.offset as usize)
    }
}

/// How many threads are worth having for a kernel that can be cut into `pieces`.
fn threads(traffic: &Traffic, pieces: u64, most_threads: usize) -> u32 {
    let bytes = traffic.read.saturating_add(traffic.written) / (SPLIT_BYTES / 2);
    let flops = traffic.flops / (SPLIT_FLOPS / 2);
    bytes.max(flops).min(pieces).clamp(1, most_threads as u64) as u32
}

fn nanoseconds(traffic: &Traffic) -> u64 {
    let bytes = traffic.read.saturating_add(traffic.written);
    bytes / BYTES_PER_NANOSECOND + traffic.flops / FLOPS_PER_NANOSECOND
}

fn copy_traffic(bytes: u64) -> Traffic {
    Traffic { read: bytes, written: bytes, flops: 0 }
}

fn copy_threads(bytes: u64, most_threads: usize) -> u32 {
    threads(&copy_traffic(bytes), bytes.div_ceil(COPY_UNIT), most_threads)
}

/// Copies between buffers that do not overlap, as a launch of its own.
fn copy(from: *mut u8, to: *mut u8, bytes: u64, threads: u32, launch: &mut dyn FnMut(&Job)) {
    let arguments = [from, to, (&raw const bytes).cast_mut().cast()];
    launch(&Job {
        entry: copy_units,
        arguments: arguments.as_ptr(),
        grid: bytes.div_ceil(COPY_UNIT),
        scratch: 0,
        threads,
        nanoseconds: nanoseconds(&copy_traffic(bytes)),
    });
}

/// The kernel of a copy: from, to, and how many bytes in all.
unsafe extern "C" fn copy_units(
    arguments: *const *mut u8,
    _scratch: *mut u8,
    begin: u64,
    end: u64,
) {
    // SAFETY: `copy` passes two buffers that do not overlap and their size; a unit
    // starts inside them.
    unsafe {
        let (from, to) = (*arguments, *arguments.add(1));
        let bytes = *(*arguments.add(2)).cast::<u64>();
        let (begin, end) = (begin * COPY_UNIT, (end * COPY_UNIT).min(bytes));
        let length = (end - begin) as usize;
        std::ptr::copy_nonoverlapping(from.add(begin as usize), to.add(begin as usize), length);
    }
}

#[cfg(test)]
mod tests {
    use kiln_executable::Traffic;

    use super::{SPLIT_BYTES, SPLIT_FLOPS, threads};

    #[test]
    fn threads_follow_the_work() {
        let bytes = |read| Traffic { read, written: 0, flops: 0 };
        let flops = |flops| Traffic { read: 0, written: 0, flops };
        assert_eq!(threads(&bytes(0), 100, 8), 1);
        assert_eq!(threads(&bytes(SPLIT_BYTES - 1), 100, 8), 1);
        assert_eq!(threads(&bytes(SPLIT_BYTES), 100, 8), 2);
        assert_eq!(threads(&bytes(2 * SPLIT_BYTES), 100, 8), 4);
        assert_eq!(threads(&bytes(u64::MAX), 100, 8), 8);
        assert_eq!(threads(&bytes(u64::MAX), 3, 8), 3);
        assert_eq!(threads(&bytes(u64::MAX), 0, 8), 1);
        assert_eq!(threads(&flops(SPLIT_FLOPS - 1), 100, 8), 1);
        assert_eq!(threads(&flops(SPLIT_FLOPS), 100, 8), 2);
    }
}
