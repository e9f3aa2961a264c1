use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
};

use model::Lane;

use crate::{
    MINUTES,
    prices::Prices,
    stack::{Count, Counts},
    template::{self, Declared},
    times::Times,
};

/// Ports that call SQS, and those that call S3.
const SENDS: &[&str] = &["send"];
const PUTS: &[&str] = &["archive"];
/// Requests to SQS per wake: send, receive and delete.
const REQUESTS_OF_WAKE: f64 = 3.0;

/// Monthly bill, line by line.
pub(crate) struct Bill<'a> {
    prices: &'a Prices,
    times: &'a Times,
    /// Per item: amount, unit and dollars.
    lines: BTreeMap<&'static str, (f64, &'static str, f64)>,
}

impl<'a> Bill<'a> {
    pub(crate) fn new(prices: &'a Prices, times: &'a Times) -> Self {
        Self {
            prices,
            times,
            lines: BTreeMap::new(),
        }
    }

    fn add(&mut self, what: &'static str, unit: &'static str, amount: f64, price: f64) {
        let line = self.lines.entry(what).or_insert((0.0, unit, 0.0));
        line.0 += amount;
        line.2 += amount * price;
    }

    pub(crate) fn hours(&mut self, hour: &Counts, times: f64) {
        for (lane, count) in hour {
            self.turns(*lane, count, times);
        }
    }

    /// Subtracts the cost of the stack without this cluster.
    pub(crate) fn subtract_hours(&mut self, hour: &Counts, times: f64) {
        self.hours(hour, -times);
    }

    /// Adds the counts of a lane, `times` times.
    pub(crate) fn turns(&mut self, lane: Lane, count: &Count, times: f64) {
        let prices = self.prices;
        let invocations = count.invocations as f64 * times;
        let assumed = &prices.assumed;
        let waits = self.times.waits(lane) * assumed.call_milliseconds * invocations;
        let computes = match self.times.computes(lane) {
            Some(time) => time.as_secs_f64() * 1e3 * invocations,
            None => count.took.as_secs_f64() * 1e3 * times,
        };
        let overhead = assumed.overhead_milliseconds * invocations;
        let seconds = (waits + computes + overhead) / 1e3;
        let lambda = &prices.lambda;
        let gigabytes = template::gigabytes(lane);
        self.add(
            "Lambda: time",
            "GB-s",
            seconds * gigabytes,
            lambda.gb_second,
        );
        self.add("Lambda: requests", "", invocations, lambda.request);
        let units = &count.units;
        let dynamodb = &prices.dynamodb;
        let (reads, writes) = (units.reads as f64 * times, units.writes as f64 * times);
        self.add("ledger: reads", "units", reads, dynamodb.read_unit);
        self.add("ledger: writes", "units", writes, dynamodb.write_unit);
        let sends = count.calls(SENDS) as f64 * times;
        let received = if lane == Lane::Housekeeper {
            let price = prices.scheduler.invocation;
            self.add("Scheduler", "", invocations, price);
            sends
        } else {
            sends + invocations * REQUESTS_OF_WAKE
        };
        self.add("SQS: wakes", "requests", received, prices.sqs.request);
        let puts = count.calls(PUTS) as f64 * times;
        self.add("S3: snapshots", "puts", puts, prices.s3.put);
        let logs = assumed.log_bytes * invocations / 1e9;
        self.add("logs", "GB", logs, prices.cloudwatch.log_gigabyte);
    }

    /// Adds heartbeats of a relay.
    pub(crate) fn heartbeats(&mut self, count: f64) {
        let price = self.prices.dynamodb.write_unit;
        self.add("ledger: heartbeats", "units", count, price);
    }

    /// Adds metric series that turns published, as if they did so in every hour.
    pub(crate) fn metrics(&mut self, names: &BTreeSet<&str>) {
        let price = self.prices.cloudwatch.metric;
        self.add("metrics", "", names.len() as f64, price);
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().copied().collect();
            println!("metrics of the next: {}", names.join(", "));
        }
    }

    /// Adds resources that cost money whether they are used or not.
    pub(crate) fn fixed(&mut self, declared: &Declared) {
        let watch = &self.prices.cloudwatch;
        let dashboards = declared.dashboards.saturating_sub(watch.free_dashboards);
        let (alarms, dashboards) = (declared.alarms as f64, dashboards as f64);
        let polls = declared.mappings as f64 * self.prices.assumed.idle_receives_per_minute;
        let polls = polls * MINUTES;
        let (alarm, dashboard) = (watch.alarm, watch.dashboard);
        self.add("alarms", "", alarms, alarm);
        self.add("dashboards", "", dashboards, dashboard);
        self.add(
            "SQS: idle polls",
            "requests",
            polls,
            self.prices.sqs.request,
        );
    }

    /// Prints the bill; returns the sum.
    pub(crate) fn print(&self, what: &str) -> f64 {
        let sum: f64 = self.lines.values().map(|(_, _, dollars)| dollars).sum();
        println!("{what}: ${sum:.2}");
        for (line, (amount, unit, dollars)) in &self.lines {
            let amount = match *amount {
                amount if amount >= 1e6 => format!("{:.2} M", amount / 1e6),
                amount if amount >= 1e3 => format!("{:.1} k", amount / 1e3),
                amount => format!("{amount:.1}"),
            };
            let amount = format!("{amount} {unit}");
            println!("    {line:<20} {amount:>20}   ${dollars:.3}");
        }
        sum
    }
}

/// Goals of the bench, and which of them were missed.
#[derive(Default)]
pub(crate) struct Goals {
    missed: Vec<String>,
}

impl Goals {
    pub(crate) fn below(&mut self, what: &str, dollars: f64, goal: f64) {
        if dollars >= goal {
            self.missed
                .push(format!("{what} ${dollars:.2} of ${goal:.0}"));
        }
    }

    pub(crate) fn at_most(&mut self, what: &str, found: usize, goal: usize) {
        if found > goal {
            self.missed.push(format!("{what} {found} of {goal}"));
        }
    }

    pub(crate) fn print(&self) -> ExitCode {
        match self.missed.as_slice() {
            [] => {
                println!("every goal is reached");
                ExitCode::SUCCESS
            }
            missed => {
                println!("missed: {}", missed.join("; "));
                ExitCode::FAILURE
            }
        }
    }
}
