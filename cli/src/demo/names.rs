//! Names in the demo's account and cluster.

/// Name of the cluster and of its registry entry, and tag value of its subnets.
pub(super) const CLUSTER: &str = "demo";
pub(super) const LEASE_NAMESPACE: &str = "kube-system";
