//! Account-side prerequisites of a cluster: access entries, roles, quotas and tags.

use api::EC2NodeClass;
use model::ClusterName;
use ports::CloudError;
use serde_json::{Value, json};

use signed::{Request, domain, send};

use crate::{
    Account,
    errors::{cloud_error, refused},
};

/// An access entry of an EKS cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessEntry {
    /// The ARN of a role or user.
    pub principal: String,
    /// Kubernetes groups of the principal.
    pub groups: Vec<String>,
}

impl Account {
    /// Lists the access entries; empty if the cluster uses the ConfigMap aws-auth only.
    pub async fn access_entries(
        &self,
        cluster: &ClusterName,
    ) -> Result<Vec<AccessEntry>, CloudError> {
        let call = self
            .eks
            .list_access_entries()
            .cluster_name(cluster.as_str());
        let mut pages = call.into_paginator().send();
        let mut principals = Vec::new();
        while let Some(page) = pages.next().await {
            match page.map_err(refused("eks:ListAccessEntries")) {
                Ok(page) => principals.extend(page.access_entries.unwrap_or_default()),
                Err(CloudError::Invalid { code, .. }) if code == "InvalidRequestException" => {
                    return Ok(Vec::new());
                }
                Err(error) => return Err(error),
            }
        }
        let mut entries = Vec::new();
        for principal in principals {
            // An entry may be deleted in the meantime.
            if let Some(groups) = self.groups(cluster, &principal).await? {
                entries.push(AccessEntry { principal, groups });
            }
        }
        Ok(entries)
    }

    /// Adds a principal to a group of the cluster; its other groups stay.
    pub async fn grant_access(
        &self,
        cluster: &ClusterName,
        principal: &str,
        group: &str,
    ) -> Result<(), CloudError> {
        let call = self.eks.create_access_entry();
        let call = call.cluster_name(cluster.as_str()).principal_arn(principal);
        let created = call.kubernetes_groups(group).send().await;
        match created.map_err(refused("eks:CreateAccessEntry")) {
            Ok(_) => return Ok(()),
            Err(CloudError::Invalid { code, .. }) if code == "ResourceInUseException" => {}
            Err(error) => return Err(error),
        }
        let mut groups = self.groups(cluster, principal).await?.unwrap_or_default();
        if groups.iter().any(|known| known == group) {
            return Ok(());
        }
        groups.push(group.to_owned());
        let call = self.eks.update_access_entry();
        let call = call.cluster_name(cluster.as_str()).principal_arn(principal);
        let updated = call.set_kubernetes_groups(Some(groups)).send().await;
        updated.map_err(refused("eks:UpdateAccessEntry")).map(drop)
    }

    /// Deletes a principal's access entry, if there is one.
    pub async fn revoke_access(
        &self,
        cluster: &ClusterName,
        principal: &str,
    ) -> Result<(), CloudError> {
        let call = self.eks.delete_access_entry();
        let call = call.cluster_name(cluster.as_str()).principal_arn(principal);
        let deleted = call.send().await;
        match deleted.map_err(refused("eks:DeleteAccessEntry")) {
            Ok(_) | Err(CloudError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Kubernetes groups of a principal; `None` if the principal has no access entry.
    async fn groups(
        &self,
        cluster: &ClusterName,
        principal: &str,
    ) -> Result<Option<Vec<String>>, CloudError> {
        let entry = self.access_entry(cluster, principal).await?;
        Ok(entry.map(|entry| entry.kubernetes_groups.unwrap_or_default()))
    }

    /// EKS' description of a principal's access entry.
    pub(crate) async fn access_entry(
        &self,
        cluster: &ClusterName,
        principal: &str,
    ) -> Result<Option<aws_sdk_eks::types::AccessEntry>, CloudError> {
        let call = self.eks.describe_access_entry();
        let call = call.cluster_name(cluster.as_str()).principal_arn(principal);
        let answer = call.send().await;
        match answer.map_err(refused("eks:DescribeAccessEntry")) {
            Ok(answer) => Ok(answer.access_entry),
            Err(CloudError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the account has a role of this name; the path is ignored.
    pub async fn has_role(&self, name: &str) -> Result<bool, CloudError> {
        Ok(self.role_arn(name).await?.is_some())
    }

    /// The ARN of the account's role of this name.
    pub async fn role_arn(&self, name: &str) -> Result<Option<String>, CloudError> {
        let found = self.iam.get_role().role_name(name).send().await;
        match found.map_err(refused("iam:GetRole")) {
            Ok(found) => Ok(found.role.map(|role| role.arn)),
            Err(CloudError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The value of an EC2 quota, such as `L-1216C47A`, in the quota's own unit.
    pub async fn ec2_quota(&self, code: &str) -> Result<f64, CloudError> {
        const ACTION: &str = "servicequotas:GetServiceQuota";
        let headers = [
            ("content-type", "application/x-amz-json-1.1"),
            ("x-amz-target", "ServiceQuotasV20190624.GetServiceQuota"),
        ];
        let endpoint = self.config.endpoint_url().map_or_else(
            || {
                let region = &self.region;
                format!("https://servicequotas.{region}.{}", domain(region))
            },
            |url| url.trim_end_matches('/').to_owned(),
        );
        let request = Request {
            operation: ACTION,
            service: Some("servicequotas"),
            method: "POST",
            endpoint,
            path: "/".to_owned(),
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            body: json!({ "ServiceCode": "ec2", "QuotaCode": code })
                .to_string()
                .into(),
        };
        let unknown = |message: String| CloudError::Unknown {
            action: ACTION.to_owned(),
            message,
        };
        let now = self.clock.now().into();
        let answer = send(&self.config, &self.region, now, request).await;
        let (status, body) = answer.map_err(unknown)?;
        let said: Value = serde_json::from_str(&body).unwrap_or_default();
        if let Some(value) = said.pointer("/Quota/Value").and_then(Value::as_f64) {
            return Ok(value);
        }
        let text = |names: [&str; 2]| {
            let mut found = names.iter().filter_map(|name| said.get(name)?.as_str());
            found.next().unwrap_or_default()
        };
        // The type has the form com.amazonaws.servicequotas#NoSuchResourceException.
        let code = text(["__type", "code"]).rsplit('#').next();
        match code.filter(|code| !code.is_empty() && (400..500).contains(&status)) {
            Some(code) => Err(cloud_error(
                ACTION,
                code.to_owned(),
                text(["message", "Message"]).to_owned(),
            )),
            None => Err(unknown(format!("HTTP {status}: {body}"))),
        }
    }

    /// Number of subnets and of security groups that an EC2NodeClass selects now.
    pub async fn selected(&self, class: &EC2NodeClass) -> Result<(usize, usize), CloudError> {
        let (subnets, groups) = futures::join!(self.subnets(class), self.security_groups(class));
        Ok((subnets?.len(), groups?.len()))
    }
}
