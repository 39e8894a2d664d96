//! Look-ups in constant tables.
//!
//! With x86-64-v4 a look-up is one instruction, whose table is two registers. Elsewhere the
//! tables that one index looks into become the columns of an array in memory: each lane
//! loads its row, four tables at a time, and blocks of four lanes are transposed:
//!
//! ```text
//! lane 0   a0 b0 c0 d0         a0 a1 a2 a3   table a
//! lane 1   a1 b1 c1 d1   ->    b0 b1 b2 b3   table b
//! lane 2   a2 b2 c2 d2         c0 c1 c2 c3   ..
//! lane 3   a3 b3 c3 d3         d0 d1 d2 d3
//! ```
//!
//! That is two loads and three shuffles a lane for six tables, where permutations of
//! registers of eight lanes would be twice as many operations.

use inkwell::module::Linkage;
use inkwell::types::VectorType;
use inkwell::values::{BasicValue, FloatValue};
use kiln_ir::{DType, Scalar};

use super::arithmetic::Arithmetic;
use super::build::{Value, lanes, with_lanes};
use super::target::Isa;
use crate::kernel::Table;

/// Tables whose elements are loaded together: a register of 128 bits.
const BLOCK: usize = 4;

impl<'c> Arithmetic<'_, 'c> {
    /// For each table the elements that the low bits of `index` name.
    pub fn look_up(&self, tables: &[&Table], index: Value<'c>) -> Vec<Value<'c>> {
        let b = self.build;
        if self.isa == Isa::V4 && lanes(index) > 1 {
            let each = |table: &&Table| b.in_parts(16, &[index], &|i| self.permute(table, i[0]));
            return tables.iter().map(each).collect();
        }
        let columns = tables.len().next_multiple_of(BLOCK);
        let mut rows = vec![0; columns * Table::LEN as usize];
        for (column, table) in tables.iter().enumerate() {
            for (row, &bits) in table.bits().iter().enumerate() {
                rows[row * columns + column] = bits;
            }
        }
        let rows = self.constant_array(&rows);
        let index = b.and(index, b.int_like(index, i64::from(Table::LEN) - 1));
        let at = b.mul(index, b.int_like(index, columns as i64));
        let mut found = self.columns(rows, columns, at);
        found.truncate(tables.len());
        found
    }

    /// Sixteen lanes. The instruction looks at the five low bits of the index.
    fn permute(&self, table: &Table, index: Value<'c>) -> Value<'c> {
        let (low, high) = table.bits().split_at(16);
        let [low, high] = [low, high].map(|half| VectorType::const_vector(&self.values(half)));
        let name = "llvm.x86.avx512.vpermi2var.ps.512";
        self.build.intrinsic(name, &[], &[low.into(), index, high.into()])
    }

    /// The elements from `at` on in each lane: one vector for each of `columns`.
    fn columns(&self, rows: Value<'c>, columns: usize, at: Value<'c>) -> Vec<Value<'c>> {
        let b = self.build;
        let (element, width) = (b.f32_ty(), lanes(at));
        let most = (self.isa.vector_bits() / 32).max(BLOCK as u32);
        let row = |lane: u32, column: usize| {
            let at = if width == 1 { at } else { b.extract(at, lane) };
            let at = b.add(b.resize(at, 64, false), b.i64(column as i64));
            b.gep(element, rows, at)
        };
        let part = |lanes: Vec<u32>| self.columns(rows, columns, b.shuffle(at, &lanes));
        match width {
            1 => (0..columns).map(|column| b.load(element, row(0, column), 4)).collect(),
            2 | 3 => {
                let wide = part((0..BLOCK as u32).map(|l| l % width).collect());
                wide.into_iter().map(|v| b.shuffle(v, &(0..width).collect::<Vec<_>>())).collect()
            }
            _ if width > most => {
                let (low, high) =
                    (part((0..width / 2).collect()), part((width / 2..width).collect()));
                let all: Vec<u32> = (0..width).collect();
                low.into_iter().zip(high).map(|(l, h)| b.shuffle_pair(l, h, &all)).collect()
            }
            _ => (0..columns)
                .step_by(BLOCK)
                .flat_map(|column| {
                    let block = with_lanes(element, BLOCK as u32);
                    let loads: Vec<Value> =
                        (0..width).map(|lane| b.load(block, row(lane, column), 16)).collect();
                    self.transpose(&loads)
                })
                .collect(),
        }
    }

    /// Four vectors, of which the one at `j` has element `j` of each of `rows`.
    fn transpose(&self, rows: &[Value<'c>]) -> [Value<'c>; BLOCK] {
        let b = self.build;
        let width = rows.len() as u32;
        // Row k of every block of four, next to each other.
        let of_blocks = |k: usize| {
            let mut rows = rows.iter().skip(k).step_by(BLOCK).copied();
            let first = rows.next().expect("a multiple of four");
            rows.fold(first, |all, row| {
                let wide = lanes(all) + BLOCK as u32;
                debug_assert_eq!(wide, 2 * BLOCK as u32, "at most two blocks");
                b.shuffle_pair(all, row, &(0..wide).collect::<Vec<_>>())
            })
        };
        // Elements of each block of two vectors; those of the second are 4 to 7.
        let mix = |v: Value<'c>, w: Value<'c>, pick: [u32; BLOCK]| {
            let lane = |at: u32, p: u32| if p < 4 { at + p } else { width + at + p - 4 };
            let blocks = (0..width).step_by(BLOCK);
            let lanes: Vec<u32> = blocks.flat_map(|at| pick.map(|p| lane(at, p))).collect();
            b.shuffle_pair(v, w, &lanes)
        };
        let v = [0, 1, 2, 3].map(of_blocks);
        let (low, high, first, last) = ([0, 4, 1, 5], [2, 6, 3, 7], [0, 1, 4, 5], [2, 3, 6, 7]);
        let (t, u) = (mix(v[0], v[1], low), mix(v[2], v[3], low));
        let (x, y) = (mix(v[0], v[1], high), mix(v[2], v[3], high));
        [mix(t, u, first), mix(t, u, last), mix(x, y, first), mix(x, y, last)]
    }

    fn values(&self, bits: &[u32]) -> Vec<FloatValue<'c>> {
        let value = |&bits: &u32| Scalar::from_bits(DType::F32, bits.into());
        bits.iter().map(|bits| self.build.constant(value(bits)).into_float_value()).collect()
    }

    /// The address of a constant array of the module.
    fn constant_array(&self, bits: &[u32]) -> Value<'c> {
        let b = self.build;
        let array = b.f32_ty().into_float_type().const_array(&self.values(bits));
        let known = b.module.get_globals().find(|g| g.get_initializer() == Some(array.into()));
        let global = known.unwrap_or_else(|| {
            let global = b.module.add_global(array.get_type(), None, "tables");
            global.set_initializer(&array);
            global.set_constant(true);
            global.set_linkage(Linkage::Private);
            global.set_alignment(64);
            global
        });
        global.as_basic_value_enum()
    }
}
