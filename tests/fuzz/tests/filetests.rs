//! File tests of the whole pipeline, over `tests/files`.
//!
//! | runner | does |
//! |---|---|
//! | `run` | compiles and runs: fused and not, on every instruction set, one and two threads, donated and kept |
//! | `counts` | launches, kernels, copies, bytes: compared with `check:` lines |
//! | `plan` | the memory plan as text |
//! | `kernel` | the kernel IR as text |
//! | `fused` | the optimized graph with its groups as text |

use std::collections::BTreeMap;

use kiln_driver::{Compiled, Isa, Stage};
use kiln_filetest::{Case, Outcome, Runner, run_folder};
use kiln_fuzz::execute::{Way, build, run};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../files");

fn runs(case: &Case) -> Result<Outcome, String> {
    let levels = [Isa::V2, Isa::V3, Isa::V4].into_iter().filter(|isa| isa.is_supported());
    for (i, isa) in levels.enumerate() {
        for fused in [false, true] {
            let (threads, donate) = (1 + i % 2, fused);
            let way = Way { isa, fused, threads, donate };
            case.run_with(|graph, arguments| {
                run(&build(graph, way)?, way, arguments, 2).map_err(|e| format!("{way:?}: {e}"))
            })
            .map_err(|e| format!("{way:?}: {e}"))?;
        }
    }
    Ok(Outcome::Done)
}

/// Compiled as usual, for the last level, so that texts do not depend on the machine.
fn compiled(case: &Case) -> Result<Compiled, String> {
    build(&case.graph()?, Way { isa: Isa::V3, ..Way::usual() })
}

fn counts(case: &Case) -> Result<Outcome, String> {
    let compiled = compiled(case)?;
    let report = &compiled.report;
    let (memory, traffic) = (report.memory(), report.traffic());
    let reused = report.donations().iter().flatten().count();
    let counts = [
        ("launches", report.launches() as u64),
        ("kernels", report.kernels().len() as u64),
        ("copies", report.copies() as u64),
        ("copied_bytes", report.copied_bytes()),
        ("reused", reused as u64),
        ("arena", memory.arena),
        ("peak", memory.peak()),
        ("read", traffic.read),
        ("written", traffic.written),
    ];
    let counts: BTreeMap<String, String> =
        counts.into_iter().map(|(key, n)| (key.to_string(), n.to_string())).collect();
    Ok(Outcome::Counts(counts))
}

fn dump(case: &Case, stage: Stage) -> Result<Outcome, String> {
    compiled(case)?.report.dump(stage).map(Outcome::Text).map_err(|e| e.to_string())
}

#[test]
fn files() {
    let runners: [Runner; 5] = [
        ("run", &runs),
        ("counts", &counts),
        ("plan", &|case| dump(case, Stage::Plan)),
        ("kernel", &|case| dump(case, Stage::Kernel)),
        ("fused", &|case| dump(case, Stage::Fused)),
    ];
    run_folder(format!("{FILES}/cases"), &runners, &["eval"]);
    run_folder(format!("{FILES}/pipeline"), &runners, &["eval"]);
}
