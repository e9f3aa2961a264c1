//! EC2NodeClass: launch settings of nodes on EC2.

mod kubelet;
mod network;
mod selectors;
mod status;
mod storage;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use kubelet::{KubeletConfiguration, KubeletSettings, MaxPods};
pub use network::{
    ConnectionTracking, CpuOptions, EnclaveOptions, InterfaceType, MetadataOptions,
    NetworkInterface, Switch, TokenState,
};
pub use selectors::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, InstanceMatchCriteria,
    PlacementGroupSelector, SecurityGroupSelectorTerm, SubnetSelectorTerm,
};
pub use status::{
    Ami, AmiRequirement, CapacityReservation, CapacityReservationState, CapacityReservationType,
    EC2NodeClassStatus, SecurityGroup, Subnet,
};
pub use storage::{BlockDevice, BlockDeviceMapping, InstanceStorePolicy, VolumeType};

use crate::meta::{ObjectMeta, resource};
use crate::schema::rules;
use crate::wire::string_enum;

/// Configuration of nodes on EC2: network, image, identity, storage and bootstrap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EC2NodeClass {
    pub metadata: ObjectMeta,
    pub spec: EC2NodeClassSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<EC2NodeClassStatus>,
}

resource!(
    EC2NodeClass,
    "karpenter.k8s.aws/v1",
    "ec2nodeclasses",
    Cluster
);

impl EC2NodeClassSpec {
    /// Resources for which no node is launched with this NodeClass: enclaves, if it disables them.
    pub fn refused_resources(&self) -> BTreeSet<String> {
        let enclaves = self.enclave_options.as_ref();
        let are_refused = enclaves.is_some_and(|enclaves| !enclaves.enabled);
        let refused = are_refused.then(|| crate::names::resource::ENCLAVES.to_owned());
        refused.into_iter().collect()
    }
}

/// Configuration of the instances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::ec2_node_class()))]
pub struct EC2NodeClassSpec {
    /// Subnets to launch into: all that match any of the terms.
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = rules::cel(&[
        ("subnetSelectorTerms cannot be empty", "self.size() != 0"),
        ("expected at least one, got none, ['tags', 'id']", "self.all(x, has(x.tags) || has(x.id))"),
        (
            "'id' is mutually exclusive, cannot be set with a combination of other fields in a subnet selector term",
            "!self.all(x, has(x.id) && has(x.tags))",
        ),
    ])))]
    pub subnet_selector_terms: Vec<SubnetSelectorTerm>,
    /// Security groups of the instances: all that match any of the terms.
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = rules::cel(&[
        ("securityGroupSelectorTerms cannot be empty", "self.size() != 0"),
        ("expected at least one, got none, ['tags', 'id', 'name']", "self.all(x, has(x.tags) || has(x.id) || has(x.name))"),
        (
            "'id' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.name)))",
        ),
        (
            "'name' is mutually exclusive, cannot be set with a combination of other fields in a security group selector term",
            "!self.all(x, has(x.name) && (has(x.tags) || has(x.id)))",
        ),
    ])))]
    pub security_group_selector_terms: Vec<SecurityGroupSelectorTerm>,
    /// Capacity reservations to launch into first: all that match any of the terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 30), extend("x-kubernetes-validations" = rules::cel(&[
        (
            "expected at least one, got none, ['tags', 'id', 'instanceMatchCriteria']",
            "self.all(x, has(x.tags) || has(x.id) || has(x.instanceMatchCriteria))",
        ),
        (
            "'id' is mutually exclusive, cannot be set along with other fields in a capacity reservation selector term",
            "!self.all(x, has(x.id) && (has(x.tags) || has(x.ownerID) || has(x.instanceMatchCriteria)))",
        ),
    ])))]
    pub capacity_reservation_selector_terms: Option<Vec<CapacityReservationSelectorTerm>>,
    /// The placement group to launch into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_group_selector: Option<PlacementGroupSelector>,
    /// Whether instances get a public IP address. Defaults to the setting of the subnet.
    #[serde(
        default,
        rename = "associatePublicIPAddress",
        skip_serializing_if = "Option::is_none"
    )]
    pub associate_public_ip_address: Option<bool>,
    /// Number of IPv4 prefixes that EC2 assigns to the primary network interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ip_prefix_count: Option<i32>,
    /// Images to launch: all that match any of the terms. If several images fit an instance type, the newest is used.
    #[schemars(length(min = 1, max = 30), extend("x-kubernetes-validations" = rules::cel(&[
        (
            "expected at least one, got none, ['tags', 'id', 'name', 'alias', 'ssmParameter']",
            "self.all(x, has(x.tags) || has(x.id) || has(x.name) || has(x.alias) || has(x.ssmParameter))",
        ),
        (
            "'id' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
            "!self.exists(x, has(x.id) && (has(x.alias) || has(x.tags) || has(x.name) || has(x.owner)))",
        ),
        (
            "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
            "!self.exists(x, has(x.alias) && (has(x.id) || has(x.tags) || has(x.name) || has(x.owner)))",
        ),
        (
            "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
            "!(self.exists(x, has(x.alias)) && self.size() != 1)",
        ),
    ])))]
    pub ami_selector_terms: Vec<AmiSelectorTerm>,
    /// Family of the images, which determines the format of the user data and the default block devices. Defaults to the family of
    /// the alias; required without an alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<AmiFamily>,
    /// Additional user data, in the format of the AMI family. It is merged with the generated bootstrap configuration; with the
    /// family Custom it is used unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Name of the IAM role of the nodes; Whittle creates and maintains its instance profile. Either this or instanceProfile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules::cel(&[("role cannot be empty", "self != ''")])))]
    pub role: Option<String>,
    /// Name of an existing instance profile. Either this or role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules::cel(&[
        ("instanceProfile cannot be empty", "self != ''"),
    ])))]
    pub instance_profile: Option<String>,
    /// Tags of all EC2 resources that are created for the nodes, in addition to those that identify the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = rules::cel(&[
        ("empty tag keys aren't supported", "self.all(k, k != '')"),
        ("tag contains a restricted tag matching eks:eks-cluster-name", "self.all(k, k !='eks:eks-cluster-name')"),
        ("tag contains a restricted tag matching kubernetes.io/cluster/", "self.all(k, !k.startsWith('kubernetes.io/cluster') )"),
        ("tag contains a restricted tag matching karpenter.sh/nodepool", "self.all(k, k != 'karpenter.sh/nodepool')"),
        ("tag contains a restricted tag matching karpenter.sh/nodeclaim", "self.all(k, k !='karpenter.sh/nodeclaim')"),
        (
            "tag contains a restricted tag matching karpenter.k8s.aws/ec2nodeclass",
            "self.all(k, k !='karpenter.k8s.aws/ec2nodeclass')",
        ),
    ])))]
    pub tags: Option<BTreeMap<String, String>>,
    /// Settings of the kubelet: any field of KubeletConfiguration. Scheduling uses maxPods, podsPerCore, kubeReserved,
    /// systemReserved, evictionHard and evictionSoft; all fields are passed to the node. Invalid fields are reported in the
    /// condition ValidationSucceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletConfiguration>,
    /// Volumes of the instances. Defaults to those of the AMI family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50), extend("x-kubernetes-validations" = rules::cel(&[(
        "must have only one blockDeviceMappings with rootVolume",
        "self.filter(x, has(x.rootVolume)?x.rootVolume==true:false).size() <= 1",
    )])))]
    pub block_device_mappings: Option<Vec<BlockDeviceMapping>>,
    /// Use of local disks, which some instance types have. RAID0 combines them into one volume for pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_store_policy: Option<InstanceStorePolicy>,
    /// Network interfaces of the instances, for EFA. Defaults to one interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 150), extend("x-kubernetes-validations" = rules::cel(&[
        (
            "networkInterfaces must include a primary interface with interfaceType='interface'",
            "self.size() == 0 || self.exists(x, x.deviceIndex == 0 && x.networkCardIndex == 0 && x.interfaceType == 'interface')",
        ),
        (
            "networkInterfaces must not have duplicate networkCardIndex and deviceIndex pairs, and can have at most one efa device per network card",
            "self.all(x, self.filter(y, x.networkCardIndex == y.networkCardIndex && x.deviceIndex == y.deviceIndex).size() == 1 && (x.interfaceType != 'efa-only' || self.filter(y, x.networkCardIndex == y.networkCardIndex && y.interfaceType == 'efa-only').size() == 1))",
        ),
    ])))]
    pub network_interfaces: Option<Vec<NetworkInterface>>,
    /// Whether CloudWatch gets the instances' metrics every minute, which is charged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    /// Access to the instance metadata service. By default, session tokens are required, and containers have no access.
    #[serde(default)]
    pub metadata_options: MetadataOptions,
    /// Idle timeouts of connections that security groups track.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_tracking: Option<ConnectionTracking>,
    /// Processor features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_options: Option<CpuOptions>,
    /// Nitro Enclaves. By default, they are enabled if pods request them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclave_options: Option<EnclaveOptions>,
    /// Value of the parameter Context of CreateFleet, which AWS reserves. Set it only if AWS asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}

string_enum! {
    /// A kind of image.
    AmiFamily { Al2 = "AL2", Al2023 = "AL2023", Bottlerocket, Custom, Windows2019, Windows2022, Windows2025 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enclaves_are_refused_where_the_node_class_has_them_disabled() {
        let refused = |enabled: Option<bool>| {
            let spec = EC2NodeClassSpec {
                enclave_options: enabled.map(|enabled| EnclaveOptions { enabled }),
                ..EC2NodeClassSpec::default()
            };
            spec.refused_resources()
        };
        assert_eq!(refused(None), BTreeSet::new());
        assert_eq!(refused(Some(true)), BTreeSet::new());
        let enclaves = "eks.amazonaws.com/nitro-sandbox".to_owned();
        assert_eq!(refused(Some(false)), BTreeSet::from([enclaves]));
    }
}
