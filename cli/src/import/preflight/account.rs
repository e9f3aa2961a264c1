//! Facts about the account for the migration, from output of the AWS CLI: zones of subnets, access entries, quotas.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use anyhow::{Context, Result, bail};
use model::resources::CPU;
use serde_json::Value;

use crate::{
    aws_output, catalogs,
    finding::{Finding, found},
    import::{group::Group, names::shell_word},
    objects::Objects,
};

/// Answers of describe-subnets, list-access-entries and list-service-quotas.
#[derive(Default)]
pub(super) struct Account {
    /// Zones by subnet.
    zones: BTreeMap<String, String>,
    /// ARNs with an access entry; `None` if the list is not given.
    entries: Option<BTreeSet<String>>,
    /// Quotas by code.
    quotas: BTreeMap<String, f64>,
}

impl Account {
    pub(super) fn read(files: &[PathBuf]) -> Result<Self> {
        let mut account = Self::default();
        for file in files {
            let name = file.display().to_string();
            let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
            for answer in aws_output::documents(&name, &text)? {
                account
                    .add(&answer)
                    .with_context(|| format!("--account {name}"))?;
            }
        }
        Ok(account)
    }

    fn add(&mut self, answer: &Value) -> Result<()> {
        let list = |key: &str| answer.get(key).and_then(Value::as_array);
        if let Some(subnets) = list("Subnets") {
            let zones = subnets.iter().filter_map(|subnet| {
                Some((text(subnet, "SubnetId")?, text(subnet, "AvailabilityZone")?))
            });
            self.zones.extend(zones);
        } else if let Some(entries) = list("accessEntries") {
            let arns = entries.iter().filter_map(Value::as_str).map(str::to_owned);
            self.entries.get_or_insert_default().extend(arns);
        } else if let Some(quotas) = list("Quotas") {
            let values = quotas.iter().filter_map(|quota| {
                Some((text(quota, "QuotaCode")?, quota.get("Value")?.as_f64()?))
            });
            self.quotas.extend(values);
        } else {
            bail!(
                "expected what `aws ec2 describe-subnets`, `aws eks list-access-entries` or `aws service-quotas list-service-quotas \
                 --service-code ec2` prints"
            );
        }
        Ok(())
    }

    pub(super) fn findings(&self, objects: &Objects, groups: &[Group]) -> Result<Vec<Finding>> {
        Ok(found([
            self.volumes(objects, groups),
            self.roles(objects, groups),
            self.too_few_cores(groups)?,
        ]))
    }

    /// Volumes outside the zones of the groups' subnets: volumes stay in their zone, and nodes are launched in those zones.
    fn volumes(&self, objects: &Objects, groups: &[Group]) -> Finding {
        let subnets = groups.iter().flat_map(|group| &group.subnets);
        let zones: Option<BTreeSet<&String>> =
            subnets.map(|subnet| self.zones.get(subnet)).collect();
        let zones = zones.filter(|zones| !zones.is_empty());
        let is_lost = |volume: &&Value| {
            let pinned = pinned(volume);
            let reached =
                |zones: &BTreeSet<&String>| pinned.iter().any(|zone| zones.contains(zone));
            !pinned.is_empty() && zones.as_ref().is_some_and(|zones| !reached(zones))
        };
        let lost = objects.of_kind("PersistentVolume").filter(is_lost);
        Finding::new(
            "volumes in zones without a subnet of the groups",
            lost.map(|volume| {
                let name = volume.pointer("/metadata/name").and_then(Value::as_str);
                let zones = pinned(volume).join(", ");
                format!("PersistentVolume {}: {zones}", name.unwrap_or_default())
            })
            .collect(),
            "add a subnet of that zone to the EC2NodeClass; without it their pods stay pending",
        )
    }

    fn roles(&self, objects: &Objects, groups: &[Group]) -> Finding {
        let mapped: Vec<&str> = objects
            .of_kind("ConfigMap")
            .filter(|map| map.pointer("/metadata/name").and_then(Value::as_str) == Some("aws-auth"))
            .filter_map(|map| map.pointer("/data/mapRoles")?.as_str())
            .collect();
        let is_known = self.entries.is_some() || !mapped.is_empty();
        let admits = |role: &str| {
            let end = format!("/{role}");
            let entries = self.entries.iter().flatten();
            let is_mapped = |map: &&str| map.lines().any(|line| line.trim_end().ends_with(&end));
            entries.into_iter().any(|arn| arn.ends_with(&end)) || mapped.iter().any(is_mapped)
        };
        let roles: BTreeSet<&str> = groups
            .iter()
            .filter_map(|group| group.class.get("role")?.as_str())
            .filter(|role| is_known && !admits(role))
            .collect();
        let cluster = groups.iter().find_map(|group| group.clusters.first());
        let cluster = cluster.map_or("<cluster>", String::as_str);
        let names: Vec<&str> = roles.iter().copied().collect();
        let remedy = format!(
            "for role in {}; do aws eks create-access-entry --cluster-name {} --type EC2_LINUX --principal-arn \
             \"$(aws iam get-role --role-name \"$role\" --query Role.Arn --output text)\"; done",
            names
                .iter()
                .map(|role| shell_word(role))
                .collect::<Vec<_>>()
                .join(" "),
            shell_word(cluster),
        );
        Finding::new(
            "roles of nodes without access to the cluster",
            names.iter().map(|role| format!("role {role}")).collect(),
            remedy,
        )
    }

    /// Groups whose vCPUs exceed the quota: nodes run twice while a group is migrated.
    fn too_few_cores(&self, groups: &[Group]) -> Result<Finding> {
        const QUOTAS: [(&str, &str); 2] = [("spot", "L-34B43A08"), ("on-demand", "L-1216C47A")];
        let (mut exceeded, mut remedies) = (Vec::new(), Vec::new());
        if !self.quotas.is_empty() {
            let types = catalogs::us_east_1()?;
            let cores: BTreeMap<&str, i64> = types
                .iter()
                .map(|instance_type| {
                    (
                        instance_type.name.as_str(),
                        instance_type.capacity.get(CPU) / 1000,
                    )
                })
                .collect();
            for (capacity_type, code) in QUOTAS {
                let Some(quota) = self.quotas.get(code) else {
                    continue;
                };
                let of_type = groups.iter().filter(|group| {
                    group.capacity_types.first().copied().unwrap_or("on-demand") == capacity_type
                });
                let needed: i64 = of_type
                    .map(|group| 2 * desired(group) * largest(group, &cores))
                    .sum();
                // Quotas are whole numbers of vCPUs.
                #[expect(clippy::cast_precision_loss, reason = "compared with a number of AWS'")]
                if needed as f64 > *quota {
                    remedies.push(format!(
                        "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {code} --desired-value {needed}"
                    ));
                    exceeded.push(format!(
                        "{code} ({capacity_type} instances of standard families): {quota} vCPU, {needed} at most are needed while nodes run twice"
                    ));
                }
            }
        }
        Ok(Finding::new(
            "quotas that the migration may exceed",
            exceeded,
            format!(
                "move the groups a few nodes at a time, or {}",
                remedies.join("; ")
            ),
        ))
    }
}

fn text(object: &Value, key: &str) -> Option<String> {
    object.get(key)?.as_str().map(str::to_owned)
}

fn desired(group: &Group) -> i64 {
    group.members.iter().map(|member| member.desired).sum()
}

/// The largest of the types that the group names, in vCPUs.
fn largest(group: &Group, cores: &BTreeMap<&str, i64>) -> i64 {
    let named = group.requirements.iter().filter(|requirement| {
        requirement.get("key").and_then(Value::as_str) == Some("node.kubernetes.io/instance-type")
            && requirement.get("operator").and_then(Value::as_str) == Some("In")
    });
    let types = named
        .filter_map(|requirement| requirement.get("values")?.as_array())
        .flatten();
    let types = types.filter_map(Value::as_str);
    types
        .filter_map(|name| cores.get(name))
        .copied()
        .max()
        .unwrap_or(0)
}

/// Zones that a volume's affinity names.
fn pinned(volume: &Value) -> Vec<String> {
    const KEYS: [&str; 3] = [
        "topology.kubernetes.io/zone",
        "topology.ebs.csi.aws.com/zone",
        "failure-domain.beta.kubernetes.io/zone",
    ];
    let terms = volume.pointer("/spec/nodeAffinity/required/nodeSelectorTerms");
    let terms = terms.and_then(Value::as_array).into_iter().flatten();
    let expressions = terms.filter_map(|term| term.get("matchExpressions")?.as_array());
    let zones = expressions.flatten().filter(|requirement| {
        let key = requirement.get("key").and_then(Value::as_str);
        key.is_some_and(|key| KEYS.contains(&key))
    });
    let values = zones
        .filter_map(|requirement| requirement.get("values")?.as_array())
        .flatten();
    values
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}
