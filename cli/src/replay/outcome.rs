//! Plan of a snapshot as comparable lines, without the names of nodes that do not exist yet.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use model::{
    Lane, NanosPerHour, Snapshot,
    plan::{Launch, names},
};

/// The lines of a plan, each with its number of occurrences, and their total cost.
pub(super) struct Planned {
    lines: BTreeMap<String, usize>,
    /// Hourly cost of new nodes, minus that of removed nodes.
    cost: NanosPerHour,
    nodes: (usize, usize),
    waiting: usize,
}

impl Planned {
    pub(super) fn of(lane: Lane, snapshot: &Snapshot) -> Self {
        match lane {
            Lane::Disruption => Self::disruption(snapshot),
            Lane::Provisioner
            | Lane::Lifecycle
            | Lane::Terminator
            | Lane::Interruption
            | Lane::Housekeeper => Self::provisioning(snapshot),
        }
    }

    fn provisioning(snapshot: &Snapshot) -> Self {
        let plan = planner::provision(snapshot, planner::Share::TURN);
        let launches = plan.actions.iter();
        let launches: Vec<&Launch> = launches.filter_map(|entry| entry.action.launch()).collect();
        let cost = launches.iter().map(|launch| launch.cheapest.price.0).sum();
        let mut lines = Vec::new();
        lines.extend(launches.iter().map(|launch| line(launch)));
        for alike in plan.nominations.chunk_by(|a, b| a.node == b.node) {
            if let [first, ..] = alike
                && let model::plan::Expected::Node(node) = &first.node
            {
                let pods = names(alike.iter().map(|unplaced| &unplaced.pod.key));
                lines.push(format!("expect {pods} on {node}"));
            }
        }
        for unplaced in &plan.unplaced {
            let reasons: Vec<String> = unplaced.reasons.iter().map(ToString::to_string).collect();
            lines.push(format!(
                "leave {} waiting: {}",
                unplaced.pod.key,
                reasons.join("; ")
            ));
        }
        if !plan.postponed.is_empty() {
            let pods = plan.postponed.len();
            lines.push(format!(
                "leave {} to the next turn",
                crate::plan::counted(pods, "pod")
            ));
        }
        Self {
            lines: counted(lines),
            cost: NanosPerHour(cost),
            nodes: (launches.len(), 0),
            waiting: plan.unplaced.len(),
        }
    }

    fn disruption(snapshot: &Snapshot) -> Self {
        let pass = planner::disrupt_within(snapshot, planner::Share::TURN, &BTreeSet::new());
        let saved: i64 = pass.commands.iter().map(|command| command.savings.0).sum();
        let new = pass
            .commands
            .iter()
            .map(|command| command.replacements.len())
            .sum();
        let gone = pass
            .commands
            .iter()
            .map(|command| command.nodes.len())
            .sum();
        let lines = pass.commands.iter().map(|command| {
            let replacements: Vec<String> = command.replacements.iter().map(line).collect();
            let gone = names(command.nodes.iter());
            match replacements.as_slice() {
                [] => format!("remove {gone} ({})", command.reason.as_str()),
                new => format!(
                    "replace {gone} ({}): {}",
                    command.reason.as_str(),
                    new.join(", ")
                ),
            }
        });
        let held = pass.exhausted.iter();
        let held = held.map(|(pool, why)| format!("NodePool {pool} is held back: {why}"));
        Self {
            lines: counted(lines.chain(held)),
            cost: NanosPerHour(-saved),
            nodes: (new, gone),
            waiting: 0,
        }
    }

    pub(super) fn summary(&self) -> String {
        let (new, gone) = self.nodes;
        let sign = if self.cost.0 < 0 { "-" } else { "+" };
        let cost = NanosPerHour(self.cost.0.abs());
        format!(
            "{}, {}, {sign}${cost}/h, {}",
            match new {
                1 => "1 node comes".to_owned(),
                many => format!("{many} nodes come"),
            },
            match gone {
                1 => "1 goes".to_owned(),
                many => format!("{many} go"),
            },
            match self.waiting {
                1 => "1 pod finds no place".to_owned(),
                many => format!("{many} pods find no place"),
            }
        )
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (line, count) in &self.lines {
            let _ = writeln!(text, "  {}{line}", times(*count));
        }
        text
    }

    /// Lines that exist only before, and only after.
    pub(super) fn difference(&self, other: &Self) -> String {
        let mut text = String::new();
        let lines = self.lines.keys().chain(other.lines.keys());
        let lines: std::collections::BTreeSet<&String> = lines.collect();
        let mut same = 0;
        for line in lines {
            let count = |plan: &Self| plan.lines.get(line).copied().unwrap_or(0);
            let (before, after) = (count(self), count(other));
            same += before.min(after);
            if before > after {
                let _ = writeln!(text, "- {}{line}", times(before - after));
            }
            if after > before {
                let _ = writeln!(text, "+ {}{line}", times(after - before));
            }
        }
        let _ = writeln!(text, "  {same} decisions are the same");
        text
    }
}

fn counted(lines: impl IntoIterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for line in lines {
        *counted.entry(line).or_default() += 1;
    }
    counted
}

fn times(count: usize) -> String {
    match count {
        1 => String::new(),
        count => format!("{count} × "),
    }
}

fn line(launch: &Launch) -> String {
    let offering = &launch.cheapest;
    format!(
        "launch {} {} {} of NodePool {} from ${}/h for {}",
        offering.instance_type,
        offering.capacity_type,
        offering.zone,
        launch.node_pool,
        offering.price,
        crate::plan::counted(launch.pods.len(), "pod")
    )
}
