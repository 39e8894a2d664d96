//! The table: what was measured, as a person reads it, and as lines of JSON for programs.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::harness::Timing;
use crate::limits::Limit;

/// Prints rows and appends them to a file if one was given.
pub struct Report {
    json: Option<std::fs::File>,
}

/// One subject on one workload.
pub struct Row<'a> {
    /// The workload's name.
    pub workload: &'a str,
    /// How many threads computed.
    pub threads: usize,
    /// The subject's name.
    pub subject: &'a str,
    /// Its times; the ratio in it is to the limit.
    pub timing: &'a Timing,
    /// Its time over the floor's, where there is a floor.
    pub to_floor: Option<f64>,
    /// Whether its result is right; `None` if it has none.
    pub check: Option<Result<(), String>>,
}

impl Report {
    /// A report on standard output, and in `json` one line per row.
    pub fn new(json: Option<&str>) -> Result<Self, String> {
        let open = |path: &str| {
            let file = std::fs::File::create(path);
            file.map_err(|error| format!("{path}: {error}"))
        };
        Ok(Report { json: json.map(open).transpose()? })
    }

    /// The header over rows of limits.
    pub fn limits_header(&self) {
        println!("{:<18} {:>7} {:>10} {:>16}", "limit", "threads", "array MiB", "per second");
    }

    /// One limit of the machine.
    pub fn limit(&mut self, limit: &Limit) {
        let Limit { name, array_bytes, threads, per_second } = limit;
        let billions = per_second / 1e9;
        let (size, amount) = if *array_bytes == 0 {
            ("-".into(), format!("{billions:.1} GFLOP/s"))
        } else {
            let mebibytes = *array_bytes as f64 / f64::from(1 << 20);
            (format!("{mebibytes:.2}"), format!("{billions:.1} GB/s"))
        };
        println!("{name:<18} {threads:>7} {size:>10} {amount:>16}");
        self.write_json(&format!(
            "{{\"limit\":\"{name}\",\"threads\":{threads},\"array_bytes\":{array_bytes},\
             \"per_second\":{per_second:.0}}}"
        ));
    }

    /// The header over rows of workloads.
    pub fn workloads_header(&self) {
        println!(
            "{:<14} {:>7}  {:<12} {:>12} {:>12} {:>7} {:>8}  result",
            "workload", "threads", "subject", "median", "least", "÷limit", "÷floor"
        );
    }

    /// One subject on one workload.
    pub fn row(&mut self, row: &Row) {
        let ratio = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
        let (check, right) = match &row.check {
            None => ("-".into(), "null"),
            Some(Ok(())) => ("right".into(), "true"),
            Some(Err(wrong)) => (format!("WRONG: {wrong}"), "false"),
        };
        let to_limit = Some(row.timing.ratio());
        println!(
            "{:<14} {:>7}  {:<12} {:>12} {:>12} {:>7} {:>8}  {check}",
            row.workload,
            row.threads,
            row.subject,
            duration(row.timing.median),
            duration(row.timing.least),
            ratio(to_limit),
            ratio(row.to_floor),
        );
        let number = |x: Option<f64>| x.map_or("null".into(), |x| format!("{x:.4}"));
        self.write_json(&format!(
            "{{\"workload\":\"{}\",\"threads\":{},\"subject\":\"{}\",\"median_ns\":{:.2},\
             \"least_ns\":{:.2},\"rounds\":{},\"to_limit\":{},\"to_floor\":{},\"right\":{right}}}",
            row.workload,
            row.threads,
            row.subject,
            row.timing.median * 1e9,
            row.timing.least * 1e9,
            row.timing.rounds,
            number(to_limit),
            number(row.to_floor),
        ));
    }

    fn write_json(&mut self, line: &str) {
        if let Some(file) = &mut self.json
            && let Err(error) = writeln!(file, "{line}")
        {
            eprintln!("cannot write the JSON lines: {error}");
            self.json = None;
        }
    }
}

/// Three significant digits in a unit that suits.
fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 1e-6 => (s * 1e9, "ns"),
        s if s < 1e-3 => (s * 1e6, "µs"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    let mut text = String::new();
    let _ = write!(text, "{value:.digits$} {unit}");
    text
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_three_digits() {
        assert_eq!(duration(3e-9), "3.00 ns");
        assert_eq!(duration(18.4e-6), "18.4 µs");
        assert_eq!(duration(5.91e-3), "5.91 ms");
        assert_eq!(duration(0.123_456), "123 ms");
        assert_eq!(duration(2.0), "2.00 s");
    }
}
