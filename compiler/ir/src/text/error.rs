//! What is wrong with a text, and where.

use std::fmt;

use super::lex::Position;

/// A text that is no module. Displays as `file:line:column: message`, followed by the
/// line and a mark under the column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    file: String,
    at: Position,
    message: String,
    text: String,
}

impl ParseError {
    pub(super) fn new(file: &str, text: &str, at: Position, message: String) -> ParseError {
        let line = text.lines().nth(at.line as usize - 1).unwrap_or_default();
        ParseError { file: file.to_string(), at, message, text: line.to_string() }
    }

    /// The file, as the caller named it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The line, from 1.
    pub fn line(&self) -> u32 {
        self.at.line
    }

    /// The column in characters, from 1.
    pub fn column(&self) -> u32 {
        self.at.column
    }

    /// The message, without its place.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl std::error::Error for ParseError {}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.at;
        writeln!(f, "{}:{line}:{column}: {}", self.file, self.message)?;
        // Of a long line, a window around the column.
        let skipped = (column as usize - 1).saturating_sub(60);
        let shown: String = self.text.chars().skip(skipped).take(100).collect();
        // Tabs stay tabs, so that the mark stands where the terminal puts the character.
        let before = shown.chars().take(column as usize - 1 - skipped);
        let indent: String = before.map(|c| if c == '\t' { c } else { ' ' }).collect();
        write!(f, "  {shown}\n  {indent}^")
    }
}
