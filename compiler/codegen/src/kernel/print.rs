//! Kernels as text, for people (`KILN_DUMP=kernel`).
//!
//! ```text
//! kernel reduce_sum_exp(read a0: f32[4194304], write a1: f32[4096])
//!   points [4096], lanes inner
//!   stage inner 1024
//!     s0 = reduce_sum load a0[1024*p0 + r], tree 64 x 32768
//!   stage inner 1
//!     store a1[p0] = s0
//! ```
//!
//! Expressions that are short and used once stand where they are used; the others
//! are named `%n` on a line of their own, before their first use in a stage.

use std::fmt::{self, Write};

use kiln_ir::op::{ArgKind, Compare};
use kiln_ir::{DType, Scalar};

use super::expr::{BinaryOp, UnaryOp};
use super::sort::{Ordering, Sort, Source};
use super::{
    Body, Carry, Combine, Contraction, Expr, ExprId, Exprs, Kernel, Lanes, Loops, Reduction, Scan,
    Stage, Store, Table,
};

/// The widest text that is written in place.
const INLINE: usize = 48;

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}(", self.name)?;
        for (i, a) in self.arguments.iter().enumerate() {
            let access = match (a.reads, a.writes) {
                (true, true) => "update",
                (false, true) => "write",
                _ => "read",
            };
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{access} a{i}: {}[{}]", a.dtype, a.elements)?;
        }
        f.write_str(")\n")?;
        match &self.body {
            Body::Loops(loops) => loops_text(f, loops, "  "),
            Body::Contraction(contraction) => contraction_text(f, contraction),
            Body::Sort(sort) => sort_text(f, sort),
            Body::Together(parts) => {
                for (i, part) in parts.iter().enumerate() {
                    writeln!(f, "  part {i}")?;
                    loops_text(f, part, "    ")?;
                }
                Ok(())
            }
        }
    }
}

fn loops_text(f: &mut fmt::Formatter<'_>, loops: &Loops, indent: &str) -> fmt::Result {
    let lanes = match loops.lanes {
        Lanes::Points => "points",
        Lanes::Inner => "inner",
    };
    writeln!(f, "{indent}points {:?}, lanes {lanes}", loops.points)?;
    for stage in &loops.stages {
        write!(f, "{indent}stage inner {}", stage.inner)?;
        if let Some(ragged) = stage.ragged {
            write!(f, " of {}, chunk p{}", ragged.total, ragged.axis)?;
        }
        f.write_str("\n")?;
        let mut roots = Vec::new();
        stage.for_each_root(|e| roots.push(e));
        let mut lines = Lines::new(&loops.exprs, format!("{indent}  "), &roots);
        lines.stage(stage);
        f.write_str(&lines.text)?;
    }
    Ok(())
}

fn sort_text(f: &mut fmt::Formatter<'_>, sort: &Sort) -> fmt::Result {
    write!(f, "  sort {} x [{}] x {}", sort.outer, sort.length, sort.inner)?;
    if sort.take < sort.length {
        write!(f, ", first {}", sort.take)?;
    }
    f.write_str("\n")?;
    for (i, operand) in sort.operands.iter().enumerate() {
        match operand.from {
            Source::Argument(a) => write!(f, "  operand {i}: a{a}")?,
            Source::Position(dtype) => write!(f, "  operand {i}: position {dtype}")?,
        }
        match operand.to {
            Some(to) => writeln!(f, " -> a{to}")?,
            None => f.write_str("\n")?,
        }
    }
    match &sort.order {
        Ordering::Keys(keys) => {
            for key in keys {
                let direction = if key.descending { "descending" } else { "ascending" };
                writeln!(f, "  key {direction} operand {}", key.operand)?;
            }
            Ok(())
        }
        Ordering::Function { exprs, before } => {
            let mut lines = Lines::new(exprs, "  ".to_string(), &[*before]);
            let before = lines.operand(*before);
            lines.line(&format!("p0 before p1 = {before}"));
            f.write_str(&lines.text)
        }
    }
}

fn contraction_text(f: &mut fmt::Formatter<'_>, c: &Contraction) -> fmt::Result {
    writeln!(f, "  batch {:?}, m {}, n {}, k {}, sum {}", c.batch, c.m, c.n, c.k, c.accumulator)?;
    let mut roots = vec![c.lhs, c.rhs];
    c.stores.iter().for_each(|s| s.for_each_root(|e| roots.push(e)));
    let mut lines = Lines::new(&c.exprs, "  ".to_string(), &roots);
    let lhs = lines.operand(c.lhs);
    lines.line(&format!("lhs = {lhs}"));
    let rhs = lines.operand(c.rhs);
    lines.line(&format!("rhs = {rhs}"));
    lines.stores(&c.stores);
    f.write_str(&lines.text)
}

/// The lines of one stage.
struct Lines<'a> {
    exprs: &'a Exprs,
    indent: String,
    /// How often each expression is read in the stage.
    uses: Vec<u32>,
    /// The text of those already written, and whether it needs parentheses.
    known: Vec<Option<(String, bool)>>,
    text: String,
}

impl<'a> Lines<'a> {
    fn new(exprs: &'a Exprs, indent: String, roots: &[ExprId]) -> Lines<'a> {
        let mut uses = vec![0; exprs.len()];
        roots.iter().for_each(|e| uses[e.0 as usize] += 1);
        let reached = exprs.reachable(roots.iter().copied());
        for (_, expr, _) in exprs.iter().filter(|(id, ..)| reached[id.0 as usize]) {
            expr.for_each_operand(|o| uses[o.0 as usize] += 1);
        }
        Lines { exprs, indent, uses, known: vec![None; exprs.len()], text: String::new() }
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{}{line}", self.indent);
    }

    fn stage(&mut self, stage: &Stage) {
        for &(array, value) in &stage.keeps {
            let value = self.operand(value);
            self.line(&format!("keep k{array} = {value}"));
        }
        for Carry { first, next, slot } in &stage.carries {
            let (first, next) = (self.operand(*first), self.operand(*next));
            self.line(&format!("s{slot} = carry from {first}, next {next}"));
        }
        for Scan { kind, value, slot, block } in &stage.scans {
            let value = self.operand(*value);
            self.line(&format!("s{slot} = scan_{} {value}, block {block}", kind.name()));
        }
        for reduction in &stage.reductions {
            let value = self.operand(reduction.value);
            self.line(&reduction_text(reduction, &value));
        }
        self.stores(&stage.stores);
        for scatter in &stage.scatters {
            scatter.index.for_each_dynamic(&mut |e| {
                self.operand(e);
                self.name(e);
            });
            let value = self.operand(scatter.value);
            let valid = scatter.valid.map_or(String::new(), |v| format!(" if {}", self.operand(v)));
            let place = format!("a{}[{}]", scatter.argument, scatter.index);
            let value = match scatter.combine.map(binary_name) {
                None => value,
                Some(Ok(symbol)) => format!("{place} {symbol} {value}"),
                Some(Err(name)) => format!("{name}({place}, {value})"),
            };
            self.line(&format!("scatter {place} = {value}{valid}"));
        }
    }

    fn stores(&mut self, stores: &[Store]) {
        for store in stores {
            store.index.for_each_dynamic(&mut |e| {
                self.operand(e);
                self.name(e);
            });
            let value = self.operand(store.value);
            self.line(&format!("store a{}[{}] = {value}", store.argument, store.index));
        }
    }

    /// The text of an expression; writes the lines it needs first.
    fn operand(&mut self, root: ExprId) -> String {
        // In arena order, which is an evaluation order.
        let reached = self.exprs.reachable([root]);
        for i in (0..reached.len()).filter(|&i| reached[i]) {
            if self.known[i].is_none() {
                self.write(ExprId(i as u32));
            }
        }
        self.known[root.0 as usize].clone().expect("written").0
    }

    fn write(&mut self, id: ExprId) {
        let expr = self.exprs.get(id);
        if let Expr::Load { index, .. } | Expr::Index(index) = expr {
            index.for_each_dynamic(&mut |e| self.name(e));
        }
        let (text, infix) = self.describe(id, expr);
        let atom = matches!(
            expr,
            Expr::Const(_)
                | Expr::Slot(_)
                | Expr::Carry(_)
                | Expr::Scan(_)
                | Expr::Kept(_)
                | Expr::Sum
        );
        let known = if atom || (self.uses[id.0 as usize] <= 1 && text.len() <= INLINE) {
            (text.clone(), infix)
        } else {
            (format!("%{}", id.0), false)
        };
        if known.0 != text {
            self.line(&format!("%{}: {} = {text}", id.0, self.exprs.dtype(id)));
        }
        self.known[id.0 as usize] = Some(known);
    }

    /// Makes sure that `%n` names the expression, as indices say it.
    fn name(&mut self, id: ExprId) {
        let name = format!("%{}", id.0);
        if let Some((text, _)) = self.known[id.0 as usize].clone()
            && text != name
        {
            self.line(&format!("{name}: {} = {text}", self.exprs.dtype(id)));
            self.known[id.0 as usize] = Some((name, false));
        }
    }

    fn get(&self, id: ExprId, parenthesise: bool) -> String {
        let (text, infix) = self.known[id.0 as usize].as_ref().expect("operands come first");
        if parenthesise && *infix { format!("({text})") } else { text.clone() }
    }

    /// The text, and whether it is an infix expression.
    fn describe(&self, id: ExprId, expr: &Expr) -> (String, bool) {
        let plain = |text: String| (text, false);
        let at = |e: &ExprId| self.get(*e, false);
        let inner = |e: &ExprId| self.get(*e, true);
        match expr {
            Expr::Const(value) => plain(value.to_string()),
            Expr::Load { argument, index, valid: None } => {
                plain(format!("load a{argument}[{index}]"))
            }
            Expr::Load { argument, index, valid: Some(valid) } => {
                plain(format!("load a{argument}[{index}] if {}", inner(valid)))
            }
            Expr::Index(index) => plain(format!("index({index})")),
            Expr::Slot(slot) => plain(format!("s{slot}")),
            Expr::Carry(slot) => plain(format!("carry{slot}")),
            Expr::Scan(slot) => plain(format!("scan{slot}")),
            Expr::Kept(array) => plain(format!("k{array}")),
            Expr::Sum => plain("sum".to_string()),
            Expr::Unary(op, a) => plain(format!("{}({})", unary_name(*op), at(a))),
            Expr::Binary(op, a, b) => match binary_name(*op) {
                Ok(symbol) => (format!("{} {symbol} {}", inner(a), inner(b)), true),
                Err(name) => plain(format!("{name}({}, {})", at(a), at(b))),
            },
            Expr::Fma(a, b, c) => plain(format!("fma({}, {}, {})", at(a), at(b), at(c))),
            Expr::Compare(op, a, b) => {
                (format!("{} {} {}", inner(a), compare_name(*op), inner(b)), true)
            }
            Expr::Select(c, a, b) => plain(format!("select({}, {}, {})", at(c), at(a), at(b))),
            Expr::Lookup(table, a) => plain(format!("{}[{}]", table_text(table), at(a))),
            Expr::Convert(a) => plain(format!("{}({})", self.exprs.dtype(id), at(a))),
            Expr::Bitcast(a) => plain(format!("{}_bits({})", self.exprs.dtype(id), at(a))),
        }
    }
}

fn reduction_text(reduction: &Reduction, value: &str) -> String {
    let name = match reduction.combine {
        Combine::Value(kind) => format!("reduce_{}", kind.name()),
        Combine::Arg(ArgKind::Min) => "argmin".to_string(),
        Combine::Arg(ArgKind::Max) => "argmax".to_string(),
    };
    let tree = reduction.tree;
    format!("s{} = {name} {value}, tree {} x {}", reduction.slot, tree.lanes, tree.chunk)
}

/// The first elements of a table, and how many there are.
fn table_text(table: &Table) -> String {
    let [a, b, ..] = table.bits().map(|bits| Scalar::from_bits(DType::F32, bits.into()));
    format!("table({a}, {b}, .. {})", Table::LEN)
}

fn unary_name(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Neg => "-",
        UnaryOp::Abs => "abs",
        UnaryOp::Not => "!",
        UnaryOp::Sqrt => "sqrt",
        UnaryOp::Floor => "floor",
        UnaryOp::Ceil => "ceil",
        UnaryOp::Round => "round",
        UnaryOp::Truncate => "truncate",
        UnaryOp::PopulationCount => "population_count",
        UnaryOp::CountLeadingZeros => "count_leading_zeros",
    }
}

/// A symbol between the operands, or a name before them.
fn binary_name(op: BinaryOp) -> Result<&'static str, &'static str> {
    match op {
        BinaryOp::Add => Ok("+"),
        BinaryOp::Sub => Ok("-"),
        BinaryOp::Mul => Ok("*"),
        BinaryOp::Div => Ok("/"),
        BinaryOp::Rem => Ok("%"),
        BinaryOp::Min => Err("min"),
        BinaryOp::Max => Err("max"),
        BinaryOp::Scale => Err("scale"),
        BinaryOp::And => Ok("&"),
        BinaryOp::Or => Ok("|"),
        BinaryOp::Xor => Ok("^"),
        BinaryOp::ShiftLeft => Ok("<<"),
        BinaryOp::ShiftRightLogical => Ok(">>"),
        BinaryOp::ShiftRightArithmetic => Ok(">>>"),
    }
}

fn compare_name(op: Compare) -> &'static str {
    match op {
        Compare::Eq => "==",
        Compare::Ne => "!=",
        Compare::Lt => "<",
        Compare::Le => "<=",
        Compare::Gt => ">",
        Compare::Ge => ">=",
    }
}
