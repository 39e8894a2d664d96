//! The device, and what crosses to it and back.
//!
//! Explicit transfers are those that the program spells out: `Tensor::from` host
//! data, `device_put`, `device_get`, `to_vec`. Feeding a host array to a call is
//! an implicit one. A number fed as an argument is no transfer.
//!
//! There is one device for now, the CPU, made when it is first needed.

use std::sync::{Arc, OnceLock};

use kiln_ir::Literal;
pub(crate) use kiln_runtime::{Array, Cause};
use kiln_runtime::{PoolStats, RunStats, TransferStats};

use crate::config::config;
use crate::lazy::{self, Lazy};
use crate::tensor::{HostData, Repr};
use crate::{DeviceErrorKind, Error, ErrorKind, HostArray, Tensor, Tree};

/// A device: where arrays live and programs run.
#[derive(Clone, Debug)]
pub struct Device(kiln_runtime::Device);

impl Device {
    /// The process's CPU device, with the threads and the pool that the environment
    /// asks for.
    ///
    /// # Errors
    /// If a switch is not understood, or the system refuses address space or a thread.
    pub fn cpu() -> Result<Device, Error> {
        device().cloned().map(Device)
    }

    /// Threads that run kernels.
    pub fn threads(&self) -> usize {
        self.0.threads()
    }

    /// Lets at most `threads` threads run kernels, from the next one on: at least one,
    /// and no more than `KILN_THREADS` or the machine's processors. Results do not
    /// depend on it.
    pub fn set_threads(&self, threads: usize) {
        self.0.set_threads(threads);
    }

    /// Waits until everything that was started has finished.
    pub fn synchronize(&self) {
        self.0.synchronize();
    }

    /// The pool: bytes reserved, in use, and in use at most so far.
    pub fn memory_stats(&self) -> PoolStats {
        self.0.memory_stats()
    }

    /// Transfers so far, by direction and by who asked for them.
    pub fn transfers(&self) -> TransferStats {
        self.0.transfers()
    }

    /// Programs run, kernels launched, and copies made so far.
    pub fn run_stats(&self) -> RunStats {
        self.0.run_stats()
    }
}

/// The device of this process.
pub(crate) fn device() -> Result<&'static kiln_runtime::Device, Error> {
    static DEVICE: OnceLock<Result<kiln_runtime::Device, Error>> = OnceLock::new();
    let device = DEVICE.get_or_init(|| {
        let (config, default) = (config()?, kiln_runtime::Config::default());
        let config = kiln_runtime::Config {
            threads: config.threads.unwrap_or(default.threads),
            capacity: config.pool_bytes.unwrap_or(default.capacity),
        };
        kiln_runtime::Device::cpu(config).map_err(|e| error(&e))
    });
    device.as_ref().map_err(Error::clone)
}

/// A failure of the runtime, as the user sees it.
pub(crate) fn error(error: &kiln_runtime::Error) -> Error {
    use kiln_runtime::Error as E;
    let kind = match error {
        E::OutOfMemory { .. } => ErrorKind::Device(DeviceErrorKind::OutOfMemory),
        E::Setup(_) => ErrorKind::Device(DeviceErrorKind::Unavailable),
        E::Load(_) => ErrorKind::Compile,
        E::ArgumentCount { .. }
        | E::ArgumentType { .. }
        | E::OtherDevice { .. }
        | E::HostBytes { .. }
        | E::Nested => ErrorKind::Internal,
    };
    Error::new(kind, error.to_string())
}

/// Transfers since the process began, by direction and by who asked for them.
pub fn transfers() -> TransferStats {
    device().map(|d| d.transfers()).unwrap_or_default()
}

/// The device's pool: bytes reserved, in use, and in use at most so far.
///
/// # Errors
/// If there is no device; see [`Device::cpu`].
pub fn memory_stats() -> Result<PoolStats, Error> {
    Ok(device()?.memory_stats())
}

/// Copies host data to the device.
pub(crate) fn put(data: &(impl HostData + ?Sized), cause: Cause) -> Result<Array, Error> {
    device()?.put_with(&data.ty(), cause, |bytes| data.write(bytes)).map_err(|e| error(&e))
}

/// Copies an array to the host: a transfer.
pub(crate) fn get(array: &Array) -> Result<Literal, Error> {
    array.to_literal().map_err(|e| error(&e))
}

/// The contents, for the interpreter, whose host memory is the device's: no
/// transfer.
pub(crate) fn peek(array: &Array) -> Result<Literal, Error> {
    let literal = array.with_bytes(|bytes| Literal::from_bytes(array.ty().clone(), bytes));
    literal.map_err(|e| error(&e))
}

/// Waits for the contents.
pub(crate) fn wait(array: &Array) -> Result<(), Error> {
    array.block_until_ready().map_err(|e| error(&e))
}

/// A result of the interpreter as an array: no transfer.
pub(crate) fn adopt(literal: &Literal) -> Result<Array, Error> {
    device()?.fill(literal.ty(), literal.bytes()).map_err(|e| error(&e))
}

/// The tree with every leaf on the device: expressions computed, numbers moved.
///
/// # Errors
/// If a leaf comes from a mistake, is being traced, or its computation fails.
#[track_caller]
pub fn device_put<T: Tree>(tree: T) -> Result<T, Error> {
    block_until_ready(&tree)?;
    let mut failure = None;
    let put = tree.map(&mut |leaf| match leaf.repr() {
        Repr::Lazy(lazy) => match lazy.ready() {
            Some(array) => Tensor::array(array),
            None => leaf.clone(),
        },
        Repr::Scalar(scalar) => {
            match put(&HostArray::from_literal(Literal::scalar(*scalar)), Cause::Explicit) {
                Ok(array) => Tensor::array(array),
                Err(error) => {
                    failure.get_or_insert(error);
                    leaf.clone()
                }
            }
        }
        _ => leaf.clone(),
    });
    failure.map_or(Ok(put), Err)
}

/// The leaves of the tree on the host, in order.
///
/// # Errors
/// If a leaf comes from a mistake, is being traced, or its computation fails.
#[track_caller]
pub fn device_get<T: Tree>(tree: &T) -> Result<Vec<HostArray>, Error> {
    block_until_ready(tree)?;
    tree.leaves().into_iter().map(Tensor::to_host).collect()
}

/// Waits until every leaf of the tree has its value; expressions are computed in
/// one run.
///
/// # Errors
/// If a leaf comes from a mistake, is being traced, or its computation fails.
#[track_caller]
pub fn block_until_ready<T: Tree>(tree: &T) -> Result<(), Error> {
    let leaves = tree.leaves();
    let pending: Vec<Arc<Lazy>> = leaves
        .iter()
        .filter_map(|leaf| match leaf.repr() {
            Repr::Lazy(lazy) if lazy.ready().is_none() => Some(lazy.clone()),
            _ => None,
        })
        .collect();
    if !pending.is_empty() {
        lazy::evaluate(&pending)?;
    }
    leaves.into_iter().try_for_each(|leaf| leaf.block_until_ready().map(drop))
}
