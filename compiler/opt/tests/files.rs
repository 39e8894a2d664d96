//! The file tests of the passes, `tests/files/opt`.
//!
//! | runner | returns |
//! |---|---|
//! | `opt` | the graph after all passes, as text |
//! | `fuse` | counts of the fused graph, below |
//!
//! | count | says |
//! |---|---|
//! | `kernels` | groups that run something |
//! | `maps`, `rows`, `contractions`, `updates`, `togethers`, `aliases` | groups of a kind |
//! | `parts` | groups that share launches |
//! | `repeated` | how often nodes that compute are members again in another group |
//! | `compulsory_excess` | bytes that groups move beyond each used parameter once and each output once |
//! | `donations` | `output:parameter, ..` |
//! | `rewrites` | how many rules of simplify were applied |

use std::collections::BTreeMap;

use hashbrown::HashMap;
use kiln_filetest::{Case, Outcome, run_folder};
use kiln_ir::{Form, NodeId};
use kiln_opt::metrics::metrics;
use kiln_opt::{Group, Kind, Optimized, Options, optimize};

fn optimized(case: &Case) -> Result<Optimized, String> {
    optimize(case.graph()?, &Options::default()).map_err(|e| e.to_string())
}

fn opt(case: &Case) -> Result<Outcome, String> {
    Ok(Outcome::Text(optimized(case)?.graph.to_string()))
}

fn fuse(case: &Case) -> Result<Outcome, String> {
    let Optimized { graph, fusion, donations, report, .. } = optimized(case)?;
    let m = metrics(&graph, &fusion);
    let parts = |g: &Group| match &g.kind {
        Kind::Together { parts } => parts.len(),
        _ => 0,
    };
    let mut memberships: HashMap<NodeId, usize> = HashMap::new();
    for &node in fusion.groups.iter().flat_map(|g| &g.members) {
        if !matches!(graph.op(node).lower(), Form::View(_) | Form::Generate(_)) {
            *memberships.entry(node).or_default() += 1;
        }
    }
    let donations: Vec<String> = donations.iter().map(|(o, p)| format!("{o}:{p}")).collect();
    let simplified: u64 = report.iter().filter(|r| r.name == "simplify").map(|r| r.changes).sum();
    let counts = [
        ("kernels", m.kernels.to_string()),
        ("maps", m.maps.to_string()),
        ("rows", m.rows.to_string()),
        ("contractions", m.contractions.to_string()),
        ("updates", m.updates.to_string()),
        ("togethers", m.togethers.to_string()),
        ("aliases", m.aliases.to_string()),
        ("parts", fusion.groups.iter().map(parts).sum::<usize>().to_string()),
        ("repeated", memberships.values().map(|n| n - 1).sum::<usize>().to_string()),
        ("compulsory_excess", (m.bytes as i64 - m.compulsory_bytes as i64).to_string()),
        ("donations", donations.join(", ")),
        ("rewrites", simplified.to_string()),
    ];
    Ok(Outcome::Counts(BTreeMap::from(counts.map(|(key, value)| (key.to_string(), value)))))
}

#[test]
fn files() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/files/opt");
    run_folder(folder, &[("opt", &opt), ("fuse", &fuse)], &["eval", "run"]);
}
