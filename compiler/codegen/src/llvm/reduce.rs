//! Accumulators of reductions, in the order that a [`Tree`](crate::kernel::Tree) fixes.
//!
//! The lanes of a tree are the lanes of a few vectors: `copies` vectors of `width`,
//! with copy `u` holding lanes `u * width ..`. A step that does not exist leaves its
//! lane as it was. At the end of a chunk the lanes combine by halving:
//!
//! ```text
//! 64 lanes in 4 vectors of 16:
//!   v0 v1 v2 v3  ->  v0+v2 v1+v3  ->  one vector  ->  8 lanes -> 4 -> 2 -> 1
//! ```
//!
//! An arg-reduction carries a pair: the best value and the step it was found at. Its
//! result does not depend on the order, since of equals it keeps the least step.

use inkwell::{FloatPredicate, IntPredicate};
use kiln_ir::op::{ArgKind, ReduceKind};
use kiln_ir::{DType, Scalar};

use super::arithmetic::Arithmetic;
use super::build::{Build, Value, lanes};
use super::expr::{Emitter, Place, Values};
use crate::kernel::{Axis, Combine, Reduction};
use crate::lower::{identity, primitive};

/// The reductions of one stage, spread over some vectors.
#[derive(Clone, Copy)]
pub(crate) struct Accumulators<'e, 'a, 'c> {
    pub emitter: &'e Emitter<'a, 'c>,
    pub reductions: &'e [Reduction],
    /// Vectors for each reduction.
    pub copies: u32,
    /// Lanes of each.
    pub width: u32,
    /// Bits that hold a step number.
    pub step_bits: u32,
}

/// The state of one accumulator: a value and, for an arg-reduction, its step.
#[derive(Clone, Copy)]
pub(crate) struct Best<'c> {
    value: Value<'c>,
    step: Option<Value<'c>>,
}

/// Bytes of memory for one lane of a reduction: a value and a step of up to 8 each.
pub(crate) const STATE: u64 = 16;

/// The states of all accumulators: those of reduction `j` are at `j * copies ..`.
pub(crate) type States<'c> = Vec<Best<'c>>;

impl<'c> Accumulators<'_, '_, 'c> {
    fn build(&self) -> &Build<'c> {
        self.emitter.build
    }

    fn dtype(&self, reduction: &Reduction) -> DType {
        self.emitter.exprs.dtype(reduction.value)
    }

    /// The value that changes nothing.
    fn identity(&self, reduction: &Reduction) -> Scalar {
        let kind = match reduction.combine {
            Combine::Value(kind) => kind,
            Combine::Arg(ArgKind::Min) => ReduceKind::Min,
            Combine::Arg(ArgKind::Max) => ReduceKind::Max,
        };
        identity(kind, self.dtype(reduction))
    }

    /// States before the first step. `steps[u]` is a step of each lane of copy `u`
    /// that no later one precedes: what an arg-reduction answers when all its
    /// elements equal the identity.
    pub fn start(&self, steps: impl Fn(u32) -> Value<'c>) -> States<'c> {
        let b = self.build();
        let mut states = Vec::new();
        for reduction in self.reductions {
            let value = b.splat(b.constant(self.identity(reduction)), self.width);
            for u in 0..self.copies {
                let step = matches!(reduction.combine, Combine::Arg(_)).then(|| steps(u));
                states.push(Best { value, step });
            }
        }
        states
    }

    /// States as a flat list, to carry through a loop.
    pub fn flatten(&self, states: &States<'c>) -> Vec<Value<'c>> {
        states.iter().flat_map(|s| std::iter::once(s.value).chain(s.step)).collect()
    }

    /// The opposite of [`Accumulators::flatten`].
    pub fn unflatten(&self, flat: Vec<Value<'c>>) -> States<'c> {
        let mut flat = flat.into_iter();
        let mut next = || flat.next().expect("as many as were flattened");
        let mut states = Vec::new();
        for reduction in self.reductions {
            for _ in 0..self.copies {
                let value = next();
                let step = matches!(reduction.combine, Combine::Arg(_)).then(&mut next);
                states.push(Best { value, step });
            }
        }
        states
    }

    /// The states of copy `u` of every reduction.
    pub fn copy(&self, states: &States<'c>, u: u32) -> States<'c> {
        states.chunks(self.copies as usize).map(|copies| copies[u as usize]).collect()
    }

    /// The opposite of [`Accumulators::copy`]: `states[u]` are those of copy `u`.
    pub fn gather(&self, states: &[States<'c>]) -> States<'c> {
        (0..self.reductions.len()).flat_map(|j| states.iter().map(move |s| s[j])).collect()
    }

    /// Addresses of the states of a vector that starts at `lane`, where each reduction
    /// has an array of `lanes` values and one of as many steps from `memory` on.
    pub fn memory(&self, lane: Value<'c>, lanes: u64, memory: Value<'c>) -> Vec<[Value<'c>; 2]> {
        let b = self.build();
        let bytes = |ptr, n| b.gep(b.int_ty(8).into(), ptr, b.i64(n));
        let place = |(j, r): (usize, &Reduction)| {
            let values = bytes(memory, (j as u64 * STATE * lanes) as i64);
            let steps = bytes(values, (STATE / 2 * lanes) as i64);
            let values = b.gep(b.memory_ty(self.dtype(r)), values, lane);
            [values, b.gep(b.int_ty(self.step_bits).into(), steps, lane)]
        };
        self.reductions.iter().enumerate().map(place).collect()
    }

    fn step_dtype(&self) -> DType {
        if self.step_bits == 32 { DType::I32 } else { DType::I64 }
    }

    /// Reads states; see [`Accumulators::memory`].
    pub fn load(&self, places: &[[Value<'c>; 2]]) -> States<'c> {
        let load = |dtype, ptr| self.emitter.load_contiguous(dtype, ptr, self.width, None);
        let state = |(r, [value, step]): (&Reduction, &[Value<'c>; 2])| Best {
            value: load(self.dtype(r), *value),
            step: matches!(r.combine, Combine::Arg(_)).then(|| load(self.step_dtype(), *step)),
        };
        self.reductions.iter().zip(places).map(state).collect()
    }

    /// Writes states; see [`Accumulators::memory`].
    pub fn store(&self, states: &States<'c>, places: &[[Value<'c>; 2]]) {
        for ((r, state), [value, step]) in self.reductions.iter().zip(states).zip(places) {
            let store = |dtype, ptr, v| self.emitter.store_contiguous(dtype, ptr, v, None, false);
            store(self.dtype(r), *value, state.value);
            if let Some(s) = state.step {
                store(self.step_dtype(), *step, s);
            }
        }
    }

    /// Combines one step of copy `u` into its accumulators.
    pub fn step(
        &self,
        states: &mut States<'c>,
        u: u32,
        step: Value<'c>,
        place: &Place<'c>,
        values: &Values<'c>,
    ) {
        let b = self.build();
        for (j, reduction) in self.reductions.iter().enumerate() {
            let state = &mut states[j * self.copies as usize + u as usize];
            let value = b.splat(values.get(reduction.value), self.width);
            let new = match reduction.combine {
                Combine::Value(kind) => {
                    let value = self.combine(kind, self.dtype(reduction), state.value, value);
                    Best { value, step: None }
                }
                Combine::Arg(kind) => self.later(kind, self.dtype(reduction), *state, value, step),
            };
            *state = match place.lanes.mask {
                None => new,
                Some(mask) => Best {
                    value: b.select(mask, new.value, state.value),
                    step: new.step.zip(state.step).map(|(new, old)| b.select(mask, new, old)),
                },
            };
        }
    }

    /// Combines the lanes of each reduction into one scalar state.
    pub fn halve(&self, states: &States<'c>) -> States<'c> {
        let b = self.build();
        let mut result = Vec::new();
        for (reduction, copies) in self.reductions.iter().zip(states.chunks(self.copies as usize)) {
            let mut all = copies.to_vec();
            while all.len() > 1 {
                let upper = all.split_off(all.len() / 2);
                for (low, high) in all.iter_mut().zip(upper) {
                    *low = self.join(reduction, *low, high);
                }
            }
            let mut best = all[0];
            let width = lanes(best.value);
            let mut half = width / 2;
            while half > 0 {
                // Vectors get narrower down to one small register; there the upper lanes
                // move down and what is above them no longer matters.
                let narrow = lanes(best.value) > half.max(4);
                let low = |v: Value<'c>| match narrow {
                    true => b.shuffle(v, &(0..half.max(4)).collect::<Vec<_>>()),
                    false => v,
                };
                let high = |v: Value<'c>| {
                    let kept = lanes(low(v));
                    b.shuffle(v, &(0..kept).map(|l| (half + l) % lanes(v)).collect::<Vec<_>>())
                };
                let side = |part: &dyn Fn(Value<'c>) -> Value<'c>| Best {
                    value: part(best.value),
                    step: best.step.map(part),
                };
                best = self.join(reduction, side(&low), side(&high));
                half /= 2;
            }
            if width > 1 {
                let first = |v| b.extract(v, 0);
                best = Best { value: first(best.value), step: best.step.map(first) };
            }
            result.push(best);
        }
        result
    }

    /// Combines states of equal shape, those of earlier steps first.
    pub fn join_all(&self, earlier: &States<'c>, later: &States<'c>) -> States<'c> {
        let each = earlier.len() / self.reductions.len().max(1);
        let pairs = earlier.iter().zip(later).enumerate();
        pairs.map(|(i, (&a, &b))| self.join(&self.reductions[i / each], a, b)).collect()
    }

    fn join(&self, reduction: &Reduction, x: Best<'c>, y: Best<'c>) -> Best<'c> {
        let dtype = self.dtype(reduction);
        match reduction.combine {
            Combine::Value(kind) => {
                Best { value: self.combine(kind, dtype, x.value, y.value), step: None }
            }
            Combine::Arg(kind) => self.better(kind, dtype, x, y),
        }
    }

    /// What a slot holds: the value, or the step as `i64`.
    pub fn result(&self, state: Best<'c>) -> Value<'c> {
        match state.step {
            Some(step) => self.build().resize(step, 64, true),
            None => state.value,
        }
    }

    fn combine(&self, kind: ReduceKind, dtype: DType, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        combine(self.emitter.arithmetic(), kind, dtype, x, y)
    }

    /// Whether `x` beats `y`; with NaN `x`, whenever `nan` says so.
    fn beats(&self, kind: ArgKind, dtype: DType, x: Value<'c>, y: Value<'c>) -> Value<'c> {
        let b = self.build();
        if dtype.is_float() {
            let predicate = match kind {
                ArgKind::Min => FloatPredicate::OLT,
                ArgKind::Max => FloatPredicate::OGT,
            };
            return b.fcmp(predicate, x, y);
        }
        let predicate = match (kind, dtype.is_signed_integer()) {
            (ArgKind::Min, true) => IntPredicate::SLT,
            (ArgKind::Max, true) => IntPredicate::SGT,
            (ArgKind::Min, false) => IntPredicate::ULT,
            (ArgKind::Max, false) => IntPredicate::UGT,
        };
        b.icmp(predicate, x, y)
    }

    /// `state`, or `value` at `step`, which is later than all before: a tie changes
    /// nothing, and neither does anything after a NaN.
    fn later(
        &self,
        kind: ArgKind,
        dtype: DType,
        state: Best<'c>,
        value: Value<'c>,
        step: Value<'c>,
    ) -> Best<'c> {
        let b = self.build();
        let take = if dtype.is_float() {
            // Greater or unordered, and the state is a number.
            let predicate = match kind {
                ArgKind::Min => FloatPredicate::ULT,
                ArgKind::Max => FloatPredicate::UGT,
            };
            let number = b.fcmp(FloatPredicate::ORD, state.value, state.value);
            b.and(b.fcmp(predicate, value, state.value), number)
        } else {
            self.beats(kind, dtype, value, state.value)
        };
        Best {
            value: b.select(take, value, state.value),
            step: state.step.map(|old| b.select(take, step, old)),
        }
    }

    /// The better of two states in any order: NaN first, then the extreme, then the
    /// lesser step.
    fn better(&self, kind: ArgKind, dtype: DType, x: Best<'c>, y: Best<'c>) -> Best<'c> {
        let b = self.build();
        let (xs, ys) = x.step.zip(y.step).expect("arg-reductions carry steps");
        let earlier = b.icmp(IntPredicate::ULT, ys, xs);
        let beats = self.beats(kind, dtype, y.value, x.value);
        let take = if dtype.is_float() {
            let arithmetic = self.emitter.arithmetic();
            let (xn, yn) = (arithmetic.is_nan(x.value), arithmetic.is_nan(y.value));
            let equal = b.fcmp(FloatPredicate::OEQ, x.value, y.value);
            let tie = b.or(equal, b.and(xn, yn));
            let wins = b.or(beats, b.and(yn, b.not(xn)));
            b.or(wins, b.and(tie, earlier))
        } else {
            let tie = b.icmp(IntPredicate::EQ, x.value, y.value);
            b.or(beats, b.and(tie, earlier))
        };
        Best { value: b.select(take, y.value, x.value), step: Some(b.select(take, ys, xs)) }
    }

    /// The step numbers of the lanes of a place.
    pub fn steps_at(&self, place: &Place<'c>) -> Value<'c> {
        let b = self.build();
        let first = b.resize(place.axis(Axis::Inner), self.step_bits, false);
        let first = b.splat(first, self.width);
        match place.lanes.axis {
            Axis::Inner if self.width > 1 => b.add(first, b.iota(self.width, self.step_bits)),
            _ => first,
        }
    }
}

/// Two accumulators in one.
pub(crate) fn combine<'c>(
    arithmetic: Arithmetic<'_, 'c>,
    kind: ReduceKind,
    dtype: DType,
    x: Value<'c>,
    y: Value<'c>,
) -> Value<'c> {
    arithmetic.binary(primitive(kind), dtype, x, y)
}
