//! Programs over rows: reductions and what depends on them.
//!
//! The kept axes of the space are points, the reduced ones flatten into the inner
//! axis. Reductions that do not depend on each other share a stage; one that needs
//! the result of another comes a stage later and reads it from its slot:
//!
//! ```text
//! softmax(x) = e / sum(e), e = exp(x - max(x))
//!
//!   stage 0:  s0 = max  of x
//!   stage 1:  s1 = sum  of exp(x - s0)        keeps k0 = exp(x - s0)
//!   stage 2:  store k0 / s1
//! ```
//!
//! The order of each reduction follows from the space and the reduced axes alone
//! ([`lanes`], [`Tree::of`]), so fused and unfused programs agree to the bit.
//!
//! What a later stage needs again is kept or computed again: see `keep`.

use hashbrown::HashMap;
use kiln_ir::{Graph, Shape, Value};
use kiln_opt::group::Group;

use super::evaluate::{Evaluator, Found, Rows};
use super::keep::Keep;
use super::{Buffers, LowerError, Lowered, name, split};
use crate::kernel::index::{Extents, delinearize, linearize};
use crate::kernel::{
    Axis, Body, Combine, Expr, ExprId, Exprs, Index, Lanes, Loops, Reduction, Stage, Store, Tree,
};

/// Which axis vector lanes run along in reductions of `space` along `axes`: the one
/// whose elements are neighbours in memory.
pub fn lanes(space: &Shape, axes: &[usize]) -> Lanes {
    match space.iter().rposition(|&extent| extent > 1) {
        Some(last) if !axes.contains(&last) => Lanes::Points,
        _ => Lanes::Inner,
    }
}

/// A row program before its stages are laid out.
pub(crate) struct Program {
    /// Extents of the kept axes above 1.
    pub points: Vec<u64>,
    /// Steps of a row.
    pub inner: u64,
    /// See [`lanes`].
    pub lanes: Lanes,
    /// All expressions, over `points` and the inner axis.
    pub exprs: Exprs,
    /// By slot.
    pub reductions: Vec<Found>,
    /// For each expression, how many stages of reductions it needs before its own.
    pub levels: Vec<u32>,
    /// Roots of the space's shape.
    pub wide: Vec<Store>,
    /// Roots with one element for each row.
    pub narrow: Vec<Store>,
}

pub(crate) fn lower(
    graph: &Graph,
    group: &Group,
    space: &Shape,
    axes: &[usize],
    early: &[Value],
) -> Result<Lowered, LowerError> {
    let mut buffers = Buffers::new(graph, group, early);
    let Some(program) = program(&buffers, group, space, axes)? else {
        return Ok(Lowered::default());
    };
    let name = name(graph, &group.members);
    let bodies = match split::chunk(&program) {
        Some(chunk) => split::lower(&mut buffers, program, chunk),
        None => vec![stages(program)],
    };
    Ok(buffers.lowered(&name, bodies.into_iter().map(Body::Loops).collect()))
}

/// The expressions of the group; nothing when no root has an element.
fn program(
    buffers: &Buffers,
    group: &Group,
    space: &Shape,
    axes: &[usize],
) -> Result<Option<Program>, LowerError> {
    let graph = buffers.graph;
    let mut points = Vec::new();
    for (k, &extent) in space.iter().enumerate() {
        if extent != 1 && !axes.contains(&k) {
            points.push(extent as u64);
        }
    }
    if points.contains(&0) {
        return Ok(None);
    }
    let reduced: Vec<usize> = axes.iter().map(|&a| space[a]).collect();
    let inner: u64 = reduced.iter().map(|&d| d as u64).product();
    let extents = Extents { points: points.clone(), inner, ..Extents::default() };

    // The space, kept axes as points, reduced axes as digits of the inner axis; the
    // same with the reduced axes at 0; and without them.
    let step = if inner > 1 { Index::axis(Axis::Inner) } else { Index::default() };
    let digits = if inner == 0 {
        vec![Index::default(); reduced.len()]
    } else {
        delinearize(&step, &reduced, &extents)
    };
    let (mut at_space, mut at_ones, mut at_row) = (Vec::new(), Vec::new(), Vec::new());
    let mut point = 0;
    for (k, &extent) in space.iter().enumerate() {
        if let Some(i) = axes.iter().position(|&a| a == k) {
            at_space.push(digits[i].clone());
            at_ones.push(Index::default());
            continue;
        }
        let index = if extent == 1 {
            Index::default()
        } else {
            point += 1;
            Index::axis(Axis::Point(point - 1))
        };
        at_space.push(index.clone());
        at_ones.push(index.clone());
        at_row.push(index);
    }
    let row_shape = space.without(axes);
    let ones: Shape =
        (0..space.rank()).map(|k| if axes.contains(&k) { 1 } else { space[k] }).collect();

    let mut evaluator = Evaluator::new(graph, &group.members, &buffers.inputs, extents);
    let space_map = evaluator.map(at_space.clone());
    let row_map = evaluator.map(at_row.clone());
    let ones_map = evaluator.map(at_ones);
    evaluator.rows = Some(Rows { space: space_map, row: row_map, axes: axes.to_vec(), inner });
    let (mut wide, mut narrow) = (Vec::new(), Vec::new());
    for (i, &root) in group.roots.iter().enumerate() {
        let shape = &graph.ty(root).shape;
        let argument = buffers.root(i);
        if shape == space {
            if inner > 0 {
                let index = linearize(&at_space, space);
                wide.extend(evaluator.stores(root, space_map, argument, index)?);
            }
            continue;
        }
        let map = match shape {
            shape if *shape == row_shape => row_map,
            shape if *shape == ones => ones_map,
            _ => return Err(LowerError::root(graph, root.node)),
        };
        let index = linearize(&at_row, &row_shape);
        narrow.extend(evaluator.stores(root, map, argument, index)?);
    }
    if wide.is_empty() && narrow.is_empty() {
        return Ok(None);
    }
    let Evaluator { exprs, reductions, .. } = evaluator;
    let levels = levels(&exprs, &reductions);
    let lanes = lanes(space, axes);
    Ok(Some(Program { points, inner, lanes, exprs, reductions, levels, wide, narrow }))
}

/// How many stages of reductions come before each expression can be evaluated.
fn levels(exprs: &Exprs, reductions: &[Found]) -> Vec<u32> {
    let mut levels = vec![0u32; exprs.len()];
    for (id, expr, _) in exprs.iter() {
        let mut level = match expr {
            // A slot is added after the value it reduces.
            Expr::Slot(slot) => levels[reductions[*slot as usize].value.0 as usize] + 1,
            _ => 0,
        };
        expr.for_each_operand(|o| level = level.max(levels[o.0 as usize]));
        levels[id.0 as usize] = level;
    }
    levels
}

impl Program {
    /// How many stages of reductions there are.
    pub fn depth(&self) -> u32 {
        let last = self.reductions.iter().map(|r| self.levels[r.value.0 as usize] + 1).max();
        last.unwrap_or(0)
    }

    /// The reductions of one level, with their slots.
    pub fn reductions_at(&self, level: u32) -> impl Iterator<Item = (u32, &Found)> {
        let here = move |r: &Found| self.levels[r.value.0 as usize] == level;
        self.reductions.iter().enumerate().filter(move |(_, r)| here(r)).map(|(i, r)| (i as u32, r))
    }
}

/// The program as one list of stages.
fn stages(program: Program) -> Loops {
    let (exprs, depth) = (&program.exprs, program.depth());
    let level = |s: &Store| program.levels[s.value.0 as usize];
    let count = program.wide.iter().map(|s| level(s) + 1).max().unwrap_or(0).max(depth);
    // A wide root is stored by the last stage that reads rows from memory, not by the
    // first that could: its buffer may be that of an input, which must have been read.
    let last_read = (0..count).rev().find(|&l| {
        let reductions = program.reductions_at(l).map(|(_, found)| found.value);
        let stores = program.wide.iter().filter(|s| level(s) == l).map(|s| s.value);
        reads_rows(exprs, reductions.chain(stores))
    });
    let tree = Tree::of(program.inner, program.lanes);
    let stages: Vec<Stage> = (0..count)
        .map(|number| {
            let reduction = |(slot, found): (u32, &Found)| {
                let (combine, value) = (found.combine, found.value);
                Reduction { combine, value, slot, tree }
            };
            let at = |s: &&Store| level(s).max(last_read.unwrap_or(0)) == number;
            Stage {
                reductions: program.reductions_at(number).map(reduction).collect(),
                stores: program.wide.iter().filter(at).cloned().collect(),
                ..Stage::new(program.inner)
            }
        })
        .collect();

    let keep = match program.lanes {
        Lanes::Inner => Keep::choose(exprs, &stages, program.inner),
        Lanes::Points => Keep::default(),
    };
    let mut to = Exprs::default();
    let mut placed: Vec<Stage> = stages
        .into_iter()
        .enumerate()
        .map(|(number, stage)| {
            let known = keep.known(number, exprs, &mut to);
            let stage = Stage { keeps: keep.filled(number), ..stage };
            place(exprs, &mut to, &known, &stage)
        })
        .collect();
    if !program.narrow.is_empty() {
        let stage = Stage { stores: program.narrow, ..Stage::new(1) };
        placed.push(place(exprs, &mut to, &HashMap::new(), &stage));
    }
    Loops { points: program.points, lanes: program.lanes, exprs: to, stages: placed }
}

/// Whether evaluating `roots` loads elements that change along a row.
fn reads_rows(exprs: &Exprs, roots: impl IntoIterator<Item = ExprId>) -> bool {
    let reached = exprs.reachable(roots);
    exprs.iter().any(|(id, expr, _)| {
        reached[id.0 as usize]
            && matches!(expr, Expr::Load { index, .. } if index.depends_on(Axis::Inner))
    })
}

/// A stage over expressions of `from` as one over `to`, where `known` says which
/// values are at hand in another way.
pub(crate) fn place(
    from: &Exprs,
    to: &mut Exprs,
    known: &HashMap<ExprId, ExprId>,
    stage: &Stage,
) -> Stage {
    let mut reached = vec![false; from.len()];
    stage.for_each_root(|e| reached[e.0 as usize] = true);
    for i in (0..from.len()).rev() {
        let id = ExprId(i as u32);
        if reached[i] && !known.contains_key(&id) {
            from.get(id).for_each_operand(|o| reached[o.0 as usize] = true);
        }
    }
    let places = from.copy(to, &reached, |to, id, places| match known.get(&id) {
        Some(&known) => known,
        None => {
            let new = from.get(id).map(|e| places.at(e), |i| i.rename(&|e| places.at(e)));
            to.add(new, from.dtype(id))
        }
    });
    let place = |argument, index: &Index| (argument, index.rename(&|e| places.at(e)));
    stage.map(|e| places.at(e), place)
}

/// What a reduction's slot holds.
pub(crate) fn slot_dtype(exprs: &Exprs, found: &Found) -> kiln_ir::DType {
    match found.combine {
        Combine::Value(_) => exprs.dtype(found.value),
        Combine::Arg(_) => kiln_ir::DType::I64,
    }
}
