//! Results of many digits: `name x [y] nearest rest`, a line each.
//!
//! Floats are bit patterns of `f64`; `rest` is what the nearest float lacks, in units of
//! its last place. `compiler/codegen/src/math/fit.py points` computes them.

use super::error::Exact;

/// Arguments, one column an operand, and exact results.
pub struct Points {
    /// Bit patterns of the arguments.
    pub columns: Vec<Vec<u64>>,
    /// The results.
    pub exact: Vec<Exact>,
}

/// The points of a function; empty if there are none.
pub fn points(name: &str, operands: usize) -> Points {
    let mut points = Points { columns: vec![Vec::new(); operands], exact: Vec::new() };
    for line in include_str!("points.txt").lines() {
        let mut fields = line.split(' ');
        if fields.next() != Some(name) {
            continue;
        }
        let mut bits = || {
            let field = fields.next().expect("a bit pattern");
            u64::from_str_radix(field, 16).expect("hexadecimal")
        };
        for column in &mut points.columns {
            column.push(bits());
        }
        let nearest = bits();
        let rest: f64 = fields.next().and_then(|rest| rest.parse().ok()).expect("a number");
        points.exact.push(exact(f64::from_bits(nearest), rest));
    }
    points
}

/// `nearest` and so many units in its last place.
fn exact(nearest: f64, rest: f64) -> Exact {
    // Half of a subnormal unit is no float: scaled up, it is.
    let up = 2f64.powi(200);
    if nearest.abs() < 1e-200 {
        return ([nearest * up, rest * (unit(nearest) * up)], -200);
    }
    ([nearest, rest * unit(nearest)], 0)
}

/// The unit in the last place of a float.
fn unit(x: f64) -> f64 {
    let power = f64::from_bits(x.abs().to_bits() & !((1 << 52) - 1));
    (power * 2f64.powi(-52)).max(5e-324)
}
