//! Typed scalar expressions: a DAG in an arena.
//!
//! Every expression is pure and is evaluated at one step of one point. Operands
//! come before their users, so the arena's order is an evaluation order. Equal
//! expressions are one ([`Exprs::add`] interns), so a value used twice at the same
//! index is computed once.
//!
//! Arithmetic is on `f32`, `f64` and integers only. Half types may appear where
//! bits move: `Const`, `Load`, `Kept`, `Select`, `Bitcast`, `Convert` and stores;
//! lowering computes in `f32` and rounds after every op. `bool` knows `Not`, `And`,
//! `Or`, `Xor`, comparisons, `Select` and `Convert`. `f32` and `f64` operations are
//! IEEE 754 with round to nearest even and subnormals kept; nothing is contracted,
//! reassociated or assumed finite.
//!
//! An expression that does not depend on `Axis::Inner` has one value at a point: a
//! backend computes it once, before the loop.

use hashbrown::HashMap;
use kiln_ir::{DType, Scalar};

use super::index::{Axis, Extents, Index};
use super::table::Table;

/// Identifies an expression of one arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ExprId(pub u32);

/// One scalar expression.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Expr {
    /// A constant.
    Const(Scalar),
    /// Element `index` of an argument. With `valid`, a `bool` expression, memory
    /// is touched only where it is true; elsewhere the result is zero.
    Load {
        /// Which argument.
        argument: u32,
        /// Element number.
        index: Index,
        /// Where the element exists.
        valid: Option<ExprId>,
    },
    /// The value of an index, as `i64`.
    Index(Index),
    /// The result of a reduction of an earlier stage at this point.
    Slot(u32),
    /// What the step before this one left in a carry of the stage, or its first value.
    Carry(u32),
    /// The result of a scan of the stage up to this step.
    Scan(u32),
    /// Element `Axis::Inner` of a row array that an earlier stage of this point kept.
    Kept(u32),
    /// The finished sum of a contraction.
    Sum,
    /// One operand.
    Unary(UnaryOp, ExprId),
    /// Two operands of one type.
    Binary(BinaryOp, ExprId, ExprId),
    /// `a * b + c`, rounded once.
    Fma(ExprId, ExprId, ExprId),
    /// A comparison to `bool`, false on NaN but for `Ne`.
    Compare(kiln_ir::op::Compare, ExprId, ExprId),
    /// `.0 ? .1 : .2`.
    Select(ExprId, ExprId, ExprId),
    /// The `f32` of a table that the low five bits of a `u32` name.
    Lookup(&'static Table, ExprId),
    /// Conversion by the rules of `convert` to the expression's type.
    Convert(ExprId),
    /// The same bits as another type of equal width.
    Bitcast(ExprId),
}

/// A primitive function of one value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum UnaryOp {
    /// Negation; integers wrap.
    Neg,
    /// Magnitude; floats clear the sign bit, the least integer stays itself.
    Abs,
    /// Complement; logical for `bool`.
    Not,
    /// Square root, correctly rounded.
    Sqrt,
    /// Towards −∞.
    Floor,
    /// Towards +∞.
    Ceil,
    /// Nearest, ties to even.
    Round,
    /// Towards zero.
    Truncate,
    /// How many bits of an integer are set.
    PopulationCount,
    /// How many zeros stand above the highest set bit of an integer.
    CountLeadingZeros,
}

/// A primitive function of two values of one type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum BinaryOp {
    /// Sum; integers wrap.
    Add,
    /// Difference; integers wrap.
    Sub,
    /// Product; integers wrap.
    Mul,
    /// Quotient; integers by the rules of `div` (never traps).
    Div,
    /// Remainder; by the rules of `rem` (never traps). Floats as C's `fmod`.
    Rem,
    /// Lesser; NaN if either is; −0 below +0.
    Min,
    /// Greater; NaN if either is; +0 above −0.
    Max,
    /// `.0 * 2^.1`, rounded once: `.1` is an integer as a float, of magnitude up to
    /// twice the largest exponent, and `.0` is near 1 or NaN.
    Scale,
    /// Bitwise; logical for `bool`.
    And,
    /// Bitwise; logical for `bool`.
    Or,
    /// Bitwise; logical for `bool`.
    Xor,
    /// 0 when the amount is negative or at least the width.
    ShiftLeft,
    /// Fills with 0; 0 when the amount is negative or at least the width.
    ShiftRightLogical,
    /// Fills with the sign; all sign when the amount is negative or at least the width.
    ShiftRightArithmetic,
}

impl Expr {
    /// Calls `f` for each expression this one reads, those inside indices included.
    pub fn for_each_operand(&self, mut f: impl FnMut(ExprId)) {
        match self {
            Expr::Const(_)
            | Expr::Slot(_)
            | Expr::Carry(_)
            | Expr::Scan(_)
            | Expr::Kept(_)
            | Expr::Sum => {}
            Expr::Load { index, valid, .. } => {
                index.for_each_dynamic(&mut f);
                valid.iter().for_each(|&v| f(v));
            }
            Expr::Index(index) => index.for_each_dynamic(&mut f),
            Expr::Unary(_, a) | Expr::Lookup(_, a) | Expr::Convert(a) | Expr::Bitcast(a) => f(*a),
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => {
                f(*a);
                f(*b);
            }
            Expr::Fma(a, b, c) | Expr::Select(a, b, c) => {
                f(*a);
                f(*b);
                f(*c);
            }
        }
    }

    /// The same operation on `f` of its operands; indices go through `index`, which
    /// maps the expressions inside them too.
    pub fn map(&self, f: impl Fn(ExprId) -> ExprId, index: impl Fn(&Index) -> Index) -> Expr {
        match self {
            Expr::Const(_)
            | Expr::Slot(_)
            | Expr::Carry(_)
            | Expr::Scan(_)
            | Expr::Kept(_)
            | Expr::Sum => self.clone(),
            Expr::Load { argument, index: i, valid } => {
                Expr::Load { argument: *argument, index: index(i), valid: valid.map(f) }
            }
            Expr::Index(i) => Expr::Index(index(i)),
            Expr::Unary(op, a) => Expr::Unary(*op, f(*a)),
            Expr::Lookup(table, a) => Expr::Lookup(table, f(*a)),
            Expr::Convert(a) => Expr::Convert(f(*a)),
            Expr::Bitcast(a) => Expr::Bitcast(f(*a)),
            Expr::Binary(op, a, b) => Expr::Binary(*op, f(*a), f(*b)),
            Expr::Compare(op, a, b) => Expr::Compare(*op, f(*a), f(*b)),
            Expr::Fma(a, b, c) => Expr::Fma(f(*a), f(*b), f(*c)),
            Expr::Select(a, b, c) => Expr::Select(f(*a), f(*b), f(*c)),
        }
    }
}

/// An arena of expressions with their types.
#[derive(Clone, Debug, Default)]
pub struct Exprs {
    items: Vec<(Expr, DType)>,
    known: HashMap<(Expr, DType), ExprId>,
    /// Conditions that hardly any element meets; see [`Exprs::mark_rare`].
    rare: Vec<ExprId>,
}

impl Exprs {
    /// Adds an expression of type `dtype`, or finds the equal one.
    pub fn add(&mut self, expr: Expr, dtype: DType) -> ExprId {
        if let Some(&id) = self.known.get(&(expr.clone(), dtype)) {
            return id;
        }
        let id = ExprId(self.items.len() as u32);
        self.known.insert((expr.clone(), dtype), id);
        self.items.push((expr, dtype));
        id
    }

    /// Says that hardly any element meets a condition: what only the first alternatives
    /// of selections by it need may be worth a branch around it. A hint: it changes no
    /// result and takes no part in equality.
    pub fn mark_rare(&mut self, condition: ExprId) {
        if !self.rare.contains(&condition) {
            self.rare.push(condition);
        }
    }

    /// The conditions marked as rare.
    pub fn rare(&self) -> &[ExprId] {
        &self.rare
    }

    /// The expression.
    pub fn get(&self, id: ExprId) -> &Expr {
        &self.items[id.0 as usize].0
    }

    /// Its type.
    pub fn dtype(&self, id: ExprId) -> DType {
        self.items[id.0 as usize].1
    }

    /// All expressions, operands before users.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (ExprId, &Expr, DType)> {
        self.items.iter().enumerate().map(|(i, (e, d))| (ExprId(i as u32), e, *d))
    }

    /// For each expression, whether one of `roots` is it or reads it, however far off.
    pub fn reachable(&self, roots: impl IntoIterator<Item = ExprId>) -> Vec<bool> {
        let mut reached = vec![false; self.items.len()];
        for root in roots {
            reached[root.0 as usize] = true;
        }
        for (i, (expr, _)) in self.items.iter().enumerate().rev() {
            if reached[i] {
                expr.for_each_operand(|o| reached[o.0 as usize] = true);
            }
        }
        reached
    }

    /// For each expression, whether it may change along one of `axes`.
    pub fn varying_along(&self, axes: &[Axis]) -> Vec<bool> {
        let points = axes.iter().any(|a| matches!(a, Axis::Point(_)));
        let mut varying: Vec<bool> = Vec::with_capacity(self.items.len());
        for (expr, _) in &self.items {
            let mut varies = match expr {
                Expr::Load { index, .. } | Expr::Index(index) => {
                    axes.iter().any(|&a| index.depends_on(a))
                }
                Expr::Kept(_) | Expr::Carry(_) | Expr::Scan(_) => {
                    points || axes.contains(&Axis::Inner)
                }
                Expr::Slot(_) => points,
                Expr::Sum => true,
                _ => false,
            };
            expr.for_each_operand(|o| varies |= varying[o.0 as usize]);
            varying.push(varies);
        }
        varying
    }

    /// Like [`Index::coefficient`], and `None` too where a value that the index reads
    /// changes along the axis.
    pub fn coefficient(&self, index: &Index, axis: Axis) -> Option<i64> {
        let mut reads = Vec::new();
        index.for_each_dynamic(&mut |e| reads.push(e));
        if !reads.is_empty() {
            let varying = self.varying_along(&[axis]);
            if reads.iter().any(|e| varying[e.0 as usize]) {
                return None;
            }
        }
        index.coefficient(axis)
    }

    /// For each expression, whether it changes along the inner axis.
    pub fn varying(&self) -> Vec<bool> {
        let mut varying = vec![false; self.items.len()];
        for (i, (expr, _)) in self.items.iter().enumerate() {
            let mut varies = match expr {
                Expr::Load { index, .. } | Expr::Index(index) => index.depends_on(Axis::Inner),
                Expr::Kept(_) | Expr::Carry(_) | Expr::Scan(_) => true,
                _ => false,
            };
            expr.for_each_operand(|o| varies |= varying[o.0 as usize]);
            varying[i] = varies;
        }
        varying
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// Where each expression of an arena went in another one.
#[derive(Clone, Debug)]
pub struct Places(Vec<ExprId>);

impl Places {
    /// The new place of an expression that was copied.
    pub fn at(&self, old: ExprId) -> ExprId {
        debug_assert_ne!(self.0[old.0 as usize], NOWHERE, "expression was not copied");
        self.0[old.0 as usize]
    }
}

const NOWHERE: ExprId = ExprId(u32::MAX);

impl Exprs {
    /// Copies the expressions that `which` marks, operands first. `each` adds what
    /// stands for the expression it is given to the other arena; the places of the
    /// expression's operands are known by then.
    pub fn copy(
        &self,
        to: &mut Exprs,
        which: &[bool],
        mut each: impl FnMut(&mut Exprs, ExprId, &Places) -> ExprId,
    ) -> Places {
        let mut places = Places(vec![NOWHERE; self.items.len()]);
        for (i, _) in which.iter().enumerate().filter(|(_, wanted)| **wanted) {
            let new = each(to, ExprId(i as u32), &places);
            places.0[i] = new;
        }
        for &condition in self.rare.iter().filter(|c| which[c.0 as usize]) {
            to.mark_rare(places.at(condition));
        }
        places
    }

    /// [`Exprs::copy`] of everything, with other axes.
    pub fn move_to(&self, extents: &Extents, axes: &impl Fn(Axis) -> Index) -> (Exprs, Places) {
        let mut to = Exprs::default();
        let places = self.copy(&mut to, &vec![true; self.len()], |to, id, places| {
            let new = self
                .get(id)
                .map(|e| places.at(e), |i| i.substitute(extents, axes, &|e| places.at(e)));
            to.add(new, self.dtype(id))
        });
        (to, places)
    }
}

/// Adding expressions by operation; result types follow from the operands.
///
/// Constants fold where the result has the same bits at run time, which keeps
/// dumps and machine code small; nothing else is rewritten.
impl Exprs {
    /// A constant.
    pub fn constant(&mut self, value: Scalar) -> ExprId {
        self.add(Expr::Const(value), value.dtype())
    }

    /// The float `x` in a float type, rounded to nearest even.
    pub fn float(&mut self, dtype: DType, x: f64) -> ExprId {
        self.constant(Scalar::from_f64(dtype, x))
    }

    /// The integer `x` in an integer type.
    pub fn integer(&mut self, dtype: DType, x: i64) -> ExprId {
        self.constant(Scalar::from_i128(dtype, x.into()))
    }

    /// A `bool` constant.
    pub fn boolean(&mut self, x: bool) -> ExprId {
        self.constant(Scalar::bool(x))
    }

    /// The value, if it is a constant.
    pub fn as_constant(&self, id: ExprId) -> Option<Scalar> {
        match self.get(id) {
            Expr::Const(value) => Some(*value),
            _ => None,
        }
    }

    /// The value of an index, as `i64`.
    pub fn index(&mut self, index: Index) -> ExprId {
        match index.as_constant() {
            Some(value) => self.integer(DType::I64, value),
            None => self.add(Expr::Index(index), DType::I64),
        }
    }

    /// A primitive function of one value.
    pub fn unary(&mut self, op: UnaryOp, a: ExprId) -> ExprId {
        self.add(Expr::Unary(op, a), self.dtype(a))
    }

    /// A primitive function of two values of one type.
    pub fn binary(&mut self, op: BinaryOp, a: ExprId, b: ExprId) -> ExprId {
        let dtype = self.dtype(a);
        debug_assert_eq!(dtype, self.dtype(b), "{op:?} of two types");
        if dtype == DType::Bool {
            match (op, self.as_constant(a).map(|c| c.bits()), self.as_constant(b).map(|c| c.bits()))
            {
                (BinaryOp::And, Some(1), _) | (BinaryOp::Or, Some(0), _) => return b,
                (BinaryOp::And, _, Some(1)) | (BinaryOp::Or, _, Some(0)) => return a,
                _ => {}
            }
        }
        self.add(Expr::Binary(op, a, b), dtype)
    }

    /// `a * b + c`, rounded once.
    pub fn fma(&mut self, a: ExprId, b: ExprId, c: ExprId) -> ExprId {
        self.add(Expr::Fma(a, b, c), self.dtype(a))
    }

    /// A comparison.
    pub fn compare(&mut self, op: kiln_ir::op::Compare, a: ExprId, b: ExprId) -> ExprId {
        debug_assert_eq!(self.dtype(a), self.dtype(b), "{op:?} of two types");
        self.add(Expr::Compare(op, a, b), DType::Bool)
    }

    /// `c ? a : b`.
    pub fn select(&mut self, c: ExprId, a: ExprId, b: ExprId) -> ExprId {
        debug_assert_eq!(self.dtype(a), self.dtype(b), "choice between two types");
        match self.as_constant(c) {
            Some(c) if c.bits() != 0 => a,
            Some(_) => b,
            None if a == b => a,
            None => self.add(Expr::Select(c, a, b), self.dtype(a)),
        }
    }

    /// The element of a table that the low bits of a `u32` name.
    pub fn lookup(&mut self, table: &'static Table, index: ExprId) -> ExprId {
        debug_assert_eq!(self.dtype(index), DType::U32, "tables are indexed by u32");
        self.add(Expr::Lookup(table, index), DType::F32)
    }

    /// Conversion by the rules of `convert`; the value itself if it has the type.
    pub fn convert(&mut self, a: ExprId, to: DType) -> ExprId {
        if self.dtype(a) == to {
            return a;
        }
        self.add(Expr::Convert(a), to)
    }

    /// The same bits as another type of equal width.
    pub fn bitcast(&mut self, a: ExprId, to: DType) -> ExprId {
        debug_assert_eq!(self.dtype(a).size(), to.size(), "bitcast to another width");
        if self.dtype(a) == to {
            return a;
        }
        self.add(Expr::Bitcast(a), to)
    }

    /// The conjunction of two conditions that may be absent, which means true.
    pub fn and(&mut self, a: Option<ExprId>, b: Option<ExprId>) -> Option<ExprId> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.binary(BinaryOp::And, a, b)),
            (a, b) => a.or(b),
        }
    }
}

impl PartialEq for Exprs {
    fn eq(&self, other: &Exprs) -> bool {
        self.items == other.items
    }
}

impl Eq for Exprs {}

impl std::hash::Hash for Exprs {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.items.hash(state);
    }
}
