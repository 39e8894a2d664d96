//! The numbers that go into a workload: a function of a seed and an index.
//!
//! Integers are exact and the real numbers are rounded once, so every program in
//! every language makes the same bits, and no input has to be stored or sent.

/// Mixes a seed and an index into 32 well-distributed bits (a "lowbias32" finaliser
/// over a Weyl sequence of seeds).
pub fn hash(seed: u32, index: usize) -> u32 {
    // Truncation is meant: the generator is defined modulo 2^32.
    let mut h = (index as u32).wrapping_add(seed.wrapping_mul(0x9E37_79B9));
    h ^= h >> 16;
    h = h.wrapping_mul(0x7FEB_352D);
    h ^= h >> 15;
    h = h.wrapping_mul(0x846C_A68B);
    h ^ (h >> 16)
}

/// A number in [0, 1) with 24 bits, exact in f32 and f64.
pub fn unit(seed: u32, index: usize) -> f64 {
    f64::from(hash(seed, index) >> 8) / f64::from(1 << 24)
}

/// A number in [low, high): computed in f64, rounded once.
pub fn uniform(seed: u32, index: usize, low: f64, high: f64) -> f32 {
    (unit(seed, index) * (high - low) + low) as f32
}

#[cfg(test)]
mod tests {
    use super::{uniform, unit};

    #[test]
    fn the_mean_is_where_it_should_be() {
        let n = 100_000;
        let mean = (0..n).map(|i| unit(7, i)).sum::<f64>() / n as f64;
        // Five standard deviations of the mean of uniform numbers.
        assert!((mean - 0.5).abs() < 5.0 / (12.0 * n as f64).sqrt(), "{mean}");
    }

    #[test]
    fn bounds_hold() {
        assert!((0..10_000).map(|i| uniform(3, i, -2.0, 5.0)).all(|x| (-2.0..=5.0).contains(&x)));
    }
}
