//! Repeatable randomness: a 64-bit counter-based generator (SplitMix64), and the
//! elements that random programs compute on.

use kiln_ir::{DType, Scalar};

/// A stream of random numbers that depends only on its seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of the items.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// A float in `[low, high)`.
    pub fn float(&mut self, low: f64, high: f64) -> f64 {
        low + (self.bits() >> 11) as f64 / (1u64 << 53) as f64 * (high - low)
    }

    /// A random element. Wild: any bit pattern, special values often.
    pub fn scalar(&mut self, dtype: DType, wild: bool) -> Scalar {
        if dtype.is_complex() {
            let [re, im] = [(); 2].map(|()| self.scalar(dtype.part(), wild));
            return Scalar::complex(re, im);
        }
        let mask =
            if dtype.part().size() == 8 { u64::MAX } else { (1 << (8 * dtype.part().size())) - 1 };
        match dtype {
            DType::Bool => Scalar::bool(self.one_in(2)),
            _ if wild && self.one_in(2) => Scalar::from_bits(dtype, self.bits() & mask),
            _ if wild && dtype.is_float() => {
                let special = [
                    0.0,
                    -0.0,
                    1.0,
                    -1.0,
                    0.5,
                    f64::INFINITY,
                    f64::NEG_INFINITY,
                    f64::NAN,
                    1e-40,
                    65504.0,
                    3.4e38,
                    -2.5,
                    1.5,
                ];
                Scalar::from_f64(dtype, self.pick(&special))
            }
            _ if dtype.is_float() => Scalar::from_f64(dtype, self.float(-2.0, 2.0)),
            _ => Scalar::from_i128(dtype, self.below(9) as i128 - 4),
        }
    }
}
