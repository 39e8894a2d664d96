//! Prints a stage of a `.kiln` file's last graph.
//!
//! ```text
//! cargo run -p kiln-fuzz --example dump -- FILE STAGE [v2|v3|v4] [unfused]
//! ```

use kiln_driver::{Isa, Stage};
use kiln_fuzz::execute::{Way, build};
use kiln_ir::Graph;

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, stage, rest @ ..] = &arguments[..] else {
        return Err("give a file and a stage; see the top of the example".into());
    };
    let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let graph = Graph::parse(&text).map_err(|e| e.to_string())?;
    let stage = Stage::from_name(stage).ok_or_else(|| {
        let names: Vec<&str> = Stage::ALL.iter().map(|s| s.name()).collect();
        format!("the stages are {}", names.join(", "))
    })?;
    let mut way = Way::usual();
    for word in rest {
        match word.as_str() {
            "v2" => way.isa = Isa::V2,
            "v3" => way.isa = Isa::V3,
            "v4" => way.isa = Isa::V4,
            "unfused" => way.fused = false,
            _ => return Err(format!("`{word}` is not understood")),
        }
    }
    print!("{}", build(&graph, way)?.report.dump(stage).map_err(|e| e.to_string())?);
    Ok(())
}
