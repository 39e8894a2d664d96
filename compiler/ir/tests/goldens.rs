//! `eval` against numpy: the files that `tests/goldens/generate.py` wrote.
//!
//! The format is described there. A result may be as many units in the last place away
//! as its case allows, counted for a complex one in the larger part; NaN equals NaN, and the sign of a
//! zero counts.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use kiln_ir::op::{Attr, Attrs};
use kiln_ir::{Literal, Op, Scalar, Type};

const FAMILIES: [&str; 16] = [
    "binary",
    "bits",
    "choose",
    "complex",
    "contraction",
    "convert",
    "dynamic",
    "fold",
    "generate",
    "indexed",
    "movement",
    "random",
    "reduce",
    "sort",
    "special",
    "unary",
];

struct Case {
    line: usize,
    op: Op,
    operands: Vec<Literal>,
    /// Which result of the op the case is about.
    result: usize,
    wanted: Literal,
    ulp: u64,
}

fn read(family: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens");
    let path = folder.join(format!("{family}.golden"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut tensors: BTreeMap<&str, Literal> = BTreeMap::new();
    let mut cases = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((i, line)) = lines.next() {
        let mut digits = String::new();
        while let Some((_, data)) = lines.next_if(|(_, l)| l.starts_with("  ")) {
            digits.push_str(data.trim());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["#", ..] => {}
            ["let", name, ty] => {
                tensors.insert(name, literal(ty, &digits));
            }
            ["case", name, ref middle @ .., "->", ty, ulp] => {
                let wanted = literal(ty, &digits);
                let (attributes, operands): (Vec<&str>, Vec<&str>) =
                    middle.iter().partition(|word| word.contains('='));
                let (result, attributes): (Vec<&str>, Vec<&str>) =
                    attributes.iter().partition(|word| word.starts_with("result="));
                let result = result.first().map_or(0, |word| word[7..].parse().expect("a number"));
                cases.push(Case {
                    line: i + 1,
                    op: op(name, &attributes, wanted.ty()),
                    operands: operands.iter().map(|name| tensors[name].clone()).collect(),
                    result,
                    wanted,
                    ulp: ulp.strip_prefix("ulp=").expect("ulp").parse().expect("ulp"),
                });
            }
            _ => panic!("{family}.golden:{}: {line}", i + 1),
        }
    }
    cases
}

fn op(name: &str, attributes: &[&str], result: &Type) -> Op {
    let mut attrs = Attrs::new();
    for word in attributes {
        let (key, value) = word.split_once('=').expect("key=value");
        let integer = |word: &str| word.parse::<i64>().expect("an integer");
        let value = match value.strip_prefix('[').and_then(|v| v.strip_suffix(']')) {
            Some("") => Attr::Ints(vec![]),
            Some(list) => Attr::Ints(list.split(',').map(integer).collect()),
            None => match value.parse() {
                Ok(integer) => Attr::Int(integer),
                Err(_) => Attr::Word(value.to_string()),
            },
        };
        attrs.push(key, value);
    }
    let op = Op::parse(name, &mut attrs, std::slice::from_ref(result));
    assert!(attrs.is_empty(), "{name} knows no {attrs:?}");
    op.unwrap_or_else(|| panic!("no op {name}")).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn literal(ty: &str, digits: &str) -> Literal {
    let ty = common::ty(ty);
    let dtype = ty.dtype;
    let width = dtype.size() * 2;
    assert_eq!(digits.len(), ty.elements() * width, "digits of {ty}");
    Literal::from_fn(ty, |i| {
        let word = &digits[i * width..(i + 1) * width];
        let bits = u128::from_str_radix(word, 16).expect("hexadecimal");
        Scalar::from_le_bytes(dtype, &bits.to_le_bytes()[..dtype.size()])
    })
}

/// Units in the last place between two elements; `None` if only one is NaN, or if
/// zeros differ in sign.
fn distance(a: Scalar, b: Scalar) -> Option<u64> {
    if a == b {
        return Some(0);
    }
    if !a.dtype().is_float() {
        return None;
    }
    let (x, y) = (a.as_f64(), b.as_f64());
    if x.is_nan() || y.is_nan() {
        return (x.is_nan() && y.is_nan()).then_some(0);
    }
    if x == y {
        return None;
    }
    // Places on the line of floats, negative ones below zero.
    let place = |s: Scalar| {
        let sign = 1u64 << (s.dtype().bits() - 1);
        if s.bits() & sign != 0 { -((s.bits() ^ sign) as i128) } else { s.bits() as i128 }
    };
    u64::try_from((place(a) - place(b)).abs()).ok()
}

/// Whether an element is what it should be to within `ulp` units: of a complex one, each
/// part to within units of the larger part.
fn is_near(ours: Scalar, numpys: Scalar, ulp: u64) -> bool {
    let near = |a, b| distance(a, b).is_some_and(|d| d <= ulp);
    if !numpys.dtype().is_complex() {
        return near(ours, numpys);
    }
    let parts = [numpys.real(), numpys.imag()].map(Scalar::as_f64);
    let largest = parts.into_iter().map(f64::abs).filter(|x| x.is_finite()).fold(0.0, f64::max);
    let next = Scalar::from_f64(numpys.dtype().part(), largest).bits() + 1;
    let unit = Scalar::from_bits(numpys.dtype().part(), next).as_f64() - largest;
    let part = |a: Scalar, b: Scalar| {
        near(a, b) || (a.as_f64() - b.as_f64()).abs() <= ulp as f64 * unit && ulp > 0
    };
    part(ours.real(), numpys.real()) && part(ours.imag(), numpys.imag())
}

fn check(family: &str, case: &Case) -> Result<(), String> {
    let at = |message: String| format!("{family}.golden:{}: {}: {message}", case.line, case.op);
    let types: Vec<&Type> = case.operands.iter().map(Literal::ty).collect();
    let inferred = case.op.infer(&types).map_err(|e| at(e.to_string()))?;
    if inferred.get(case.result) != Some(case.wanted.ty()) {
        return Err(at(format!("gives {inferred:?}, numpy {}", case.wanted.ty())));
    }
    let results = case.op.eval(&case.operands.iter().collect::<Vec<_>>(), &inferred);
    let result = &results[case.result];
    for (i, (ours, numpys)) in result.iter().zip(case.wanted.iter()).enumerate() {
        if !is_near(ours, numpys, case.ulp) {
            let like = case.operands.iter().filter(|x| x.ty().shape == result.ty().shape);
            let inputs: Vec<Scalar> = like.map(|x| x.get(i)).collect();
            return Err(at(format!("element {i} of {inputs:?} is {ours:?}, in numpy {numpys:?}")));
        }
    }
    Ok(())
}

#[test]
fn eval_agrees_with_numpy() {
    let mut count = 0;
    let mut errors = Vec::new();
    for family in FAMILIES {
        let cases = read(family);
        assert!(!cases.is_empty(), "{family} has no cases");
        count += cases.len();
        errors.extend(cases.iter().filter_map(|case| check(family, case).err()));
    }
    assert!(errors.is_empty(), "{} of {count} cases:\n{}", errors.len(), errors.join("\n"));
}

/// Every op on every element type of its samples is in some file, but for those that
/// numpy has nothing to say about.
#[test]
fn every_op_and_type_is_compared() {
    let key = |op: &Op, operands: &[Type], result: &Type| {
        let dtype = operands.get(usize::from(op.name() == "select")).unwrap_or(result).dtype;
        (op.name(), dtype)
    };
    let mut compared = BTreeSet::new();
    for case in FAMILIES.iter().flat_map(|family| read(family)) {
        let types: Vec<Type> = case.operands.iter().map(|x| x.ty().clone()).collect();
        compared.insert(key(&case.op, &types, case.wanted.ty()));
    }
    for (row, samples) in Op::samples() {
        if matches!(row, "Constant" | "OptimizationBarrier" | "Call") {
            continue;
        }
        // What a body does, numpy says of the ops in it.
        for sample in samples.into_iter().filter(|s| s.op.graphs().is_empty()) {
            let operands: Vec<&Type> = sample.operands.iter().collect();
            let result = &sample.op.infer(&operands).expect("a sample")[0];
            let key = key(&sample.op, &sample.operands, result);
            assert!(compared.contains(&key), "no golden of {key:?}");
        }
    }
}
