//! Functions that generated code calls, and the contracts it keeps with them.
//!
//! Generated CPU code is whole but for a handful of C functions: those for which some
//! instruction set has no instruction, and block copies that LLVM makes of loops. A
//! loader resolves exactly the names in [`provided`] and no others, so that a kernel
//! can reach nothing else of the process.
//!
//! | name | contract |
//! |---|---|
//! | `fmod`, `fmodf` | the exact remainder with the sign of the dividend |
//! | `fma`, `fmaf` | `x * y + z`, rounded once |
//! | `memcpy`, `memmove`, `memset` | as in C |
//! | `kiln_sort_keys`, `kiln_sort_by` | rows in order: [`sort`] |
//!
//! Hand-written kernels (FFT, CUDA preludes) will have their place here.

pub mod sort;

use std::ffi::{CStr, c_void};

/// The exact remainder: Rust's `%` on floats.
extern "C" fn fmod(x: f64, y: f64) -> f64 {
    x % y
}

/// As [`fmod`], for `f32`.
extern "C" fn fmodf(x: f32, y: f32) -> f32 {
    x % y
}

/// `x * y + z`, rounded once.
extern "C" fn fma(x: f64, y: f64, z: f64) -> f64 {
    x.mul_add(y, z)
}

/// As [`fma`], for `f32`.
extern "C" fn fmaf(x: f32, y: f32, z: f32) -> f32 {
    x.mul_add(y, z)
}

unsafe extern "C" {
    fn memcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void;
    fn memmove(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void;
    fn memset(to: *mut c_void, byte: i32, bytes: usize) -> *mut c_void;
}

/// Every name that generated code may call, with the function's address.
pub fn provided() -> [(&'static CStr, usize); 9] {
    [
        (c"fmod", fmod as extern "C" fn(f64, f64) -> f64 as usize),
        (c"fmodf", fmodf as extern "C" fn(f32, f32) -> f32 as usize),
        (c"fma", fma as extern "C" fn(f64, f64, f64) -> f64 as usize),
        (c"fmaf", fmaf as extern "C" fn(f32, f32, f32) -> f32 as usize),
        (c"memcpy", memcpy as *const () as usize),
        (c"memmove", memmove as *const () as usize),
        (c"memset", memset as *const () as usize),
        (c"kiln_sort_keys", sort::kiln_sort_keys as *const () as usize),
        (c"kiln_sort_by", sort::kiln_sort_by as *const () as usize),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_and_multiply_adds_are_exact() {
        assert_eq!(fmod(1e300, 3.0), 1e300 % 3.0);
        assert_eq!(fmod(-6.0, 3.0).to_bits(), (-0.0f64).to_bits());
        assert_eq!(fmodf(5.5, -2.0), 1.5);
        assert!(fmodf(1.0, 0.0).is_nan());
        // (1 + e)(1 - e) - 1 = -e², which two roundings lose.
        let e = f32::EPSILON;
        assert_eq!(fmaf(1.0 + e, 1.0 - e, -1.0), -e * e);
        assert_eq!(fma(1.0 + f64::EPSILON, 1.0 - f64::EPSILON, -1.0), -f64::EPSILON * f64::EPSILON);
    }

    #[test]
    fn names_are_distinct_and_resolved() {
        let provided = provided();
        for (i, (name, address)) in provided.iter().enumerate() {
            assert_ne!(*address, 0, "{name:?}");
            assert!(provided[..i].iter().all(|(other, _)| other != name), "{name:?} twice");
        }
    }
}
