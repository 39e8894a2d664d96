//! How every file looks: a header that says what it is for, nothing unfinished, no
//! path of one person's machine, clean whitespace.

use super::{File, Finding, Tree};

// Spelled in halves, so that this file does not find itself.
const UNFINISHED: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
];
const MACHINE_PATHS: [&str; 4] =
    [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/tm", "p/")];

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in &tree.files {
        if file.is_rust() && !file.text.starts_with("//!") {
            let message =
                "a file starts with `//!`: what it is for, what it promises, what it refuses";
            findings.push(Finding::new(file, 1, message));
        }
        if file.path.starts_with("LICENSE") {
            continue;
        }
        check_lines(file, findings);
    }
}

fn check_lines(file: &File, findings: &mut Vec<Finding>) {
    for (number, line) in file.lines() {
        if let Some(word) = UNFINISHED.iter().find(|word| line.contains(*word)) {
            let message = format!("`{word}`: finish it, or return a typed error and test that");
            findings.push(Finding::new(file, number, message));
        }
        if let Some(path) = MACHINE_PATHS.iter().find(|path| names_path(line, path)) {
            let message = format!("`{path}…` is a path of one machine");
            findings.push(Finding::new(file, number, message));
        }
        if line.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::new(file, number, "white space at the end of the line"));
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        let last = file.text.lines().count();
        findings.push(Finding::new(file, last, "the last line does not end"));
    }
}

/// Whether an absolute path starting so stands in the line; `src/home/` is none.
fn names_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-}$".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{found, tree};
    use super::check;

    #[test]
    fn each_fault_is_found_on_its_line() {
        let unfinished = format!("//! x\nfn f() {{ {}) }}\n", super::UNFINISHED[3]);
        let machine = format!("//! x\nconst A: &str = \"{}me\";\n", super::MACHINE_PATHS[0]);
        let tree = tree([
            ("a.rs", "fn f() {}\n"),
            ("b.rs", &unfinished),
            ("c.rs", &machine),
            ("d.md", "words \nwords"),
        ]);
        assert_eq!(found(check, &tree).0, ["a.rs:1", "b.rs:2", "c.rs:2", "d.md:1", "d.md:2"]);
    }

    #[test]
    fn a_relative_path_is_nobodys_machine() {
        let tree = tree([("a.md", "see examples/home/x and docs/root/y\n")]);
        assert_eq!(found(check, &tree).0, [""; 0]);
    }
}
