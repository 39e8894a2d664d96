//! Reading Fashion-MNIST: 60,000 + 10,000 grey images of clothes, 28 × 28, ten kinds.
//!
//! The files have the IDX format, plain or compressed with gzip:
//!
//! ```text
//! byte 0..2   0
//! byte 2      type of the elements: 8 is u8
//! byte 3      number of axes
//! then        each axis as a big-endian u32
//! then        the elements, row-major
//! ```
//!
//! Every way in which a file can be wrong is a typed error that names the file.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Pixels of an image.
pub const PIXELS: usize = 28 * 28;
/// Kinds of clothes.
pub const CLASSES: usize = 10;

/// Images with their labels.
pub struct Split {
    /// Row-major, one image of [`PIXELS`] after the other, 0 for white to 255 for black.
    images: Vec<u8>,
    /// Which kind each image shows: less than [`CLASSES`].
    labels: Vec<u8>,
}

/// What there is to learn from, and what to be tested on.
pub struct FashionMnist {
    /// 60,000 images.
    pub train: Split,
    /// 10,000 images.
    pub test: Split,
}

/// What is wrong with the data set.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Neither the file nor its compressed form exists.
    #[error("{} does not exist, nor with .gz", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read or uncompressed.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system or the decoder said.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What was found and what was wanted.
        problem: String,
    },
}

impl FashionMnist {
    /// Reads the four files of a folder.
    pub fn load(folder: &Path) -> Result<Self, DataError> {
        Ok(FashionMnist {
            train: Split::load(folder, "train")?,
            test: Split::load(folder, "t10k")?,
        })
    }
}

impl Split {
    fn load(folder: &Path, name: &str) -> Result<Self, DataError> {
        let (images, _) = read(folder, &format!("{name}-images-idx3-ubyte"), &[28, 28])?;
        let (labels, path) = read(folder, &format!("{name}-labels-idx1-ubyte"), &[])?;
        let malformed = |problem| DataError::Malformed { path, problem };
        if images.len() != labels.len() * PIXELS {
            let count = images.len() / PIXELS;
            return Err(malformed(format!("{} labels for {count} images", labels.len())));
        }
        if let Some(at) = labels.iter().position(|&label| usize::from(label) >= CLASSES) {
            return Err(malformed(format!(
                "label {at} is {}, but there are ten kinds",
                labels[at]
            )));
        }
        Ok(Split { images, labels })
    }

    /// How many images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// The pixels of these images, one image after the other, as numbers from 0 to 1.
    pub fn pixels(&self, images: impl IntoIterator<Item = usize>) -> Vec<f32> {
        let image = |at: usize| &self.images[at * PIXELS..(at + 1) * PIXELS];
        images.into_iter().flat_map(image).map(|&pixel| f32::from(pixel) / 255.0).collect()
    }

    /// The kinds that these images show.
    pub fn labels(&self, images: impl IntoIterator<Item = usize>) -> Vec<i32> {
        images.into_iter().map(|at| i32::from(self.labels[at])).collect()
    }
}

/// The elements of an IDX file of u8 whose axes after the first are `inner`, and the
/// path that it was found at.
fn read(folder: &Path, name: &str, inner: &[usize]) -> Result<(Vec<u8>, PathBuf), DataError> {
    let plain = folder.join(name);
    let compressed = folder.join(format!("{name}.gz"));
    let (path, bytes) = if plain.is_file() {
        let bytes = fs::read(&plain);
        (plain, bytes)
    } else if compressed.is_file() {
        let bytes = fs::read(&compressed).and_then(|bytes| {
            let mut plain = Vec::new();
            flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain)?;
            Ok(plain)
        });
        (compressed, bytes)
    } else {
        return Err(DataError::Missing { path: plain });
    };
    match bytes {
        Err(source) => Err(DataError::Unreadable { path, source }),
        Ok(bytes) => match elements(&bytes, inner) {
            Err(problem) => Err(DataError::Malformed { path, problem }),
            Ok(elements) => Ok((elements.to_vec(), path)),
        },
    }
}

fn elements<'a>(bytes: &'a [u8], inner: &[usize]) -> Result<&'a [u8], String> {
    let axes = 1 + inner.len();
    let start = 4 + 4 * axes;
    if bytes.len() < start {
        return Err(format!("{} bytes are no IDX file", bytes.len()));
    }
    let magic = [0, 0, 8, axes as u8];
    if bytes[..4] != magic {
        return Err(format!("starts with {:?}, but an IDX file of u8 with {magic:?}", &bytes[..4]));
    }
    let axis = |at: usize| {
        let field = bytes[4 + 4 * at..8 + 4 * at].try_into().expect("four bytes");
        u32::from_be_bytes(field) as usize
    };
    let sizes: Vec<usize> = (0..axes).map(axis).collect();
    if sizes[1..] != *inner {
        return Err(format!("elements of shape {:?}, expected {inner:?}", &sizes[1..]));
    }
    let wanted = sizes[0] * inner.iter().product::<usize>();
    if bytes.len() - start != wanted {
        return Err(format!("{} elements, but the header says {wanted}", bytes.len() - start));
    }
    Ok(&bytes[start..])
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::{Path, PathBuf};

    use super::{DataError, FashionMnist, PIXELS};

    /// A folder of its own for a test, gone when dropped.
    struct Folder(PathBuf);

    impl Folder {
        /// With a tiny data set in it: three images to train on, one to test.
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("kiln-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            let folder = Folder(path);
            let image = |value: u8| vec![value; PIXELS];
            folder.write(
                "train-images-idx3-ubyte",
                &images(&[image(0), image(51), image(255)].concat()),
            );
            folder.write("train-labels-idx1-ubyte", &labels(&[3, 9, 0]));
            folder.write_compressed("t10k-images-idx3-ubyte.gz", &images(&image(102)));
            folder.write_compressed("t10k-labels-idx1-ubyte.gz", &labels(&[7]));
            folder
        }

        fn write(&self, name: &str, bytes: &[u8]) {
            std::fs::write(self.0.join(name), bytes).unwrap();
        }

        fn write_compressed(&self, name: &str, bytes: &[u8]) {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
            encoder.write_all(bytes).unwrap();
            self.write(name, &encoder.finish().unwrap());
        }

        fn error(&self) -> DataError {
            FashionMnist::load(&self.0).err().expect("the data set is broken")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn images(pixels: &[u8]) -> Vec<u8> {
        let count = (pixels.len() / PIXELS) as u8;
        [&[0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 28, 0, 0, 0, 28][..], pixels].concat()
    }

    fn labels(labels: &[u8]) -> Vec<u8> {
        [&[0, 0, 8, 1, 0, 0, 0, labels.len() as u8][..], labels].concat()
    }

    fn malformed(error: DataError, file: &str) -> String {
        match error {
            DataError::Malformed { path, problem } if path.ends_with(file) => problem,
            other => panic!("expected a malformed {file}, got: {other}"),
        }
    }

    #[test]
    fn reads_plain_and_compressed_files() {
        let folder = Folder::new("good");
        let data = FashionMnist::load(&folder.0).unwrap();
        assert_eq!((data.train.len(), data.test.len()), (3, 1));
        assert_eq!(data.train.labels([2, 0]), [0, 3]);
        let pixels = data.train.pixels([1, 2]);
        assert_eq!(pixels.len(), 2 * PIXELS);
        assert_eq!((pixels[0], pixels[PIXELS]), (0.2, 1.0));
        assert_eq!(data.test.pixels([0])[PIXELS - 1], 0.4);
    }

    #[test]
    fn a_missing_file_is_named() {
        let folder = Folder::new("missing");
        std::fs::remove_file(folder.0.join("train-labels-idx1-ubyte")).unwrap();
        match folder.error() {
            DataError::Missing { path } => assert!(path.ends_with("train-labels-idx1-ubyte")),
            other => panic!("{other}"),
        }
        let nowhere = FashionMnist::load(Path::new("no-such-folder"));
        assert!(matches!(nowhere, Err(DataError::Missing { .. })));
    }

    #[test]
    fn damage_is_described() {
        let folder = Folder::new("damaged");
        let file = "train-images-idx3-ubyte";
        let good = images(&[0; 3 * PIXELS]);

        folder.write(file, &good[..7]);
        assert!(malformed(folder.error(), file).contains("7 bytes"));
        folder.write(file, &good[..good.len() - 1]);
        assert!(malformed(folder.error(), file).contains("2351 elements"));
        let mut other_shape = good.clone();
        other_shape[11] = 27;
        folder.write(file, &other_shape);
        assert!(malformed(folder.error(), file).contains("[27, 28]"));
        folder.write(file, b"<!DOCTYPE html> not found");
        assert!(malformed(folder.error(), file).contains("starts with"));
        folder.write(file, &good);

        folder.write("train-labels-idx1-ubyte", &labels(&[3, 9]));
        assert!(malformed(folder.error(), "train-labels-idx1-ubyte").contains("2 labels for 3"));
        folder.write("train-labels-idx1-ubyte", &labels(&[3, 10, 0]));
        assert!(malformed(folder.error(), "train-labels-idx1-ubyte").contains("label 1 is 10"));
        folder.write("train-labels-idx1-ubyte", &labels(&[3, 9, 0]));

        folder.write("t10k-images-idx3-ubyte.gz", b"no gzip at all");
        match folder.error() {
            DataError::Unreadable { path, .. } => {
                assert!(path.ends_with("t10k-images-idx3-ubyte.gz"))
            }
            other => panic!("{other}"),
        }
    }
}
