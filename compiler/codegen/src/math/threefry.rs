//! Threefry-2x32 with 20 rounds, of `u32`.
//!
//! ```text
//! x += key                                     both words
//! five times:  four rounds   x0 += x1;  x1 = rotate(x1) ^ x0
//!              x0 += a word of the key, x1 += the next + a count
//! ```
//!
//! Both words come from the same rounds, so a program that wants both computes them once.
//! A rotation is two shifts and an `or`, which backends know by sight.

use kiln_ir::DType;

use crate::kernel::expr::BinaryOp;
use crate::kernel::{ExprId, Exprs};

/// By how much `x1` turns in each of eight rounds.
const TURNS: [i64; 8] = [13, 15, 26, 6, 17, 29, 16, 24];

/// The two words for (key, key, counter, counter).
pub(crate) fn threefry(x: &mut Exprs, [k0, k1, c0, c1]: [ExprId; 4]) -> [ExprId; 2] {
    let parity = x.integer(DType::U32, 0x1bd1_1bda);
    let k2 = x.binary(BinaryOp::Xor, k0, k1);
    let keys = [k0, k1, x.binary(BinaryOp::Xor, k2, parity)];
    let mut x0 = x.binary(BinaryOp::Add, c0, k0);
    let mut x1 = x.binary(BinaryOp::Add, c1, k1);
    for round in 0..20 {
        x0 = x.binary(BinaryOp::Add, x0, x1);
        let turned = rotate(x, x1, TURNS[round % 8]);
        x1 = x.binary(BinaryOp::Xor, turned, x0);
        if round % 4 == 3 {
            let count = round / 4 + 1;
            x0 = x.binary(BinaryOp::Add, x0, keys[count % 3]);
            x1 = x.binary(BinaryOp::Add, x1, keys[(count + 1) % 3]);
            let count = x.integer(DType::U32, count as i64);
            x1 = x.binary(BinaryOp::Add, x1, count);
        }
    }
    [x0, x1]
}

fn rotate(x: &mut Exprs, a: ExprId, by: i64) -> ExprId {
    let (left, right) = (x.integer(DType::U32, by), x.integer(DType::U32, 32 - by));
    let high = x.binary(BinaryOp::ShiftLeft, a, left);
    let low = x.binary(BinaryOp::ShiftRightLogical, a, right);
    x.binary(BinaryOp::Or, high, low)
}
