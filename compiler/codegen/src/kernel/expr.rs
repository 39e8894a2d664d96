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

use super::Index;

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

/// An arena of expressions with their types.
#[derive(Clone, Debug, Default)]
pub struct Exprs {
    items: Vec<(Expr, DType)>,
    known: HashMap<(Expr, DType), ExprId>,
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
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
