//! `cargo xtask tidy`: what the compiler and clippy cannot know about this repository.
//!
//! Each check is a function from the [`Tree`] of text files to [`Finding`]s, so that
//! it can be tested on trees that exist only in memory. A finding names its file and
//! line and says what to do.
//!
//! | file | checks |
//! |---|---|
//! | [`boundaries`] | dependencies between our crates run one way; every crate outside ours is justified; only some crates may hold `unsafe` |
//! | [`purity`] | the middle of the compiler does no IO, reads no environment, keeps no globals; one file names petgraph |
//! | [`sources`] | file headers, unfinished work, paths of one machine, whitespace |
//! | [`documents`] | links and mentioned pages exist; switches and their page agree |

mod boundaries;
mod documents;
mod purity;
mod sources;

use std::fmt;
use std::path::Path;

use crate::args::Args;
use crate::shell;

/// Something that is not as it should be, and where.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(file: &File, line: usize, message: impl Into<String>) -> Self {
        Finding { path: file.path.clone(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// A text file of the repository.
struct File {
    /// Relative to the root, with forward slashes.
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    /// Lines with their numbers, counted from one.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| (at + 1, line))
    }

    /// The lines of Rust code that reach the program: comments are cut off, and
    /// everything from the first `#[cfg(test)]` on, which ends a file by custom.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines()
            .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
            .map(|(number, line)| (number, without_comment(line)))
    }
}

/// The line up to a `//` that is not inside a string, as far as one line can tell.
fn without_comment(line: &str) -> &str {
    let (mut in_string, mut escaped, mut previous) = (false, false, ' ');
    for (at, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '/' if !in_string && previous == '/' => return &line[..at - 1],
            _ => {}
        }
        previous = c;
    }
    line
}

/// The text files of the repository, in the order of their paths.
struct Tree {
    files: Vec<File>,
}

impl Tree {
    /// Reads a checkout, leaving out what is built or fetched.
    fn read(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        read_folder(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { files })
    }

    fn find(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }

    fn markdown(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_markdown())
    }
}

const SKIPPED_FOLDERS: [&str; 4] = ["target", "third_party", ".git", "__pycache__"];
const TEXT_EXTENSIONS: [&str; 8] = ["rs", "toml", "md", "kiln", "py", "sh", "txt", "yml"];
const TEXT_FILES: [&str; 3] = ["run", "LICENSE-MIT", "LICENSE-APACHE"];

fn read_folder(folder: &Path, relative: &str, files: &mut Vec<File>) -> Result<(), String> {
    let fail = |error| format!("{}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if relative.is_empty() { name.clone() } else { format!("{relative}/{name}") };
        let kind = entry.file_type().map_err(fail)?;
        if kind.is_dir() && !SKIPPED_FOLDERS.contains(&&*name) {
            read_folder(&entry.path(), &path, files)?;
        } else if kind.is_file() && is_text(&name) {
            let text = std::fs::read_to_string(entry.path())
                .map_err(|error| format!("{path}: {error}"))?;
            files.push(File { path, text });
        }
    }
    Ok(())
}

fn is_text(name: &str) -> bool {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    TEXT_EXTENSIONS.contains(&extension) || TEXT_FILES.contains(&name)
}

/// The command by itself.
pub fn command(args: Args) -> Result<(), String> {
    args.done()?;
    if passes() { Ok(()) } else { Err("tidy found something".into()) }
}

/// Prints every finding; whether there was none.
pub fn passes() -> bool {
    let tree = match Tree::read(&shell::root()) {
        Ok(tree) => tree,
        Err(message) => {
            eprintln!("tidy: {message}");
            return false;
        }
    };
    let mut findings = Vec::new();
    boundaries::check(&tree, &mut findings);
    purity::check(&tree, &mut findings);
    sources::check(&tree, &mut findings);
    documents::check(&tree, &mut findings);
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} files, {} findings", tree.files.len(), findings.len());
    findings.is_empty()
}

#[cfg(test)]
mod tests {
    use super::{File, Finding, Tree};

    /// A tree of these files.
    pub fn tree<const N: usize>(files: [(&str, &str); N]) -> Tree {
        let file = |(path, text): (&str, &str)| File { path: path.into(), text: text.into() };
        Tree { files: files.into_iter().map(file).collect() }
    }

    /// What a check finds in a tree, as `path:line`, then the messages.
    pub fn found(check: impl Fn(&Tree, &mut Vec<Finding>), tree: &Tree) -> (Vec<String>, String) {
        let mut findings = Vec::new();
        check(tree, &mut findings);
        findings.sort();
        let places = findings.iter().map(|f| format!("{}:{}", f.path, f.line)).collect();
        let messages = findings.iter().map(|f| f.message.as_str()).collect::<Vec<_>>().join("\n");
        (places, messages)
    }

    #[test]
    fn code_ends_at_comments_and_tests() {
        let text = "let a = \"//\"; // note\n/// docs\nlet b = 1;\n#[cfg(test)]\nmod tests {}\n";
        let file = File { path: "a.rs".into(), text: text.into() };
        let code: Vec<_> = file.code().map(|(_, line)| line.trim()).collect();
        assert_eq!(code, ["let a = \"//\";", "", "let b = 1;"]);
    }
}
