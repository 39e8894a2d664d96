//! Lazy expressions: what an op gives outside a trace.
//!
//! An op on concrete tensors computes nothing. It makes a [`Lazy`] node that knows
//! its type and its operands; looking at a value compiles the expression below
//! it, through the same cache as jitted functions, and runs it. The node then
//! holds the result and lets its operands go.
//!
//! Promises:
//! - A value is computed once, however many handles it has: evaluating an
//!   expression also keeps the parts of it that somebody else still holds.
//! - Numbers in an expression are inputs of its program, so that the same
//!   expression with other numbers compiles nothing.
//! - No expression grows beyond [`PENDING_LIMIT`] nodes: past it, the largest
//!   operand of the next op is evaluated first.
//! - Dropping an expression takes no stack, however long it is.

mod evaluate;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kiln_ir::op::InferError;
use kiln_ir::{Op, Source};
use kiln_trace::At;
use smallvec::{SmallVec, smallvec};

use crate::device::Array;
use crate::tensor::Repr;
use crate::{Error, Tensor, Type};
pub(crate) use evaluate::evaluate;

/// Most nodes of a pending expression. Enough for any function a person writes
/// in one go; few enough that a loop that never looks at its result compiles
/// chunks of bounded size, all of them the same.
const PENDING_LIMIT: u32 = 1024;

/// An expression, or its result.
pub(crate) struct Lazy {
    ty: Type,
    /// At least the number of pending nodes below and including this one: exact
    /// when it was last counted, and never less since. Parts that occur twice may
    /// have been counted twice.
    size: u32,
    state: Mutex<State>,
}

enum State {
    /// Boxed, so that a node with its result is small.
    Pending(Box<Pending>),
    Ready(Array),
}

struct Pending {
    op: Op,
    /// Which of the op's results this is. Results of one op are expressions of their own,
    /// equal but for this: compiled together they are one node again.
    result: u32,
    operands: SmallVec<[Tensor; 3]>,
    at: At,
}

impl Lazy {
    /// The results of `op(operands)`, of concrete operands. A mistake poisons the one
    /// result that is returned.
    pub(crate) fn expressions(op: Op, operands: &[&Tensor], at: At) -> SmallVec<[Tensor; 1]> {
        if let Some(spec) = operands.iter().find(|t| matches!(t.repr(), Repr::Spec(_))) {
            let message = format!("a spec ({}) has no value to compute with", spec.ty());
            return smallvec![Tensor::fail(op.name(), message, at)];
        }
        let inferred = {
            let types: SmallVec<[&Type; 3]> = operands.iter().map(|t| t.ty()).collect();
            op.infer(&types)
        };
        let types = match inferred {
            Ok(types) => types,
            Err(error) => return smallvec![rejected(&error, operands, at)],
        };
        let operands: SmallVec<[Tensor; 3]> = operands.iter().map(|&t| t.clone()).collect();
        let size = match bounded_size(&operands) {
            Ok(size) => size,
            Err(error) => return smallvec![Tensor::poisoned(kiln_trace::fail(error, at))],
        };
        let result = |(ty, result)| {
            let pending = Pending { op: op.clone(), result, operands: operands.clone(), at };
            Tensor::new(Repr::Lazy(Arc::new(Lazy::pending(ty, size, pending))))
        };
        types.into_iter().zip(0..).map(result).collect()
    }

    fn pending(ty: Type, size: u32, pending: Pending) -> Lazy {
        Lazy { ty, size, state: Mutex::new(State::Pending(Box::new(pending))) }
    }

    pub(crate) fn ty(&self) -> &Type {
        &self.ty
    }

    /// The line that made it, while it is pending.
    pub(crate) fn source(&self) -> Option<Source> {
        match &*self.lock() {
            State::Pending(pending) => Some(pending.at.source()),
            State::Ready(_) => None,
        }
    }

    pub(crate) fn describe(&self) -> &'static str {
        match &*self.lock() {
            State::Pending(_) => "Lazy",
            State::Ready(_) => "Tensor",
        }
    }

    /// The result, if it has been computed.
    pub(crate) fn ready(&self) -> Option<Array> {
        match &*self.lock() {
            State::Pending(_) => None,
            State::Ready(array) => Some(array.clone()),
        }
    }

    /// The result, computed now if need be.
    pub(crate) fn evaluate(self: &Arc<Lazy>) -> Result<Array, Error> {
        if let Some(array) = self.ready() {
            return Ok(array);
        }
        evaluate(std::slice::from_ref(self))?;
        self.ready().ok_or_else(|| Error::internal("an evaluated expression has no value"))
    }

    /// The result of an expression that nobody else holds, by value: the array may
    /// then be donated.
    pub(crate) fn into_ready(self: Arc<Lazy>) -> Result<Array, Arc<Lazy>> {
        match Arc::try_unwrap(self) {
            Ok(lazy) => match lazy.ready() {
                Some(array) => Ok(array),
                None => Err(Arc::new(lazy)),
            },
            Err(shared) => Err(shared),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the result and lets the operands go.
    fn settle(&self, array: Array) {
        let old = {
            let mut state = self.lock();
            match *state {
                State::Pending(_) => std::mem::replace(&mut *state, State::Ready(array)),
                // Another thread was first, with the same bits.
                State::Ready(_) => return,
            }
        };
        if let State::Pending(pending) = old {
            drop_operands(pending.operands);
        }
    }
}

/// The mistake of giving `op` operands of these types.
fn rejected(error: &InferError, operands: &[&Tensor], at: At) -> Tensor {
    let labels: Vec<String> = match operands.len() {
        1 => vec!["operand".into()],
        _ => (0..operands.len()).map(|i| format!("operand {i}")).collect(),
    };
    let labelled: Vec<(&str, &Tensor)> =
        labels.iter().map(String::as_str).zip(operands.iter().copied()).collect();
    Tensor::fail_operands(error.op(), error.message(), &labelled, at)
}

/// The size of an expression over `operands`, after evaluating the largest of them
/// if it would pass the limit.
fn bounded_size(operands: &[Tensor]) -> Result<u32, Error> {
    let size = estimate(operands);
    if size <= PENDING_LIMIT {
        return Ok(size);
    }
    // Shared parts may have been counted often; a real count tells.
    let roots: Vec<Arc<Lazy>> = pending_of(operands);
    let exact = evaluate::count(&roots) + 1;
    if exact <= PENDING_LIMIT {
        return Ok(exact);
    }
    // Small operands stay with the op: a broadcast number costs nothing there and
    // an array here.
    let largest = roots.into_iter().max_by_key(|lazy| lazy.size);
    largest.map_or(Ok(()), |lazy| evaluate(&[lazy]))?;
    bounded_size(operands)
}

/// One more than the sizes of the distinct pending operands.
fn estimate(operands: &[Tensor]) -> u32 {
    let mut seen: SmallVec<[*const Lazy; 3]> = SmallVec::new();
    let mut size = 1u32;
    for operand in operands {
        if let Repr::Lazy(lazy) = operand.repr()
            && !seen.contains(&Arc::as_ptr(lazy))
            && lazy.ready().is_none()
        {
            seen.push(Arc::as_ptr(lazy));
            size = size.saturating_add(lazy.size);
        }
    }
    size
}

fn pending_of(operands: &[Tensor]) -> Vec<Arc<Lazy>> {
    let pending = operands.iter().filter_map(|t| match t.repr() {
        Repr::Lazy(lazy) if lazy.ready().is_none() => Some(lazy.clone()),
        _ => None,
    });
    pending.collect()
}

impl Drop for Lazy {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let State::Pending(pending) = state {
            drop_operands(std::mem::take(&mut pending.operands));
        }
    }
}

/// Drops operands without recursion: a node that dies here gives its own operands
/// to the list before it goes.
fn drop_operands(operands: SmallVec<[Tensor; 3]>) {
    let mut dying: Vec<Tensor> = operands.into_vec();
    while let Some(tensor) = dying.pop() {
        let Repr::Lazy(lazy) = tensor.into_repr() else { continue };
        // Exactly one of the threads that drop a handle gets the node.
        if let Some(mut lazy) = Arc::into_inner(lazy) {
            let state = lazy.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            if let State::Pending(pending) = state {
                dying.extend(std::mem::take(&mut pending.operands));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_ir::op::{Binary, Unary};

    use super::*;
    use crate::DType;

    #[test]
    fn a_chain_of_a_million_drops_on_a_small_stack() {
        let run = || {
            let mut x = Tensor::from(1.0f32);
            for _ in 0..1_000_000 {
                let at = At::caller();
                let ty = Type::scalar(DType::F32);
                let operands = SmallVec::from_iter([x]);
                let pending = Pending { op: Unary::Neg.into(), result: 0, operands, at };
                x = Tensor::new(Repr::Lazy(Arc::new(Lazy::pending(ty, 1, pending))));
            }
            drop(x);
        };
        std::thread::Builder::new().stack_size(128 << 10).spawn(run).unwrap().join().unwrap();
    }

    #[test]
    fn a_shared_part_is_counted_once() {
        let mut x = Tensor::from(1.0f32).exp();
        for _ in 0..200 {
            x = &x + &x;
        }
        let Repr::Lazy(lazy) = x.repr() else { panic!("an expression") };
        assert_eq!(lazy.size, 201);
        assert_eq!(evaluate::count(std::slice::from_ref(lazy)), 201);
    }

    #[test]
    fn results_of_one_op_are_computed_together() {
        // (x, y) -> (x + y, x * y), as an op.
        let mut callee = kiln_ir::Graph::new("both");
        let ty = Type::new(DType::F32, [2]);
        let [x, y] = [0, 1].map(|_| callee.add_parameter(ty.clone(), Default::default()));
        for op in [Binary::Add, Binary::Mul] {
            let value = callee.add1(op, &[x, y], None).unwrap();
            callee.add_output(value, "");
        }
        let call = kiln_ir::op::Call::new(Arc::new(callee));
        let (a, b) = (Tensor::from([1.0f32, 2.0]), Tensor::from([3.0f32, 5.0]));
        let results = Tensor::apply_all(call, &[&a, &b], 2, At::caller());
        let roots: Vec<Arc<Lazy>> = pending_of(&results);
        evaluate(&roots).unwrap();
        assert_eq!(results[0].to_vec::<f32>().unwrap(), [4.0, 7.0]);
        assert_eq!(results[1].to_vec::<f32>().unwrap(), [3.0, 10.0]);
    }

    #[test]
    fn a_mistake_poisons_every_result() {
        let empty = kiln_ir::op::Call::new(Arc::new(kiln_ir::Graph::new("empty")));
        let a = Tensor::from([1.0f32]);
        let results = Tensor::apply_all(empty, &[&a], 3, At::caller());
        assert!(results.len() == 3 && results.iter().all(|r| r.error().is_some()));
    }
}
