//! Functions, branches and loops of generated code.
//!
//! Loops are made in the shape in which LLVM's passes leave them, with the test at the
//! end, so that nothing needs to be rotated; a loop that is known to run once is no
//! loop at all.

use inkwell::IntPredicate;
use inkwell::attributes::{Attribute, AttributeLoc};
use inkwell::basic_block::BasicBlock;
use inkwell::module::Linkage;
use inkwell::types::{BasicTypeEnum as Type, FunctionType};
use inkwell::values::{FunctionValue, PhiValue};

use super::build::{BUILT, Build, Value};

impl<'c> Build<'c> {
    /// Adds a function `void name(ptr, ptr, i64, i64)` and starts emitting it.
    pub fn entry(&self, name: &str, public: bool) -> FunctionValue<'c> {
        let (ptr, i64) = (self.ptr_ty(), self.context.i64_type());
        let types = [ptr.into(), ptr.into(), i64.into(), i64.into()];
        let ty = self.context.void_type().fn_type(&types, false);
        let linkage = if public { Linkage::External } else { Linkage::Internal };
        let function = self.module.add_function(name, ty, Some(linkage));
        let nounwind = Attribute::get_named_enum_kind_id("nounwind");
        let nounwind = self.context.create_enum_attribute(nounwind, 0);
        function.add_attribute(AttributeLoc::Function, nounwind);
        let block = self.context.append_basic_block(function, "entry");
        self.builder.position_at_end(block);
        function
    }

    /// Sets a string attribute of a function.
    pub fn attribute(&self, function: FunctionValue<'c>, key: &str, value: &str) {
        let attribute = self.context.create_string_attribute(key, value);
        function.add_attribute(AttributeLoc::Function, attribute);
    }

    pub fn call(&self, function: FunctionValue<'c>, args: &[Value<'c>]) {
        let args: Vec<_> = args.iter().map(|&a| a.into()).collect();
        self.builder.build_call(function, &args, "").expect(BUILT);
    }

    /// Calls the function of this type at an address.
    pub fn call_pointer(&self, ty: FunctionType<'c>, function: Value<'c>, args: &[Value<'c>]) {
        let args: Vec<_> = args.iter().map(|&a| a.into()).collect();
        let function = function.into_pointer_value();
        self.builder.build_indirect_call(ty, function, &args, "").expect(BUILT);
    }

    pub fn ret(&self) {
        self.builder.build_return(None).expect(BUILT);
    }

    /// The block that instructions go to.
    pub fn here(&self) -> BasicBlock<'c> {
        self.builder.get_insert_block().expect(BUILT)
    }

    /// A new block after the current one.
    pub fn block(&self, name: &str) -> BasicBlock<'c> {
        self.context.insert_basic_block_after(self.here(), name)
    }

    pub fn at(&self, block: BasicBlock<'c>) {
        self.builder.position_at_end(block);
    }

    pub fn jump(&self, to: BasicBlock<'c>) {
        self.builder.build_unconditional_branch(to).expect(BUILT);
    }

    pub fn branch(&self, c: Value<'c>, yes: BasicBlock<'c>, no: BasicBlock<'c>) {
        self.builder.build_conditional_branch(c.into_int_value(), yes, no).expect(BUILT);
    }

    pub fn phi(&self, ty: Type<'c>) -> PhiValue<'c> {
        self.builder.build_phi(ty, "").expect(BUILT)
    }

    /// Emits `body` under `if condition`.
    pub fn when(&self, name: &str, condition: Value<'c>, body: impl FnOnce()) {
        let end = self.block(&format!("{name}.end"));
        let then = self.block(name);
        self.branch(condition, then, end);
        self.at(then);
        body();
        self.jump(end);
        self.at(end);
    }

    /// Emits `for i in (from..to).step_by(step)` over `i64` values, with values that
    /// the body is given and replaces at each turn. Returns the last ones.
    pub fn for_each(
        &self,
        name: &str,
        (from, to, step): (Value<'c>, Value<'c>, u64),
        carried: Vec<Value<'c>>,
        body: impl FnOnce(Value<'c>, Vec<Value<'c>>) -> Vec<Value<'c>>,
    ) -> Vec<Value<'c>> {
        let known = |v: Value<'c>| v.into_int_value().get_zero_extended_constant();
        if let (Some(first), Some(end)) = (known(from), known(to)) {
            if first >= end {
                return carried;
            }
            if end - first <= step {
                return body(from, carried);
            }
        }
        // Rotated: the test is at the end, and a guard in front, which leaves one
        // branch for each turn.
        let before = self.here();
        let exit = self.block(&format!("{name}.end"));
        let top = self.block(name);
        let any = self.icmp(IntPredicate::ULT, from, to);
        self.branch(any, top, exit);

        self.at(top);
        let i = self.phi(self.context.i64_type().into());
        i.add_incoming(&[(&from, before)]);
        let phis: Vec<PhiValue> = carried.iter().map(|v| self.phi(v.get_type())).collect();
        for (phi, v) in phis.iter().zip(&carried) {
            phi.add_incoming(&[(v, before)]);
        }
        let inside = phis.iter().map(|p| p.as_basic_value()).collect();
        let new = body(i.as_basic_value(), inside);
        debug_assert_eq!(new.len(), carried.len());
        let bottom = self.here();
        let next = self.builder.build_int_nuw_add(
            i.as_basic_value().into_int_value(),
            self.context.i64_type().const_int(step, false),
            "",
        );
        let next: Value = next.expect(BUILT).into();
        i.add_incoming(&[(&next, bottom)]);
        for (phi, v) in phis.iter().zip(&new) {
            phi.add_incoming(&[(v, bottom)]);
        }
        let more = self.icmp(IntPredicate::ULT, next, to);
        self.branch(more, top, exit);

        self.at(exit);
        let results = carried.iter().zip(&new).map(|(old, new)| {
            let phi = self.phi(old.get_type());
            phi.add_incoming(&[(old, before), (new, bottom)]);
            phi.as_basic_value()
        });
        results.collect()
    }
}
