//! A minimal launch.

use std::collections::BTreeMap;

use model::{
    CapacityType, NanosPerHour, Resources,
    node_claim::NodeClaimSpec,
    plan::{ExpectedOffering, Launch},
};

/// A launch of an on-demand `m5.large`, for no pods.
pub fn launch(node_pool: &str, name: &str) -> Launch {
    Launch {
        name: name.into(),
        node_pool: node_pool.into(),
        node_pool_uid: format!("{node_pool}-uid").into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        spec: NodeClaimSpec::default(),
        pods: Vec::new(),
        instance_types: vec!["m5.large".into()],
        cheapest: ExpectedOffering {
            instance_type: "m5.large".into(),
            capacity_type: CapacityType::OnDemand,
            zone: "us-east-1a".into(),
            price: NanosPerHour(96_000_000),
            capacity: Resources::default(),
        },
    }
}
