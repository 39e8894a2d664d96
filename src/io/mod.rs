//! Files of tensors: numpy's `.npy`, and safetensors.
//!
//! Reading never panics, whatever the bytes: what is damaged or not supported is
//! an [`Error`] that says where.

pub mod npy;
pub mod safetensors;

use std::path::Path;

use crate::{Error, ErrorKind};

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|e| file_error(path, "cannot read", e))
}

/// Writes all or nothing: a crash half-way leaves the old file.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let written =
        std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|e| {
        _ = std::fs::remove_file(&temporary);
        file_error(path, "cannot write", e)
    })
}

fn file_error(path: &Path, what: &str, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("{what} {}: {error}", path.display()))
}

/// An error of the contents of a file, with its name.
fn in_file(path: &Path) -> impl FnOnce(Error) -> Error {
    move |error| Error::new(error.kind(), format!("{}: {}", path.display(), error.message()))
}
