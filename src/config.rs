//! The environment: every `KILN_` switch that the façade reads, once per process.
//!
//! What each does is explained in `docs/debugging.md`. A value that is not
//! understood is an error of the first call that compiles something, and is never
//! ignored.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use kiln_driver::{Isa, Stage};

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
    /// `KILN_ISA`: instructions to use.
    pub isa: Option<Isa>,
    /// `KILN_FUEL`: most rewrites of all passes together.
    pub fuel: Option<u64>,
    /// `KILN_SKIP`: passes to leave out.
    pub skip: Vec<String>,
    /// `KILN_FUSE=0`: a kernel for each op.
    pub unfused: bool,
    /// `KILN_THREADS`: threads that run kernels.
    pub threads: Option<usize>,
    /// `KILN_POOL_BYTES`: address space of the pool.
    pub pool_bytes: Option<u64>,
    /// `KILN_CACHE_ENTRIES`: most programs kept at a time.
    pub cache_entries: Option<usize>,
}

/// The switches of this process.
///
/// # Errors
/// If one has a value that is not understood.
pub(crate) fn config() -> Result<&'static Config, Error> {
    static CONFIG: OnceLock<Result<Config, Error>> = OnceLock::new();
    CONFIG.get_or_init(|| read(|name| std::env::var_os(name))).as_ref().map_err(Error::clone)
}

fn read(var: impl Fn(&str) -> Option<OsString>) -> Result<Config, Error> {
    let os_var = |name: &str| var(name).filter(|value| !value.is_empty());
    // What is not Unicode is no value that is understood, and is then refused as one.
    let var = |name: &str| os_var(name).map(|value| value.to_string_lossy().into_owned());
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
        config.dump.push(stage.ok_or_else(|| invalid("KILN_DUMP", name, &stages()))?);
    }
    config.dump_dir = os_var("KILN_DUMP_DIR").map(PathBuf::from);
    if let Some(value) = var("KILN_ISA") {
        config.isa = Some(match value.as_str() {
            "v2" => Isa::V2,
            "v3" => Isa::V3,
            "v4" => Isa::V4,
            "neon" => Isa::Neon,
            _ => return Err(invalid("KILN_ISA", &value, "`v2`, `v3`, `v4` or `neon`")),
        });
        if !config.isa.is_some_and(Isa::is_supported) {
            return Err(invalid("KILN_ISA", &value, "a level that this machine has"));
        }
    }
    if let Some(value) = var("KILN_FUEL") {
        config.fuel =
            Some(value.parse().map_err(|_| invalid("KILN_FUEL", &value, "a number of rewrites"))?);
    }
    if let Some(value) = var("KILN_SKIP") {
        config.skip = value.split(',').map(|pass| pass.trim().to_string()).collect();
    }
    if let Some(value) = var("KILN_FUSE") {
        config.unfused = match value.as_str() {
            "0" => true,
            "1" => false,
            _ => return Err(invalid("KILN_FUSE", &value, "`0` or `1`")),
        };
    }
    if let Some(value) = var("KILN_THREADS") {
        let threads = value.parse().ok().filter(|&n: &usize| (1..=1024).contains(&n));
        config.threads = Some(
            threads.ok_or_else(|| invalid("KILN_THREADS", &value, "a number from 1 to 1024"))?,
        );
    }
    if let Some(value) = var("KILN_POOL_BYTES") {
        let wanted = "a number of bytes, as `1048576`, `512M` or `8G`";
        let bytes = bytes(&value).ok_or_else(|| invalid("KILN_POOL_BYTES", &value, wanted))?;
        config.pool_bytes = Some(bytes);
    }
    if let Some(value) = var("KILN_CACHE_ENTRIES") {
        let entries = value.parse().ok().filter(|&n: &usize| n > 0);
        config.cache_entries =
            Some(entries.ok_or_else(|| invalid("KILN_CACHE_ENTRIES", &value, "a number above 0"))?);
    }
    Ok(config)
}

fn stages() -> String {
    Stage::ALL.map(Stage::name).join(", ")
}

/// A number above 0, with `K`, `M` or `G` for powers of 1024.
fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let n: u64 = digits.parse().ok()?;
    n.checked_mul(1 << shift).filter(|&n| n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(pairs: &[(&str, &str)]) -> Result<Config, Error> {
        read(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()))
    }

    #[cfg(unix)]
    #[test]
    fn what_is_not_unicode_is_a_path_or_refused() {
        use std::os::unix::ffi::OsStringExt;
        let odd = || OsString::from_vec(b"folder/\xff".to_vec());
        let with = |name: &'static str| read(move |n| (n == name).then(odd));
        assert_eq!(with("KILN_DUMP_DIR").unwrap().dump_dir, Some(PathBuf::from(odd())));
        assert!(with("KILN_DEVICE").is_err() && with("KILN_THREADS").is_err());
    }

    #[test]
    fn values_are_read_or_refused() {
        let config = from(&[("KILN_DEVICE", "eval"), ("KILN_DUMP", "graph, plan")]).unwrap();
        assert!(config.eval);
        assert_eq!(config.dump, [Stage::Graph, Stage::Plan]);
        assert!(!from(&[]).unwrap().eval);
        let config = from(&[("KILN_THREADS", "3"), ("KILN_POOL_BYTES", "2G")]).unwrap();
        assert_eq!((config.threads, config.pool_bytes), (Some(3), Some(2 << 30)));
        let bad = [
            ("KILN_POOL_BYTES", "0"),
            ("KILN_POOL_BYTES", "G"),
            ("KILN_POOL_BYTES", "99999999999G"),
            ("KILN_THREADS", "0"),
            ("KILN_ISA", "v9"),
            ("KILN_FUEL", "-1"),
            ("KILN_FUSE", "no"),
            ("KILN_DEVICE", "tpu"),
            ("KILN_DUMP", "grph"),
            ("KILN_CACHE_ENTRIES", "0"),
        ];
        for bad in bad {
            let error = from(&[bad]).unwrap_err();
            assert!(error.message().contains(bad.0) && error.message().contains(bad.1), "{error}");
        }
    }
}
