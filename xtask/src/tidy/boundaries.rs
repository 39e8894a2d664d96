//! Who may depend on whom, and who may write `unsafe`.
//!
//! [`CRATES`] is the map of ARCHITECTURE.md as data. Cargo enforces that
//! dependencies are declared; this check, that nobody declares the wrong one. A
//! crate that is missing from the table is itself a finding, so a boundary is
//! decided before it is crossed. Development dependencies are free: a test may
//! drive the whole compiler.

use super::{File, Finding, Tree};

/// Where `unsafe` may stand in a crate.
#[derive(Clone, Copy, PartialEq)]
enum Unsafe {
    /// `#![forbid(unsafe_code)]` in the crate root.
    Forbidden,
    /// `#![deny(unsafe_code)]`, lifted in the few modules listed here.
    In(&'static [&'static str]),
    /// Anywhere: the crate exists for it.
    Free,
}

/// A crate of ours.
struct Crate {
    folder: &'static str,
    name: &'static str,
    /// Our crates that it may name.
    uses: &'static [&'static str],
    unsafety: Unsafe,
}

const CRATES: &[Crate] = &[
    Crate { folder: "compiler/ir", name: "kiln-ir", uses: &[], unsafety: Unsafe::Forbidden },
    Crate {
        folder: "compiler/macros",
        name: "kiln-macros",
        uses: &[],
        unsafety: Unsafe::Forbidden,
    },
    Crate {
        folder: "compiler/trace",
        name: "kiln-trace",
        uses: &["kiln-ir"],
        unsafety: Unsafe::Forbidden,
    },
    Crate {
        folder: "compiler/opt",
        name: "kiln-opt",
        uses: &["kiln-ir"],
        unsafety: Unsafe::Forbidden,
    },
    Crate {
        folder: "compiler/plan",
        name: "kiln-plan",
        uses: &["kiln-ir"],
        unsafety: Unsafe::Forbidden,
    },
    Crate {
        folder: "compiler/executable",
        name: "kiln-executable",
        uses: &["kiln-ir"],
        unsafety: Unsafe::Forbidden,
    },
    Crate { folder: "kernels", name: "kiln-kernels", uses: &[], unsafety: Unsafe::Free },
    Crate {
        folder: "compiler/codegen",
        name: "kiln-codegen",
        uses: &["kiln-executable", "kiln-ir", "kiln-kernels", "kiln-opt", "kiln-plan"],
        unsafety: Unsafe::In(&["compiler/codegen/src/llvm/"]),
    },
    Crate {
        folder: "compiler/driver",
        name: "kiln-driver",
        uses: &["kiln-codegen", "kiln-executable", "kiln-ir", "kiln-opt", "kiln-plan"],
        unsafety: Unsafe::Forbidden,
    },
    Crate {
        folder: "runtime",
        name: "kiln-runtime",
        uses: &["kiln-executable", "kiln-ir"],
        unsafety: Unsafe::Free,
    },
    Crate {
        folder: "",
        name: "kiln",
        uses: &[
            "kiln-codegen",
            "kiln-driver",
            "kiln-executable",
            "kiln-ir",
            "kiln-macros",
            "kiln-opt",
            "kiln-plan",
            "kiln-runtime",
            "kiln-trace",
        ],
        unsafety: Unsafe::Forbidden,
    },
    Crate { folder: "benches", name: "kiln-bench", uses: &["kiln"], unsafety: Unsafe::Free },
    Crate {
        folder: "tests/fuzz",
        name: "kiln-fuzz",
        uses: &[
            "kiln",
            "kiln-codegen",
            "kiln-driver",
            "kiln-executable",
            "kiln-ir",
            "kiln-opt",
            "kiln-plan",
            "kiln-runtime",
        ],
        unsafety: Unsafe::Forbidden,
    },
    Crate {
        folder: "tests/harness",
        name: "kiln-filetest",
        uses: &["kiln-ir"],
        unsafety: Unsafe::Forbidden,
    },
    Crate { folder: "xtask", name: "xtask", uses: &[], unsafety: Unsafe::Forbidden },
];

/// Where each dependency outside ours is justified.
const DEPENDENCIES_PAGE: &str = "docs/dependencies.md";

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for manifest in tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        check_manifest(tree, manifest, findings);
    }
    for file in tree.rust() {
        check_allowances(file, findings);
    }
}

fn folder(manifest: &File) -> &str {
    manifest.path.strip_suffix("Cargo.toml").unwrap_or_default().trim_end_matches('/')
}

fn check_manifest(tree: &Tree, manifest: &File, findings: &mut Vec<Finding>) {
    let Some(krate) = CRATES.iter().find(|krate| krate.folder == folder(manifest)) else {
        let message = "no row for this crate in xtask/src/tidy/boundaries.rs: \
                       decide what it may depend on";
        return findings.push(Finding::new(manifest, 1, message));
    };
    let sections = sections(manifest);
    let is_ours = |name: &str| CRATES.iter().any(|krate| krate.name == name);
    let page = tree.find(DEPENDENCIES_PAGE).map_or("", |page| &page.text);
    for &(line, section, name) in &sections {
        // What a crate takes from the workspace is justified where the workspace lists it.
        let inherited =
            manifest.text.lines().nth(line - 1).unwrap_or_default().contains("workspace");
        let binds = matches!(section, "dependencies" | "build-dependencies");
        if is_ours(name) {
            if binds && !krate.uses.contains(&name) {
                let message = format!(
                    "{} must not depend on {name}: dependencies run one way (ARCHITECTURE.md)",
                    krate.name
                );
                findings.push(Finding::new(manifest, line, message));
            }
        } else if !inherited && !page.contains(&format!("`{name}`")) {
            let message = format!("`{name}` is not justified in {DEPENDENCIES_PAGE}");
            findings.push(Finding::new(manifest, line, message));
        }
    }
    if !manifest.text.contains("[lints]\nworkspace = true") {
        let message = "the workspace's lints are not switched on: [lints] workspace = true";
        findings.push(Finding::new(manifest, 1, message));
    }
    check_root(tree, krate, findings);
}

/// The `(line, section, key)` of every entry of the dependency tables. Workspace
/// tables and per-target ones are named by their last word, as they bind equally.
fn sections(manifest: &File) -> Vec<(usize, &str, &str)> {
    let (mut section, mut entries) = ("", Vec::new());
    for (number, line) in manifest.lines() {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            section = header.rsplit('.').next().unwrap_or_default();
            // Entries of [workspace.dependencies] only give versions; the crates
            // that use them are checked, and so is their justification.
            if header == "workspace.dependencies" {
                section = "workspace-dependencies";
            }
        } else if section.ends_with("dependencies") {
            let key = line.split(['=', '.', ' ']).next().unwrap_or_default();
            if !key.is_empty() && !key.starts_with('#') {
                entries.push((number, section, key));
            }
        }
    }
    entries
}

/// The attribute at the top of the crate root.
fn check_root(tree: &Tree, krate: &Crate, findings: &mut Vec<Finding>) {
    let prefix = if krate.folder.is_empty() { String::new() } else { format!("{}/", krate.folder) };
    let roots = ["src/lib.rs", "src/main.rs"].map(|root| format!("{prefix}{root}"));
    let wanted = match krate.unsafety {
        Unsafe::Forbidden => "#![forbid(unsafe_code)]",
        Unsafe::In(_) => "#![deny(unsafe_code)]",
        Unsafe::Free => return,
    };
    for root in roots.iter().filter_map(|root| tree.find(root)) {
        if !root.lines().any(|(_, line)| line == wanted) {
            findings.push(Finding::new(root, 1, format!("the crate root must say {wanted}")));
        }
    }
}

/// `allow(unsafe_code)` outside the modules that the table names.
fn check_allowances(file: &File, findings: &mut Vec<Finding>) {
    // The longest folder that holds the file; the façade's is empty and holds all.
    let krate = CRATES
        .iter()
        .filter(|krate| {
            krate.folder.is_empty() || file.path.starts_with(&format!("{}/", krate.folder))
        })
        .max_by_key(|krate| krate.folder.len());
    let Some(Unsafe::In(modules)) = krate.map(|krate| krate.unsafety) else { return };
    if modules.iter().any(|module| file.path.starts_with(module)) {
        return;
    }
    for (number, line) in file.lines() {
        if super::without_comment(line).contains("allow(unsafe_code)") {
            let message = format!("unsafe code belongs in {}", modules.join(", "));
            findings.push(Finding::new(file, number, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{found, tree};
    use super::check;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    #[test]
    fn a_dependency_against_the_current_is_found() {
        let manifest = format!("[dependencies]\nkiln-opt.workspace = true\n{LINTS}");
        let tree = tree([("compiler/ir/Cargo.toml", &manifest)]);
        let (places, messages) = found(check, &tree);
        assert_eq!(places, ["compiler/ir/Cargo.toml:2"]);
        assert!(messages.contains("kiln-ir must not depend on kiln-opt"), "{messages}");
    }

    #[test]
    fn a_test_may_use_anything_of_ours() {
        let manifest = format!("[dev-dependencies]\nkiln-opt.workspace = true\n{LINTS}");
        let tree = tree([("compiler/ir/Cargo.toml", &manifest)]);
        assert_eq!(found(check, &tree).0, [""; 0]);
    }

    #[test]
    fn a_crate_from_outside_is_justified_or_found() {
        let manifest = format!("[dependencies]\nhalf = \"2\"\nleft-pad = \"1\"\n{LINTS}");
        let page = "| `half` | f16 |\n";
        let tree = tree([("kernels/Cargo.toml", &manifest), ("docs/dependencies.md", page)]);
        let (places, messages) = found(check, &tree);
        assert_eq!(places, ["kernels/Cargo.toml:3"]);
        assert!(messages.contains("left-pad"), "{messages}");
    }

    #[test]
    fn an_unknown_crate_and_missing_lints_are_found() {
        let tree = tree([("spare/Cargo.toml", LINTS), ("xtask/Cargo.toml", "[dependencies]\n")]);
        assert_eq!(found(check, &tree).0, ["spare/Cargo.toml:1", "xtask/Cargo.toml:1"]);
    }

    #[test]
    fn roots_carry_their_attribute_and_allowances_stay_in_their_module() {
        let allow = "//! x\n#[allow(unsafe_code)]\nmod a;\n";
        let tree = tree([
            ("compiler/codegen/Cargo.toml", LINTS),
            ("compiler/codegen/src/lib.rs", "//! x\n#![deny(unsafe_code)]\n"),
            ("compiler/codegen/src/llvm/mod.rs", allow),
            ("compiler/codegen/src/lower.rs", allow),
            ("compiler/opt/Cargo.toml", LINTS),
            ("compiler/opt/src/lib.rs", "//! x\n"),
        ]);
        let places = found(check, &tree).0;
        assert_eq!(places, ["compiler/codegen/src/lower.rs:2", "compiler/opt/src/lib.rs:1"]);
    }
}
