//! Registry entries: reading and writing them, and checking a cluster's prerequisites in its account before registration.

use std::io::Write;

use anyhow::{Context, Result, bail};
use ec2::Account;
use jiff::Timestamp;
use model::{ClusterName, ledger::Mode};
use ports::{
    CloudError, Registry, ledger::ClusterLedger, limits::ssm::PARAMETER_BYTES,
    registry::RegistryEntry,
};
use serde_json::Value;

use super::{
    FixedClock, access,
    checks::{self, is_eks},
    memory_of,
};
use crate::{
    exit::Exit,
    finding::{self, Finding, found},
    journal::source::block_on,
    moment::now,
    objects::Objects,
    progress::Progress,
    registry::mode_text,
};

pub(super) async fn account(prefix: &str) -> Account {
    let options = ec2::Options {
        registry_prefix: prefix.to_owned(),
        ..ec2::Options::default()
    };
    Account::new(
        &ec2::sdk_config(super::PROGRAM).await,
        options,
        std::sync::Arc::new(FixedClock(now())),
    )
}

/// Stack, access and objects of a registration, besides the registry entry itself.
pub(crate) struct RegisterOptions<'a> {
    pub(crate) replace: bool,
    /// Create access entries for the roles of the stack's functions.
    pub(crate) grants_access: bool,
    /// Stack that serves the cluster.
    pub(crate) stack: &'a str,
    /// The cluster's objects, read with a kubeconfig context instead of the entry's credentials.
    pub(crate) objects: Option<Objects>,
}

pub(crate) fn register(
    prefix: &str,
    cluster: &str,
    entry: &Value,
    asked: RegisterOptions<'_>,
) -> Result<Exit> {
    block_on(async {
        let progress = Progress::of("Checking the cluster and its account");
        let account = account(prefix).await;
        let name = format!("{prefix}/{cluster}");
        let mut findings = write_entry(&account, prefix, cluster, entry, &asked).await?;
        let mut access_note = String::new();
        if asked.grants_access {
            let granted = access::grant(&account, cluster, asked.stack).await;
            access_note = granted.with_context(|| {
                format!(
                    "{cluster} is registered in shadow mode as {name}, but some functions have no access; repeat this with --replace"
                )
            })?;
            findings = checks::all(&account, cluster, entry, asked.objects, now()).await?;
        }
        let queues = queues(&account, cluster, entry, asked.stack).await;
        drop(progress);
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
        write!(
            out,
            "{access_note}{}",
            next_steps(cluster, entry, asked.grants_access, &queues)
        )?;
        Ok(Exit::Done)
    })
}

/// Checks a cluster and writes its entry. Returns the findings. A cluster that cannot be served is an error, and nothing is written.
pub(super) async fn write_entry(
    account: &Account,
    prefix: &str,
    cluster: &str,
    entry: &Value,
    asked: &RegisterOptions<'_>,
) -> Result<Vec<Finding>> {
    let name = format!("{prefix}/{cluster}");
    let findings = async {
        if let Some(endpoint) = turns::endpoint(entry) {
            let entries = account.entries().await;
            let entries = entries.with_context(|| format!("cannot read {prefix}"))?;
            if let Some(duplicate) = duplicate(&entries, cluster, &endpoint) {
                bail!(
                    "its endpoint is registered already, as {prefix}/{duplicate}: unregister that one first"
                );
            }
        }
        if let Some(duplicate) = duplicate_in_ledger(account, cluster, entry, asked.stack).await {
            bail!(
                "its API server is registered already, as {prefix}/{duplicate}, by the uid of its namespace kube-system: unregister \
                 {duplicate} first"
            );
        }
        checks::all(account, cluster, entry, asked.objects.clone(), now()).await
    };
    let findings = findings.await;
    let findings = findings.with_context(|| format!("{cluster} is not registered"))?;
    let done = account
        .put_entry(&cluster.into(), entry, asked.replace)
        .await;
    match done {
        Err(CloudError::Invalid { code, .. }) if code == "ParameterAlreadyExists" => bail!(
            "cluster {cluster} is registered already, as {name}: choose another name, or write over it with --replace"
        ),
        Err(CloudError::Invalid { .. }) if entry.to_string().len() > PARAMETER_BYTES => bail!(
            "cannot write {name}; nothing was changed. The entry has {} bytes, and a parameter of the standard tier takes \
             {PARAMETER_BYTES}: leave out settings that are defaults, or make it an advanced parameter first (aws ssm put-parameter \
             --name {name} --tier Advanced --type String --value '{{}}') and repeat this with --replace",
            entry.to_string().len()
        ),
        done => done.with_context(|| {
            format!(
                "cannot write {name}; nothing was changed. It takes ssm:PutParameter on that parameter"
            )
        })?,
    }
    Ok(findings)
}

/// Another name under which the same API server is registered: with two entries two lanes would plan for one cluster and its Lease.
fn duplicate(entries: &[RegistryEntry], cluster: &str, endpoint: &str) -> Option<String> {
    let same = |other: &&RegistryEntry| {
        let body = other.body.as_ref().ok();
        other.cluster.as_str() != cluster
            && body.and_then(turns::endpoint).as_deref() == Some(endpoint)
    };
    let duplicate = entries.iter().find(same)?;
    Some(duplicate.cluster.to_string())
}

/// Another name under which the stack serves the API server that answers at an entry's endpoint, however the endpoint is spelled. Where it
/// does not answer from here, or the ledger cannot be read, the housekeeper detects the duplicate.
async fn duplicate_in_ledger(
    account: &Account,
    cluster: &str,
    entry: &Value,
    stack: &str,
) -> Option<ClusterName> {
    let uid = checks::identity::uid(account, cluster, entry).await?;
    let (ledger, _) = memory_of(stack).await.ok()?;
    for other in ledger.clusters().await.ok()? {
        let meta = ledger.meta(&other).await.ok().flatten();
        let is_same = meta.is_some_and(|meta| {
            meta.uid.as_ref() == Some(&uid) && turns::unlisted_since(&meta.registry).is_none()
        });
        if is_same && other.as_str() != cluster {
            return Some(other);
        }
    }
    None
}

/// Names of the queues in the chart's values, with their URLs, for the functions that serve the entry's network.
async fn queues(
    account: &Account,
    cluster: &str,
    entry: &Value,
    stack: &str,
) -> [(&'static str, String); 4] {
    let number = account.account_of_entry(&cluster.into()).await;
    // Users who may only write the entry look the number up in the console.
    let number = number
        .ok()
        .flatten()
        .unwrap_or_else(|| "<account>".to_owned());
    queues_of(account, &number, entry, stack)
}

/// Returns [`queues`] for an account whose number is known.
pub(super) fn queues_of(
    account: &Account,
    number: &str,
    entry: &Value,
    stack: &str,
) -> [(&'static str, String); 4] {
    let reach = entry.get("reach").and_then(Value::as_str);
    let lane = match reach.and_then(|reach| reach.strip_prefix("vpc:")) {
        Some(vpc) => format!("{stack}-{vpc}"),
        None => stack.to_owned(),
    };
    let (region, domain) = (account.region(), account.domain());
    ["provision", "lifecycle", "disrupt", "terminate"].map(|queue| {
        let url = format!("https://sqs.{region}.{domain}/{number}/{lane}-{queue}");
        (queue, url)
    })
}

fn next_steps(
    cluster: &str,
    entry: &Value,
    grants_access: bool,
    queues: &[(&str, String)],
) -> String {
    let queues = queues.iter();
    let queues: String = queues
        .map(|(queue, url)| format!("       {queue}: {url}\n"))
        .collect();
    let first = match (is_eks(entry), grants_access) {
        (true, true) => {
            "List the access entries: aws eks list-access-entries --cluster-name <cluster>"
                .to_owned()
        }
        (true, false) => format!(
            "Let each function in by its role: whittle register {cluster} --replace --create-access-entries, or, for each\n     \
             role in the stack's outputs (provisioner, lifecycle, disruption, terminator, interruption, housekeeper):\n     \
             aws eks create-access-entry --cluster-name {cluster} --principal-arn <role> \
             --kubernetes-groups whittle:<function>\n     \
             In the ConfigMap aws-auth instead, the ARN of a role is written without its path."
        ),
        (false, _) => "Give the credentials' user or groups the chart's ClusterRoles.".to_owned(),
    };
    format!(
        "Next:\n  1. {first}\n  2. helm upgrade --install whittle infra/chart --namespace kube-system -f values.yaml\n     \
         with the queues of its functions as stack.queues in values.yaml:\n{queues}  \
         3. whittle doctor {cluster} --context <context>\n  \
         4. When the journal says what you want, and Karpenter is scaled to 0: whittle activate {cluster}\n",
    )
}

pub(super) async fn entries(account: &Account, prefix: &str) -> Result<Vec<RegistryEntry>> {
    let entries = account.entries().await;
    entries.with_context(|| format!("cannot read {prefix}: it takes ssm:GetParametersByPath on it"))
}

pub(super) async fn entry_of(
    account: &Account,
    prefix: &str,
    cluster: &str,
) -> Result<RegistryEntry> {
    let mut entries = entries(account, prefix).await?.into_iter();
    let entry = entries.find(|entry| entry.cluster.as_str() == cluster);
    entry.with_context(|| {
        format!(
            "no cluster {cluster} is registered in {}: whittle clusters lists registered clusters",
            account.region()
        )
    })
}

/// An entry as functions read it, or why they refuse it.
pub(super) fn read_entry(entry: &RegistryEntry) -> Result<turns::Entry, String> {
    let body = entry.body.as_ref().map_err(String::clone)?;
    turns::Entry::read(body).map_err(|error| error.to_string())
}

/// Changes the mode of a registered cluster, and no other key of its entry.
pub(crate) fn switch(prefix: &str, cluster: &str, mode: Mode) -> Result<Exit> {
    block_on(async {
        let account = account(prefix).await;
        let entry = entry_of(&account, prefix, cluster).await?;
        let name = format!("{prefix}/{cluster}");
        let refused = |why: &str| {
            anyhow::anyhow!(
                "the entry {name} is invalid ({why}), and nothing was changed: correct the parameter, or overwrite it without its \
                 settings by whittle register {cluster} --replace"
            )
        };
        let was = read_entry(&entry).map_err(|why| refused(&why))?;
        let mut out = std::io::stdout().lock();
        if was.mode == mode {
            writeln!(out, "{cluster} is in {} mode already.", mode_text(mode))?;
            return Ok(Exit::Done);
        }
        let change = |entry: &mut serde_json::Map<String, Value>| {
            entry.insert("mode".to_owned(), mode_text(mode).into());
        };
        let changed = account.change_entry(&cluster.into(), change).await;
        changed.with_context(|| format!("cannot write {name}; nothing was changed"))?;
        match mode {
            Mode::Active => writeln!(
                out,
                "{cluster} is active: within a minute functions act for it, once Karpenter's Lease has no other holder.\n\
                 To take it back: whittle deactivate {cluster}"
            )?,
            Mode::Shadow => writeln!(
                out,
                "{cluster} is in shadow mode: within a minute functions only plan for it, and let go of Karpenter's Lease.\n\
                 Nodes stay as they are."
            )?,
        }
        Ok(Exit::Done)
    })
}

/// Findings about a registered cluster's entry and about the cluster. Objects that are not given are read from the cluster itself.
pub(crate) fn doctor(
    prefix: &str,
    cluster: &str,
    objects: Option<Objects>,
    at: Timestamp,
) -> Result<Vec<Finding>> {
    block_on(async {
        let account = account(prefix).await;
        let entry = entry_of(&account, prefix, cluster).await?;
        let refused = read_entry(&entry).err();
        let mut findings = found([Finding::new(
            "the registry entry is refused: the cluster is served by the last one that was good, if any",
            refused.into_iter().collect(),
            "correct the parameter, or overwrite it: whittle register <cluster> --replace",
        )]);
        if let Ok(entry) = &entry.body {
            match checks::all(&account, cluster, entry, objects, at).await {
                Ok(more) => findings.extend(more),
                // The refused entry may be the reason.
                Err(error) if !findings.is_empty() => {
                    eprintln!("whittle: {cluster} is not checked further: {error:#}");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(findings)
    })
}
