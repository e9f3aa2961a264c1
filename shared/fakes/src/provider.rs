//! A small catalog, and a resolver that resolves every NodeClass immediately.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use api::{
    EC2NodeClass, NodePool,
    conditions::types,
    names::{annotation, label},
};
use async_trait::async_trait;
use jiff::Timestamp;
use model::{
    CapacityType, ClusterName, Experience, InstanceType, NanosPerHour, Offering, Resources,
    catalog::Overhead,
    experience::ZonalShift,
    labels,
    launch::Instance,
    node_claim::NodeClaim,
    requirement::{Requirement, Requirements},
    selector::Operator,
    snapshot::{MinValuesPolicy, Optimize, PreferencePolicy, ReservedOfferingMode, Settings},
};
use ports::{
    AccountHousekeeping, Catalog, CloudError, Cluster, ClusterError, Clusters, LedgerError, Needs,
    NodeClassResolver, ObjectStore, ObjectStoreError, Registry, RegistryError, Resolved,
    StaticHash, registry::RegistryEntry,
};

use crate::{account::zone_id, sim::Sim};

/// Settings of a cluster that has none in its registry entry.
pub fn settings() -> Settings {
    Settings {
        preference_policy: PreferencePolicy::Respect,
        min_values_policy: MinValuesPolicy::Strict,
        reserved_offering_mode: ReservedOfferingMode::Strict,
        optimize: Optimize::Cost,
        feature_gates: BTreeMap::new(),
        well_known_labels: Vec::new(),
        restricted_domains: Vec::new(),
        reservation_id_label: String::new(),
        preference_worth: Settings::preference_worth(),
        node_price: NanosPerHour(0),
        default_topology_spread: Vec::new(),
        registration_timeout: None,
        legacy_node_repair: false,
        device_claims: false,
    }
}

/// Security group of every NodeClass and every instance.
pub(crate) const SECURITY_GROUP: &str = "sg-1";
const ZONES: [&str; 2] = ["us-east-1a", "us-east-1b"];

/// Two subnets in each zone.
pub(crate) fn subnets(zone: &str) -> [String; 2] {
    [format!("subnet-{zone}"), format!("subnet-{zone}-2")]
}

/// Three sizes in two zones; spot costs a third of on-demand.
pub(crate) fn small_catalog() -> Vec<InstanceType> {
    vec![
        instance_type("m5.large", 2, 8, 96_000_000),
        instance_type("m5.xlarge", 4, 16, 192_000_000),
        instance_type("m5.2xlarge", 8, 32, 384_000_000),
    ]
}

/// An instance type as in the small catalog; the price is that of on-demand.
pub fn instance_type(name: &str, cores: i64, gib: i64, price_nanos_per_hour: i64) -> InstanceType {
    let single = |key: &str, value: &str| Requirement::new(key, Operator::In, [value.to_owned()]);
    let several = |key: &str, values: &[&str]| {
        Requirement::new(
            key,
            Operator::In,
            values.iter().map(|value| (*value).to_owned()),
        )
    };
    let requirements = [
        single(labels::INSTANCE_TYPE, name),
        single(labels::ARCH, "amd64"),
        single(labels::OS, "linux"),
        single(labels::REGION, "us-east-1"),
        single(label::INSTANCE_MEMORY, &(gib << 10).to_string()),
        several(labels::ZONE, &ZONES),
        several(labels::CAPACITY_TYPE, &["on-demand", "spot"]),
    ];
    let offering = |capacity_type, zone: &str, price| Offering {
        unpriced: false,
        capacity_type,
        zone: zone.to_owned(),
        zone_id: zone_id(zone),
        price: NanosPerHour(price),
        available: true,
        reservation: None,
        requirements: Requirements::default(),
        capacity_override: None,
        overhead_override: None,
    };
    let offerings = ZONES.iter().flat_map(|zone| {
        [
            offering(CapacityType::OnDemand, zone, price_nanos_per_hour),
            offering(CapacityType::Spot, zone, price_nanos_per_hour / 3),
        ]
    });
    InstanceType {
        ebs_attach_limit: None,
        devices: Vec::new(),
        name: name.to_owned(),
        requirements: Requirements(
            requirements
                .into_iter()
                .map(|requirement| (requirement.key.clone(), requirement))
                .collect(),
        ),
        capacity: Resources::from([("cpu", cores * 1000), ("memory", gib << 30), ("pods", 29)]),
        overhead: Overhead {
            kube_reserved: Resources::from([("cpu", 100), ("memory", 256 << 20)]),
            ..Overhead::default()
        },
        offerings: offerings.collect(),
    }
}

/// An EC2NodeClass that resolves.
pub fn node_class(name: &str) -> EC2NodeClass {
    manifest(serde_json::json!({
        "metadata": {"name": name, "uid": format!("{name}-uid"), "generation": 1, "resourceVersion": "1"},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
            "role": "KarpenterNodeRole-demo",
        },
    }))
}

/// An on-demand NodePool of NodeClass `default` whose empty nodes are consolidated after `consolidate_after`.
pub fn node_pool(name: &str, consolidate_after: &str) -> NodePool {
    manifest(serde_json::json!({
        "metadata": {"name": name, "uid": format!("{name}-uid"), "generation": 1, "resourceVersion": "1"},
        "spec": {
            "template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
                    {"key": labels::ARCH, "operator": "In", "values": ["amd64"]},
                ],
                "expireAfter": "Never",
            }},
            "disruption": {"consolidateAfter": consolidate_after, "budgets": [{"nodes": "100%"}]},
        },
    }))
}

#[expect(
    clippy::expect_used,
    reason = "the manifests above are constants; a typo should stop the test that uses one"
)]
fn manifest<T: serde::de::DeserializeOwned>(json: serde_json::Value) -> T {
    serde_json::from_value(json).expect("a valid manifest")
}

#[async_trait]
impl Catalog for Sim {
    async fn instance_types(
        &self,
        _: &ClusterName,
        _: &EC2NodeClass,
        _: &serde_json::Value,
        experience: &Experience,
    ) -> Result<Arc<Vec<InstanceType>>, CloudError> {
        self.neutral_call("instance_types", |world| {
            let free = world.account.free_reserved();
            Ok(world.catalog.after(experience, free))
        })
        .await
    }

    async fn zonal_shifts(
        &self,
        _: &ClusterName,
        _: &serde_json::Value,
    ) -> Result<Vec<ZonalShift>, CloudError> {
        self.neutral_call("zonal_shifts_of", |world| Ok(world.account.shifts.clone()))
            .await
    }

    async fn price_warnings(&self) -> Vec<String> {
        self.look(|world| world.account.price_warnings.clone())
    }
}

#[async_trait]
impl NodeClassResolver for Sim {
    async fn resolve(
        &self,
        _: &ClusterName,
        node_class: &EC2NodeClass,
        _: &[model::node_pool::NodePool],
        now: Timestamp,
    ) -> Result<Resolved, CloudError> {
        self.neutral_call("resolve", |world| {
            let condition_types = types::ec2_node_class(types::ReservedCapacity::Off);
            let mut status = node_class.status.clone().unwrap_or_default();
            let mut conditions = status.conditions.take().unwrap_or_default();
            let mut set = api::ConditionSet::new(
                &condition_types,
                &mut conditions,
                &node_class.metadata,
                now,
            );
            for condition_type in &condition_types.dependents {
                set.set_true(condition_type);
            }
            status.conditions = Some(conditions);
            status.instance_profile = Some("demo-profile".into());
            status.subnets = Some(
                ZONES
                    .iter()
                    .flat_map(|zone| {
                        subnets(zone).map(|id| api::karpenter::Subnet {
                            id,
                            zone: (*zone).to_owned(),
                            zone_id: Some(zone_id(zone)),
                        })
                    })
                    .collect(),
            );
            status.security_groups = Some(vec![api::karpenter::SecurityGroup {
                id: SECURITY_GROUP.to_owned(),
                name: None,
            }]);
            Ok(Resolved {
                status,
                hash: Some(static_hash(node_class)),
                warnings: world.account.warnings.clone(),
            })
        })
        .await
    }

    /// Compares the hash, and security groups as an example of drift that only EC2 can show.
    fn drift(
        &self,
        node_class: &EC2NodeClass,
        _: &[InstanceType],
        claim: &NodeClaim,
        instance: Option<&Instance>,
    ) -> Result<Option<String>, String> {
        let differs = |key: &str| {
            let now = node_class.metadata.annotations.get(key);
            now.is_some() && now != claim.annotations.get(key)
        };
        if !differs(annotation::EC2_NODE_CLASS_HASH_VERSION)
            && differs(annotation::EC2_NODE_CLASS_HASH)
        {
            return Ok(Some("NodeClassDrift".to_owned()));
        }
        let instance = instance.ok_or("EC2 was not asked")?;
        let status = node_class
            .status
            .as_ref()
            .ok_or("the NodeClass is not resolved yet")?;
        let groups = status.security_groups.as_deref();
        let groups = groups.unwrap_or_default().iter().map(|group| &group.id);
        let drifted = !groups.eq(&instance.security_groups);
        Ok(drifted.then(|| "SecurityGroupDrift".to_owned()))
    }

    async fn release(&self, _: &ClusterName, _: &EC2NodeClass) -> Result<(), CloudError> {
        self.changing_call("release", |_| Ok(())).await
    }
}

#[async_trait]
impl Registry for Sim {
    async fn entries(&self) -> Result<Vec<RegistryEntry>, RegistryError> {
        self.neutral_call("entries", |world| Ok(world.registry.clone()))
            .await
    }
}

#[async_trait]
impl Clusters for Sim {
    async fn connect(
        &self,
        cluster: &ClusterName,
        _: &serde_json::Value,
    ) -> Result<Arc<dyn Cluster>, ClusterError> {
        self.in_cluster(cluster)
            .neutral_call("connect", |world| match world.deleted.contains(cluster) {
                true => Err(ClusterError::NoCluster {
                    cluster: cluster.clone(),
                }),
                false => Ok(()),
            })
            .await?;
        Ok(Arc::new(self.in_cluster(cluster)))
    }
}

/// Hash of the fields that are static here: only the user data.
pub(crate) fn static_hash(class: &EC2NodeClass) -> StaticHash {
    let digest = class.spec.user_data.as_ref().map(|data| {
        let mut hasher = DefaultHasher::new();
        data.hash(&mut hasher);
        hasher.finish()
    });
    StaticHash {
        hash: format!("hash of {digest:?}"),
        version: "fake-v1",
    }
}

#[async_trait]
impl AccountHousekeeping for Sim {
    async fn renew_prices(&self, look_up: bool, _: Timestamp) -> Vec<String> {
        let renewed = self.neutral_call("renew_prices", |world| {
            world.looked_up.push(look_up);
            Ok::<_, CloudError>(Vec::new())
        });
        renewed
            .await
            .unwrap_or_else(|error| vec![error.to_string()])
    }

    async fn collect(
        &self,
        _: &ClusterName,
        needs: &Needs<'_>,
        _: Timestamp,
    ) -> Result<BTreeSet<String>, CloudError> {
        let live: BTreeSet<&str> = needs
            .node_classes
            .iter()
            .map(|class| class.metadata.name.as_str())
            .collect();
        self.changing_call("collect_templates", |world| {
            let templates = &mut world.account.templates;
            let spent = templates.extract_if(.., |_, class| !live.contains(class.as_str()));
            Ok(spent.map(|(name, _)| name).collect())
        })
        .await
    }
}

#[async_trait]
impl ObjectStore for Sim {
    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ObjectStoreError> {
        let read = self.neutral_call("get", |world| {
            Ok::<_, LedgerError>(world.ledger.object_store.get(name).cloned())
        });
        Ok(read.await?)
    }

    async fn put(&self, name: &str, object: Vec<u8>) -> Result<(), ObjectStoreError> {
        let put = self.changing_call("put", |world| {
            world.ledger.object_store.insert(name.to_owned(), object);
            Ok::<_, LedgerError>(())
        });
        Ok(put.await?)
    }
}
