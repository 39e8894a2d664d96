//! Contractions on the CPU: a packed, register-tiled matrix product with computed
//! operands and a computed result, generated for one shape.
//!
//! ```text
//! for each column block of each batch, and the rows of it that this call does:
//!     for each block of steps of the sum:
//!         pack the right factor              (unless read where it lies)
//!         for each chunk of row panels:
//!             pack the left factor           (unless read where it lies)
//!             for each row panel, for each column panel:
//!                 sums of one tile           micro-kernel, a function of its own
//!                 values and stores of it    after the last block of steps
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `tiling` | how the loops are cut: a pure function of the shape |
//! | `driver` | the loops around the micro-kernel |
//! | `needs` | which expressions are evaluated in which of them |
//! | `roles` | which operand is broadcast and how each can be read |
//! | `tile` | the micro-kernel |
//! | `pack` | computed or badly placed factors, brought into the order of the tiles |
//!
//! Promises: each element of the result is the sum over increasing `k` from zero, one
//! fused multiply-add a step (a product and a sum where the instruction set has none,
//! wrapping for integers), whatever the tiling and however the grid is cut. An operand
//! of the stored values may lie where the result goes: each of its elements is read before
//! it is written, since sums that wait for more steps are kept in scratch. Only a result
//! that is the sums themselves, for which nothing is read, holds them on the way.

mod driver;
mod needs;
mod pack;
mod roles;
#[cfg(test)]
mod tests;
mod tile;
pub mod tiling;

use kiln_ir::DType;

use super::build::Build;
use super::loops::Launch;
use super::target::Isa;
use crate::kernel::{Argument, Contraction};
use driver::Driver;
use roles::Roles;
use tiling::{Machine, Problem, Right, Tiling};

/// The tiling that [`emit`] gives `c` on `isa`.
pub(crate) fn tiling(isa: Isa, arguments: &[Argument], c: &Contraction) -> Tiling {
    let roles = Roles::of(c);
    let access = |factor, free| roles::access(c, arguments, factor, free);
    let problem = Problem {
        batch: c.batch.iter().product(),
        m: roles.m,
        n: roles.n,
        k: c.k.max(1),
        element: c.accumulator.size() as u64,
        lhs: access(roles.left, roles.row),
        rhs: access(roles.right, roles.column),
    };
    Tiling::new(&problem, &machine(isa, c.accumulator))
}

/// Whether a product and a sum are one instruction.
fn fuses(isa: Isa, dtype: DType) -> bool {
    isa != Isa::V2 && dtype.is_float()
}

fn machine(isa: Isa, dtype: DType) -> Machine {
    Machine {
        vector_bytes: u64::from(isa.vector_bits() / 8),
        registers: u64::from(isa.registers()),
        fused: fuses(isa, dtype),
        masks: isa.masks(dtype.size()),
    }
}

/// Emits the entry function `symbol` for `c`, and the functions that it calls.
pub(crate) fn emit(
    b: &Build,
    isa: Isa,
    arguments: &[Argument],
    c: &Contraction,
    symbol: &str,
) -> Launch {
    if c.m == 0 || c.n == 0 || c.batch.contains(&0) {
        b.entry(symbol, true);
        b.ret();
        return Launch { grid: 0, grain: 1, scratch: 0 };
    }
    emit_tiled(b, isa, arguments, c, symbol, tiling(isa, arguments, c))
}

/// [`emit`] with a tiling of the caller's choice.
pub(crate) fn emit_tiled(
    b: &Build,
    isa: Isa,
    arguments: &[Argument],
    c: &Contraction,
    symbol: &str,
    tiling: Tiling,
) -> Launch {
    let driver = Driver::new(b, isa, arguments, c, symbol, tiling);
    driver.grid();
    b.ret();
    let Driver { tiling, scratch, .. } = driver;
    Launch { grid: tiling.grid(), grain: tiling.grain, scratch: scratch.bytes }
}

/// Where each part of a thread's scratch starts, in bytes.
#[derive(Clone, Copy)]
struct Scratch {
    /// The packed right factor.
    pub right: u64,
    /// The packed left factor.
    pub left: u64,
    /// Unfinished sums, or those of one tile.
    pub sums: u64,
    /// A square of vectors that is being transposed.
    pub square: u64,
    /// All of it.
    pub bytes: u64,
}

impl Scratch {
    pub fn new(tiling: &Tiling, size: u64, plain: bool) -> Scratch {
        let mut bytes = 0;
        let mut part = |elements: u64| {
            let start = bytes;
            bytes += (elements * size).next_multiple_of(kiln_executable::ALIGNMENT);
            start
        };
        let right = part(tiling.right_elements());
        let left = part(tiling.left_elements());
        let sums = part(if plain { 0 } else { tiling.sum_elements() });
        let transposes = tiling.right == Right::Panels(tiling::Along::Inner);
        let square = part(if transposes { tiling.lanes * tiling.lanes } else { 0 });
        Scratch { right, left, sums, square, bytes }
    }
}
