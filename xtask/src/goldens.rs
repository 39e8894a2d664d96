//! `cargo xtask goldens`: numpy's answers for the ops, as files in the repository.
//!
//! `tests/goldens/generate.py` writes them from the versions that
//! `tests/goldens/requirements.txt` pins, in a virtual environment under
//! `target/`. With `--verify` it compares instead and fails on a difference.

use std::fs;
use std::process::Command;

use crate::args::Args;
use crate::{setup, shell};

/// Makes or refreshes the environment, then runs the generator in it.
pub fn run(mut args: Args) -> Result<(), String> {
    let verify = args.flag("--verify");
    args.done()?;
    setup::python()?;

    let root = shell::root();
    let goldens = root.join("tests").join("goldens");
    let environment = root.join("target").join("goldens-venv");
    let python = environment.join("bin").join("python");
    let requirements = goldens.join("requirements.txt");
    let wanted = fs::read_to_string(&requirements)
        .map_err(|error| format!("{}: {error}", requirements.display()))?;

    // The stamp is written last, so a half-made environment is made again.
    let stamp = environment.join("kiln-requirements.txt");
    if fs::read_to_string(&stamp).ok().as_ref() != Some(&wanted) {
        fs::create_dir_all(root.join("target"))
            .map_err(|error| format!("cannot make target/: {error}"))?;
        shell::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment))?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
        shell::run(pip.arg(&requirements))?;
        fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
    }

    let mut generate = Command::new(&python);
    generate.current_dir(&root).arg(goldens.join("generate.py"));
    if verify {
        generate.arg("--verify");
    }
    shell::run(&mut generate)
}
