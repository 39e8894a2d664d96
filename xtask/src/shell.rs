//! Running other programs, aloud.
//!
//! Every command that changes the machine or takes long is printed before it
//! runs, in a form that can be pasted into a shell.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the repository.
pub fn root() -> PathBuf {
    // xtask lives one folder below the root, and is only run from a checkout.
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask has a parent folder").to_owned()
}

/// The cargo that started us, or the one on the path; run in the root.
pub fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root());
    command
}

/// The command as a person would type it.
pub fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(key, value)| Some(format!("{}={}", key.display(), quoted(value?.to_str()?))))
        .collect();
    // An absolute path to cargo says less than its name.
    words.push(program.file_name().unwrap_or(program.as_os_str()).display().to_string());
    words.extend(command.get_args().map(|arg| quoted(&arg.to_string_lossy())));
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Prints the command, runs it, and wants it to succeed.
pub fn run(command: &mut Command) -> Result<(), String> {
    println!("$ {}", line(command));
    let status = command.status().map_err(|error| format!("{}: {error}", line(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed: {status}", line(command))) }
}

/// Whether the command can be started and succeeds; its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// What the command printed, trimmed; `None` if it could not be started or failed.
pub fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Whether a program of this name is on the path.
pub fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    fn a_printed_command_can_be_pasted() {
        let mut command = Command::new("/usr/bin/env");
        command.args(["a b", "it's", "--plain=1", ""]).env("KEY", "x y");
        assert_eq!(super::line(&command), r"KEY='x y' env 'a b' 'it'\''s' --plain=1 ''");
    }
}
