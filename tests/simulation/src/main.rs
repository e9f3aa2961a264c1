//! `make sim`: runs seeds one after the other, and explains the first that breaks a law.

use std::{ops::Range, time::Instant};

use anyhow::bail;
use clap::Parser;
use simulation::{Bug, RunSummary, run, shrink};

/// The functions' allocator; a third of a seed's run time is allocation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Run seeds of the simulation.
#[derive(Parser)]
struct Options {
    /// Number of seeds to run
    #[arg(long, env = "SEEDS", default_value_t = 1000)]
    seeds: u64,
    /// First seed
    #[arg(long, env = "SIM_FIRST", default_value_t = 0)]
    first: u64,
    /// Run only this seed
    #[arg(long, env = "SIM_SEED")]
    seed: Option<u64>,
    /// Commit under test, printed with failures
    #[arg(long, env = "SIM_COMMIT", default_value = "unknown")]
    commit: String,
    /// Report for every planted bug which seeds find it
    #[arg(long)]
    planted: bool,
    /// Plant only bugs whose names contain this
    #[arg(long, default_value = "")]
    bug: String,
    /// Continue after a failure
    #[arg(long, env = "SIM_ALL")]
    all: bool,
}

#[expect(clippy::print_stdout, reason = "a command line")]
fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let seeds = match options.seed {
        Some(seed) => seed..seed + 1,
        None => options.first..options.first + options.seeds,
    };
    if options.planted {
        planted(&options.bug, seeds);
        return Ok(());
    }
    let started_at = Instant::now();
    let (mut count, mut failed, mut sum) = (0_u64, 0_u64, RunSummary::default());
    for seed in seeds {
        count += 1;
        match run(seed, None) {
            Ok(played) => {
                sum.turns += played.turns;
                sum.calls += played.calls;
                sum.seconds += played.seconds;
                sum.launched += played.launched;
            }
            Err(failure) => {
                failed += 1;
                println!(
                    "seed {seed}: {} ({})",
                    failure.broken.law, failure.broken.what
                );
                if !options.all {
                    let failure = shrink(failure, None);
                    println!("{failure}");
                    println!(
                        "commit {}; again with: SIM_SEED={seed} make sim",
                        options.commit
                    );
                    bail!("seed {seed} broke a law");
                }
            }
        }
    }
    let took = started_at.elapsed();
    let per_second = count
        .saturating_mul(1000)
        .checked_div(u64::try_from(took.as_millis())?)
        .unwrap_or(0);
    println!(
        "{count} seeds, {failed} failures, {took:.0?}, {per_second} seeds/s: {} turns, {} calls, {} instances, {} virtual hours",
        sum.turns,
        sum.calls,
        sum.launched,
        sum.seconds / 3600
    );
    if failed > 0 {
        bail!("{failed} seeds broke a law");
    }
    Ok(())
}

/// Prints for each planted bug the first seed that finds it, and how many seeds do. A higher number means that finding it depends
/// less on luck.
#[expect(clippy::print_stdout, reason = "a command line")]
fn planted(name: &str, seeds: Range<u64>) {
    let is_selected = |bug: &&Bug| format!("{bug:?}").contains(name);
    for &bug in Bug::ALL.iter().filter(is_selected) {
        let found = seeds.clone();
        let found: Vec<_> = found
            .filter_map(|seed| Some((seed, run(seed, Some(bug)).err()?)))
            .collect();
        let count = found.len();
        match found.first() {
            Some((seed, failure)) => {
                let broken = &failure.broken;
                println!(
                    "{bug:?}: {count} of {} seeds, the first is {seed}: {} ({})",
                    seeds.end - seeds.start,
                    broken.law,
                    broken.what
                );
            }
            None => println!("{bug:?}: not found"),
        }
    }
}
