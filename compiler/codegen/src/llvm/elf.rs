//! What must be known of an object file before the linker may see it.
//!
//! Objects can come from a cache on disk, and LLVM's linker is not made for damaged
//! ones. [`seal`] appends a checksum when an object is made; [`open`] compares it,
//! and checks that the object is relocatable ELF for this machine. What passes is
//! what the compiler wrote.

use std::hash::Hasher;

/// FNV-1a: fixed by its definition, unlike the hashers of the standard library.
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

const MAGIC: [u8; 8] = *b"kilnobj1";
const TRAILER: usize = 16;

/// The object with a trailer: a magic number and the checksum of all before it.
pub(crate) fn seal(object: &[u8]) -> Vec<u8> {
    let mut hasher = Fnv::default();
    hasher.write(object);
    let mut sealed = Vec::with_capacity(object.len() + TRAILER);
    sealed.extend_from_slice(object);
    sealed.extend_from_slice(&MAGIC);
    sealed.extend_from_slice(&hasher.finish().to_le_bytes());
    sealed
}

/// An object that has been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Object<'a> {
    /// The ELF file.
    pub bytes: &'a [u8],
    /// Bytes of machine code in it.
    pub code: u64,
}

/// Checks a sealed object.
pub(crate) fn open(sealed: &[u8]) -> Result<Object<'_>, &'static str> {
    let length = sealed.len().checked_sub(TRAILER).ok_or("the object is too short")?;
    let (bytes, trailer) = sealed.split_at(length);
    let mut hasher = Fnv::default();
    hasher.write(bytes);
    if trailer[..8] != MAGIC {
        return Err("not a kiln object");
    }
    if trailer[8..] != hasher.finish().to_le_bytes() {
        return Err("the object's checksum is wrong");
    }
    let code = code_bytes(bytes).ok_or("the object is not relocatable ELF")?;
    let machine = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    if u16_at(bytes, 18) != Some(machine) {
        return Err("the object is for another machine");
    }
    Ok(Object { bytes, code })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Bytes in executable sections of a 64-bit little-endian relocatable file.
fn code_bytes(bytes: &[u8]) -> Option<u64> {
    const RELOCATABLE: u16 = 1;
    const EXECUTABLE: u64 = 4;
    if bytes.get(..6)? != b"\x7fELF\x02\x01" || u16_at(bytes, 16)? != RELOCATABLE {
        return None;
    }
    let table = usize::try_from(u64_at(bytes, 40)?).ok()?;
    let (size, count) = (u16_at(bytes, 58)? as usize, u16_at(bytes, 60)? as usize);
    let mut code = 0;
    for section in 0..count {
        let header = table.checked_add(section * size)?;
        let (flags, length) = (u64_at(bytes, header + 8)?, u64_at(bytes, header + 32)?);
        if flags & EXECUTABLE != 0 {
            code += length;
        }
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_found() {
        let sealed = seal(b"\x7fELF and then nothing");
        assert_eq!(open(&sealed).unwrap_err(), "the object is not relocatable ELF");
        for i in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[i] ^= 1;
            assert!(matches!(
                open(&damaged),
                Err("not a kiln object" | "the object's checksum is wrong")
            ));
        }
        assert_eq!(open(&sealed[..7]).unwrap_err(), "the object is too short");
    }
}
