//! Resources that an EKS cluster needs before its first node: the identity of the caller, roles, access of nodes, discovery tags and the
//! identity of the relay. People create them with the command line; functions never do.

use aws_rules::node_role;
use aws_sdk_ec2::types::Tag;
use model::ClusterName;
use ports::CloudError;

use crate::{Account, errors::refused};

/// The identity that AWS sees behind the credentials in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerIdentity {
    /// Number of the account.
    pub account: String,
    /// ARN of the user or of the role's session.
    pub arn: String,
}

impl CallerIdentity {
    /// The partition of the account, such as `aws` or `aws-cn`.
    pub fn partition(&self) -> &str {
        self.arn.split(':').nth(1).unwrap_or("aws")
    }
}

/// The role that EKS Pod Identity gives to a service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodIdentityAssociation {
    /// Id of the association, such as `a-0123456789abcdef0`.
    pub id: String,
    /// ARN of the role.
    pub role: String,
}

/// Whether the error says that the resource exists already.
fn exists_already(error: &CloudError) -> bool {
    const CODES: [&str; 2] = ["EntityAlreadyExists", "ResourceInUseException"];
    matches!(error, CloudError::Invalid { code, .. } if CODES.contains(&code.as_str()))
}

/// Success if the resource was created, or exists already.
fn created<T>(result: Result<T, CloudError>) -> Result<(), CloudError> {
    match result {
        Err(error) if !exists_already(&error) => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

impl Account {
    pub async fn caller_identity(&self) -> Result<CallerIdentity, CloudError> {
        let answer = self.sts.get_caller_identity().send().await;
        let answer = answer.map_err(refused("sts:GetCallerIdentity"))?;
        Ok(CallerIdentity {
            account: answer.account.unwrap_or_default(),
            arn: answer.arn.unwrap_or_default(),
        })
    }

    /// Creates the service-linked role of EC2 Spot. IAM refuses a second one.
    pub async fn create_spot_role(&self) -> Result<(), CloudError> {
        let call = self.iam.create_service_linked_role();
        let done = call.aws_service_name("spot.amazonaws.com").send().await;
        done.map_err(refused("iam:CreateServiceLinkedRole"))
            .map(drop)
    }

    /// Creates a role for nodes, without policies.
    pub async fn create_node_role(&self, name: &str) -> Result<(), CloudError> {
        let call = self.iam.create_role().role_name(name);
        let call = call.assume_role_policy_document(node_role::TRUST_POLICY);
        let done = call.send().await;
        created(done.map_err(refused("iam:CreateRole")))
    }

    /// Attaches the managed policies that nodes need to their role. IAM accepts policies that are attached already.
    pub async fn attach_node_policies(
        &self,
        name: &str,
        partition: &str,
    ) -> Result<(), CloudError> {
        for policy in node_role::MANAGED_POLICIES {
            let call = self.iam.attach_role_policy().role_name(name);
            let call = call.policy_arn(node_role::managed_policy_arn(partition, policy));
            let done = call.send().await;
            done.map_err(refused("iam:AttachRolePolicy"))?;
        }
        Ok(())
    }

    /// Type of a principal's access entry, such as `EC2_LINUX`; `None` if the principal has no access entry.
    pub async fn access_entry_type(
        &self,
        cluster: &ClusterName,
        principal: &str,
    ) -> Result<Option<String>, CloudError> {
        let entry = self.access_entry(cluster, principal).await?;
        Ok(entry.map(|entry| entry.r#type.unwrap_or_default()))
    }

    /// Creates the access entry by which Linux nodes with this role join the cluster.
    pub async fn create_node_access(
        &self,
        cluster: &ClusterName,
        role: &str,
    ) -> Result<(), CloudError> {
        let call = self.eks.create_access_entry();
        let call = call.cluster_name(cluster.as_str()).principal_arn(role);
        let done = call.r#type(node_role::ACCESS_TYPE).send().await;
        created(done.map_err(refused("eks:CreateAccessEntry")))
    }

    /// Tags resources of EC2 by their ids.
    pub async fn tag_resources(
        &self,
        ids: &[String],
        key: &str,
        value: &str,
    ) -> Result<(), CloudError> {
        let call = self.ec2.create_tags().set_resources(Some(ids.to_vec()));
        let call = call.tags(Tag::builder().key(key).value(value).build());
        let done = call.send().await;
        done.map_err(refused("ec2:CreateTags")).map(drop)
    }

    pub async fn has_addon(&self, cluster: &ClusterName, name: &str) -> Result<bool, CloudError> {
        let call = self.eks.describe_addon().cluster_name(cluster.as_str());
        let found = call.addon_name(name).send().await;
        match found.map_err(refused("eks:DescribeAddon")) {
            Ok(_) => Ok(true),
            Err(CloudError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates an add-on in the version that EKS recommends.
    pub async fn create_addon(&self, cluster: &ClusterName, name: &str) -> Result<(), CloudError> {
        let call = self.eks.create_addon().cluster_name(cluster.as_str());
        let done = call.addon_name(name).send().await;
        created(done.map_err(refused("eks:CreateAddon")))
    }

    /// The role that EKS Pod Identity gives to a service account, if any.
    pub async fn pod_identity_association(
        &self,
        cluster: &ClusterName,
        namespace: &str,
        service_account: &str,
    ) -> Result<Option<PodIdentityAssociation>, CloudError> {
        let call = self.eks.list_pod_identity_associations();
        let call = call.cluster_name(cluster.as_str()).namespace(namespace);
        let found = call.service_account(service_account).send().await;
        let found = found.map_err(refused("eks:ListPodIdentityAssociations"))?;
        let mut found = found.associations.unwrap_or_default().into_iter();
        let Some(id) = found.find_map(|association| association.association_id) else {
            return Ok(None);
        };
        let call = self.eks.describe_pod_identity_association();
        let call = call.cluster_name(cluster.as_str()).association_id(&id);
        let answer = call.send().await;
        let answer = answer.map_err(refused("eks:DescribePodIdentityAssociation"))?;
        let role = answer
            .association
            .and_then(|association| association.role_arn);
        Ok(role.map(|role| PodIdentityAssociation { id, role }))
    }

    /// Gives a role to a service account by EKS Pod Identity.
    pub async fn associate_pod_identity(
        &self,
        cluster: &ClusterName,
        namespace: &str,
        service_account: &str,
        role: &str,
    ) -> Result<(), CloudError> {
        let call = self.eks.create_pod_identity_association();
        let call = call.cluster_name(cluster.as_str()).namespace(namespace);
        let call = call.service_account(service_account).role_arn(role);
        let done = call.send().await;
        done.map_err(refused("eks:CreatePodIdentityAssociation"))
            .map(drop)
    }
}
