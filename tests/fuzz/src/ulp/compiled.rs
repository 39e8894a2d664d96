//! One elementwise function as machine code, run on bit patterns.

use kiln_driver::Compiled;
use kiln_ir::{DType, Graph, Literal, ParameterInfo, Type};

use super::Function;
use crate::execute::{Way, build, run};

/// Elements of one call.
pub const BATCH: usize = 1 << 16;

/// Compiled code of a function on one element type.
pub struct Code {
    compiled: Compiled,
    way: Way,
    dtype: DType,
}

impl Code {
    /// Compiles it.
    ///
    /// # Errors
    /// The compiler's message.
    pub fn new(function: Function, dtype: DType) -> Result<Code, String> {
        let operands = match function {
            Function::Unary(_) => 1,
            Function::Binary(_) => 2,
        };
        let mut graph = Graph::new(function.name());
        let ty = Type::new(dtype, [BATCH]);
        let parameters: Vec<_> = (0..operands)
            .map(|_| graph.add_parameter(ty.clone(), ParameterInfo::default()))
            .collect();
        let result = graph.add1(function.op(), &parameters, None).map_err(|e| e.to_string())?;
        graph.add_output(result, "");
        let way = Way { threads: 1, donate: false, ..Way::usual() };
        Ok(Code { compiled: build(&graph, way)?, way, dtype })
    }

    /// The results for columns of at most [`BATCH`] bit patterns.
    ///
    /// # Errors
    /// The runtime's message.
    pub fn run(&self, columns: &[Vec<u64>]) -> Result<Vec<u64>, String> {
        let ty = Type::new(self.dtype, [BATCH]);
        let size = self.dtype.size();
        let arguments: Vec<Literal> = columns
            .iter()
            .map(|column| {
                let mut bytes = vec![0; size * BATCH];
                for (to, bits) in bytes.chunks_exact_mut(size).zip(column) {
                    to.copy_from_slice(&bits.to_le_bytes()[..size]);
                }
                Literal::from_bytes(ty.clone(), &bytes)
            })
            .collect();
        let results = run(&self.compiled, self.way, &arguments, 1)?;
        let words = results[0].bytes().chunks_exact(size).take(columns[0].len());
        let word = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..size].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        Ok(words.map(word).collect())
    }
}
