//! Index arithmetic against plain integers, over every position of small boxes.

use super::*;

/// A small generator, so that the walk is the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n as u64) as i64
    }
}

fn value(index: &Index, at: &[i64]) -> i64 {
    let terms = index.terms.iter().map(|(term, factor)| {
        factor
            * match term {
                Term::Axis(Axis::Point(p)) => at[*p as usize],
                Term::Axis(Axis::Inner) => at[3],
                Term::Axis(_) | Term::Dynamic(..) => unreachable!(),
                Term::Quotient(x, d) => {
                    let x = value(x, at);
                    assert!(x >= 0, "quotient of a negative index");
                    x / d
                }
                Term::Remainder(x, d) => {
                    let x = value(x, at);
                    assert!(x >= 0, "remainder of a negative index");
                    x % d
                }
            }
    });
    index.constant + terms.sum::<i64>()
}

fn positions(extents: &Extents) -> Vec<[i64; 4]> {
    let e: Vec<i64> = extents.points.iter().map(|&d| d as i64).collect();
    let mut all = Vec::new();
    for a in 0..e[0] {
        for b in 0..e[1] {
            for c in 0..e[2] {
                for r in 0..extents.inner as i64 {
                    all.push([a, b, c, r]);
                }
            }
        }
    }
    all
}

#[test]
fn random_expressions_keep_their_value_and_range() {
    let mut random = Random(1);
    for round in 0..3000 {
        let points = (0..3).map(|_| 1 + random.below(5) as u64).collect();
        let extents = Extents { points, inner: 1 + random.below(6) as u64, row: 0, column: 0 };
        let positions = positions(&extents);
        let mut index = Index::default();
        let mut values = vec![0i64; positions.len()];
        for _ in 0..1 + random.below(8) {
            let (axis, number) = match random.below(4) {
                3 => (Axis::Inner, 3),
                p => (Axis::Point(p as u32), p as usize),
            };
            let k = random.below(13) - 6;
            let d = 1 + random.below(12);
            match random.below(5) {
                0 => {
                    index = index.offset(k);
                    values.iter_mut().for_each(|v| *v += k);
                }
                1 => {
                    let factor = 1 + random.below(4);
                    index = index.scale(factor);
                    values.iter_mut().for_each(|v| *v *= factor);
                }
                2 => {
                    index = index.quotient(d, &extents);
                    values.iter_mut().for_each(|v| *v = v.div_euclid(d));
                }
                3 => {
                    index = index.remainder(d, &extents);
                    values.iter_mut().for_each(|v| *v = v.rem_euclid(d));
                }
                _ => {
                    index = index.add(&Index::axis(axis).scale(k));
                    values.iter_mut().zip(&positions).for_each(|(v, at)| *v += k * at[number]);
                }
            }
        }
        let (low, high) = index.range(&extents);
        for (at, v) in positions.iter().zip(&values) {
            assert_eq!(value(&index, at), *v, "round {round}: {index} at {at:?}");
            assert!((low..=high).contains(v), "round {round}: {index} is {v}");
        }
        // Moving every axis to itself changes nothing but may simplify.
        let same = index.substitute(&extents, &Index::axis, &|e| e);
        for (at, v) in positions.iter().zip(&values) {
            assert_eq!(value(&same, at), *v, "round {round}: {same} at {at:?}");
        }
    }
}

#[test]
fn reshapes_there_and_back_leave_no_division() {
    let mut random = Random(2);
    for _ in 0..2000 {
        let factors: Vec<usize> = (0..5).map(|_| 1 + random.below(4) as usize).collect();
        let total: usize = factors.iter().product();
        let extents = Extents { points: vec![total as u64, 1, 1], inner: 1, row: 0, column: 0 };
        let mut shape = Vec::new();
        for f in factors {
            match random.below(2) {
                0 if !shape.is_empty() => *shape.last_mut().unwrap() *= f,
                _ => shape.push(f),
            }
        }
        let flat = Index::axis(Axis::Point(0));
        let flat = if total == 1 { Index::default() } else { flat };
        let there = delinearize(&flat, &shape, &extents);
        assert_eq!(linearize(&there, &shape), flat, "{shape:?}");
        for at in 0..total as i64 {
            let mut rest = at;
            for (index, &extent) in there.iter().zip(&shape).rev() {
                assert_eq!(value(index, &[at, 0, 0, 0]), rest % extent as i64);
                rest /= extent as i64;
            }
        }
    }
}

#[test]
fn coefficients_say_how_an_index_moves() {
    let extents = Extents { points: vec![6, 8], inner: 4, row: 0, column: 0 };
    let (p0, p1) = (Index::axis(Axis::Point(0)), Index::axis(Axis::Point(1)));
    let x = p0.scale(8).add(&p1);
    assert_eq!(x.coefficient(Axis::Point(1)), Some(1));
    assert_eq!(x.coefficient(Axis::Inner), Some(0));
    assert!(x.merges(Axis::Point(0), Axis::Point(1), 8));
    let y = x.quotient(3, &extents).add(&p0);
    assert_eq!(y.coefficient(Axis::Point(1)), None);
    assert!(!y.merges(Axis::Point(0), Axis::Point(1), 8));
    assert!(x.quotient(3, &extents).merges(Axis::Point(0), Axis::Point(1), 8));
}

#[test]
fn coefficients_in_blocks_hold_in_every_block() {
    let mut random = Random(3);
    let mut found = 0;
    for _ in 0..2000 {
        let extents = Extents { points: vec![3, 2, 1], inner: 48, row: 0, column: 0 };
        let unit = [1, 4, 8, 16][random.below(4) as usize];
        let p = Index::axis(Axis::Point(0)).scale(unit * random.below(5));
        let x = Index::axis(Axis::Inner).scale(1 + random.below(2)).add(&p);
        let x = x.offset(unit * random.below(3));
        let d = unit * (1 + random.below(6));
        let y = x.quotient(d, &extents).scale(random.below(7));
        let y = y.add(&x.remainder(d, &extents).scale(random.below(3)));
        for width in [2, 4, 16] {
            let Some(step) = y.coefficient_in_blocks(Axis::Inner, width) else { continue };
            found += usize::from(y.coefficient(Axis::Inner).is_none());
            for at in positions(&extents) {
                let first = [at[0], at[1], at[2], at[3] - at[3] % width];
                let moved = value(&y, &first) + step * (at[3] % width);
                assert_eq!(value(&y, &at), moved, "{y} at {at:?}, blocks of {width}");
            }
        }
    }
    assert!(found > 100, "only {found} indices are affine in blocks and not beyond");
}

#[test]
fn prints_row_major() {
    let extents = Extents { points: vec![6, 8], inner: 4, row: 0, column: 0 };
    let x = Index::axis(Axis::Point(0)).scale(32);
    let x = x.add(&Index::axis(Axis::Inner)).offset(-3);
    assert_eq!(x.to_string(), "32*p0 + r - 3");
    assert_eq!(Index::axis(Axis::Point(1)).quotient(3, &extents).to_string(), "(p1)/3");
    assert_eq!(Index::constant(-2).to_string(), "-2");
}
