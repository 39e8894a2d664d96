//! Calls become the bodies they call.
pub(crate) fn run(_graph: &mut kiln_ir::Graph, _cx: &mut crate::pipeline::PassCx) {}
