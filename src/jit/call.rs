//! One call, from arguments to results.
//!
//! ```text
//!   key ──▶ table ──(miss)──▶ trace ──▶ compile
//!              └──────(hit)──────────────┐
//!   feed ──▶ resolve ──▶ inputs ──▶ run ──▶ outputs ──▶ result
//! ```
//!
//! In the steady state nothing here allocates: the lists are the thread's own and
//! keep their memory.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kiln_ir::Graph;
use kiln_trace::{CaptureKey, Finished, Trace};

use super::Jit;
use crate::cache::{Built, Entry, Origin};
use crate::compile::{self, Input};
use crate::device::Array;
use crate::lazy::{self, Lazy};
use crate::tensor::{self, Repr};
use crate::tree::{self, Arguments, Fed, Item, KeyWriter, LeafNames, Passing, Placeholders, Walk};
use crate::{Error, Feed, Tensor, Tree};

/// The lists of a call.
#[derive(Default)]
struct Scratch {
    key: KeyWriter,
    arguments: Arguments,
    inputs: Vec<Input>,
    outputs: Vec<Array>,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// The thread's lists for the time of a call. A call inside (a destructor may make
/// one) gets lists of its own.
#[derive(Default)]
struct Lists(Option<Box<Scratch>>);

impl Lists {
    fn take() -> Lists {
        Lists(SCRATCH.take())
    }

    fn get(&mut self) -> &mut Scratch {
        self.0.get_or_insert_default()
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        if let Some(mut scratch) = self.0.take() {
            scratch.key.clear();
            scratch.arguments.items.clear();
            scratch.arguments.error = None;
            scratch.inputs.clear();
            scratch.outputs.clear();
            SCRATCH.set(Some(scratch));
        }
    }
}

/// Calls inside calls inside a trace, beyond which they are taken for endless: far
/// more than anybody writes, and far less than a stack holds.
const MOST_NESTED: usize = 200;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// One level of calls inside a trace, left when dropped.
struct Depth(());

impl Depth {
    fn enter() -> Depth {
        DEPTH.set(DEPTH.get() + 1);
        Depth(())
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// What a table keeps to turn outputs into results.
struct Template<R> {
    result: R,
    /// Whether the state that comes back has the structure of the one that went
    /// in, so that its leaves can be written in place. Known after the first
    /// `update`.
    in_place: OnceLock<bool>,
}

impl<Args, R: Tree> Jit<Args, R> {
    pub(super) fn run<F: Feed<Args>>(&self, feed: F) -> Result<R, Error> {
        if kiln_trace::is_open() {
            return self.run_inline(feed);
        }
        let mut lists = Lists::take();
        let scratch = lists.get();
        let entry = self.entry(&feed, &mut scratch.key)?;
        feed.feed(&mut scratch.arguments);
        resolve(&mut scratch.arguments, &mut scratch.inputs)?;
        entry.run(&mut scratch.inputs, &mut scratch.outputs)?;
        let mut outputs = scratch.outputs.drain(..);
        let template = template::<R>(&entry)?;
        Ok(template.result.map(&mut |_| next(&mut outputs)))
    }

    /// A call inside a trace is part of it.
    fn run_inline<F: Feed<Args>>(&self, feed: F) -> Result<R, Error> {
        let depth = Depth::enter();
        if DEPTH.get() > MOST_NESTED {
            let message = format!(
                "jitted functions call each other {MOST_NESTED} deep: is there an end to it? \
                 A trace takes every call, whatever the values will be"
            );
            return Err(Error::user(message).with_source(self.core.at.source()));
        }
        let result = (self.trace)(feed.inline());
        drop(depth);
        result
    }

    /// The program for these arguments.
    fn entry<F: Feed<Args>>(&self, feed: &F, key: &mut KeyWriter) -> Result<Arc<Entry>, Error> {
        key.clear();
        feed.key(key);
        key.take_error().map_or(Ok(()), Err)?;
        match self.core.table.get(key.words()) {
            Some(entry) => Ok(entry),
            None => self.core.table.get_or_build(key.words(), || self.build(feed)),
        }
    }

    pub(super) fn entry_for<F: Feed<Args>>(&self, feed: &F) -> Result<Arc<Entry>, Error> {
        self.entry(feed, &mut KeyWriter::default())
    }

    fn build<F: Feed<Args>>(&self, feed: &F) -> Result<Built, Error> {
        let start = Instant::now();
        let traced = self.trace_for(feed)?;
        let phases: Vec<(&'static str, Duration)> = vec![("trace", start.elapsed())];
        let origin = Origin { source: Some(self.core.at.source()), fields: traced.fields };
        let compiled = compile::compile(traced.graph)?;
        if self.core.strict_donation
            && let Some((i, why)) = compiled.unused_donations().into_iter().next()
        {
            let name = &compiled.graph().parameter_info(i).name;
            let message = format!("the memory of `{name}`, passed by value, is not used: {why}");
            return Err(Error::user(message).with_source(self.core.at.source()));
        }
        let template = Template { result: traced.result, in_place: OnceLock::new() };
        Ok(Built {
            compiled,
            origin,
            captures: traced.captures,
            template: Box::new(template),
            phases,
        })
    }

    /// Runs the closure on placeholders.
    pub(super) fn trace_for<F: Feed<Args>>(&self, feed: &F) -> Result<Traced<R>, Error> {
        let (names, fields) = self.describe(feed);
        let trace = Trace::begin(self.name(), self.core.at);
        let mut placeholders = Placeholders { trace: &trace, names: names.into_iter() };
        let args = feed.placeholder(&mut placeholders);
        let returned = trace.run(|| (self.trace)(args))?;
        let result = match returned {
            Ok(result) => result,
            // The first mistake explains the function's own error, not the other
            // way round.
            Err(error) => return Err(trace.finish().err().unwrap_or(error)),
        };
        for (path, leaf) in tree::named_leaves(&result, "out") {
            if let Ok(traced) = tensor::lift(leaf, self.core.at) {
                trace.output(&traced, path)?;
            }
        }
        let Finished { mut graph, captures } = trace.finish()?;
        let explicit = graph.parameters().len() - captures.len();
        let mut captured = Vec::with_capacity(captures.len());
        for (i, capture) in captures.into_iter().enumerate() {
            graph.parameter_info_mut(explicit + i).name = format!("captured{i}");
            match (capture.key, capture.payload.downcast::<Tensor>()) {
                (CaptureKey::External(_), Ok(tensor)) => captured.push(*tensor),
                _ => return Err(Error::internal("an outermost trace captured a traced value")),
            }
        }
        let mut types = graph.outputs().iter().map(|&v| graph.ty(v).clone());
        let result = result.map(&mut |_| match types.next() {
            Some(ty) => Tensor::spec(ty.shape, ty.dtype),
            None => unreachable!("an output for each leaf"),
        });
        drop(types);
        Ok(Traced { graph, captures: captured, result, fields })
    }

    /// Leaf paths, and the parts of the key for people.
    fn describe<F: Feed<Args>>(&self, feed: &F) -> (Vec<String>, Vec<(String, String)>) {
        let (mut names, mut fields) = (LeafNames::default(), Vec::new());
        feed.describe(&mut Walk::arguments(&self.core.names, &mut |item| match item {
            Item::Leaf { path, ty, passing } => {
                let mut text = ty.map_or("poisoned".to_string(), |ty| ty.to_string());
                if passing == Passing::Moved {
                    text.push_str(" moved");
                }
                names.add(path);
                fields.push((path.to_string(), text));
            }
            Item::Fixed { path, value } => fields.push((path.to_string(), value)),
        }));
        (names.into_vec(), fields)
    }
}

/// A traced function.
pub(super) struct Traced<R> {
    pub graph: Graph,
    pub captures: Vec<Tensor>,
    /// The result, with specs for leaves.
    pub result: R,
    pub fields: Vec<(String, String)>,
}

impl<Args, S: Tree, R: Tree> Jit<Args, (S, R)> {
    pub(super) fn run_update<F: Feed<Args>>(
        &self,
        state: &RefCell<&mut S>,
        feed: F,
    ) -> Result<R, Error> {
        if kiln_trace::is_open() {
            let (new, result) = self.run_inline(feed)?;
            **state.borrow_mut() = new;
            return Ok(result);
        }
        let mut lists = Lists::take();
        let scratch = lists.get();
        let entry = self.entry(&feed, &mut scratch.key)?;
        let template = template::<(S, R)>(&entry)?;
        feed.feed(&mut scratch.arguments);
        let state = &mut **state.borrow_mut();
        if let Err(error) = resolve(&mut scratch.arguments, &mut scratch.inputs) {
            let mut leaves = scratch.arguments.items.drain(..).map(|fed| fed.tensor);
            put_back(state, &mut leaves);
            return Err(error);
        }
        if let Err(error) = entry.run(&mut scratch.inputs, &mut scratch.outputs) {
            let mut leaves = scratch.inputs.drain(..).map(|input| match input {
                Input::Kept(array) | Input::Donated(array) => Tensor::array(array),
                Input::Scalar(scalar) => Tensor::scalar(scalar),
            });
            put_back(state, &mut leaves);
            return Err(error);
        }
        let mut outputs = scratch.outputs.drain(..);
        let (new, result) = &template.result;
        let in_place = *template.in_place.get_or_init(|| structure(state) == structure(new));
        if in_place {
            state.visit_mut(&mut |leaf| *leaf = next(&mut outputs));
        } else {
            *state = new.map(&mut |_| next(&mut outputs));
        }
        Ok(result.map(&mut |_| next(&mut outputs)))
    }
}

/// Gives the state its leaves again, after a call that did not happen.
fn put_back<S: Tree>(state: &mut S, leaves: &mut dyn Iterator<Item = Tensor>) {
    state.visit_mut(&mut |leaf| {
        if let Some(tensor) = leaves.next() {
            *leaf = tensor;
        }
    });
}

fn structure(tree: &impl Tree) -> Vec<u64> {
    let mut key = KeyWriter::default();
    tree.structure(&mut key);
    key.words().to_vec()
}

fn next(outputs: &mut impl Iterator<Item = Array>) -> Tensor {
    Tensor::array(outputs.next().expect("an output for each leaf"))
}

fn template<R: Tree>(entry: &Entry) -> Result<&Template<R>, Error> {
    entry
        .built
        .template
        .downcast_ref()
        .ok_or_else(|| Error::internal("a table of another result type"))
}

/// Turns arguments into inputs, computing lazy ones in one run.
///
/// # Errors
/// If one has no value. The arguments are then complete and the inputs empty.
fn resolve(arguments: &mut Arguments, inputs: &mut Vec<Input>) -> Result<(), Error> {
    if let Some(error) = arguments.error.take() {
        return Err(error);
    }
    let mut pending: Vec<Arc<Lazy>> = Vec::new();
    for Fed { tensor, .. } in &arguments.items {
        match tensor.repr() {
            Repr::Array(_) | Repr::Scalar(_) => {}
            Repr::Lazy(lazy) if lazy.ready().is_some() => {}
            Repr::Lazy(lazy) => pending.push(lazy.clone()),
            Repr::Poisoned(error) => return Err(error.clone()),
            Repr::Spec(ty) => {
                return Err(Error::user(format!("an argument is a spec ({ty}): it has no value")));
            }
            Repr::Traced(_) => return Err(Error::user("an argument is a traced tensor")),
        }
    }
    if !pending.is_empty() {
        lazy::evaluate(&pending)?;
        // These handles would keep the results from being donated.
        pending.clear();
    }
    inputs.extend(arguments.items.drain(..).map(|Fed { tensor, passing }| {
        let array = match tensor.into_repr() {
            Repr::Scalar(scalar) => return Input::Scalar(scalar),
            Repr::Array(array) => array,
            Repr::Lazy(lazy) => match lazy.into_ready() {
                Ok(array) => array,
                Err(shared) => shared.ready().expect("it was just evaluated"),
            },
            _ => unreachable!("checked above"),
        };
        match passing {
            Passing::Moved => Input::Donated(array),
            Passing::Borrowed => Input::Kept(array),
        }
    }));
    Ok(())
}
