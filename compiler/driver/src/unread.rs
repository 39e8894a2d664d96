//! Which results a program writes and never reads.
//!
//! Code generation writes large ones past the caches. It is a hint: nothing is wrong
//! with a result that is read after all.

use hashbrown::HashSet;
use kiln_codegen::kernel::Kernel;
use kiln_plan::{Action, BufferId, Plan};

use crate::memory::Layout;

/// For each argument of each kernel, whether no launch's buffer there is ever read.
pub(crate) fn unread(
    layout: &Layout,
    plan: &Plan,
    kernels: &[Kernel],
    kernel_of: &[Vec<usize>],
) -> Vec<Vec<bool>> {
    let launches = layout.launches.iter().flatten();
    let launches: Vec<(usize, &[BufferId])> =
        launches.map(|l| (kernel_of[l.group][l.launch], &l.arguments[..])).collect();
    let mut read: HashSet<usize> = HashSet::new();
    for &(kernel, buffers) in &launches {
        let arguments = kernels[kernel].arguments.iter().zip(buffers);
        read.extend(arguments.filter(|(a, _)| a.reads).map(|(_, b)| b.0));
    }
    for action in &plan.actions {
        if let Action::Copy { from, .. } = action {
            read.insert(from.0);
        }
    }
    let mut unread: Vec<Vec<bool>> =
        kernels.iter().map(|k| k.arguments.iter().map(|a| a.writes).collect()).collect();
    for (kernel, buffers) in launches {
        for (unread, buffer) in unread[kernel].iter_mut().zip(buffers) {
            *unread &= !read.contains(&buffer.0);
        }
    }
    unread
}
