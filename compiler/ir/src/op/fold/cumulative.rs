//! Running results along an axis.

use super::samples;
use crate::derive::{Batch, Derived, NoRule, Results, Rule, batch, fold};
use crate::op::accumulate::{Product, Sum};
use crate::op::elementwise::order::{greater, lesser};
use crate::op::index::{ravel, unravel};
use crate::op::reduce::ReduceKind;
use crate::op::{Attrs, InferError, OpDef, Sample, Share, Types, check};
use crate::{DType, Form, Literal, Scalar, Type, Value};

/// What runs along the axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum CumulativeKind {
    /// The sum so far.
    Sum,
    /// The product so far.
    Prod,
    /// The least so far; NaN wins.
    Min,
    /// The greatest so far; NaN wins.
    Max,
    /// The logarithm of the sum of exponentials so far.
    LogSumExp,
}

impl CumulativeKind {
    /// Every one.
    pub const ALL: [CumulativeKind; 5] = [
        CumulativeKind::Sum,
        CumulativeKind::Prod,
        CumulativeKind::Min,
        CumulativeKind::Max,
        CumulativeKind::LogSumExp,
    ];

    /// The reduction whose results these are, if there is one.
    pub const fn reduce(self) -> Option<ReduceKind> {
        match self {
            CumulativeKind::Sum => Some(ReduceKind::Sum),
            CumulativeKind::Prod => Some(ReduceKind::Prod),
            CumulativeKind::Min => Some(ReduceKind::Min),
            CumulativeKind::Max => Some(ReduceKind::Max),
            CumulativeKind::LogSumExp => None,
        }
    }
}

/// Element `i` along `axis` is elements `0..=i` combined, or `i..` if reversed. Half
/// types accumulate in `f32` and round once for each result.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Cumulative {
    /// What.
    pub kind: CumulativeKind,
    /// Along which axis.
    pub axis: usize,
    /// From the last element to the first.
    pub reverse: bool,
}

impl Cumulative {
    /// The running results of a row of elements.
    fn row(&self, dtype: DType, elements: &[Scalar]) -> Vec<Scalar> {
        match self.kind {
            CumulativeKind::Min => running(elements, elements[0], lesser),
            CumulativeKind::Max => running(elements, elements[0], greater),
            CumulativeKind::Sum if dtype.is_float() => {
                let mut sum = Sum::default();
                let each = |x: &Scalar| {
                    sum.add(x.as_f64());
                    Scalar::from_f64(dtype, sum.value())
                };
                elements.iter().map(each).collect()
            }
            CumulativeKind::Prod if dtype.is_float() => {
                let mut product = Product::one();
                let each = |x: &Scalar| {
                    product.multiply(x.as_f64());
                    Scalar::from_f64(dtype, product.value())
                };
                elements.iter().map(each).collect()
            }
            CumulativeKind::LogSumExp => {
                (1..=elements.len()).map(|n| log_sum_exp(dtype, &elements[..n])).collect()
            }
            CumulativeKind::Sum => running(elements, Scalar::zero(dtype), |a, b| {
                integers(dtype, a, b, i128::wrapping_add)
            }),
            CumulativeKind::Prod => running(elements, Scalar::one(dtype), |a, b| {
                integers(dtype, a, b, i128::wrapping_mul)
            }),
        }
    }
}

fn running(
    elements: &[Scalar],
    start: Scalar,
    combine: impl Fn(Scalar, Scalar) -> Scalar,
) -> Vec<Scalar> {
    let mut total = start;
    let each = |&x: &Scalar| {
        total = combine(total, x);
        total
    };
    elements.iter().map(each).collect()
}

fn integers(dtype: DType, a: Scalar, b: Scalar, f: impl Fn(i128, i128) -> i128) -> Scalar {
    let integer = |x: Scalar| x.as_i128().expect("not a float");
    Scalar::from_i128(dtype, f(integer(a), integer(b)))
}

/// `log(sum(exp(x)))` of some elements, scaled by the greatest so that nothing
/// overflows. With an infinity in it, or NaN, it is the greatest element itself.
fn log_sum_exp(dtype: DType, elements: &[Scalar]) -> Scalar {
    let greatest = elements.iter().copied().reduce(greater).expect("not empty").as_f64();
    if !greatest.is_finite() {
        return Scalar::from_f64(dtype, greatest);
    }
    let mut sum = Sum::default();
    elements.iter().for_each(|x| sum.add((x.as_f64() - greatest).exp()));
    Scalar::from_f64(dtype, greatest + sum.value().ln())
}

impl OpDef for Cumulative {
    fn name(&self) -> &'static str {
        match self.kind {
            CumulativeKind::Sum => "cumsum",
            CumulativeKind::Prod => "cumprod",
            CumulativeKind::Min => "cummin",
            CumulativeKind::Max => "cummax",
            CumulativeKind::LogSumExp => "cumlogsumexp",
        }
    }

    fn attrs(&self) -> Attrs {
        let attrs = Attrs::new().int("axis", self.axis);
        if self.reverse { attrs.word("direction", "reverse") } else { attrs }
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        let named = |kind: &CumulativeKind| {
            Cumulative { kind: *kind, axis: 0, reverse: false }.name() == name
        };
        let kind = CumulativeKind::ALL.into_iter().find(named)?;
        let mut parse = || {
            let axis = attrs.take_int("axis")?;
            let reverse = match attrs.take_word_or("direction", "forward")?.as_str() {
                "forward" => false,
                "reverse" => true,
                word => return Err(format!("attribute `direction` is `{word}`")),
            };
            Ok(Cumulative { kind, axis, reverse })
        };
        Some(parse())
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x] = check::operands(op, operands)?;
        match self.kind {
            CumulativeKind::Sum | CumulativeKind::Prod => check::real_number(op, x)?,
            CumulativeKind::Min | CumulativeKind::Max => check::ordered(op, x)?,
            CumulativeKind::LogSumExp => check::float(op, x)?,
        }
        check::axis(op, self.axis, x)?;
        check::result(op, x.dtype, x.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let (x, ty) = (operands[0], &results[0]);
        let shape = &ty.shape;
        let mut all = vec![Scalar::zero(ty.dtype); ty.elements()];
        for i in 0..ty.elements() {
            let mut index = unravel(shape, i);
            if index[self.axis] > 0 {
                continue;
            }
            let mut offsets: Vec<usize> = (0..shape[self.axis])
                .map(|at| {
                    index[self.axis] = at;
                    ravel(shape, &index)
                })
                .collect();
            if self.reverse {
                offsets.reverse();
            }
            let row: Vec<Scalar> = offsets.iter().map(|&offset| x.get(offset)).collect();
            for (offset, result) in offsets.into_iter().zip(self.row(ty.dtype, &row)) {
                all[offset] = result;
            }
        }
        vec![Literal::from_fn(ty.clone(), |i| all[i])]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(fold::cumulative_jvp(self, rule, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(fold::cumulative_vjp(self, rule, cotangents))
    }

    fn vmap(&self, rule: &mut Rule<'_>, _batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::cumulative(self, rule))
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::Cumulative(self.kind, self.axis, self.reverse)
    }

    fn samples() -> Vec<Sample> {
        samples::cumulative()
    }
}
