//! What `lower` says about an op: the vocabulary that passes and backends share.
//!
//! An op describes its computation as one of a handful of forms, as plain data.
//! Fusion decides by form, lowering builds kernel IR from forms, and no backend
//! ever matches on an [`Op`](crate::Op). `result[i]` below is the result at the
//! multi-index `i`.

use std::sync::Arc;

use crate::op::{
    ArgKind, Binary, Compare, CumulativeKind, DotDims, Gather, Part, ReduceKind, ReducePrecision,
    Scatter, ScatterKind, Unary, Window, WindowCombine,
};
use crate::{DType, Graph, Literal};

/// The form of an op.
#[derive(Clone, Debug)]
pub enum Form {
    /// A parameter of the graph: no computation.
    Parameter,
    /// No operands: the value follows from the index.
    Generate(Generate),
    /// `result[i] = f(operand0[i], operand1[i], ..)`: all shapes equal.
    Map(ScalarFn),
    /// `result[i] = operand[g(i)]` or a constant: no arithmetic on elements.
    View(View),
    /// `result[i] = operand0[clamp(starts) + i]`; operands 1.. are the rank-0 starts.
    DynamicSlice,
    /// Operand 0 with operand 1 written at the clamped starts, operands 2...
    Update,
    /// The windows of operand 0 at the indices, operand 1; operand 2 is what to fill with.
    Gather(Gather),
    /// Operand 0 with the windows at the indices, operand 1, combined with operand 2.
    Scatter(Scatter),
    /// Combines operand 0 along `axes`.
    Reduce(ReduceKind, Vec<usize>),
    /// Index of the extreme element of operand 0 along `axis`: the first of equals.
    ArgReduce(ArgKind, usize),
    /// Operands `0..n` along axes by a body, from operands `n..2n`: one element after the
    /// other in row-major order.
    Fold(Arc<Graph>, Vec<usize>),
    /// The elements of every window: operand 0 by a kind, or operands `0..n` by a body
    /// from operands `n..2n`, in row-major order of the window.
    Window(WindowCombine, Window),
    /// Every element with all before it along an axis, or all behind it if reversed.
    Cumulative(CumulativeKind, usize, bool),
    /// Sum of products of operands 0 and 1 over the contracted axes.
    Contraction(DotDims),
    /// All operands reordered alike along `axis`: one result for each.
    Sort {
        /// The axis along which elements move.
        axis: usize,
        /// Which of two places comes first; equal ones keep their order.
        order: Order,
    },
    /// Results: the `k` greatest elements of each row of operand 0 along the last axis,
    /// greatest first, and where they are.
    TopK {
        /// How many.
        k: usize,
    },
    /// Result `k` is operand `k`, and nothing is moved across.
    Barrier,
    /// The outputs of the graph applied to the operands.
    Call(Arc<Graph>),
}

impl Form {
    /// Whether the result is operand 0, partly overwritten: it starts as a copy of it, or
    /// takes its place in memory.
    pub fn overwrites(&self) -> bool {
        matches!(self, Form::Update | Form::Scatter(_))
    }
}

/// The order of the places along a sorted axis.
#[derive(Clone, Debug)]
pub enum Order {
    /// By these operands' elements, one after the other until they differ. −0 is +0, and
    /// NaN is above every number.
    Keys(Vec<SortKey>),
    /// By a graph of scalars: for each operand its element at the one place and at the
    /// other, to whether the one comes before the other.
    Function(Arc<Graph>),
}

/// An operand that is compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SortKey {
    /// Which operand.
    pub operand: usize,
    /// Whether the greatest comes first.
    pub descending: bool,
}

/// A value that follows from its index.
#[derive(Clone, Debug)]
pub enum Generate {
    /// The literal's elements.
    Constant(Literal),
    /// `result[i] = i[axis]` converted to the result's element type.
    Iota {
        /// Which index counts.
        axis: usize,
    },
}

/// A pure function of one element of each operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ScalarFn {
    /// One operand; the result has its type, but for `is_finite`, which is `bool`, and
    /// `abs` of a complex number, which is a float.
    Unary(Unary),
    /// Two operands of one type, which the result has too.
    Binary(Binary),
    /// Two operands of one type; the result is `bool`.
    Compare(Compare),
    /// `operand0 ? operand1 : operand2`, operand 0 `bool`.
    Select,
    /// `min(max(operand1, operand0), operand2)`: low, value, high.
    Clamp,
    /// Conversion of operand 0 to the type.
    Convert(DType),
    /// A word of Threefry-2x32: of a key, operands 0 and 1, and a counter, 2 and 3.
    Threefry2x32 {
        /// Which: 0 or 1.
        word: usize,
    },
    /// The bits of operand 0 as the type, which has its width.
    Bitcast(DType),
    /// Operand 0 rounded to a smaller format of float.
    ReducePrecision(ReducePrecision),
    /// The complex number of real part operand 0 and imaginary part operand 1.
    Complex,
    /// One part of the complex operand 0.
    Part(Part),
}

impl Form {
    /// Whether elements of the operands, or parts of complex ones, are only moved and
    /// chosen: whatever they are, nothing is computed from them. Those that a scatter
    /// adds are added part by part.
    pub fn moves(&self) -> bool {
        match self {
            Form::Map(f) => f.moves(),
            Form::Reduce(_, axes) => axes.is_empty(),
            Form::Parameter | Form::Generate(Generate::Constant(_)) | Form::View(_) => true,
            Form::DynamicSlice | Form::Update | Form::Gather(_) => true,
            Form::Scatter(scatter) => matches!(scatter.kind, ScatterKind::Set | ScatterKind::Add),
            Form::Generate(Generate::Iota { .. }) => false,
            Form::ArgReduce(..) | Form::Contraction(_) | Form::Call(_) => false,
            Form::Fold(..) | Form::Window(..) | Form::Cumulative(..) => false,
            Form::Sort { .. } | Form::TopK { .. } => false,
            Form::Barrier => true,
        }
    }
}

impl ScalarFn {
    /// Whether elements, or parts of complex ones, are only moved and chosen.
    pub fn moves(self) -> bool {
        match self {
            ScalarFn::Select | ScalarFn::Complex | ScalarFn::Part(_) => true,
            ScalarFn::Unary(_)
            | ScalarFn::Binary(_)
            | ScalarFn::Compare(_)
            | ScalarFn::Clamp
            | ScalarFn::Convert(_)
            | ScalarFn::Bitcast(_)
            | ScalarFn::Threefry2x32 { .. }
            | ScalarFn::ReducePrecision(_) => false,
        }
    }
}

/// An index map from the result to the operand (or operands).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum View {
    /// Operand axis `k` is result axis `axes[k]`, or has extent 1 and repeats.
    Broadcast {
        /// One result axis for each operand axis, strictly increasing.
        axes: Vec<usize>,
    },
    /// The same elements in row-major order under another shape.
    Reshape,
    /// Result axis `k` is operand axis `permutation[k]`.
    Transpose {
        /// A permutation of the axes.
        permutation: Vec<usize>,
    },
    /// Axes run backwards.
    Reverse {
        /// The reversed axes.
        axes: Vec<usize>,
    },
    /// `operand index = start + stride * result index` on every axis.
    Slice {
        /// First index taken on each axis.
        start: Vec<usize>,
        /// Step on each axis, at least 1.
        stride: Vec<usize>,
    },
    /// Operand 0 spread out by `interior` and shifted by `low` (which may be
    /// negative) inside a field of operand 1, a scalar.
    Pad {
        /// Elements added before the first on each axis; negative removes.
        low: Vec<i64>,
        /// Elements added between neighbours on each axis.
        interior: Vec<usize>,
    },
    /// The operands one after the other along `axis`.
    Concatenate {
        /// The joined axis.
        axis: usize,
    },
}
