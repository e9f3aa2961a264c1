//! Karpenter's leader-election Lease, which the active controller of a cluster holds (docs/protocol.md#leading).

use jiff::Timestamp;
use ports::{ClusterError, cluster::LeaderLease};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::transport::{Path, Transport};

const NAME: &str = "karpenter-leader-election";
const WHAT: &str = "lease karpenter-leader-election";

#[derive(Deserialize, Serialize)]
struct Lease {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: Option<String>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    holder_identity: Option<String>,
    #[serde(default)]
    renew_time: Option<Timestamp>,
    #[serde(default)]
    lease_duration_seconds: Option<i64>,
}

pub(crate) async fn read(
    transport: &Transport,
    namespace: &str,
) -> Result<Option<LeaderLease>, ClusterError> {
    let lease: Option<Lease> = transport
        .get(Path::raw(format!("{}/{NAME}", collection(namespace))), WHAT)
        .await?;
    Ok(lease.map(Into::into))
}

pub(crate) async fn hold(
    transport: &Transport,
    namespace: &str,
    lease: &LeaderLease,
) -> Result<LeaderLease, ClusterError> {
    let spec = json!({
        "holderIdentity": lease.holder,
        "renewTime": lease.renewed_at.map(micro_time),
        "leaseDurationSeconds": lease.duration_seconds,
    });
    let held: Lease = match &lease.resource_version {
        None => {
            let body = json!({
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": NAME, "namespace": namespace},
                "spec": spec,
            });
            let path = Path::raw(collection(namespace));
            transport.create(path, &body, WHAT).await?
        }
        // A merge patch leaves the fields of other clients, such as labels and transitions, unchanged.
        Some(version) => {
            let patch = json!({"metadata": {"resourceVersion": version}, "spec": spec});
            let path = Path::raw(format!("{}/{NAME}", collection(namespace)));
            transport.merge(path, &patch, WHAT).await?
        }
    };
    Ok(held.into())
}

fn collection(namespace: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
}

/// Formats a time as Kubernetes' `MicroTime`, which has exactly six decimals.
fn micro_time(at: Timestamp) -> String {
    format!("{at:.6}")
}

impl From<Lease> for LeaderLease {
    fn from(lease: Lease) -> Self {
        Self {
            holder: lease.spec.holder_identity.unwrap_or_default(),
            renewed_at: lease.spec.renew_time,
            duration_seconds: lease.spec.lease_duration_seconds.unwrap_or_default(),
            resource_version: lease.metadata.resource_version,
        }
    }
}
