//! A valid plan.

use std::collections::BTreeMap;

use model::{
    Action, InstanceType, Offering, Plan, Resources, Snapshot,
    labels::{CAPACITY_TYPE, INSTANCE_TYPE, NODE_POOL, ZONE},
    node_claim::NodeClaimSpec,
    plan::{
        Expected, ExpectedOffering, Launch, NodeClaimUpdate, NodeUpdate, Nomination, Planned,
        PodRef, Target,
    },
    requirement::{Requirement, Requirements},
    selector::{NodeSelectorRequirement, Operator},
};

use super::*;

pub(crate) fn pod_ref(name: &str) -> PodRef {
    PodRef {
        key: key(name),
        uid: format!("{name}-uid").into(),
    }
}

/// A launch for these pods, with all instance types and offerings that satisfy the requirements.
pub(crate) fn launch(
    snapshot: &Snapshot,
    name: &str,
    pool: &str,
    more: &[NodeSelectorRequirement],
    pods: &[&str],
) -> Planned {
    let pool = snapshot
        .node_pools
        .iter()
        .find(|node_pool| node_pool.name.as_str() == pool)
        .unwrap();
    let types = &snapshot.instance_types[&pool.name];
    let mut requirements =
        Requirements::from_selector(pool.template.requirements.iter().chain(more));
    requirements.add((&one_of(NODE_POOL, &[pool.name.as_str()])).into());
    for (key, value) in &pool.template.labels {
        requirements.add(Requirement::new(key, Operator::In, [value.clone()]));
    }
    let allows =
        |key: &str, value: &str| requirements.get(key).is_none_or(|wanted| wanted.has(value));
    let mut options: Vec<(&Offering, &InstanceType)> = types
        .iter()
        .filter(|instance_type| allows(INSTANCE_TYPE, &instance_type.name))
        .flat_map(|instance_type| {
            instance_type
                .offerings
                .iter()
                .map(move |offering| (offering, instance_type))
        })
        .filter(|(offering, _)| {
            let reservation = offering
                .reservation
                .as_ref()
                .map(|reservation| reservation.id.as_str());
            let reserved = requirements
                .get(RESERVATION_LABEL)
                .is_none_or(|wanted| reservation.is_some_and(|id| wanted.has(id)));
            offering.available
                && reserved
                && allows(ZONE, &offering.zone)
                && allows(CAPACITY_TYPE, offering.capacity_type.as_str())
        })
        .collect();
    options.sort_by_key(|(offering, instance_type)| (offering.price, instance_type.name.clone()));
    let (cheapest, of_type) = options[0];
    let mut instance_types: Vec<String> = Vec::new();
    for (_, instance_type) in &options {
        if !instance_types.contains(&instance_type.name) {
            instance_types.push(instance_type.name.clone());
        }
    }
    requirements.add(Requirement::new(
        INSTANCE_TYPE,
        Operator::In,
        instance_types.iter().cloned(),
    ));
    let mut labels = pool.template.labels.clone();
    labels.insert(NODE_POOL.into(), pool.name.0.clone());
    let launch = Launch {
        name: name.into(),
        node_pool: pool.name.clone(),
        node_pool_uid: pool.uid.clone(),
        labels,
        annotations: BTreeMap::new(),
        spec: NodeClaimSpec {
            node_class: pool.template.node_class.clone(),
            requirements: requirements.to_selector(),
            requests: Resources::default(),
            taints: pool.template.taints.clone(),
            startup_taints: pool.template.startup_taints.clone(),
            expire_after: None,
            termination_grace_period: None,
        },
        pods: pods.iter().map(|name| pod_ref(name)).collect(),
        cheapest: ExpectedOffering {
            instance_type: of_type.name.clone(),
            capacity_type: cheapest.capacity_type,
            zone: cheapest.zone.clone(),
            price: cheapest.price,
            capacity: of_type.capacity.clone(),
        },
        instance_types: instance_types
            .iter()
            .map(|name| name.as_str().into())
            .collect(),
    };
    Planned {
        action: Action::Launch(Box::new(launch)),
        because: "pods are pending".into(),
    }
}

pub(crate) fn nominate(pod: &str, node: &str) -> Nomination {
    Nomination {
        pod: pod_ref(pod),
        node: Expected::Node(node.into()),
    }
}

pub(crate) fn target(claim: &str) -> Target {
    Target {
        name: claim.into(),
        uid: format!("{claim}-uid").into(),
        resource_version: "1".into(),
    }
}

fn on_demand() -> NodeSelectorRequirement {
    one_of(CAPACITY_TYPE, &["on-demand"])
}

/// Indexes of the launch actions of [`plan`].
pub(crate) const PLAIN: usize = 0;
pub(crate) const ZONAL: usize = 1;
pub(crate) const DEDICATED: usize = 2;
pub(crate) const ZONE_A: usize = 3;
pub(crate) const ZONE_B: usize = 4;
pub(crate) const ZONE_C: usize = 5;
pub(crate) const DIVERSE: usize = 6;
pub(crate) const RESERVED: usize = 7;
pub(crate) const DELETE: usize = 8;
pub(crate) const UPDATE_NODE: usize = 9;
pub(crate) const UPDATE_CLAIM: usize = 10;
pub(crate) const EVICT: usize = 11;
pub(crate) const DELETE_POD: usize = 12;
pub(crate) const TERMINATE: usize = 13;

pub(crate) fn plan(snapshot: &Snapshot) -> Plan {
    let zone = |name: &str| vec![one_of(ZONE, &[name]), on_demand()];
    let large = || one_of(INSTANCE_TYPE, &["c.large", "m.large"]);
    let because = |action: Action| Planned {
        action,
        because: "as intended".into(),
    };
    let actions = vec![
        launch(
            snapshot,
            "plain",
            "default",
            &[on_demand(), large()],
            &["plain-0", "plain-1", "plain-2", "plain-3", "port-0"],
        ),
        launch(
            snapshot,
            "zonal",
            "default",
            &zone("b"),
            &["zonal-0", "port-1"],
        ),
        launch(snapshot, "dedicated", "dedicated", &[], &["dedicated-0"]),
        launch(
            snapshot,
            "zone-a",
            "default",
            &zone("a"),
            &["spread-0", "apart-0", "follower-0"],
        ),
        launch(
            snapshot,
            "zone-b",
            "default",
            &zone("b"),
            &["spread-1", "apart-1", "db-0"],
        ),
        launch(
            snapshot,
            "zone-c",
            "default",
            &zone("c"),
            &["spread-2", "peer-0", "peer-1"],
        ),
        launch(snapshot, "diverse", "diverse", &[], &["choosy-0"]),
        launch(
            snapshot,
            "reserved",
            "default",
            &[
                one_of(CAPACITY_TYPE, &["reserved"]),
                one_of(RESERVATION_LABEL, &["cr-1"]),
            ],
            &["reserved-0"],
        ),
        because(Action::DeleteNodeClaim(target("claim-n-4"))),
        because(Action::UpdateNode(NodeUpdate {
            name: "n-1".into(),
            uid: "n-1-uid".into(),
            ..NodeUpdate::default()
        })),
        because(Action::UpdateNodeClaim(NodeClaimUpdate {
            name: "claim-n-3".into(),
            uid: "claim-n-3-uid".into(),
            remove_finalizers: vec!["karpenter.sh/termination".into()],
            ..NodeClaimUpdate::default()
        })),
        because(Action::Evict {
            pod: key("moving-0"),
            uid: "moving-0-uid".into(),
            grace_seconds: None,
        }),
        because(Action::DeletePod {
            pod: key("stuck-0"),
            uid: "stuck-0-uid".into(),
            grace_seconds: Some(1),
        }),
        because(Action::Terminate {
            claim: "claim-n-3".into(),
            instance: "i-n-3".into(),
        }),
    ];
    Plan {
        actions,
        nominations: vec![nominate("small-0", "n-1"), nominate("late-0", "n-2")],
        ..Plan::default()
    }
}
