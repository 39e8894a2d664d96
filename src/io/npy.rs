//! Numpy's `.npy` format, one array a file.
//!
//! ```text
//!   \x93NUMPY  major minor  header length  {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  data
//! ```
//!
//! Reads versions 1 to 3, either byte order, C and Fortran order, and the element
//! types that Kiln has. Refuses structured and object types. Writes version 1 (2
//! when the header is long), little-endian, C order. `bf16` has no numpy type and
//! is refused on writing: convert it first.

use std::path::Path;

use crate::{DType, Error, ErrorKind, HostArray, Shape, Tensor, Type};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads a file into a tensor.
///
/// # Errors
/// If the file cannot be read, or is damaged or not supported.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<Tensor, Error> {
    let path = path.as_ref();
    let array = decode(&super::read(path)?).map_err(super::in_file(path))?;
    Ok(Tensor::from(array))
}

/// Writes a tensor to a file. Waits for the value.
///
/// # Errors
/// If the value cannot be computed, has no numpy type, or the file cannot be written.
pub fn save(path: impl AsRef<Path>, tensor: &Tensor) -> Result<(), Error> {
    super::write(path.as_ref(), &encode(&tensor.to_host()?)?)
}

fn malformed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Io, format!("not a valid .npy file: {}", message.into()))
}

/// Reads the bytes of a file.
///
/// # Errors
/// If they are damaged or hold something that is not supported.
pub fn decode(bytes: &[u8]) -> Result<HostArray, Error> {
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| malformed("it does not start as one"))?;
    let (version, rest) = rest.split_at_checked(2).ok_or_else(|| malformed("it ends early"))?;
    let (length, rest) = match version[0] {
        1 => {
            let (n, rest) = rest.split_first_chunk().ok_or_else(|| malformed("it ends early"))?;
            (u16::from_le_bytes(*n) as usize, rest)
        }
        2 | 3 => {
            let (n, rest) = rest.split_first_chunk().ok_or_else(|| malformed("it ends early"))?;
            (u32::from_le_bytes(*n) as usize, rest)
        }
        v => return Err(malformed(format!("version {v} is unknown"))),
    };
    let (header, data) =
        rest.split_at_checked(length).ok_or_else(|| malformed("the header ends early"))?;
    let header = std::str::from_utf8(header).map_err(|_| malformed("the header is no text"))?;
    let Header { dtype, big_endian, fortran, shape } = Header::parse(header)?;
    let size = dtype.size();
    let wanted = shape
        .checked_elements()
        .and_then(|n| n.checked_mul(size))
        .ok_or_else(|| malformed(format!("shape {shape} is too large")))?;
    if data.len() != wanted {
        let ty = Type::new(dtype, shape);
        return Err(malformed(format!("{} bytes of data, {ty} takes {wanted}", data.len())));
    }
    let mut data = if fortran { to_c_order(data, &shape, size) } else { data.to_vec() };
    if big_endian {
        // Each part of a complex number by itself.
        data.chunks_exact_mut(dtype.part().size()).for_each(<[u8]>::reverse);
    }
    HostArray::from_bytes(Type::new(dtype, shape), &data).map_err(|e| malformed(e.message()))
}

/// The bytes of a file.
///
/// # Errors
/// If the element type has no numpy name.
pub fn encode(array: &HostArray) -> Result<Vec<u8>, Error> {
    let descr = descr(array.dtype()).ok_or_else(|| {
        let message = format!("numpy has no type for {}; convert it first", array.dtype());
        Error::new(ErrorKind::Unsupported, message)
    })?;
    let extents: Vec<String> = array.shape().iter().map(usize::to_string).collect();
    let shape = match &extents[..] {
        [one] => format!("({one},)"),
        all => format!("({})", all.join(", ")),
    };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // Spaces and a newline, so that the data starts on a multiple of 64.
    let version = if header.len() + 128 > u16::MAX as usize { 2u8 } else { 1 };
    let before = MAGIC.len() + 2 + if version == 1 { 2 } else { 4 };
    let padding = (before + header.len() + 1).next_multiple_of(64) - (before + header.len() + 1);
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([version, 0]);
    match version {
        1 => bytes.extend((header.len() as u16).to_le_bytes()),
        _ => bytes.extend((header.len() as u32).to_le_bytes()),
    }
    bytes.extend(header.as_bytes());
    bytes.extend(array.bytes());
    Ok(bytes)
}

fn descr(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "|b1",
        DType::I8 => "|i1",
        DType::U8 => "|u1",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::C64 => "<c8",
        DType::C128 => "<c16",
        DType::BF16 => return None,
    })
}

struct Header {
    dtype: DType,
    big_endian: bool,
    fortran: bool,
    shape: Shape,
}

impl Header {
    /// Parses the Python dictionary that numpy writes: three known keys in any
    /// order, each with a string, a boolean or a tuple of numbers.
    fn parse(text: &str) -> Result<Header, Error> {
        let mut parser = Parser { rest: text };
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        parser.expect("{")?;
        while !parser.accept("}") {
            let key = parser.string()?;
            parser.expect(":")?;
            match key {
                "descr" => descr = Some(parser.string()?),
                "fortran_order" => fortran = Some(parser.boolean()?),
                "shape" => shape = Some(parser.tuple()?),
                key => return Err(malformed(format!("unknown key `{key}`"))),
            }
            if !parser.accept(",") {
                parser.expect("}")?;
                break;
            }
        }
        let missing = |key| move || malformed(format!("key `{key}` is missing"));
        let descr = descr.ok_or_else(missing("descr"))?;
        let (dtype, big_endian) = element(descr)?;
        Ok(Header {
            dtype,
            big_endian,
            fortran: fortran.ok_or_else(missing("fortran_order"))?,
            shape: shape.ok_or_else(missing("shape"))?,
        })
    }
}

/// Element type and whether its bytes are in big-endian order.
fn element(text: &str) -> Result<(DType, bool), Error> {
    let unsupported = || {
        Error::new(
            ErrorKind::Unsupported,
            format!("the .npy element type `{text}` is not supported"),
        )
    };
    let (order, name) = match text.split_at_checked(1) {
        Some((order @ ("<" | ">" | "|" | "="), name)) => (order, name),
        _ => return Err(unsupported()),
    };
    let dtype = DType::ALL
        .into_iter()
        .find(|&d| descr(d).is_some_and(|own| &own[1..] == name))
        .ok_or_else(unsupported)?;
    let native_big = order == "=" && cfg!(target_endian = "big");
    Ok((dtype, dtype.size() > 1 && (order == ">" || native_big)))
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn accept(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), Error> {
        if self.accept(token) {
            return Ok(());
        }
        Err(malformed(format!("the header wants `{token}` before `{}`", self.excerpt())))
    }

    fn excerpt(&self) -> String {
        self.rest.chars().take(12).collect()
    }

    fn string(&mut self) -> Result<&'a str, Error> {
        let quote = if self.accept("'") {
            '\''
        } else {
            self.expect("\"")?;
            '"'
        };
        let (text, rest) = self
            .rest
            .split_once(quote)
            .ok_or_else(|| malformed("a string in the header does not end"))?;
        self.rest = rest;
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool, Error> {
        if self.accept("True") {
            return Ok(true);
        }
        self.expect("False").map(|()| false)
    }

    fn tuple(&mut self) -> Result<Shape, Error> {
        self.expect("(")?;
        let mut extents = Vec::new();
        while !self.accept(")") {
            self.rest = self.rest.trim_start();
            let digits =
                self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, rest) = self.rest.split_at(digits);
            let extent = number.parse().map_err(|_| {
                malformed(format!("the shape has no number before `{}`", self.excerpt()))
            })?;
            self.rest = rest;
            // Written by numpy on Python 2.
            self.accept("L");
            extents.push(extent);
            if !self.accept(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(extents.into())
    }
}

/// Elements stored first axis fastest, rewritten last axis fastest.
fn to_c_order(data: &[u8], shape: &Shape, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    let mut index = vec![0usize; shape.rank()];
    for _ in 0..shape.elements() {
        // Horner from the last axis: the first has stride 1.
        let offset =
            index.iter().zip(shape.iter()).rev().fold(0, |offset, (&i, &d)| offset * d + i);
        out.extend_from_slice(&data[offset * size..(offset + 1) * size]);
        for axis in (0..index.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn every_type_comes_back() {
        for dtype in DType::ALL {
            for shape in [&[][..], &[0], &[3], &[2, 0, 4], &[2, 3]] {
                let ty = Type::new(dtype, shape);
                let bytes: Vec<u8> = (0..ty.bytes()).map(|i| (i % 2) as u8).collect();
                let array = HostArray::from_bytes(ty, &bytes).unwrap();
                match encode(&array) {
                    Ok(encoded) => {
                        assert_eq!(decode(&encoded).unwrap(), array);
                        assert_eq!((encoded.len() - bytes.len()) % 64, 0);
                    }
                    Err(e) => assert_eq!((dtype, e.kind()), (DType::BF16, ErrorKind::Unsupported)),
                }
            }
        }
    }

    #[test]
    fn reads_fortran_order_and_big_endian() {
        let header = "{'fortran_order': True, 'descr': '>i2', 'shape': (2, 3)}";
        // Columns first: [[1, 3, 5], [2, 4, 6]].
        let data: Vec<u8> = (1..=6u16).flat_map(u16::to_be_bytes).collect();
        let array = decode(&file(header, &data)).unwrap();
        assert_eq!(array.shape(), [2, 3]);
        assert_eq!(array.to_vec::<i16>().unwrap(), [1, 3, 5, 2, 4, 6]);
    }

    #[test]
    fn damage_is_an_error() {
        let good = file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", &[0; 8]);
        assert!(decode(&good).is_ok());
        for end in 0..good.len() {
            assert!(decode(&good[..end]).is_err(), "cut at {end}");
        }
        // Any byte changed to any value: an array or an error.
        for at in 0..good.len() {
            for value in 0..=255 {
                let mut bad = good.clone();
                bad[at] = value;
                _ = decode(&bad);
            }
        }
        let huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999)}";
        assert!(decode(&file(huge, &[])).unwrap_err().message().contains("too large"));
        let object = "{'descr': '|O', 'fortran_order': False, 'shape': ()}";
        assert_eq!(decode(&file(object, &[])).unwrap_err().kind(), ErrorKind::Unsupported);
        let bool = file("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", &[2]);
        assert!(decode(&bool).is_err());
    }
}
