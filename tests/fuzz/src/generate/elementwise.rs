//! Random functions of elements.

use kiln_ir::op::{
    Binary, BitcastConvert, Broadcast, Clamp, Compare, Complex, Constant, Convert, Part,
    ReducePrecision, Select, Unary,
};
use kiln_ir::{DType, Literal, Scalar};

use super::{Generator, Known};

impl Generator {
    pub(super) fn unary(&mut self) {
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

    pub(super) fn binary(&mut self) {
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
    pub(super) fn parts(&mut self) {
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

    pub(super) fn compare_or_select(&mut self) {
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
    pub(super) fn bitcast(&mut self) {
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

    pub(super) fn reduce_precision(&mut self) {
        let i = self.any();
        let Known { value, exact, depth } = self.known[i];
        // A rough value next to a tie, or to the end of the range, may go either way.
        if exact && !self.rough {
            let exponent_bits = 1 + self.random.below(12) as u32;
            let mantissa_bits = self.random.below(54) as u32;
            self.add(ReducePrecision { exponent_bits, mantissa_bits }, &[value], true, depth);
        }
    }

    pub(super) fn convert(&mut self) {
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
}
