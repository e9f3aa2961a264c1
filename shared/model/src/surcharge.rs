//! Costs of a node besides its instance: its volumes, and other per-node costs (docs/scheduling.md).

use serde::{Deserialize, Serialize};

use crate::{
    catalog::NanosPerHour,
    ids::NodePoolName,
    node_pool::NodePool,
    snapshot::{Optimize, Snapshot},
};

/// Costs of each node of a NodePool besides its instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surcharge {
    /// Volumes that the NodeClass attaches to each node.
    pub volumes: NanosPerHour,
    /// Licenses, agents and other per-node costs, as configured by the user.
    pub node: NanosPerHour,
}

impl Surcharge {
    /// NodePool annotation: dollars per hour that each node costs besides its instance and its volumes.
    pub const ANNOTATION: &str = "whittle.sh/node-price";

    pub fn total(self) -> NanosPerHour {
        self.volumes.plus(self.node)
    }
}

impl NodePool {
    /// Value of [`Surcharge::ANNOTATION`]; `None` if it cannot be parsed, in which case the NodePool is not valid.
    fn node_price(&self) -> Option<NanosPerHour> {
        NanosPerHour::from_dollars(self.annotations.get(Surcharge::ANNOTATION)?)
    }
}

impl Snapshot {
    /// Costs of each node of a NodePool besides its instance. Zero under [`Optimize::Upstream`], because Karpenter
    /// considers instance prices only.
    pub fn surcharge(&self, pool: &NodePool) -> Surcharge {
        match self.settings.optimize {
            Optimize::Upstream => Surcharge::default(),
            Optimize::Cost => Surcharge {
                volumes: pool.volume_price,
                node: pool.node_price().unwrap_or(self.settings.node_price),
            },
        }
    }

    /// Total [`Self::surcharge`] of the NodePool with this name; zero if there is none.
    pub fn surcharge_of(&self, name: Option<&NodePoolName>) -> NanosPerHour {
        let mut pools = self.node_pools.iter();
        let pool = pools.find(|pool| Some(&pool.name) == name);
        pool.map_or(NanosPerHour(0), |pool| self.surcharge(pool).total())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;

    use super::*;
    use crate::snapshot::{MinValuesPolicy, PreferencePolicy, ReservedOfferingMode, Settings};

    fn snapshot(optimize: Optimize, annotations: &[(&str, &str)]) -> Snapshot {
        let settings = Settings {
            preference_policy: PreferencePolicy::Respect,
            min_values_policy: MinValuesPolicy::Strict,
            reserved_offering_mode: ReservedOfferingMode::Strict,
            optimize,
            preference_worth: Settings::preference_worth(),
            node_price: NanosPerHour(5),
            feature_gates: BTreeMap::new(),
            well_known_labels: Vec::new(),
            restricted_domains: Vec::new(),
            reservation_id_label: String::new(),
            default_topology_spread: Vec::new(),
            registration_timeout: None,
            legacy_node_repair: false,
            device_claims: false,
        };
        let mut snapshot = Snapshot::empty("c".into(), Timestamp::UNIX_EPOCH, settings);
        let annotations = annotations.iter();
        snapshot.node_pools.push(NodePool {
            name: "default".into(),
            volume_price: NanosPerHour(2),
            annotations: annotations
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..NodePool::default()
        });
        snapshot
    }

    fn total(optimize: Optimize, annotations: &[(&str, &str)]) -> i64 {
        let name = NodePoolName::from("default");
        snapshot(optimize, annotations).surcharge_of(Some(&name)).0
    }

    #[test]
    fn surcharge_adds_volumes_and_node_price_of_node_pool_or_cluster() {
        let own = (Surcharge::ANNOTATION, "0.000000007");
        assert_eq!(total(Optimize::Cost, &[]), 7);
        assert_eq!(total(Optimize::Cost, &[own]), 9);
        assert_eq!(total(Optimize::Cost, &[(Surcharge::ANNOTATION, "0")]), 2);
    }

    #[test]
    fn upstream_mode_has_no_surcharge() {
        assert_eq!(
            total(Optimize::Upstream, &[(Surcharge::ANNOTATION, "1")]),
            0
        );
    }

    #[test]
    fn missing_node_pool_has_no_surcharge() {
        let snapshot = snapshot(Optimize::Cost, &[]);
        assert_eq!(
            snapshot.surcharge_of(Some(&"other".into())),
            NanosPerHour(0)
        );
        assert_eq!(snapshot.surcharge_of(None), NanosPerHour(0));
    }
}
