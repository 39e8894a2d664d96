//! Every rule of simplify, proven by running both sides over all values of small
//! types: all 256 of `i8` and `u8`, all 65,536 of `f16`, a seventh of `bf16`, all pairs
//! of bytes. Programs are enumerated, not chosen: every composition of two unary ops,
//! every binary op with every special constant on either side, and so on. Where
//! simplify does something, `eval` of the result must be that of the program, bit for
//! bit; any NaN for any NaN.
//!
//! `every_rule_fires_and_is_exact` holds the list of rules, so that none goes unproven.

mod elementwise;
mod loops;
mod movement;
mod proof;

use std::collections::BTreeSet;

use proof::Fired;

#[test]
fn every_rule_fires_and_is_exact() {
    let mut fired = Fired::default();
    elementwise::unary(&mut fired);
    elementwise::binary_with_constants(&mut fired);
    elementwise::binary_of_values(&mut fired);
    elementwise::choices(&mut fired);
    elementwise::conversions(&mut fired);
    elementwise::parts(&mut fired);
    movement::movements(&mut fired);
    movement::joins(&mut fired);
    loops::reductions(&mut fired);
    loops::folds(&mut fired);
    loops::contractions(&mut fired);
    loops::run_time_slices(&mut fired);
    loops::scatters(&mut fired);
    loops::constants_fold(&mut fired);
    movement::functions_of_views(&mut fired);
    let rules: BTreeSet<&str> = kiln_opt::passes::simplify::rule_names().collect();
    let unproven: Vec<_> = rules.difference(&fired.0).collect();
    assert!(unproven.is_empty(), "no program of this test makes these rules fire: {unproven:?}");
}
