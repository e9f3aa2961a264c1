//! `whittle init` in AWS: reads what there is, and carries out the steps that are missing.

use std::{convert::identity, io::Write, time::Duration};

use anyhow::{Context, Result};
use ec2::{Account, CallerIdentity, EksCluster, StackMemory};
use jiff::SignedDuration;
use model::ClusterName;
use ports::{CloudError, ledger::ClusterLedger, with_causes};

use super::{
    access::{self, FUNCTIONS, group},
    checks::{self, capacity},
    memory_of,
    registry::{self, RegisterOptions, account},
    until,
};
use crate::{
    doctor::LISTS,
    exit::Exit,
    finding::{self, Finding},
    init::{
        Arguments,
        steps::{
            self, AGENT, Change, DISCOVERY, Facts, Found, NAMESPACE, Outcome, SERVICE_ACCOUNT,
            StackFacts, State, Step, ValuesFile,
        },
        values::ChartValues,
    },
    journal::source::block_on,
    moment::now,
    objects::Objects,
};

/// Number of attempts to create an access entry: EKS does not see a role of IAM in its first seconds.
const ACCESS_ATTEMPTS: usize = 5;
/// Pause between these attempts.
const ACCESS_PAUSE: Duration = Duration::from_secs(3);
/// Age below which a heartbeat proves that the relay runs: it beats every 25 s, and clocks may differ.
const BEAT_AGE_MAX: SignedDuration = SignedDuration::from_secs(120);

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    block_on(Box::pin(async {
        let account = account(arguments.registry.prefix()).await;
        let identity = account.caller_identity().await;
        let identity = identity.context("AWS does not accept the credentials")?;
        let eks = checks::eks(&account, &arguments.cluster).await?;
        let mut setup = Setup {
            account,
            identity,
            eks,
            arguments,
            stack: None,
            values: String::new(),
        };
        setup.print(&format!(
            "credentials: {} in account {}, Region {}\ncluster {}: Kubernetes {}, {}\n",
            setup.identity.arn,
            setup.identity.account,
            setup.account.region(),
            arguments.cluster,
            setup.eks.version,
            setup.eks.status,
        ))?;
        let facts = setup.facts().await?;
        let left = setup
            .carry_out(&steps::plan(&facts, arguments.create))
            .await?;
        let stack = facts.stack_facts.as_ref();
        let lacks_relay = stack.is_some_and(|stack| stack.relay_is_alive != Ok(true));
        setup.finish(left, lacks_relay).await
    }))
}

/// An installation under way.
struct Setup<'a> {
    account: Account,
    identity: CallerIdentity,
    eks: EksCluster,
    arguments: &'a Arguments,
    stack: Option<StackMemory>,
    /// Content of the values file; empty without a stack.
    values: String,
}

fn found<T>(result: Result<T, CloudError>, is_there: impl FnOnce(T) -> bool) -> Found {
    result.map(is_there).map_err(|error| with_causes(&error))
}

impl Setup<'_> {
    fn print(&self, text: &str) -> Result<()> {
        Ok(std::io::stdout().write_all(text.as_bytes())?)
    }

    fn cluster(&self) -> ClusterName {
        self.arguments.cluster.as_str().into()
    }

    fn node_role_arn(&self) -> String {
        let CallerIdentity { account, .. } = &self.identity;
        let partition = self.identity.partition();
        format!(
            "arn:{partition}:iam::{account}:role/{}",
            self.arguments.node_role()
        )
    }

    async fn facts(&mut self) -> Result<Facts> {
        let (account, cluster) = (&self.account, self.cluster());
        let node_role = self.arguments.node_role();
        let role = account.role_arn(&node_role).await;
        let node_role_arn = match &role {
            Ok(Some(arn)) => arn.clone(),
            Ok(None) | Err(_) => self.node_role_arn(),
        };
        let has_access_entries = self.eks.authentication_mode != "CONFIG_MAP";
        let has_node_access = match (&role, has_access_entries) {
            (Ok(Some(arn)), true) => found(account.has_access_entry(&cluster, arn).await, identity),
            _ => Ok(false),
        };
        let Finding { objects, .. } = capacity::quotas(account, capacity::FEW_CPUS).await;
        let mut facts = Facts {
            cluster: self.arguments.cluster.clone(),
            region: account.region().to_owned(),
            spot_role: found(account.has_role(capacity::SPOT_ROLE).await, identity),
            low_quotas: objects,
            has_node_role: found(role, |arn| arn.is_some()),
            has_node_access,
            has_access_entries,
            untagged: self.untagged().await.map_err(|error| format!("{error:#}")),
            node_role,
            node_role_arn,
            stack: self.arguments.stack.name.clone(),
            stack_facts: None,
        };
        let memory = account.memory(&self.arguments.stack.name).await;
        self.stack = match memory {
            Ok(memory) => Some(memory),
            Err(CloudError::NotFound { .. }) => None,
            Err(error) => return Err(error).context("cannot look for the stack"),
        };
        if let Some(memory) = self.stack.clone() {
            facts.stack_facts = Some(self.stack_facts(&memory, has_access_entries).await?);
        }
        Ok(facts)
    }

    /// Resources of the cluster to tag, as far as none with the tag exist.
    async fn untagged(&self) -> Result<Vec<String>> {
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
        &mut self,
        memory: &StackMemory,
        has_access_entries: bool,
    ) -> Result<StackFacts> {
        let (arguments, cluster) = (self.arguments, self.cluster());
        let entries = registry::entries(&self.account, arguments.registry.prefix()).await;
        let is_registered = entries
            .map(|entries| entries.iter().any(|entry| entry.cluster == cluster))
            .map_err(|error| format!("{error:#}"));
        let functions_have_access = match has_access_entries {
            true => found(self.account.access_entries(&cluster).await, |entries| {
                let mut groups = FUNCTIONS.iter().map(|function| group(function));
                groups.all(|group| entries.iter().any(|entry| entry.groups.contains(&group)))
            }),
            false => Err("the authentication mode is CONFIG_MAP".to_owned()),
        };
        let relay_role = memory.roles.get("relay").cloned();
        let associated = self
            .account
            .pod_identity_role(&cluster, NAMESPACE, SERVICE_ACCOUNT)
            .await;
        let has_pod_identity = match associated {
            Ok(Some(role)) if Some(&role) != relay_role.as_ref() => {
                Err(format!("it has the role {role}"))
            }
            associated => found(associated, |role| role.is_some()),
        };
        let entry = arguments.entry();
        let number = &self.identity.account;
        let queues = registry::queues_of(&self.account, number, &entry, &arguments.stack.name);
        let (region, domain) = (self.account.region(), self.account.domain());
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
        let facts = StackFacts {
            is_registered,
            functions_have_access,
            has_pod_identity_agent: found(self.account.has_addon(&cluster, AGENT).await, identity),
            has_pod_identity,
            relay_role,
            values: self.values_file(&values)?,
            relay_is_alive: self
                .relay_is_alive()
                .await
                .map_err(|error| format!("{error:#}")),
            install: self.install(&path, image.as_deref()),
            values_path: path,
        };
        self.values = values;
        Ok(facts)
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
        let context = self.arguments.context.as_deref();
        let context = context.map_or_else(String::new, |name| format!(" --kube-context {name}"));
        commands.push(format!(
            "helm upgrade --install whittle {chart} --namespace {NAMESPACE} --values {values}{context}"
        ));
        commands
    }

    async fn relay_is_alive(&self) -> Result<bool> {
        let (ledger, _) = memory_of(&self.arguments.stack.name).await?;
        let beat = ledger.relay_beat(&self.cluster()).await?;
        let at = beat.and_then(|beat| beat.beat_at.parse().ok());
        Ok(at.is_some_and(|at| now().duration_since(at) < BEAT_AGE_MAX))
    }

    /// Carries the steps out and prints each. Returns how many are left to the user.
    async fn carry_out(&self, steps: &[Step]) -> Result<usize> {
        let mut left = 0;
        for step in steps {
            let outcome = match step.state {
                State::AlreadyThere => Outcome::AlreadyThere,
                State::ToDo => Outcome::ToDo,
                State::Change(_) if self.arguments.dry_run => Outcome::WouldBeDone,
                State::Change(change) => {
                    let done = Box::pin(self.change(change)).await;
                    done.with_context(|| {
                        format!(
                            "{} failed; what was done before stays, and a repetition goes on here",
                            step.title
                        )
                    })?;
                    Outcome::Done
                }
            };
            left += usize::from(outcome == Outcome::ToDo);
            self.print(&step.text(outcome))?;
        }
        Ok(left)
    }

    async fn change(&self, change: Change) -> Result<()> {
        let (account, arguments, cluster) = (&self.account, self.arguments, self.cluster());
        match change {
            Change::SpotRole => account.create_spot_role().await?,
            Change::NodeRole => {
                let partition = self.identity.partition();
                account
                    .create_node_role(&arguments.node_role(), partition)
                    .await?;
            }
            Change::NodeAccess => self.create_node_access().await?,
            Change::Tags => {
                let untagged = self.untagged().await?;
                account
                    .tag_resources(&untagged, DISCOVERY, &arguments.cluster)
                    .await?;
            }
            Change::Entry => self.register().await?,
            Change::FunctionAccess => {
                access::grant(account, &arguments.cluster, &arguments.stack.name).await?;
            }
            Change::PodIdentityAgent => account.create_addon(&cluster, AGENT).await?,
            Change::PodIdentity => {
                let stack = self.stack.as_ref();
                let role = stack.and_then(|memory| memory.roles.get("relay"));
                let role = role.context("the stack does not name the relay's role")?;
                account
                    .associate_pod_identity(&cluster, NAMESPACE, SERVICE_ACCOUNT, role)
                    .await?;
            }
            Change::Values => {
                let path = &arguments.values;
                std::fs::write(path, &self.values)
                    .with_context(|| format!("cannot write {}", path.display()))?;
            }
        }
        Ok(())
    }

    async fn create_node_access(&self) -> Result<()> {
        let role = self.node_role_arn();
        let mut attempts = 1;
        loop {
            let done = self
                .account
                .create_node_access(&self.cluster(), &role)
                .await;
            match done {
                Err(CloudError::Invalid { .. }) if attempts < ACCESS_ATTEMPTS => {
                    attempts += 1;
                    tokio::time::sleep(ACCESS_PAUSE).await;
                }
                done => return Ok(done?),
            }
        }
    }

    async fn register(&self) -> Result<()> {
        let arguments = self.arguments;
        let selected = arguments
            .kubeconfig
            .select_named(arguments.context.as_deref());
        let objects = match selected {
            Some(selection) => {
                let connected = k8s::from_kubeconfig(&selection).await?;
                Some(Objects::of_client(&connected.client, LISTS).await?)
            }
            None => None,
        };
        let asked = RegisterOptions {
            replace: false,
            grants_access: false,
            stack: &arguments.stack.name,
            objects,
        };
        let (prefix, entry) = (arguments.registry.prefix(), arguments.entry());
        let findings =
            registry::write_entry(&self.account, prefix, &arguments.cluster, &entry, &asked);
        let findings = Box::pin(findings).await?;
        if !findings.is_empty() {
            let count = findings.len();
            self.print(&format!(
                "findings of the checks: {count}\n{}",
                finding::text(&findings)
            ))?;
        }
        Ok(())
    }

    async fn finish(&self, left: usize, lacks_relay: bool) -> Result<Exit> {
        let Arguments {
            cluster,
            dry_run,
            wait,
            timeout,
            ..
        } = self.arguments;
        if *dry_run {
            self.print("\nNothing was changed.\n")?;
            return Ok(Exit::Done);
        }
        let mut left = left;
        if *wait && lacks_relay {
            let timeout = Duration::from_secs(*timeout);
            let is_alive = async || self.relay_is_alive().await;
            if until(timeout, "the relay's heartbeat", is_alive).await? {
                self.print("heartbeat of the relay: done\n")?;
                left -= 1;
            }
        }
        if left > 0 {
            self.print(&format!(
                "\n{} to do. Repeat whittle init {cluster} afterwards: it goes on from there. --create-all lets it create what it can.\n",
                crate::plan::counted(left, "step")
            ))?;
            return Ok(Exit::Failed);
        }
        let context = self.arguments.context.as_deref().unwrap_or("<context>");
        self.print(&format!(
            "\n{cluster} is installed in shadow mode: Whittle plans, and changes nothing. Next:\n  \
             whittle plan --context {context}     # the shadow plan: nodes for the pods that wait now\n  \
             whittle status                  # turns, relay, and what waits for you\n  \
             whittle doctor {cluster} --context {context}\n  \
             whittle activate {cluster}      # when you agree with the plans\n"
        ))?;
        Ok(Exit::Done)
    }
}
