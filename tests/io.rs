//! Files of tensors, through the public functions.

use std::path::PathBuf;

use kiln::io::{npy, safetensors};
use kiln::prelude::*;
use kiln::{ErrorKind, Result};

/// A folder of this test's own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kiln-io-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

#[derive(Tree)]
struct Model {
    layers: Vec<Tensor>,
    bias: Option<Tensor>,
}

fn model() -> Model {
    let layers = vec![Tensor::from([[1.0f32, 2.0]]) * 2.0, Tensor::from([3i8])];
    Model { layers, bias: Some(Tensor::from(true)) }
}

#[test]
fn npy_round_trip() -> Result<()> {
    let folder = Folder::new("npy");
    let path = folder.0.join("x.npy");
    npy::save(&path, &(Tensor::arange(6, F32).reshape([2, 3]) * 0.5))?;
    let x = npy::load(&path)?;
    assert_eq!(x.shape(), [2, 3]);
    assert_eq!(x.to_vec::<f32>()?, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
    let error = npy::load(folder.0.join("absent.npy")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.message().contains("absent.npy"), "{error}");
    std::fs::write(&path, b"\x93NUMPY").unwrap();
    let error = npy::load(&path).unwrap_err();
    assert!(error.message().contains("x.npy: not a valid .npy file: it ends early"), "{error}");
    Ok(())
}

#[test]
fn safetensors_round_trip_by_path() -> Result<()> {
    let folder = Folder::new("safetensors");
    let path = folder.0.join("model.safetensors");
    safetensors::save(&path, &model())?;
    let all = safetensors::load(&path)?;
    let names: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(names, ["bias", "layers[0]", "layers[1]"]);
    assert_eq!(all["layers[0]"].to_vec::<f32>()?, [2.0, 4.0]);

    let mut other = model().map(&mut Tensor::zeros_like);
    safetensors::load_into(&path, &mut other)?;
    assert_eq!(other.layers[1].to_vec::<i8>()?, [3]);
    assert!(other.bias.unwrap().item::<bool>()?);

    let mut longer = model();
    longer.layers.push(Tensor::from(1.0f32));
    let error = safetensors::load_into(&path, &mut longer).unwrap_err();
    assert!(error.message().contains("there is no tensor `layers[2]`"), "{error}");
    let mut wider = model();
    wider.layers[0] = Tensor::zeros([7], F32);
    let error = safetensors::load_into(&path, &mut wider).unwrap_err();
    assert!(error.message().contains("`layers[0]` is f32[1,2], the tree wants f32[7]"), "{error}");
    assert_eq!(wider.layers[1].to_vec::<i8>()?, [3], "the tree is as it was");
    Ok(())
}

/// Paths hold letters, digits and `_`; names that differ in other characters only must
/// not become one tensor of the file.
#[test]
fn leaves_with_like_names_are_kept_apart() -> Result<()> {
    let folder = Folder::new("like-names");
    let path = folder.0.join("model.safetensors");
    let tree = |x: f32| {
        let entry = |key: &str, x: f32| (key.to_string(), Tensor::from([x]));
        std::collections::BTreeMap::from([entry("a.b", x), entry("a_b", x + 1.0)])
    };
    safetensors::save(&path, &tree(1.0))?;
    assert_eq!(safetensors::load(&path)?.len(), 2);
    let mut loaded = tree(0.0);
    safetensors::load_into(&path, &mut loaded)?;
    assert_eq!(loaded["a.b"].to_vec::<f32>()?, [1.0]);
    assert_eq!(loaded["a_b"].to_vec::<f32>()?, [2.0]);
    Ok(())
}
