//! Measurement of time and peak memory, as the system counts them.

use std::time::{Duration, Instant};

#[cfg(unix)]
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

/// Wall time and CPU time of one piece of work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    wall: Duration,
    cpu: Duration,
}

impl Span {
    pub(crate) fn of<T>(work: impl FnOnce() -> T) -> (T, Self) {
        let (start, cpu) = (Instant::now(), cpu_time());
        let result = work();
        let span = Self {
            wall: start.elapsed(),
            cpu: cpu_time().saturating_sub(cpu),
        };
        (result, span)
    }
}

/// Milliseconds, and the peak memory of the whole process.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Times {
    solve: f64,
    plan: f64,
    solve_cpu: f64,
    plan_cpu: f64,
    #[serde(rename = "peakRssMiB")]
    peak_rss_mib: u64,
}

impl Times {
    pub(crate) fn new(solve: &Span, plan: &Span) -> Self {
        Self {
            solve: milliseconds(solve.wall),
            plan: milliseconds(plan.wall),
            solve_cpu: milliseconds(solve.cpu),
            plan_cpu: milliseconds(plan.cpu),
            peak_rss_mib: peak_rss_mib(),
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// CPU time of this thread. Planning uses no other.
#[cfg(unix)]
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.try_into().unwrap_or_default()
}

/// Zero: only Unix has this clock.
#[cfg(not(unix))]
fn cpu_time() -> Duration {
    Duration::ZERO
}

/// Peak memory of the process; zero if the system does not report it.
fn peak_rss_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
