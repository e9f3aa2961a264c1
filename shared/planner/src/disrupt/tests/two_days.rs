//! Two days of a Deployment that is scaled up and down every hour, beside one that never changes.

use model::{
    PodKey,
    node_claim::NodeClaim,
    plan::{Action, Expected, Launch, PodRef},
};

use super::*;
use crate::{provision::provision, share::Share};

const STEP: SignedDuration = SignedDuration::from_mins(5);
const STEPS_PER_HOUR: usize = 12;
const HOURS: usize = 48;
const BURST: usize = 7;

/// A cluster in which every decision takes effect immediately.
struct Days {
    snapshot: Snapshot,
    /// Evictions by pod.
    evictions: BTreeMap<PodKey, usize>,
    /// Nodes that replaced a node of their own instance type.
    replaced_by_own_kind: Vec<String>,
}

impl Days {
    fn result(look: fn(&Snapshot) -> DisruptionResult) -> Self {
        let cluster = TestCluster::new()
            .node("steady-a", "large", &[900, 900, 900, 900, 900])
            .node("steady-b", "medium", &[900, 900, 900])
            .with(|snapshot| snapshot.settings.optimize = Optimize::Cost);
        let mut days = Self {
            snapshot: cluster.0,
            evictions: BTreeMap::new(),
            replaced_by_own_kind: Vec::new(),
        };
        for step in 0..HOURS * STEPS_PER_HOUR {
            if step % STEPS_PER_HOUR == 0 {
                days.scale(step / STEPS_PER_HOUR);
            }
            days.provide();
            for command in look(&days.snapshot).commands {
                days.obey(&command);
            }
            days.snapshot.now += STEP;
        }
        days
    }

    /// Scales up in even hours and down in odd ones.
    fn scale(&mut self, hour: usize) {
        let pods = &mut self.snapshot.pods;
        pods.retain(|pod| !pod.key.name.starts_with("burst"));
        if hour.is_multiple_of(2) {
            pods.extend((0..BURST).map(|at| Pod {
                node_name: None,
                phase: PodPhase::Pending,
                unschedulable: true,
                ..pod(&format!("burst-{hour}-{at}"), 700, "")
            }));
        }
    }

    fn provide(&mut self) {
        let plan = provision(&self.snapshot, Share::WHOLE);
        for nomination in &plan.nominations {
            if let Expected::Node(name) = &nomination.node {
                self.bind(&nomination.pod, name.as_str());
            }
        }
        for planned in plan.actions {
            if let Action::Launch(launch) = planned.action {
                self.join(&launch);
            }
        }
    }

    fn obey(&mut self, command: &Command) {
        for launch in &command.replacements {
            let kind = &launch.cheapest.instance_type;
            let mut nodes = self.snapshot.nodes.iter();
            if nodes.any(|node| {
                command.nodes.contains(&node.name.to_string())
                    && node.labels.get(INSTANCE_TYPE) == Some(kind)
            }) {
                self.replaced_by_own_kind.push(kind.clone());
            }
            self.join(launch);
        }
        for nomination in &command.nominations {
            if let Expected::Node(name) = &nomination.node {
                self.bind(&nomination.pod, name.as_str());
            }
        }
        let gone = |name: &str| command.nodes.iter().any(|node| node == name);
        self.snapshot.nodes.retain(|node| !gone(node.name.as_str()));
        let deleted =
            |claim: &NodeClaim| command.delete.iter().any(|target| target.uid == claim.uid);
        self.snapshot.node_claims.retain(|claim| !deleted(claim));
    }

    /// Adds a node of the cheapest instance type of the launch, with its pods.
    fn join(&mut self, launch: &Launch) {
        let name = launch.name.to_string();
        let cluster = TestCluster(std::mem::replace(&mut self.snapshot, fixtures::snapshot()));
        self.snapshot = cluster.node(&name, &launch.cheapest.instance_type, &[]).0;
        let now = self.snapshot.now;
        if let Some(claim) = self.snapshot.node_claims.last_mut() {
            claim.created_at = Some(now);
        }
        for pod in &launch.pods {
            self.bind(pod, &name);
        }
    }

    fn bind(&mut self, pod: &PodRef, node: &str) {
        let mut pods = self.snapshot.pods.iter_mut();
        if let Some(known) = pods.find(|known| known.key == pod.key) {
            if known.node_name.replace(node.into()).is_some() {
                *self.evictions.entry(known.key.clone()).or_default() += 1;
            }
            known.phase = PodPhase::Running;
            known.unschedulable = false;
        }
    }

    fn evictions_of(&self, prefix: &str) -> usize {
        let all = self.evictions.iter();
        let own = all.filter(|(pod, _)| pod.name.starts_with(prefix));
        own.map(|(_, times)| times).sum()
    }

    fn most_evictions(&self) -> usize {
        self.evictions.values().copied().max().unwrap_or(0)
    }
}

#[test]
fn hourly_scaling_replaces_no_node_by_its_own_type_and_moves_pods_at_most_once() {
    let days = Days::result(disrupt);
    assert!(
        days.replaced_by_own_kind.is_empty(),
        "{:?}",
        days.replaced_by_own_kind
    );
    assert!(days.most_evictions() <= 1, "{:?}", days.evictions);
    assert!(days.evictions_of("steady") <= 8, "{:?}", days.evictions);
}
