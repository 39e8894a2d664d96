//! The last step of lowering: a body becomes a launch.
//!
//! While a body is built, arguments have the numbers of its group's buffers, point
//! axes are those of the iteration space, and the arena holds whatever evaluation
//! came across. Here
//!
//! 1. point axes that indices take apart become several axes, so that nothing is
//!    divided at run time;
//! 2. point axes that every index uses together become one axis, so that a dense
//!    elementwise kernel is one-dimensional whatever the shapes were;
//! 3. expressions that nothing reads go;
//! 4. arguments that are not touched go, and the others are numbered in order.

use hashbrown::HashMap;

use super::{Buffers, Launch, Operand};
use crate::kernel::expr::Places;
use crate::kernel::index::Extents;
use crate::kernel::{
    Argument, Axis, Body, Contraction, Expr, ExprId, Exprs, Index, Kernel, Lanes, Loops, Stage,
    Store, Term,
};

/// The launch that runs `body`.
pub(crate) fn launch(buffers: &Buffers, name: &str, body: Body) -> Launch {
    let body = match body {
        Body::Loops(loops) => Body::Loops(merge_loops(split_loops(loops))),
        Body::Contraction(c) => Body::Contraction(merge_batch(split_batch(c))),
        Body::Sort(sort) => Body::Sort(sort),
        Body::Together(_) => unreachable!("parts are joined after they are finished"),
    };
    let mut touched: Vec<Touched> = Vec::new();
    touch(&body, &mut touched);
    let mut numbers = vec![0; touched.len()];
    let (mut arguments, mut operands) = (Vec::new(), Vec::new());
    for (i, t) in touched.iter().enumerate().filter(|(_, t)| t.reads || t.writes) {
        numbers[i] = arguments.len() as u32;
        let (dtype, elements) = buffers.describe(i as u32);
        arguments.push(Argument { dtype, elements, reads: t.reads, writes: t.writes });
        operands.push(buffers.operand(i as u32));
    }
    let body = renumber(body, &|argument| numbers[argument as usize]);
    checked(Launch {
        kernel: Kernel { name: name.to_string(), arguments, body },
        arguments: operands,
    })
}

/// In debug builds, lowering does not let go of a kernel that is not well-formed.
fn checked(launch: Launch) -> Launch {
    if cfg!(debug_assertions)
        && let Err(error) = crate::kernel::verify(&launch.kernel)
    {
        panic!("lowering made a kernel that is not well-formed: {error}\n{}", launch.kernel);
    }
    launch
}

/// One launch of independent ones. Buffers that several read are passed once.
pub(crate) fn join(name: &str, launches: Vec<Launch>) -> Launch {
    let mut all: Vec<(Operand, Argument)> = Vec::new();
    let mut known: HashMap<Operand, usize> = HashMap::new();
    for launch in &launches {
        for (&operand, argument) in launch.arguments.iter().zip(&launch.kernel.arguments) {
            let at = *known.entry(operand).or_insert(all.len());
            if at == all.len() {
                all.push((operand, *argument));
            }
            all[at].1.reads |= argument.reads;
            all[at].1.writes |= argument.writes;
        }
    }
    // Inputs first, as in every launch.
    all.sort_by_key(|(_, argument)| argument.writes);
    let number: HashMap<Operand, u32> =
        all.iter().enumerate().map(|(i, (o, _))| (*o, i as u32)).collect();
    let mut parts = Vec::new();
    for launch in launches {
        let to = |argument: u32| number[&launch.arguments[argument as usize]];
        match renumber(launch.kernel.body, &to) {
            Body::Loops(loops) => parts.push(loops),
            _ => unreachable!("only loops are joined"),
        }
    }
    let (arguments, kernel_arguments) = all.into_iter().unzip();
    let kernel =
        Kernel { name: name.to_string(), arguments: kernel_arguments, body: Body::Together(parts) };
    checked(Launch { kernel, arguments })
}

#[derive(Clone, Copy, Default)]
struct Touched {
    reads: bool,
    writes: bool,
}

fn touch(body: &Body, touched: &mut Vec<Touched>) {
    let mut at = |argument: u32| {
        let i = argument as usize;
        if touched.len() <= i {
            touched.resize(i + 1, Touched::default());
        }
        i
    };
    let (exprs, written): (&Exprs, Vec<u32>) = match body {
        Body::Sort(sort) => {
            let reads: Vec<usize> = sort.read().map(&mut at).collect();
            let writes: Vec<usize> = sort.written().map(at).collect();
            reads.into_iter().for_each(|i| touched[i].reads = true);
            writes.into_iter().for_each(|i| touched[i].writes = true);
            return;
        }
        Body::Loops(loops) => {
            let written = loops.stages.iter().flat_map(|s| s.written());
            (&loops.exprs, written.map(|(argument, _)| argument).collect())
        }
        Body::Contraction(c) => (&c.exprs, c.stores.iter().map(|s| s.argument).collect()),
        Body::Together(_) => unreachable!(),
    };
    let mut reads = Vec::new();
    for (_, expr, _) in exprs.iter() {
        if let Expr::Load { argument, .. } = expr {
            reads.push(at(*argument));
        }
    }
    if let Body::Loops(loops) = body {
        let scatters = loops.stages.iter().flat_map(|s| &s.scatters);
        reads.extend(scatters.filter(|s| s.combine.is_some()).map(|s| at(s.argument)));
    }
    let writes: Vec<usize> = written.into_iter().map(at).collect();
    reads.into_iter().for_each(|i| touched[i].reads = true);
    writes.into_iter().for_each(|i| touched[i].writes = true);
}

/// How a body is rewritten: its axes, its arguments, both.
struct Rewrite<'a> {
    extents: Extents,
    axes: &'a dyn Fn(Axis) -> Index,
    argument: &'a dyn Fn(u32) -> u32,
}

impl Rewrite<'_> {
    /// The expressions that `roots` need, rewritten, and where each went.
    fn exprs(&self, from: &Exprs, roots: Vec<ExprId>) -> (Exprs, Places) {
        let mut to = Exprs::default();
        let places = from.copy(&mut to, &from.reachable(roots), |to, id, places| {
            let dtype = from.dtype(id);
            match from.get(id).map(|e| places.at(e), |i| self.index(i, places)) {
                Expr::Index(index) => to.index(index),
                Expr::Load { argument, index, valid } => {
                    let argument = (self.argument)(argument);
                    to.add(Expr::Load { argument, index, valid }, dtype)
                }
                expr => to.add(expr, dtype),
            }
        });
        (to, places)
    }

    fn index(&self, index: &Index, places: &Places) -> Index {
        index.substitute(&self.extents, &|a| (self.axes)(a), &|e| places.at(e))
    }

    fn store(&self, store: &Store, places: &Places) -> Store {
        Store {
            argument: (self.argument)(store.argument),
            index: self.index(&store.index, places),
            value: places.at(store.value),
        }
    }

    fn loops(&self, loops: &Loops) -> Loops {
        let mut roots = Vec::new();
        loops.stages.iter().for_each(|s| s.for_each_root(|e| roots.push(e)));
        let (exprs, places) = self.exprs(&loops.exprs, roots);
        let place =
            |argument, index: &Index| ((self.argument)(argument), self.index(index, &places));
        let stage = |s: &Stage| s.map(|e| places.at(e), place);
        let stages = loops.stages.iter().map(stage).collect();
        Loops { points: self.extents.points.clone(), lanes: loops.lanes, exprs, stages }
    }

    fn contraction(&self, c: &Contraction) -> Contraction {
        let mut roots = vec![c.lhs, c.rhs];
        c.stores.iter().for_each(|s| s.for_each_root(|e| roots.push(e)));
        let (exprs, places) = self.exprs(&c.exprs, roots);
        Contraction {
            batch: self.extents.points.clone(),
            exprs,
            lhs: places.at(c.lhs),
            rhs: places.at(c.rhs),
            stores: c.stores.iter().map(|s| self.store(s, &places)).collect(),
            ..*c
        }
    }
}

fn renumber(body: Body, argument: &dyn Fn(u32) -> u32) -> Body {
    let rewrite = |extents| Rewrite { extents, axes: &Index::axis, argument };
    match body {
        Body::Loops(loops) => Body::Loops(rewrite(loops.extents()).loops(&loops)),
        Body::Contraction(c) => Body::Contraction(rewrite(c.extents()).contraction(&c)),
        Body::Sort(sort) => Body::Sort(sort.renumbered(argument)),
        Body::Together(_) => unreachable!("parts are joined after they are finished"),
    }
}

/// Point axes grouped so that every index uses the axes of a group as one.
///
/// Returns the extents of the groups and, for each old axis, its group and whether
/// it is the innermost of it: that one becomes the new axis, the others 0.
fn groups(points: &[u64], fixed: &[u32], indices: &[&Index]) -> (Vec<u64>, Vec<(u32, bool)>) {
    let mut extents: Vec<u64> = Vec::new();
    let mut place = vec![(0, false); points.len()];
    let mut innermost = None;
    for outer in (0..points.len()).rev() {
        if let (Some(inner), Some(extent)) = (innermost, extents.last_mut()) {
            let (a, b) = (Axis::Point(outer as u32), Axis::Point(inner));
            let free = !fixed.contains(&(outer as u32)) && !fixed.contains(&inner);
            if free && indices.iter().all(|i| i.merges(a, b, *extent as i64)) {
                *extent *= points[outer];
                place[outer] = (extents.len() as u32 - 1, false);
                continue;
            }
        }
        extents.push(points[outer]);
        place[outer] = (extents.len() as u32 - 1, true);
        innermost = Some(outer as u32);
    }
    extents.reverse();
    for (group, _) in &mut place {
        *group = extents.len() as u32 - 1 - *group;
    }
    (extents, place)
}

/// An old axis in terms of the groups.
fn grouped(place: &[(u32, bool)], axis: Axis) -> Index {
    match axis {
        Axis::Point(p) => match place[p as usize] {
            (group, true) => Index::axis(Axis::Point(group)),
            (_, false) => Index::default(),
        },
        axis => Index::axis(axis),
    }
}

fn indices<'a>(exprs: &'a Exprs, written: impl Iterator<Item = &'a Index>) -> Vec<&'a Index> {
    let inside = exprs.iter().filter_map(|(_, expr, _)| match expr {
        Expr::Load { index, .. } | Expr::Index(index) => Some(index),
        _ => None,
    });
    inside.chain(written).collect()
}

/// Fewest steps of the last axis that lanes can run along without idling: it is not
/// taken apart into shorter runs.
const SHORTEST_RUN: u64 = 16;

/// The digits that indices take axis `axis` apart into, as strides: with `p / 64` and
/// `p % 64`, the strides 64 and 1. `None` unless each divides the one before it.
fn digits(axis: Axis, extent: u64, indices: &[&Index]) -> Option<Vec<u64>> {
    let mut strides = vec![1];
    let mut alone = true;
    indices.iter().for_each(|index| alone &= boundaries(index, axis, &mut strides));
    strides.sort_unstable_by(|a, b| b.cmp(a));
    strides.dedup();
    let chain = strides.iter().try_fold(extent, |above, &s| (above % s == 0).then_some(s));
    (alone && strides.len() > 1 && chain.is_some()).then_some(strides)
}

/// Collects where an index divides the axis; false if it divides it together with
/// something else.
fn boundaries(index: &Index, axis: Axis, strides: &mut Vec<u64>) -> bool {
    index.terms.iter().all(|(term, _)| match term {
        Term::Quotient(x, d) | Term::Remainder(x, d) if x.depends_on(axis) => {
            match (&x.terms[..], x.constant) {
                ([(Term::Axis(_), 1)], 0) => {
                    strides.push(*d as u64);
                    true
                }
                ([(Term::Quotient(y, c), 1)], 0) => {
                    strides.push((c * d) as u64);
                    boundaries(x, axis, strides) && matches!(&y.terms[..], [(Term::Axis(_), 1)])
                }
                _ => false,
            }
        }
        _ => true,
    })
}

/// Axes taken apart: the new extents, and each old axis in terms of the new ones.
/// Nothing when no axis is.
fn split(points: &[u64], shortest_last: u64, indices: &[&Index]) -> Option<(Vec<u64>, Vec<Index>)> {
    let (mut extents, mut places) = (Vec::new(), Vec::new());
    for (p, &extent) in points.iter().enumerate() {
        let last = p + 1 == points.len();
        let digits = digits(Axis::Point(p as u32), extent, indices)
            .filter(|d| !last || d[d.len() - 2] >= shortest_last)
            .unwrap_or_else(|| vec![1]);
        let mut place = Index::default();
        let mut above = extent;
        for stride in digits {
            let digit = Index::axis(Axis::Point(extents.len() as u32));
            place = place.add(&digit.scale(stride as i64));
            extents.push(above / stride);
            above = stride;
        }
        places.push(place);
    }
    (extents.len() > points.len()).then_some((extents, places))
}

/// An old axis in terms of the new ones.
fn taken_apart(places: &[Index], axis: Axis) -> Index {
    match axis {
        Axis::Point(p) => places[p as usize].clone(),
        axis => Index::axis(axis),
    }
}

fn split_loops(loops: Loops) -> Loops {
    let loops = read_only(&loops);
    let written = loops.stages.iter().flat_map(|s| s.written());
    let all = indices(&loops.exprs, written.map(|(_, index)| index));
    if loops.stages.iter().any(|s| s.ragged.is_some()) {
        // Chunks are counted by one axis; what splits long reductions keeps few others.
        return loops;
    }
    let shortest = if loops.lanes == Lanes::Points { SHORTEST_RUN } else { 1 };
    let Some((points, places)) = split(&loops.points, shortest, &all) else {
        return loops;
    };
    let extents = Extents { points, ..loops.extents() };
    Rewrite { extents, axes: &|a| taken_apart(&places, a), argument: &|a| a }.loops(&loops)
}

fn split_batch(c: Contraction) -> Contraction {
    let Some((points, places)) =
        split(&c.batch, 1, &indices(&c.exprs, c.stores.iter().map(|s| &s.index)))
    else {
        return c;
    };
    let extents = Extents { points, ..c.extents() };
    Rewrite { extents, axes: &|a| taken_apart(&places, a), argument: &|a| a }.contraction(&c)
}

/// Without what nothing reads: an index that evaluation came across and dropped must
/// not decide about axes.
fn read_only(loops: &Loops) -> Loops {
    Rewrite { extents: loops.extents(), axes: &Index::axis, argument: &|a| a }.loops(loops)
}

fn merge_loops(mut loops: Loops) -> Loops {
    let written = loops.stages.iter().flat_map(|s| s.written());
    let all = indices(&loops.exprs, written.map(|(_, index)| index));
    let fixed: Vec<u32> = loops.stages.iter().filter_map(|s| Some(s.ragged?.axis)).collect();
    let (points, place) = groups(&loops.points, &fixed, &all);
    if points.len() == loops.points.len() {
        return loops;
    }
    let extents = Extents { points, ..loops.extents() };
    for ragged in loops.stages.iter_mut().filter_map(|s| s.ragged.as_mut()) {
        ragged.axis = place[ragged.axis as usize].0;
    }
    Rewrite { extents, axes: &|a| grouped(&place, a), argument: &|a| a }.loops(&loops)
}

fn merge_batch(c: Contraction) -> Contraction {
    let none = Rewrite { extents: c.extents(), axes: &Index::axis, argument: &|a| a };
    let c = none.contraction(&c);
    let (points, place) =
        groups(&c.batch, &[], &indices(&c.exprs, c.stores.iter().map(|s| &s.index)));
    let extents = Extents { points, ..c.extents() };
    Rewrite { extents, axes: &|a| grouped(&place, a), argument: &|a| a }.contraction(&c)
}
