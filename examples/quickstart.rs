//! A tour: lazy expressions, jitted functions, trees, donation, errors, reports.
//!
//! ```text
//! cargo run --example quickstart
//! ```

use kiln::prelude::*;

/// Any struct of tensors can be an argument or a result.
#[derive(Tree)]
struct Layer {
    w: Tensor,
    b: Tensor,
    /// Part of the key: the function is compiled for each value.
    #[tree(static)]
    activation: &'static str,
}

impl Layer {
    fn apply(&self, x: &Tensor) -> Tensor {
        let y = x.dot(&self.w) + &self.b;
        if self.activation == "gelu" { y.gelu() } else { y }
    }
}

fn main() -> kiln::Result<()> {
    // Outside a jitted function, expressions are compiled when they are looked at.
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    println!("softmax:\n{}", x.softmax(-1));

    // A jitted function is traced once for each combination of argument types.
    let layer = Layer { w: Tensor::eye(2, F32), b: Tensor::zeros([2], F32), activation: "gelu" };
    let forward = jit(|layer: Layer, x: Tensor| layer.apply(&x));
    println!("forward:\n{}", forward.call(&layer, &x)?);

    // State that goes in and comes out is updated in place; numbers are arguments.
    let decay = jit!(|w, rate| (&w - rate * &w, (&w * &w).sum(..)));
    let mut w = x;
    for rate in [0.1, 0.2, 0.3] {
        let energy = decay.update(&mut w, rate)?;
        println!("energy {energy} at rate {rate}");
    }

    // A mistake is a value that names the op, the types and the line.
    let wrong = forward.call(&layer, [1.0f32, 2.0, 3.0]).unwrap_err();
    println!("{wrong}");

    println!("{}", decay.explain());
    println!("{}", kiln::cache::report());
    Ok(())
}
