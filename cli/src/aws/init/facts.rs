//! Prerequisites that exist in the account and the cluster.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use aws_rules::node_role;
use ec2::StackMemory;
use jiff::{SignedDuration, Timestamp};
use ports::{CloudError, ledger::ClusterLedger, with_causes};

use super::Setup;
use crate::{
    aws::{
        access::{self, group},
        checks::capacity,
        memory_of, registry,
    },
    finding::Finding,
    init::{
        invocation::{Invocation, Selection, shell_word},
        registration::Registration,
        steps::{AGENT, Facts, Found, NAMESPACE, SERVICE_ACCOUNT, StackFacts, ValuesFile},
        values::ChartValues,
    },
    moment::now,
    registry::eks_entry,
};

/// Difference to now below which a heartbeat proves that the relay runs: the relay beats every 25 s, and its clock may differ.
const BEAT_AGE_MAX: SignedDuration = SignedDuration::from_secs(120);

/// The result of a check; an error leaves the prerequisite unknown.
fn found<T>(result: Result<T, CloudError>, judge: impl FnOnce(T) -> Found) -> Found {
    match result {
        Ok(value) => judge(value),
        Err(error) => Found::Unknown(with_causes(&error)),
    }
}

impl Setup<'_> {
    /// The facts, and the content of the values file, which is empty without a stack.
    pub(super) async fn facts(&self) -> Result<(Facts, String)> {
        let (account, arguments, cluster) = (&self.account, self.arguments, self.cluster());
        let partition = self.identity.partition();
        let node_role = arguments.node_role();
        let role = account.role_arn(&node_role).await;
        let has_access_entries = self.eks.authentication_mode != "CONFIG_MAP";
        let has_node_access = match (&role, has_access_entries) {
            (Ok(Some(arn)), true) => found(
                account.access_entry_type(&cluster, arn).await,
                access_entry_of_nodes,
            ),
            (Err(_), true) => Found::Unknown("the role is unknown".to_owned()),
            (Ok(_), _) | (Err(_), false) => Found::Missing,
        };
        let node_role_arn = role.as_ref().ok().cloned().flatten();
        let node_role_arn = node_role_arn.unwrap_or_else(|| {
            let number = &self.identity.account;
            format!("arn:{partition}:iam::{number}:role/{node_role}")
        });
        let Finding { objects, .. } = capacity::quotas(account, capacity::FEW_CPUS).await;
        let words = std::env::args_os().skip(1);
        let words = words.map(|word| word.to_string_lossy().into_owned());
        let mut facts = Facts {
            cluster: arguments.cluster.clone(),
            region: account.region().to_owned(),
            partition: partition.to_owned(),
            spot_role: found(account.has_role(capacity::SPOT_ROLE).await, Found::from),
            low_quotas: objects,
            has_node_role: found(role, |arn| arn.is_some().into()),
            has_node_access,
            has_access_entries,
            untagged: self.untagged().await.map_err(|error| format!("{error:#}")),
            node_role,
            node_role_arn,
            stack: arguments.stack.name.clone(),
            stack_facts: None,
            invocation: Invocation::of(words),
            selection: Selection::of(arguments),
        };
        let memory = match account.memory(&arguments.stack.name).await {
            Ok(memory) => memory,
            Err(CloudError::NotFound { .. }) => return Ok((facts, String::new())),
            Err(error) => return Err(error).context("cannot look for the stack"),
        };
        let (stack_facts, values) = self.stack_facts(&memory, &facts).await?;
        facts.stack_facts = Some(stack_facts);
        Ok((facts, values))
    }

    /// Resources of the cluster to tag, as far as none with the tag exist.
    pub(super) async fn untagged(&self) -> Result<Vec<String>> {
        let usual = serde_json::from_value(capacity::usual_class(&self.arguments.cluster))?;
        let (subnets, groups) = self.account.selected(&usual).await?;
        let mut untagged = Vec::new();
        if subnets == 0 {
            untagged.extend(self.eks.subnets.iter().cloned());
        }
        if groups == 0 {
            untagged.push(self.eks.security_group.clone());
        }
        untagged.retain(|id| !id.is_empty());
        Ok(untagged)
    }

    async fn stack_facts(
        &self,
        memory: &StackMemory,
        facts: &Facts,
    ) -> Result<(StackFacts, String)> {
        let (account, arguments, cluster) = (&self.account, self.arguments, self.cluster());
        let registration = self.registration().await;
        let relay_role = memory.roles.get("relay").cloned();
        let associated = account.pod_identity_association(&cluster, NAMESPACE, SERVICE_ACCOUNT);
        let mut other_association = None;
        let has_pod_identity = found(associated.await, |associated| match associated {
            Some(association) if Some(&association.role) != relay_role.as_ref() => {
                other_association = Some(association.id);
                Found::Wrong(format!("it has the role {}", association.role))
            }
            associated => associated.is_some().into(),
        });
        let number = &self.identity.account;
        let entry = eks_entry(&registration.reach, None);
        let queues = registry::queues_of(account, number, &entry, &arguments.stack.name);
        let (region, domain) = (account.region(), account.domain());
        let image = arguments.relay_image(number, region, domain);
        let values = ChartValues {
            cluster: &arguments.cluster,
            region,
            table: &memory.table,
            queues: &queues,
            image: image.as_deref(),
            architecture: arguments.relay_architecture(),
        };
        let values = values.yaml()?;
        let path = arguments.values.display().to_string();
        let relay_is_alive = self.relay_is_alive().await;
        let facts = StackFacts {
            registration,
            functions_have_access: match facts.has_access_entries {
                true => self.access_of_functions(&memory.roles).await,
                false => Found::Unknown("the authentication mode is CONFIG_MAP".to_owned()),
            },
            has_pod_identity_agent: found(account.has_addon(&cluster, AGENT).await, Found::from),
            has_pod_identity,
            other_association,
            relay_role,
            values: self.values_file(&values)?,
            relay_is_alive: relay_is_alive
                .map_or_else(|error| Found::Unknown(format!("{error:#}")), Found::from),
            install: self.install(&path, image.as_deref()),
            values_path: path,
        };
        Ok((facts, values))
    }

    async fn registration(&self) -> Registration {
        let arguments = self.arguments;
        let entries = registry::entries(&self.account, arguments.registry.prefix()).await;
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => return Registration::unknown(format!("{error:#}"), arguments),
        };
        let cluster = self.cluster();
        let entry = entries.iter().find(|entry| entry.cluster == cluster);
        let body = entry.map(|entry| entry.body.as_ref().map_err(String::clone));
        Registration::of(body, arguments)
    }

    async fn access_of_functions(&self, roles: &BTreeMap<String, String>) -> Found {
        let roles = match access::roles_of_functions(&self.arguments.stack.name, roles) {
            Ok(roles) => roles,
            Err(error) => return Found::Unknown(error.to_string()),
        };
        let entries = self.account.access_entries(&self.cluster()).await;
        found(entries, |entries| {
            let mut roles = roles.iter();
            let have_access = roles.all(|(function, role)| {
                let group = group(function);
                let mut entries = entries.iter();
                entries.any(|entry| entry.principal == *role && entry.groups.contains(&group))
            });
            have_access.into()
        })
    }

    fn values_file(&self, values: &str) -> Result<ValuesFile> {
        let path = &self.arguments.values;
        Ok(match std::fs::read_to_string(path) {
            Ok(text) if text == values => ValuesFile::Same,
            Ok(_) if self.arguments.replace => ValuesFile::Replaceable,
            Ok(_) => ValuesFile::Different,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => ValuesFile::Missing,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        })
    }

    fn install(&self, values: &str, image: Option<&str>) -> Vec<String> {
        let chart = &self.arguments.chart;
        let mut commands = Vec::new();
        // An image in the account's own registry has to be pushed first.
        if let Some((registry, repository)) = image
            .filter(|image| image.contains(".dkr.ecr."))
            .and_then(|image| image.split_once('/'))
        {
            commands.push(format!("aws ecr create-repository --repository-name {repository}; make relay-image IMAGE=relay.tar"));
            commands.push(format!("aws ecr get-login-password | skopeo login --username AWS --password-stdin {registry}"));
            let version = env!("CARGO_PKG_VERSION");
            commands.push(format!(
                "skopeo copy oci-archive:relay.tar docker://{registry}/{repository}:{version}"
            ));
        }
        let (chart, values) = (shell_word(chart), shell_word(values));
        // Helm names the context otherwise.
        let context = Selection::of(self.arguments).context;
        let context = context.replacen("--context", "--kube-context", 1);
        commands.push(format!(
            "helm upgrade --install whittle {chart} --namespace {NAMESPACE} --values {values}{context}"
        ));
        commands
    }

    pub(super) async fn relay_is_alive(&self) -> Result<bool> {
        let (ledger, _) = memory_of(&self.arguments.stack.name).await?;
        let beat = ledger.relay_beat(&self.cluster()).await?;
        Ok(beat.is_some_and(|beat| is_recent(&beat.beat_at, now())))
    }
}

/// Type of access entries of Windows nodes, which the tool does not create.
const WINDOWS_TYPE: &str = "EC2_WINDOWS";

/// Judges the type of the role's access entry.
fn access_entry_of_nodes(entry_type: Option<String>) -> Found {
    match entry_type {
        None => Found::Missing,
        Some(entry_type) if entry_type == node_role::ACCESS_TYPE || entry_type == WINDOWS_TYPE => {
            Found::There
        }
        Some(entry_type) => Found::Wrong(format!("its access entry has the type {entry_type}")),
    }
}

/// Whether a heartbeat is recent by this machine's clock. One far in the future is none: the relay's clock is wrong then, or this one's.
fn is_recent(beat_at: &str, now: Timestamp) -> bool {
    let at: Option<Timestamp> = beat_at.parse().ok();
    at.is_some_and(|at| now.duration_since(at).abs() < BEAT_AGE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeat_of_a_clock_that_is_far_ahead_is_not_recent() {
        let now = Timestamp::UNIX_EPOCH;
        for (seconds, expected) in [(-119, true), (-120, false), (119, true), (120, false)] {
            let at = now + SignedDuration::from_secs(seconds);
            assert_eq!(is_recent(&at.to_string(), now), expected, "{at}");
        }
        assert!(!is_recent("", now));
    }

    #[test]
    fn access_entry_of_another_type_admits_no_nodes() {
        let judge = |text: &str| access_entry_of_nodes(Some(text.to_owned()));
        assert_eq!(judge("EC2_LINUX"), Found::There);
        let why = "its access entry has the type STANDARD".to_owned();
        assert_eq!(judge("STANDARD"), Found::Wrong(why));
        assert_eq!(access_entry_of_nodes(None), Found::Missing);
    }
}
