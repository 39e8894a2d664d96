//! The words that a call is looked up by.
//!
//! A key is a flat list of words that two calls share exactly when one compiled
//! program serves both: for each leaf its type and whether it was moved, and
//! between leaves the lengths, variants and statics of the trees. It is compared
//! word for word, so a collision of hashes costs time and never a result.

use std::hash::Hasher;

use kiln_ir::{DType, Type};

use crate::Error;

/// Collects the words of a key. As a [`Hasher`] it keeps every byte that is
/// written to it, so that hashing a value into it encodes the value.
#[derive(Default, Debug)]
pub struct KeyWriter {
    words: Vec<u64>,
    error: Option<Error>,
}

/// Whether a leaf's buffer is the call's to reuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Passing {
    /// By value: donated.
    Moved,
    /// By reference, or made for the call.
    Borrowed,
}

impl KeyWriter {
    /// An empty one with room for so many words.
    pub(crate) fn with_capacity(words: usize) -> KeyWriter {
        KeyWriter { words: Vec::with_capacity(words), error: None }
    }

    /// A length, a variant number, or anything else that is a small number.
    pub fn length(&mut self, n: usize) {
        self.words.push(n as u64);
    }

    pub(crate) fn leaf(&mut self, ty: &Type, passing: Passing) {
        let moved = (passing == Passing::Moved) as u64;
        // The top bit keeps heads apart from lengths, whatever order a tree is
        // written in.
        let head = (1 << 63) | (ty.dtype as u64) | (moved << 8) | ((ty.shape.rank() as u64) << 16);
        self.words.push(head);
        self.words.extend(ty.shape.iter().map(|&d| d as u64));
    }

    pub(crate) fn scalar_leaf(&mut self, dtype: DType) {
        self.words.push((1 << 63) | dtype as u64);
    }

    /// The call cannot be made. The first such error is kept.
    pub(crate) fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    pub(crate) fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Empties it, keeping its memory.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.error = None;
    }
}

impl Hasher for KeyWriter {
    fn write(&mut self, bytes: &[u8]) {
        self.words.push(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.words.push(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, x: u8) {
        self.words.push(x as u64);
    }

    fn write_u32(&mut self, x: u32) {
        self.words.push(x as u64);
    }

    fn write_u64(&mut self, x: u64) {
        self.words.push(x);
    }

    fn write_usize(&mut self, x: usize) {
        self.words.push(x as u64);
    }

    /// Never asked: the words are the key.
    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hash;

    use super::*;

    fn words(f: impl FnOnce(&mut KeyWriter)) -> Vec<u64> {
        let mut key = KeyWriter::default();
        f(&mut key);
        key.words().to_vec()
    }

    #[test]
    fn leaves_differ_by_type_shape_and_passing() {
        let f32x4 = Type::new(DType::F32, [4]);
        let all = [
            words(|k| k.leaf(&f32x4, Passing::Moved)),
            words(|k| k.leaf(&f32x4, Passing::Borrowed)),
            words(|k| k.leaf(&Type::new(DType::I32, [4]), Passing::Moved)),
            words(|k| k.leaf(&Type::new(DType::F32, [4, 1]), Passing::Moved)),
            words(|k| k.leaf(&Type::new(DType::F32, [1, 4]), Passing::Moved)),
        ];
        for (i, a) in all.iter().enumerate() {
            assert_eq!(all.iter().position(|b| a == b), Some(i));
        }
    }

    #[test]
    fn hashing_encodes_boundaries() {
        let a = words(|k| ("ab", "c").hash(k));
        let b = words(|k| ("a", "bc").hash(k));
        assert_ne!(a, b);
    }
}
