//! Reductions along axes.

use super::{Attrs, InferError, OpDef, Sample, Share, Types, attr, check};
use crate::{DType, Form, Literal, Scalar, Type};

/// How a reduction combines elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ReduceKind {
    /// Sum, from 0; half types accumulate in `f32`.
    Sum,
    /// Product, from 1; half types accumulate in `f32`.
    Prod,
    /// Least, from the greatest value; NaN wins.
    Min,
    /// Greatest, from the least value; NaN wins.
    Max,
    /// Bitwise and, from all ones; logical for `bool`.
    And,
    /// Bitwise or, from 0; logical for `bool`.
    Or,
    /// Bitwise exclusive or, from 0; parity for `bool`.
    Xor,
}

impl ReduceKind {
    /// Every one.
    pub const ALL: [ReduceKind; 7] = [
        ReduceKind::Sum,
        ReduceKind::Prod,
        ReduceKind::Min,
        ReduceKind::Max,
        ReduceKind::And,
        ReduceKind::Or,
        ReduceKind::Xor,
    ];

    /// The name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceKind::Sum => "sum",
            ReduceKind::Prod => "prod",
            ReduceKind::Min => "min",
            ReduceKind::Max => "max",
            ReduceKind::And => "and",
            ReduceKind::Or => "or",
            ReduceKind::Xor => "xor",
        }
    }
}

/// Which extreme an arg-reduction looks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ArgKind {
    /// The least.
    Min,
    /// The greatest.
    Max,
}

impl ArgKind {
    /// Every one.
    pub const ALL: [ArgKind; 2] = [ArgKind::Min, ArgKind::Max];

    /// The name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            ArgKind::Min => "min",
            ArgKind::Max => "max",
        }
    }
}

/// Combines operand 0 along `axes`, which the result lacks. No axes: the operand.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reduce {
    /// How.
    pub kind: ReduceKind,
    /// The combined axes, strictly increasing.
    pub axes: Vec<usize>,
}

/// Index of the extreme element along `axis`, which the result lacks: the first of
/// equals, the first NaN if there is one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ArgReduce {
    /// Which extreme.
    pub kind: ArgKind,
    /// The axis searched; not empty.
    pub axis: usize,
    /// The integer type of the index.
    pub dtype: DType,
}

impl OpDef for Reduce {
    fn name(&self) -> &'static str {
        match self.kind {
            ReduceKind::Sum => "reduce_sum",
            ReduceKind::Prod => "reduce_prod",
            ReduceKind::Min => "reduce_min",
            ReduceKind::Max => "reduce_max",
            ReduceKind::And => "reduce_and",
            ReduceKind::Or => "reduce_or",
            ReduceKind::Xor => "reduce_xor",
        }
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().ints("axes", &self.axes)
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        let word = name.strip_prefix("reduce_")?;
        let kind = ReduceKind::ALL.into_iter().find(|kind| kind.name() == word)?;
        Some(attrs.take_ints("axes").map(|axes| Reduce { kind, axes }))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x] = check::operands(op, operands)?;
        match self.kind {
            ReduceKind::Sum | ReduceKind::Prod => check::number(op, x)?,
            ReduceKind::Min | ReduceKind::Max => {}
            ReduceKind::And | ReduceKind::Or | ReduceKind::Xor => check::bits(op, x)?,
        }
        check::increasing_axes(op, &self.axes, x)?;
        check::result(op, x.dtype, x.shape.without(&self.axes))
    }

    fn eval(&self, _operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        todo!()
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::Reduce(self.kind, self.axes.clone())
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}

impl OpDef for ArgReduce {
    fn name(&self) -> &'static str {
        match self.kind {
            ArgKind::Min => "argmin",
            ArgKind::Max => "argmax",
        }
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().int("axis", self.axis)
    }

    fn parse(name: &str, attrs: &mut Attrs, results: &[Type]) -> Option<Result<Self, String>> {
        let word = name.strip_prefix("arg")?;
        let kind = ArgKind::ALL.into_iter().find(|kind| kind.name() == word)?;
        Some(
            attrs
                .take_int("axis")
                .and_then(|axis| Ok(ArgReduce { kind, axis, dtype: attr::result(results)?.dtype })),
        )
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x] = check::operands(op, operands)?;
        check::axis(op, self.axis, x)?;
        let result = Type { dtype: self.dtype, shape: x.shape.without(&[self.axis]) };
        check::dtype(op, &result, DType::is_integer, "an integer result")?;
        let Some(last) = x.shape[self.axis].checked_sub(1) else {
            let message = format!("wants at least one element along axis {}, got {x}", self.axis);
            return Err(InferError::new(op, message));
        };
        if Scalar::from_i128(self.dtype, last as i128).as_i128() != Some(last as i128) {
            let message =
                format!("index {last} of {x} axis {} does not fit {}", self.axis, self.dtype);
            return Err(InferError::new(op, message));
        }
        check::result(op, result.dtype, result.shape)
    }

    fn eval(&self, _operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        todo!()
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::ArgReduce(self.kind, self.axis)
    }

    fn samples() -> Vec<Sample> {
        todo!()
    }
}
