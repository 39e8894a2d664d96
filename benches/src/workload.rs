//! What is computed: the fixed list that every number in the documentation refers to.
//!
//! Expected checksums come from the same definitions in f64. Compulsory bytes read
//! every input once and write every output once; no program can move fewer.

use crate::buffer::Buffer;
use crate::checksum::Checksum;
use crate::input;

/// One array that goes in: `shape`, filled with uniform numbers in [low, high).
#[derive(Debug)]
pub struct Input {
    /// As the formula calls it.
    pub name: &'static str,
    /// Of the generator.
    pub seed: u32,
    /// Row-major.
    pub shape: &'static [usize],
    /// The least number.
    pub low: f64,
    /// Above the greatest number.
    pub high: f64,
}

impl Input {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The array.
    pub fn make(&self) -> Buffer {
        Buffer::from_fn(self.elements(), |i| input::uniform(self.seed, i, self.low, self.high))
    }
}

/// A computation with fixed inputs.
#[derive(Debug)]
pub struct Workload {
    /// How reports call it.
    pub name: &'static str,
    /// What it computes.
    pub formula: &'static str,
    /// What goes in.
    pub inputs: &'static [Input],
    /// The shape of what comes out.
    pub output: &'static [usize],
    /// Twice the multiply-adds of matrix products; zero for everything else.
    pub flops: u64,
    /// What a right result adds up to.
    pub expected: Checksum,
    /// How far off the sums and elements may be, relative to the magnitude.
    pub tolerance: f64,
}

impl Workload {
    /// The workload of this name.
    pub fn named(name: &str) -> Option<&'static Workload> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }

    /// Its inputs, made anew.
    pub fn make_inputs(&self) -> Vec<Buffer> {
        self.inputs.iter().map(Input::make).collect()
    }

    /// Number of elements that come out.
    pub fn output_elements(&self) -> usize {
        self.output.iter().product()
    }

    /// Bytes that every program must move.
    pub fn bytes(&self) -> u64 {
        let inputs: usize = self.inputs.iter().map(Input::elements).sum();
        ((inputs + self.output_elements()) * size_of::<f32>()) as u64
    }

    /// Whether this result is right, or what is wrong with it.
    pub fn check(&self, output: &[f32]) -> Result<(), String> {
        self.expected.compare(&Checksum::of(output), self.tolerance)
    }
}

const fn uniform(
    name: &'static str,
    seed: u32,
    shape: &'static [usize],
    low: f64,
    high: f64,
) -> Input {
    Input { name, seed, shape, low, high }
}

const GELU: &str = "gelu(1.1·x + 0.1) + r";
const MI: usize = 1 << 20;

/// All of them.
pub static WORKLOADS: [Workload; 12] = [
    Workload {
        name: "gelu_16m",
        formula: GELU,
        inputs: &[uniform("x", 1, &[16 * MI], -3.0, 3.0), uniform("r", 2, &[16 * MI], -1.0, 1.0)],
        output: &[16 * MI],
        flops: 0,
        expected: Checksum {
            len: 16 * MI,
            sum: 13428304.615999062,
            magnitude: 18748903.052862685,
            weighted: -1209.0846927506707,
            first: [
                -0.9633860920363593,
                0.27140392237632693,
                0.5102791400282435,
                -0.9146756631195766,
            ],
            last: 0.9418434131933392,
        },
        tolerance: 2e-4,
    },
    Workload {
        name: "gelu_64k",
        formula: GELU,
        inputs: &[uniform("x", 1, &[65536], -3.0, 3.0), uniform("r", 2, &[65536], -1.0, 1.0)],
        output: &[65536],
        flops: 0,
        expected: Checksum {
            len: 65536,
            sum: 51961.90755200219,
            magnitude: 72805.9424439801,
            weighted: 96.25790133245474,
            first: [
                -0.9633860920363593,
                0.27140392237632693,
                0.5102791400282435,
                -0.9146756631195766,
            ],
            last: -0.5453233543127274,
        },
        tolerance: 2e-4,
    },
    Workload {
        name: "softmax_4096",
        formula: "softmax of each row of x",
        inputs: &[uniform("x", 6, &[4096, 4096], -5.0, 5.0)],
        output: &[4096, 4096],
        flops: 0,
        expected: Checksum {
            len: 16 * MI,
            sum: 4096.0,
            magnitude: 4096.0,
            weighted: -0.3474555279522791,
            first: [
                4.2970104302584234e-06,
                0.000886743063689187,
                0.000369367239573191,
                0.00027208835251835693,
            ],
            last: 4.5358638037914694e-06,
        },
        tolerance: 2e-4,
    },
    Workload {
        name: "layernorm",
        formula: "(x − mean) / √(variance + 1e-5) · g + b over each row",
        inputs: &[
            uniform("x", 7, &[8192, 1024], -1.0, 2.0),
            uniform("g", 8, &[1024], 0.5, 1.5),
            uniform("b", 9, &[1024], -0.5, 0.5),
        ],
        output: &[8192, 1024],
        flops: 0,
        expected: Checksum {
            len: 8 * MI,
            sum: -86407.94238175098,
            magnitude: 7484178.359673048,
            weighted: 241.45508319526425,
            first: [
                -0.15205376902421178,
                0.6881904848443823,
                -1.2117201027961968,
                -0.18534561239509798,
            ],
            last: 0.875632381166848,
        },
        tolerance: 2e-4,
    },
    Workload {
        name: "rmsnorm",
        formula: "x / √(mean x² + 1e-6) · g over each row",
        inputs: &[uniform("x", 7, &[8192, 1024], -1.0, 2.0), uniform("g", 8, &[1024], 0.5, 1.5)],
        output: &[8192, 1024],
        flops: 0,
        expected: Checksum {
            len: 8 * MI,
            sum: 4197290.649523701,
            magnitude: 6995996.160650227,
            weighted: 887.0216211135311,
            first: [0.6262920311955807, 0.68089852175035, -0.6210675332366216, 0.484444063799915],
            last: 0.9585042837845538,
        },
        tolerance: 2e-4,
    },
    Workload {
        name: "cumsum_rows",
        formula: "running sums along each row of x",
        inputs: &[uniform("x", 10, &[4096, 4096], -1.0, 1.0)],
        output: &[4096, 4096],
        flops: 0,
        expected: Checksum {
            len: 16 * MI,
            sum: 1415917.6606898308,
            magnitude: 326472887.36731815,
            weighted: 5287.965198261316,
            first: [
                -0.3118518590927124,
                -1.1721779108047485,
                -1.4143604040145874,
                -0.6662375926971436,
            ],
            last: -17.740742564201355,
        },
        tolerance: 1e-3,
    },
    Workload {
        name: "cumsum_1d_16m",
        formula: "running sums of x",
        inputs: &[uniform("x", 10, &[16 * MI], 0.0, 1.0)],
        output: &[16 * MI],
        flops: 0,
        expected: Checksum {
            len: 16 * MI,
            sum: 70382600694262.78,
            magnitude: 70382600694262.78,
            weighted: -4078261735.498881,
            first: [
                0.3440740704536438,
                0.41391104459762573,
                0.7928197979927063,
                1.6668812036514282,
            ],
            last: 8389520.689741075,
        },
        tolerance: 2e-3,
    },
    Workload {
        name: "matmul_1024",
        formula: "a · b",
        inputs: &[
            uniform("a", 11, &[1024, 1024], -1.0, 1.0),
            uniform("b", 12, &[1024, 1024], -1.0, 1.0),
        ],
        output: &[1024, 1024],
        flops: 2 << 30,
        expected: Checksum {
            len: MI,
            sum: -7127.48733125075,
            magnitude: 8922095.858949501,
            weighted: -2027.6356331316513,
            first: [7.878932884211203, 5.089099865613932, -6.439270643671819, -11.745832074400283],
            last: -14.422170085559259,
        },
        tolerance: 2e-4,
    },
    Workload {
        name: "mm_bias_gelu",
        formula: "gelu(x · w + b)",
        inputs: &[
            uniform("x", 11, &[1024, 1024], -1.0, 1.0),
            uniform("w", 12, &[1024, 4096], -0.05, 0.05),
            uniform("b", 13, &[4096], -1.0, 1.0),
        ],
        output: &[1024, 4096],
        flops: 8 << 30,
        expected: Checksum {
            len: 4 * MI,
            sum: 833257.30927984,
            magnitude: 1345090.0367495161,
            weighted: 560.6919952368253,
            first: [
                0.1490524129468834,
                0.015150889267299733,
                0.19808554381040677,
                -0.14279713693945686,
            ],
            last: -0.1223428030295377,
        },
        tolerance: 2e-4,
    },
    Workload {
        name: "gather_64k_256",
        formula: "rows ⌊i⌋ of t",
        inputs: &[
            uniform("t", 32, &[50_000, 256], -1.0, 1.0),
            uniform("i", 33, &[65536], 0.0, 50_000.0),
        ],
        output: &[65536, 256],
        flops: 0,
        expected: Checksum {
            len: 16 * MI,
            sum: 856.3368471860886,
            magnitude: 8385690.922576547,
            weighted: -1188.9168815640855,
            first: [
                0.563003659248352,
                0.1713850498199463,
                -0.48263323307037354,
                -0.33064842224121094,
            ],
            last: 0.5446916818618774,
        },
        tolerance: 2e-4,
    },
    Workload {
        name: "scatter_add_64k_256",
        formula: "zeros with rows v added at ⌊i⌋",
        inputs: &[
            uniform("i", 33, &[65536], 0.0, 50_000.0),
            uniform("v", 34, &[65536, 256], -1.0, 1.0),
        ],
        output: &[50_000, 256],
        flops: 0,
        expected: Checksum {
            len: 12_800_000,
            sum: 2058.358135700226,
            magnitude: 5843932.19127059,
            weighted: 1455.31927460381,
            first: [
                0.3432565927505493,
                1.162784457206726,
                -0.3946908712387085,
                0.06380879878997803,
            ],
            last: 0.1983323097229004,
        },
        tolerance: 2e-4,
    },
    Workload {
        name: "dispatch",
        formula: "x + 1 on 8 elements",
        inputs: &[uniform("x", 30, &[8], -1.0, 1.0)],
        output: &[8],
        flops: 0,
        expected: Checksum {
            len: 8,
            sum: 4.456181287765503,
            magnitude: 4.456181287765503,
            weighted: 0.5161120724565222,
            first: [
                0.9572397470474243,
                0.006385922431945801,
                0.3202303647994995,
                0.274014949798584,
            ],
            last: 1.1263086795806885,
        },
        tolerance: 2e-4,
    },
];

#[cfg(test)]
mod tests {
    use super::{WORKLOADS, Workload};

    #[test]
    fn names_are_unique_and_checksums_have_the_output_length() {
        for workload in &WORKLOADS {
            assert!(std::ptr::eq(Workload::named(workload.name).unwrap(), workload));
            assert_eq!(workload.expected.len, workload.output_elements(), "{}", workload.name);
        }
    }

    #[test]
    fn rows_at_indices_are_those_of_a_loop() {
        const ROW: usize = 256;
        let gather = Workload::named("gather_64k_256").unwrap();
        let [t, i] = &gather.make_inputs()[..] else { panic!("a table and indices") };
        let rows = i.iter().flat_map(|&i| &t[i as usize * ROW..][..ROW]);
        assert_eq!(gather.check(&rows.copied().collect::<Vec<f32>>()), Ok(()));
        let scatter = Workload::named("scatter_add_64k_256").unwrap();
        let [i, v] = &scatter.make_inputs()[..] else { panic!("indices and updates") };
        let mut sums = vec![0.0f64; scatter.output_elements()];
        for (&i, v) in i.iter().zip(v.chunks_exact(ROW)) {
            let to = &mut sums[i as usize * ROW..][..ROW];
            to.iter_mut().zip(v).for_each(|(y, &v)| *y += f64::from(v));
        }
        let sums: Vec<f32> = sums.into_iter().map(|x| x as f32).collect();
        assert_eq!(scatter.check(&sums), Ok(()));
    }

    #[test]
    fn the_generator_makes_the_inputs_that_the_checksums_were_made_from() {
        // x + 1 is exact enough to pin the inputs through the expected checksum.
        let workload = Workload::named("dispatch").unwrap();
        let output: Vec<f32> = workload.inputs[0].make().iter().map(|x| x + 1.0).collect();
        assert_eq!(workload.check(&output), Ok(()));
        let gelu = Workload::named("gelu_64k").unwrap();
        let [x, r] = &gelu.make_inputs()[..] else { panic!("gelu has two inputs") };
        let f64_gelu =
            |t: f64| 0.5 * t * (1.0 + (0.7978845608028654 * (t + 0.044715 * t * t * t)).tanh());
        let output: Vec<f32> = x
            .iter()
            .zip(r.iter())
            .map(|(&x, &r)| (f64_gelu(f64::from(x) * 1.1 + 0.1) + f64::from(r)) as f32)
            .collect();
        assert_eq!(gelu.check(&output), Ok(()));
    }
}
