//! Names and quoted strings as the text format writes them.

use std::fmt;

/// A name after `%` or `@`: bare when it can be, else quoted.
#[derive(Clone, Copy)]
pub(super) struct Sigil<'a>(pub char, pub &'a str);

/// Whether a bare name may hold the character.
pub(super) fn is_bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

impl fmt::Display for Sigil<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sigil(sigil, name) = self;
        if !name.is_empty() && name.chars().all(is_bare) {
            write!(f, "{sigil}{name}")
        } else {
            write!(f, "{sigil}{}", Quoted(name))
        }
    }
}

/// A string in double quotes, on one line.
#[derive(Clone, Copy)]
pub(super) struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                '\n' => f.write_str("\\n")?,
                c if c.is_control() => write!(f, "\\u{{{:x}}}", c as u32)?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
}
