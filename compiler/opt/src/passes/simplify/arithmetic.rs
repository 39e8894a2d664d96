//! Rules for elementwise ops.
//!
//! Integers are a ring: sums, differences and products wrap, so every identity of
//! rings holds. Floats keep few: `x + 0` is not `x` for −0, `x * 0` is not 0 for
//! infinities, `x - x` is not 0 for NaN. What holds is listed type by type.

use kiln_ir::op::{Binary, Compare, Unary};
use kiln_ir::{DType, Op, Scalar, Shape, Value};

use super::{Rule, Site, Term, full, new, spread};

pub(super) const UNARY: &[Rule] = &[
    ("unary.twice", twice),
    ("unary.idempotent", idempotent),
    ("not.compare", not_compare),
    ("even.sign", even_sign),
    ("abs.unsigned", abs_unsigned),
];

pub(super) const BINARY: &[Rule] = &[
    ("binary.identity", identity),
    ("binary.absorbing", absorbing),
    ("binary.same", same),
    ("binary.neg", of_neg),
    ("int.associate", associate),
    ("unsigned.power", unsigned_power),
    ("div.power", div_power),
    ("pow.small", pow_small),
];

/// What the operand of a unary op is, if it is a unary op too.
fn inner(site: &Site) -> Option<(Unary, Unary, Value)> {
    let Op::Unary(outer) = *site.op() else { return None };
    let maker = site.maker(0);
    let Op::Unary(inner) = *maker.op() else { return None };
    Some((outer, inner, maker.operands[0]))
}

/// `neg neg x` and `not not x` are `x`. Integers wrap: −MIN is MIN, twice as well.
fn twice(site: &Site) -> Option<Term> {
    let (outer, inner, x) = inner(site)?;
    let undoes = outer == inner && matches!(outer, Unary::Neg | Unary::Not);
    undoes.then(|| x.into())
}

/// What is already rounded, positive or a sign stays so.
fn idempotent(site: &Site) -> Option<Term> {
    let (outer, inner, _) = inner(site)?;
    let whole = |f| {
        matches!(f, Unary::Floor | Unary::Ceil | Unary::Round | Unary::RoundAway | Unary::Trunc)
    };
    let stays = match outer {
        Unary::Abs | Unary::Sign => outer == inner,
        f if whole(f) => whole(inner),
        _ => false,
    };
    stays.then(|| site.operands[0].into())
}

/// `abs` and `is_finite` of `neg x` or `abs x` are those of `x`. Unsigned negation
/// wraps to another magnitude.
fn even_sign(site: &Site) -> Option<Term> {
    let (outer, inner, x) = inner(site)?;
    if site.dtype().is_unsigned() {
        return None;
    }
    let even = matches!(outer, Unary::Abs | Unary::IsFinite);
    let sign = match outer {
        Unary::Abs => inner == Unary::Neg,
        _ => matches!(inner, Unary::Neg | Unary::Abs),
    };
    (even && sign).then(|| new(outer, [x]))
}

/// `not (a < b)` is `a >= b`, but not for floats: NaN makes both false. Equality and
/// its opposite are each other's complement for NaN too.
fn not_compare(site: &Site) -> Option<Term> {
    let Op::Unary(Unary::Not) = site.op() else { return None };
    let maker = site.maker(0);
    let Op::Compare(f) = *maker.op() else { return None };
    let opposite = match f {
        Compare::Eq => Compare::Ne,
        Compare::Ne => Compare::Eq,
        _ if maker.dtype().is_float() => return None,
        Compare::Lt => Compare::Ge,
        Compare::Ge => Compare::Lt,
        Compare::Gt => Compare::Le,
        Compare::Le => Compare::Gt,
    };
    Some(new(opposite, maker.operands.clone()))
}

/// Unsigned magnitudes.
fn abs_unsigned(site: &Site) -> Option<Term> {
    let abs = matches!(site.op(), Op::Unary(Unary::Abs)) && site.dtype().is_unsigned();
    abs.then(|| site.operands[0].into())
}

fn binary(site: &Site) -> Option<Binary> {
    match site.op() {
        Op::Binary(f) => Some(*f),
        _ => None,
    }
}

fn ones(dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::bool(true),
        _ => Scalar::from_i128(dtype, -1),
    }
}

/// The least and the greatest value; for floats −∞ and ∞.
pub(super) fn extremes(dtype: DType) -> (Scalar, Scalar) {
    if dtype.is_float() {
        let at = |x| Scalar::from_f64(dtype, x);
        return (at(f64::NEG_INFINITY), at(f64::INFINITY));
    }
    let bits = dtype.bits();
    let at = |x| Scalar::from_i128(dtype, x);
    match dtype.is_signed_integer() {
        true => (at(-(1i128 << (bits - 1))), at((1i128 << (bits - 1)) - 1)),
        false => (at(0), at((1i128 << bits) - 1)),
    }
}

/// `f(x, c) = x`: the constant `c` that does nothing on the right of `f`.
///
/// `x + -0` and `x - 0` are `x` for every float: the sum of −0 and −0 is −0, that of
/// 0 and −0 is 0. With the other zero they are not.
fn neutral(f: Binary, dtype: DType, c: Scalar) -> bool {
    let is = |x: Scalar| c == x;
    let (zero, one) = (Scalar::zero(dtype), Scalar::one(dtype));
    let (least, greatest) = extremes(dtype);
    match f {
        Binary::Add if dtype.is_float() => is(Scalar::from_f64(dtype, -0.0)),
        Binary::Add | Binary::Sub | Binary::Or | Binary::Xor => is(zero),
        Binary::Mul | Binary::Div => is(one),
        Binary::Pow => is(one),
        Binary::And => is(ones(dtype)),
        Binary::Min => is(greatest),
        Binary::Max => is(least),
        Binary::ShiftLeft | Binary::ShiftRightLogical | Binary::ShiftRightArithmetic => is(zero),
        Binary::Rem | Binary::Atan2 | Binary::NextAfter => false,
    }
}

fn symmetric(f: Binary) -> bool {
    matches!(
        f,
        Binary::Add
            | Binary::Mul
            | Binary::Min
            | Binary::Max
            | Binary::And
            | Binary::Or
            | Binary::Xor
    )
}

/// `x + 0`, `x * 1`, `max(x, least)` and their kind are `x`.
fn identity(site: &Site) -> Option<Term> {
    let f = binary(site)?;
    let dtype = site.dtype();
    if let Some(c) = site.constant(1)
        && neutral(f, dtype, c)
    {
        return Some(site.operands[0].into());
    }
    let c = site.constant(0)?;
    (symmetric(f) && neutral(f, dtype, c)).then(|| site.operands[1].into())
}

/// `x * 0`, `x & 0`, `min(x, least)` and their kind are the constant; for integers
/// and `bool` only: NaN absorbs every float. `x rem 1` is 0 for integers.
fn absorbing(site: &Site) -> Option<Term> {
    let f = binary(site)?;
    let dtype = site.dtype();
    if dtype.is_float() {
        return None;
    }
    let (least, greatest) = extremes(dtype);
    let zero = Scalar::zero(dtype);
    if f == Binary::Rem {
        return (site.constant(1)? == Scalar::one(dtype)).then(|| full(zero, site.shape()));
    }
    let absorbs = |c: Scalar| match f {
        Binary::Mul | Binary::And => c == zero,
        Binary::Or => c == ones(dtype),
        Binary::Add => dtype == DType::Bool && c == ones(dtype),
        Binary::Min => c == least,
        Binary::Max => c == greatest,
        _ => false,
    };
    let c = [0, 1].into_iter().find_map(|k| site.constant(k).filter(|&c| absorbs(c)))?;
    Some(full(c, site.shape()))
}

/// `x - x` and `x ^ x` are 0 where there is no NaN; `min(x, x)` and the like are `x`.
fn same(site: &Site) -> Option<Term> {
    let f = binary(site)?;
    if site.operands[0] != site.operands[1] {
        return None;
    }
    let dtype = site.dtype();
    match f {
        Binary::Sub | Binary::Xor if !dtype.is_float() => {
            Some(full(Scalar::zero(dtype), site.shape()))
        }
        Binary::Min | Binary::Max | Binary::And | Binary::Or => Some(site.operands[0].into()),
        Binary::Add | Binary::Mul if dtype == DType::Bool => Some(site.operands[0].into()),
        _ => None,
    }
}

/// The operand of a negation.
fn negated(site: &Site, k: usize) -> Option<Value> {
    let maker = site.maker(k);
    matches!(maker.op(), Op::Unary(Unary::Neg)).then(|| maker.operands[0])
}

/// Negations go into sums and out of products: `x + -y` is `x - y`, `x - -y` is
/// `x + y`, `-x * -y` is `x * y`. IEEE defines subtraction as adding the negation;
/// the sign of a product is that of its factors combined, of a NaN no matter.
fn of_neg(site: &Site) -> Option<Term> {
    let f = binary(site)?;
    let (x, y) = (site.operands[0], site.operands[1]);
    match f {
        Binary::Add => match (negated(site, 0), negated(site, 1)) {
            (_, Some(y)) => Some(new(Binary::Sub, [x, y])),
            (Some(x), None) => Some(new(Binary::Sub, [y, x])),
            (None, None) => None,
        },
        Binary::Sub => negated(site, 1).map(|y| new(Binary::Add, [x, y])),
        Binary::Mul => Some(new(f, [negated(site, 0)?, negated(site, 1)?])),
        // −MIN is MIN, so quotients of integers change.
        Binary::Div if site.dtype().is_float() => {
            Some(new(f, [negated(site, 0)?, negated(site, 1)?]))
        }
        _ => None,
    }
}

/// `(x + c) + d` is `x + (c + d)` for integers, which wrap; so for products, and for
/// what is bitwise. The constants fold then.
fn associate(site: &Site) -> Option<Term> {
    let f = binary(site)?;
    let associates =
        matches!(f, Binary::Add | Binary::Mul | Binary::And | Binary::Or | Binary::Xor);
    if !associates || site.dtype().is_float() {
        return None;
    }
    let (k, d) = [1, 0].into_iter().find_map(|k| Some((k, site.constant(k)?)))?;
    let maker = site.maker(1 - k);
    if binary(&maker) != Some(f) {
        return None;
    }
    let (j, c) = [1, 0].into_iter().find_map(|j| Some((j, maker.constant(j)?)))?;
    // Both constant: folding will do better.
    if maker.constant(1 - j).is_some() {
        return None;
    }
    let scalar = |c| full(c, &Shape::scalar());
    let constant = spread(new(f, [scalar(c), scalar(d)]), site.shape());
    Some(new(f, [maker.operands[1 - j].into(), constant]))
}

/// Unsigned division and remainder by a power of two are a shift and a mask. Signed
/// division truncates towards zero, which a shift does not.
fn unsigned_power(site: &Site) -> Option<Term> {
    let f = binary(site)?;
    let dtype = site.dtype();
    if !dtype.is_unsigned() {
        return None;
    }
    let c = site.constant(1)?.as_i128()?;
    if c < 2 || c.count_ones() != 1 {
        return None;
    }
    let (f, c) = match f {
        Binary::Div => (Binary::ShiftRightLogical, i128::from(c.trailing_zeros())),
        Binary::Rem => (Binary::And, c - 1),
        _ => return None,
    };
    let constant = full(Scalar::from_i128(dtype, c), site.shape());
    Some(new(f, [site.operands[0].into(), constant]))
}

/// `x / 2^k` is `x * 2^-k`: both round the same real number once. The reciprocal must
/// be exact, so it must not overflow; for the half types the quotient is formed in
/// `f32`, where the same holds, and rounded to half afterwards in both.
fn div_power(site: &Site) -> Option<Term> {
    let dtype = site.dtype();
    if binary(site)? != Binary::Div || !dtype.is_float() {
        return None;
    }
    let c = site.constant(1)?;
    let x = c.as_f64();
    // A power of two has an empty mantissa; subnormal ones are left alone.
    let power = x.is_normal() && x.to_bits() & ((1 << 52) - 1) == 0;
    let reciprocal = Scalar::from_f64(dtype, 1.0 / x);
    if !power || x == 1.0 || !is_normal(reciprocal) || reciprocal.as_f64() * x != 1.0 {
        return None;
    }
    Some(new(Binary::Mul, [site.operands[0].into(), full(reciprocal, site.shape())]))
}

fn is_normal(x: Scalar) -> bool {
    match x.dtype() {
        DType::F16 => half::f16::from_bits(x.bits() as u16).is_normal(),
        DType::BF16 => half::bf16::from_bits(x.bits() as u16).is_normal(),
        DType::F32 => f32::from_bits(x.bits() as u32).is_normal(),
        _ => x.as_f64().is_normal(),
    }
}

/// `x^0` is 1, for NaN too. `x^2` is `x * x`: for integers, which wrap alike, and for
/// floats of up to 32 bits, whose square is exact in `f64`, so that a power function
/// with an error below one unit there gives exactly it, and both round it once. For
/// `f64` the last bit could differ.
fn pow_small(site: &Site) -> Option<Term> {
    if binary(site)? != Binary::Pow {
        return None;
    }
    let (dtype, c) = (site.dtype(), site.constant(1)?);
    if c == Scalar::zero(dtype) {
        return Some(full(Scalar::one(dtype), site.shape()));
    }
    let square = c == Scalar::from_i128(dtype, 2) && dtype != DType::F64;
    let x = site.operands[0];
    square.then(|| new(Binary::Mul, [x, x]))
}
