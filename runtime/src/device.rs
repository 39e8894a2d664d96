//! Devices: memory, a queue, threads, and what is counted.

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kiln_ir::{Literal, Type};

use crate::array::{Array, Handle, Slot};
use crate::cpu::inside;
use crate::cpu::memory::{Reserved, physical};
use crate::cpu::team::Team;
use crate::error::Error;
use crate::lock;
use crate::pool::{End, Full, PoolStats};
use crate::queue::Queue;
use crate::stats::{Cause, Counters, RunStats, TransferStats};
use crate::store::{Store, Use};

/// How a device is set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Threads that run kernels, the caller's included; at least 1.
    pub threads: usize,
    /// Bytes of the pool: address space, touched on demand. Never exceeded.
    pub capacity: u64,
}

impl Default for Config {
    /// As many threads as cores, and as much address space as the machine has memory.
    fn default() -> Config {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Config { threads, capacity: physical() }
    }
}

pub(crate) struct Inner {
    /// Tells devices apart for as long as the process lives.
    pub number: u64,
    pub queue: Queue,
    pub store: Mutex<Store>,
    pub memory: Reserved,
    pub team: Team,
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
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let setup = |what: &str, e: std::io::Error| Error::Setup(format!("{what}: {e}"));
        Ok(Device(Arc::new(Inner {
            number,
            queue: Queue::new(number).map_err(|e| setup("a thread for the queue", e))?,
            store: Mutex::new(Store::new(config.capacity)),
            memory: Reserved::new(config.capacity)
                .map_err(|e| setup("address space for the pool", e))?,
            team: Team::new(number, config.threads).map_err(|e| setup("worker threads", e))?,
            counters: Counters::default(),
        })))
    }

    /// Threads that run kernels at most.
    pub fn threads(&self) -> usize {
        self.0.team.limit()
    }

    /// Lets at most `threads` threads run kernels, from the next one on: at least one,
    /// and no more than the device was set up with. Results do not depend on it.
    pub fn set_threads(&self, threads: usize) {
        self.0.team.set_limit(threads);
    }

    /// Copies host data to a new array.
    ///
    /// # Errors
    /// If the pool is full, or `bytes` is not as long as the type says.
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
        let array = self.write(ty, write)?;
        self.count_transfer_in(ty.bytes(), cause);
        Ok(array)
    }

    /// Copies several host arrays to the device as one transfer. Each gets a buffer of
    /// its own, so that each can be freed or donated by itself.
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

    /// A new array with these bytes; not counted as a transfer.
    ///
    /// # Errors
    /// As [`Device::put`].
    pub fn fill(&self, ty: &Type, bytes: &[u8]) -> Result<Array, Error> {
        self.check_host_bytes(ty, bytes.len())?;
        self.write(ty, |place| place.copy_from_slice(bytes))
    }

    fn write(&self, ty: &Type, write: impl FnOnce(&mut [u8])) -> Result<Array, Error> {
        let bytes = ty.bytes();
        let handle = self.allocate(bytes as u64, || format!("an array of {ty}"))?;
        // SAFETY: a fresh buffer of at least that many bytes that nobody else knows and
        // that no queued run touches: that is what `Use::Now` asks for. Pages of the pool
        // always hold bytes: zeros, or what was there before.
        write(unsafe { std::slice::from_raw_parts_mut(handle.slot().start, bytes) });
        Ok(Array::new(ty.clone(), handle))
    }

    /// A buffer to write at once. When the pool is full, waits for queued runs to give
    /// back theirs.
    fn allocate(&self, bytes: u64, what: impl Fn() -> String) -> Result<Handle, Error> {
        let Inner { store, memory, .. } = &*self.0;
        let attempt = || lock(store).allocate(bytes, End::High, Use::Now, memory, self);
        attempt()
            .or_else(|full| if self.is_inside() { Err(full) } else { self.drained(attempt) })
            .map_err(|full| self.out_of_memory(what(), bytes, full))
    }

    fn drained<R>(&self, attempt: impl Fn() -> R) -> R {
        self.synchronize();
        attempt()
    }

    pub(crate) fn out_of_memory(&self, what: String, requested: u64, full: Full) -> Error {
        Error::OutOfMemory {
            what,
            requested,
            capacity: full.capacity,
            in_use: full.in_use,
            largest_free: full.largest_free,
        }
    }

    /// Takes back the buffer of a slot whose last handle is gone.
    pub(crate) fn release(&self, slot: NonNull<Slot>) {
        lock(&self.0.store).release(slot, self.completed());
    }

    /// The last ticket of the queue that has finished.
    pub(crate) fn completed(&self) -> u64 {
        self.0.queue.completed()
    }

    /// Whether this thread is doing a run of this device.
    pub(crate) fn is_inside(&self) -> bool {
        inside::is_inside(self.0.number)
    }

    /// Waits until the run with this ticket has finished, doing queued runs itself.
    pub(crate) fn wait(&self, ticket: u64) -> Result<(), Error> {
        if self.completed() < ticket {
            if self.is_inside() {
                return Err(Error::Nested);
            }
            self.0.queue.wait(ticket);
        }
        Ok(())
    }

    /// Waits until every run so far has finished. Inside a run, which cannot wait for
    /// itself, does nothing.
    pub fn synchronize(&self) {
        if self.wait(self.0.queue.last_ticket()).is_ok() {
            lock(&self.0.store).collect(self.completed());
        }
    }

    /// Counts of the pool.
    pub fn memory_stats(&self) -> PoolStats {
        let mut store = lock(&self.0.store);
        store.collect(self.completed());
        store.pool.stats()
    }

    /// Makes the present use the peak of [`Device::memory_stats`].
    pub fn reset_peak(&self) {
        lock(&self.0.store).pool.reset_peak();
    }

    /// Transfers so far.
    pub fn transfers(&self) -> TransferStats {
        self.0.counters.transfers()
    }

    /// Runs so far.
    pub fn run_stats(&self) -> RunStats {
        self.0.counters.runs()
    }

    /// Whether two handles are of one device.
    pub fn is_same(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
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

    pub(crate) fn check_host_bytes(&self, ty: &Type, given: usize) -> Result<(), Error> {
        let wanted = ty.bytes();
        if given == wanted {
            return Ok(());
        }
        Err(Error::HostBytes { ty: Box::new(ty.clone()), wanted, given })
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device(cpu, {} threads)", self.threads())
    }
}
