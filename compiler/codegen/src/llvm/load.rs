//! Machine code in memory, through LLVM's ORC.
//!
//! One ORC session serves a loader and everything loaded by it. Each executable gets
//! a library (ORC's namespace of symbols) to itself, so that two that hold the same
//! kernel do not meet; a library is used again after its executable is dropped, since
//! ORC cannot delete one.
//!
//! Objects are checked before ORC sees them (`elf`), and link against nothing but a
//! fixed list of functions: an object that wants another symbol is refused. Everything
//! that goes wrong is a [`LoadError`]; nothing is printed.
//!
//! This file holds the unsafe calls of ORC and turns addresses into functions.

use std::ffi::{CStr, CString, c_char, c_void};
use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use inkwell::llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use inkwell::llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use inkwell::llvm_sys::orc2::lljit::*;
use inkwell::llvm_sys::orc2::*;
use kiln_executable::{Code, Executable, KernelFn, LoadError, Loader};

use super::elf;
use super::target::{self, Isa};

/// Loads executables into this process.
pub struct OrcLoader {
    session: Arc<Session>,
}

impl OrcLoader {
    /// A loader with an ORC session of its own.
    ///
    /// # Errors
    /// If ORC does not know this machine.
    pub fn new() -> Result<OrcLoader, LoadError> {
        Ok(OrcLoader { session: Arc::new(Session::new()?) })
    }

    /// Loads objects and finds the entries called `symbols`.
    pub(crate) fn load_objects(
        &self,
        objects: &[Arc<[u8]>],
        symbols: &[&str],
    ) -> Result<Box<dyn Code>, LoadError> {
        Ok(Box::new(self.session.load(objects, symbols)?))
    }
}

impl fmt::Debug for OrcLoader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OrcLoader")
    }
}

impl Loader for OrcLoader {
    fn load(&self, executable: &Executable) -> Result<Box<dyn Code>, LoadError> {
        let parts = executable.parts();
        let symbols: Vec<&str> = parts.kernels.iter().map(|k| k.symbol.as_str()).collect();
        self.load_objects(&parts.objects, &symbols)
    }
}

/// Code of one executable.
struct Loaded {
    session: Arc<Session>,
    library: Library,
    tracker: Tracker,
    entries: Vec<KernelFn>,
    code_bytes: u64,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loaded({} entries, {} bytes)", self.entries.len(), self.code_bytes)
    }
}

impl Code for Loaded {
    fn entry(&self, kernel: usize) -> KernelFn {
        self.entries[kernel]
    }

    fn code_bytes(&self) -> u64 {
        self.code_bytes
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.session.unload(self.tracker, self.library);
    }
}

/// An ORC session.
struct Session {
    jit: LLVMOrcLLJITRef,
    /// Libraries that hold no objects at the moment, and how many were ever made.
    libraries: Mutex<(Vec<Library>, usize)>,
    /// What ORC reported while something was linked. Boxed: ORC keeps its address.
    reports: Box<Mutex<Vec<String>>>,
}

// SAFETY: ORC's session locks itself; every call made here may come from any thread.
// The rest of the state is behind mutexes.
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

/// A JITDylib. It lives as long as its session.
#[derive(Clone, Copy)]
struct Library(LLVMOrcJITDylibRef);

/// A resource tracker: what it tracks is removed together.
#[derive(Clone, Copy)]
struct Tracker(LLVMOrcResourceTrackerRef);

// SAFETY: both are handles that are only used with their session, which locks.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}
// SAFETY: as above.
unsafe impl Send for Tracker {}
// SAFETY: as above.
unsafe impl Sync for Tracker {}

impl Session {
    fn new() -> Result<Session, LoadError> {
        target::machine(Isa::detect()).map_err(|e| LoadError(e.to_string()))?;
        let mut jit = ptr::null_mut();
        // SAFETY: a null builder asks for the defaults; `jit` is where the result goes.
        check(unsafe { LLVMOrcCreateLLJIT(&mut jit, ptr::null_mut()) })?;
        let reports = Box::new(Mutex::new(Vec::new()));
        let context = &raw const *reports as *mut c_void;
        // SAFETY: `jit` is live; `report` takes the mutex that `context` points to, which
        // the session keeps at its address until `jit` is gone.
        unsafe {
            let session = LLVMOrcLLJITGetExecutionSession(jit);
            LLVMOrcExecutionSessionSetErrorReporter(session, report, context);
        }
        Ok(Session { jit, libraries: Mutex::default(), reports })
    }

    fn orc(&self) -> LLVMOrcExecutionSessionRef {
        // SAFETY: `jit` is live as long as `self`.
        unsafe { LLVMOrcLLJITGetExecutionSession(self.jit) }
    }

    fn load(
        self: &Arc<Self>,
        objects: &[Arc<[u8]>],
        symbols: &[&str],
    ) -> Result<Loaded, LoadError> {
        let opened: Vec<elf::Object> = objects
            .iter()
            .map(|o| elf::open(o))
            .collect::<Result<_, _>>()
            .map_err(|e| LoadError(e.to_string()))?;
        let library = self.library()?;
        // SAFETY: the library is live.
        let tracker = Tracker(unsafe { LLVMOrcJITDylibCreateResourceTracker(library.0) });
        match self.link(library, tracker, &opened, symbols) {
            Ok(entries) => {
                let code_bytes = opened.iter().map(|o| o.code).sum();
                let session = Arc::clone(self);
                Ok(Loaded { session, library, tracker, entries, code_bytes })
            }
            Err(error) => {
                self.unload(tracker, library);
                Err(error)
            }
        }
    }

    fn link(
        &self,
        library: Library,
        tracker: Tracker,
        objects: &[elf::Object],
        symbols: &[&str],
    ) -> Result<Vec<KernelFn>, LoadError> {
        for object in objects {
            // SAFETY: the range is that of `bytes`; LLVM copies it. Adding takes the
            // buffer over in any case, and the tracker is live.
            check(unsafe {
                let bytes = object.bytes;
                let buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(
                    bytes.as_ptr() as *const c_char,
                    bytes.len(),
                    c"kiln".as_ptr(),
                );
                LLVMOrcLLJITAddObjectFileWithRT(self.jit, tracker.0, buffer)
            })?;
        }
        let addresses = self.lookup(library, symbols)?;
        // SAFETY: these are the addresses of entries that the compiler emitted with this
        // signature; the code stays mapped until the tracker is removed, which the
        // owner of the entries does when it is dropped.
        let entry = |a: u64| unsafe { std::mem::transmute::<usize, KernelFn>(a as usize) };
        Ok(addresses.into_iter().map(entry).collect())
    }

    /// The addresses of symbols, which links the objects.
    fn lookup(&self, library: Library, symbols: &[&str]) -> Result<Vec<u64>, LoadError> {
        if symbols.is_empty() {
            return Ok(Vec::new());
        }
        let mut wanted = Vec::new();
        let mut order: Vec<&str> = symbols.to_vec();
        order.sort_unstable();
        order.dedup();
        for symbol in &order {
            let name =
                CString::new(*symbol).map_err(|_| LoadError(format!("symbol {symbol:?}")))?;
            wanted.push(LLVMOrcCLookupSetElement {
                // SAFETY: the name is a terminated string; the reference that interning
                // counts is given to the lookup below.
                Name: unsafe { LLVMOrcLLJITMangleAndIntern(self.jit, name.as_ptr()) },
                LookupFlags: LLVMOrcSymbolLookupFlags::LLVMOrcSymbolLookupFlagsRequiredSymbol,
            });
        }
        let mut path = [LLVMOrcCJITDylibSearchOrderElement {
            JD: library.0,
            JDLookupFlags: LLVMOrcJITDylibLookupFlags::LLVMOrcJITDylibLookupFlagsMatchAllSymbols,
        }];
        let (sender, receiver) = mpsc::channel::<Answer>();
        let context = Box::into_raw(Box::new(sender)) as *mut c_void;
        lock(&self.reports).clear();
        // SAFETY: the arrays are live for the call and as long as said. ORC calls
        // `answer` exactly once, from whatever thread, and that frees `context`.
        unsafe {
            LLVMOrcExecutionSessionLookup(
                self.orc(),
                LLVMOrcLookupKind::LLVMOrcLookupKindStatic,
                path.as_mut_ptr(),
                path.len(),
                wanted.as_mut_ptr(),
                wanted.len(),
                answer,
                context,
            );
        }
        let found = receiver.recv().unwrap_or_else(|_| Err("ORC did not answer".to_string()));
        let found = found.map_err(|message| {
            let mut all = vec![message];
            all.append(&mut lock(&self.reports));
            LoadError(all.join("; "))
        })?;
        let address = |symbol: &&str| {
            let hit = found.iter().find(|(name, _)| name == symbol);
            hit.map(|(_, a)| *a).ok_or_else(|| LoadError(format!("no symbol `{symbol}`")))
        };
        symbols.iter().map(address).collect()
    }

    /// A library without objects.
    fn library(&self) -> Result<Library, LoadError> {
        let number = {
            let mut libraries = lock(&self.libraries);
            if let Some(library) = libraries.0.pop() {
                return Ok(library);
            }
            libraries.1 += 1;
            libraries.1
        };
        let name = CString::new(format!("kiln{number}")).expect("no zero byte");
        // SAFETY: the session is live, the name terminated and not in use.
        let library =
            unsafe { LLVMOrcExecutionSessionCreateBareJITDylib(self.orc(), name.as_ptr()) };
        let mut pairs: Vec<LLVMOrcCSymbolMapPair> = kiln_kernels::provided()
            .into_iter()
            .map(|(name, address)| LLVMOrcCSymbolMapPair {
                // SAFETY: the name is a terminated string; the definition below takes the
                // counted reference over.
                Name: unsafe { LLVMOrcLLJITMangleAndIntern(self.jit, name.as_ptr()) },
                Sym: LLVMJITEvaluatedSymbol {
                    Address: address as u64,
                    Flags: LLVMJITSymbolFlags {
                        GenericFlags: LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsExported
                            as u8
                            | LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsCallable as u8,
                        TargetFlags: 0,
                    },
                },
            })
            .collect();
        // SAFETY: the pairs are copied; the library takes the unit over.
        check(unsafe {
            let unit = LLVMOrcAbsoluteSymbols(pairs.as_mut_ptr(), pairs.len());
            LLVMOrcJITDylibDefine(library, unit)
        })?;
        Ok(Library(library))
    }

    fn unload(&self, tracker: Tracker, library: Library) {
        // SAFETY: the tracker is live and released once; its owner promises that none of
        // its code runs.
        let removed = check(unsafe {
            let error = LLVMOrcResourceTrackerRemove(tracker.0);
            LLVMOrcReleaseResourceTracker(tracker.0);
            error
        });
        // A library whose objects would not go is not used again.
        if removed.is_ok() {
            lock(&self.libraries).0.push(library);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: nothing loaded is left, since it would hold the session; the reports
        // are dropped after this.
        let _ = check(unsafe { LLVMOrcDisposeLLJIT(self.jit) });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An LLVM error as one of ours.
fn check(error: LLVMErrorRef) -> Result<(), LoadError> {
    if error.is_null() { Ok(()) } else { Err(LoadError(message(error))) }
}

fn message(error: LLVMErrorRef) -> String {
    // SAFETY: `error` is a live error, which asking for the message consumes; the message
    // is a terminated string until it is disposed of.
    unsafe {
        let text = LLVMGetErrorMessage(error);
        let message = CStr::from_ptr(text).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(text);
        message
    }
}

/// Addresses by symbol, or what went wrong.
type Answer = Result<Vec<(String, u64)>, String>;

/// Takes the result of a lookup; `context` is a boxed sender.
extern "C" fn answer(
    error: LLVMErrorRef,
    pairs: LLVMOrcCSymbolMapPairs,
    count: usize,
    context: *mut c_void,
) {
    // SAFETY: `lookup` made `context` of a boxed sender, and ORC calls this once.
    let sender = unsafe { Box::from_raw(context as *mut mpsc::Sender<Answer>) };
    let result = if error.is_null() {
        // SAFETY: ORC passes `count` pairs, whose names are strings of its pool.
        let pairs = unsafe { std::slice::from_raw_parts(pairs, count) };
        let name = |pair: &LLVMOrcCSymbolMapPair| {
            // SAFETY: as above.
            let name = unsafe { CStr::from_ptr(LLVMOrcSymbolStringPoolEntryStr(pair.Name)) };
            name.to_string_lossy().into_owned()
        };
        Ok(pairs.iter().map(|p| (name(p), p.Sym.Address)).collect())
    } else {
        Err(message(error))
    };
    // The receiver waits for this, so it is there.
    let _ = sender.send(result);
}

/// Takes what ORC would print.
extern "C" fn report(context: *mut c_void, error: LLVMErrorRef) {
    if error.is_null() {
        return;
    }
    let text = message(error);
    // SAFETY: the session keeps the mutex at this address as long as ORC may report.
    let reports = unsafe { &*(context as *const Mutex<Vec<String>>) };
    lock(reports).push(text);
}
