//! Pods of the fake API server, and the Deployments that own them.

use std::collections::BTreeMap;

use api::convert::Scalable;
use jiff::Timestamp;
use model::{
    PodKey, Resources, Uid,
    pod::{Deletion, Owner, Pod, PodShape},
    snapshot::{PodDisruptionBudget, Workload},
    taint::Toleration,
};
use ports::ClusterError;

use super::{ApiServer, absent, conflict};

/// Fake of a Deployment with its ReplicaSet: keeps this many pods.
#[derive(Clone, Debug, Default)]
pub struct Deployment {
    pub replicas: usize,
    pub requests: Resources,
    pub node_selector: BTreeMap<String, String>,
    pub tolerations: Vec<Toleration>,
    pub annotations: BTreeMap<String, String>,
}

impl Deployment {
    pub(crate) fn as_workload(&self, key: &PodKey) -> Workload {
        Workload {
            kind: Scalable::Deployment.kind().to_owned(),
            key: key.clone(),
            replicas: i64::try_from(self.replicas).ok(),
            pod: Some(Box::new(self.pod())),
            ..Workload::default()
        }
    }

    fn pod(&self) -> Pod {
        let mut requests = self.requests.clone();
        requests.set(model::resources::PODS, 1);
        let shape = PodShape {
            requests,
            node_selector: self.node_selector.clone(),
            tolerations: self.tolerations.clone(),
            annotations: self.annotations.clone(),
            scheduler_name: "default-scheduler".into(),
            termination_grace_seconds: Some(5),
            ..PodShape::default()
        };
        Pod {
            shape: shape.into(),
            ..Pod::default()
        }
    }
}

impl ApiServer {
    /// Sets the size of a Deployment of pods with these requests.
    pub fn scale(&mut self, name: &str, replicas: usize, requests: Resources) {
        let deployment = self.deployments.entry(name.to_owned()).or_default();
        deployment.replicas = replicas;
        deployment.requests = requests;
    }

    pub(crate) fn new_pod(
        &mut self,
        name: &str,
        owner: &str,
        deployment: &Deployment,
        now: Timestamp,
    ) {
        let version = self.next_version();
        let key = PodKey::new("default", name);
        let mut pod = Pod {
            key: key.clone(),
            uid: Uid(format!("{name}-uid-{version}")),
            resource_version: version,
            created_at: Some(now),
            ..deployment.pod()
        };
        pod.labels = BTreeMap::from([("app".to_owned(), owner.to_owned())]);
        pod.owner = Some(Owner {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: owner.to_owned(),
            uid: Uid(format!("{owner}-uid")),
        });
        // Pods that are alike share their shape, as after decoding a list.
        let alike = self.pods.values().find(|other| other.shape == pod.shape);
        if let Some(other) = alike {
            pod.shape = other.shape.clone();
        }
        self.pods.insert(key, pod);
    }

    /// Sets annotations of a pod, and removes those without a value.
    pub(crate) fn annotate_pod(
        &mut self,
        key: &PodKey,
        uid: &Uid,
        annotations: &BTreeMap<String, Option<String>>,
    ) -> Result<(), ClusterError> {
        let version = self.next_version();
        let pod = self.pods.get_mut(key);
        let pod = pod.ok_or_else(|| absent("Pod", &key.to_string()))?;
        if pod.uid != *uid {
            return Err(conflict("Pod", &key.to_string()));
        }
        for (name, value) in annotations {
            match value {
                Some(value) => pod.annotations.insert(name.clone(), value.clone()),
                None => pod.annotations.remove(name),
            };
        }
        pod.resource_version = version;
        Ok(())
    }

    pub(crate) fn delete_pod(
        &mut self,
        key: &PodKey,
        uid: &Uid,
        grace_seconds: Option<i64>,
        now: Timestamp,
    ) -> Result<(), ClusterError> {
        let version = self.next_version();
        let pod = self
            .pods
            .get_mut(key)
            .ok_or_else(|| absent("Pod", &key.to_string()))?;
        if pod.uid != *uid {
            return Err(conflict("Pod", &key.to_string()));
        }
        let grace_seconds = grace_seconds
            .or(pod.termination_grace_seconds)
            .unwrap_or(30);
        let at = now + jiff::SignedDuration::from_secs(grace_seconds);
        if pod
            .deletion
            .as_ref()
            .is_none_or(|deletion| at < deletion.at)
        {
            pod.deletion = Some(Deletion { at, grace_seconds });
            pod.resource_version = version;
        }
        Ok(())
    }

    pub(crate) fn evict(
        &mut self,
        key: &PodKey,
        uid: &Uid,
        grace_seconds: Option<i64>,
        now: Timestamp,
    ) -> Result<(), ClusterError> {
        let Some(pod) = self.pods.get(key) else {
            return Err(absent("Pod", &key.to_string()));
        };
        if pod.deletion.is_some() {
            return Ok(());
        }
        let labels = pod.labels.clone();
        let covers = |budget: &&mut PodDisruptionBudget| {
            budget.key.namespace == key.namespace
                && budget
                    .selector
                    .as_ref()
                    .is_some_and(|selector| selector.matches(&labels))
        };
        let mut covering = self.disruption_budgets.iter_mut().filter(covers);
        let (first, second) = (covering.next(), covering.next());
        if second.is_some() {
            return Err(ClusterError::Refused {
                what: format!("eviction of {key}"),
                message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not \
                          support."
                    .into(),
            });
        }
        if let Some(budget) = first {
            if budget.disruptions_allowed == 0 {
                let message = format!(
                    "Cannot evict pod as it would violate the pod's disruption budget {}",
                    budget.key.name
                );
                return Err(ClusterError::Refused {
                    what: format!("eviction of {key}"),
                    message,
                });
            }
            budget.disruptions_allowed -= 1;
        }
        self.delete_pod(key, uid, grace_seconds, now)
    }
}
