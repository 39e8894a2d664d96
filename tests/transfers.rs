//! Transfers are counted by who asked for them. One test, since the counters are
//! the process's.

// A borrowed argument is kept and a moved one given up: the `&` matters.
#![allow(clippy::needless_borrows_for_generic_args)]

use kiln::prelude::*;
use kiln::{TransferStats, transfers};

fn during(f: impl FnOnce()) -> [(u64, u64); 3] {
    let before = transfers();
    f();
    let TransferStats { host_to_device, implicit_host_to_device, device_to_host } = transfers();
    [
        (host_to_device, before.host_to_device),
        (implicit_host_to_device, before.implicit_host_to_device),
        (device_to_host, before.device_to_host),
    ]
    .map(|(now, then)| (now.count - then.count, now.bytes - then.bytes))
}

#[test]
fn transfers_are_counted_by_who_asked() {
    let mut x = Tensor::default();
    assert_eq!(during(|| x = Tensor::from([1.0f32, 2.0])), [(1, 8), (0, 0), (0, 0)]);
    let step = jit(|x: Tensor, y: Tensor, lr: Tensor| (x * &y + lr, y.sum(..)));
    assert_eq!(
        during(|| {
            let y = Tensor::ones([2], F32);
            // Compiling, running, numbers and lazy arguments transfer nothing.
            step.update(&mut x, &y, 0.5).unwrap();
            step.update(&mut x, &y, 0.25).unwrap();
        }),
        [(0, 0); 3]
    );
    let counts = during(|| {
        step.update(&mut x, [3.0f32, 4.0], 0.25).unwrap();
    });
    assert_eq!(counts, [(0, 0), (1, 8), (0, 0)], "a host array fed to a call");
    assert_eq!(during(|| drop(x.to_vec::<f32>())), [(0, 0), (0, 0), (1, 8)]);

    let tree = (Tensor::from(1.0f32), &x * 2.0, x.clone());
    let mut put = None;
    assert_eq!(during(|| put = Some(device_put(tree).unwrap())), [(1, 4), (0, 0), (0, 0)]);
    let put = put.unwrap();
    assert_eq!(format!("{:?}", put.1), "Tensor(f32[2])");
    let hosts = device_get(&put).unwrap();
    assert_eq!(hosts[1].to_vec::<f32>().unwrap(), (x * 2.0).to_vec::<f32>().unwrap());
    assert!(device_put(x_like_mistake()).is_err());
}

fn x_like_mistake() -> Tensor {
    Tensor::from([1.0f32]).reshape([7])
}
