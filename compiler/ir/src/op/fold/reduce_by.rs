//! Reductions with any body.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::{check_body, halves, same_body, samples, step};
use crate::derive::{Batch, Derived, NoRule, Results, Rule, batch, fold};
use crate::op::index::{Index, ravel, unravel};
use crate::op::{Attr, Attrs, InferError, OpDef, Sample, Share, Types, check};
use crate::{Form, Graph, Literal, Scalar, Type, Value};

/// Folds operands `0..n`, arrays of one shape, along `axes`, which the results lack.
///
/// Result element by element: carries start at operands `n..2n`, and the body takes the
/// elements one after the other, in row-major order of the reduced axes. Over an empty
/// axis, and along none of no elements, the results are the initial values.
#[derive(Clone, Debug)]
pub struct ReduceBy {
    /// `(carries, elements)` to the next carries.
    pub body: Arc<Graph>,
    /// The reduced axes, strictly increasing.
    pub axes: Vec<usize>,
}

impl PartialEq for ReduceBy {
    fn eq(&self, other: &ReduceBy) -> bool {
        same_body(&self.body, &other.body) && self.axes == other.axes
    }
}

impl Eq for ReduceBy {}

impl Hash for ReduceBy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.body).hash(state);
        self.axes.hash(state);
    }
}

impl OpDef for ReduceBy {
    fn name(&self) -> &'static str {
        "reduce"
    }

    fn attrs(&self) -> Attrs {
        let mut attrs = Attrs::new();
        attrs.push("body", Attr::Graph(self.body.clone()));
        attrs.ints("axes", &self.axes)
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        let mut parse =
            || Ok(ReduceBy { body: attrs.take_graph("body")?, axes: attrs.take_ints("axes")? });
        (name == "reduce").then(&mut parse)
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let (arrays, inits) = halves(op, operands)?;
        check_body(op, &self.body, inits)?;
        check::increasing_axes(op, &self.axes, arrays[0])?;
        let shape = arrays[0].shape.without(&self.axes);
        Ok(arrays.iter().map(|x| Type { dtype: x.dtype, shape: shape.clone() }).collect())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let (arrays, inits) = operands.split_at(operands.len() / 2);
        let shape = &arrays[0].ty().shape;
        let extents: Index = self.axes.iter().map(|&axis| shape[axis]).collect();
        let count: usize = extents.iter().product();
        let mut all: Vec<Vec<Scalar>> = vec![Vec::new(); arrays.len()];
        for i in 0..results[0].elements() {
            let rest = unravel(&results[0].shape, i);
            let mut carries: Vec<Scalar> = inits.iter().map(|init| init.get(0)).collect();
            for j in 0..count {
                let mut index = rest.clone();
                for (&axis, at) in self.axes.iter().zip(unravel(&extents, j)) {
                    index.insert(axis, at);
                }
                let offset = ravel(shape, &index);
                carries = step(&self.body, &carries, arrays.iter().map(|x| x.get(offset)));
            }
            for (column, carry) in all.iter_mut().zip(carries) {
                column.push(carry);
            }
        }
        let literal =
            |(ty, column): (&Type, Vec<Scalar>)| Literal::from_fn(ty.clone(), |i| column[i]);
        results.iter().zip(all).map(literal).collect()
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        fold::reduce_by_jvp(self, rule, tangents)
    }

    fn vjp(&self, _rule: &mut Rule<'_>, _cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        fold::reduce_by_vjp()
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        batch::reduce_by(self, rule, batch)
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::Fold(self.body.clone(), self.axes.clone())
    }

    fn samples() -> Vec<Sample> {
        samples::reduce_by()
    }
}
