//! Tables of compiled calls.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use kiln_ir::Source;

use super::{registry, why};
use crate::compile::{Compiled, Input};
use crate::device::Array;
use crate::tensor::Repr;
use crate::{Error, Tensor};

/// The compiled calls of one function.
pub(crate) struct Table {
    name: String,
    slots: Mutex<HashMap<Box<[u64]>, Arc<Slot>>>,
}

/// A place for an entry that is there or being built.
#[derive(Default)]
struct Slot {
    /// Held while building.
    building: Mutex<()>,
    entry: OnceLock<Arc<Entry>>,
}

/// What a miss builds.
pub(crate) struct Built {
    pub compiled: Arc<Compiled>,
    pub origin: Origin,
    /// Tensors for the hidden parameters, in order.
    pub captures: Vec<Tensor>,
    /// What the table's owner needs to turn outputs into results.
    pub template: Box<dyn Any + Send + Sync>,
    /// Time spent before compiling, such as tracing.
    pub phases: Vec<(&'static str, Duration)>,
}

/// What a call looks like to people.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    /// The line of the function, or of the last op of an expression.
    pub source: Option<Source>,
    /// The parts of the key: leaf paths with types, statics with values.
    pub fields: Vec<(String, String)>,
}

/// A compiled call.
pub(crate) struct Entry {
    pub function: String,
    pub key: Box<[u64]>,
    pub built: Built,
    /// Why no earlier entry served the call.
    pub why: String,
    pub hits: AtomicU64,
    pub last_used: AtomicU64,
    owner: std::sync::Weak<Table>,
}

impl Table {
    pub(crate) fn new(name: impl Into<String>) -> Arc<Table> {
        Arc::new(Table { name: name.into(), slots: Mutex::default() })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Box<[u64]>, Arc<Slot>>> {
        // No user code runs under the lock.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry for these words, if it has been built.
    pub(crate) fn get(&self, key: &[u64]) -> Option<Arc<Entry>> {
        let slots = self.slots();
        let entry = slots.get(key)?.entry.get()?;
        entry.touch();
        Some(entry.clone())
    }

    /// The entry for these words, built if need be.
    ///
    /// # Errors
    /// What `build` returns; the next call with this key builds again.
    pub(crate) fn get_or_build(
        self: &Arc<Table>,
        key: &[u64],
        build: impl FnOnce() -> Result<Built, Error>,
    ) -> Result<Arc<Entry>, Error> {
        let slot = {
            let mut slots = self.slots();
            match slots.get(key) {
                Some(slot) => {
                    if let Some(entry) = slot.entry.get() {
                        entry.touch();
                        return Ok(entry.clone());
                    }
                    slot.clone()
                }
                None => slots.entry_ref(key).or_default().clone(),
            }
        };
        let _building = slot.building.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = slot.entry.get() {
            entry.touch();
            return Ok(entry.clone());
        }
        // Whatever happens in `build`, the slot does not outlive a failure: also
        // not when the user's function panics.
        let unfinished = Unfinished { table: self, key, slot: &slot };
        let built = build()?;
        std::mem::forget(unfinished);
        let earlier = self.entries();
        let entry = Arc::new(Entry {
            function: self.name.clone(),
            key: key.into(),
            why: why::why(&built.origin, earlier.iter().map(|e| &e.built.origin)),
            built,
            hits: AtomicU64::new(0),
            last_used: AtomicU64::new(registry::tick()),
            owner: Arc::downgrade(self),
        });
        slot.entry.get_or_init(|| entry.clone());
        // The slot may have been cleared away meanwhile; the entry is then only
        // this call's.
        let listed = self.slots().get(key).is_some_and(|s| Arc::ptr_eq(s, &slot));
        if listed {
            registry::add(&entry);
        }
        Ok(entry)
    }

    fn remove(&self, key: &[u64], slot: &Arc<Slot>) {
        let mut slots = self.slots();
        if slots.get(key).is_some_and(|s| Arc::ptr_eq(s, slot)) {
            slots.remove(key);
        }
    }

    /// The entries, in the order of their last use.
    pub(crate) fn entries(&self) -> Vec<Arc<Entry>> {
        let mut entries: Vec<Arc<Entry>> =
            self.slots().values().filter_map(|slot| slot.entry.get().cloned()).collect();
        entries.sort_by_key(|e| e.last_used.load(Ordering::Relaxed));
        entries
    }
}

/// Takes the slot of a build that did not finish out of the table.
struct Unfinished<'a> {
    table: &'a Table,
    key: &'a [u64],
    slot: &'a Arc<Slot>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.table.remove(self.key, self.slot);
    }
}

impl Entry {
    fn touch(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
        self.last_used.store(registry::tick(), Ordering::Relaxed);
    }

    /// Takes the entry out of its table. Runs that are under way keep it alive.
    pub(crate) fn evict(&self) {
        if let Some(table) = self.owner.upgrade() {
            let removed = table.slots().remove(&self.key);
            // Dropped here, after the lock: it may free device memory.
            drop(removed);
        }
    }

    /// Runs the program. `inputs` are the explicit arguments; hidden ones are added
    /// here.
    ///
    /// # Errors
    /// If it cannot run. The inputs are then as they were.
    pub(crate) fn run(
        &self,
        inputs: &mut Vec<Input>,
        outputs: &mut Vec<Array>,
    ) -> Result<(), Error> {
        let explicit = inputs.len();
        for tensor in &self.built.captures {
            match tensor.repr() {
                Repr::Array(array) => inputs.push(Input::Kept(array.clone())),
                _ => return Err(Error::internal("a capture that is no array")),
            }
        }
        let result = self.built.compiled.run(inputs, outputs);
        if result.is_err() {
            inputs.truncate(explicit);
        }
        result
    }
}
