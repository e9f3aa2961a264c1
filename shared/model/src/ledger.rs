//! Records that the ledger keeps between turns (docs/design.md#ledger, docs/protocol.md): leases, intents, frozen calls, commands,
//! notices.

mod command;
mod cursor;
mod pause;
mod request;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

pub use command::{Choice, Command, CommandState, FreedInstance, Method, Place, Repair, Wanted};
pub use cursor::{Considered, Cursor, Drifted, Rank, Together};
pub use pause::{Pause, PauseLevel, PauseScope, Paused, TooManyPauses};
pub use request::{Approval, Asks, NotApproved, Request};

use crate::{
    caps::AccountSpending,
    ids::{ClusterName, InstanceId, LaunchToken, NodeClaimName, PlanId, TurnId, Uid},
    interruption::{Course, InterruptionKind, LifecycleHook},
    launch::FleetRequest,
    plan::Launch,
    view::ViewPointer,
    wake::Lane,
};

/// The version of these records, which whoever writes a row puts on it: functions of two versions work side by side while a
/// stack is upgraded, and after it is rolled back.
///
/// Within a version, records only get fields that may be missing, and that whoever does not know them may ignore; states get
/// none, because they are compared as they are written. Whatever else changes is a new version. What functions of an older
/// version cannot read they leave alone.
pub const SCHEMA: u32 = 2;

/// `CLUSTER#c` / `META`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    pub generation: u64,
    pub mode: Mode,
    /// Mirror of the registry entry.
    pub registry: serde_json::Value,
    /// The uid of the namespace `kube-system` of the API server that the entry leads to: what a cluster is, whatever its name.
    #[serde(default)]
    pub uid: Option<Uid>,
    /// The cluster's, its NodePools' and its account's.
    #[serde(default)]
    pub pauses: Vec<Pause>,
    /// What the account's clusters come to, in the row of the account's pauses.
    #[serde(default)]
    pub account: AccountSpending,
    /// What waits for approval, was approved, or expired lately.
    #[serde(default)]
    pub requests: Vec<Request>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
pub enum Mode {
    Active,
    /// Full turns that stop before commit.
    Shadow,
}

impl Meta {
    /// Why nothing of this level may be begun now (docs/protocol.md#c4): a pause of the cluster or its account.
    pub fn paused(&self, level: PauseLevel, now: Timestamp) -> Option<Paused<'_>> {
        Pause::of_cluster(&self.pauses, level, now)
    }
}

/// `CLUSTER#c` / `LANE#f`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneRow {
    pub lease: Option<Lease>,
    /// Someone asked for another turn while this one ran (docs/protocol.md#l1).
    pub again: bool,
    pub failures: u32,
    pub last_error: Option<String>,
    pub due: Option<Timestamp>,
    pub last_full_look: Option<Timestamp>,
    /// Relay counters as read before the last full look's lists (docs/protocol.md#l6).
    pub seen: Option<RelayCounter>,
    /// Where the next look goes on, if the last one did not get through.
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

/// One lane's change counter: comparable only within an epoch (one relay process).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayCounter {
    pub epoch: String,
    pub seq: u64,
}

/// `RELAY#c` / `BEAT`, the only row the relay writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RelayBeat {
    pub epoch: String,
    pub beat_at: String,
    pub version: String,
    pub counters: BTreeMap<String, u64>,
    /// The newest view of the cluster's pods, where the relay publishes them.
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

/// `CLUSTER#c` / `INTENT#<NodeClaim name>`, `LAUNCHED#<NodeClaim name>` once it came to an instance: one launch, from the decision
/// until its NodeClaim is gone.
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

    /// Counts as a node on its way even where the API shows no NodeClaim (docs/protocol.md#o2).
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

/// `CLUSTER#c` / `CALL#token`, `CLOSED#token` once it is over: a frozen CreateFleet request and its members.
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
    /// A transaction holds 100 items: the call, its members and room for what goes with them (docs/protocol.md#a2).
    pub const MEMBERS_MAX: usize = 90;
}

/// `CLUSTER#c` / `CLAIM#name`: which instance a NodeClaim got. Owned means this and [`InstanceOwner`] name each other
/// (docs/protocol.md#a4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRow {
    pub instance: InstanceId,
    pub phase: ClaimPhase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimPhase {
    Open,
    /// The NodeClaim is finished with its instance, which may be collected (docs/protocol.md#g1).
    Closed,
}

/// `INSTANCE#i-…` / `OWNER`. Adopting and collecting an instance both go through this row, so that only one can win.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceOwner {
    pub cluster: ClusterName,
    pub holder: Holder,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Holder {
    Claim(NodeClaimName),
    /// Garbage collection took the instance; nobody may adopt it any more (docs/protocol.md#g1).
    Collector,
}

/// `CLUSTER#c` / `NOTICE#instance#kind`: an interruption that AWS announced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub instance: InstanceId,
    pub kind: String,
    /// When the instance goes, if that is known.
    pub deadline: Option<Timestamp>,
    /// When it was recorded.
    #[serde(default)]
    pub at: Option<Timestamp>,
    #[serde(default)]
    pub course: Course,
    /// No NodePool made the node: its owner wants it looked after all the same.
    #[serde(default)]
    pub foreign: bool,
    /// To be completed when the node is drained.
    #[serde(default)]
    pub hook: Option<LifecycleHook>,
    /// The id of the event that announced it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub event: String,
    /// Whether the instance is to reboot, and to be of use again after that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reboots: bool,
    pub done: bool,
}

impl Notice {
    /// Whether the instance goes, whatever is still on it: its pods need other places, also those that nobody may disturb.
    pub fn dooms(&self) -> bool {
        let ends = InterruptionKind::ALL
            .into_iter()
            .filter(|kind| kind.is_state_change())
            .any(|kind| kind.as_str() == self.kind);
        !self.done && (ends || self.deadline.is_some() || self.course == Course::Force)
    }
}

/// What an insufficient-capacity error is about, account-wide.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OfferingKey {
    pub capacity_type: crate::catalog::CapacityType,
    pub instance_type: String,
    pub zone_id: String,
    /// The reservation or placement group the failure is scoped to.
    pub scope: Option<String>,
}

/// An offering that answered with an insufficient-capacity error: not to be tried again before `until`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnavailableOffering {
    #[serde(flatten)]
    pub offering: OfferingKey,
    pub until: Timestamp,
    /// Failures in a row.
    pub count: u32,
}

impl UnavailableOffering {
    /// As upstream's, for a first failure.
    const FIRST: SignedDuration = SignedDuration::from_mins(3);
    /// Growth ends here; after each such wait the next launch is a probe.
    const LONGEST: SignedDuration = SignedDuration::from_mins(30);

    /// A failure at `now`, following `before`: one after the wait makes the next wait longer, one within it, such as the
    /// hundredth interruption of a pool that EC2 empties, begins it again. What lapsed more than the longest wait ago is
    /// forgotten.
    pub fn after(offering: OfferingKey, before: Option<&Self>, now: Timestamp) -> Self {
        let count = before
            .filter(|before| now.duration_since(before.until) < Self::LONGEST)
            .map_or(1, |before| match before.until > now {
                true => before.count,
                false => before.count.saturating_add(1),
            });
        let doublings = count.saturating_sub(1).min(4);
        let wait = (Self::FIRST * (1 << doublings)).min(Self::LONGEST);
        let until = now.saturating_add(wait).unwrap_or(now);
        Self {
            offering,
            until,
            count,
        }
    }
}

/// `CLUSTER#c` / `SWEEP`: what the housekeeper must remember from one sweep to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SweepMemory {
    /// The relay's row as last seen, and since when by the sweep's own clock (docs/protocol.md#l6).
    pub beat: Option<RelayBeat>,
    pub beat_since: Option<Timestamp>,
    /// When it was last seen so, and when it was last seen to be another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beat_seen_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_beat_seen_at: Option<Timestamp>,
    /// META's generation as the last visit read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// A foreign leader Lease's resourceVersion, and since when (docs/protocol.md#b2).
    pub lease_version: Option<String>,
    pub lease_since: Option<Timestamp>,
    pub lease_sweeps: u32,
    /// When garbage collection looked last, complete lists given.
    pub collected_at: Option<Timestamp>,
    /// Instances without a NodeClaim, and since when (docs/protocol.md#g2).
    pub orphans: BTreeMap<InstanceId, Timestamp>,
    /// NodeClaims without an instance, and since when (docs/protocol.md#g2).
    pub instance_gone: BTreeMap<NodeClaimName, Timestamp>,
    /// Collections that the ledger did not explain, within the hour (docs/protocol.md#g3).
    pub unexplained: Vec<Timestamp>,
    /// Those of them that may not have gone yet, because a sweep died or failed meanwhile: they are not counted twice.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub counted: BTreeSet<String>,
    /// NodePools that were told of a zonal shift, with the zone's id.
    pub announced_shifts: BTreeSet<(String, String)>,
    /// Notifications sent within the hour, by destination: since when it runs, and how many.
    pub notified: BTreeMap<String, (Timestamp, u32)>,
    /// When launch templates and instance profiles were looked through last.
    pub upkept_at: Option<Timestamp>,
    /// EKS says that it has no such cluster.
    pub cluster_gone: Option<Absence>,
    /// Another registered cluster that has the same API server: this one is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub twin: Option<ClusterName>,
    /// The uid of the cluster that the entry led to before it led to the present one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub former: Option<Uid>,
    /// Those that it led to before that one, newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Uid>,
    /// The registry entry is gone, and nothing of the cluster is held any more: it is not visited.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
}

impl SweepMemory {
    /// Upper bound on the objects of each kind: all of the memory is one item of 400 KB, and each takes up to a hundred bytes.
    pub const OBJECTS_MAX: usize = 1_000;

    /// Upper bound on the clusters that an entry led to before: who makes a cluster anew more often in the days that its instances
    /// may take to go has to end those himself.
    const FORMERS_MAX: usize = 16;

    /// The clusters that the entry led to before it led to the present one.
    pub fn formers(&self) -> BTreeSet<Uid> {
        self.earlier.iter().chain(&self.former).cloned().collect()
    }

    /// What of the memory holds for another cluster that the entry leads to now.
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

    /// Keeps no more than that: those known longest stay, because they are to be seen to first, and the others are found
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

/// Something that was looked for again and again and not found.
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
    fn waits_for_capacity_grow_to_half_an_hour_and_are_forgotten_after_another() {
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
    fn sweep_memory_keeps_what_it_has_known_longest() {
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
    fn failures_within_a_wait_begin_it_again_and_do_not_make_it_longer() {
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
