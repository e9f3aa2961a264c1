//! Writing and reading the registry, and looking at what a cluster needs in its account before it is registered.

use std::{collections::BTreeMap, io::Write, process::ExitCode};

use anyhow::{Context, Result, bail};
use ec2::{Account, EksCluster};
use jiff::Timestamp;
use model::{
    ClusterName,
    ledger::{Mode, Pause},
};
use ports::{CloudError, Registry, registry::RegistryEntry};
use serde_json::{Value, json};

use super::{At, memory_of, pauses};
use crate::{
    doctor::nodes::is_role,
    finding::{self, Finding, found},
    journal::source::block_on,
    stack::Stack,
};

async fn account(prefix: &str) -> Account {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one reading of the clock of this command"
    )]
    let now = Timestamp::now();
    let options = ec2::Options {
        registry_prefix: prefix.to_owned(),
        ..ec2::Options::default()
    };
    Account::new(
        &ec2::sdk_config().await,
        options,
        std::sync::Arc::new(At(now)),
    )
}

pub(crate) fn register(
    prefix: &str,
    cluster: &str,
    entry: &Value,
    replace: bool,
) -> Result<ExitCode> {
    block_on(async {
        let account = account(prefix).await;
        let name = format!("{prefix}/{cluster}");
        let findings = look(&account, cluster, entry).await;
        let findings = findings.with_context(|| format!("{cluster} is not registered"))?;
        let done = account.put_entry(&cluster.into(), entry, replace).await;
        match done {
            Err(CloudError::Invalid { code, .. }) if code == "ParameterAlreadyExists" => bail!(
                "cluster {cluster} is registered already, as {name}: choose another name, or write over it with --replace"
            ),
            done => done.with_context(|| {
                format!(
                    "cannot write {name}; nothing was changed. It takes ssm:PutParameter on that parameter"
                )
            })?,
        }
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{cluster} is registered in {} as {name}, in shadow mode: it is planned for, and nothing is done.",
            account.region()
        )?;
        if !findings.is_empty() {
            writeln!(out, "{} found:", findings.len())?;
            write!(out, "{}", finding::text(&findings))?;
        }
        write!(out, "{}", next_steps(cluster, entry))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// What the account lacks for the cluster; what makes it impossible to work with is an error.
async fn look(account: &Account, cluster: &str, entry: &Value) -> Result<Vec<Finding>> {
    let mut checks = Vec::new();
    if entry.get("type") == Some(&json!("eks")) {
        let described = account.describe_eks_cluster(&cluster.into()).await;
        let described = match described {
            Err(CloudError::NotFound { .. }) => bail!(
                "EKS has no cluster {cluster} in {}. Name its Region by AWS_REGION: a stack serves the clusters \
                 of its own. A cluster that is none of EKS takes --endpoint and --credentials",
                account.region()
            ),
            described => described.with_context(|| format!("cannot look at cluster {cluster}"))?,
        };
        let from_outside = entry
            .get("reach")
            .is_none_or(|reach| *reach == json!("public"));
        checks.extend(of_eks(cluster, &described, from_outside));
    } else if let Some(parameter) = entry.get("credentials").and_then(Value::as_str) {
        let held = account.holds_credentials(&cluster.into(), parameter).await;
        held.with_context(|| format!("cannot use the credentials in {parameter}"))?;
    }
    let spot = account.has_spot_role().await;
    let spot = spot.context("cannot look for the service-linked role of EC2 Spot")?;
    checks.push(spot_role(spot));
    Ok(found(checks))
}

fn of_eks(cluster: &str, described: &EksCluster, from_outside: bool) -> Vec<Finding> {
    let one = |found: bool, what: String| found.then_some(what).into_iter().collect();
    let EksCluster {
        status,
        public_endpoint,
        authentication_mode,
    } = described;
    vec![
        Finding::new(
            "the cluster is not active",
            one(status != "ACTIVE", format!("{cluster} is {status}")),
            "wait until it is: aws eks wait cluster-active --name <cluster>",
        ),
        Finding::new(
            "the API server is not reached from outside its VPC",
            one(
                from_outside && !public_endpoint,
                format!("{cluster} has no public endpoint"),
            ),
            "give the stack a lane in its VPC (VpcLaneId, docs/deployment.md) and register it with --reach vpc:<id> --replace, or \
             switch the public endpoint on, for the functions' addresses at least",
        ),
        Finding::new(
            "roles are let in by the ConfigMap aws-auth alone",
            one(
                authentication_mode == "CONFIG_MAP",
                format!("{cluster} has authentication mode CONFIG_MAP"),
            ),
            "map the functions' roles in aws-auth, each to the group whittle:<function>, or change the mode to \
             API_AND_CONFIG_MAP: aws eks update-cluster-config --access-config authenticationMode=API_AND_CONFIG_MAP",
        ),
    ]
}

fn unknown_roles(roles: &[String], entries: Result<Vec<String>, CloudError>) -> Finding {
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) => {
            return Finding::new(
                "30. whether the roles of nodes are let in cannot be seen",
                vec![error.to_string()],
                "let whoever runs this command call eks:ListAccessEntries",
            );
        }
    };
    let known = |role: &&String| entries.iter().any(|arn| is_role(arn, role));
    Finding::new(
        "30. roles of nodes that neither an access entry nor aws-auth lets in: their nodes never join",
        roles.iter().filter(|role| !known(role)).cloned().collect(),
        "aws eks create-access-entry --cluster-name <cluster> --principal-arn <role> --type EC2_LINUX, or EC2_WINDOWS",
    )
}

fn spot_role(exists: bool) -> Finding {
    let missing = (!exists).then(|| "AWSServiceRoleForEC2Spot".to_owned());
    Finding::new(
        "2. the service-linked role of EC2 Spot is missing, so that the first spot launch is refused",
        missing.into_iter().collect(),
        "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
    )
}

fn next_steps(cluster: &str, entry: &Value) -> String {
    let mut text = String::from("Next:\n");
    if entry.get("type") == Some(&json!("eks")) {
        text.push_str(&format!(
            "  1. Let each function in, by its role in the stack's outputs (provisioner, lifecycle, disruption, terminator,\n     \
             interruption, housekeeper):\n     aws eks create-access-entry --cluster-name {cluster} --principal-arn <role> \
             --kubernetes-groups whittle:<function>\n"
        ));
    } else {
        text.push_str("  1. Give the credentials' user or groups the chart's ClusterRoles.\n");
    }
    text.push_str(
        "  2. helm upgrade --install whittle infra/chart --namespace kube-system -f values.yaml\n  \
         3. whittle doctor --context <context>\n  \
         4. When the journal says what you want: set \"mode\" to \"active\" in the entry, with Karpenter scaled to 0.\n",
    );
    text
}

async fn entry_of(account: &Account, prefix: &str, cluster: &str) -> Result<RegistryEntry> {
    let entries = account.entries().await;
    let mut entries = entries
        .with_context(|| format!("cannot read {prefix}"))?
        .into_iter();
    let entry = entries.find(|one| one.cluster.as_str() == cluster);
    entry.with_context(|| {
        format!(
            "no cluster {cluster} is registered in {}: whittle clusters shows those that are",
            account.region()
        )
    })
}

/// What is wrong with a registered cluster's entry, and what its account lacks for it.
/// `roles` are those of nodes that only access entries may let in.
pub(crate) fn doctor(prefix: &str, cluster: &str, roles: &[String]) -> Result<Vec<Finding>> {
    block_on(async {
        let account = account(prefix).await;
        let entry = entry_of(&account, prefix, cluster).await?.body;
        let refused = match &entry {
            Ok(entry) => turns::Entry::read(entry)
                .err()
                .map(|error| error.to_string()),
            Err(why) => Some(why.clone()),
        };
        let mut findings = found([Finding::new(
            "the registry entry is refused: the cluster is served by the last one that was good, if any",
            refused.into_iter().collect(),
            "mend the parameter, or write it anew: whittle register <cluster> --replace",
        )]);
        if let Ok(entry) = &entry {
            findings.extend(look(&account, cluster, entry).await?);
            if !roles.is_empty() && entry.get("type") == Some(&json!("eks")) {
                let entries = account.access_entries(&cluster.into()).await;
                findings.extend(found([unknown_roles(roles, entries)]));
            }
        }
        Ok(findings)
    })
}

pub(crate) fn unregister(prefix: &str, cluster: &str) -> Result<ExitCode> {
    block_on(async {
        let account = account(prefix).await;
        let name = format!("{prefix}/{cluster}");
        let entry = entry_of(&account, prefix, cluster).await?;
        let mut out = std::io::stdout().lock();
        let is_active = |entry: &Value| entry.get("mode") == Some(&json!("active"));
        if entry.body.as_ref().is_ok_and(is_active) {
            let change = |entry: &mut serde_json::Map<String, Value>| {
                entry.insert("mode".to_owned(), "shadow".into());
            };
            let done = account.change_entry(&cluster.into(), change).await;
            done.with_context(|| format!("cannot write {name}; nothing was changed"))?;
            writeln!(
                out,
                "{cluster} is in shadow mode now: from the next sweep on, nothing is done to it. Its nodes keep running; Karpenter \
                 takes over by its Lease. Unregister it once more in five minutes to forget it."
            )?;
            return Ok(ExitCode::SUCCESS);
        }
        let done = account.delete_entry(&cluster.into()).await;
        done.with_context(|| format!("cannot delete {name}; nothing was changed"))?;
        writeln!(
            out,
            "{cluster} is not registered any more. Its nodes keep running, with the finalizer karpenter.sh/termination on \
             NodeClaims and Nodes: where nothing takes over, delete the NodeClaims before."
        )?;
        Ok(ExitCode::SUCCESS)
    })
}

pub(crate) fn clusters(prefix: &str, stack: &Stack) -> Result<ExitCode> {
    block_on(async {
        let account = account(prefix).await;
        let entries = account.entries().await;
        let entries = entries.with_context(|| {
            format!("cannot read {prefix}: it takes ssm:GetParametersByPath on it")
        })?;
        let mut paused = paused(&entries, stack).await;
        let mut out = std::io::stdout().lock();
        let mut broken = false;
        for entry in &entries {
            let told = told_of(entry);
            broken |= told.is_err();
            let told = told.unwrap_or_else(|refused| refused);
            writeln!(out, "{}  {told}", entry.cluster)?;
            let pauses = paused
                .as_mut()
                .ok()
                .and_then(|all| all.remove(&entry.cluster));
            for pause in pauses.into_iter().flatten() {
                writeln!(out, "  {pause}")?;
            }
        }
        if entries.is_empty() {
            writeln!(out, "No cluster is registered in {}.", account.region())?;
        }
        if let Err(error) = paused {
            writeln!(
                std::io::stderr(),
                "whittle: pauses are not known: {error:#}"
            )?;
        }
        Ok(match broken {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        })
    })
}

/// Its type and mode, or why its entry is refused.
fn told_of(entry: &RegistryEntry) -> Result<String, String> {
    let body = entry.body.as_ref();
    let body = body.map_err(|error| format!("refused: {error}"))?;
    let read = turns::Entry::read(body).map_err(|error| format!("refused: {error}"))?;
    let kind = body.get("type").and_then(Value::as_str).unwrap_or("?");
    let mode = match read.mode {
        Mode::Active => "active",
        Mode::Shadow => "shadow",
    };
    Ok(format!("{kind}  {mode}"))
}

async fn paused(
    entries: &[RegistryEntry],
    stack: &Stack,
) -> Result<BTreeMap<ClusterName, Vec<Pause>>> {
    if entries.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (ledger, _) = memory_of(&stack.name).await?;
    let clusters = entries.iter().map(|entry| &entry.cluster);
    pauses::of_clusters(&ledger, clusters, crate::moment::now()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_known_by_its_name_whatever_its_path() {
        let roles = ["node".to_owned(), "other".to_owned()];
        let entries = [
            "arn:aws:iam::123456789012:role/team/node",
            "arn:aws:iam::123456789012:user/other",
        ];
        let entries = entries.map(str::to_owned).to_vec();
        assert_eq!(unknown_roles(&roles, Ok(entries)).objects, ["other"]);
        let denied = CloudError::Denied {
            action: "eks:ListAccessEntries".into(),
            message: "no".into(),
        };
        let told = unknown_roles(&roles, Err(denied));
        assert_eq!(told.objects, ["eks:ListAccessEntries was denied: no"]);
    }

    #[test]
    fn what_eks_says_of_a_cluster_becomes_findings() {
        let of = |status: &str, public_endpoint, mode: &str, from_outside| {
            let described = EksCluster {
                status: status.into(),
                public_endpoint,
                authentication_mode: mode.into(),
            };
            let findings = found(of_eks("demo", &described, from_outside)).into_iter();
            findings
                .flat_map(|finding| finding.objects)
                .collect::<Vec<_>>()
        };
        assert_eq!(of("ACTIVE", true, "API", true), Vec::<String>::new());
        assert_eq!(of("CREATING", true, "", true), ["demo is CREATING"]);
        assert_eq!(
            of("ACTIVE", false, "CONFIG_MAP", true),
            [
                "demo has no public endpoint",
                "demo has authentication mode CONFIG_MAP"
            ]
        );
        let inside = of("ACTIVE", false, "API", false);
        assert_eq!(inside, Vec::<String>::new(), "a lane reaches it");
    }
}
