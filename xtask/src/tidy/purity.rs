//! What the middle of the compiler must not touch.
//!
//! The crates between the tracer and code generation turn data into data: the same
//! graph gives the same kernels on every machine and in every environment. So they
//! do no IO, read no environment and keep no state of their own. And one file alone
//! knows which library holds the graph.

use super::{Finding, Tree};

/// Crates that are functions of their input.
const PURE: [&str; 3] = ["compiler/ir/src/", "compiler/opt/src/", "compiler/plan/src/"];

/// What would make them anything else, and how to say it in a message.
const IMPURE: [(&str, &str); 11] = [
    ("std::env", "reads the environment"),
    ("std::fs", "does IO"),
    ("std::io", "does IO"),
    ("std::net", "does IO"),
    ("std::process", "does IO"),
    ("println!", "prints"),
    ("print!", "prints"),
    ("dbg!", "prints"),
    ("thread_local!", "keeps a global"),
    ("OnceLock", "keeps a global"),
    ("LazyLock", "keeps a global"),
];

const GRAPH_LIBRARY: &str = "petgraph";
const GRAPH_FILE: &str = "compiler/ir/src/graph.rs";

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.rust() {
        let pure = PURE.iter().any(|folder| file.path.starts_with(folder));
        let may_name_library = file.path == GRAPH_FILE || file.path.starts_with("xtask/");
        for (number, line) in file.code() {
            if pure && let Some((word, verb)) = IMPURE.iter().find(|(word, _)| line.contains(word))
            {
                let message =
                    format!("`{word}` {verb}: ir, opt and plan are functions of their input");
                findings.push(Finding::new(file, number, message));
            }
            if !may_name_library && line.contains(GRAPH_LIBRARY) {
                let message = format!("only {GRAPH_FILE} names {GRAPH_LIBRARY}");
                findings.push(Finding::new(file, number, message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{found, tree};
    use super::check;

    #[test]
    fn impurity_is_found_in_pure_crates_only_and_not_in_their_tests() {
        let reads = "//! x\nlet home = std::env::var(\"HOME\");\n";
        let tested = "//! x\n#[cfg(test)]\nmod tests { use std::fs; }\n";
        let tree = tree([
            ("compiler/opt/src/a.rs", reads),
            ("compiler/plan/src/b.rs", tested),
            ("runtime/src/c.rs", reads),
        ]);
        assert_eq!(found(check, &tree).0, ["compiler/opt/src/a.rs:2"]);
    }

    #[test]
    fn one_file_names_the_graph_library() {
        let uses = "//! Over petgraph.\nuse petgraph::Direction;\n";
        let tree = tree([("compiler/ir/src/graph.rs", uses), ("compiler/ir/src/text.rs", uses)]);
        assert_eq!(found(check, &tree).0, ["compiler/ir/src/text.rs:2"]);
    }
}
