//! Tests by rule, on a small cluster with three instance types: `small` with 2 cpu at $0.1/h, `medium` with 4 at 0.2, `large`
//! with 8 at 0.4. Spot costs half as much.

use std::{collections::BTreeMap, sync::Arc};

use api::{
    conditions::types::{CONSOLIDATABLE, DRIFTED, INITIALIZED, LAUNCHED, REGISTERED},
    names::annotation::DO_NOT_DISRUPT,
};
use jiff::SignedDuration;
use model::{
    CapacityType, InstanceType, NanosPerHour, Offering, Resources, Snapshot,
    catalog::Overhead,
    node_pool::{Budget, ConsolidateAfter, ConsolidationPolicy},
    pod::{Owner, Pod, PodPhase, PodShape},
    requirement::{Requirement, Requirements},
    selector::{LabelSelector, NodeSelectorRequirement, Operator},
    snapshot::{Optimize, PodDisruptionBudget},
};

use super::*;
use crate::fixtures;

mod active_plans;
mod bad_input;
mod balancing;
mod budgets_and_blocking;
mod claiming_devices;
mod commanding;
mod consolidating;
mod deletion_costs;
mod drifting;
mod emptying;
mod evicting;
mod holding;
mod keeping_freed_instances;
mod lookahead;
mod node_reports;
mod planning_together;
mod preferring;
mod pricing;
mod repairing;
mod rounds;
mod spreading;
mod terminating_first;
mod two_days;
mod validating;
mod weighing_preferences;

const SETTLED: &[&str] = &[LAUNCHED, REGISTERED, INITIALIZED, CONSOLIDATABLE];
const ZONE: &str = "topology.kubernetes.io/zone";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

struct TestCluster(Snapshot);

impl TestCluster {
    /// NodePool `default`, which launches on demand, consolidates immediately and may lose all nodes.
    fn new() -> Self {
        let mut snapshot = fixtures::snapshot();
        snapshot.settings.optimize = Optimize::Upstream;
        let mut pool = fixtures::pool("default", 0);
        pool.template.node_class = fixtures::claim("x", &[]).spec.node_class;
        pool.template.requirements = vec![one_of(CAPACITY_TYPE, &["on-demand"])];
        snapshot.node_pools = vec![pool];
        let types = [("small", 2, 100), ("medium", 4, 200), ("large", 8, 400)];
        let types = types
            .map(|(name, cpu, mills)| kind(name, cpu, mills))
            .to_vec();
        snapshot
            .instance_types
            .insert("default".into(), Arc::new(types));
        Self(snapshot)
    }

    /// Adds a consolidatable on-demand node of this type, with one pod for each of these millicores.
    fn node(self, name: &str, kind: &str, pods: &[i64]) -> Self {
        self.node_of(name, kind, "on-demand", pods)
    }

    fn node_of(mut self, name: &str, kind: &str, capacity_type: &str, pods: &[i64]) -> Self {
        let snapshot = &mut self.0;
        let mut claim = fixtures::claim(&format!("{name}-claim"), SETTLED);
        let labels = [
            (INSTANCE_TYPE, kind),
            (CAPACITY_TYPE, capacity_type),
            (ZONE, "a"),
            ("karpenter.sh/initialized", "true"),
        ];
        for (key, value) in labels {
            claim.labels.insert(key.to_owned(), value.to_owned());
        }
        let mut node = fixtures::node(name, &claim);
        node.labels.extend(claim.labels.clone());
        node.labels
            .insert("kubernetes.io/hostname".to_owned(), name.to_owned());
        let types = &snapshot.instance_types[&"default".into()];
        let of_kind = types.iter().find(|known| known.name == kind);
        node.allocatable = of_kind.map_or_else(
            || Resources::from([("cpu", 2_000), ("pods", 29)]),
            InstanceType::allocatable,
        );
        node.capacity = node.allocatable.clone();
        for (at, cpu) in pods.iter().enumerate() {
            snapshot.pods.push(pod(&format!("{name}-{at}"), *cpu, name));
        }
        snapshot.nodes.push(node);
        snapshot.node_claims.push(claim);
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Snapshot)) -> Self {
        change(&mut self.0);
        self
    }

    /// Reason, removed nodes, and the instance types of each replacement.
    fn commands(&self) -> Vec<(Reason, Vec<String>, Vec<Vec<String>>)> {
        let commands = disrupt(&self.0).commands.into_iter();
        commands
            .map(|command| {
                let replacements = command.replacements.into_iter();
                let types = replacements.map(|launch| {
                    let names = launch.instance_types.iter();
                    names.map(|name| name.as_str().to_owned()).collect()
                });
                let types = types.collect();
                (command.reason, command.nodes, types)
            })
            .collect()
    }

    fn removes(&self) -> Vec<String> {
        let commands = self.commands().into_iter();
        commands.flat_map(|(_, nodes, _)| nodes).collect()
    }

    fn blocked(&self) -> Vec<(String, String)> {
        let blocked = disrupt(&self.0).blocked.into_iter();
        blocked
            .map(|blocked| (blocked.node, blocked.message))
            .collect()
    }

    fn unconsolidatable(&self) -> Vec<String> {
        let reported = disrupt(&self.0).unconsolidatable.into_iter();
        reported.map(|blocked| blocked.message).collect()
    }
}

fn kind(name: &str, cpu: i64, mills: i64) -> InstanceType {
    let offering = |capacity_type, mills: i64| Offering {
        unpriced: false,
        capacity_type,
        zone: "a".to_owned(),
        zone_id: String::new(),
        price: NanosPerHour(mills * 1_000_000),
        available: true,
        reservation: None,
        requirements: Requirements::default(),
        capacity_override: None,
        overhead_override: None,
    };
    let mut requirements = Requirements::default();
    for (key, values) in [
        (INSTANCE_TYPE, &[name][..]),
        (CAPACITY_TYPE, &["on-demand", "spot"]),
        (ZONE, &["a"]),
    ] {
        let values = values.iter().map(|value| (*value).to_owned());
        requirements.add(Requirement::new(key, Operator::In, values));
    }
    InstanceType {
        ebs_attach_limit: None,
        devices: Vec::new(),
        name: name.to_owned(),
        requirements,
        capacity: Resources::from([("cpu", cpu * 1_000), ("pods", 29)]),
        overhead: Overhead::default(),
        offerings: vec![
            offering(CapacityType::OnDemand, mills),
            offering(CapacityType::Spot, mills / 2),
        ],
    }
}

fn one_of(key: &str, values: &[&str]) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: key.to_owned(),
        operator: Operator::In,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
        min_values: None,
    }
}

fn pod(name: &str, cpu: i64, node: &str) -> Pod {
    Pod {
        key: model::PodKey::new("default".to_owned(), name.to_owned()),
        uid: format!("uid-{name}").into(),
        node_name: Some(node.into()),
        phase: PodPhase::Running,
        ready: true,
        shape: PodShape {
            labels: BTreeMap::from([("app".to_owned(), name.to_owned())]),
            requests: Resources::from([("cpu", cpu), ("pods", 1)]),
            ..PodShape::default()
        }
        .into(),
        ..Pod::default()
    }
}

fn budget(nodes: &str) -> Budget {
    Budget {
        nodes: nodes.to_owned(),
        ..Budget::default()
    }
}

fn guard(pod: &str) -> PodDisruptionBudget {
    PodDisruptionBudget {
        key: model::PodKey::new("default".to_owned(), "guard".to_owned()),
        selector: Some(LabelSelector {
            match_labels: BTreeMap::from([("app".to_owned(), pod.to_owned())]),
            ..LabelSelector::default()
        }),
        ..PodDisruptionBudget::default()
    }
}

fn drift(snapshot: &mut Snapshot, claim: &str, minutes_ago: i64) {
    let now = snapshot.now;
    let mut claims = snapshot.node_claims.iter_mut();
    let claim = claims.find(|known| known.name.as_str() == claim).unwrap();
    let mut condition = claim.status.conditions[0].clone();
    condition.kind = DRIFTED.to_owned();
    condition.last_transition = now - SignedDuration::from_mins(minutes_ago);
    claim.status.conditions.push(condition);
}
