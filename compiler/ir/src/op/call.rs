//! Calls of other graphs, with derivatives of their own.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::smallvec;

use super::{
    Attr, Attrs, Binary, Domain, InferError, Op, OpDef, OptimizationBarrier, Sample, Share, Types,
    sample,
};
use crate::derive::graph::{jvp, split, vjp, vmap};
use crate::derive::{Batch, Derived, NoRule, Results, Rule};
use crate::eval::eval;
use crate::{DType, Form, Graph, Literal, ParameterInfo, Type, Value};

/// Applies another graph to the operands; its outputs are the results.
#[derive(Clone, Debug)]
pub struct Call {
    /// The callee.
    pub graph: Arc<Graph>,
    /// What its derivative is.
    pub derivative: Derivative,
}

/// What the derivative of a call is. Tangents and cotangents are those of operands and
/// results that are floats, in order.
#[derive(Clone, Debug)]
pub enum Derivative {
    /// That of the callee.
    Callee,
    /// Zero: the results are constant. JAX: `lax.stop_gradient`.
    Stop,
    /// From operands and tangents of operands to tangents of results, linear in the
    /// tangents. JAX: `custom_jvp`.
    Jvp(Arc<Graph>),
    /// In reverse mode `forward` is called instead, whose outputs are the results and then
    /// residuals; `backward` takes residuals and cotangents of the results to cotangents of
    /// the operands. There is no forward mode. JAX: `custom_vjp`.
    Vjp {
        /// From operands to results and residuals.
        forward: Arc<Graph>,
        /// From residuals and cotangents to cotangents.
        backward: Arc<Graph>,
    },
    /// That of the callee, most of which is computed again on the way back instead of being
    /// kept. JAX: `checkpoint`.
    Checkpoint(Policy),
    /// The callee is a `forward` that has been called: its outputs from `results` on are
    /// the residuals of `backward`.
    Backward {
        /// How many outputs are results.
        results: usize,
        /// From residuals and cotangents to cotangents.
        backward: Arc<Graph>,
    },
}

/// Which values of a checkpointed function are kept for the way back. Its operands are, in
/// any case.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Policy {
    /// None. JAX: `nothing_saveable`.
    Nothing,
    /// All that the way back reads. JAX: `everything_saveable`.
    Everything,
    /// Matrix products. JAX: `dots_saveable`.
    Dots,
    /// Matrix products without batch axes: those with weights. JAX:
    /// `dots_with_no_batch_dims_saveable`.
    DotsWithNoBatchDims,
}

impl Policy {
    /// Every one.
    pub const ALL: [Policy; 4] =
        [Policy::Nothing, Policy::Everything, Policy::Dots, Policy::DotsWithNoBatchDims];

    /// The name in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Nothing => "nothing",
            Policy::Everything => "everything",
            Policy::Dots => "dots",
            Policy::DotsWithNoBatchDims => "dots_with_no_batch_dims",
        }
    }

    /// Whether the results of an op are kept.
    pub fn keeps(self, op: &Op) -> bool {
        match (self, op) {
            (Policy::Everything, _) | (Policy::Dots, Op::DotGeneral(_)) => true,
            (Policy::DotsWithNoBatchDims, Op::DotGeneral(dot)) => dot.dims.lhs_batch.is_empty(),
            _ => false,
        }
    }
}

impl Derivative {
    /// The graphs that it names, with the names of their attributes.
    fn graphs(&self) -> Vec<(&'static str, &Arc<Graph>)> {
        match self {
            Derivative::Callee | Derivative::Stop | Derivative::Checkpoint(_) => vec![],
            Derivative::Jvp(jvp) => vec![("jvp", jvp)],
            Derivative::Vjp { forward, backward } => {
                vec![("forward", forward), ("backward", backward)]
            }
            Derivative::Backward { backward, .. } => vec![("backward", backward)],
        }
    }

    /// What stands beside the graphs, as a number.
    fn rest(&self) -> usize {
        match self {
            Derivative::Callee => 0,
            Derivative::Stop => 1,
            Derivative::Jvp(_) => 2,
            Derivative::Vjp { .. } => 3,
            Derivative::Checkpoint(policy) => 4 + *policy as usize,
            Derivative::Backward { results, .. } => 4 + Policy::ALL.len() + results,
        }
    }
}

impl Call {
    /// A call whose derivative is that of its callee.
    pub fn new(graph: Arc<Graph>) -> Call {
        Call { graph, derivative: Derivative::Callee }
    }

    /// The graphs that it names: the callee first.
    pub fn graphs(&self) -> impl Iterator<Item = &Arc<Graph>> {
        std::iter::once(&self.graph).chain(self.derivative.graphs().into_iter().map(|(_, g)| g))
    }

    /// Whether anything is lost when the callee's nodes take the call's place before a
    /// transformation.
    pub fn is_plain(&self) -> bool {
        matches!(self.derivative, Derivative::Callee)
    }
}

impl Call {
    /// The call that reverse mode makes instead, if it makes another one: of a graph that
    /// returns residuals too.
    ///
    /// # Errors
    /// If an op of a checkpointed callee has no rule.
    pub(crate) fn forward(&self) -> Result<Option<Call>, NoRule> {
        let (graph, backward) = match &self.derivative {
            Derivative::Vjp { forward, backward } => (forward.clone(), backward.clone()),
            Derivative::Checkpoint(policy) => {
                let active: Vec<bool> =
                    parameters(&self.graph).iter().map(|ty| ty.dtype.is_float()).collect();
                let seeded: Vec<bool> =
                    outputs(&self.graph).iter().map(|ty| ty.dtype.is_float()).collect();
                let joint = vjp(&self.graph, &active, &seeded)?;
                let (takes, gives) = (active.len(), seeded.len());
                let parts = split(&joint, takes, gives, &|op| policy.keeps(op));
                (Arc::new(parts.forward), Arc::new(behind_barrier(&parts.backward)))
            }
            _ => return Ok(None),
        };
        let results = self.graph.outputs().len();
        Ok(Some(Call { graph, derivative: Derivative::Backward { results, backward } }))
    }
}

/// The graph with its parameters behind a barrier: what it computes is not merged with an
/// equal computation elsewhere, and not begun before all its parameters are there.
fn behind_barrier(graph: &Graph) -> Graph {
    let mut behind = Graph::new(graph.name());
    let parameters: Vec<Value> = graph
        .parameters()
        .enumerate()
        .map(|(i, p)| behind.add_parameter(graph.ty(p).clone(), graph.parameter_info(i).clone()))
        .collect();
    let barrier = behind.add(OptimizationBarrier, &parameters, None);
    let barrier = barrier.expect("a barrier takes everything");
    let arguments: Vec<Value> = behind.results(barrier).collect();
    let call = behind.add(Call::new(Arc::new(graph.clone())), &arguments, None);
    let call = call.expect("the graph takes its own parameters");
    for (i, value) in behind.results(call).collect::<Vec<_>>().into_iter().enumerate() {
        behind.add_output(value, graph.output_name(i));
    }
    behind
}

impl PartialEq for Call {
    fn eq(&self, other: &Call) -> bool {
        self.derivative.rest() == other.derivative.rest()
            && self.graphs().map(Arc::as_ptr).eq(other.graphs().map(Arc::as_ptr))
    }
}

impl Eq for Call {}

impl Hash for Call {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.derivative.rest().hash(state);
        self.graphs().for_each(|graph| Arc::as_ptr(graph).hash(state));
    }
}

/// The types of a graph's parameters.
fn parameters(graph: &Graph) -> Vec<Type> {
    graph.parameters().map(|p| graph.ty(p).clone()).collect()
}

/// The types of a graph's outputs.
fn outputs(graph: &Graph) -> Vec<Type> {
    graph.outputs().iter().map(|&v| graph.ty(v).clone()).collect()
}

fn floats(types: &[Type]) -> impl Iterator<Item = Type> + '_ {
    types.iter().filter(|ty| ty.dtype.is_float()).cloned()
}

/// Whether a graph of the derivative has the signature that it should.
fn signature(graph: &Graph, wanted: (Vec<Type>, &[Type]), role: &str) -> Result<(), InferError> {
    let list =
        |types: &[Type]| types.iter().map(|ty| ty.to_string()).collect::<Vec<_>>().join(", ");
    for (what, wanted, got) in
        [("takes", &wanted.0[..], parameters(graph)), ("returns", wanted.1, outputs(graph))]
    {
        if wanted != got {
            let (name, wanted, got) = (graph.name(), list(wanted), list(&got));
            let message = format!("the {role} @{name} {what} ({got}), wants ({wanted})");
            return Err(InferError::new("call", message));
        }
    }
    Ok(())
}

impl OpDef for Call {
    fn name(&self) -> &'static str {
        "call"
    }

    fn attrs(&self) -> Attrs {
        let mut attrs = Attrs::new();
        attrs.push("graph", Attr::Graph(self.graph.clone()));
        if matches!(self.derivative, Derivative::Stop) {
            attrs.push("derivative", Attr::Word("stop".into()));
        }
        if let Derivative::Checkpoint(policy) = self.derivative {
            attrs.push("checkpoint", Attr::Word(policy.name().into()));
        }
        if let Derivative::Backward { results, .. } = self.derivative {
            attrs = attrs.int("results", results);
        }
        for (name, graph) in self.derivative.graphs() {
            attrs.push(name, Attr::Graph(graph.clone()));
        }
        attrs
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        let parsed = |attrs: &mut Attrs| {
            let graph = attrs.take_graph("graph")?;
            let derivative = if attrs.has("jvp") {
                Derivative::Jvp(attrs.take_graph("jvp")?)
            } else if attrs.has("forward") {
                let forward = attrs.take_graph("forward")?;
                Derivative::Vjp { forward, backward: attrs.take_graph("backward")? }
            } else if attrs.has("backward") {
                let results = attrs.take_int("results")?;
                Derivative::Backward { results, backward: attrs.take_graph("backward")? }
            } else if attrs.has("checkpoint") {
                let word = attrs.take_word("checkpoint")?;
                let policy = Policy::ALL.into_iter().find(|policy| policy.name() == word);
                Derivative::Checkpoint(policy.ok_or(format!("no policy is called {word}"))?)
            } else if attrs.has("derivative") {
                match attrs.take_word("derivative")?.as_str() {
                    "stop" => Derivative::Stop,
                    other => return Err(format!("`derivative` is stop, got {other}")),
                }
            } else {
                Derivative::Callee
            };
            Ok(Call { graph, derivative })
        };
        (name == "call").then(|| parsed(attrs))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let (callee, wanted) = (self.graph.name(), self.graph.parameters());
        if operands.len() != wanted.len() {
            let (wanted, given) = (wanted.len(), operands.len());
            let message = format!("@{callee} wants {wanted} operands, got {given}");
            return Err(InferError::new(op, message));
        }
        for (i, (parameter, &given)) in wanted.zip(operands).enumerate() {
            let wanted = self.graph.ty(parameter);
            if wanted != given {
                let name = match self.graph.parameter_info(i).name.as_str() {
                    "" => String::new(),
                    name => format!(" (%{name})"),
                };
                let message = format!("@{callee} wants {wanted} as operand {i}{name}, got {given}");
                return Err(InferError::new(op, message));
            }
        }
        let (takes, gives) = (parameters(&self.graph), outputs(&self.graph));
        match &self.derivative {
            Derivative::Callee | Derivative::Stop | Derivative::Checkpoint(_) => {}
            Derivative::Jvp(jvp) => {
                let tangents: Vec<Type> = floats(&gives).collect();
                let wanted = takes.iter().cloned().chain(floats(&takes)).collect();
                signature(jvp, (wanted, &tangents), "forward rule")?;
            }
            Derivative::Vjp { forward, backward } => {
                let all = outputs(forward);
                let (results, residuals) = all.split_at(gives.len().min(all.len()));
                signature(forward, (takes.clone(), &[&gives, residuals].concat()), "forward part")?;
                let cotangents: Vec<Type> = floats(&takes).collect();
                let wanted = residuals.iter().cloned().chain(floats(results)).collect();
                signature(backward, (wanted, &cotangents), "backward part")?;
            }
            Derivative::Backward { results, backward } => {
                let Some((results, residuals)) = gives.split_at_checked(*results) else {
                    let message = format!("@{callee} has {} outputs, not {results}", gives.len());
                    return Err(InferError::new(op, message));
                };
                let cotangents: Vec<Type> = floats(&takes).collect();
                let wanted = residuals.iter().cloned().chain(floats(results)).collect();
                signature(backward, (wanted, &cotangents), "backward part")?;
            }
        }
        Ok(gives.into())
    }

    fn eval(&self, operands: &[&Literal], _results: &[Type]) -> Vec<Literal> {
        let arguments: Vec<Literal> = operands.iter().map(|&x| x.clone()).collect();
        eval(&self.graph, &arguments).expect("infer checked the arguments")
    }

    fn jvp(&self, rule: &mut Rule<'_>, tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        match &self.derivative {
            Derivative::Callee => unreachable!("transformations inline plain calls first"),
            Derivative::Stop => Ok(smallvec![None; rule.results.len()]),
            Derivative::Jvp(forward) => {
                let mut operands = rule.operands.to_vec();
                for (i, &tangent) in tangents.iter().enumerate() {
                    let x = rule.operands[i];
                    if rule.differentiable(x) {
                        operands.push(rule.or_zeros(tangent, x));
                    }
                }
                let call = rule.node(Call::new(forward.clone()), &operands);
                Ok(rule.of_floats(rule.results, call))
            }
            // The tangents' graph computes the callee again: merged with it where both are used.
            Derivative::Checkpoint(policy) => {
                let active: Vec<bool> =
                    rule.operands.iter().map(|&x| rule.differentiable(x)).collect();
                let outputs = self.graph.outputs().len();
                let forward = Arc::new(last_outputs(jvp(&self.graph, &active)?, outputs));
                let mut operands = rule.operands.to_vec();
                for (i, &tangent) in tangents.iter().enumerate() {
                    if active[i] {
                        operands.push(rule.or_zeros(tangent, rule.operands[i]));
                    }
                }
                let derivative = Derivative::Checkpoint(*policy);
                let call = rule.node(Call { graph: forward, derivative }, &operands);
                Ok(rule.of_floats(rule.results, call))
            }
            Derivative::Vjp { .. } | Derivative::Backward { .. } => Err(NoRule::new(
                "call",
                "has a custom reverse rule (custom_vjp) and no forward rule: use reverse mode, or \
                 give it a custom_jvp",
            )),
        }
    }

    fn vjp(&self, rule: &mut Rule<'_>, cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        let given = |rule: &mut Rule<'_>, results: usize| -> Vec<Value> {
            let floats = (0..results).filter(|&i| rule.differentiable(rule.results[i]));
            let floats: Vec<usize> = floats.collect();
            floats.into_iter().map(|i| rule.or_zeros(cotangents[i], rule.results[i])).collect()
        };
        match &self.derivative {
            Derivative::Callee => unreachable!("transformations inline plain calls first"),
            Derivative::Stop => Ok(smallvec![None; rule.operands.len()]),
            Derivative::Jvp(forward) => {
                // Linear in the tangents: its reverse is the same wherever they are.
                let count = rule.operands.len();
                let tangents = forward.parameters().len() - count;
                let active: Vec<bool> = (0..count + tangents).map(|i| i >= count).collect();
                let seeded = vec![true; forward.outputs().len()];
                let outputs = forward.outputs().len();
                let back = Arc::new(last_outputs(vjp(forward, &active, &seeded)?, outputs));
                let mut operands = rule.operands.to_vec();
                for &x in rule.operands {
                    if rule.differentiable(x) {
                        operands.push(rule.zeros(x));
                    }
                }
                operands.extend(given(rule, rule.results.len()));
                let call = rule.node(Call::new(back), &operands);
                Ok(rule.of_floats(rule.operands, call))
            }
            Derivative::Vjp { .. } | Derivative::Checkpoint(_) => {
                unreachable!("reverse mode calls the forward part first")
            }
            Derivative::Backward { results, backward } => {
                let residuals = rule.results[*results..].iter().copied();
                let cotangents = given(rule, *results);
                let operands: Vec<Value> = residuals.chain(cotangents).collect();
                let call = rule.node(Call::new(backward.clone()), &operands);
                Ok(rule.of_floats(rule.operands, call))
            }
        }
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        let over = |graph: &Arc<Graph>| -> Result<Arc<Graph>, NoRule> {
            let batched = vec![true; graph.parameters().len()];
            Ok(Arc::new(vmap(graph, &batched, batch.size)?))
        };
        let derivative = match &self.derivative {
            Derivative::Callee => Derivative::Callee,
            Derivative::Stop => Derivative::Stop,
            Derivative::Checkpoint(policy) => Derivative::Checkpoint(*policy),
            Derivative::Jvp(jvp) => Derivative::Jvp(over(jvp)?),
            Derivative::Vjp { forward, backward } => {
                Derivative::Vjp { forward: over(forward)?, backward: over(backward)? }
            }
            Derivative::Backward { results, backward } => {
                Derivative::Backward { results: *results, backward: over(backward)? }
            }
        };
        let operands = batch.all(rule);
        let call = rule.node(Call { graph: over(&self.graph)?, derivative }, &operands);
        Ok((0..self.graph.outputs().len() as u32)
            .map(|result| Value { node: call, result })
            .collect())
    }

    fn share(&self) -> Share {
        Share::Never
    }

    fn lower(&self) -> Form {
        Form::Call(self.graph.clone())
    }

    fn samples() -> Vec<Sample> {
        // (x, y) -> (x + y, x, (x + y) * x): a value that is used twice, an operand that
        // is returned as it came.
        let callee = |ty: &Type| -> Result<Graph, InferError> {
            let mut graph = Graph::new("callee");
            let x = graph.add_parameter(ty.clone(), ParameterInfo::default());
            let y = graph.add_parameter(ty.clone(), ParameterInfo::default());
            let sum = graph.add1(Binary::Add, &[x, y], None)?;
            let product = graph.add1(Binary::Mul, &[sum, x], None)?;
            for output in [sum, x, product] {
                graph.add_output(output, "");
            }
            Ok(graph)
        };
        let callee = |ty: &Type| Arc::new(callee(ty).expect("every type adds and multiplies"));
        let types = sample::typed_tails().chain(sample::shaped(DType::F32));
        let mut samples: Vec<Sample> =
            types.map(|ty| sample::alike(Call::new(callee(&ty)), 2, ty, Domain::Small)).collect();
        // A call inside a call, and a callee without parameters or results.
        let ty = Type::new(DType::F32, [9]);
        let mut outer = Graph::new("outer");
        let x = outer.add_parameter(ty.clone(), ParameterInfo::default());
        let call = outer.add(Call::new(callee(&ty)), &[x, x], None);
        let call = call.expect("the parameter has the callee's type");
        let results: Vec<Value> = outer.results(call).collect();
        outer.add_output(results[2], "");
        outer.add_output(results[0], "");
        samples.push(sample::alike(Call::new(Arc::new(outer)), 1, ty.clone(), Domain::Small));
        let empty = Call::new(Arc::new(Graph::new("empty")));
        samples.push(Sample { op: empty.into(), operands: vec![], domain: Domain::Any });
        // The same function with its derivative given in each way.
        let graph = callee(&ty.with_dtype(DType::F64));
        let ty = ty.with_dtype(DType::F64);
        let forward = jvp(&graph, &[true, true]).expect("sums and products have rules");
        let joint = vjp(&graph, &[true, true], &[true; 3]).expect("sums and products have rules");
        let parts = split(&joint, 2, 3, &|_| true);
        let (forward, backward) = (last_outputs(forward, 3), Arc::new(parts.backward));
        let derivatives = [
            Derivative::Jvp(Arc::new(forward)),
            Derivative::Vjp { forward: Arc::new(parts.forward), backward },
            Derivative::Checkpoint(Policy::Nothing),
            Derivative::Checkpoint(Policy::Everything),
        ];
        for derivative in derivatives {
            let call = Call { graph: graph.clone(), derivative };
            samples.push(sample::alike(call, 2, ty.clone(), Domain::Small));
        }
        samples
    }
}

/// The graph without its first outputs.
fn last_outputs(mut graph: Graph, first: usize) -> Graph {
    graph.drop_outputs(first);
    graph
}
