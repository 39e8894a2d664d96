//! How compile time grows with the program.
//!
//! ```text
//! cargo run --release -p kiln-driver --example compile_speed [-- name]
//! ```
//!
//! Each program is compiled at one size and at ten times that size. The last column is
//! the ratio of the two times: 10 means that the time follows the size, 100 that it
//! follows its square. Milliseconds are of one run, the second after a first that warms
//! LLVM up; they say little on a busy machine, the ratio says more.

use std::error::Error;
use std::time::Instant;

use kiln_driver::{Compiled, Options, compile};
use kiln_ir::op::{
    Binary, Broadcast, Concatenate, Constant, DotDims, DotGeneral, Reshape, Slice, Unary,
};
use kiln_ir::{DType, Graph, Literal, Op, ParameterInfo, Scalar, Type, Value};

/// A name, the smaller size, and the program of a size.
type Case = (&'static str, usize, fn(usize) -> Program);

const PROGRAMS: [Case; 9] = [
    ("chain", 1_000, chain),
    ("pairs", 1_000, pairs),
    ("doubling", 1_000, doubling),
    ("join_inputs", 100, join_inputs),
    ("join_computed", 100, join_computed),
    ("join_rows_of_one", 100, join_rows_of_one),
    ("join_unlike", 100, join_unlike),
    ("parameters", 1_000, parameters),
    ("layers", 50, layers),
];

fn main() -> Result<(), Box<dyn Error>> {
    let only = std::env::args().nth(1);
    let options = Options::default();
    compile(chain(1).graph, &options)?;
    println!("{:18} {:>6} {:>9}  ms by phase", "", "size", "ms");
    for (name, size, program) in PROGRAMS {
        if only.as_ref().is_some_and(|o| o != name) {
            continue;
        }
        let mut total = Vec::new();
        for size in [size, 10 * size] {
            let start = Instant::now();
            let graph = program(size).graph;
            let built = start.elapsed();
            let start = Instant::now();
            let Compiled { report, times, .. } = compile(graph, &options)?;
            total.push(start.elapsed().as_secs_f64() * 1e3);
            print!("{name:18} {size:>6} {:9.1} ", total[total.len() - 1]);
            print!(" build {:.1}", built.as_secs_f64() * 1e3);
            for (phase, time) in times {
                print!(", {phase} {:.1}", time.as_secs_f64() * 1e3);
            }
            println!("; {} kernels", report.kernels().len());
        }
        println!("{name:18} {:>6} {:9.1}", "ratio", total[1] / total[0]);
    }
    Ok(())
}

// --- programs -------------------------------------------------------------

struct Program {
    graph: Graph,
}

impl Program {
    fn new(name: &str) -> Program {
        Program { graph: Graph::new(name) }
    }

    fn parameter<const N: usize>(&mut self, name: String, shape: [usize; N]) -> Value {
        let ty = Type::new(DType::F32, shape);
        self.graph.add_parameter(ty, ParameterInfo { name, donated: false })
    }

    fn op(&mut self, op: impl Into<Op>, operands: &[Value]) -> Value {
        self.graph.add1(op, operands, None).expect("operands fit")
    }

    /// `number * x + number`.
    fn scaled(&mut self, number: f64, x: Value) -> Value {
        let value = Literal::scalar(Scalar::from_f64(DType::F32, number));
        let number = self.op(Constant { value }, &[]);
        let shape = self.graph.ty(x).shape.clone();
        let number = self.op(Broadcast { shape, axes: vec![] }, &[number]);
        let product = self.op(Binary::Mul, &[number, x]);
        self.op(Binary::Add, &[product, number])
    }

    fn returns(mut self, values: &[Value]) -> Program {
        values.iter().for_each(|&v| self.graph.add_output(v, ""));
        self
    }
}

fn chain(n: usize) -> Program {
    let mut p = Program::new("chain");
    let mut x = p.parameter("x".into(), [1 << 20]);
    for i in 0..n {
        x = p.op(if i % 2 == 0 { Unary::Sin } else { Unary::Neg }, &[x]);
    }
    p.returns(&[x])
}

fn pairs(n: usize) -> Program {
    let mut p = Program::new("pairs");
    let [mut x, mut y] = ["x", "y"].map(|name| p.parameter(name.into(), [1024]));
    for _ in 0..n {
        (x, y) = (p.op(Binary::Add, &[x, y]), p.op(Binary::Sub, &[x, y]));
    }
    p.returns(&[x, y])
}

fn doubling(n: usize) -> Program {
    let mut p = Program::new("doubling");
    let mut x = p.parameter("x".into(), [1024]);
    for _ in 0..n {
        x = p.op(Binary::Add, &[x, x]);
    }
    p.returns(&[x])
}

fn stack(mut p: Program, rows: &[Value]) -> Program {
    let rows: Vec<Value> =
        rows.iter().map(|&row| p.op(Reshape { shape: [1, 64].into() }, &[row])).collect();
    let joined = p.op(Concatenate { axis: 0 }, &rows);
    p.returns(&[joined])
}

fn join_inputs(n: usize) -> Program {
    let mut p = Program::new("join_inputs");
    let rows: Vec<Value> = (0..n).map(|i| p.parameter(format!("x{i}"), [64])).collect();
    stack(p, &rows)
}

fn join_computed(n: usize) -> Program {
    let mut p = Program::new("join_computed");
    let rows: Vec<Value> = (0..n)
        .map(|i| {
            let x = p.parameter(format!("x{i}"), [64]);
            p.scaled(3.0, x)
        })
        .collect();
    stack(p, &rows)
}

fn join_rows_of_one(n: usize) -> Program {
    let mut p = Program::new("join_rows_of_one");
    let x = p.parameter("x".into(), [n, 64]);
    let rows: Vec<Value> = (0..n)
        .map(|i| {
            let slice = Slice { start: vec![i, 0], limit: vec![i + 1, 64], stride: vec![1, 1] };
            let row = p.op(slice, &[x]);
            let row = p.op(Reshape { shape: [64].into() }, &[row]);
            p.scaled(3.0, row)
        })
        .collect();
    stack(p, &rows)
}

fn join_unlike(n: usize) -> Program {
    let mut p = Program::new("join_unlike");
    let rows: Vec<Value> = (0..n)
        .map(|i| {
            let x = p.parameter(format!("x{i}"), [64]);
            p.scaled(i as f64 / 16.0, x)
        })
        .collect();
    stack(p, &rows)
}

fn parameters(n: usize) -> Program {
    let mut p = Program::new("parameters");
    let new: Vec<Value> = (0..n)
        .map(|i| {
            let x = p.parameter(format!("model.w{i}"), [64, 64 + i % 7]);
            let g = p.parameter(format!("gradients.w{i}"), [64, 64 + i % 7]);
            let step = p.scaled(0.1, g);
            p.op(Binary::Sub, &[x, step])
        })
        .collect();
    p.returns(&new)
}

fn layers(n: usize) -> Program {
    let mut p = Program::new("layers");
    let mut x = p.parameter("x".into(), [64, 64]);
    for i in 0..n {
        let w = p.parameter(format!("w{i}"), [64, 64]);
        let h = p.op(DotGeneral { dims: DotDims::matmul(), dtype: DType::F32 }, &[x, w]);
        x = p.op(Unary::Tanh, &[h]);
    }
    p.returns(&[x])
}
