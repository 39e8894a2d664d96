//! Slices whose start is known only at run time.
//!
//! Starts are rank-0 integers, one for each axis, and clamp to `[0, extent - size]`
//! (C1 in `docs/numerics.md`).

use smallvec::smallvec;

use super::index::{Index, ravel, unravel};
use super::{Attrs, Domain, InferError, OpDef, Sample, Share, Types, check, sample};
use crate::derive::{Batch, Derived, NoRule, Results, Rule, batch, movement};
use crate::{DType, Form, Literal, Type, Value};

/// Takes a box of operand 0 at the starts given by operands 1...
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DynamicSlice {
    /// Extent taken on each axis.
    pub sizes: Vec<usize>,
}

/// Operand 0 with operand 1 written over it at the starts given by operands 2...
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DynamicUpdateSlice;

/// A rank-0 integer for each axis of `x`.
fn starts(op: &'static str, x: &Type, starts: &[&Type]) -> Result<(), InferError> {
    let rank = x.shape.rank();
    if starts.len() != rank {
        let plural = if rank == 1 { "" } else { "s" };
        let message = format!("wants {rank} start{plural} for {x}, got {}", starts.len());
        return Err(InferError::new(op, message));
    }
    for (axis, &start) in starts.iter().enumerate() {
        if !start.dtype.is_integer() || start.shape.rank() != 0 {
            let message = format!("wants a rank-0 integer as start of axis {axis}, got {start}");
            return Err(InferError::new(op, message));
        }
    }
    Ok(())
}

/// The starts, moved to where a box of `sizes` lies within `extents`.
fn clamped(starts: &[&Literal], extents: &[usize], sizes: &[usize]) -> Index {
    let room = extents.iter().zip(sizes).map(|(extent, size)| extent - size);
    (starts.iter().zip(room))
        .map(|(start, room)| {
            let start = start.get(0).as_i128().expect("infer wants integers");
            start.clamp(0, room as i128) as usize
        })
        .collect()
}

/// Boxes of samples: the extents of the whole and of the part.
const BOXES: [(&[usize], &[usize]); 17] = [
    (&[], &[]),
    (&[0], &[0]),
    (&[9], &[0]),
    (&[9], &[1]),
    (&[9], &[9]),
    (&[130], &[129]),
    (&[65], &[16]),
    (&[7, 33], &[1, 33]),
    (&[7, 33], &[3, 31]),
    (&[7, 33], &[7, 8]),
    (&[7, 33], &[7, 33]),
    (&[3, 0], &[2, 0]),
    (&[1, 17], &[1, 9]),
    (&[2, 3, 16], &[1, 2, 15]),
    (&[2, 3, 16], &[2, 1, 16]),
    (&[3, 2, 3, 9], &[1, 1, 1, 9]),
    (&[3, 2, 3, 9], &[2, 2, 2, 7]),
];

/// The integer types over and over, one for each element type.
fn starting_types() -> impl Iterator<Item = DType> {
    DType::ALL.into_iter().filter(|d| d.is_integer()).cycle()
}

impl OpDef for DynamicSlice {
    fn name(&self) -> &'static str {
        "dynamic_slice"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().ints("sizes", &self.sizes)
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "dynamic_slice").then(|| Ok(DynamicSlice { sizes: attrs.take_ints("sizes")? }))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let Some((&x, start)) = operands.split_first() else {
            return Err(InferError::new(op, "wants an operand and its starts, got none"));
        };
        starts(op, x, start)?;
        check::per_axis(op, "sizes", self.sizes.len(), x)?;
        for (axis, (&size, &extent)) in self.sizes.iter().zip(x.shape.iter()).enumerate() {
            if size > extent {
                let message = format!("size {size} is more than {x} axis {axis} has");
                return Err(InferError::new(op, message));
            }
        }
        check::result(op, x.dtype, self.sizes.as_slice().into())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let x = operands[0];
        let start = clamped(&operands[1..], &x.ty().shape, &self.sizes);
        vec![Literal::from_fn(results[0].clone(), |i| {
            let mut index = unravel(&results[0].shape, i);
            for (at, start) in index.iter_mut().zip(&start) {
                *at += start;
            }
            x.get(ravel(&x.ty().shape, &index))
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(movement::same(self.clone(), rule, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(cotangents[0]
            .map_or(smallvec![None; rule.operands.len()], |ct| movement::dynamic_slice(rule, ct)))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        batch::dynamic_slice(self, rule, batch)
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::DynamicSlice
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut add = |x: Type, start: DType, sizes: &[usize]| {
            let mut operands = vec![Type::scalar(start); x.shape.rank() + 1];
            operands[0] = x;
            // Starts all over the type clamp; small ones are mostly taken as they are.
            for domain in [Domain::Any, Domain::Range(-3.0, 12.0)] {
                let op = DynamicSlice { sizes: sizes.to_vec() }.into();
                samples.push(Sample { op, operands: operands.clone(), domain });
            }
        };
        for (x, start) in sample::typed([33]).zip(starting_types()) {
            add(x, start, &[17]);
        }
        for (shape, sizes) in BOXES {
            add(Type::new(DType::F32, shape), DType::I32, sizes);
        }
        samples
    }
}

impl OpDef for DynamicUpdateSlice {
    fn name(&self) -> &'static str {
        "dynamic_update_slice"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new()
    }

    fn parse(name: &str, _attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "dynamic_update_slice").then_some(Ok(DynamicUpdateSlice))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x, update, start @ ..] = operands else {
            let message = format!("wants an operand, an update and starts, got {}", operands.len());
            return Err(InferError::new(op, message));
        };
        starts(op, x, start)?;
        let fits = update.dtype == x.dtype
            && update.shape.rank() == x.shape.rank()
            && update.shape.iter().zip(x.shape.iter()).all(|(u, x)| u <= x);
        if !fits {
            return Err(InferError::new(op, format!("update {update} does not fit into {x}")));
        }
        check::result(op, x.dtype, x.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let (x, update) = (operands[0], operands[1]);
        let start = clamped(&operands[2..], &x.ty().shape, &update.ty().shape);
        vec![Literal::from_fn(results[0].clone(), |i| {
            let index = unravel(&results[0].shape, i);
            let inside: Option<Index> = (0..index.len())
                .map(|axis| {
                    let at = index[axis].checked_sub(start[axis])?;
                    (at < update.ty().shape[axis]).then_some(at)
                })
                .collect();
            inside.map_or(x.get(i), |at| update.get(ravel(&update.ty().shape, &at)))
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(movement::same_of_all(*self, rule, tangents, 2))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(cotangents[0].map_or(smallvec![None; rule.operands.len()], |ct| {
            movement::dynamic_update_slice(rule, ct)
        }))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        batch::dynamic_update_slice(rule, batch)
    }

    fn share(&self) -> Share {
        Share::Update
    }

    fn lower(&self) -> Form {
        Form::Update
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut add = |x: Type, start: DType, sizes: &[usize]| {
            let mut operands = vec![Type::scalar(start); x.shape.rank() + 2];
            operands[1] = x.with_shape(sizes);
            operands[0] = x;
            for domain in [Domain::Any, Domain::Range(-3.0, 12.0)] {
                let op = DynamicUpdateSlice.into();
                samples.push(Sample { op, operands: operands.clone(), domain });
            }
        };
        for (x, start) in sample::typed([33]).zip(starting_types()) {
            add(x, start, &[17]);
        }
        for (shape, sizes) in BOXES {
            add(Type::new(DType::F32, shape), DType::I32, sizes);
        }
        samples
    }
}
