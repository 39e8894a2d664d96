//! Sorting along an axis, and the greatest elements of it.
//!
//! The order of floats is C5's: −0 and +0 are equal, every NaN comes after every number
//! and NaNs are equal. Sorting is stable: what is equal keeps its order. Elements move
//! and are never changed, so the sign of a zero and the payload of a NaN arrive as they
//! were.
//!
//! A comparator of the user's own may contradict itself. The result is then still a
//! permutation of the elements, the same on every backend, because the algorithm is part
//! of the definition: runs of one element are merged in pairs, left to right, then the
//! runs of two, of four and so on; a merge takes the element of the right run exactly
//! when `by(right, left)` holds, and the last run of a pass may be short or alone.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::smallvec;

use super::{
    Attr, Attrs, Binary, Compare, Domain, InferError, Op, OpDef, Sample, Share, Types, check,
    sample,
};
use crate::derive::{self, Batch, Derived, NoRule, Results, Rule};
use crate::eval::eval;
use crate::form::{Generate, Order, SortKey};
use crate::{DType, Form, Graph, Literal, ParameterInfo, Scalar, Type, Value};

/// Longest axis that sorts: positions are kept in 32 bits.
const LONGEST: usize = u32::MAX as usize;

/// Reorders all operands alike along an axis. JAX: `lax.sort`; always stable.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sort {
    /// The axis along which elements move.
    pub axis: usize,
    /// Which of two places comes first.
    pub by: SortBy,
}

/// An order of the places along an axis.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum SortBy {
    /// By operand 0, where that is equal by operand 1, and so on.
    Keys {
        /// How many operands are keys: the first ones.
        count: usize,
        /// The keys whose order is the other way round, strictly increasing. NaN then
        /// comes before every number.
        descending: Vec<usize>,
    },
    /// By a function of the elements of both places.
    Function(Comparator),
}

/// A graph of scalars that says whether one place comes before another.
///
/// Its parameters are, for each operand of the sort, the element of the one and the
/// element of the other; its one output is a `bool`. It holds elementwise ops and
/// constants alone.
#[derive(Clone, Debug)]
pub struct Comparator(pub Arc<Graph>);

impl PartialEq for Comparator {
    fn eq(&self, other: &Comparator) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Comparator {}

impl Hash for Comparator {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// The `k` greatest elements along the last axis, greatest first, and where they are.
/// Of equal elements the one at the lower index comes first; NaN is above every number.
/// JAX: `lax.top_k`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TopK {
    /// How many; at most the extent of the axis.
    pub k: usize,
}

/// The order of two elements of one type, ascending.
fn order(a: Scalar, b: Scalar) -> Ordering {
    if let (Some(a), Some(b)) = (a.as_i128(), b.as_i128()) {
        return a.cmp(&b);
    }
    let (a, b) = (a.as_f64(), b.as_f64());
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The places `0..n` in the order that the module's documentation defines.
fn merge_sort(n: usize, before: &mut dyn FnMut(usize, usize) -> bool) -> Vec<usize> {
    let mut places: Vec<usize> = (0..n).collect();
    let mut width = 1;
    while width < n {
        let mut merged = Vec::with_capacity(n);
        for pair in places.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let (Some(&l), Some(&r)) = (left.first(), right.first()) {
                if before(r, l) {
                    merged.push(r);
                    right = &right[1..];
                } else {
                    merged.push(l);
                    left = &left[1..];
                }
            }
            merged.extend(left.iter().chain(right));
        }
        places = merged;
        width *= 2;
    }
    places
}

impl SortBy {
    /// Ascending by the first operand.
    pub fn first() -> SortBy {
        SortBy::Keys { count: 1, descending: vec![] }
    }

    /// Whether the elements `a`, one of each operand, come before the elements `b`.
    fn before(&self, a: &[Scalar], b: &[Scalar]) -> bool {
        match self {
            SortBy::Keys { count, descending } => {
                let keys = (0..*count).map(|k| match descending.contains(&k) {
                    true => order(b[k], a[k]),
                    false => order(a[k], b[k]),
                });
                keys.fold(Ordering::Equal, Ordering::then).is_lt()
            }
            SortBy::Function(Comparator(graph)) => {
                let pairs = a.iter().zip(b).flat_map(|(&a, &b)| [a, b]);
                let arguments: Vec<Literal> = pairs.map(Literal::scalar).collect();
                let results = eval(graph, &arguments).expect("infer checked the comparator");
                results[0].get(0).bits() != 0
            }
        }
    }

    fn check(&self, op: &'static str, operands: &[&Type]) -> Result<(), InferError> {
        let fail = |message: String| Err(InferError::new(op, message));
        match self {
            SortBy::Keys { count, descending } => {
                let n = operands.len();
                if *count == 0 || *count > n {
                    return fail(format!("wants 1 to {n} keys for {n} operands, got {count}"));
                }
                let inside = descending.iter().all(|k| k < count);
                if !inside || !descending.is_sorted_by(|a, b| a < b) {
                    let wanted = "increasing numbers of keys as `descending`";
                    return fail(format!("wants {wanted}, got {descending:?} of {count}"));
                }
                Ok(())
            }
            SortBy::Function(comparator) => comparator.check(op, operands),
        }
    }
}

impl Comparator {
    /// Whether it compares elements of operands of these types, by elementwise ops alone.
    fn check(&self, op: &'static str, operands: &[&Type]) -> Result<(), InferError> {
        let Comparator(graph) = self;
        let name = graph.name();
        let fail = |message: String| Err(InferError::new(op, message));
        let pairs = operands.iter().flat_map(|ty| [ty.dtype; 2]);
        let wanted: Vec<Type> = pairs.map(Type::scalar).collect();
        let given: Vec<Type> = graph.parameters().map(|p| graph.ty(p).clone()).collect();
        if wanted != given {
            let list =
                |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
            let (wanted, given) = (list(&wanted), list(&given));
            return fail(format!("wants a comparator of ({wanted}), @{name} is of ({given})"));
        }
        let results: Vec<&Type> = graph.outputs().iter().map(|&v| graph.ty(v)).collect();
        if results != [&Type::scalar(DType::Bool)] {
            return fail(format!("wants a comparator with one bool[] as result, @{name} has not"));
        }
        for node in graph.order() {
            match graph.op(node).lower() {
                Form::Parameter | Form::Map(_) | Form::Generate(Generate::Constant(_)) => {}
                _ => {
                    let inner = graph.op(node).name();
                    let wanted = "a comparator of elementwise ops";
                    return fail(format!("wants {wanted}, @{name} holds `{inner}`"));
                }
            }
        }
        Ok(())
    }

    /// The key whose order it is, if it is `lt` or `gt` of the elements of one operand
    /// whose type has no exceptional values, so that the order is the type's own.
    fn key(&self) -> Option<SortKey> {
        let Comparator(graph) = self;
        let &[output] = graph.outputs() else { return None };
        let Op::Compare(compare) = graph.op(output.node) else { return None };
        let operands = graph.operands(output.node);
        let place = |v: Value| graph.parameter_index(v.node);
        let (a, b) = (place(operands[0])?, place(operands[1])?);
        if a / 2 != b / 2 || a == b || graph.ty(operands[0]).dtype.is_float() {
            return None;
        }
        let less = match compare {
            Compare::Lt => a < b,
            Compare::Gt => a > b,
            _ => return None,
        };
        Some(SortKey { operand: a / 2, descending: !less })
    }
}

/// Rows along `axis`: how many come before it, along it, and behind it.
fn rows(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    let product = |s: &[usize]| s.iter().product();
    (product(&shape[..axis]), shape[axis], product(&shape[axis + 1..]))
}

/// Those of the types whose elements have an order.
fn ordered(types: impl Iterator<Item = Type>) -> impl Iterator<Item = Type> {
    types.filter(|ty| !ty.dtype.is_complex())
}

impl OpDef for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }

    fn attrs(&self) -> Attrs {
        let attrs = Attrs::new().int("axis", self.axis);
        match &self.by {
            SortBy::Keys { count, descending } => {
                attrs.int("keys", *count).ints_unless("descending", descending, &[])
            }
            SortBy::Function(Comparator(graph)) => {
                let mut attrs = attrs;
                attrs.push("by", Attr::Graph(graph.clone()));
                attrs
            }
        }
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        let parse = |attrs: &mut Attrs| {
            let axis = attrs.take_int("axis")?;
            let by = if attrs.has("by") {
                SortBy::Function(Comparator(attrs.take_graph("by")?))
            } else {
                let count = attrs.take_int("keys")?;
                SortBy::Keys { count, descending: attrs.take_ints_or("descending", &[])? }
            };
            Ok(Sort { axis, by })
        };
        (name == "sort").then(|| parse(attrs))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let Some(&first) = operands.first() else {
            return Err(InferError::new(op, "wants at least one operand, got none"));
        };
        for (i, ty) in operands.iter().enumerate() {
            check::ordered(op, ty)?;
            if ty.shape != first.shape {
                let message =
                    format!("operands differ in shape: operand 0 {first}, operand {i} {ty}");
                return Err(InferError::new(op, message));
            }
        }
        check::axis(op, self.axis, first)?;
        if first.shape[self.axis] > LONGEST {
            let message = format!("{first} axis {} is longer than {LONGEST}", self.axis);
            return Err(InferError::new(op, message));
        }
        self.by.check(op, operands)?;
        Ok(operands.iter().map(|&ty| ty.clone()).collect())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let (outer, length, inner) = rows(&results[0].shape, self.axis);
        // For each place of the result, from where its elements come.
        let mut from = vec![0; outer * length * inner];
        for row in 0..outer * inner {
            let at = |i: usize| (row / inner * length + i) * inner + row % inner;
            let elements =
                |i: usize| -> Vec<Scalar> { operands.iter().map(|x| x.get(at(i))).collect() };
            let mut before = |a, b| self.by.before(&elements(a), &elements(b));
            for (i, place) in merge_sort(length, &mut before).into_iter().enumerate() {
                from[at(i)] = at(place);
            }
        }
        let moved = operands.iter().zip(results);
        moved.map(|(x, ty)| Literal::from_fn(ty.clone(), |i| x.get(from[i]))).collect()
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(derive::sort::sort_jvp(self, rule, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(derive::sort::sort_vjp(self, rule, cotangents))
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(derive::sort::sort_vmap(self, rule, batch))
    }

    fn share(&self) -> Share {
        // A row is read in full before the first of its elements is written.
        Share::Never
    }

    fn lower(&self) -> Form {
        let order = match &self.by {
            SortBy::Keys { count, descending } => {
                let key = |k| SortKey { operand: k, descending: descending.contains(&k) };
                Order::Keys((0..*count).map(key).collect())
            }
            SortBy::Function(comparator) => match comparator.key() {
                Some(key) => Order::Keys(vec![key]),
                None => Order::Function(comparator.0.clone()),
            },
        };
        Form::Sort { axis: self.axis, order }
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut add = |axis: usize, by: SortBy, operands: Vec<Type>| {
            let domain = Domain::Any;
            samples.push(Sample { op: Sort { axis, by }.into(), operands, domain });
        };
        let keys =
            |count, descending: &[usize]| SortBy::Keys { count, descending: descending.to_vec() };
        // Random bits: NaNs and both zeros are rare among them, and equal elements too but
        // in the narrow types. The tests of the conformance walk add more.
        for ty in ordered(sample::typed_tails().chain(sample::typed([701]))) {
            add(0, keys(1, &[]), vec![ty.clone()]);
            add(0, keys(1, &[0]), vec![ty.clone(), ty.with_dtype(DType::I32)]);
        }
        for ty in sample::shaped(DType::F32) {
            for axis in 0..ty.shape.rank() {
                add(axis, keys(1, &[]), vec![ty.clone()]);
                add(axis, SortBy::Function(nearest_zero(DType::F32)), vec![ty.clone()]);
            }
        }
        // Several keys: a narrow one first, so that the second decides.
        for dtype in DType::REAL {
            let types = [DType::Bool, dtype, DType::U16].map(|d| Type::new(d, [65]));
            add(0, keys(2, &[1]), types.to_vec());
            add(0, keys(3, &[0, 2]), types.to_vec());
            add(0, SortBy::Function(nearest_zero(dtype)), vec![Type::new(dtype, [129])]);
        }
        add(1, keys(2, &[]), vec![Type::new(DType::U8, [3, 33, 5]); 3]);
        add(0, SortBy::Function(greatest_second()), vec![Type::new(DType::I8, [31]); 2]);
        samples
    }
}

/// `by(a, b) = a * a < b * b`: of floats no order where NaN is, of narrow integers, which
/// wrap, and of `bool` one with many equals.
fn nearest_zero(dtype: DType) -> Comparator {
    let build = || -> Result<Graph, InferError> {
        let mut graph = Graph::new("nearest_zero");
        let mut squares = Vec::new();
        for _ in 0..2 {
            let x = graph.add_parameter(Type::scalar(dtype), ParameterInfo::default());
            squares.push(graph.add1(Binary::Mul, &[x, x], None)?);
        }
        let before = graph.add1(Compare::Lt, &squares, None)?;
        graph.add_output(before, "");
        Ok(graph)
    };
    Comparator(Arc::new(build().expect("every type multiplies and compares")))
}

/// Of two `i8` operands: descending by the second, where nothing but a key is compared.
fn greatest_second() -> Comparator {
    let mut graph = Graph::new("greatest_second");
    let [_, _, a, b] =
        [(); 4].map(|()| graph.add_parameter(Type::scalar(DType::I8), ParameterInfo::default()));
    let before = graph.add1(Compare::Gt, &[a, b], None).expect("integers compare");
    graph.add_output(before, "");
    Comparator(Arc::new(graph))
}

impl OpDef for TopK {
    fn name(&self) -> &'static str {
        "top_k"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().int("k", self.k)
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "top_k").then(|| Ok(TopK { k: attrs.take_int("k")? }))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [x] = check::operands(op, operands)?;
        let Some((&length, outer)) = x.shape.split_last() else {
            return Err(InferError::new(op, format!("wants an axis, got {x}")));
        };
        check::ordered(op, x)?;
        if self.k > length {
            let message =
                format!("wants at most the {length} elements of a row of {x}, got k = {}", self.k);
            return Err(InferError::new(op, message));
        }
        // Indices are i32, as JAX's.
        if length > i32::MAX as usize {
            return Err(InferError::new(op, format!("rows of {x} are longer than an i32 counts")));
        }
        let shape: crate::Shape = outer.iter().copied().chain([self.k]).collect();
        Ok(smallvec![x.with_shape(shape.clone()), Type { dtype: DType::I32, shape }])
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        let x = operands[0];
        let length = x.ty().shape[x.ty().shape.rank() - 1];
        let mut from = Vec::with_capacity(results[0].elements());
        for row in 0..results[0].elements() / self.k.max(1) {
            let mut left: Vec<usize> = (row * length..(row + 1) * length).collect();
            for _ in 0..self.k {
                // The greatest that is left, the first of equals.
                let mut best = 0;
                for i in 1..left.len() {
                    if order(x.get(left[i]), x.get(left[best])).is_gt() {
                        best = i;
                    }
                }
                from.push(left.remove(best));
            }
        }
        let values = Literal::from_fn(results[0].clone(), |i| x.get(from[i]));
        let indices = Literal::from_fn(results[1].clone(), |i| {
            Scalar::from_i128(DType::I32, (from[i] % length) as i128)
        });
        vec![values, indices]
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(derive::sort::top_k_jvp(rule, tangents))
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        Ok(derive::sort::top_k_vjp(rule, cotangents))
    }

    fn vmap(&self, rule: &mut Rule<'_>, _batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(derive::sort::top_k_vmap(*self, rule))
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::TopK { k: self.k }
    }

    fn samples() -> Vec<Sample> {
        let mut samples = Vec::new();
        let mut add = |k: usize, ty: Type| samples.push(sample::one(TopK { k }, ty));
        for (i, ty) in ordered(sample::typed_tails()).enumerate() {
            let length = ty.shape[0];
            add((i * 7) % (length + 1), ty);
        }
        for ty in ordered(sample::typed([1300])) {
            add(5, ty);
        }
        for ty in sample::shaped(DType::F32).filter(|ty| ty.shape.rank() > 0) {
            let length = ty.shape[ty.shape.rank() - 1];
            add(length, ty.clone());
            add(length / 3, ty);
        }
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contradictory_comparator_permutes() {
        for n in 0..40 {
            let mut flip = false;
            let mut places = merge_sort(n, &mut |_, _| {
                flip = !flip;
                flip
            });
            places.sort_unstable();
            assert_eq!(places, (0..n).collect::<Vec<_>>());
        }
        // Always and never.
        assert_eq!(merge_sort(5, &mut |_, _| false), [0, 1, 2, 3, 4]);
        assert_eq!(merge_sort(5, &mut |_, _| true), [4, 3, 2, 1, 0]);
    }

    #[test]
    fn comparators_that_are_keys_are_known() {
        let key = greatest_second().key();
        assert_eq!(key, Some(SortKey { operand: 1, descending: true }));
        assert_eq!(nearest_zero(DType::I32).key(), None);
    }
}
