//! Elementwise ops, over all values.

use kiln_ir::op::{Binary, BitcastConvert, Clamp, Compare, Complex, Convert, Part, Select, Unary};
use kiln_ir::{DType, Graph, Literal, Scalar, Type, Value};

use crate::proof::{Fired, SMALL, all, constants, full, pairs};

pub(crate) fn unary(fired: &mut Fired) {
    for dtype in SMALL {
        let x = [all(dtype)];
        for outer in Unary::ALL {
            for inner in Unary::ALL {
                fired.program(&x, |g, p| {
                    let y = g.add1(inner, p, None).ok()?;
                    g.add1(outer, &[y], None).ok()
                });
            }
        }
    }
}

pub(crate) fn binary_with_constants(fired: &mut Fired) {
    let wide = [DType::I32, DType::U32, DType::I64, DType::U64, DType::F32, DType::F64];
    for dtype in SMALL.into_iter().chain(wide) {
        let x = [all(dtype)];
        for c in constants(dtype) {
            for f in Binary::ALL {
                for side in [0, 1] {
                    fired.program(&x, |g, p| {
                        let c = full(g, c, p[0]);
                        let operands = if side == 0 { [c, p[0]] } else { [p[0], c] };
                        g.add1(f, &operands, None).ok()
                    });
                }
            }
            for f in Compare::ALL {
                for side in [0, 1] {
                    fired.program(&x, |g, p| {
                        let c = full(g, c, p[0]);
                        let operands = if side == 0 { [c, p[0]] } else { [p[0], c] };
                        g.add1(f, &operands, None).ok()
                    });
                }
            }
        }
    }
    // Two constants, one after the other.
    for dtype in [DType::Bool, DType::I8, DType::U8] {
        let x = [all(dtype)];
        let some: Vec<Scalar> = constants(dtype).into_iter().step_by(3).collect();
        for (c, d) in some.iter().flat_map(|&c| some.iter().map(move |&d| (c, d))) {
            for f in Binary::ALL {
                fired.program(&x, |g, p| {
                    let (c, d) = (full(g, c, p[0]), full(g, d, p[0]));
                    let y = g.add1(f, &[c, p[0]], None).ok()?;
                    g.add1(f, &[y, d], None).ok()
                });
            }
        }
    }
}

pub(crate) fn binary_of_values(fired: &mut Fired) {
    // x with itself.
    for dtype in SMALL {
        let x = [all(dtype)];
        for f in Binary::ALL {
            fired.program(&x, |g, p| g.add1(f, &[p[0], p[0]], None).ok());
        }
        for f in Compare::ALL {
            fired.program(&x, |g, p| g.add1(f, &[p[0], p[0]], None).ok());
        }
    }
    // Negations of both of all pairs of bytes; of many pairs of floats.
    let f16s = all(DType::F16);
    let shuffled = Literal::from_fn(f16s.ty().clone(), |i| f16s.get((i * 40503 + 7) % 65536));
    let arguments = [pairs(DType::I8), pairs(DType::U8), [f16s, shuffled]];
    for xy in &arguments {
        for f in Binary::ALL {
            for (a, b) in [(true, false), (false, true), (true, true)] {
                fired.program(xy, |g, p| {
                    let neg = |g: &mut Graph, v, yes| match yes {
                        true => g.add1(Unary::Neg, &[v], None).ok(),
                        false => Some(v),
                    };
                    let (x, y) = (neg(g, p[0], a)?, neg(g, p[1], b)?);
                    g.add1(f, &[x, y], None).ok()
                });
            }
        }
        for f in Compare::ALL {
            fired.program(xy, |g, p| {
                let y = g.add1(f, p, None).ok()?;
                g.add1(Unary::Not, &[y], None).ok()
            });
        }
    }
}

pub(crate) fn choices(fired: &mut Fired) {
    // p, q: bool and a, b: i8, in all combinations of p, q with some of a, b.
    let n = 2 * 2 * 256;
    let p = Literal::from_fn(Type::new(DType::Bool, [n]), |i| Scalar::bool(i % 2 == 1));
    let q = Literal::from_fn(Type::new(DType::Bool, [n]), |i| Scalar::bool(i / 2 % 2 == 1));
    let byte = |k: usize| {
        Literal::from_fn(Type::new(DType::I8, [n]), |i| {
            Scalar::from_bits(DType::I8, ((i / 4) * k % 256) as u64)
        })
    };
    let arguments = [p, q, byte(1), byte(37), byte(101)];
    type Build = fn(&mut Graph, &[Value]) -> Option<Value>;
    let programs: [Build; 9] = [
        |g, v| g.add1(Select, &[v[0], v[2], v[2]], None).ok(),
        |g, v| {
            let n = g.add1(Unary::Not, &[v[0]], None).ok()?;
            g.add1(Select, &[n, v[2], v[3]], None).ok()
        },
        |g, v| {
            let y = g.add1(Select, &[v[0], v[2], v[3]], None).ok()?;
            g.add1(Select, &[v[0], y, v[4]], None).ok()
        },
        |g, v| {
            let y = g.add1(Select, &[v[0], v[2], v[3]], None).ok()?;
            g.add1(Select, &[v[0], v[4], y], None).ok()
        },
        |g, v| {
            let y = g.add1(Select, &[v[0], v[2], v[3]], None).ok()?;
            g.add1(Select, &[v[1], v[4], y], None).ok()
        },
        |g, v| {
            let (t, f) = (full(g, Scalar::bool(true), v[0]), full(g, Scalar::bool(false), v[0]));
            g.add1(Select, &[v[0], t, f], None).ok()
        },
        |g, v| {
            let (t, f) = (full(g, Scalar::bool(true), v[0]), full(g, Scalar::bool(false), v[0]));
            g.add1(Select, &[v[0], f, t], None).ok()
        },
        |g, v| {
            let t = full(g, Scalar::bool(true), v[0]);
            g.add1(Select, &[t, v[2], v[3]], None).ok()
        },
        |g, v| {
            let f = full(g, Scalar::bool(false), v[0]);
            g.add1(Select, &[f, v[2], v[3]], None).ok()
        },
    ];
    for build in programs {
        fired.program(&arguments, build);
    }
    for dtype in SMALL {
        let x = [all(dtype)];
        for (low, high) in constants(dtype)
            .into_iter()
            .flat_map(|a| constants(dtype).into_iter().map(move |b| (a, b)))
        {
            fired.program(&x, |g, p| {
                let (low, high) = (full(g, low, p[0]), full(g, high, p[0]));
                g.add1(Clamp, &[low, p[0], high], None).ok()
            });
        }
    }
}

pub(crate) fn conversions(fired: &mut Fired) {
    for from in DType::REAL {
        let every = all(from);
        // Of 16-bit integers, a part: widening does not look at the value.
        let step = if matches!(from, DType::I16 | DType::U16) { 97 } else { 1 };
        let ty = Type::new(from, [every.ty().elements().div_ceil(step)]);
        let x = [Literal::from_fn(ty, |i| every.get(i * step))];
        for by in DType::REAL {
            for to in DType::REAL {
                fired.program(&x, |g, p| {
                    let y = g.add1(Convert { to: by }, p, None).ok()?;
                    g.add1(Convert { to }, &[y], None).ok()
                });
                fired.program(&x, |g, p| {
                    let y = g.add1(BitcastConvert { to: by }, p, None).ok()?;
                    g.add1(BitcastConvert { to }, &[y], None).ok()
                });
            }
        }
    }
}

pub(crate) fn parts(fired: &mut Fired) {
    let parts: [Literal; 2] = pairs(DType::F32);
    let ty = parts[0].ty().with_dtype(DType::C64);
    let z = Literal::from_fn(ty, |i| Scalar::complex(parts[0].get(i), parts[1].get(i)));
    for [first, second] in [[Part::Real, Part::Imag], [Part::Imag, Part::Real]] {
        fired.program(std::slice::from_ref(&z), |g, p| {
            let re = g.add1(first, p, None).ok()?;
            let im = g.add1(second, p, None).ok()?;
            g.add1(Complex, &[re, im], None).ok()
        });
    }
}
