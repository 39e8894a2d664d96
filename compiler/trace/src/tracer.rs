//! The stack of open traces.
//!
//! ```text
//!   Trace::begin ─ parameter.. ─ run(closure) ─ output.. ─ finish ──▶ Finished
//!                                  │  ▲
//!                       record ────┘  └──── unwind (a poisoned value was asked)
//! ```
//!
//! The stack is per thread and a [`Traced`] value carries the id of its trace,
//! so a value that leaked out of its closure, or travelled to another thread, is
//! recognised. A value of an enclosing trace is captured: it becomes a hidden
//! parameter of the inner graph, like a concrete tensor.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use kiln_ir::op::Constant;
use kiln_ir::{Graph, Literal, Op, ParameterInfo, Type, Value};
use smallvec::SmallVec;

use crate::location::OpenScope;
use crate::{At, Error};

/// Identifies one trace among all of the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TraceId(u64);

/// A value of an open trace.
#[derive(Clone, Debug)]
pub struct Traced {
    trace: TraceId,
    value: Value,
    ty: Type,
}

impl Traced {
    /// Its type.
    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// The value in its trace's graph.
    pub fn value(&self) -> Value {
        self.value
    }

    /// The trace it belongs to.
    pub fn trace(&self) -> TraceId {
        self.trace
    }
}

/// Identifies something captured, so that it becomes one hidden parameter
/// however often it is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CaptureKey {
    /// Something the caller of [`capture`] numbers.
    External(u64),
    /// A value of an enclosing trace.
    Outer(TraceId, Value),
}

/// A hidden parameter: something concrete that the closure used without it
/// being an argument.
pub struct Capture {
    /// What was captured.
    pub key: CaptureKey,
    /// What the caller of [`capture`] wants back, or the outer [`Traced`].
    pub payload: Box<dyn Any>,
    value: Value,
}

/// A finished trace.
pub struct Finished {
    /// The recorded graph: explicit parameters, then one for each capture.
    pub graph: Graph,
    /// The captures in parameter order.
    pub captures: Vec<Capture>,
}

struct Open {
    id: TraceId,
    graph: Graph,
    captures: Vec<Capture>,
    failure: Option<Error>,
}

thread_local! {
    static STACK: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// The payload of the silent unwind out of a user's closure.
struct Unwound(Error);

/// Whether a trace is open on this thread.
pub fn is_open() -> bool {
    STACK.with_borrow(|stack| !stack.is_empty())
}

/// An open trace. Dropping it closes the trace, also when unwinding.
pub struct Trace {
    id: TraceId,
    _scope: OpenScope,
    /// Traces belong to their thread.
    _not_send: PhantomData<*const ()>,
}

impl Trace {
    /// Opens a trace on this thread. `at` is the line shown for ops whose own
    /// line is unknown.
    pub fn begin(name: &str, at: At) -> Trace {
        let id = TraceId(NEXT.fetch_add(1, Ordering::Relaxed));
        let open = Open { id, graph: Graph::new(name), captures: Vec::new(), failure: None };
        STACK.with_borrow_mut(|stack| stack.push(open));
        Trace { id, _scope: OpenScope::push(None, at), _not_send: PhantomData }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Open) -> R) -> R {
        STACK.with_borrow_mut(|stack| {
            let open = stack.last_mut().expect("the trace is on the stack");
            assert_eq!(open.id, self.id, "traces nest");
            f(open)
        })
    }

    /// Appends an explicit parameter. All come before [`Trace::run`].
    pub fn parameter(&self, ty: Type, info: ParameterInfo) -> Traced {
        self.with(|open| {
            assert!(open.captures.is_empty(), "explicit parameters come first");
            let value = open.graph.add_parameter(ty.clone(), info);
            Traced { trace: self.id, value, ty }
        })
    }

    /// Runs the closure.
    ///
    /// # Errors
    /// If a poisoned value's shape was asked for, or the closure panicked after a
    /// recorded mistake: the mistake. A panic without one goes on unwinding.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> Result<R, Error> {
        // Unwind safety: the trace is closed or its graph thrown away on every
        // path that does not return `Ok`.
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(result) => Ok(result),
            Err(payload) => {
                let failure = self.with(|open| open.failure.clone());
                match (payload.downcast::<Unwound>(), failure) {
                    (_, Some(failure)) => Err(failure),
                    (Ok(unwound), None) => Err(unwound.0),
                    (Err(panic), None) => resume_unwind(panic),
                }
            }
        }
    }

    /// Makes `value` an output of the graph.
    ///
    /// # Errors
    /// If it belongs to no open trace of this thread.
    pub fn output(&self, value: &Traced, name: String) -> Result<(), Error> {
        let own = lift(value).ok_or_else(leaked)?;
        self.with(|open| open.graph.add_output(own, name));
        Ok(())
    }

    /// Closes the trace and returns its graph.
    ///
    /// # Errors
    /// The first mistake of the trace.
    pub fn finish(self) -> Result<Finished, Error> {
        let open = self.with(|open| {
            let graph = std::mem::replace(&mut open.graph, Graph::new(""));
            let captures = std::mem::take(&mut open.captures);
            (open.failure.take(), graph, captures)
        });
        match open {
            (Some(failure), ..) => Err(failure),
            (None, graph, captures) => Ok(Finished { graph, captures }),
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let closed = STACK.with_borrow_mut(|stack| {
            let at = stack.iter().position(|open| open.id == self.id);
            at.map(|i| stack.split_off(i))
        });
        // Captures may own tensors, whose drop must not find the stack borrowed.
        drop(closed);
    }
}

/// Appends an op to the innermost open trace.
///
/// # Errors
/// If the op rejects the operands or one of them is of another trace. The first
/// such mistake is kept for [`Trace::finish`]; every one is returned to poison
/// its result.
///
/// # Panics
/// If no trace is open: ask [`is_open`], or pass a traced operand, in which case
/// it is the leaked-value error instead.
pub fn record(op: Op, operands: &[&Traced], at: At) -> Result<SmallVec<[Traced; 1]>, Error> {
    let mut values: SmallVec<[Value; 3]> = SmallVec::new();
    for operand in operands {
        match lift(operand) {
            Some(value) => values.push(value),
            None => return Err(fail(leaked().with_op(op.name()), at)),
        }
    }
    let recorded = STACK.with_borrow_mut(|stack| {
        let open = stack.last_mut().expect("a trace is open");
        let added = open.graph.add(op, &values, Some(at.source()));
        added.map(|node| -> SmallVec<[Traced; 1]> {
            let graph = &open.graph;
            graph
                .results(node)
                .map(|value| Traced { trace: open.id, value, ty: graph.ty(value).clone() })
                .collect()
        })
    });
    recorded.map_err(|e| {
        let error = Error::user(e.message()).with_op(e.op());
        let label = |operand: &Traced| operand.ty().to_string();
        let error = operands.iter().fold(error, |error, t| blame(error, &label(t), t));
        fail(error, at)
    })
}

/// Appends the nodes of a graph, with the sources that they have, applied to `operands`;
/// returns what the graph's outputs became.
///
/// # Errors
/// If one of the operands is of another trace.
///
/// # Panics
/// If no trace is open, or the operands are not of the types of the parameters.
pub fn replay(graph: &Graph, operands: &[Traced], at: At) -> Result<Vec<Traced>, Error> {
    let mut places: HashMap<Value, Value> = HashMap::new();
    for (parameter, operand) in graph.parameters().zip(operands) {
        assert_eq!(graph.ty(parameter), operand.ty(), "an operand of another type");
        let value = lift(operand).ok_or_else(|| fail(leaked(), at))?;
        places.insert(parameter, value);
    }
    STACK.with_borrow_mut(|stack| {
        let open = stack.last_mut().expect("a trace is open");
        for node in graph.order() {
            if graph.parameter_index(node).is_some() {
                continue;
            }
            let operands: SmallVec<[Value; 3]> =
                graph.operands(node).iter().map(|v| places[v]).collect();
            let source = graph.source(node).cloned().or_else(|| Some(at.source()));
            let copy = open.graph.add(graph.op(node).clone(), &operands, source);
            let copy = copy.expect("the same op takes operands of the same types");
            places.extend(graph.results(node).zip(open.graph.results(copy)));
        }
        let traced = |&value: &Value| {
            let value = places[&value];
            Traced { trace: open.id, value, ty: open.graph.ty(value).clone() }
        };
        Ok(graph.outputs().iter().map(traced).collect())
    })
}

/// Appends a constant to the innermost open trace.
///
/// # Errors
/// As [`record`]; a literal is never rejected.
pub fn constant(value: Literal, at: At) -> Result<Traced, Error> {
    let mut results = record(Constant { value }.into(), &[], at)?;
    Ok(results.remove(0))
}

/// Notes a mistake that was found before an op was recorded, with the user's
/// line. The innermost trace keeps its first; without a trace the error is just
/// returned.
pub fn fail(error: Error, at: At) -> Error {
    let error = error.or_source(|| at.source());
    STACK.with_borrow_mut(|stack| {
        if let Some(open) = stack.last_mut() {
            open.failure.get_or_insert_with(|| error.clone());
        }
    });
    error
}

/// The hidden parameter for something concrete, made when it is first used.
///
/// # Panics
/// If no trace is open.
pub fn capture(
    key: u64,
    ty: &Type,
    name: String,
    payload: impl FnOnce() -> Box<dyn Any>,
) -> Traced {
    STACK.with_borrow_mut(|stack| {
        let open = stack.last_mut().expect("a trace is open");
        let value = open.capture(CaptureKey::External(key), ty, name, payload);
        Traced { trace: open.id, value, ty: ty.clone() }
    })
}

/// Leaves the user's closure for the boundary of the innermost trace, without
/// running the panic hook: a poisoned value has been asked for something that
/// only a right one has. With `panic = "abort"` this ends the process.
///
/// # Panics
/// If no trace is open.
pub fn unwind(error: Error) -> ! {
    assert!(is_open(), "no trace to unwind to: {error}");
    resume_unwind(Box::new(Unwound(error)))
}

/// The error with where `traced`, called `label` in it, comes from: a line, or an
/// argument of the traced function.
pub fn blame(error: Error, label: &str, traced: &Traced) -> Error {
    STACK.with_borrow(|stack| {
        let Some(open) = stack.iter().find(|open| open.id == traced.trace) else { return error };
        let node = traced.value.node;
        match (open.graph.source(node), open.graph.parameter_index(node)) {
            (Some(source), _) => error.with_origin(label, source.clone()),
            (None, Some(i)) => {
                let name = &open.graph.parameter_info(i).name;
                error.with_note(format!("{label} is the argument `{name}`"))
            }
            (None, None) => error,
        }
    })
}

/// The value as one of the innermost trace: itself, or a capture of an enclosing
/// trace's value. `None` if its trace is not open on this thread.
fn lift(traced: &Traced) -> Option<Value> {
    STACK.with_borrow_mut(|stack| {
        let home = stack.iter().position(|open| open.id == traced.trace)?;
        let innermost = stack.len() - 1;
        // Each trace between must capture it, from the outside in.
        let mut current = traced.clone();
        for open in &mut stack[home + 1..=innermost] {
            let key = CaptureKey::Outer(current.trace, current.value);
            let outer = current.clone();
            let value = open.capture(key, &traced.ty, String::new(), || Box::new(outer));
            current = Traced { trace: open.id, value, ty: traced.ty.clone() };
        }
        Some(current.value)
    })
}

impl Open {
    fn capture(
        &mut self,
        key: CaptureKey,
        ty: &Type,
        name: String,
        payload: impl FnOnce() -> Box<dyn Any>,
    ) -> Value {
        if let Some(known) = self.captures.iter().find(|c| c.key == key) {
            return known.value;
        }
        let value = self.graph.add_parameter(ty.clone(), ParameterInfo { name, donated: false });
        self.captures.push(Capture { key, payload: payload(), value });
        value
    }
}

fn leaked() -> Error {
    Error::user(
        "a traced tensor is used outside the closure that made it, \
         or on another thread: return it from the closure instead",
    )
}

impl CaptureKey {
    /// Whether it is a value of an enclosing trace.
    pub fn is_outer(self) -> bool {
        matches!(self, CaptureKey::Outer(..))
    }
}
