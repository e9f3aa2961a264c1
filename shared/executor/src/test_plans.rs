//! Plans of tests, with as little in them as possible.

use std::collections::BTreeMap;

use model::{
    Action, CapacityType, NanosPerHour, PodKey, Resources,
    node_claim::NodeClaimSpec,
    plan::{Expected, ExpectedOffering, Launch, Nomination, Planned, PodRef, Target},
    snapshot::{MinValuesPolicy, Optimize, PreferencePolicy, ReservedOfferingMode, Settings},
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

pub(crate) fn settings() -> Settings {
    Settings {
        preference_policy: PreferencePolicy::Respect,
        min_values_policy: MinValuesPolicy::Strict,
        reserved_offering_mode: ReservedOfferingMode::Strict,
        optimize: Optimize::Cost,
        feature_gates: BTreeMap::new(),
        well_known_labels: Vec::new(),
        restricted_domains: Vec::new(),
        reservation_id_label: String::new(),
        default_topology_spread: Vec::new(),
    }
}
