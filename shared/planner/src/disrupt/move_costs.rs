//! Cost of moves besides node prices, and whether savings pay for it in time (docs/disruption.md).
//!
//! All costs are in money: an eviction has a price, and so has the time in which old and new nodes run side by side.
//! Annotations of a NodePool set the price of an eviction and the horizon within which savings must pay for a move.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    conditions::types::{INITIALIZED, LAUNCHED},
    duration::parse_go_duration,
    names::annotation::{CONSOLIDATION_HORIZON, EVICTION_PRICE},
};
use jiff::SignedDuration;
use model::{
    CapacityType, InstanceId, NanosPerHour, NodePoolName, Snapshot,
    labels::{INSTANCE_TYPE, ZONE},
    node_claim::NodeClaim,
    node_pool::NodePool,
    snapshot::Optimize,
};
use scheduling::{DroppedPreferences, NewNode};

use super::{candidates::Candidate, consolidation::Move, context::DisruptionContext, cost, types};
use crate::{by_instance::instance_of, lifecycle::expiration};

/// Default horizon within which the savings of a move must pay for it.
const HORIZON: SignedDuration = SignedDuration::from_hours(24);
/// Default price of an eviction, in nano-dollars.
const EVICTION_PRICE_DEFAULT: i64 = 10_000_000;
/// Age below which moving a node's pods costs twice as much: the node has hardly paid for its own start.
const YOUNG_NODE: SignedDuration = SignedDuration::from_hours(1);
/// Extra cost of a pod on a new node, in percent of an eviction, for pulling its images.
const IMAGE_PULL_PERCENT: i128 = 25;
/// Spot interruptions per 100,000 node hours: five percent of nodes per month.
const INTERRUPTIONS_PER_100K_HOURS: i128 = 7;
/// Start time of a node in a NodePool without observed start times.
const START_TIME_DEFAULT: SignedDuration = SignedDuration::from_mins(1);
/// Upper bound on observed start times, the default registration time-out; longer ones are clamped to it.
const START_TIME_MAX: SignedDuration = SignedDuration::from_mins(15);
/// Upper bound on the drain time of a node. Few pods use a longer grace period.
const DRAIN_MAX: SignedDuration = SignedDuration::from_mins(15);

/// Cost parameters of a NodePool, from its annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CostParameters {
    horizon: SignedDuration,
    /// Price of an eviction, in nano-dollars.
    eviction: i64,
}

/// Prices moves and decides whether they pay. The default prices nothing, so that every saving pays.
#[derive(Default)]
pub(super) struct MoveCosts {
    /// Parameters by NodePool; `None` if moves are free.
    parameters: Option<BTreeMap<NodePoolName, CostParameters>>,
    start_times: BTreeMap<NodePoolName, SignedDuration>,
    /// Worth per hour of one preference of weight 100 of one pod.
    preference: NanosPerHour,
    /// Instance type and zone of spot instances that EC2 has announced to interrupt.
    at_risk: Vec<(String, String)>,
}

/// Savings and price of a move, in nano-dollars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BreakEven {
    /// Savings within the horizon.
    pub(super) saved: i128,
    /// One-time price.
    pub(super) price: i128,
}

impl BreakEven {
    pub(super) fn net(self) -> i128 {
        self.saved - self.price
    }
}

impl MoveCosts {
    /// Reads the parameters from NodePool annotations. With `optimize: upstream` moves are free.
    pub(super) fn by_annotations(snapshot: &Snapshot) -> Self {
        if snapshot.settings.optimize == Optimize::Upstream {
            return Self::default();
        }
        let parameters = snapshot.node_pools.iter();
        let parameters =
            parameters.map(|pool| (pool.name.clone(), CostParameters::from_annotations(pool).0));
        Self {
            parameters: Some(parameters.collect()),
            start_times: start_times(&snapshot.node_claims),
            preference: snapshot.settings.preference_worth,
            at_risk: at_risk(snapshot),
        }
    }

    /// Worth per hour of the preferences that a pod would lose.
    pub(super) fn of_preferences(&self, lost: &DroppedPreferences) -> i128 {
        lost.worth(self.preference)
    }

    pub(super) fn prices_moves(&self) -> bool {
        self.parameters.is_some()
    }

    /// Returns `Ok` if the move pays within the horizon; the error states its savings and cost.
    pub(super) fn pays(
        &self,
        context: &DisruptionContext<'_>,
        step: &Move<'_>,
    ) -> Result<(), String> {
        let Some(break_even) = self.break_even(context, step) else {
            return Ok(());
        };
        if break_even.net() >= 0 {
            return Ok(());
        }
        let pods = step.simulation.pods.iter();
        let moved = pods.filter(|pod| pod.node_name.is_some()).count();
        let pods = match moved {
            1 => "1 pod".to_owned(),
            many => format!("{many} pods"),
        };
        let saves = match break_even.saved {
            ..=0 => "saves nothing".to_owned(),
            saved => format!("saves ${}", dollars(saved)),
        };
        Err(format!(
            "Moving {pods} costs ${}, and {saves} within the NodePool's consolidation horizon",
            dollars(break_even.price),
        ))
    }

    /// Cost of removing the node, spread over the horizon, per hour; replacements are not included.
    pub(super) fn disturbance(
        &self,
        context: &DisruptionContext<'_>,
        candidate: &Candidate<'_>,
    ) -> NanosPerHour {
        let Some(all) = &self.parameters else {
            return NanosPerHour(0);
        };
        let parameters = all.get(&candidate.pool.name).copied().unwrap_or_default();
        let price = price_of_leaving(context, candidate, parameters);
        // Savings end when the node would expire anyway.
        let life = remaining_life(context, candidate)
            .map_or(parameters.horizon, |life| life.min(parameters.horizon));
        let idle = price_for(candidate.price, parameters.horizon.saturating_sub(life));
        let seconds = i128::from(parameters.horizon.as_secs().max(1));
        dollars((price + idle) * 3_600 / seconds)
    }

    fn break_even(&self, context: &DisruptionContext<'_>, step: &Move<'_>) -> Option<BreakEven> {
        let all = self.parameters.as_ref()?;
        let mut break_even = BreakEven { saved: 0, price: 0 };
        let (mut longest, mut most_expensive) = (SignedDuration::ZERO, 0);
        for candidate in &step.candidates {
            let parameters = all.get(&candidate.pool.name).copied().unwrap_or_default();
            let life = remaining_life(context, candidate)
                .map_or(parameters.horizon, |life| life.min(parameters.horizon));
            break_even.saved += price_for(candidate.price, life);
            break_even.price += price_of_leaving(context, candidate, parameters);
            longest = longest.max(life);
            most_expensive = most_expensive.max(parameters.eviction);
        }
        for node in &step.replacements {
            let choice = node.choices.first();
            let price = choice.map_or(NanosPerHour(0), |choice| choice.price);
            break_even.saved -= price_for(price, longest);
            let pool = context.planning.offering().nth(node.pool);
            let start_time = pool.and_then(|(pool, _)| self.start_times.get(&pool.name));
            break_even.price += price_for(price, start_time.copied().unwrap_or(START_TIME_DEFAULT));
            break_even.price +=
                self.price_of_arriving(context, node, i128::from(most_expensive), longest);
        }
        break_even.saved -= price_for(step.simulation.preferences_lost, longest);
        Some(break_even)
    }

    /// Price of image pulls on a new node, and of evictions by expected spot interruptions.
    fn price_of_arriving(
        &self,
        context: &DisruptionContext<'_>,
        node: &NewNode,
        eviction: i128,
        stays: SignedDuration,
    ) -> i128 {
        let pods = i128::try_from(node.pods.len()).unwrap_or_default() * eviction;
        let mut price = pods * IMAGE_PULL_PERCENT / 100;
        if node.admitted == [CapacityType::Spot] {
            let choice = node.choices.first();
            let offering = choice.and_then(|choice| {
                let instance_type =
                    types::of_new_node(context, node).get(choice.instance_type())?;
                let zone = &instance_type.offerings.get(choice.offering())?.zone;
                Some((instance_type.name.as_str().to_owned(), zone.clone()))
            });
            price += match offering.filter(|offering| self.at_risk.contains(offering)) {
                Some(_) => pods,
                None => {
                    pods * INTERRUPTIONS_PER_100K_HOURS * i128::from(stays.as_hours()) / 100_000
                }
            };
        }
        price
    }
}

/// Price of evicting a node's pods, by their disruption cost, and of the node during the drain.
fn price_of_leaving(
    context: &DisruptionContext<'_>,
    candidate: &Candidate<'_>,
    parameters: CostParameters,
) -> i128 {
    let pods = i128::from(candidate.cost - cost::EVICTION);
    let mut price = pods * i128::from(parameters.eviction) / i128::from(cost::EVICTION);
    let age = candidate
        .claim
        .created_at
        .map(|at| context.now.duration_since(at));
    if age.is_some_and(|age| age < YOUNG_NODE) {
        price *= 2;
    }
    let grace = candidate.state_node.pods.iter();
    let grace = grace.filter_map(|pod| pod.termination_grace_seconds).max();
    let drain = SignedDuration::from_secs(grace.unwrap_or(0)).min(DRAIN_MAX);
    price + price_for(candidate.price, drain)
}

/// Annotations that do not parse, by NodePool.
pub(super) fn misread(snapshot: &Snapshot) -> Vec<(NodePoolName, String)> {
    let pools = snapshot.node_pools.iter();
    let messages = pools.flat_map(|pool| {
        let problems = CostParameters::from_annotations(pool).1.into_iter();
        problems.map(|problem| (pool.name.clone(), problem))
    });
    messages.collect()
}

impl Default for CostParameters {
    fn default() -> Self {
        Self {
            horizon: HORIZON,
            eviction: EVICTION_PRICE_DEFAULT,
        }
    }
}

impl CostParameters {
    /// Reads the NodePool's annotations. Those that do not parse leave the default and are returned as messages.
    pub(super) fn from_annotations(pool: &NodePool) -> (Self, Vec<String>) {
        let (mut parameters, mut problems) = (Self::default(), Vec::new());
        let mut read = |key: &str, expected: &str, take: &mut dyn FnMut(&str) -> Option<()>| {
            if let Some(text) = pool.annotations.get(key)
                && take(text).is_none()
            {
                problems.push(format!(
                    "Annotation {key} is \"{text}\": expected {expected}; the default is used"
                ));
            }
        };
        read(
            CONSOLIDATION_HORIZON,
            "a duration such as \"24h\"",
            &mut |text| {
                let horizon = parse_go_duration(text)?;
                parameters.horizon = Some(horizon).filter(|horizon| horizon.is_positive())?;
                Some(())
            },
        );
        read(EVICTION_PRICE, "dollars such as \"0.01\"", &mut |text| {
            parameters.eviction = nano_dollars(text)?;
            Some(())
        });
        (parameters, problems)
    }
}

/// Parses dollars below 1,000.
fn nano_dollars(text: &str) -> Option<i64> {
    const MOST: NanosPerHour = NanosPerHour(1_000_000_000_000);
    let price = NanosPerHour::from_dollars(text).filter(|price| *price < MOST);
    price.map(|price| price.0)
}

fn dollars(nanos: i128) -> NanosPerHour {
    NanosPerHour(i64::try_from(nanos).unwrap_or(i64::MAX))
}

/// Price of a node for a duration.
fn price_for(price: NanosPerHour, time: SignedDuration) -> i128 {
    i128::from(price.0) * i128::from(time.as_secs().max(0)) / 3_600
}

/// Time until the node expires.
fn remaining_life(
    context: &DisruptionContext<'_>,
    candidate: &Candidate<'_>,
) -> Option<SignedDuration> {
    let end = expiration::expires_at(candidate.claim)?;
    Some(end.duration_since(context.now).max(SignedDuration::ZERO))
}

/// Median time from launch to initialization, by NodePool.
fn start_times(claims: &[NodeClaim]) -> BTreeMap<NodePoolName, SignedDuration> {
    let mut seen: BTreeMap<NodePoolName, Vec<SignedDuration>> = BTreeMap::new();
    for claim in claims {
        let since = |condition_type| {
            let condition = claim
                .condition(condition_type)
                .filter(|_| claim.is_true(condition_type));
            condition.map(|condition| condition.last_transition)
        };
        if let (Some(pool), Some(from), Some(to)) =
            (claim.node_pool(), since(LAUNCHED), since(INITIALIZED))
        {
            let took = to.duration_since(from);
            let took = took.clamp(SignedDuration::ZERO, START_TIME_MAX);
            seen.entry(pool).or_default().push(took);
        }
    }
    let middle = seen.into_iter().filter_map(|(pool, mut all)| {
        all.sort_unstable();
        Some((pool, *all.get(all.len() / 2)?))
    });
    middle.collect()
}

/// Instance type and zone of the instances with an interruption notice: another spot instance there may be interrupted soon,
/// too.
fn at_risk(snapshot: &Snapshot) -> Vec<(String, String)> {
    let notices = snapshot.notices.iter();
    let noticed: BTreeSet<&InstanceId> = notices.map(|notice| &notice.instance).collect();
    let claims = snapshot.node_claims.iter().filter(|claim| {
        let instance = instance_of(&claim.status.provider_id);
        instance.is_some_and(|instance| noticed.contains(&instance))
    });
    let offerings = claims.filter_map(|claim| {
        let of = |key: &str| claim.labels.get(key).cloned();
        of(INSTANCE_TYPE).zip(of(ZONE))
    });
    offerings.collect()
}
