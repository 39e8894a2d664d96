//! Constant tables that expressions look elements up in.
//!
//! A table is as large as two vector registers of the widest instruction set, where one
//! instruction looks up a whole vector; elsewhere it is a few instructions or a load for
//! each lane. A look-up only moves bits, so every backend gives the same ones.

/// Thirty-two `f32`, by their bits.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Table([u32; Table::LEN as usize]);

impl Table {
    /// Elements of a table; a power of two.
    pub const LEN: u32 = 32;

    /// A table of `values`, the first of them at `start`, going round at the end.
    pub(crate) const fn new(values: [f32; Table::LEN as usize], start: u32) -> Table {
        let mut bits = [0; Table::LEN as usize];
        let mut i = 0;
        while i < Table::LEN {
            bits[((start + i) % Table::LEN) as usize] = values[i as usize].to_bits();
            i += 1;
        }
        Table(bits)
    }

    /// The bits of the elements.
    pub fn bits(&self) -> &[u32; Table::LEN as usize] {
        &self.0
    }

    /// The bits of the element that the low bits of `index` name.
    pub fn at(&self, index: u32) -> u32 {
        self.0[(index % Table::LEN) as usize]
    }
}
