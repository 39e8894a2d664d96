//! The environment: every `KILN_` switch that the façade reads, once per process.
//!
//! What each does is explained in `docs/debugging.md`. A value that is not
//! understood is an error of the first call that compiles something, and is never
//! ignored.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::compile::Stage;
use crate::{Error, ErrorKind};

/// The switches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    /// `KILN_DEVICE=eval`: run every program on the reference interpreter.
    pub eval: bool,
    /// `KILN_DUMP=graph,plan`: stages to write for every compile.
    pub dump: Vec<Stage>,
    /// `KILN_DUMP_DIR`: where to; standard error without it.
    pub dump_dir: Option<PathBuf>,
    /// `KILN_CACHE_ENTRIES`: most programs kept at a time.
    pub cache_entries: Option<usize>,
}

/// The switches of this process.
///
/// # Errors
/// If one has a value that is not understood.
pub(crate) fn config() -> Result<&'static Config, Error> {
    static CONFIG: OnceLock<Result<Config, Error>> = OnceLock::new();
    CONFIG.get_or_init(|| read(|name| std::env::var(name).ok())).as_ref().map_err(Error::clone)
}

fn read(var: impl Fn(&str) -> Option<String>) -> Result<Config, Error> {
    let var = |name: &str| var(name).filter(|value| !value.is_empty());
    let invalid = |name: &str, value: &str, wanted: &str| {
        let message = format!("{name}={value} is not understood; wanted {wanted}");
        Error::new(ErrorKind::User, message)
    };
    let mut config = Config::default();
    if let Some(value) = var("KILN_DEVICE") {
        config.eval = match value.as_str() {
            "cpu" => false,
            "eval" => true,
            _ => return Err(invalid("KILN_DEVICE", &value, "`cpu` or `eval`")),
        };
    }
    for name in var("KILN_DUMP").iter().flat_map(|list| list.split(',')) {
        let stage = Stage::from_name(name.trim());
        config.dump.push(stage.ok_or_else(|| invalid("KILN_DUMP", name, &Stage::names()))?);
    }
    config.dump_dir = var("KILN_DUMP_DIR").map(PathBuf::from);
    if let Some(value) = var("KILN_CACHE_ENTRIES") {
        let entries = value.parse().ok().filter(|&n: &usize| n > 0);
        config.cache_entries =
            Some(entries.ok_or_else(|| invalid("KILN_CACHE_ENTRIES", &value, "a number above 0"))?);
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Result<Config, Error> {
        read(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string()))
    }

    #[test]
    fn values_are_read_or_refused() {
        let config = from(&[("KILN_DEVICE", "eval"), ("KILN_DUMP", "graph, plan")]).unwrap();
        assert!(config.eval);
        assert_eq!(config.dump, [Stage::Graph, Stage::Plan]);
        assert!(!from(&[]).unwrap().eval);
        for bad in [("KILN_DEVICE", "tpu"), ("KILN_DUMP", "grph"), ("KILN_CACHE_ENTRIES", "0")] {
            let error = from(&[bad]).unwrap_err();
            assert!(error.message().contains(bad.0) && error.message().contains(bad.1), "{error}");
        }
    }
}
