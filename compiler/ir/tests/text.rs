//! The text format.

use kiln_ir::{Graph, text};

#[test]
fn try_cases() {
    for entry in std::fs::read_dir("../../tests/files/cases").unwrap() {
        let path = entry.unwrap().path();
        let t = std::fs::read_to_string(&path).unwrap();
        let m = text::parse_module(path.to_str().unwrap(), &t).unwrap_or_else(|e| panic!("{e}"));
        let g = m.main().unwrap();
        kiln_ir::verify(g).unwrap();
        let printed = g.to_string();
        let again = Graph::parse(&printed).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(printed, again.to_string());
        assert_eq!(g.canonical_text(), again.canonical_text());
    }
}
