//! Machine code for parts that share a launch.
//!
//! Each part is a function; the entry gives each its share of the units. Parts that
//! differ only in the arguments they use, such as the updates of equally shaped
//! parameters of a model, or in where in them they start, such as the pieces of a
//! concatenation, are one function: the entry hands it the addresses in the order in
//! which the part uses them.
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
use crate::kernel::{Argument, Expr, Exprs, Index, Loops};

/// A part with its arguments numbered in the order of their use, each starting close
/// before the first element that the part touches.
#[derive(PartialEq, Eq, Hash)]
struct Canonical {
    arguments: Vec<Argument>,
    streaming: Vec<bool>,
    loops: Loops,
}

/// An argument of the kernel that a part uses.
struct Used {
    argument: u32,
    /// The first element that the part touches.
    first: i64,
}

impl Used {
    /// Elements before the address that the part is given: whole lines, so that it is
    /// aligned as well as the argument.
    fn skipped(&self, buffers: Buffers) -> i64 {
        let line = kiln_executable::ALIGNMENT as i64 / self.size(buffers);
        self.first.max(0) / line * line
    }

    fn skipped_bytes(&self, buffers: Buffers) -> i64 {
        self.skipped(buffers) * self.size(buffers)
    }

    /// Bytes of an element.
    fn size(&self, buffers: Buffers) -> i64 {
        buffers.arguments[self.argument as usize].dtype.size() as i64
    }
}

/// The arguments that a part uses, in the order of their use.
fn used(part: &Loops) -> Vec<Used> {
    let mut used: Vec<Used> = Vec::new();
    let extents = part.extents();
    let mut touch = |argument: u32, index: &Index| {
        let (first, _) = index.range(&extents);
        match used.iter_mut().find(|u| u.argument == argument) {
            Some(known) => known.first = known.first.min(first),
            None => used.push(Used { argument, first }),
        }
    };
    for (_, expr, _) in part.exprs.iter() {
        if let Expr::Load { argument, index, .. } = expr {
            touch(*argument, index);
        }
    }
    for (argument, index) in part.stages.iter().flat_map(|s| s.written()) {
        touch(argument, index);
    }
    used
}

/// The canonical form of a part that uses these arguments.
fn canonical(buffers: Buffers, part: &Loops, used: &[Used]) -> Canonical {
    let place = |argument: u32, index: &Index| {
        let number = used.iter().position(|u| u.argument == argument).expect("it is used");
        (number as u32, index.offset(-used[number].skipped(buffers)))
    };
    let mut exprs = Exprs::default();
    for (id, expr, dtype) in part.exprs.iter() {
        let new = match expr.clone() {
            Expr::Load { argument, index, valid } => {
                let (argument, index) = place(argument, &index);
                Expr::Load { argument, index, valid }
            }
            expr => expr,
        };
        let same = exprs.add(new, dtype);
        debug_assert_eq!(same, id, "different arguments stay different");
    }
    part.exprs.rare().iter().for_each(|&c| exprs.mark_rare(c));
    let stages = part.stages.iter().map(|s| s.map(|e| e, place)).collect();
    let loops = Loops { exprs, stages, ..part.clone() };
    let arguments = used.iter().map(|u| buffers.arguments[u.argument as usize]).collect();
    let streaming = used.iter().map(|u| buffers.streaming[u.argument as usize]).collect();
    Canonical { arguments, streaming, loops }
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
    let mut tables = Tables::default();
    for part in parts {
        let used = used(part);
        let canonical = canonical(buffers, part, &used);
        let number = known.len();
        let (function, launch) = *known.entry(canonical).or_insert_with_key(|c| {
            let name = format!("{name}.{number}");
            let buffers = Buffers { arguments: &c.arguments, streaming: &c.streaming };
            loops::emit(build, isa, buffers, &c.loops, &name, false)
        });
        tables.part(function, (whole.grid, launch.grid), &used, buffers);
        whole.grid += launch.grid;
        worth += (launch.grid << 16) / launch.grain;
        whole.scratch = whole.scratch.max(launch.scratch);
    }
    whole.grain = ((whole.grid << 16) / worth.max(1)).max(1);

    let entry = build.entry(name, true);
    tables.dispatch(build, &entry.get_params());
    build.ret();
    whole
}

/// What the entry does for each part, as data: its code is the same however many parts
/// there are.
#[derive(Default)]
struct Tables<'c> {
    functions: Vec<FunctionValue<'c>>,
    /// For each part its first unit, how many it has, and which of `uses` are its.
    parts: Vec<[i64; 4]>,
    /// Arguments of the kernel, and how many bytes of each are skipped.
    uses: Vec<[i64; 2]>,
}

impl<'c> Tables<'c> {
    fn part(
        &mut self,
        function: FunctionValue<'c>,
        (first, count): (u64, u64),
        used: &[Used],
        buffers: Buffers,
    ) {
        let uses = self.uses.len() as i64;
        self.functions.push(function);
        self.parts.push([first as i64, count as i64, uses, used.len() as i64]);
        self.uses.extend(used.iter().map(|u| [u.argument.into(), u.skipped_bytes(buffers)]));
    }

    /// Calls the functions of the parts that have some of the units asked for.
    fn dispatch(&self, build: &Build<'c>, args: &[Value<'c>]) {
        let (ptr, i64, byte) = (build.ptr_ty(), build.int_ty(64).into(), build.int_ty(8).into());
        let most = self.parts.iter().map(|part| part[3]).max().unwrap_or(0);
        let list = build.array(ptr, most as u32);
        let functions = build.addresses(&self.functions);
        let parts = build.table(self.parts.as_flattened());
        let uses = build.table(self.uses.as_flattened());
        let zero = build.i64(0);
        let whole = (zero, build.i64(self.parts.len() as i64), 1);
        build.for_each("part", whole, Vec::new(), |part, _| {
            let row = build.gep(i64, parts, build.mul(part, build.i64(4)));
            let [first, count, uses_from, used] =
                [0, 1, 2, 3].map(|i| build.load(i64, build.gep(i64, row, build.i64(i)), 8));
            // Of the units asked for, what is in first..first + count, counted from first.
            let within = |x| {
                let x = build.binary_intrinsic("llvm.usub.sat", x, first);
                build.binary_intrinsic("llvm.umin", x, count)
            };
            let (begin, end) = (within(args[2]), within(args[3]));
            build.when("some", build.icmp(IntPredicate::ULT, begin, end), || {
                build.for_each("argument", (zero, used, 1), Vec::new(), |i, _| {
                    let at = build.mul(build.add(uses_from, i), build.i64(2));
                    let row = build.gep(i64, uses, at);
                    let [argument, skipped] =
                        [0, 1].map(|k| build.load(i64, build.gep(i64, row, build.i64(k)), 8));
                    let start = build.load(ptr, build.gep(ptr, args[0], argument), 8);
                    let start = build.gep(byte, start, skipped);
                    build.store(start, build.gep(ptr, list, i), 8, false);
                    Vec::new()
                });
                let function = build.load(ptr, build.gep(ptr, functions, part), 8);
                let ty = self.functions[0].get_type();
                build.call_pointer(ty, function, &[list, args[1], begin, end]);
            });
            Vec::new()
        });
    }
}
