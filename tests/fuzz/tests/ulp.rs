//! Every function within its error bound, on part of the inputs: all of `f16` and `bf16`,
//! part of `f32`, and of `f64` the stored points and some random arguments. `cargo xtask
//! ulp` tries all that can be tried.

use kiln_fuzz::ulp::{DTYPES, Effort, Function, measure};
use kiln_ir::Scalar;

#[test]
fn every_function_is_within_its_bound() {
    let mut beyond = Vec::new();
    for function in Function::all() {
        for dtype in DTYPES {
            let worst = measure(function, dtype, Effort::CI).expect("it compiles and runs");
            assert!(worst.tried >= 80, "{} of {dtype} is hardly measured", function.name());
            let bound = function.bound(dtype);
            if worst.error > bound {
                let [a, b] = worst.at.map(|bits| Scalar::from_bits(dtype, bits));
                let name = function.name();
                beyond.push(format!("{name} {dtype}: {} at {a} {b}, not {bound}", worst.error));
            }
        }
    }
    assert!(beyond.is_empty(), "{beyond:#?}");
}

/// The documentation has a row for each, with the bounds of the code and measured errors
/// that keep them.
#[test]
fn the_table_of_errors_is_complete() {
    let text = include_str!("../../../docs/numerics.md");
    for function in Function::all() {
        let name = format!("| `{}` |", function.name());
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with(&name)).collect();
        let [row] = rows[..] else { panic!("{} rows for {}", rows.len(), function.name()) };
        let cells: Vec<f64> = row.split('|').filter_map(|c| c.trim().parse().ok()).collect();
        let [f16, bf16, f32, f32_bound, f64, f64_bound] = cells[..] else {
            panic!("{row} does not have six figures")
        };
        let bounds = DTYPES.map(|dtype| function.bound(dtype));
        assert_eq!([f32_bound, f64_bound], bounds[2..], "{row}");
        for (measured, bound) in [f16, bf16, f32, f64].into_iter().zip(bounds) {
            assert!(measured <= bound, "{row}: {measured} is more than {bound}");
        }
    }
}
