//! The IAM role of nodes, as in the getting-started guides of EKS and Karpenter.

/// Managed policies of the role.
pub const MANAGED_POLICIES: [&str; 4] = [
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
];

/// Trust policy of the role: EC2 gives it to instances.
pub const TRUST_POLICY: &str = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}"#;

/// Type of the access entry by which Linux nodes with the role join a cluster.
pub const ACCESS_TYPE: &str = "EC2_LINUX";

/// ARN of a managed policy of AWS in a partition, such as `aws-cn`.
pub fn managed_policy_arn(partition: &str, policy: &str) -> String {
    format!("arn:{partition}:iam::aws:policy/{policy}")
}
