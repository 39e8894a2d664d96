//! Random programs, as many as fit the time that CI gives (`KILN_FUZZ_SECONDS`), from a
//! seed that it chooses (`KILN_FUZZ_SEED`; the clock's without it).

use std::time::{Duration, Instant, SystemTime};

use kiln_fuzz::check::{Tally, check_seed, shrink_seed};

/// Programs that every run checks, whatever the time.
const FIXED: u64 = 60;

#[test]
fn random_programs_agree_in_every_way() {
    let seconds =
        std::env::var("KILN_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(20);
    let clock = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_nanos() as u64);
    let given = std::env::var("KILN_FUZZ_SEED").ok().and_then(|s| s.parse().ok());
    let fresh = given.unwrap_or(clock & 0xffff_ffff_0000);
    println!("fixed seeds 0..{FIXED}, then fresh from {fresh}");
    let start = Instant::now();
    let mut sum = Tally::default();
    let mut programs = 0;
    let mut failures = Vec::new();
    let mut fresh_seeds = fresh..;
    loop {
        let seed = match programs {
            n if n < FIXED => n,
            _ if start.elapsed() < Duration::from_secs(seconds) => fresh_seeds.next().unwrap_or(0),
            _ => break,
        };
        programs += 1;
        match check_seed(seed) {
            Ok(t) => {
                sum.nodes += t.nodes;
                sum.exact += t.exact;
                sum.rough += t.rough;
                sum.launches += t.launches;
            }
            Err(message) if failures.is_empty() => {
                let small = shrink_seed(seed, Duration::from_secs(60)).unwrap_or_else(|e| e);
                failures.push(format!("{message}\nsmall:\n{small}"));
            }
            Err(message) => failures.push(message),
        }
        assert!(failures.len() < 5, "{}", failures.join("\n\n"));
    }
    println!("{programs} programs, {sum:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(sum.exact > 0 && sum.rough > 0, "both kinds of outputs must occur");
    assert!(sum.launches < sum.nodes, "fusion must fuse");
}
