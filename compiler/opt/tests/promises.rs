//! The checker of fusions finds broken promises, and sharing is refused where a
//! buffer would be overwritten too early.

mod support;

use kiln_ir::op::{DynamicUpdateSlice, Unary};
use kiln_ir::{DType, Graph, NodeId, Type};
use kiln_opt::check::check;
use kiln_opt::share::may_share;
use kiln_opt::{Fusion, Group, Kind, Optimized, Options};
use support::Builder;

/// Softmax, and the exponential of it as another group.
fn two_groups() -> (Graph, Fusion) {
    let mut b = Builder::new("two");
    let x = b.parameter("x", [8, 8]);
    let y = b.softmax(x);
    let t = b.transpose(y, &[1, 0]);
    let z = b.softmax(t);
    b.output(z);
    let (Optimized { graph, fusion, .. }, _) = b.optimize();
    assert_eq!(fusion.groups.len(), 2);
    (graph, fusion)
}

#[track_caller]
fn broken(graph: &Graph, fusion: &Fusion, wanted: &str) {
    let message = check(fusion, graph).expect_err("a broken promise");
    assert!(message.contains(wanted), "{message}");
}

#[test]
fn a_sound_fusion_passes() {
    let (graph, fusion) = two_groups();
    check(&fusion, &graph).expect("sound");
}

#[test]
fn groups_come_after_what_they_read() {
    let (graph, mut fusion) = two_groups();
    fusion.groups.swap(0, 1);
    broken(&graph, &fusion, "neither a member nor in memory");
}

#[test]
fn outputs_are_made() {
    let (graph, mut fusion) = two_groups();
    fusion.groups.pop();
    broken(&graph, &fusion, "no group makes the output");
}

#[test]
fn values_are_made_once() {
    let (graph, mut fusion) = two_groups();
    let copy = fusion.groups[0].clone();
    fusion.groups.insert(1, copy);
    broken(&graph, &fusion, "made twice");
}

#[test]
fn roots_are_read() {
    let (graph, mut fusion) = two_groups();
    let group = &mut fusion.groups[0];
    let reduction = group.members.iter().find(|&&m| graph.op(m).name() == "reduce_max");
    let node = *reduction.expect("softmax has a maximum");
    group.roots.insert(0, kiln_ir::Value { node, result: 0 });
    broken(&graph, &fusion, "nobody reads its root");
}

#[test]
fn members_are_in_order() {
    let (graph, mut fusion) = two_groups();
    fusion.groups[0].members.reverse();
    broken(&graph, &fusion, "topological order");
}

#[test]
fn roots_are_members() {
    let (graph, mut fusion) = two_groups();
    let root = fusion.groups[1].roots[0];
    fusion.groups[0].roots = vec![root];
    broken(&graph, &fusion, "is no member");
}

#[test]
fn parameters_and_constants_are_no_members() {
    let (graph, mut fusion) = two_groups();
    let x = graph.parameters().next().expect("one parameter").node;
    fusion.groups[0].members.insert(0, x);
    broken(&graph, &fusion, "`parameter` is a member");
}

#[test]
fn a_map_has_no_reductions() {
    let (graph, mut fusion) = two_groups();
    fusion.groups[0].kind = Kind::Map { space: [8, 8].into() };
    broken(&graph, &fusion, "is not pointwise");
}

#[test]
fn roots_have_the_shape() {
    let (graph, mut fusion) = two_groups();
    fusion.groups[0].kind = Kind::Rows { space: [8, 4].into(), axes: vec![1] };
    broken(&graph, &fusion, "has another shape");
}

/// A square program in which the sum of row i is read at row j: every shape fits.
#[test]
fn rows_are_read_at_their_own_row() {
    let mut b = Builder::new("other_rows");
    let x = b.parameter("x", [8, 8]);
    let s = b.sum(x, &[1]);
    let s = b.spread(s, x, &[1]);
    let y = b.sub(x, s);
    b.output(y);
    let (Optimized { graph, fusion, .. }, m) = b.optimize();
    // Fusion knows that this is no row program.
    assert_eq!(m.kernels, 2);
    check(&fusion, &graph).expect("sound");
    let mut members: Vec<NodeId> = fusion.groups.iter().flat_map(|g| g.members.clone()).collect();
    members.dedup();
    let whole = Group {
        members,
        roots: graph.outputs().to_vec(),
        kind: Kind::Rows { space: [8, 8].into(), axes: vec![1] },
    };
    broken(&graph, &Fusion { groups: vec![whole] }, "is read at another row");
}

#[test]
fn what_follows_a_product_is_a_map() {
    let mut b = Builder::new("product");
    let x = b.parameter("x", [8, 8]);
    let h = b.matmul(x, x);
    let t = b.transpose(h, &[1, 0]);
    b.output(t);
    let (Optimized { graph, fusion, .. }, m) = b.optimize();
    assert_eq!(m.kernels, 2);
    let members = fusion.groups.iter().flat_map(|g| g.members.clone()).collect();
    let kind = Kind::Contraction { dot: h_node(&graph) };
    let whole = Group { members, roots: graph.outputs().to_vec(), kind };
    broken(&graph, &Fusion { groups: vec![whole] }, "follows the contraction");
}

fn h_node(graph: &Graph) -> NodeId {
    *graph.order().iter().find(|&&n| graph.op(n).name() == "dot_general").expect("a product")
}

#[test]
fn parts_of_a_launch_do_not_read_each_other() {
    let (graph, fusion) = two_groups();
    let parts = fusion.groups;
    let whole = Group {
        members: parts.iter().flat_map(|p| p.members.clone()).collect(),
        roots: parts.iter().flat_map(|p| p.roots.clone()).collect(),
        kind: Kind::Together { parts },
    };
    broken(&graph, &Fusion { groups: vec![whole] }, "neither a member nor in memory");
}

// --- sharing ------------------------------------------------------------------

/// The one group of a program, whether its root may take the buffer of its first
/// parameter, and of its second.
fn shares(b: Builder) -> Vec<bool> {
    let (Optimized { graph, fusion, .. }, _) = b.optimize();
    let group = fusion.groups.last().expect("a group");
    let root = *group.roots.last().expect("a root");
    graph.parameters().map(|p| may_share(&graph, group, p, root)).collect()
}

#[test]
fn a_map_overwrites_what_it_reads_in_place() {
    let mut b = Builder::new("in_place");
    let x = b.parameter("x", [64]);
    let y = b.parameter("y", [64]);
    let s = b.parameter("s", []);
    let s = b.spread(s, x, &[]);
    let z = b.add(x, y);
    let z = b.mul(z, s);
    b.output(z);
    assert_eq!(shares(b), [true, true, false]);
}

/// K02: element i of the result needs elements i and n − 1 − i.
#[test]
fn a_map_that_also_reads_elsewhere_does_not() {
    let mut b = Builder::new("reversed");
    let x = b.parameter("x", [64]);
    let r = b.op(kiln_ir::op::Reverse { axes: vec![0] }, &[x]);
    let y = b.add(x, r);
    b.output(y);
    assert_eq!(shares(b), [false]);
}

/// Every root is computed by the same unit of work, so every reader counts.
#[test]
fn another_root_that_reads_elsewhere_forbids_it_too() {
    let mut b = Builder::new("two_roots");
    let x = b.parameter("x", [8, 8]);
    let t = b.transpose(x, &[1, 0]);
    let t = b.exp(t);
    let y = b.exp(x);
    b.output(t);
    b.output(y);
    assert_eq!(shares(b), [false]);
}

#[test]
fn a_row_program_overwrites_its_rows() {
    let mut b = Builder::new("softmax");
    let x = b.parameter("x", [64, 64]);
    let y = b.softmax(x);
    b.output(y);
    assert_eq!(shares(b), [true]);
}

/// The weight is read by every row.
#[test]
fn a_row_program_does_not_overwrite_what_rows_share() {
    let mut b = Builder::new("square");
    let x = b.parameter("x", [64, 64]);
    let w = b.parameter("w", [64]);
    let w = b.spread(w, x, &[1]);
    let y = b.mul(x, w);
    let s = b.sum(y, &[1]);
    b.output(s);
    assert_eq!(shares(b), [false, false]);
}

#[test]
fn a_product_overwrites_what_joins_its_result_only() {
    let mut b = Builder::new("product");
    let x = b.parameter("x", [64, 64]);
    let w = b.parameter("w", [64, 64]);
    let r = b.parameter("r", [64, 64]);
    let h = b.matmul(x, w);
    let y = b.add(h, r);
    b.output(y);
    assert_eq!(shares(b), [false, false, true]);
}

#[test]
fn an_operand_that_also_joins_the_result_is_kept() {
    let mut b = Builder::new("residual");
    let x = b.parameter("x", [64, 64]);
    let w = b.parameter("w", [64, 64]);
    let h = b.matmul(x, w);
    let y = b.add(h, x);
    b.output(y);
    assert_eq!(shares(b), [false, false]);
}

/// K01: the update is computed from other elements of what is updated.
#[test]
fn an_update_that_reads_its_base_is_no_plain_overwrite() {
    let run = |reads_base: bool| {
        let mut b = Builder::new("update");
        let x = b.parameter("x", [6, 2]);
        let u = b.parameter("u", [5, 2]);
        let i = b.typed("i", Type::scalar(DType::I32));
        let u = if reads_base { b.slice(x, &[0, 0], &[5, 2]) } else { u };
        let u = b.unary(Unary::Neg, u);
        let y = b.op(DynamicUpdateSlice, &[x, u, i, i]);
        b.output(y);
        shares(b)[0]
    };
    assert!(run(false));
    assert!(!run(true));
}

#[test]
fn elements_of_another_size_do_not_fit() {
    let mut b = Builder::new("narrow");
    let x = b.parameter("x", [64]);
    let y = b.convert(x, DType::F16);
    b.output(y);
    assert_eq!(shares(b), [false]);
}

#[test]
fn a_launch_of_parts_shares_within_a_part() {
    let mut b = Builder::new("together");
    let x = b.donated("x", [64]);
    let y = b.donated("y", [32]);
    let (p, q) = (b.exp(x), b.exp(y));
    b.output(p);
    b.output(q);
    let (Optimized { graph, fusion, donations, .. }, m) = b.optimize();
    assert_eq!((m.kernels, m.togethers), (1, 1));
    assert_eq!(donations, [(0, 0), (1, 1)]);
    let group = &fusion.groups[0];
    for (o, p) in donations {
        let parameter = graph.parameters().nth(p).expect("it is there");
        assert!(may_share(&graph, group, parameter, graph.outputs()[o]));
    }
}

/// A donated buffer that a small group reads and another could overwrite: they are
/// two launches, the reader first.
#[test]
fn a_reader_of_a_donated_buffer_is_launched_before_its_overwriting() {
    let mut b = Builder::new("reader");
    let x = b.donated("x", [64]);
    let other = b.parameter("other", [32]);
    let y = b.exp(x);
    let part = b.slice(x, &[16], &[48]);
    let z = b.mul(part, other);
    b.output(y);
    b.output(z);
    let (_, m) = b.optimize();
    assert_eq!((m.kernels, m.togethers), (2, 0));
}

// --- options ------------------------------------------------------------------

#[test]
fn unknown_passes_are_refused() {
    let run = |options: &Options| {
        let mut b = Builder::new("options");
        let x = b.parameter("x", [4]);
        b.output(x);
        kiln_opt::optimize(b.graph, options).err().map(|e| e.to_string())
    };
    let skip = |name: &str| Options { skip: vec![name.into()], ..Options::default() };
    assert_eq!(run(&skip("cse")), None);
    assert_eq!(run(&skip("csee")).as_deref(), Some("there is no pass called `csee`"));
    assert_eq!(run(&skip("fuse")).as_deref(), Some("pass `fuse` cannot be left out"));
    let only = Options { only: Some("dce".into()), ..Options::default() };
    assert_eq!(run(&only), None);
}
