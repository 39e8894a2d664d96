//! While a row is computed, memory fetches the next one: counted in the code, since nothing
//! but speed would tell.

use kiln_driver::{Isa, Options, Stage, compile};
use kiln_ir::Graph;

/// The prefetches of the softmax of 4096 rows, by how near they bring a line.
fn prefetches(columns: usize) -> [usize; 2] {
    let text = format!(
        "graph @main(%x: f32[4096,{columns}]) -> f32[4096,{columns}] {{
          %0 = reduce_max %x {{axes = [1]}} : f32[4096]
          %1 = broadcast %0 {{axes = [0]}} : f32[4096,{columns}]
          %2 = sub %x, %1 : f32[4096,{columns}]
          %3 = exp %2 : f32[4096,{columns}]
          %4 = reduce_sum %3 {{axes = [1]}} : f32[4096]
          %5 = broadcast %4 {{axes = [0]}} : f32[4096,{columns}]
          %6 = div %3, %5 : f32[4096,{columns}]
          return %6
        }}"
    );
    let mut options = Options::default();
    options.code.isa = Isa::V4;
    let compiled = compile(Graph::parse(&text).unwrap(), &options).unwrap();
    let ir = compiled.report.dump(Stage::Llvm).unwrap();
    let calls = ir.lines().filter(|line| line.contains("call void @llvm.prefetch"));
    let mut counts = [0, 0];
    for call in calls {
        counts[0] += usize::from(call.contains("i32 0, i32 3, i32 1"));
        counts[1] += usize::from(call.contains("i32 0, i32 2, i32 1"));
    }
    counts
}

#[test]
fn a_short_row_comes_into_the_first_cache_and_a_long_one_into_the_second() {
    let [first, second] = prefetches(2048);
    assert!(first > 0 && second == 0, "rows of 8 KiB: {first} and {second}");
    let [first, second] = prefetches(2064);
    assert!(first == 0 && second > 0, "rows of more: {first} and {second}");
}
