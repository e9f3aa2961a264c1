//! What a node costs besides its instance: its volumes, and whatever else is paid per node (docs/scheduling.md).

use serde::{Deserialize, Serialize};

use crate::{
    catalog::NanosPerHour,
    ids::NodePoolName,
    node_pool::NodePool,
    snapshot::{Optimize, Snapshot},
};

/// The parts of what each node of a NodePool costs besides its instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surcharge {
    /// The volumes that its NodeClass gives each node.
    pub volumes: NanosPerHour,
    /// Licences, agents and whatever else is billed per node, as the user says.
    pub node: NanosPerHour,
}

impl Surcharge {
    /// On a NodePool: dollars an hour that each node costs besides its instance and its volumes.
    pub const ANNOTATION: &str = "whittle.sh/node-price";

    pub fn total(self) -> NanosPerHour {
        self.volumes.plus(self.node)
    }
}

impl NodePool {
    /// What [`Surcharge::ANNOTATION`] says. A value that cannot be read is none: the NodePool is not valid then.
    fn node_price(&self) -> Option<NanosPerHour> {
        NanosPerHour::from_dollars(self.annotations.get(Surcharge::ANNOTATION)?)
    }
}

impl Snapshot {
    /// What each node of a NodePool costs besides its instance. Karpenter's answers know prices of instances only.
    pub fn surcharge(&self, pool: &NodePool) -> Surcharge {
        match self.settings.optimize {
            Optimize::Upstream => Surcharge::default(),
            Optimize::Cost => Surcharge {
                volumes: pool.volume_price,
                node: pool.node_price().unwrap_or(self.settings.node_price),
            },
        }
    }

    /// [`Self::surcharge`] of the NodePool of this name, in total; nothing where there is none.
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
    fn node_costs_its_volumes_and_what_the_node_pool_or_else_the_cluster_says() {
        let own = (Surcharge::ANNOTATION, "0.000000007");
        assert_eq!(total(Optimize::Cost, &[]), 7);
        assert_eq!(total(Optimize::Cost, &[own]), 9);
        assert_eq!(total(Optimize::Cost, &[(Surcharge::ANNOTATION, "0")]), 2);
    }

    #[test]
    fn upstream_knows_prices_of_instances_only() {
        assert_eq!(
            total(Optimize::Upstream, &[(Surcharge::ANNOTATION, "1")]),
            0
        );
    }

    #[test]
    fn node_pool_that_is_gone_adds_nothing() {
        let snapshot = snapshot(Optimize::Cost, &[]);
        assert_eq!(
            snapshot.surcharge_of(Some(&"other".into())),
            NanosPerHour(0)
        );
        assert_eq!(snapshot.surcharge_of(None), NanosPerHour(0));
    }
}
