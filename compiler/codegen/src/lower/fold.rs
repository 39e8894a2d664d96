//! Folds: reductions with any body, windows, running results.
//!
//! The results are points. What runs in order, a body or a running result down a column,
//! is a stage with carries, whose lanes are points:
//!
//! ```text
//! reduce of (x, y) by a body:
//!   stage inner n:  carry s0, s1 from the initial values, next the body of them and x, y
//!   stage inner 1:  store what follows the fold, from s0 and s1
//! ```
//!
//! Windows of the known kinds are reductions over the window, or, when it is small, one
//! expression: neighbouring results then share loads and the address arithmetic is done
//! once. Both combine in the same order.
//!
//! Running results along the last axis are a scan; one of more than [`CHUNK`] steps is
//! cut into chunks, by the extent alone, for accuracy and so that threads can share it:
//!
//! ```text
//! cumsum of f32[1000000]:
//!   points [62]: scan 16384 steps; store t[p0] = s0       the total of every chunk
//!   points []:   carry over t; store u[r] = what comes before chunk r
//!   points [62]: scan 16384 steps; store a1[..] = u[p0] + scan
//! ```

use kiln_ir::op::{CumulativeKind, ReduceKind, Window, WindowCombine};
use kiln_ir::{DType, Form, Graph, NodeId, Scalar, Value};
use kiln_opt::group::Group;

use super::evaluate::{Evaluator, MapId};
use super::rows::lanes;
use super::scalar::{apply, convert, identity, primitive, reduce_kind, widen};
use super::{Buffers, LowerError, Lowered, name, over_points};
use crate::kernel::expr::{BinaryOp, UnaryOp};
use crate::kernel::index::{Extents, delinearize, linearize};
use crate::kernel::{
    Axis, Body, Carry, Combine, Expr, ExprId, Exprs, Index, Lanes, Loops, Ragged, Reduction, Scan,
    Stage, Store, Tree,
};
use crate::math;

/// Steps from which on a running result is made of chunks.
pub const CHUNK: u64 = 1 << 14;

/// Steps of a running sum or product down a column from which on it is made of chunks.
pub const COLUMN_CHUNK: u64 = 1 << 10;

/// Lanes of a block of a scan.
const BLOCK: u32 = 16;

/// Steps of a window that is one expression, and nodes in all of them together.
const EXPANDED: u64 = 32;
const EXPANDED_NODES: u64 = 256;

pub(crate) fn lower(
    graph: &Graph,
    group: &Group,
    node: NodeId,
    early: &[Value],
) -> Result<Lowered, LowerError> {
    let buffers = Buffers::new(graph, group, early);
    let result = Value { node, result: 0 };
    if graph.ty(result).elements() == 0 {
        return Ok(Lowered::default());
    }
    let mut fold = Fold { graph, group, node, buffers };
    let bodies = match graph.op(node).lower() {
        Form::Fold(body, axes) => vec![fold.along(&body, &axes)?],
        Form::Window(combine, window) => vec![fold.windows(&combine, &window)?],
        Form::Cumulative(kind, axis, reverse) => fold.cumulative(kind, axis, reverse)?,
        _ => return Err(LowerError::form(graph, node)),
    };
    let name = name(graph, &group.members);
    Ok(fold.buffers.lowered(&name, bodies.into_iter().map(Body::Loops).collect()))
}

struct Fold<'g> {
    graph: &'g Graph,
    group: &'g Group,
    node: NodeId,
    buffers: Buffers<'g>,
}

impl<'g> Fold<'g> {
    fn evaluator(&self, extents: Extents) -> Evaluator<'g> {
        Evaluator::new(self.graph, &self.group.members, &self.buffers.inputs, extents)
    }

    fn dtype(&self, result: u32) -> DType {
        self.graph.ty(Value { node: self.node, result }).dtype
    }

    /// The stores of the roots at `map`, where the results of the fold are `results`.
    fn stores(
        &self,
        evaluator: &mut Evaluator,
        map: &[Index],
        results: &[ExprId],
    ) -> Result<Vec<Store>, LowerError> {
        let at = evaluator.map(map.to_vec());
        for (result, &value) in results.iter().enumerate() {
            let result = result as u32;
            let value = convert(&mut evaluator.exprs, value, self.dtype(result));
            evaluator.give(Value { node: self.node, result }, at, value);
        }
        let shape = &self.graph.ty(Value { node: self.node, result: 0 }).shape;
        let mut stores = Vec::new();
        for (i, &root) in self.group.roots.iter().enumerate() {
            if self.graph.ty(root).shape != *shape {
                return Err(LowerError::root(self.graph, root.node));
            }
            let argument = self.buffers.root(i);
            stores.extend(evaluator.stores(root, at, argument, linearize(map, shape))?);
        }
        Ok(stores)
    }

    /// The initial values of a fold with a body, in the types of its carries.
    fn inits(&self, evaluator: &mut Evaluator) -> Result<Vec<ExprId>, LowerError> {
        let operands = self.graph.operands(self.node);
        let scalar = evaluator.map(Vec::new());
        let init = |&value: &Value| {
            let value = evaluator.value(value, scalar)?;
            Ok(widen(&mut evaluator.exprs, value))
        };
        operands[operands.len() / 2..].iter().map(init).collect()
    }

    /// The next carries: `body` of `carries` and of one element of each array.
    fn step(&self, x: &mut Exprs, body: &Graph, carries: &[ExprId], row: &[ExprId]) -> Vec<ExprId> {
        let carry =
            |(result, &carry): (usize, &ExprId)| convert(x, carry, self.dtype(result as u32));
        let mut arguments: Vec<ExprId> = carries.iter().enumerate().map(carry).collect();
        arguments.extend(row);
        inline(x, body, &arguments).into_iter().map(|next| widen(x, next)).collect()
    }

    /// A stage that takes `row` at each of `inner` steps, from `inits`; the slots are the
    /// carries by number.
    fn carried(
        &self,
        x: &mut Exprs,
        body: &Graph,
        inner: u64,
        inits: &[ExprId],
        row: &[ExprId],
    ) -> (Stage, Vec<ExprId>) {
        let dtypes: Vec<DType> = inits.iter().map(|&init| x.dtype(init)).collect();
        let all = |x: &mut Exprs, read: fn(u32) -> Expr| -> Vec<ExprId> {
            dtypes.iter().enumerate().map(|(i, &dtype)| x.add(read(i as u32), dtype)).collect()
        };
        let carries = all(x, Expr::Carry);
        let next = self.step(x, body, &carries, row);
        let carry = |(slot, (&first, &next))| Carry { first, next, slot };
        let carries = (0..).zip(inits.iter().zip(&next)).map(carry).collect();
        (Stage { carries, ..Stage::new(inner) }, all(x, Expr::Slot))
    }

    // --- along axes -------------------------------------------------------

    fn along(&self, body: &Graph, axes: &[usize]) -> Result<Loops, LowerError> {
        let operands = self.graph.operands(self.node);
        let arrays = &operands[..operands.len() / 2];
        let space = &self.graph.ty(arrays[0]).shape;
        let reduced: Vec<usize> = axes.iter().map(|&a| space[a]).collect();
        let inner: u64 = reduced.iter().map(|&d| d as u64).product();
        let (row, points) = over_points(&space.without(axes));
        let extents = Extents { points: points.clone(), inner, ..Extents::default() };
        let mut evaluator = self.evaluator(extents.clone());
        let inits = self.inits(&mut evaluator)?;
        let mut stages = Vec::new();
        let results = if inner == 0 {
            inits
        } else {
            let step = if inner > 1 { Index::axis(Axis::Inner) } else { Index::default() };
            let digits = delinearize(&step, &reduced, &extents);
            let (mut row, mut digits) = (row.iter(), digits.iter());
            let space = (0..space.rank()).map(|k| {
                let index = if axes.contains(&k) { digits.next() } else { row.next() };
                index.expect("one index for each axis").clone()
            });
            let at = evaluator.map(space.collect());
            let elements = self.elements(&mut evaluator, arrays, at, None)?;
            let (stage, slots) = self.carried(&mut evaluator.exprs, body, inner, &inits, &elements);
            stages.push(stage);
            slots
        };
        let stores = self.stores(&mut evaluator, &row, &results)?;
        stages.push(Stage { stores, ..Stage::new(1) });
        Ok(Loops { points, lanes: Lanes::Points, exprs: evaluator.exprs, stages })
    }

    fn elements(
        &self,
        evaluator: &mut Evaluator,
        arrays: &[Value],
        at: MapId,
        valid: Option<ExprId>,
    ) -> Result<Vec<ExprId>, LowerError> {
        arrays.iter().map(|&array| evaluator.value_where(array, at, valid)).collect()
    }

    // --- windows ----------------------------------------------------------

    fn windows(&self, combine: &WindowCombine, window: &Window) -> Result<Loops, LowerError> {
        let operands = self.graph.operands(self.node);
        let shape = &self.graph.ty(Value { node: self.node, result: 0 }).shape;
        let (map, points) = over_points(shape);
        let inner = window.size.iter().fold(1u64, |n, &d| n.saturating_mul(d as u64));
        let nodes = self.group.members.len() as u64
            + match combine {
                WindowCombine::Kind(_) => 0,
                WindowCombine::Body(body) => body.len() as u64,
            };
        let expanded = inner <= EXPANDED && inner * nodes <= EXPANDED_NODES;
        let extents = Extents { points: points.clone(), inner, ..Extents::default() };
        let mut evaluator = self.evaluator(extents.clone());

        // What padding counts as, in the type that accumulates.
        let (arrays, inits) = match combine {
            WindowCombine::Kind(kind) => {
                let dtype = self.dtype(0);
                let identity = identity(reduce_kind(*kind, dtype), dtype.accumulator());
                (&operands[..], vec![evaluator.exprs.constant(identity)])
            }
            WindowCombine::Body(_) => {
                (&operands[..operands.len() / 2], self.inits(&mut evaluator)?)
            }
        };
        let row = |evaluator: &mut Evaluator, digits: &[Index]| {
            let field = |k: usize| {
                let start = map[k].scale(window.stride[k] as i64).offset(-window.padding[k].0);
                start.add(&digits[k].scale(window.window_dilation[k] as i64))
            };
            let field: Vec<Index> = (0..map.len()).map(field).collect();
            let interior: Vec<usize> = window.base_dilation.iter().map(|d| d - 1).collect();
            let shape = &self.graph.ty(arrays[0]).shape;
            let (at, inside) = evaluator.spread(&field, shape, &interior);
            let at = evaluator.map(at);
            let elements = self.elements(evaluator, arrays, at, inside)?;
            let x = &mut evaluator.exprs;
            let choose = |(result, (element, &init)): (usize, (ExprId, &ExprId))| {
                let Some(inside) = inside else { return element };
                let init = convert(x, init, self.dtype(result as u32));
                x.select(inside, element, init)
            };
            Ok(elements.into_iter().zip(&inits).enumerate().map(choose).collect::<Vec<ExprId>>())
        };

        let mut stages = Vec::new();
        let results = if expanded {
            let mut carries = inits.clone();
            for step in 0..inner {
                let digits = delinearize(&Index::constant(step as i64), &window.size, &extents);
                let row = row(&mut evaluator, &digits)?;
                let x = &mut evaluator.exprs;
                carries = match combine {
                    WindowCombine::Body(body) => self.step(x, body, &carries, &row),
                    WindowCombine::Kind(kind) => {
                        let kind = reduce_kind(*kind, self.dtype(0));
                        let element = widen(x, row[0]);
                        // The identity changes nothing but the sign of a zero in a sum.
                        let first = step == 0 && kind != ReduceKind::Sum;
                        let next = match first {
                            true => element,
                            false => x.binary(primitive(kind), carries[0], element),
                        };
                        vec![next]
                    }
                };
            }
            carries
        } else {
            let step = if inner > 1 { Index::axis(Axis::Inner) } else { Index::default() };
            let digits = delinearize(&step, &window.size, &extents);
            let row = row(&mut evaluator, &digits)?;
            let x = &mut evaluator.exprs;
            match combine {
                WindowCombine::Body(body) => {
                    let (stage, slots) = self.carried(x, body, inner, &inits, &row);
                    stages.push(stage);
                    slots
                }
                WindowCombine::Kind(kind) => {
                    let value = widen(x, row[0]);
                    let combine = Combine::Value(reduce_kind(*kind, self.dtype(0)));
                    let tree = Tree::of(inner, Lanes::Points);
                    let reductions = vec![Reduction { combine, value, slot: 0, tree }];
                    stages.push(Stage { reductions, ..Stage::new(inner) });
                    vec![x.add(Expr::Slot(0), x.dtype(value))]
                }
            }
        };
        let stores = self.stores(&mut evaluator, &map, &results)?;
        stages.push(Stage { stores, ..Stage::new(1) });
        Ok(Loops { points, lanes: Lanes::Points, exprs: evaluator.exprs, stages })
    }

    // --- running results --------------------------------------------------

    fn cumulative(
        &mut self,
        kind: CumulativeKind,
        axis: usize,
        reverse: bool,
    ) -> Result<Vec<Loops>, LowerError> {
        let shape = self.graph.ty(Value { node: self.node, result: 0 }).shape.clone();
        let space = Space::new(&shape, axis, reverse);
        let Some(kind) = kind.reduce().map(|kind| reduce_kind(kind, self.dtype(0))) else {
            return Ok(vec![self.log_sum_exp(&space)?]);
        };
        if lanes(&shape, &[axis]) == Lanes::Points {
            return Ok(vec![self.columns(kind, &space)?]);
        }
        if space.inner <= CHUNK {
            let mut evaluator = self.evaluator(space.extents());
            let map = space.map(&space.step());
            let (scan, result) = self.scan(&mut evaluator, kind, &map)?;
            let stores = self.stores(&mut evaluator, &map, &[result])?;
            let stages = vec![Stage { scans: vec![scan], stores, ..Stage::new(space.inner) }];
            let points = space.points.clone();
            return Ok(vec![Loops { points, lanes: Lanes::Inner, exprs: evaluator.exprs, stages }]);
        }
        self.chunks(kind, &space)
    }

    /// The running result at `map`.
    fn scan(
        &self,
        evaluator: &mut Evaluator,
        kind: ReduceKind,
        map: &[Index],
    ) -> Result<(Scan, ExprId), LowerError> {
        let at = evaluator.map(map.to_vec());
        let value = evaluator.value(self.graph.operands(self.node)[0], at)?;
        let x = &mut evaluator.exprs;
        let value = widen(x, value);
        let result = x.add(Expr::Scan(0), x.dtype(value));
        Ok((Scan { kind, value, slot: 0, block: BLOCK }, result))
    }

    /// A scan of more than [`CHUNK`] steps.
    fn chunks(&mut self, kind: ReduceKind, space: &Space) -> Result<Vec<Loops>, LowerError> {
        let chunks = space.inner.div_ceil(CHUNK);
        let axis = space.points.len() as u32;
        let points = [&space.points[..], &[chunks]].concat();
        let ragged = Some(Ragged { axis, total: space.inner });
        let extents = Extents { points: points.clone(), inner: CHUNK, ..Extents::default() };
        let chunk = Index::axis(Axis::Point(axis));
        let map = space.map(&chunk.scale(CHUNK as i64).add(&Index::axis(Axis::Inner)));
        let dtype = self.dtype(0).accumulator();
        let row = space.row().scale(chunks as i64);
        let elements = space.points.iter().product::<u64>() * chunks;
        let totals = self.buffers.temporary(dtype, elements);
        let before = self.buffers.temporary(dtype, elements);
        let lanes = Lanes::Inner;

        let mut evaluator = self.evaluator(extents.clone());
        let (scan, _) = self.scan(&mut evaluator, kind, &map)?;
        let total = evaluator.exprs.add(Expr::Slot(0), dtype);
        let store = Store { argument: totals, index: row.add(&chunk), value: total };
        let stages = vec![
            Stage { scans: vec![scan], ragged, ..Stage::new(CHUNK) },
            Stage { stores: vec![store], ..Stage::new(1) },
        ];
        let first = Loops { points: points.clone(), lanes, exprs: evaluator.exprs, stages };

        let mut x = Exprs::default();
        let index = row.add(&Index::axis(Axis::Inner));
        let carry = x.add(Expr::Carry(0), dtype);
        let load = Expr::Load { argument: totals, index: index.clone(), valid: None };
        let element = x.add(load, dtype);
        let next = x.binary(primitive(kind), carry, element);
        let carries = vec![Carry { first: x.constant(identity(kind, dtype)), next, slot: 0 }];
        let stores = vec![Store { argument: before, index, value: carry }];
        let stages = vec![Stage { carries, stores, ..Stage::new(chunks) }];
        let points_of_rows = space.points.clone();
        let second = Loops { points: points_of_rows, lanes: Lanes::Points, exprs: x, stages };

        let mut evaluator = self.evaluator(extents);
        let (scan, result) = self.scan(&mut evaluator, kind, &map)?;
        let x = &mut evaluator.exprs;
        let load = Expr::Load { argument: before, index: row.add(&chunk), valid: None };
        let base = x.add(load, dtype);
        let result = x.binary(primitive(kind), base, result);
        let stores = self.stores(&mut evaluator, &map, &[result])?;
        let stages = vec![Stage { scans: vec![scan], ragged, stores, ..Stage::new(CHUNK) }];
        let third = Loops { points, lanes, exprs: evaluator.exprs, stages };
        Ok(vec![first, second, third])
    }

    /// Running results down columns, each lane a column.
    fn columns(&self, kind: ReduceKind, space: &Space) -> Result<Loops, LowerError> {
        let mut evaluator = self.evaluator(space.extents());
        let map = space.map(&space.step());
        let at = evaluator.map(map.clone());
        let value = evaluator.value(self.graph.operands(self.node)[0], at)?;
        let x = &mut evaluator.exprs;
        let value = widen(x, value);
        let dtype = x.dtype(value);
        let start = x.constant(identity(kind, dtype));
        let combine = |x: &mut Exprs, a, b| x.binary(primitive(kind), a, b);
        let running = x.add(Expr::Carry(0), dtype);
        let rounds = dtype.is_float() && matches!(kind, ReduceKind::Sum | ReduceKind::Prod);
        let (carries, result) = if rounds && space.inner > COLUMN_CHUNK {
            // A chunk starts anew; what it leaves joins the chunks before it.
            let chunk = COLUMN_CHUNK as i64;
            let place = Index::axis(Axis::Inner).remainder(chunk, &space.extents());
            let (place, zero) = (x.index(place), x.integer(DType::I64, 0));
            let anew = x.compare(kiln_ir::op::Compare::Eq, place, zero);
            let before = x.add(Expr::Carry(1), dtype);
            let joined = combine(x, before, running);
            let before = x.select(anew, joined, before);
            let running = x.select(anew, start, running);
            let next = combine(x, running, value);
            let result = combine(x, before, next);
            let carry = |next, slot| Carry { first: start, next, slot };
            (vec![carry(next, 0), carry(before, 1)], result)
        } else {
            let next = combine(x, running, value);
            (vec![Carry { first: start, next, slot: 0 }], next)
        };
        self.in_order(evaluator, space, &map, carries, result)
    }

    /// Stores `result` at each step of a stage with `carries`.
    fn in_order(
        &self,
        mut evaluator: Evaluator,
        space: &Space,
        map: &[Index],
        carries: Vec<Carry>,
        result: ExprId,
    ) -> Result<Loops, LowerError> {
        let stores = self.stores(&mut evaluator, map, &[result])?;
        let stages = vec![Stage { carries, stores, ..Stage::new(space.inner) }];
        let (points, lanes) = (space.points.clone(), Lanes::Points);
        Ok(Loops { points, lanes, exprs: evaluator.exprs, stages })
    }

    /// The greatest element so far and the sum of exponentials relative to it:
    ///
    /// ```text
    /// m' = max(m, x)    s' = s * exp(m - m') + exp(x - m')    result m' + log(s')
    /// ```
    ///
    /// Where `m'` is infinite, the exponentials are relative to 0: their sum is then 0 or
    /// infinite, as it should be, and not NaN.
    fn log_sum_exp(&self, space: &Space) -> Result<Loops, LowerError> {
        let mut evaluator = self.evaluator(space.extents());
        let map = space.map(&space.step());
        let at = evaluator.map(map.clone());
        let value = evaluator.value(self.graph.operands(self.node)[0], at)?;
        let x = &mut evaluator.exprs;
        let value = widen(x, value);
        let dtype = x.dtype(value);
        let zero = x.constant(Scalar::zero(dtype));
        let least = x.constant(identity(ReduceKind::Max, dtype));
        let (greatest, sum) = (x.add(Expr::Carry(0), dtype), x.add(Expr::Carry(1), dtype));
        let next = x.binary(BinaryOp::Max, greatest, value);
        let magnitude = x.unary(UnaryOp::Abs, next);
        let infinity = x.float(dtype, f64::INFINITY);
        let finite = x.compare(kiln_ir::op::Compare::Lt, magnitude, infinity);
        let reference = x.select(finite, next, zero);
        let relative = |x: &mut Exprs, a| {
            let difference = x.binary(BinaryOp::Sub, a, reference);
            math::exp(x, difference)
        };
        let (shrink, term) = (relative(x, greatest), relative(x, value));
        let shrunk = x.binary(BinaryOp::Mul, sum, shrink);
        let sum = x.binary(BinaryOp::Add, shrunk, term);
        let log = math::log(x, sum);
        let result = x.binary(BinaryOp::Add, reference, log);
        let carries =
            vec![Carry { first: least, next, slot: 0 }, Carry { first: zero, next: sum, slot: 1 }];
        self.in_order(evaluator, space, &map, carries, result)
    }
}

/// An array of which one axis is run along: the others are points.
struct Space {
    /// One index for each other axis.
    others: Vec<Index>,
    axis: usize,
    points: Vec<u64>,
    inner: u64,
    reverse: bool,
    rows: Vec<usize>,
}

impl Space {
    fn new(shape: &[usize], axis: usize, reverse: bool) -> Space {
        let mut rows = shape.to_vec();
        let inner = rows.remove(axis) as u64;
        let (others, points) = over_points(&rows);
        Space { others, axis, points, inner, reverse, rows }
    }

    fn extents(&self) -> Extents {
        Extents { points: self.points.clone(), inner: self.inner, ..Extents::default() }
    }

    /// The number of the step.
    fn step(&self) -> Index {
        if self.inner > 1 { Index::axis(Axis::Inner) } else { Index::default() }
    }

    /// The index map at a step.
    fn map(&self, step: &Index) -> Vec<Index> {
        let at = match self.reverse {
            true => step.scale(-1).offset(self.inner as i64 - 1),
            false => step.clone(),
        };
        let mut map = self.others.clone();
        map.insert(self.axis, at);
        map
    }

    /// The number of the row.
    fn row(&self) -> Index {
        linearize(&self.others, &self.rows)
    }
}

/// The outputs of a graph of scalars, which holds elementwise ops and constants, for
/// these arguments.
fn inline(x: &mut Exprs, body: &Graph, arguments: &[ExprId]) -> Vec<ExprId> {
    let mut known: Vec<Option<ExprId>> = vec![None; body.bound()];
    for (parameter, &argument) in body.parameters().zip(arguments) {
        known[parameter.node.index()] = Some(argument);
    }
    let at = |known: &[Option<ExprId>], value: Value| {
        known[value.node.index()].expect("operands come first")
    };
    for node in body.order() {
        let value = match body.op(node) {
            kiln_ir::Op::Constant(constant) => x.constant(constant.value.get(0)),
            op => match op.lower() {
                Form::Map(f) => {
                    let operands = body.operands(node);
                    let operands: Vec<ExprId> = operands.iter().map(|&v| at(&known, v)).collect();
                    apply(x, f, &operands)
                }
                _ => continue,
            },
        };
        known[node.index()] = Some(value);
    }
    body.outputs().iter().map(|&v| at(&known, v)).collect()
}
