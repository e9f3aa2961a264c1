//! Backtest of a cluster: its workload as turns saw it over time, on nodes that Whittle would have launched for it.
//!
//! Every view adds and removes pods; pending pods are planned for, and nodes are consolidated. Everything goes as planned: instances are
//! launched immediately and at the expected price, and none is interrupted.

pub(crate) mod views;
mod workload;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use api::conditions::types::{CONSOLIDATABLE, INITIALIZED};
use jiff::{SignedDuration, Timestamp};
use model::{
    Action, NanosPerHour, NodeClaimName, NodePoolName, Snapshot,
    labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE},
    node::{ConditionStatus, Node},
    node_claim::Condition,
    node_pool::ConsolidateAfter,
    plan::{Expected, Launch, Plan},
};
use planner::{Method, Reason, simulate_apply};

pub(crate) use self::workload::{ReplacedNodes, waits};
use crate::replay::overrides::Overrides;

/// Interval between evaluations of disruption: a command is carried out before the next evaluation, as in `whittle conformance`'s
/// `converge` cases.
const EVALUATION_INTERVAL: SignedDuration = SignedDuration::from_mins(5);
/// Upper bound on evaluations after one view, which bounds the effort for a day without views.
const EVALUATIONS_MAX: i64 = 12;

/// A backtest up to the current view.
pub(crate) struct Backtest<'a> {
    overrides: &'a Overrides,
    replaced: &'a ReplacedNodes,
    /// Whittle's nodes, and the pods on them.
    snapshot: Option<Snapshot>,
    /// Counter for names of new NodeClaims: plans derive names from the snapshot, and the same snapshot may occur twice.
    launched: usize,
    pub(crate) tally: Tally,
}

/// Totals of a backtest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Nano-dollars per hour, times seconds.
    spent: i128,
    spent_on_spot: i128,
    seconds: i128,
    pub(crate) evictions: usize,
    pub(crate) launched: usize,
    pub(crate) removed: usize,
    /// Number of unplaced pods, times seconds.
    waited: i128,
    /// The fewest instance types that any launch could choose from.
    pub(crate) fewest_types: Option<usize>,
    /// The fewest zones of nodes at any time with several nodes.
    pub(crate) fewest_zones: Option<usize>,
    /// From the first view to the last.
    pub(crate) span: Option<(Timestamp, Timestamp)>,
}

impl<'a> Backtest<'a> {
    pub(crate) fn new(overrides: &'a Overrides, replaced: &'a ReplacedNodes) -> Self {
        Self {
            overrides,
            replaced,
            snapshot: None,
            launched: 0,
            tally: Tally::default(),
        }
    }

    /// Advances to the time of this view.
    pub(crate) fn observe(&mut self, seen: &Snapshot) -> Result<()> {
        let before = self.snapshot.take();
        let since = before.as_ref().map(|before| before.now);
        if let Some(before) = &before {
            let passed = seen.now.duration_since(before.now);
            self.tally.pass(before, passed);
        }
        let mut snapshot = workload::follow(before, seen, self.replaced);
        self.overrides.apply(&mut snapshot)?;
        self.place(&mut snapshot);
        self.consolidate(&mut snapshot, since);
        snapshot.now = seen.now;
        self.tally.record(&snapshot);
        self.snapshot = Some(snapshot);
        Ok(())
    }

    /// Plans launches for pending pods.
    fn place(&mut self, snapshot: &mut Snapshot) {
        let plan = planner::provision(snapshot, planner::Share::WHOLE);
        let replacements = carry_out(plan, snapshot, |pool| self.next_name(pool));
        self.tally.launch(&replacements);
    }

    fn consolidate(&mut self, snapshot: &mut Snapshot, since: Option<Timestamp>) {
        let passed = since.map_or(EVALUATION_INTERVAL, |since| {
            snapshot.now.duration_since(since)
        });
        let evaluations =
            (passed.as_secs() / EVALUATION_INTERVAL.as_secs()).clamp(1, EVALUATIONS_MAX);
        snapshot.cursor = None;
        for _ in 0..evaluations {
            make_consolidatable(snapshot);
            let pass = planner::disrupt(snapshot);
            if pass.commands.is_empty() {
                break;
            }
            for mut command in pass.commands {
                for launch in &mut command.replacements {
                    launch.name = self.next_name(&launch.node_pool);
                }
                self.tally.launch(&command.replacements);
                self.tally.removed += command.nodes.len();
                self.tally.evictions += simulate_apply::carry_out(&command, snapshot);
            }
            // Budgets count disruptions within an evaluation; the next one is later.
            snapshot.now += EVALUATION_INTERVAL;
        }
    }

    fn next_name(&mut self, pool: &NodePoolName) -> NodeClaimName {
        self.launched += 1;
        NodeClaimName(format!("{pool}-rehearsed-{}", self.launched))
    }
}

/// Carries out a plan for pending pods, on NodeClaims of these names. Returns its launches.
pub(crate) fn carry_out(
    mut plan: Plan,
    snapshot: &mut Snapshot,
    mut next_name: impl FnMut(&NodePoolName) -> NodeClaimName,
) -> Vec<Launch> {
    let mut names = BTreeMap::new();
    for planned in &mut plan.actions {
        if let Action::Launch(launch) = &mut planned.action {
            let name = next_name(&launch.node_pool);
            names.insert(std::mem::replace(&mut launch.name, name.clone()), name);
        }
    }
    for nomination in &mut plan.nominations {
        if let Expected::NodeClaim(known) = &mut nomination.node
            && let Some(name) = names.get(known)
        {
            *known = name.clone();
        }
    }
    let launches = plan
        .actions
        .iter()
        .filter_map(|entry| entry.action.launch());
    let replacements: Vec<Launch> = launches.cloned().collect();
    let command = planner::Command {
        reboot: None,
        reason: Reason::Underutilized,
        method: Method::SingleNode,
        nodes: Vec::new(),
        delete: Vec::new(),
        replacements: replacements.clone(),
        nominations: plan.nominations,
        wanted: Vec::new(),
        evicts: BTreeMap::new(),
        repair: None,
        terminate_first: false,
        freed: None,
        savings: NanosPerHour(0),
        preferences_lost: NanosPerHour(0),
        because: String::new(),
    };
    simulate_apply::carry_out(&command, snapshot);
    replacements
}

/// Makes nodes consolidatable: views are further apart than the `consolidateAfter` of NodePools.
fn make_consolidatable(snapshot: &mut Snapshot) {
    let never = |pool: &&model::node_pool::NodePool| {
        pool.disruption.consolidate_after == ConsolidateAfter::Never
    };
    let never: BTreeSet<NodePoolName> = snapshot
        .node_pools
        .iter()
        .filter(never)
        .map(|pool| pool.name.clone())
        .collect();
    for claim in &mut snapshot.node_claims {
        let may = claim.node_pool().is_some_and(|pool| !never.contains(&pool));
        if !may || !claim.is_true(INITIALIZED) || claim.is_true(CONSOLIDATABLE) {
            continue;
        }
        let conditions = &mut claim.status.conditions;
        conditions.retain(|condition| condition.kind != CONSOLIDATABLE);
        conditions.push(Condition {
            kind: CONSOLIDATABLE.to_owned(),
            status: ConditionStatus::True,
            reason: CONSOLIDATABLE.to_owned(),
            message: String::new(),
            last_transition: snapshot.now,
            observed_generation: None,
        });
    }
}

impl Tally {
    /// Adds the cost of the nodes since the last view.
    fn pass(&mut self, snapshot: &Snapshot, passed: SignedDuration) {
        let seconds = i128::from(passed.as_secs());
        let cost = simulate_apply::cost(snapshot);
        self.seconds += seconds;
        self.spent += i128::from(cost.0) * seconds;
        self.spent_on_spot += i128::from(on_spot(snapshot).0) * seconds;
        let waiting = snapshot.pods.iter().filter(|pod| waits(pod)).count();
        self.waited += i128::try_from(waiting).unwrap_or_default() * seconds;
    }

    fn record(&mut self, snapshot: &Snapshot) {
        let first = self.span.map_or(snapshot.now, |(first, _)| first);
        self.span = Some((first, snapshot.now));
        let zones: BTreeSet<&String> = managed(snapshot)
            .filter_map(|node| node.labels.get(ZONE))
            .collect();
        if managed(snapshot).nth(1).is_some() {
            let fewest = self.fewest_zones.unwrap_or(usize::MAX);
            self.fewest_zones = Some(fewest.min(zones.len()));
        }
    }

    fn launch(&mut self, launches: &[Launch]) {
        self.launched += launches.len();
        let fewest = launches.iter().map(|launch| launch.instance_types.len());
        self.fewest_types = fewest.chain(self.fewest_types).min();
    }

    /// Average cost per hour.
    pub(crate) fn cost(&self) -> NanosPerHour {
        mean(self.spent, self.seconds)
    }

    pub(crate) fn cost_on_spot(&self) -> NanosPerHour {
        mean(self.spent_on_spot, self.seconds)
    }

    /// Average number of unplaced pods, in hundredths.
    pub(crate) fn waiting(&self) -> i128 {
        (self.waited * 100).checked_div(self.seconds).unwrap_or(0)
    }
}

fn mean(spent: i128, seconds: i128) -> NanosPerHour {
    let mean = spent.checked_div(seconds).unwrap_or(0);
    NanosPerHour(i64::try_from(mean).unwrap_or(i64::MAX))
}

fn managed(snapshot: &Snapshot) -> impl Iterator<Item = &Node> {
    let ours: BTreeSet<_> = snapshot
        .node_claims
        .iter()
        .filter_map(|claim| claim.status.node_name.as_ref())
        .collect();
    let nodes = snapshot.nodes.iter();
    nodes.filter(move |node| ours.contains(&node.name))
}

fn on_spot(snapshot: &Snapshot) -> NanosPerHour {
    let mut only = Snapshot::empty(
        snapshot.cluster.clone(),
        snapshot.now,
        snapshot.settings.clone(),
    );
    only.instance_types.clone_from(&snapshot.instance_types);
    let spot = |claim: &&model::node_claim::NodeClaim| {
        claim.labels.get(CAPACITY_TYPE).map(String::as_str) == Some("spot")
            && claim.labels.contains_key(INSTANCE_TYPE)
    };
    only.node_claims = snapshot.node_claims.iter().filter(spot).cloned().collect();
    simulate_apply::cost(&only)
}
