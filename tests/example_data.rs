//! The tests of the examples' data loader, which cargo would not run where it lies.

#[path = "../examples/support/fashion_mnist.rs"]
mod fashion_mnist;
