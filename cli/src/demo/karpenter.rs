//! Stand-in for a running Karpenter: holds the leader-election Lease, and renews it.

use jiff::SignedDuration;
use k8s::KubeCluster;
use ports::{Cluster, ClusterError, cluster::LeaderLease};
use sandbox::WorldClock;

/// Holder of the Lease: the name of Karpenter's pod.
const HOLDER: &str = "karpenter-7d9c6b5f4-x2x8q";
/// Duration and renewal of client-go's leader election with Karpenter's settings.
const DURATION: SignedDuration = SignedDuration::from_secs(15);
const RENEWAL: SignedDuration = SignedDuration::from_secs(2);

/// Takes the Lease, and renews it until the task ends.
pub(super) async fn lead(cluster: KubeCluster, clock: WorldClock) {
    loop {
        let now = clock.now();
        // A renewal that fails is repeated, as the Lease outlives several.
        drop(hold(&cluster, HOLDER, now, DURATION).await);
        let next = now.checked_add(RENEWAL).unwrap_or(now);
        while clock.now() < next {
            tokio::time::sleep(clock.sleep_until(next)).await;
        }
    }
}

/// Gives up the Lease, as Karpenter does when it ends.
pub(super) async fn give_up(cluster: &KubeCluster, clock: &WorldClock) -> Result<(), ClusterError> {
    hold(cluster, "", clock.now(), SignedDuration::from_secs(1)).await
}

async fn hold(
    cluster: &KubeCluster,
    holder: &str,
    now: jiff::Timestamp,
    duration: SignedDuration,
) -> Result<(), ClusterError> {
    let held = cluster.leader_lease().await?;
    let lease = LeaderLease {
        holder: holder.to_owned(),
        renewed_at: Some(now),
        duration_seconds: duration.as_secs(),
        resource_version: held.and_then(|held| held.resource_version),
    };
    cluster.hold_leader_lease(&lease).await.map(drop)
}
