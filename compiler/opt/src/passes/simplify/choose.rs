//! Rules for comparisons, choices and conversions.

use kiln_ir::op::{BitcastConvert, Compare, Convert, Part, Select, Unary};
use kiln_ir::{DType, Op, Scalar};

use super::arithmetic::extremes;
use super::{Rule, Site, Term, full, new};

pub(super) const COMPARE: &[Rule] = &[
    ("compare.same", compare_same),
    ("compare.bool", compare_bool),
    ("compare.unsigned", compare_unsigned),
];

pub(super) const SELECT: &[Rule] = &[
    ("select.same", select_same),
    ("select.constant", select_constant),
    ("select.not", select_not),
    ("select.bool", select_bool),
    ("select.nested", select_nested),
];

pub(super) const CLAMP: &[Rule] = &[("clamp.wide", clamp_wide)];

pub(super) const CONVERT: &[Rule] =
    &[("convert.same", convert_same), ("convert.twice", convert_twice)];

pub(super) const BITCAST: &[Rule] =
    &[("bitcast.same", bitcast_same), ("bitcast.twice", bitcast_twice)];

pub(super) const COMPLEX: &[Rule] = &[("complex.parts", complex_of_parts)];

/// The parts of one number make that number.
fn complex_of_parts(site: &Site) -> Option<Term> {
    let (re, im) = (site.maker(0), site.maker(1));
    let parts = matches!((re.op(), im.op()), (Op::Part(Part::Real), Op::Part(Part::Imag)));
    (parts && re.operands[0] == im.operands[0]).then(|| re.operands[0].into())
}

/// A value compared with itself: certain, but for floats, which may be NaN, only
/// where NaN gives the same answer.
fn compare_same(site: &Site) -> Option<Term> {
    let Op::Compare(f) = *site.op() else { return None };
    if site.operands[0] != site.operands[1] {
        return None;
    }
    let answer = match f {
        Compare::Lt | Compare::Gt => false,
        _ if site.dtype().is_float() => return None,
        Compare::Ne => false,
        Compare::Eq | Compare::Le | Compare::Ge => true,
    };
    Some(full(Scalar::bool(answer), site.shape()))
}

/// `p == true` is `p`, `p == false` is `not p`; the other way round for `!=`.
fn compare_bool(site: &Site) -> Option<Term> {
    let Op::Compare(f @ (Compare::Eq | Compare::Ne)) = *site.op() else { return None };
    if site.dtype() != DType::Bool {
        return None;
    }
    let (k, c) = [1, 0].into_iter().find_map(|k| Some((k, site.constant(k)?)))?;
    let x = site.operands[1 - k];
    let plain = (c == Scalar::bool(true)) == (f == Compare::Eq);
    Some(if plain { x.into() } else { new(Unary::Not, [x]) })
}

/// Nothing unsigned is below 0.
fn compare_unsigned(site: &Site) -> Option<Term> {
    let Op::Compare(f) = *site.op() else { return None };
    let dtype = site.dtype();
    if !dtype.is_unsigned() || site.constant(1)? != Scalar::zero(dtype) {
        return None;
    }
    let answer = match f {
        Compare::Lt => false,
        Compare::Ge => true,
        _ => return None,
    };
    Some(full(Scalar::bool(answer), site.shape()))
}

fn select_same(site: &Site) -> Option<Term> {
    (site.operands[1] == site.operands[2]).then(|| site.operands[1].into())
}

fn select_constant(site: &Site) -> Option<Term> {
    let chosen = if site.constant(0)? == Scalar::bool(true) { 1 } else { 2 };
    Some(site.operands[chosen].into())
}

fn select_not(site: &Site) -> Option<Term> {
    let maker = site.maker(0);
    let Op::Unary(Unary::Not) = maker.op() else { return None };
    Some(new(Select, [maker.operands[0], site.operands[2], site.operands[1]]))
}

/// A choice between true and false is the condition.
fn select_bool(site: &Site) -> Option<Term> {
    if site.ty().dtype != DType::Bool {
        return None;
    }
    let (yes, no) = (site.constant(1)?, site.constant(2)?);
    let p = site.operands[0];
    match (yes == Scalar::bool(true), no == Scalar::bool(true)) {
        (true, false) => Some(p.into()),
        (false, true) => Some(new(Unary::Not, [p])),
        (b, _) => Some(full(Scalar::bool(b), site.shape())),
    }
}

/// A choice inside a choice by the same condition is already made.
fn select_nested(site: &Site) -> Option<Term> {
    let p = site.operands[0];
    for k in [1, 2] {
        let maker = site.maker(k);
        if matches!(maker.op(), Op::Select(_)) && maker.operands[0] == p {
            let mut operands = site.operands.clone();
            operands[k] = maker.operands[k];
            return Some(new(Select, operands));
        }
    }
    None
}

/// Limits that nothing reaches. NaN passes through either way.
fn clamp_wide(site: &Site) -> Option<Term> {
    let extremes = extremes(site.ty().dtype);
    let wide = (site.constant(0)?, site.constant(2)?) == extremes;
    wide.then(|| site.operands[1].into())
}

fn convert_same(site: &Site) -> Option<Term> {
    (site.dtype() == site.ty().dtype).then(|| site.operands[0].into())
}

/// Through a type that holds every value of the first: the detour is left out.
/// Conversion depends on the value, which the detour does not change; but integers
/// wrap where floats saturate, so from integer by float to a narrower integer stays.
fn convert_twice(site: &Site) -> Option<Term> {
    let maker = site.maker(0);
    let Op::Convert(_) = maker.op() else { return None };
    let (from, by, to) = (maker.dtype(), maker.ty().dtype, site.ty().dtype);
    let saturates = by.is_float() && !from.is_float() && to.is_integer();
    let exact = widens(from, by) && (!saturates || widens(from, to));
    exact.then(|| new(Convert { to }, [maker.operands[0]]))
}

fn bitcast_same(site: &Site) -> Option<Term> {
    (site.dtype() == site.ty().dtype).then(|| site.operands[0].into())
}

/// Bits go from type to type unchanged, so only the first and the last matter.
fn bitcast_twice(site: &Site) -> Option<Term> {
    let maker = site.maker(0);
    let Op::BitcastConvert(_) = maker.op() else { return None };
    Some(new(BitcastConvert { to: site.ty().dtype }, [maker.operands[0]]))
}

/// Whether every value of `from` is a value of `to`.
fn widens(from: DType, to: DType) -> bool {
    use DType::{BF16, Bool, F16, F32, F64};
    // Bits of the integers that a float holds without a gap.
    let mantissa = |d| match d {
        F16 => 11,
        BF16 => 8,
        F32 => 24,
        F64 => 53,
        _ => 0,
    };
    if from == to || from == Bool {
        return true;
    }
    if from.is_float() {
        return matches!((from, to), (F16 | BF16, F32 | F64) | (F32, F64));
    }
    let magnitude = from.bits() - u32::from(from.is_signed_integer());
    if to.is_float() {
        // −2^n is a power of two: it fits where the magnitudes below it do.
        return magnitude <= mantissa(to);
    }
    let holds = to.bits() - u32::from(to.is_signed_integer());
    let sign = !from.is_signed_integer() || to.is_signed_integer();
    to != Bool && sign && magnitude <= holds
}
