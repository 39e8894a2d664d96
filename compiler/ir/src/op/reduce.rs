//! Reductions along axes.

use std::cmp::Ordering;

use smallvec::smallvec;

use super::accumulate::{Product, Sum};
use super::elementwise::complex::Number;
use super::elementwise::order::{compare, greater, lesser};
use super::index::{Index, ravel, unravel};
use super::sample::TAILS;
use super::{Attrs, Domain, InferError, Op, OpDef, Sample, Share, Types, attr, check, sample};
use crate::derive::{Batch, Derived, NoRule, Results, Rule, batch, reduce};
use crate::{DType, Form, Literal, Scalar, Type, Value};

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

impl ReduceKind {
    /// Whether the kind combines elements of `x`.
    pub(super) fn check(self, op: &'static str, x: &Type) -> Result<(), InferError> {
        match self {
            ReduceKind::Sum | ReduceKind::Prod => check::number(op, x),
            ReduceKind::Min | ReduceKind::Max => check::ordered(op, x),
            ReduceKind::And | ReduceKind::Or | ReduceKind::Xor => check::bits(op, x),
        }
    }

    /// All elements in one.
    pub(super) fn combine(self, dtype: DType, elements: impl Iterator<Item = Scalar>) -> Scalar {
        match self {
            ReduceKind::Min => elements.reduce(lesser).unwrap_or_else(|| greatest(dtype)),
            ReduceKind::Max => elements.reduce(greater).unwrap_or_else(|| least(dtype)),
            ReduceKind::Sum if dtype.is_float() => {
                let mut sum = Sum::default();
                elements.for_each(|x| sum.add(x.as_f64()));
                Scalar::from_f64(dtype, sum.value())
            }
            ReduceKind::Prod if dtype.is_float() => {
                let mut product = Product::one();
                elements.for_each(|x| product.multiply(x.as_f64()));
                Scalar::from_f64(dtype, product.value())
            }
            ReduceKind::Sum if dtype.is_complex() => {
                let (mut re, mut im) = (Sum::default(), Sum::default());
                elements.for_each(|x| {
                    re.add(x.real().as_f64());
                    im.add(x.imag().as_f64());
                });
                Scalar::from_parts(dtype, re.value(), im.value())
            }
            ReduceKind::Prod if dtype.is_complex() => {
                let numbers = elements.map(Number::of);
                numbers.fold(Number::ONE, Number::times).round(dtype)
            }
            _ => {
                let integers = elements.map(|x| x.as_i128().expect("not a float"));
                let combined = match self {
                    ReduceKind::Sum => integers.fold(0, i128::wrapping_add),
                    ReduceKind::Prod => integers.fold(1, i128::wrapping_mul),
                    // All ones in each type, and `true`.
                    ReduceKind::And => integers.fold(-1, |a, b| a & b),
                    ReduceKind::Or => integers.fold(0, |a, b| a | b),
                    ReduceKind::Xor => integers.fold(0, |a, b| a ^ b),
                    ReduceKind::Min | ReduceKind::Max => unreachable!("chosen, not computed"),
                };
                Scalar::from_i128(dtype, combined)
            }
        }
    }
}

impl ArgKind {
    /// Position of the first NaN, or else of the first extreme element.
    fn first(self, elements: impl Iterator<Item = Scalar>) -> usize {
        let wanted = match self {
            ArgKind::Min => Ordering::Less,
            ArgKind::Max => Ordering::Greater,
        };
        let better = |best: (usize, Scalar), next: (usize, Scalar)| {
            let wins =
                !best.1.is_nan() && (next.1.is_nan() || compare(next.1, best.1) == Some(wanted));
            if wins { next } else { best }
        };
        elements.enumerate().reduce(better).expect("infer wants an element").0
    }
}

/// What no element of the type is above.
fn greatest(dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::bool(true),
        d if d.is_float() => Scalar::from_f64(d, f64::INFINITY),
        d if d.is_unsigned() => Scalar::from_i128(d, -1),
        d => Scalar::from_i128(d, (1 << (d.bits() - 1)) - 1),
    }
}

/// What no element of the type is below.
fn least(dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::bool(false),
        d if d.is_float() => Scalar::from_f64(d, f64::NEG_INFINITY),
        d if d.is_unsigned() => Scalar::zero(d),
        d => Scalar::from_i128(d, -1 << (d.bits() - 1)),
    }
}

/// The elements of `x` along `axes`, in row-major order, where the other axes have
/// the index `rest`.
fn column<'a>(
    x: &'a Literal,
    axes: &'a [usize],
    rest: &'a [usize],
) -> impl Iterator<Item = Scalar> + 'a {
    let extents: Index = axes.iter().map(|&axis| x.ty().shape[axis]).collect();
    let count: usize = extents.iter().product();
    (0..count).map(move |i| {
        let mut index = Index::from_slice(rest);
        for (&axis, at) in axes.iter().zip(unravel(&extents, i)) {
            index.insert(axis, at);
        }
        x.get(ravel(&x.ty().shape, &index))
    })
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
        self.kind.check(op, x)?;
        check::increasing_axes(op, &self.axes, x)?;
        check::result(op, x.dtype, x.shape.without(&self.axes))
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let (x, result) = (operands[0], &results[0]);
        if self.axes.is_empty() {
            return vec![x.clone()];
        }
        vec![Literal::from_fn(result.clone(), |i| {
            self.kind.combine(x.ty().dtype, column(x, &self.axes, &unravel(&result.shape, i)))
        })]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(reduce::jvp(self, rule, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(cotangents[0].map_or(smallvec![None], |ct| reduce::vjp(self, rule, ct)))
    }

    fn vmap(&self, rule: &mut Rule<'_>, _batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::reduce(self, rule))
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::Reduce(self.kind, self.axes.clone())
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut add = |kind: ReduceKind, ty: Type, axes: &[usize]| {
            // Sums and products in floats of any size say little: they are inf or NaN.
            let domain = match kind {
                _ if ty.dtype.is_complex() => Domain::Range(0.5, 1.0),
                ReduceKind::Sum if ty.dtype.is_float() => Domain::Small,
                ReduceKind::Prod if ty.dtype.is_float() => Domain::Range(0.5, 1.75),
                _ => Domain::Any,
            };
            let op = Reduce { kind, axes: axes.to_vec() };
            samples.push(sample::alike(op, 1, ty, domain));
        };
        for (turn, kind) in ReduceKind::ALL.into_iter().enumerate() {
            let op = Op::from(Reduce { kind, axes: vec![0] });
            for (i, dtype) in sample::accepted(&op, 1).enumerate() {
                let extent = TAILS[(4 * i + turn) % TAILS.len()];
                let axes: &[usize] = [&[0usize] as &[usize], &[1], &[0, 1]][(i + turn) % 3];
                add(kind, Type::new(dtype, [7, extent]), axes);
            }
        }
        let cases: [(&[usize], &[usize]); 24] = [
            (&[], &[]),
            (&[9], &[]),
            (&[0], &[0]),
            (&[1], &[0]),
            (&[15], &[0]),
            (&[127], &[0]),
            (&[1025], &[0]),
            (&[4099], &[0]),
            (&[3, 0], &[0]),
            (&[3, 0], &[1]),
            (&[3, 0], &[0, 1]),
            (&[1, 17], &[0]),
            (&[33, 1], &[1]),
            (&[9, 129], &[1]),
            (&[129, 9], &[0]),
            (&[65, 33], &[0, 1]),
            (&[5, 7, 9], &[0]),
            (&[5, 7, 9], &[1]),
            (&[5, 7, 9], &[2]),
            (&[5, 7, 9], &[0, 2]),
            (&[5, 7, 9], &[1, 2]),
            (&[2, 3, 4, 16], &[1, 3]),
            (&[2, 3, 4, 16], &[0, 2]),
            (&[2, 3, 4, 16], &[0, 1, 2, 3]),
        ];
        for (shape, axes) in cases {
            add(ReduceKind::Sum, Type::new(DType::F32, shape), axes);
        }
        for axes in [&[0usize] as &[usize], &[1], &[0, 1]] {
            add(ReduceKind::Max, Type::new(DType::F32, [33, 17]), axes);
        }
        // Empty: what each starts from.
        for kind in ReduceKind::ALL {
            let op = Op::from(Reduce { kind, axes: vec![0] });
            let dtype = sample::accepted(&op, 1).nth(1).expect("two types");
            add(kind, Type::new(dtype, [0, 3]), &[0]);
        }
        samples
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
        check::ordered(op, x)?;
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

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let (x, result) = (operands[0], &results[0]);
        vec![Literal::from_fn(result.clone(), |i| {
            let rest = unravel(&result.shape, i);
            let position = self.kind.first(column(x, &[self.axis], &rest));
            Scalar::from_i128(self.dtype, position as i128)
        })]
    }

    fn jvp(&self, _rule: &mut Rule<'_>, _tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(smallvec![None])
    }

    fn vjp(&self, _rule: &mut Rule<'_>, _cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(smallvec![None])
    }

    fn vmap(&self, rule: &mut Rule<'_>, _batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::arg_reduce(self, rule))
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::ArgReduce(self.kind, self.axis)
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let indices = [DType::I32, DType::I64, DType::U32, DType::I16, DType::U64];
        for kind in ArgKind::ALL {
            let ordered = sample::typed_tails().filter(|ty| !ty.dtype.is_complex());
            for (i, ty) in ordered.enumerate() {
                let op = ArgReduce { kind, axis: 0, dtype: indices[i % indices.len()] };
                // Any finds NaN; small values have ties.
                for domain in [Domain::Any, Domain::Small] {
                    samples.push(sample::alike(op.clone(), 1, ty.clone(), domain));
                }
            }
            let cases: [(&[usize], usize); 13] = [
                (&[1], 0),
                (&[37], 0),
                (&[1025], 0),
                (&[1, 17], 0),
                (&[33, 1], 1),
                (&[0, 3], 1),
                (&[7, 65], 0),
                (&[7, 65], 1),
                (&[5, 7, 9], 0),
                (&[5, 7, 9], 1),
                (&[5, 7, 9], 2),
                (&[2, 3, 4, 9], 1),
                (&[2, 3, 4, 9], 3),
            ];
            for (shape, axis) in cases {
                let op = ArgReduce { kind, axis, dtype: DType::I32 };
                samples.push(sample::alike(op, 1, Type::new(DType::F32, shape), Domain::Small));
            }
            // The last index is the greatest of the index type.
            for (extent, dtype) in [(128, DType::I8), (256, DType::U8)] {
                let op = ArgReduce { kind, axis: 0, dtype };
                samples.push(sample::one(op, Type::new(DType::I16, [extent])));
            }
        }
        samples
    }
}
