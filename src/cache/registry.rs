//! All entries of all tables: the bound on their number, and the listing.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kiln_ir::Source;

use super::Entry;
use crate::config::config;

/// Programs kept when nothing else is said.
const DEFAULT_CAPACITY: usize = 4096;

struct Registry {
    entries: Vec<Weak<Entry>>,
    capacity: Option<usize>,
    misses: u64,
    evictions: u64,
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { entries: Vec::new(), capacity: None, misses: 0, evictions: 0 });

/// Counts uses, so that the longest unused entry is known.
static CLOCK: AtomicU64 = AtomicU64::new(0);

pub(super) fn tick() -> u64 {
    CLOCK.fetch_add(1, Ordering::Relaxed)
}

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    fn live(&self) -> Vec<Arc<Entry>> {
        self.entries.iter().filter_map(Weak::upgrade).collect()
    }

    fn capacity(&self) -> usize {
        let configured = || config().ok().and_then(|c| c.cache_entries);
        self.capacity.or_else(configured).unwrap_or(DEFAULT_CAPACITY)
    }

    /// Entries beyond the capacity, the longest unused first, and off the list.
    fn surplus(&mut self) -> Vec<Arc<Entry>> {
        let mut live = self.live();
        live.sort_by_key(|e| e.last_used.load(Ordering::Relaxed));
        let surplus = live.len().saturating_sub(self.capacity());
        let kept = live.split_off(surplus);
        self.entries = kept.iter().map(Arc::downgrade).collect();
        self.evictions += live.len() as u64;
        live
    }
}

/// Lists a new entry, and drops old ones beyond the capacity.
pub(super) fn add(entry: &Arc<Entry>) {
    let surplus = {
        let mut registry = registry();
        registry.misses += 1;
        registry.entries.push(Arc::downgrade(entry));
        registry.surplus()
    };
    surplus.iter().for_each(|e| e.evict());
}

/// Keeps at most this many programs, over all functions.
pub fn set_capacity(entries: usize) {
    let surplus = {
        let mut registry = registry();
        registry.capacity = Some(entries.max(1));
        registry.surplus()
    };
    surplus.iter().for_each(|e| e.evict());
}

/// Drops every program. Calls that are running finish.
pub fn clear() {
    let all = {
        let mut registry = registry();
        let all = registry.live();
        registry.entries.clear();
        all
    };
    all.iter().for_each(|e| e.evict());
}

/// Counts since the process began, and what is held now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Programs held.
    pub entries: usize,
    /// Most programs held.
    pub capacity: usize,
    /// Calls of held programs that found them built.
    pub hits: u64,
    /// Calls that built one.
    pub misses: u64,
    /// Programs dropped for the capacity.
    pub evictions: u64,
    /// Bytes of machine code held.
    pub code_bytes: u64,
}

/// Counts since the process began, and what is held now.
pub fn stats() -> Stats {
    let registry = registry();
    let live = registry.live();
    Stats {
        entries: live.len(),
        capacity: registry.capacity(),
        hits: live.iter().map(|e| e.hits.load(Ordering::Relaxed)).sum(),
        misses: registry.misses,
        evictions: registry.evictions,
        code_bytes: live.iter().map(|e| e.built.compiled.code_bytes()).sum(),
    }
}

/// One compiled call.
#[derive(Clone, Debug)]
pub struct EntryInfo {
    /// Name of the function; `lazy` for expressions outside one.
    pub function: String,
    /// Digest of the key.
    pub key: String,
    /// The line of the `jit`, or of an expression's last op.
    pub source: Option<Source>,
    /// Leaf paths with types and passing, statics with values.
    pub arguments: Vec<(String, String)>,
    /// Time per phase, in order.
    pub phases: Vec<(String, Duration)>,
    /// Calls that found it built.
    pub hits: u64,
    /// Bytes of machine code.
    pub code_bytes: u64,
    /// Bytes held while it runs, inputs and outputs included.
    pub peak_bytes: u64,
    /// How the call that built it differs from the nearest entry there was.
    pub why: String,
}

impl EntryInfo {
    /// Sum of the phases.
    pub fn time(&self) -> Duration {
        self.phases.iter().map(|(_, time)| *time).sum()
    }
}

/// Every compiled call, the longest unused first.
pub fn entries() -> Vec<EntryInfo> {
    let mut live = registry().live();
    live.sort_by_key(|e| e.last_used.load(Ordering::Relaxed));
    live.iter().map(|e| info(e)).collect()
}

pub(crate) fn info(entry: &Entry) -> EntryInfo {
    let built = &entry.built;
    let phases = built.phases.iter().chain(built.compiled.phases());
    EntryInfo {
        function: entry.function.clone(),
        key: format!("{:016x}", digest(&entry.key)),
        source: built.origin.source.clone(),
        arguments: built.origin.fields.clone(),
        phases: phases.map(|&(name, time)| (name.to_string(), time)).collect(),
        hits: entry.hits.load(Ordering::Relaxed),
        code_bytes: built.compiled.code_bytes(),
        peak_bytes: built.compiled.memory().peak(),
        why: entry.why.clone(),
    }
}

/// A short name for a key, the same in every run: FNV-1a over the words.
fn digest(words: &[u64]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &word| {
        let hash = (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        hash ^ (hash >> 29)
    })
}

/// The entries as a table for people.
pub fn report() -> String {
    let stats = stats();
    let mut text = format!(
        "compile cache: {} of {} programs, {} hits, {} misses, {} evictions, {} bytes of code\n",
        stats.entries, stats.capacity, stats.hits, stats.misses, stats.evictions, stats.code_bytes
    );
    for e in entries() {
        let source = e.source.as_ref().map(|s| format!(" at {s}")).unwrap_or_default();
        let milliseconds = |d: Duration| d.as_secs_f64() * 1e3;
        let phases: Vec<String> = e
            .phases
            .iter()
            .map(|(name, time)| format!("{name} {:.2}", milliseconds(*time)))
            .collect();
        let arguments: Vec<String> =
            e.arguments.iter().map(|(path, value)| format!("{path}: {value}")).collect();
        _ = writeln!(text, "{} {}{source}", e.key, e.function);
        _ = writeln!(text, "  arguments  {}", abbreviated(&arguments));
        _ = writeln!(
            text,
            "  hits {}, code {} B, peak {} B, {:.2} ms ({})",
            e.hits,
            e.code_bytes,
            e.peak_bytes,
            milliseconds(e.time()),
            phases.join(", ")
        );
        _ = writeln!(text, "  missed because  {}", e.why);
    }
    text
}

/// The first few of a list.
fn abbreviated(items: &[String]) -> String {
    const SHOWN: usize = 8;
    match items.len() {
        0 => "none".to_string(),
        n if n <= SHOWN => items.join(", "),
        n => format!("{}, … {} more", items[..SHOWN].join(", "), n - SHOWN),
    }
}
