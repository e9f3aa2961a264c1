//! Fuzz target of disruption budgets: planning, the time of the next check and the checker must agree on when a budget
//! is in force.

#![expect(clippy::expect_used, reason = "the cluster is a fixture")]

use std::sync::{Arc, LazyLock};

use api::manifests::Manifests;
use jiff::{SignedDuration, Timestamp};
use model::{Snapshot, node_pool::Budget};

use crate::manifests::cluster;

/// Longest window, in minutes, that is compared with its schedule minute by minute.
const MINUTES_MAX: i64 = 90;

/// Range of the present time, in seconds since the epoch.
const TIMES: std::ops::Range<i64> = 1_000_000..1 << 33;

/// Parses a schedule, a duration and the time in seconds, on three lines, and compares the budget's evaluations.
///
/// # Panics
///
/// If the evaluations of the budget disagree.
pub(crate) fn budget(text: &str) {
    let mut lines = text.splitn(3, '\n');
    let (Some(schedule), Some(length), Some(now)) = (lines.next(), lines.next(), lines.next())
    else {
        return;
    };
    let seconds = now.trim().parse().ok().filter(|now| TIMES.contains(now));
    let now = seconds.and_then(|now| Timestamp::from_second(now).ok());
    let (Some(now), Ok(duration)) = (now, length.parse::<api::GoDuration>()) else {
        return;
    };
    let is_closed = |at: Timestamp, length: &str| !allows(&cluster_with(schedule, length, at));
    let snapshot = cluster_with(schedule, length, now);
    let closed = !allows(&snapshot);
    assert_checker_agrees(&snapshot, closed);
    // An unparsable budget is the only one that blocks with a duration of 0 seconds.
    let is_valid = !is_closed(now, "0s");
    if is_valid {
        assert_opened_by_a_hit(now, duration.value(), closed, |at| is_closed(at, "1s"));
        assert_checked_again(&snapshot, closed, |at| is_closed(at, length));
    }
}

/// Asserts that a budget is in force if and only if its schedule hit within its duration before now.
fn assert_opened_by_a_hit(
    now: Timestamp,
    duration: SignedDuration,
    closed: bool,
    hits: impl Fn(Timestamp) -> bool,
) {
    if duration > SignedDuration::from_mins(MINUTES_MAX) {
        return;
    }
    let this_minute = now.as_second() - now.as_second() % 60;
    let hit = (0..=MINUTES_MAX)
        .filter_map(|back| Timestamp::from_second(this_minute - back * 60).ok())
        .take_while(|minute| now.duration_since(*minute) < duration)
        .any(hits);
    assert_eq!(closed, hit, "{now}, {duration}");
}

/// Asserts that a blocked disruption is due again when the budget's window closes, or when another one may have closed.
fn assert_checked_again(snapshot: &Snapshot, closed: bool, is_closed: impl Fn(Timestamp) -> bool) {
    let pass = planner::disrupt(snapshot);
    assert!(!closed || pass.commands.is_empty(), "{:?}", pass.commands);
    if !closed {
        return;
    }
    let due = pass.due.expect("the window ends");
    assert!(due > snapshot.now, "{due}");
    let before = due.as_second() - 1;
    if TIMES.contains(&before) && before >= snapshot.now.as_second() {
        let before = Timestamp::from_second(before).expect("a time of turns");
        assert!(is_closed(before), "{before} before {due}");
    }
}

/// Asserts that the checker reports a removal of the node exactly if the budget keeps the planner from it.
fn assert_checker_agrees(snapshot: &Snapshot, closed: bool) {
    let mut free = snapshot.clone();
    for pool in &mut free.node_pools {
        pool.disruption.budgets.clear();
    }
    let commands = planner::disrupt(&free).commands;
    let plan = commands.first().expect("the node is empty").plan();
    let violations = plancheck::check(snapshot, &plan);
    assert_eq!(!violations.is_empty(), closed, "{violations:?}");
}

fn allows(snapshot: &Snapshot) -> bool {
    let budgets = planner::pool_budgets(snapshot);
    budgets.iter().all(|budget| budget.allowed > 0)
}

/// Cluster with an empty node that no other rule protects.
fn cluster_with(schedule: &str, length: &str, now: Timestamp) -> Snapshot {
    let mut snapshot = CLUSTER.clone();
    snapshot.now = now;
    for pool in &mut snapshot.node_pools {
        pool.disruption.budgets = vec![Budget {
            nodes: "0".to_owned(),
            schedule: Some(schedule.to_owned()),
            duration: Some(length.to_owned()),
            reasons: Vec::new(),
        }];
    }
    snapshot
}

static CLUSTER: LazyLock<Snapshot> = LazyLock::new(|| {
    let mut read = Manifests::default();
    read.read("fixture", MANIFESTS);
    assert!(read.errors.is_empty(), "{:?}", read.errors);
    let mut snapshot = cluster::empty(Timestamp::UNIX_EPOCH, cluster::aws_settings());
    let objects = read.objects.into_iter().map(|manifest| manifest.object);
    let types = api::convert::catalog_file::read(TYPES).expect("the node's type");
    let _without_effect = cluster::add_objects(&mut snapshot, objects, &Arc::new(types));
    snapshot
});

const TYPES: &[u8] = br#"[{
    "name": "m5.2xlarge", "capacity": {"cpu": "8", "memory": "30Gi", "pods": "58"},
    "offerings": [{"capacityType": "on-demand", "zone": "us-east-1a", "price": 0.384}]
}]"#;

const MANIFESTS: &str = r#"
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  disruption: {consolidateAfter: 0s}
  template:
    spec:
      expireAfter: Never
      requirements: []
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: empty, uid: claim, labels: {karpenter.sh/nodepool: default, karpenter.sh/capacity-type: on-demand, karpenter.sh/registered: "true", karpenter.sh/initialized: "true", node.kubernetes.io/instance-type: m5.2xlarge, topology.kubernetes.io/zone: us-east-1a}, creationTimestamp: "1970-01-01T00:00:00Z"}
spec:
  expireAfter: Never
  requirements: []
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
status:
  providerID: aws:///us-east-1a/i-1
  nodeName: empty
  capacity: {cpu: "8", memory: 30Gi, pods: "58"}
  allocatable: {cpu: "8", memory: 30Gi, pods: "58"}
  conditions:
    - {type: Launched, status: "True", reason: Launched, lastTransitionTime: "1970-01-01T00:00:00Z"}
    - {type: Registered, status: "True", reason: Registered, lastTransitionTime: "1970-01-01T00:00:00Z"}
    - {type: Initialized, status: "True", reason: Initialized, lastTransitionTime: "1970-01-01T00:00:00Z"}
    - {type: Consolidatable, status: "True", reason: Consolidatable, lastTransitionTime: "1970-01-01T00:00:00Z"}
---
apiVersion: v1
kind: Node
metadata: {name: empty, uid: node, labels: {karpenter.sh/nodepool: default, karpenter.sh/capacity-type: on-demand, karpenter.sh/registered: "true", karpenter.sh/initialized: "true", node.kubernetes.io/instance-type: m5.2xlarge, topology.kubernetes.io/zone: us-east-1a}}
spec: {providerID: aws:///us-east-1a/i-1}
status:
  capacity: {cpu: "8", memory: 30Gi, pods: "58"}
  allocatable: {cpu: "8", memory: 30Gi, pods: "58"}
  conditions: [{type: Ready, status: "True"}]
"#;
