//! The device, and what crosses to it and back.
//!
//! Explicit transfers are those that the program spells out: `Tensor::from` host
//! data, `device_put`, `device_get`, `to_vec`. Feeding a host array to a call is
//! an implicit one. A number fed as an argument is no transfer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln_ir::{Literal, Type};

use crate::lazy::{self, Lazy};
use crate::tensor::Repr;
use crate::{Error, HostArray, Tensor, Tree};

/// An array on the device. Interim: a literal on the host.
#[derive(Clone, Debug)]
pub(crate) struct Array(Arc<Literal>);

/// Who asked for a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transfer {
    /// The program spells it out.
    Explicit,
    /// It follows from how a call was fed.
    Implicit,
}

impl Array {
    pub(crate) fn ty(&self) -> &Type {
        self.0.ty()
    }

    /// The same for all handles of one array, and for no two arrays at a time.
    pub(crate) fn id(&self) -> u64 {
        Arc::as_ptr(&self.0) as u64
    }

    pub(crate) fn block_until_ready(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// Transfers since the process began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transfers {
    /// To the device, spelled out by the program.
    pub to_device: Direction,
    /// To the device, because a call was fed with host data.
    pub to_device_implicit: Direction,
    /// From the device.
    pub from_device: Direction,
}

/// Transfers in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Direction {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

struct Counter {
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Counter {
    const fn new() -> Counter {
        Counter { count: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    fn add(&self, bytes: usize) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn read(&self) -> Direction {
        Direction {
            count: self.count.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

static TO_DEVICE: Counter = Counter::new();
static TO_DEVICE_IMPLICIT: Counter = Counter::new();
static FROM_DEVICE: Counter = Counter::new();

/// Transfers since the process began.
pub fn transfers() -> Transfers {
    Transfers {
        to_device: TO_DEVICE.read(),
        to_device_implicit: TO_DEVICE_IMPLICIT.read(),
        from_device: FROM_DEVICE.read(),
    }
}

pub(crate) fn put(literal: &Literal, transfer: Transfer) -> Result<Array, Error> {
    let counter = match transfer {
        Transfer::Explicit => &TO_DEVICE,
        Transfer::Implicit => &TO_DEVICE_IMPLICIT,
    };
    counter.add(literal.bytes().len());
    Ok(Array(Arc::new(literal.clone())))
}

pub(crate) fn get(array: &Array) -> Result<Literal, Error> {
    FROM_DEVICE.add(array.ty().bytes());
    peek(array)
}

/// The contents, for the interpreter, whose host memory is the device's.
pub(crate) fn peek(array: &Array) -> Result<Literal, Error> {
    Ok((*array.0).clone())
}

/// A result of the interpreter as an array.
pub(crate) fn adopt(literal: &Literal) -> Result<Array, Error> {
    Ok(Array(Arc::new(literal.clone())))
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
        Repr::Scalar(scalar) => match put(&Literal::scalar(*scalar), Transfer::Explicit) {
            Ok(array) => Tensor::array(array),
            Err(error) => {
                failure.get_or_insert(error);
                leaf.clone()
            }
        },
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
