//! The leader-election Lease: fields that other clients set are preserved.
#![expect(clippy::unwrap_used, reason = "a missing value fails the test")]

use k8s::{Access, Credentials, KubeCluster};
use ports::{Cluster, cluster::LeaderLease};
use sandbox::{
    Sandbox, SandboxOptions,
    store::{ObjectKey, TableId},
};
use serde_json::{Value, json};

const LEASES: TableId = TableId::named("leases.coordination.k8s.io");

fn stored(sandbox: &Sandbox) -> Value {
    let key = ObjectKey::new("kube-system", "karpenter-leader-election");
    sandbox.with(|world, _| {
        let lease = world.server.store.get(&LEASES, &key);
        lease.unwrap().value().clone()
    })
}

#[tokio::test]
async fn fields_of_other_clients_survive_acquiring_renewing_and_releasing_lease() {
    let sandbox = Sandbox::start(SandboxOptions::default()).await.unwrap();
    let access = Access {
        endpoint: sandbox.url(),
        certificate_authority: None,
        credentials: Credentials::BearerToken(sandbox.token().into()),
    };
    let cluster = KubeCluster::new(access.client().unwrap(), "kube-system");
    let foreign = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {
            "namespace": "kube-system", "name": "karpenter-leader-election", "uid": "lease-uid",
            "labels": {"team": "platform"}, "annotations": {"example.com/owner": "platform"},
            "finalizers": ["example.com/audit"],
        },
        "spec": {
            "holderIdentity": "karpenter-0", "leaseDurationSeconds": 15, "leaseTransitions": 7,
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    });
    sandbox.with(|world, _| world.server.store.put(&LEASES, foreign.clone()));
    let mut held = cluster.leader_lease().await.unwrap().unwrap();
    for holder in ["whittle", "whittle", ""] {
        let next = LeaderLease {
            holder: holder.to_owned(),
            renewed_at: Some("2026-01-01T01:00:00Z".parse().unwrap()),
            duration_seconds: 3_600,
            ..held
        };
        held = cluster.hold_leader_lease(&next).await.unwrap();
        let lease = stored(&sandbox);
        assert_eq!(lease["spec"]["holderIdentity"], holder);
        for field in ["labels", "annotations", "finalizers"] {
            assert_eq!(
                lease["metadata"][field], foreign["metadata"][field],
                "{lease}"
            );
        }
        for field in ["leaseTransitions", "acquireTime"] {
            assert_eq!(lease["spec"][field], foreign["spec"][field], "{lease}");
        }
    }
}
