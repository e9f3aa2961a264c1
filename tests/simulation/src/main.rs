//! `make sim`: runs seeds one after the other, and explains the first that breaks a law.

use std::{ops::Range, time::Instant};

use anyhow::bail;
use clap::Parser;
use simulation::{Bug, Played, run, shrink};

/// As the functions allocate; a third of what a seed takes is spent on that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs seeds of the simulation.
#[derive(Parser)]
struct Options {
    /// How many seeds to run.
    #[arg(long, env = "SEEDS", default_value_t = 1000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, env = "SIM_FIRST", default_value_t = 0)]
    first: u64,
    /// Runs this one alone.
    #[arg(long, env = "SIM_SEED")]
    seed: Option<u64>,
    /// The commit that is run, to be printed with what fails.
    #[arg(long, env = "SIM_COMMIT", default_value = "unknown")]
    commit: String,
    /// Says for every planted bug which of the seeds find it.
    #[arg(long)]
    planted: bool,
    /// Plants only the bugs whose names contain this.
    #[arg(long, default_value = "")]
    bug: String,
    /// Goes on after a failure.
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
    let begun = Instant::now();
    let (mut count, mut failed, mut sum) = (0_u64, 0_u64, Played::default());
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
    let took = begun.elapsed();
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

/// Which seed finds each planted bug first, and how many of them do: more, if there is little luck in it.
#[expect(clippy::print_stdout, reason = "a command line")]
fn planted(name: &str, seeds: Range<u64>) {
    let is_meant = |bug: &&Bug| format!("{bug:?}").contains(name);
    for &bug in Bug::ALL.iter().filter(is_meant) {
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
