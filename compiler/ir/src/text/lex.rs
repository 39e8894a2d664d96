//! Text to tokens.
//!
//! Every token knows its line and column. White space and `//` comments separate tokens
//! and mean nothing else.

use std::borrow::Cow;

use super::name::is_bare;

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// `%x`, `%"a[0]"`
    Value,
    /// `@main`
    Graph,
    /// `exp`, `f32`, `nan`
    Word,
    /// `4`, `-1e-5`, `0x7fc0`, `-inf`
    Number,
    /// `"a string"`
    Text,
    /// One of `( ) { } [ ] , : =` and `->`
    Punctuation,
    /// The end of the text.
    End,
}

/// A place in the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position {
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
}

/// A token.
#[derive(Clone, Debug)]
pub(super) struct Token<'t> {
    pub kind: Kind,
    /// The name without its sigil, the string without quotes and escapes, or the token
    /// as it stands.
    pub text: Cow<'t, str>,
    pub at: Position,
}

/// The tokens of `text`, [`Kind::End`] last; or where it goes wrong, and how.
pub(super) fn lex(text: &str) -> Result<Vec<Token<'_>>, (Position, String)> {
    let mut lexer = Lexer { rest: text, at: Position { line: 1, column: 1 } };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next()?;
        let end = token.kind == Kind::End;
        tokens.push(token);
        if end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'t> {
    rest: &'t str,
    at: Position,
}

impl<'t> Lexer<'t> {
    fn next(&mut self) -> Result<Token<'t>, (Position, String)> {
        loop {
            self.take_while(char::is_whitespace);
            if !self.rest.starts_with("//") {
                break;
            }
            self.take_while(|c| c != '\n');
        }
        let at = self.at;
        let token = |kind, text| Ok(Token { kind, text, at });
        let Some(first) = self.rest.chars().next() else { return token(Kind::End, "".into()) };
        match first {
            '%' | '@' => {
                self.take(1);
                let name = match self.rest.starts_with('"') {
                    true => self.string()?,
                    false => match self.take_while(is_bare) {
                        "" => return Err((at, format!("wants a name after `{first}`"))),
                        bare => bare.into(),
                    },
                };
                token(if first == '%' { Kind::Value } else { Kind::Graph }, name)
            }
            '"' => {
                let text = self.string()?;
                token(Kind::Text, text)
            }
            '-' if self.rest.starts_with("->") => token(Kind::Punctuation, self.take(2).into()),
            '-' | '0'..='9' => token(Kind::Number, self.number().into()),
            '(' | ')' | '{' | '}' | '[' | ']' | ',' | ':' | '=' => {
                token(Kind::Punctuation, self.take(1).into())
            }
            'a'..='z' | 'A'..='Z' | '_' => token(Kind::Word, self.take_while(is_bare).into()),
            _ => Err((at, format!("unexpected character {first:?}"))),
        }
    }

    fn number(&mut self) -> &'t str {
        // A sign may stand first and after the `e` of an exponent.
        let mut previous = 'e';
        self.take_while(|c| {
            let sign = matches!(c, '+' | '-') && matches!(previous, 'e' | 'E');
            previous = c;
            sign || c.is_ascii_alphanumeric() || c == '.'
        })
    }

    fn string(&mut self) -> Result<Cow<'t, str>, (Position, String)> {
        let start = self.at;
        self.take(1);
        let plain = self.take_while(|c| !matches!(c, '"' | '\\' | '\n'));
        if self.rest.starts_with('"') {
            self.take(1);
            return Ok(plain.into());
        }
        let mut text = plain.to_string();
        loop {
            let at = self.at;
            match self.rest.chars().next() {
                Some('"') => {
                    self.take(1);
                    return Ok(text.into());
                }
                Some('\\') => {
                    self.take(1);
                    let escaped = self.escape();
                    text.push(escaped.ok_or_else(|| {
                        (at, "unknown escape: wants \\\", \\\\, \\n or \\u{…}".to_string())
                    })?);
                }
                Some('\n') | None => return Err((start, "the string does not end".to_string())),
                Some(_) => {
                    text.push_str(self.take_while(|c| !matches!(c, '"' | '\\' | '\n')));
                }
            }
        }
    }

    /// The character that an escape stands for, after its backslash.
    fn escape(&mut self) -> Option<char> {
        match self.rest.chars().next()? {
            c @ ('"' | '\\') => {
                self.take(1);
                Some(c)
            }
            'n' => {
                self.take(1);
                Some('\n')
            }
            'u' => {
                let (digits, _) = self.rest.strip_prefix("u{")?.split_once('}')?;
                let code = u32::from_str_radix(digits, 16).ok()?;
                let escaped = char::from_u32(code)?;
                self.take("u{}".len() + digits.len());
                Some(escaped)
            }
            _ => None,
        }
    }

    fn take_while(&mut self, mut wanted: impl FnMut(char) -> bool) -> &'t str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        self.take(end)
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        for c in taken.chars() {
            if c == '\n' {
                self.at.line = self.at.line.saturating_add(1);
                self.at.column = 1;
            } else {
                self.at.column = self.at.column.saturating_add(1);
            }
        }
        taken
    }
}
