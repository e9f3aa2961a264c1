//! Account-side capacity for nodes: the service-linked role of EC2 Spot, quotas, subnets and security groups.

use anyhow::{Context, Result};
use api::EC2NodeClass;
use ec2::Account;
use model::resources::CPU;
use serde_json::{Value, json};

use super::optional;
use crate::{
    finding::Finding,
    objects::{Objects, short_name},
};

/// The service-linked role that EC2 Spot needs once per account.
pub(in crate::aws) const SPOT_ROLE: &str = "AWSServiceRoleForEC2Spot";

pub(super) async fn checks(
    account: &Account,
    cluster: &str,
    objects: &Objects,
) -> Result<Vec<Finding>> {
    let spot = account.has_role(SPOT_ROLE).await;
    let spot = spot.context("cannot look up the service-linked role of EC2 Spot")?;
    Ok(vec![
        spot_role(spot),
        quotas(account, most_cpus(objects)).await,
        nothing_selected(account, cluster, objects).await,
    ])
}

fn spot_role(exists: bool) -> Finding {
    Finding::new(
        "2. the service-linked role of EC2 Spot is missing, so that the first spot launch is refused",
        optional((!exists).then(|| SPOT_ROLE.to_owned())),
        "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
    )
}

/// Quotas of running vCPUs, by their codes.
const QUOTAS: [(&str, &str); 2] = [
    ("L-1216C47A", "on-demand instances of standard families"),
    ("L-34B43A08", "spot instances of standard families"),
];

/// Least number of vCPUs that quotas should allow: enough for a handful of nodes, which the quotas of a new account may lack.
pub(in crate::aws) const FEW_CPUS: i64 = 32;

/// The largest CPU limit of any NodePool.
fn most_cpus(objects: &Objects) -> i64 {
    let limits = objects.of_kind("NodePool").filter_map(|pool| {
        let mut amounts = model::Resources::default();
        let limit = pool.pointer("/spec/limits/cpu")?;
        let limit = limit
            .as_str()
            .map_or_else(|| limit.to_string(), str::to_owned);
        amounts.set_quantity(CPU, &limit).ok()?;
        Some(amounts.get(CPU) / 1000)
    });
    limits.max().unwrap_or(0).max(FEW_CPUS)
}

pub(in crate::aws) async fn quotas(account: &Account, wanted: i64) -> Finding {
    let mut low = Vec::new();
    for (code, about) in QUOTAS {
        low.extend(match account.ec2_quota(code).await {
            Ok(value) => too_low(code, about, value, wanted),
            Err(error) => Some(format!("{code} ({about}) cannot be read: {error}")),
        });
    }
    Finding::new(
        "44. quotas that NodePools may reach before their limits",
        low,
        "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code <code> --desired-value <vCPU>, or lower \
         spec.limits.cpu; whoever runs this command needs servicequotas:GetServiceQuota",
    )
}

fn too_low(code: &str, about: &str, value: f64, wanted: i64) -> Option<String> {
    #[expect(clippy::cast_precision_loss, reason = "compared with a number of AWS'")]
    let is_low = value < wanted as f64;
    is_low.then(|| format!("{code} ({about}): {value} vCPU, {wanted} may be wanted"))
}

/// EC2NodeClasses that select no subnets or no security groups; before there are any EC2NodeClasses, the tag that selectors usually name.
async fn nothing_selected(account: &Account, cluster: &str, objects: &Objects) -> Finding {
    let usual = usual_class(cluster);
    let mut classes: Vec<&Value> = objects.of_kind("EC2NodeClass").collect();
    if classes.is_empty() {
        classes.push(&usual);
    }
    let mut nothing = Vec::new();
    for class in classes {
        let name = short_name(class);
        let read: Result<EC2NodeClass, _> = serde_json::from_value(class.clone());
        let selected = match read {
            Ok(read) => account.selected(&read).await,
            // The API server's own schema reports an invalid NodeClass.
            Err(error) => {
                nothing.push(format!("{name} cannot be read: {error}"));
                continue;
            }
        };
        match selected {
            Ok((subnets, groups)) => nothing.extend(
                [("subnet", subnets), ("security group", groups)]
                    .into_iter()
                    .filter(|(_, count)| *count == 0)
                    .map(|(what, _)| format!("{name} selects no {what}")),
            ),
            Err(error) => nothing.push(format!("{name}: {error}")),
        }
    }
    Finding::new(
        "45. EC2NodeClasses without subnets or security groups",
        nothing,
        "aws ec2 create-tags --resources <subnets and security group> --tags Key=karpenter.sh/discovery,Value=<cluster>, or mend \
         the selectors",
    )
}

pub(in crate::aws) fn usual_class(cluster: &str) -> Value {
    let terms = json!([{ "tags": { "karpenter.sh/discovery": cluster } }]);
    json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
        "metadata": { "name": format!("with the tag karpenter.sh/discovery={cluster}") },
        "spec": { "amiSelectorTerms": [], "subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_below_the_node_pools_limits_is_reported() {
        let low = too_low("L-1216C47A", "on-demand", 5.0, 32);
        assert_eq!(
            low.as_deref(),
            Some("L-1216C47A (on-demand): 5 vCPU, 32 may be wanted")
        );
        assert_eq!(too_low("L-1216C47A", "on-demand", 32.0, 32), None);
    }

    #[test]
    fn default_class_parses() {
        let read: EC2NodeClass = serde_json::from_value(usual_class("demo")).unwrap();
        assert_eq!(read.spec.subnet_selector_terms.len(), 1);
    }
}
