//! The value of a graph's node at an index: the core of lowering.
//!
//! [`Evaluator::value`] answers "element `map` of value `v`, as an expression".
//! Maps apply a function to their operands at the same index; views rewrite the
//! index and cost nothing; an input becomes a load. What was asked before is
//! remembered, so a value that is used twice at one index is computed once, and
//! what several views need at different indices is computed at each.
//!
//! Where a pad or a concatenation chooses between operands, each is evaluated under
//! the condition that it is the one chosen: its loads touch memory only there.
//!
//! A complex element is never an expression: what is asked for is one of its parts, and
//! the ops that move elements pass the question on.
//!
//! The walk keeps its own stack: a chain of any length lowers. Views that shuffle axes
//! can double an index each time; where one has grown beyond [`LONGEST`], evaluation
//! stops and names the value, which is then computed into a temporary first.

use hashbrown::{HashMap, HashSet};
use kiln_ir::form::{Generate, ScalarFn, View};
use kiln_ir::op::{Compare, Gather, GatherDims, Part};
use kiln_ir::{DType, Form, Graph, NodeId, Scalar, Value};
use kiln_opt::group::splat;
use smallvec::{SmallVec, smallvec};

use super::LowerError;
use super::scalar;
use crate::kernel::expr::BinaryOp;
use crate::kernel::index::{Extents, delinearize, linearize};
use crate::kernel::{Combine, Expr, ExprId, Exprs, Index, Store, Term};

/// Terms of an index map from which on a value is better read from memory than
/// computed at such an index.
const LONGEST: usize = 256;

/// One index for each axis of a value, by number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct MapId(u32);

/// What is asked for: a value, where, and under which condition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    value: Value,
    /// Of complex elements, and only of those: which part.
    part: Option<Part>,
    map: MapId,
    valid: Option<ExprId>,
}

/// A reduction met on the way.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// How it combines.
    pub combine: Combine,
    /// What, over the iteration space.
    pub value: ExprId,
}

/// How rows are reduced, for groups that do.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    /// Index map of the iteration space.
    pub space: MapId,
    /// Index map of one value for each row.
    pub row: MapId,
    /// The reduced axes of the space.
    pub axes: Vec<usize>,
    /// Steps of a row; with none, reductions are their identities.
    pub inner: u64,
}

/// Builds expressions for the members of one group.
pub(crate) struct Evaluator<'g> {
    graph: &'g Graph,
    members: HashSet<NodeId>,
    arguments: HashMap<Value, u32>,
    extents: Extents,
    maps: Vec<Vec<Index>>,
    map_ids: HashMap<Vec<Index>, MapId>,
    known: HashMap<Key, ExprId>,
    /// The expressions built so far.
    pub exprs: Exprs,
    /// How reductions are met; without it, they are refused.
    pub rows: Option<Rows>,
    /// The reductions met, by slot.
    pub reductions: Vec<Found>,
}

/// Where a part of element `index` lies, counted in parts.
fn of_part(index: &Index, part: Part) -> Index {
    index.scale(Part::ALL.len() as i64).offset(part.offset() as i64)
}

enum Step {
    Ready(ExprId),
    Needs(SmallVec<[Key; 3]>),
}

impl<'g> Evaluator<'g> {
    /// For `members`, which read `inputs` as arguments `0..`, over axes of the extents.
    pub fn new(
        graph: &'g Graph,
        members: &[NodeId],
        inputs: &[Value],
        extents: Extents,
    ) -> Evaluator<'g> {
        Evaluator {
            graph,
            members: members.iter().copied().collect(),
            arguments: inputs.iter().enumerate().map(|(i, &v)| (v, i as u32)).collect(),
            extents,
            maps: Vec::new(),
            map_ids: HashMap::new(),
            known: HashMap::new(),
            exprs: Exprs::default(),
            rows: None,
            reductions: Vec::new(),
        }
    }

    /// Starts anew over axes of other extents, and gives the expressions built so far.
    pub fn restart(&mut self, extents: Extents) -> Exprs {
        self.extents = extents;
        self.maps.clear();
        self.map_ids.clear();
        self.known.clear();
        self.reductions.clear();
        std::mem::take(&mut self.exprs)
    }

    /// The number of an index map.
    pub fn map(&mut self, map: Vec<Index>) -> MapId {
        if let Some(&id) = self.map_ids.get(&map) {
            return id;
        }
        let id = MapId(self.maps.len() as u32);
        self.maps.push(map.clone());
        self.map_ids.insert(map, id);
        id
    }

    /// Fixes what `value` is at `map`.
    pub fn give(&mut self, value: Value, map: MapId, expr: ExprId) {
        self.known.insert(Key { value, part: None, map, valid: None }, expr);
    }

    /// The expression of element `map` of `value`, which is not complex.
    pub fn value(&mut self, value: Value, map: MapId) -> Result<ExprId, LowerError> {
        self.value_where(value, map, None)
    }

    /// The same, for where `valid` holds: memory is touched only there.
    pub fn value_where(
        &mut self,
        value: Value,
        map: MapId,
        valid: Option<ExprId>,
    ) -> Result<ExprId, LowerError> {
        self.evaluate(Key { value, part: None, map, valid })
    }

    /// The stores that write element `map` of `value` as element `index` of an argument:
    /// one, or one for each part.
    pub fn stores(
        &mut self,
        value: Value,
        map: MapId,
        argument: u32,
        index: Index,
    ) -> Result<SmallVec<[Store; 2]>, LowerError> {
        if !self.graph.ty(value).dtype.is_complex() {
            let value = self.value(value, map)?;
            return Ok(smallvec![Store { argument, index, value }]);
        }
        let store = |part: Part| {
            let value = self.evaluate(Key { value, part: Some(part), map, valid: None })?;
            Ok(Store { argument, index: of_part(&index, part), value })
        };
        Part::ALL.into_iter().map(store).collect()
    }

    fn evaluate(&mut self, wanted: Key) -> Result<ExprId, LowerError> {
        let mut stack = vec![wanted];
        while let Some(&key) = stack.last() {
            if self.known.contains_key(&key) {
                stack.pop();
                continue;
            }
            match self.step(key)? {
                Step::Ready(expr) => {
                    self.known.insert(key, expr);
                    stack.pop();
                }
                Step::Needs(keys) => stack.extend(keys.into_iter().rev()),
            }
        }
        Ok(self.known[&wanted])
    }

    /// A value as the start of a slice or window, `clamp(value, 0, limit)`, and whether it
    /// was in that range; nothing when it always is.
    ///
    /// It is clamped in its own type, which may be narrower than an index.
    pub fn start(&mut self, value: ExprId, limit: usize) -> (Index, Option<ExprId>) {
        let x = &mut self.exprs;
        let dtype = x.dtype(value);
        let greatest = (1i128 << (dtype.bits() - u32::from(!dtype.is_unsigned()))) - 1;
        let limit = greatest.min(limit as i128) as i64;
        let mut start = value;
        if !dtype.is_unsigned() {
            let zero = x.integer(dtype, 0);
            start = x.binary(BinaryOp::Max, start, zero);
        }
        if i128::from(limit) < greatest {
            let limit = x.integer(dtype, limit);
            start = x.binary(BinaryOp::Min, start, limit);
        }
        let inside = (start != value).then(|| x.compare(Compare::Eq, start, value));
        let index = match limit {
            0 => Index::default(),
            _ => Index::term(Term::Dynamic(x.convert(start, DType::I64), 0, limit)),
        };
        (index, inside)
    }

    /// The starts of a dynamic slice or update, given the start operands' values.
    pub fn starts(&mut self, values: &[ExprId], limits: &[usize]) -> Vec<Index> {
        values.iter().zip(limits).map(|(&v, &limit)| self.start(v, limit).0).collect()
    }

    /// The keys of the elements of the index vector at `position`, which has an index for
    /// each axis of `indices` but that of vectors.
    fn index_vector(
        &mut self,
        indices: Value,
        dims: &GatherDims,
        position: &[Index],
        valid: Option<ExprId>,
    ) -> Vec<Key> {
        let rank = self.graph.ty(indices).shape.rank();
        (0..dims.start_index_map.len())
            .map(|k| {
                let mut map = position.to_vec();
                if dims.index_vector_dim < rank {
                    map.insert(dims.index_vector_dim, Index::constant(k as i64));
                }
                Key { value: indices, part: None, map: self.map(map), valid }
            })
            .collect()
    }

    /// The elements of the index vector at `position`.
    pub fn indices_at(
        &mut self,
        indices: Value,
        dims: &GatherDims,
        position: &[Index],
    ) -> Result<Vec<ExprId>, LowerError> {
        let keys = self.index_vector(indices, dims, position, None);
        keys.into_iter().map(|key| self.value(key.value, key.map)).collect()
    }

    /// Where a window of `sizes` starts that the index vector `starts` names, and whether
    /// it was in range; along batching axes it is where `position` is.
    pub fn window(
        &mut self,
        dims: &GatherDims,
        shape: &[usize],
        sizes: &[usize],
        starts: &[ExprId],
        position: &[Index],
    ) -> (Vec<Index>, Option<ExprId>) {
        let mut at = vec![Index::default(); shape.len()];
        let batching = dims.operand_batching_dims.iter().zip(&dims.start_indices_batching_dims);
        for (&axis, &of) in batching {
            at[axis] = position[if of > dims.index_vector_dim { of - 1 } else { of }].clone();
        }
        let mut inside = None;
        for (&axis, &start) in dims.start_index_map.iter().zip(starts) {
            let (index, valid) = self.start(start, shape[axis] - sizes[axis]);
            at[axis] = index;
            inside = self.exprs.and(inside, valid);
        }
        (at, inside)
    }

    fn gather(
        &mut self,
        key: Key,
        gather: &Gather,
        operands: &[Value],
    ) -> Result<Step, LowerError> {
        let shape = &self.graph.ty(operands[0]).shape;
        let map = self.maps[key.map.0 as usize].clone();
        let positions = gather.dims.position_dims(map.len());
        let position: Vec<Index> = positions.into_iter().map(|axis| map[axis].clone()).collect();
        let starts = self.index_vector(operands[1], &gather.dims, &position, key.valid);
        let starts = match self.known_all(&starts) {
            Ok(starts) => starts,
            Err(missing) => return Ok(Step::Needs(missing)),
        };
        let (mut at, inside) =
            self.window(&gather.dims, shape, &gather.slice_sizes, &starts, &position);
        let window = gather.dims.window_dims(shape.rank());
        for (axis, &of) in window.into_iter().zip(&gather.dims.offset_dims) {
            at[axis] = at[axis].add(&map[of]);
        }
        // The clamped window exists whether or not the one that was asked for does.
        let at = self.map(at);
        let mut keys: SmallVec<[Key; 3]> = SmallVec::new();
        keys.push(Key { value: operands[0], part: key.part, map: at, valid: key.valid });
        let scalar = self.map(Vec::new());
        let fill = |&value: &Value| Key { value, part: key.part, map: scalar, valid: None };
        keys.extend(operands[2..].iter().map(fill));
        self.ready_or(keys, |x, e| match (inside, e) {
            (Some(inside), &[value, fill]) => x.select(inside, value, fill),
            _ => e[0],
        })
    }

    /// The value of `key`, or what must be known first.
    fn step(&mut self, key: Key) -> Result<Step, LowerError> {
        let node = key.value.node;
        let graph = self.graph;
        if graph.ty(key.value).elements() == 0 {
            // Reached only under a condition that is never met: any value will do.
            let zero = Scalar::zero(graph.ty(key.value).dtype.part());
            return Ok(Step::Ready(self.exprs.constant(zero)));
        }
        if self.arguments.contains_key(&key.value) || !self.members.contains(&node) {
            return self.input(key).map(Step::Ready);
        }
        if self.maps[key.map.0 as usize].iter().map(Index::size).sum::<usize>() > LONGEST {
            return Err(LowerError::long(graph, key.value));
        }
        let operands = graph.operands(node);
        let form = graph.op(node).lower();
        // A part of an element that is moved is that part of an operand's element.
        let part_of = |v: Value| graph.ty(v).dtype.is_complex().then_some(key.part).flatten();
        let at = |k: usize, map: MapId, valid| {
            let value = operands[k];
            Key { value, part: part_of(value), map, valid }
        };
        match form {
            Form::Map(ScalarFn::Complex) => {
                let part = key.part.ok_or_else(|| LowerError::complex(graph, node))?;
                let keys = SmallVec::from_slice(&[at(part.offset(), key.map, key.valid)]);
                self.ready_or(keys, |_, e| e[0])
            }
            Form::Map(ScalarFn::Part(part)) => {
                let key = Key { part: Some(part), ..at(0, key.map, key.valid) };
                self.ready_or(SmallVec::from_slice(&[key]), |_, e| e[0])
            }
            Form::Map(f) if !f.moves() && operands.iter().any(|&v| part_of(v).is_some()) => {
                Err(LowerError::complex(graph, node))
            }
            Form::Map(f) => {
                let keys = (0..operands.len()).map(|k| at(k, key.map, key.valid)).collect();
                self.ready_or(keys, |x, e| scalar::apply(x, f, e))
            }
            Form::Generate(Generate::Constant(_)) => self.input(key).map(Step::Ready),
            Form::Generate(Generate::Iota { axis }) => {
                let index = self.maps[key.map.0 as usize][axis].clone();
                let value = self.exprs.index(index);
                let dtype = graph.ty(key.value).dtype;
                Ok(Step::Ready(scalar::convert(&mut self.exprs, value, dtype)))
            }
            Form::View(View::Pad { low, interior }) => {
                let shape = &graph.ty(operands[0]).shape;
                let map = self.maps[key.map.0 as usize].iter().zip(&low);
                let map: Vec<Index> = map.map(|(index, low)| index.offset(-low)).collect();
                let (map, inside) = self.spread(&map, shape, &interior);
                let map = self.map(map);
                let scalar = self.map(Vec::new());
                let valid = self.exprs.and(key.valid, inside);
                let keys = SmallVec::from_slice(&[at(0, map, valid), at(1, scalar, None)]);
                self.ready_or(keys, |x, e| match inside {
                    Some(inside) => x.select(inside, e[0], e[1]),
                    None => e[0],
                })
            }
            Form::View(View::Concatenate { axis }) => self.concatenate(key, axis, &operands),
            Form::View(view) => {
                let result = &graph.ty(key.value).shape;
                let operand = &graph.ty(operands[0]).shape;
                let map = self.view(&view, key.map, result, operand);
                let map = self.map(map);
                self.ready_or(SmallVec::from_slice(&[at(0, map, key.valid)]), |_, e| e[0])
            }
            Form::DynamicSlice => {
                let scalar = self.map(Vec::new());
                let keys: SmallVec<[Key; 3]> =
                    (1..operands.len()).map(|k| at(k, scalar, None)).collect();
                let starts = match self.known_all(&keys) {
                    Ok(starts) => starts,
                    Err(missing) => return Ok(Step::Needs(missing)),
                };
                let from = graph.ty(operands[0]).shape.iter();
                let to = graph.ty(key.value).shape.iter();
                let limits: Vec<usize> = from.zip(to).map(|(n, m)| n - m).collect();
                let starts = self.starts(&starts, &limits);
                let map = self.maps[key.map.0 as usize].clone();
                let map = map.iter().zip(&starts).map(|(i, s)| i.add(s)).collect();
                let map = self.map(map);
                self.ready_or(SmallVec::from_slice(&[at(0, map, key.valid)]), |_, e| e[0])
            }
            Form::Gather(gather) => self.gather(key, &gather, &operands),
            Form::Reduce(_, axes) if axes.is_empty() => {
                self.ready_or(SmallVec::from_slice(&[at(0, key.map, key.valid)]), |_, e| e[0])
            }
            Form::Reduce(kind, axes) => {
                let dtype = graph.ty(key.value).dtype;
                let kind = scalar::reduce_kind(kind, dtype);
                self.reduction(key, operands[0], &axes, Combine::Value(kind), dtype)
            }
            Form::ArgReduce(kind, axis) => {
                let dtype = graph.ty(key.value).dtype;
                self.reduction(key, operands[0], &[axis], Combine::Arg(kind), dtype)
            }
            Form::Parameter
            | Form::Update
            | Form::Scatter(_)
            | Form::Contraction(_)
            | Form::Fold(..)
            | Form::Window(..)
            | Form::Cumulative(..)
            | Form::Sort { .. }
            | Form::TopK { .. }
            | Form::Barrier
            | Form::Call(_) => Err(LowerError::form(graph, node)),
        }
    }

    /// `build` of the values of `keys`, or those not known yet.
    fn ready_or(
        &mut self,
        keys: SmallVec<[Key; 3]>,
        build: impl FnOnce(&mut Exprs, &[ExprId]) -> ExprId,
    ) -> Result<Step, LowerError> {
        Ok(match self.known_all(&keys) {
            Ok(values) => Step::Ready(build(&mut self.exprs, &values)),
            Err(missing) => Step::Needs(missing),
        })
    }

    fn known_all(&self, keys: &[Key]) -> Result<SmallVec<[ExprId; 3]>, SmallVec<[Key; 3]>> {
        let missing: SmallVec<[Key; 3]> =
            keys.iter().copied().filter(|k| !self.known.contains_key(k)).collect();
        if missing.is_empty() {
            Ok(keys.iter().map(|k| self.known[k]).collect())
        } else {
            Err(missing)
        }
    }

    /// A constant of one distinct element, or a load.
    fn input(&mut self, key: Key) -> Result<ExprId, LowerError> {
        let ty = self.graph.ty(key.value);
        if key.part.is_some() != ty.dtype.is_complex() {
            return Err(LowerError::complex(self.graph, key.value.node));
        }
        if let Some(value) = splat(self.graph, key.value) {
            return Ok(self.exprs.constant(key.part.map_or(value, |part| part.of(value))));
        }
        let Some(&argument) = self.arguments.get(&key.value) else {
            return Err(LowerError::input(self.graph, key.value.node));
        };
        let element = linearize(&self.maps[key.map.0 as usize], &ty.shape);
        let index = key.part.map_or(element.clone(), |part| of_part(&element, part));
        Ok(self.exprs.add(Expr::Load { argument, index, valid: key.valid }, ty.dtype.part()))
    }

    /// `low <= index < high`; nothing when that always holds. In 32 bits where the index
    /// fits, which is twice the lanes.
    fn within(&mut self, index: &Index, low: i64, high: i64) -> Option<ExprId> {
        let (least, most) = index.range(&self.extents);
        let narrow = [least, most, high].iter().all(|&i| i32::try_from(i).is_ok());
        let dtype = if narrow { DType::I32 } else { DType::I64 };
        let x = &mut self.exprs;
        let mut limit = |op, limit| {
            let value = x.index(index.clone());
            let (value, limit) = (x.convert(value, dtype), x.integer(dtype, limit));
            x.compare(op, value, limit)
        };
        let above = (least < low).then(|| limit(Compare::Ge, low));
        let below = (most >= high).then(|| limit(Compare::Lt, high));
        self.exprs.and(above, below)
    }

    /// The index in an array of `shape` at `map` of a field in which its elements stand
    /// with `interior` places between neighbours; and whether there is an element, if that
    /// is not always so.
    pub fn spread(
        &mut self,
        map: &[Index],
        shape: &[usize],
        interior: &[usize],
    ) -> (Vec<Index>, Option<ExprId>) {
        let mut inside = None;
        let mut spread = Vec::new();
        for ((index, &extent), &interior) in map.iter().zip(shape).zip(interior) {
            let step = interior as i64 + 1;
            let quotient = index.quotient(step, &self.extents);
            if step > 1 {
                let rest = index.remainder(step, &self.extents);
                let hit = self.within(&rest, 0, 1);
                inside = self.exprs.and(inside, hit);
            }
            let hit = self.within(&quotient, 0, extent as i64);
            inside = self.exprs.and(inside, hit);
            spread.push(quotient);
        }
        (spread, inside)
    }

    /// The operand's index under a view that only rewrites it.
    fn view(&self, view: &View, map: MapId, result: &[usize], operand: &[usize]) -> Vec<Index> {
        let map = &self.maps[map.0 as usize];
        match view {
            View::Broadcast { axes } => operand
                .iter()
                .zip(axes)
                .map(|(&extent, &axis)| match extent {
                    1 => Index::default(),
                    _ => map[axis].clone(),
                })
                .collect(),
            View::Reshape => self.reshape(map, result, operand),
            View::Transpose { permutation } => {
                let mut indices = vec![Index::default(); operand.len()];
                for (index, &axis) in map.iter().zip(permutation) {
                    indices[axis] = index.clone();
                }
                indices
            }
            View::Reverse { axes } => operand
                .iter()
                .enumerate()
                .map(|(k, &extent)| match axes.contains(&k) {
                    true => map[k].scale(-1).offset(extent as i64 - 1),
                    false => map[k].clone(),
                })
                .collect(),
            View::Slice { start, stride } => map
                .iter()
                .zip(start.iter().zip(stride))
                .map(|(index, (&start, &stride))| index.scale(stride as i64).offset(start as i64))
                .collect(),
            View::Pad { .. } | View::Concatenate { .. } => unreachable!("choose between operands"),
        }
    }

    /// Reshapes one run of axes of equal product after the other, which keeps
    /// axes that stay as they are out of divisions altogether.
    fn reshape(&self, map: &[Index], result: &[usize], operand: &[usize]) -> Vec<Index> {
        let mut indices = vec![Index::default(); operand.len()];
        let (mut i, mut j) = (0, 0);
        while i < result.len() && j < operand.len() {
            let (first_i, first_j) = (i, j);
            let (mut a, mut b) = (result[i], operand[j]);
            (i, j) = (i + 1, j + 1);
            while a != b {
                if a < b {
                    a *= result[i];
                    i += 1;
                } else {
                    b *= operand[j];
                    j += 1;
                }
            }
            let linear = linearize(&map[first_i..i], &result[first_i..i]);
            let run = delinearize(&linear, &operand[first_j..j], &self.extents);
            indices[first_j..j].clone_from_slice(&run);
        }
        indices
    }

    /// One operand after the other along `axis`; each is read only where it lies.
    fn concatenate(
        &mut self,
        key: Key,
        axis: usize,
        operands: &[Value],
    ) -> Result<Step, LowerError> {
        let map = self.maps[key.map.0 as usize].clone();
        let (least, most) = map[axis].range(&self.extents);
        let mut keys = SmallVec::new();
        let mut below = Vec::new();
        let mut offset = 0;
        for &operand in operands {
            let extent = self.graph.ty(operand).shape[axis] as i64;
            let end = offset + extent;
            if extent > 0 && offset <= most && least < end {
                let index = map[axis].offset(-offset);
                let inside = self.within(&index, 0, extent);
                let valid = self.exprs.and(key.valid, inside);
                below.push(self.within(&index, i64::MIN, extent));
                let mut map = map.clone();
                map[axis] = index;
                let map = self.map(map);
                keys.push(Key { value: operand, part: key.part, map, valid });
            }
            offset = end;
        }
        if keys.is_empty() {
            // Only where an outer condition is never met: any value will do.
            let dtype = self.graph.ty(key.value).dtype.part();
            return Ok(Step::Ready(self.exprs.constant(Scalar::zero(dtype))));
        }
        self.ready_or(keys, |x, e| {
            let mut value = e[e.len() - 1];
            for k in (0..e.len() - 1).rev() {
                if let Some(below) = below[k] {
                    value = x.select(below, e[k], value);
                } else {
                    value = e[k];
                }
            }
            value
        })
    }

    fn reduction(
        &mut self,
        key: Key,
        operand: Value,
        axes: &[usize],
        combine: Combine,
        result: DType,
    ) -> Result<Step, LowerError> {
        let node = key.value.node;
        let rows = match &self.rows {
            Some(rows) if rows.axes == axes && rows.row == key.map => rows,
            _ => return Err(LowerError::reduction(self.graph, node)),
        };
        let dtype = self.graph.ty(operand).dtype.accumulator();
        if rows.inner == 0
            && let Combine::Value(kind) = combine
        {
            let identity = self.exprs.constant(scalar::identity(kind, dtype));
            return Ok(Step::Ready(scalar::convert(&mut self.exprs, identity, result)));
        }
        let operand = Key { value: operand, part: None, map: rows.space, valid: None };
        let Some(&value) = self.known.get(&operand) else {
            return Ok(Step::Needs(SmallVec::from_slice(&[operand])));
        };
        let x = &mut self.exprs;
        let mut value = scalar::widen(x, value);
        let slot_dtype = match combine {
            Combine::Value(_) => dtype,
            Combine::Arg(_) => DType::I64,
        };
        if matches!(combine, Combine::Arg(_)) && dtype == DType::Bool {
            value = x.convert(value, DType::U8);
        }
        // Equal reductions of equal values share a slot.
        let slot = self.reductions.iter().position(|f| f.combine == combine && f.value == value);
        let slot = slot.unwrap_or_else(|| {
            self.reductions.push(Found { combine, value });
            self.reductions.len() - 1
        });
        let slot = x.add(Expr::Slot(slot as u32), slot_dtype);
        Ok(Step::Ready(scalar::convert(x, slot, result)))
    }
}
