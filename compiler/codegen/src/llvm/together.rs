//! Machine code for parts that share a launch.
//!
//! Each part is a function; the entry gives each its share of the units. Parts that
//! differ only in the arguments they use, such as the updates of equally shaped
//! parameters of a model, are one function: the entry hands it the addresses in the
//! order in which the part uses them.
//!
//! ```text
//! units   0        g0             g0 + g1
//!         [ part 0 ][    part 1   ][ part 2 ..
//!              begin [==========] end        part 0 does begin..g0, part 1 the rest
//! ```

use hashbrown::HashMap;
use inkwell::IntPredicate;
use inkwell::values::FunctionValue;

use super::build::{Build, Value};
use super::loops::{self, Buffers, Launch};
use super::target::Isa;
use crate::kernel::{Argument, Expr, Exprs, Loops};

/// A part with its arguments numbered in the order of their use.
#[derive(PartialEq, Eq, Hash)]
struct Canonical {
    arguments: Vec<Argument>,
    streaming: Vec<bool>,
    loops: Loops,
}

/// The canonical form of a part, and which argument of the kernel each of its is.
fn canonical(buffers: Buffers, part: &Loops) -> (Canonical, Vec<u32>) {
    let mut used: Vec<u32> = Vec::new();
    let mut number = |argument: u32| {
        let known = used.iter().position(|&a| a == argument);
        known.unwrap_or_else(|| {
            used.push(argument);
            used.len() - 1
        }) as u32
    };
    let mut exprs = Exprs::default();
    for (id, expr, dtype) in part.exprs.iter() {
        let new = match expr.clone() {
            Expr::Load { argument, index, valid } => {
                Expr::Load { argument: number(argument), index, valid }
            }
            expr => expr,
        };
        let same = exprs.add(new, dtype);
        debug_assert_eq!(same, id, "different arguments stay different");
    }
    part.exprs.rare().iter().for_each(|&c| exprs.mark_rare(c));
    let mut loops = Loops { exprs, ..part.clone() };
    for stage in &mut loops.stages {
        stage.stores.iter_mut().for_each(|s| s.argument = number(s.argument));
        stage.scatters.iter_mut().for_each(|s| s.argument = number(s.argument));
    }
    let arguments = used.iter().map(|&a| buffers.arguments[a as usize]).collect();
    let streaming = used.iter().map(|&a| buffers.streaming[a as usize]).collect();
    (Canonical { arguments, streaming, loops }, used)
}

/// Emits the entry `name` for `parts`.
pub(crate) fn emit(
    build: &Build,
    isa: Isa,
    buffers: Buffers,
    parts: &[Loops],
    name: &str,
) -> Launch {
    let mut known: HashMap<Canonical, (FunctionValue, Launch)> = HashMap::new();
    let mut whole = Launch::default();
    // How many threads all parts are worth, as a fixed-point number.
    let mut worth = 0u64;
    let mut calls = Vec::new();
    for part in parts {
        let (canonical, used) = canonical(buffers, part);
        let number = known.len();
        let (function, launch) = *known.entry(canonical).or_insert_with_key(|c| {
            let name = format!("{name}.{number}");
            let buffers = Buffers { arguments: &c.arguments, streaming: &c.streaming };
            loops::emit(build, isa, buffers, &c.loops, &name, false)
        });
        calls.push((function, used, whole.grid, launch.grid));
        whole.grid += launch.grid;
        worth += (launch.grid << 16) / launch.grain;
        whole.scratch = whole.scratch.max(launch.scratch);
    }

    whole.grain = ((whole.grid << 16) / worth.max(1)).max(1);

    let entry = build.entry(name, true);
    let args: Vec<Value> = entry.get_params();
    let most = calls.iter().map(|(_, used, ..)| used.len()).max().unwrap_or(0);
    let list = build.array(build.ptr_ty(), most as u32);
    for (function, used, first, count) in calls {
        // Of begin..end, what is in first..first + count, counted from first.
        let within = |x| {
            let x = build.binary_intrinsic("llvm.usub.sat", x, build.i64(first as i64));
            build.binary_intrinsic("llvm.umin", x, build.i64(count as i64))
        };
        let (begin, end) = (within(args[2]), within(args[3]));
        let any = build.icmp(IntPredicate::ULT, begin, end);
        build.when("part", any, || {
            let at = |base, i: usize| build.gep(build.ptr_ty(), base, build.i64(i as i64));
            for (i, &argument) in used.iter().enumerate() {
                let pointer = build.load(build.ptr_ty(), at(args[0], argument as usize), 8);
                build.store(pointer, at(list, i), 8, false);
            }
            build.call(function, &[list, args[1], begin, end]);
        });
    }
    build.ret();
    whole
}
