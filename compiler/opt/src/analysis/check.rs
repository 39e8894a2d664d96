//! Checks a [`Fusion`] against what [`crate::group`] promises.
//!
//! Written from the promises alone: it shares no code with the pass that decides the
//! groups. Where fusion follows values forward, from reductions to roots, this
//! follows indices backward, from roots to reductions, as lowering does.

use hashbrown::HashSet;
use kiln_ir::form::{Generate, View};
use kiln_ir::{Form, Graph, NodeId, Shape, Value};
use smallvec::SmallVec;

use crate::group::{Fusion, Group, Kind, is_position, splat};

/// Whether every group keeps its promises and together they compute the outputs.
///
/// # Errors
/// With the first broken promise, in words.
pub fn check(fusion: &Fusion, graph: &Graph) -> Result<(), String> {
    let mut position = vec![usize::MAX; graph.bound()];
    for (i, node) in graph.order().into_iter().enumerate() {
        position[node.index()] = i;
    }
    let mut made: HashSet<Value> = HashSet::new();
    for (g, group) in fusion.groups.iter().enumerate() {
        let fail = |message: String| format!("group {g}: {message}");
        let parts = match &group.kind {
            Kind::Together { parts } => {
                together(group, parts).map_err(fail)?;
                parts.as_slice()
            }
            _ => std::slice::from_ref(group),
        };
        for part in parts {
            let checker = Checker { graph, group: part, position: &position, made: &made };
            checker.check().map_err(fail)?;
        }
        for &root in &group.roots {
            if !made.insert(root) {
                return Err(fail(format!("{} is made twice", name(graph, root))));
            }
        }
    }
    for &output in graph.outputs() {
        let given = matches!(
            graph.op(output.node).lower(),
            Form::Parameter | Form::Generate(Generate::Constant(_))
        );
        if !given && !made.contains(&output) {
            return Err(format!("no group makes the output {}", name(graph, output)));
        }
    }
    let read: HashSet<Value> = fusion.groups.iter().flat_map(|g| g.inputs(graph)).collect();
    let returned: HashSet<Value> = graph.outputs().iter().copied().collect();
    for (g, group) in fusion.groups.iter().enumerate() {
        let unread = |r: &&Value| !read.contains(*r) && !returned.contains(*r);
        if let Some(&root) = group.roots.iter().find(unread) {
            return Err(format!("group {g}: nobody reads its root {}", name(graph, root)));
        }
    }
    Ok(())
}

fn name(graph: &Graph, value: Value) -> String {
    format!("`{}` (node {})", graph.op(value.node).name(), value.node.index())
}

fn together(group: &Group, parts: &[Group]) -> Result<(), String> {
    if parts.len() < 2 {
        return Err("fewer than two parts".into());
    }
    if parts
        .iter()
        .any(|p| !matches!(p.kind, Kind::Map { .. } | Kind::Rows { .. } | Kind::Fold { .. }))
    {
        return Err("a part is no map, no row program and no fold".into());
    }
    let members: Vec<NodeId> = parts.iter().flat_map(|p| p.members.clone()).collect();
    let roots: Vec<Value> = parts.iter().flat_map(|p| p.roots.clone()).collect();
    if group.members != members || group.roots != roots {
        return Err("its members and roots are not those of its parts".into());
    }
    // That parts do not read each other follows: their roots count as made only
    // after the group.
    Ok(())
}

struct Checker<'a> {
    graph: &'a Graph,
    group: &'a Group,
    position: &'a [usize],
    /// Roots of earlier groups.
    made: &'a HashSet<Value>,
}

impl Checker<'_> {
    fn check(&self) -> Result<(), String> {
        let graph = self.graph;
        let members: HashSet<NodeId> = self.group.members.iter().copied().collect();
        let places: Vec<usize> =
            self.group.members.iter().map(|m| self.position[m.index()]).collect();
        if !places.is_sorted_by(|a, b| a < b) {
            return Err("members are not in topological order, each once".into());
        }
        if self.group.roots.is_empty() {
            return Err("it has no roots".into());
        }
        for &root in &self.group.roots {
            if !members.contains(&root.node) {
                return Err(format!("its root {} is no member", name(graph, root)));
            }
        }
        for &m in &self.group.members {
            if let Form::Parameter | Form::Call(_) | Form::Generate(Generate::Constant(_)) =
                graph.op(m).lower()
            {
                return Err(format!("`{}` is a member", graph.op(m).name()));
            }
            for operand in graph.operands(m) {
                if !members.contains(&operand.node) && !self.available(operand) {
                    return Err(format!(
                        "`{}` reads {}, which is neither a member nor in memory",
                        graph.op(m).name(),
                        name(graph, operand)
                    ));
                }
            }
        }
        match &self.group.kind {
            Kind::Alias => self.alias(),
            Kind::Map { space } => self.map(space),
            Kind::Rows { space, axes } => self.rows(&members, space, axes),
            Kind::Contraction { dot } => {
                let fits = |form: &Form| matches!(form, Form::Contraction(_));
                self.one_heavy(&members, *dot, fits, "contraction")
            }
            Kind::Fold { node } => {
                let fits = |form: &Form| {
                    matches!(form, Form::Fold(..) | Form::Window(..) | Form::Cumulative(..))
                };
                self.one_heavy(&members, *node, fits, "fold")
            }
            Kind::Update { node } => self.update(&members, *node),
            Kind::Sort { node } => self.sort(*node),
            Kind::Together { .. } => Err("a part of a launch has parts".into()),
        }
    }

    fn available(&self, value: Value) -> bool {
        match self.graph.op(value.node).lower() {
            Form::Parameter | Form::Generate(Generate::Constant(_)) => true,
            _ => self.made.contains(&value),
        }
    }

    fn pointwise(&self, node: NodeId) -> bool {
        match self.graph.op(node).lower() {
            Form::Map(_)
            | Form::View(_)
            | Form::Generate(_)
            | Form::DynamicSlice
            | Form::Gather(_) => true,
            Form::Reduce(_, axes) => axes.is_empty(),
            _ => false,
        }
    }

    fn only_pointwise_but(&self, heavy: NodeId) -> Result<(), String> {
        match self.group.members.iter().find(|&&m| m != heavy && !self.pointwise(m)) {
            Some(&m) => Err(format!("`{}` is not pointwise", self.graph.op(m).name())),
            None => Ok(()),
        }
    }

    fn root_shapes(&self, shape: &Shape) -> Result<(), String> {
        match self.group.roots.iter().find(|&&r| self.graph.ty(r).shape != *shape) {
            Some(&r) => Err(format!("its root {} is not of shape {shape}", name(self.graph, r))),
            None => Ok(()),
        }
    }

    fn alias(&self) -> Result<(), String> {
        let [member] = self.group.members[..] else {
            return Err("an alias has one member".into());
        };
        if matches!(self.graph.op(member).lower(), Form::Barrier) {
            return Ok(());
        }
        let reshape = matches!(self.graph.op(member).lower(), Form::View(View::Reshape));
        if !reshape || splat(self.graph, self.graph.operands(member)[0]).is_some() {
            return Err("an alias is not the reshape of an input".into());
        }
        Ok(())
    }

    fn map(&self, space: &Shape) -> Result<(), String> {
        match self.group.members.iter().find(|&&m| !self.pointwise(m)) {
            Some(&m) => Err(format!("`{}` is not pointwise", self.graph.op(m).name())),
            None => self.root_shapes(space),
        }
    }

    /// One node that loops, what feeds it, and maps that follow it.
    fn one_heavy(
        &self,
        members: &HashSet<NodeId>,
        heavy: NodeId,
        fits: impl Fn(&Form) -> bool,
        what: &str,
    ) -> Result<(), String> {
        let graph = self.graph;
        if !members.contains(&heavy) || !fits(&graph.op(heavy).lower()) {
            return Err(format!("its {what} is no member"));
        }
        self.only_pointwise_but(heavy)?;
        let shape = graph.ty(Value { node: heavy, result: 0 }).shape.clone();
        self.root_shapes(&shape)?;
        let mut after: HashSet<NodeId> = HashSet::from([heavy]);
        for &m in &self.group.members {
            if graph.operands(m).iter().any(|o| after.contains(&o.node)) {
                if !matches!(graph.op(m).lower(), Form::Map(_)) {
                    return Err(format!("`{}` follows the {what}", graph.op(m).name()));
                }
                after.insert(m);
            }
        }
        match self.group.roots.iter().find(|r| !after.contains(&r.node)) {
            Some(&r) => Err(format!("{} does not follow the {what}", name(graph, r))),
            None => Ok(()),
        }
    }

    fn update(&self, members: &HashSet<NodeId>, node: NodeId) -> Result<(), String> {
        let graph = self.graph;
        if !members.contains(&node) || !graph.op(node).lower().overwrites() {
            return Err("its update is no member".into());
        }
        self.only_pointwise_but(node)?;
        if self.group.roots != [Value { node, result: 0 }] {
            return Err("the update is not the one root".into());
        }
        let base = graph.operands(node)[0];
        if members.contains(&base.node) {
            return Err("what is updated is computed in the same group".into());
        }
        Ok(())
    }

    fn sort(&self, node: NodeId) -> Result<(), String> {
        let graph = self.graph;
        if !matches!(graph.op(node).lower(), Form::Sort { .. } | Form::TopK { .. }) {
            return Err("what it sorts is no sort".into());
        }
        let operands = graph.operands(node);
        for &m in self.group.members.iter().filter(|&&m| m != node) {
            let position = |(k, o): (usize, &Value)| o.node != m || is_position(graph, node, k);
            if !operands.iter().enumerate().all(position) {
                return Err(format!("`{}` is part of a sort", graph.op(m).name()));
            }
        }
        match self.group.roots.iter().find(|r| r.node != node) {
            Some(&r) => Err(format!("{} is no result of the sort", name(graph, r))),
            None => Ok(()),
        }
    }

    fn rows(&self, members: &HashSet<NodeId>, space: &Shape, axes: &[usize]) -> Result<(), String> {
        let graph = self.graph;
        if !axes.is_sorted_by(|a, b| a < b) || axes.iter().any(|&a| a >= space.rank()) {
            return Err("its axes are not increasing axes of the space".into());
        }
        // Index maps: which axis of the space each index is.
        let wide: Map = (0..space.rank()).map(|k| index(space[k], Ix::Axis(k))).collect();
        let at = |k: usize| if axes.contains(&k) { Ix::Zero } else { wide[k] };
        let ones: Map = (0..space.rank()).map(at).collect();
        let row: Map = (0..space.rank()).filter(|k| !axes.contains(k)).map(|k| wide[k]).collect();
        let extent = |k: usize| if axes.contains(&k) { 1 } else { space[k] };
        let ones_shape: Shape = (0..space.rank()).map(extent).collect();
        let mut stack: Vec<(Value, Map)> = Vec::new();
        for &root in &self.group.roots {
            let shape = &graph.ty(root).shape;
            let map = if shape == space {
                &wide
            } else if *shape == space.without(axes) {
                &row
            } else if *shape == ones_shape {
                &ones
            } else {
                return Err(format!("its root {} has another shape", name(graph, root)));
            };
            stack.push((root, map.clone()));
        }
        let mut seen: HashSet<(Value, Map)> = HashSet::new();
        while let Some((value, map)) = stack.pop() {
            if !members.contains(&value.node) || !seen.insert((value, map.clone())) {
                continue;
            }
            let operands = graph.operands(value.node);
            let reduced = match graph.op(value.node).lower() {
                Form::Reduce(_, axes) if axes.is_empty() => {
                    stack.push((operands[0], map));
                    continue;
                }
                Form::Reduce(_, axes) => axes,
                Form::ArgReduce(_, axis) => vec![axis],
                Form::Contraction(_)
                | Form::Update
                | Form::Scatter(_)
                | Form::Fold(..)
                | Form::Window(..)
                | Form::Cumulative(..)
                | Form::Sort { .. }
                | Form::TopK { .. }
                | Form::Barrier => {
                    return Err(format!("{} is part of a row program", name(graph, value)));
                }
                form => {
                    for (operand, map) in read(graph, value, &form, &operands, &map) {
                        stack.push((operand, map));
                    }
                    continue;
                }
            };
            if reduced != axes || graph.ty(operands[0]).shape != *space {
                return Err(format!("{} reduces something else", name(graph, value)));
            }
            if map != row {
                return Err(format!("{} is read at another row", name(graph, value)));
            }
            stack.push((operands[0], wide.clone()));
        }
        Ok(())
    }
}

/// One index of a value, as far as rows go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Ix {
    /// The index of the space along the axis.
    Axis(usize),
    /// Always 0.
    Zero,
    /// Anything else.
    Other,
}

type Map = SmallVec<[Ix; 6]>;

fn index(extent: usize, ix: Ix) -> Ix {
    if extent == 1 { Ix::Zero } else { ix }
}

/// The operands of a pointwise node and where they are read.
fn read(
    graph: &Graph,
    value: Value,
    form: &Form,
    operands: &[Value],
    map: &Map,
) -> Vec<(Value, Map)> {
    let elsewhere = |v: Value| -> (Value, Map) {
        (v, graph.ty(v).shape.iter().map(|&d| index(d, Ix::Other)).collect())
    };
    match form {
        Form::Map(_) => operands.iter().map(|&o| (o, map.clone())).collect(),
        Form::View(View::Broadcast { axes }) => {
            let shape = &graph.ty(operands[0]).shape;
            vec![(operands[0], shape.iter().zip(axes).map(|(&d, &a)| index(d, map[a])).collect())]
        }
        Form::View(View::Transpose { permutation }) => {
            let mut from: Map = SmallVec::from_elem(Ix::Zero, map.len());
            for (&ix, &axis) in map.iter().zip(permutation) {
                from[axis] = ix;
            }
            vec![(operands[0], from)]
        }
        Form::View(View::Reshape) => {
            let (from, to) = (&graph.ty(operands[0]).shape, &graph.ty(value).shape);
            let long =
                |s: &Shape| -> Vec<usize> { s.iter().copied().filter(|&d| d != 1).collect() };
            if long(from) != long(to) {
                return vec![elsewhere(operands[0])];
            }
            let mut kept = to.iter().zip(map).filter(|(d, _)| **d != 1).map(|(_, ix)| *ix);
            let from = from.iter().map(|&d| match d {
                1 => Ix::Zero,
                _ => kept.next().expect("as many axes"),
            });
            vec![(operands[0], from.collect())]
        }
        _ => operands.iter().map(|&o| elsewhere(o)).collect(),
    }
}
