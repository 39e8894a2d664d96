//! `tanh` in 32 pieces, for `f32`.
//!
//! The sum of |a| and 21/32 has an exponent and three bits of significand that say which
//! piece |a| is in: eighths of octaves, short where `tanh` bends and long where it is
//! nearly 1. In a piece it is a polynomial of degree 4 around a centre,
//!
//! ```text
//! tanh(m) = c0 + r * (c1 + r * (c2 + r * (c3 + r * c4))),   r = m - centre
//! ```
//!
//! so that the last addition is the only rounding at full size, for which centres are
//! chosen at which `c0` is all but exact. The first piece is centred at 0, with `c0 = 0`
//! and `c1 = 1`, which keeps the smallest arguments. Beyond the last piece the result
//! rounds to 1. NaN has no piece, but makes whatever is looked up NaN.

use super::build::Formula;
use crate::kernel::{ExprId, Table};

/// What is added for the choice of a piece.
const START: f32 = 0.65625;

/// Bits of the sum below those that say the piece.
const SHIFT: u32 = 20;

/// The number of the first piece.
const FIRST: u32 = START.to_bits() >> SHIFT;

/// `tanh` is 1 from here on.
const LAST: f64 = 9.125;

/// `tanh(m)` for `m` not negative.
pub(super) fn tanh(f: &mut Formula, m: ExprId) -> ExprId {
    let m = f.at_most(m, LAST);
    let start = f.c(START.into());
    let sum = f.add(m, start);
    let bits = f.bits_of(sum);
    let piece = f.shr(bits, SHIFT.into());
    let centre = f.lookup(&CENTRE, piece);
    let r = f.sub(m, centre);
    let mut sum = f.lookup(&C4, piece);
    for table in [&C3, &C2, &C1, &C0] {
        let c = f.lookup(table, piece);
        sum = f.fma(sum, r, c);
    }
    sum
}

// By `fit.py pieces`; the largest relative error is 2^-25.2.
#[rustfmt::skip]
static CENTRE: Table = Table::new([
    0.0, 0.06249307, 0.12499198, 0.18749718, 0.24999583, 0.31251237, 0.40627623, 0.531193,
    0.6562595, 0.781278, 0.9062803, 1.0311383, 1.1561481, 1.2813348, 1.4686782, 1.7188634,
    1.9688503, 2.2188988, 2.4688754, 2.7185361, 2.968962, 3.21858, 3.593853, 4.093599,
    4.593986, 5.094095, 5.5933146, 6.0935063, 6.593273, 7.094227, 7.844227, 8.733421,
], FIRST);
#[rustfmt::skip]
static C0: Table = Table::new([
    0.0, 0.062411845, 0.12434511, 0.18533048, 0.24491474, 0.30272096, 0.3853063, 0.4862925,
    0.5758687, 0.65343964, 0.7193421, 0.7743645, 0.8197806, 0.85684013, 0.899325, 0.937726,
    0.96175945, 0.97663236, 0.9857607, 0.9913333, 0.9947389, 0.9968032, 0.9984895, 0.99944377,
    0.9997955, 0.9999248, 0.9999723, 0.9999898, 0.99999624, 0.9999986, 0.9999997, 0.99999994,
], FIRST);
#[rustfmt::skip]
static C1: Table = Table::new([
    1.0, 0.9961047, 0.98453826, 0.9656526, 0.94001675, 0.90836, 0.851539, 0.76351976,
    0.6683755, 0.57301694, 0.4825472, 0.40035987, 0.32795992, 0.26582506, 0.19121484, 0.12066966,
    0.0750184, 0.046188924, 0.028275635, 0.017258123, 0.010494468, 0.0063832705, 0.0030182353, 0.0011119698,
    0.00040889764, 0.00015041158, 5.5422413e-05, 2.0381307e-05, 7.50118e-06, 2.753965e-06, 6.1289046e-07, 1.0333909e-07,
], FIRST);
#[rustfmt::skip]
static C2: Table = Table::new([
    1.2707179e-07, -0.06216885, -0.12242234, -0.1789649, -0.23022383, -0.27497968, -0.32810277, -0.37129334,
    -0.3848965, -0.3744318, -0.3471165, -0.3100243, -0.26885536, -0.22776978, -0.17196454, -0.113155566,
    -0.07214994, -0.045109805, -0.027873116, -0.017108671, -0.010439296, -0.0063629146, -0.003013958, -0.0011114418,
    -0.0004088324, -0.00015040793, -5.542559e-05, -2.0382251e-05, -7.2612524e-06, -3.1706973e-06, -7.632022e-07, 9.7832164e-08,
], FIRST);
#[rustfmt::skip]
static C3: Table = Table::new([
    -0.33340654, -0.3279975, -0.3128149, -0.28859854, -0.2568654, -0.21948902, -0.15739696, -0.0741246,
    -0.0014296307, 0.05335188, 0.088572405, 0.10640997, 0.11094274, 0.106473394, 0.09083248, 0.065948874,
    0.04447815, 0.02873988, 0.018109536, 0.011246923, 0.006911473, 0.0042306585, 0.0020342737, 0.00075175107,
    0.0002767482, 0.00010184299, 3.7531732e-05, 1.3802904e-05, 5.086176e-06, 1.8755684e-06, 4.3693586e-07, 7.592742e-08,
], FIRST);
#[rustfmt::skip]
static C4: Table = Table::new([
    0.0062471703, 0.041278202, 0.07953211, 0.11313769, 0.13949531, 0.15808664, 0.16964623, 0.15943956,
    0.12890887, 0.08976269, 0.051894754, 0.020844102, -0.0013195139, -0.015264467, -0.02428695, -0.024013627,
    -0.018641599, -0.01297045, -0.008521281, -0.0054173507, -0.003379855, -0.0020846885, -0.0010063024, -0.00037343244,
    -0.00013790619, -5.076906e-05, -1.8677469e-05, -6.8779163e-06, -5.61022e-06, 4.397148e-06, 2.6334396e-07, -1.0925933e-06,
], FIRST);
