//! Rows that the ledger keeps between turns (docs/design.md#ledger, docs/protocol.md): leases, intents, frozen calls,
//! commands, notices.

mod command;
mod cursor;
mod pause;
mod request;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use command::{
    Choice, Command, CommandState, FreedInstance, Method, Place, PodAssignment, Repair,
};
pub use cursor::{CandidateRank, Cursor, Drifted, PlannedRemoval, PoolProgress};
pub use pause::{Pause, PauseLevel, PauseScope, Paused, TooManyPauses};
pub use request::{Approval, ApprovalError, ApprovalScope, Request};

use crate::{
    caps::AccountSpending,
    ids::{ClusterName, InstanceId, LaunchToken, NodeClaimName, PlanId, TurnId, Uid},
    interruption::{InterruptionAction, InterruptionKind, LifecycleHook},
    lane::Lane,
    launch::FleetRequest,
    plan::Launch,
    view::ViewPointer,
};

/// Schema version of the ledger's rows, stored in each row by its writer. Functions of two versions run side by side
/// while a stack is upgraded or rolled back.
///
/// Within a version, rows may only gain optional fields that older readers can ignore. States gain no variants, because
/// conditions compare them as stored. Any other change needs a new version. Functions do not touch rows of a version
/// newer than their own.
pub const SCHEMA: u32 = 2;

/// Row `CLUSTER#c` / `META`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub generation: u64,
    pub mode: Mode,
    /// Copy of the registry entry.
    pub registry: serde_json::Value,
    /// Uid of the namespace `kube-system` behind the registry entry's API server. Identifies the cluster whatever its
    /// name.
    #[serde(default)]
    pub uid: Option<Uid>,
    /// Pauses of the cluster, its NodePools and its account.
    #[serde(default)]
    pub pauses: Vec<Pause>,
    /// The account's spending, which is stored in the same row as the account's pauses.
    #[serde(default)]
    pub account: AccountSpending,
    /// Requests that wait for approval, were approved, or expired recently.
    #[serde(default)]
    pub requests: Vec<Request>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum Mode {
    Active,
    /// Turns observe, plan and check, and stop before they commit.
    Shadow,
}

impl Meta {
    /// The pauses of the cluster or its account that forbid starting anything of this level now (docs/protocol.md#c4).
    pub fn paused(&self, level: PauseLevel, now: Timestamp) -> Option<Paused<'_>> {
        Pause::of_cluster(&self.pauses, level, now)
    }
}

/// Row `CLUSTER#c` / `LANE#f`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneRow {
    pub lease: Option<Lease>,
    /// Whether a wake arrived while this turn ran, so that another turn follows (docs/protocol.md#l1).
    pub again: bool,
    pub failures: u32,
    pub last_error: Option<String>,
    pub due: Option<Timestamp>,
    pub last_full_look: Option<Timestamp>,
    /// Relay counters as read before the lists of the last full look (docs/protocol.md#l6).
    pub seen: Option<RelayCounter>,
    /// Position at which the next turn continues an unfinished evaluation.
    #[serde(default)]
    pub cursor: Option<Cursor>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub owner: TurnId,
    pub until: Timestamp,
}

impl Lease {
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.until > now
    }
}

/// The relay's change counter for one lane. Comparable only within an epoch, which is one relay process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayCounter {
    pub epoch: String,
    pub seq: u64,
}

/// Row `RELAY#c` / `BEAT`, the only row the relay writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RelayBeat {
    pub epoch: String,
    pub beat_at: String,
    pub version: String,
    pub counters: BTreeMap<String, u64>,
    /// Newest view of the cluster's pods, if the relay publishes views.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<ViewPointer>,
}

impl RelayBeat {
    pub fn counter(&self, lane: Lane) -> RelayCounter {
        RelayCounter {
            epoch: self.epoch.clone(),
            seq: self.counters.get(lane.as_str()).copied().unwrap_or(0),
        }
    }
}

/// Row `CLUSTER#c` / `INTENT#<NodeClaim name>`, renamed to `LAUNCHED#<NodeClaim name>` once there is an instance: one
/// launch, from the decision until its NodeClaim is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    pub plan: PlanId,
    pub generation: u64,
    pub launch: Launch,
    pub state: IntentState,
    pub lease: Option<Lease>,
    pub committed_at: Timestamp,
}

impl Intent {
    pub fn name(&self) -> &NodeClaimName {
        &self.launch.name
    }

    /// Whether the intent counts as a node in flight even if the API shows no NodeClaim (docs/protocol.md#o2).
    pub fn is_in_flight(&self) -> bool {
        match self.state {
            IntentState::Intended | IntentState::Claimed { .. } | IntentState::Launching { .. } => {
                true
            }
            IntentState::Launched { .. }
            | IntentState::Failed { .. }
            | IntentState::Void { .. } => false,
        }
    }
}

/// `intended → claimed → launching(attempt) → launched | failed(why) | void`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum IntentState {
    Intended,
    /// The NodeClaim object exists.
    Claimed {
        uid: Uid,
        attempt: u32,
    },
    Launching {
        uid: Uid,
        attempt: u32,
        token: LaunchToken,
    },
    Launched {
        instance: InstanceId,
    },
    Failed {
        why: String,
    },
    Void {
        why: String,
    },
}

/// Row `CLUSTER#c` / `CALL#token`, `CLOSED#token` once closed: a frozen CreateFleet request and its NodeClaims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub request: FleetRequest,
    pub attempt: u32,
    pub members: Vec<NodeClaimName>,
    pub frozen_at: Timestamp,
    pub lease: Option<Lease>,
    pub closed: bool,
}

impl Call {
    /// Upper bound on NodeClaims of a call. A DynamoDB transaction holds 100 items: the call, its members and the rows
    /// written with them (docs/protocol.md#a2).
    pub const MEMBERS_MAX: usize = 90;
}

/// Row `CLUSTER#c` / `CLAIM#name`: the instance of a NodeClaim. The NodeClaim owns the instance if this row and
/// [`InstanceOwner`] name each other (docs/protocol.md#a4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRow {
    pub instance: InstanceId,
    pub phase: ClaimPhase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimPhase {
    Open,
    /// The NodeClaim has released its instance, which garbage collection may terminate (docs/protocol.md#g1).
    Closed,
}

/// Row `INSTANCE#i-…` / `OWNER`. Adopting and collecting an instance both write this row conditionally, so that only
/// one succeeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceOwner {
    pub cluster: ClusterName,
    pub holder: Holder,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Holder {
    Claim(NodeClaimName),
    /// Garbage collection owns the instance; no NodeClaim may adopt it any more (docs/protocol.md#g1).
    Collector,
}

/// Row `CLUSTER#c` / `NOTICE#instance#kind`: an interruption that AWS announced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub instance: InstanceId,
    pub kind: String,
    /// Time at which the instance ends, if known.
    pub deadline: Option<Timestamp>,
    /// Time at which the notice was recorded.
    #[serde(default)]
    pub at: Option<Timestamp>,
    #[serde(default, rename = "course")]
    pub action: InterruptionAction,
    /// Whether the node has no NodePool. Its owner opted in to interruption handling.
    #[serde(default, rename = "foreign")]
    pub unmanaged: bool,
    /// Lifecycle hook to complete once the node is drained.
    #[serde(default)]
    pub hook: Option<LifecycleHook>,
    /// Id of the event that announced the interruption.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub event: String,
    /// Whether the instance reboots and stays in service afterwards.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reboots: bool,
    pub done: bool,
}

impl Notice {
    /// Whether the instance certainly ends, so that all its pods need other places, including those that must not be
    /// disrupted voluntarily.
    pub fn terminates_unconditionally(&self) -> bool {
        let ends = InterruptionKind::ALL
            .into_iter()
            .filter(|kind| kind.is_state_change())
            .any(|kind| kind.as_str() == self.kind);
        !self.done && (ends || self.deadline.is_some() || self.action == InterruptionAction::Force)
    }
}

/// Scope of an insufficient-capacity error, valid for all clusters of the account.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OfferingKey {
    pub capacity_type: crate::catalog::CapacityType,
    pub instance_type: String,
    pub zone_id: String,
    /// Reservation or placement group that the error is limited to.
    pub scope: Option<String>,
}

/// An offering with an insufficient-capacity error, which must not be tried before `until`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnavailableOffering {
    #[serde(flatten)]
    pub offering: OfferingKey,
    pub until: Timestamp,
    /// Number of consecutive failures.
    pub count: u32,
}

impl UnavailableOffering {
    /// Wait after a first failure, the same as Karpenter's.
    const FIRST_WAIT: SignedDuration = SignedDuration::from_mins(3);
    /// Upper bound on the wait. After each wait, the next launch is a probe.
    const WAIT_MAX: SignedDuration = SignedDuration::from_mins(30);

    /// The entry after a failure at `now`. A failure after the previous wait has ended doubles the wait. A failure
    /// during the wait, such as the hundredth interruption of a pool that EC2 reclaims, restarts it. An entry that
    /// lapsed more than [`Self::WAIT_MAX`] ago is ignored.
    pub fn after(offering: OfferingKey, before: Option<&Self>, now: Timestamp) -> Self {
        let count = before
            .filter(|before| now.duration_since(before.until) < Self::WAIT_MAX)
            .map_or(1, |before| match before.until > now {
                true => before.count,
                false => before.count.saturating_add(1),
            });
        let doublings = count.saturating_sub(1).min(4);
        let wait = (Self::FIRST_WAIT * (1 << doublings)).min(Self::WAIT_MAX);
        let until = now.saturating_add(wait).unwrap_or(now);
        Self {
            offering,
            until,
            count,
        }
    }
}

/// Row `CLUSTER#c` / `SWEEP`: the housekeeper's state between sweeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SweepMemory {
    /// The relay's heartbeat as last read, and since when it has been unchanged, by the sweep's own clock
    /// (docs/protocol.md#l6).
    pub beat: Option<RelayBeat>,
    pub beat_since: Option<Timestamp>,
    /// Times of the last read that found the heartbeat unchanged, and of the last read that found another value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beat_seen_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_beat_seen_at: Option<Timestamp>,
    /// META's generation as of the last sweep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// ResourceVersion of a leader Lease that another controller holds, and since when (docs/protocol.md#b2).
    pub lease_version: Option<String>,
    pub lease_since: Option<Timestamp>,
    pub lease_sweeps: u32,
    /// Last time that garbage collection ran with complete lists.
    pub collected_at: Option<Timestamp>,
    /// Instances without a NodeClaim, and since when (docs/protocol.md#g2).
    pub orphans: BTreeMap<InstanceId, Timestamp>,
    /// NodeClaims without an instance, and since when (docs/protocol.md#g2).
    pub instance_gone: BTreeMap<NodeClaimName, Timestamp>,
    /// Times of collections within the last hour that the ledger does not explain (docs/protocol.md#g3).
    pub unexplained: Vec<Timestamp>,
    /// Entries of `unexplained` whose collection may not have finished, because a sweep died or failed. Kept so that
    /// they are not counted twice.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub counted: BTreeSet<String>,
    /// NodePools with an event about a zonal shift, with the zone's id.
    pub announced_shifts: BTreeSet<(String, String)>,
    /// Notifications sent within the current hour by destination: start of the hour and count.
    pub notified: BTreeMap<String, (Timestamp, u32)>,
    /// Last time that unused launch templates and instance profiles were deleted.
    #[serde(rename = "upkept_at")]
    pub leftovers_deleted_at: Option<Timestamp>,
    /// Set while EKS reports that the cluster does not exist.
    pub cluster_gone: Option<Absence>,
    /// Another registered cluster with the same API server. This cluster is not managed then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub twin: Option<ClusterName>,
    /// Uid of the cluster that the registry entry referred to before the present one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<Uid>,
    /// Uids of the clusters that the registry entry referred to before `former`, newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Uid>,
    /// Whether the registry entry is gone and nothing of the cluster is left. The cluster is no longer visited.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
}

impl SweepMemory {
    /// Upper bound on the entries of each map: all of the row is one item of at most 400 KB, and an entry takes up to a
    /// hundred bytes.
    pub const OBJECTS_MAX: usize = 1_000;

    /// Upper bound on remembered previous clusters. Someone who recreates a cluster more often, within the days that
    /// its instances may take to end, has to terminate those instances manually.
    const FORMERS_MAX: usize = 16;

    /// Uids of all clusters that the registry entry referred to before the present one.
    pub fn formers(&self) -> BTreeSet<Uid> {
        self.earlier.iter().chain(&self.former).cloned().collect()
    }

    /// The part of the state that still applies once the registry entry refers to another cluster.
    #[must_use]
    pub fn of_successor(self, former: Uid) -> Self {
        let mut earlier = self.earlier;
        earlier.extend(self.former);
        earlier.drain(..earlier.len().saturating_sub(Self::FORMERS_MAX - 1));
        Self {
            former: Some(former),
            earlier,
            generation: self.generation,
            beat: self.beat,
            beat_since: self.beat_since,
            beat_seen_at: self.beat_seen_at,
            other_beat_seen_at: self.other_beat_seen_at,
            notified: self.notified,
            ..Self::default()
        }
    }

    /// Drops the newest entries beyond the bound. The oldest ones stay because they are due first; the others are found
    /// again once there is room.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        keep_oldest(&mut self.orphans);
        keep_oldest(&mut self.instance_gone);
        let excess = self.unexplained.len().saturating_sub(Self::OBJECTS_MAX);
        self.unexplained.drain(..excess);
        while self.counted.len() > Self::OBJECTS_MAX {
            self.counted.pop_last();
        }
        self
    }
}

fn keep_oldest<K: Ord + Clone>(since: &mut BTreeMap<K, Timestamp>) {
    let excess = since.len().saturating_sub(SweepMemory::OBJECTS_MAX);
    if excess == 0 {
        return;
    }
    let mut newest: Vec<(Timestamp, K)> =
        since.iter().map(|(key, at)| (*at, key.clone())).collect();
    newest.sort_unstable_by(|a, b| b.cmp(a));
    for (_, key) in newest.into_iter().take(excess) {
        since.remove(&key);
    }
}

/// Time span in which repeated lookups did not find a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absence {
    pub since: Timestamp,
    pub last: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap()
    }

    #[test]
    fn capacity_backoff_grows_to_half_an_hour_and_resets_half_an_hour_after_lapsing() {
        let key = OfferingKey {
            capacity_type: crate::CapacityType::Spot,
            instance_type: "m5.large".into(),
            zone_id: "use1-az1".into(),
            scope: None,
        };
        let mut now = at(0);
        let mut last = None;
        let mut waits = Vec::new();
        for _ in 0..6 {
            let next = UnavailableOffering::after(key.clone(), last.as_ref(), now);
            waits.push(next.until.duration_since(now).as_mins());
            now = next.until;
            last = Some(next);
        }
        assert_eq!(waits, [3, 6, 12, 24, 30, 30]);
        let later = now + SignedDuration::from_mins(30);
        assert_eq!(
            UnavailableOffering::after(key, last.as_ref(), later).count,
            1
        );
    }

    #[test]
    fn bounded_sweep_memory_keeps_oldest_entries() {
        let orphan = |number: i64| (InstanceId(format!("i-{number:04}")), at(5_000 - number));
        let memory = SweepMemory {
            orphans: (0..5_000).map(orphan).collect(),
            ..SweepMemory::default()
        };
        let bounded = memory.bounded();
        assert_eq!(bounded.orphans.len(), SweepMemory::OBJECTS_MAX);
        assert!(bounded.orphans.values().all(|since| *since <= at(1_000)));
    }

    #[test]
    fn failure_during_backoff_restarts_it_without_doubling() {
        let key = OfferingKey {
            capacity_type: crate::CapacityType::Spot,
            instance_type: "m5.large".into(),
            zone_id: "use1-az1".into(),
            scope: None,
        };
        let first = UnavailableOffering::after(key.clone(), None, at(0));
        let again = UnavailableOffering::after(key, Some(&first), at(2));
        assert_eq!((again.until, again.count), (at(5), 1));
    }
}
