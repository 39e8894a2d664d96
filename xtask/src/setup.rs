//! Installing what the build and the demo need.
//!
//! Promises: looks first and installs only what is missing; prints the exact
//! command before it changes the machine; running it again changes nothing.
//! On systems without apt it installs nothing and says what to install.
//!
//! | need | found by | Debian package |
//! |---|---|---|
//! | LLVM 19 | `LLVM_SYS_191_PREFIX`, or `llvm-config-19` on the path | `llvm-19-dev` |
//! | a C compiler | `cc`, which also links Rust programs | `gcc`, `libc6-dev` |
//! | rustfmt, clippy | `cargo fmt`, `cargo clippy` | through rustup |
//! | Fashion-MNIST | `--data`, `KILN_FASHION_MNIST`, the package's folder | `dataset-fashion-mnist` |
//! | Python with venv | `import ensurepip` | `python3-venv` |

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell;

/// LLVM's version as the build script of `llvm-sys` wants it.
const LLVM_MAJOR: &str = "19";
const LLVM_PREFIX: &str = "LLVM_SYS_191_PREFIX";

/// Where Debian puts the images.
const FASHION_MNIST: &str = "/usr/share/datasets/fashion-mnist";
const FASHION_MNIST_FILES: [&str; 4] = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

/// What every build needs.
pub fn build() -> Result<(), String> {
    let mut missing = Vec::new();
    if llvm()?.is_none() {
        missing.push("llvm-19-dev");
    }
    if !shell::succeeds(Command::new("cc").arg("--version")) {
        missing.extend(["gcc", "libc6-dev"]);
    }
    install(&missing)?;
    match llvm()? {
        Some(version) => println!("setup: LLVM {version}, {}", compiler()),
        None => return Err(format!("LLVM {LLVM_MAJOR} is installed but llvm-config-19 is not")),
    }
    Ok(())
}

/// What `cargo xtask test` needs beside a build.
pub fn lints() -> Result<(), String> {
    for (component, subcommand) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        if !shell::succeeds(shell::cargo().args([subcommand, "--version"])) {
            shell::run(Command::new("rustup").args(["component", "add", component]))?;
        }
    }
    Ok(())
}

/// The folder with the Fashion-MNIST images: the one asked for, or Debian's.
pub fn fashion_mnist(asked: Option<String>) -> Result<PathBuf, String> {
    if let Some(folder) = asked.or_else(|| std::env::var("KILN_FASHION_MNIST").ok()) {
        let folder = PathBuf::from(folder);
        return match missing_image_file(&folder) {
            None => Ok(folder),
            Some(file) => Err(format!("{} has no {file} (nor {file}.gz)", folder.display())),
        };
    }
    let folder = PathBuf::from(FASHION_MNIST);
    if missing_image_file(&folder).is_some() {
        install(&["dataset-fashion-mnist"]).map_err(|error| {
            format!(
                "{error}\nThe demo can also read the images from a folder of yours: \
                 cargo xtask demo --data DIR"
            )
        })?;
    }
    Ok(folder)
}

/// A Python that can make virtual environments.
pub fn python() -> Result<(), String> {
    if shell::succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"])) {
        return Ok(());
    }
    install(&["python3-venv"])
}

fn missing_image_file(folder: &Path) -> Option<&'static str> {
    let there =
        |name: &str| folder.join(name).is_file() || folder.join(format!("{name}.gz")).is_file();
    FASHION_MNIST_FILES.into_iter().find(|name| !there(name))
}

/// The version of the LLVM that the build will find, by the rules of `llvm-sys`:
/// when the prefix is set, it is the only place looked at.
fn llvm() -> Result<Option<String>, String> {
    let Some(prefix) = std::env::var_os(LLVM_PREFIX) else {
        let version = shell::output(Command::new("llvm-config-19").arg("--version"));
        return Ok(version.filter(|version| version.starts_with(LLVM_MAJOR)));
    };
    let config = Path::new(&prefix).join("bin").join("llvm-config");
    match shell::output(Command::new(&config).arg("--version")) {
        Some(version) if version.starts_with(LLVM_MAJOR) => Ok(Some(version)),
        Some(version) => Err(format!(
            "{LLVM_PREFIX} points at LLVM {version}, but Kiln needs LLVM {LLVM_MAJOR}; \
             unset it to use the system's"
        )),
        None => Err(format!("{LLVM_PREFIX} is set, but {} cannot be run", config.display())),
    }
}

fn compiler() -> String {
    let version = shell::output(Command::new("cc").arg("--version"));
    version.and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or("cc".into())
}

/// Installs Debian packages, or says what a person has to install.
fn install(packages: &[&str]) -> Result<(), String> {
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !shell::on_path("apt-get") {
        return Err(format!(
            "missing: {list} (Debian's names); this system has no apt-get, so please install \
             the equivalent packages. LLVM must be version {LLVM_MAJOR} with headers and \
             llvm-config; if it is not on the path, set {LLVM_PREFIX} to its prefix"
        ));
    }
    let known = |package: &&str| {
        shell::output(Command::new("apt-cache").args(["show", package]))
            .is_some_and(|text| !text.is_empty())
    };
    // A fresh container has no package lists at all.
    if !packages.iter().all(known) {
        shell::run(apt_get()?.arg("update"))?;
    }
    if let Some(unknown) = packages.iter().find(|package| !known(package)) {
        let advice = match *unknown {
            "llvm-19-dev" => {
                "it is in Debian 12 and later and in Ubuntu 24.04 and later; elsewhere install \
                 LLVM 19 with its headers and set LLVM_SYS_191_PREFIX to its prefix"
            }
            "dataset-fashion-mnist" => "give its folder with --data DIR",
            _ => "please install its equivalent",
        };
        return Err(format!("this system's package lists have no {unknown}: {advice}"));
    }
    shell::run(apt_get()?.args(["install", "-y", "--no-install-recommends"]).args(packages))
}

/// `apt-get`, through sudo for anyone but root, and never asking a question.
fn apt_get() -> Result<Command, String> {
    let root = shell::output(Command::new("id").arg("-u")).is_some_and(|id| id == "0");
    let mut command = match (root, shell::on_path("sudo")) {
        (true, _) => Command::new("env"),
        (false, true) => {
            let mut command = Command::new("sudo");
            command.arg("env");
            command
        }
        (false, false) => {
            return Err("installing packages needs root, and there is no sudo; \
                        run `cargo xtask setup` as root once"
                .into());
        }
    };
    command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::missing_image_file;

    #[test]
    fn names_the_first_file_that_a_folder_lacks() {
        let folder = std::env::temp_dir().join(format!("kiln-xtask-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("train-images-idx3-ubyte"), "").unwrap();
        std::fs::write(folder.join("train-labels-idx1-ubyte.gz"), "").unwrap();
        assert_eq!(missing_image_file(&folder), Some("t10k-images-idx3-ubyte"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
