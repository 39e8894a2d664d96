//! What running a group costs: a roofline over bytes and operations.
//!
//! ```text
//! time = launches * launch + max(bytes * byte, operations * operation)
//! ```
//!
//! The constants are round numbers for one socket of a present-day server. They
//! decide between storing a value and computing it again, and between one kernel and
//! two; a factor of two either way changes few decisions, and what decides whether a
//! merge is *allowed* is in `assess`, not here. All arithmetic is on integers, so
//! equal graphs fuse equally on every machine.

use kiln_ir::form::{ScalarFn, View};
use kiln_ir::op::{Binary, CumulativeKind, Unary, WindowCombine};
use kiln_ir::{DType, Form};

/// What the cost model knows of the machine, and how large a group may grow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Picoseconds to start a kernel.
    pub launch: u64,
    /// Picoseconds to move 16 bytes between memory and a core.
    pub per_16_bytes: u64,
    /// Picoseconds for 16 primitive operations on 32-bit elements.
    pub per_16_operations: u64,
    /// Most inputs and roots of a group: each needs a register for its address.
    pub arguments: usize,
    /// Most primitive operations in the expressions of a group, counting those that
    /// are computed at several indices once for each: bounds code and compile time.
    pub operations: u32,
    /// Bytes of a kernel's memory traffic up to which starting it is a cost worth
    /// sharing with others that do not depend on it.
    pub small: u64,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            launch: 1_000_000,
            per_16_bytes: 1_300,
            per_16_operations: 600,
            arguments: 60,
            operations: 512,
            small: 1 << 20,
        }
    }
}

impl Machine {
    /// Picoseconds that a kernel takes beyond its start.
    pub fn work(&self, bytes: u64, operations: u64) -> u64 {
        let memory = bytes.saturating_mul(self.per_16_bytes) / 16;
        let compute = operations.saturating_mul(self.per_16_operations) / 16;
        memory.max(compute)
    }
}

/// Roughly how many primitive operations one element of a node costs.
pub fn weight(form: &Form, dtype: DType) -> u32 {
    let wide = if dtype.size() == 8 { 2 } else { 1 };
    let half = if dtype.is_half() { 2 } else { 0 };
    wide * match form {
        Form::Map(f) => half + scalar(*f, dtype),
        Form::View(View::Broadcast { .. }) => 0,
        Form::View(View::Reshape) => 2,
        Form::View(View::Transpose { .. } | View::Slice { .. } | View::Reverse { .. }) => 1,
        Form::View(View::Pad { .. }) => 4,
        // One comparison and one selection for each operand but the first is
        // counted where the number of operands is known.
        Form::View(View::Concatenate { .. }) => 3,
        Form::Generate(_) => 1,
        Form::DynamicSlice => 3,
        Form::Reduce(..) => 1 + half,
        Form::ArgReduce(..) => 3,
        Form::Update | Form::Gather(_) => 3,
        Form::Scatter(_) => 4,
        // Of one step: what a body costs is not known here.
        Form::Fold(body, _) => half + 2 * body.len() as u32,
        Form::Window(WindowCombine::Body(body), _) => half + 2 * body.len() as u32,
        Form::Window(..) => 2 + half,
        Form::Cumulative(CumulativeKind::LogSumExp, ..) => 64,
        Form::Cumulative(..) => 8 + half,
        Form::Contraction(_) => 1,
        Form::Sort { .. } | Form::TopK { .. } => 16,
        Form::Parameter | Form::Barrier | Form::Call(_) => 0,
    }
}

fn scalar(f: ScalarFn, dtype: DType) -> u32 {
    match f {
        ScalarFn::Unary(f) => match f {
            Unary::Neg | Unary::Abs | Unary::Not => 1,
            Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => 1,
            Unary::RoundAway => 3,
            // Without an instruction for it, a sum of halves, quarters, eighths.
            Unary::PopulationCount | Unary::CountLeadingZeros => 8,
            Unary::Sign | Unary::IsFinite => 3,
            Unary::Sqrt => 6,
            Unary::Rsqrt => 10,
            Unary::Exp | Unary::Exp2 => 16,
            Unary::Expm1 | Unary::Logistic => 20,
            Unary::Log | Unary::Log1p | Unary::Log2 | Unary::Log10 => 24,
            Unary::Tanh | Unary::Erf | Unary::Cbrt => 24,
            Unary::Sinh | Unary::Cosh => 32,
            Unary::Asinh | Unary::Acosh | Unary::Atanh => 48,
            Unary::Asin | Unary::Acos | Unary::Atan => 24,
            Unary::Sin | Unary::Cos => 32,
            Unary::Tan => 40,
            // Narrow types are computed in `f64`.
            Unary::Erfc | Unary::ErfInv => 96,
            Unary::Lgamma | Unary::Digamma => 160,
        },
        ScalarFn::Binary(f) => match f {
            Binary::Div if dtype.is_float() => 5,
            Binary::Div | Binary::Rem => 24,
            Binary::Pow | Binary::Atan2 => 48,
            Binary::Min | Binary::Max => 2,
            Binary::NextAfter => 12,
            _ => 1,
        },
        ScalarFn::Compare(_) | ScalarFn::Select | ScalarFn::Convert(_) => 1,
        ScalarFn::Clamp => 3,
        // Twenty rounds of four operations, and five injections of the key.
        ScalarFn::Threefry2x32 { .. } => 100,
        ScalarFn::Bitcast(_) => 0,
        ScalarFn::ReducePrecision(_) => 12,
        ScalarFn::Complex | ScalarFn::Part(_) => 0,
    }
}
