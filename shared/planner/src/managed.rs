use model::{
    node_claim::{NodeClaim, NodeClassRef},
    node_pool::NodePool,
};

/// Whether the NodeClaim uses an EC2NodeClass. Others belong to EKS Auto Mode, which shares the CRDs
/// (docs/design.md#managed-objects).
pub(crate) fn is_managed(claim: &NodeClaim) -> bool {
    is_managed_class(&claim.spec.node_class)
}

pub(crate) fn is_managed_pool(pool: &NodePool) -> bool {
    is_managed_class(&pool.template.node_class)
}

fn is_managed_class(class: &NodeClassRef) -> bool {
    class.group == "karpenter.k8s.aws" && class.kind == "EC2NodeClass"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ec2_node_classes_are_managed() {
        for (group, kind, ours) in [
            ("karpenter.k8s.aws", "EC2NodeClass", true),
            ("karpenter.k8s.aws", "NodeClass", false),
            ("eks.amazonaws.com", "EC2NodeClass", false),
        ] {
            let mut pool = NodePool::default();
            pool.template.node_class.group = group.to_owned();
            pool.template.node_class.kind = kind.to_owned();
            assert_eq!(is_managed_pool(&pool), ours, "{group} {kind}");
        }
    }
}
