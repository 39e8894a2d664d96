//! `cargo xtask bench`: limits, floors and what is compared with them, in one run.
//!
//! Fails when a result is wrong; never because something is slow.

use std::process::ExitCode;

use kiln_bench::buffer::Buffer;
use kiln_bench::contender::contender;
use kiln_bench::floors::Floor;
use kiln_bench::harness::{Budget, Subject, compare};
use kiln_bench::limits::{MultiplyAdd, Traffic, measure};
use kiln_bench::report::{Report, Row};
use kiln_bench::workload::{WORKLOADS, Workload};

const HELP: &str = "\
kiln-bench [OPTIONS]

  --only PREFIX      workloads whose name starts so; `limits` for the machine's limits alone
  --threads LIST     such as 1,2 (default: 1 and as many as there are cores)
  --seconds S        for each workload and number of threads (default 1)
  --json FILE        also write one JSON object a line";

struct Options {
    only: String,
    threads: Vec<usize>,
    seconds: f64,
    json: Option<String>,
}

fn options() -> Result<Options, String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if cores == 1 { vec![1] } else { vec![1, cores] };
    let mut options = Options { only: String::new(), threads, seconds: 1.0, json: None };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("`{name}` needs a value\n{HELP}"));
        match &*name {
            "--only" => options.only = value()?,
            "--threads" => options.threads = parse_threads(&value()?)?,
            "--seconds" => {
                let text = value()?;
                let seconds = text.parse().ok().filter(|s: &f64| (0.0..=3600.0).contains(s));
                options.seconds =
                    seconds.ok_or_else(|| format!("`{text}` is no time in seconds"))?;
            }
            "--json" => options.json = Some(value()?),
            _ => return Err(format!("`{name}` is not understood\n{HELP}")),
        }
    }
    Ok(options)
}

fn parse_threads(list: &str) -> Result<Vec<usize>, String> {
    let parse = |text: &str| match text.parse() {
        Ok(threads) if (1..=1024).contains(&threads) => Ok(threads),
        _ => Err(format!("`{text}` is no number of threads")),
    };
    list.split(',').map(parse).collect()
}

/// What does the least any program must do: move the bytes, or do the arithmetic.
fn limit<'a>(workload: &Workload, inputs: &'a [Buffer], threads: usize) -> Box<dyn Subject + 'a> {
    if workload.flops > 0 {
        return Box::new(MultiplyAdd::new(threads, workload.flops));
    }
    // Splitting a few elements costs more than moving them.
    let threads = if workload.bytes() < 4096 { 1 } else { threads };
    let inputs: Vec<&[f32]> = inputs.iter().map(|input| &**input).collect();
    // Where no input is as long as the result, as of rows that are read more than once, the
    // longest is copied: that moves no more than the program must.
    let longest = inputs.iter().map(|input| input.len()).max().unwrap_or(0);
    Box::new(Traffic::new(threads, &inputs, workload.output_elements().min(longest)))
}

fn run(workload: &'static Workload, options: &Options, report: &mut Report) -> bool {
    let inputs = workload.make_inputs();
    let mut all_right = true;
    for &threads in &options.threads {
        let mut subjects = vec![limit(workload, &inputs, threads)];
        let floor = Floor::new(workload, &inputs, threads);
        let has_floor = floor.is_some();
        subjects.extend(floor.map(|floor| Box::new(floor) as Box<dyn Subject>));
        subjects.extend(contender(workload, &inputs, threads));

        let checks: Vec<_> = subjects
            .iter_mut()
            .map(|subject| {
                subject.run();
                subject.output().map(|output| workload.check(&output))
            })
            .collect();
        let timings = compare(&mut subjects, Budget::seconds(options.seconds));
        let floor = has_floor.then(|| timings[1].ratio());
        for (at, (subject, check)) in subjects.iter().zip(checks).enumerate() {
            all_right &= !matches!(check, Some(Err(_)));
            let timing = &timings[at];
            let to_floor = floor.filter(|_| at >= 1).map(|floor| timing.ratio() / floor);
            let (workload, subject) = (workload.name, subject.name());
            report.row(&Row { workload, threads, subject, timing, to_floor, check });
        }
    }
    all_right
}

fn main() -> ExitCode {
    let prepared =
        options().and_then(|options| Ok((Report::new(options.json.as_deref())?, options)));
    let (mut report, options) = match prepared {
        Ok(prepared) => prepared,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    if "limits".starts_with(&options.only) {
        report.limits_header();
        measure(&options.threads, options.seconds, |limit| report.limit(limit));
        println!();
    }
    report.workloads_header();
    let mut all_right = true;
    for workload in WORKLOADS.iter().filter(|workload| workload.name.starts_with(&options.only)) {
        all_right &= run(workload, &options, &mut report);
    }
    if all_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
