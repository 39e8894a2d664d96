//! The few forms of command line that the commands take.
//!
//! Each command removes what it knows and then asks for what is left, so an
//! option that nobody removed is an error rather than silently ignored.

/// Arguments not yet taken.
pub struct Args {
    rest: Vec<String>,
}

impl Args {
    /// The arguments of this process.
    pub fn from_env() -> Self {
        Args { rest: std::env::args().skip(1).collect() }
    }

    /// Takes the first argument: the command's name.
    pub fn command(&mut self) -> Option<String> {
        (!self.rest.is_empty()).then(|| self.rest.remove(0))
    }

    /// Takes `--name`; whether it was there.
    pub fn flag(&mut self, name: &str) -> bool {
        let end = self.options_end();
        let found = self.rest[..end].iter().position(|arg| arg == name);
        found.inspect(|&at| drop(self.rest.remove(at))).is_some()
    }

    /// Takes `--name VALUE` or `--name=VALUE`.
    pub fn value(&mut self, name: &str) -> Result<Option<String>, String> {
        let end = self.options_end();
        for at in 0..end {
            if self.rest[at] == name {
                if at + 1 >= end {
                    return Err(format!("`{name}` needs a value"));
                }
                self.rest.remove(at);
                return Ok(Some(self.rest.remove(at)));
            }
            let inline = self.rest[at].strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
            if let Some(value) = inline.map(str::to_owned) {
                self.rest.remove(at);
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Takes everything that is left, without a separating `--`: for commands
    /// that hand their arguments on to a program.
    pub fn remaining(mut self) -> Vec<String> {
        if self.rest.first().is_some_and(|arg| arg == "--") {
            self.rest.remove(0);
        }
        self.rest
    }

    /// Refuses whatever is left.
    pub fn done(self) -> Result<(), String> {
        match self.rest.first() {
            None => Ok(()),
            Some(arg) => Err(format!("`{arg}` is not understood; see `cargo xtask help`")),
        }
    }

    /// Options of ours end at `--`; what follows belongs to the program we start.
    fn options_end(&self) -> usize {
        self.rest.iter().position(|arg| arg == "--").unwrap_or(self.rest.len())
    }
}

#[cfg(test)]
mod tests {
    use super::Args;

    fn args(line: &str) -> Args {
        Args { rest: line.split_whitespace().map(str::to_owned).collect() }
    }

    #[test]
    fn takes_flags_and_values_before_the_separator_only() {
        let mut args = args("--data a --quick -- --quick --data b");
        assert!(args.flag("--quick"));
        assert!(!args.flag("--quick"));
        assert_eq!(args.value("--data").unwrap().as_deref(), Some("a"));
        assert_eq!(args.value("--data").unwrap(), None);
        assert_eq!(args.remaining(), ["--quick", "--data", "b"]);
    }

    #[test]
    fn accepts_an_inline_value_and_misses_a_missing_one() {
        assert_eq!(args("--hours=3").value("--hours").unwrap().as_deref(), Some("3"));
        assert!(args("--hours").value("--hours").is_err());
        assert!(args("--hours -- 3").value("--hours").is_err());
    }

    #[test]
    fn refuses_what_nobody_took() {
        assert!(args("").done().is_ok());
        assert!(args("--frobnicate").done().unwrap_err().contains("--frobnicate"));
    }
}
