//! Plans of tests, with as little in them as possible.

use std::collections::BTreeMap;

use model::{
    Action, CapacityType, NanosPerHour, PodKey, Resources,
    node_claim::NodeClaimSpec,
    plan::{Expected, ExpectedOffering, Launch, Nomination, Planned, PodRef, Target},
};

pub(crate) fn planned(action: Action) -> Planned {
    Planned {
        action,
        because: String::new(),
    }
}

pub(crate) fn pod(name: &str) -> PodRef {
    PodRef {
        key: PodKey::new("default", name),
        uid: name.into(),
    }
}

pub(crate) fn launch(node_pool: &str, name: &str, pods: &[&str]) -> Planned {
    planned(Action::Launch(Box::new(Launch {
        name: name.into(),
        node_pool: node_pool.into(),
        node_pool_uid: node_pool.into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        spec: NodeClaimSpec::default(),
        pods: pods.iter().map(|name| pod(name)).collect(),
        instance_types: Vec::new(),
        cheapest: ExpectedOffering {
            instance_type: "m5.large".into(),
            capacity_type: CapacityType::OnDemand,
            zone: "a".into(),
            price: NanosPerHour(0),
            capacity: Resources::default(),
        },
    })))
}

pub(crate) fn nomination(name: &str, node: Expected) -> Nomination {
    Nomination {
        pod: pod(name),
        node,
    }
}

pub(crate) fn target(claim: &str) -> Target {
    Target {
        name: claim.into(),
        uid: claim.into(),
        resource_version: "1".into(),
    }
}
