//! Table of the figures of all sizes, and the goals for the largest.

use std::fmt;

use model::Lane;

use super::{Rung, subject::Measured};

/// Goals for a cluster of 5,000 nodes and 50,000 pods.
pub(crate) struct Goals {
    nodes: usize,
    /// Time from the wake to the first CreateFleet call, in milliseconds, with pods published by the relay, and with listed pods.
    launch_by_view: u64,
    launch_by_lists: u64,
    lifecycle: u64,
    /// Time until 15,000 pods that became pending at once are all planned.
    flood: u64,
    /// Memory in MiB, of any function except disruption.
    memory: u64,
    disruption_memory: u64,
    server_memory: u64,
}

impl Goals {
    pub(crate) const AT_5000: Self = Self {
        nodes: 5_000,
        launch_by_view: 2_000,
        launch_by_lists: 8_000,
        lifecycle: 1_000,
        flood: 10_000,
        memory: 512,
        disruption_memory: 1_536,
        server_memory: 2_048,
    };
}

/// Activity in the cluster while turns are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Quiet,
    /// Many pods become pending at once.
    Wave,
    /// The maximum number of pods becomes pending at once.
    Flood,
}

impl What {
    /// Number of pods that become pending.
    pub(crate) fn pods(self) -> usize {
        match self {
            Self::Quiet => 0,
            Self::Wave => 1_000,
            Self::Flood => 15_000,
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quiet => f.pad("quiet"),
            Self::Wave | Self::Flood => f.pad(&format!("{} pods wait", self.pods())),
        }
    }
}

pub(crate) struct Table {
    rows: Vec<Row>,
    servers: Vec<(usize, u64)>,
}

struct Row {
    nodes: usize,
    lane: Lane,
    rung: Rung,
    what: What,
    measured: Measured,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self {
            rows: Vec::new(),
            servers: Vec::new(),
        }
    }

    pub(crate) fn add(
        &mut self,
        nodes: usize,
        lane: Lane,
        rung: Rung,
        what: What,
        measured: Measured,
    ) {
        self.rows.push(Row {
            nodes,
            lane,
            rung,
            what,
            measured,
        });
    }

    pub(crate) fn server(&mut self, nodes: usize, mebibytes: u64) {
        self.servers.push((nodes, mebibytes));
    }

    /// Goals that were missed.
    pub(crate) fn missed(&self, goals: &Goals) -> Vec<String> {
        let mut missed = Vec::new();
        let mut judge = |what: String, value: u64, goal: u64| {
            if value >= goal {
                missed.push(format!("{what}: {value}, promised: under {goal}"));
            }
        };
        for row in self.rows.iter().filter(|row| row.nodes == goals.nodes) {
            let Row {
                lane,
                rung,
                what,
                measured,
                ..
            } = row;
            let what = format!("{what}, by {rung}");
            let memory = match lane {
                Lane::Disruption => goals.disruption_memory,
                Lane::Provisioner
                | Lane::Lifecycle
                | Lane::Terminator
                | Lane::Interruption
                | Lane::Housekeeper => goals.memory,
            };
            judge(format!("{lane}, {what}, MiB"), measured.peak, memory);
            if *lane == Lane::Lifecycle {
                judge(
                    format!("{lane}, {what}, ms of a warm turn"),
                    measured.warm,
                    goals.lifecycle,
                );
            }
            if let Some(fleet) = measured.fleet.filter(|_| row.what == What::Wave) {
                let goal = match rung {
                    Rung::View => goals.launch_by_view,
                    Rung::Lists => goals.launch_by_lists,
                };
                judge(format!("{lane}, {what}, ms to CreateFleet"), fleet, goal);
            }
            if row.what == What::Flood {
                judge(
                    format!("{lane}, {what}, ms until all are planned"),
                    measured.planned,
                    goals.flood,
                );
            }
        }
        for (_, memory) in self
            .servers
            .iter()
            .filter(|(nodes, _)| *nodes == goals.nodes)
        {
            judge(
                "the simulated cluster, MiB".to_owned(),
                *memory,
                goals.server_memory,
            );
        }
        missed
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>6}  {:<12} {:<17} {:<5} {:>8} {:>8} {:>8} {:>9} {:>10} {:>6} {:>9} {:>8} {:>17} {:>17}",
            "nodes",
            "lane",
            "",
            "by",
            "cold ms",
            "p50 ms",
            "p99 ms",
            "fleet ms",
            "planned ms",
            "turns",
            "together",
            "peak MiB",
            "cold requests/KiB",
            "warm requests/KiB"
        )?;
        for Row {
            nodes,
            lane,
            rung,
            what,
            measured,
        } in &self.rows
        {
            let traffic = |(requests, bytes): (u64, u64)| format!("{requests}/{}", bytes >> 10);
            let fleet = measured
                .fleet
                .map_or_else(String::new, |fleet| fleet.to_string());
            writeln!(
                f,
                "{nodes:>6}  {:<12} {what:<17} {:<5} {:>8} {:>8} {:>8} {fleet:>9} {:>10} {:>6} {:>9} {:>8} {:>17} {:>17}",
                lane.as_str(),
                rung.to_string(),
                measured.cold,
                measured.warm,
                measured.warm_p99,
                measured.planned,
                measured.turns,
                measured.together,
                measured.peak,
                traffic(measured.cold_traffic),
                traffic(measured.warm_traffic),
            )?;
        }
        for (nodes, memory) in &self.servers {
            writeln!(f, "{nodes:>6}  the simulated cluster itself: {memory} MiB")?;
        }
        Ok(())
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::View => "view",
            Self::Lists => "lists",
        })
    }
}
