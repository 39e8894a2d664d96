//! Machine code for sorts: a call of a hand-written kernel.
//!
//! The entry writes the words that describe the job into its frame and hands them on with
//! its own arguments. Where a function orders, it is emitted beside the entry, and its
//! address is one more argument:
//!
//! ```text
//! entry(arguments, scratch, begin, end):   kiln_sort_keys(words, arguments, scratch, begin, end)
//!                                          kiln_sort_by(.., before)
//! before(rows, a, b) -> u8
//! ```

use inkwell::module::Linkage;
use inkwell::values::FunctionValue;
use kiln_ir::DType;
use kiln_kernels::sort::{Element, Job, Key, Operand, Source as From};

use super::build::{BUILT, Build, Value};
use super::expr::{Emitter, Place, Values};
use super::loops::{Launch, load_pointers};
use super::target::Isa;
use crate::kernel::index::Extents;
use crate::kernel::sort::{Ordering, Sort, Source};
use crate::kernel::{Argument, ExprId, Exprs};

fn element(dtype: DType) -> Element {
    match dtype {
        DType::Bool | DType::U8 => Element::U8,
        DType::I8 => Element::I8,
        DType::U16 => Element::U16,
        DType::I16 => Element::I16,
        DType::U32 => Element::U32,
        DType::I32 => Element::I32,
        DType::U64 => Element::U64,
        DType::I64 => Element::I64,
        DType::F16 => Element::F16,
        DType::BF16 => Element::BF16,
        DType::F32 => Element::F32,
        DType::F64 => Element::F64,
        DType::C64 | DType::C128 => unreachable!("complex numbers have no order"),
    }
}

fn job(sort: &Sort, arguments: &[Argument]) -> Job {
    let operand = |o: &crate::kernel::sort::Sorted| match o.from {
        Source::Argument(a) => {
            let dtype = arguments[a as usize].dtype;
            Operand { element: element(dtype), from: From::Argument(a), to: o.to }
        }
        Source::Position(dtype) => {
            Operand { element: element(dtype), from: From::Position, to: o.to }
        }
    };
    let keys = match &sort.order {
        Ordering::Keys(keys) => {
            keys.iter().map(|k| Key { operand: k.operand, descending: k.descending }).collect()
        }
        Ordering::Function { .. } => Vec::new(),
    };
    Job {
        outer: sort.outer,
        length: sort.length,
        inner: sort.inner,
        take: sort.take,
        operands: sort.operands.iter().map(operand).collect(),
        keys,
    }
}

/// Emits the entry `name`.
pub(crate) fn emit(
    build: &Build,
    isa: Isa,
    arguments: &[Argument],
    sort: &Sort,
    name: &str,
) -> Launch {
    let job = job(sort, arguments);
    let before = match &sort.order {
        Ordering::Keys(_) => None,
        Ordering::Function { exprs, before } => {
            let name = format!("{name}.before");
            Some(function(build, isa, (arguments, sort), (exprs, *before), &name))
        }
    };
    let entry = build.entry(name, true);
    let words = job.words();
    let list = build.array(build.int_ty(64).into(), words.len() as u32);
    for (i, &word) in words.iter().enumerate() {
        let at = build.gep(build.int_ty(64).into(), list, build.i64(i as i64));
        build.store(build.i64(word as i64), at, 8, false);
    }
    let mut args: Vec<Value> = vec![list];
    args.extend(entry.get_params());
    let callee = match before {
        None => "kiln_sort_keys",
        Some(function) => {
            args.push(function.as_global_value().as_pointer_value().into());
            "kiln_sort_by"
        }
    };
    let callee = build.module.get_function(callee).unwrap_or_else(|| {
        let types: Vec<_> = args.iter().map(|a| a.get_type().into()).collect();
        let ty = build.context.void_type().fn_type(&types, false);
        build.module.add_function(callee, ty, Some(Linkage::External))
    });
    build.call(callee, &args);
    build.ret();
    Launch { grid: job.grid(), grain: job.grain(), scratch: job.scratch() }
}

/// `u8 name(ptr rows, i64 a, i64 b)`: whether the element at place `a` comes first.
fn function<'c>(
    build: &Build<'c>,
    isa: Isa,
    (arguments, sort): (&[Argument], &Sort),
    (exprs, before): (&Exprs, ExprId),
    name: &str,
) -> FunctionValue<'c> {
    let (ptr, i64) = (build.ptr_ty(), build.context.i64_type());
    let ty = build.context.i8_type().fn_type(&[ptr.into(), i64.into(), i64.into()], false);
    let function = build.module.add_function(name, ty, Some(Linkage::Internal));
    build.at(build.context.append_basic_block(function, "entry"));
    let params: Vec<Value> = function.get_params();
    let rows: Vec<Argument> = (sort.read())
        .map(|a| Argument { elements: sort.length * sort.inner, ..arguments[a as usize] })
        .collect();
    let emitter = Emitter {
        build,
        isa,
        exprs,
        extents: Extents { points: vec![sort.length; 2], inner: 1, ..Extents::default() },
        pointers: load_pointers(build, params[0], rows.len()),
        streaming: vec![false; rows.len()],
        ahead: vec![0; rows.len()],
        arguments: &rows,
        detours: Vec::new(),
        aligned: None,
    };
    // Places count along the row, whose elements are `inner` apart.
    let inner = build.i64(sort.inner as i64);
    let place = Place::scalar(vec![build.mul(params[1], inner), build.mul(params[2], inner)]);
    let reached = exprs.reachable([before]);
    let order: Vec<ExprId> =
        exprs.iter().map(|(id, ..)| id).filter(|id| reached[id.0 as usize]).collect();
    let mut values = Values::new(exprs);
    emitter.evaluate(&order, &place, &mut values);
    let result = build.resize(values.get(before), 8, false);
    build.builder.build_return(Some(&result)).expect(BUILT);
    function
}
