//! The table of `docs/numerics.md`.

use kiln_ir::DType;

use super::{DTYPES, Function, Worst};

/// The head of the table.
pub const HEADER: &str = "\
| function | `f16` | `bf16` | `f32` | bound | `f64` | bound |
|---|---|---|---|---|---|---|";

/// A row: what was measured, in the order of [`DTYPES`], and the bounds.
pub fn line(function: Function, measured: &[Worst; 4]) -> String {
    let mut cells = vec![format!("`{}`", function.name())];
    for (dtype, worst) in DTYPES.into_iter().zip(measured) {
        // Rounded up, so that no figure claims more than was found.
        let digits = if dtype.is_half() { 4 } else { 2 };
        let scale = 10f64.powi(digits);
        let error = (worst.error * scale - 1e-6).ceil() / scale;
        cells.push(format!("{error:.*}", digits as usize));
        if matches!(dtype, DType::F32 | DType::F64) {
            cells.push(function.bound(dtype).to_string());
        }
    }
    format!("| {} |", cells.join(" | "))
}
