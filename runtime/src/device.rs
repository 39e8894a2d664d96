//! Devices: memory, a queue, threads, and what is counted.

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kiln_executable::LoadError;
use kiln_ir::{Literal, Type};

use crate::array::{Array, Handle, Slot, Slots};
use crate::memory::Reserved;
use crate::pool::{End, Pool, PoolStats};
use crate::queue::Queue;
use crate::threads::{Threads, lock};

/// How a device is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Threads that run kernels, the caller's included; at least 1.
    pub threads: usize,
    /// Bytes of the pool: address space, touched on demand.
    pub capacity: u64,
}

impl Default for Config {
    /// As many threads as cores, and as much address space as the machine has memory.
    fn default() -> Config {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Config { threads, capacity: physical_memory() }
    }
}

/// Bytes of physical memory, or 64 GiB when the system does not say.
fn physical_memory() -> u64 {
    // SAFETY: asks the system for two numbers.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    match (u64::try_from(pages), u64::try_from(size)) {
        (Ok(pages), Ok(size)) if pages > 0 && size > 0 => pages * size,
        _ => 64 << 30,
    }
}

/// A failure of the runtime.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The pool has no free block that is large enough.
    #[error(
        "out of memory: {what} needs {requested} bytes, but of {capacity} bytes {in_use} are in \
         use and the largest free block has {largest_free}"
    )]
    OutOfMemory {
        /// For what.
        what: String,
        /// How much.
        requested: u64,
        /// Bytes of the pool.
        capacity: u64,
        /// Bytes handed out.
        in_use: u64,
        /// Bytes of the largest free block.
        largest_free: u64,
    },
    /// The system refused address space or a thread.
    #[error("setting up the device: {0}")]
    Setup(String),
    /// Machine code could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A run was given another number of arguments than the program has parameters.
    #[error("`{program}` takes {wanted} arguments, not {given}")]
    ArgumentCount {
        /// Name of the program.
        program: String,
        /// Parameters.
        wanted: usize,
        /// Arguments.
        given: usize,
    },
    /// An argument has another type than its parameter.
    #[error("`{program}`: argument {index} `{name}` is {given}, not {wanted}")]
    ArgumentType {
        /// Name of the program.
        program: String,
        /// Which argument.
        index: usize,
        /// Leaf path of the parameter.
        name: String,
        /// The parameter's type.
        wanted: Box<Type>,
        /// The argument's type.
        given: Box<Type>,
    },
    /// An argument is on another device.
    #[error("`{program}`: argument {index} `{name}` is on another device")]
    OtherDevice {
        /// Name of the program.
        program: String,
        /// Which argument.
        index: usize,
        /// Leaf path of the parameter.
        name: String,
    },
}

/// Who asked for a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The program spells it out.
    Explicit,
    /// It follows from how a call was fed.
    Implicit,
}

/// Transfers of one direction and cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// How many.
    pub count: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// Transfers of a device so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransferStats {
    /// From the host, spelled out.
    pub host_to_device: Count,
    /// From the host, because a call was fed host data.
    pub implicit_host_to_device: Count,
    /// To the host.
    pub device_to_host: Count,
}

/// Runs of a device so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunStats {
    /// Programs run.
    pub runs: u64,
    /// Of these, those that the calling thread did at once.
    pub inline: u64,
    /// Kernels launched.
    pub launches: u64,
    /// Copies: steps of programs, and donated arrays that others still hold.
    pub copies: u64,
    /// Bytes of these copies.
    pub copied_bytes: u64,
}

#[derive(Default)]
pub(crate) struct Counter {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    pub(crate) fn add(&self, bytes: u64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn read(&self) -> Count {
        Count {
            count: self.count.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    put: Counter,
    put_implicit: Counter,
    get: Counter,
    pub copies: Counter,
    pub runs: AtomicU64,
    pub inline: AtomicU64,
    pub launches: AtomicU64,
}

/// The pool and the slots of its buffers.
pub(crate) struct Store {
    pub pool: Pool,
    slots: Slots,
    /// Buffers whose last handle is gone but which a pending run still touches, with
    /// the ticket of that run.
    deferred: Vec<(u64, NonNull<Slot>)>,
}

// SAFETY: the pointers are to slots that `slots` owns.
unsafe impl Send for Store {}

impl Store {
    fn free(&mut self, slot: NonNull<Slot>) {
        // SAFETY: slots live as long as the store, and nobody holds this one.
        self.pool.free(unsafe { slot.as_ref() }.block);
        self.slots.give_back(slot);
    }

    /// Frees the deferred buffers whose runs have finished.
    pub(crate) fn collect(&mut self, completed: u64) {
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

pub(crate) struct Inner {
    pub queue: Queue,
    pub store: Mutex<Store>,
    pub memory: Reserved,
    pub threads: Threads,
    pub counters: Counters,
}

/// A device: where arrays live and programs run. Cloning makes another handle.
#[derive(Clone)]
pub struct Device(pub(crate) Arc<Inner>);

impl Device {
    /// A CPU device of its own. Address space is reserved, memory is not touched.
    ///
    /// # Errors
    /// If the system refuses the address space or a thread.
    pub fn cpu(config: Config) -> Result<Device, Error> {
        let setup = |e: std::io::Error| Error::Setup(e.to_string());
        let store = Store {
            pool: Pool::new(config.capacity),
            slots: Slots::default(),
            deferred: Vec::with_capacity(1024),
        };
        let inner = Arc::new(Inner {
            queue: Queue::new(),
            store: Mutex::new(store),
            memory: Reserved::new(config.capacity).map_err(setup)?,
            threads: Threads::new(config.threads).map_err(setup)?,
            counters: Counters::default(),
        });
        Queue::start(&inner).map_err(setup)?;
        Ok(Device(inner))
    }

    /// Threads that run kernels at most.
    pub fn threads(&self) -> usize {
        self.0.threads.limit()
    }

    /// Lets at most `threads` threads run kernels, from the next one on: at least one,
    /// and no more than the device was set up with. Results do not depend on it.
    pub fn set_threads(&self, threads: usize) {
        self.0.threads.set_limit(threads);
    }

    /// Copies host data to a new array.
    ///
    /// # Errors
    /// If the pool is full.
    pub fn put(&self, ty: &Type, bytes: &[u8], cause: Cause) -> Result<Array, Error> {
        let array = self.fill(ty, bytes)?;
        self.count_transfer_in(bytes.len(), cause);
        Ok(array)
    }

    /// Like [`Device::put`], for host data that `write` puts in place: no copy of it
    /// is made on the way.
    ///
    /// # Errors
    /// If the pool is full.
    pub fn put_with(
        &self,
        ty: &Type,
        cause: Cause,
        write: impl FnOnce(&mut [u8]),
    ) -> Result<Array, Error> {
        let bytes = ty.bytes();
        let handle = self.allocate(bytes as u64, End::High, || format!("an array of {ty}"))?;
        // SAFETY: a fresh buffer of at least that many bytes that nobody else knows,
        // and that no pending run touches: see `Store::deferred`. Pages of the pool
        // always hold bytes: zeros, or what was there before.
        write(unsafe { std::slice::from_raw_parts_mut(handle.slot().start, bytes) });
        self.count_transfer_in(bytes, cause);
        Ok(Array::new(ty.clone(), handle))
    }

    /// Copies several host arrays to the device as one transfer.
    ///
    /// # Errors
    /// If the pool is full; then none is left on the device.
    pub fn put_all(&self, arrays: &[Literal], cause: Cause) -> Result<Vec<Array>, Error> {
        let put = arrays
            .iter()
            .map(|literal| self.fill(literal.ty(), literal.bytes()))
            .collect::<Result<Vec<_>, _>>()?;
        self.count_transfer_in(arrays.iter().map(|l| l.bytes().len()).sum(), cause);
        Ok(put)
    }

    fn count_transfer_in(&self, bytes: usize, cause: Cause) {
        match cause {
            Cause::Explicit => self.0.counters.put.add(bytes as u64),
            Cause::Implicit => self.0.counters.put_implicit.add(bytes as u64),
        }
    }

    pub(crate) fn count_transfer_out(&self, bytes: usize) {
        self.0.counters.get.add(bytes as u64);
    }

    /// A new array with these bytes; not counted as a transfer.
    pub fn fill(&self, ty: &Type, bytes: &[u8]) -> Result<Array, Error> {
        debug_assert_eq!(bytes.len(), ty.bytes());
        let handle =
            self.allocate(bytes.len() as u64, End::High, || format!("an array of {ty}"))?;
        // SAFETY: a fresh buffer of at least that many bytes that nobody else knows,
        // and that no pending run touches: see `Store::deferred`.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), handle.slot().start, bytes.len());
        }
        Ok(Array::new(ty.clone(), handle))
    }

    /// A buffer. When the pool is full, waits for pending runs to give theirs back.
    pub(crate) fn allocate(
        &self,
        bytes: u64,
        end: End,
        what: impl Fn() -> String,
    ) -> Result<Handle, Error> {
        for last in [false, true] {
            let mut guard = lock(&self.0.store);
            let store = &mut *guard;
            store.collect(self.0.queue.completed());
            match store.pool.allocate(bytes, end) {
                Ok((block, offset)) => {
                    let mut slot = store.slots.take();
                    // SAFETY: nobody holds the slot; the store is locked.
                    let slot_mut = unsafe { slot.as_mut() };
                    slot_mut.block = block;
                    slot_mut.start = self.0.memory.at(offset).as_ptr();
                    *slot_mut.ready.get_mut() = 0;
                    *slot_mut.used.get_mut() = 0;
                    drop(guard);
                    // SAFETY: the slot was just taken.
                    return Ok(unsafe { Handle::first(slot, self.clone()) });
                }
                Err(full) if last => {
                    let stats = store.pool.stats();
                    return Err(Error::OutOfMemory {
                        what: what(),
                        requested: bytes,
                        capacity: stats.capacity,
                        in_use: stats.in_use,
                        largest_free: full.largest_free,
                    });
                }
                Err(_) => {
                    drop(guard);
                    self.synchronize();
                }
            }
        }
        unreachable!("the second try returns")
    }

    /// Takes back the buffer of a slot whose last handle is gone.
    pub(crate) fn release(&self, slot: NonNull<Slot>) {
        // SAFETY: slots live as long as the device.
        let used = unsafe { slot.as_ref() }.used.load(Ordering::Relaxed);
        let mut store = lock(&self.0.store);
        if used <= self.0.queue.completed() {
            store.free(slot);
        } else {
            store.deferred.push((used, slot));
        }
    }

    /// Waits until the run with this ticket has finished, doing pending runs itself.
    pub(crate) fn wait(&self, ticket: u64) {
        self.0.queue.wait(&self.0, ticket);
    }

    /// Waits until every run so far has finished.
    pub fn synchronize(&self) {
        self.wait(self.0.queue.last_ticket());
        lock(&self.0.store).collect(self.0.queue.completed());
    }

    /// Counts of the pool.
    pub fn memory_stats(&self) -> PoolStats {
        let mut store = lock(&self.0.store);
        store.collect(self.0.queue.completed());
        store.pool.stats()
    }

    /// Makes the present use the peak of [`Device::memory_stats`].
    pub fn reset_peak(&self) {
        lock(&self.0.store).pool.reset_peak();
    }

    /// Transfers so far.
    pub fn transfers(&self) -> TransferStats {
        let c = &self.0.counters;
        TransferStats {
            host_to_device: c.put.read(),
            implicit_host_to_device: c.put_implicit.read(),
            device_to_host: c.get.read(),
        }
    }

    /// Runs so far.
    pub fn run_stats(&self) -> RunStats {
        let c = &self.0.counters;
        let copies = c.copies.read();
        RunStats {
            runs: c.runs.load(Ordering::Relaxed),
            inline: c.inline.load(Ordering::Relaxed),
            launches: c.launches.load(Ordering::Relaxed),
            copies: copies.count,
            copied_bytes: copies.bytes,
        }
    }

    /// Whether two handles are of one device.
    pub fn is_same(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device(cpu, {} threads)", self.threads())
    }
}
