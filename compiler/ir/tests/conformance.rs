//! Every op's samples against what `OpDef` asks of it.
//!
//! Backends are compared with `eval` elsewhere. Here: samples are accepted by `infer`,
//! attributes read back, `eval` gives what `infer` said, and the lists cover what
//! `OpDef::samples` promises.

use std::collections::BTreeSet;

use kiln_ir::op::{Attrs, Domain, Sample};
use kiln_ir::{DType, Literal, Op, Scalar, Type};

/// A small generator of words (SplitMix64): the same for every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn scalar(&mut self, dtype: DType, domain: Domain) -> Scalar {
        if dtype.is_complex() {
            let [re, im] = [(); 2].map(|()| self.scalar(dtype.part(), domain));
            return Scalar::complex(re, im);
        }
        let word = self.next();
        let unit = (word >> 11) as f64 / (1u64 << 53) as f64;
        match domain {
            Domain::Any if dtype == DType::Bool => Scalar::bool(word & 1 == 1),
            Domain::Any => Scalar::from_bits(dtype, word >> (64 - dtype.bits())),
            Domain::Small => Scalar::from_f64(dtype, unit * 8.0 - 4.0),
            Domain::Range(low, high) => Scalar::from_f64(dtype, low + unit * (high - low)),
        }
    }

    fn operands(&mut self, sample: &Sample) -> Vec<Literal> {
        let literal =
            |ty: &Type| Literal::from_fn(ty.clone(), |_| self.scalar(ty.dtype, sample.domain));
        sample.operands.iter().map(literal).collect()
    }
}

fn infer(sample: &Sample) -> Vec<Type> {
    let operands: Vec<&Type> = sample.operands.iter().collect();
    sample.op.infer(&operands).unwrap_or_else(|error| panic!("{error}: {sample:?}")).to_vec()
}

#[test]
fn attributes_read_back() {
    for (row, samples) in Op::samples() {
        for sample in samples {
            let mut attrs = sample.op.attrs();
            let parsed = Op::parse(sample.op.name(), &mut attrs, &infer(&sample));
            assert_eq!(parsed, Some(Ok(sample.op.clone())), "{row}");
            assert!(attrs.is_empty(), "{row} leaves {attrs:?}");
        }
    }
}

#[test]
fn eval_gives_what_infer_said() {
    for (seed, (row, samples)) in Op::samples().into_iter().enumerate() {
        let mut random = Random(seed as u64);
        for sample in samples {
            let types = infer(&sample);
            let operands = random.operands(&sample);
            let results = sample.op.eval(&operands.iter().collect::<Vec<_>>(), &types);
            let given: Vec<Type> = results.iter().map(|r| r.ty().clone()).collect();
            assert_eq!(given, types, "{row}: {sample:?}");
        }
    }
}

#[test]
fn samples_are_many_but_small() {
    for (row, samples) in Op::samples() {
        assert!(samples.len() <= 320, "{row} has {} samples", samples.len());
        for sample in samples {
            let results = infer(&sample);
            for ty in sample.operands.iter().chain(&results) {
                assert!(ty.elements() < 5000, "{row}: {sample:?}");
            }
        }
    }
}

/// Element types that an op takes as operand 0 are all in its samples: found by asking
/// `infer` for each sample with another type put in place of its own.
#[test]
fn samples_cover_every_element_type() {
    for (row, samples) in Op::samples() {
        let mut seen = BTreeSet::new();
        let mut accepted = BTreeSet::new();
        for sample in samples.iter().filter(|s| !s.operands.is_empty()) {
            let own = sample.operands[0].dtype;
            seen.insert((sample.op.name(), own));
            for dtype in DType::ALL {
                let with = |ty: &Type| {
                    if ty.dtype == own { ty.with_dtype(dtype) } else { ty.clone() }
                };
                let operands: Vec<Type> = sample.operands.iter().map(with).collect();
                if sample.op.infer(&operands.iter().collect::<Vec<_>>()).is_ok() {
                    accepted.insert((sample.op.name(), dtype));
                }
            }
        }
        let missing: Vec<_> = accepted.difference(&seen).collect();
        assert!(missing.is_empty(), "{row} has no sample of {missing:?}");
    }
}

#[test]
fn samples_cover_ranks_and_degenerate_axes() {
    for (row, samples) in Op::samples() {
        if row == "Parameter" {
            assert!(samples.is_empty(), "a parameter is no program");
            continue;
        }
        let types: Vec<Type> =
            samples.iter().flat_map(|s| s.operands.iter().cloned().chain(infer(s))).collect();
        // Counting, joining, running and sorting need an axis, which a scalar has not.
        let along = matches!(row, "Iota" | "Concatenate" | "Cumulative" | "Sort" | "TopK");
        for rank in if along { 1..=4 } else { 0..=4 } {
            assert!(types.iter().any(|ty| ty.shape.rank() == rank), "{row}: rank {rank}");
        }
        for extent in [0, 1] {
            assert!(types.iter().any(|ty| ty.shape.contains(&extent)), "{row}: extent {extent}");
        }
        assert!(types.iter().any(|ty| ty.shape.iter().any(|d| *d > 32 && d % 16 != 0)), "{row}");
    }
}

#[test]
fn names_belong_to_one_op_each() {
    let mut names = BTreeSet::new();
    for (row, samples) in Op::samples() {
        let own: BTreeSet<&str> = samples.iter().map(|s| s.op.name()).collect();
        for name in own {
            assert!(names.insert(name), "{row} has a name of another row: {name}");
        }
    }
    for name in ["", "parameter", "Add", "reduce_", "reduce_mean", "arg", "compare_lt"] {
        assert!(Op::parse(name, &mut Attrs::new(), &[]).is_none(), "{name}");
    }
}

#[test]
fn faulty_attributes_are_messages() {
    let ty = Type::new(DType::F32, [2]);
    let parse = |name: &str, mut attrs: Attrs, results: &[Type]| {
        Op::parse(name, &mut attrs, results).expect("an op of that name").unwrap_err()
    };
    let none = Attrs::new;
    assert_eq!(parse("transpose", none(), &[]), "attribute `permutation` is missing");
    assert_eq!(
        parse("transpose", none().int("permutation", 0), &[]),
        "attribute `permutation` must be a list of integers"
    );
    assert_eq!(parse("reverse", none().signed("axes", &[-1]), &[]), "attribute `axes` is negative");
    assert_eq!(parse("reshape", none(), &[]), "wants one result type, got 0");
    assert_eq!(parse("convert", none(), &[ty.clone(), ty.clone()]), "wants one result type, got 2");
    assert_eq!(parse("call", none().word("graph", "f"), &[]), "attribute `graph` must be a graph");
    assert_eq!(
        parse("constant", none().int("value", 3), std::slice::from_ref(&ty)),
        "attribute `value` must be a literal"
    );
    let mut attrs = none();
    let value = Literal::from_slice([3], &[1f32, 2.0, 3.0]);
    attrs.push("value", kiln_ir::op::Attr::Literal(value));
    assert_eq!(parse("constant", attrs, &[ty]), "attribute `value` is f32[3], the result f32[2]");
}
