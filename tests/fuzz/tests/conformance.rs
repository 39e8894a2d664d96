//! Every op × element type × instruction set against the interpreter.

use kiln_driver::Isa;
use kiln_fuzz::conformance::walk;

fn on(isa: Isa) {
    if !isa.is_supported() {
        println!("this machine has no {isa:?}");
        return;
    }
    match walk(isa) {
        Ok(walked) => {
            println!("{isa:?}: {walked:?}");
            assert!(walked.ops >= 20 && walked.programs > 500, "{walked:?}");
        }
        Err(failures) => panic!("{failures}"),
    }
}

#[test]
fn every_sample_agrees_on_x86_64_v2() {
    on(Isa::V2);
}

#[test]
fn every_sample_agrees_on_x86_64_v3() {
    on(Isa::V3);
}

#[test]
fn every_sample_agrees_on_x86_64_v4() {
    on(Isa::V4);
}
