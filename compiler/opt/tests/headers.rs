//! The programs in the headers of the passes: each pass, run alone on the one before,
//! gives the one after. What a pass leaves dead is not shown: dce runs too.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use kiln_ir::Graph;
use kiln_opt::{Options, optimize};

/// The blocks of a file's header, with what follows ```` ```kiln ````.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks: Vec<(String, String)> = Vec::new();
    let mut open = false;
    for line in text.lines().map_while(|l| l.strip_prefix("//!")) {
        let line = line.strip_prefix(' ').unwrap_or(line);
        match line.strip_prefix("```") {
            Some("") => open = false,
            Some(kind) => {
                open = kind.starts_with("kiln ");
                if open {
                    blocks.push((kind["kiln ".len()..].to_string(), String::new()));
                }
            }
            None if open => {
                let (_, block) = blocks.last_mut().expect("a block is open");
                block.push_str(line);
                block.push('\n');
            }
            None => {}
        }
    }
    blocks
}

fn passes() -> Vec<(String, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/passes");
    kiln_opt::pipeline::PASSES
        .iter()
        .map(|p| {
            let file = folder.join(format!("{}.rs", p.name));
            let path = if file.exists() { file } else { folder.join(p.name).join("mod.rs") };
            (p.name.to_string(), path)
        })
        .collect()
}

#[test]
fn headers_show_what_passes_do() {
    for (name, path) in passes() {
        let text = fs::read_to_string(&path).expect("each pass has a file");
        let blocks = blocks(&text);
        let [(before, program), (after, wanted)] = &blocks[..] else {
            panic!("{}: wants two blocks, has {}", path.display(), blocks.len());
        };
        assert_eq!(before, "before", "{name}");
        let graph = Graph::parse(program).unwrap_or_else(|e| panic!("{name}: {e}"));
        let rest = kiln_opt::pipeline::PASSES.iter().filter(|p| !p.required);
        let rest = rest.filter(|p| p.name != name && p.name != "dce");
        let skip = rest.map(|p| p.name.to_string()).collect();
        let options = Options { skip, ..Options::default() };
        let optimized = optimize(graph, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
        let given = match after.as_str() {
            "after" => optimized.graph.to_string(),
            "fused" => kiln_opt::print::fused(&optimized.graph, &optimized.fusion).to_string(),
            "wishes" => {
                let mut s = String::new();
                for (output, parameter) in optimized.donations {
                    let _ = writeln!(s, "output {output} takes parameter {parameter}");
                }
                s
            }
            other => panic!("{name}: unknown block `{other}`"),
        };
        assert_eq!(given.trim(), wanted.trim(), "{name}\n{given}");
    }
}
