//! Trains a softmax classifier on Fashion-MNIST, in one jitted step.
//!
//! ```text
//! cargo run --release --example fashion_mnist -- --data FOLDER [--epochs N] [--dump FOLDER]
//! ```
//!
//! The gradient is written by hand: that of the mean cross-entropy with respect to
//! the logits is `(softmax(logits) − one_hot(labels)) / batch`. The step's state is
//! donated, so that training allocates nothing; the batch is all that is
//! transferred. Ends with the accuracy on the test images, and fails below 82 %.

use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kiln::prelude::*;
use kiln::{Stage, transfers};

#[path = "support/fashion_mnist.rs"]
mod data;

use data::{CLASSES, FashionMnist, PIXELS, Split};

const BATCH: usize = 256;
/// What a linear classifier on these images reaches with room to spare.
const WANTED_ACCURACY: f64 = 0.82;

/// A linear map from pixels to a score for each kind, and its momentum.
#[derive(Tree)]
struct Model {
    w: Tensor,
    b: Tensor,
    w_momentum: Tensor,
    b_momentum: Tensor,
}

impl Model {
    fn new() -> kiln::Result<Model> {
        let zeros = |shape: &[usize]| Tensor::zeros(shape, F32);
        device_put(Model {
            w: zeros(&[PIXELS, CLASSES]),
            b: zeros(&[CLASSES]),
            w_momentum: zeros(&[PIXELS, CLASSES]),
            b_momentum: zeros(&[CLASSES]),
        })
    }

    fn logits(&self, x: &Tensor) -> Tensor {
        x.dot(&self.w) + &self.b
    }
}

/// One step of gradient descent with momentum. Returns the model and the loss.
fn step(model: Model, x: Tensor, labels: Tensor, rate: Tensor) -> (Model, Tensor) {
    let log_p = model.logits(&x).log_softmax(-1);
    let truth = labels.one_hot(CLASSES, F32);
    let loss = -(&log_p * &truth).sum(-1).mean(..);

    let d_logits = (log_p.exp() - truth) / BATCH;
    let dw = x.t().dot(&d_logits);
    let db = d_logits.sum(0);

    let w_momentum = model.w_momentum * 0.9 + dw;
    let b_momentum = model.b_momentum * 0.9 + db;
    let w = model.w - &rate * &w_momentum;
    let b = model.b - &rate * &b_momentum;
    (Model { w, b, w_momentum, b_momentum }, loss)
}

/// How many of the images are classified rightly.
fn correct(model: Model, x: Tensor, labels: Tensor) -> Tensor {
    model.logits(&x).argmax(-1).eq(labels).astype(I32).sum(..)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let FashionMnist { train, test } = FashionMnist::load(&options.data)?;
    println!("{} images to learn from, {} to be tested on", train.len(), test.len());

    let step = jit(step);
    let mut model = Model::new()?;
    let start = Instant::now();
    for epoch in 0..options.epochs {
        let loss = train_epoch(&step, &mut model, &train, epoch, options.epochs)?;
        println!("epoch {}: loss {loss:.4}", epoch + 1);
    }
    let seconds = start.elapsed().as_secs_f64();

    let accuracy = accuracy(&model, &test)?;
    println!("test accuracy {:.2} % after {seconds:.2} s of training", accuracy * 100.0);
    report(&step, &mut model, &train)?;
    if let Some(folder) = &options.dump {
        dump(&step, folder)?;
    }
    if accuracy < WANTED_ACCURACY {
        return Err(format!("the accuracy is below {:.0} %", WANTED_ACCURACY * 100.0).into());
    }
    Ok(())
}

type Step = Jit<(Model, Tensor, Tensor, Tensor), (Model, Tensor)>;

/// Goes over the images once, in an order of the epoch's own. Returns the mean loss.
fn train_epoch(
    step: &Step,
    model: &mut Model,
    train: &Split,
    epoch: usize,
    epochs: usize,
) -> kiln::Result<f32> {
    let batches = train.len() / BATCH;
    let rate = 0.1 * (1.0 - epoch as f32 / epochs as f32);
    let mut losses = Vec::with_capacity(batches);
    let mut bar = Bar::new(epoch, batches);
    for batch in 0..batches {
        let (x, labels) = read_batch(train, epoch, batch);
        losses.push(step.update(model, &x, &labels, rate)?);
        bar.show(batch + 1);
    }
    bar.clear();
    // One look at the end instead of one for each step: the device never waits.
    let total: kiln::Result<f32> = losses.iter().map(|loss| loss.item::<f32>()).sum();
    Ok(total? / batches as f32)
}

/// The images of a batch, chosen by a walk with a stride that shares no factor with
/// their number, and thus visits each once.
fn read_batch(split: &Split, epoch: usize, batch: usize) -> (Tensor, Tensor) {
    const STRIDES: [usize; 4] = [7919, 104_729, 15_485_863, 32_452_843];
    let stride = STRIDES[epoch % STRIDES.len()];
    let chosen = |i: usize| (batch * BATCH + i) * stride % split.len();
    let pixels = split.pixels((0..BATCH).map(chosen));
    let labels = split.labels((0..BATCH).map(chosen));
    (Tensor::from_vec(pixels, [BATCH, PIXELS]), Tensor::from_vec(labels, [BATCH]))
}

fn accuracy(model: &Model, test: &Split) -> kiln::Result<f64> {
    let correct = jit(correct);
    let n = test.len();
    let x = Tensor::from_vec(test.pixels(0..n), [n, PIXELS]);
    let labels = Tensor::from_vec(test.labels(0..n), [n]);
    Ok(correct.call(model, &x, &labels)?.item::<i32>()? as f64 / n as f64)
}

/// The system's allocator, counted: a step is to need it not once.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: passes every call on to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as promised to us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as promised to us.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What one step costs, as known before it runs and as counted while it does.
fn report(step: &Step, model: &mut Model, train: &Split) -> kiln::Result<()> {
    let before = transfers();
    let (x, labels) = read_batch(train, 0, 0);
    let allocations = ALLOCATIONS.load(Ordering::Relaxed);
    step.update(model, &x, &labels, 0.0)?.block_until_ready()?;
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
    let after = transfers();
    let sent = after.host_to_device.bytes - before.host_to_device.bytes;
    let implicit = after.implicit_host_to_device.count - before.implicit_host_to_device.count;
    let fetched = after.device_to_host.count - before.device_to_host.count;

    let programs = step.programs();
    let program = programs.last().expect("the step has been called");
    let (work, memory) = (program.work(), program.memory());
    println!("one step:");
    println!("  kernels       {} launches, {} copies", work.launches, work.copies);
    println!("  allocations   {allocations}");
    println!(
        "  transfers     {sent} bytes to the device: the batch; {implicit} implicit, {fetched} back"
    );
    println!(
        "  memory        {} bytes at the peak, {} of them temporaries (lower bound {})",
        memory.peak(),
        memory.arena,
        memory.arena_lower_bound
    );
    println!(
        "  traffic       {} bytes read, {} written, {} operations",
        work.traffic.read, work.traffic.written, work.traffic.flops
    );
    Ok(())
}

/// Writes every stage of the step that there is.
fn dump(step: &Step, folder: &std::path::Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("step.explain"), step.explain())?;
    for stage in Stage::ALL {
        if let Ok(text) = step.dump(stage) {
            std::fs::write(folder.join(format!("step.{}", stage.name())), text)?;
        }
    }
    println!("the step's stages are in {}", folder.display());
    Ok(())
}

/// A progress bar, on terminals only.
struct Bar {
    epoch: usize,
    of: usize,
    shown: usize,
    terminal: bool,
}

impl Bar {
    const WIDTH: usize = 40;

    fn new(epoch: usize, of: usize) -> Bar {
        Bar { epoch, of, shown: usize::MAX, terminal: std::io::stdout().is_terminal() }
    }

    fn show(&mut self, done: usize) {
        let filled = done * Bar::WIDTH / self.of;
        if self.terminal && filled != self.shown {
            self.shown = filled;
            let (full, empty) = ("█".repeat(filled), "░".repeat(Bar::WIDTH - filled));
            print!("\repoch {} {full}{empty} {done}/{}", self.epoch + 1, self.of);
            _ = std::io::stdout().flush();
        }
    }

    fn clear(&self) {
        if self.terminal {
            print!("\r{:1$}\r", "", Bar::WIDTH + 30);
        }
    }
}

struct Options {
    data: PathBuf,
    epochs: usize,
    dump: Option<PathBuf>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
        let (mut data, mut epochs, mut dump) = (None, 5, None);
        while let Some(name) = args.next() {
            let mut value = || args.next().ok_or(format!("`{name}` wants a value"));
            match name.as_str() {
                "--data" => data = Some(value()?.into()),
                "--epochs" => {
                    let text = value()?;
                    epochs =
                        text.parse().map_err(|_| format!("`{text}` is no number of epochs"))?;
                }
                "--dump" => dump = Some(value()?.into()),
                _ => return Err(format!("`{name}` is unknown; see the top of the example")),
            }
        }
        let data = data.ok_or("`--data FOLDER` is missing: the folder with the four IDX files")?;
        Ok(Options { data, epochs, dump })
    }
}
