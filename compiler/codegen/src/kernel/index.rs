//! Index maps: integer expressions in the axes of the iteration space.
//!
//! An [`Index`] is a constant plus a sum of terms with constant factors. Most are
//! affine in the axes; reshapes that do not collapse add quotients and remainders,
//! and dynamic slices add values known only at run time. Arithmetic is exact in
//! `i64`; [`Index::range`] bounds it, which is what lets a backend use 32 bits.
//!
//! Quotients and remainders simplify as they are made, by what the ranges of the
//! axes allow, and two rules put them together again:
//!
//! ```text
//! (1024*p0 + p1) / 1024  =  p0            0 <= p1 < 1024
//! (64*p0 + p1) / 128     =  p0/2          0 <= p1 < 64
//! d*(x/d) + x%d          =  x
//! c*((x/c)%b) + x%c      =  x%(b*c)
//! ```
//!
//! so that a reshape followed by its inverse leaves nothing behind.

use std::fmt;

use super::ExprId;

/// An axis of the iteration space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Axis {
    /// A point (or batch) axis, by number.
    Point(u32),
    /// The inner axis of a stage, or the summed axis of a contraction.
    Inner,
    /// Rows of a contraction's result.
    Row,
    /// Columns of a contraction's result.
    Column,
}

/// A factor times a term.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Term {
    /// An axis.
    Axis(Axis),
    /// The floor of a non-negative index divided by a positive constant.
    Quotient(Box<Index>, i64),
    /// The remainder of a non-negative index by a positive constant.
    Remainder(Box<Index>, i64),
    /// An `i64` expression with its least and greatest value. What it depends on is not
    /// told by [`Index::depends_on`]: see [`Exprs::varying_along`](super::Exprs).
    Dynamic(ExprId, i64, i64),
}

/// `constant + sum of factor * term`, terms sorted and distinct, factors not 0.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Index {
    /// The constant part.
    pub constant: i64,
    /// The rest.
    pub terms: Vec<(Term, i64)>,
}

/// How far each axis runs: `0 <= axis < extent`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extents {
    /// Of `Axis::Point(0..)`.
    pub points: Vec<u64>,
    /// Of `Axis::Inner`.
    pub inner: u64,
    /// Of `Axis::Row`.
    pub row: u64,
    /// Of `Axis::Column`.
    pub column: u64,
}

impl Extents {
    /// The extent of one axis.
    pub fn of(&self, axis: Axis) -> u64 {
        match axis {
            Axis::Point(p) => self.points[p as usize],
            Axis::Inner => self.inner,
            Axis::Row => self.row,
            Axis::Column => self.column,
        }
    }
}

impl Term {
    /// Least and greatest value, both reached unless a quotient or remainder is in play.
    fn range(&self, extents: &Extents) -> (i64, i64) {
        match self {
            Term::Axis(axis) => (0, extents.of(*axis).saturating_sub(1) as i64),
            Term::Quotient(index, divisor) => {
                let (low, high) = index.range(extents);
                (low.div_euclid(*divisor), high.div_euclid(*divisor))
            }
            Term::Remainder(index, divisor) => {
                let (low, high) = index.range(extents);
                if low.div_euclid(*divisor) == high.div_euclid(*divisor) {
                    (low.rem_euclid(*divisor), high.rem_euclid(*divisor))
                } else {
                    (0, divisor - 1)
                }
            }
            Term::Dynamic(_, low, high) => (*low, *high),
        }
    }
}

impl Index {
    /// A constant.
    pub fn constant(constant: i64) -> Index {
        Index { constant, terms: Vec::new() }
    }

    /// An axis.
    pub fn axis(axis: Axis) -> Index {
        Index::term(Term::Axis(axis))
    }

    /// One term.
    pub fn term(term: Term) -> Index {
        Index { constant: 0, terms: vec![(term, 1)] }
    }

    /// The value, if it is the same everywhere.
    pub fn as_constant(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }

    // --- arithmetic -----------------------------------------------------

    /// The sum.
    pub fn add(&self, other: &Index) -> Index {
        let mut sum = self.clone();
        sum.constant += other.constant;
        for (term, factor) in &other.terms {
            sum.push(term.clone(), *factor);
        }
        sum.recombine();
        sum
    }

    /// The sum with a constant.
    pub fn offset(&self, by: i64) -> Index {
        Index { constant: self.constant + by, terms: self.terms.clone() }
    }

    /// The product with a constant.
    pub fn scale(&self, by: i64) -> Index {
        if by == 0 {
            return Index::default();
        }
        let terms = self.terms.iter().map(|(t, f)| (t.clone(), f * by)).collect();
        Index { constant: self.constant * by, terms }
    }

    /// The floor of the quotient by a positive constant.
    pub fn quotient(&self, divisor: i64, extents: &Extents) -> Index {
        let (whole, rest) = self.divide(divisor, extents);
        if rest.fits_below(divisor, extents) {
            return whole;
        }
        // floor((g*x + c) / (g*d)) = floor(x / d) for 0 <= c < g
        let (x, g, _) = rest.coarse(divisor, extents);
        let d = divisor / g;
        let term = match x.as_term() {
            Some(Term::Quotient(y, e)) => Term::Quotient(y.clone(), e * d),
            // (y % (d*e)) / d = (y / d) % e
            Some(Term::Remainder(y, m)) if m % d == 0 => {
                return whole.add(&y.quotient(d, extents).remainder(m / d, extents));
            }
            _ => Term::Quotient(Box::new(x), d),
        };
        whole.add(&Index::term(term))
    }

    /// The remainder, not negative, by a positive constant.
    pub fn remainder(&self, divisor: i64, extents: &Extents) -> Index {
        let (_, rest) = self.divide(divisor, extents);
        if rest.fits_below(divisor, extents) {
            return rest;
        }
        // (g*x + c) % (g*d) = g*(x % d) + c for 0 <= c < g
        let (x, g, fine) = rest.coarse(divisor, extents);
        let d = divisor / g;
        let coarse = match x.as_term() {
            Some(Term::Remainder(y, m)) if m % d == 0 => y.remainder(d, extents),
            _ => Index::term(Term::Remainder(Box::new(x), d)),
        };
        coarse.scale(g).add(&fine)
    }

    /// `self = divisor * .0 + .1` with a `.1` that is never negative.
    ///
    /// Factors are split into multiples of the divisor and residues only when that
    /// leaves no division: it would hide that two axes could be merged.
    fn divide(&self, divisor: i64, extents: &Extents) -> (Index, Index) {
        debug_assert!(divisor > 0);
        let (whole, rest) = self.split(divisor, extents, |f| f / divisor);
        if rest.fits_below(divisor, extents) {
            return (whole, rest);
        }
        self.split(divisor, extents, |f| if f % divisor == 0 { f / divisor } else { 0 })
    }

    fn split(
        &self,
        divisor: i64,
        extents: &Extents,
        multiple: impl Fn(i64) -> i64,
    ) -> (Index, Index) {
        let mut whole = Index::default();
        let mut rest = Index::constant(self.constant);
        for (term, factor) in &self.terms {
            let m = multiple(*factor);
            whole.push(term.clone(), m);
            rest.push(term.clone(), factor - m * divisor);
        }
        let low = rest.range(extents).0.div_euclid(divisor);
        whole.constant += low;
        rest.constant -= low * divisor;
        whole.recombine();
        (whole, rest)
    }

    /// Whether the (non-negative) value is always below `limit`.
    fn fits_below(&self, limit: i64, extents: &Extents) -> bool {
        self.range(extents).1 < limit
    }

    /// `self = .1 * .0 + .2` with `.2` in `0..(.1)`, for the greatest such `.1` that
    /// divides `divisor`. The index is not negative.
    fn coarse(&self, divisor: i64, extents: &Extents) -> (Index, i64, Index) {
        let mut steps: Vec<i64> = self.terms.iter().map(|(_, f)| gcd(divisor, f.abs())).collect();
        steps.sort_unstable_by(|a, b| b.cmp(a));
        steps.dedup();
        for g in steps {
            let mut coarse = Index::constant(self.constant.div_euclid(g));
            let mut fine = Index::constant(self.constant.rem_euclid(g));
            for (term, factor) in &self.terms {
                if factor % g == 0 {
                    coarse.push(term.clone(), factor / g);
                } else {
                    fine.push(term.clone(), *factor);
                }
            }
            let (low, high) = fine.range(extents);
            if low >= 0 && high < g {
                return (coarse, g, fine);
            }
        }
        (self.clone(), 1, Index::default())
    }

    /// The term, if the index is nothing else.
    fn as_term(&self) -> Option<&Term> {
        match &self.terms[..] {
            [(term, 1)] if self.constant == 0 => Some(term),
            _ => None,
        }
    }

    /// Adds `factor * term` in place.
    fn push(&mut self, term: Term, factor: i64) {
        if factor == 0 {
            return;
        }
        match self.terms.binary_search_by(|(t, _)| t.cmp(&term)) {
            Ok(at) => {
                self.terms[at].1 += factor;
                if self.terms[at].1 == 0 {
                    self.terms.remove(at);
                }
            }
            Err(at) => self.terms.insert(at, (term, factor)),
        }
    }

    fn factor_of(&self, term: &Term) -> i64 {
        match self.terms.binary_search_by(|(t, _)| t.cmp(term)) {
            Ok(at) => self.terms[at].1,
            Err(_) => 0,
        }
    }

    /// Puts quotients and remainders of one index together again.
    fn recombine(&mut self) {
        while let Some((remove, add)) = self.terms.iter().find_map(|(t, f)| self.partner(t, *f)) {
            for (term, factor) in remove {
                self.push(term, -factor);
            }
            self.constant += add.constant;
            for (term, factor) in add.terms {
                self.push(term, factor);
            }
        }
    }

    /// For a remainder, the terms that can be replaced by fewer.
    fn partner(&self, term: &Term, factor: i64) -> Option<(Vec<(Term, i64)>, Index)> {
        let Term::Remainder(x, d) = term else { return None };
        // d*(x/d) + x%d = x, where x/d may be known as y/(c*d) if x is y/c.
        let quotient = match x.as_term() {
            Some(Term::Quotient(y, c)) => Term::Quotient(y.clone(), c * d),
            _ => Term::Quotient(x.clone(), *d),
        };
        if self.factor_of(&quotient) == factor * d {
            let both = vec![(term.clone(), factor), (quotient, factor * d)];
            return Some((both, x.scale(factor)));
        }
        // c*((x/c)%b) + x%c = x%(b*c)
        self.terms.iter().find_map(|(other, f)| {
            let Term::Remainder(y, b) = other else { return None };
            match y.as_term() {
                Some(Term::Quotient(z, c)) if z == x && c == d && *f == factor * d => {
                    let both = vec![(term.clone(), factor), (other.clone(), *f)];
                    let whole = Term::Remainder(x.clone(), b * c);
                    Some((both, Index { constant: 0, terms: vec![(whole, factor)] }))
                }
                _ => None,
            }
        })
    }

    // --- questions ------------------------------------------------------

    /// A least and a greatest value, exact when the index is affine.
    pub fn range(&self, extents: &Extents) -> (i64, i64) {
        self.terms.iter().fold((self.constant, self.constant), |(low, high), (term, factor)| {
            let (a, b) = term.range(extents);
            let (a, b) = (a.saturating_mul(*factor), b.saturating_mul(*factor));
            (low.saturating_add(a.min(b)), high.saturating_add(a.max(b)))
        })
    }

    /// `Some(f)` when the index is `f * axis` plus something that does not depend on it.
    pub fn coefficient(&self, axis: Axis) -> Option<i64> {
        let mut coefficient = 0;
        for (term, factor) in &self.terms {
            match term {
                Term::Axis(a) if *a == axis => coefficient = *factor,
                Term::Quotient(x, _) | Term::Remainder(x, _) if x.depends_on(axis) => return None,
                _ => {}
            }
        }
        Some(coefficient)
    }

    /// `Some(f)` when the index moves by `f` for each step along `axis` within blocks of
    /// `width` steps that start at multiples of `width`.
    ///
    /// That is less than affine: `r/784` and `r%784` are constant and linear in blocks of
    /// 16, though not beyond.
    pub fn coefficient_in_blocks(&self, axis: Axis, width: i64) -> Option<i64> {
        let mut coefficient = 0;
        for (term, factor) in &self.terms {
            match term {
                Term::Axis(a) if *a == axis => coefficient += factor,
                Term::Quotient(x, d) | Term::Remainder(x, d) if x.depends_on(axis) => {
                    // In a block, x runs from a multiple of `block` to below the next one,
                    // and d is a multiple of it too.
                    let step = x.coefficient(axis).filter(|s| *s > 0)?;
                    let block = step * width;
                    let others = x.terms.iter().filter(|(t, _)| *t != Term::Axis(axis));
                    let aligned = others.map(|(_, f)| *f).chain([x.constant, *d]);
                    if !aligned.into_iter().all(|v| v % block == 0) {
                        return None;
                    }
                    if matches!(term, Term::Remainder(..)) {
                        coefficient += factor * step;
                    }
                }
                _ => {}
            }
        }
        Some(coefficient)
    }

    /// How many terms it takes to write the index down.
    pub fn size(&self) -> usize {
        let inside = self.terms.iter().map(|(term, _)| match term {
            Term::Quotient(x, _) | Term::Remainder(x, _) => x.size(),
            Term::Axis(_) | Term::Dynamic(..) => 0,
        });
        self.terms.len() + inside.sum::<usize>()
    }

    /// Whether the value can change along an axis.
    pub fn depends_on(&self, axis: Axis) -> bool {
        self.terms.iter().any(|(term, _)| match term {
            Term::Axis(a) => *a == axis,
            Term::Quotient(x, _) | Term::Remainder(x, _) => x.depends_on(axis),
            Term::Dynamic(..) => false,
        })
    }

    /// Calls `f` for each expression that the index reads.
    pub fn for_each_dynamic(&self, f: &mut impl FnMut(ExprId)) {
        for (term, _) in &self.terms {
            match term {
                Term::Axis(_) => {}
                Term::Quotient(x, _) | Term::Remainder(x, _) => x.for_each_dynamic(f),
                Term::Dynamic(id, _, _) => f(*id),
            }
        }
    }

    // --- substitution ---------------------------------------------------

    /// The index with `axes(a)` for every axis `a` and `dynamic(e)` for every
    /// expression `e`, simplified for `extents` of the new axes.
    pub fn substitute(
        &self,
        extents: &Extents,
        axes: &impl Fn(Axis) -> Index,
        dynamic: &impl Fn(ExprId) -> ExprId,
    ) -> Index {
        let mut result = Index::constant(self.constant);
        for (term, factor) in &self.terms {
            let new = match term {
                Term::Axis(a) => axes(*a),
                Term::Quotient(x, d) => x.substitute(extents, axes, dynamic).quotient(*d, extents),
                Term::Remainder(x, d) => {
                    x.substitute(extents, axes, dynamic).remainder(*d, extents)
                }
                Term::Dynamic(id, low, high) => {
                    Index::term(Term::Dynamic(dynamic(*id), *low, *high))
                }
            };
            result = result.add(&new.scale(*factor));
        }
        result
    }

    /// The index with `f(e)` for every expression `e` it reads.
    pub fn rename(&self, f: &impl Fn(ExprId) -> ExprId) -> Index {
        let mut result = Index::constant(self.constant);
        for (term, factor) in &self.terms {
            let term = match term {
                Term::Axis(_) => term.clone(),
                Term::Quotient(x, d) => Term::Quotient(Box::new(x.rename(f)), *d),
                Term::Remainder(x, d) => Term::Remainder(Box::new(x.rename(f)), *d),
                Term::Dynamic(id, low, high) => Term::Dynamic(f(*id), *low, *high),
            };
            result.push(term, *factor);
        }
        result
    }

    /// Whether `outer` and `inner` occur only as `extent * outer + inner`, so that
    /// both can become one axis.
    pub fn merges(&self, outer: Axis, inner: Axis, extent: i64) -> bool {
        self.factor_of(&Term::Axis(outer)) == extent * self.factor_of(&Term::Axis(inner))
            && self.terms.iter().all(|(term, _)| match term {
                Term::Quotient(x, _) | Term::Remainder(x, _) => x.merges(outer, inner, extent),
                Term::Axis(_) | Term::Dynamic(..) => true,
            })
    }
}

fn gcd(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The element number of a multi-index in a dense row-major array.
pub fn linearize(indices: &[Index], shape: &[usize]) -> Index {
    debug_assert_eq!(indices.len(), shape.len());
    let mut linear = Index::default();
    let mut stride = 1i64;
    for (index, &extent) in indices.iter().zip(shape).rev() {
        linear = linear.add(&index.scale(stride));
        stride *= extent as i64;
    }
    linear
}

/// The multi-index of an element number in a dense row-major array.
pub fn delinearize(linear: &Index, shape: &[usize], extents: &Extents) -> Vec<Index> {
    let mut indices = vec![Index::default(); shape.len()];
    let mut rest = linear.clone();
    let outermost = shape.iter().position(|&d| d > 1);
    for (k, &extent) in shape.iter().enumerate().rev() {
        if Some(k) == outermost {
            indices[k] = rest;
            break;
        }
        if extent > 1 {
            indices[k] = rest.remainder(extent as i64, extents);
            rest = rest.quotient(extent as i64, extents);
        }
    }
    indices
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Axis::Point(p) => write!(f, "p{p}"),
            Axis::Inner => f.write_str("r"),
            Axis::Row => f.write_str("i"),
            Axis::Column => f.write_str("j"),
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Axis(axis) => write!(f, "{axis}"),
            Term::Quotient(x, d) => write!(f, "({x})/{d}"),
            Term::Remainder(x, d) => write!(f, "({x})%{d}"),
            Term::Dynamic(id, _, _) => write!(f, "%{}", id.0),
        }
    }
}

impl fmt::Display for Index {
    /// Larger factors first, which puts row-major indices in the order of their axes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut terms: Vec<_> = self.terms.iter().collect();
        terms.sort_by_key(|(_, factor)| std::cmp::Reverse(factor.abs()));
        let mut first = true;
        for (term, factor) in terms {
            let sign = match (first, *factor < 0) {
                (true, false) => "",
                (true, true) => "-",
                (false, false) => " + ",
                (false, true) => " - ",
            };
            f.write_str(sign)?;
            if factor.abs() != 1 {
                write!(f, "{}*", factor.abs())?;
            }
            write!(f, "{term}")?;
            first = false;
        }
        match self.constant {
            c if first => write!(f, "{c}"),
            0 => Ok(()),
            c if c < 0 => write!(f, " - {}", -c),
            c => write!(f, " + {c}"),
        }
    }
}

#[cfg(test)]
mod tests;
