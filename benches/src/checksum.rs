//! Whether a large result is right, without storing it.
//!
//! Three sums in f64 over all elements: plain, of magnitudes, and weighted by a
//! pseudo-random number per position, which notices elements that are right but in
//! the wrong place. The first four elements and the last are compared one by one,
//! so that a failure says more than "something differs".

use crate::input;

/// The seed of the weights.
const WEIGHTS: u32 = 999;

/// What a right result adds up to, from a computation in f64.
#[derive(Clone, Copy, Debug)]
pub struct Checksum {
    /// Elements.
    pub len: usize,
    /// Σ y
    pub sum: f64,
    /// Σ |y|
    pub magnitude: f64,
    /// Σ y·w, with w in [−½, ½)
    pub weighted: f64,
    /// The first four elements.
    pub first: [f64; 4],
    /// The last element.
    pub last: f64,
}

impl Checksum {
    /// Of these elements. At least four.
    pub fn of(elements: &[f32]) -> Self {
        let mut checksum = Checksum {
            len: elements.len(),
            sum: 0.0,
            magnitude: 0.0,
            weighted: 0.0,
            first: std::array::from_fn(|i| f64::from(elements[i])),
            last: f64::from(elements[elements.len() - 1]),
        };
        for (i, &y) in elements.iter().enumerate() {
            let y = f64::from(y);
            checksum.sum += y;
            checksum.magnitude += y.abs();
            checksum.weighted += y * (input::unit(WEIGHTS, i) - 0.5);
        }
        checksum
    }

    /// Whether `found` agrees within `tolerance`, relative to the magnitude; or what differs.
    pub fn compare(&self, found: &Checksum, tolerance: f64) -> Result<(), String> {
        if self.len != found.len {
            return Err(format!("{} elements, expected {}", found.len, self.len));
        }
        let sums = [
            ("sum", self.sum, found.sum),
            ("sum of magnitudes", self.magnitude, found.magnitude),
            ("weighted sum", self.weighted, found.weighted),
        ];
        for (name, wanted, got) in sums {
            if !near(wanted, got, tolerance * self.magnitude) {
                return Err(format!("{name} is {got}, expected {wanted}"));
            }
        }
        let mean = self.magnitude / self.len as f64;
        let elements = self.first.iter().zip(&found.first).enumerate();
        let last = (self.len - 1, (&self.last, &found.last));
        for (i, (wanted, got)) in elements.chain([last]) {
            if !near(*wanted, *got, tolerance * (wanted.abs() + mean)) {
                return Err(format!("element {i} is {got}, expected {wanted}"));
            }
        }
        Ok(())
    }
}

/// A NaN is near nothing.
fn near(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance
}

#[cfg(test)]
mod tests {
    use super::Checksum;

    fn numbers() -> Vec<f32> {
        (0..1000).map(|i| crate::input::uniform(1, i, -1.0, 1.0)).collect()
    }

    #[test]
    fn equal_results_agree_and_small_errors_pass() {
        let wanted = Checksum::of(&numbers());
        let close: Vec<f32> = numbers().iter().map(|x| x * (1.0 + 1e-6)).collect();
        assert_eq!(wanted.compare(&Checksum::of(&close), 1e-5), Ok(()));
    }

    #[test]
    fn a_swap_a_nan_and_a_lost_element_are_noticed() {
        let wanted = Checksum::of(&numbers());
        let mut swapped = numbers();
        swapped[10..990].reverse();
        assert!(wanted.compare(&Checksum::of(&swapped), 1e-4).unwrap_err().contains("weighted"));
        let mut poisoned = numbers();
        poisoned[500] = f32::NAN;
        assert!(wanted.compare(&Checksum::of(&poisoned), 1e-4).is_err());
        let short = Checksum::of(&numbers()[..999]);
        assert_eq!(wanted.compare(&short, 1e-4).unwrap_err(), "999 elements, expected 1000");
    }
}
