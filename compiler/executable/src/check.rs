//! The check of an executable's parts, done once when it is built.
//!
//! Everything a run relies on without looking again:
//! - indices of kernels, objects, parameters and outputs are in range;
//! - a slot is aligned and the bytes its kernel touches lie inside its buffer;
//! - constants and kept parameters are never written;
//! - an output's storage is a donated parameter of at least its bytes, named by
//!   no other output, or fresh; slots name only fresh outputs.

use crate::{ALIGNMENT, Base, CheckError, Parts, Slot, Step, Storage};

pub(crate) fn check(parts: &Parts) -> Result<(), CheckError> {
    let fail = |message: String| Err(CheckError { name: parts.name.clone(), message });

    for (i, kernel) in parts.kernels.iter().enumerate() {
        if kernel.object as usize >= parts.objects.len() {
            return fail(format!("kernel {i} `{}` names object {}", kernel.name, kernel.object));
        }
        if kernel.grain == 0 {
            return fail(format!("kernel {i} `{}` has grain 0", kernel.name));
        }
    }

    let mut taken = vec![false; parts.parameters.len()];
    for (i, output) in parts.outputs.iter().enumerate() {
        if let Storage::Parameter(p) = output.storage {
            match parts.parameters.get(p as usize) {
                None => return fail(format!("output {i} takes parameter {p}, which is not there")),
                Some(q) if !q.donated => {
                    return fail(format!("output {i} takes parameter {p}, which is not donated"));
                }
                Some(q) if q.ty.bytes() < output.ty.bytes() => {
                    return fail(format!("output {i} takes parameter {p}, which is smaller"));
                }
                Some(_) if std::mem::replace(&mut taken[p as usize], true) => {
                    return fail(format!("two outputs take parameter {p}"));
                }
                Some(_) => {}
            }
        }
    }

    for (i, step) in parts.steps.iter().enumerate() {
        match step {
            Step::Launch { kernel, arguments } => {
                let Some(k) = parts.kernels.get(*kernel as usize) else {
                    return fail(format!("step {i} launches kernel {kernel}, which is not there"));
                };
                if k.arguments.len() != arguments.len() {
                    return fail(format!(
                        "step {i} gives {} arguments to `{}`, which takes {}",
                        arguments.len(),
                        k.name,
                        k.arguments.len()
                    ));
                }
                for (a, (slot, access)) in arguments.iter().zip(&k.arguments).enumerate() {
                    if let Err(why) = check_slot(parts, *slot, access.bytes(), access.writes()) {
                        return fail(format!("step {i}, `{}`, argument {a}: {why}", k.name));
                    }
                }
            }
            Step::Copy { from, to, bytes } => {
                if let Err(why) = check_slot(parts, *from, *bytes, false) {
                    return fail(format!("step {i}, copy source: {why}"));
                }
                if let Err(why) = check_slot(parts, *to, *bytes, true) {
                    return fail(format!("step {i}, copy target: {why}"));
                }
                let apart = from.offset.saturating_add(*bytes) <= to.offset
                    || to.offset.saturating_add(*bytes) <= from.offset;
                if from.base == to.base && !apart && *bytes > 0 {
                    return fail(format!("step {i} copies between overlapping slots"));
                }
            }
        }
    }
    Ok(())
}

fn check_slot(parts: &Parts, slot: Slot, bytes: u64, writes: bool) -> Result<(), String> {
    let size = match slot.base {
        Base::Parameter(p) => {
            let p = parts.parameters.get(p as usize).ok_or(format!("no parameter {p}"))?;
            if writes && !p.donated {
                return Err(format!("writes parameter `{}`, which is not donated", p.name));
            }
            p.ty.bytes() as u64
        }
        Base::Output(o) => {
            let out = parts.outputs.get(o as usize).ok_or(format!("no output {o}"))?;
            if out.storage != Storage::Fresh {
                return Err(format!("output {o} has no buffer of its own"));
            }
            out.ty.bytes() as u64
        }
        Base::Arena => parts.arena,
        Base::Constants if writes => return Err("writes constants".into()),
        Base::Constants => parts.constants.len() as u64,
    };
    if !slot.offset.is_multiple_of(ALIGNMENT) {
        return Err(format!("offset {} is not a multiple of {ALIGNMENT}", slot.offset));
    }
    match slot.offset.checked_add(bytes) {
        Some(end) if end <= size => Ok(()),
        _ => Err(format!("bytes {}+{bytes} lie outside a buffer of {size}", slot.offset)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kiln_ir::{DType, Type};

    use crate::{
        Access, Base, Executable, Kernel, Output, Parameter, Parts, Slot, Step, Storage, Traffic,
    };

    fn parts() -> Parts {
        let ty = Type::new(DType::F32, [16]);
        Parts {
            name: "f".into(),
            parameters: vec![Parameter { ty: ty.clone(), name: "x".into(), donated: true }],
            outputs: vec![Output { ty, name: String::new(), storage: Storage::Parameter(0) }],
            arena: 64,
            kernels: vec![Kernel {
                name: "neg".into(),
                object: 0,
                symbol: "k0".into(),
                arguments: vec![Access::ReadWrite(64)],
                grid: 1,
                grain: 1,
                scratch: 0,
                traffic: Traffic::default(),
            }],
            objects: vec![Arc::from([0u8])],
            steps: vec![Step::Launch {
                kernel: 0,
                arguments: vec![Slot { base: Base::Parameter(0), offset: 0 }],
            }],
            ..Parts::default()
        }
    }

    fn rejected(change: impl FnOnce(&mut Parts)) -> String {
        let mut p = parts();
        change(&mut p);
        Executable::new(p).expect_err("rejected").to_string()
    }

    #[test]
    fn accepts_a_sound_program() {
        Executable::new(parts()).unwrap();
    }

    #[test]
    fn rejects_what_a_run_could_not_survive() {
        let at = |base, offset| Step::Launch { kernel: 0, arguments: vec![Slot { base, offset }] };
        let said = rejected(|p| p.parameters[0].donated = false);
        assert!(said.contains("not donated"), "{said}");
        let said = rejected(|p| p.steps[0] = at(Base::Arena, 64));
        assert!(said.contains("outside a buffer of 64"), "{said}");
        let said = rejected(|p| p.steps[0] = at(Base::Arena, 4));
        assert!(said.contains("multiple of 64"), "{said}");
        let said = rejected(|p| p.steps[0] = at(Base::Constants, 0));
        assert!(said.contains("writes constants"), "{said}");
        let said = rejected(|p| p.steps[0] = at(Base::Output(0), 0));
        assert!(said.contains("no buffer of its own"), "{said}");
        let said = rejected(|p| p.kernels[0].object = 3);
        assert!(said.contains("object 3"), "{said}");
        let said = rejected(|p| p.steps[0] = Step::Launch { kernel: 0, arguments: vec![] });
        assert!(said.contains("gives 0 arguments"), "{said}");
        let said = rejected(|p| p.outputs.push(p.outputs[0].clone()));
        assert!(said.contains("two outputs take"), "{said}");
        let said = rejected(|p| {
            let slot = Slot { base: Base::Arena, offset: 0 };
            p.steps[0] = Step::Copy { from: slot, to: slot, bytes: 8 };
        });
        assert!(said.contains("overlapping"), "{said}");
    }
}
