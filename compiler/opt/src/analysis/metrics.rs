//! Counts of a fused graph, for tests and reports.

use kiln_ir::{Graph, Value};

use crate::group::{Fusion, Group, Kind};

/// What there is of what in a fused graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Metrics {
    /// Groups that run something: all but aliases.
    pub kernels: usize,
    /// By kind.
    pub aliases: usize,
    /// By kind.
    pub maps: usize,
    /// By kind.
    pub rows: usize,
    /// By kind.
    pub folds: usize,
    /// By kind.
    pub contractions: usize,
    /// By kind.
    pub updates: usize,
    /// By kind.
    pub sorts: usize,
    /// By kind.
    pub togethers: usize,
    /// Bytes that any program with this signature moves: each parameter that is used
    /// is read and each output is written once.
    pub compulsory_bytes: u64,
    /// Bytes that the groups move when each reads each input and writes each root
    /// once, whole.
    pub bytes: u64,
}

/// Counts groups and bytes.
pub fn metrics(graph: &Graph, fusion: &Fusion) -> Metrics {
    let mut m = Metrics::default();
    for group in &fusion.groups {
        match group.kind {
            Kind::Alias => m.aliases += 1,
            Kind::Map { .. } => m.maps += 1,
            Kind::Rows { .. } => m.rows += 1,
            Kind::Fold { .. } => m.folds += 1,
            Kind::Contraction { .. } => m.contractions += 1,
            Kind::Update { .. } => m.updates += 1,
            Kind::Sort { .. } => m.sorts += 1,
            Kind::Together { .. } => m.togethers += 1,
        }
        if group.kind != Kind::Alias {
            m.bytes += traffic(graph, group);
        }
    }
    m.kernels = fusion.groups.len() - m.aliases;
    let bytes = |v: Value| graph.ty(v).bytes() as u64;
    let used = graph.parameters().filter(|p| !graph.node_uses(p.node).is_empty());
    m.compulsory_bytes = used.map(bytes).sum::<u64>() + sum(graph, graph.outputs());
    m
}

fn traffic(graph: &Graph, group: &Group) -> u64 {
    sum(graph, &group.inputs(graph)) + sum(graph, &group.roots)
}

fn sum(graph: &Graph, values: &[Value]) -> u64 {
    values.iter().map(|&v| graph.ty(v).bytes() as u64).sum()
}
