//! Many threads at once: the same results, and no program compiled twice.

use std::sync::atomic::{AtomicUsize, Ordering};

use kiln::prelude::*;

#[test]
fn calls_from_many_threads() {
    static TRACES: AtomicUsize = AtomicUsize::new(0);
    let f = jit(|x: Tensor, n: Static<usize>| {
        TRACES.fetch_add(1, Ordering::Relaxed);
        (0..*n).fold(x.clone(), |acc, _| acc + &x)
    });
    std::thread::scope(|s| {
        for thread in 0..8usize {
            let f = &f;
            s.spawn(move || {
                for i in 0..100usize {
                    let (x, n) = ((thread * 100 + i) as f32, i % 5);
                    let y = f.call([x; 3], Static(n)).unwrap();
                    assert_eq!(y.to_vec::<f32>().unwrap(), [x * (n + 1) as f32; 3]);
                }
            });
        }
    });
    assert_eq!((TRACES.load(Ordering::Relaxed), f.compile_count()), (5, 5));
}

#[test]
fn a_tensor_made_on_one_thread_is_used_on_another() {
    let x = Tensor::from([1.0f32, 2.0]) * 2.0;
    let y = std::thread::spawn(move || (&x + 1.0, x)).join().unwrap();
    assert_eq!(y.0.to_vec::<f32>().unwrap(), [3.0, 5.0]);
    let dropped = std::thread::spawn(move || drop(y));
    dropped.join().unwrap();
}
