//! Random typed programs.
//!
//! A program is a graph over every op the IR has, made so that the interpreter and
//! compiled code must agree *exactly* wherever they can:
//!
//! - a value is *exact* when every op behind it is defined to the bit: integers,
//!   moves, comparisons, conversions, and the correctly rounded float functions;
//! - it is *rough* when a reduction order or a transcendental function is behind
//!   it. Rough values stay small and never decide anything: no comparison, no
//!   conversion to an integer, no remainder, no rounding reads them, so that a last
//!   bit never grows into another answer.
//!
//! Extents are drawn around the thresholds of the code generator (vector widths,
//! lanes and chunks of reductions, tiles), with 0 and 1 among them.

#[path = "generate/fold.rs"]
mod fold;

use kiln_ir::op::{
    ArgKind, ArgReduce, Binary, BitcastConvert, Broadcast, Call, Clamp, Comparator, Compare,
    Complex, Concatenate, Constant, Convert, DotDims, DotGeneral, DynamicSlice, DynamicUpdateSlice,
    Gather, GatherDims, GatherMode, Iota, OptimizationBarrier, Pad, Part, Reduce, ReduceKind,
    ReducePrecision, Reshape, Reverse, Scatter, ScatterDims, ScatterKind, ScatterMode, Select,
    Slice, Sort, SortBy, Threefry2x32, TopK, Transpose, Unary,
};
use kiln_ir::{DType, Graph, Literal, Op, OpDef, ParameterInfo, Scalar, Shape, Type, Value};

use crate::Random;

/// A random program and how its outputs may be compared.
#[derive(Clone, Debug)]
pub struct Program {
    /// The graph.
    pub graph: Graph,
    /// Its arguments.
    pub arguments: Vec<Literal>,
    /// For each output, whether it must agree to the bit.
    pub exact: Vec<bool>,
}

/// Extents around thresholds: t − 1, t, t + 1.
const EXTENTS: &[usize] = &[
    0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 95, 96, 97, 127,
    128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049,
];

/// Rare long axes: chunks of reductions and splits between threads.
const LONG: &[usize] = &[4095, 4097, 32767, 32768, 32769, 65535, 65536, 65537, 98304];

/// Most elements of a value, so that the interpreter stays quick.
const ELEMENTS: usize = 6000;
const ELEMENTS_LONG: usize = 100_000;

/// The program of `seed`.
pub fn generate(seed: u64) -> Program {
    let mut g = Generator::new(seed, "fuzz");
    let parameters = 1 + g.random.below(4);
    for _ in 0..parameters {
        g.parameter();
    }
    let steps = match g.random.below(4) {
        0 => 1 + g.random.below(3),
        1 => 4 + g.random.below(8),
        _ => 8 + g.random.below(40),
    };
    for _ in 0..steps {
        g.step();
    }
    g.finish()
}

#[derive(Clone, Copy)]
struct Known {
    value: Value,
    exact: bool,
    /// How many products and powers are behind a rough float.
    depth: u32,
}

struct Generator {
    random: Random,
    graph: Graph,
    arguments: Vec<Literal>,
    known: Vec<Known>,
    elements: usize,
    /// Rough ops are left out of half of the programs, which are then exact whole.
    rough: bool,
    nested: bool,
}

impl Generator {
    fn new(seed: u64, name: &str) -> Generator {
        let mut random = Random::new(seed);
        let rough = random.one_in(2);
        let elements = if random.one_in(12) { ELEMENTS_LONG } else { ELEMENTS };
        Generator {
            random,
            graph: Graph::new(name),
            arguments: Vec::new(),
            known: Vec::new(),
            elements,
            rough,
            nested: false,
        }
    }

    // --- types and data ---------------------------------------------------

    fn dtype(&mut self) -> DType {
        match self.random.below(10) {
            0..=3 => DType::F32,
            4 => self.random.pick(&[DType::F64, DType::F16, DType::BF16]),
            5 => DType::Bool,
            6 => DType::I32,
            _ => self.random.pick(&DType::ALL),
        }
    }

    fn shape(&mut self) -> Shape {
        let rank = self.random.pick(&[0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4]);
        let mut dims: Vec<usize> = Vec::new();
        let mut room = self.elements;
        for _ in 0..rank {
            let long = self.elements > ELEMENTS && self.random.one_in(2);
            let d = self.random.pick(if long { LONG } else { EXTENTS });
            let d = if d > room { self.random.below(room.min(70) + 1) } else { d };
            room /= d.max(1);
            dims.push(d);
        }
        // The long axis is as often the last as not.
        if dims.len() > 1 && self.random.one_in(2) {
            let i = self.random.below(dims.len());
            let last = dims.len() - 1;
            dims.swap(i, last);
        }
        dims.into()
    }

    /// Elements: special values where any bit pattern is allowed, tame ones in
    /// programs whose rough parts must not overflow.
    fn literal(&mut self, ty: &Type) -> Literal {
        let wild = !self.rough && self.random.one_in(2);
        let random = &mut self.random;
        Literal::from_fn(ty.clone(), |_| random.scalar(ty.dtype, wild))
    }

    fn add(&mut self, op: impl Into<Op>, operands: &[Value], exact: bool, depth: u32) {
        let op = op.into();
        let types: Vec<&Type> = operands.iter().map(|&v| self.graph.ty(v)).collect();
        // The op may refuse the operands that were drawn, or make too much of them:
        // draw something else.
        let fits = |ty: &Type| ty.elements() <= 2 * self.elements;
        if !op.infer(&types).is_ok_and(|results| results.iter().all(fits)) {
            return;
        }
        let Ok(node) = self.graph.add(op, operands, None) else { return };
        for value in self.graph.results(node) {
            self.known.push(Known { value, exact, depth });
        }
    }

    fn parameter(&mut self) {
        let ty = Type::new(self.dtype(), self.shape());
        let donated = self.random.one_in(3) && !self.nested;
        let literal = self.literal(&ty);
        let value = self.graph.add_parameter(ty, ParameterInfo { name: String::new(), donated });
        self.arguments.push(literal);
        self.known.push(Known { value, exact: true, depth: 0 });
    }

    // --- choosing operands --------------------------------------------------

    /// A recent value more often than an old one.
    fn any(&mut self) -> usize {
        let n = self.known.len();
        if self.random.one_in(3) {
            self.random.below(n)
        } else {
            n - 1 - self.random.below(n.min(5))
        }
    }

    fn ty(&self, i: usize) -> Type {
        self.graph.ty(self.known[i].value).clone()
    }

    fn is_rough(&self, i: usize) -> bool {
        !self.known[i].exact
    }

    /// A value of exactly this type: an old one, one that broadcasts or converts to
    /// it, or a new constant or parameter.
    fn of_type(&mut self, ty: &Type) -> usize {
        let same: Vec<usize> = (0..self.known.len()).filter(|&i| self.ty(i) == *ty).collect();
        if !same.is_empty() && !self.random.one_in(4) {
            return same[self.random.below(same.len())];
        }
        match self.random.below(4) {
            0 if !self.nested => {
                let literal = self.literal(ty);
                let info = ParameterInfo { name: String::new(), donated: self.random.one_in(3) };
                let value = self.graph.add_parameter(ty.clone(), info);
                self.arguments.push(literal);
                self.known.push(Known { value, exact: true, depth: 0 });
            }
            1 => {
                // A smaller parameter-like value, broadcast along some axes.
                let axes: Vec<usize> =
                    (0..ty.shape.rank()).filter(|_| self.random.one_in(2)).collect();
                let dims: Vec<usize> = axes
                    .iter()
                    .map(|&a| if self.random.one_in(4) { 1 } else { ty.shape[a] })
                    .collect();
                let small = Type::new(ty.dtype, dims);
                let literal = self.literal(&small);
                let constant = self.graph.add1(Constant { value: literal }, &[], None);
                let Ok(value) = constant else { unreachable!("constants are well typed") };
                self.add(Broadcast { shape: ty.shape.clone(), axes }, &[value], true, 0);
            }
            _ => {
                let wild = !self.rough && self.random.one_in(2);
                let value = self.random.scalar(ty.dtype, wild);
                let constant = Constant { value: Literal::scalar(value) };
                let Ok(value) = self.graph.add1(constant, &[], None) else {
                    unreachable!("constants are well typed")
                };
                self.add(Broadcast { shape: ty.shape.clone(), axes: vec![] }, &[value], true, 0);
            }
        }
        self.known.len() - 1
    }

    // --- steps --------------------------------------------------------------

    fn step(&mut self) {
        match self.random.below(31) {
            0..=2 => self.unary(),
            3..=7 => self.binary(),
            8 => self.compare_or_select(),
            9 => self.convert(),
            10 => self.broadcast(),
            11 => self.reshape(),
            12 => self.permute(),
            13 => self.slice(),
            14 => self.pad(),
            15 => self.concatenate(),
            16 => self.iota(),
            17 => self.dynamic(),
            18 | 19 => self.reduce(),
            20 => self.dot(),
            21 | 22 => self.indexed(),
            23 | 24 => self.fold(),
            26 | 27 => self.sort(),
            28 => self.random_bits(),
            29 => self.barrier(),
            25 => self.parts(),
            _ => self.call(),
        }
    }

    fn unary(&mut self) {
        let i = self.any();
        let (value, exact, depth) = (self.known[i].value, self.known[i].exact, self.known[i].depth);
        let f = self.random.pick(&Unary::ALL);
        if self.ty(i).dtype.is_complex() {
            match f {
                Unary::Neg => self.add(f, &[value], exact, depth),
                Unary::IsFinite if exact => self.add(f, &[value], true, 0),
                // The only ones that are neither steep nor large.
                Unary::Abs if self.rough => self.add(f, &[value], false, depth),
                Unary::Exp if self.rough && depth == 0 => self.add(f, &[value], false, 2),
                _ => {}
            }
            return;
        }
        match f {
            Unary::Neg
            | Unary::Abs
            | Unary::Not
            | Unary::PopulationCount
            | Unary::CountLeadingZeros => self.add(f, &[value], exact, depth),
            Unary::Sign
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
            | Unary::RoundAway
            | Unary::Trunc
            | Unary::IsFinite => {
                if exact {
                    self.add(f, &[value], true, depth);
                }
            }
            // Correctly rounded, but steep at 0.
            Unary::Sqrt => {
                if exact {
                    self.add(f, &[value], true, depth);
                }
            }
            // Bounded, with bounded slope.
            Unary::Tanh | Unary::Erf | Unary::Erfc | Unary::Atan | Unary::Logistic => {
                if self.rough {
                    self.add(f, &[value], false, 0);
                }
            }
            // Never steeper than 1.
            Unary::Asinh => {
                if self.rough {
                    self.add(f, &[value], false, depth);
                }
            }
            // Bounded slope only for small arguments: of inputs, which are small.
            Unary::Sin
            | Unary::Cos
            | Unary::Exp
            | Unary::Exp2
            | Unary::Expm1
            | Unary::Sinh
            | Unary::Cosh => {
                if self.rough && depth == 0 {
                    self.add(f, &[value], false, 2);
                }
            }
            // Steep at ±1, and NaN beyond; poles. Of exact values only, and not for products.
            Unary::Tan | Unary::Asin | Unary::Acos | Unary::ErfInv => {
                if self.rough && exact {
                    self.add(f, &[value], false, 3);
                }
            }
            // Steep without bound at 1: of the tanh of inputs, which is not near it.
            Unary::Atanh => {
                if self.rough
                    && depth == 0
                    && let Ok(inside) = self.graph.add1(Unary::Tanh, &[value], None)
                {
                    self.add(f, &[inside], false, 2);
                }
            }
            Unary::Log
            | Unary::Log1p
            | Unary::Log2
            | Unary::Log10
            | Unary::Cbrt
            | Unary::Acosh
            | Unary::Lgamma
            | Unary::Digamma
            | Unary::Rsqrt => {
                // Away from where it is steep: of 1 + |x|, for acosh of 2 + |x|.
                if self.rough && self.ty(i).dtype.is_float() {
                    let ty = self.ty(i);
                    let away = if f == Unary::Acosh { 2.0 } else { 1.0 };
                    let away = Literal::scalar(Scalar::from_f64(ty.dtype, away));
                    let one = self.graph.add1(Constant { value: away }, &[], None);
                    let broadcast = Broadcast { shape: ty.shape.clone(), axes: vec![] };
                    let shifted = one
                        .and_then(|one| self.graph.add1(broadcast, &[one], None))
                        .and_then(|ones| {
                            let magnitude = self.graph.add1(Unary::Abs, &[value], None)?;
                            self.graph.add1(Binary::Add, &[magnitude, ones], None)
                        });
                    if let Ok(shifted) = shifted {
                        self.add(f, &[shifted], false, depth);
                    }
                }
            }
        }
    }

    fn binary(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let j = if self.random.one_in(8) { i } else { self.of_type(&ty) };
        let (a, b) = (self.known[i].value, self.known[j].value);
        let exact = self.known[i].exact && self.known[j].exact;
        let depth = self.known[i].depth.max(self.known[j].depth);
        let f = self.random.pick(&Binary::ALL);
        match f {
            Binary::Add | Binary::Sub | Binary::Min | Binary::Max => {
                self.add(f, &[a, b], exact, depth);
            }
            Binary::Mul if exact || depth < 3 => self.add(f, &[a, b], exact, depth + 1),
            Binary::Mul => {}
            Binary::Pow if ty.dtype.is_float() => {}
            Binary::Div if ty.dtype.is_complex() => {}
            // A step of 2π at the negative axis.
            Binary::Atan2 => {
                if self.rough && exact {
                    self.add(f, &[a, b], false, depth);
                }
            }
            Binary::Div | Binary::Rem | Binary::Pow | Binary::NextAfter => {
                if exact {
                    self.add(f, &[a, b], true, depth);
                }
            }
            Binary::And
            | Binary::Or
            | Binary::Xor
            | Binary::ShiftLeft
            | Binary::ShiftRightLogical
            | Binary::ShiftRightArithmetic => self.add(f, &[a, b], exact, depth),
        }
    }

    /// Complex numbers made of parts, or a part of some.
    fn parts(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let (value, exact, depth) = (self.known[i].value, self.known[i].exact, self.known[i].depth);
        if ty.dtype.is_complex() {
            let part = self.random.pick(&Part::ALL);
            return self.add(part, &[value], exact, depth);
        }
        if ty.dtype.complex().is_some() {
            let j = self.of_type(&ty);
            let other = &self.known[j];
            let (exact, depth) = (exact && other.exact, depth.max(other.depth));
            let other = other.value;
            self.add(Complex, &[value, other], exact, depth);
        }
    }

    fn compare_or_select(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let j = self.of_type(&ty);
        let (a, b) = (self.known[i].value, self.known[j].value);
        let exact = self.known[i].exact && self.known[j].exact;
        let depth = self.known[i].depth.max(self.known[j].depth);
        match self.random.below(3) {
            0 if exact => {
                let direction = self.random.pick(&Compare::ALL);
                self.add(direction, &[a, b], true, 0);
            }
            1 if exact => {
                let k = self.of_type(&ty);
                let exact = self.known[k].exact;
                let c = self.known[k].value;
                self.add(Clamp, &[a, b, c], exact, depth);
            }
            _ => {
                let k = self.of_type(&ty.with_dtype(DType::Bool));
                let p = self.known[k].value;
                self.add(Select, &[p, a, b], exact, depth);
            }
        }
    }

    /// Bits as another type: of any integers, and of floats once their NaNs, whose bits
    /// are not specified, are gone.
    fn bitcast(&mut self) {
        let i = self.any();
        let from = self.ty(i);
        let to = self.dtype();
        // The bits of integers are floats of any size.
        if self.rough || from.dtype == DType::Bool {
            return;
        }
        let Known { mut value, exact, depth } = self.known[i];
        if from.dtype.is_float() {
            let zero = Constant { value: Literal::scalar(Scalar::zero(from.dtype)) };
            let spread = Broadcast { shape: from.shape.clone(), axes: vec![] };
            let number = self.graph.add1(Compare::Eq, &[value, value], None);
            let zeros = self.graph.add1(zero, &[], None);
            let zeros = zeros.and_then(|zero| self.graph.add1(spread, &[zero], None));
            let (Ok(number), Ok(zeros)) = (number, zeros) else { return };
            let Ok(number) = self.graph.add1(Select, &[number, value, zeros], None) else { return };
            value = number;
        }
        self.add(BitcastConvert { to }, &[value], exact, depth);
    }

    fn reduce_precision(&mut self) {
        let i = self.any();
        let Known { value, exact, depth } = self.known[i];
        // A rough value next to a tie, or to the end of the range, may go either way.
        if exact && !self.rough {
            let exponent_bits = 1 + self.random.below(12) as u32;
            let mantissa_bits = self.random.below(54) as u32;
            self.add(ReducePrecision { exponent_bits, mantissa_bits }, &[value], true, depth);
        }
    }

    fn convert(&mut self) {
        if self.random.one_in(4) {
            return if self.random.one_in(2) { self.bitcast() } else { self.reduce_precision() };
        }
        let i = self.any();
        let to = self.dtype();
        // A rough value keeps being a float.
        if self.is_rough(i) && !to.is_inexact() {
            return;
        }
        let k = &self.known[i];
        let (value, exact, depth) = (k.value, k.exact, k.depth);
        self.add(Convert { to }, &[value], exact, depth);
    }

    fn broadcast(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let mut dims = Vec::new();
        let mut axes = Vec::new();
        let mut room = self.elements / ty.shape.checked_elements().unwrap_or(1).max(1);
        for &d in ty.shape.iter() {
            while dims.len() < 5 && self.random.one_in(3) {
                let extra = self.random.below(room.min(40) + 1);
                room /= extra.max(1);
                dims.push(extra);
            }
            axes.push(dims.len());
            let stretched = if d == 1 && self.random.one_in(2) {
                self.random.below(room.min(70) + 1)
            } else {
                d
            };
            room /= (stretched / d.max(1)).max(1);
            dims.push(stretched);
        }
        if dims.len() < 5 && self.random.one_in(2) {
            dims.push(self.random.below(room.min(70) + 1));
        }
        let k = &self.known[i];
        let (value, exact, depth) = (k.value, k.exact, k.depth);
        self.add(Broadcast { shape: dims.into(), axes }, &[value], exact, depth);
    }

    fn reshape(&mut self) {
        let i = self.any();
        let n = self.ty(i).elements();
        let mut dims = Vec::new();
        let mut left = n;
        while left > 1 && dims.len() < 4 {
            let divisors: Vec<usize> =
                (1..=left.min(600)).filter(|d| left.is_multiple_of(*d)).collect();
            let d = self.random.pick(&divisors);
            dims.push(d);
            left /= d;
        }
        if left != 1 || dims.is_empty() || self.random.one_in(3) {
            let at = self.random.below(dims.len() + 1);
            dims.insert(at, left);
        }
        let k = &self.known[i];
        let (value, exact, depth) = (k.value, k.exact, k.depth);
        self.add(Reshape { shape: dims.into() }, &[value], exact, depth);
    }

    fn permute(&mut self) {
        let i = self.any();
        let rank = self.ty(i).shape.rank();
        let k = &self.known[i];
        let (value, exact, depth) = (k.value, k.exact, k.depth);
        if self.random.one_in(2) {
            let axes: Vec<usize> = (0..rank).filter(|_| self.random.one_in(2)).collect();
            self.add(Reverse { axes }, &[value], exact, depth);
        } else {
            let mut permutation: Vec<usize> = (0..rank).collect();
            for j in (1..rank).rev() {
                permutation.swap(j, self.random.below(j + 1));
            }
            self.add(Transpose { permutation }, &[value], exact, depth);
        }
    }

    fn slice(&mut self) {
        let i = self.any();
        let shape = self.ty(i).shape;
        let (mut start, mut limit, mut stride) = (vec![], vec![], vec![]);
        for &d in shape.iter() {
            let s = if self.random.one_in(2) { 0 } else { self.random.below(d + 1) };
            let e = if self.random.one_in(2) { d } else { s + self.random.below(d - s + 1) };
            start.push(s);
            limit.push(e.max(s));
            stride.push(self.random.pick(&[1, 1, 1, 2, 3, 7]));
        }
        let k = &self.known[i];
        let (value, exact, depth) = (k.value, k.exact, k.depth);
        self.add(Slice { start, limit, stride }, &[value], exact, depth);
    }

    fn pad(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let rank = ty.shape.rank();
        let mut ends = || -> Vec<i64> {
            (0..rank).map(|_| self.random.pick(&[0, 0, 0, 1, 2, 5, -1, -2])).collect()
        };
        let (low, high) = (ends(), ends());
        let interior: Vec<usize> = (0..rank).map(|_| self.random.pick(&[0, 0, 0, 1, 2])).collect();
        let j = self.of_type(&Type::scalar(ty.dtype));
        let exact = self.known[i].exact && self.known[j].exact;
        let depth = self.known[i].depth.max(self.known[j].depth);
        let (a, b) = (self.known[i].value, self.known[j].value);
        self.add(Pad { low, high, interior }, &[a, b], exact, depth);
    }

    fn concatenate(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let rank = ty.shape.rank();
        if rank == 0 {
            return;
        }
        let axis = self.random.below(rank);
        let mut parts = vec![i];
        // From five pieces on, lowering cuts the space at the joints.
        let more = if self.random.one_in(4) { self.random.below(20) } else { self.random.below(4) };
        for _ in 0..more {
            let mut dims = ty.shape.to_vec();
            if self.random.one_in(2) {
                dims[axis] = self.random.pick(&[0, 1, 2, 3, 8, 17]);
            }
            parts.push(self.of_type(&ty.with_shape(dims)));
        }
        let total: usize = parts.iter().map(|&p| self.ty(p).elements()).sum();
        if total > 2 * self.elements {
            return;
        }
        let exact = parts.iter().all(|&p| self.known[p].exact);
        let depth = parts.iter().map(|&p| self.known[p].depth).max().unwrap_or(0);
        let values: Vec<Value> = parts.iter().map(|&p| self.known[p].value).collect();
        self.add(Concatenate { axis }, &values, exact, depth);
    }

    fn iota(&mut self) {
        let mut shape = self.shape();
        if shape.rank() == 0 {
            shape = [self.random.pick(EXTENTS)].into();
        }
        let axis = self.random.below(shape.rank());
        let dtype = self.dtype();
        // Rough programs keep their floats small.
        if dtype == DType::Bool || (self.rough && dtype.is_inexact() && shape[axis] > 8) {
            return;
        }
        self.add(Iota { ty: Type::new(dtype, shape), axis }, &[], true, 1);
    }

    fn dynamic(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let sizes: Vec<usize> = ty
            .shape
            .iter()
            .map(|&d| if self.random.one_in(3) { d } else { self.random.below(d + 1) })
            .collect();
        let index = self.random.pick(&[DType::I32, DType::I64, DType::U8, DType::I8, DType::U32]);
        let mut operands = vec![self.known[i].value];
        let (mut exact, mut depth) = (self.known[i].exact, self.known[i].depth);
        let update = self.random.one_in(2);
        if update {
            let j = self.of_type(&ty.with_shape(sizes.clone()));
            exact &= self.known[j].exact;
            depth = depth.max(self.known[j].depth);
            operands.push(self.known[j].value);
        }
        for &d in ty.shape.iter() {
            let j = if self.random.one_in(2) {
                self.of_type(&Type::scalar(index))
            } else {
                let start = self.random.below(d + 3) as i128 - 1;
                let start = Literal::scalar(Scalar::from_i128(index, start));
                self.add(Constant { value: start }, &[], true, 0);
                self.known.len() - 1
            };
            operands.push(self.known[j].value);
        }
        if update {
            self.add(DynamicUpdateSlice, &operands, exact, depth);
        } else {
            self.add(DynamicSlice { sizes }, &operands, exact, depth);
        }
    }

    /// A gather or a scatter with random axes of every kind.
    fn indexed(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let mut dims = GatherDims::default();
        let (mut sizes, mut window) = (ty.shape.to_vec(), 0);
        // Axes of the indices but that of vectors, batching ones among them.
        let mut positions: Vec<usize> =
            (0..self.random.below(3)).map(|_| self.random.pick(&[0, 1, 2, 3, 5, 8, 17])).collect();
        let free = positions.len();
        for (axis, size) in sizes.iter_mut().enumerate() {
            match self.random.below(5) {
                0 if self.random.one_in(2) && ty.shape[axis] < 70 => {
                    dims.operand_batching_dims.push(axis);
                    dims.start_indices_batching_dims.push(positions.len());
                    positions.push(ty.shape[axis]);
                    *size = 1;
                    continue;
                }
                0 | 1 => {
                    dims.collapsed_slice_dims.push(axis);
                    dims.start_index_map.push(axis);
                    *size = 1;
                    continue;
                }
                2 => {
                    dims.start_index_map.push(axis);
                    *size = self.random.below(ty.shape[axis] + 1).min(9);
                }
                _ => {}
            }
            window += 1;
        }
        for j in (1..dims.start_index_map.len()).rev() {
            dims.start_index_map.swap(j, self.random.below(j + 1));
        }
        // The batching axes come first or last.
        if free > 0 && self.random.one_in(2) {
            positions.rotate_left(free);
            dims.start_indices_batching_dims.iter_mut().for_each(|a| *a -= free);
        }
        let vector = self.random.below(positions.len() + 1);
        let mut shape = positions.clone();
        dims.index_vector_dim = vector;
        if dims.start_index_map.len() == 1 && self.random.one_in(2) {
            dims.index_vector_dim = shape.len();
        } else {
            shape.insert(vector, dims.start_index_map.len());
            dims.start_indices_batching_dims
                .iter_mut()
                .filter(|a| **a >= vector)
                .for_each(|a| *a += 1);
        }
        let mut order: Vec<usize> = (0..positions.len() + window).collect();
        for j in (1..order.len()).rev() {
            order.swap(j, self.random.below(j + 1));
        }
        dims.offset_dims = order[..window].to_vec();
        dims.offset_dims.sort_unstable();

        // Indices near the operand, as constants, or whatever is at hand.
        let index = self.random.pick(&[DType::I32, DType::I32, DType::I64, DType::U8, DType::I8]);
        let indices = Type::new(index, shape);
        if indices.elements() > 4096 {
            return;
        }
        let j = if self.random.one_in(3) {
            self.of_type(&indices)
        } else {
            let most = ty.shape.iter().copied().max().unwrap_or(0).min(100) + 2;
            let random = &mut self.random;
            let value = Literal::from_fn(indices, |_| {
                Scalar::from_i128(index, random.below(most) as i128 - 1)
            });
            if self.nested || self.random.one_in(2) {
                self.add(Constant { value }, &[], true, 0);
            } else {
                let info = ParameterInfo { name: String::new(), donated: false };
                let parameter = self.graph.add_parameter(value.ty().clone(), info);
                self.arguments.push(value);
                self.known.push(Known { value: parameter, exact: true, depth: 0 });
            }
            self.known.len() - 1
        };
        let (x, at) = (self.known[i].value, self.known[j].value);
        let (exact, depth) = (self.known[i].exact && self.known[j].exact, self.known[i].depth);
        let mode = self.random.pick(&[GatherMode::Clip, GatherMode::Fill]);
        let (unique_indices, indices_are_sorted) = (false, false);
        let gather = Gather {
            dims: dims.clone(),
            slice_sizes: sizes,
            mode: GatherMode::Clip,
            unique_indices,
            indices_are_sorted,
        };
        if self.random.one_in(2) {
            let mut operands = vec![x, at];
            if mode == GatherMode::Fill {
                let fill = self.of_type(&Type::scalar(ty.dtype));
                operands.push(self.known[fill].value);
                let exact = exact && self.known[fill].exact;
                return self.add(Gather { mode, ..gather }, &operands, exact, depth.max(1));
            }
            return self.add(gather, &operands, exact, depth);
        }
        // What the gather would give is what updates look like.
        let types = [&ty, &self.graph.ty(at).clone()];
        let Ok(updates) = gather.infer(&types) else { return };
        if updates[0].elements() > self.elements {
            return;
        }
        let k = self.of_type(&updates[0]);
        let kind = match ty.dtype {
            d if d.is_half() => ScatterKind::Set,
            d if d.is_float() => {
                let kinds =
                    [ScatterKind::Set, ScatterKind::Add, ScatterKind::Min, ScatterKind::Max];
                self.random.pick(&kinds)
            }
            _ => self.random.pick(&ScatterKind::ALL),
        };
        let exact = exact && self.known[k].exact;
        // Sums of rough values may cancel, as those of reductions do.
        let depth = match kind {
            ScatterKind::Add if !exact => 3,
            _ => depth.max(self.known[k].depth),
        };
        let mode = self.random.pick(&[ScatterMode::Drop, ScatterMode::Clip]);
        let dims = ScatterDims::of_gather(&dims);
        let scatter = Scatter { kind, dims, mode, unique_indices, indices_are_sorted };
        self.add(scatter, &[x, at, self.known[k].value], exact, depth);
    }

    fn axes(&mut self, rank: usize) -> Vec<usize> {
        match self.random.below(4) {
            0 => (0..rank).collect(),
            1 if rank > 0 => vec![rank - 1],
            2 if rank > 0 => vec![0],
            _ => (0..rank).filter(|_| self.random.one_in(2)).collect(),
        }
    }

    fn reduce(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        let rank = ty.shape.rank();
        let axes = self.axes(rank);
        let (value, exact, depth) = (self.known[i].value, self.known[i].exact, self.known[i].depth);
        if self.random.one_in(4) {
            if exact && rank > 0 {
                let kind = self.random.pick(&[ArgKind::Min, ArgKind::Max]);
                let dtype = self.random.pick(&[DType::I32, DType::I64, DType::U32]);
                let axis = self.random.below(rank);
                self.add(ArgReduce { kind, axis, dtype }, &[value], true, 1);
            }
            return;
        }
        let kind = self.random.pick(&ReduceKind::ALL);
        match kind {
            ReduceKind::Min | ReduceKind::Max => {
                self.add(Reduce { kind, axes }, &[value], exact, depth)
            }
            ReduceKind::And | ReduceKind::Or | ReduceKind::Xor => {
                self.add(Reduce { kind, axes }, &[value], exact, depth);
            }
            ReduceKind::Sum | ReduceKind::Prod if !ty.dtype.is_inexact() => {
                self.add(Reduce { kind, axes }, &[value], exact, depth);
            }
            // A sum may cancel, so it is never multiplied further than a sum may be.
            ReduceKind::Sum if self.rough => self.add(Reduce { kind, axes }, &[value], false, 3),
            _ => {}
        }
    }

    fn dot(&mut self) {
        let i = self.any();
        let lhs = self.ty(i);
        if lhs.dtype == DType::Bool
            || (lhs.dtype.is_inexact() && (!self.rough || self.known[i].depth > 1))
        {
            return;
        }
        let rank = lhs.shape.rank();
        let mut order: Vec<usize> = (0..rank).collect();
        for j in (1..rank).rev() {
            order.swap(j, self.random.below(j + 1));
        }
        let batch = self.random.below(rank.min(2) + 1);
        let contract = self.random.below(rank - batch + 1).min(2);
        let lhs_batch = order[..batch].to_vec();
        let lhs_contract = order[batch..batch + contract].to_vec();
        // The right operand: batch, contracted and free axes in a random order.
        let n = self.random.pick(EXTENTS).min(130);
        let mut axes: Vec<(u8, usize, usize)> = Vec::new();
        axes.extend(lhs_batch.iter().enumerate().map(|(k, &a)| (0, k, lhs.shape[a])));
        axes.extend(lhs_contract.iter().enumerate().map(|(k, &a)| (1, k, lhs.shape[a])));
        for k in 0..self.random.below(2) + usize::from(batch == 0) {
            axes.push((2, k, if k == 0 { n } else { 3 }));
        }
        for j in (1..axes.len()).rev() {
            axes.swap(j, self.random.below(j + 1));
        }
        let dims: Vec<usize> = axes.iter().map(|a| a.2).collect();
        let out: usize = lhs.elements()
            / lhs_contract.iter().map(|&a| lhs.shape[a]).product::<usize>().max(1)
            * axes.iter().filter(|a| a.0 == 2).map(|a| a.2).product::<usize>();
        let work = out * lhs_contract.iter().map(|&a| lhs.shape[a]).product::<usize>();
        if dims.iter().product::<usize>() > self.elements || out > self.elements || work > 400_000 {
            return;
        }
        let find = |kind: u8, k: usize| axes.iter().position(|a| (a.0, a.1) == (kind, k));
        let rhs_batch: Vec<usize> = (0..batch).filter_map(|k| find(0, k)).collect();
        let rhs_contract: Vec<usize> = (0..contract).filter_map(|k| find(1, k)).collect();
        let j = self.of_type(&Type::new(lhs.dtype, dims));
        if lhs.dtype.is_inexact() && self.known[j].depth > 1 {
            return;
        }
        let exact = !lhs.dtype.is_inexact() && self.known[i].exact && self.known[j].exact;
        let dims = DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract };
        let (a, b) = (self.known[i].value, self.known[j].value);
        self.add(DotGeneral { dims, dtype: lhs.dtype }, &[a, b], exact, 3);
    }

    /// A small function of some known values.
    /// A sort by exact keys or by a comparator, which may well contradict itself, or the
    /// greatest of each row.
    fn sort(&mut self) {
        let i = self.any();
        let ty = self.ty(i);
        if ty.shape.rank() == 0 || self.is_rough(i) {
            return;
        }
        let first = self.known[i].value;
        if self.random.one_in(3) {
            let length = ty.shape[ty.shape.rank() - 1];
            let k = if self.random.one_in(2) { length } else { length.min(5) };
            let k = self.random.below(k + 1);
            return self.add(TopK { k }, &[first], true, 1);
        }
        let axis = self.random.below(ty.shape.rank());
        let mut operands = vec![i];
        while operands.len() < 4 && self.random.one_in(2) {
            let dtype = self.dtype();
            if self.random.one_in(3) && dtype.is_integer() {
                self.add(Iota { ty: ty.with_dtype(dtype), axis }, &[], true, 1);
                operands.push(self.known.len() - 1);
            } else {
                operands.push(self.of_type(&ty.with_dtype(dtype)));
            }
        }
        if operands.iter().any(|&o| self.ty(o).dtype.is_complex()) {
            return;
        }
        let keys = operands.iter().take_while(|&&o| self.known[o].exact).count();
        let count = 1 + self.random.below(keys);
        // A comparator is interpreted for every comparison.
        let by = if ty.elements() <= 300 && self.random.one_in(3) {
            let types: Vec<DType> = operands.iter().map(|&o| self.ty(o).dtype).collect();
            SortBy::Function(self.comparator(&types, count - 1))
        } else {
            let descending = (0..count).filter(|_| self.random.one_in(2)).collect();
            SortBy::Keys { count, descending }
        };
        let values: Vec<Value> = operands.iter().map(|&o| self.known[o].value).collect();
        let Ok(node) = self.graph.add(Sort { axis, by }, &values, None) else { return };
        for (value, &o) in self.graph.results(node).zip(&operands) {
            let (exact, depth) = (self.known[o].exact, self.known[o].depth);
            self.known.push(Known { value, exact, depth });
        }
    }

    /// Compares elements of operand `key`, perhaps after a function of each.
    fn comparator(&mut self, types: &[DType], key: usize) -> Comparator {
        let mut graph = Graph::new("before");
        let mut sides = Vec::new();
        for (k, &dtype) in types.iter().enumerate() {
            for _ in 0..2 {
                let x = graph.add_parameter(Type::scalar(dtype), ParameterInfo::default());
                if k == key {
                    sides.push(x);
                }
            }
        }
        let f = self.random.pick(&[Unary::Abs, Unary::Neg, Unary::Not, Unary::Sign]);
        for side in &mut sides {
            // Not every type has every function.
            *side = graph.add1(f, &[*side], None).unwrap_or(*side);
        }
        let compare = self.random.pick(&Compare::ALL);
        let before = graph.add1(compare, &sides, None).expect("every type compares");
        graph.add_output(before, "");
        Comparator(std::sync::Arc::new(graph))
    }

    fn random_bits(&mut self) {
        let shape = self.shape();
        let ty = Type::new(DType::U32, shape);
        let words: Vec<usize> = (0..4).map(|_| self.of_type(&ty)).collect();
        let words: Vec<Value> = words.iter().map(|&w| self.known[w].value).collect();
        let word = self.random.below(2);
        self.add(Threefry2x32 { word }, &words, true, 0);
    }

    fn barrier(&mut self) {
        let chosen: Vec<usize> = (0..1 + self.random.below(3)).map(|_| self.any()).collect();
        let operands: Vec<Value> = chosen.iter().map(|&i| self.known[i].value).collect();
        let node = self.graph.add(OptimizationBarrier, &operands, None).expect("takes anything");
        for (value, &i) in self.graph.results(node).zip(&chosen) {
            let (exact, depth) = (self.known[i].exact, self.known[i].depth);
            self.known.push(Known { value, exact, depth });
        }
    }

    fn call(&mut self) {
        if self.nested {
            return;
        }
        let chosen: Vec<usize> = (0..1 + self.random.below(3)).map(|_| self.any()).collect();
        let mut inner = Generator::new(self.random.bits(), "callee");
        inner.nested = true;
        inner.rough = self.rough;
        inner.elements = self.elements;
        for &i in &chosen {
            let value = inner.graph.add_parameter(self.ty(i), ParameterInfo::default());
            let (exact, depth) = (self.known[i].exact, self.known[i].depth);
            inner.known.push(Known { value, exact, depth });
        }
        for _ in 0..1 + self.random.below(5) {
            inner.step();
        }
        let results: Vec<usize> =
            (0..1 + self.random.below(2)).map(|_| inner.random.below(inner.known.len())).collect();
        for &r in &results {
            inner.graph.add_output(inner.known[r].value, "");
        }
        let operands: Vec<Value> = chosen.iter().map(|&i| self.known[i].value).collect();
        let call = Call::new(std::sync::Arc::new(inner.graph));
        let Ok(node) = self.graph.add(call, &operands, None) else { return };
        for (value, &r) in self.graph.results(node).zip(&results) {
            let (exact, depth) = (inner.known[r].exact, inner.known[r].depth);
            self.known.push(Known { value, exact, depth });
        }
    }

    fn finish(mut self) -> Program {
        let outputs = 1 + self.random.below(4);
        let mut exact = Vec::new();
        for o in 0..outputs {
            let i = if o == 0 { self.known.len() - 1 } else { self.any() };
            self.graph.add_output(self.known[i].value, "");
            exact.push(self.known[i].exact);
        }
        Program { graph: self.graph, arguments: self.arguments, exact }
    }
}
