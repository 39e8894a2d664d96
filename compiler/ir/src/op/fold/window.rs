//! Reductions of the windows of an array.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::{check_body, halves, same_body, samples, step};
use crate::derive::{Batch, Derived, NoRule, Results, Rule, batch, fold};
use crate::op::index::{Index, ravel, unravel};
use crate::op::reduce::ReduceKind;
use crate::op::{Attr, Attrs, InferError, OpDef, Sample, Share, Types, check};
use crate::{Form, Graph, Literal, Scalar, Shape, Type, Value};

/// Where windows lie. One entry for each axis in each list.
///
/// The array is spread out by `base_dilation` and surrounded by `padding`, on which a
/// window of `size` elements, `window_dilation` apart, moves by `stride`:
///
/// ```text
/// array a b c, base dilation 2, padding (1, 0), size 2, window dilation 2, stride 1
///   field     _ a _ b _ c
///   windows   ^   ^ ^   ^
///               ^   ^            4 windows: (_ _) (a b) (_ _) (b c)
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// Elements of a window along each axis, at least 1.
    pub size: Vec<usize>,
    /// Distance between neighbouring windows, at least 1.
    pub stride: Vec<usize>,
    /// Distance between neighbouring elements of the array in the field, at least 1.
    pub base_dilation: Vec<usize>,
    /// Distance between neighbouring elements of a window, at least 1.
    pub window_dilation: Vec<usize>,
    /// Elements added before the first and after the last; negative ones remove.
    pub padding: Vec<(i64, i64)>,
}

impl Window {
    /// Windows of `size` that touch: without dilation or padding.
    pub fn new(size: Vec<usize>, stride: Vec<usize>) -> Window {
        let ones = vec![1; size.len()];
        let padding = vec![(0, 0); size.len()];
        Window { size, stride, base_dilation: ones.clone(), window_dilation: ones, padding }
    }

    /// Extents of the field along each axis: spread out and padded. May be negative.
    fn field(&self, shape: &[usize]) -> Vec<i64> {
        let spread = |(k, &extent): (usize, &usize)| {
            let (low, high) = self.padding[k];
            let spread = match extent as i64 {
                0 => 0,
                n => (n - 1).saturating_mul(self.base_dilation[k] as i64).saturating_add(1),
            };
            spread.saturating_add(low).saturating_add(high)
        };
        shape.iter().enumerate().map(spread).collect()
    }

    /// How many windows there are along each axis of an array of `shape`.
    pub fn count(&self, shape: &[usize]) -> Shape {
        let along = |(k, field): (usize, i64)| {
            let reach = (self.size[k] as i64 - 1).saturating_mul(self.window_dilation[k] as i64);
            match field.saturating_sub(reach).saturating_sub(1) {
                room if room >= 0 => (room / self.stride[k] as i64) as usize + 1,
                _ => 0,
            }
        };
        self.field(shape).into_iter().enumerate().map(along).collect()
    }

    /// The element of the array under element `at` of window `window`, if there is one.
    fn element(&self, shape: &[usize], window: &[usize], at: &[usize]) -> Option<Index> {
        let mut index = Index::new();
        for k in 0..shape.len() {
            let field = window[k] * self.stride[k] + at[k] * self.window_dilation[k];
            let place = field as i64 - self.padding[k].0;
            let dilation = self.base_dilation[k] as i64;
            if place < 0 || place % dilation != 0 || place / dilation >= shape[k] as i64 {
                return None;
            }
            index.push((place / dilation) as usize);
        }
        Some(index)
    }

    fn attrs(&self, mut attrs: Attrs) -> Attrs {
        let ones = vec![1; self.size.len()];
        attrs = attrs
            .ints("window", &self.size)
            .ints_unless("stride", &self.stride, &ones)
            .ints_unless("base_dilation", &self.base_dilation, &ones)
            .ints_unless("window_dilation", &self.window_dilation, &ones);
        if self.padding.iter().any(|p| *p != (0, 0)) {
            let side = |f: fn(&(i64, i64)) -> i64| self.padding.iter().map(f).collect::<Vec<_>>();
            attrs = attrs.signed("low", &side(|p| p.0)).signed("high", &side(|p| p.1));
        }
        attrs
    }

    fn parse(attrs: &mut Attrs) -> Result<Window, String> {
        let size = attrs.take_ints("window")?;
        let ones = vec![1; size.len()];
        let zeros = vec![0; size.len()];
        let mut window = Window::new(size, attrs.take_ints_or("stride", &ones)?);
        window.base_dilation = attrs.take_ints_or("base_dilation", &ones)?;
        window.window_dilation = attrs.take_ints_or("window_dilation", &ones)?;
        let low = attrs.take_signed_or("low", &zeros)?;
        let high = attrs.take_signed_or("high", &zeros)?;
        if low.len() != high.len() {
            return Err("attributes `low` and `high` differ in length".to_string());
        }
        window.padding = low.into_iter().zip(high).collect();
        Ok(window)
    }

    fn check(&self, op: &'static str, x: &Type) -> Result<(), InferError> {
        let positive = [
            ("window", &self.size),
            ("stride", &self.stride),
            ("base_dilation", &self.base_dilation),
            ("window_dilation", &self.window_dilation),
        ];
        for (name, list) in positive {
            check::per_axis(op, name, list.len(), x)?;
            if list.contains(&0) {
                return Err(InferError::new(op, format!("wants a `{name}` of at least 1, got 0")));
            }
        }
        check::per_axis(op, "padding", self.padding.len(), x)?;
        // Everything that is added or multiplied later stays far inside an i64.
        let limit = 1u64 << 40;
        let large = positive.iter().flat_map(|(_, list)| list.iter()).any(|&v| v as u64 > limit)
            || self.padding.iter().any(|p| p.0.unsigned_abs().max(p.1.unsigned_abs()) > limit);
        if large {
            return Err(InferError::new(op, "its window is too large"));
        }
        Ok(())
    }
}

/// How the elements of a window combine.
#[derive(Clone, Debug)]
pub enum WindowCombine {
    /// Operand 0, from the identity of the kind, which padding has too.
    Kind(ReduceKind),
    /// Operands `0..n` by a body, from operands `n..2n`, which padding has too.
    Body(Arc<Graph>),
}

impl PartialEq for WindowCombine {
    fn eq(&self, other: &WindowCombine) -> bool {
        match (self, other) {
            (WindowCombine::Kind(a), WindowCombine::Kind(b)) => a == b,
            (WindowCombine::Body(a), WindowCombine::Body(b)) => same_body(a, b),
            _ => false,
        }
    }
}

impl Eq for WindowCombine {}

impl Hash for WindowCombine {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            WindowCombine::Kind(kind) => kind.hash(state),
            WindowCombine::Body(body) => Arc::as_ptr(body).hash(state),
        }
    }
}

/// Combines the elements of every window of the operands: one result element a window.
///
/// Elements are taken in row-major order of the window, padding and the gaps of a
/// dilated base included: they count as the identity, or as the initial value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ReduceWindow {
    /// How.
    pub combine: WindowCombine,
    /// Of what.
    pub window: Window,
}

impl OpDef for ReduceWindow {
    fn name(&self) -> &'static str {
        match &self.combine {
            WindowCombine::Kind(kind) => match kind {
                ReduceKind::Sum => "reduce_window_sum",
                ReduceKind::Prod => "reduce_window_prod",
                ReduceKind::Min => "reduce_window_min",
                ReduceKind::Max => "reduce_window_max",
                ReduceKind::And => "reduce_window_and",
                ReduceKind::Or => "reduce_window_or",
                ReduceKind::Xor => "reduce_window_xor",
            },
            WindowCombine::Body(_) => "reduce_window",
        }
    }

    fn attrs(&self) -> Attrs {
        let mut attrs = Attrs::new();
        if let WindowCombine::Body(body) = &self.combine {
            attrs.push("body", Attr::Graph(body.clone()));
        }
        self.window.attrs(attrs)
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        let kind = match name.strip_prefix("reduce_window")? {
            "" => None,
            rest => {
                let word = rest.strip_prefix('_')?;
                Some(ReduceKind::ALL.into_iter().find(|kind| kind.name() == word)?)
            }
        };
        let mut parse = || {
            let combine = match kind {
                Some(kind) => WindowCombine::Kind(kind),
                None => WindowCombine::Body(attrs.take_graph("body")?),
            };
            Ok(ReduceWindow { combine, window: Window::parse(attrs)? })
        };
        Some(parse())
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let arrays = match &self.combine {
            WindowCombine::Kind(kind) => {
                let [x] = check::operands(op, operands)?;
                kind.check(op, x)?;
                check::dtype(op, x, |d| !d.is_complex(), "elements that are no complex numbers")?;
                operands
            }
            WindowCombine::Body(body) => {
                let (arrays, inits) = halves(op, operands)?;
                check_body(op, body, inits)?;
                arrays
            }
        };
        self.window.check(op, arrays[0])?;
        let shape = self.window.count(&arrays[0].shape);
        let mut types = Types::new();
        for x in arrays {
            types.extend(check::result(op, x.dtype, shape.clone())?);
        }
        Ok(types)
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let shape = &operands[0].ty().shape;
        let size = &self.window.size;
        let count: usize = size.iter().product();
        let elements = |i: usize| {
            let window = unravel(&results[0].shape, i);
            (0..count).map(move |j| {
                let index = self.window.element(shape, &window, &unravel(size, j))?;
                Some(ravel(shape, &index))
            })
        };
        match &self.combine {
            WindowCombine::Kind(kind) => {
                let x = operands[0];
                let dtype = x.ty().dtype;
                let literal = Literal::from_fn(results[0].clone(), |i| {
                    // Padding is the identity: it is left out.
                    kind.combine(dtype, elements(i).flatten().map(|offset| x.get(offset)))
                });
                vec![literal]
            }
            WindowCombine::Body(body) => {
                let (arrays, inits) = operands.split_at(operands.len() / 2);
                let inits: Vec<Scalar> = inits.iter().map(|init| init.get(0)).collect();
                let mut all: Vec<Vec<Scalar>> = vec![Vec::new(); arrays.len()];
                for i in 0..results[0].elements() {
                    let mut carries = inits.clone();
                    for offset in elements(i) {
                        let element = |(x, init): (&&Literal, &Scalar)| match offset {
                            Some(offset) => x.get(offset),
                            None => *init,
                        };
                        carries = step(body, &carries, arrays.iter().zip(&inits).map(element));
                    }
                    for (column, carry) in all.iter_mut().zip(carries) {
                        column.push(carry);
                    }
                }
                let literal = |(ty, column): (&Type, Vec<Scalar>)| {
                    Literal::from_fn(ty.clone(), |i| column[i])
                };
                results.iter().zip(all).map(literal).collect()
            }
        }
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        fold::window_jvp(self, rule, tangents)
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        fold::window_vjp(self, rule, cotangents)
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        batch::reduce_window(self, rule, batch)
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::Window(self.combine.clone(), self.window.clone())
    }

    fn samples() -> Vec<Sample> {
        samples::windows()
    }
}
