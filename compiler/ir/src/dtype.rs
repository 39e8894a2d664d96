//! Element types.
//!
//! [`DType`] is what a tensor holds. It says how wide an element is and which
//! family it belongs to; what arithmetic on it means is written down in
//! `docs/numerics.md`. A complex element is a pair of floats, its *parts*, the real
//! one first in memory.

use std::fmt;

/// The type of one element of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum DType {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
}

use DType::*;

impl DType {
    /// Every element type, narrow to wide within a family.
    pub const ALL: [DType; 15] =
        [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64, C64, C128];

    /// Those of [`DType::ALL`] that are not complex: what kernels compute on.
    pub const REAL: [DType; 13] = [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64];

    /// Bytes of one element in memory. A `bool` is one byte holding 0 or 1.
    pub const fn size(self) -> usize {
        match self {
            Bool | I8 | U8 => 1,
            I16 | U16 | F16 | BF16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 | C64 => 8,
            C128 => 16,
        }
    }

    /// Bits of one element's value: 1 for `bool`, else eight times the size.
    pub const fn bits(self) -> u32 {
        match self {
            Bool => 1,
            _ => self.size() as u32 * 8,
        }
    }

    /// `f16`, `bf16`, `f32`, `f64`.
    pub const fn is_float(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64)
    }

    /// `c64`, `c128`: pairs of floats.
    pub const fn is_complex(self) -> bool {
        matches!(self, C64 | C128)
    }

    /// Floats and complex numbers, which arithmetic rounds and derivatives flow through.
    pub const fn is_inexact(self) -> bool {
        self.is_float() || self.is_complex()
    }

    /// The type of the parts of a complex type; other types are their own.
    pub const fn part(self) -> DType {
        match self {
            C64 => F32,
            C128 => F64,
            _ => self,
        }
    }

    /// The complex type whose parts are of this type, if there is one.
    pub const fn complex(self) -> Option<DType> {
        match self {
            F32 => Some(C64),
            F64 => Some(C128),
            _ => None,
        }
    }

    /// Signed and unsigned integers, without `bool`.
    pub const fn is_integer(self) -> bool {
        self.is_signed_integer() || self.is_unsigned()
    }

    /// `i8` to `i64`.
    pub const fn is_signed_integer(self) -> bool {
        matches!(self, I8 | I16 | I32 | I64)
    }

    /// `u8` to `u64`.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, U8 | U16 | U32 | U64)
    }

    /// `f16` and `bf16`: stored narrow, computed in `f32`.
    pub const fn is_half(self) -> bool {
        matches!(self, F16 | BF16)
    }

    /// The type in which sums and products of many such elements are formed
    /// before one final rounding: `f32` for the half types, else the type itself.
    pub const fn accumulator(self) -> DType {
        if self.is_half() { F32 } else { self }
    }

    /// The name in the text format and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            I8 => "i8",
            I16 => "i16",
            I32 => "i32",
            I64 => "i64",
            U8 => "u8",
            U16 => "u16",
            U32 => "u32",
            U64 => "u64",
            F16 => "f16",
            BF16 => "bf16",
            F32 => "f32",
            F64 => "f64",
            C64 => "c64",
            C128 => "c128",
        }
    }

    /// The type called `name`, if there is one.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
