use model::node_claim::NodeClaim;

/// Only objects that name an EC2NodeClass are ours: EKS Auto Mode shares the CRDs (DESIGN §6).
pub(crate) fn is_ours(claim: &NodeClaim) -> bool {
    claim.spec.node_class.group == "karpenter.k8s.aws"
        && claim.spec.node_class.kind == "EC2NodeClass"
}
