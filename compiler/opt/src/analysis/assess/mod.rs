//! Whether nodes can be one group, of which kind, and what running it costs.
//!
//! [`Assessor::assess`] is given the nodes that may be computed and the values that
//! are wanted. It answers with the group that computes just that, or `None` when no
//! [`Kind`] fits. What a kind promises is written in [`crate::group`]; four more
//! refusals are made here because the group would be legal but slow:
//!
//! - *An update that reads its base.* It would read elements that it overwrites, so the
//!   whole base would be copied first. Computed by another kernel, the box is all that
//!   moves.
//! - *Long rows.* Lowering splits the reduction of few long rows between threads,
//!   one pair of launches for each level of dependent reductions. Whatever depends
//!   on such a reduction element by element is better off in a kernel of its own,
//!   where every element is a unit of work.
//! - *Tall columns.* When the rows of a program are columns in memory, going over one
//!   twice is cheap only while the cache lines that hold it stay in the cache.
//! - *Long concatenations where they cannot be cut.* Lowering makes a loop of each piece
//!   where only maps follow. Elsewhere each element would choose between all pieces.
//!
//! The cost (`evaluations`) counts, for every member, at how many different index maps it is
//! evaluated ("contexts"): a value read through three different slices is computed
//! three times. That is also what bounds the size of the expressions.

mod evaluations;
mod fit;

use hashbrown::HashMap;
use kiln_ir::Shape;
use smallvec::SmallVec;

use self::evaluations::{Context, Wanted};
use super::cost::Machine;
use super::nodes::{At, Nodes, Source};
use super::rows::Place;
use crate::group::Kind;

/// A group that can be.
#[derive(Clone, Debug)]
pub(crate) struct Assessed {
    pub kind: Kind,
    /// The nodes that the roots need, increasing.
    pub members: Vec<At>,
    /// Increasing.
    pub roots: Vec<At>,
    /// Values read from memory, increasing.
    pub inputs: Vec<At>,
    /// Picoseconds.
    pub time: u64,
    /// Primitive operations in its expressions.
    pub operations: u32,
    /// Bytes read and written.
    pub bytes: u64,
}

impl Assessed {
    /// Whether it is no larger than groups may grow.
    pub fn fits(&self, machine: &Machine) -> bool {
        self.operations <= machine.operations
            && self.inputs.len() + self.roots.len() <= machine.arguments
    }
}

/// What a group's kind follows from.
enum Fit {
    Alias,
    Map(Shape),
    Rows(RowProgram),
    Contraction(At),
    Fold(At),
    Update(At),
    Sort(At),
}

struct RowProgram {
    space: Shape,
    axes: Vec<usize>,
    rows: u64,
    /// Levels of dependent reductions.
    depth: u32,
    wide_roots: bool,
    long: bool,
}

/// Assesses sets of nodes of one graph. Holds tables that are reused.
pub(crate) struct Assessor<'g> {
    nodes: &'g Nodes,
    machine: Machine,
    /// By node: the assessment in which it was last a candidate, and needed.
    candidate: Vec<u32>,
    needed: Vec<u32>,
    epoch: u32,
    /// By node: where it is wanted in this assessment.
    wanted: Vec<SmallVec<[Wanted; 2]>>,
    /// By node: its place, if it depends on a reduction of this assessment; and how
    /// many levels of reductions are behind it, or what else `fit` notes.
    places: Vec<Option<Place>>,
    levels: Vec<u32>,
    contexts: HashMap<(At, u32, Context), Context>,
}

impl<'g> Assessor<'g> {
    pub fn new(nodes: &'g Nodes, machine: &Machine) -> Assessor<'g> {
        let n = nodes.len();
        Assessor {
            nodes,
            machine: machine.clone(),
            candidate: vec![0; n],
            needed: vec![0; n],
            epoch: 0,
            wanted: vec![SmallVec::new(); n],
            places: vec![None; n],
            levels: vec![0; n],
            contexts: HashMap::new(),
        }
    }

    /// The group that computes `roots` from `candidates`, both increasing.
    pub fn assess(&mut self, candidates: &[At], roots: &[At]) -> Option<Assessed> {
        self.epoch += 1;
        let members = self.prune(candidates, roots);
        let inputs = self.inputs(&members);
        let fit = self.fit(&members, &inputs, roots)?;
        Some(self.cost(fit, members, inputs, roots))
    }

    fn is_member(&self, at: At) -> bool {
        self.needed[at as usize] == self.epoch
    }

    /// The candidates that the roots need.
    fn prune(&mut self, candidates: &[At], roots: &[At]) -> Vec<At> {
        for &c in candidates {
            self.candidate[c as usize] = self.epoch;
        }
        for &r in roots {
            debug_assert_eq!(self.candidate[r as usize], self.epoch, "roots are candidates");
            self.needed[r as usize] = self.epoch;
        }
        for &c in candidates.iter().rev() {
            if self.needed[c as usize] == self.epoch {
                for &o in &self.nodes[c].operands {
                    if self.candidate[o as usize] == self.epoch {
                        self.needed[o as usize] = self.epoch;
                    }
                }
            }
        }
        candidates.iter().copied().filter(|&c| self.is_member(c)).collect()
    }

    /// What the members read from memory; forgets what was noted about them before.
    fn inputs(&mut self, members: &[At]) -> Vec<At> {
        let nodes = self.nodes;
        let mut inputs = Vec::new();
        for &m in members {
            self.wanted[m as usize].clear();
            self.places[m as usize] = None;
            self.levels[m as usize] = 0;
            for &o in &nodes[m].operands {
                if !self.is_member(o) && nodes.source(o) != Source::Code {
                    inputs.push(o);
                    self.wanted[o as usize].clear();
                }
            }
        }
        inputs.sort_unstable();
        inputs.dedup();
        inputs
    }
}
