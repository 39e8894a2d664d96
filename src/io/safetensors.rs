//! Safetensors: a file of named tensors.
//!
//! A tree is stored under its leaf paths, so that a model saved as
//! `layers[2].w` is found by that name, and loading into a tree says which leaf is
//! missing or of another type.

use std::collections::BTreeMap;
use std::path::Path;

use ::safetensors::tensor::TensorView;
use ::safetensors::{Dtype, SafeTensors};

use crate::{DType, Error, ErrorKind, HostArray, Tensor, Tree, Type};

/// Writes the leaves of a tree under their paths. Waits for the values.
///
/// # Errors
/// If a value cannot be computed or the file cannot be written.
pub fn save(path: impl AsRef<Path>, tree: &impl Tree) -> Result<(), Error> {
    super::write(path.as_ref(), &encode(tree)?)
}

/// Reads every tensor of a file.
///
/// # Errors
/// If the file cannot be read, is damaged, or has an element type that Kiln lacks.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>, Error> {
    let path = path.as_ref();
    let arrays = decode(&super::read(path)?).map_err(super::in_file(path))?;
    Ok(arrays.into_iter().map(|(name, array)| (name, Tensor::from(array))).collect())
}

/// Replaces the leaves of a tree by the tensors of a file with their paths.
/// Tensors of the file that the tree lacks are left alone.
///
/// # Errors
/// As [`load`], or if a leaf is missing or has another type. The tree is then as
/// it was.
#[track_caller]
pub fn load_into(path: impl AsRef<Path>, tree: &mut impl Tree) -> Result<(), Error> {
    let path = path.as_ref();
    let mut arrays = decode(&super::read(path)?).map_err(super::in_file(path))?;
    let mut found = Vec::new();
    for (name, leaf) in tree.leaves_with_paths() {
        let array = arrays.remove(&name).ok_or_else(|| {
            let message = format!("{}: there is no tensor `{name}`", path.display());
            Error::new(ErrorKind::Io, message)
        })?;
        let wanted = leaf.try_ty()?;
        if array.ty() != wanted {
            let (path, ty) = (path.display(), array.ty());
            let message = format!("{path}: `{name}` is {ty}, the tree wants {wanted}");
            return Err(Error::new(ErrorKind::Io, message));
        }
        found.push(Tensor::from(array));
    }
    let mut found = found.into_iter();
    tree.visit_mut(&mut |leaf| {
        if let Some(tensor) = found.next() {
            *leaf = tensor;
        }
    });
    Ok(())
}

/// The bytes of a file with the leaves of a tree.
///
/// # Errors
/// If a value cannot be computed.
pub fn encode(tree: &impl Tree) -> Result<Vec<u8>, Error> {
    let arrays: Vec<(String, HostArray)> = tree
        .leaves_with_paths()
        .into_iter()
        .map(|(name, leaf)| Ok((name, leaf.to_host()?)))
        .collect::<Result<_, Error>>()?;
    let views: Vec<(&str, TensorView<'_>)> = arrays
        .iter()
        .map(|(name, array)| {
            let dtype = file_dtype(array.dtype()).ok_or_else(|| {
                let message =
                    format!("`{name}` is {}, which safetensors files do not hold", array.dtype());
                Error::new(ErrorKind::Unsupported, message)
            })?;
            let shape = array.shape().to_vec();
            let view = TensorView::new(dtype, shape, array.bytes()).map_err(refused)?;
            Ok((name.as_str(), view))
        })
        .collect::<Result<_, Error>>()?;
    ::safetensors::serialize(views, None).map_err(refused)
}

/// The arrays of a file.
///
/// # Errors
/// If the bytes are damaged or have an element type that Kiln lacks.
pub fn decode(bytes: &[u8]) -> Result<BTreeMap<String, HostArray>, Error> {
    let file = SafeTensors::deserialize(bytes).map_err(refused)?;
    file.iter()
        .map(|(name, view)| {
            let dtype = own_dtype(view.dtype()).ok_or_else(|| {
                let message = format!("`{name}` has element type {:?}", view.dtype());
                Error::new(ErrorKind::Unsupported, message)
            })?;
            let ty = Type::new(dtype, view.shape());
            let array = HostArray::from_bytes(ty, view.data())
                .map_err(|e| Error::new(ErrorKind::Io, format!("`{name}`: {}", e.message())))?;
            Ok((name.to_string(), array))
        })
        .collect()
}

fn refused(error: ::safetensors::SafeTensorError) -> Error {
    Error::new(ErrorKind::Io, format!("not a valid safetensors file: {error}"))
}

/// Element types and what the format calls them. It has no `c128`.
const DTYPES: [(DType, Dtype); 14] = [
    (DType::Bool, Dtype::BOOL),
    (DType::I8, Dtype::I8),
    (DType::I16, Dtype::I16),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::U8, Dtype::U8),
    (DType::U16, Dtype::U16),
    (DType::U32, Dtype::U32),
    (DType::U64, Dtype::U64),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::C64, Dtype::C64),
];

fn file_dtype(dtype: DType) -> Option<Dtype> {
    DTYPES.iter().find(|(own, _)| *own == dtype).map(|(_, file)| *file)
}

fn own_dtype(dtype: Dtype) -> Option<DType> {
    DTYPES.iter().find(|(_, file)| *file == dtype).map(|(own, _)| *own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_an_error() {
        let tree = (Tensor::from([1.0f32, 2.0]), Tensor::from([3i8]));
        let good = encode(&tree).unwrap();
        assert_eq!(decode(&good).unwrap().len(), 2);
        for end in 0..good.len() {
            assert!(decode(&good[..end]).is_err(), "cut at {end}");
        }
        for at in 0..good.len() {
            for value in [0, 1, 0x7f, 0xff, b'9', b'"'] {
                let mut bad = good.clone();
                bad[at] = value;
                _ = decode(&bad);
            }
        }
    }
}
