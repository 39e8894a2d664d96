//! Gathers and scatters: what `infer` refuses and why, and what the text keeps.

mod common;

use common::ty;
use kiln_ir::op::{Gather, GatherDims, GatherMode, Scatter, ScatterDims, ScatterKind, ScatterMode};
use kiln_ir::{Graph, OpDef, Type};

fn rows() -> GatherDims {
    GatherDims {
        offset_dims: vec![1],
        collapsed_slice_dims: vec![0],
        start_index_map: vec![0],
        index_vector_dim: 1,
        ..GatherDims::default()
    }
}

fn gather(
    dims: GatherDims,
    sizes: &[usize],
    mode: GatherMode,
    operands: &[&str],
) -> Result<Type, String> {
    let op = Gather {
        dims,
        slice_sizes: sizes.to_vec(),
        mode,
        unique_indices: false,
        indices_are_sorted: false,
    };
    let types: Vec<Type> = operands.iter().map(|t| ty(t)).collect();
    let types: Vec<&Type> = types.iter().collect();
    op.infer(&types).map(|mut t| t.remove(0)).map_err(|e| e.to_string())
}

fn scatter(
    kind: ScatterKind,
    mode: ScatterMode,
    dims: GatherDims,
    operands: &[&str],
) -> Result<Type, String> {
    let dims = ScatterDims::of_gather(&dims);
    let op = Scatter { kind, dims, mode, unique_indices: false, indices_are_sorted: false };
    let types: Vec<Type> = operands.iter().map(|t| ty(t)).collect();
    let types: Vec<&Type> = types.iter().collect();
    op.infer(&types).map(|mut t| t.remove(0)).map_err(|e| e.to_string())
}

#[track_caller]
fn refused(result: Result<Type, String>, message: &str) {
    assert_eq!(result.unwrap_err(), message);
}

#[test]
fn a_gather_says_what_does_not_fit() {
    let x = &["f32[9,4]", "i32[7]"];
    let clip = GatherMode::Clip;
    assert_eq!(gather(rows(), &[1, 4], clip, x), Ok(ty("f32[7,4]")));
    assert_eq!(gather(rows(), &[1, 3], clip, x), Ok(ty("f32[7,3]")));
    refused(gather(rows(), &[1, 5], clip, x), "gather: a window has size 5, f32[9,4] axis 1 is 4");
    refused(
        gather(rows(), &[1], clip, x),
        "gather: wants 2 `slice_sizes` values for f32[9,4], got 1",
    );
    refused(gather(rows(), &[2, 4], clip, x), "gather: a window has size 2 along axis 0, wants 1");
    refused(
        gather(rows(), &[1, 4], clip, &["f32[9,4]", "f32[7]"]),
        "gather: wants an integer, got f32[7]",
    );
    refused(gather(rows(), &[1, 4], GatherMode::Fill, x), "gather: wants 3 operands, got 2");
    refused(
        gather(rows(), &[1, 4], GatherMode::Fill, &["f32[9,4]", "i32[7]", "f64[]"]),
        "gather: wants a rank-0 f32 to fill with, got f64[]",
    );
    let vectors = GatherDims { index_vector_dim: 0, ..rows() };
    refused(
        gather(vectors, &[1, 4], clip, x),
        "gather: start_index_map has 1 axes, index vectors of i32[7] along axis 0 have 7",
    );
    let far = GatherDims { index_vector_dim: 2, ..rows() };
    refused(gather(far, &[1, 4], clip, x), "gather: index_vector_dim 2 is out of range for i32[7]");
    let twice = GatherDims { start_index_map: vec![0, 0], ..rows() };
    refused(
        gather(twice, &[1, 4], clip, &["f32[9,4]", "i32[7,2]"]),
        "gather: axis 0 in start_index_map is taken already",
    );
    let offset = GatherDims { offset_dims: vec![2], ..rows() };
    refused(
        gather(offset, &[1, 4], clip, x),
        "gather: wants increasing axes of a rank-2 result as offset_dims, got [2]",
    );
    let few = GatherDims { offset_dims: vec![], ..rows() };
    refused(
        gather(few, &[1, 4], clip, x),
        "gather: offset_dims has 0 axes, windows of f32[9,4] have 1",
    );
    let batching = GatherDims {
        operand_batching_dims: vec![1],
        start_indices_batching_dims: vec![1],
        offset_dims: vec![],
        index_vector_dim: 2,
        ..rows()
    };
    assert_eq!(
        gather(batching.clone(), &[1, 1], clip, &["f32[9,4]", "i32[7,4]"]),
        Ok(ty("f32[7,4]"))
    );
    refused(
        gather(batching, &[1, 1], clip, &["f32[9,4]", "i32[7,5]"]),
        "gather: batching axes differ in length: f32[9,4] axis 1 is 4, i32[7,5] axis 1 is 5",
    );
}

#[test]
fn a_scatter_says_what_does_not_fit() {
    let (add, drop, clip) = (ScatterKind::Add, ScatterMode::Drop, ScatterMode::Clip);
    let x = &["f32[9,4]", "i32[7]", "f32[7,4]"];
    assert_eq!(scatter(add, drop, rows(), x), Ok(ty("f32[9,4]")));
    refused(
        scatter(add, drop, rows(), &["f32[9,4]", "i32[7]", "f32[6,4]"]),
        "scatter_add: f32[9,4] at i32[7] wants updates [7,4], got f32[6,4]",
    );
    refused(
        scatter(add, drop, rows(), &["f32[9,4]", "i32[7]", "f64[7,4]"]),
        "scatter_add: operand f32[9,4] and updates f64[7,4] differ in element type",
    );
    refused(
        scatter(add, drop, rows(), &["f32[9,4]", "i32[7]", "f32[7,5]"]),
        "scatter_add: a window has size 5, f32[9,4] axis 1 is 4",
    );
    refused(
        scatter(add, drop, rows(), &["f32[9,4]", "i32[7]", "f32[]"]),
        "scatter_add: update_window_dims [1] are out of range for f32[]",
    );
    refused(
        scatter(add, drop, rows(), &["bf16[9,4]", "i32[7]", "bf16[7,4]"]),
        "scatter_add: combines no bf16: convert to f32, and the result back",
    );
    refused(
        scatter(ScatterKind::Or, drop, rows(), x),
        "scatter_or: wants an integer or bool, got f32[9,4]",
    );
    // All updates of an empty axis are out of range; there is nothing to clip them to.
    let empty = &["f32[0,4]", "i32[7]", "f32[7,4]"];
    assert_eq!(scatter(add, drop, rows(), empty), Ok(ty("f32[0,4]")));
    refused(
        scatter(add, clip, rows(), empty),
        "scatter_add: a window has size 1, f32[0,4] axis 0 is 0",
    );
}

#[test]
fn text_keeps_every_attribute() {
    let text = "graph @main(%x: f32[2,9,4], %i: u8[2,5,1], %v: f32[2,5,4]) -> f32[2,9,4] {
  %0 = gather %x, %i {offset_dims = [2], collapsed_slice_dims = [1], \
operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], \
index_vector_dim = 2, slice_sizes = [1, 1, 4], mode = clip, unique_indices = true, \
indices_are_sorted = true} : f32[2,5,4]
  %1 = add %0, %v : f32[2,5,4]
  %2 = scatter %x, %i, %1 {update_window_dims = [2], inserted_window_dims = [1], \
operand_batching_dims = [0], scatter_indices_batching_dims = [0], \
scatter_dims_to_operand_dims = [1], index_vector_dim = 2, mode = drop, \
unique_indices = true} : f32[2,9,4]
  return %2
}
";
    let graph = Graph::parse(text).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(graph.to_string(), text);
    let wrong = text.replace("mode = drop", "mode = fill");
    assert!(Graph::parse(&wrong).unwrap_err().to_string().contains("`mode` is drop or clip"));
    let wrong = text.replace("unique_indices = true", "unique_indices = maybe");
    assert!(Graph::parse(&wrong).unwrap_err().to_string().contains("must be true or false"));
}
