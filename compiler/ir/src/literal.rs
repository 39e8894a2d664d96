//! Concrete values: [`Scalar`] for one element, [`Literal`] for a whole array.
//!
//! A literal owns dense row-major bytes and is cheap to clone. Both compare by
//! bits, so NaNs with equal payloads are equal and −0 differs from +0: constants
//! must never be merged by value.

use std::fmt;
use std::sync::Arc;

use half::{bf16, f16};
use num_complex::Complex;

use crate::{DType, Type};

/// One element, as its bit pattern: of a real type in the low bits of a `u64`, of a
/// complex type one such pattern for each part.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scalar {
    dtype: DType,
    /// Of the value, or of its real part.
    bits: u64,
    /// Of the imaginary part; zero in real types.
    imag: u64,
}

impl Scalar {
    /// From the bit pattern of a real type; bits above the type's width must be zero.
    pub fn from_bits(dtype: DType, bits: u64) -> Scalar {
        debug_assert!(!dtype.is_complex(), "a complex element has two bit patterns");
        debug_assert!(dtype.size() == 8 || bits >> (dtype.size() * 8) == 0);
        Scalar { dtype, bits, imag: 0 }
    }

    /// The complex number with these parts.
    ///
    /// # Panics
    /// If they are not both `f32` or both `f64`.
    pub fn complex(re: Scalar, im: Scalar) -> Scalar {
        assert_eq!(re.dtype, im.dtype, "parts of a complex number");
        let dtype = re.dtype.complex().expect("parts of a complex number are f32 or f64");
        Scalar { dtype, bits: re.bits, imag: im.bits }
    }

    /// The complex number of type `dtype` whose parts are nearest to `re` and `im`.
    pub fn from_parts(dtype: DType, re: f64, im: f64) -> Scalar {
        Scalar::complex(Scalar::from_f64(dtype.part(), re), Scalar::from_f64(dtype.part(), im))
    }

    /// The real part, in the type of the parts; a real number is its own.
    pub fn real(self) -> Scalar {
        Scalar { dtype: self.dtype.part(), bits: self.bits, imag: 0 }
    }

    /// The imaginary part, in the type of the parts; that of a real number is zero.
    pub fn imag(self) -> Scalar {
        Scalar { dtype: self.dtype.part(), bits: self.imag, imag: 0 }
    }

    /// The bytes in memory, little-endian; those past the type's size are zero.
    pub fn to_le_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.bits.to_le_bytes());
        if self.dtype.is_complex() {
            let part = self.dtype.part().size();
            bytes[part..2 * part].copy_from_slice(&self.imag.to_le_bytes()[..part]);
        }
        bytes
    }

    /// From the bytes in memory, as many as the type's size.
    pub fn from_le_bytes(dtype: DType, bytes: &[u8]) -> Scalar {
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let (bits, imag) = bytes.split_at(dtype.part().size());
        Scalar { dtype, bits: word(bits), imag: word(imag) }
    }

    /// The value of `x` converted to `dtype` by the rules of `convert`
    /// (`docs/numerics.md`): floats round to nearest even; to an integer they
    /// truncate and saturate, NaN becomes 0; to `bool`, non-zero is true; to a complex
    /// type, the imaginary part is zero.
    pub fn from_f64(dtype: DType, x: f64) -> Scalar {
        let bits = match dtype {
            DType::Bool => (x != 0.0) as u64,
            DType::I8 => x as i8 as u8 as u64,
            DType::I16 => x as i16 as u16 as u64,
            DType::I32 => x as i32 as u32 as u64,
            DType::I64 => x as i64 as u64,
            DType::U8 => x as u8 as u64,
            DType::U16 => x as u16 as u64,
            DType::U32 => x as u32 as u64,
            DType::U64 => x as u64,
            // By way of an f32: `half` rounds those once, but an f64 twice.
            DType::F16 => f16::from_f32(narrow_to_odd(x)).to_bits() as u64,
            DType::BF16 => bf16::from_f32(narrow_to_odd(x)).to_bits() as u64,
            DType::F32 => (x as f32).to_bits() as u64,
            DType::F64 => x.to_bits(),
            DType::C64 | DType::C128 => return Scalar::from_parts(dtype, x, 0.0),
        };
        Scalar { dtype, bits, imag: 0 }
    }

    /// The integer `x` converted to `dtype`: integers wrap, floats round once.
    pub fn from_i128(dtype: DType, x: i128) -> Scalar {
        let bits = match dtype {
            DType::Bool => (x != 0) as u64,
            DType::I8 | DType::U8 => x as u8 as u64,
            DType::I16 | DType::U16 => x as u16 as u64,
            DType::I32 | DType::U32 => x as u32 as u64,
            DType::I64 | DType::U64 => x as u64,
            // An i128 may not fit an f64 exactly, so narrower floats go by way of
            // their own conversion where one exists. For |x| < 2^53 both agree.
            DType::F16 | DType::BF16 => return round_half(dtype, x),
            DType::F32 => (x as f32).to_bits() as u64,
            DType::F64 => (x as f64).to_bits(),
            DType::C64 | DType::C128 => {
                let re = Scalar::from_i128(dtype.part(), x);
                return Scalar::complex(re, Scalar::zero(re.dtype));
            }
        };
        Scalar { dtype, bits, imag: 0 }
    }

    /// A `bool` scalar.
    pub fn bool(x: bool) -> Scalar {
        Scalar { dtype: DType::Bool, bits: x as u64, imag: 0 }
    }

    /// Zero of the type (`false` for `bool`).
    pub fn zero(dtype: DType) -> Scalar {
        Scalar { dtype, bits: 0, imag: 0 }
    }

    /// One of the type (`true` for `bool`).
    pub fn one(dtype: DType) -> Scalar {
        Scalar::from_i128(dtype, 1)
    }

    /// The element type.
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// The bit pattern of a real number.
    ///
    /// # Panics
    /// In debug builds, if the type is complex: see [`Scalar::real`], [`Scalar::imag`].
    pub fn bits(self) -> u64 {
        debug_assert!(!self.dtype.is_complex(), "a complex element has two bit patterns");
        self.bits
    }

    /// The value of a real number as an `f64`: exact for every type but 64-bit
    /// integers, which round.
    ///
    /// # Panics
    /// If the type is complex: see [`Scalar::real`], [`Scalar::imag`].
    pub fn as_f64(self) -> f64 {
        match self.dtype {
            DType::F16 => f16::from_bits(self.bits as u16).to_f64(),
            DType::BF16 => bf16::from_bits(self.bits as u16).to_f64(),
            DType::F32 => f32::from_bits(self.bits as u32) as f64,
            DType::F64 => f64::from_bits(self.bits),
            DType::C64 | DType::C128 => panic!("a complex number has two parts"),
            _ => self.as_i128().expect("not a float") as f64,
        }
    }

    /// Whether the value, or a part of it, is NaN.
    pub fn is_nan(self) -> bool {
        let nan = |x: Scalar| x.dtype.is_float() && x.as_f64().is_nan();
        nan(self.real()) || nan(self.imag())
    }

    /// The exact value of an integer or `bool`; `None` for floats and complex numbers.
    pub fn as_i128(self) -> Option<i128> {
        Some(match self.dtype {
            DType::Bool | DType::U8 | DType::U16 | DType::U32 | DType::U64 => self.bits as i128,
            DType::I8 => self.bits as i8 as i128,
            DType::I16 => self.bits as i16 as i128,
            DType::I32 => self.bits as i32 as i128,
            DType::I64 => self.bits as i64 as i128,
            _ => return None,
        })
    }
}

/// `x` as an `f32`, cut off, with the last bit set if anything was cut.
///
/// The last bit then says which side of a tie `x` is on, so that rounding the result
/// once more, to at most 22 digits, is as good as rounding `x` itself.
fn narrow_to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    if nearest as f64 == x || x.is_nan() {
        return nearest;
    }
    let away = (nearest as f64).abs() > x.abs();
    f32::from_bits((nearest.to_bits() - away as u32) | 1)
}

/// `x` rounded once (to nearest even) to a half type.
fn round_half(dtype: DType, x: i128) -> Scalar {
    // Above 2^24 only the leading bits matter: keep them and a sticky bit, so
    // that the one rounding below sees which side of a tie it is on.
    let (mut m, mut e) = (x.unsigned_abs(), 0);
    while m >= 1 << 40 {
        m = (m >> 1) | (m & 1);
        e += 1;
    }
    let y = (m as f64) * 2f64.powi(e) * if x < 0 { -1.0 } else { 1.0 };
    Scalar::from_f64(dtype, y)
}

impl fmt::Display for Scalar {
    /// As the text format writes it: shortest decimal that reads back to the
    /// same bits; `nan` only for the canonical quiet NaN, else `0x…` bits; a complex
    /// number as `(real, imaginary)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dtype.is_complex() {
            return write!(f, "({}, {})", self.real(), self.imag());
        }
        if self.dtype == DType::Bool {
            return write!(f, "{}", self.bits != 0);
        }
        if let Some(i) = self.as_i128() {
            return write!(f, "{i}");
        }
        let x = self.as_f64();
        if x.is_nan() {
            let canonical = Scalar::from_f64(self.dtype, f64::NAN);
            return if *self == canonical {
                f.write_str("nan")
            } else {
                write!(f, "0x{:x}", self.bits)
            };
        }
        if x.is_infinite() {
            return f.write_str(if x > 0.0 { "inf" } else { "-inf" });
        }
        match self.dtype {
            DType::F64 => write!(f, "{x:?}"),
            // f16 and bf16 values are f32 values; f32's shortest decimal reads
            // back through f64 and rounds to the same half.
            _ => write!(f, "{:?}", x as f32),
        }
    }
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}{}", self.dtype)
    }
}

/// A Rust type that is the in-memory form of one [`DType`].
///
/// `bool` is not among them: its bytes must be 0 or 1, which bytes from
/// elsewhere need not be. [`Literal`] has its own constructors for it.
pub trait Element: Copy + Send + Sync + 'static {
    /// The element type whose memory form this is.
    const DTYPE: DType;
    /// The bit pattern, zero-extended; the real part of a complex number is lowest.
    fn to_bits(self) -> u128;
    /// From the low bits of `bits`.
    fn from_bits(bits: u128) -> Self;
}

impl Scalar {
    /// An element of a Rust type.
    pub fn of<T: Element>(x: T) -> Scalar {
        Scalar::from_le_bytes(T::DTYPE, &x.to_bits().to_le_bytes()[..T::DTYPE.size()])
    }

    /// The element as one of the Rust type, or `None` if that is of another type.
    pub fn get<T: Element>(self) -> Option<T> {
        (T::DTYPE == self.dtype).then(|| T::from_bits(u128::from_le_bytes(self.to_le_bytes())))
    }
}

macro_rules! element {
    ($($t:ty, $d:ident, |$x:ident| $to:expr, |$b:ident| $from:expr;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$d;
            #[inline]
            fn to_bits(self) -> u128 { let $x = self; $to }
            #[inline]
            fn from_bits($b: u128) -> Self { $from }
        }
    )*};
}

element! {
    i8, I8, |x| x as u8 as u128, |b| b as i8;
    i16, I16, |x| x as u16 as u128, |b| b as i16;
    i32, I32, |x| x as u32 as u128, |b| b as i32;
    i64, I64, |x| x as u64 as u128, |b| b as i64;
    u8, U8, |x| x as u128, |b| b as u8;
    u16, U16, |x| x as u128, |b| b as u16;
    u32, U32, |x| x as u128, |b| b as u32;
    u64, U64, |x| x as u128, |b| b as u64;
    f16, F16, |x| f16::to_bits(x) as u128, |b| f16::from_bits(b as u16);
    bf16, BF16, |x| bf16::to_bits(x) as u128, |b| bf16::from_bits(b as u16);
    f32, F32, |x| f32::to_bits(x) as u128, |b| f32::from_bits(b as u32);
    f64, F64, |x| f64::to_bits(x) as u128, |b| f64::from_bits(b as u64);
    bool, Bool, |x| x as u128, |b| b != 0;
    Complex<f32>, C64,
        |x| Element::to_bits(x.re) | Element::to_bits(x.im) << 32,
        |b| Complex::new(Element::from_bits(b), Element::from_bits(b >> 32));
    Complex<f64>, C128,
        |x| Element::to_bits(x.re) | Element::to_bits(x.im) << 64,
        |b| Complex::new(Element::from_bits(b), Element::from_bits(b >> 64));
}

/// A dense row-major array with its type.
#[derive(Clone)]
pub struct Literal {
    ty: Type,
    bytes: Arc<[u8]>,
}

impl Literal {
    /// An array of the type `ty` whose element `i` (row-major) is `f(i)`.
    ///
    /// # Panics
    /// If `f` returns a scalar of another element type.
    pub fn from_fn(ty: Type, mut f: impl FnMut(usize) -> Scalar) -> Literal {
        let (dtype, size) = (ty.dtype, ty.dtype.size());
        let mut bytes = Vec::with_capacity(ty.bytes());
        for i in 0..ty.elements() {
            let s = f(i);
            assert_eq!(s.dtype(), dtype, "element type of a literal");
            bytes.extend_from_slice(&s.to_le_bytes()[..size]);
        }
        Literal::from_bytes(ty, &bytes)
    }

    /// An array holding a copy of `bytes`.
    ///
    /// # Panics
    /// If the byte count is not the type's, or a `bool` byte is neither 0 nor 1.
    pub fn from_bytes(ty: Type, bytes: &[u8]) -> Literal {
        assert_eq!(bytes.len(), ty.bytes(), "byte count of a literal of type {ty}");
        if ty.dtype == DType::Bool {
            assert!(bytes.iter().all(|&b| b <= 1), "bool bytes are 0 or 1");
        }
        Literal { ty, bytes: bytes.into() }
    }

    /// An array of the elements `data` in row-major order.
    ///
    /// # Panics
    /// If the count is not the product of `shape`.
    pub fn from_slice<T: Element>(shape: impl Into<crate::Shape>, data: &[T]) -> Literal {
        let ty = Type::new(T::DTYPE, shape);
        assert_eq!(data.len(), ty.elements(), "element count of a literal of type {ty}");
        // The size is a constant of `T`: this loop is a copy.
        let size = const { T::DTYPE.size() };
        let mut bytes = vec![0; data.len() * size];
        for (bytes, x) in bytes.chunks_exact_mut(size).zip(data) {
            bytes.copy_from_slice(&x.to_bits().to_le_bytes()[..size]);
        }
        Literal { ty, bytes: bytes.into() }
    }

    /// A rank-0 array.
    pub fn scalar(value: Scalar) -> Literal {
        Literal::splat(Type::scalar(value.dtype()), value)
    }

    /// An array whose elements are all `value`.
    ///
    /// # Panics
    /// If the value is of another element type.
    pub fn splat(ty: Type, value: Scalar) -> Literal {
        assert_eq!(value.dtype(), ty.dtype, "element type of a literal");
        let bytes = value.to_le_bytes()[..ty.dtype.size()].repeat(ty.elements());
        Literal { ty, bytes: bytes.into() }
    }

    /// The one distinct element, if there is just one.
    pub fn uniform(&self) -> Option<Scalar> {
        let size = self.ty.dtype.size();
        // Each element equals the next: one comparison of the bytes with themselves.
        let rest = self.bytes.get(size..)?;
        (*rest == self.bytes[..rest.len()]).then(|| self.get(0))
    }

    /// The type.
    pub fn ty(&self) -> &Type {
        &self.ty
    }

    /// The dense row-major bytes, little-endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Element `i` in row-major order.
    pub fn get(&self, i: usize) -> Scalar {
        let size = self.ty.dtype.size();
        Scalar::from_le_bytes(self.ty.dtype, &self.bytes()[i * size..(i + 1) * size])
    }

    /// The elements in row-major order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Scalar> + '_ {
        (0..self.ty.elements()).map(|i| self.get(i))
    }

    /// The elements as a vector of their Rust type, or `None` if `T` is another type.
    pub fn to_vec<T: Element>(&self) -> Option<Vec<T>> {
        let size = const { T::DTYPE.size() };
        let element = |bytes: &[u8]| {
            let mut word = [0; 16];
            word[..size].copy_from_slice(bytes);
            T::from_bits(u128::from_le_bytes(word))
        };
        (T::DTYPE == self.ty.dtype).then(|| self.bytes().chunks_exact(size).map(element).collect())
    }

    /// The same elements under another shape of as many elements.
    ///
    /// # Panics
    /// If the element counts differ.
    pub fn reshaped(&self, shape: impl Into<crate::Shape>) -> Literal {
        let ty = self.ty.with_shape(shape);
        assert_eq!(ty.elements(), self.ty.elements(), "elements of a reshaped literal");
        Literal { ty, bytes: self.bytes.clone() }
    }
}

impl PartialEq for Literal {
    fn eq(&self, other: &Literal) -> bool {
        self.ty == other.ty && self.bytes() == other.bytes()
    }
}

impl Eq for Literal {}

impl std::hash::Hash for Literal {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.ty.hash(state);
        self.bytes().hash(state);
    }
}

impl fmt::Debug for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{{", self.ty)?;
        for (i, s) in self.iter().take(16).enumerate() {
            write!(f, "{}{s}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str(if self.ty.elements() > 16 { ", …}" } else { "}" })
    }
}
