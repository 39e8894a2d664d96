//! Documents that point somewhere, point at something.
//!
//! Links of Markdown files resolve, with their anchors; pages that comments and
//! messages mention exist; and the switches the code reads are exactly those that
//! `docs/debugging.md` explains.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, Finding, Tree};

/// The page that explains every switch.
const SWITCHES_PAGE: &str = "docs/debugging.md";
const SWITCH_PREFIX: &str = concat!("KI", "LN_");

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.markdown() {
        check_links(tree, file, findings);
    }
    for file in tree.rust() {
        check_mentions(tree, file, findings);
    }
    check_switches(tree, findings);
}

/// Targets of `[text](target)` outside code blocks, with their lines.
fn links(file: &File) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut in_block = false;
    for (number, line) in file.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        let mut rest = if in_block { "" } else { line };
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            if let Some(end) = rest.find(')') {
                links.push((number, &rest[..end]));
            }
        }
    }
    links
}

fn check_links(tree: &Tree, file: &File, findings: &mut Vec<Finding>) {
    for (number, target) in links(file) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { file.path.clone() } else { resolve(&file.path, path) };
        let page = tree.find(&path);
        let folder = tree.files.iter().any(|other| other.path.starts_with(&format!("{path}/")));
        if page.is_none() && !folder {
            findings.push(Finding::new(
                file,
                number,
                format!("link to {path}, which does not exist"),
            ));
        } else if let Some(page) = page.filter(|page| !anchor.is_empty() && page.is_markdown())
            && !anchors(page).contains(anchor)
        {
            findings.push(Finding::new(file, number, format!("{path} has no heading #{anchor}")));
        }
    }
}

/// A relative link seen from the folder of `from`.
fn resolve(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors that renderers give to headings: lower case, spaces as hyphens,
/// punctuation dropped.
fn anchors(page: &File) -> BTreeSet<String> {
    let lines = page.lines().map(|(_, line)| line);
    let headings =
        lines.filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    };
    headings.map(anchor).collect()
}

/// `docs/some-page.md` in comments and strings of Rust files.
fn check_mentions(tree: &Tree, file: &File, findings: &mut Vec<Finding>) {
    if file.path.starts_with("xtask/src/tidy/") {
        return;
    }
    for (number, line) in file.lines() {
        for (at, _) in line.match_indices("docs/") {
            let before = line[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || "/._-".contains(c)) {
                continue;
            }
            let is_path = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            let end = line[at..].find(|c| !is_path(c)).map_or(line.len(), |length| at + length);
            let path = line[at..end].trim_end_matches(['.', '/']);
            if path.ends_with(".md") && tree.find(path).is_none() {
                findings.push(Finding::new(file, number, format!("{path} does not exist")));
            }
        }
    }
}

/// Switches in string literals of the code against those on the page.
fn check_switches(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut read: BTreeMap<&str, (&File, usize)> = BTreeMap::new();
    for file in tree.rust().filter(|file| !file.path.starts_with("xtask/src/tidy/")) {
        for (number, line) in file.lines() {
            for name in switches(super::without_comment(line), "\"") {
                read.entry(name).or_insert((file, number));
            }
        }
    }
    let Some(page) = tree.find(SWITCHES_PAGE) else {
        if let Some((name, (file, line))) = read.first_key_value() {
            let message = format!("{name} needs {SWITCHES_PAGE}, which does not exist");
            findings.push(Finding::new(file, *line, message));
        }
        return;
    };
    let mut explained = BTreeSet::new();
    for (number, line) in page.lines() {
        for name in switches(line, "`") {
            if !read.contains_key(name) {
                findings.push(Finding::new(page, number, format!("nothing reads {name}")));
            }
            explained.insert(name);
        }
    }
    for (name, (file, line)) in &read {
        if !explained.contains(name) {
            let message = format!("{name} is not explained in {SWITCHES_PAGE}");
            findings.push(Finding::new(file, *line, message));
        }
    }
}

/// Names of switches that directly follow `quote` in the line.
fn switches<'a>(line: &'a str, quote: &str) -> Vec<&'a str> {
    let starts = line.match_indices(SWITCH_PREFIX).map(|(at, _)| at);
    starts
        .filter(|&at| line[..at].ends_with(quote))
        .map(|at| {
            let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let end = line[at..].find(|c| !is_name(c)).map_or(line.len(), |length| at + length);
            &line[at..end]
        })
        .filter(|name| name.len() > SWITCH_PREFIX.len())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{found, tree};
    use super::check;

    #[test]
    fn broken_links_and_anchors_are_found() {
        let readme = "[a](docs/a.md)\n[b](docs/b.md)\n[c](docs/a.md#part-two)\n\
                      [d](docs/a.md#part-three)\n[e](https://example.org)\n```\n[f](none)\n```\n";
        let tree =
            tree([("README.md", readme), ("docs/a.md", "# A\n## Part two\n[up](../README.md)\n")]);
        let (places, messages) = found(check, &tree);
        assert_eq!(places, ["README.md:2", "README.md:4"]);
        assert!(messages.contains("no heading #part-three"), "{messages}");
    }

    #[test]
    fn mentioned_pages_exist() {
        let text = "//! See `docs/a.md` and docs/b.md.\n";
        let tree = tree([("src/lib.rs", text), ("docs/a.md", "# A\n")]);
        let (places, messages) = found(check, &tree);
        assert_eq!(places, ["src/lib.rs:1"]);
        assert!(messages.contains("docs/b.md"), "{messages}");
    }

    #[test]
    fn switches_and_their_page_agree_both_ways() {
        let code = "//! x\nlet a = var(\"KILN_A\");\nlet b = var(\"KILN_B\"); // \"KILN_D\"\n";
        let page = "# Debugging\n`KILN_A=1`\n`KILN_C`\n";
        let tree = tree([("src/lib.rs", code), ("docs/debugging.md", page)]);
        let (places, messages) = found(check, &tree);
        assert_eq!(places, ["docs/debugging.md:3", "src/lib.rs:3"]);
        assert!(messages.contains("nothing reads KILN_C"), "{messages}");
        assert!(messages.contains("KILN_B is not explained"), "{messages}");
    }
}
