//! Derivatives of folds.
//!
//! *Bodies* are differentiated forwards: the derivative of a fold is a fold of the
//! elements and their tangents by the body's own derivative. Backwards they are not: that
//! needs every carry on the way, which a fold does not keep.
//!
//! *Windows* go back to their elements by the windows that each element is in, one
//! position of the window after the other: views and maps, which become one kernel.
//!
//! *Running results* have derivatives that are themselves running results, of a linear
//! recurrence:
//!
//! ```text
//! u[i] = a[i] * u[i-1] + b[i]      by doubling: b += a * (b moved by 1, 2, 4, ..), a *= (a moved)
//! ```
//!
//! which needs no division, so that a zero factor or an infinite exponential harms nobody.
//! Equal extremes share a derivative in equal parts, among those up to each place.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::smallvec;

use super::{Derived, NoRule, Rule};
use crate::op::{
    Binary, Compare, Constant, Convert, Cumulative, CumulativeKind, Pad, ReduceBy, ReduceKind,
    ReduceWindow, Slice, Unary, Window, WindowCombine,
};
use crate::{DType, Graph, Literal, Op, ParameterInfo, Scalar, Type, Value};

/// Most elements of a window that derivatives look at one by one.
const POSITIONS: usize = 1024;

/// The rank-0 number `x` in the element type of `like`.
fn scalar(rule: &mut Rule<'_>, x: f64, like: Value) -> Value {
    let value = Literal::scalar(Scalar::from_f64(rule.ty(like).dtype, x));
    rule.add(Constant { value }, &[])
}

/// A half value in the type in which sums of it are formed.
fn widen(rule: &mut Rule<'_>, a: Value) -> Value {
    let dtype = rule.ty(a).dtype;
    let to = dtype.accumulator();
    if to == dtype { a } else { rule.add(Convert { to }, &[a]) }
}

// --- bodies -----------------------------------------------------------------

/// `(carries, their tangents, elements, their tangents)` to the next of both. Only floats
/// have tangents.
fn tangent_body(body: &Graph) -> Result<Graph, NoRule> {
    let mut graph = Graph::new(format!("{}_jvp", body.name()));
    let parameters: Vec<Value> = body.parameters().collect();
    let mut copies: HashMap<Value, Value> = HashMap::new();
    let mut tangents: HashMap<Value, Value> = HashMap::new();
    for half in parameters.chunks(parameters.len() / 2) {
        let add = |graph: &mut Graph, ty: &Type| {
            graph.add_parameter(ty.clone(), ParameterInfo::default())
        };
        for &p in half {
            copies.insert(p, add(&mut graph, body.ty(p)));
        }
        for p in half.iter().filter(|&&p| body.ty(p).dtype.is_float()) {
            tangents.insert(copies[p], add(&mut graph, body.ty(*p)));
        }
    }
    for node in body.order() {
        if body.parameter_index(node).is_some() {
            continue;
        }
        let operands: Vec<Value> = body.operands(node).iter().map(|v| copies[v]).collect();
        let op = body.op(node).clone();
        let copy = graph.add(op.clone(), &operands, None).expect("as it was inferred");
        let results: Vec<Value> = graph.results(copy).collect();
        let given: Vec<Option<Value>> = operands.iter().map(|v| tangents.get(v).copied()).collect();
        if given.iter().any(Option::is_some) {
            let derived = op.jvp(&mut Rule::new(&mut graph, None, &operands, &results), &given)?;
            let found = results.iter().zip(derived).filter_map(|(&r, t)| Some((r, t?)));
            tangents.extend(found);
        }
        copies.extend(body.results(node).zip(results));
    }
    let outputs: Vec<Value> = body.outputs().iter().map(|v| copies[v]).collect();
    for &output in &outputs {
        graph.add_output(output, "");
    }
    for output in outputs {
        let dtype = graph.ty(output).dtype;
        if dtype.is_float() {
            let zero = Constant { value: Literal::scalar(Scalar::zero(dtype)) };
            let tangent = tangents.get(&output).copied();
            let tangent = tangent
                .unwrap_or_else(|| graph.add1(zero, &[], None).expect("constants are well typed"));
            graph.add_output(tangent, "");
        }
    }
    Ok(graph)
}

/// The tangents of a fold by `body`, which `fold` makes of another.
fn body_jvp(
    body: &Graph,
    rule: &mut Rule<'_>,
    tangents: &[Option<Value>],
    fold: impl FnOnce(Arc<Graph>) -> Op,
) -> Result<Derived, NoRule> {
    let n = rule.operands.len() / 2;
    let mut operands = Vec::new();
    for half in [0..n, n..2 * n] {
        operands.extend(&rule.operands[half.clone()]);
        for i in half {
            let operand = rule.operands[i];
            if rule.differentiable(operand) {
                operands.push(rule.or_zeros(tangents[i], operand));
            }
        }
    }
    let node = rule.node(fold(Arc::new(tangent_body(body)?)), &operands);
    let mut next = n as u32..;
    let results = rule.results.to_vec();
    let tangent = |result: Value| {
        let result = rule.differentiable(result).then(|| next.next())??;
        Some(Value { node, result })
    };
    Ok(results.into_iter().map(tangent).collect())
}

/// Bodies have no reverse mode.
fn no_vjp(op: &'static str) -> NoRule {
    let reason = "a reduction by a body has no reverse mode: use the sum, product or extreme that \
                  it is, or forward mode";
    NoRule::new(op, reason)
}

pub(crate) fn reduce_by_jvp(
    op: &ReduceBy,
    rule: &mut Rule<'_>,
    tangents: &[Option<Value>],
) -> Result<Derived, NoRule> {
    let axes = op.axes.clone();
    body_jvp(&op.body, rule, tangents, |body| ReduceBy { body, axes }.into())
}

pub(crate) fn reduce_by_vjp() -> Result<Derived, NoRule> {
    Err(no_vjp("reduce"))
}

// --- windows ----------------------------------------------------------------

/// A body of scalars of one type.
fn body<const N: usize>(
    name: &str,
    dtype: DType,
    build: impl FnOnce(&mut Rule<'_>, [Value; N], [Value; N]) -> [Value; N],
) -> Arc<Graph> {
    let mut graph = Graph::new(name);
    let mut parameters =
        || [(); N].map(|()| graph.add_parameter(Type::scalar(dtype), ParameterInfo::default()));
    let (carries, elements) = (parameters(), parameters());
    let next = build(&mut Rule::new(&mut graph, None, &[], &[]), carries, elements);
    for output in next {
        graph.add_output(output, "");
    }
    Arc::new(graph)
}

pub(crate) fn window_jvp(
    op: &ReduceWindow,
    rule: &mut Rule<'_>,
    tangents: &[Option<Value>],
) -> Result<Derived, NoRule> {
    let window = op.window.clone();
    let kind = match &op.combine {
        WindowCombine::Kind(kind) => *kind,
        WindowCombine::Body(body) => {
            let fold = |body| ReduceWindow { combine: WindowCombine::Body(body), window }.into();
            return body_jvp(body, rule, tangents, fold);
        }
    };
    let Some(t) = tangents[0] else { return Ok(smallvec![None]) };
    let (x, y) = (rule.operands[0], rule.results[0]);
    let (wide_x, wide_t) = (widen(rule, x), widen(rule, t));
    let dtype = rule.ty(wide_x).dtype;
    let tangent = match kind {
        ReduceKind::Sum => rule.add(op.clone(), &[t]),
        ReduceKind::Prod => {
            let product = body("product_jvp", dtype, |r, [p, d], [x, t]| {
                let (left, right) = (r.mul(d, x), r.mul(p, t));
                [r.mul(p, x), r.binary(Binary::Add, left, right)]
            });
            let combine = WindowCombine::Body(product);
            let inits = [scalar(rule, 1.0, wide_x), scalar(rule, 0.0, wide_x)];
            let operands = [wide_x, wide_t, inits[0], inits[1]];
            Value { result: 1, ..rule.add(ReduceWindow { combine, window }, &operands) }
        }
        ReduceKind::Min | ReduceKind::Max => {
            let (wins, pick, least) = match kind {
                ReduceKind::Min => (Compare::Lt, Binary::Min, f64::INFINITY),
                _ => (Compare::Gt, Binary::Max, f64::NEG_INFINITY),
            };
            let extreme = body("extreme_jvp", dtype, |r, [best, sum, count], [x, t, one]| {
                let (wins, ties) = (r.compare(wins, x, best), r.compare(Compare::Eq, x, best));
                let mut shared = |total, own| {
                    let more = r.binary(Binary::Add, total, own);
                    let kept = r.select(ties, more, total);
                    r.select(wins, own, kept)
                };
                let (sum, count) = (shared(sum, t), shared(count, one));
                [r.binary(pick, best, x), sum, count]
            });
            let ones = rule.number(1.0, wide_x);
            let (least, zero) = (scalar(rule, least, wide_x), scalar(rule, 0.0, wide_x));
            let operands = [wide_x, wide_t, ones, least, zero, zero];
            let combine = WindowCombine::Body(extreme);
            let node = rule.node(ReduceWindow { combine, window }, &operands);
            let [sum, count] = [1, 2].map(|result| Value { node, result });
            shared_among(rule, sum, count)
        }
        ReduceKind::And | ReduceKind::Or | ReduceKind::Xor => return Ok(smallvec![None]),
    };
    Ok(smallvec![Some(rule.convert_like(tangent, y))])
}

/// An equal part for each of `count`, of which there may be none.
fn shared_among(rule: &mut Rule<'_>, sum: Value, count: Value) -> Value {
    let one = rule.number(1.0, count);
    let count = rule.binary(Binary::Max, count, one);
    rule.div(sum, count)
}

pub(crate) fn window_vjp(
    op: &ReduceWindow,
    rule: &mut Rule<'_>,
    cotangents: &[Option<Value>],
) -> Result<Derived, NoRule> {
    let kind = match &op.combine {
        WindowCombine::Kind(kind) => *kind,
        WindowCombine::Body(_) => return Err(no_vjp("reduce_window")),
    };
    let Some(ct) = cotangents[0] else { return Ok(smallvec![None]) };
    let x = rule.operands[0];
    if kind == ReduceKind::Sum {
        let window = turned(&op.window, &rule.ty(x), &rule.ty(ct));
        let combine = WindowCombine::Kind(ReduceKind::Sum);
        return Ok(smallvec![Some(rule.add(ReduceWindow { combine, window }, &[ct]))]);
    }
    let positions = Positions::new(&op.window, &rule.ty(x), &rule.ty(ct))?;
    let wide_x = widen(rule, x);
    if rule.ty(ct).elements() == 0 || rule.ty(x).elements() == 0 {
        return Ok(smallvec![Some(rule.zeros(x))]);
    }
    let (wide_y, wide_ct) = (widen(rule, rule.results[0]), widen(rule, ct));
    let mut total = None;
    match kind {
        ReduceKind::Min | ReduceKind::Max => {
            let one = rule.number(1.0, wide_y);
            let mut count = None;
            for at in positions.all() {
                let element = positions.element(rule, wide_x, &at, f64::NAN);
                let hit = rule.compare(Compare::Eq, element, wide_y);
                let hit = rule.select_or_zero(hit, one);
                count = rule.plus(count, Some(hit));
            }
            let count = rule.or_zeros(count, wide_y);
            let part = shared_among(rule, wide_ct, count);
            for at in positions.all() {
                let there = positions.back(rule, wide_y, &at, f64::NAN);
                let part = positions.back(rule, part, &at, 0.0);
                let hit = rule.compare(Compare::Eq, wide_x, there);
                let part = rule.select_or_zero(hit, part);
                total = rule.plus(total, Some(part));
            }
        }
        ReduceKind::Prod => {
            // The product of all other elements: those before times those behind.
            let elements: Vec<Value> =
                positions.all().map(|at| positions.element(rule, wide_x, &at, 1.0)).collect();
            let mut before = vec![wide_ct];
            for &element in &elements {
                let last = *before.last().expect("the cotangent");
                before.push(rule.mul(last, element));
            }
            let mut behind = rule.number(1.0, wide_ct);
            let all: Vec<Vec<usize>> = positions.all().collect();
            for (at, (&element, &before)) in all.iter().zip(elements.iter().zip(&before)).rev() {
                let others = rule.mul(before, behind);
                behind = rule.mul(behind, element);
                let part = positions.back(rule, others, at, 0.0);
                total = rule.plus(total, Some(part));
            }
        }
        _ => return Ok(smallvec![None]),
    }
    let total = rule.or_zeros(total, wide_x);
    Ok(smallvec![Some(rule.convert_like(total, x))])
}

/// The windows over the cotangent whose sums are those of each element's windows.
fn turned(window: &Window, x: &Type, y: &Type) -> Window {
    let mut turned = Window {
        size: window.size.clone(),
        stride: window.base_dilation.clone(),
        base_dilation: window.stride.clone(),
        window_dilation: window.window_dilation.clone(),
        padding: Vec::new(),
    };
    for k in 0..x.shape.rank() {
        let reach = (window.size[k] as i64 - 1) * window.window_dilation[k] as i64;
        let low = reach - window.padding[k].0;
        let spread = spread(y.shape[k], window.stride[k]);
        let last = (x.shape[k] as i64 - 1) * window.base_dilation[k] as i64;
        turned.padding.push((low, last + reach + 1 - low - spread));
    }
    turned
}

/// Places that `extent` elements take, `distance` apart.
fn spread(extent: usize, distance: usize) -> i64 {
    match extent as i64 {
        0 => 0,
        n => (n - 1) * distance as i64 + 1,
    }
}

/// The positions of a window, one after the other.
struct Positions<'w> {
    window: &'w Window,
    x: Vec<usize>,
    y: Vec<usize>,
}

impl<'w> Positions<'w> {
    fn new(window: &'w Window, x: &Type, y: &Type) -> Result<Positions<'w>, NoRule> {
        let count = window.size.iter().fold(1usize, |n, &d| n.saturating_mul(d));
        if count > POSITIONS {
            let reason = format!(
                "an extreme or product over windows of {count} elements has no reverse mode: \
                 at most {POSITIONS}"
            );
            return Err(NoRule::new("reduce_window", reason));
        }
        Ok(Positions { window, x: x.shape.to_vec(), y: y.shape.to_vec() })
    }

    fn all(&self) -> impl Iterator<Item = Vec<usize>> + use<'_, 'w> {
        let size = &self.window.size;
        (0..size.iter().product()).map(|mut number: usize| {
            let mut at = vec![0; size.len()];
            for k in (0..size.len()).rev() {
                at[k] = number % size[k];
                number /= size[k];
            }
            at
        })
    }

    /// For every window, the element at position `at` of it; `fill` where there is none.
    fn element(&self, rule: &mut Rule<'_>, x: Value, at: &[usize], fill: f64) -> Value {
        let Window { stride, base_dilation, window_dilation, padding, .. } = self.window;
        let interior = base_dilation.iter().map(|d| d - 1).collect();
        let (low, high) = padding.iter().copied().unzip();
        let fill = scalar(rule, fill, x);
        let field = rule.add(Pad { low, high, interior }, &[x, fill]);
        let start: Vec<usize> = at.iter().zip(window_dilation).map(|(a, d)| a * d).collect();
        let limit = |(k, &start): (usize, &usize)| start + spread(self.y[k], stride[k]) as usize;
        let limit = start.iter().enumerate().map(limit).collect();
        rule.add(Slice { start, limit, stride: stride.clone() }, &[field])
    }

    /// For every element, the window that has it at position `at`; `fill` if there is none.
    fn back(&self, rule: &mut Rule<'_>, y: Value, at: &[usize], fill: f64) -> Value {
        let Window { stride, base_dilation, window_dilation, padding, .. } = self.window;
        let rank = at.len();
        let low: Vec<i64> =
            (0..rank).map(|k| (at[k] * window_dilation[k]) as i64 - padding[k].0).collect();
        let all: Vec<i64> = (0..rank).map(|k| spread(self.x[k], base_dilation[k])).collect();
        let high = (0..rank).map(|k| all[k] - low[k] - spread(self.y[k], stride[k])).collect();
        let interior = stride.iter().map(|s| s - 1).collect();
        let fill = scalar(rule, fill, y);
        let field = rule.add(Pad { low, high, interior }, &[y, fill]);
        let limit = all.iter().map(|&extent| extent as usize).collect();
        let slice = Slice { start: vec![0; rank], limit, stride: base_dilation.clone() };
        rule.add(slice, &[field])
    }
}

// --- running results --------------------------------------------------------

/// An axis with a direction.
#[derive(Clone, Copy)]
struct Along {
    axis: usize,
    reverse: bool,
}

impl Along {
    fn of(op: &Cumulative) -> Along {
        Along { axis: op.axis, reverse: op.reverse }
    }

    fn back(self) -> Along {
        Along { reverse: !self.reverse, ..self }
    }

    /// Every element in the place of the one `distance` after it.
    fn moved(self, rule: &mut Rule<'_>, a: Value, distance: usize, fill: f64) -> Value {
        let rank = rule.ty(a).shape.rank();
        let mut pad = Pad { low: vec![0; rank], high: vec![0; rank], interior: vec![0; rank] };
        let by = distance as i64 * if self.reverse { -1 } else { 1 };
        (pad.low[self.axis], pad.high[self.axis]) = (by, -by);
        let fill = scalar(rule, fill, a);
        rule.add(pad, &[a, fill])
    }

    /// `u[i] = a[i] * u[i-1] + b[i]`.
    fn recurrence(self, rule: &mut Rule<'_>, mut a: Value, mut b: Value) -> Value {
        let extent = rule.ty(b).shape[self.axis];
        let mut distance = 1;
        while distance < extent {
            let before = self.moved(rule, b, distance, 0.0);
            let carried = rule.mul(a, before);
            b = rule.binary(Binary::Add, carried, b);
            let factors = self.moved(rule, a, distance, 1.0);
            a = rule.mul(a, factors);
            distance *= 2;
        }
        b
    }
}

/// For a running extreme: whether each element is it (a number), and whether the extreme is
/// that of the place before (a number).
fn extremes(rule: &mut Rule<'_>, along: Along, x: Value, y: Value) -> (Value, Value) {
    let one = rule.number(1.0, x);
    let before = along.moved(rule, y, 1, f64::NAN);
    let hit = rule.compare(Compare::Eq, x, y);
    let same = rule.compare(Compare::Eq, y, before);
    (rule.select_or_zero(hit, one), rule.select_or_zero(same, one))
}

/// For a running log-sum-exp: the part of each element in its own result, and that of the
/// result before.
fn parts(rule: &mut Rule<'_>, along: Along, x: Value, y: Value) -> (Value, Value) {
    let finite = rule.unary(Unary::IsFinite, y);
    let before = along.moved(rule, y, 1, f64::NEG_INFINITY);
    let mut part = |value| {
        let difference = rule.sub(value, y);
        let part = rule.unary(Unary::Exp, difference);
        rule.select_or_zero(finite, part)
    };
    (part(x), part(before))
}

pub(crate) fn cumulative_jvp(
    op: &Cumulative,
    rule: &mut Rule<'_>,
    tangents: &[Option<Value>],
) -> Derived {
    let Some(t) = tangents[0] else { return smallvec![None] };
    let (along, y) = (Along::of(op), rule.results[0]);
    if op.kind == CumulativeKind::Sum {
        return smallvec![Some(rule.add(op.clone(), &[t]))];
    }
    let [x, wide_y, t] = [rule.operands[0], y, t].map(|v| widen(rule, v));
    let tangent = match op.kind {
        CumulativeKind::Sum => unreachable!("answered above"),
        CumulativeKind::Prod => {
            let before = along.moved(rule, wide_y, 1, 1.0);
            let own = rule.mul(before, t);
            along.recurrence(rule, x, own)
        }
        CumulativeKind::Min | CumulativeKind::Max => {
            let (hit, same) = extremes(rule, along, x, wide_y);
            let own = rule.mul(hit, t);
            let (sum, count) =
                (along.recurrence(rule, same, own), along.recurrence(rule, same, hit));
            rule.div(sum, count)
        }
        CumulativeKind::LogSumExp => {
            let (own, before) = parts(rule, along, x, wide_y);
            let own = rule.mul(own, t);
            along.recurrence(rule, before, own)
        }
    };
    smallvec![Some(rule.convert_like(tangent, y))]
}

pub(crate) fn cumulative_vjp(
    op: &Cumulative,
    rule: &mut Rule<'_>,
    cotangents: &[Option<Value>],
) -> Derived {
    let Some(ct) = cotangents[0] else { return smallvec![None] };
    let (along, x) = (Along::of(op), rule.operands[0]);
    let back = along.back();
    if op.kind == CumulativeKind::Sum {
        return smallvec![Some(
            rule.add(Cumulative { reverse: back.reverse, ..op.clone() }, &[ct])
        )];
    }
    let [wide_x, y, ct] = [x, rule.results[0], ct].map(|v| widen(rule, v));
    let cotangent = match op.kind {
        CumulativeKind::Sum => unreachable!("answered above"),
        CumulativeKind::Prod => {
            let factors = back.moved(rule, wide_x, 1, 1.0);
            let behind = back.recurrence(rule, factors, ct);
            let before = along.moved(rule, y, 1, 1.0);
            rule.mul(before, behind)
        }
        CumulativeKind::Min | CumulativeKind::Max => {
            let (hit, same) = extremes(rule, along, wide_x, y);
            let count = along.recurrence(rule, same, hit);
            let part = rule.div(ct, count);
            let same = back.moved(rule, same, 1, 0.0);
            let sum = back.recurrence(rule, same, part);
            rule.mul(hit, sum)
        }
        CumulativeKind::LogSumExp => {
            let (own, before) = parts(rule, along, wide_x, y);
            let before = back.moved(rule, before, 1, 0.0);
            let sum = back.recurrence(rule, before, ct);
            rule.mul(own, sum)
        }
    };
    smallvec![Some(rule.convert_like(cotangent, x))]
}
