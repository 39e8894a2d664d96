//! Of which kind a set of nodes is, if of any.

use kiln_ir::form::View;
use kiln_ir::{Form, Shape};

use super::{Assessor, Fit, RowProgram};
use crate::analysis::nodes::At;
use crate::analysis::rows::Place;
use crate::group::CHOICES;

impl Assessor<'_> {
    /// The kind of the group of these members; `None` when there is none.
    pub(super) fn fit(&mut self, members: &[At], inputs: &[At], roots: &[At]) -> Option<Fit> {
        if members.iter().any(|&m| self.long(m)) && !self.cut(members, roots) {
            return None;
        }
        let nodes = self.nodes;
        let mut heavy = members.iter().copied().filter(|&m| !nodes.pointwise(m));
        let Some(first) = heavy.next() else {
            return self.pointwise(members, inputs, roots);
        };
        if nodes.reads_memory(first) {
            return self.apart(first, members, roots);
        }
        match nodes[first].form {
            Form::Contraction(_) if heavy.next().is_none() => {
                self.followed(first, members, roots).then_some(Fit::Contraction(first))
            }
            Form::Fold(..) | Form::Window(..) | Form::Cumulative(..) if heavy.next().is_none() => {
                self.followed(first, members, roots).then_some(Fit::Fold(first))
            }
            Form::Update | Form::Scatter(_) if heavy.next().is_none() => {
                let base = nodes[first].operands[0];
                let reads = |&m: &At| m != first && nodes[m].operands.contains(&base);
                let copied = nodes.updated(base) && members.iter().any(reads);
                let fits = roots == [first] && !self.is_member(base) && !copied;
                fits.then_some(Fit::Update(first))
            }
            Form::Reduce(..) | Form::ArgReduce(..) => {
                self.row_program(first, members, roots).map(Fit::Rows)
            }
            _ => None,
        }
    }

    /// Whether a member is a concatenation that must not choose at run time.
    fn long(&self, m: At) -> bool {
        let row = &self.nodes[m];
        let joins = matches!(row.form, Form::View(View::Concatenate { .. }));
        joins && row.operands.len() > CHOICES
    }

    /// Whether lowering cuts the space at the joints of all long concatenations: they are
    /// along one axis, and only maps stand between them and the roots.
    fn cut(&mut self, members: &[At], roots: &[At]) -> bool {
        const HERE: u32 = 1;
        const ELSEWHERE: u32 = 2;
        let nodes = self.nodes;
        if members.iter().any(|&m| !nodes.pointwise(m)) {
            return false;
        }
        // `levels` says where a member is read.
        roots.iter().for_each(|&r| self.levels[r as usize] = HERE);
        let mut axis = None;
        for &m in members.iter().rev() {
            let row = &nodes[m];
            let mut read = self.levels[m as usize];
            if let Form::View(View::Concatenate { axis: own }) = row.form
                && self.long(m)
                && (read != HERE || *axis.get_or_insert(own) != own)
            {
                return false;
            }
            if !matches!(row.form, Form::Map(_)) {
                read = ELSEWHERE;
            }
            for &o in &row.operands {
                if self.is_member(o) {
                    self.levels[o as usize] |= read;
                }
            }
        }
        true
    }

    /// A node that reads its operands from memory, with its results alone.
    fn apart(&self, first: At, members: &[At], roots: &[At]) -> Option<Fit> {
        let nodes = self.nodes;
        let results = nodes.results(first);
        let fits = |m: &At| results.contains(m) || nodes.is_position(first, *m);
        let alone = members.iter().all(fits) && roots.iter().all(|r| results.contains(r));
        alone.then(|| match nodes[first].form {
            Form::Barrier => Fit::Alias,
            _ => Fit::Sort(first),
        })
    }

    fn pointwise(&self, members: &[At], inputs: &[At], roots: &[At]) -> Option<Fit> {
        let nodes = self.nodes;
        let space = &nodes[roots[0]].shape;
        if roots.iter().any(|&r| nodes[r].shape != *space) {
            return None;
        }
        let reshape = matches!(nodes[roots[0]].form, Form::View(View::Reshape));
        if members.len() == 1 && reshape && inputs.len() == 1 {
            return Some(Fit::Alias);
        }
        Some(Fit::Map(space.clone()))
    }

    /// Whether what depends on a contraction or fold are maps, and all roots do.
    fn followed(&mut self, dot: At, members: &[At], roots: &[At]) -> bool {
        // `levels` says what depends on it.
        for &m in members {
            let row = &self.nodes[m];
            let depends = m == dot
                || row.operands.iter().any(|&o| self.is_member(o) && self.levels[o as usize] > 0);
            if depends && m != dot && !matches!(row.form, Form::Map(_)) {
                return false;
            }
            self.levels[m as usize] = depends as u32;
        }
        roots.iter().all(|&r| self.levels[r as usize] > 0)
    }

    /// Finds every member's place; `None` when a reduction does not fit the first
    /// or something depends on another row.
    fn row_program(&mut self, first: At, members: &[At], roots: &[At]) -> Option<RowProgram> {
        let nodes = self.nodes;
        let reduced = |at: At| match &nodes[at].form {
            Form::Reduce(_, axes) => Some(axes.clone()),
            Form::ArgReduce(_, axis) => Some(vec![*axis]),
            _ => None,
        };
        let axes = reduced(first)?;
        let space = nodes[nodes[first].operands[0]].shape.clone();
        let wide = Place::wide(&space);
        let narrow = Place::narrow(&space, &axes);
        for &m in members {
            let row = &nodes[m];
            let mut place: Option<Place> = None;
            let mut level = 0;
            for &o in row.operands.iter().filter(|&&o| self.is_member(o)) {
                let Some(at) = &self.places[o as usize] else { continue };
                level = level.max(self.levels[o as usize]);
                match &place {
                    Some(other) if other != at => return None,
                    Some(_) => {}
                    None => place = Some(at.clone()),
                }
            }
            let place = if nodes.pointwise(m) {
                match place {
                    None => None,
                    // Views that choose between operands or move elements end here.
                    Some(at) => {
                        let operand = &nodes[row.operands[0]].shape;
                        Some(at.through(&row.form, operand, &row.shape, &space)?)
                    }
                }
            } else {
                let operand = &nodes[row.operands[0]].shape;
                let fits = reduced(m)? == axes && *operand == space;
                if !fits || place.is_some_and(|at| at != wide) {
                    return None;
                }
                level += 1;
                Some(narrow.clone())
            };
            self.places[m as usize] = place;
            self.levels[m as usize] = level;
        }
        let row_shape = space.without(&axes);
        let ones: Shape =
            (0..space.rank()).map(|k| if axes.contains(&k) { 1 } else { space[k] }).collect();
        let mut wide_roots = false;
        for &r in roots {
            let shape = &nodes[r].shape;
            let (is_wide, is_row) = (*shape == space, *shape == row_shape || *shape == ones);
            let fits = match &self.places[r as usize] {
                None => is_wide || is_row,
                Some(at) => (is_wide && *at == wide) || (is_row && at.same_axes(&narrow)),
            };
            if !fits {
                return None;
            }
            wide_roots |= is_wide && !is_row;
        }
        let depth = members.iter().map(|&m| self.levels[m as usize]).max().unwrap_or(0);
        let rows: u64 = row_shape.iter().map(|&d| d as u64).product();
        let inner: u64 = axes.iter().map(|&a| space[a] as u64).product();
        let columns = space.iter().rposition(|&d| d > 1).is_some_and(|last| !axes.contains(&last));
        // Where lowering splits rows into chunks.
        let long = if columns { rows < 1024 && inner >= 2048 } else { rows < 64 && inner >= 65536 };
        if long && (depth > 1 || wide_roots) {
            return None;
        }
        // A column's elements lie in different cache lines: 4096 lines are 256 KiB.
        if columns && inner > 4096 && (depth > 1 || wide_roots) {
            return None;
        }
        Some(RowProgram { space, axes, rows, depth, wide_roots, long })
    }
}
