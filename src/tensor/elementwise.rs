//! Elementwise methods. Semantics at the edges are in `docs/numerics.md`.

use kiln_ir::op::{Binary, Clamp, Compare, Convert, Select, Unary};
use kiln_trace::At;

use super::operand::OperandKind;
use super::{Operand, Tensor};
use crate::DType;

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $op:ident;)*) => {
        impl Tensor {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                Tensor::apply(Unary::$op, &[self], At::caller())
            })*
        }
    };
}

unary! {
    /// Magnitude; the least signed integer stays itself, that of a complex number is a
    /// float.
    abs Abs;
    /// −1, 0 or 1; floats keep −0 and NaN; a complex number over its magnitude.
    sign Sign;
    /// Largest integer not above, as a float.
    floor Floor;
    /// Smallest integer not below, as a float.
    ceil Ceil;
    /// Nearest integer, ties to even, as a float.
    round Round;
    /// Nearest integer, ties away from zero, as a float: the default of `jax.lax.round`.
    round_away RoundAway;
    /// Nearest integer, ties to even; the same as [`Tensor::round`].
    rint Round;
    /// The integer part, as a float.
    trunc Trunc;
    /// e to the power of each element.
    exp Exp;
    /// 2 to the power of each element.
    exp2 Exp2;
    /// e to the power of each element, less 1; precise where that is near 0.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1e-10f32]).expm1().to_vec::<f32>()?, [1e-10]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    expm1 Expm1;
    /// Natural logarithm.
    log Log;
    /// Natural logarithm of 1 more than each element; precise where that is near 0.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// assert_eq!(Tensor::from([1e-10f32]).log1p().to_vec::<f32>()?, [1e-10]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    log1p Log1p;
    /// Logarithm to the base 2.
    log2 Log2;
    /// Logarithm to the base 10.
    log10 Log10;
    /// Square root, correctly rounded.
    sqrt Sqrt;
    /// Reciprocal of the square root.
    rsqrt Rsqrt;
    /// Cube root; of a negative number, the negative one.
    cbrt Cbrt;
    /// `1 / (1 + exp(-x))`; the same as [`Tensor::sigmoid`].
    logistic Logistic;
    /// Hyperbolic tangent.
    tanh Tanh;
    /// Hyperbolic sine.
    sinh Sinh;
    /// Hyperbolic cosine.
    cosh Cosh;
    /// Inverse of the hyperbolic sine.
    asinh Asinh;
    /// Inverse of the hyperbolic cosine, not negative; NaN below 1.
    acosh Acosh;
    /// Inverse of the hyperbolic tangent; infinite at ±1 and NaN beyond.
    atanh Atanh;
    /// Sine of radians.
    sin Sin;
    /// Cosine of radians.
    cos Cos;
    /// Error function.
    erf Erf;
    /// Whether each element is neither infinite nor NaN.
    isfinite IsFinite;
}

macro_rules! binary {
    ($($(#[$doc:meta])* $name:ident $op:ident;)*) => {
        impl Tensor {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name(&self, other: impl Operand) -> Tensor {
                self.binary(Binary::$op, other, At::caller())
            })*
        }
    };
}

binary! {
    /// The greater of each pair; NaN if either is.
    maximum Max;
    /// The lesser of each pair; NaN if either is.
    minimum Min;
    /// Power; integers wrap.
    pow Pow;
    /// Shift to the right, filling with zeros whatever the type.
    shift_right_logical ShiftRightLogical;
    /// Shift to the right, filling with the sign.
    shift_right_arithmetic ShiftRightArithmetic;
}

macro_rules! compare {
    ($($(#[$doc:meta])* $name:ident $op:ident;)*) => {
        impl Tensor {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name(&self, other: impl Operand) -> Tensor {
                self.compare(Compare::$op, other, At::caller())
            })*
        }
    };
}

compare! {
    /// Where elements are equal; NaN equals nothing.
    eq Eq;
    /// Where elements are not equal; NaN is not equal to anything.
    ne Ne;
    /// Where elements are less than `other`'s.
    lt Lt;
    /// Where elements are at most `other`'s.
    le Le;
    /// Where elements are greater than `other`'s.
    gt Gt;
    /// Where elements are at least `other`'s.
    ge Ge;
}

impl Tensor {
    fn compare(&self, op: Compare, other: impl Operand, at: At) -> Tensor {
        match self.pair(op.name(), other, at) {
            Ok((lhs, rhs)) => Tensor::apply(op, &[&lhs, &rhs], at),
            Err(poisoned) => poisoned,
        }
    }

    /// Elements converted to another type: floats truncate and saturate on their
    /// way to integers, integers wrap, and everything but zero is true. A complex
    /// number becomes no real one: that takes [`Tensor::real`] or [`Tensor::abs`].
    #[track_caller]
    pub fn astype(&self, dtype: DType) -> Tensor {
        self.convert(dtype, At::caller())
    }

    pub(crate) fn convert(&self, dtype: DType, at: At) -> Tensor {
        if self.try_ty().is_ok_and(|ty| ty.dtype == dtype) {
            return self.clone();
        }
        Tensor::apply(Convert { to: dtype }, &[self], at)
    }

    /// Each element times itself.
    #[track_caller]
    pub fn square(&self) -> Tensor {
        self * self
    }

    /// One over each element.
    #[track_caller]
    pub fn reciprocal(&self) -> Tensor {
        self.like(1.0, At::caller()) / self
    }

    /// Each element to the `n`-th power, by repeated squaring.
    #[track_caller]
    pub fn powi(&self, n: i32) -> Tensor {
        let mut rest = n.unsigned_abs();
        let mut square = self.clone();
        let mut product: Option<Tensor> = None;
        while rest > 0 {
            if rest & 1 == 1 {
                product = Some(match product {
                    Some(p) => &p * &square,
                    None => square.clone(),
                });
            }
            rest >>= 1;
            if rest > 0 {
                square = &square * &square;
            }
        }
        match product {
            None => Tensor::ones_like(self),
            Some(p) if n < 0 => p.reciprocal(),
            Some(p) => p,
        }
    }

    /// `√(x² + y²)`, within 3 units in the last place, without overflow or underflow on
    /// the way. Infinite if either is, whatever the other.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([3e30f32, f32::INFINITY]);
    /// assert_eq!(x.hypot(Tensor::from([4e30f32, f32::NAN])).to_vec::<f32>()?, [5e30, f32::INFINITY]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn hypot(&self, other: impl Operand) -> Tensor {
        let at = At::caller();
        if let Err(poisoned) = self.floating("hypot", at) {
            return poisoned;
        }
        let (x, y) = match self.pair("hypot", other, at) {
            Ok((x, y)) => (x.abs(), y.abs()),
            Err(poisoned) => return poisoned,
        };
        let (greater, lesser) = (x.maximum(&y), x.minimum(&y));
        let one = self.like(1.0, at);
        let ratio = lesser / greater.eq(self.like(0.0, at)).select(&one, &greater);
        let length = greater * (ratio.square() + one).sqrt();
        let infinity = self.like(f64::INFINITY, at);
        (x.eq(&infinity) | y.eq(&infinity)).select(&infinity, length)
    }

    /// `log(exp(x) + exp(y))`, without overflow: the sum of what logarithms stand for.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([1000.0f32, f32::NEG_INFINITY]);
    /// let sum = x.logaddexp(Tensor::from([1000.0f32, f32::NEG_INFINITY])).to_vec::<f32>()?;
    /// assert!((sum[0] - 1000.6931).abs() < 1e-3 && sum[1] == f32::NEG_INFINITY);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn logaddexp(&self, other: impl Operand) -> Tensor {
        self.log_sum_of_two("logaddexp", other, At::caller(), |d| d.exp().log1p())
    }

    /// `log2(exp2(x) + exp2(y))`, without overflow.
    ///
    /// ```
    /// use kiln::prelude::*;
    /// let x = Tensor::from([-3.0f32, 2000.0]);
    /// assert_eq!(x.logaddexp2(&x).to_vec::<f32>()?, [-2.0, 2001.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn logaddexp2(&self, other: impl Operand) -> Tensor {
        let at = At::caller();
        let log2 = |d: Tensor| d.exp2().log1p() * d.like(std::f64::consts::LOG2_E, at);
        self.log_sum_of_two("logaddexp2", other, at, log2)
    }

    /// The greater of two logarithms, and the logarithm of 1 plus the ratio of what the
    /// lesser and the greater stand for, given the difference.
    pub(crate) fn log_sum_of_two(
        &self,
        op: &str,
        other: impl Operand,
        at: At,
        log_of_one_more: impl FnOnce(Tensor) -> Tensor,
    ) -> Tensor {
        if let Err(poisoned) = self.floating(op, at) {
            return poisoned;
        }
        let (x, y) = match self.pair(op, other, at) {
            Ok(both) => both,
            Err(poisoned) => return poisoned,
        };
        let difference = &x - &y;
        // Infinities of one sign differ by NaN: they are equal.
        let undefined = difference.isnan();
        let difference = undefined.select(self.like(0.0, at), difference);
        // Not the negated magnitude, whose derivative at 0 would be that of one side: with
        // the halves of a tie that `min` and `max` give, each operand has half.
        let ratio = difference.minimum(-&difference);
        x.maximum(y) + log_of_one_more(ratio)
    }

    /// Each element to the `n`-th power: `jax.lax.integer_pow`; the same as
    /// [`Tensor::powi`].
    #[track_caller]
    pub fn integer_pow(&self, n: i32) -> Tensor {
        self.powi(n)
    }

    /// Each element to a power; the same as [`Tensor::pow`].
    #[track_caller]
    pub fn powf(&self, exponent: impl Operand) -> Tensor {
        self.binary(Binary::Pow, exponent, At::caller())
    }

    /// Elements limited to `low..=high`; NaN stays NaN.
    #[track_caller]
    pub fn clip(&self, low: impl Operand, high: impl Operand) -> Tensor {
        let at = At::caller();
        match self.pair("clip", low, at) {
            Ok((lhs, low)) => match lhs.binary(Binary::Max, &low, at).pair("clip", high, at) {
                Ok((lhs, high)) => lhs.binary(Binary::Min, &high, at),
                Err(poisoned) => poisoned,
            },
            Err(poisoned) => poisoned,
        }
    }

    /// Elements limited to `low..=high` by the `clamp` op, whose gradient at a
    /// bound is 0 (that of [`Tensor::clip`] is ½); rank-0 bounds or bounds of the same shape.
    #[track_caller]
    pub fn clamp(&self, low: impl Operand, high: impl Operand) -> Tensor {
        let at = At::caller();
        let bounded = |bound: Result<(Tensor, Tensor), Tensor>| match bound {
            Ok((_, bound)) => bound,
            Err(poisoned) => poisoned,
        };
        let low = bounded(self.pair("clamp", low, at));
        let high = bounded(self.pair("clamp", high, at));
        Tensor::apply(Clamp, &[&low, self, &high], at)
    }

    /// `then` where this `bool` tensor is true, else `otherwise`; the three
    /// broadcast against each other.
    #[track_caller]
    pub fn select(&self, then: impl Operand, otherwise: impl Operand) -> Tensor {
        select(self, then.operand(), otherwise.operand(), At::caller())
    }

    /// `then` where `condition` is true, else `otherwise`: `jax.numpy.where`.
    #[track_caller]
    pub fn where_(condition: &Tensor, then: impl Operand, otherwise: impl Operand) -> Tensor {
        select(condition, then.operand(), otherwise.operand(), At::caller())
    }

    /// Whether each element is NaN.
    #[track_caller]
    pub fn isnan(&self) -> Tensor {
        self.ne(self)
    }

    /// Whether each element is infinite.
    #[track_caller]
    pub fn isinf(&self) -> Tensor {
        if self.is_complex() {
            return self.real().isinf() | self.imag().isinf();
        }
        !(self.isfinite() | self.isnan())
    }

    /// NaN replaced by 0, infinities by the greatest and least finite values.
    #[track_caller]
    pub fn nan_to_num(&self) -> Tensor {
        let at = At::caller();
        let Ok(ty) = self.try_ty() else { return self.clone() };
        let greatest = match ty.dtype {
            DType::F16 => 65504.0,
            DType::BF16 => half::bf16::MAX.to_f64(),
            DType::F32 => f32::MAX as f64,
            DType::F64 => f64::MAX,
            DType::C64 | DType::C128 => {
                return Tensor::complex(&self.real().nan_to_num(), &self.imag().nan_to_num());
            }
            _ => return self.clone(),
        };
        let (top, bottom) = (self.like(greatest, at), self.like(-greatest, at));
        let finite = self.maximum(bottom).minimum(top);
        self.isnan().select(self.like(0.0, at), finite)
    }

    /// Where both are true.
    #[track_caller]
    pub fn logical_and(&self, other: impl Operand) -> Tensor {
        self.binary(Binary::And, other, At::caller())
    }

    /// Where at least one is true.
    #[track_caller]
    pub fn logical_or(&self, other: impl Operand) -> Tensor {
        self.binary(Binary::Or, other, At::caller())
    }

    /// Where exactly one is true.
    #[track_caller]
    pub fn logical_xor(&self, other: impl Operand) -> Tensor {
        self.binary(Binary::Xor, other, At::caller())
    }

    /// Where it is false.
    #[track_caller]
    pub fn logical_not(&self) -> Tensor {
        !self
    }

    /// The rank-0 constant `x` in this tensor's element type.
    pub(crate) fn like(&self, x: f64, at: At) -> Tensor {
        match self.try_ty() {
            Ok(ty) => Tensor::number(x, ty.dtype, at),
            Err(error) => Tensor::poisoned(error),
        }
    }
}

fn select(condition: &Tensor, then: OperandKind, otherwise: OperandKind, at: At) -> Tensor {
    // A poisoned value has no element type; the other side must not fail for it.
    if let Some(error) = then.error().or(otherwise.error()) {
        return Tensor::poisoned(error.clone());
    }
    let dtype = then.dtype().or(otherwise.dtype()).unwrap_or_else(|| then.default_dtype());
    let then = then.tensor(dtype, "select", at);
    let otherwise = otherwise.tensor(dtype, "select", at);
    let (then, otherwise) = match then.pair("select", &otherwise, at) {
        Ok(both) => both,
        Err(poisoned) => return poisoned,
    };
    let (Ok(c), Ok(t)) = (condition.try_ty(), then.try_ty()) else {
        return Tensor::apply(Select, &[condition, &then, &otherwise], at);
    };
    let Some(shape) = super::movement::broadcast_shapes(&c.shape, &t.shape) else {
        let message = format!("shapes do not broadcast: condition {c}, values {t}");
        let operands = [("condition", condition), ("value", &then)];
        return Tensor::fail_operands("select", message, &operands, at);
    };
    let [c, t, o] = [condition, &then, &otherwise].map(|x| x.expand(&shape, at));
    Tensor::apply(Select, &[&c, &t, &o], at)
}
