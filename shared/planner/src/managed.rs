use model::{
    node_claim::{NodeClaim, NodeClassRef},
    node_pool::NodePool,
};

/// Only objects that name an EC2NodeClass are ours: EKS Auto Mode shares the CRDs (DESIGN §6).
pub(crate) fn is_ours(claim: &NodeClaim) -> bool {
    is_ours_class(&claim.spec.node_class)
}

pub(crate) fn is_ours_pool(pool: &NodePool) -> bool {
    is_ours_class(&pool.template.node_class)
}

fn is_ours_class(class: &NodeClassRef) -> bool {
    class.group == "karpenter.k8s.aws" && class.kind == "EC2NodeClass"
}
