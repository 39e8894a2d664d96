//! Instruction sets and LLVM target machines.
//!
//! An [`Isa`] names a level of instructions, and code for it uses exactly those,
//! so that the same kernel and level give the same code on every machine. Only
//! scheduling is tuned, for the processor at hand when it has that level.

use std::sync::OnceLock;

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::targets::{
    CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple,
};

use super::CompileError;

/// A level of instructions that code is made for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Isa {
    /// x86-64 with SSE4.2: 128-bit vectors.
    V2,
    /// x86-64 with AVX2, FMA and F16C: 256-bit vectors.
    V3,
    /// x86-64 with AVX-512 F, BW, CD, DQ and VL: 512-bit vectors.
    V4,
    /// AArch64 with NEON: 128-bit vectors.
    Neon,
}

impl Isa {
    /// Every level.
    pub const ALL: [Isa; 4] = [Isa::V2, Isa::V3, Isa::V4, Isa::Neon];

    /// The highest level that this machine can run.
    pub fn detect() -> Isa {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let v3 = has!("avx2") && has!("fma") && has!("f16c") && has!("bmi2") && has!("lzcnt");
            let v4 = has!("avx512f") && has!("avx512bw") && has!("avx512cd");
            match v3 {
                true if v4 && has!("avx512dq") && has!("avx512vl") => Isa::V4,
                true => Isa::V3,
                false => Isa::V2,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Neon
    }

    /// Whether this machine can run code of this level.
    pub fn is_supported(self) -> bool {
        let host = Isa::detect();
        self == host || (self < host && host != Isa::Neon)
    }

    /// Bits of one vector register.
    pub const fn vector_bits(self) -> u32 {
        match self {
            Isa::V2 | Isa::Neon => 128,
            Isa::V3 => 256,
            Isa::V4 => 512,
        }
    }

    /// How many vector registers there are.
    pub const fn registers(self) -> u32 {
        match self {
            Isa::V2 | Isa::V3 => 16,
            Isa::V4 | Isa::Neon => 32,
        }
    }

    /// Whether some lanes of a vector of elements of `bytes` bytes can be loaded or
    /// stored by one instruction. Where not, LLVM branches around each lane.
    pub const fn masks(self, bytes: usize) -> bool {
        match self {
            Isa::V4 => true,
            Isa::V3 => bytes >= 4,
            Isa::V2 | Isa::Neon => false,
        }
    }

    /// Whether `f16` converts to and from `f32` by instructions.
    pub const fn converts_f16(self) -> bool {
        !matches!(self, Isa::V2)
    }

    /// LLVM's name of a processor that has exactly this level.
    const fn cpu(self) -> &'static str {
        match self {
            Isa::V2 => "x86-64-v2",
            Isa::V3 => "x86-64-v3",
            Isa::V4 => "x86-64-v4",
            Isa::Neon => "generic",
        }
    }

    const fn triple(self) -> &'static str {
        match self {
            Isa::V2 | Isa::V3 | Isa::V4 => "x86_64-unknown-linux-gnu",
            Isa::Neon => "aarch64-unknown-linux-gnu",
        }
    }

    /// What scheduling is tuned for.
    pub(crate) fn tune(self) -> &'static str {
        static HOST: OnceLock<(Isa, String)> = OnceLock::new();
        let (host, name) = HOST.get_or_init(|| {
            let name = TargetMachine::get_host_cpu_name();
            (Isa::detect(), name.to_string_lossy().into_owned())
        });
        if *host == self { name } else { self.cpu() }
    }
}

/// A target machine for `isa`.
pub(crate) fn machine(isa: Isa) -> Result<TargetMachine, CompileError> {
    static INITIALIZED: OnceLock<()> = OnceLock::new();
    INITIALIZED.get_or_init(|| {
        let config = InitializationConfig { asm_parser: false, ..InitializationConfig::default() };
        Target::initialize_x86(&config);
        Target::initialize_aarch64(&config);
    });
    let triple = TargetTriple::create(isa.triple());
    let target = Target::from_triple(&triple).map_err(|e| CompileError::target(isa, e))?;
    target
        .create_target_machine(
            &triple,
            isa.cpu(),
            "",
            OptimizationLevel::Default,
            RelocMode::PIC,
            CodeModel::Small,
        )
        .ok_or_else(|| CompileError::target(isa, "LLVM has no target machine for it"))
}

/// An empty module for `machine`.
pub(crate) fn module<'c>(context: &'c Context, machine: &TargetMachine, name: &str) -> Module<'c> {
    let module = context.create_module(name);
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    module
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_runs_its_own_level_and_those_below() {
        let host = Isa::detect();
        assert!(host.is_supported());
        if host != Isa::Neon {
            assert!(Isa::V2.is_supported());
            assert!(!Isa::Neon.is_supported());
        }
    }

    #[test]
    fn every_level_has_a_target_machine() {
        for isa in Isa::ALL {
            let machine = machine(isa).unwrap();
            assert_eq!(machine.get_triple().as_str().to_str().unwrap(), isa.triple());
        }
    }
}
