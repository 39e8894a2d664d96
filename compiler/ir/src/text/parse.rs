//! Text to graphs: recursive descent over the tokens.
//!
//! Refuses, with the place: what is no token or stands where it may not, names that are
//! unknown or taken, types that no program can hold, ops that do not accept their
//! operands or attributes, and annotated types other than the inferred ones. Each node's
//! source is its `loc(..)`, or else its own place in the text.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::lex::{Kind, Position, Token, lex};
use super::{Module, ParseError};
use crate::op::{Attr, Attrs, OpDef, Parameter};
use crate::{DType, Graph, Literal, Op, ParameterInfo, Scalar, Source, Type, Value};

/// Bytes that the constants of a text may have together. A single number stands for a
/// whole array, so that a short text could otherwise ask for all of memory.
const CONSTANT_BYTES: usize = 1 << 30;

/// How deep calls of a text may nest: interpreting and dropping graphs recurses.
const DEEPEST_CALL: usize = 200;

/// The graphs of `text`; `file` is how errors and sources name it.
///
/// # Errors
/// If the text is not in the format, or one of its graphs would not pass `verify`.
pub fn parse_module(file: &str, text: &str) -> Result<Module, ParseError> {
    parse(file, text, |parser| {
        let mut module = Module::default();
        while parser.peek().kind != Kind::End {
            module.graphs.push(parser.graph()?);
        }
        Ok(module)
    })
}

/// The array that `text` writes as its type and elements: `f32[2] [1.0, nan]`,
/// `i32[] 3`. One element without brackets stands for an array of equal ones.
///
/// # Errors
/// If the text is anything else.
pub fn parse_literal(text: &str) -> Result<Literal, ParseError> {
    parse("literal", text, |parser| {
        let ty = parser.ty()?;
        let at = parser.peek().at;
        let raw = parser.raw()?;
        let value = parser.literal(at, &ty, &raw)?;
        if parser.peek().kind != Kind::End {
            return Err(parser.wants("the end"));
        }
        Ok(if *value.ty() == ty { value } else { Literal::splat(ty, value.get(0)) })
    })
}

/// A result, or what is wrong and where.
type Parsed<T> = Result<T, (Position, String)>;

fn parse<'t, T>(
    file: &str,
    text: &'t str,
    rule: impl FnOnce(&mut Parser<'t>) -> Parsed<T>,
) -> Result<T, ParseError> {
    lex(text)
        .and_then(|tokens| {
            let file = file.to_string();
            let (graphs, constants) = (HashMap::new(), 0);
            rule(&mut Parser { file, tokens, next: 0, graphs, constants })
        })
        .map_err(|(at, message)| ParseError::new(file, text, at, message))
}

struct Parser<'t> {
    file: String,
    /// Ends with [`Kind::End`], which is never passed.
    tokens: Vec<Token<'t>>,
    next: usize,
    /// The graphs so far by name, with how deep their calls nest.
    graphs: HashMap<String, (Arc<Graph>, usize)>,
    /// Bytes of the constants so far: at most [`CONSTANT_BYTES`].
    constants: usize,
}

/// The value of an attribute, before the result types that it depends on are known.
enum Raw<'t> {
    One(Token<'t>),
    List(Vec<Token<'t>>),
}

/// The values of a graph by name.
type Values = HashMap<String, Value>;

impl<'t> Parser<'t> {
    // --- graphs -----------------------------------------------------------

    /// `graph @f(%x: f32[4], ..) -> f32[4] { .. return %y }`
    fn graph(&mut self) -> Parsed<Arc<Graph>> {
        self.word("graph")?;
        let name = self.take(Kind::Graph, "the graph's name, such as @main")?;
        if self.graphs.contains_key(&*name.text) {
            return Err((name.at, format!("@{} is defined twice", name.text)));
        }
        let (mut graph, mut values) = (Graph::new(&*name.text), Values::new());
        self.punctuation("(")?;
        if !self.eat(")") {
            loop {
                self.parameter(&mut graph, &mut values)?;
                if !self.eat(",") {
                    break;
                }
            }
            self.punctuation(")")?;
        }
        self.punctuation("->")?;
        let results = self.types()?;
        self.punctuation("{")?;
        let mut depth = 0;
        while !self.is_word("return") {
            self.node(&mut graph, &mut values, &mut depth)?;
        }
        self.outputs(&mut graph, &values, &results)?;
        self.punctuation("}")?;
        let graph = Arc::new(graph);
        self.graphs.insert(name.text.into_owned(), (graph.clone(), depth));
        Ok(graph)
    }

    /// `%x: f32[4] {donated}`
    fn parameter(&mut self, graph: &mut Graph, values: &mut Values) -> Parsed<()> {
        let name = self.take(Kind::Value, "a parameter, such as %x")?;
        self.punctuation(":")?;
        let ty = self.ty()?;
        let donated = self.eat("{");
        if donated {
            self.word("donated")?;
            self.punctuation("}")?;
        }
        let info = ParameterInfo { name: name.text.to_string(), donated };
        let value = graph.add_parameter(ty, info);
        let source = self.source(name.at);
        graph.set_source(value.node, Some(source));
        define(values, &name, value)
    }

    /// `%a, %b = op %x, %y {name = value} : f32[4], f32[] loc("file":1:2)`
    fn node(&mut self, graph: &mut Graph, values: &mut Values, depth: &mut usize) -> Parsed<()> {
        let start = self.peek().at;
        let names = self.values(|parser| parser.take(Kind::Value, "a value, such as %0"))?;
        if !names.is_empty() {
            self.punctuation("=")?;
        }
        let name = self.take(Kind::Word, "an op or `return`")?;
        let operands = self.values(|parser| parser.value(values))?;
        let raw = if self.eat("{") { self.attrs()? } else { vec![] };
        self.punctuation(":")?;
        let types_at = self.peek().at;
        let types = self.node_types()?;
        let source = match self.is_word("loc") {
            true => self.location()?,
            false => self.source(start),
        };
        let fail = |message: String| (name.at, message);
        let mut attrs = Attrs::new();
        for (attr, value) in &raw {
            let value = self.resolve(attr, value, &types, depth)?;
            attrs.push(&attr.text, value);
        }
        let op = Op::parse(&name.text, &mut attrs, &types)
            .ok_or_else(|| fail(format!("unknown op `{}`", name.text)))?
            .map_err(|message| fail(format!("{}: {message}", name.text)))?;
        if let Some((extra, _)) = attrs.iter().next() {
            let at = raw.iter().find(|(attr, _)| attr.text == extra).map_or(name.at, |(a, _)| a.at);
            return Err((at, format!("{} has no attribute `{extra}`", name.text)));
        }
        let node = graph.add(op, &operands, Some(source)).map_err(|e| fail(e.to_string()))?;
        if graph.types(node) != types {
            let inferred = list(graph.types(node));
            let message = format!("annotated {}, but {} gives {inferred}", list(&types), name.text);
            return Err((types_at, message));
        }
        if names.len() != types.len() {
            let (results, given) = (types.len(), names.len());
            return Err(fail(format!("{} has {results} results, {given} are named", name.text)));
        }
        for (name, value) in names.iter().zip(graph.results(node)) {
            define(values, name, value)?;
        }
        Ok(())
    }

    /// `return %1 "loss", %0`
    fn outputs(&mut self, graph: &mut Graph, values: &Values, results: &[Type]) -> Parsed<()> {
        let at = self.peek().at;
        self.word("return")?;
        let outputs = self.values(|parser| {
            let value = parser.value(values)?;
            let name = match parser.peek().kind {
                Kind::Text => parser.advance().text.into_owned(),
                _ => String::new(),
            };
            Ok((value, name))
        })?;
        for (value, name) in outputs {
            graph.add_output(value, name);
        }
        let types: Vec<Type> = graph.outputs().iter().map(|&v| graph.ty(v).clone()).collect();
        if types != results {
            let (given, wanted) = (list(&types), list(results));
            return Err((at, format!("returns {given}, the signature says {wanted}")));
        }
        Ok(())
    }

    /// Items that begin with a value, with commas between them; none, if none begins here.
    fn values<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        if self.peek().kind == Kind::Value {
            items.push(item(self)?);
            while self.eat(",") {
                items.push(item(self)?);
            }
        }
        Ok(items)
    }

    fn value(&mut self, values: &Values) -> Parsed<Value> {
        let name = self.take(Kind::Value, "a value, such as %0")?;
        let unknown = || (name.at, format!("%{} is not defined", name.text));
        values.get(&*name.text).copied().ok_or_else(unknown)
    }

    // --- types and locations ------------------------------------------------

    /// `f32[4]`, `(f32[4], f32[])` or `()`
    fn types(&mut self) -> Parsed<Vec<Type>> {
        if !self.eat("(") {
            return Ok(vec![self.ty()?]);
        }
        let mut types = Vec::new();
        if !self.eat(")") {
            loop {
                types.push(self.ty()?);
                if !self.eat(",") {
                    break;
                }
            }
            self.punctuation(")")?;
        }
        Ok(types)
    }

    /// `f32[4], f32[]` or `()`
    fn node_types(&mut self) -> Parsed<Vec<Type>> {
        if self.is_punctuation("(") {
            return self.types();
        }
        let mut types = vec![self.ty()?];
        while self.eat(",") {
            types.push(self.ty()?);
        }
        Ok(types)
    }

    /// `f32[4,8]`
    fn ty(&mut self) -> Parsed<Type> {
        let name = self.take(Kind::Word, "a type, such as f32[4,8]")?;
        let dtype = DType::from_name(&name.text)
            .ok_or_else(|| (name.at, format!("unknown element type `{}`", name.text)))?;
        self.punctuation("[")?;
        let mut dims = Vec::new();
        if !self.eat("]") {
            loop {
                dims.push(self.number::<usize>("an extent")?);
                if !self.eat(",") {
                    break;
                }
            }
            self.punctuation("]")?;
        }
        let ty = Type::new(dtype, dims);
        // The rule that every value of a graph obeys.
        match (Parameter { ty: ty.clone() }.infer(&[])) {
            Ok(_) => Ok(ty),
            Err(error) => Err((name.at, error.message().to_string())),
        }
    }

    /// `loc("src/model.rs":41:5 "block3/attention")`, column and scope optional.
    fn location(&mut self) -> Parsed<Source> {
        self.word("loc")?;
        self.punctuation("(")?;
        let file = self.take(Kind::Text, "a file name in quotes")?.text.into_owned().into();
        self.punctuation(":")?;
        let line = self.number("a line")?;
        let column = if self.eat(":") { self.number("a column")? } else { 0 };
        let scope = match self.peek().kind {
            Kind::Text => Some(self.advance().text.into()),
            _ => None,
        };
        self.punctuation(")")?;
        Ok(Source { file, line, column, scope })
    }

    fn source(&self, at: Position) -> Source {
        let file = self.file.clone().into();
        Source { file, line: at.line, column: at.column, scope: None }
    }

    // --- attributes -----------------------------------------------------------

    /// `axes = [0], value = 1.0}`, after the opening brace.
    fn attrs(&mut self) -> Parsed<Vec<(Token<'t>, Raw<'t>)>> {
        let mut attrs: Vec<(Token, Raw)> = Vec::new();
        loop {
            let name = self.take(Kind::Word, "an attribute")?;
            if attrs.iter().any(|(other, _)| other.text == name.text) {
                return Err((name.at, format!("attribute `{}` is given twice", name.text)));
            }
            self.punctuation("=")?;
            attrs.push((name, self.raw()?));
            if !self.eat(",") {
                break;
            }
        }
        self.punctuation("}")?;
        Ok(attrs)
    }

    fn raw(&mut self) -> Parsed<Raw<'t>> {
        if !self.eat("[") {
            return Ok(Raw::One(match self.peek().kind {
                Kind::Word | Kind::Number | Kind::Graph => self.advance(),
                _ if self.peek().text == "(" => self.pair()?,
                _ => return Err(self.wants("an attribute's value")),
            }));
        }
        let mut items = Vec::new();
        if !self.eat("]") {
            loop {
                items.push(match self.peek().kind {
                    Kind::Word | Kind::Number => self.advance(),
                    _ if self.peek().text == "(" => self.pair()?,
                    _ => return Err(self.wants("an element of a list")),
                });
                if !self.eat(",") {
                    break;
                }
            }
            self.punctuation("]")?;
        }
        Ok(Raw::List(items))
    }

    /// The parts of a complex number as one token: `(1.0, -0.5)`.
    fn pair(&mut self) -> Parsed<Token<'t>> {
        let at = self.peek().at;
        self.punctuation("(")?;
        let re = self.part()?;
        self.punctuation(",")?;
        let im = self.part()?;
        self.punctuation(")")?;
        Ok(Token { kind: Kind::Number, text: format!("({re}, {im})").into(), at })
    }

    fn part(&mut self) -> Parsed<Cow<'t, str>> {
        match self.peek().kind {
            Kind::Word | Kind::Number => Ok(self.advance().text),
            _ => Err(self.wants("a part of a complex number")),
        }
    }

    /// The attribute called `name`: `value` is an array of the result's type, all others
    /// show what they are.
    fn resolve(
        &mut self,
        name: &Token,
        raw: &Raw,
        results: &[Type],
        depth: &mut usize,
    ) -> Parsed<Attr> {
        if let ("value", [ty]) = (&*name.text, results) {
            return self.literal(name.at, ty, raw).map(Attr::Literal);
        }
        let integer = |token: &Token| -> Parsed<i64> {
            let text = &token.text;
            text.parse().map_err(|_| (token.at, format!("wants an integer, got `{text}`")))
        };
        Ok(match raw {
            Raw::List(items) => Attr::Ints(items.iter().map(integer).collect::<Parsed<_>>()?),
            Raw::One(token) if token.kind == Kind::Number => Attr::Int(integer(token)?),
            Raw::One(token) if token.kind == Kind::Word => Attr::Word(token.text.to_string()),
            Raw::One(token) => {
                let unknown = || (token.at, format!("@{} is not defined before", token.text));
                let (graph, inner) = self.graphs.get(&*token.text).ok_or_else(unknown)?;
                *depth = (*depth).max(inner + 1);
                if *depth > DEEPEST_CALL {
                    return Err((token.at, format!("calls nest deeper than {DEEPEST_CALL}")));
                }
                Attr::Graph(graph.clone())
            }
        })
    }

    /// The array of type `ty` that `raw` writes, or the rank-0 array of one bare element.
    fn literal(&mut self, at: Position, ty: &Type, raw: &Raw) -> Parsed<Literal> {
        // Counts the whole array for one element too: what is made of it takes as much.
        self.constants = self.constants.saturating_add(ty.bytes());
        if self.constants > CONSTANT_BYTES {
            let message = format!("the constants of a text may have {CONSTANT_BYTES} bytes in all");
            return Err((at, message));
        }
        let scalar = |token: &Token| -> Parsed<Scalar> {
            let wrong = || (token.at, format!("`{}` is not a {}", token.text, ty.dtype));
            Scalar::parse(ty.dtype, &token.text).ok_or_else(wrong)
        };
        match raw {
            Raw::One(token) => Ok(Literal::scalar(scalar(token)?)),
            Raw::List(_) if ty.shape.rank() == 0 => {
                Err((at, format!("{ty} wants one element without brackets")))
            }
            Raw::List(items) if items.len() != ty.elements() => {
                Err((at, format!("{ty} has {} elements, got {}", ty.elements(), items.len())))
            }
            Raw::List(items) => {
                let scalars = items.iter().map(scalar).collect::<Parsed<Vec<_>>>()?;
                Ok(Literal::from_fn(ty.clone(), |i| scalars[i]))
            }
        }
    }

    // --- tokens -----------------------------------------------------------------

    fn peek(&self) -> &Token<'t> {
        &self.tokens[self.next]
    }

    fn advance(&mut self) -> Token<'t> {
        let token = self.peek().clone();
        if token.kind != Kind::End {
            self.next += 1;
        }
        token
    }

    fn take(&mut self, kind: Kind, wanted: &str) -> Parsed<Token<'t>> {
        if self.peek().kind == kind { Ok(self.advance()) } else { Err(self.wants(wanted)) }
    }

    fn number<T: std::str::FromStr>(&mut self, wanted: &str) -> Parsed<T> {
        let token = self.take(Kind::Number, wanted)?;
        let wrong = |_| (token.at, format!("`{}` is not {wanted}", token.text));
        token.text.parse().map_err(wrong)
    }

    fn is_word(&self, word: &str) -> bool {
        self.peek().kind == Kind::Word && self.peek().text == word
    }

    fn word(&mut self, word: &str) -> Parsed<()> {
        if !self.is_word(word) {
            return Err(self.wants(&format!("`{word}`")));
        }
        self.advance();
        Ok(())
    }

    fn is_punctuation(&self, mark: &str) -> bool {
        self.peek().kind == Kind::Punctuation && self.peek().text == mark
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = self.is_punctuation(mark);
        if found {
            self.advance();
        }
        found
    }

    fn punctuation(&mut self, mark: &str) -> Parsed<()> {
        if self.eat(mark) { Ok(()) } else { Err(self.wants(&format!("`{mark}`"))) }
    }

    fn wants(&self, wanted: &str) -> (Position, String) {
        let token = self.peek();
        let got = match token.kind {
            Kind::End => "the end".to_string(),
            Kind::Value => format!("%{}", token.text),
            Kind::Graph => format!("@{}", token.text),
            Kind::Text => "a string".to_string(),
            _ => format!("`{}`", token.text),
        };
        (token.at, format!("wants {wanted}, got {got}"))
    }
}

fn define(values: &mut Values, name: &Token, value: Value) -> Parsed<()> {
    match values.entry(name.text.to_string()) {
        Entry::Occupied(_) => Err((name.at, format!("%{} is defined twice", name.text))),
        Entry::Vacant(entry) => {
            entry.insert(value);
            Ok(())
        }
    }
}

/// The types as the format writes those of a signature.
fn list(types: &[Type]) -> String {
    match types {
        [ty] => ty.to_string(),
        types => {
            let types: Vec<String> = types.iter().map(ToString::to_string).collect();
            format!("({})", types.join(", "))
        }
    }
}
