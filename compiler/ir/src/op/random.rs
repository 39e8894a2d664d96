//! Random bits from counters.
//!
//! The generator is a pure function of a key and a counter, so it is one elementwise op
//! among others: it fuses into whatever reads the bits, and which thread computes an
//! element cannot matter.

use super::{Attrs, InferError, Op, OpDef, Sample, Share, Types, check, sample};
use crate::derive::{Batch, Derived, NoRule, Results, Rule, batch};
use crate::form::ScalarFn;
use crate::{DType, Form, Literal, Scalar, Type, Value};

/// One of the two words of Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw,
/// "Parallel random numbers: as easy as 1, 2, 3", 2011), elementwise. Operands are the
/// two words of the key, then those of the counter, all `u32`. JAX: `threefry2x32_p`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Threefry2x32 {
    /// Which word of the result: 0 or 1.
    pub word: usize,
}

/// Rotations of the rounds: the first four of every eight, then the other four.
const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];

/// Skein's constant, which keeps an all-zero key from being weak.
const PARITY: u32 = 0x1bd1_1bda;

/// Both words for a key and a counter.
fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    let keys = [key[0], key[1], key[0] ^ key[1] ^ PARITY];
    let [mut x0, mut x1] = counter;
    x0 = x0.wrapping_add(keys[0]);
    x1 = x1.wrapping_add(keys[1]);
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            x0 = x0.wrapping_add(x1);
            x1 = x1.rotate_left(rotation) ^ x0;
        }
        x0 = x0.wrapping_add(keys[(group + 1) % 3]);
        x1 = x1.wrapping_add(keys[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    [x0, x1]
}

impl OpDef for Threefry2x32 {
    fn name(&self) -> &'static str {
        "threefry2x32"
    }

    fn attrs(&self) -> Attrs {
        Attrs::new().int("word", self.word)
    }

    fn parse(name: &str, attrs: &mut Attrs, _results: &[Type]) -> Option<Result<Self, String>> {
        (name == "threefry2x32").then(|| Ok(Threefry2x32 { word: attrs.take_int("word")? }))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Types, InferError> {
        let op = self.name();
        let [k0, k1, x0, x1] = check::operands(op, operands)?;
        check::dtype(op, k0, |d| d == DType::U32, "u32")?;
        for other in [k1, x0, x1] {
            check::same(op, k0, other)?;
        }
        if self.word > 1 {
            let message = format!("wants word 0 or 1, got {}", self.word);
            return Err(InferError::new(op, message));
        }
        check::result(op, DType::U32, k0.shape.clone())
    }

    fn eval(&self, operands: &[&Literal], results: &[Type]) -> Vec<Literal> {
        vec![Literal::from_fn(results[0].clone(), |i| {
            let word = |k: usize| operands[k].get(i).bits() as u32;
            let both = threefry([word(0), word(1)], [word(2), word(3)]);
            Scalar::from_bits(DType::U32, both[self.word].into())
        })]
    }

    fn jvp(&self, _rule: &mut Rule<'_>, _tangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        unreachable!("integers have no tangents")
    }

    fn vjp(&self, _rule: &mut Rule<'_>, _cotangents: &[Option<Value>]) -> Result<Derived, NoRule> {
        unreachable!("integers have no cotangents")
    }

    fn vmap(&self, rule: &mut Rule<'_>, batch: Batch<'_>) -> Result<Results, NoRule> {
        Ok(batch::elementwise(*self, rule, batch))
    }

    fn share(&self) -> Share {
        Share::Elementwise
    }

    fn lower(&self) -> Form {
        Form::Map(ScalarFn::Threefry2x32 { word: self.word })
    }

    fn samples() -> Vec<Sample> {
        let ops = [0, 1].map(|word| Op::from(Threefry2x32 { word }));
        let shaped = sample::shaped(DType::U32).map(|ty| {
            let word = ty.shape.rank() % 2;
            sample::alike(Threefry2x32 { word }, 4, ty, super::Domain::Any)
        });
        sample::elementwise(&ops, 4).into_iter().chain(shaped).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::threefry;

    /// The known answers that come with Random123, the authors' own implementation.
    #[test]
    fn known_answers() {
        assert_eq!(threefry([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry([!0, !0], [!0, !0]), [0x1cb9_96fc, 0xbb00_2be7]);
        let key = [0x1319_8a2e, 0x0370_7344];
        assert_eq!(threefry(key, [0x243f_6a88, 0x85a3_08d3]), [0xc492_3a9c, 0x483d_f7a0]);
    }
}
