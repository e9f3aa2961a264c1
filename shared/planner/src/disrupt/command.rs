//! Disruption commands: nodes to remove, their replacements, and the nominations of their pods.

use std::collections::BTreeMap;

use model::{
    NanosPerHour, NodePoolName, Plan,
    ledger::{FreedInstance, PodAssignment, Repair},
    plan::{Action, Launch, Nomination, Planned, Target},
};
use scheduling::NewNode;

use super::{
    Method, Reason, candidates::Candidate, context::DisruptionContext, evictions,
    simulate::Simulation,
};
use crate::{
    lifecycle::target,
    provision::{
        drivers::Drivers,
        launch::{self, Names, PoolLaunches},
        reference,
    },
};

/// Nodes to disrupt together, after their replacements are initialized.
#[derive(Clone, Debug)]
pub struct Command {
    pub reason: Reason,
    pub method: Method,
    /// Names of the nodes, in the order of `delete`.
    pub nodes: Vec<String>,
    pub delete: Vec<Target>,
    /// NodeClaim to reboot in place instead of deleting it.
    pub reboot: Option<Target>,
    pub replacements: Vec<Launch>,
    /// Pods that move to nodes that stay.
    pub nominations: Vec<Nomination>,
    /// Assignment of pods that the search decided on. Validation simulates the command with it.
    pub wanted: Vec<PodAssignment>,
    /// Condition that is repaired, for repairs.
    pub repair: Option<Repair>,
    /// Whether the node is terminated before its replacement is launched.
    pub terminate_first: bool,
    /// Reserved instance that becomes free when such a node is terminated.
    pub freed: Option<FreedInstance>,
    /// Number of pods to evict per NodePool, as far as caps on evictions count them.
    pub evicts: BTreeMap<NodePoolName, u32>,
    /// Savings per hour; negative if a replacement for drift costs more.
    pub savings: NanosPerHour,
    /// Worth per hour of the preferences that the moved pods lose.
    pub preferences_lost: NanosPerHour,
    pub because: String,
}

impl Command {
    /// NodeClaims that the command deletes or reboots.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.delete.iter().chain(&self.reboot)
    }

    /// Returns the actions of the command: launches first, then deletions or the reboot.
    pub fn plan(&self) -> Plan {
        let act = |action| Planned {
            action,
            because: self.because.clone(),
        };
        let launches = self.replacements.iter().cloned();
        let launches = launches.map(|launch| Action::Launch(Box::new(launch)));
        let deletions = self.delete.iter().cloned().map(Action::DeleteNodeClaim);
        let reboots = self.reboot.iter().cloned().map(Action::Reboot);
        Plan {
            actions: launches.chain(deletions).chain(reboots).map(act).collect(),
            nominations: self.nominations.clone(),
            ..Plan::default()
        }
    }
}

pub(super) fn of_empty(candidates: &[Candidate<'_>]) -> Command {
    let reason_and_method = (Reason::Empty, Method::Emptiness);
    command(reason_and_method, candidates, Vec::new(), Vec::new())
}

/// Command that reboots a node in place.
pub(super) fn of_reboot(reason_and_method: (Reason, Method), candidate: &Candidate<'_>) -> Command {
    let candidates = std::slice::from_ref(candidate);
    let command = command(reason_and_method, candidates, Vec::new(), Vec::new());
    Command {
        delete: Vec::new(),
        reboot: Some(target(candidate.claim)),
        evicts: BTreeMap::new(),
        savings: NanosPerHour(0),
        because: format!("{}, rebooted in place", command.because),
        ..command
    }
}

/// Command that terminates a node ahead of its replacement; `after` is the expected price of the replacement.
pub(super) fn of_terminate_first(
    reason_and_method: (Reason, Method),
    candidate: &Candidate<'_>,
    freed: Option<FreedInstance>,
    nominations: Vec<Nomination>,
    after: Option<NanosPerHour>,
) -> Command {
    let candidates = std::slice::from_ref(candidate);
    let command = command(reason_and_method, candidates, Vec::new(), nominations);
    Command {
        terminate_first: true,
        freed,
        savings: difference(price_of(candidates), after),
        because: format!(
            "{}, before its replacement of {}",
            command.because,
            price_text(after)
        ),
        ..command
    }
}

pub(super) fn of_simulation<'a>(
    context: &DisruptionContext<'a>,
    reason_and_method: (Reason, Method),
    candidates: &[Candidate<'_>],
    simulation: &Simulation<'a>,
    replacements: &[NewNode],
) -> Command {
    let input = context.solver_input(simulation);
    let mut drivers = Drivers::new(&input);
    let mut names = Names::new(context.snapshot);
    let mut by_pool: BTreeMap<usize, PoolLaunches<'_>> = BTreeMap::new();
    let mut launches = Vec::new();
    for node in replacements {
        let pool = context.planning.offering().nth(node.pool);
        let (Some((pool, _)), Some(mould)) = (pool, input.pools.get(node.pool)) else {
            continue;
        };
        let of_pool = by_pool
            .entry(node.pool)
            .or_insert_with(|| PoolLaunches::new(pool, mould));
        let planned = of_pool.launch(node, &input, &mut drivers, &mut names);
        if let Action::Launch(launch) = planned.action {
            launches.push(*launch);
        }
    }
    Command {
        wanted: simulation.wanted.clone(),
        preferences_lost: simulation.preferences_lost,
        ..command(
            reason_and_method,
            candidates,
            launches,
            nominated(context, simulation),
        )
    }
}

/// Pods that move to nodes that stay.
pub(super) fn nominated(
    context: &DisruptionContext<'_>,
    simulation: &Simulation<'_>,
) -> Vec<Nomination> {
    let mut nominations = Vec::new();
    for (at, pods) in &simulation.existing {
        if let Some(state_node) = context.inventory.state_nodes.get(*at) {
            let pods = pods.iter().filter_map(|pod| simulation.pods.get(*pod));
            nominations.extend(pods.map(|pod| Nomination {
                pod: reference(pod),
                node: state_node.expected(),
            }));
        }
    }
    nominations
}

/// Returns one command per node, each with one replacement from the NodePool's template.
pub(super) fn of_static(
    context: &DisruptionContext<'_>,
    reason_and_method: (Reason, Method),
    candidates: &[Candidate<'_>],
) -> Vec<Command> {
    let mut names = Names::new(context.snapshot);
    let commands = candidates.iter().map(|candidate| {
        let types = context.planning.types.get(&candidate.pool.name);
        let types = types.map_or(&[][..], |types| types);
        let launch = launch::of_template(candidate.pool, types, &mut names);
        command(
            reason_and_method,
            std::slice::from_ref(candidate),
            vec![launch],
            Vec::new(),
        )
    });
    commands.collect()
}

fn command(
    (reason, method): (Reason, Method),
    candidates: &[Candidate<'_>],
    replacements: Vec<Launch>,
    nominations: Vec<Nomination>,
) -> Command {
    let before = price_of(candidates);
    let after = replacements
        .iter()
        .map(|launch| launch.cheapest.known_price());
    let after = after.sum::<Option<NanosPerHour>>();
    let mut evicts: BTreeMap<NodePoolName, u32> = BTreeMap::new();
    // Repair is exempt from caps (docs/operations.md).
    let counted = candidates.iter().filter(|_| reason != Reason::Unhealthy);
    for candidate in counted {
        let pods = evictions::of_node(candidate);
        if pods > 0 {
            let of_pool = evicts.entry(candidate.pool.name.clone()).or_default();
            *of_pool = of_pool.saturating_add(pods);
        }
    }
    let nodes: Vec<String> = candidates
        .iter()
        .map(|candidate| candidate.node.name.to_string())
        .collect();
    let savings = difference(before, after);
    let going = format!("{}: {}", reason.as_str(), nodes.join(", "));
    let because = match replacements.len() {
        0 => format!("{going} of {}", price_text(before)),
        many => format!(
            "{going} of {}, replaced by {many} of {}",
            price_text(before),
            price_text(after)
        ),
    };
    Command {
        reason,
        method,
        delete: candidates
            .iter()
            .map(|candidate| target(candidate.claim))
            .collect(),
        reboot: None,
        nodes,
        replacements,
        nominations,
        wanted: Vec::new(),
        repair: None,
        terminate_first: false,
        freed: None,
        evicts,
        savings,
        preferences_lost: NanosPerHour(0),
        because,
    }
}

/// Returns the price of all candidates together; `None` if the instance type of any is no longer in the catalog.
fn price_of(candidates: &[Candidate<'_>]) -> Option<NanosPerHour> {
    let prices = candidates.iter();
    prices
        .map(|candidate| candidate.instance_type.map(|_| candidate.price))
        .sum()
}

/// Returns the savings per hour, or zero if either price is unknown.
fn difference(before: Option<NanosPerHour>, after: Option<NanosPerHour>) -> NanosPerHour {
    let known = before.zip(after);
    known.map_or(NanosPerHour(0), |(before, after)| {
        NanosPerHour(before.0.saturating_sub(after.0))
    })
}

fn price_text(price: Option<NanosPerHour>) -> String {
    price.map_or_else(|| "unknown price".to_owned(), |price| format!("${price}/h"))
}
