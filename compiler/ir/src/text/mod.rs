//! The text format: graphs to text and back. `docs/ir.md` describes it.
//!
//! ```
//! let text = "\
//! graph @main(%x: f32[4,8]) -> f32[4] {
//!   %0 = exp %x : f32[4,8]
//!   %1 = reduce_sum %0 {axes = [1]} : f32[4]
//!   return %1
//! }
//! ";
//! let graph = kiln_ir::Graph::parse(text)?;
//! assert_eq!(graph.to_string(), text);
//! # Ok::<(), kiln_ir::text::ParseError>(())
//! ```
//!
//! Promises:
//! - Printing and parsing are inverse to each other, bit for bit in every constant.
//! - The parser panics on no input; an error names the line, and shows it.
//! - A parsed graph passes `verify`.

mod canonical;
mod error;
mod lex;
mod name;
mod parse;
mod print;
mod scalar;

use std::sync::Arc;

pub use error::ParseError;
pub use parse::{parse_literal, parse_module};
pub use print::Printer;
pub(crate) use print::{all_nodes, callees, print_node};

use crate::Graph;

/// The graphs of a text, callees before their callers.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// The graphs in the order of the text.
    pub graphs: Vec<Arc<Graph>>,
}

impl Module {
    /// The graph called `name`, without `@`.
    pub fn get(&self, name: &str) -> Option<&Arc<Graph>> {
        self.graphs.iter().find(|graph| graph.name() == name)
    }

    /// The graph called `main`, or else the last one.
    pub fn main(&self) -> Option<&Arc<Graph>> {
        self.get("main").or_else(|| self.graphs.last())
    }
}

impl Graph {
    /// The last graph of `text`, with the graphs that it calls.
    ///
    /// # Errors
    /// If the text is not a module, or holds no graph.
    pub fn parse(text: &str) -> Result<Graph, ParseError> {
        let module = parse_module("text", text)?;
        let last = module.graphs.last().ok_or_else(|| {
            let end = lex::Position { line: 1, column: 1 };
            ParseError::new("text", text, end, "wants a graph".to_string())
        })?;
        Ok(Graph::clone(last))
    }
}
