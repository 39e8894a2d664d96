//! Elements as keys.
//!
//! The rank of an element is an unsigned integer that orders as the element does: sign
//! bits flip, negative floats run backwards, −0 has the rank of +0, and every NaN has the
//! greatest rank there is.

/// What an element is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Element {
    /// `bool` and 8-bit unsigned integers.
    U8,
    /// 8-bit signed integers.
    I8,
    /// 16-bit unsigned integers.
    U16,
    /// 16-bit signed integers.
    I16,
    /// 32-bit unsigned integers.
    U32,
    /// 32-bit signed integers.
    I32,
    /// 64-bit unsigned integers.
    U64,
    /// 64-bit signed integers.
    I64,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of binary32.
    BF16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

impl Element {
    pub(super) const ALL: [Element; 12] = {
        use Element::*;
        [U8, I8, U16, I16, U32, I32, U64, I64, F16, BF16, F32, F64]
    };

    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Element::U8 | Element::I8 => 1,
            Element::U16 | Element::I16 | Element::F16 | Element::BF16 => 2,
            Element::U32 | Element::I32 | Element::F32 => 4,
            Element::U64 | Element::I64 | Element::F64 => 8,
        }
    }
}

/// An unsigned integer of the size of an element.
pub(super) trait Bits: Copy + Ord + std::ops::Not<Output = Self> {
    fn wide(self) -> u64;
    /// Of a number that fits.
    fn narrow(wide: u64) -> Self;
}

macro_rules! bits {
    ($($t:ty)*) => {$(
        impl Bits for $t {
            #[inline(always)]
            fn wide(self) -> u64 {
                self as u64
            }

            #[inline(always)]
            fn narrow(wide: u64) -> Self {
                wide as $t
            }
        }
    )*};
}

bits!(u8 u16 u32 u64);

/// An element in a register.
pub(super) trait Ranked: Copy {
    /// The unsigned integer of its size.
    type Bits: Bits;
    /// Its bits.
    const BITS: u32 = 8 * size_of::<Self>() as u32;
    /// Whether different elements may have one rank.
    const FLOAT: bool;

    /// See the module's documentation.
    fn rank(self) -> Self::Bits;

    /// The element of a rank; of several the positive zero, and some NaN.
    fn of_rank(rank: Self::Bits) -> Self;

    /// The rank that orders from the greatest to the least if `descending`.
    #[inline(always)]
    fn key(self, descending: bool) -> Self::Bits {
        if descending { !self.rank() } else { self.rank() }
    }
}

macro_rules! integers {
    ($($t:ty, $unsigned:ty, $flip:expr;)*) => {$(
        impl Ranked for $t {
            type Bits = $unsigned;
            const FLOAT: bool = false;

            #[inline(always)]
            fn rank(self) -> $unsigned {
                self as $unsigned ^ $flip
            }

            #[inline(always)]
            fn of_rank(rank: $unsigned) -> Self {
                (rank ^ $flip) as $t
            }
        }
    )*};
}

integers! {
    u8, u8, 0;
    i8, u8, 1 << 7;
    u16, u16, 0;
    i16, u16, 1 << 15;
    u32, u32, 0;
    i32, u32, 1 << 31;
    u64, u64, 0;
    i64, u64, 1 << 63;
}

macro_rules! floats {
    ($($t:ident, $bits:ty, $signed:ty, $infinity:expr;)*) => {$(
        /// A float by its bits.
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        pub(super) struct $t(pub $bits);

        impl Ranked for $t {
            type Bits = $bits;
            const FLOAT: bool = true;

            // Without branches, so that it vectorises.
            #[inline(always)]
            fn rank(self) -> $bits {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits = if self.0 == SIGN { 0 } else { self.0 };
                let flip = ((bits as $signed) >> (<$bits>::BITS - 1)) as $bits | SIGN;
                let nan = bits & !SIGN > $infinity;
                if nan { <$bits>::MAX } else { bits ^ flip }
            }

            #[inline(always)]
            fn of_rank(rank: $bits) -> Self {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                $t(if rank & SIGN != 0 { rank ^ SIGN } else { !rank })
            }
        }
    )*};
}

floats! {
    F16, u16, i16, 0x7c00;
    BF16, u16, i16, 0x7f80;
    F32, u32, i32, 0x7f80_0000;
    F64, u64, i64, 0x7ff0_0000_0000_0000;
}

/// Runs an expression with `$t` being the type of an [`Element`].
macro_rules! with_type {
    ($element:expr, $t:ident => $body:expr) => {{
        use $crate::sort::element::{self, Element};
        macro_rules! run {
            ($ty:ty) => {{
                type $t = $ty;
                $body
            }};
        }
        match $element {
            Element::U8 => run!(u8),
            Element::I8 => run!(i8),
            Element::U16 => run!(u16),
            Element::I16 => run!(i16),
            Element::U32 => run!(u32),
            Element::I32 => run!(i32),
            Element::U64 => run!(u64),
            Element::I64 => run!(i64),
            Element::F16 => run!(element::F16),
            Element::BF16 => run!(element::BF16),
            Element::F32 => run!(element::F32),
            Element::F64 => run!(element::F64),
        }
    }};
}
pub(super) use with_type;

/// The elements of one row.
#[derive(Clone, Copy)]
pub(super) struct Row<T> {
    /// The first.
    pub first: *const T,
    /// Elements from one to the next.
    pub stride: usize,
    pub length: usize,
}

impl<T: Copy> Row<T> {
    /// # Safety
    /// `i` must be below the length, and the row readable.
    #[inline(always)]
    pub unsafe fn get(&self, i: usize) -> T {
        debug_assert!(i < self.length);
        // SAFETY: the caller's.
        unsafe { *self.first.add(i * self.stride) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_order_floats() {
        let ordered = [f32::NEG_INFINITY, -2.0, -1e-45, 0.0, 1e-45, 1.0, f32::INFINITY, f32::NAN];
        let ranks = ordered.map(|x| F32(x.to_bits()).rank());
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
        assert_eq!(F32((-0.0f32).to_bits()).rank(), F32(0).rank());
        assert_eq!(F32((-f32::NAN).to_bits()).rank(), u32::MAX);
        for x in ordered {
            let back = F32::of_rank(F32(x.to_bits()).rank()).0;
            assert!(back == x.to_bits() || x.is_nan() && f32::from_bits(back).is_nan());
        }
    }

    #[test]
    fn ranks_order_every_half() {
        let value = |bits: u16| {
            // Scaled exactly from the parts of a binary16.
            let (exponent, digits) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
            let magnitude = match exponent {
                31 if digits > 0.0 => return None,
                31 => f64::INFINITY,
                0 => digits * 2f64.powi(-24),
                e => (1024.0 + digits) * 2f64.powi(e - 25),
            };
            Some(if bits >> 15 == 1 { -magnitude } else { magnitude })
        };
        let mut all: Vec<u16> = (0..=u16::MAX).collect();
        all.sort_by_key(|&bits| F16(bits).rank());
        let values: Vec<Option<f64>> = all.iter().map(|&bits| value(bits)).collect();
        let numbers = values.iter().take_while(|v| v.is_some()).count();
        assert!(values[numbers..].iter().all(Option::is_none), "NaNs come last");
        assert!(values[..numbers].is_sorted());
    }

    #[test]
    fn integers_come_back() {
        for x in [i8::MIN, -1, 0, 1, i8::MAX] {
            assert_eq!(i8::of_rank(x.rank()), x);
        }
        assert!(i64::MIN.rank() < (-1i64).rank() && (-1i64).rank() < 0i64.rank());
    }
}
