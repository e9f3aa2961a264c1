//! A recorded case, and its cluster.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Result, bail};
use api::{
    conditions::ConditionStatus,
    manifests::{Manifests, Object},
};
use jiff::{SignedDuration, Timestamp};
use model::{
    InstanceType, NodeClaimName, NodeName, Snapshot,
    snapshot::{MinValuesPolicy, Optimize, PreferencePolicy, ReservedOfferingMode, Settings},
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::Goal;
use crate::{catalogs::Catalogs, cluster};

/// A line of a file of cases. Its objects are decoded one at a time: a large cluster as a tree of JSON values takes many times the memory
/// that planning needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Case<'a> {
    pub(super) id: String,
    kind: Kind,
    compare: String,
    now: Timestamp,
    #[serde(default)]
    options: Option<CaseOptions>,
    #[serde(default)]
    catalog: Option<String>,
    #[serde(borrow, default)]
    instance_types: Option<&'a RawValue>,
    #[serde(borrow)]
    objects: Vec<&'a RawValue>,
    #[serde(default)]
    state: State,
    /// Drift reasons of NodeClaims from the provider; NodeClaims that are missing here have not drifted.
    #[serde(default)]
    drift: BTreeMap<NodeClaimName, String>,
    #[serde(default)]
    compute_conditions: bool,
    #[serde(default)]
    expect: Expect,
}

/// The part of a case's expectation that decides how far to run it.
#[derive(Default, Deserialize)]
struct Expect {
    converge: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Provisioning,
    Disruption,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    nominated: Vec<NodeName>,
}

/// Question of a case.
#[derive(Clone, Copy)]
pub(super) struct Question {
    pub(super) kind: Kind,
    /// Compute the conditions of NodeClaims first.
    pub(super) compute_conditions: bool,
    /// Carry out decisions until none is left.
    pub(super) converge: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CaseOptions {
    preference_policy: Option<PreferencePolicy>,
    min_values_policy: Option<MinValuesPolicy>,
    reserved_offering_mode: Option<ReservedOfferingMode>,
    feature_gates: std::collections::BTreeMap<String, bool>,
    scheduler_config: Option<Value>,
}

impl Case<'_> {
    pub(super) fn question(&self) -> Question {
        Question {
            kind: self.kind,
            compute_conditions: self.compute_conditions,
            converge: self.expect.converge.is_some(),
        }
    }

    pub(super) fn snapshot(self, goal: Option<Goal>, catalogs: &mut Catalogs) -> Result<Snapshot> {
        let types: Arc<Vec<InstanceType>> = match (self.instance_types, &self.catalog) {
            (Some(inline), _) => {
                Arc::new(api::convert::catalog_file::read(inline.get().as_bytes())?)
            }
            (None, Some(name)) => catalogs.named(name)?,
            (None, None) => bail!("the case names no catalog"),
        };
        let on_aws = self
            .catalog
            .as_ref()
            .is_some_and(|name| name.starts_with("aws"));
        let mut settings = if on_aws {
            cluster::aws_settings()
        } else {
            generic_settings()
        };
        settings.optimize = match goal {
            Some(Goal::Upstream) => Optimize::Upstream,
            Some(Goal::Cost) => Optimize::Cost,
            None if self.compare == "exact" => Optimize::Upstream,
            None => Optimize::Cost,
        };
        apply(self.options.unwrap_or_default(), &mut settings)?;
        let mut snapshot = cluster::empty(self.now, settings);
        let mut reader = Reader::default();
        let objects = self.objects.iter().enumerate();
        let objects = objects.filter_map(|(at, text)| reader.read(&self.id, at, text.get()));
        cluster::add_objects(&mut snapshot, objects, &types);
        if let Some(error) = reader.error {
            bail!("{error}");
        }
        for pool in &mut snapshot.node_pools {
            let class = &pool.template.node_class;
            let managed = NODE_CLASSES.contains(&(class.group.as_str(), class.kind.as_str()));
            if !managed {
                pool.not_ready = Some(format!(
                    "node class {}/{} is not ours",
                    class.group, class.kind
                ));
            } else if !reader.ready.contains(&pool.name.0) && pool.not_ready.is_none() {
                pool.not_ready = Some("its status has no condition Ready".to_owned());
            }
        }
        if self.kind == Kind::Disruption {
            let until = self.now + NOMINATION_WINDOW;
            let nominated = self.state.nominated.into_iter();
            snapshot.nominated = nominated.map(|node| (node, until)).collect();
            let mut drift = self.drift;
            let claims = snapshot.node_claims.iter();
            let checked = claims.map(|claim| (claim.name.clone(), drift.remove(&claim.name)));
            snapshot.drift = checked.collect();
            replace_node_classes(&mut snapshot);
        }
        Ok(snapshot)
    }
}

/// Time for which upstream expects a nominated pod on its node.
const NOMINATION_WINDOW: SignedDuration = SignedDuration::from_secs(20);

/// Replaces the fictional provider's node class by ours.
fn replace_node_classes(snapshot: &mut Snapshot) {
    let of_pools = snapshot.node_pools.iter_mut();
    let of_pools = of_pools.map(|pool| &mut pool.template.node_class);
    let of_claims = snapshot.node_claims.iter_mut();
    let of_claims = of_claims.map(|claim| &mut claim.spec.node_class);
    for class in of_pools.chain(of_claims) {
        let [made_up, ours] = NODE_CLASSES;
        if (class.group.as_str(), class.kind.as_str()) == made_up {
            (class.group, class.kind) = (ours.0.to_owned(), ours.1.to_owned());
        }
    }
}

/// Reader of a case's objects: those that planning takes, and others that a case may depend on.
#[derive(Default)]
struct Reader {
    /// The NodePools with condition Ready.
    ready: Vec<String>,
    /// Error of the first object that could not be decoded.
    error: Option<String>,
}

impl Reader {
    fn read(&mut self, case: &str, at: usize, text: &str) -> Option<Object> {
        let mut manifests = Manifests::default();
        manifests.read(&format!("{case}: object {}", at + 1), text);
        if let Some(error) = manifests.errors.first() {
            self.error.get_or_insert_with(|| error.to_string());
        }
        let object = manifests.objects.pop()?.object;
        if let Object::NodePool(pool) = &object {
            let conditions = pool.status.as_ref().and_then(|s| s.conditions.as_ref());
            let is_ready = conditions.into_iter().flatten().any(|condition| {
                condition.r#type == "Ready" && condition.status == ConditionStatus::True
            });
            if is_ready {
                self.ready.push(pool.metadata.name.clone());
            }
        }
        Some(object)
    }
}

const NODE_CLASSES: [(&str, &str); 2] = [
    ("karpenter.test.sh", "TestNodeClass"),
    ("karpenter.k8s.aws", "EC2NodeClass"),
];

/// Settings with the labels of the corpus' fictional provider.
fn generic_settings() -> Settings {
    let own = [
        "karpenter.test.sh/reservation-id",
        "karpenter.test.sh/instance-family",
        "karpenter.test.sh/instance-size",
        "karpenter.test.sh/instance-cpu",
        "karpenter.test.sh/instance-memory",
        "karpenter.test.sh/instance-generation",
        "karpenter.test.sh/instance-gpu-name",
        "karpenter.test.sh/instance-gpu-count",
        "karpenter.test.sh/instance-local-nvme",
    ];
    cluster::settings(&own, &[], "karpenter.test.sh/reservation-id")
}

fn apply(options: CaseOptions, settings: &mut Settings) -> Result<()> {
    settings.preference_policy = options.preference_policy.unwrap_or_default();
    settings.min_values_policy = options.min_values_policy.unwrap_or_default();
    settings.reserved_offering_mode = options.reserved_offering_mode.unwrap_or_default();
    settings.feature_gates = options.feature_gates;
    let config = json!({ "schedulerConfig": options.scheduler_config });
    settings.default_topology_spread = api::default_topology_spread(&config)?;
    Ok(())
}
